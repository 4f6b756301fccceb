"""Distributions of integers, booleans and categories, and draws from arrays."""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import U64, canonical_element_type
from minixla.numpy import operands
from minixla.numpy.operands import (
    axis_of,
    convert,
    default_int,
    kind_of,
    lifted,
    operand_shape,
    shape_error,
    value_error,
)
from minixla.random import drawing
from minixla.random.sampling import (
    BROADCAST,
    SHARED,
    finfo,
    random_bits,
    requested,
    sampler,
    sizes_of,
    split_keys,
)
from minixla.typing import Array, ArrayLike, DTypeLike, KeyLike, ShapeLike


@documented(SHARED)
@sampler()
def bits(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw random bits as unsigned integers (JAX: `jax.random.bits`).

    Args:
        dtype: the element type of the result; default: the default unsigned integer type.

    Returns:
        An array of integers of that shape.

    Example:
        >>> mx.random.bits(mx.random.key(0), (2,))
        Array([4070199207, 4202968722], dtype=uint32)
    """
    kind = requested(dtype, "bits", canonical_element_type(U64), "unsigned")
    return random_bits(key, kind.bits, sizes_of("bits", shape))


@documented(SHARED)
@sampler("minval", "maxval")
def randint(
    key: KeyLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample integers uniformly from [minval, maxval) (JAX: `jax.random.randint`).

    Limits outside the range of the dtype are clipped to it. Where minval >= maxval, the result is
    minval.

    Args:
        minval: the lower limit, included; it broadcasts to `shape`.
        maxval: the upper limit, excluded; it broadcasts to `shape`.
        dtype: the element type of the result; default: the default integer type.

    Returns:
        An array of integers of that shape.

    Example:
        >>> mx.random.randint(mx.random.key(0), (5,), 0, 6)
        Array([1, 0, 2, 1, 5], dtype=int32)
    """
    kind = requested(dtype, "randint", default_int(), "signed", "unsigned")
    return drawing.integers(key, sizes_of("randint", shape, minval, maxval), minval, maxval, kind)


@documented(SHARED, BROADCAST)
@sampler("p")
def bernoulli(
    key: KeyLike,
    p: ArrayLike = 0.5,
    shape: ShapeLike | None = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample booleans that are true with probability p (JAX: `jax.random.bernoulli`).

    Args:
        p: the probabilities, floats.
        mode: "low" or "high"; "high" draws twice as many bits, so small probabilities are exact.

    Returns:
        An array of booleans of that shape.

    Raises:
        ShapeError: `key` is not a random key, `p` does not contain floats, or the shapes do not
            broadcast.
        AttributeValueError: the mode is unknown.

    Example:
        >>> mx.random.bernoulli(mx.random.key(0), np.float32([0, 0.5, 1]))
        Array([False, False,  True], dtype=bool)
    """
    operands.refuse_others(mode, ("high", "low"), "bernoulli", "mode")
    kind = kind_of(p, "bernoulli")
    if not kind.is_float:
        raise shape_error("bernoulli", f"p is of type {kind}", "Pass floats.", p=p)
    sizes = sizes_of("bernoulli", shape, p)
    if mode == "low":
        return drawing.floats(key, sizes, kind) < p
    both = drawing.floats(key, (2, *sizes), kind)
    return both[1] * 2.0 ** -finfo(kind).nmant < p - both[0]


@documented(SHARED)
@sampler()
def rademacher(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample -1 and 1 with equal probability (JAX: `jax.random.rademacher`).

    Args:
        dtype: the element type of the result; default: the default integer type.

    Returns:
        An array of that shape and type.

    Example:
        >>> mx.random.rademacher(mx.random.key(0), (4,))
        Array([-1, -1,  1,  1], dtype=int32)
    """
    kinds = "signed", "unsigned", "float", "complex", "pred"
    kind = requested(dtype, "rademacher", default_int(), *kinds)
    return drawing.signs(key, sizes_of("rademacher", shape), kind)


@documented(SHARED)
@sampler("logits")
def categorical(
    key: KeyLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample indices of categories (JAX: `jax.random.categorical`).

    Args:
        logits: floats, the unnormalized logarithms of the probabilities.
        axis: the axis of the categories.
        shape: the shape of the result: any leading sizes, then the shape of the logits without
            the axis; None: no leading sizes.
        replace: whether a category may be drawn again. If not, the draws along the leading sizes
            differ.
        mode: the `mode` of `gumbel`.

    Returns:
        An array of integers, the indices of the drawn categories.

    Raises:
        ShapeError: `key` is not a random key, or the shape does not end with that of the logits
            without the axis.
        AttributeValueError: the axis is out of range, the mode is unknown, or there are fewer
            categories than draws without replacement.

    Example:
        >>> logits = np.log(np.float32([0.1, 0.9]))
        >>> mx.random.categorical(mx.random.key(0), logits, shape=(5,))
        Array([1, 1, 1, 1, 1], dtype=int32)
    """
    logits = lifted(logits)
    axis = axis_of(axis, logits.ndim, "categorical")
    rest = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    sizes = rest if shape is None else sizes_of("categorical", shape)
    if len(sizes) < len(rest) or sizes_of("categorical", sizes, mnp.zeros(rest)) != sizes:
        advice = "It must end with the sizes of the logits without the axis."
        raise shape_error("categorical", "shape does not fit", advice, shape=shape)
    front = sizes[: len(sizes) - len(rest)]
    kind = kind_of(logits)
    if replace:
        drawn = list(sizes[len(front) :])
        drawn.insert(axis, logits.shape[axis])
        noise = drawing.gumbels(key, (*front, *drawn), kind, mode)
        return mnp.argmax(noise + logits, axis - logits.ndim)
    noise = drawing.gumbels(key, logits.shape, kind, mode)
    count, most = math.prod(front), logits.shape[axis]
    _refuse_more("categorical", count, most)
    _, indices = ops.top_k(mnp.moveaxis(logits + noise, axis, -1), count)
    return mnp.reshape(mnp.moveaxis(indices, -1, 0), sizes)


def _refuse_more(subject: str, count: int, most: int) -> None:
    if count > most:
        problem = f"cannot draw {count} of {most} elements without replacement"
        raise value_error(subject, problem, "Draw fewer, or give replace=True.")


@documented(SHARED)
@sampler("x", known=("x",))
def permutation(
    key: KeyLike,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Shuffle an array, or the integers below a number (JAX: `jax.random.permutation`).

    Args:
        x: an array; or an integer that is known while tracing.
        axis: the axis to shuffle along.
        independent: whether each vector along the axis is shuffled independently.

    Returns:
        An array like `x`, or of integers.

    Raises:
        ShapeError: `key` is not a random key, or `x` is a scalar that is not an integer.
        AttributeValueError: the axis is out of range.

    Example:
        >>> mx.random.permutation(mx.random.key(0), 5)
        Array([0, 1, 4, 3, 2], dtype=int32)
    """
    if type(x) is int:
        axis_of(axis, 1, "permutation")
        return _shuffled(key, mnp.arange(x), 0)
    axis = axis_of(axis, operand_shape(x, "permutation").rank, "permutation")
    return _shuffled(key, x, axis, independent)


def _shuffled(key: Any, x: Any, axis: int, independent: bool = False) -> Any:
    """Shuffle an array as `permutation` does."""
    if independent or x.ndim == 1:
        order = _order(key, x.shape, axis)
        return x if order is None else mnp.take_along_axis(x, order, axis, mode="clip")
    order = _order(key, (x.shape[axis],), 0)
    return x if order is None else mnp.take(x, order, axis, mode="clip")


def _order(key: Any, sizes: tuple[int, ...], axis: int) -> Any:
    """Return indices along an axis in random order; None if there is at most one index."""
    order = None
    # Many elements often have equal bits, so sort in several rounds with new bits.
    rounds = math.ceil(3 * math.log(max(1, math.prod(sizes))) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, draw_key = split_keys(key, 2, sizes)
        found = mnp.argsort(random_bits(draw_key, 32, sizes), axis)
        order = found if order is None else mnp.take_along_axis(order, found, axis, mode="clip")
    return order


@documented(SHARED)
@sampler("a", "p", known=("a",))
def choice(
    key: KeyLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Draw elements of an array, or integers below a number (JAX: `jax.random.choice`).

    Args:
        a: an array; or an integer that is known while tracing.
        shape: the shape of the draws, which replaces the axis.
        replace: whether an element may be drawn more than once.
        p: the probability of each element, a vector of floats; default: all are equal.
        axis: the axis of the elements of the array.
        mode: the `mode` of `gumbel`, for draws with `p` and without replacement.

    Returns:
        An array of elements of `a`.

    Raises:
        ShapeError: `key` is not a random key, or `p` is not a vector with one probability for each
            element.
        AttributeValueError: the axis is out of range, or there are fewer elements than draws
            without replacement.

    Example:
        >>> mx.random.choice(mx.random.key(0), np.int32([10, 20, 30]), (2,), replace=False)
        Array([10, 20], dtype=int32)
    """
    is_number = type(a) is int
    elements: Any = a
    drawn = sizes_of("choice", shape)
    axis = 0 if is_number else axis_of(axis, elements.ndim, "choice")
    most, count = elements if is_number else elements.shape[axis], math.prod(drawn)
    if not count:
        # As in JAX, regardless of the array's other sizes.
        return mnp.zeros(drawn, default_int() if is_number else kind_of(a))
    if most <= 0:
        problem = "the array has no elements to draw"
        raise value_error("choice", problem, "Pass an array with elements, or draw nothing.", a=a)
    if not replace:
        _refuse_more("choice", count, most)
    sizes = (most,) if is_number else elements.shape
    sizes = (*sizes[:axis], *drawn, *sizes[axis + 1 :])
    if p is None and not replace:
        whole = _shuffled(key, mnp.arange(most) if is_number else a, axis)
        return mnp.reshape(ops.slice_in_dim(whole, 0, count, axis), sizes)
    if p is None:
        indices = drawing.integers(key, drawn, 0, most, default_int())
    else:
        indices = _weighted(key, p, drawn, most, replace, mode)
    return mnp.reshape(indices if is_number else mnp.take(a, indices, axis, mode="clip"), sizes)


def _weighted(
    key: Any, p: Any, sizes: tuple[int, ...], most: int, replace: bool, mode: str | None
) -> Any:
    """Draw indices with given probabilities."""
    p = operands.inexact_operand(p, "choice")
    if p.shape != (most,):
        advice = "Pass a vector with one probability for each element."
        details = f"p {operand_shape(p)}", f"{most} elements"
        problem = "p must have one probability for each element"
        raise shape_error("choice", problem, advice, *details)
    if replace:
        sums = mnp.cumsum(p)
        drawn = sums[-1] * (1 - drawing.floats(key, sizes, kind_of(sums)))
        return convert(mnp.searchsorted(sums, drawn), default_int())
    noise = drawing.gumbels(key, (most,), kind_of(p), mode)
    _, indices = ops.top_k(noise + ops.log(p), math.prod(sizes))
    return convert(indices, default_int())
