"""Gamma distributions, and what is made of them."""

import math
from functools import cache, partial
from typing import Any

from jax import lax

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import F16, ElementType
from minixla.engine.random_keys import KeyNumbers
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import convert, default_float, shape_error
from minixla.random.drawing import exponentials, floats, normals
from minixla.random.sampling import (
    finfo,
    implementation_of,
    is_threefry,
    refuse_narrowing,
    requested,
    sampler,
    sizes_of,
    split_keys,
)
from minixla_ops.elementwise.operators import operand_shape
from minixla_ops.helpers.shorthand import full_like


@sampler("a")
def gamma(key: KeyNumbers, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Floats of the gamma distribution of scale 1.

    They have an implicit derivative with respect to `a`.

    Args:
        key: a random key.
        a: the distribution's shape, positive floats.
        shape: the result's; None: that of `a`.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else, or the shapes do not fit.
    """
    kind = requested(dtype, "gamma", default_float(), "float")
    return _gammas(key, convert(a, kind), sizes_of("gamma", shape, a), False)


@sampler("a")
def loggamma(key: KeyNumbers, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of floats of the gamma distribution, exact where those are 0.

    Args:
        key: a random key.
        a: the distribution's shape, positive floats.
        shape: the result's; None: that of `a`.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else, or the shapes do not fit.
    """
    kind = requested(dtype, "loggamma", default_float(), "float")
    return _gammas(key, convert(a, kind), sizes_of("loggamma", shape, a), True)


@sampler("a", "b")
def beta(key: KeyNumbers, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Floats of the beta distribution.

    Args:
        key: a random key.
        a: the first shape parameter, positive floats.
        b: the second one.
        shape: the result's; None: that of the parameters, which must broadcast to it.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else or narrower than the parameters, or the shapes
            do not fit.
    """
    kind = requested(dtype, "beta", default_float(), "float")
    refuse_narrowing("beta", kind, a, b)
    sizes, keys = sizes_of("beta", shape, a, b), split_keys(key, 2)
    logs = [_gammas(keys[at], convert(each, kind), sizes, True) for at, each in enumerate((a, b))]
    most = mnp.maximum(*logs)
    first, second = (ops.exp(each - most) for each in logs)
    return first / (first + second)


@sampler("alpha")
def dirichlet(key: KeyNumbers, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Vectors of the Dirichlet distribution, whose sums are 1.

    Args:
        key: a random key.
        alpha: the concentrations, positive floats, along the last axis.
        shape: the result's but for the last axis; None: that of `alpha`.
        dtype: the result's type; default: the default float.

    Raises:
        ShapeError: the dtype is of something else, or the shapes do not fit.
    """
    kind = requested(dtype, "dirichlet", default_float(), "float")
    given = operand_shape(alpha, "dirichlet")
    if not given.rank:
        advice = "Give the concentrations along the last axis."
        raise shape_error("dirichlet", "alpha is a scalar", advice, f"alpha {given}")
    *front, last = given.dimensions
    sizes = sizes_of("dirichlet", shape, mnp.zeros(front))
    logs = _gammas(key, convert(alpha, kind), (*sizes, last), True)
    return ops.softmax(logs, (len(sizes),))


def _gammas(key: KeyNumbers, a: Any, sizes: tuple[int, ...], is_log: bool) -> Any:
    """What `gamma` or `loggamma` gives, of a parameter of the result's type."""
    return _with_derivative(key.dtype, is_log)(key.data, mnp.broadcast_to(a, sizes))


@cache
def _with_derivative(dtype: Any, is_log: bool) -> Any:
    def one(pair: Any) -> Any:
        return _single(KeyNumbers(pair[0], dtype), pair[1], is_log)

    def draw(data: Any, a: Any) -> Any:
        key = KeyNumbers(data, dtype)
        members = implementation_of(key).members(data, math.prod(a.shape), False, False)
        # Others than threefry give other numbers for several keys at once.
        mapping = transforms()
        each = mapping.vmap(one) if is_threefry(key) else partial(mapping.map, one)
        return mnp.reshape(each((members, mnp.reshape(a, (-1,)))), a.shape)

    def tangent(primals: Any, tangents: Any) -> Any:
        sample = drawn(*primals)
        return sample, tangents[1] * _slope(sample, primals[1], is_log)

    drawn = transforms().custom_jvp(draw)
    drawn.defjvp(tangent)
    return drawn


#: Any: JAX's stub requires an argument that its function does not have.
_gamma_grad: Any = lax.random_gamma_grad


def _slope(sample: Any, a: Any, is_log: bool) -> Any:
    """The derivative of samples, or of their logarithms, with respect to `a`."""
    if not is_log:
        return _gamma_grad(a, sample)
    size = ops.exp(sample)
    size = ops.select(
        size == 0, full_like(size, finfo(operand_shape(size).element_type).tiny), size
    )
    return _gamma_grad(a, size) / size


def _single(key: KeyNumbers, a: Any, is_log: bool) -> Any:
    """One sample. Source: Marsaglia and Tsang, A simple method for generating gamma variables."""
    kind: ElementType = operand_shape(a).element_type
    is_large = a >= 1
    size = ops.select(is_large, a, a + 1)
    d = size - full_like(a, 1 / 3)
    c = full_like(a, 1 / 3) / ops.sqrt(d)
    # Of keys drawn of one by one the loops are small.
    dtype, split = key.dtype, partial(split_keys, is_loop=kind is F16 and not is_threefry(key))
    key, own = split(key, 2)
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
        log_share = -exponentials(own, (), kind)
        is_plain = is_large | (log_share == 0)
        boost = ops.select(is_plain, zero, log_share * (one / a))
        return ops.log(d) + ops.log(cube) + boost
    boost = ops.select(is_large, one, ops.pow(1 - floats(own, (), kind), one / a))
    return d * cube * boost
