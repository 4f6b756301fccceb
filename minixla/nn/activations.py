"""Activations: element-wise functions of floats. Results are weakly typed if x is."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.core.tracing import one_program, weak_type_of
from minixla.numpy.element_functions import with_derivatives
from minixla.numpy.operands import axis_of, kind_of, lifted, marked, operand_shape, shape_error
from minixla.transforms import custom_jvp
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.operators import Adjustment, convert
from minixla_ops.elementwise.promotion import inexact_type, numeric_type
from minixla_ops.helpers.shorthand import full_like

_Activation = TypeVar("_Activation", bound=Callable[..., Any])
_SHARED = """
Args:
    x: an array; integers become floats.

Returns:
    An array with the shape of `x`.

Raises:
    ValueError: an argument is not an array, or has an unsuitable shape or element type. The error
        is also a TypeError.
"""


def _activation(adjust: Adjustment) -> Callable[[_Activation], _Activation]:
    """Return a decorator for element-wise functions; `adjust` converts the type of `x`.

    `_SHARED` supplies the sections that docstrings omit.
    """

    def made(function: _Activation) -> _Activation:
        @one_program("x", "negative_slope", "alpha", "b")
        @wraps(function)
        def activation(x: Any, *args: Any, **kwargs: Any) -> Any:
            kind = adjust(kind_of(x, function.__name__))
            result = function(lifted(convert(x, kind)), *args, **kwargs)
            return marked(result, all(map(weak_type_of, (x, *args, *kwargs.values()))))

        return documented(_SHARED)(cast(_Activation, activation))

    return made


_of_floats = _activation(inexact_type)
_of_numbers = _activation(numeric_type)


@documented(_SHARED)
def identity(x: ArrayLike) -> Array:
    """Return the argument as an array (JAX: `jax.nn.identity`).

    Args:
        x: an array.

    Example:
        >>> mx.nn.identity(np.float32([-2, 3]))
        Array([-2.,  3.], dtype=float32)
    """
    operand_shape(x, "identity")
    return lifted(x)


# Piecewise linear functions. Pieces end where JAX's do, so that derivatives there agree.


@_of_numbers
def relu(x: ArrayLike) -> Array:
    """Compute max(x, 0) with derivative 0 at 0; NaN stays NaN (JAX: `jax.nn.relu`).

    Args:
        x: an array.

    Example:
        >>> mx.nn.relu(np.float32([-2, 3]))
        Array([0., 3.], dtype=float32)
    """
    x = lifted(x)
    # np.maximum would have derivative 1/2 at the tie.
    return ops.select(x <= 0, full_like(x, 0), x)


@_of_floats
def relu6(x: ArrayLike) -> Array:
    """Clip x to [0, 6], with derivative 0 at both ends (JAX: `jax.nn.relu6`).

    Example:
        >>> mx.nn.relu6(np.float32([-2, 3, 9]))
        Array([0., 3., 6.], dtype=float32)
    """
    x = lifted(x)
    return ops.select(x <= 0, full_like(x, 0), ops.select(x >= 6, full_like(x, 6), x))


@_of_numbers
def hard_tanh(x: ArrayLike) -> Array:
    """Clip x to [-1, 1], with derivative 1 at both ends (JAX: `jax.nn.hard_tanh`).

    Args:
        x: an array.

    Example:
        >>> mx.nn.hard_tanh(np.float32([-2, 0.5, 3]))
        Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = lifted(x)
    return ops.select(x > 1, full_like(x, 1), ops.select(x < -1, full_like(x, -1), x))


@_of_floats
def hard_sigmoid(x: ArrayLike) -> Array:
    """Compute relu6(x + 3) / 6 (JAX: `jax.nn.hard_sigmoid`).

    Example:
        >>> mx.nn.hard_sigmoid(np.float32([-4, 0, 4]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(np.add(x, 3)) / 6


@_of_floats
def hard_silu(x: ArrayLike) -> Array:
    """Compute x * hard_sigmoid(x) (JAX: `jax.nn.hard_silu`).

    Example:
        >>> mx.nn.hard_silu(np.float32([-4, 1, 4]))
        Array([-0.       ,  0.6666667,  4.       ], dtype=float32)
    """
    return np.multiply(x, hard_sigmoid(x))


hard_swish = hard_silu


@_of_floats
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """Return x where x >= 0, and negative_slope * x elsewhere (JAX: `jax.nn.leaky_relu`).

    Args:
        negative_slope: a scalar, or an array that broadcasts with `x`.

    Example:
        >>> mx.nn.leaky_relu(np.float32([-2, 3]))
        Array([-0.02,  3.  ], dtype=float32)
    """
    x = lifted(x)
    return np.where(x >= 0, x, negative_slope * x)


@_of_floats
def softplus(x: ArrayLike) -> Array:
    """Compute log(1 + exp(x)) without overflow (JAX: `jax.nn.softplus`).

    Example:
        >>> mx.nn.softplus(np.float32([0, 100]))
        Array([  0.6931472, 100.       ], dtype=float32)
    """
    x = lifted(x)
    # Take out the larger exponent. Selections, unlike abs, have the right derivatives at 0.
    is_above = x > 0
    rest = ops.log1p(ops.exp(ops.select(is_above, -x, x)))
    return ops.select(is_above, x, full_like(x, 0)) + rest


@_of_floats
def sigmoid(x: ArrayLike) -> Array:
    """Compute the logistic function, 1 / (1 + exp(-x)) (JAX: `jax.nn.sigmoid`).

    Example:
        >>> mx.nn.sigmoid(np.float32([0, 2]))
        Array([0.5     , 0.880797], dtype=float32)
    """
    return ops.logistic(x)


@_of_floats
def log_sigmoid(x: ArrayLike) -> Array:
    """Compute log(sigmoid(x)) without overflow (JAX: `jax.nn.log_sigmoid`).

    Example:
        >>> mx.nn.log_sigmoid(np.float32([0, -100]))
        Array([  -0.6931472, -100.       ], dtype=float32)
    """
    return -softplus(np.negative(x))


@_of_floats
def silu(x: ArrayLike) -> Array:
    """Compute x * sigmoid(x) (JAX: `jax.nn.silu`).

    Example:
        >>> mx.nn.silu(np.float32([0, 2]))
        Array([0.      , 1.761594], dtype=float32)
    """
    x = lifted(x)
    # In f16 the logistic function may be denormal although the product is not.
    return in_f32(lambda x: x * ops.logistic(x), x)


swish = silu


@_of_floats
def mish(x: ArrayLike) -> Array:
    """Compute x * tanh(softplus(x)) (JAX: `jax.nn.mish`).

    Example:
        >>> mx.nn.mish(np.float32([0, 2]))
        Array([0.      , 1.943959], dtype=float32)
    """
    # From 400 on tanh is 1. Far beyond 400, derivatives would be 0 times infinity.
    return np.multiply(x, np.tanh(softplus(np.minimum(x, 400))))


# The derivative of the quotient is a difference, which cancels far from 0.
_soft_sign = with_derivatives(lambda x: x / (abs(x) + 1), lambda y, x: np.square(1 / (abs(x) + 1)))


@_of_floats
def soft_sign(x: ArrayLike) -> Array:
    """Compute x / (1 + |x|) (JAX: `jax.nn.soft_sign`).

    Example:
        >>> mx.nn.soft_sign(np.float32([-1, 3]))
        Array([-0.5 ,  0.75], dtype=float32)
    """
    return _soft_sign(x)


@_of_floats
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x where x > 0, and alpha * (exp(x) - 1) elsewhere (JAX: `jax.nn.elu`).

    Args:
        alpha: a scalar, or an array that broadcasts with `x`.

    Example:
        >>> mx.nn.elu(np.float32([-1, 3]))
        Array([-0.63212055,  3.        ], dtype=float32)
    """
    x = lifted(x)
    return np.where(x > 0, x, np.multiply(alpha, ops.expm1(_negative_part(x))))


@_of_floats
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x where x > 0, and alpha * (exp(x / alpha) - 1) elsewhere (JAX: `jax.nn.celu`).

    Args:
        alpha: a scalar, or an array that broadcasts with `x`.

    Example:
        >>> mx.nn.celu(np.float32([-1, 3]), alpha=2.0)
        Array([-0.78693867,  3.        ], dtype=float32)
    """
    x = lifted(x)
    return np.where(x > 0, x, alpha * np.expm1(np.divide(_negative_part(x), alpha)))


@_of_floats
def selu(x: ArrayLike) -> Array:
    """Compute elu, scaled to preserve mean 0 and variance 1 (JAX: `jax.nn.selu`).

    Source: G. Klambauer and others, Self-Normalizing Neural Networks (2017).

    Example:
        >>> mx.nn.selu(np.float32([-1, 3]))
        Array([-1.1113307,  3.152103 ], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def _negative_part(x: Any) -> Any:
    """Compute min(x, 0), so that exp cannot overflow into the derivative where x > 0."""
    return ops.select(x > 0, full_like(x, 0), x)


@_of_floats
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Compute the Gaussian error linear unit, x * Phi(x) (JAX: `jax.nn.gelu`).

    Args:
        approximate: whether Phi is the tanh approximation of Hendrycks and Gimpel (2016).

    Example:
        >>> mx.nn.gelu(np.float32([-1, 3]), approximate=False)
        Array([-0.15865526,  2.9959502 ], dtype=float32)
    """
    kind = kind_of(x)
    # 16 bits would keep few digits of exponents, which are far from 0 for negative x.
    wide = convert(x, F32) if kind.bits < 32 else x
    if approximate:
        # This is x + 0.044715 * x**3, factored for fewer products and derivatives.
        slope = math.sqrt(2 / math.pi)
        # Beyond 25 the factor is 0 or 1; an infinite square would make the derivative NaN.
        near = ops.clamp(full_like(wide, -25), wide, full_like(wide, 25))
        inner = near * (2 * slope + 2 * 0.044715 * slope * (near * near))
        # (1 + tanh(z)) / 2, which cancels where z is negative, is the logistic function of 2 z.
        return convert(wide * ops.logistic(inner), kind)
    # 1 + erf(z) cancels where z is negative.
    return convert(0.5 * wide * ops.erfc(-math.sqrt(0.5) * wide), kind)


@_of_floats
def sparse_plus(x: ArrayLike) -> Array:
    """Return 0 up to -1, x from 1 on, and (x + 1)**2 / 4 between (JAX: `jax.nn.sparse_plus`).

    Source: M. Blondel and others, Learning with Fenchel-Young Losses (2019).

    Example:
        >>> mx.nn.sparse_plus(np.float32([-2, 0, 2]))
        Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = lifted(x)
    # The square must not overflow into the derivative in a branch that is not taken.
    inner = ops.select(abs(x) >= 1, full_like(x, 0), x) + 1
    outer = ops.select(x <= -1, full_like(x, 0), inner * inner / 4)
    return ops.select(x >= 1, x, outer)


@_of_floats
def sparse_sigmoid(x: ArrayLike) -> Array:
    """Clip (x + 1) / 2 to [0, 1] (JAX: `jax.nn.sparse_sigmoid`).

    Example:
        >>> mx.nn.sparse_sigmoid(np.float32([-2, 0, 2]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * np.clip(np.add(x, 1), 0, 2)


@_of_floats
def log1mexp(x: ArrayLike) -> Array:
    """Compute log(1 - exp(-x)) accurately for small and large x >= 0 (JAX: `jax.nn.log1mexp`).

    Source: M. Maechler, Accurately Computing log(1 - exp(-|a|)) (2012).

    Example:
        >>> mx.nn.log1mexp(np.float32([0.1, 10]))
        Array([-2.3521686e+00, -4.5400961e-05], dtype=float32)
    """
    return _log1mexp(x)


@custom_jvp
def _log1mexp(x: Any) -> Any:
    return ops.select(x < math.log(2), ops.log(-ops.expm1(-x)), ops.log1p(-ops.exp(-x)))


@_log1mexp.defjvp
def _log1mexp_jvp(primals: Any, tangents: Any) -> Any:
    # 1 / expm1(x) would have a derivative that is NaN where exp(x) is infinite.
    return _log1mexp(*primals), tangents[0] * (ops.exp(-primals[0]) / -ops.expm1(-primals[0]))


@_of_floats
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Compute (x + sqrt(x**2 + b)) / 2, a smooth relu (JAX: `jax.nn.squareplus`).

    Args:
        b: the smoothness: a scalar >= 0, or an array that broadcasts with `x`.

    Example:
        >>> mx.nn.squareplus(np.float32([-2, 0, 2]))
        Array([0.41421354, 1.        , 2.4142137 ], dtype=float32)
    """
    x, b = np.broadcast_arrays(x, convert(lifted(b), kind_of(x)))
    return _squareplus(x, b)


def _radius(x: Any, b: Any) -> Any:
    """Compute sqrt(x**2 + b) without overflow of the square."""
    return np.hypot(x, np.sqrt(b))


def _squareplus_of(x: Any, b: Any) -> Any:
    above = abs(x) / 2 + _radius(x, b) / 2
    return np.where(x < 0, b / 4 / above, above)  # below 0 the sum would cancel


# Their derivatives are not differences of large numbers.
_slope_of_squareplus = with_derivatives(
    lambda x, b: _squareplus_of(x, b) / _radius(x, b),
    lambda y, x, b: b / 2 / _radius(x, b) / _radius(x, b) / _radius(x, b),
    lambda y, x, b: -x / 4 / _radius(x, b) / _radius(x, b) / _radius(x, b),
)
_squareplus = with_derivatives(
    _squareplus_of,
    lambda y, x, b: _slope_of_squareplus(x, b),
    lambda y, x, b: 0.25 / _radius(x, b),
)


@_of_floats
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Multiply the first half of x along `axis` by the sigmoid of the second (JAX: `jax.nn.glu`).

    Args:
        axis: the dimension to split into halves.

    Returns:
        An array of half the size along `axis`.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: the dimension has an odd size.

    Example:
        >>> mx.nn.glu(np.float32([1, 2, 0, 0]))
        Array([0.5, 1. ], dtype=float32)
    """
    x = lifted(x)
    place = axis_of(axis, x.ndim, "glu")
    if x.shape[place] % 2:
        problem, details = "the dimension has an odd size", f"x has dimensions {x.shape}"
        raise shape_error("glu", problem, "Its size must be even.", details, axis=axis)
    value, gate = np.split(x, 2, place)
    return value * ops.logistic(gate)
