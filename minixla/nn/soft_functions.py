"""The soft functions: sums of exponentials along axes, without overflow."""

from __future__ import annotations

import math
from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.promotion import inexact_type
from minixla.core.tracing import one_program
from minixla.numpy.operands import Axis, axes_of, inexact_operand, promoted, spread
from minixla.transforms import stop_gradient


@one_program("x", "where")
def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """exp(x) divided by its sum over `axis` (JAX: nn.softmax).

    Args:
        x: an array; integers become floats.
        axis: the dimension or dimensions that sum to 1; None for all.
        where: which elements take part; the others give 0.
    """
    x, axes = _taking_part(x, axis, where, "softmax")
    exponentials = ops.exp(_below_zero(x, axes))
    result = exponentials / spread(np.sum(exponentials, axes), axes, x)
    return result if where is None else np.where(where, result, 0)


@one_program("x", "where")
def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """log(softmax(x)), accurate where softmax underflows (JAX: nn.log_softmax).

    Arguments are those of `softmax`; elements left out by `where` give -inf.
    """
    x, axes = _taking_part(x, axis, where, "log_softmax")
    shifted = _below_zero(x, axes)
    total = np.sum(ops.exp(shifted), axes)
    result = shifted - spread(ops.log(total), axes, x)
    return result if where is None else np.where(where, result, -math.inf)


@one_program("a", "b", "where")
def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) over `axis` (JAX: nn.logsumexp).

    Args:
        a: an array; integers become floats.
        axis: the dimension or dimensions to sum over; None for all.
        b: weights; where the sum is negative, its logarithm is NaN.
        keepdims: whether the summed dimensions stay, with size 1.
        return_sign: whether to return the logarithm of the absolute value, and the sign.
        where: which elements take part.

    Returns:
        An array, or with `return_sign` a pair of arrays.
    """
    if b is not None:
        (a, b), _, _ = promoted("logsumexp", (a, b), inexact_type)
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
        results = tuple([np.expand_dims(each, axes) for each in results])
    return results if return_sign else results[0]


def _taking_part(x: Any, axis: Axis, where: Any, subject: str) -> tuple[Any, tuple[int, ...]]:
    """`x` as floats with -inf for what `where` leaves out, and the axes counted from the front."""
    x = inexact_operand(x, subject)
    if where is not None:
        x = np.where(where, x, -math.inf)
    return x, axes_of(axis, x.ndim, subject)


def _top(x: Any, axes: tuple[int, ...]) -> Any:
    """The maximum, which derivatives need not know: it cancels."""
    is_empty = 0 in [x.shape[axis] for axis in axes]
    return stop_gradient(np.max(x, axes, initial=-math.inf if is_empty else None))


def _below_zero(x: Any, axes: tuple[int, ...]) -> Any:
    """How far x is below its maximum, as negative numbers."""
    return x - spread(_top(x, axes), axes, x)
