"""Sums of exponentials along axes, without overflow, and their uses in attention and losses."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32, S32
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import Axis, axis_of, inexact_operand, kind_of, operand_shape, spread
from minixla.transforms import stop_gradient
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.operators import broadcast_to, convert
from minixla_ops.elementwise.promotion import inexact_type

_SHARED = """
Args:
    x: an array; integers become floats.
    where: booleans, true for elements that take part.

Raises:
    ValueError: an argument is not an array, or has an unsuitable shape or element type. The error
        is also a TypeError.
    AxisError: an axis is out of range.
"""


@documented(_SHARED)
@one_program("x", "where")
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Divide exp(x) by its sum over `axis` (JAX: `jax.nn.softmax`).

    Args:
        axis: the dimension or dimensions that sum to 1; None for all.
        where: booleans, true for elements that take part; the others give 0.

    Returns:
        An array with the shape of `x`.

    Example:
        >>> mx.nn.softmax(np.float32([1, 2, 3]))
        Array([0.09003057, 0.24472848, 0.66524094], dtype=float32)
    """
    x, axes = _taking_part(x, axis, where, "softmax")
    result = ops.softmax(x, axes)
    return result if where is None else np.where(where, result, 0)


@documented(_SHARED)
@one_program("x", "where")
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Compute log(softmax(x)), accurate where softmax underflows (JAX: `jax.nn.log_softmax`).

    Args:
        axis: the dimension or dimensions over which probabilities sum to 1; None for all.
        where: booleans, true for elements that take part; the others give -inf.

    Returns:
        An array with the shape of `x`.

    Example:
        >>> mx.nn.log_softmax(np.float32([1, 2, 3]))
        Array([-2.407606  , -1.4076059 , -0.40760595], dtype=float32)
    """
    x, axes = _taking_part(x, axis, where, "log_softmax")
    shifted = x - spread(_top(x, axes), axes, x)
    total = np.sum(ops.exp(shifted), axes)
    result = shifted - spread(ops.log(total), axes, x)
    return result if where is None else np.where(where, result, -math.inf)


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: ArrayLike | None = None,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: bool,
    where: ArrayLike | None = None,
) -> Any: ...
@documented(_SHARED)
@one_program("a", "b", "where")
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Compute log(sum(b * exp(a))) over `axis` (JAX: `jax.nn.logsumexp`).

    Args:
        a: an array; integers become floats.
        axis: the dimension or dimensions to sum over; None for all.
        b: weights; if the sum is negative, its logarithm is NaN.
        keepdims: whether the summed dimensions stay, with size 1.
        return_sign: whether to return the logarithm of the absolute value, and the sign.

    Returns:
        An array, or with `return_sign` a pair of arrays.

    Example:
        >>> mx.nn.logsumexp(np.float32([1000, 1000]))
        Array(1000.6932, dtype=float32)
    """
    if b is not None:
        (a, b), _, _ = operands.promoted("logsumexp", (a, b), inexact_type)
        a = np.where(b != 0, a, -math.inf)
    a, axes = _taking_part(a, axis, where, "logsumexp")
    top = _top(np.real(a), axes)
    # Where all elements are -inf, or one is inf, subtracting the maximum would give NaN.
    top = np.where(np.isfinite(top), top, 0)
    exponentials = ops.exp(a - spread(top, axes, a))
    if b is not None:
        exponentials = exponentials * b
    total = np.sum(exponentials, axes)
    result = np.log(abs(total) if return_sign else total) + top
    results = (result, np.sign(total)) if return_sign else (result,)
    if keepdims:
        results = tuple([np.expand_dims(result, axes) for result in results])
    return results if return_sign else results[0]


@documented(_SHARED)
@one_program("x", "where")
def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """Compute log(mean(exp(x))) over `axis` without overflow (JAX: `jax.nn.logmeanexp`).

    Args:
        axis: the dimension or dimensions to take the mean over; None for all.
        keepdims: whether these dimensions stay, with size 1.

    Returns:
        An array.

    Example:
        >>> mx.nn.logmeanexp(np.float32([1000, 1000]))
        Array(1000., dtype=float32)
    """
    sizes = operand_shape(x, "logmeanexp").dimensions
    axes = operands.axes_of(axis, len(sizes), "logmeanexp")
    total = logsumexp(x, axes, keepdims=keepdims, where=where)
    taking_part = np.broadcast_to(True if where is None else where, sizes)
    count = np.count_nonzero(taking_part, axes, keepdims=keepdims)
    return total - np.log(convert(count, kind_of(total)))


def _taking_part(x: Any, axis: Axis, where: Any, subject: str) -> tuple[Any, tuple[int, ...]]:
    """Return `x` as floats with -inf where `where` is false, and axes counted from the front."""
    x = inexact_operand(x, subject)
    if where is not None:
        x = np.where(where, x, -math.inf)
    return x, operands.axes_of(axis, x.ndim, subject)


def _top(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the maximum as a constant, because it cancels in derivatives."""
    is_empty = 0 in [x.shape[axis] for axis in axes]
    return stop_gradient(np.max(x, axes, initial=-math.inf if is_empty else None))


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: Literal[False] = False,
) -> Array: ...
@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool,
) -> Any: ...
@one_program("query", "key", "value", "bias", "mask", "query_seq_lengths", "key_value_seq_lengths")
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Average values with weights softmax(query * key) (JAX: `jax.nn.dot_product_attention`).

    Source: A. Vaswani and others, Attention Is All You Need (2017).

    Args:
        query: `[batch..., length, heads, size]`.
        key: `[batch..., positions, key heads, size]`. The number of key heads divides the number of
            heads; each key head serves a group of neighboring heads.
        value: `[batch..., positions, key heads, value size]`. All three are converted to their
            common type.
        bias: added to the scaled products; broadcasts with `[batch..., heads, length, positions]`.
        mask: booleans of the same shape: the positions that each query sees.
        scale: the factor of the products; default: 1 / sqrt(size).
        is_causal: whether a query sees no later positions.
        query_seq_lengths: `[batch...]`, the number of queries that count; the others give zeros.
        key_value_seq_lengths: `[batch...]`, the number of visible positions.
        local_window_size: the number of positions that a query sees before and after its own; an
            integer stands for both.
        implementation: None or `xla`.
        return_residual: whether to also return the logsumexp of the scores, without a derivative.

    Returns:
        `[batch..., length, heads, value size]`; with `return_residual` a pair of it and
        `[batch..., length, heads]`. Weights of f16 and bf16 are computed in f32.

    Raises:
        ShapeError: the shapes of query, key, value or of the lengths do not match.
        AttributeValueError: the implementation is unknown.

    Example:
        >>> query, key = np.zeros((1, 1, 1, 2), np.float32), np.zeros((1, 2, 1, 2), np.float32)
        >>> value = np.float32([[[[1, 10]], [[3, 30]]]])
        >>> mx.nn.dot_product_attention(query, key, value)[0, 0, 0]
        Array([ 2., 20.], dtype=float32)
    """
    if implementation not in (None, "xla"):
        problem, advice = f"implementation is {implementation!r}", "Pass None or 'xla'."
        raise operands.value_error("dot_product_attention", problem, advice)
    query, key, value = operands.convert_all("dot_product_attention", [query, key, value])
    shapes = [operand_shape(operand, "dot_product_attention") for operand in (query, key, value)]
    queries, keys, values = [shape.dimensions for shape in shapes]
    if (
        min(map(len, (queries, keys, values))) < 3
        or not queries[:-3] == keys[:-3] == values[:-3]
        or keys[-3:-1] != values[-3:-1]
        or queries[-1] != keys[-1]
        or keys[-2] == 0
        or queries[-2] % keys[-2]
    ):
        names, problem = ("query", "key", "value"), "query, key and value do not fit each other"
        details = [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)]
        advice = "Pass query [batch..., length, heads, size], key [batch..., positions, key "
        advice += "heads, size] and value [batch..., positions, key heads, value size], where the "
        advice += "key heads divide the heads."
        raise operands.shape_error("dot_product_attention", problem, advice, *details)
    *batch, length, heads, size = queries
    positions, key_heads = keys[-3:-1]
    kind = shapes[0].element_type
    wide = operands.widened(kind)
    grouped = (*batch, length, key_heads, heads // key_heads, size)
    pairs = "...tkgh,...skh->...kgts"
    query = np.reshape(query, grouped)
    products = np.einsum(pairs, query, key, preferred_element_type=wide.dtype)
    scores = np.reshape(products, (*batch, heads, length, positions))
    scores = scores * (1 / math.sqrt(size) if scale is None else scale)
    if bias is not None:
        scores = convert(scores + bias, wide)
    # Not -inf, so that a query that sees nothing gets the mean of all values, not NaN.
    lowest = -0.7 * float(np.finfo(wide.dtype).max)
    for seen in (mask, *_seen(length, positions, is_causal, local_window_size)):
        if seen is not None:
            scores = np.where(seen, scores, lowest)
    is_query = None
    if query_seq_lengths is not None:
        is_query = np.arange(length)[:, None] < _lengths("query", query_seq_lengths, batch)
        scores = np.where(is_query, scores, lowest)
    if key_value_seq_lengths is not None:
        seen = np.arange(positions) < _lengths("key_value", key_value_seq_lengths, batch)
        scores = np.where(seen, scores, lowest)
    weights = np.reshape(convert(softmax(scores), kind), products.shape)
    averages = np.einsum("...kgts,...skh->...tkgh", weights, value)
    result = np.reshape(averages, (*batch, length, heads, values[-1]))
    if is_query is not None:
        result = np.where(np.moveaxis(is_query, -3, -2), result, 0)
    if not return_residual:
        return result
    residual = convert(np.moveaxis(logsumexp(scores, -1), -1, -2), kind)
    return result, stop_gradient(residual)


def _seen(length: int, positions: int, is_causal: bool, window: Any) -> Iterator[Any]:
    """Yield masks of the positions that each query sees, one for each rule."""
    if is_causal:
        yield np.tri(length, positions, dtype=bool)
    if window is not None:
        before, after = window if isinstance(window, (tuple, list)) else (window, window)
        distance = np.arange(positions) - np.arange(length)[:, None]
        yield (distance >= -before) & (distance <= after)


def _lengths(name: str, lengths: Any, batch: Sequence[int]) -> Any:
    """Return lengths of the batch elements as an array that broadcasts with scores."""
    shape = operand_shape(lengths, "dot_product_attention")
    if shape.dimensions != (tuple(batch) or (1,)):
        problem = f"{name}_seq_lengths does not fit the batch"
        advice = "Pass one length for each batch element; without a batch, an array of one."
        details = [f"{name}_seq_lengths {shape}", f"the batch has dimensions {tuple(batch)}"]
        raise operands.shape_error("dot_product_attention", problem, advice, *details)
    return np.reshape(lengths, (*batch, 1, 1, 1))


@one_program("x")
def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """Return 1 at the position that each index names, and 0 elsewhere (JAX: `jax.nn.one_hot`).

    Args:
        x: integers or floats; values outside `[0, num_classes)` give zeros.
        num_classes: the size of the new dimension.
        dtype: the element type of the result; default: the default float type.
        axis: the position of the new dimension in the result.

    Returns:
        An array of one more dimension than `x`.

    Raises:
        ShapeError: x contains booleans.
        AttributeValueError: the axis is out of range, or num_classes is negative.

    Example:
        >>> mx.nn.one_hot(np.int32([2, 0]), 3)
        Array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """
    kind = operands.requested_type(dtype, "one_hot", operands.default_float())
    return convert(_is_class(x, num_classes, axis, "one_hot"), kind)


def _is_class(x: Any, count: int, axis: int, subject: str) -> Any:
    """Test whether each number names each class, along a new axis."""
    shape = operand_shape(x, subject)
    if shape.element_type.kind == "pred":
        problem, advice = "x does not hold numbers", "Convert it: x.astype(mx.numpy.int32)."
        raise operands.shape_error(subject, problem, advice, f"x {shape}")
    place = axis_of(axis, shape.rank + 1, subject)
    if operands.static_int(count, subject, "num_classes") < 0:
        raise operands.value_error(subject, f"num_classes is {count}", "Pass >= 0.")
    kind = shape.element_type
    is_few = kind.is_integer and count <= 1 << (kind.bits - (kind.kind == "signed"))
    if kind.bits < 32 and not is_few:
        kind = S32 if kind.is_integer else F32  # large enough for all classes
        x = convert(x, kind)
    sizes = (*shape.dimensions[:place], count, *shape.dimensions[place:])
    spread = broadcast_to(np.expand_dims(x, place), sizes)
    return ops.eq(spread, ops.iota(Shape(kind, sizes), place))


@one_program("logits", "labels")
def cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: int = -1) -> Array:
    """Compute the cross-entropy of softmax(logits) and the labels, one value for each example.

    minixla: `log_softmax` and a selection.

    Args:
        logits: unnormalized log-probabilities of the classes along `axis`.
        labels: integers without the dimension of the classes, or probabilities shaped like
            `logits`. Integers that are not a class give 0.
        axis: the dimension of the classes.

    Returns:
        An array without the dimension of the classes.

    Raises:
        ShapeError: the shape of the labels fits neither form.
        AttributeValueError: the axis is out of range.

    Example:
        >>> mx.nn.cross_entropy(np.float32([[0, 0], [0, 9]]), np.int32([0, 1]))
        Array([6.931472e-01, 1.233740e-04], dtype=float32)
    """
    logits = inexact_operand(logits, "cross_entropy")
    sizes = operand_shape(logits, "cross_entropy").dimensions
    place = axis_of(axis, len(sizes), "cross_entropy")
    label_shape = operand_shape(labels, "cross_entropy")
    log_probabilities = log_softmax(logits, place)
    if (
        label_shape.element_type.is_integer
        and label_shape.dimensions == sizes[:place] + sizes[place + 1 :]
    ):
        is_label = _is_class(labels, sizes[place], place, "cross_entropy")
        # Select instead of multiplying, because logits of -inf would give 0 * inf.
        chosen = np.where(is_label, log_probabilities, 0)
    elif label_shape.dimensions == sizes:
        chosen = labels * log_probabilities
    else:
        problem = "the labels must match the logits, as classes or as probabilities"
        advice = "Pass integers without the class dimension, or probabilities of the logits' shape."
        details = [f"logits {operand_shape(logits)}", f"labels {label_shape}"]
        raise operands.shape_error("cross_entropy", problem, advice, *details)
    return -np.sum(chosen, place)
