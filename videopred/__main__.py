"""`python -m videopred`."""

import sys

from videopred.cli import main

if __name__ == "__main__":
    sys.exit(main())
