"""Dot products: DotGeneral, and the builder Dot for vectors and matrices."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, Tracer, attribute, register, shape_of
from minixla.core.builders import builds
from minixla.core.errors import ShapeError, explain
from minixla.core.sharding_rule import ABSENT, REDUCTION
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.checks import check_dimensions
from minixla_ops.helpers.shorthand import array_shape, written
from minixla_ops.products import dot_dimensions
from minixla_ops.products import product as products
from minixla_ops.products.dot_dimensions import DotDimensionNumbers, DotDimensions


class Dot(products.SumOfProducts):
    """Base class of operations with DotDimensionNumbers.

    Checks:
        (C1), (C2) see SumOfProducts.
        (C3) lhs and rhs have equal numbers of contracting and of batch dimensions.
        (C4) each is a dimension of its operand.
        (C5) dimensions of an operand are not repeated.
        (C6) paired batch dimensions have equal sizes.
        (C7) paired contracting dimensions have equal sizes.
    """

    mixes_types = True
    dimension_numbers: Any = attribute(DotDimensions(), stablehlo="dot_dimension_numbers")
    precision_config: Any = products.PRECISION
    preferred_element_type: Any = products.PREFERRED_TYPE

    def dot_shape(self, lhs: Shape, rhs: Shape, numbers: DotDimensionNumbers) -> Shape:
        """Return the product's shape: batch dimensions, free ones of lhs, free ones of rhs."""
        kind = self.result_type(lhs, rhs)
        self._check_names("lhs", lhs, [*numbers[0], *numbers[2]])
        self._check_names("rhs", rhs, [*numbers[1], *numbers[3]])
        self._check_pairs("C6", "batch", lhs, rhs, numbers[2:])
        self._check_pairs("C7", "contracting", lhs, rhs, numbers[:2])
        lhs_kept = *numbers.lhs_batch_dimensions, *numbers.free(0, lhs.rank)
        kept = (
            *[(lhs, dimension) for dimension in lhs_kept],
            *[(rhs, each) for each in numbers.free(1, rhs.rank)],
        )
        sizes = [shape.dimensions[dimension] for shape, dimension in kept]
        return Shape(kind, sizes, [shape.dynamic[dimension] for shape, dimension in kept])

    def _check_names(self, name: str, shape: Shape, named: Sequence[int]) -> None:
        check_dimensions(self, "C4", shape, *named, of=name)
        for each in named:
            if named.count(each) > 1:
                self.refuse_attribute("C5", f"dimension {each} of {name} must not be repeated")

    def _check_pairs(
        self, label: str, role: str, lhs: Shape, rhs: Shape, named: Sequence[Sequence[int]]
    ) -> None:
        if len(named[0]) != len(named[1]):
            self.refuse_attribute("C3", f"lhs and rhs must have equal numbers of {role} dimensions")
        for one, other in zip(*named, strict=True):
            if lhs.dimensions[one] != rhs.dimensions[other]:
                left = f"lhs dimension {one} has size {lhs.dimensions[one]}"
                right = f"rhs dimension {other} has size {rhs.dimensions[other]}"
                problem = f"{role} dimensions must be equal; {left}, {right}"
                self.refuse(label, problem, "Transpose an operand, or pair other dimensions.")


@register
class DotGeneral(Dot, products.Product):
    """Sum of products over contracting dimensions, separately for each batch index.

    out[b..., i..., j...] = sum over k... of lhs[b, i, k] * rhs[b, j, k]: the result has the batch
    dimensions, then the other free dimensions of lhs, then those of rhs. Integers wrap, and pred
    is a logical OR of ANDs. XLA: DotGeneral and Dot.

    Args:
        lhs: an array with any element type.
        rhs: an array with the same element type, or any if preferred_element_type is given.
        dimension_numbers: a DotDimensionNumbers, or JAX's
            ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        An array: the batch dimensions, then the free dimensions of lhs, then those of rhs.

    Checks: see Dot.

    Example:
        >>> lhs, rhs = np.int32([[1, 2], [3, 4]]), np.int32([[1, 1], [1, 0]])
        >>> ops.dot_general(lhs, rhs, (([1], [1]), ([0], [0])))
        Array([3, 3], dtype=int32)
    """

    hlo_name = "dot"
    stablehlo_name = "dot_general"
    spec_names = ("Dot", "DotGeneral")
    dynamic_operands = (0, 1)

    def shape(self, lhs, rhs):
        return self.dot_shape(lhs, rhs, self.dimension_numbers)

    def reference(self, lhs, rhs):
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = self.dimension_numbers
        lhs_free, rhs_free = map(self.dimension_numbers.free, (0, 1), (lhs.ndim, rhs.ndim))
        named = [*lhs_contracting, *lhs_batch], [*rhs_contracting, *rhs_batch]
        for one, other in zip(*named, strict=True):  # they may differ if one is dynamic
            size = min(lhs.shape[one], rhs.shape[other])
            lhs = lhs[(np.s_[:],) * one + (np.s_[:size],)]
            rhs = rhs[(np.s_[:],) * other + (np.s_[:size],)]
        kept = lhs_batch, lhs_free, lhs_contracting
        batch, rows, inner = ([lhs.shape[dimension] for dimension in part] for part in kept)
        columns = [rhs.shape[dimension] for dimension in rhs_free]
        left = lhs.transpose(*lhs_batch, *lhs_free, *lhs_contracting)
        right = rhs.transpose(*rhs_batch, *rhs_contracting, *rhs_free)
        left = left.reshape(prod(batch), prod(rows), prod(inner))
        right = right.reshape(prod(batch), prod(inner), prod(columns))
        product = products.matrix_product(left, right, self.preferred_element_type)
        return product.reshape([*batch, *rows, *columns])

    def stablehlo(self, emit, operands, shapes, results):
        text = f"{operands[0]}, {operands[1]}, {self._attributes_text}"
        return written(emit, f"stablehlo.dot_general {text}", shapes, results[0])

    @cached_property
    def _attributes_text(self) -> str:
        text, names = str(self.dimension_numbers), self.precision_config
        return f"{text}, precision = [{', '.join(names)}]" if names else text

    def cotangent(self, index, cotangent, operands):
        shape_of_operand, other = array_shape(operands[index]), operands[1 - index]
        shape = array_shape(other)
        is_larger = shape.size > array_shape(cotangent).size
        described = self.dimension_numbers, (shape_of_operand.rank, shape.rank), index, is_larger
        is_reversed, numbers, permutation = dot_dimensions.transposed_numbers(*described)
        cotangent, other = products.in_common_type(cotangent, other)
        # The cotangent replaces the operand, so it gets the operand's precision.
        pair = (other, cotangent) if is_reversed else (cotangent, other)
        precision = self.precision_config
        if precision and is_reversed != bool(index):
            precision = precision[::-1]
        result = convert(dot_general(*pair, numbers, precision), shape_of_operand.element_type)
        return result if permutation is None else ops.transpose(result, permutation)

    def batch(self, operands, dimensions):
        lhs, rhs = operands
        ranks_and_places = (array_shape(lhs).rank, array_shape(rhs).rank), tuple(dimensions)
        numbers, dimension = dot_dimensions.batched_numbers(
            self.dimension_numbers, *ranks_and_places
        )
        others = self.precision_config, self.preferred_element_type
        return dot_general(lhs, rhs, numbers, *others), dimension

    def sharding_rule(self, lhs, rhs):
        rule, numbers = self.sharding_factors((lhs, rhs)), self.dimension_numbers
        batch = [*zip(numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions, strict=True)]
        kept = [(dimension, ABSENT) for dimension in numbers.free(0, lhs.rank)]
        kept += [(ABSENT, dimension) for dimension in numbers.free(1, rhs.rank)]
        for at, (one, other) in enumerate([*batch, *kept]):
            size = lhs.dimensions[one] if one != ABSENT else rhs.dimensions[other]
            rule.add([one, other], [at], size)
        for one, other in zip(*numbers[:2], strict=True):
            rule.add([one, other], [ABSENT], lhs.dimensions[one], REDUCTION)
        return rule.build()


@builds(DotGeneral)
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision_config: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    operation = DotGeneral(dimension_numbers, precision_config, preferred_element_type)
    numbers = operation.dimension_numbers
    if numbers.rhs_batch_dimensions and isinstance(rhs, Tracer):  # arrays have static sizes
        lhs = _with_batch_sizes(lhs, rhs, numbers)
    return operation(lhs, rhs)


def _with_batch_sizes(lhs: ArrayLike, rhs: Tracer, numbers: DotDimensionNumbers) -> ArrayLike:
    """Make batch dimensions of lhs dynamic if those of rhs are."""
    right, left = shape_of(rhs), shape_of(lhs, "dot_general")
    if isinstance(left, Shape) and isinstance(right, Shape) and right.is_dynamic:
        for one, other in zip(*numbers[2:], strict=False):
            is_dimension = (
                one < left.rank and other < right.rank
            )  # DotGeneral's shape rule raises otherwise
            if is_dimension and right.dynamic[other] > left.dynamic[one]:
                lhs = ops.set_dimension_size(lhs, ops.get_dimension_size(rhs, other), one)
    return lhs


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision_config: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Multiply two vectors, a matrix and a vector, or two matrices (a DotGeneral).

    XLA: Dot.

    Args:
        lhs: a vector [k] or a matrix [m, k].
        rhs: a vector [k], or, if lhs is a matrix, a vector [k] or a matrix [k, n].
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        A scalar, a vector [m] or a matrix [m, n].

    Raises:
        ShapeError: other ranks (D1); see DotGeneral for the rest.

    Example:
        >>> ops.dot(np.int32([[1, 2], [3, 4]]), np.int32([1, 1]))
        Array([3, 7], dtype=int32)
    """
    left, right = shape_of(lhs), shape_of(rhs)
    ranks = tuple(operand.rank if isinstance(operand, Shape) else -1 for operand in (left, right))
    if ranks not in ((1, 1), (2, 1), (2, 2)):
        problem, details = (
            "(D1) dot requires operands of rank 1 or 2",
            [f"lhs {left}", f"rhs {right}"],
        )
        advice = "dot supports vector and vector, matrix and vector, or matrix and matrix"
        advice = f"{advice}; use dot_general for others."
        raise explain(ShapeError, "dot", problem, details, advice)
    numbers = DotDimensionNumbers((ranks[0] - 1,), (0,))
    return dot_general(lhs, rhs, numbers, precision_config, preferred_element_type)
