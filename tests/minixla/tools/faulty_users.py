"""Programs whose own rules are wrong: custom derivatives, custom operations, functions of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
import minixla.numpy as mnp


@mx.custom_jvp
def cube(x: Any) -> Any:
    return x * x * x


@cube.defjvp
def cube_rule(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return cube(x), 2 * x * x * tangent


@mx.custom_vjp
def clipped(x: Any) -> Any:
    return mnp.tanh(x)


clipped.defvjp(lambda x: (clipped(x), clipped(x)), lambda y, c: (-c * (1 - y * y),))


@mx.custom_vjp
def product(x: Any, y: Any) -> Any:
    return x * y


product.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, c: (kept[0] * c, kept[0] * c))


@jax.custom_jvp
def jax_square(x: Any) -> Any:
    return x * x


jax_square.defjvp(lambda p, t: (jax_square(*p), p[0] * t[0]))


@jax.custom_vjp
def jax_log(x: Any) -> Any:
    return jnp.log(x)


jax_log.defvjp(lambda x: (jnp.log(x), x), lambda x, c: (c * x,))


@mx.custom_op("tests.faults.soft_sign")
def soft_sign(x: mx.Array) -> mx.Array:
    return x / (1 + mnp.abs(x))


@soft_sign.gradient
def soft_sign_gradient(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.inputs
    return [grad / (1 + mnp.abs(x))]


@mx.custom_op("tests.faults.swish")
def swish(x: mx.Array) -> mx.Array:
    return x * mx.nn.sigmoid(x)


@swish.jvp
def swish_tangent(ctx: Any, tangent: Any) -> Any:
    (x,) = ctx.inputs
    return mx.nn.sigmoid(x) * tangent


doubled = mx.register_op(
    "TestsFaultsDoubled", inputs=["x: float"], outputs=["y: float"], shape_fn=mx.unchanged_shape
)
doubled.kernel("reference", lambda ctx, x: 2 * x)
doubled.kernel("cpu", lambda ctx, x: x + x + 1e-3)
doubled.gradient(lambda ctx, grad: [2 * grad])

shifted = mx.register_op(
    "TestsFaultsShifted", inputs=["x: float"], outputs=["y: float"], shape_fn=mx.unchanged_shape
)
shifted.kernel("reference", lambda ctx, x: np.roll(x, 1))
shifted.kernel("cpu", lambda ctx, x: mnp.roll(x, -1))
shifted.gradient(lambda ctx, grad: [shifted(grad)])


def uses_cube(x: Any) -> Any:
    wave = mnp.sin(x)
    power = cube(wave)
    return power * x


def cube_in_a_loop(x: Any) -> Any:
    def body(i: Any, state: Any) -> Any:
        power = cube(state)
        return power * 0.5

    return mx.fori_loop(0, 2, body, x)


def cube_over_rows(x: Any) -> Any:
    def row(each: Any) -> Any:
        power = cube(each)
        return power.sum()

    return mx.vmap(row)(x)


def cube_in_jit(x: Any) -> Any:
    inner = mx.jit(lambda each: cube(each) * 2)
    return inner(x) + x


def uses_clipped(x: Any) -> Any:
    scaled = x * 0.5
    small = clipped(scaled)
    return small.sum()


def uses_product(x: Any, y: Any) -> Any:
    result = product(x, y)
    return mnp.exp(result * 0.1)


def uses_jax_square(x: Any) -> Any:
    square = jax_square(x)
    return jnp.sin(square)


def uses_jax_log(x: Any) -> Any:
    result = jax_log(x)
    return result * x


def uses_soft_sign(x: Any) -> Any:
    small = soft_sign(x)
    return small * x


def uses_swish(x: Any) -> Any:
    result = swish(x)
    return result.sum()


def uses_doubled(x: Any) -> Any:
    twice = doubled(x)
    return mnp.tanh(twice)


def uses_shifted(x: Any) -> Any:
    result = shifted(x)
    return result * x


@mx.custom_jvp
def raising(x: Any) -> Any:
    return x * x


@raising.defjvp
def raising_rule(primals: Any, tangents: Any) -> Any:
    raise ValueError("the rule is not finished")


def uses_raising(x: Any) -> Any:
    return raising(x) + 1


def steep_step(x: Any) -> Any:
    """Take a step with a wrong rule inside."""

    def loss(x: Any) -> Any:
        power = cube(x)
        return power.sum()

    return x - 0.1 * mx.grad(loss)(x)
