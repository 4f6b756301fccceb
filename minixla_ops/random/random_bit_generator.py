"""Random bits: RngBitGenerator, a pure function of its state."""

from __future__ import annotations

from typing import Any

from minixla.core.attributes import Enumeration, ShapeAttribute, attribute
from minixla.core.builders import named_like
from minixla.core.operation import Operation, register
from minixla.core.shapes import Shape, TupleShape
from minixla_ops.random.random_bits import default_bits, philox_bits, threefry_bits
from minixla_ops.random.random_programs import BATCHED_GENERATORS, unsigned_type
from minixla_ops.vocabulary.batch_dimensions import batch_size, to_front

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
            self.refuse(
                "C1",
                f"{self.algorithm} has no state of shape {initial_state}",
                f"initial_state must be {' or '.join(map(str, states))}.",
            )
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
        return self.output_shape.with_element_type(unsigned_type(self.output_shape.element_type))

    def batch(self, operands, dimensions):
        program = BATCHED_GENERATORS.get(self.algorithm)
        if program is None or batch_size(operands, dimensions) == 0:
            return super().batch(operands, dimensions)
        (states,), _ = to_front(operands, dimensions)
        return program(states, self.output_shape), (0, 0)


def _rng_bit_generator(algorithm: str, initial_state: Any, shape: Shape) -> tuple[Any, Any]:
    return RngBitGenerator(algorithm, shape)(initial_state)


rng_bit_generator = named_like(_rng_bit_generator, RngBitGenerator)
