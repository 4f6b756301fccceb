"""`prevent_cse` of `jax.checkpoint` and `mx.checkpoint`, for each argument."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

W, X = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3), np.ones(3, np.float32)


def layer(w, x):
    return jnp.tanh(x @ w + jnp.array([1.0, 2.0, 3.0]))


#: The argument `prevent_cse`, and the types of the values that wait for the cotangents.
FLAGS = {
    "all": (True, {"tensor<3x3xf32>", "tensor<3xf32>"}),
    "none": (False, set()),
    "the second": ((False, True), {"tensor<3xf32>"}),
    "none of two": ((False, False), set()),
}


def barriers(text):
    """The types of values in barriers."""
    lines = re.findall(r"optimization_barrier.*? : \((.*?)\) ->", text)
    return {each for line in lines for each in line.split(", ")}


@pytest.mark.parametrize("library", [jax, mx], ids=["jax", "minixla"])
@pytest.mark.parametrize("name", FLAGS)
def test_which_arguments_wait(name, library):
    flags, expected = FLAGS[name]

    def loss(w, x):
        checkpointed = library.checkpoint(layer, prevent_cse=flags)
        return jnp.sum(checkpointed(w, checkpointed(w, x)) ** 2)

    gradient = mx.grad(loss, (0, 1))
    assert barriers(mx.make_graph(gradient)(W, X).stablehlo()) == expected
    for ours, theirs in zip(mx.jit(gradient)(W, X), jax.grad(loss, (0, 1))(W, X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_flags_of_trees_and_keywords():
    def loss(values, *, scale):
        return jnp.sum(layer(values["w"], values["x"]) * scale["s"] ** 2)

    for flags, expected in (
        ((({"w": False, "x": True},), {"scale": False}), {"tensor<3xf32>", "tensor<f32>"}),
        (((False,), True), {"tensor<f32>"}),
    ):
        checkpointed = mx.checkpoint(loss, prevent_cse=flags)
        gradient = mx.grad(
            lambda w, x, s, f=checkpointed: f({"w": w, "x": x}, scale={"s": s}), (0, 2)
        )
        text = mx.make_graph(gradient)(W, X, np.float32(2)).stablehlo()
        assert barriers(text) == expected


@pytest.mark.parametrize("flags", [1, "yes", (True,), (1, True), ({"v": True}, True)])
def test_flags_that_do_not_fit(flags):
    with pytest.raises(mx.MinixlaError, match="prevent_cse"):
        mx.checkpoint(layer, prevent_cse=flags)(W, X)


@pytest.mark.parametrize("transformation", ["hessian", "vmap of grad", "grad of jvp"])
def test_higher_derivatives_and_batches(transformation):
    flags = ({"w": False, "x": True},)
    checkpointed = functools.partial(jax.checkpoint, prevent_cse=flags)(
        lambda values: layer(values["w"], values["x"])
    )

    def loss(x):
        return jnp.sum(checkpointed({"w": W, "x": x}) ** 2)

    def run(library):
        if transformation == "hessian":
            return library.jit(library.hessian(loss))(X)
        if transformation == "vmap of grad":
            return library.jit(library.vmap(library.grad(loss)))(np.stack([X, -X]))
        return library.jit(library.grad(lambda x: library.jvp(loss, (x,), (X,))[1]))(X)

    np.testing.assert_allclose(run(mx), run(jax), rtol=1e-4, atol=1e-5)
