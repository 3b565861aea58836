"""`python -m allranks`: the program `allranks`, where it is not on PATH."""

import sys

from allranks.start import cli

if __name__ == "__main__":
    sys.exit(cli())
