"""The three implementations of random keys: how keys are created, split and drawn from.

Source: jax.random's `threefry2x32`, `rbg` and `unsafe_rbg`, with `jax_threefry_partitionable`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core import Shape
from minixla.core.element_types import ELEMENT_TYPES, U32, U64
from minixla_ops.elementwise.operators import convert, operand_shape
from minixla_ops.helpers.shorthand import full_like, splat

Sizes = Sequence[int]
#: The distance, in draws, between the keys that `unsafe_rbg` takes from its generator.
_STRIDE = 10


class Implementation(NamedTuple):
    """Functions that create and use the numbers of a single key, u32 vectors of `words`."""

    words: int
    seed: Callable[[Any], Any]  # From an integer.
    split: Callable[[Any, Sizes], Any]  # The numbers of an array of keys of this shape.
    fold_in: Callable[[Any, Any], Any]  # With an integer of u32.
    bits: Callable[[Any, int, Sizes], Any]  # Unsigned integers of this width and shape.
    # The result of `split` for a vector of keys, as a pytree with the keys along the first axis.
    # Each member serves as the numbers of a key. Those of threefry are pairs of words, so programs
    # need not join and split them. The last two arguments say whether many numbers are drawn from
    # each key, and whether the rounds of Threefry must be a loop.
    members: Callable[[Any, int, bool, bool], Any]


def _threefry_seed(seed: Any) -> Any:
    kind = operand_shape(seed).element_type
    high = ops.shift_right_logical(seed, full_like(seed, 32)) if kind.bits > 32 else 0
    return _joined([convert(high, U32), convert(seed, U32)])


def _threefry_split(data: Any, sizes: Sizes, is_loop: bool = False) -> Any:
    words = _encrypted(data, *_counts(sizes), is_loop=is_loop)
    return ops.concat_in_dim([ops.reshape(word, (*sizes, 1)) for word in words], len(sizes))


def _threefry_fold_in(data: Any, number: Any) -> Any:
    return _joined(_encrypted(data, full_like(number, 0), number))


def _threefry_bits(data: Any, width: int, sizes: Sizes) -> Any:
    high, low = _encrypted(data, *_counts(sizes))
    if width == 64:
        return convert(high, U64) << 32 | convert(low, U64)
    return convert(high ^ low, ELEMENT_TYPES[f"u{width}"])


def _encrypted(data: Any, block_0: Any, block_1: Any, **attributes: bool) -> tuple[Any, Any]:
    sizes = operand_shape(block_1).dimensions
    words = data if isinstance(data, tuple) else (data[0], data[1])
    keys = (ops.broadcast_in_dim(word, sizes, ()) for word in words)
    return ops.threefry2x32(next(keys), next(keys), block_0, block_1, **attributes)


def _counts(sizes: Sizes) -> tuple[Any, Any]:
    """Return the indices of elements in row-major order, as their high and low words.

    They are computed from one iota for each dimension, so that each device computes its own part.
    """
    count = math.prod(sizes)
    shape = Shape(U32 if count <= 1 << 32 else U64, sizes)
    numbers, stride = splat(0, shape), 1
    for axis in reversed(range(len(sizes))):
        along = ops.iota(shape, axis)
        numbers = (
            along if stride == 1 else numbers + along * (stride % (1 << shape.element_type.bits))
        )
        stride *= max(sizes[axis], 1)
    high = convert(numbers >> 32, U32) if shape.element_type is U64 else splat(0, shape)
    return high, convert(numbers, U32)


def _joined(words: Sequence[Any]) -> Any:
    return ops.concat_in_dim([ops.reshape(word, (1,)) for word in words], 0)


def _halves(data: Any) -> list[Any]:
    return [ops.slice_in_dim(data, at, at + 2, 0) for at in (0, 2)]


def _rbg_seed(seed: Any) -> Any:
    return ops.concat_in_dim([_threefry_seed(seed)] * 2, 0)


def _rbg_split(data: Any, sizes: Sizes, is_loop: bool = False) -> Any:
    halves = [_threefry_split(halve, sizes, is_loop) for halve in _halves(data)]
    return ops.concat_in_dim(halves, len(sizes))


def _rbg_fold_in(data: Any, number: Any) -> Any:
    return ops.concat_in_dim([_threefry_fold_in(halve, number) for halve in _halves(data)], 0)


def _rbg_bits(data: Any, width: int, sizes: Sizes) -> Any:
    state = ops.bitcast_convert_type(ops.reshape(data, (2, 2)), U64)
    shape = Shape(ELEMENT_TYPES[f"u{width}"], sizes)
    return ops.rng_bit_generator("rng_default", state, shape)[1]


def _unsafe_rbg_split(data: Any, sizes: Sizes) -> Any:
    count = math.prod(sizes)
    rows = _rbg_bits(data, 32, (count * _STRIDE, 4))
    return ops.reshape(ops.slice(rows, (0, 0), rows.shape, (_STRIDE, 1)), (*sizes, 4))


def _unsafe_rbg_fold_in(data: Any, number: Any) -> Any:
    rows = _rbg_bits(_rbg_seed(number), 32, (_STRIDE, 4))
    return data ^ ops.reshape(ops.slice_in_dim(rows, _STRIDE - 1, _STRIDE, 0), (4,))


IMPLEMENTATIONS = {
    "threefry2x32": Implementation(
        words=2,
        seed=_threefry_seed,
        split=_threefry_split,
        fold_in=_threefry_fold_in,
        bits=_threefry_bits,
        members=lambda data, count, of_many, is_loop: _encrypted(
            data, *_counts((count,)), of_keys=of_many, is_loop=is_loop
        ),
    ),
    "rbg": Implementation(
        words=4,
        seed=_rbg_seed,
        split=_rbg_split,
        fold_in=_rbg_fold_in,
        bits=_rbg_bits,
        members=lambda data, count, _, is_loop: _rbg_split(data, (count,), is_loop),
    ),
    "unsafe_rbg": Implementation(
        words=4,
        seed=_rbg_seed,
        split=_unsafe_rbg_split,
        fold_in=_unsafe_rbg_fold_in,
        bits=_rbg_bits,
        members=lambda data, count, *_: _unsafe_rbg_split(data, (count,)),
    ),
}
