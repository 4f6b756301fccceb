"""Gamma distributions, and distributions that are derived from them."""

import math
from functools import cache, partial
from typing import Any

from jax import lax

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F16, ElementType
from minixla.engine.random_keys import KeyNumbers
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import convert, default_float, shape_error
from minixla.random.drawing import exponentials, floats, normals
from minixla.random.sampling import (
    BROADCAST,
    SHARED,
    finfo,
    implementation_of,
    is_threefry,
    refuse_narrowing,
    requested,
    sampler,
    sizes_of,
    split_keys,
)
from minixla.typing import Array, ArrayLike, DTypeLike, KeyLike, ShapeLike
from minixla_ops.elementwise.operators import operand_shape
from minixla_ops.helpers.shorthand import full_like


@documented(SHARED, BROADCAST)
@sampler("a")
def gamma(
    key: KeyLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the gamma distribution with scale 1 (JAX: `jax.random.gamma`).

    Samples have an implicit derivative with respect to `a`.

    Args:
        a: the shape parameter of the distribution, positive floats.

    Example:
        >>> mx.random.gamma(mx.random.key(0), 2.0, (2,))
        Array([1.5897877, 1.7599413], dtype=float32)
    """
    kind = requested(dtype, "gamma", default_float(), "float")
    return _gammas(key, convert(a, kind), sizes_of("gamma", shape, a), False)


@documented(SHARED, BROADCAST)
@sampler("a")
def loggamma(
    key: KeyLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample the logarithm of `gamma`, accurately near 0 (JAX: `jax.random.loggamma`).

    Args:
        a: the shape parameter of the distribution, positive floats.

    Example:
        >>> mx.random.loggamma(mx.random.key(0), 2.0, (2,))
        Array([0.46360058, 0.5652805 ], dtype=float32)
    """
    kind = requested(dtype, "loggamma", default_float(), "float")
    return _gammas(key, convert(a, kind), sizes_of("loggamma", shape, a), True)


@documented(SHARED, BROADCAST)
@sampler("a", "b")
def beta(
    key: KeyLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample from the beta distribution (JAX: `jax.random.beta`).

    Args:
        a: the first shape parameter, positive floats.
        b: the second shape parameter.

    Example:
        >>> mx.random.beta(mx.random.key(0), 2.0, 3.0, (2,))
        Array([0.23627362, 0.49045956], dtype=float32)
    """
    kind = requested(dtype, "beta", default_float(), "float")
    refuse_narrowing("beta", kind, a, b)
    sizes, keys = sizes_of("beta", shape, a, b), split_keys(key, 2)
    logs = [
        _gammas(keys[at], convert(parameter, kind), sizes, True)
        for at, parameter in enumerate((a, b))
    ]
    most = mnp.maximum(*logs)
    first, second = (ops.exp(log - most) for log in logs)
    return first / (first + second)


@documented(SHARED, BROADCAST)
@sampler("alpha")
def dirichlet(
    key: KeyLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sample vectors from the Dirichlet distribution (JAX: `jax.random.dirichlet`).

    Args:
        alpha: the concentrations, positive floats, along the last axis.
        shape: the shape of the result except for the last axis; None: that of `alpha`.

    Returns:
        An array of floats, with the vectors along the last axis.

    Example:
        >>> mx.random.dirichlet(mx.random.key(0), np.float32([1, 1, 1])).sum()
        Array(0.99999994, dtype=float32)
    """
    kind = requested(dtype, "dirichlet", default_float(), "float")
    shape_of_alpha = operand_shape(alpha, "dirichlet")
    if not shape_of_alpha.rank:
        advice = "Pass the concentrations along the last axis."
        raise shape_error("dirichlet", "alpha is a scalar", advice, f"alpha {shape_of_alpha}")
    *front, last = shape_of_alpha.dimensions
    sizes = sizes_of("dirichlet", shape, mnp.zeros(front))
    logs = _gammas(key, convert(alpha, kind), (*sizes, last), True)
    return ops.softmax(logs, (len(sizes),))


def _gammas(key: Any, a: Any, sizes: tuple[int, ...], is_log: bool) -> Any:
    """Draw the numbers of `gamma` or `loggamma`, for a parameter of the result's type."""
    return _with_derivative(key.dtype, is_log)(key.data, mnp.broadcast_to(a, sizes))


@cache
def _with_derivative(dtype: Any, is_log: bool) -> Any:
    def one(pair: Any) -> Any:
        return _single(KeyNumbers(pair[0], dtype), pair[1], is_log)

    def draw(data: Any, a: Any) -> Any:
        key = KeyNumbers(data, dtype)
        members = implementation_of(key).members(data, math.prod(a.shape), False, False)
        # Implementations other than threefry give other numbers for several keys at once.
        mapping = transforms()
        mapped = mapping.vmap(one) if is_threefry(key) else partial(mapping.map, one)
        return mnp.reshape(mapped((members, mnp.reshape(a, (-1,)))), a.shape)

    def tangent(primals: Any, tangents: Any) -> Any:
        sample = drawn(*primals)
        return sample, tangents[1] * _slope(sample, primals[1], is_log)

    drawn = transforms().custom_jvp(draw)
    drawn.defjvp(tangent)
    return drawn


#: Any, because JAX's stub requires an argument that its function does not have.
_gamma_grad: Any = lax.random_gamma_grad


def _slope(sample: Any, a: Any, is_log: bool) -> Any:
    """Return the derivative of samples, or of their logarithms, with respect to `a`."""
    if not is_log:
        return _gamma_grad(a, sample)
    size = ops.exp(sample)
    size = ops.select(
        size == 0, full_like(size, finfo(operand_shape(size).element_type).tiny), size
    )
    return _gamma_grad(a, size) / size


def _single(key: KeyNumbers, a: Any, is_log: bool) -> Any:
    """Draw one sample. Source: Marsaglia and Tsang, A simple method for generating gamma ..."""
    kind: ElementType = operand_shape(a).element_type
    is_large = a >= 1
    size = ops.select(is_large, a, a + 1)
    d = size - full_like(a, 1 / 3)
    c = full_like(a, 1 / 3) / ops.sqrt(d)
    # Loops keep the program small if keys are processed one by one.
    dtype, split = key.dtype, partial(split_keys, is_loop=kind is F16 and not is_threefry(key))
    key, draw_key = split(key, 2)
    zero, one = full_like(a, 0), full_like(a, 1)

    def is_refused(state: Any) -> Any:
        _, square, cube, share = state
        is_outside = share >= 1 - full_like(a, 0.0331) * (square * square)
        bound = square * 0.5 + d * ((1 - cube) + ops.log(cube))
        return is_outside & (ops.log(share) >= bound)

    def propose(state: Any) -> Any:
        key, of_normal, of_share = split(KeyNumbers(state[0], dtype), 3)
        start = of_normal.data, zero, full_like(a, -1)
        _, normal, factor = transforms().while_loop(lambda now: now[2] <= 0, drawn_normal, start)
        cube = factor * factor * factor
        return key.data, normal * normal, cube, floats(of_share, (), kind)

    def drawn_normal(state: Any) -> Any:
        key, own = split(KeyNumbers(state[0], dtype), 2)
        normal = normals(own, (), kind)
        return key.data, normal, 1 + normal * c

    start = key.data, zero, one, full_like(a, 2)
    _, _, cube, _ = transforms().while_loop(is_refused, propose, start)
    if is_log:
        log_share = -exponentials(draw_key, (), kind)
        is_plain = is_large | (log_share == 0)
        boost = ops.select(is_plain, zero, log_share * (one / a))
        return ops.log(d) + ops.log(cube) + boost
    boost = ops.select(is_large, one, ops.pow(1 - floats(draw_key, (), kind), one / a))
    return d * cube * boost
