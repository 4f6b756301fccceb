"""Products that sum over dimensions: DotGeneral, and the builder Dot for vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from minixla.core.attributes import Optional, TypeAttribute
from minixla.core.element_types import ElementType
from minixla.core.errors import ShapeError, explain
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.casting import emit_widened
from minixla_ops.dot_dimensions import (
    DotDimensionNumbers,
    DotDimensions,
    batched_numbers,
    free_dimensions,
    transposed_numbers,
)
from minixla_ops.operators import convert
from minixla_ops.products import (
    Precision,
    PrecisionAttribute,
    Product,
    SumOfProducts,
    in_common_type,
    is_too_narrow,
    matrix_product,
    precision_hlo,
    reordered,
)
from minixla_ops.reshaping import transpose
from minixla_ops.rules import array_shape

__all__ = ["Dot", "DotGeneral", "dot", "dot_general"]


class Dot(SumOfProducts):
    """Base class of the operations that have DotDimensionNumbers.

    Checks:
        (C1), (C2) see SumOfProducts.
        (C3) as many contracting dimensions of lhs as of rhs, and as many batch dimensions.
        (C4) each is a dimension of its operand.
        (C5) no dimension of an operand is named twice.
        (C6) paired batch dimensions are equal in size.
        (C7) paired contracting dimensions are equal in size.
    """

    def dot_shape(
        self,
        lhs: Shape,
        rhs: Shape,
        numbers: DotDimensionNumbers,
        preferred_element_type: ElementType | None,
    ) -> Shape:
        """The shape of the product: batch dimensions, those kept of lhs, those kept of rhs."""
        kind = self.result_type(lhs, rhs, preferred_element_type)
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = numbers
        self._check_names("lhs", lhs, lhs_contracting, lhs_batch)
        self._check_names("rhs", rhs, rhs_contracting, rhs_batch)
        self._check_sizes("C6", "batch", lhs, rhs, lhs_batch, rhs_batch)
        self._check_sizes("C7", "contracting", lhs, rhs, lhs_contracting, rhs_contracting)
        kept = [(lhs, lhs_batch), (lhs, free_dimensions(lhs.rank, lhs_contracting, lhs_batch))]
        kept.append((rhs, free_dimensions(rhs.rank, rhs_contracting, rhs_batch)))
        sizes = [shape.dimensions[each] for shape, named in kept for each in named]
        return Shape(kind, sizes, [shape.dynamic[each] for shape, named in kept for each in named])

    def _check_names(
        self, name: str, shape: Shape, contracting: Sequence[int], batch: Sequence[int]
    ) -> None:
        named = [*contracting, *batch]
        given = [f"{name} {shape}", f"contracting {tuple(contracting)}, batch {tuple(batch)}"]
        for dimension in named:
            if not 0 <= dimension < shape.rank:
                self.reject_attribute(
                    "C4",
                    f"{name} has no dimension {dimension}",
                    given,
                    f"Dimensions of {name} must be in [0, {shape.rank}).",
                )
            if named.count(dimension) > 1:
                self.reject_attribute(
                    "C5",
                    f"dimension {dimension} of {name} is named twice",
                    given,
                    "A dimension is contracting, batch, or kept.",
                )

    def _check_sizes(
        self,
        label: str,
        role: str,
        lhs: Shape,
        rhs: Shape,
        lhs_named: Sequence[int],
        rhs_named: Sequence[int],
    ) -> None:
        if len(lhs_named) != len(rhs_named):
            self.reject_attribute(
                "C3",
                f"lhs and rhs differ in the number of {role} dimensions",
                [f"lhs {lhs}, {role} {lhs_named}", f"rhs {rhs}, {role} {rhs_named}"],
                f"Each {role} dimension of lhs is paired with one of rhs.",
            )
        for one, other in zip(lhs_named, rhs_named, strict=True):
            size, other_size = lhs.dimensions[one], rhs.dimensions[other]
            if size != other_size:
                self.reject(
                    label,
                    f"{role} dimensions differ in size",
                    [
                        f"lhs {lhs}, dimension {one} has size {size}",
                        f"rhs {rhs}, dimension {other} has size {other_size}",
                    ],
                    "Paired dimensions must be equal in size; pair others.",
                )

    @staticmethod
    def dot_hlo(numbers: DotDimensionNumbers, precision: Precision | None) -> dict[str, Any]:
        """The attributes in HLO."""
        return {
            "lhs_batch_dims": numbers.lhs_batch_dimensions or None,
            "lhs_contracting_dims": numbers.lhs_contracting_dimensions or None,
            "rhs_batch_dims": numbers.rhs_batch_dimensions or None,
            "rhs_contracting_dims": numbers.rhs_contracting_dimensions or None,
            "operand_precision": precision_hlo(precision),
        }


@register
class DotGeneral(Dot, Product):
    """Sum of products over contracting dimensions, separately for each batch index.

    out[b..., i..., j...] = sum over k... of lhs[b, i, k] * rhs[b, j, k]: the result has the batch
    dimensions, then those of lhs that are neither batch nor contracting, then those of rhs.
    Integers wrap, pred is an or of ands. XLA: DotGeneral and Dot.

    Attributes:
        dimension_numbers: a DotDimensionNumbers, or JAX's pair of pairs.
        precision_config: see PrecisionAttribute.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Checks: see Dot.
    """

    hlo_name = "dot"
    stablehlo_name = "dot_general"
    spec_names = ("Dot", "DotGeneral")
    dynamic_operands = (0, 1)
    attributes = {
        "dimension_numbers": DotDimensions(),
        "precision_config": Optional(PrecisionAttribute()),
        "preferred_element_type": Optional(TypeAttribute()),
    }

    def shape(
        self,
        lhs: Any,
        rhs: Any,
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Shape:
        lhs, rhs = self.array_shapes([lhs, rhs])
        return self.dot_shape(lhs, rhs, dimension_numbers, preferred_element_type)

    def reference(
        self,
        lhs: np.ndarray,
        rhs: np.ndarray,
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> np.ndarray:
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = dimension_numbers
        lhs_free = free_dimensions(lhs.ndim, lhs_contracting, lhs_batch)
        rhs_free = free_dimensions(rhs.ndim, rhs_contracting, rhs_batch)
        named = [*lhs_contracting, *lhs_batch], [*rhs_contracting, *rhs_batch]
        for one, other in zip(*named, strict=True):  # where one is dynamic, they may differ
            size = min(lhs.shape[one], rhs.shape[other])
            lhs = lhs[(np.s_[:],) * one + (np.s_[:size],)]
            rhs = rhs[(np.s_[:],) * other + (np.s_[:size],)]
        batch = [lhs.shape[each] for each in lhs_batch]
        rows = [lhs.shape[each] for each in lhs_free]
        inner = [lhs.shape[each] for each in lhs_contracting]
        columns = [rhs.shape[each] for each in rhs_free]
        left = lhs.transpose(*lhs_batch, *lhs_free, *lhs_contracting)
        right = rhs.transpose(*rhs_batch, *rhs_contracting, *rhs_free)
        product = matrix_product(
            left.reshape(prod(batch), prod(rows), prod(inner)),
            right.reshape(prod(batch), prod(inner), prod(columns)),
            preferred_element_type,
        )
        return product.reshape([*batch, *rows, *columns])

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Sequence[str]:
        if emit.platform == "cpu" and is_too_narrow(shapes):
            write = partial(
                self.stablehlo,
                emit,
                dimension_numbers=dimension_numbers,
                precision_config=precision_config,
                preferred_element_type=preferred_element_type,
            )
            return emit_widened(emit, write, operands, shapes, results)
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.dot_general {operands[0]}, {operands[1]}, "
            f"{_attributes_text(dimension_numbers, precision_config)} : "
            f"({shapes[0].stablehlo}, {shapes[1].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> dict[str, Any]:
        return self.dot_hlo(dimension_numbers, precision_config)

    def cotangent(
        self,
        index: int,
        cotangent: Any,
        operands: Sequence[Any],
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Any:
        own, other = array_shape(operands[index]), operands[1 - index]
        shape = array_shape(other)
        is_reversed, numbers, permutation = transposed_numbers(
            dimension_numbers,
            (own.rank, shape.rank),
            index,
            shape.size > array_shape(cotangent).size,
        )
        if preferred_element_type is not None:
            cotangent, other = in_common_type(cotangent, other)
        # The cotangent takes the operand's place, and with it the operand's precision.
        result = dot_general(
            other if is_reversed else cotangent,
            cotangent if is_reversed else other,
            numbers,
            reordered(precision_config, is_reversed != bool(index)),
        )
        if preferred_element_type is not None:
            result = convert(result, own.element_type)
        return result if permutation is None else transpose(result, permutation)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> tuple[Any, int]:
        ranks = array_shape(operands[0]).rank, array_shape(operands[1]).rank
        numbers, dimension = batched_numbers(dimension_numbers, ranks, tuple(dimensions))
        result = dot_general(
            operands[0], operands[1], numbers, precision_config, preferred_element_type
        )
        return result, dimension


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Sum of products over contracting dimensions, separately for each batch index.

    Args:
        lhs: an array of any element type.
        rhs: an array of the same element type.
        dimension_numbers: a DotDimensionNumbers, or JAX's
            ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        An array: the batch dimensions, the other dimensions of lhs that are not contracted, then
        those of rhs.

    Raises:
        AttributeValueError, ShapeError: see DotGeneral.
    """
    if Shape.any_dynamic:
        from minixla_ops.dynamic_sizes import with_batch_sizes

        lhs = with_batch_sizes(lhs, rhs, dimension_numbers)
    return bind(
        DotGeneral.instance,
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision_config=precision_config,
        preferred_element_type=preferred_element_type,
    )


_MATRIX_PRODUCT = DotDimensionNumbers((1,), (0,))
_VECTOR_PRODUCT = DotDimensionNumbers((0,), (0,))


def dot(
    lhs: Any, rhs: Any, precision_config: Any = None, preferred_element_type: Any = None
) -> Any:
    """The product of two vectors, of a matrix and a vector, or of two matrices (a DotGeneral).

    Args:
        lhs: a vector [k] or a matrix [m, k].
        rhs: a vector [k], or, if lhs is a matrix, a vector [k] or a matrix [k, n].
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        A scalar, a vector [m] or a matrix [m, n].

    Raises:
        ShapeError: other ranks (D1); see DotGeneral for the rest.
    """
    left, right = shape_of(lhs), shape_of(rhs)
    ranks = tuple(each.rank if isinstance(each, Shape) else -1 for each in (left, right))
    if ranks not in ((1, 1), (2, 1), (2, 2)):
        raise explain(
            ShapeError,
            "dot",
            "(D1) there is no product of these ranks",
            [f"lhs {left}", f"rhs {right}"],
            "It takes vector and vector, matrix and vector, or matrix and matrix; dot_general "
            "takes all others.",
        )
    numbers = _VECTOR_PRODUCT if ranks[0] == 1 else _MATRIX_PRODUCT
    return dot_general(lhs, rhs, numbers, precision_config, preferred_element_type)


@lru_cache(maxsize=4096)
def _attributes_text(numbers: DotDimensionNumbers, precision: Precision | None) -> str:
    """The attributes in StableHLO's short form."""
    texts = []
    if numbers.lhs_batch_dimensions:
        pair = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
        texts.append(f"batching_dims = {list(pair[0])} x {list(pair[1])}")
    pair = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    texts.append(f"contracting_dims = {list(pair[0])} x {list(pair[1])}")
    if precision:
        texts.append(f"precision = [{', '.join(precision)}]")
    return ", ".join(texts)
