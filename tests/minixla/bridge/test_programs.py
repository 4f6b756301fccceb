"""JAX's primitives that hold programs: checkpoint policies, loops in Python, named scopes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import minixla as mx

X = np.linspace(0.1, 1.3, 5, dtype=np.float32)
POLICIES = jax.checkpoint_policies
SINE = POLICIES.save_only_these_names("sine")


def squared(x):
    y = checkpoint_name(jnp.sin(x), "sine")
    return jnp.sum(jnp.tanh(jnp.outer(y, y) @ checkpoint_name(jnp.exp(y), "exponential")))


def residuals(policy):
    """Count the values that a checkpointed function's forward half keeps besides its inputs."""
    graph = mx.make_graph(mx.grad(jax.checkpoint(squared, policy=policy)))(X)
    forward = next(step for step in graph.instructions if step.op.computations)
    return len(forward.op.computations[0].outputs) - 1


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (None, 0),
        (POLICIES.nothing_saveable, 0),
        (SINE, 1),
        (POLICIES.save_only_these_names("sine", "exponential"), 2),
        (
            POLICIES.save_from_both_policies(
                POLICIES.save_only_these_names("sine"), lambda *_, **__: False
            ),
            1,
        ),
        (POLICIES.dots_saveable, 1),
    ],
    ids=["default", "nothing", "a name", "two names", "either", "products"],
)
def test_policies_of_checkpoint(policy, kept):
    assert residuals(policy) == kept
    got = mx.jit(mx.grad(jax.checkpoint(squared, policy=policy)))(X)
    np.testing.assert_allclose(got, jax.grad(squared)(X), rtol=1e-5)


def test_unrolled_scans_have_no_loop():
    def scanned(x, unroll):
        return lax.scan(lambda c, y: (c * y, c), 1.0, x, unroll=unroll)

    for unroll, loops in ((1, 1), (5, 0), (True, 0)):
        graph = mx.make_graph(lambda x, n=unroll: scanned(x, n))(X)
        names = [step.op.name for step in graph.instructions]
        assert sum(name in ("Scan", "While") for name in names) == loops
        pairs = zip(mx.jit(scanned, static_argnums=1)(X, unroll), scanned(X, 1), strict=True)
        for got, want in pairs:
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_scopes_reach_the_compiled_program():
    def named(x):
        with jax.named_scope("outer"), jax.named_scope("inner"):
            return mx.numpy.sin(x) + jnp.cos(x)

    text = mx.jit(named).lower(X).compile().as_text()
    assert 'op_name="' in text and "outer/inner" in text


def test_disable_jit_runs_step_by_step():
    seen = []

    def body(carry, x):
        seen.append(float(carry))
        return carry + x, carry

    with jax.disable_jit():
        total, _ = mx.scan(body, 0.0, jnp.arange(3.0))
        assert float(total) == 3 and seen == [0, 0, 1]
        assert float(mx.cond(jnp.asarray(True), lambda: 1.0, lambda: [][0])) == 1
        assert float(mx.while_loop(lambda x: x < 3, lambda x: x + 1, 0.0)) == 3
        assert float(mx.grad(mx.jit(lambda x: x * x))(2.0)) == 4


def test_precision_of_products_follows_the_setting():
    def product(x):
        return jnp.outer(x, x) @ x

    with jax.default_matmul_precision("highest"):
        assert "HIGHEST" in mx.make_graph(product)(X).stablehlo()
    assert "HIGHEST" not in mx.make_graph(product)(X).stablehlo()
