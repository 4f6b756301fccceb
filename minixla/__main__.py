"""`python -m minixla`."""

import contextlib
import os
import sys

# `python -m` puts the current folder first; its files must not run.
with contextlib.suppress(OSError):  # the folder may have been deleted
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]

from minixla.tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
