"""Jacobians by derivative rules and by differences, for tests."""

from minixla.tools.test_util import *  # noqa: F403 - its public names
from minixla.tools.test_util import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
