"""Programs in JAX: staging, weak types, constants, errors at the border, lowering into modules."""

from __future__ import annotations

import collections
import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ShapeError, TransformError
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.tracing import trace_to_graph
from minixla.engine.program import PROGRAM, held, run_graph, stage_for_jax
from tests.harness import by_jax, compiled_rows

X = np.arange(3, dtype=np.float32)
Point = collections.namedtuple("Point", ["x", "y"])


def programs(function, *operands):
    """The programs that JAX sees when it traces `function`."""
    equations = jax.make_jaxpr(stage_for_jax(function))(*operands).jaxpr.eqns
    return [each.params["graph"] for each in equations if each.primitive is PROGRAM]


def test_jax_sees_one_program():
    (program,) = programs(lambda x: ops.add(ops.tanh(x), ops.exp(x)), X)
    assert [step.op.name for step in program.graph.instructions] == ["Tanh", "Exp", "Add"]
    assert repr(program) == repr(program.graph)


RESULTS = {
    "an input": lambda x: x,
    "an input twice": lambda x: (x, x),
    "one value twice": lambda x: [ops.neg(x)] * 2,
    "a Python float": lambda x: 2.5,
    "a Python int": lambda x: 7,
    "a Python bool": lambda x: True,
    "a Python complex": lambda x: 1j,
    "a NumPy scalar": lambda x: np.float16(2),
    "a NumPy array": lambda x: np.arange(4),
    "a large NumPy array": lambda x: np.arange(5000.0),
    "a JAX array": lambda x: jnp.arange(4, dtype=jnp.bfloat16),
    "an empty array": lambda x: np.zeros((0, 2), np.int8),
    "nothing": lambda x: None,
    "an empty tuple": lambda x: (),
    "a tree": lambda x: {"b": [x, None, 1], "a": Point(x, (2.0, {}))},
}


@functools.cache
def results_in_jax():
    known = {name: each for name, each in RESULTS.items() if "twice" not in name}
    return by_jax(lambda x: {name: each(x) for name, each in known.items()}, X)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_jax(name):
    found = mx.jit(RESULTS[name])(X)
    if "twice" in name:
        expected = jax.tree.map(lambda _: -X if "value" in name else X, found)
    else:
        expected = results_in_jax()[name]
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(one, jax.Array)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


ARGUMENTS = [
    1.5,
    2,
    True,
    1j,
    np.float64(1),
    np.int8(1),
    ml_dtypes.bfloat16(1),
    np.arange(3),
    np.arange(3.0)[::-1],
    np.arange(6.0).reshape(2, 3).T,
    jnp.ones(2),
    np.zeros((0, 3)),
    [1.0, (X, {"k": X})],
    None,
]


@functools.cache
def arguments_in_jax():
    return by_jax(lambda arguments: arguments, ARGUMENTS)


@pytest.mark.parametrize(
    ("number", "argument"),
    list(enumerate(ARGUMENTS)),
    ids=[f"{type(a).__name__} {np.shape(a) if not isinstance(a, list) else ''}" for a in ARGUMENTS],
)
def test_arguments_are_those_of_jax(number, argument):
    found, expected = mx.jit(lambda x: x)(argument), arguments_in_jax()[number]
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
        np.testing.assert_array_equal(one, other)


WEAK = {
    "x * 2": lambda x: x * 2,
    "x + 1.0": lambda x: x + 1.0,
    "-x": lambda x: -x,
    "x * f32": lambda x: x * np.float32(1),
    "x / 2": lambda x: x / 2,
}
NUMBERS = {"float": 3.0, "int": 3, "f32": jnp.float32(3), "bool": True}


@functools.cache
def weak_in_jax():
    rows = [(name, number) for name in WEAK for number in NUMBERS]
    return compiled_rows({row: (WEAK[row[0]], (NUMBERS[row[1]],)) for row in rows}, jax.jit)


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("number", NUMBERS)
def test_weak_types_are_those_of_jax(name, number):
    if (name, number) == ("-x", "bool"):
        pytest.skip("JAX has no negative of a boolean either")
    found, expected = mx.jit(WEAK[name])(NUMBERS[number]), weak_in_jax()((name, number))
    assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
    np.testing.assert_array_equal(found, expected)


def test_a_weak_result_does_not_trace_again():
    traces = []

    @mx.jit
    def step(x):
        traces.append(x)
        return x * 0.5

    value = 8.0
    for _ in range(3):
        value = step(value)
    assert value == 1
    assert len(traces) == 1


def test_weakness_inside_a_nested_call():
    def function(x):
        return mx.jit(lambda y: y * 2)(3.0) * x

    graph = mx.make_graph(function)(jnp.ones(2, jnp.bfloat16))
    assert graph.output_shapes == (Shape("bf16", (2,)),)
    assert mx.jit(function)(jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16


BORDER = [
    (lambda x: "text", ShapeError, "the result of type str is not an array"),
    (lambda x: object(), ShapeError, "the result of type object is not an array"),
    (
        lambda x: [x, np.array(["a"])],
        ShapeError,
        "the result[1] has elements of type <U1",
    ),
    (
        lambda x: ops.tuple([x, x]),
        TransformError,
        "(f32[3], f32[3]) cannot be passed to JAX",
    ),
]


@pytest.mark.parametrize(("function", "error", "phrase"), BORDER, ids=[row[2] for row in BORDER])
def test_what_cannot_cross_the_border(function, error, phrase):
    with pytest.raises(error) as caught:
        mx.jit(function)(X)
    assert phrase in str(caught.value)
    assert "test_program.py" in str(caught.value)


def test_types_that_xla_does_not_run():
    function = mx.jit(lambda: np.ones(3, ml_dtypes.float6_e3m2fn))
    with pytest.raises(TransformError, match="6-bit floats, which XLA does not support"):
        function()


def test_constants_in_the_program_and_outside():
    large, held_by_jax = np.arange(2000, dtype=np.float32), jnp.arange(2000.0)

    def function(x):
        return ops.add(ops.mul(x, large), held_by_jax) * np.float32(2) + np.ones(2000, "f4") * 3

    (program,) = programs(function, large)
    assert len(program.graph.inputs) == 4
    np.testing.assert_allclose(mx.jit(function)(large), (large * large + large) * 2 + 3, rtol=1e-6)


def test_programs_compare_by_identity_in_jax():
    graph, other = (trace_to_graph(lambda x: [ops.neg(x)], [Shape("f32")])[0] for _ in range(2))
    assert graph == other
    assert held(graph) is held(graph)
    assert held(graph) != held(other)
    assert held(graph, [True]) != held(graph, [False])
    assert held(graph, [False]) is held(graph)


def test_running_a_graph():
    graph, _ = trace_to_graph(lambda x, y: [ops.add(x, y), x], [Shape("f32", (3,))] * 2)
    total, first = run_graph(graph, [X, X])
    np.testing.assert_array_equal(total, X + X)
    np.testing.assert_array_equal(first, X)
    for wrong in ([X], [X, X[:2]], [X, X.astype(np.int32)], [X, X, X]):
        with pytest.raises(ShapeError, match="the operands do not match the program"):
            run_graph(graph, wrong)


def test_64_bit_constants_need_the_64_bit_mode():
    graph, _ = trace_to_graph(lambda: [np.arange(2000.0).view(DeclaredArray)], [])
    with pytest.raises(ShapeError, match="jax_enable_x64"):
        run_graph(graph, [])
    with jax.enable_x64(True):
        assert run_graph(graph, [])[0].dtype == np.float64


def test_many_programs_in_one_module():
    @jax.jit
    def function(x):
        for _ in range(5):
            x = mx.jit(lambda y: ops.call(lambda z: [ops.neg(z)], y)[0])(x) * 2
        return x

    np.testing.assert_array_equal(function(X), X * -32)


def test_without_jit():
    with jax.disable_jit():
        np.testing.assert_allclose(mx.jit(lambda x: ops.tanh(x) * x)(X), np.tanh(X) * X, rtol=1e-6)


def test_unused_arguments_and_results():
    function = mx.jit(lambda x, y: (ops.exp(y), x)[1])
    np.testing.assert_array_equal(function(X, X), X)
    assert "exponential" not in function.lower(X, X).as_text()


def test_export():
    exported = jax.export.export(jax.jit(mx.jit(lambda x: ops.tanh(x))))(X)
    np.testing.assert_allclose(exported.call(X), np.tanh(X), rtol=1e-6)


def test_64_bit_mode():
    function = mx.jit(lambda x: x * 0.1)
    assert function(1.0).dtype == np.float32
    with jax.enable_x64(True):
        found = function(np.float64(1))
        assert (found.dtype, found) == (np.float64, 0.1)
        assert mx.jit(lambda x: x + np.float64(0.1))(np.float32(1)).dtype == np.float64
    assert function(1.0).dtype == np.float32
