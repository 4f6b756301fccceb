"""`python -m minixla`."""

import sys

from minixla.tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
