"""Instructions that libraries make carry the library's line and the user's."""

from __future__ import annotations

import inspect
from typing import Any

import einops
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import minixla as mx

pytestmark = pytest.mark.full

_X = np.ones((2, 4), np.float32)


def here() -> int:
    """Return the line that calls."""
    return inspect.stack()[1].lineno


def with_einops(x: Any) -> Any:
    return einops.rearrange(x, "a (b c) -> (a b) c", b=2), here()


def with_flax(x: Any) -> Any:
    return nn.LayerNorm().apply({"params": {"scale": x[0], "bias": x[0]}}, x), here()


def with_optax(x: Any) -> Any:
    return optax.apply_updates(x, optax.tree.scale(2.0, x)), here()


@pytest.mark.parametrize("function", [with_einops, with_flax, with_optax])
@pytest.mark.parametrize("transformation", ["make_graph", "grad", "jit inside"])
def test_lines_of_libraries(function: Any, transformation: str) -> None:
    lines: list[int] = []

    def run(x: Any) -> Any:
        found, line = function(x)
        lines.append(line)
        return jnp.sum(found)

    traced = {"make_graph": run, "grad": mx.grad(run), "jit inside": jax.jit(run)}[transformation]
    library = function.__name__.removeprefix("with_")
    graphs, sources = [mx.make_graph(traced)(_X)], []
    for graph in graphs:
        graphs.extend(graph.computations)
        sources.extend(step.source for step in graph.instructions)
    made = [each for each in sources if each is not None and f"/{library}/" in each.file]
    assert made
    assert {(each.caller.file, each.caller.line) for each in made} == {(__file__, lines[0])}
