"""Distributions of floats."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.engine.random_keys import KeyNumbers
from minixla.numpy import operands
from minixla.numpy.element_functions import named, transforms
from minixla.numpy.operands import convert, default_float
from minixla.random import drawing
from minixla.random.drawing import floats
from minixla.random.sampling import finfo, refuse_narrowing, requested, sampler, sizes_of
from minixla_ops.helpers.shorthand import full_like

Sizes = tuple[int, ...]


@sampler("minval", "maxval")
def uniform(
    key: KeyNumbers, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Floats between two numbers, all equally likely.

    Args:
        key: a random key.
        shape: the result's.
        dtype: the result's type; default: the default float.
        minval: the least, which may be among them; it broadcasts to the shape.
        maxval: the greatest, which is not.

    Raises:
        ShapeError: the dtype is none of floats, or the shapes do not fit.
    """
    kind = requested(dtype, "uniform", default_float(), "float")
    return floats(key, sizes_of("uniform", shape, minval, maxval), kind, minval, maxval)


def _of_key(
    name: str, text: str, draw: Callable[[KeyNumbers, Sizes, ElementType], Any], *kinds: str
) -> Any:
    """The function of a key, sizes and a type of floats that draws these."""

    def function(key: KeyNumbers, shape: Any = (), dtype: Any = None) -> Any:
        return draw(key, shape, requested(dtype, name, default_float(), "float", *kinds))

    return sampler()(named(function, name, f"{text}\n\n    Raises:\n        {_OF_FLOATS}"))


_OF_FLOATS = "ShapeError: the dtype is of something else."
_COMPLEX = "; complex ones have independent parts, and variance 1"


def _laplace(key: KeyNumbers, sizes: Sizes, kind: ElementType) -> Any:
    share = floats(key, sizes, kind, float(-1.0 + finfo(kind).epsneg), 1.0)
    return ops.sign(share) * ops.log1p(-ops.abs(share))


def _logistic(key: KeyNumbers, sizes: Sizes, kind: ElementType) -> Any:
    share = floats(key, sizes, kind, finfo(kind).tiny, 1.0)
    return ops.log(share) - ops.log1p(-share)


def _cauchy(key: KeyNumbers, sizes: Sizes, kind: ElementType) -> Any:
    share = floats(key, sizes, kind, finfo(kind).eps, 1.0)
    return ops.tan(full_like(share, np.pi) * (share - full_like(share, 0.5)))


normal = _of_key(
    "normal", f"Floats of the standard normal distribution{_COMPLEX}.", drawing.normals, "complex"
)
exponential = _of_key(
    "exponential", "Floats of the exponential distribution of mean 1.", drawing.exponentials
)
laplace = _of_key("laplace", "Floats of the Laplace distribution of mean 0 and scale 1.", _laplace)
logistic = _of_key("logistic", "Floats of the logistic distribution.", _logistic)
cauchy = _of_key("cauchy", "Floats of the Cauchy distribution.", _cauchy)


@sampler()
def gumbel(key: KeyNumbers, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Floats of the Gumbel distribution.

    Args:
        key: a random key.
        shape: the result's.
        dtype: the result's type; default: the default float.
        mode: "low", "high" or "highest": how exact the tails are; default: "low", or what
            `jax_high_dynamic_range_gumbel` says.

    Raises:
        ShapeError: the dtype is of something else.
        AttributeValueError: there is no such mode.
    """
    kind = requested(dtype, "gumbel", default_float(), "float")
    operands.refuse_others(mode, (None, "low", "high", "highest"), "gumbel", "mode")
    return drawing.gumbels(key, shape, kind, mode)


@sampler("lower", "upper")
def truncated_normal(
    key: KeyNumbers, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Any:
    """Floats of the standard normal distribution between two numbers.

    Args:
        key: a random key.
        lower: the number that all are greater than.
        upper: the number that all are less than.
        shape: the result's; None: that of the limits, which must broadcast to it.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else, or the shapes do not fit.
    """
    kind = requested(dtype, "truncated_normal", default_float(), "float")
    sizes = sizes_of("truncated_normal", shape, lower, upper)
    low, high = (mnp.asarray(convert(each, kind)) for each in (lower, upper))
    ends = (ops.erf(each / full_like(each, np.sqrt(2))) for each in (low, high))
    shares = floats(key, sizes, kind, *ends)
    found = full_like(shares, np.sqrt(2)) * ops.erf_inv(shares)
    # Neither limit may be among them, nor change what they are derivatives of.
    above, below = (
        ops.next_after(transforms().stop_gradient(each), full_like(each, end))
        for each, end in ((low, np.inf), (high, -np.inf))
    )
    return mnp.clip(found, above, below)


@sampler("sigma")
def lognormal(key: KeyNumbers, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Floats whose logarithms are normal, of mean 0.

    Args:
        key: a random key.
        sigma: the standard deviation of the logarithms.
        shape: the result's; None: that of `sigma`.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else, or the shapes do not fit.
    """
    kind = requested(dtype, "lognormal", default_float(), "float", "complex")
    refuse_narrowing("lognormal", kind, sigma)
    sizes = sizes_of("lognormal", shape, sigma)
    return ops.exp(drawing.normals(key, sizes, kind) * convert(sigma, kind))
