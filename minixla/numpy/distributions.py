"""Quantiles and histograms: how the elements of an array are distributed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.core.tracing import Tracer, one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable, refuse_complex
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import Axis, convert, kind_of, lifted, operand_shape
from minixla.numpy.shared_sections import PARAMETERS, REDUCED
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.promotion import inexact_type

# The offsets alpha and beta that place a quantile between the sorted elements.
# Source: Hyndman and Fan, Sample quantiles in statistical packages, 1996.
_OFFSETS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (1 / 2, 1 / 2),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    **dict.fromkeys(["linear", "lower", "higher", "midpoint", "nearest"], (1, 1)),
    **dict.fromkeys(["inverted_cdf", "averaged_inverted_cdf"], (0, 1)),
    "closest_observation": (-1 / 2, 3 / 2),
}
# The weight of the upper neighbor, from the fraction of the position and the lower index.
_SHARES = {
    "lower": lambda xp, part, low: part * 0,
    "higher": lambda xp, part, low: xp.ceil(part),
    "midpoint": lambda xp, part, low: xp.ceil(part) / 2,
    "nearest": lambda xp, part, low: xp.where(part == 1 / 2, low % 2, xp.ceil(part - 1 / 2)),
    "inverted_cdf": lambda xp, part, low: xp.ceil(part),
    "averaged_inverted_cdf": lambda xp, part, low: xp.where(part == 0, 1 / 2, 1.0),
    "closest_observation": lambda xp, part, low: xp.where((part == 0) & (low % 2 == 1), 0.0, 1.0),
}


def _neighbours(xp: Any, method: str, count: Any, q: Any) -> tuple[Any, Any, Any]:
    """Return the indices below and above a quantile, and the weight of the upper one."""
    alpha, beta = _OFFSETS[method]
    place = count * q + (alpha + q * (1 - alpha - beta) - 1)
    place = (count - 1) * q if alpha == beta == 1 else place
    low = xp.floor(place)
    share = place - low
    share = _SHARES[method](xp, share, low) if method in _SHARES else share
    return xp.clip(low, 0, count - 1), xp.clip(low + 1, 0, count - 1), share


#: Sections that quantiles share.
_QUANTILES = """
Args:
    a: an array; the result has its type, or float for integers.
    q: a scalar from 0 to 1 (0 to 100 for percentiles), or a vector of them, which becomes the
        first axis of the result.
    method: the value between two elements: "linear", "lower", "higher", "midpoint", "nearest",
        "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
        "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased" or "normal_unbiased",
        as in NumPy.
    weights: an array with the shape of `a`, or of its axes; only for the method "inverted_cdf".

Returns:
    An array with the shape of `q`, then that of `a` without the axes, or with size 1 there if
    `keepdims`.

Raises:
    AttributeValueError: `q`, the method or an axis is out of range, or the array is empty.
"""


def _quantile(
    name: str,
    scale: float,
    skips_nan: bool,
    a: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: Any = None,
) -> Array:
    operands.refuse_others(method, _OFFSETS, name, "method")
    is_vector = operands.shape_of_rank(q, range(2), name, "Pass a number or a vector.").rank
    fractions = _fractions(name, q, scale)
    static, traced = (fractions, None) if isinstance(fractions, tuple) else (None, fractions)
    how = axis, method, keepdims
    return _of_sorted(name, a, traced, static, *how, weights, skips_nan, bool(is_vector))


@one_program("a", "traced", "weights")
def _of_sorted(
    name: str,
    a: Any,
    traced: Any,
    known: tuple[float, ...] | None,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: Any,
    skips_nan: bool,
    is_vector: bool,
) -> Any:
    """Compute the quantiles for fractions, known or traced; a vector of them adds a first axis."""
    refuse_complex(name, kind_of(a, name))
    kind = inexact_type(kind_of(a, name))
    work = operands.widened(kind)
    rows, axes = _rows(name, convert(a, kind), axis)
    count: Any = rows.shape[-1]
    if not count:
        raise operands.index_error(name, "the array is empty", "Check for size 0 first.")
    # The last axis of every array computed from fractions is the axis of the fractions.
    fractions = np.array(known) if traced is None else lifted(convert(traced, work))
    order = mnp.argsort(rows)
    ordered = mnp.take_along_axis(rows, order, mode="clip")
    is_nan = mnp.isnan(ordered)
    is_bad = getitem(is_nan, (..., slice(0, 1) if skips_nan else slice(-1, None)))
    if weights is not None:
        if method != "inverted_cdf":
            problem, advice = "weights require another method", 'Pass method="inverted_cdf".'
            raise operands.value_error(name, problem, advice, method=method)
        refuse_complex(name, kind_of(weights, name))
        weights = convert(operands.weights_for(name, a, weights, axis), work)
        weights = mnp.broadcast_to(weights, operand_shape(a, name).dimensions)
        weights = _rows(name, weights, axis)[0]
        weights = mnp.where(is_nan, 0, mnp.take_along_axis(weights, order, mode="clip"))
        index = _weighted(weights, lifted(convert(fractions, work)))
        result = mnp.take_along_axis(ordered, index, mode="clip")
        is_bad = is_bad | mnp.any(~(weights >= 0), -1, keepdims=True)
    else:
        if skips_nan:
            count = mnp.sum(~is_nan, -1, work, keepdims=True)
            fractions = lifted(convert(fractions, work))
        xp = np if isinstance(fractions, np.ndarray) else mnp
        low, high, share = _neighbours(xp, method, count, fractions)
        share = convert(share, work)
        low, high = (_at(ordered, index, work) for index in (low, high))
        # A neighbor of weight 0 may be infinite.
        below = mnp.where(share == 1, 0, low * (1 - share))
        result = below + mnp.where(share == 0, 0, high * share)
    result = lifted(convert(mnp.where(is_bad, math.nan, result), kind))
    result = mnp.moveaxis(result, -1, 0)
    result = mnp.expand_dims(result, [1 + axis for axis in axes]) if keepdims else result
    return result if is_vector else getitem(result, 0)


def _rows(name: str, a: Any, axis: Axis) -> tuple[Any, tuple[int, ...]]:
    """Merge axes of an array into its last axis, and also return these axes."""
    shape = operand_shape(a, name)
    axes = operands.axes_of(axis, shape.rank, name)
    kept = [index for index in range(shape.rank) if index not in axes]
    sizes = [shape.dimensions[dimension] for dimension in kept]
    count = math.prod([shape.dimensions[axis] for axis in axes])
    turned = mnp.transpose(lifted(a), (*kept, *sorted(axes)))
    return mnp.reshape(turned, (*sizes, count)), axes


def _fractions(name: str, q: Any, scale: float) -> Any:
    """Return the vector q / scale: a tuple if known, so that positions are computed in double."""
    refuse_complex(name, kind_of(np.asarray(q) if isinstance(q, (list, tuple)) else q, name))
    if isinstance(q, Tracer) or hasattr(q, "aval"):
        return mnp.clip(mnp.ravel(operands.inexact_operand(q, name)) / scale, 0, 1)
    values = np.ravel(np.asarray(q, np.float64)) / scale
    if not ((values >= 0) & (values <= 1)).all():
        raise operands.value_error(name, "q is out of range", f"Pass 0 to {scale:g}.", q=q)
    return tuple(values.tolist())


def _at(rows: Any, index: Any, kind: Any) -> Any:
    """Return the elements of rows at a vector of indices, or at one index for each row."""
    index = lifted(convert(index, operands.default_int()))
    index = mnp.expand_dims(index, range(rows.ndim - index.ndim))
    return convert(mnp.take_along_axis(rows, index, mode="clip"), kind)


def _weighted(weights: Any, fractions: Any) -> Any:
    """Return the index at which running sums of weights reach fractions of their total."""
    sums = mnp.cumsum(weights, -1)
    wanted = mnp.expand_dims(fractions, -1) * getitem(sums, (..., None, slice(-1, None)))
    return mnp.sum(mnp.expand_dims(sums, -2) < wanted, -1)


@one_program("a", "weights", known=("q",))
@documented(PARAMETERS, _QUANTILES)
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Compute quantiles over axes; NaN if an element is NaN.

    Example:
        >>> np.quantile(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.25, 0.5]))
        Array([1.75, 2.5 ], dtype=float32)
    """
    operands.refuse_out("quantile", out)
    operands.refuse_in_place("quantile", overwrite_input)
    return _quantile("quantile", 1, False, a, q, axis, method, keepdims, weights)


@placeable("out_sharding")
@one_program("a", "weights", known=("q",))
@documented(PARAMETERS, _QUANTILES)
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Compute percentiles over axes; NaN if an element is NaN.

    Example:
        >>> np.percentile(np.array([1.0, 2.0, 3.0, 4.0]), 50)
        Array(2.5, dtype=float32)
    """
    operands.refuse_out("percentile", out)
    operands.refuse_in_place("percentile", overwrite_input)
    return _quantile("percentile", 100, False, a, q, axis, method, keepdims, weights)


@one_program("a", "weights", known=("q",))
@documented(PARAMETERS, _QUANTILES)
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Compute quantiles over axes, ignoring NaN.

    Example:
        >>> np.nanquantile(np.array([1.0, np.nan, 3.0]), 0.5)
        Array(2., dtype=float32)
    """
    operands.refuse_out("nanquantile", out)
    operands.refuse_in_place("nanquantile", overwrite_input)
    return _quantile("nanquantile", 1, True, a, q, axis, method, keepdims, weights)


@one_program("a", "weights", known=("q",))
@documented(PARAMETERS, _QUANTILES)
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Compute percentiles over axes, ignoring NaN.

    Example:
        >>> np.nanpercentile(np.array([1.0, np.nan, 3.0]), 100)
        Array(3., dtype=float32)
    """
    operands.refuse_out("nanpercentile", out)
    operands.refuse_in_place("nanpercentile", overwrite_input)
    return _quantile("nanpercentile", 100, True, a, q, axis, method, keepdims, weights)


@one_program("a")
@documented(PARAMETERS, REDUCED)
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Compute the median over axes; see `quantile`.

    Example:
        >>> np.median(np.array([3.0, 1.0, 2.0]))
        Array(2., dtype=float32)
        >>> np.median(np.array([[1, 2], [3, 5]]), axis=0)
        Array([2. , 3.5], dtype=float32)
    """
    operands.refuse_out("median", out)
    operands.refuse_in_place("median", overwrite_input)
    return _quantile("median", 1, False, a, 0.5, axis, "linear", keepdims)


@one_program("a")
@documented(PARAMETERS, REDUCED)
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Compute the median over axes, ignoring NaN.

    Example:
        >>> np.nanmedian(np.array([3.0, np.nan, 2.0]))
        Array(2.5, dtype=float32)
    """
    operands.refuse_out("nanmedian", out)
    operands.refuse_in_place("nanmedian", overwrite_input)
    return _quantile("nanmedian", 1, True, a, 0.5, axis, "linear", keepdims)


# Histograms.


def _edges(name: str, a: Any, bins: Any, range: Any) -> Any:
    """Return the edges of bins, which are given or equally spaced."""
    kind = inexact_type(kind_of(a, name))
    if isinstance(bins, str):
        problem = "bins must be a number or edges"
        raise operands.type_error(name, problem, "Compute the edges with NumPy.", bins=bins)
    shape = operands.shape_of_rank(bins, (0, 1), name, "Pass a number, or a vector of edges.")
    if not shape.size:
        raise operands.index_error(name, "the vector of edges is empty", "Pass one or more.")
    if shape.rank:
        edges = operands.known(bins)
        if edges is not None and not np.all(edges[:-1] <= edges[1:]):
            raise operands.value_error(name, "bins do not ascend", "Sort the edges.", bins=edges)
        return lifted(convert(bins, kind))
    if not (count := operands.static_size(bins, name, "bins")):
        raise operands.value_error(name, "the number of bins is 0", "Pass 1 or more.", bins=bins)
    if range is None:
        range = (mnp.min(a), mnp.max(a)) if operand_shape(a, name).size else (0, 1)
    elif len(range := operands.listed(range)) != 2:
        raise operands.value_error(name, "range is not a pair", "Pass the minimum and maximum.")
    elif not _may_ascend(*map(operands.known, range)):
        problem, advice = "range is not ascending, or not finite", "Pass finite numbers."
        raise operands.value_error(name, problem, advice, range=range)
    low, high = (lifted(convert(bound, kind)) for bound in range)
    widening = mnp.where(low == high, 0.5, 0.0)
    return mnp.linspace(low - widening, high + widening, count + 1, dtype=kind)


def _may_ascend(low: Any, high: Any) -> bool:
    return low is None or high is None or bool(-math.inf < low <= high < math.inf)


def _counted(
    columns: Sequence[Any], edges: Sequence[Any], weights: Any, density: bool | None
) -> Any:
    """Count the points in each bin; the columns hold the coordinates of the points."""
    sizes = [edge.shape[0] - 1 for edge in edges]
    counts = mnp.zeros(sizes, kind_of(weights))
    places = []
    for column, borders in zip(columns, edges, strict=True):
        bins_of_points = mnp.searchsorted(borders, column, "right")
        # The last bin includes both edges; points outside all bins get an index out of bounds.
        bins_of_points = mnp.where(column == borders[-1], borders.shape[0] - 1, bins_of_points) - 1
        places.append(mnp.where(bins_of_points < 0, borders.shape[0], bins_of_points))
    counts = IndexUpdate(counts, tuple(places)).add(weights, mode="drop")
    if density:
        counts = counts / mnp.sum(counts)
        for width in mnp.ix_(*map(mnp.diff, edges)):
            counts = counts / width
    return counts


def _points(name: str, points: Any, weights: Any) -> list[Any]:
    """Convert points, and weights if given, to floats of one type."""
    arrays = [points] if weights is None else [points, weights]
    return [operands.inexact_operand(x, name) for x in operands.convert_all(name, arrays)]


@documented(PARAMETERS)
def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Array | np.ndarray | Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """Count the elements in each bin, and return the counts and the edges of the bins.

    A bin includes its left edge. The last bin also includes its right edge.

    Args:
        a: an array; its shape is ignored.
        bins: the number of bins of equal width, or the edges, an ascending vector.
        range: the first and the last edge; default: the minimum and the maximum.
        weights: the weights of the elements, an array of the shape of `a`.
        density: whether to divide by the width of the bin and by the total.

    Returns:
        The counts, of a float type, and the edges.

    Example:
        >>> np.histogram(np.array([1.0, 2.0, 2.0, 5.0]), bins=np.array([0, 2, 4, 6]))
        (Array([1., 2., 1.], dtype=float32), Array([0., 2., 4., 6.], dtype=float32))
    """
    points, *amounts = _points("histogram", a, weights)
    amounts = amounts[0] if amounts else mnp.ones_like(points)
    if amounts.shape != points.shape:
        given_shapes = {"shape": points.shape, "weights_shape": amounts.shape}
        advice = "Pass a weight for each element."
        raise operands.shape_error("histogram", "the weights do not fit", advice, **given_shapes)
    edges = _edges("histogram", points, bins, range)
    return _counted([mnp.ravel(points)], [edges], mnp.ravel(amounts), density), edges


@documented(PARAMETERS)
def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Array | np.ndarray | Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Count the points in each box of a grid, and return the counts and the edges.

    Args:
        sample: a matrix with a point in each row.
        bins: the number of bins for all axes, or a list with the number or the edges for each.
        range: for each axis None, or the first and the last edge.
        weights: the weights of the points.
        density: whether to divide by the volume of the box and by the total.

    Returns:
        The counts, with a dimension for each coordinate, and a list of edges.

    Example:
        >>> counts, edges = np.histogramdd(np.array([[0.0, 0.0], [1.0, 2.0]]), bins=2)
        >>> counts
        Array([[1, 0],
               [0, 1]], dtype=int32)
    """
    operands.shape_of_rank(sample, (2,), "histogramdd", "Pass a matrix of points.")
    points, *amounts = _points("histogramdd", sample, weights)
    count, size = points.shape
    amounts = amounts[0] if amounts else mnp.ones((count,), points.dtype if density else int)
    is_number = not hasattr(bins, "__len__")
    bins = [bins] * size if is_number else list(bins)
    ranges = [None] * size if range is None else operands.listed(range)
    if len(bins) != size or len(ranges) != size or amounts.shape != (count,):
        problem = "bins, range or weights do not match the points"
        details = dict(shape=points.shape, bins=bins, range=range, weights_shape=amounts.shape)
        advice = "Pass bins and a range for each axis, and a weight for each point."
        raise operands.shape_error("histogramdd", problem, advice, **details)
    columns = [getitem(points, (slice(None), at)) for at, _ in enumerate(bins)]
    edges = [_edges("histogramdd", *column) for column in zip(columns, bins, ranges, strict=True)]
    return _counted(columns, edges, amounts, density), edges


@documented(PARAMETERS)
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Array | np.ndarray | Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Count the points in each rectangle of a grid, and return the counts and the edges.

    Args:
        x: the first coordinates of the points, a vector.
        y: the second coordinates.
        bins: the number of bins or the edges, for both axes or for each.
        range: for each axis None, or the first and the last edge.
        weights: the weights of the points.
        density: whether to divide by the area of the rectangle and by the total.

    Returns:
        An array [x, y] of counts, and the edges along x and y.

    Example:
        >>> counts, _, _ = np.histogram2d(np.array([0, 0, 1]), np.array([0, 1, 1]), bins=2)
        >>> counts
        Array([[1, 1],
               [0, 1]], dtype=int32)
    """
    is_one = not hasattr(bins, "__len__") or len(bins) not in (1, 2)
    both = [bins, bins] if is_one else list(bins) * (2 // len(bins))
    points = mnp.stack(operands.convert_all("histogram2d", [x, y]), 1)
    counts, (along_x, along_y) = histogramdd(points, both, range, weights, density)
    return counts, along_x, along_y
