"""Random samples: RngUniform and RngNormal, which draw new samples in each run.

They are not functions of their operands, so transformations must not repeat, merge, drop or reorder
them. Prefer `rng_bit_generator`, which is a function of a state.
"""

import threading
from typing import ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, ElementType, Operation, Shape, element_type, register
from minixla.core.attributes import Literal, ShapeAttribute, attribute
from minixla.core.linear import add_cotangents
from minixla.typing import Array
from minixla_ops.elementwise.families import ALL, FLOATS
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import batch_by_loop
from minixla_ops.helpers.casting import cast, emit_converted
from minixla_ops.helpers.shorthand import array_shape, ones_like
from minixla_ops.programs.lowering import kept_program


class _Generator(threading.local):
    """The random generators of the reference evaluator, one for each thread."""

    def __init__(self) -> None:
        self.start(None)

    def start(self, number: int | None) -> None:
        self.numpy = np.random.default_rng(number)
        self.state = int.from_bytes(self.numpy.bytes(16), "little")


_GENERATOR = _Generator()


def seed(number: int | None = None) -> None:
    """Restart this thread's samples of the reference (`minixla.reference_evaluator.seed`).

    Args:
        number: equal seeds give equal samples; None, the initial state, gives new samples.
    """
    _GENERATOR.start(number)


def next_state(delta: int) -> np.ndarray:
    """Return the 128 bits of this thread's counter as u64[2], and advance it by `delta`."""
    state = _GENERATOR.state
    _GENERATOR.state = (state + delta) % 2**128
    return np.array([state % 2**64, state >> 64], np.uint64)


class _Samples(Operation):
    """Base class of the distributions: independent samples with two scalar parameters.

    Under vmap, each batch element gets separate samples.

    Checks:
        (C1) the parameters are scalars with equal element types.
        (C2) shape is a static array shape with the parameters' element type.
        (C3) the element type is one of `element_types`.

    Subclasses define a jvp, the names and
        draw(first, second, kind, sizes): samples in a type that is rounded afterwards.
        scaled(sample, first, second): samples for the parameters from those for 0 and 1.
    """

    stablehlo_name = "rng"
    output_shape: Shape = attribute(ShapeAttribute(), stablehlo=None)
    has_side_effect = True
    element_types: ClassVar[frozenset[ElementType]]
    distribution: ClassVar[str]
    #: The types that XLA can draw, widest last; it aborts on other types.
    drawn_types: ClassVar[tuple[str, ...]] = ("f32", "f64")
    draw = scaled = GIVEN

    def shape(self, first, second):
        shape, kind = self.output_shape, first.element_type
        if first is not second or first.rank:
            advice = "Pass scalars; scale and shift the samples for other parameters."
            self.refuse("C1", "the parameters must be two scalars with equal types", advice)
        if not isinstance(shape, Shape) or shape.is_dynamic or shape.element_type is not kind:
            self.refuse_attribute(
                "C2", f"shape must be a static array shape of type {kind}, not {shape}"
            )
        if kind not in self.element_types:
            listed = ", ".join(n for n, kind in ELEMENT_TYPES.items() if kind in self.element_types)
            self.refuse("C3", f"element type {kind} is not supported", f"It takes {listed}.")
        return shape

    def reference(self, first, second):
        kind = element_type(first.dtype)
        return cast(self.draw(first, second, kind, self.output_shape.dimensions), kind)

    def stablehlo(self, emit, operands, shapes, results):
        (shape,) = results
        kind = shape.element_type
        name = "f32" if kind.is_inexact else "s32"
        drawn = kind if kind.name in self.drawn_types else ELEMENT_TYPES[name]
        scalar = Shape(drawn)
        operands = emit_converted(emit, operands, shapes, [scalar, scalar])
        sizes = Shape("s64", (shape.rank,))
        listed = emit.constant(Literal(np.array(shape.dimensions, np.int64), sizes))
        types = [scalar, scalar, sizes], [shape.with_element_type(drawn)]
        how = f"#stablehlo<rng_distribution {self.distribution.upper()}>"
        arguments = "stablehlo.rng", [*operands, listed], *types
        samples = emit.operation(*arguments, rng_distribution=how)
        rounding = kept_program(self.rounded, (shape.with_element_type(drawn), scalar, scalar))
        return emit.expand(rounding, [*samples, *operands])

    def rounded(self, samples: Array, first: Array, second: Array) -> Array:
        """Convert samples drawn in another type to the result's type."""
        return ops.convert_element_type(samples, self.output_shape.element_type)

    def hlo_attributes(self, shapes):
        return {"distribution": f"rng_{self.distribution}"}

    def batch_within(self, trace, operands, dimensions):
        whole = self.output_shape.with_dimension(0, trace.size)
        if all(dimension is None for dimension in dimensions):
            return self(*operands, output_shape=whole), 0
        if not whole.element_type.is_inexact:
            return batch_by_loop(self, operands, dimensions)
        zero, one = (np.asarray(number).astype(whole.dtype) for number in (0, 1))
        first, second = (
            ops.broadcast_in_dim(operand, whole.dimensions, range(array_shape(operand).rank))
            for operand in operands
        )
        return self.scaled(self(zero, one, output_shape=whole), first, second), 0


@register
class RngUniform(_Samples):
    """Draw uniform samples on [a, b), a + (b - a) u, anew in every run. XLA: RngUniform.

    If b <= a they are a in the reference evaluator and unspecified elsewhere. Floating-point
    samples have the derivatives 1 - u and u with respect to a and b.

    Args:
        a: the lower limit, a scalar with an ordered type.
        b: the upper limit, exclusive, with the same type.
        shape: the Shape of the result, with that type.

    Returns:
        An array with that shape.

    Example:
        >>> sample = ops.rng_uniform(np.int32(0), np.int32(6), mx.Shape("s32", (100,)))
        >>> bool((sample < 6).all())
        True
    """

    hlo_name = "rng"
    operands = "a", "b"
    distribution = "uniform"
    element_types = frozenset(kind for kind in ALL if not kind.is_complex)
    drawn_types = ("f32", "f64", "s32", "u32", "s64", "u64")

    def draw(self, first, second, kind, sizes):
        random = _GENERATOR.numpy
        if kind.is_inexact:
            low, high = first.astype(np.float64), second.astype(np.float64)
            samples = low + (high - low) * random.random(sizes)
            # Rounding may give the upper limit, which is exclusive.
            return np.where(cast(samples, kind).astype(np.float64) < high, samples, low)
        if int(second) <= int(first):
            return np.full(sizes, first)
        wide = np.uint64 if kind.kind == "unsigned" else np.int64
        return random.integers(int(first), int(second), sizes, wide)

    def jvp(self, primals, tangents, results):
        (low, high), (of_low, of_high) = primals, tangents
        share = (results - low) / (high - low)
        of_low = None if of_low is None else (1 - share) * of_low
        return add_cotangents(of_low, None if of_high is None else share * of_high)

    def rounded(self, samples, first, second):
        kind = self.output_shape.element_type
        if not kind.is_inexact:
            return super().rounded(samples, first, second)
        samples_and_bounds = samples, first, second
        result, low, high = (ops.convert_element_type(array, kind) for array in samples_and_bounds)
        low = ops.broadcast_in_dim(low, array_shape(result).dimensions, ())
        return ops.select(result < high, result, low)

    def scaled(self, sample, first, second):
        result = first + (second - first) * sample
        return ops.select(result < second, result, first)


@register
class RngNormal(_Samples):
    """Draw samples from a normal distribution, anew in every run. XLA: RngNormal.

    They have the derivatives 1 and z with respect to mu and sigma. z is computed from the sample,
    so sigma must not be 0.

    Args:
        mu: the mean, a floating-point scalar.
        sigma: the standard deviation, with the same type.
        shape: the Shape of the result, with that type.

    Returns:
        An array with that shape.

    Example:
        >>> ops.rng_normal(np.float32(0), np.float32(1), mx.Shape("f32", (2, 3))).shape
        (2, 3)
    """

    hlo_name = "rng"
    operands = "mu", "sigma"
    distribution = "normal"
    element_types = FLOATS

    def draw(self, first, second, kind, sizes):
        sample = _GENERATOR.numpy.standard_normal(sizes)
        return first.astype(np.float64) + second.astype(np.float64) * sample

    def jvp(self, primals, tangents, results):
        (mu, sigma), (of_mu, of_sigma) = primals, tangents
        of_mu = None if of_mu is None else ones_like(results) * of_mu
        of_sigma = None if of_sigma is None else (results - mu) / sigma * of_sigma
        return add_cotangents(of_mu, of_sigma)

    def scaled(self, sample, first, second):
        return first + second * sample
