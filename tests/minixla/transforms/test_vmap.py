"""vmap: axes in and out, trees, constants, unbatched values, nesting, sizes, errors."""

from __future__ import annotations

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

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = np.arange(3, dtype=np.float32)


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == np.asarray(jnp.asarray(other)).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-6)


def both(function, *args, in_axes=0, out_axes=0, axis_size=None, **kwargs):
    """Asserts that our vmap, in NumPy and on the engine, gives what JAX's does."""
    options = {"in_axes": in_axes, "out_axes": out_axes, "axis_size": axis_size}
    expected = jax.vmap(function, **options)(*args, **kwargs)
    same(mx.reference(mx.vmap(function, **options))(*args, **kwargs), expected)
    same(mx.vmap(function, **options)(*args, **kwargs), expected)


def row_sum(x):
    return (x * 2.0).sum(0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_in_axes(axis):
    both(row_sum, A, in_axes=axis)
    both(row_sum, A, in_axes=(axis,))
    both(row_sum, A, in_axes=[axis])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_out_axes(axis):
    both(lambda x: x * 2, A, out_axes=axis)
    both(lambda x: x * 2, A, in_axes=1, out_axes=axis)


AXES = [(0, None), (None, 0), (0, 0), (0, 1), (1, -1), (-1, 0)]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_two_arguments(axes):
    size = 3
    operands = [
        X if axis is None else np.stack([X + k for k in range(size)], axis) for axis in axes
    ]
    both(lambda x, y: x * y + y, *operands, in_axes=axes)


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


@pytest.mark.parametrize(("tree", "axes"), TREES, ids=[str(n) for n in range(len(TREES))])
def test_trees_of_axes(tree, axes):
    def function(tree):
        return sum((leaf * 1.0).sum() for leaf in jax.tree.leaves(tree))

    both(function, tree, in_axes=axes)


def test_trees_of_out_axes():
    def function(x, y):
        return {"a": x * y, "b": [x * 1.0, y + 0.0]}

    for axes in (0, {"a": 1, "b": 0}, {"a": 0, "b": [1, 0]}, {"a": -1, "b": [0, None]}):
        both(function, A[0], X[0], in_axes=(0, None), out_axes=axes)


def test_keywords_are_mapped_over_the_first_axis():
    both(lambda x, *, y: x * y, A, y=A + 1)
    both(lambda x, y: x * y, A, y={"z": A}["z"], in_axes=0)


def test_unbatched_results_are_repeated():
    both(lambda x: (x, 3.0, np.arange(2), None), X)
    both(lambda x, y: y * 2, X, A, in_axes=(0, None))
    both(lambda x, y: y * 2, X, A, in_axes=(0, None), out_axes=2)
    both(lambda x, y: (x, y * 2), X, A, in_axes=(0, None), out_axes=(0, None))


def test_the_size_of_the_axis():
    both(lambda: X, in_axes=None, axis_size=4)
    both(lambda x: x + 1, X, in_axes=None, axis_size=4)
    both(lambda x: x + 1, X, axis_size=3)
    both(lambda x: x + 1, np.zeros((0, 3), np.float32))
    both(lambda x: x + 1, np.zeros((1, 3), np.float32))


def test_constants_and_closures():
    weights = np.arange(3, dtype=np.float32)
    both(lambda x: x * weights + 2, A[0].T)
    mapped = mx.vmap(lambda y: mx.vmap(lambda x: x * y + weights[0])(X))
    same(mapped(X), jax.vmap(lambda y: jax.vmap(lambda x: x * y)(X))(X))


@pytest.mark.parametrize("axes", [(0, 0, 0), (0, 1, 2), (0, 0, 1), (0, -1, -2)], ids=str)
def test_nested(axes):
    def nest(vmap):
        def function(x):
            return x * 2.0 + 1.0

        for axis in axes:  # the innermost first, which sees one dimension
            function = vmap(function, in_axes=axis)
        return function

    same(nest(mx.vmap)(A), nest(jax.vmap)(A))
    outer = mx.vmap(mx.vmap(lambda x, y: x * y, (0, None)), (None, 0))
    same(outer(X, X), jax.vmap(jax.vmap(lambda x, y: x * y, (0, None)), (None, 0))(X, X))


def test_control_flow_on_unbatched_values():
    both(lambda x, n: x * 2 if n > 1 else x, X, 3, in_axes=(0, None))


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
        "in_axes maps axis 3 of an argument that has no such axis",
        "f32[2,3,4]",
    ),
    ({"in_axes": -4}, (A,), "in_axes maps axis -4", "f32[2,3,4]"),
    ({}, (1.0,), "in_axes maps axis 0 of an argument that has no such axis", "f32[]"),
    ({"in_axes": (0, 0)}, (A,), "in_axes does not fit the structure", "(0, 0)"),
    ({"in_axes": ({"b": 0},)}, ({"a": A},), "in_axes does not fit the structure", "'b'"),
    ({"in_axes": ("x",)}, (A,), "in_axes does not fit the structure", "'x' is no axis"),
    ({"in_axes": 1.0}, (A,), "in_axes does not fit the structure", "1.0 is no axis"),
    ({"in_axes": ()}, (A,), "in_axes does not fit the structure", "()"),
    ({"in_axes": None}, (A,), "no argument is mapped", "axis_size"),
    ({}, (), "no argument is mapped", "axis_size"),
    ({}, ([],), "no argument is mapped", "axis_size"),
    ({}, (A, X), "the mapped axes have different sizes", "array 1: f32[3], axis 0 of size 3"),
    ({"axis_size": 5}, (A,), "the mapped axes have different sizes", "axis_size = 5"),
    ({"out_axes": 4}, (A,), "out_axes asks for axis 4 of a result of rank 3", "[-3, 3)"),
    ({"out_axes": -4}, (A,), "out_axes asks for axis -4", "[-3, 3)"),
    (
        {"out_axes": None},
        (A,),
        "out_axes is None for a result that differs",
        "BatchTracer<f32[3,4]>",
    ),
    ({"out_axes": (0, 0)}, (A,), "out_axes does not fit the structure", "(0, 0)"),
    ({"out_axes": "x"}, (A,), "out_axes does not fit the structure", "'x' is no axis"),
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
    with pytest.raises(ShapeError, match=r"^vmap: an operand of type str is not an array"):
        mx.vmap(lambda x: x)("text")
    with pytest.raises(ShapeError, match=r"^vmap: an operand of type str is not an array"):
        mx.vmap(lambda x: "text")(X)
    with pytest.raises(TransformError, match=r"^vmap: a result is not an array"):
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
    both_of = [
        (mx.vmap(mx.jit(lambda x: mnp.sin(x) * x)), jax.vmap(jax.jit(lambda x: jnp.sin(x) * x))),
        (mx.vmap(mx.grad(lambda x: mnp.sin(x) * x)), jax.vmap(jax.grad(lambda x: jnp.sin(x) * x))),
        (mx.jit(mx.vmap(mx.grad(mnp.sin))), jax.jit(jax.vmap(jax.grad(jnp.sin)))),
    ]
    for ours, theirs in both_of:
        np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-5)
