"""Code that differs between platforms: the branch and the program of the platform lowered for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx

X = np.linspace(0.1, 1.3, 3, dtype=np.float32)


def scaled(x):
    return lax.platform_dependent(
        x, cpu=lambda x: 2 * x, tpu=lambda x: 3 * x, cuda=lambda x: 5 * x, default=lambda x: 7 * x
    )


def in_a_loop(x):
    return lax.fori_loop(0, 2, lambda _, c: scaled(c), x)


#: Functions by name, and by what they multiply on one platform.
SCALED = {
    "alone": (scaled, lambda factor: factor),
    "in a loop": (in_a_loop, lambda factor: factor**2),
    "in jax.jit": (jax.jit(scaled), lambda factor: factor),
    "in a batch": (mx.vmap(scaled), lambda factor: factor),
    "in a batch of JAX": (jax.vmap(scaled), lambda factor: factor),
    "checkpointed": (mx.checkpoint(scaled), lambda factor: factor),
    "the derivative": (mx.grad(lambda x: scaled(x).sum()), lambda factor: factor / X),
    "the derivative in a loop": (
        mx.grad(lambda x: in_a_loop(x).sum()),
        lambda factor: factor**2 / X,
    ),
}


@pytest.mark.parametrize("name", SCALED)
def test_the_branch_of_the_default_platform(name):
    function, factor = SCALED[name]
    for made in (function, mx.jit(function), mx.reference(function)):
        np.testing.assert_allclose(made(X), factor(2) * X, rtol=1e-6)


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize(("platform", "number"), [("tpu", 3), ("cuda", 5), ("rocm", 7)])
def test_the_branch_of_another_platform(name, platform, number):
    text = mx.jit(SCALED[name][0]).trace(X).lower(lowering_platforms=(platform,)).as_text()
    constants = {each for each in (2, 3, 5, 7) if f"dense<{each}.0" in text}
    assert constants == {number}


def test_no_branch_for_a_platform():
    function = mx.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos))
    with pytest.raises(mx.UnsupportedError, match="no branch matches the platform cuda"):
        function.trace(X).lower(lowering_platforms=("cuda",))


@pytest.mark.parametrize("function", [scaled, lambda x: jnp.linalg.eigh(jnp.outer(x, x))[0]])
def test_several_platforms_at_once(function):
    with pytest.raises(mx.UnsupportedError, match="several at once"):
        mx.jit(function).trace(X).lower(lowering_platforms=("cpu", "tpu"))


#: Functions, and what JAX calls for them on a CPU.
DECOMPOSITIONS = {
    "lu": (lambda x: jax.scipy.linalg.lu(x), "lapack_sgetrf_ffi"),
    "solve": (lambda x: jnp.linalg.solve(x, x[0]), "lapack_sgetrf_ffi"),
    "slogdet": (lambda x: jnp.linalg.slogdet(x), "lapack_sgetrf_ffi"),
    "svd": (lambda x: jnp.linalg.svd(x), "lapack_sgesdd_ffi"),
    "eigh": (lambda x: jnp.linalg.eigh(x), "lapack_ssyevd_ffi"),
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_decompositions_call_what_jax_calls(name):
    function, target = DECOMPOSITIONS[name]
    matrix = np.float32([[2, 0.5, 0.1], [0.3, 3, 0.2], [0.1, 0.4, 1.5]])
    lowered = mx.jit(function).lower(matrix)
    assert target in lowered.as_text()
    pairs = zip(
        jax.tree.leaves(mx.jit(function)(matrix)),
        jax.tree.leaves(jax.jit(function)(matrix)),
        strict=True,
    )
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)
    assert target not in mx.jit(function).trace(matrix).lower(lowering_platforms=("tpu",)).as_text()


def test_scatters_are_lowered_for_several_platforms():
    function = mx.jit(mx.grad(lambda x: (x[jnp.array([0, 2])] ** 2).sum()))
    assert "scatter" in function.trace(X).lower(lowering_platforms=("cpu", "cuda")).as_text()
