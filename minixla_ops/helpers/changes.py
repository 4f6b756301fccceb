"""Products and quotients of changes: of tangents and cotangents with slopes.

In imported programs a change that is exactly 0 stays 0, whatever the slope is
(`elementwise.no_nan`). Programs that are traced from Python keep plain products.
"""

from __future__ import annotations

import numpy as np

from minixla.core.registry import REGISTRY
from minixla.core.source import is_imported
from minixla.core.state import state
from minixla.typing import Array


def in_imported_program() -> bool:
    """Whether the running rule belongs to an instruction of an imported program."""
    return is_imported(state.source)


def scaled(change: Array, factor: Array) -> Array:
    """Return change * factor; in imported programs 0 where the change is 0."""
    if not in_imported_program() or _is_finite(factor):
        return change * factor
    return REGISTRY["MulNoNan"]()(change, factor)


def divided(change: Array, divisor: Array) -> Array:
    """Return change / divisor; in imported programs 0 where the change is 0."""
    if not in_imported_program() or _is_finite(divisor, without_zero=True):
        return change / divisor
    return REGISTRY["DivNoNan"]()(change, divisor)


def _is_finite(value: object, without_zero: bool = False) -> bool:
    """Whether a value is a constant that holds one finite number."""
    literal = getattr(getattr(value, "_value", None), "literal", None)
    if literal is None or not literal.is_splat:
        return False
    return bool(np.isfinite(literal.scalar)) and not (without_zero and literal.scalar == 0)
