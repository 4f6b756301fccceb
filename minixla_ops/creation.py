"""Operations that make arrays from nothing: Constant and Iota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integer, Literal, LiteralAttribute, ShapeAttribute
from minixla.core.operation import Operation, register
from minixla.core.roles import fill_role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, current_trace

__all__ = ["constant", "iota"]


@register
class Constant(Operation):
    """An array known when the program is made. XLA: Constant (ConstantLiteral).

    Attributes:
        literal: the value; a NumPy array or a Literal.
    """

    stablehlo_name = "constant"
    attributes = {"literal": LiteralAttribute()}
    zero_derivative = "it has no operands"

    def infer(
        self, shapes: tuple[AnyShape, ...], attributes: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        # Not cached: the cache would keep every literal alive.
        attributes = self.canonical_attributes(attributes)
        return attributes["literal"].shape, attributes

    def shape(self, *, literal: Literal) -> Shape:
        return literal.shape

    def run(self, *, literal: Any) -> Any:
        # Not a program of its own: the engine would keep every literal alive.
        return current_trace().lift(LiteralAttribute().canonical(literal).data)

    def reference(self, *, literal: Literal) -> np.ndarray:
        return literal.array

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        literal: Literal,
    ) -> Sequence[str]:
        return [emit.constant(literal)]

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        *,
        literal: Literal,
    ) -> str:
        return emit.constant(literal)


@register
class Iota(Operation):
    """Counts 0, 1, 2, ... along one dimension. XLA: Iota.

    out[i...] = i[iota_dimension], counted in integers and then converted.

    Attributes:
        output_shape: the result's shape.
        iota_dimension: the dimension to count along.

    Checks:
        (C1) the shape is an array of a type other than pred.
        (C2) iota_dimension is one of its dimensions.
    """

    stablehlo_name = "iota"
    attributes = {"output_shape": ShapeAttribute(), "iota_dimension": Integer(minimum=0)}
    zero_derivative = "it has no operands"

    def shape(self, *, output_shape: AnyShape, iota_dimension: int) -> Shape:
        given = [f"shape {output_shape}", f"iota_dimension {iota_dimension}"]
        if not isinstance(output_shape, Shape) or output_shape.element_type.kind == "pred":
            self.reject("C1", "it cannot count in this shape", given, "Give a numeric array shape.")
        if iota_dimension >= output_shape.rank:
            self.reject_attribute(
                "C2",
                "iota_dimension is no dimension of the shape",
                given,
                f"It must be in [0, {output_shape.rank}); a scalar has no dimension.",
            )
        return output_shape

    def reference(self, *, output_shape: Shape, iota_dimension: int) -> np.ndarray:
        sizes = output_shape.dimensions
        with np.errstate(over="ignore"):  # past the largest f16, infinity is right
            counted = np.arange(sizes[iota_dimension]).astype(output_shape.dtype)
        spread = [1] * len(sizes)
        spread[iota_dimension] = sizes[iota_dimension]
        return np.broadcast_to(counted.reshape(spread), sizes)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        output_shape: Shape,
        iota_dimension: int,
    ) -> Sequence[str]:
        name = emit.name()
        emit.line(f"{name} = stablehlo.iota dim = {iota_dimension} : {output_shape.stablehlo}")
        return [name]

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], *, output_shape: Shape, iota_dimension: int
    ) -> dict[str, Any]:
        return {"iota_dimension": iota_dimension}


def constant(literal: Any) -> Any:
    """The array `literal` as a value of the current trace.

    Args:
        literal: a NumPy array, a number, or a Literal.

    Raises:
        AttributeValueError: it is none of these, or of a type that XLA does not have.
    """
    operation = Constant.instance
    return bind(operation, **operation.canonical_attributes({"literal": literal}))


def iota(shape: Shape, iota_dimension: int) -> Any:
    """Counts 0, 1, 2, ... along `iota_dimension` of an array of `shape`.

    Args:
        shape: the result's shape.
        iota_dimension: one of its dimensions.

    Raises:
        ShapeError, AttributeValueError: see Iota.
    """
    return bind(Iota.instance, output_shape=shape, iota_dimension=iota_dimension)


fill_role("constant", Constant.instance)
