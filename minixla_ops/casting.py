"""Conversion of NumPy arrays between element types, as XLA converts them.

NumPy and ml_dtypes leave gaps: some pairs of types have no cast, floats that do not fit an integer
give anything, and wide numbers are rounded twice on their way to a narrow float.
"""

from __future__ import annotations

import numpy as np

from minixla.core.element_types import ElementType, element_type

__all__ = ["cast"]


def cast(array: np.ndarray, target: ElementType) -> np.ndarray:
    """The elements of `array` as `target`.

    Integers wrap. Floats become integers by cutting off the fraction and saturating, NaN becomes
    0. Floats and integers become floats by rounding once to the nearest, ties to even; beyond the
    largest finite value a type without infinity gives NaN, one without NaN either that value.
    pred is whether the element differs from 0. Complex numbers lose their imaginary part unless
    `target` is complex.
    """
    source = element_type(array.dtype)
    if source is target:
        return array
    if source.is_complex and not target.is_complex:
        return cast(np.real(array), target)
    with np.errstate(all="ignore"):
        if target.kind == "pred":
            return np.asarray(array != 0)
        if target.is_integer:
            return _integers(array, source, target)
        if target.is_float and target.bits < 32:
            return _narrow_floats(array, source, target)
        return np.asarray(array.astype(target.dtype))


def _integers(array: np.ndarray, source: ElementType, target: ElementType) -> np.ndarray:
    if not source.is_float:
        # Types of 2 and 4 bits have casts to and from bytes only.
        return array.astype(f"{array.dtype.kind}1" if _is_small(source) else array.dtype).astype(target.dtype)
    if source.bits < 32:
        array = array.astype(np.float32)
    magnitude = target.bits - (target.kind == "signed")
    lowest, highest = -(1 << magnitude) if target.kind == "signed" else 0, (1 << magnitude) - 1
    wide = np.int64 if target.kind == "signed" else np.uint64
    # 2**magnitude is exact in every float type; the integer before it need not be.
    below, above = array < lowest, array >= float(highest + 1)
    whole = np.where(below | above | np.isnan(array), 0, array).astype(wide)
    return np.where(above, wide(highest), np.where(below, wide(lowest), whole)).astype(target.dtype)


def _is_small(kind: ElementType) -> bool:
    return kind.is_integer and kind.bits < 8
