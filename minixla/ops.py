"""XLA's operations: an alias of `minixla_ops`."""

import sys
from typing import TYPE_CHECKING

import minixla_ops

if TYPE_CHECKING:
    from minixla_ops import *  # noqa: F403 - for type checkers

sys.modules[__name__] = minixla_ops
