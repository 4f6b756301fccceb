"""Functions that make arrays from numbers, lists and counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ElementType, element_type
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import inexact_type
from minixla.core.shapes import Shape
from minixla.core.tracing import Tracer, host_array, not_a_value
from minixla.numpy.manipulation import astype, broadcast_to, expand_dims, moveaxis, reshape
from minixla.numpy.operands import (
    axis_of,
    common_type,
    concrete,
    default_float,
    default_int,
    keep_weak,
    lifted,
    operand_shape,
    requested_type,
    static_size,
    static_sizes,
)
from minixla_ops.elementwise.operators import broadcast_shapes, convert
from minixla_ops.vocabulary.shorthand import splat

__all__ = [
    "arange",
    "array",
    "asarray",
    "empty",
    "empty_like",
    "fromfunction",
    "full",
    "full_like",
    "geomspace",
    "indices",
    "ix_",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def array(
    object: Any, dtype: Any = None, *, copy: bool = True, order: str | None = "K", ndmin: int = 0
) -> Any:
    """An array made of an array, a number, or nested lists of these.

    Args:
        object: what it is made of.
        dtype: the result's; default: that of `object`, or what its members have in common.
        copy: has no effect, for arrays do not change.
        order: has no effect.
        ndmin: how many dimensions the result has at least; new ones come first.

    Raises:
        ShapeError: it is something else, or the lists are ragged.
        IntegerRangeError: a Python number does not fit `dtype`.
    """
    kind = None if dtype is None else requested_type(dtype, "array")
    is_number = isinstance(object, (int, float, complex)) and not isinstance(object, np.generic)
    result = object
    if isinstance(object, (list, tuple)):
        result = _from_members(object, kind)
    elif kind is not None and is_number:
        result = _host_array(object, [object], kind)
    rank = operand_shape(result, "array").rank
    source = lifted(result)
    if kind is not None:
        source = astype(source, kind) if kind.kind == "pred" else lifted(convert(source, kind))
    return expand_dims(source, tuple(range(ndmin - rank))) if ndmin > rank else source


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None
) -> Any:
    """An array made of an array, a number, or nested lists of these; see `array`."""
    return array(a, dtype)


def _from_members(members: Sequence[Any], kind: ElementType | None) -> Any:
    leaves = _leaves(members)
    if not any(isinstance(leaf, Tracer) or hasattr(leaf, "aval") for leaf in leaves):
        return _host_array(members, leaves, kind)
    kind = common_type("array", *leaves) if kind is None else kind
    from minixla.numpy.joining import stack

    return stack([array(each, kind) for each in members])


def _leaves(members: Sequence[Any]) -> list[Any]:
    # An explicit stack: how deep lists may be nested must not be Python's recursion limit.
    found, waiting = [], [members]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (list, tuple)):
            waiting.extend(each)
        else:
            found.append(each)
    return found


def _host_array(members: Any, leaves: Sequence[Any], kind: ElementType | None) -> Any:
    if kind is None and leaves:
        kind = common_type("array", *leaves)
    kind = kind or default_float()
    try:
        return np.asarray(members, dtype=kind.dtype)
    except OverflowError:
        for leaf in leaves:
            number = leaf.item() if isinstance(leaf, np.generic) else leaf
            host_array(number, Shape(kind, ()), "array", "a member")
        raise
    except (ValueError, TypeError) as error:
        raise explain(
            ShapeError,
            "array",
            "no array can be made of this",
            [str(error)],
            f"Give numbers that {kind} has; lists of one level must be equally long.",
        ) from error


def _filled(
    value: Any,
    kind: ElementType,
    sizes: tuple[int, ...],
    subject: str = "full",
    name: str = "fill_value",
) -> Any:
    try:
        return lifted(splat(value, Shape(kind, sizes)))
    except OverflowError:
        host_array(value, Shape(kind, ()), subject, name)
        raise


def _kind(dtype: Any, subject: str) -> ElementType:
    return default_float() if dtype is None else requested_type(dtype, subject)


def zeros(shape: Any, dtype: Any = None) -> Any:
    """Zeros of a shape: a size, or a sequence of them."""
    return _filled(0, _kind(dtype, "zeros"), static_sizes(shape, "zeros"))


def ones(shape: Any, dtype: Any = None) -> Any:
    """Ones of a shape: a size, or a sequence of them."""
    return _filled(1, _kind(dtype, "ones"), static_sizes(shape, "ones"))


def empty(shape: Any, dtype: Any = None) -> Any:
    """An array of a shape, of zeros."""
    return _filled(0, _kind(dtype, "empty"), static_sizes(shape, "empty"))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of a shape that holds `fill_value`, which broadcasts to it."""
    own = operand_shape(fill_value, "full")
    kind = own.element_type if dtype is None else requested_type(dtype, "full")
    sizes = static_sizes(shape, "full")
    if isinstance(fill_value, (int, float, complex)):
        result = _filled(fill_value, kind, sizes)
    else:
        result = broadcast_to(convert(fill_value, kind), sizes)
    return result if dtype is not None else keep_weak(result, fill_value)


def _like(a: Any, dtype: Any, shape: Any, subject: str) -> tuple[ElementType, tuple[int, ...]]:
    if hasattr(a, "dtype") and hasattr(a, "shape"):
        own = Shape(requested_type(a.dtype, subject), a.shape)
    else:
        own = operand_shape(a, subject)
    kind = own.element_type if dtype is None else requested_type(dtype, subject)
    return kind, own.dimensions if shape is None else static_sizes(shape, subject)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros of the shape and dtype of `a`, where these are not given."""
    return _filled(0, *_like(a, dtype, shape, "zeros_like"))


def ones_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Ones of the shape and dtype of `a`, where these are not given."""
    return _filled(1, *_like(a, dtype, shape, "ones_like"))


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros of the shape and dtype of `prototype`, where these are not given."""
    return _filled(0, *_like(prototype, dtype, shape, "empty_like"))


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """`fill_value` in the shape and dtype of `a`, where these are not given."""
    kind, sizes = _like(a, dtype, shape, "full_like")
    return full(sizes, fill_value, kind)


def _numbers(subject: str, *bounds: Any) -> list[Any]:
    """Arguments that must be known, as Python or NumPy scalars."""
    found = []
    for bound in bounds:
        if bound is None or isinstance(bound, (int, float)):
            found.append(bound)
            continue
        operand_shape(bound, subject)
        value = concrete(bound, subject, "Its bounds decide about its size: give Python numbers.")
        if value.ndim or np.iscomplexobj(value):
            raise explain(
                AttributeValueError,
                subject,
                "a bound is not a real number",
                [f"given {bound!r}"],
                "Give real scalars.",
            )
        found.append(value[()])
    return found


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """Numbers from `start` (default 0) to before `stop`, `step` apart (default 1).

    Raises:
        ConcretizationError: a bound is a staged value.
        AttributeValueError: a bound is no finite real number, or `step` is 0.
        IntegerRangeError: `start` or `step` does not fit the result's type.
    """
    given = [bound for bound in (start, stop, step) if bound is not None]
    if not given:
        raise not_a_value(start, "arange", "start")
    kind = common_type("arange", *given) if dtype is None else requested_type(dtype, "arange")
    start, stop, step = _numbers("arange", start, stop, step)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise explain(AttributeValueError, "arange", "step is 0", advice="Give another step.")
    size = _steps(start, stop, 1 if step is None else step)
    work = element_type("f32") if kind.is_float and kind.bits < 32 else kind
    if kind.kind == "pred":
        return lifted(np.arange(start, stop, step).astype(np.bool_))
    counted = ops.iota(Shape(work, (size,)), 0)
    if step is not None and step != 1:
        counted = counted * _filled(step, work, (), "arange", "step")
    if start != 0:
        counted = counted + _filled(start, work, (), "arange", "start")
    return lifted(convert(counted, kind))


def _steps(start: Any, stop: Any, step: Any) -> int:
    """How many steps there are from `start` to before `stop`."""
    try:
        return max(0, math.ceil((stop - start) / step))
    except (OverflowError, ValueError) as error:
        raise explain(
            AttributeValueError,
            "arange",
            "a bound is not finite, or far too large",
            [f"start = {start}, stop = {stop}, step = {step}"],
            "Give finite numbers.",
        ) from error


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers evenly from `start` to `stop`, which is the last unless `endpoint` is False.

    Args:
        start: an array.
        stop: an array, which broadcasts with `start`.
        num: how many.
        endpoint: whether `stop` is included.
        retstep: whether to return the distance too.
        dtype: the result's; default: the inputs', at least float.
        axis: where the new axis is in the result.

    Raises:
        AttributeValueError: `num` is negative.
    """
    count = static_size(num, "linspace", "num")
    kind = (
        inexact_type(common_type("linspace", start, stop))
        if dtype is None
        else requested_type(dtype, "linspace")
    )
    work = inexact_type(kind)
    sizes = broadcast_shapes([np.shape(start), np.shape(stop)], "linspace")
    first, last = (broadcast_to(convert(each, work), sizes) for each in (start, stop))
    place = axis_of(axis, len(sizes) + 1, "linspace")
    gaps = count - 1 if endpoint else count
    points = _interpolated(first, last, count, gaps, work, endpoint, place, sizes)
    if kind.is_integer:
        points = ops.floor(points)
    result = lifted(convert(points, kind))
    if not retstep:
        return result
    if gaps > 0:
        return result, (last - first) / gaps
    return result, full(sizes if count == 1 and not endpoint else (), math.nan, work)


def _interpolated(
    first: Any,
    last: Any,
    count: int,
    gaps: int,
    work: ElementType,
    endpoint: bool,
    place: int,
    sizes: tuple[int, ...],
) -> Any:
    if count == 0:
        return zeros((*sizes[:place], 0, *sizes[place:]), work)
    opened = expand_dims(first, place)
    if count == 1:
        return opened
    spread = [1] * (len(sizes) + 1)
    spread[place] = gaps
    parts = ops.iota(Shape(work.real, (gaps,)), 0) / gaps
    parts = reshape(convert(parts, work), spread)
    points = opened * (1 - parts) + expand_dims(last, place) * parts
    if endpoint:
        # The last point is exact, whatever rounding does to the others.
        points = ops.concat_in_dim([points, expand_dims(last, place)], place)
    return points


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`base` to the power of `num` numbers evenly from `start` to `stop`."""
    from minixla.numpy.arithmetic import power

    points = linspace(start, stop, num, endpoint, False, None, axis)
    result = power(base, points)
    return result if dtype is None else astype(result, dtype)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before."""
    from minixla.numpy.elementwise import log10, sign

    signs = sign(astype(start, inexact_type(common_type("geomspace", start, stop))))
    powers = logspace(log10(start / signs), log10(stop / signs), num, endpoint)
    result = moveaxis(signs * powers, 0, axis)
    return result if dtype is None else astype(result, dtype)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid, one for each vector.

    Args:
        xi: vectors (or scalars).
        copy: has no effect.
        sparse: whether an array has size 1 in the dimensions of the others.
        indexing: "ij" gives the vectors' dimensions in order, "xy" exchanges the first two.

    Raises:
        AttributeValueError: `indexing` is something else.
        ShapeError: an array has more than one dimension.
    """
    if indexing not in ("xy", "ij"):
        raise explain(
            AttributeValueError,
            "meshgrid",
            f"indexing {indexing!r} is unknown",
            advice='Give "xy" or "ij".',
        )
    vectors = [reshape(x, (-1,)) if np.ndim(x) == 0 else lifted(x) for x in xi]
    shapes = [operand_shape(x, "meshgrid") for x in vectors]
    if any(shape.rank != 1 for shape in shapes):
        raise explain(
            ShapeError,
            "meshgrid",
            "an argument is not a vector",
            [f"argument {i}: {shape}" for i, shape in enumerate(shapes)],
            "Give vectors.",
        )
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[0], places[1] = 1, 0
    sizes = [0] * len(vectors)
    for place, shape in zip(places, shapes, strict=True):
        sizes[place] = shape.size
    return [
        _along(x, place, [1] * len(sizes) if sparse else sizes)
        for x, place in zip(vectors, places, strict=True)
    ]


def _along(vector: Any, place: int, sizes: Sequence[int]) -> Any:
    """A vector along dimension `place` of an array of `sizes`."""
    sizes = list(sizes)
    sizes[place] = operand_shape(vector, "meshgrid").size
    return ops.broadcast_in_dim(vector, sizes, [place])


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of each element along each dimension of an array of sizes `dimensions`.

    Returns:
        One array of shape (number of dimensions, *dimensions); with `sparse` a tuple of arrays
        that broadcast together.
    """
    sizes = static_sizes(tuple(dimensions), "indices")
    kind = default_int() if dtype is None else requested_type(dtype, "indices")
    if sparse:
        vectors = [ops.iota(Shape(kind, (size,)), 0) for size in sizes]
        return tuple([_along(v, at, [1] * len(sizes)) for at, v in enumerate(vectors)])
    if not sizes:
        return zeros((0,), kind)
    from minixla.numpy.joining import stack

    return stack([ops.iota(Shape(kind, sizes), at) for at in range(len(sizes))])


def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors as arrays that broadcast to their grid, for indexing with all combinations."""
    for each in args:
        if operand_shape(each, "ix_").rank != 1:
            raise explain(
                ShapeError,
                "ix_",
                "an argument is not a vector",
                [f"given {operand_shape(each, 'ix_')}"],
                "Give vectors of indices.",
            )
    return tuple([_along(lifted(x), at, [1] * len(args)) for at, x in enumerate(args)])


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the index arrays of an array of `shape`."""
    return function(*indices(shape, dtype), **kwargs)
