"""make_graph and reference: arguments, results, precision, composition, errors."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import ConcretizationError, LeakedTracerError, ShapeError, TransformError
from minixla.core.shapes import Shape, TupleValue

X = np.array([0.3, -1.2, 0.7], np.float32)
Point = collections.namedtuple("Point", ["x", "y"])


def operations(graph):
    return [step.op.name for step in graph.instructions]


# make_graph.

ARGUMENTS = [
    ((X,), "f32[3]"),
    ((1.0, 2, True, 1j), "f32[] s32[] pred[] c64[]"),
    ((np.float64(1), np.int64(2)), "f32[] s32[]"),
    ((jnp.ones(2, jnp.bfloat16),), "bf16[2]"),
    ((jax.ShapeDtypeStruct((2, 0), np.int8),), "s8[2,0]"),
    (({"b": X, "a": [1.0, None]},), "f32[] f32[3]"),
    ((Point(X, X[:1]), ()), "f32[3] f32[1]"),
    ((), ""),
]


@pytest.mark.parametrize(("args", "shapes"), ARGUMENTS, ids=[row[1] for row in ARGUMENTS])
def test_inputs_and_outputs_are_leaves(args, shapes):
    graph = mx.make_graph(lambda *args: args)(*args)
    assert " ".join(map(str, graph.input_shapes)) == shapes
    assert graph.inputs == graph.outputs


def test_keywords_come_after():
    graph = mx.make_graph(lambda x, *, b, a: (b, a, x))(1.0, b=X, a=X[:2])
    assert [str(shape) for shape in graph.input_shapes] == ["f32[]", "f32[2]", "f32[3]"]
    assert graph.outputs == (graph.inputs[2], graph.inputs[1], graph.inputs[0])


@pytest.mark.parametrize("numbers", [1, (1,), [1], -1, np.int64(1)], ids=str)
def test_static_arguments(numbers):
    graph = mx.make_graph(lambda x, n: ops.neg(x) if n == "negative" else x, numbers)(X, "negative")
    assert operations(graph) == ["Neg"]
    assert len(graph.inputs) == 1


def test_shapes_of_results():
    def function(x, y):
        return {"a": x * y, "b": (x > 0, None)}, 2.0

    graph, ours = mx.make_graph(function, return_shape=True)(np.ones(3, np.float16), 1.0)
    theirs = jax.make_jaxpr(function, return_shape=True)(np.ones(3, np.float16), 1.0)[1]
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert [str(each) for each in jax.tree.leaves(ours)] == [
        str(each) for each in jax.tree.leaves(theirs)
    ]
    assert graph == mx.make_graph(function)(np.ones(3, np.float16), 1.0)
    with pytest.raises(ShapeError, match="results must be arrays"):
        mx.make_graph(lambda x: ops.tuple([x, x]), return_shape=True)(1.0)


def test_weak_types():
    def function(x, h):
        return x * h

    half = jnp.ones(2, jnp.bfloat16)
    assert mx.make_graph(function)(2.0, half).output_shapes == (Shape("bf16", (2,)),)
    assert mx.make_graph(function)(np.float32(2), half).output_shapes == (Shape("f32", (2,)),)


def test_names():
    def named(x):
        return x

    graph_of = mx.make_graph(named)
    assert graph_of.__name__ == graph_of(X).name == "named"


WRONG = [
    (lambda x: x, ("text",), ShapeError, "make_graph: argument x of type str"),
    (lambda x: "text", (X,), ShapeError, "<lambda>: the result of type str is not an array"),
    (lambda x: [x, len], (X,), ShapeError, "<lambda>: the result[1] of type builtin_function"),
]


@pytest.mark.parametrize(
    ("function", "args", "error", "problem"), WRONG, ids=[row[3] for row in WRONG]
)
def test_what_is_no_array(function, args, error, problem):
    with pytest.raises(error) as caught:
        mx.make_graph(function)(*args)
    assert problem in str(caught.value)
    assert "test_evaluation.py" in str(caught.value)


def test_a_graph_is_closed():
    def outer(x):
        return mx.make_graph(lambda y: y * x)(X)

    for transform in (mx.make_graph, mx.vmap, lambda f: lambda x: mx.vjp(f, x)):
        with pytest.raises(TransformError) as caught:
            transform(outer)(X)
        for phrase in ("make_graph: the function reads traced values", "pass the values as arg"):
            assert phrase in str(caught.value)


# reference.

RESULTS = {
    "an array": (lambda x: x * 2, X * 2),
    "the argument": (lambda x: x, X),
    "a tree": (lambda x: {"a": [x, None], "b": Point(x + 1, 2.0)}, None),
    "a Python number": (lambda x: 2.5, np.float32(2.5)),
    "a wide NumPy array": (lambda x: np.arange(3.0), np.arange(3, dtype=np.float32)),
    "a JAX array": (lambda x: jnp.ones(2), np.ones(2, np.float32)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_numpy_arrays(name):
    function, expected = RESULTS[name]
    found = mx.reference(function)(X)
    for leaf in jax.tree.leaves(found):
        assert type(leaf) is np.ndarray
    if expected is None:
        expected = jax.tree.map(np.asarray, jax.jit(function)(X))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_what_is_no_array_passes():
    marker = object()
    found = mx.reference(lambda x, word, flag: (x, word, flag, len))(X, "text", marker)
    assert found[1:] == ("text", marker, len)


def test_tuples():
    found = mx.reference(lambda x: ops.tuple([x, ops.tuple([x * 2])]))(X)
    assert isinstance(found, TupleValue)
    np.testing.assert_array_equal(found.elements[1].elements[0], X * 2)
    member = mx.reference(lambda t: ops.get_tuple_element(t, 1))(TupleValue([X, X + 1]))
    np.testing.assert_array_equal(member, X + 1)


def test_results_are_the_callers():
    array = X.copy()
    found = mx.reference(lambda x: x)(array)
    found[0] = 99
    assert array[0] == X[0]


def test_jax_is_not_asked(monkeypatch):
    from minixla.engine import eager

    def refuse(*_):
        raise AssertionError("the engine was used")

    monkeypatch.setattr(eager.EngineTrace, "process", refuse)
    monkeypatch.setattr(eager.EngineTrace, "lift", refuse)

    def function(x):
        y = mx.jit(lambda z: mnp.tanh(z) @ np.ones((3, 3), np.float32))(x)
        return (y * mx.stop_gradient(x)).sum() + mx.vmap(mx.grad(mnp.sin))(y).sum()

    mx.reference(function)(X)
    mx.reference(mx.grad(function))(X)
    mx.reference(lambda x: mx.jvp(function, (x,), (x,)))(X)


COMPOSITIONS = {
    "jit": lambda f: mx.jit(f),
    "grad": lambda f: mx.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: mx.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: mx.vjp(f, x)[1](x),
    "vmap": mx.vmap,
    "reference": mx.reference,
    "jit of grad": lambda f: mx.jit(mx.grad(lambda x: f(x).sum())),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_outside_of_every_transformation(name):
    def function(x):
        return mnp.sin(x) * x

    found = mx.reference(COMPOSITIONS[name](function))(X)
    expected = COMPOSITIONS[name](function)(X)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert type(one) is np.ndarray
        np.testing.assert_allclose(one, other, rtol=1e-6)


INSIDE = {
    "make_graph": lambda f: mx.make_graph(f)(X),
    "jit": lambda f: mx.jit(f)(X),
    "grad": lambda f: mx.grad(f)(1.0),
    "jvp": lambda f: mx.jvp(f, (X,), (X,)),
    "vmap": lambda f: mx.vmap(f)(X),
    "jax.jit": lambda f: jax.jit(f)(X),
    "jax.grad": lambda f: jax.grad(f)(1.0),
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside_a_transformation_there_are_no_numbers(name):
    with pytest.raises(ConcretizationError) as caught:
        INSIDE[name](mx.reference(lambda x: x * 2))
    for phrase in (
        "reference: an argument is a traced value",
        "mx.reference(mx.grad(f))",
        "test_evaluation.py",
    ):
        assert phrase in str(caught.value)


def test_reading_a_traced_value_inside():
    with pytest.raises(
        LeakedTracerError, match="outside its transformation, which is still active"
    ):
        mx.grad(lambda x: mx.reference(lambda: x * 2.0)())(1.0)


# Precision.


def test_precision_is_checked():
    with pytest.raises(ValueError, match='precision is "float64" or None'):
        mx.reference(lambda x: x, "float32")


NESTED = {
    "directly": lambda f: f,
    "in jit": mx.jit,
    "in jit in jit": lambda f: mx.jit(lambda x: mx.jit(f)(x)),
    "in vmap": mx.vmap,
    "in a call": lambda f: lambda x: ops.call(f, x)[0],
}


@pytest.mark.parametrize("name", NESTED)
def test_double_precision(name):
    def function(x):
        y = x * np.float32(0.1)
        for _ in range(20):
            y = mnp.sin(y) + y / 3 + ops.convert_element_type(y, np.float16) * 0
        return y

    def truth(x):
        y = x.astype(np.float64) * np.float64(np.float32(0.1))
        for _ in range(20):
            y = np.sin(y) + y / 3
        return y

    found = mx.reference(NESTED[name](function), "float64")(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, truth(X), rtol=1e-14)
    narrow = mx.reference(NESTED[name](function))(X)
    assert narrow.dtype == np.float32
    assert np.abs(narrow - truth(X)).max() > 1e-9


def test_double_precision_of_derivatives():
    def loss(x):
        return mx.jit(lambda y: (mnp.sin(y) * y).sum())(x * 3)

    wide = X.astype(np.float64)
    expected = 3 * (np.cos(3 * wide) * 3 * wide + np.sin(3 * wide))
    np.testing.assert_allclose(mx.reference(mx.grad(loss), "float64")(X), expected, rtol=1e-14)


def test_double_precision_keeps_other_types():
    found = mx.reference(lambda n, b, z: (n + 1, b, z * z), "float64")(
        np.int8(1), True, np.complex64(1 + 2j)
    )
    assert [each.dtype.name for each in found] == ["int8", "bool", "complex128"]


def test_double_precision_sees_the_declared_types():
    seen = []

    def function(x):
        seen.append(x.dtype)
        return x + np.float32(1)

    mx.reference(function, "float64")(X)
    assert seen == [np.float32]


# eval_shape and ensure_compile_time_eval.


def test_eval_shape_computes_nothing_and_keeps_weak_types():
    def function(x, *, y):
        return Point(x @ y, [x[0] > 0, 2.0, jnp.ones(2)])

    def of_jax(x, *, y):
        return Point(x @ y, [x[0] > 0, jnp.asarray(2.0), jnp.ones(2)])

    shapes = mx.ShapeDtypeStruct((10**6, 3), "float16"), mx.ShapeDtypeStruct((3,), "float32")
    ours = mx.eval_shape(function, shapes[0], y=shapes[1])
    theirs = jax.eval_shape(of_jax, shapes[0], y=shapes[1])
    assert jax.tree.map(repr, ours) == jax.tree.map(repr, theirs)
    assert ours.y[1].weak_type
    key = mx.ShapeDtypeStruct((), jax.random.key(0).dtype)
    assert mx.eval_shape(lambda key: key, key) == key


def test_eval_shape_inside_a_transformation_may_read_its_values():
    def function(x):
        inner = mx.eval_shape(lambda y: mnp.outer(x, y), X)
        return x * inner.shape[0]

    np.testing.assert_array_equal(mx.jit(function)(X), 3 * X)
    with pytest.raises(ShapeError, match="eval_shape: results must be"):
        mx.eval_shape(lambda x: ops.tuple([x, x]), 1.0)


def test_what_is_known_can_be_computed_while_tracing():
    def function(x):
        with mx.ensure_compile_time_eval():
            count = int(mnp.arange(4).sum())
        return x * count

    for transform in (mx.jit, mx.reference, mx.vmap, jax.jit, lambda f: f):
        np.testing.assert_array_equal(transform(function)(X), 6 * X)
    with pytest.raises(ConcretizationError):
        mx.jit(lambda x: x * int(mnp.arange(4).sum()))(X)
