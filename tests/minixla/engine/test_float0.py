"""float0, the zero tangents of integers, into and out of functions that become programs."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax import lax
from jax.dtypes import float0

import minixla as mx

N, X = np.arange(3), np.ones(3, np.float32)
ZEROS = np.zeros(3, float0)
OURS = mx
JAXS = SimpleNamespace(
    **{name: getattr(jax, name) for name in ("jit", "jvp", "vjp", "grad", "vmap", "checkpoint")},
    **{name: getattr(lax, name) for name in ("cond", "switch", "scan", "while_loop")},
    **{name: getattr(jax, name) for name in ("linearize", "pmap", "hessian", "custom_vjp")},
)


def tangents(mx, n=N, zeros=ZEROS):
    """A function that returns the tangents of an integer and of its argument."""
    return lambda x: mx.jvp(lambda n, x: (n + 1, x * 2), (n, x), (zeros, x))[1]


def ruled(mx):
    function = mx.custom_vjp(lambda n, x: x * n)
    function.defvjp(lambda n, x: (x * n, n), lambda n, given: (np.zeros(3, float0), given * n))
    return function


#: Each is given a module that has JAX's functions.
CASES = {
    "jit returns them": lambda mx: mx.jit(tangents(mx))(X),
    "jit of grad": lambda mx: mx.jit(
        mx.grad(lambda n, x: (x * n).sum(), argnums=(0, 1), allow_int=True)
    )(N, X),
    "jit of vjp of a custom rule": lambda mx: mx.jit(lambda c: mx.vjp(ruled(mx), N, X)[1](c))(X),
    "jit of linearize": lambda mx: mx.jit(
        lambda x: mx.linearize(lambda n, x: (n + 1, x * 2), N, x)[1](ZEROS, x)
    )(X),
    "jit takes them": lambda mx: mx.jit(lambda zeros, x: x + 1)(ZEROS, X),
    "jit takes and returns them": lambda mx: mx.jit(lambda zeros, x: {"a": (zeros, x)})(ZEROS, X),
    "jit takes and uses them": lambda mx: mx.jit(lambda z, x: tangents(mx, zeros=z)(x))(ZEROS, X),
    "jit within jit": lambda mx: mx.jit(lambda x: mx.jit(lambda z, y: (z, y + x))(ZEROS, x))(X),
    "grad of jit": lambda mx: mx.grad(lambda x: mx.jit(tangents(mx))(x)[1].sum())(X),
    "vmap returns them": lambda mx: mx.vmap(tangents(mx, 2, np.zeros((), float0)))(X),
    "vmap returns them elsewhere": lambda mx: mx.vmap(tangents(mx), 0, (-1, 0))(np.stack([X, X])),
    "vmap takes them": lambda mx: mx.vmap(lambda z, x: (z, x))(ZEROS, X),
    "vmap takes them whole": lambda mx: mx.vmap(lambda z, x: (z, x), in_axes=(None, 0))(ZEROS, X),
    "jit of vmap": lambda mx: mx.jit(mx.vmap(tangents(mx, 2, np.zeros((), float0))))(X),
    "jvp takes them": lambda mx: mx.jvp(lambda z, x: x * 2, (ZEROS, X), (ZEROS, X)),
    "vjp takes them": lambda mx: mx.vjp(lambda z, x: x * 2, ZEROS, X)[1](X),
    "linearize takes them": lambda mx: mx.linearize(lambda z, x: x * 2, ZEROS, X)[1](ZEROS, X),
    "cond": lambda mx: mx.jit(
        lambda x: mx.cond(x[0] > 0, lambda z, y: (z, y), lambda z, y: tangents(mx)(y), ZEROS, x)
    )(X),
    "switch": lambda mx: mx.switch(1, [lambda x: (ZEROS, x), tangents(mx)], X),
    "a carry of scan": lambda mx: mx.scan(lambda c, _: (c, c), (ZEROS, X), None, length=2),
    "results of scan": lambda mx: mx.scan(lambda c, _: (c, tangents(mx)(c)), X, None, length=2),
    "while_loop": lambda mx: mx.while_loop(
        lambda c: c[1][0] < 5, lambda c: (c[0], c[1] + 1), (ZEROS, X)
    ),
    "checkpoint": lambda mx: mx.checkpoint(lambda z, x: (z, *tangents(mx)(x)))(ZEROS, X),
    "pmap returns them": lambda mx: mx.pmap(tangents(mx))(X[None]),
}


def described(tree):
    return jax.tree_util.tree_map(lambda leaf: (np.shape(leaf), leaf.dtype), tree)


@pytest.mark.parametrize("case", CASES)
def test_functions_take_and_return_float0_as_jax_does(case):
    ours, jaxs = CASES[case](OURS), CASES[case](JAXS)
    assert described(ours) == described(jaxs)
    pairs = zip(jax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(jaxs), strict=True)
    for one, other in pairs:
        if one.dtype != float0:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", ["jit returns them", "grad of jit", "cond", "vmap takes them"])
def test_the_reference_gives_float0_too(case):
    found = mx.reference(lambda: CASES[case](OURS))()
    assert described(found) == described(CASES[case](JAXS))


def test_graphs_hold_no_float0():
    graph, shapes = mx.make_graph(lambda z, x: (z, *tangents(mx)(x)), return_shape=True)(ZEROS, X)
    assert list(map(str, graph.input_shapes)) == ["f32[3]"]
    assert list(map(str, graph.output_shapes)) == ["f32[3]"]
    assert described(shapes) == (((3,), float0), ((3,), float0), ((3,), X.dtype))


def test_compiled_ahead_of_time_and_described():
    jitted = mx.jit(tangents(mx))
    assert described(jitted.eval_shape(X)) == described(jitted.lower(X).compile()(X))


def test_places_in_messages_count_values_alone():
    with pytest.raises(mx.ShapeError, match=r"the result\['b'\]"):
        mx.jit(lambda x: {"a": ZEROS, "b": "text", "c": x})(X)
    with pytest.raises(mx.ShapeError, match=r"argument second has elements of type"):
        mx.vmap(lambda first, second: second)(ZEROS, np.array(["text"] * 3))


def test_structures_differ_where_float0_stands_in_one_alone():
    with pytest.raises(mx.TransformError, match="return the same structure"):
        mx.cond(X[0] > 0, lambda x: (ZEROS, x), lambda x: (x, x), X)
