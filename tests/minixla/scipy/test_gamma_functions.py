"""Functions of the gamma family: element types."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.special as of_scipy

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


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gamma_of_large_and_small_numbers(kind):
    large = [9.5, 10, 34.5, 36, 90.5, 120.5, 171, 172, 1e4, np.inf, -32.5, -120.5, -180.5]
    x = np.array([*large, 1e-30, 1e-9, -1e-9, -1e-19, -1e-21, -1e-30, -1e-37], kind)
    with jax.enable_x64(True):
        found = mx.jit(mx.scipy.special.gamma)(x)
    with np.errstate(over="ignore"):
        expected = of_scipy.gamma(x.astype(float)).astype(kind)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if kind == np.float32 else 1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_beta_of_huge_and_tiny_numbers(kind):
    a = np.array([1e20, 3e38, 1.1e13, 1e10, 1e7, 3e7, 1e30, 1e-30], kind)
    b = np.array([1.1e20, 3e38, 3e13, 0.01, 0.5, 1.5, 1e-3, 1e-30], kind)
    with jax.enable_x64(True):
        found = mx.jit(mx.scipy.special.beta)(a, b)
        swapped = mx.jit(mx.scipy.special.beta)(b, a)
    expected = of_scipy.beta(a.astype(float), b.astype(float))
    np.testing.assert_allclose(found, expected, rtol=2e-6 if kind == np.float32 else 1e-13)
    np.testing.assert_allclose(swapped, expected, rtol=2e-6 if kind == np.float32 else 1e-13)


def test_logarithms_of_gamma_of_negative_numbers():
    x = np.array([-1e-30, -1e-3, -0.5, -1.5, -3.7, -20.25, -1e6 - 0.5])
    with jax.enable_x64(True):
        found = mx.jit(mx.scipy.special.gammaln)(x)
        # Of ours `accuracy.py` has the errors; these bounds let SciPy's have some, too.
        np.testing.assert_allclose(found, of_scipy.gammaln(x), rtol=1e-14)
        poles = mx.jit(mx.scipy.special.gammaln)(np.array([0.0, -0.0, -1, -2, -1e20, -np.inf]))
    np.testing.assert_array_equal(poles, np.inf)


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
