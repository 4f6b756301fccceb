"""einops inside minixla's transformations."""

from __future__ import annotations

from typing import Any

import einops
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.libraries.beside_jax import assert_same

pytestmark = pytest.mark.full

_X = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)


def attention(x: Any) -> Any:
    """Compute patches, heads and a mean with each function of einops."""
    patches = einops.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
    heads = einops.rearrange(patches, "b n (k d) -> b k n d", k=3)
    scores = jax.nn.softmax(einops.einsum(heads, heads, "b k n d, b k m d -> b k n m"))
    mixed = einops.einsum(scores, heads, "b k n m, b k m d -> b k n d")
    mean = einops.reduce(mixed, "b k n d -> b n d", "mean")
    largest = einops.reduce(x, "b h w c -> b c", "max")
    packed, shapes = einops.pack([mean, einops.repeat(largest, "b c -> b n c", n=6)], "b n *")
    return sum(jnp.tanh(each).sum() for each in einops.unpack(packed, shapes, "b n *"))


@pytest.mark.parametrize("name", ["grad", "vmap", "jit of grad", "hessian of a batch"])
def test_einops(name: str) -> None:
    def run(library: Any) -> Any:
        if name == "grad":
            return library.grad(attention)(_X)
        if name == "vmap":
            return library.vmap(attention)(np.stack([_X, -_X]))
        if name == "jit of grad":
            return library.jit(library.value_and_grad(attention))(_X)
        return library.vmap(library.hessian(lambda s: attention(s * _X)))(jnp.array([0.5, 1.0]))

    assert_same(run, rtol=1e-4)
