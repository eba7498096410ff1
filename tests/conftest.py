"""Settings of all tests."""

import os

from hypothesis import settings

# No deadline: on a busy machine the time of one example says nothing. In continuous integration
# the examples are the same in every run.
settings.register_profile("genmetric", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("genmetric")
