"""Sort keys: integers in the order of elements, and positions sorted by them.

XLA sorts one array of integers several times faster than it calls a comparator for floats or pairs.
So elements become keys, 32-bit integers in the same order. A key and its position form one 64-bit
integer, and elements are taken at the positions in the sorted integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, F32
from minixla.core.shapes import Shape
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import lifted
from minixla_ops.helpers.shorthand import full_like
from minixla_ops.indexing.sorting import taken_along as taken_along

_S32, _S64 = ELEMENT_TYPES["s32"], ELEMENT_TYPES["s64"]


def keys_of(x: Any, subject: str) -> list[Any]:
    """Return s32 arrays in the order of `x`, the most significant first.

    NaN comes last, as in NumPy. Complex numbers with NaN come after all others, first those with
    NaN only in the imaginary part. All NaN are equal, and -0 equals 0.
    """
    kind = operands.kind_of(x, subject)
    x = transforms().stop_gradient(lifted(x))
    if kind.is_complex:
        parts = ops.real(x), ops.imag(x)
        real, imag = (mnp.astype(mnp.isnan(part), _S32.dtype) for part in parts)
        return [real * 2 + imag, *[key for part in parts for key in keys_of(part, subject)]]
    if kind.is_float:
        return _keys_of_floats(x)
    if kind.bits < 32 or kind is _S32:
        return [operands.convert(x, _S32)]
    is_unsigned, wide = kind.kind == "unsigned", kind.bits > 32
    bits = ops.bitcast_convert_type(x, _S64 if wide else _S32) if is_unsigned else x
    bits = ops.xor(bits, _least(bits)) if is_unsigned else bits
    return _halves(bits) if wide else [bits]


def _least(x: Any) -> Any:
    return full_like(x, -(1 << (operands.kind_of(x).bits - 1)))


def _halves(x: Any) -> list[Any]:
    """Split s64 keys into two s32 keys."""
    high = ops.shift_right_arithmetic(x, full_like(x, 32))
    high, low = (ops.convert_element_type(half, _S32) for half in (high, x))
    return [high, ops.xor(low, _least(low))]


def _keys_of_floats(x: Any) -> list[Any]:
    is_wide = operands.kind_of(x).bits > 32
    x = x if is_wide else operands.convert(x, F32)
    bits = ops.bitcast_convert_type(x, _S64 if is_wide else _S32)
    least = _least(bits)
    # Convert sign and magnitude to two's complement, where -0 is 0.
    ordered = ops.select(ops.lt(bits, full_like(bits, 0)), ops.sub(least, bits), bits)
    ordered = ops.select(ops.ne(x, x), ops.not_(least), ordered)
    return _halves(ordered) if is_wide else [ordered]


def order_of(keys: Sequence[Any], axis: int) -> Any:
    """Return the positions along an axis, as s32, in the stable order of keys."""
    *others, last = keys
    order = _order_of_one(last, axis)
    # More significant keys sort again, and keep the order of elements for which they are equal.
    for key in reversed(others):
        order = taken_along(order, _order_of_one(taken_along(key, order, axis), axis), axis)
    return order


def _order_of_one(key: Any, axis: int) -> Any:
    # Use a separate program, because outside of programs 64-bit integers may be unavailable.
    return _program()(key, axis)


@cache
def _program() -> Any:
    def positions(key: Any, axis: int) -> Any:
        places = ops.iota(Shape(_S32, key.shape), axis)
        high, low = (ops.convert_element_type(half, _S64) for half in (key, places))
        packed = ops.or_(ops.shift_left(high, full_like(high, 32)), low)
        return ops.convert_element_type(ops.sort(packed, ops.lt, axis), _S32)

    return transforms().jit(positions, static_argnums=1)


def comes_before(keys: Sequence[Any], others: Sequence[Any], or_equals: bool) -> Any:
    """Test whether elements come before others, or equal them, by the keys of both."""
    *pairs, last = zip(keys, others, strict=True)
    result = (ops.le if or_equals else ops.lt)(*last)
    for key, other in reversed(pairs):
        result = ops.or_(ops.lt(key, other), ops.and_(ops.eq(key, other), result))
    return result


def places_of(keys: Sequence[Any], others: Sequence[Any], or_equals: bool) -> Any:
    """Count the elements of a sorted vector that come before (or equal) each of `others`.

    It is an unrolled binary search by the keys of both, with one step for each bit of the size.
    """
    (size,), sizes = keys[0].shape, others[0].shape
    others = [mnp.ravel(other) for other in others]
    counts = full_like(others[0], 0)
    for power in reversed(range(size.bit_length())):
        more = ops.add(counts, full_like(counts, 1 << power))
        last = ops.sub(more, full_like(more, 1))
        here = [taken_along(key, last, 0) for key in keys]  # clamps
        is_before = comes_before(here, others, or_equals)
        if size + 1 & size:  # for one less than a power of two, no position is out of bounds
            is_before = ops.and_(is_before, ops.le(more, full_like(more, size)))
        counts = ops.select(is_before, more, counts)
    return mnp.reshape(counts, sizes)
