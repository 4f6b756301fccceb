"""The generators of RngBitGenerator over a batch of states, as programs of other operations.

Formulas and names are those of `random_bits`, which has them in NumPy for one state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from minixla.core.element_types import ELEMENT_TYPES, U32, U64, ElementType
from minixla.core.shapes import Shape
from minixla_ops.binary import add, mul
from minixla_ops.bitwise import or_, shift_left, shift_right_logical, xor
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import lt
from minixla_ops.conversion import bitcast_convert_type
from minixla_ops.creation import iota
from minixla_ops.movement import concat_in_dim
from minixla_ops.operators import convert
from minixla_ops.random_bits import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    paired_dimension,
)
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, full_like
from minixla_ops.slicing import slice_in_dim


def threefry_batch(states: Any, shape: Shape) -> tuple[Any, Any]:
    """RngBitGenerator with rng_three_fry for each of u64[batch, 2]: new states, and data."""
    size = array_shape(states).dimensions[0]
    key, counter = _columns(states)
    is_wide = shape.element_type.bits == 64
    sizes = shape.dimensions or (1,)
    axis = paired_dimension(sizes)
    blocks = list(sizes)
    if not is_wide:  # a block's two words become neighbours along one dimension
        blocks[axis] = (sizes[axis] + 1) // 2
    count = prod(blocks)
    counters = _spread(counter, count) + _counted(size, count)
    keys = [_spread(word, count) for word in _low_high(key)]
    words = _threefry2x32(keys, _low_high(counters))
    new_states = _rows([key, add(counter, full_like(counter, count))])
    if is_wide:
        return new_states, _elements(_join(*words), shape)
    split = [reshape(word, (size, *blocks[: axis + 1], 1, *blocks[axis + 1 :])) for word in words]
    doubled = [*blocks[:axis], 2 * blocks[axis], *blocks[axis + 1 :]]
    paired = reshape(concat_in_dim(split, axis + 2), (size, *doubled))
    return new_states, _elements(slice_in_dim(paired, 0, sizes[axis], axis + 1), shape)


def philox_batch(states: Any, shape: Shape) -> tuple[Any, Any]:
    """RngBitGenerator with rng_philox for each of u64[batch, 2] or u64[batch, 3]."""
    size, length = array_shape(states).dimensions
    key, low, *rest = _columns(states)
    high = rest[0] if rest else key
    is_wide = shape.element_type.bits == 64
    count = -(-shape.size // (2 if is_wide else 4))
    lows, highs = _add_to_128(_spread(low, count), _spread(high, count), _counted(size, count))
    keys = [_spread(convert(word, U64), count) for word in _low_high(key)]
    words = _philox4x32(keys, [convert(w, U64) for each in (lows, highs) for w in _low_high(each)])
    if is_wide:
        words = [_join(*words[:2]), _join(*words[2:])]
    columns = [reshape(word, (size, count, 1)) for word in words]
    data = reshape(concat_in_dim(columns, 2), (size, count * len(words)))
    new_low, new_high = _add_to_128(low, high, full_like(low, count))
    new_states = _rows([key, new_low, new_high][:length])
    return new_states, _elements(slice_in_dim(data, 0, shape.size, 1), shape)


#: By algorithm; what rng_default stands for is for the backend to say.
BATCHED_GENERATORS: dict[str, Callable[[Any, Shape], tuple[Any, Any]]] = {
    "rng_three_fry": threefry_batch,
    "rng_philox": philox_batch,
}


def _threefry2x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    parity = full_like(key[0], int(THREEFRY_PARITY))
    keys = (*key, xor(xor(*key), parity))
    left, right = (word + step for word, step in zip(counter, key, strict=True))
    for group in range(5):
        for distance in THREEFRY_ROTATIONS[group % 2]:
            left = left + right
            high = shift_left(right, full_like(right, distance))
            low = shift_right_logical(right, full_like(right, 32 - distance))
            right = xor(or_(high, low), left)
        left = left + keys[(group + 1) % 3]
        right = add(right + keys[(group + 2) % 3], full_like(right, group + 1))
    return [left, right]


def _philox4x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """The words, u64 arrays below 2**32, as those that come in."""
    x0, x1, x2, x3 = counter
    keys = list(key)
    for _ in range(PHILOX_ROUNDS):
        products = [
            mul(x, full_like(x, int(multiplier)))
            for x, multiplier in zip((x0, x2), PHILOX_MULTIPLIERS, strict=True)
        ]
        x0 = xor(xor(_high(products[1]), x1), keys[0])
        x2 = xor(xor(_high(products[0]), x3), keys[1])
        x1, x3 = map(_low, reversed(products))
        keys = [
            _low(add(word, full_like(word, int(step))))
            for word, step in zip(keys, PHILOX_KEY_STEPS, strict=True)
        ]
    return [convert(word, U32) for word in (x0, x1, x2, x3)]


def unsigned_type(kind: ElementType) -> ElementType:
    """The unsigned integer type as wide as `kind`."""
    return ELEMENT_TYPES[f"u{kind.bits}"]


def _low(word: Any) -> Any:
    return convert(convert(word, U32), U64)


def _high(word: Any) -> Any:
    return shift_right_logical(word, full_like(word, 32))


def _low_high(values: Any) -> list[Any]:
    return [convert(values, U32), convert(_high(values), U32)]


def _join(low: Any, high: Any) -> Any:
    wide = convert(high, U64)
    return or_(convert(low, U64), shift_left(wide, full_like(wide, 32)))


def _add_to_128(low: Any, high: Any, amount: Any) -> tuple[Any, Any]:
    total = add(low, amount)
    return total, high + convert(lt(total, amount), U64)


def _columns(states: Any) -> list[Any]:
    size, length = array_shape(states).dimensions
    return [reshape(slice_in_dim(states, i, i + 1, 1), (size,)) for i in range(length)]


def _rows(columns: Sequence[Any]) -> Any:
    (size,) = array_shape(columns[0]).dimensions
    return concat_in_dim([reshape(column, (size, 1)) for column in columns], 1)


def _spread(vector: Any, count: int) -> Any:
    (size,) = array_shape(vector).dimensions
    return broadcast_in_dim(vector, (size, count), [0])


def _counted(size: int, count: int) -> Any:
    return iota(Shape(U64, (size, count)), 1)


def _elements(words: Any, shape: Shape) -> Any:
    """The low bits of each word as an element of `shape`'s type, one row for each state."""
    size = array_shape(words).dimensions[0]
    bits = convert(words, unsigned_type(shape.element_type))
    return bitcast_convert_type(reshape(bits, (size, *shape.dimensions)), shape.element_type)
