"""Settings of all tests, and what they share."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# No deadline: on a busy machine the time of one example says nothing. In continuous integration
# the examples are the same in every run.
settings.register_profile("genmetric", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("genmetric")


#: Scripts that are run by nox sessions, some of them in an environment of their own.
collect_ignore_glob = ["contract/*.py", "fuzz/*.py", "smoke.py"]


def _load(name):
    """Import a module beside this file."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def naive():
    """The module naive.py beside this file: the paper's formulas as plain loops."""
    return _load("naive")


@pytest.fixture(params=_load("table_kinds").KINDS, ids=lambda kind: kind.name)
def table_kind(request):
    """Each table of table_kinds.py beside this file."""
    return request.param


@pytest.fixture
def rng():
    """The same random numbers in every run."""
    return np.random.default_rng(20110917)
