"""Softmax: exponentials over their sum, with a derivative that reads only the result."""

import numpy as np

import minixla_ops as ops
from minixla.core import builder, register
from minixla.core.attributes import Integers, attribute
from minixla.core.element_types import F32, element_type
from minixla.typing import Array
from minixla_ops.elementwise.families import INEXACT
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.batch_dimensions import shifted
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.checks import check_dimensions
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.computations import neutral_element, sum_over
from minixla_ops.programs.lowering import Lowered


@register
class Softmax(Lowered):
    """Compute exp(x) divided by its sum along dimensions, without overflow. JAX: nn.softmax.

    With the result y, its derivative maps t to y (t - sum(y t)) in both modes.

    Args:
        operand: an array of floats or complex numbers; f16 and bf16 are summed in f32.
        dimensions: the dimensions along which elements sum to 1, in any order, without repeats.

    Returns:
        An array with the operand's shape.

    Checks:
        (C1) operand has a floating-point or complex type.
        (C2) each dimension is a dimension of the operand.

    Example:
        >>> ops.softmax(np.float32([0, 0]), [0])
        Array([0.5, 0.5], dtype=float32)
    """

    spec_names = ()
    operands = ("operand",)
    in_place = True
    dimensions: tuple[int, ...] = attribute(Integers(unique=True))

    def shape(self, operand):
        if operand.element_type not in INEXACT:
            problem = (
                f"operand must have a floating-point or complex type, not {operand.element_type}"
            )
            self.refuse("C1", problem, "Convert operand with convert_element_type.")
        check_dimensions(self, "C2", operand, *self.dimensions)
        return operand

    def reference(self, operand):
        kind, axes = element_type(operand.dtype), self.dimensions
        x = cast(operand, widened(kind, True))
        with np.errstate(all="ignore"):
            lowest = neutral_element("max", element_type(x.dtype))
            top = np.max(x, axes, keepdims=True, initial=lowest.item())
            exponentials = np.exp(x - top)
            return cast(exponentials / np.sum(exponentials, axes, keepdims=True), kind)

    def lowered(self, operand):
        top = operand
        if self.dimensions:
            lowest = neutral_element("max", array_shape(operand).element_type)
            top = ops.reduce(operand, lowest, ops.max, self.dimensions)
        exponentials = ops.exp(operand - self._spread(top, operand))
        return exponentials / self._total(exponentials)

    def jvp(self, primals, tangents, results):
        return self._moved(tangents[0], results)

    def vjp(self, cotangents, operands, results, active):
        return (self._moved(cotangents, results),)  # the Jacobian is symmetric

    def _moved(self, tangent: Array, result: Array) -> Array:
        return result * (tangent - self._total(result * tangent))

    def _total(self, value: Array) -> Array:
        """Sum along the dimensions, and broadcast the sums to each element."""
        kind = array_shape(value).element_type
        wide = convert(value, F32) if kind.bits == 16 else value
        return self._spread(convert(sum_over(wide, self.dimensions), kind), value)

    def _spread(self, folded: Array, value: Array) -> Array:
        sizes = array_shape(value).dimensions
        kept = [index for index in range(len(sizes)) if index not in self.dimensions]
        return ops.broadcast_in_dim(folded, sizes, kept)

    def batch(self, operands, dimensions):
        return self(*operands, dimensions=shifted(self.dimensions, dimensions[0])), dimensions[0]


softmax = builder(Softmax)
