"""Functions that make arrays from numbers, lists and counts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import F32, PRED
from minixla.core.shapes import Shape
from minixla.core.tracing import host_array, not_a_value, one_program, with_flags
from minixla.numpy import operands
from minixla.numpy.element_functions import named, placeable
from minixla.numpy.operands import common_type, lifted, operand_shape, requested_type, static_sizes
from minixla_ops.elementwise.operators import convert
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers.shorthand import splat


@placeable("device", "out_sharding")
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
    if isinstance(object, (list, tuple)):
        object = operands.from_members(object, kind)
    elif kind is not None and is_number:
        object = operands.of_host(object, [object], kind)
    rank = operand_shape(object, "array").rank
    source = lifted(object) if kind is None else mnp.astype(object, kind)
    return mnp.expand_dims(source, tuple(range(ndmin - rank))) if ndmin > rank else source


@placeable("device", "out_sharding")
def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None
) -> Any:
    """An array made of an array, a number, or nested lists of these; see `array`."""
    made = array(a, dtype)
    if copy is False and getattr(a, "dtype", None) != made.dtype:
        advice = "Give an array of that dtype, or copy=None."
        raise operands.value_error("asarray", "it cannot be made without a copy", advice, a=a)
    return made


def _filled(value: Any, shape: Shape, subject: str = "full", name: str = "fill_value") -> Any:
    try:
        return lifted(splat(value, shape))
    except OverflowError:
        host_array(value, Shape(shape.element_type), subject, name)
        raise


def _of_number(name: str, number: int, text: str) -> Any:
    def made(shape: Any, dtype: Any = None) -> Any:
        kind = requested_type(dtype, name, operands.default_float())
        return _filled(number, Shape(kind, static_sizes(shape, name)))

    return placeable("device", "out_sharding")(named(made, name, text))


zeros = _of_number("zeros", 0, "Zeros of a shape: a size, or a sequence of them.")
ones = _of_number("ones", 1, "Ones of a shape: a size, or a sequence of them.")
empty = _of_number("empty", 0, "An array of a shape, of zeros.")


@placeable("device", "out_sharding")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of a shape that holds `fill_value`, which broadcasts to it."""
    kind = requested_type(dtype, "full", operands.kind_of(fill_value, "full"))
    sizes = static_sizes(shape, "full")
    if isinstance(fill_value, (int, float, complex)):
        result = _filled(fill_value, Shape(kind, sizes))
    else:
        result = mnp.broadcast_to(convert(fill_value, kind), sizes)
    return result if dtype is not None else operands.keep_weak(result, fill_value)


def _like(a: Any, dtype: Any, shape: Any, subject: str) -> Shape:
    if hasattr(a, "dtype") and hasattr(a, "shape"):
        own = Shape(requested_type(a.dtype, subject), a.shape)
    else:
        own = operand_shape(a, subject)
    kind = requested_type(dtype, subject, own.element_type)
    return Shape(kind, own.dimensions if shape is None else static_sizes(shape, subject))


@placeable("device", "out_sharding")
def zeros_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros of the shape and dtype of `a`, or those given."""
    return _filled(0, _like(a, dtype, shape, "zeros_like"))


@placeable("device", "out_sharding")
def ones_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Ones of the shape and dtype of `a`, or those given."""
    return _filled(1, _like(a, dtype, shape, "ones_like"))


@placeable("device")
def empty_like(prototype: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros of the shape and dtype of `prototype`, or those given."""
    return _filled(0, _like(prototype, dtype, shape, "empty_like"))


@placeable("device", "out_sharding")
def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """`fill_value` in the shape and dtype of `a`, or those given."""
    own = _like(a, dtype, shape, "full_like")
    return full(own.dimensions, fill_value, own.element_type)


def _number(bound: Any) -> Any:
    """A bound, which must be known, as a Python or NumPy scalar."""
    if bound is None or isinstance(bound, (int, float)):
        return bound
    operand_shape(bound, "arange")
    value = operands.concrete(bound, "arange", "Its bounds decide about its size: give numbers.")
    if value.ndim or np.iscomplexobj(value):
        problem, advice = "a bound is not a real number", "Give real scalars."
        raise operands.value_error("arange", problem, advice, bound=bound)
    return value[()]


@placeable("device", "out_sharding")
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
    start, stop, step = map(_number, (start, stop, 1 if step is None else step))
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise operands.value_error("arange", "step is 0", "Give another step.")
    try:
        size = max(0, math.ceil((stop - start) / step))
    except (OverflowError, ValueError) as error:
        problem, advice = "a bound is not finite, or far too large", "Give finite numbers."
        raise operands.value_error(
            "arange", problem, advice, start=start, stop=stop, step=step
        ) from error
    if kind.kind == "pred":
        return lifted(np.arange(start, stop, step).astype(np.bool_))
    work = F32 if kind.is_float and kind.bits < 32 else kind
    counted = ops.iota(Shape(work, (size,)), 0)
    if step != 1:
        counted = counted * _filled(step, Shape(work), "arange", "step")
    if start != 0:
        counted = counted + _filled(start, Shape(work), "arange", "start")
    return lifted(convert(counted, kind))


@one_program("start", "stop", numbers=True)
@placeable("device")
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
    count = operands.static_size(num, "linspace", "num")
    kind = requested_type(dtype, "linspace", inexact_type(common_type("linspace", start, stop)))
    work = inexact_type(kind)
    given = operands.convert_all("linspace", [start, stop], work)
    (low, high), _, _ = operands.promoted("linspace", given)
    place = operands.axis_of(axis, low.ndim + 1, "linspace")
    first, last = (mnp.expand_dims(each, place) for each in (low, high))
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
    return result, full(low.shape if count == 1 and not endpoint else (), math.nan, work)


_NO_VECTOR = "an argument is not a vector"


@with_flags
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
    operands.refuse_others(indexing, ("xy", "ij"), "meshgrid", "indexing")
    vectors = [mnp.atleast_1d(x) for x in xi]
    for each in vectors:
        operands.shape_of_rank(each, (1,), "meshgrid", "Give vectors.", _NO_VECTOR)
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = 1, 0
    sizes = [1 if sparse else vectors[place].size for place in places]
    return [_along(x, place, sizes) for x, place in zip(vectors, places, strict=True)]


def _along(vector: Any, place: int, sizes: Sequence[int]) -> Any:
    """A vector along dimension `place` of an array of `sizes`."""
    return ops.broadcast_in_dim(vector, operands.resized(sizes, place, vector.size), [place])


def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors as arrays that broadcast to their grid, for indexing with all combinations.

    Truth values become the places of the true ones.
    """
    found = []
    for at, x in enumerate(args):
        given = operands.shape_of_rank(x, (1,), "ix_", "Give vectors of indices.", _NO_VECTOR)
        x = mnp.nonzero(x)[0] if given.element_type is PRED else lifted(x)
        found.append(_along(x, at, [1] * len(args)))
    return tuple(found)
