"""vmap: axes in and out, trees, constants, unbatched values, nesting, sizes, errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import LeakedTracerError, ShapeError, TransformError
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from tests.harness import by_jax, compiled_rows, compiled_together

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = np.arange(3, dtype=np.float32)


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == np.asarray(jnp.asarray(other)).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-6)


class Call(NamedTuple):
    """A function of one member, what it is given, and how it is mapped."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    options: dict[str, Any]

    def mapped(self, vmap):
        """The mapped function, of the pair of arguments and keywords."""
        return lambda args, keywords: vmap(self.function, **self.options)(*args, **keywords)


def call(function, *args, in_axes=0, out_axes=0, axis_size=None, **keywords):
    options = {"in_axes": in_axes, "out_axes": out_axes, "axis_size": axis_size}
    return Call(function, args, keywords, options)


def row_sum(x):
    return (x * 2.0).sum(0)


def sum_of_leaves(tree):
    return sum((leaf * 1.0).sum() for leaf in jax.tree.leaves(tree))


def tree_of_products(x, y):
    return {"a": x * y, "b": [x * 1.0, y + 0.0]}


def pair(axes):
    """Two operands that have three members along these axes."""
    return [X if axis is None else np.stack([X + k for k in range(3)], axis) for axis in axes]


AXES = [(0, None), (None, 0), (0, 0), (0, 1), (1, -1), (-1, 0)]

TREES = [
    ({"a": A, "b": [A, X[:2]]}, 0),
    ({"a": A, "b": [A, X[:2]]}, ({"a": 0, "b": 0},)),
    ({"a": A, "b": [A, X]}, ({"a": 1, "b": [1, 0]},)),
    ({"a": A, "b": [A, X]}, ({"a": None, "b": [1, None]},)),
    ({"a": A, "b": None}, ({"a": 0, "b": None},)),
    ({"a": A, "b": None}, ({"a": 0, "b": 0},)),
    ([A, (A, A)], ([0, (None, 0)],)),
    ([A, (A, A)], ([0, None],)),
]
OUT_TREES = [0, {"a": 1, "b": 0}, {"a": 0, "b": [1, 0]}, {"a": -1, "b": [0, None]}]

#: Calls by what they are about.
CALLS = {
    **{
        f"in_axes {axis}": [call(row_sum, A, in_axes=each) for each in (axis, (axis,), [axis])]
        for axis in range(-3, 3)
    },
    **{
        f"out_axes {axis}": [
            call(lambda x: x * 2, A, out_axes=axis),
            call(lambda x: x * 2, A, in_axes=1, out_axes=axis),
        ]
        for axis in range(-3, 3)
    },
    **{
        f"two arguments {axes}": [call(lambda x, y: x * y + y, *pair(axes), in_axes=axes)]
        for axes in AXES
    },
    **{
        f"tree {at}": [call(sum_of_leaves, tree, in_axes=axes)]
        for at, (tree, axes) in enumerate(TREES)
    },
    "trees of out_axes": [
        call(tree_of_products, A[0], X[0], in_axes=(0, None), out_axes=axes) for axes in OUT_TREES
    ],
    "keywords are mapped over the first axis": [
        call(lambda x, *, y: x * y, A, y=A + 1),
        call(lambda x, y: x * y, A, y={"z": A}["z"], in_axes=0),
    ],
    "unbatched results are repeated": [
        call(lambda x: (x, 3.0, np.arange(2), None), X),
        call(lambda x, y: y * 2, X, A, in_axes=(0, None)),
        call(lambda x, y: y * 2, X, A, in_axes=(0, None), out_axes=2),
        call(lambda x, y: (x, y * 2), X, A, in_axes=(0, None), out_axes=(0, None)),
    ],
    "the size of the axis": [
        call(lambda: X, in_axes=None, axis_size=4),
        call(lambda x: x + 1, X, in_axes=None, axis_size=4),
        call(lambda x: x + 1, X, axis_size=3),
        call(lambda x: x + 1, np.zeros((0, 3), np.float32)),
        call(lambda x: x + 1, np.zeros((1, 3), np.float32)),
    ],
    "constants": [call(lambda x: x * X + 2, A[0].T)],
    "control flow on unbatched values": [
        call(lambda x, n: x * 2 if n > 1 else x, X, 3, in_axes=(0, None))
    ],
}


@functools.cache
def expected():
    """What JAX's vmap gives by names of calls and their places, in one program."""
    calls = {(name, at): each for name, row in CALLS.items() for at, each in enumerate(row)}
    rows = {key: (each.mapped(jax.vmap), (each.args, each.keywords)) for key, each in calls.items()}
    return compiled_rows(rows, jax.jit, known=True)


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    """Our vmap, in NumPy and on the engine, gives what JAX's does."""
    for at, each in enumerate(CALLS[name]):
        ours = each.mapped(mx.vmap)
        same(mx.reference(ours)(each.args, each.keywords), expected()((name, at)))
        same(ours(each.args, each.keywords), expected()((name, at)))


def test_closures():
    mapped = mx.vmap(lambda y: mx.vmap(lambda x: x * y + X[0])(X))
    same(mapped(X), np.outer(X, X))


NESTED = [(0, 0, 0), (0, 1, 2), (0, 0, 1), (0, -1, -2)]


def nest(vmap, axes):
    def function(x):
        return x * 2.0 + 1.0

    for axis in axes:  # the innermost first, which sees one dimension
        function = vmap(function, in_axes=axis)
    return function


@functools.cache
def expected_nested():
    functions = {str(axes): nest(jax.vmap, axes) for axes in NESTED}
    return compiled_together(functions, A, jit=jax.jit)


@pytest.mark.parametrize("axes", NESTED, ids=str)
def test_nested(axes):
    same(nest(mx.vmap, axes)(A), expected_nested()(str(axes)))


def test_outer_product():
    outer = mx.vmap(mx.vmap(lambda x, y: x * y, (0, None)), (None, 0))
    same(outer(X, X), np.outer(X, X))


def test_arguments_that_are_no_arrays():
    found = mx.vmap(lambda x, mode: x * 2 if mode == "twice" else x, in_axes=(0, None))(X, "twice")
    same(found, X * 2)
    same(mx.vmap(lambda x, tree: x, in_axes=(0, None))(X, {"f": len, "s": "text"}), X)


def test_what_xla_would_reject_is_rejected_for_one_member():
    with pytest.raises(ShapeError) as caught:
        mx.vmap(lambda x, y: ops.add(x, y))(A, A[:, :2])
    for phrase in ("f32[3,4]", "f32[2,4]", "test_vmap.py"):
        assert phrase in str(caught.value)


WRONG = [
    (
        {"in_axes": 3},
        (A,),
        "in_axes maps axis 3, which the argument lacks",
        "f32[2,3,4]",
    ),
    ({"in_axes": -4}, (A,), "in_axes maps axis -4", "f32[2,3,4]"),
    ({}, (1.0,), "in_axes maps axis 0, which the argument lacks", "f32[]"),
    ({"in_axes": (0, 0)}, (A,), "in_axes does not match the structure", "(0, 0)"),
    ({"in_axes": ({"b": 0},)}, ({"a": A},), "in_axes does not match the structure", "'b'"),
    ({"in_axes": ("x",)}, (A,), "in_axes does not match the structure", "'x' is not an axis"),
    ({"in_axes": 1.0}, (A,), "in_axes does not match the structure", "1.0 is not an axis"),
    ({"in_axes": ()}, (A,), "in_axes does not match the structure", "()"),
    ({"in_axes": None}, (A,), "no argument is mapped", "axis_size"),
    ({}, (), "no argument is mapped", "axis_size"),
    ({}, ([],), "no argument is mapped", "axis_size"),
    (
        {},
        (A, X),
        "the mapped axes must have equal sizes",
        "xs[1]: f32[3], axis 0 of size 3",
    ),
    ({"axis_size": 5}, (A,), "the mapped axes must have equal sizes", "axis_size = 5"),
    ({"out_axes": 4}, (A,), "out_axes has axis 4 for a result of rank 3", "[-3, 3)"),
    ({"out_axes": -4}, (A,), "out_axes has axis -4", "[-3, 3)"),
    (
        {"out_axes": None},
        (A,),
        "out_axes is None for a batched result",
        "BatchTracer<f32[3,4]>",
    ),
    ({"out_axes": (0, 0)}, (A,), "out_axes does not match the structure", "(0, 0)"),
    ({"out_axes": "x"}, (A,), "out_axes does not match the structure", "'x' is not an axis"),
]


@pytest.mark.parametrize(
    ("options", "args", "problem", "given"), WRONG, ids=[str(n) for n in range(len(WRONG))]
)
def test_wrong_axes(options, args, problem, given):
    with pytest.raises(TransformError) as caught:
        mx.vmap(lambda *xs: xs[0] if xs else X, **options)(*args)
    for phrase in (f"vmap: {problem}", given, "test_vmap.py"):
        assert phrase in str(caught.value)


def test_wrong_values():
    with pytest.raises(ShapeError, match=r"^vmap: argument x of type str is not an array"):
        mx.vmap(lambda x: x)("text")
    with pytest.raises(ShapeError, match=r"^vmap: the result of type str is not an array"):
        mx.vmap(lambda x: "text")(X)
    with pytest.raises(TransformError, match=r"^vmap: the result is not an array"):
        mx.vmap(lambda x: ops.tuple([x]))(X)
    with pytest.raises(LeakedTracerError, match=r"^vmap: "):
        seen = []
        mx.vmap(lambda x: seen.append(x) or x)(X)
        mx.vmap(lambda x: seen[0])(X)


def test_results_are_arrays_of_jax():
    for value in mx.vmap(lambda x: (x, 2.0, x * 1.0))(X):
        assert isinstance(value, jax.Array)


def test_the_original_is_the_members_program():
    graph, _ = trace_to_graph(lambda x: [mx.vmap(lambda y: ops.tanh(y))(x)], [Shape("f32", (5, 3))])
    assert [step.op.name for step in graph.instructions] == ["Tanh"]
    assert graph.output_shapes == (Shape("f32", (5, 3)),)


def test_dynamic_dimensions_stay_dynamic():
    shape = Shape("f32", (5, 3), (False, True))
    seen = []

    def member(x):
        seen.append(x._shape)
        return ops.neg(x)

    graph, _ = trace_to_graph(lambda x: [mx.vmap(member)(x)], [shape])
    assert seen == [Shape("f32", (3,), (True,))]
    assert graph.output_shapes == (shape,)


def test_deep_trees():
    tree, axes = X, 0
    for _ in range(200):
        tree, axes = [tree], [axes]
    found = mx.vmap(lambda t: t, in_axes=(axes,), out_axes=axes)(tree)
    same(found, tree)


def test_of_jit_and_derivatives():
    def functions(m, numpy):
        return [
            m.vmap(m.jit(lambda x: numpy.sin(x) * x)),
            m.vmap(m.grad(lambda x: numpy.sin(x) * x)),
            m.jit(m.vmap(m.grad(numpy.sin))),
        ]

    expected = by_jax(lambda x: [each(x) for each in functions(jax, jnp)], X)
    for ours, theirs in zip(functions(mx, mnp), expected, strict=True):
        np.testing.assert_allclose(ours(X), theirs, rtol=1e-5)
