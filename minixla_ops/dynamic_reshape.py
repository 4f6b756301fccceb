"""DynamicReshape: Reshape to sizes known only at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integers
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import move_dimension
from minixla_ops.dynamic_sizes import SIZE, get_dimension_size, refuse_ragged, static
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, listed, operand_list

__all__ = ["dynamic_reshape"]


@register
class DynamicReshape(Operation):
    """Reshape to sizes known at run time, within bounds. XLA: DynamicReshape.

    The elements, in row-major order, fill dim_sizes[0] * dim_sizes[1] * ... positions. Other
    numbers of elements, and sizes beyond their bounds, are an error in the reference and
    unspecified elsewhere.

    Attributes:
        new_size_bounds: the bounds of the result's dimensions.
        dims_are_dynamic: which of them are dynamic; the size of the others is the bound.

    Checks:
        (C1) one size, one bound and one flag for each dimension.
        (C2) each size is s32[].
        (C3) the bounds hold as many elements as the operand's sizes or bounds do.
    """

    stablehlo_name = "dynamic_reshape"
    operand_names = ("operand", "dim_sizes...")
    attributes = {
        "new_size_bounds": Integers(minimum=0),
        "dims_are_dynamic": SequenceOf(Boolean()),
    }
    linear_operands = (0,)
    dynamic_operands = (0,)

    def shape(
        self,
        operand: Any,
        *dim_sizes: Any,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> Shape:
        operand, *sizes = self.array_shapes([operand, *dim_sizes])
        given = [
            f"operand {operand}",
            f"dim_sizes ({', '.join(map(str, sizes))})",
            f"new_size_bounds {new_size_bounds}",
            f"dims_are_dynamic {dims_are_dynamic}",
        ]
        if not len(sizes) == len(new_size_bounds) == len(dims_are_dynamic):
            self.reject_attribute(
                "C1", "the lists differ in length", given, "Give one of each for each dimension."
            )
        if any(size is not SIZE for size in sizes):
            self.reject("C2", "a size is not s32[]", given, "Convert with convert_element_type.")
        if math.prod(new_size_bounds) != operand.size:
            self.reject(
                "C3",
                f"bounds of {math.prod(new_size_bounds)} elements for {operand.size}",
                given,
                "The product of the bounds must be that of the operand.",
            )
        return Shape(operand.element_type, new_size_bounds, dims_are_dynamic)

    def reference(
        self,
        operand: np.ndarray,
        *dim_sizes: np.ndarray,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> np.ndarray:
        sizes = [int(size) for size in dim_sizes]
        bounds = zip(sizes, new_size_bounds, dims_are_dynamic, strict=True)
        fits = all(0 <= size <= bound and (flag or size == bound) for size, bound, flag in bounds)
        if not fits or math.prod(sizes) != operand.size:
            raise explain(
                AttributeValueError,
                self.builder_name,
                f"sizes {sizes} do not fit",
                [f"operand of {operand.size} elements", f"new_size_bounds {new_size_bounds}"],
                "Sizes must be within their bounds and hold the operand's elements.",
            )
        return operand.reshape(sizes)

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, **attributes: Any
    ) -> Sequence[str]:
        one, sizes = Shape("s32", (1,)), Shape("s32", (len(operands) - 1,))
        listed = []
        for size in operands[1:]:
            listed += emit.operation("stablehlo.reshape", [size], [SIZE], [one])
        if listed:
            shape = emit.operation(
                "stablehlo.concatenate", listed, [one] * len(listed), [sizes], dimension=0
            )
            whole = [shapes[0], sizes]
            return emit.operation(
                "stablehlo.dynamic_reshape", [operands[0], *shape], whole, results
            )
        return emit.operation("stablehlo.reshape", operands, shapes, results)

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        return {}

    def transpose(
        self, cotangents: Any, operands: Any, linear: Any, **attributes: Any
    ) -> Sequence[Any]:
        operand = array_shape(operands[0])
        none = [None] * (len(operands) - 1)
        if not operand.is_dynamic:
            for dimension in range(array_shape(cotangents).rank):
                cotangents = static(cotangents, dimension)
            return reshape(cotangents, operand.dimensions), *none
        sizes = [get_dimension_size(operands[0], each) for each in range(operand.rank)]
        return dynamic_reshape(cotangents, sizes, operand.dimensions, operand.dynamic), *none

    def batch(
        self,
        operands: Any,
        dimensions: Any,
        *,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> tuple[Any, int]:
        refuse_ragged(self, dimensions[1:])
        operand = move_dimension(operands[0], dimensions[0], 0)
        size = array_shape(operand).dimensions[0]
        sizes, flags = [np.int32(size), *operands[1:]], (False, *dims_are_dynamic)
        return dynamic_reshape(operand, sizes, (size, *new_size_bounds), flags), 0


def dynamic_reshape(
    operand: Any,
    dim_sizes: Sequence[Any],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> Any:
    """The elements of `operand`, in row-major order, in dimensions whose sizes are values.

    Args:
        operand: an array, of dynamic or static sizes.
        dim_sizes: N s32 scalars; Python integers become such.
        new_size_bounds: N upper bounds, whose product is that of the operand's sizes (bounds).
        dims_are_dynamic: which of the N dimensions are dynamic; the others have their bound.

    Raises:
        ShapeError, AttributeValueError: see DynamicReshape.
    """
    given = operand_list(dim_sizes, "dynamic_reshape", "dim_sizes")
    sizes = [np.int32(s) if isinstance(s, int) and abs(s) < 2**31 else s for s in given]
    return bind(
        DynamicReshape.instance,
        operand,
        *sizes,
        new_size_bounds=listed(new_size_bounds),
        dims_are_dynamic=listed(dims_are_dynamic),
    )
