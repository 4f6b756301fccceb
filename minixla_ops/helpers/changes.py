"""Products and quotients of tangents or cotangents with slopes.

In imported programs, a change that is exactly 0 stays 0 for every slope (`elementwise.no_nan`).
Programs traced from Python use plain products.
"""

from __future__ import annotations

import numpy as np

from minixla.core.registry import REGISTRY
from minixla.core.source import is_imported
from minixla.core.state import state
from minixla.typing import Array


def in_imported_program() -> bool:
    """Return whether the running rule belongs to an instruction of an imported program."""
    return is_imported(state.source)


def scaled(change: Array, factor: Array) -> Array:
    """Return change * factor; in imported programs, 0 if the change is 0."""
    if not in_imported_program() or _is_finite(factor):
        return change * factor
    return REGISTRY["MulNoNan"]()(change, factor)


def divided(change: Array, divisor: Array) -> Array:
    """Return change / divisor; in imported programs, 0 if the change is 0."""
    if not in_imported_program() or _is_finite(divisor, without_zero=True):
        return change / divisor
    return REGISTRY["DivNoNan"]()(change, divisor)


def _is_finite(value: object, without_zero: bool = False) -> bool:
    """Return whether a value is a constant with one repeated finite number."""
    literal = getattr(getattr(value, "_value", None), "literal", None)
    if literal is None or not literal.is_splat:
        return False
    return bool(np.isfinite(literal.scalar)) and not (without_zero and literal.scalar == 0)
