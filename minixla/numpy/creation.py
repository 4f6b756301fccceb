"""Functions that make arrays from numbers, lists and counts."""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.core.shapes import Shape
from minixla.core.tracing import host_array, not_a_value
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import common_type, lifted, operand_shape, requested_type, static_sizes
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike, ShapeLike
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import splat

_FILLED = """
Args:
    dtype: the element type of the result; default: the default float type.

Returns:
    An array of that shape and type.

Raises:
    AttributeValueError: a size is negative or not an integer.
    ShapeError: `dtype` is not an element type.
"""
_LIKE = """
Args:
    a: an array or a scalar.
    prototype: an array or a scalar.
    dtype: the element type of the result; default: that of the array.
    shape: the shape of the result; default: that of the array.

Returns:
    An array of that shape and type.

Raises:
    ShapeError: the first argument is not an array, or `dtype` is not an element type.
"""


@documented(PARAMETERS)
@placeable("device", "out_sharding")
def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array from an array, a scalar, or nested lists of arrays and scalars.

    Args:
        object: the source.
        dtype: the element type of the result; default: that of `object`, or the common type of its
            elements.
        ndmin: the minimal number of dimensions; new ones come first.

    Returns:
        An array of the shape of the nested lists, or of the array.

    Raises:
        ShapeError: `object` cannot be converted, or the lists are ragged.
        IntegerRangeError: a Python integer does not fit `dtype`.

    Example:
        >>> np.array([[1, 2], [3, 4]])
        Array([[1, 2],
               [3, 4]], dtype=int32)
        >>> np.array(1.5, dtype=np.bfloat16, ndmin=1)
        Array([1.5], dtype=bfloat16)
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


@documented(PARAMETERS)
@placeable("device", "out_sharding")
def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convert an array, a scalar, or nested lists of both to an array; see `array`.

    Args:
        a: the source.
        dtype: the element type of the result; default: that of `a`, or the common type of its
            elements.
        copy: False if `a` must already be an array of that dtype.

    Returns:
        An array of the shape of the nested lists, or of the array.

    Raises:
        ShapeError: `a` cannot be converted, or the lists are ragged.
        IntegerRangeError: a Python integer does not fit `dtype`.
        AttributeValueError: `copy` is False, and `a` is not an array of that dtype.

    Example:
        >>> np.asarray([1, 2], dtype=float)
        Array([1., 2.], dtype=float32)
    """
    made = array(a, dtype)
    if copy is False and getattr(a, "dtype", None) != made.dtype:
        advice = "Pass an array of that dtype, or copy=None."
        raise operands.value_error("asarray", "the conversion needs a copy", advice, a=a)
    return made


def _filled(value: Any, shape: Shape, subject: str = "full", name: str = "fill_value") -> Any:
    try:
        return lifted(splat(value, shape))
    except OverflowError:
        host_array(value, Shape(shape.element_type), subject, name)
        raise


def _of_number(subject: str, number: int, shape: Any, dtype: Any) -> Any:
    kind = requested_type(dtype, subject, operands.default_float())
    return _filled(number, Shape(kind, static_sizes(shape, subject)))


@documented(PARAMETERS, _FILLED)
@placeable("device", "out_sharding")
def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of zeros.

    Example:
        >>> np.zeros((2, 3))
        Array([[0., 0., 0.],
               [0., 0., 0.]], dtype=float32)
    """
    return _of_number("zeros", 0, shape, dtype)


@documented(PARAMETERS, _FILLED)
@placeable("device", "out_sharding")
def ones(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of ones.

    Example:
        >>> np.ones(3, dtype=int)
        Array([1, 1, 1], dtype=int32)
    """
    return _of_number("ones", 1, shape, dtype)


@documented(PARAMETERS, _FILLED)
@placeable("device", "out_sharding")
def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of zeros; arrays are never uninitialized.

    Example:
        >>> np.empty((0, 2)).shape
        (0, 2)
    """
    return _of_number("empty", 0, shape, dtype)


@documented(PARAMETERS, _FILLED)
@placeable("device", "out_sharding")
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array filled with a value, which broadcasts to the shape.

    Args:
        fill_value: a scalar, or an array that broadcasts to the shape.

    Returns:
        An array of that shape, with the type of `fill_value` unless `dtype` is given.

    Example:
        >>> np.full((2, 2), 7)
        Array([[7, 7],
               [7, 7]], dtype=int32, weak_type=True)
        >>> np.full((2, 2), np.array([1.0, 2.0]))
        Array([[1., 2.],
               [1., 2.]], dtype=float32)
    """
    kind = requested_type(dtype, "full", operands.kind_of(fill_value, "full"))
    sizes = static_sizes(shape, "full")
    if isinstance(fill_value, (int, float, complex)):
        result = _filled(fill_value, Shape(kind, sizes))
    else:
        result = mnp.broadcast_to(convert(fill_value, kind), sizes)
    return result if dtype is not None else operands.keep_weak(result, fill_value)


def _like(a: Any, dtype: Any, shape: Any, subject: str) -> Shape:
    if hasattr(a, "dtype") and hasattr(a, "shape"):
        like = Shape(requested_type(a.dtype, subject), a.shape)
    else:
        like = operand_shape(a, subject)
    kind = requested_type(dtype, subject, like.element_type)
    return Shape(kind, like.dimensions if shape is None else static_sizes(shape, subject))


@documented(PARAMETERS, _LIKE)
@placeable("device", "out_sharding")
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return zeros with the shape and dtype of `a`.

    Example:
        >>> np.zeros_like(np.array([1.5, 2.5]))
        Array([0., 0.], dtype=float32)
    """
    return _filled(0, _like(a, dtype, shape, "zeros_like"))


@documented(PARAMETERS, _LIKE)
@placeable("device", "out_sharding")
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return ones with the shape and dtype of `a`.

    Example:
        >>> np.ones_like(np.array([5, 6]), shape=(2, 2))
        Array([[1, 1],
               [1, 1]], dtype=int32)
    """
    return _filled(1, _like(a, dtype, shape, "ones_like"))


@documented(PARAMETERS, _LIKE)
@placeable("device")
def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Return zeros with the shape and dtype of `prototype`.

    Example:
        >>> np.empty_like(np.array([1, 2])).dtype
        dtype('int32')
    """
    return _filled(0, _like(prototype, dtype, shape, "empty_like"))


@documented(PARAMETERS, _LIKE)
@placeable("device", "out_sharding")
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array filled with a value, with the shape and dtype of `a`.

    Args:
        fill_value: a scalar, or an array that broadcasts to the shape.

    Example:
        >>> np.full_like(np.array([1.0, 2.0]), 3)
        Array([3., 3.], dtype=float32)
    """
    like = _like(a, dtype, shape, "full_like")
    return full(like.dimensions, fill_value, like.element_type)


def _number(bound: Any) -> Any:
    """Return a bound, which must be known, as a Python or NumPy scalar."""
    if bound is None or isinstance(bound, (int, float)):
        return bound
    operand_shape(bound, "arange")
    value = operands.concrete(bound, "arange", "Bounds determine the size: pass numbers.")
    if value.ndim or np.iscomplexobj(value):
        problem, advice = "a bound is not a real number", "Pass real scalars."
        raise operands.value_error("arange", problem, advice, bound=bound)
    return value[()]


@documented(PARAMETERS)
@placeable("device", "out_sharding")
def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return evenly spaced numbers from `start` (default 0) up to, but not including, `stop`.

    Args:
        start: the first number, or `stop` if it is the only argument.
        stop: the exclusive end.
        step: the spacing; default 1.
        dtype: the element type of the result; default: the common type of the bounds.

    Returns:
        A vector of ceil((stop - start) / step) numbers.

    Raises:
        ConcretizationError: a bound is a staged value.
        AttributeValueError: a bound is not a finite real number, or `step` is 0.
        IntegerRangeError: `start` or `step` does not fit the type of the result.

    Example:
        >>> np.arange(3)
        Array([0, 1, 2], dtype=int32)
        >>> np.arange(1, 2, 0.25)
        Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    bounds = [bound for bound in (start, stop, step) if bound is not None]
    if not bounds:
        raise not_a_value(start, "arange", "start")
    kind = common_type("arange", *bounds) if dtype is None else requested_type(dtype, "arange")
    low, high, gap = map(_number, (start, stop, 1 if step is None else step))
    low, high = (0, low) if high is None else (low, high)
    if gap == 0:
        raise operands.value_error("arange", "step is 0", "Pass another step.")
    try:
        size = max(0, math.ceil((high - low) / gap))
    except (OverflowError, ValueError) as error:
        problem, advice = "a bound is not finite, or far too large", "Pass finite numbers."
        raise operands.value_error(
            "arange", problem, advice, start=low, stop=high, step=gap
        ) from error
    if kind.kind == "pred":
        return lifted(np.arange(low, high, gap).astype(np.bool_))
    work = F32 if kind.is_float and kind.bits < 32 else kind
    counted = ops.iota(Shape(work, (size,)), 0)
    if gap != 1:
        counted = counted * _filled(gap, Shape(work), "arange", "step")
    if low != 0:
        counted = counted + _filled(low, Shape(work), "arange", "start")
    return lifted(convert(counted, kind))
