"""Random bits: RngBitGenerator, a pure function of its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Enumeration, ShapeAttribute
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.tracing import bind
from minixla_ops.batching import batch_size, to_front
from minixla_ops.random_bits import default_bits, philox_bits, threefry_bits
from minixla_ops.random_programs import BATCHED_GENERATORS, unsigned_type

_GENERATORS = {
    "rng_default": default_bits,
    "rng_three_fry": threefry_bits,
    "rng_philox": philox_bits,
}
_STATE_SIZES = {"rng_default": (2, 3), "rng_three_fry": (2,), "rng_philox": (2, 3)}
_WIDTHS = (2, 4, 8, 16, 32, 64)


@register
class RngBitGenerator(Operation):
    """Uniformly random bits, and the state to go on with: (state, data).

    A function of the initial state alone, the same for equal states: ThreeFry or Philox (Salmon,
    Moraes, Dror and Shaw, SC 2011). XLA: RngBitGenerator.

    Attributes:
        algorithm: rng_three_fry, rng_philox, or rng_default: what XLA chooses, on CPU Philox.
        shape: of the data. An element of a type other than an unsigned integer has the bits of the
            unsigned integer of its width.

    Checks:
        (C1) initial_state is u64[2] for rng_three_fry, u64[2] or u64[3] for the others.
        (C2) shape is an array's, of an integer or floating-point type of 2, 4, 8, 16, 32 or 64
            bits.
    """

    stablehlo_name = "rng_bit_generator"
    operand_names = ("initial_state",)
    attributes = {"algorithm": Enumeration(*_GENERATORS), "shape": ShapeAttribute()}
    zero_derivative = "its operand is an integer state"

    def shape(self, initial_state: Any, /, *, algorithm: str, shape: AnyShape) -> Any:
        given = [f"initial_state {initial_state}", f"algorithm {algorithm}", f"shape {shape}"]
        states = [Shape("u64", (size,)) for size in _STATE_SIZES[algorithm]]
        if initial_state not in states:
            self.reject(
                "C1",
                f"{algorithm} has no state of shape {initial_state}",
                given,
                f"initial_state must be {' or '.join(map(str, states))}.",
            )
        kinds = ("signed", "unsigned", "float")
        if (
            not isinstance(shape, Shape)
            or shape.is_dynamic
            or shape.element_type.kind not in kinds
            or shape.element_type.bits not in _WIDTHS
        ):
            self.reject_attribute(
                "C2",
                f"no random bits are made for {shape}",
                given,
                "Give an array shape of integers or floats of 2, 4, 8, 16, 32 or 64 bits; take "
                "pred from a comparison, complex numbers from two arrays.",
            )
        return initial_state, shape

    def reference(
        self, initial_state: np.ndarray, /, *, algorithm: str, shape: Shape
    ) -> tuple[np.ndarray, ...]:
        return _GENERATORS[algorithm](initial_state, shape.dtype, shape.dimensions)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        algorithm: str,
        shape: Shape,
    ) -> Sequence[str]:
        # For any other type XLA returns the unsigned type without saying so.
        unsigned = shape.with_element_type(unsigned_type(shape.element_type))
        state, data = emit.operation(
            "stablehlo.rng_bit_generator",
            operands,
            shapes,
            [results[0], unsigned],
            rng_algorithm=f"#stablehlo<rng_algorithm {algorithm.removeprefix('rng_').upper()}>",
        )
        if unsigned is not shape:
            (data,) = emit.operation("stablehlo.bitcast_convert", [data], [unsigned], [shape])
        return [state, data]

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        algorithm: str,
        shape: Shape,
    ) -> str:
        unsigned = shape.with_element_type(unsigned_type(shape.element_type))
        both = TupleShape([shapes[0], unsigned])
        pair = emit.instruction(self.hlo_name, operands, both, algorithm=algorithm)
        if unsigned is shape:
            return pair
        state = emit.instruction("get-tuple-element", [pair], shapes[0], index=0)
        bits = emit.instruction("get-tuple-element", [pair], unsigned, index=1)
        data = emit.instruction("bitcast-convert", [bits], shape)
        return emit.instruction("tuple", [state, data], result)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        algorithm: str,
        shape: Shape,
    ) -> tuple[Any, Any]:
        program = BATCHED_GENERATORS.get(algorithm)
        if program is None or batch_size(operands, dimensions) == 0:
            return super().batch(operands, dimensions, algorithm=algorithm, shape=shape)
        (states,), _ = to_front(operands, dimensions)
        return program(states, shape), (0, 0)


def rng_bit_generator(algorithm: str, initial_state: Any, shape: Shape) -> tuple[Any, Any]:
    """Uniformly random bits, and the state to go on with.

    Args:
        algorithm: "rng_three_fry", "rng_philox" or "rng_default" (XLA's choice).
        initial_state: u64[2], a key and a counter; for rng_philox and rng_default also u64[3], a
            key and the two halves of a counter. Without 64-bit mode it can be made from u32[2,2]
            by bitcast_convert_type.
        shape: the Shape of the data.

    Returns:
        The new state, and the data.

    Raises:
        AttributeValueError, ShapeError: see RngBitGenerator.
    """
    return bind(RngBitGenerator.instance, initial_state, algorithm=algorithm, shape=shape)
