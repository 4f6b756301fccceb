"""Random bits: RngBitGenerator, a pure function of its state.

There are two block ciphers, Threefry-2x32-20 and Philox-4x32-10 (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011). The counting of elements and the layout of
words follow the algorithms of XLA's prng.cc.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, TupleShape, register
from minixla.core.attributes import Enumeration, ShapeAttribute, attribute
from minixla.core.builders import builds
from minixla.core.element_types import ELEMENT_TYPES, U32, U64
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION
from minixla.typing import Array, ArrayLike
from minixla_ops.control_flow.loops import repeat
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.batch_dimensions import batch_size
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.lowering import Lowered

_STATE_SIZES = {"rng_default": (2, 3), "rng_three_fry": (2,), "rng_philox": (2, 3)}

_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = 0x1BD11BDA
_PHILOX_ROUNDS = 10
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


class _Algorithm(Enumeration):
    def stablehlo(self, value: str) -> str:
        return f"#stablehlo<rng_algorithm {value.removeprefix('rng_').upper()}>"

    def read(self, written: str) -> str:
        return f"rng_{super().read(written).lower()}"


@register
class RngBitGenerator(Lowered):
    """Generate uniformly random bits and the next state. XLA: RngBitGenerator.

    The result is a function of the initial state only: equal states give equal bits. It
    computes ThreeFry or Philox (Salmon, Moraes, Dror and Shaw, SC 2011).

    Args:
        algorithm: "rng_three_fry", "rng_philox" or "rng_default". XLA chooses the default; on CPU
            it is Philox.
        initial_state: u64[2], a key and a counter. For rng_philox and rng_default also u64[3], a
            key and the two halves of a counter. Without 64-bit mode, make it from u32[2,2] with
            bitcast_convert_type.
        shape: the Shape of the data. Elements of a type that is not an unsigned integer have the
            bits of the unsigned integer of their width.

    Returns:
        The new state, and the data.

    Checks:
        (C1) initial_state is u64[2] for rng_three_fry, u64[2] or u64[3] for the others.
        (C2) shape is an array shape with an integer or floating-point type of 2, 4, 8, 16, 32 or
             64 bits.

    Example:
        >>> state = ops.bitcast_convert_type(np.uint32([[1, 2], [3, 4]]), "u64")
        >>> state, data = ops.rng_bit_generator("rng_philox", state, mx.Shape("u32", (2,)))
        >>> data
        Array([ 512747620, 1298009047], dtype=uint32)
    """

    stablehlo_name = "rng_bit_generator"
    operands = ("initial_state",)
    algorithm: str = attribute(_Algorithm(*_STATE_SIZES), stablehlo="rng_algorithm")
    output_shape: Shape = attribute(ShapeAttribute(), stablehlo=None, hlo=None)
    zero_derivative = "its operand is an integer state"

    def shape(self, initial_state):
        states = [Shape("u64", (size,)) for size in _STATE_SIZES[self.algorithm]]
        if initial_state not in states:
            problem = f"{self.algorithm} does not support a state of shape {initial_state}"
            self.refuse("C1", problem, f"initial_state must be {' or '.join(map(str, states))}.")
        shape = self.output_shape
        if (
            not isinstance(shape, Shape)
            or shape.is_dynamic
            or shape.element_type.kind not in ("signed", "unsigned", "float")
            or shape.element_type.bits not in (2, 4, 8, 16, 32, 64)
        ):
            advice = "Pass an array shape of integers or floats of 2, 4, 8, 16, 32 or 64 bits. Take"
            advice += " pred from a comparison, and complex numbers from two arrays."
            self.refuse_attribute("C2", f"random bits are not supported for {shape}", advice)
        return initial_state, shape

    def lowered(self, initial_state):
        draw = _threefry if self.algorithm == "rng_three_fry" else _philox
        state, words = draw(initial_state, self.output_shape)
        bits = convert(words, self._unsigned.element_type)
        data = ops.reshape(bits, self.output_shape.dimensions)
        return state, ops.bitcast_convert_type(data, self.output_shape.element_type)

    # XLA returns the unsigned type for every other type, without an error.

    def stablehlo(self, emit, operands, shapes, results):
        unsigned = self._unsigned
        arguments = emit, operands, shapes, [results[0], unsigned]
        state, data = Operation.stablehlo(self, *arguments)
        if unsigned is not results[1]:
            (data,) = emit.operation("stablehlo.bitcast_convert", [data], [unsigned], results[1:])
        return [state, data]

    def hlo(self, emit, operands, shapes, result):
        unsigned = self._unsigned
        pair = super().hlo(emit, operands, shapes, TupleShape([shapes[0], unsigned]))
        if unsigned is self.output_shape:
            return pair
        state = emit.instruction("get-tuple-element", [pair], shapes[0], index=0)
        bits = emit.instruction("get-tuple-element", [pair], unsigned, index=1)
        data = emit.instruction("bitcast-convert", [bits], self.output_shape)
        return emit.instruction("tuple", [state, data], result)

    @property
    def _unsigned(self) -> Shape:
        """The shape of the data with unsigned integers of the same width."""
        kind = ELEMENT_TYPES[f"u{self.output_shape.element_type.bits}"]
        return self.output_shape.with_element_type(kind)

    def batch(self, operands, dimensions):
        # The backend chooses the algorithm of rng_default.
        if self.algorithm == "rng_default" or batch_size(operands, dimensions) == 0:
            return Operation.batch(self, operands, dimensions)
        return super().batch(operands, dimensions)

    def sharding_rule(self, initial_state):
        rule = self.sharding_factors((initial_state,))
        rule.add([0], [0, ABSENT], initial_state.dimensions[0], NEED_REPLICATION, blocked=True)
        for index, size in enumerate(self.output_shape.dimensions):
            rule.add([ABSENT], [ABSENT, index], size)
        return rule.build()


@builds(RngBitGenerator)
def rng_bit_generator(
    algorithm: str, initial_state: ArrayLike, shape: Shape
) -> tuple[Array, Array]:
    return RngBitGenerator(algorithm, shape)(initial_state)


def _threefry(state: Array, shape: Shape) -> tuple[Array, Array]:
    """Return the new state, and words with the data in low bits (XLA's ThreeFryBitGenerator)."""
    key, counter = (ops.slice_in_dim(state, at, at + 1, 0) for at in range(2))
    is_wide = shape.element_type.bits == 64
    sizes = shape.dimensions or (1,)
    axis = paired_dimension(sizes)
    before, size, after = sizes[:axis], sizes[axis], sizes[axis + 1 :]
    # A block's two words become neighbors along one dimension, cut if its size is odd.
    blocks = sizes if is_wide else (*before, (size + 1) // 2, *after)
    count = prod(blocks)
    counters = _low_high(counter + ops.iota(Shape(U64, (count,)), 0))
    words = threefry_rounds(_low_high(ops.broadcast_in_dim(key, (count,), [0])), counters)
    new_state = ops.concat_in_dim([key, counter + count], 0)
    if is_wide:
        return new_state, _join(*words)
    columns = [ops.reshape(word, (*blocks[: axis + 1], 1, *after)) for word in words]
    paired = ops.reshape(ops.concat_in_dim(columns, axis + 1), (*before, 2 * blocks[axis], *after))
    return new_state, ops.slice_in_dim(paired, 0, size, axis)


def _philox(state: Array, shape: Shape) -> tuple[Array, Array]:
    """Return the new state, and words with the data in low bits (XLA's PhiloxBitGenerator).

    If the state has two words, the key is also the high half of the counter, and its carry is lost.
    """
    (length,) = array_shape(state).dimensions
    places = (0, 1, 2 if length == 3 else 0)
    key, low, high = (ops.slice_in_dim(state, at, at + 1, 0) for at in places)
    is_wide = shape.element_type.bits == 64
    count = -(-shape.size // (2 if is_wide else 4))
    halves = _add_to_128(low, high, ops.iota(Shape(U64, (count,)), 0))
    keys, counters = (
        [convert(word, U64) for half in words for word in _low_high(half)]
        for words in ([ops.broadcast_in_dim(key, (count,), [0])], halves)
    )
    words = [convert(word, U32) for word in philox_rounds(keys, counters)]
    if is_wide:
        words = [_join(*words[:2]), _join(*words[2:])]
    columns = ops.concat_in_dim([ops.reshape(word, (count, 1)) for word in words], 1)
    data = ops.slice_in_dim(ops.reshape(columns, (count * len(words),)), 0, shape.size, 0)
    new_state = ops.concat_in_dim([key, *_add_to_128(low, high, count)], 0)
    return ops.slice_in_dim(new_state, 0, length, 0), data


def threefry_rounds(
    key: Sequence[Array], counter: Sequence[Array], is_loop: bool = False
) -> tuple[Array, Array]:
    """Compute Threefry-2x32-20 of two u32 words; for 64-bit words XLA passes the low word first.

    If `is_loop`, the body of a loop has the rounds of one group.
    """
    keys = (*key, key[0] ^ key[1] ^ _THREEFRY_PARITY)
    words = [word + step for word, step in zip(counter, key, strict=True)]
    if not is_loop:
        for number in range(5):
            first, second = keys[(number + 1) % 3], keys[(number + 2) % 3]
            rotations = _THREEFRY_ROTATIONS[number % 2]
            words = _threefry_group(words, first, second, number + 1, rotations)
        return words[0], words[1]

    def group(number: Array, carried: list[Array], _: object) -> list[Array]:
        left, right, key_0, key_1, key_2, rotations, others = carried
        # Indexing of traced values needs minixla.numpy, which may not be loaded.
        rounds = [full(ops.slice_in_dim(rotations, at, at + 1, 0)) for at in range(4)]
        count = full(convert(number, U32) + 1)
        words = _threefry_group((left, right), key_1, key_2, count, rounds)
        return [*words, key_1, key_2, key_0, others, rotations]

    def full(number: Array) -> Array:
        return ops.broadcast_in_dim(ops.reshape(number, ()), array_shape(words[0]).dimensions, ())

    rotations = [np.array(row, np.uint32) for row in _THREEFRY_ROTATIONS]
    left, right, *_ = repeat(5, group, [*words, *keys, *rotations])
    return left, right


def _threefry_group(
    words: Sequence[Array],
    first: Array,
    second: Array,
    count: Array | int,
    rotations: Sequence[Array] | Sequence[int],
) -> list[Array]:
    left, right = words
    for distance in rotations:
        left = left + right
        right = (right << distance | right >> (32 - distance)) ^ left
    return [left + first, right + second + count]


def philox_rounds(key: Sequence[Array], counter: Sequence[Array]) -> list[Array]:
    """Compute Philox-4x32-10 of two and four words, in 64 bits, where products fit."""
    x0, x1, x2, x3 = counter
    keys = list(key)
    for _ in range(_PHILOX_ROUNDS):
        product_0, product_1 = x0 * _PHILOX_MULTIPLIERS[0], x2 * _PHILOX_MULTIPLIERS[1]
        x0 = (product_1 >> 32) ^ x1 ^ keys[0]
        x2 = (product_0 >> 32) ^ x3 ^ keys[1]
        x1, x3 = product_1 & 0xFFFFFFFF, product_0 & 0xFFFFFFFF
        keys = [
            (word + step) & 0xFFFFFFFF for word, step in zip(keys, _PHILOX_KEY_STEPS, strict=True)
        ]
    return [x0, x1, x2, x3]


def paired_dimension(sizes: Sequence[int]) -> int:
    """Return the first dimension of even size, or else the first of the largest size."""
    even = (axis for axis, size in enumerate(sizes) if size % 2 == 0)
    return next(even, sizes.index(max(sizes)))


def _low_high(values: Array) -> list[Array]:
    return [convert(values, U32), convert(values >> 32, U32)]


def _join(low: Array, high: Array) -> Array:
    return convert(low, U64) | convert(high, U64) << 32


def _add_to_128(low: Array, high: Array, amount: Array | int) -> tuple[Array, Array]:
    total = low + amount
    return total, high + convert(total < amount, U64)
