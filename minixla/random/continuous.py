"""Distributions of floats."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import convert, default_float
from minixla.random import drawing
from minixla.random.drawing import floats
from minixla.random.sampling import (
    BROADCAST,
    SHARED,
    finfo,
    refuse_narrowing,
    requested,
    sampler,
    sizes_of,
)
from minixla.typing import Array, ArrayLike, DTypeLike, KeyLike, ShapeLike
from minixla_ops.helpers.shorthand import full_like


@documented(SHARED)
@sampler("minval", "maxval")
def uniform(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample uniformly from [minval, maxval) (JAX: `jax.random.uniform`).

    Args:
        minval: the lower limit, included; it broadcasts to `shape`.
        maxval: the upper limit, excluded; it broadcasts to `shape`.

    Example:
        >>> mx.random.uniform(mx.random.key(0), (3,), minval=-1, maxval=1)
        Array([ 0.895334  ,  0.95715976, -0.33541703], dtype=float32)
    """
    kind = requested(dtype, "uniform", default_float(), "float")
    return floats(key, sizes_of("uniform", shape, minval, maxval), kind, minval, maxval)


@documented(SHARED)
@sampler()
def normal(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the standard normal distribution (JAX: `jax.random.normal`).

    Complex samples have independent real and imaginary parts, and variance 1.

    Example:
        >>> mx.random.normal(mx.random.key(0), (3,))
        Array([ 1.6226422 ,  2.0252647 , -0.43359444], dtype=float32)
    """
    kind = requested(dtype, "normal", default_float(), "float", "complex")
    return drawing.normals(key, sizes_of("normal", shape), kind)


@documented(SHARED)
@sampler()
def exponential(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the exponential distribution with mean 1 (JAX: `jax.random.exponential`).

    Example:
        >>> mx.random.exponential(mx.random.key(0), (3,))
        Array([2.950128  , 3.8434246 , 0.40390354], dtype=float32)
    """
    kind = requested(dtype, "exponential", default_float(), "float")
    return drawing.exponentials(key, sizes_of("exponential", shape), kind)


@documented(SHARED)
@sampler()
def laplace(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the Laplace distribution with mean 0 and scale 1 (JAX: `jax.random.laplace`).

    Example:
        >>> mx.random.laplace(mx.random.key(0), (3,))
        Array([-2.2569816 , -3.1502788 ,  0.40859544], dtype=float32)
    """
    kind = requested(dtype, "laplace", default_float(), "float")
    low = float(-1.0 + finfo(kind).epsneg)
    share = floats(key, sizes_of("laplace", shape), kind, low, 1.0)
    return ops.sign(share) * ops.log1p(-ops.abs(share))


@documented(SHARED)
@sampler()
def logistic(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the standard logistic distribution (JAX: `jax.random.logistic`).

    Example:
        >>> mx.random.logistic(mx.random.key(0), (3,))
        Array([ 2.896376 ,  3.8217716, -0.6978392], dtype=float32)
    """
    kind = requested(dtype, "logistic", default_float(), "float")
    share = floats(key, sizes_of("logistic", shape), kind, finfo(kind).tiny, 1.0)
    return ops.log(share) - ops.log1p(-share)


@documented(SHARED)
@sampler()
def cauchy(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the standard Cauchy distribution (JAX: `jax.random.cauchy`).

    Example:
        >>> mx.random.cauchy(mx.random.key(0), (3,))
        Array([ 6.0274944 , 14.837895  , -0.58172226], dtype=float32)
    """
    kind = requested(dtype, "cauchy", default_float(), "float")
    share = floats(key, sizes_of("cauchy", shape), kind, finfo(kind).eps, 1.0)
    return ops.tan(full_like(share, np.pi) * (share - full_like(share, 0.5)))


@documented(SHARED)
@sampler()
def gumbel(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the standard Gumbel distribution (JAX: `jax.random.gumbel`).

    Args:
        mode: "low", "high" or "highest", the accuracy of the tails; default: "low", or "high" if
            `jax_high_dynamic_range_gumbel` is set.

    Raises:
        ShapeError: `key` is not a random key, or the dtype is not suitable.
        AttributeValueError: the mode is unknown.

    Example:
        >>> mx.random.gumbel(mx.random.key(0), (3,))
        Array([ 2.9233725 ,  3.8326178 , -0.09689324], dtype=float32)
    """
    kind = requested(dtype, "gumbel", default_float(), "float")
    operands.refuse_others(mode, (None, "low", "high", "highest"), "gumbel", "mode")
    return drawing.gumbels(key, sizes_of("gumbel", shape), kind, mode)


@documented(SHARED, BROADCAST)
@sampler("lower", "upper")
def truncated_normal(
    key: KeyLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the standard normal distribution between limits.

    JAX: `jax.random.truncated_normal`.

    Args:
        lower: the lower limit, excluded.
        upper: the upper limit, excluded.

    Example:
        >>> mx.random.truncated_normal(mx.random.key(0), -1, 1, (3,))
        Array([ 0.8618594,  0.9412883, -0.2910484], dtype=float32)
    """
    kind = requested(dtype, "truncated_normal", default_float(), "float")
    sizes = sizes_of("truncated_normal", shape, lower, upper)
    low, high = (mnp.asarray(convert(bound, kind)) for bound in (lower, upper))
    ends = (ops.erf(bound / full_like(bound, np.sqrt(2))) for bound in (low, high))
    shares = floats(key, sizes, kind, *ends)
    samples = full_like(shares, np.sqrt(2)) * ops.erf_inv(shares)
    # Exclude both limits, without a derivative with respect to them.
    above, below = (
        ops.next_after(transforms().stop_gradient(bound), full_like(bound, end))
        for bound, end in ((low, np.inf), (high, -np.inf))
    )
    return mnp.clip(samples, above, below)


@documented(SHARED, BROADCAST)
@sampler("sigma")
def lognormal(
    key: KeyLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the log-normal distribution (JAX: `jax.random.lognormal`).

    The logarithms of the samples have a normal distribution with mean 0.

    Args:
        sigma: the standard deviation of the logarithms.

    Example:
        >>> mx.random.lognormal(mx.random.key(0), sigma=np.float32([0, 1]))
        Array([1.      , 7.578117], dtype=float32)
    """
    kind = requested(dtype, "lognormal", default_float(), "float", "complex")
    refuse_narrowing("lognormal", kind, sigma)
    sizes = sizes_of("lognormal", shape, sigma)
    return ops.exp(drawing.normals(key, sizes, kind) * convert(sigma, kind))
