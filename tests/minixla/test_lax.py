"""minixla.lax has every name of jax.lax, its signatures and its results."""

from __future__ import annotations

import importlib
from inspect import Parameter, signature

import jax
import numpy as np
import pytest

import minixla as mx
from minixla import lax
from tests.minixla.signatures import differences

NAMES = [name for name in dir(jax.lax) if not name.startswith("_")]
OURS = [name for name in NAMES if getattr(lax, name) is not getattr(jax.lax, name)]
X = np.arange(6, dtype=np.float32)

#: A call of each function of ours, and calls that differ from others by an option.
CALLS = {
    "all_gather": lambda lax: over_axis(lambda x: lax.all_gather(x, "i", axis=1, tiled=True)),
    "all_gather to": lambda lax: over_axis(lambda x: lax.all_gather(x, "i", to="varying")),
    "all_to_all": lambda lax: over_axis(lambda x: lax.all_to_all(x[0], "i", 0, 0)),
    "associative_scan": lambda lax: lax.associative_scan(jax.numpy.add, X, reverse=True),
    "axis_index": lambda lax: over_axis(lambda x: x + lax.axis_index("i")),
    "axis_size": lambda lax: over_axis(lambda x: x * lax.axis_size("i")),
    "cond": lambda lax: lax.cond(X[1] > 0, lambda x: x + 1, lambda x: x - 1, X),
    "cond operand": lambda lax: lax.cond(False, lambda x: X, lambda x: -X, operand=None),
    "fori_loop": lambda lax: lax.fori_loop(0, 4, lambda i, x: x * 2 + i, X, unroll=2),
    "map": lambda lax: lax.map(lambda x: x * x, X, batch_size=4),
    "pmax": lambda lax: over_axis(lambda x: lax.pmax(x, "i")),
    "pmean": lambda lax: over_axis(lambda x: lax.pmean(x, "i")),
    "pmin": lambda lax: over_axis(lambda x: lax.pmin(x, "i")),
    "ppermute": lambda lax: over_axis(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)])),
    "psum": lambda lax: over_axis(lambda x: lax.psum(x, "i", axis_index_groups=None)),
    "psum_scatter": lambda lax: over_axis(lambda x: lax.psum_scatter(x[0], "i")),
    "scan": lambda lax: lax.scan(lambda c, x: (c + x, c * x), 0.0, X, reverse=True),
    "scan _split_transpose": lambda lax: lax.scan(add, 0, X, None, False, 1, True),
    "stop_gradient": lambda lax: jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())(X),
    "switch": lambda lax: lax.switch(5, [lambda x: x, lambda x: -x], X),
    "switch operand": lambda lax: lax.switch(1, [lambda x: X, lambda x: -X], operand=None),
    "while_loop": lambda lax: lax.while_loop(lambda x: x[1] < 9, lambda x: x * 2, X),
}


def add(carry, x):
    return carry + x, carry


def over_axis(function):
    """The results for the elements of a mapped axis, inside which `function` sees [1, 2]."""
    return jax.vmap(function, axis_name="i")(X[:4].reshape(2, 1, 2))


def test_names():
    assert lax.__all__ == NAMES == dir(lax)
    for path in ("minixla.lax", "minixla.lax.linalg"):
        module = importlib.import_module(path)
        assert module is (mx.lax.linalg if path.endswith("linalg") else mx.lax)
    assert lax.linalg is jax.lax.linalg
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lax.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_every_function_of_ours_is_compared():
    assert {name.partition(" ")[0] for name in CALLS} == {*OURS}


@pytest.mark.parametrize("name", OURS)
def test_signature(name):
    ours, theirs = (signature(getattr(each, name)).parameters for each in (lax, jax.lax))
    assert {*theirs} <= {*ours}
    allowed = []
    if "operand" in theirs:  # the default is a private object, in both libraries
        assert ours["operand"].kind is Parameter.KEYWORD_ONLY
        allowed = [f"operand is {ours['operand'].default!r}, not {theirs['operand'].default!r}"]
    assert differences(getattr(lax, name), getattr(jax.lax, name)) == allowed


@pytest.mark.parametrize("name", CALLS)
def test_result(name):
    ours, theirs = CALLS[name](lax), CALLS[name](jax.lax)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for mine, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert mine.dtype == expected.dtype
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("name", CALLS)
def test_result_inside_jit(name):
    if name == "stop_gradient":
        return  # jax.grad inside: tests of the bridge cover it
    for mine, expected in zip(
        jax.tree.leaves(mx.jit(lambda: CALLS[name](lax))()),
        jax.tree.leaves(CALLS[name](jax.lax)),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, expected)


def test_operands_by_position_and_by_keyword():
    for call in (
        lambda: lax.cond(True, add, add, 1, 2, operand=3),
        lambda: lax.switch(0, [add], 1, 2, operand=3),
    ):
        with pytest.raises(mx.TransformError, match="by position or as operand"):
            call()


def test_functions_of_jax_that_ours_of_the_same_name_differ_from():
    table = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    function = mx.jit(lambda x: lax.select_n(x > 2, x, -x) + lax.dynamic_slice(x, (-2,), (1,)))
    np.testing.assert_array_equal(function(X), np.where(X > 2, -X, X) + X[4])
    np.testing.assert_array_equal(mx.jit(lax.cumsum)(table), np.cumsum(table, 0))
