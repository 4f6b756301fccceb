"""JAX's mutable arrays inside our transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

X = np.linspace(0.1, 1.3, 5, dtype=np.float32)


def whole(ref, x):
    ref[...] += 2.0


def element(ref, x):
    ref[1] *= x[0]


def part(ref, x):
    ref[1:4] += 2 * x[:3]


def chosen(ref, x):
    ref[jnp.asarray(2)] = ref[jnp.array([0, 3])].sum()


def in_a_loop(ref, x):
    def step(i, _):
        ref[i] += x[i] * x[0]
        return _

    jax.lax.fori_loop(0, 3, step, 0)


TRANSFORMATIONS = {
    "jit": lambda library, f: library.jit(f)(X),
    "grad": lambda library, f: library.grad(lambda x: (f(x) ** 2).sum())(X),
    "jit of grad": lambda library, f: library.jit(library.grad(lambda x: (f(x) ** 2).sum()))(X),
    "vmap": lambda library, f: library.vmap(f)(np.stack([X, -X])),
    "grad of a batch": lambda library, f: library.grad(
        lambda x: library.vmap(f)(jnp.stack([x, -x])).sum()
    )(X),
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("change", [whole, element, part, chosen, in_a_loop])
def test_changes_of_a_mutable_array(change, transformation):
    def function(x):
        ref = jax.new_ref(x * x)
        change(ref, x)
        return ref[...]

    run = TRANSFORMATIONS[transformation]
    np.testing.assert_allclose(run(mx, function), run(jax, function), rtol=1e-6)
