"""The generators of RngBitGenerator over a batch of states, as programs of other operations.

Formulas and names are those of `random_bits`, which has them in NumPy for one state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, U32, U64, ElementType
from minixla.core.shapes import Shape
from minixla_ops.elementwise.operators import convert
from minixla_ops.random.random_bits import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    paired_dimension,
)
from minixla_ops.vocabulary.shorthand import array_shape


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
    new_states = _rows([key, counter + count])
    if is_wide:
        return new_states, _elements(_join(*words), shape)
    split = [
        ops.reshape(word, (size, *blocks[: axis + 1], 1, *blocks[axis + 1 :])) for word in words
    ]
    doubled = [*blocks[:axis], 2 * blocks[axis], *blocks[axis + 1 :]]
    paired = ops.reshape(ops.concat_in_dim(split, axis + 2), (size, *doubled))
    return new_states, _elements(ops.slice_in_dim(paired, 0, sizes[axis], axis + 1), shape)


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
    columns = [ops.reshape(word, (size, count, 1)) for word in words]
    data = ops.reshape(ops.concat_in_dim(columns, 2), (size, count * len(words)))
    new_low, new_high = _add_to_128(low, high, count)
    new_states = _rows([key, new_low, new_high][:length])
    return new_states, _elements(ops.slice_in_dim(data, 0, shape.size, 1), shape)


#: By algorithm; what rng_default stands for is for the backend to say.
BATCHED_GENERATORS: dict[str, Callable[[Any, Shape], tuple[Any, Any]]] = {
    "rng_three_fry": threefry_batch,
    "rng_philox": philox_batch,
}


def _threefry2x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    keys = (*key, key[0] ^ key[1] ^ int(THREEFRY_PARITY))
    left, right = (word + step for word, step in zip(counter, key, strict=True))
    for group in range(5):
        for distance in THREEFRY_ROTATIONS[group % 2]:
            left = left + right
            right = (right << distance | right >> (32 - distance)) ^ left
        left = left + keys[(group + 1) % 3]
        right = right + keys[(group + 2) % 3] + (group + 1)
    return [left, right]


def _philox4x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """The words, u64 arrays below 2**32, as those that come in."""
    x0, x1, x2, x3 = counter
    keys = list(key)
    for _ in range(PHILOX_ROUNDS):
        product_0, product_1 = x0 * int(PHILOX_MULTIPLIERS[0]), x2 * int(PHILOX_MULTIPLIERS[1])
        x0 = (product_1 >> 32) ^ x1 ^ keys[0]
        x2 = (product_0 >> 32) ^ x3 ^ keys[1]
        x1, x3 = _low(product_1), _low(product_0)
        steps = zip(keys, PHILOX_KEY_STEPS, strict=True)
        keys = [_low(word + int(step)) for word, step in steps]
    return [convert(word, U32) for word in (x0, x1, x2, x3)]


def unsigned_type(kind: ElementType) -> ElementType:
    """The unsigned integer type as wide as `kind`."""
    return ELEMENT_TYPES[f"u{kind.bits}"]


def _low(word: Any) -> Any:
    return convert(convert(word, U32), U64)


def _low_high(values: Any) -> list[Any]:
    return [convert(values, U32), convert(values >> 32, U32)]


def _join(low: Any, high: Any) -> Any:
    return convert(low, U64) | convert(high, U64) << 32


def _add_to_128(low: Any, high: Any, amount: Any) -> tuple[Any, Any]:
    total = low + amount
    return total, high + convert(total < amount, U64)


def _columns(states: Any) -> list[Any]:
    size, length = array_shape(states).dimensions
    return [ops.reshape(ops.slice_in_dim(states, i, i + 1, 1), (size,)) for i in range(length)]


def _rows(columns: Sequence[Any]) -> Any:
    (size,) = array_shape(columns[0]).dimensions
    return ops.concat_in_dim([ops.reshape(column, (size, 1)) for column in columns], 1)


def _spread(vector: Any, count: int) -> Any:
    (size,) = array_shape(vector).dimensions
    return ops.broadcast_in_dim(vector, (size, count), [0])


def _counted(size: int, count: int) -> Any:
    return ops.iota(Shape(U64, (size, count)), 1)


def _elements(words: Any, shape: Shape) -> Any:
    """The low bits of each word as an element of `shape`'s type, one row for each state."""
    size = array_shape(words).dimensions[0]
    bits = convert(words, unsigned_type(shape.element_type))
    return ops.bitcast_convert_type(
        ops.reshape(bits, (size, *shape.dimensions)), shape.element_type
    )
