"""JAX functions with custom rules inside our transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import minixla as mx
from minixla.engine.jax_private import disable_bwd_checks


@jax.custom_vjp
def first(x, y):
    return x


first.defvjp(lambda x, y: (x, None), lambda _, cotangent: (cotangent, jnp.zeros(3)))


@pytest.mark.parametrize("wrap", [lambda f: f, mx.jit], ids=["eager", "jit"])
def test_the_option_that_allows_cotangents_of_other_shapes(wrap):
    gradient = wrap(mx.grad(lambda x, y: first(x, y).sum(), 1))
    with pytest.raises(ValueError, match="bwd rule must produce"):
        gradient(jnp.ones(3), jnp.ones(4))
    with disable_bwd_checks(True):
        assert gradient(jnp.ones(3), jnp.ones(4)).shape == (3,)


@jax.custom_jvp
def tripled_rule(x):
    return jnp.sin(x)


@tripled_rule.defjvp
def _(primals, tangents):
    return tripled_rule(*primals), 3 * tangents[0]


# Not `jax.grad` of `lax.scan`: partial evaluation in JAX forgets the rules in its loops.
@pytest.mark.parametrize(
    ("grad", "scan"),
    [(mx.grad, jax.lax.scan), (mx.grad, mx.scan), (jax.grad, mx.scan)],
    ids=["mx lax", "mx mx", "jax mx"],
)
def test_the_tangent_of_aux_follows_the_rule_in_loops(grad, scan):
    def aux(x):
        def loop(x):
            return scan(lambda c, _: (tripled_rule(c), None), x, None, length=2)[0]

        return grad(lambda x: (x, loop(x)), has_aux=True)(x)[1]

    assert mx.jvp(aux, (0.5,), (1.0,))[1] == pytest.approx(9.0)
