"""Activations and the soft functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.transforms import stop_gradient

__all__ = [
    "elu",
    "gelu",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
]

Axis = int | Sequence[int] | None


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0; NaN stays NaN (JAX: nn.relu)."""
    # Not np.maximum: its derivative at the tie is 1/2.
    x = np.asarray(x)
    return np.where(x <= 0, np.zeros_like(x), x)


def sigmoid(x: Any) -> Any:
    """The logistic function, 1 / (1 + exp(-x)) (JAX: nn.sigmoid)."""
    return ops.logistic(_inexact(x))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow (JAX: nn.log_sigmoid)."""
    return -softplus(-_inexact(x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow (JAX: nn.softplus)."""
    x = _inexact(x)
    return np.logaddexp(x, np.zeros_like(x))


def silu(x: Any) -> Any:
    """x * sigmoid(x) (JAX: nn.silu)."""
    x = _inexact(x)
    return x * sigmoid(x)


#: The other name of `silu`.
swish = silu


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, alpha * (exp(x) - 1) elsewhere (JAX: nn.elu)."""
    x = _inexact(x)
    # Inside the branch not taken, x is replaced: exp must not overflow into the derivative.
    negative = np.where(x > 0, np.zeros_like(x), x)
    return np.where(x > 0, x, alpha * np.expm1(negative))


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x where x >= 0, negative_slope * x elsewhere (JAX: nn.leaky_relu)."""
    x = _inexact(x)
    return np.where(x >= 0, x, negative_slope * x)


def gelu(x: Any, approximate: bool = True) -> Any:
    """The Gaussian error linear unit, x * Phi(x) (JAX: nn.gelu).

    Args:
        x: an array; integers become floats.
        approximate: whether Phi is the tanh approximation of Hendrycks and Gimpel (2016).
    """
    x = _inexact(x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return x * (0.5 * (1.0 + np.tanh(inner)))
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """exp(x) divided by its sum over `axis` (JAX: nn.softmax).

    Args:
        x: an array; integers become floats.
        axis: the dimension or dimensions that sum to 1.
        where: which elements take part; the others give 0.
    """
    exponentials = np.exp(_shifted(x, axis, where))
    if where is not None:
        exponentials = np.where(where, exponentials, np.zeros_like(exponentials))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """log(softmax(x)), accurate where softmax underflows (JAX: nn.log_softmax).

    Arguments are those of `softmax`; elements left out by `where` give -inf.
    """
    shifted = _shifted(x, axis, where)
    total = np.sum(np.exp(shifted), axis=axis, keepdims=True, where=where)
    result = shifted - np.log(total)
    return result if where is None else np.where(where, result, -math.inf)


def _shifted(x: Any, axis: Axis, where: Any) -> Any:
    """x minus its maximum, which derivatives need not know: it cancels."""
    x = _inexact(x)
    initial = None if where is None else -math.inf
    top = np.max(x, axis=axis, keepdims=True, where=where, initial=initial)
    return x - stop_gradient(top)


def logsumexp(
    a: Any, axis: Axis = None, b: Any = None, keepdims: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))) over `axis`, without overflow (JAX: nn.logsumexp).

    Args:
        a: an array; integers become floats.
        axis: the dimensions to sum over; None for all.
        b: weights.
        keepdims: whether the summed dimensions stay, with size 1.
        where: which elements take part.
    """
    a = _inexact(a)
    if b is not None:
        a = np.where(np.asarray(b) != 0, a, -math.inf)
    top = stop_gradient(np.max(a, axis=axis, keepdims=True, where=where, initial=-math.inf))
    # Where all is -inf (or one is inf), subtracting the maximum would give NaN.
    top = np.where(np.isfinite(top), top, np.zeros_like(top))
    exponentials = np.exp(a - top)
    if b is not None:
        exponentials = exponentials * b
    total = np.sum(exponentials, axis=axis, keepdims=keepdims, where=where)
    return np.log(total) + (top if keepdims else np.reshape(top, np.shape(total)))


def _inexact(x: Any) -> Any:
    """`x` as an array of floats."""
    x = np.asarray(x)
    return x if np.issubdtype(x.dtype, np.inexact) else x.astype(np.result_type(x, float))
