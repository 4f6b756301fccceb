"""`mx.numpy.linalg`: factors, eigenvalues, singular values and norms of matrices, and products."""

# ruff: noqa: F403 - the modules list their public names

import math
from functools import partial
from typing import Any

from jax.numpy import tensordot, vecdot
from jax.numpy.linalg import cross, matrix_power, multi_dot, outer

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.core.source import offer_functions
from minixla.core.tracing import one_program
from minixla.numpy import operands, spectra, systems
from minixla.numpy.element_functions import root
from minixla.numpy.linear_algebra import matmul
from minixla.numpy.manipulation import matrix_transpose
from minixla.numpy.operands import Axis, axes_of, inexact_operand
from minixla.numpy.shared_sections import PARAMETERS
from minixla.numpy.spectra import *
from minixla.numpy.systems import *
from minixla.typing import Array, ArrayLike, DTypeLike

__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose"]
__all__ += ["multi_dot", "norm", "outer", "tensordot", "trace", "vecdot", "vector_norm"]
__all__ += spectra.__all__
__all__ += systems.__all__
offer_functions("minixla.numpy", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)


@documented(PARAMETERS)
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of matrices in the last two axes.

    Args:
        x: matrices [..., m, n].
        offset: the distance above the main diagonal, or below it if negative.

    Raises:
        AttributeValueError: `x` has fewer than two dimensions.

    Example:
        >>> np.linalg.diagonal(np.array([[[1, 2], [3, 4]]]))
        Array([[1, 4]], dtype=int32)
    """
    return mnp.diagonal(x, offset, -2, -1)


@documented(PARAMETERS)
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sum the diagonals of matrices in the last two axes; see `diagonal`.

    Args:
        x: matrices [..., m, n].
        offset: the distance above the main diagonal, or below it if negative.
        dtype: the type to sum in and return; default: that of `x`, widened to the default integer
            type.

    Raises:
        AttributeValueError: `x` has fewer than two dimensions.

    Example:
        >>> np.linalg.trace(np.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    return mnp.trace(x, offset, -2, -1, dtype)


@documented(PARAMETERS)
@one_program("x")
def norm(
    x: ArrayLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """Compute the norm of vectors or matrices.

    By default it is the root of the sum of squares. One axis stands for vectors and two axes for
    matrices. None stands for all elements, which must form a vector or a matrix if `ord` is given.

    Args:
        x: an array.
        ord: for vectors inf, -inf, 0 or another scalar p; for matrices "fro", 1, -1, inf or -inf,
            or by singular values 2, -2 or "nuc".
        axis: an axis of vectors, a pair of axes of matrices, or None for all elements.
        keepdims: whether the reduced axes stay, with size 1.

    Returns:
        A real array without the axes, or with size 1 there if `keepdims`.

    Example:
        >>> np.linalg.norm(np.array([3.0, 4.0]))
        Array(5., dtype=float32)
        >>> np.linalg.norm(np.array([[1.0, -2.0], [3.0, 4.0]]), ord=np.inf)
        Array(7., dtype=float32)
    """
    x = inexact_operand(x, "norm")
    if axis is None and ord is None:
        return _root_of_squares(x, tuple(range(x.ndim)), keepdims)
    axes = axes_of(None if axis is None else operands.listed(axis), x.ndim, "norm")
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise _no_norm(ord, f"{len(axes)} axes")
    if getattr(ord, "ndim", 0):
        raise _no_norm(ord, "matrices")
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, axes, keepdims)
    if ord in (2, -2, "nuc"):
        from minixla.numpy import isometries  # it uses this module

        x = mnp.moveaxis(x, axes, (-2, -1))
        extreme = partial(isometries.extreme_value, pick=_extreme(ord)) if ord != "nuc" else None
        result = systems.computed(extreme or isometries.nuclear_norm, x, "norm")
        return mnp.expand_dims(result, axes) if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        raise _no_norm(ord, "matrices")
    summed, compared = axes if ord in (1, -1) else axes[::-1]
    sums = mnp.sum(mnp.absolute(x), summed, keepdims=True)
    extreme = _extreme(ord)(sums, compared, keepdims=True)
    return extreme if keepdims else mnp.squeeze(extreme, axes)


def _extreme(ord: Any) -> Any:
    """Return a function for the maximum of sizes (0 for an empty axis), or for the minimum."""
    return partial(mnp.max, initial=0) if ord > 0 else mnp.min


def _no_norm(ord: Any, what: str) -> Exception:
    problem = f"ord={ord!r} is not a norm of {what}"
    advice = "Vectors: None, inf, -inf, 0 or a number; matrices: None, 'fro', 'nuc', 1, -1, "
    advice += "2, -2, inf or -inf."
    return operands.value_error("norm", problem, advice)


def _root_of_squares(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return root(mnp.sum(mnp.real(x * mnp.conjugate(x)), axes, keepdims=keepdims))


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(ord, str) or getattr(ord, "ndim", 0):
        raise _no_norm(ord, "vectors")
    if ord is None or ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = mnp.absolute(x)
    if ord in (math.inf, -math.inf):
        return _extreme(ord)(size, axes, keepdims=keepdims)
    if ord in (0, 1):
        return mnp.sum(size if ord else x != 0, axes, size.dtype, None, keepdims)
    total = mnp.sum(size**ord, axes, keepdims=True)
    is_zero = total == (0 if ord > 0 else math.inf)  # there the derivative is 0
    if ord < 1 or ord % 1:  # the power is infinite at 0, or a derivative of it is
        total = mnp.sum(mnp.where(is_zero, 1, size) ** ord, axes, keepdims=True)
    result = mnp.where(is_zero, 0, mnp.where(is_zero, 1, total) ** (1 / ord))
    return result if keepdims else mnp.squeeze(result, axes)


@documented(PARAMETERS)
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float | str = 2
) -> Array:
    """Compute the norm of vectors, whose components may be along several axes; see `norm`.

    Args:
        x: an array.
        axis: an axis or several; None for all.
        keepdims: whether the reduced axes stay, with size 1.
        ord: inf, -inf, 0 or another scalar.

    Returns:
        A real array without the axes, or with size 1 there if `keepdims`.

    Example:
        >>> np.linalg.vector_norm(np.array([[3.0, 4.0], [0.0, 1.0]]), axis=1)
        Array([5., 1.], dtype=float32)
    """
    x = inexact_operand(x, "vector_norm")
    return _vector_norm(x, ord, axes_of(axis, x.ndim, "vector_norm"), keepdims)


@documented(PARAMETERS)
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """Compute the norm of matrices in the last two axes; see `norm`.

    Args:
        x: matrices [..., m, n].
        keepdims: whether the last two axes stay, with size 1.
        ord: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Returns:
        A real array of two dimensions less, or of size 1 there if `keepdims`.

    Example:
        >>> np.linalg.matrix_norm(np.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
        Array(6., dtype=float32)
    """
    return norm(x, ord, (-2, -1), keepdims)
