"""Random bits: RngBitGenerator, a pure function of its state."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import minixla_ops as ops
from minixla.core.attributes import Enumeration, ShapeAttribute, attribute
from minixla.core.builders import named_like
from minixla.core.element_types import ELEMENT_TYPES, U32, U64, ElementType
from minixla.core.operation import Operation, register
from minixla.core.shapes import Shape, TupleShape
from minixla_ops.elementwise.operators import convert
from minixla_ops.random.random_bits import (
    default_bits,
    paired_dimension,
    philox_bits,
    philox_rounds,
    threefry_bits,
    threefry_rounds,
)
from minixla_ops.vocabulary.batch_dimensions import batch_size, to_front
from minixla_ops.vocabulary.shorthand import array_shape

_GENERATORS = {
    "rng_default": default_bits,
    "rng_three_fry": threefry_bits,
    "rng_philox": philox_bits,
}
_STATE_SIZES = {"rng_default": (2, 3), "rng_three_fry": (2,), "rng_philox": (2, 3)}
_KINDS = ("signed", "unsigned", "float")
_WIDTHS = (2, 4, 8, 16, 32, 64)


class _Algorithm(Enumeration):
    def stablehlo(self, value: str) -> str:
        return f"#stablehlo<rng_algorithm {value.removeprefix('rng_').upper()}>"

    def read(self, written: str) -> str:
        return f"rng_{super().read(written).lower()}"


@register
class RngBitGenerator(Operation):
    """Uniformly random bits, and the state to go on with.

    A function of the initial state alone, the same for equal states: ThreeFry or Philox (Salmon,
    Moraes, Dror and Shaw, SC 2011). XLA: RngBitGenerator.

    Args:
        algorithm: "rng_three_fry", "rng_philox" or "rng_default": what XLA chooses, on CPU Philox.
        initial_state: u64[2], a key and a counter; for rng_philox and rng_default also u64[3], a
            key and the two halves of a counter. Without 64-bit mode it can be made from u32[2,2]
            by bitcast_convert_type.
        shape: the Shape of the data. An element of a type other than an unsigned integer has the
            bits of the unsigned integer of its width.

    Returns:
        The new state, and the data.

    Checks:
        (C1) initial_state is u64[2] for rng_three_fry, u64[2] or u64[3] for the others.
        (C2) shape is an array's, of an integer or floating-point type of 2, 4, 8, 16, 32 or 64
            bits.
    """

    stablehlo_name = "rng_bit_generator"
    operands = ("initial_state",)
    algorithm: str = attribute(_Algorithm(*_GENERATORS), stablehlo="rng_algorithm")
    output_shape: Any = attribute(ShapeAttribute(), stablehlo=None, hlo=None)
    zero_derivative = "its operand is an integer state"

    def shape(self, initial_state):
        states = [Shape("u64", (size,)) for size in _STATE_SIZES[self.algorithm]]
        if initial_state not in states:
            problem = f"{self.algorithm} has no state of shape {initial_state}"
            self.refuse("C1", problem, f"initial_state must be {' or '.join(map(str, states))}.")
        shape = self.output_shape
        if (
            not isinstance(shape, Shape)
            or shape.is_dynamic
            or shape.element_type.kind not in _KINDS
            or shape.element_type.bits not in _WIDTHS
        ):
            self.refuse_attribute(
                "C2",
                f"no random bits are made for {shape}",
                "Give an array shape of integers or floats of 2, 4, 8, 16, 32 or 64 bits; take "
                "pred from a comparison, complex numbers from two arrays.",
            )
        return initial_state, shape

    def reference(self, initial_state):
        shape = self.output_shape
        return _GENERATORS[self.algorithm](initial_state, shape.dtype, shape.dimensions)

    # For any other type than the unsigned one XLA returns that without saying so.

    def stablehlo(self, emit, operands, shapes, results):
        unsigned = self._unsigned
        state, data = super().stablehlo(emit, operands, shapes, [results[0], unsigned])
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
        """The data's shape, of unsigned integers as wide as they are."""
        return self.output_shape.with_element_type(_unsigned_type(self.output_shape.element_type))

    def batch(self, operands, dimensions):
        program = _BATCHED_GENERATORS.get(self.algorithm)
        if program is None or batch_size(operands, dimensions) == 0:
            return super().batch(operands, dimensions)
        (states,), _ = to_front(operands, dimensions)
        return program(states, self.output_shape), (0, 0)


def _rng_bit_generator(algorithm: str, initial_state: Any, shape: Shape) -> tuple[Any, Any]:
    return RngBitGenerator(algorithm, shape)(initial_state)


rng_bit_generator = named_like(_rng_bit_generator, RngBitGenerator)


# Over a batch of states, as programs: names are those of `random_bits`, which has one state.


def _threefry_batch(states: Any, shape: Shape) -> tuple[Any, Any]:
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
    words = threefry_rounds(keys, _low_high(counters))
    new_states = _rows([key, counter + count])
    if is_wide:
        return new_states, _elements(_join(*words), shape)
    split = [
        ops.reshape(word, (size, *blocks[: axis + 1], 1, *blocks[axis + 1 :])) for word in words
    ]
    doubled = [*blocks[:axis], 2 * blocks[axis], *blocks[axis + 1 :]]
    paired = ops.reshape(ops.concat_in_dim(split, axis + 2), (size, *doubled))
    return new_states, _elements(ops.slice_in_dim(paired, 0, sizes[axis], axis + 1), shape)


def _philox_batch(states: Any, shape: Shape) -> tuple[Any, Any]:
    """RngBitGenerator with rng_philox for each of u64[batch, 2] or u64[batch, 3]."""
    size, length = array_shape(states).dimensions
    key, low, *rest = _columns(states)
    high = rest[0] if rest else key
    is_wide = shape.element_type.bits == 64
    count = -(-shape.size // (2 if is_wide else 4))
    lows, highs = _add_to_128(_spread(low, count), _spread(high, count), _counted(size, count))
    keys = [_spread(convert(word, U64), count) for word in _low_high(key)]
    counters = [convert(w, U64) for each in (lows, highs) for w in _low_high(each)]
    words = [convert(word, U32) for word in philox_rounds(keys, counters, _low)]
    if is_wide:
        words = [_join(*words[:2]), _join(*words[2:])]
    columns = [ops.reshape(word, (size, count, 1)) for word in words]
    data = ops.reshape(ops.concat_in_dim(columns, 2), (size, count * len(words)))
    new_low, new_high = _add_to_128(low, high, count)
    new_states = _rows([key, new_low, new_high][:length])
    return new_states, _elements(ops.slice_in_dim(data, 0, shape.size, 1), shape)


def _unsigned_type(kind: ElementType) -> ElementType:
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
    bits = convert(words, _unsigned_type(shape.element_type))
    return ops.bitcast_convert_type(
        ops.reshape(bits, (size, *shape.dimensions)), shape.element_type
    )


# By algorithm; what rng_default stands for is for the backend to say.
_BATCHED_GENERATORS = {"rng_three_fry": _threefry_batch, "rng_philox": _philox_batch}
