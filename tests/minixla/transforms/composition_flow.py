"""Programs with control flow, rules of their own, and transformations inside.

As `composition_programs`, for the table of compositions of transformations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import minixla as mx
import minixla.numpy as mnp
from minixla import ops
from tests.minixla.transforms.composition_programs import Function, Program

_OF_LAX = ("cond", "fori_loop", "map", "scan", "switch", "while_loop", "associative_scan")
_OF_LAX += ("all_gather", "axis_index", "ppermute", "psum", "stop_gradient")
_OF_JAX = ("checkpoint", "custom_jvp", "custom_vjp", "grad", "jit", "jvp", "vmap")
JAX = SimpleNamespace(
    numpy=jnp,
    **{name: getattr(lax, name) for name in _OF_LAX},
    **{name: getattr(jax, name) for name in _OF_JAX},
)


def _both(build: Callable[[Any], Function], **options: Any) -> Program:
    """A program that differs only in where the names come from."""
    return Program(build(mx), build(JAX), **options)


def _while(m: Any) -> Function:
    """Halves, as often as the argument's greatest element says."""

    def f(x: Any) -> Any:
        state = m.numpy.abs(x).max(), m.numpy.sin(x)
        return m.while_loop(
            lambda s: s[0] > 0.3, lambda s: (s[0] * 0.5, s[1] * x + s[0] * s[1] ** 2), state
        )[1]

    return f


def _fori(m: Any) -> Function:
    return lambda x: m.fori_loop(0, 3, lambda i, y: m.numpy.sin(y) * x + i * y * y, x)


def _cond(m: Any) -> Function:
    def f(x: Any) -> Any:
        one = m.cond(x[0] > 0, lambda y: m.numpy.sin(y) * y, lambda y: y**3, x)
        return one + m.cond(x.sum() > 9, lambda: x, lambda: x * x)

    return f


def _switch(m: Any) -> Function:
    branches = [lambda y: y * y, lambda y: y[0] * m.numpy.cos(y), lambda y: y.sum() + y**3]

    def f(x: Any) -> Any:
        return m.switch((x[2] + 1.5).astype(np.int32), branches, x)

    return f


def _scan(m: Any) -> Function:
    def f(x: Any) -> Any:
        def step(carry: Any, element: Any) -> Any:
            carry = m.numpy.sin(carry) * element + x[0]
            return carry, carry * x[:2]

        carry, rows = m.scan(step, x[3], x)
        return rows[:, 1] * carry

    return f


def _map(m: Any) -> Function:
    return lambda x: m.map(lambda e: e * m.numpy.exp(e) * x.sum(), x)


def _associative_scan(m: Any) -> Function:
    def f(x: Any) -> Any:
        pairs = (m.numpy.sin(x), x * x)
        return m.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), pairs)[1]

    return f


def _stop_gradient(m: Any) -> Function:
    return lambda x: m.stop_gradient(m.numpy.sin(x)) * x * x


def _custom_jvp(m: Any) -> Function:
    @m.custom_jvp
    def rule(x: Any, y: Any) -> Any:
        return m.numpy.sin(x) * y

    # The factor of 2 is wrong on purpose: it shows which rule was used.
    rule.defjvp(
        lambda p, t: (rule(*p), m.numpy.cos(p[0]) * p[1] * t[0] * 2 + m.numpy.sin(p[0]) * t[1])
    )
    return lambda x: rule(x, x * x)


def _custom_vjp(m: Any) -> Function:
    @m.custom_vjp
    def rule(x: Any, y: Any) -> Any:
        return m.numpy.sin(x) * y

    rule.defvjp(
        lambda x, y: (m.numpy.sin(x) * y, (x, y)),
        lambda r, c: (2 * m.numpy.cos(r[0]) * r[1] * c, m.numpy.sin(r[0]) * c),
    )
    return lambda x: rule(x, x * x)


def _nested_jit(m: Any) -> Function:
    inner = m.jit(lambda x, y: m.jit(m.numpy.cos)(x) * y)
    return m.jit(lambda x: inner(x, x * x) + inner(x[::-1], x))


def _checkpoint(m: Any) -> Function:
    block = m.checkpoint(lambda x, y: m.numpy.sin(x * m.numpy.exp(y)))
    return lambda x: block(block(x, x * x), x[::-1])


def _derivatives_inside(m: Any) -> Function:
    """Derivatives of functions that read the argument of the one around them."""

    def f(x: Any) -> Any:
        slope = m.grad(lambda y: (m.numpy.sin(x * y) * y**2).sum())(x[::-1])
        return slope + m.jvp(lambda y: y * y * x, (m.numpy.cos(x),), (x,))[1]

    return f


def _named_axis(m: Any) -> Function:
    def member(e: Any, x: Any) -> Any:
        near = m.ppermute(e * e, "members", [(0, 1), (1, 2), (2, 3), (3, 0)])
        scaled = m.numpy.sin(e) * (1 + m.axis_index("members")) + near * x[0]
        return scaled * m.psum(e, "members") + m.all_gather(e, "members") @ x

    return lambda x: m.vmap(member, in_axes=(0, None), axis_name="members")(x, x)


def _on_devices(x: Any) -> Any:
    def member(part: Any, x: Any) -> Any:
        total = mx.psum(mnp.sin(part), "devices")
        return part * part * total + x[0] * mx.axis_index("devices")

    return mx.pmap(member, "devices", in_axes=(0, None))(x.reshape(2, 2), x).reshape(4)


def _jax_on_devices(x: Any) -> Any:
    part = x.reshape(2, 2)
    return (part * part * jnp.sin(part).sum(0) + x[0] * jnp.arange(2.0)[:, None]).reshape(4)


def _calls(x: Any) -> Any:
    """Computations in an operation."""
    sine, square = ops.optimization_barrier((mnp.sin(x), x * x))
    (product,) = ops.call(lambda a, b: a * b * a, sine, square)
    named = ops.composite_call(lambda a, b: mnp.tanh(a) * b, product, x, name="test.composite")
    return (named[0] if isinstance(named, tuple) else named) + product


def _jax_calls(x: Any) -> Any:
    product = jnp.sin(x) ** 2 * x * x
    return jnp.tanh(product) * x + product


def _scan_operation(x: Any) -> Any:
    outputs, last = ops.scan(x, x[1], lambda e, c: (e * c, ops.sin(c) + e), is_reverse=True)
    return outputs * last


def _jax_scan_operation(x: Any) -> Any:
    last, outputs = lax.scan(lambda c, e: (jnp.sin(c) + e, e * c), x[1], x, reverse=True)
    return outputs * last


FLOW = {
    "while": _both(_while),
    "fori_loop": _both(_fori),
    "cond": _both(_cond),
    "switch": _both(_switch),
    "scan": _both(_scan),
    "scan operation": Program(_scan_operation, _jax_scan_operation),
    "map": _both(_map),
    "associative_scan": _both(_associative_scan),
    "stop_gradient": _both(_stop_gradient),
    "custom_jvp": _both(_custom_jvp),
    # Its rule is a reverse one: there is no forward derivative, in JAX neither.
    "custom_vjp": _both(_custom_vjp, has_forward=False),
    "jit inside": _both(_nested_jit),
    "checkpoint inside": _both(_checkpoint),
    "derivatives inside": _both(_derivatives_inside),
    "named axis": _both(_named_axis),
    "pmap inside": Program(_on_devices, _jax_on_devices),
    "calls": Program(_calls, _jax_calls),
}
