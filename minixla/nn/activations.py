"""Activations: element-wise functions of floats, whose results are weakly typed where x is."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.element_types import F32
from minixla.core.tracing import one_program, weak_type_of
from minixla.numpy.element_functions import named, with_derivatives
from minixla.numpy.operands import axis_of, kind_of, lifted, marked, operand_shape, shape_error
from minixla.transforms import custom_jvp
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.operators import Adjustment, convert
from minixla_ops.elementwise.promotion import inexact_type, numeric_type
from minixla_ops.helpers.shorthand import full_like

_Activation = TypeVar("_Activation", bound=Callable[..., Any])


def _activation(adjust: Adjustment) -> Callable[[_Activation], _Activation]:
    """Makes a function of an array, whose type `adjust` has made, one of any array or number."""

    def made(function: _Activation) -> _Activation:
        @one_program("x", "negative_slope", "alpha", "b")
        @wraps(function)
        def activation(x: Any, *args: Any, **kwargs: Any) -> Any:
            kind = adjust(kind_of(x, function.__name__))
            result = function(lifted(convert(x, kind)), *args, **kwargs)
            return marked(result, all(map(weak_type_of, (x, *args, *kwargs.values()))))

        return activation  # type: ignore[return-value]  # of the signature it wraps

    return made


_of_floats = _activation(inexact_type)
_of_numbers = _activation(numeric_type)


def _row(name: str, function: Callable[[Any], Any], text: str) -> Any:
    """A function of floats, under its public name; `text` says what it gives."""
    return _of_floats(named(function, name, f"{text} (JAX: nn.{name}).", __name__))


def identity(x: Any) -> Any:
    """The argument, as an array (JAX: nn.identity)."""
    operand_shape(x, "identity")
    return lifted(x)


# Piecewise linear. The ends of the pieces are where JAX has them, so derivatives there agree.


@_of_numbers
def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0; NaN stays NaN (JAX: nn.relu)."""
    # Not np.maximum: its derivative at the tie is 1/2.
    return ops.select(x <= 0, full_like(x, 0), x)


@_of_floats
def relu6(x: Any) -> Any:
    """The nearest number to x between 0 and 6, with derivative 0 at both (JAX: nn.relu6)."""
    return ops.select(x <= 0, full_like(x, 0), ops.select(x >= 6, full_like(x, 6), x))


@_of_numbers
def hard_tanh(x: Any) -> Any:
    """The nearest number to x between -1 and 1, with derivative 1 at both (JAX: nn.hard_tanh)."""
    return ops.select(x > 1, full_like(x, 1), ops.select(x < -1, full_like(x, -1), x))


hard_sigmoid = _row("hard_sigmoid", lambda x: relu6(x + 3) / 6, "relu6(x + 3) / 6")
hard_silu = hard_swish = _row("hard_silu", lambda x: x * hard_sigmoid(x), "x * hard_sigmoid(x)")


@_of_floats
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """Where x >= 0, x; elsewhere negative_slope * x (JAX: nn.leaky_relu)."""
    return np.where(x >= 0, x, negative_slope * x)


@_of_floats
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow (JAX: nn.softplus)."""
    # The larger exponent is taken out. Selections, unlike abs, have the right derivatives at 0.
    is_above = x > 0
    rest = ops.log1p(ops.exp(ops.select(is_above, -x, x)))
    return ops.select(is_above, x, full_like(x, 0)) + rest


sigmoid = _row("sigmoid", lambda x: ops.logistic(x), "The logistic function, 1 / (1 + exp(-x))")
log_sigmoid = _row("log_sigmoid", lambda x: -softplus(-x), "log(sigmoid(x)), without overflow")
# In f16 the logistic function may be denormal where the product is not.
silu = swish = _row(
    "silu", lambda x: in_f32(lambda x: x * ops.logistic(x), x), "The product x * sigmoid(x)"
)
mish = _row(
    "mish",
    # From 400 on the tangent is 1; far beyond, derivatives would be 0 times infinity.
    lambda x: x * np.tanh(softplus(np.minimum(x, 400))),
    "The product x * tanh(softplus(x))",
)
# The derivative of the quotient is a difference, which cancels far from 0.
_soft_sign = with_derivatives(lambda x: x / (abs(x) + 1), lambda y, x: np.square(1 / (abs(x) + 1)))
soft_sign = _row("soft_sign", lambda x: _soft_sign(x), "The quotient x / (1 + |x|)")


@_of_floats
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """Where x > 0, x; elsewhere alpha * (exp(x) - 1) (JAX: nn.elu)."""
    return np.where(x > 0, x, np.multiply(alpha, ops.expm1(_negative_part(x))))


@_of_floats
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """Where x > 0, x; elsewhere alpha * (exp(x / alpha) - 1) (JAX: nn.celu)."""
    return np.where(x > 0, x, alpha * np.expm1(np.divide(_negative_part(x), alpha)))


@_of_floats
def selu(x: Any) -> Any:
    """elu, scaled so that it keeps mean 0 and variance 1 (JAX: nn.selu).

    Source: G. Klambauer and others, Self-Normalizing Neural Networks (2017).
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def _negative_part(x: Any) -> Any:
    """min(x, 0): in a branch that is not taken, exp must not overflow into the derivative."""
    return ops.select(x > 0, full_like(x, 0), x)


@_of_floats
def gelu(x: Any, approximate: bool = True) -> Any:
    """The Gaussian error linear unit, x * Phi(x) (JAX: nn.gelu).

    Args:
        x: an array; integers become floats.
        approximate: whether Phi is the tanh approximation of Hendrycks and Gimpel (2016).
    """
    kind = kind_of(x)
    # 16 bits would keep few digits of exponents, which are far from 0 where x is negative.
    wide = convert(x, F32) if kind.bits < 32 else x
    if approximate:
        # Of x + 0.044715 * x**3, as fewer products and derivatives of them.
        slope = math.sqrt(2 / math.pi)
        # Beyond 25 the factor is 0 or 1; an infinite square would make the derivative NaN.
        near = ops.clamp(full_like(wide, -25), wide, full_like(wide, 25))
        inner = near * (2 * slope + 2 * 0.044715 * slope * (near * near))
        # (1 + tanh(z)) / 2, which cancels where z is negative, is the logistic function of 2 z.
        return convert(wide * ops.logistic(inner), kind)
    # 1 + erf(z) cancels where z is negative.
    return convert(0.5 * wide * ops.erfc(-math.sqrt(0.5) * wide), kind)


@_of_floats
def sparse_plus(x: Any) -> Any:
    """0 up to -1, x from 1 on, and (x + 1)**2 / 4 between (JAX: nn.sparse_plus).

    Source: M. Blondel and others, Learning with Fenchel-Young Losses (2019).
    """
    # In a branch that is not taken the square must not overflow into the derivative.
    inner = ops.select(abs(x) >= 1, full_like(x, 0), x) + 1
    outer = ops.select(x <= -1, full_like(x, 0), inner * inner / 4)
    return ops.select(x >= 1, x, outer)


sparse_sigmoid = _row(
    "sparse_sigmoid", lambda x: 0.5 * np.clip(x + 1, 0, 2), "(x + 1) / 2, at least 0 and at most 1"
)


@_of_floats
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0, accurate where x is small or large (JAX: nn.log1mexp).

    Source: M. Maechler, Accurately Computing log(1 - exp(-|a|)) (2012).
    """
    return _log1mexp(x)


@custom_jvp
def _log1mexp(x: Any) -> Any:
    return ops.select(x < math.log(2), ops.log(-ops.expm1(-x)), ops.log1p(-ops.exp(-x)))


@_log1mexp.defjvp
def _log1mexp_jvp(primals: Any, tangents: Any) -> Any:
    # Not 1 / expm1(x), whose own derivative is NaN where exp(x) is infinite.
    return _log1mexp(*primals), tangents[0] * (ops.exp(-primals[0]) / -ops.expm1(-primals[0]))


@_of_floats
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2, a smooth relu (JAX: nn.squareplus)."""
    x, b = np.broadcast_arrays(x, convert(lifted(b), kind_of(x)))
    return _squareplus(x, b)


def _radius(x: Any, b: Any) -> Any:
    """Compute sqrt(x**2 + b) without overflow of the square."""
    return np.hypot(x, np.sqrt(b))


def _squareplus_of(x: Any, b: Any) -> Any:
    above = abs(x) / 2 + _radius(x, b) / 2
    return np.where(x < 0, b / 4 / above, above)  # below 0 the sum would cancel


# These derivatives have derivatives that are not differences of large numbers.
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
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of x along `axis` times the sigmoid of the second (JAX: nn.glu).

    Raises:
        ShapeError: the dimension has an odd size.
    """
    place = axis_of(axis, x.ndim, "glu")
    if x.shape[place] % 2:
        problem, given = "the dimension cannot be cut into halves", f"x has dimensions {x.shape}"
        raise shape_error("glu", problem, "Its size must be even.", given, axis=axis)
    value, gate = np.split(x, 2, place)
    return value * ops.logistic(gate)
