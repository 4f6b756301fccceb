"""Conversion between element types with XLA's rules, for NumPy arrays and in StableHLO.

NumPy and ml_dtypes leave gaps. Some pairs of types have no cast. Floats that do not fit an integer
type become arbitrary values. Wide numbers are rounded twice on the way to a narrow float.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, F32, F64, ElementType, element_type
from minixla.core.shapes import AnyShape

if TYPE_CHECKING:
    from minixla.core.stablehlo_text import Emitter

_WITHOUT_NAN = frozenset(ELEMENT_TYPES[name] for name in ("f4e2m1fn", "f6e2m3fn", "f6e3m2fn"))


def widened(kind: ElementType, in_double: bool = False) -> ElementType:
    """Return the type in which NumPy computes on elements of `kind`, to round results only once.

    Integers of 2 and 4 bits become bytes, floats narrower than 32 bits f32; `in_double` makes all
    floats f64 and complex numbers c128.
    """
    if kind.is_integer and kind.bits < 8:
        return ELEMENT_TYPES["s8" if kind.kind == "signed" else "u8"]
    if in_double and kind.is_inexact:
        return ELEMENT_TYPES["c128"] if kind.is_complex else F64
    return F32 if kind.is_float and kind.bits < 32 else kind


def cast(array: np.ndarray, target: ElementType) -> np.ndarray:
    """Convert the elements of `array` to `target`.

    Integers wrap. Floats become integers by dropping the fraction and saturating; NaN becomes 0.
    Floats and integers become floats by rounding once to nearest, ties to even. Values beyond the
    largest finite value become NaN in a type without infinity. In a type without NaN they become
    that value, and NaN becomes -0. pred is true if the element differs from 0. Complex numbers lose
    their imaginary part unless `target` is complex.
    """
    source = element_type(array.dtype)
    if source is target:
        return array
    if source.is_complex and not target.is_complex:
        return cast(np.real(array), target)
    with np.errstate(all="ignore"):
        if target.kind == "pred":
            result = array != 0
        elif target.is_integer and source.is_float:
            result = _floats_as_integers(array, target)
        elif target.is_integer:
            # Types of 2 and 4 bits have casts to and from whole bytes only.
            result = array.astype(widened(source).dtype).astype(target.dtype)
        elif target.is_float and target.bits < 32:
            result = np.asarray(_rounded_to_odd(array).astype(target.dtype))
            if target in _WITHOUT_NAN and source.is_float:
                result[np.isnan(array)] = -0.0
        else:
            result = array.astype(target.dtype)
    return np.asarray(result)


def _floats_as_integers(array: np.ndarray, target: ElementType) -> np.ndarray:
    array = array.astype(widened(element_type(array.dtype)).dtype)
    is_signed = target.kind == "signed"
    wide = np.int64 if is_signed else np.uint64
    limit = 1 << (target.bits - is_signed)
    # The limit is a power of two and exact in f32; the integer before it may not be.
    below, above = array < (-limit if is_signed else 0), array >= float(limit)
    whole = np.where(below | above | np.isnan(array), 0, array).astype(wide)
    whole = np.where(below, wide(-limit if is_signed else 0), whole)
    return np.where(above, wide(limit - 1), whole).astype(target.dtype)


def _rounded_to_odd(array: np.ndarray) -> np.ndarray:
    """Convert to f32 values that round to narrower types as the elements themselves do.

    If a value is not exact in f32, use the neighbor with the odd significand. It is never a tie in
    a type with fewer bits (Boldo and Melquiond, "When double rounding is odd", 2004).
    """
    kind = element_type(array.dtype)
    if kind.is_integer and kind.bits == 64:
        # Round large values that are not multiples of 2**11 to the odd multiple next to them.
        low = array & 0x7FF
        odd = (array - low) | ((low != 0).astype(array.dtype) << 11)
        array = np.where(np.abs(array) < 2**53, array, odd)
    if not kind.is_float:
        array = array.astype(np.float64)
    near = np.asarray(array.astype(np.float32))
    if array.dtype != np.float64:
        return near
    bits = near.view(np.uint32)
    bits = bits - (np.abs(near) > np.abs(array))
    return np.asarray(np.where(near == array, near, (bits | 1).astype(np.uint32).view(np.float32)))


def emit_converted(
    emit: Emitter, names: Sequence[str], shapes: Sequence[AnyShape], targets: Sequence[AnyShape]
) -> list[str]:
    """Write conversions for the values whose shape differs from `targets`; return all names."""
    converted = []
    for name, shape, target in zip(names, shapes, targets, strict=True):
        if shape is not target:
            (name,) = emit.operation("stablehlo.convert", [name], [shape], [target])
        converted.append(name)
    return converted
