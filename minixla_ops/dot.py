"""Products that sum over dimensions: DotGeneral, and the builder Dot for vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Attribute, Integers, Optional, TypeAttribute
from minixla.core.element_types import ElementType
from minixla.core.errors import ShapeError, explain
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.operators import convert
from minixla_ops.products import (
    Precision,
    PrecisionAttribute,
    Product,
    in_common_type,
    matrix_product,
    precision_hlo,
    reordered,
)
from minixla_ops.reshaping import transpose
from minixla_ops.rules import array_shape

__all__ = ["DotDimensionNumbers", "dot", "dot_general"]


class DotDimensionNumbers(NamedTuple):
    """Which dimensions of the operands are summed over, and which they have in common.

    Attributes:
        lhs_contracting_dimensions: dimensions of lhs to sum over.
        rhs_contracting_dimensions: the dimension of rhs that each of those is paired with.
        lhs_batch_dimensions: dimensions of lhs that index separate products.
        rhs_batch_dimensions: the dimension of rhs that each of those is paired with.
    """

    lhs_contracting_dimensions: Sequence[int]
    rhs_contracting_dimensions: Sequence[int]
    lhs_batch_dimensions: Sequence[int] = ()
    rhs_batch_dimensions: Sequence[int] = ()


class DotDimensions(Attribute):
    """The DotDimensionNumbers; also in the form in which JAX's dot_general takes them."""

    is_ambiguous = False

    description = (
        "DotDimensionNumbers, or ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))"
    )

    def canonical(self, value: Any) -> DotDimensionNumbers:
        """The DotDimensionNumbers, its fields tuples of integers."""
        fields = list(value)
        if len(fields) == 2:
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = fields
            fields = [lhs_contracting, rhs_contracting, lhs_batch, rhs_batch]
        if len(fields) != 4:
            raise TypeError(f"there must be four lists of dimensions, not {len(fields)}")
        return DotDimensionNumbers(*map(Integers().canonical, fields))


@register
class DotGeneral(Product):
    """Sum of products over contracting dimensions, separately for each batch index.

    out[b..., i..., j...] = sum over k... of lhs[b, i, k] * rhs[b, j, k]: the result has the batch
    dimensions, then those of lhs that are neither batch nor contracting, then those of rhs.
    Integers wrap, pred is an or of ands. XLA: DotGeneral and Dot.

    Attributes:
        dimension_numbers: a DotDimensionNumbers, or JAX's pair of pairs.
        precision_config: see PrecisionAttribute.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Checks:
        (C1), (C2) see Product.
        (C3) as many contracting dimensions of lhs as of rhs, and as many batch dimensions.
        (C4) each is a dimension of its operand.
        (C5) no dimension of an operand is named twice.
        (C6) paired batch dimensions are equal in size.
        (C7) paired contracting dimensions are equal in size.
    """

    hlo_name = "dot"
    stablehlo_name = "dot_general"
    spec_names = ("Dot", "DotGeneral")
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
        kind = self.result_type(lhs, rhs, preferred_element_type)
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = dimension_numbers
        self._check_names("lhs", lhs, lhs_contracting, lhs_batch)
        self._check_names("rhs", rhs, rhs_contracting, rhs_batch)
        self._check_sizes("C6", "batch", lhs, rhs, lhs_batch, rhs_batch)
        self._check_sizes("C7", "contracting", lhs, rhs, lhs_contracting, rhs_contracting)
        kept = [(lhs, lhs_batch), (lhs, _free(lhs.rank, lhs_contracting, lhs_batch))]
        kept.append((rhs, _free(rhs.rank, rhs_contracting, rhs_batch)))
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
        lhs_free = _free(lhs.ndim, lhs_contracting, lhs_batch)
        rhs_free = _free(rhs.ndim, rhs_contracting, rhs_batch)
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
        return {
            "lhs_batch_dims": dimension_numbers.lhs_batch_dimensions or None,
            "lhs_contracting_dims": dimension_numbers.lhs_contracting_dimensions or None,
            "rhs_batch_dims": dimension_numbers.rhs_batch_dimensions or None,
            "rhs_contracting_dims": dimension_numbers.rhs_contracting_dimensions or None,
            "operand_precision": precision_hlo(precision_config),
        }

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
        ranks = own.rank, array_shape(other).rank
        is_reversed, numbers, permutation = _transposed(dimension_numbers, ranks, index)
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
        numbers, dimension = _batched(dimension_numbers, ranks, tuple(dimensions))
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


def _free(rank: int, *named: Sequence[int]) -> tuple[int, ...]:
    """The dimensions that are in none of the lists."""
    return tuple([each for each in range(rank) if not any(each in some for some in named)])


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


@lru_cache(maxsize=4096)
def _transposed(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], index: int
) -> tuple[bool, DotDimensionNumbers, tuple[int, ...] | None]:
    """How the cotangent of operand `index` is a product of the result's and the other operand.

    Args:
        numbers: those of the product that is transposed.
        ranks: of the operand, and of the other.
        index: 0 for lhs, 1 for rhs.

    Returns:
        Whether the other operand comes first, the dimension numbers, and the permutation that
        brings the product's dimensions into the operand's order, or None where they are.
    """
    contracting, other_contracting = _own_first(numbers[:2], index)
    batch, other_batch = _own_first(numbers[2:], index)
    free = _free(ranks[0], contracting, batch)
    other_free = _free(ranks[1], other_contracting, other_batch)
    # Where the other operand's free dimensions are in the result.
    start = len(batch) + (0 if index else len(free))
    summed = tuple(range(start, start + len(other_free)))
    common = tuple(range(len(batch)))
    # Contracting dimensions come out in the other operand's order.
    pairs = sorted(zip(other_contracting, contracting, strict=True))
    restored = tuple([own for _, own in pairs])
    after = _permutation((*batch, *free, *restored))
    before = _permutation((*batch, *restored, *free))
    if after is not None and before is None:
        return True, DotDimensionNumbers(other_free, summed, other_batch, common), None
    return False, DotDimensionNumbers(summed, other_free, common, other_batch), after


def _own_first(pair: Sequence[Any], index: int) -> Sequence[Any]:
    return pair[::-1] if index else pair


def _permutation(order: Sequence[int]) -> tuple[int, ...] | None:
    """The transposition that sorts dimensions given in `order`; None where they are sorted."""
    permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
    return None if permutation == tuple(range(len(order))) else permutation


@lru_cache(maxsize=4096)
def _batched(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], dimensions: tuple[int | None, int | None]
) -> tuple[DotDimensionNumbers, int]:
    """The dimension numbers over a batch, and where the batch is in the result.

    A batch of both operands is one more batch dimension; of one operand, one more free dimension.

    Args:
        numbers: those of one member.
        ranks: of the operands, batch dimensions included.
        dimensions: where the batch is in each operand, or None.
    """
    lhs_dimension, rhs_dimension = dimensions
    lhs_contracting, lhs_batch = _shifted(numbers[0::2], lhs_dimension)
    rhs_contracting, rhs_batch = _shifted(numbers[1::2], rhs_dimension)
    if lhs_dimension is not None and rhs_dimension is not None:
        lhs_batch, rhs_batch = (lhs_dimension, *lhs_batch), (rhs_dimension, *rhs_batch)
        position = 0
    elif lhs_dimension is not None:
        free = _free(ranks[0], lhs_contracting, lhs_batch)
        position = len(lhs_batch) + free.index(lhs_dimension)
    else:
        assert rhs_dimension is not None
        free = _free(ranks[1], rhs_contracting, rhs_batch)
        position = ranks[0] - len(lhs_contracting) + free.index(rhs_dimension)
    return DotDimensionNumbers(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch), position


def _shifted(parts: Sequence[Sequence[int]], dimension: int | None) -> list[tuple[int, ...]]:
    """Dimension numbers of an array that has one more dimension at `dimension`."""
    if dimension is None:
        return [tuple(each) for each in parts]
    return [tuple([number + (number >= dimension) for number in each]) for each in parts]
