"""Functions of the gamma family: element types."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core import Graph

X = np.array([1.5, 3.0], np.float32)


@pytest.mark.parametrize("name", ["gammaln", "gamma", "gammaincc", "gammainc", "betaln"])
def test_results_have_the_type_of_the_operands_with_64_bits_too(name):
    function = getattr(mx.scipy.special, name)
    operands = [X] * (1 if name in ("gammaln", "gamma") else 2)
    with jax.enable_x64(True):
        assert mx.eval_shape(function, *operands).dtype == np.float32


RARE = [-2.5, -1.0, -0.0, 0.0, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize(("name", "count"), [("gamma", 1), ("beta", 2), ("betaln", 2)])
def test_rare_elements_change_no_others(name, count):
    function = mx.jit(getattr(mx.scipy.special, name))
    x = np.float32([0.5, 3, 20, *RARE])
    operands = [each.ravel() for each in np.meshgrid(*[x] * count)]
    alone = [function(*each) for each in zip(*[x[:, None] for x in operands], strict=True)]
    np.testing.assert_array_equal(function(*operands), np.concatenate(alone))
    np.testing.assert_array_equal(mx.vmap(function)(*operands), np.concatenate(alone))


def operations(graph: Graph) -> set[str]:
    """The operations of a program that run whatever the operands are."""
    found = set()
    for step in graph.instructions:
        found.add(step.op.builder_name)
        if step.op.builder_name != "conditional":
            programs = [each for each in step.op.values.values() if isinstance(each, Graph)]
            found |= {name for each in programs for name in operations(each)}
    return found


@pytest.mark.parametrize("name", ["beta", "betaln"])
def test_logarithms_of_gamma_are_computed_only_where_they_are_needed(name):
    graph = mx.make_graph(getattr(mx.scipy.special, name))(X, X)
    assert "conditional" in operations(graph)
    assert "lgamma" not in operations(graph)
    assert "lgamma" in str(graph)
