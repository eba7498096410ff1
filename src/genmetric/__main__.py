"""``python -m genmetric`` is the command ``genmetric``."""

import sys

from genmetric.cli import main

if __name__ == "__main__":
    sys.exit(main())
