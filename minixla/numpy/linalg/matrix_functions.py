"""Norms and powers of matrices, and what the array API calls by other arguments there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.numpy import creation, elementwise, linear_algebra, logic, matrices, reductions
from minixla.numpy.einsum import einsum
from minixla.numpy.element_functions import root
from minixla.numpy.manipulation import broadcast_to, expand_dims, ravel, squeeze
from minixla.numpy.operands import axes_of, inexact_operand, listed, operand_shape, static_int


def norm(
    x: Any, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Any:
    """The norm of vectors or matrices.

    Args:
        x: an array.
        ord: which: None the root of the sum of squares; of vectors inf, -inf, 0 or a number p; of
            matrices "fro", 1, -1, inf or -inf.
        axis: an axis for vectors, two for matrices; None for all elements (at most a matrix, where
            `ord` is given).
        keepdims: whether the axes stay, with size 1.

    Raises:
        AttributeValueError: there is no such norm; those by singular values are not supported.
    """
    x = inexact_operand(x, "norm")
    if axis is None and ord is None:
        total = _root_of_squares(ravel(x), (0,), False)
        return broadcast_to(total, (1,) * x.ndim) if keepdims else total
    axes = axes_of(None if axis is None else listed(axis), x.ndim, "norm")
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise _no_norm(ord, f"{len(axes)} axes")
    return _matrix_norm(x, ord, axes, keepdims)


def _no_norm(ord: Any, what: str) -> AttributeValueError:
    return explain(
        AttributeValueError,
        "norm",
        f"there is no norm ord={ord!r} of {what} here",
        advice="Of vectors: None, inf, -inf, 0 or a number; of matrices: None, 'fro', 1, -1, inf "
        "or -inf. Norms by singular values are not supported.",
    )


def _root_of_squares(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return root(
        reductions.sum(elementwise.real(x * elementwise.conjugate(x)), axes, None, None, keepdims)
    )


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = elementwise.absolute(x)
    if ord == math.inf:
        return reductions.max(size, axes, None, keepdims)
    if ord == -math.inf:
        return reductions.min(size, axes, None, keepdims)
    if ord == 0:
        return reductions.sum(x != 0, axes, size.dtype, None, keepdims)
    if ord == 1:
        return reductions.sum(size, axes, None, None, keepdims)
    if isinstance(ord, str):
        raise _no_norm(ord, "vectors")
    return _root_of_powers(size, ord, axes, keepdims)


def _root_of_powers(size: Any, order: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The norm of an order; its derivative where it is 0 is 0."""
    total = reductions.sum(size**order, axes, None, None, True)
    is_zero = total == (0 if order > 0 else math.inf)
    if order < 1 or order % 1:  # the power is infinite at 0, or a derivative of it is
        size = logic.where(is_zero, 1, size)
        total = reductions.sum(size**order, axes, None, None, True)
    result = logic.where(is_zero, 0, logic.where(is_zero, 1, total) ** (1 / order))
    return result if keepdims else squeeze(result, axes)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise _no_norm(ord, "matrices")
    summed, compared = axes if ord in (1, -1) else axes[::-1]
    sums = reductions.sum(elementwise.absolute(x), summed, None, None, True)
    function = reductions.max if ord > 0 else reductions.min
    extreme = function(sums, compared, None, True)
    if keepdims:
        return extreme
    kept = [size for at, size in enumerate(extreme.shape) if at not in axes]
    return ops.reshape(extreme, kept)


def vector_norm(
    x: Any, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    """The norm of vectors, whose components may be along several axes; see `norm`."""
    x = inexact_operand(x, "vector_norm")
    return _vector_norm(x, ord, axes_of(axis, x.ndim, "vector_norm"), keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices in the last two axes; see `norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices in the last two axes, `offset` above the main ones."""
    return matrices.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices in the last two axes; see `diagonal`.

    Args:
        x: an array.
        offset: how far above the main diagonal they are.
        dtype: the type to sum in and return; default: that of `x`, integers at least the default.
    """
    return matrices.trace(x, offset, -2, -1, dtype)


def matrix_power(a: Any, n: int) -> Any:
    """Matrices to the power of an integer n >= 0, by repeated squaring.

    Raises:
        ShapeError: the matrices are not square.
        AttributeValueError: n is negative.
    """
    shape = operand_shape(a, "matrix_power")
    if shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        raise explain(ShapeError, "matrix_power", f"a is {shape}", advice="Give square matrices.")
    exponent = static_int(n, "matrix_power", "n")
    if exponent < 0:
        advice = "Inverses are not supported: give n >= 0."
        raise explain(AttributeValueError, "matrix_power", f"n is {exponent}", advice=advice)
    result, square = None, creation.asarray(a)
    while exponent:
        if exponent & 1:
            result = square if result is None else linear_algebra.matmul(result, square)
        exponent >>= 1
        square = linear_algebra.matmul(square, square) if exponent else square
    if result is None:
        return broadcast_to(
            matrices.eye(shape.dimensions[-1], dtype=shape.element_type), shape.dimensions
        )
    return result


def multi_dot(arrays: Sequence[Any]) -> Any:
    """The matrix product of several matrices, in the order that costs least.

    Args:
        arrays: two matrices or more; the first and the last may be vectors.
    """
    first, *middle, last = arrays
    if not middle:
        return linear_algebra.dot(first, last)
    ranks = operand_shape(first, "multi_dot").rank, operand_shape(last, "multi_dot").rank
    first = expand_dims(first, 0) if ranks[0] == 1 else first
    last = expand_dims(last, 1) if ranks[1] == 1 else last
    chain = [first, *middle, last]
    letters = [chr(ord("a") + at) for at in range(len(chain) + 1)]
    terms = [letters[at] + letters[at + 1] for at in range(len(chain))]

    product = einsum(f"{','.join(terms)}->{letters[0]}{letters[-1]}", *chain, optimize="optimal")
    kept = [size for size, rank in zip(product.shape, ranks, strict=True) if rank == 2]
    return ops.reshape(product, kept)
