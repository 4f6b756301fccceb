"""Evenly spaced samples and grids."""

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import PRED
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program, with_flags
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import common_type, lifted, requested_type
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.operators import convert
from minixla_ops.elementwise.promotion import inexact_type


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any: ...
@documented(PARAMETERS)
@one_program("start", "stop", numbers=True)
@placeable("device")
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Args:
        start: an array.
        stop: an array, which broadcasts with `start`.
        num: the number of samples.
        endpoint: whether `stop` is the last sample.
        retstep: whether to also return the spacing.
        dtype: the element type of the result; default: that of the bounds, or float for integers.
        axis: the position of the new axis in the result.

    Returns:
        An array of `num` samples along the new axis; with `retstep` a pair of it and the spacing.

    Example:
        >>> np.linspace(0, 1, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = operands.static_size(num, "linspace", "num")
    kind = requested_type(dtype, "linspace", inexact_type(common_type("linspace", start, stop)))
    work = inexact_type(kind)
    converted = operands.convert_all("linspace", [start, stop], work)
    (low, high), _, _ = operands.promoted("linspace", converted)
    place = operands.axis_of(axis, low.ndim + 1, "linspace")
    first, last = (mnp.expand_dims(bound, place) for bound in (low, high))
    gaps = count - 1 if endpoint else count
    if count < 2:
        points = ops.slice_in_dim(first, 0, count, place)
    else:
        spread = [gaps if at == place else 1 for at in range(first.ndim)]
        parts = mnp.reshape(convert(ops.iota(Shape(work.real, (gaps,)), 0) / gaps, work), spread)
        points = first * (1 - parts) + last * parts
        # The last point is exact, whatever rounding does to the others.
        points = ops.concat_in_dim([points, last], place) if count > gaps else points
    result = lifted(convert(ops.floor(points) if kind.is_integer else points, kind))
    if not retstep:
        return result
    if gaps > 0:
        return result, (high - low) / gaps
    return result, mnp.full(low.shape if count == 1 and not endpoint else (), math.nan, work)


_NO_VECTOR = "an argument is not a vector"


@documented(PARAMETERS)
@with_flags
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Return the coordinate arrays of a grid, one for each vector.

    Args:
        *xi: vectors or scalars.
        sparse: whether an array has size 1 in the dimensions of the others.
        indexing: "ij" keeps the order of the vectors' dimensions, "xy" exchanges the first two.

    Returns:
        A list of arrays, one for each vector.

    Example:
        >>> x, y = np.meshgrid(np.array([1, 2, 3]), np.array([4, 5]))
        >>> x
        Array([[1, 2, 3],
               [1, 2, 3]], dtype=int32)
        >>> y
        Array([[4, 4, 4],
               [5, 5, 5]], dtype=int32)
    """
    operands.refuse_others(indexing, ("xy", "ij"), "meshgrid", "indexing")
    vectors = [mnp.atleast_1d(x) for x in xi]
    for vector in vectors:
        operands.shape_of_rank(vector, (1,), "meshgrid", "Give vectors.", _NO_VECTOR)
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = 1, 0
    sizes = [1 if sparse else vectors[place].size for place in places]
    return [_along(x, place, sizes) for x, place in zip(vectors, places, strict=True)]


def _along(vector: Any, place: int, sizes: Sequence[int]) -> Any:
    """A vector along dimension `place` of an array of `sizes`."""
    return ops.broadcast_in_dim(vector, operands.resized(sizes, place, vector.size), [place])


@documented(PARAMETERS)
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return vectors as arrays that broadcast to their grid, for indexing all combinations.

    Booleans become the positions of the true ones.

    Args:
        *args: vectors of integers or booleans.

    Returns:
        A tuple of arrays, one for each vector, which broadcast together.

    Example:
        >>> rows, columns = np.ix_(np.array([0, 2]), np.array([1, 2]))
        >>> np.arange(9).reshape(3, 3)[rows, columns]
        Array([[1, 2],
               [7, 8]], dtype=int32)
    """
    grids = []
    for at, x in enumerate(args):
        shape = operands.shape_of_rank(x, (1,), "ix_", "Give vectors of indices.", _NO_VECTOR)
        x = mnp.nonzero(x)[0] if shape.element_type is PRED else lifted(x)
        grids.append(_along(x, at, [1] * len(args)))
    return tuple(grids)
