"""Operations that create arrays without operands: Constant and Iota."""

from typing import Self

import numpy as np

from minixla.core import Operation, Shape, current_trace, register
from minixla.core import attributes as kinds
from minixla.core.attributes import REQUIRED, Literal, attribute
from minixla.core.registry import fill_role
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.checks import check_dimensions


@register
class Constant(Operation):
    """Return the array `literal` as a value of the current trace. XLA: Constant (ConstantLiteral).

    Args:
        literal: a NumPy array, a scalar, or a Literal.

    Returns:
        An array with the literal's shape.

    Raises:
        AttributeValueError: it is not one of these, or XLA lacks its element type.

    Example:
        >>> ops.constant(np.int32([1, 2]))
        Array([1, 2], dtype=int32)
    """

    stablehlo_name = "constant"
    is_cheap = True
    literal: Literal = attribute(kinds.LiteralAttribute())
    zero_derivative = "it has no operands"
    is_elementwise = True

    def __new__(cls, literal: object = REQUIRED) -> Self:
        """Return the constant for a literal, without checks: programs create many constants."""
        if type(literal) is not Literal:
            return super().__new__(cls, literal)
        return cls._made({"literal": literal})

    def shape(self):
        return self.literal.shape

    def run(self):
        # Do not compile a program for it: the engine would keep every literal alive.
        return current_trace().lift(self.literal.data)

    def reference(self):
        return self.literal.array

    def stablehlo(self, emit, operands, shapes, results):
        return [emit.constant(self.literal)]

    def hlo(self, emit, operands, shapes, result):
        return emit.constant(self.literal)


@register
class Iota(Operation):
    """Count 0, 1, 2, ... along one dimension. XLA: Iota.

    out[i...] = i[iota_dimension], counted in integers, then converted.

    Args:
        shape: the result's shape.
        iota_dimension: the dimension to count along.

    Returns:
        An array with that shape.

    Checks:
        (C1) the shape is an array shape with an element type other than pred.
        (C2) iota_dimension is one of its dimensions.

    Example:
        >>> ops.iota(mx.Shape("s32", (2, 3)), 1)
        Array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """

    stablehlo_name = "iota"
    is_cheap = True
    output_shape: Shape = attribute(kinds.ShapeAttribute(), stablehlo=None, hlo=None)
    iota_dimension: int = attribute(kinds.Integer(minimum=0))
    zero_derivative = "it has no operands"

    def shape(self):
        shape = self.output_shape
        if not isinstance(shape, Shape) or shape.element_type.kind == "pred":
            self.refuse(
                "C1", "iota needs a numeric array shape", "Pass the shape of an array of numbers."
            )
        check_dimensions(self, "C2", shape, self.iota_dimension, of="the shape")
        return shape

    def reference(self):
        sizes, at = self.output_shape.dimensions, self.iota_dimension
        counted = cast(np.arange(sizes[at]), self.output_shape.element_type)
        return np.broadcast_to(counted.reshape(-1, *[1] * (len(sizes) - 1 - at)), sizes)


fill_role("constant", Constant)
