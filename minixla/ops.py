"""XLA's operations: another name of `minixla_ops`."""

import sys

import minixla_ops
from minixla_ops import *  # noqa: F403 - for type checkers

sys.modules[__name__] = minixla_ops
