"""Traces: recording, constants, captures, leaks, threads, the garbage collector, nesting."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import state as state_module
from minixla.core.errors import (
    AttributeValueError,
    LeakedTracerError,
    ShapeError,
    TransformError,
)
from minixla.core.operation import operation_named
from minixla.core.shapes import Shape, TupleValue
from minixla.core.state import at_own_lines
from minixla.core.tracing import (
    GraphTrace,
    bind,
    closed_graph,
    current_trace,
    default_trace,
    evaluate_graph,
    shape_of,
    trace_to_graph,
    tracing,
    under,
    weak_type_of,
)
from minixla.engine import stage_for_jax
from minixla.reference_evaluator.trace import ReferenceTrace
from minixla_ops.programs.reference_evaluation import reference_graph

VECTOR = Shape("f32", (3,))
X = np.arange(3, dtype=np.float32)


def names(graph):
    return [step.op.name for step in graph.instructions]


def constants(graph):
    return [step.op.literal.array for step in graph.instructions if step.op.name == "Constant"]


def evaluate(graph, *operands):
    return reference_graph(graph, operands)[0]


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """Every test leaves the thread as it was: at the evaluator, with the collector running."""
    assert current_trace() is default_trace()
    yield
    assert current_trace() is default_trace()
    assert state_module.state.source is None
    assert gc.isenabled()


def test_recording():
    graph, captured = trace_to_graph(lambda x: [ops.mul(ops.tanh(x), x), x], [VECTOR], "name")
    assert (graph.name, names(graph), captured) == ("name", ["Tanh", "Mul"], [])
    tanh, mul = graph.instructions
    assert tanh.operands == graph.inputs
    assert mul.operands == (tanh.results[0], graph.inputs[0])
    assert graph.outputs == (mul.results[0], graph.inputs[0])
    assert graph.output_shapes == (VECTOR, VECTOR)


# Constants.


def test_equal_splats_are_recorded_once():
    graph, _ = trace_to_graph(
        lambda x: [
            ops.mul(
                ops.add(x, np.full(3, 2, "f4")), ops.add(np.broadcast_to(np.float32(2), 3), x * 2.0)
            )
        ],
        [VECTOR],
    )
    assert len(constants(graph)) == 2, "the full array, and one of the repeated ones"


def test_scalars_are_told_apart_by_bits_and_type():
    values = [np.float32(0), np.float32(-0.0), np.int32(0), np.float32("nan"), np.float32(0)]
    graph, _ = trace_to_graph(lambda: values, [])
    assert [each.dtype.name for each in constants(graph)] == ["float32"] * 2 + ["int32", "float32"]
    assert graph.outputs[0] is graph.outputs[4]
    assert graph.outputs[0] is not graph.outputs[1]


def test_one_array_is_recorded_once():
    large = np.arange(3000, dtype=np.float32)

    def function(x):
        return [ops.add(x, large), ops.mul(large, x)]

    assert len(constants(trace_to_graph(function, [Shape("f32", (3000,))])[0])) == 1


def test_an_array_that_changes_between_its_uses_is_read_each_time():
    def function(x):
        weights = np.zeros(3, np.float32)
        for index in range(3):
            weights[index] = index + 1
            x = ops.add(x, weights)
        return x

    expected = np.array([3, 4, 3], np.float32)
    np.testing.assert_array_equal(mx.jit(function)(X * 0), expected)
    np.testing.assert_array_equal(function(X * 0), expected)
    graph = mx.make_graph(function)(X)
    assert len(constants(graph)) == 3


@pytest.mark.parametrize("transform", [mx.jit, mx.reference], ids=["engine", "reference"])
def test_what_a_derivative_needs_of_an_array_that_changes(transform):
    def function(x):
        weights = np.ones(3, np.float32)
        x = ops.mul(x, weights)
        weights[:] = 7
        return ops.reduce([ops.mul(x, weights)], [np.float32(0)], ops.add, [0])

    expected = np.full(3, 7, np.float32)
    np.testing.assert_array_equal(transform(mx.grad(function))(X), expected)
    np.testing.assert_array_equal(mx.grad(function)(X), expected)


def test_an_array_that_changes_after_the_trace():
    weights = np.ones(3, np.float32)
    view = np.broadcast_to(weights[:1], (3,))
    graph = mx.make_graph(lambda x: ops.add(ops.mul(x, weights), view))(X)
    weights[:] = 100
    np.testing.assert_array_equal(evaluate(graph, X), X + 1)


WIDE = [np.float64(0.1), np.arange(3.0), np.arange(3), np.complex128(1j)]


@pytest.mark.parametrize("value", WIDE, ids=str)
def test_64_bit_constants_become_narrow(value):
    (found,) = constants(trace_to_graph(lambda: [value], [])[0])
    assert found.dtype == jnp.asarray(value).dtype
    with jax.enable_x64(True):
        (found,) = constants(trace_to_graph(lambda: [value], [])[0])
        assert found.dtype == value.dtype


BIG = [2**31, -(2**31) - 1, 2**70]


@pytest.mark.parametrize("number", BIG)
@pytest.mark.parametrize(
    "transform",
    [mx.make_graph, mx.reference, mx.jit, lambda f: f],
    ids=["graph", "numpy", "jit", "eager"],
)
def test_a_python_int_that_does_not_fit(transform, number):
    with pytest.raises(AttributeValueError) as caught:
        transform(lambda x: ops.add(x, number))(np.int32(1))
    for phrase in ("does not fit s32", str(number), "wider type", "test_tracing.py"):
        assert phrase in str(caught.value)


def test_large_constants_enter_as_operands():
    large = np.arange(5000, dtype=np.float32)
    nested = mx.jit(lambda x: ops.mul(x, large))

    @mx.custom_jvp
    def custom(x):
        return ops.sub(x, large)

    custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0]))

    def function(x):
        y = ops.add(custom(nested(x)), large)
        return mx.vjp(nested, y)[1](y)[0]

    (equation,) = [
        each
        for each in jax.make_jaxpr(stage_for_jax(function))(large).jaxpr.eqns
        if each.primitive.name == "minixla_program"
    ]
    graph = equation.params["graph"].graph
    assert graph.input_shapes == (Shape("f32", (5000,)),) * 2
    text = graph.stablehlo()
    assert len(text) < 4000
    assert "dense<" not in text
    np.testing.assert_allclose(mx.jit(function)(large), mx.reference(function)(large), rtol=1e-6)


def test_arrays_of_jax_stay_where_they_are():
    held = jnp.arange(3.0)
    graph, _ = trace_to_graph(lambda x: [ops.add(x, held)], [VECTOR])
    (step,) = [each for each in graph.instructions if each.op.name == "Constant"]
    assert step.op.literal.data is held


def test_tracers_of_jax_are_captured():
    @jax.jit
    def outer(c, x):
        return mx.jit(lambda y: ops.mul(y, c))(x), mx.grad(lambda y: y * c[0])(x[1])

    first, second = outer(jnp.arange(3.0) + 2, jnp.ones(3))
    np.testing.assert_array_equal(first, [2, 3, 4])
    assert second == 2


def test_a_cached_program_keeps_no_tracer_of_jax():
    holder = {}
    nested = mx.jit(lambda y: y * holder["c"])

    @jax.jit
    def outer(c, x):
        holder["c"] = c
        return mx.grad(nested)(x)

    assert outer(jnp.float32(3), jnp.float32(1)) == 3
    assert outer(jnp.int32(4), jnp.float32(1)) == 4


# Nested traces.


def test_tracers_of_an_enclosing_trace_become_inputs():
    seen = []

    def outer(x, y):
        inner, captured = trace_to_graph(lambda z: [ops.add(ops.mul(z, x), x)], [VECTOR])
        seen.extend([inner, [each is x for each in captured]])
        return [y]

    trace_to_graph(outer, [VECTOR, VECTOR])
    inner, captured = seen
    assert captured == [True]
    assert len(inner.inputs) == 2
    assert evaluate(inner, X + 1, X).tolist() == (X * (X + 1) + X + 1).tolist()


def test_constants_of_an_enclosing_trace_stay_constants():
    seen = []

    def outer():
        two = ops.constant(np.float32(2))
        inner, captured = trace_to_graph(lambda z: [ops.add(z, two)], [Shape("f32")])
        seen.extend([inner, captured])
        return [two]

    trace_to_graph(outer, [])
    assert seen[1] == []
    assert [each.item() for each in constants(seen[0])] == [2]


def test_a_computation_is_closed():
    def outer(x):
        return [closed_graph(lambda y: ops.add(x, y), [VECTOR], "reduce")]

    with pytest.raises(TransformError) as caught:
        trace_to_graph(outer, [VECTOR])
    for phrase in ("reduce: its computation reads a traced value", "captured: GraphTracer<f32[3]>"):
        assert phrase in str(caught.value)


def test_50_jits_inside_each_other():
    function = mx.jit(lambda x: ops.add(x, np.float32(1)))
    for _ in range(50):
        function = mx.jit(lambda x, inner=function: ops.mul(inner(x), np.float32(1)))
    graph = function.graph(np.float32(1))
    assert evaluate(graph, np.float32(1)) == 2
    assert mx.reference(mx.grad(function))(1.0) == 1
    assert mx.reference(mx.jvp)(function, (1.0,), (3.0,))[1] == 3
    assert function(1.0) == 2


def test_5_grads_inside_each_other():
    function, expected = (
        ops.sin,
        [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin, np.cos],
    )
    for derivative in expected:
        function = mx.grad(function)
        np.testing.assert_allclose(
            mx.reference(function)(0.7), derivative(np.float32(0.7)), rtol=1e-6
        )
    np.testing.assert_allclose(mx.jit(function)(0.7), np.cos(0.7), rtol=1e-6)


# Leaks.

STASH: list = []


def stash(x):
    STASH.append(x * 2.0)
    return x * 1.0


def make_leak(name):
    STASH.clear()
    if name == "make_graph":
        mx.make_graph(stash)(X)
    elif name == "jit":
        mx.jit(lambda x: stash(x))(X)  # `stash` itself is traced once
    elif name == "grad":
        mx.vjp(stash, X)
    elif name == "jvp":
        mx.jvp(stash, (X,), (X,))
    elif name == "vmap":
        mx.vmap(stash)(X)
    else:
        mx.reference(stash)(X)
    return STASH.pop()


LEAKS = ["make_graph", "jit", "grad", "jvp", "vmap", "reference"]
USES = {
    "an operation": lambda leaked: ops.tanh(leaked),
    "an operator": lambda leaked: leaked + 1.0,
    "in a graph": lambda leaked: mx.make_graph(lambda x: ops.add(x, x) * leaked)(X),
    "as a graph's result": lambda leaked: mx.make_graph(lambda x: leaked)(X),
    "in jit": lambda leaked: mx.jit(lambda x: ops.neg(leaked))(X),
    "in grad": lambda leaked: mx.vjp(lambda x: x * leaked, np.ones(leaked.shape, "f4")),
    "as grad's result": lambda leaked: mx.vjp(lambda x: leaked, X),
    "as an argument of grad": lambda leaked: mx.vjp(ops.tanh, leaked),
    "as jvp's result": lambda leaked: mx.jvp(lambda x: leaked, (X,), (X,)),
    "in vmap": lambda leaked: mx.vmap(lambda x: ops.neg(leaked))(X),
    "as vmap's result": lambda leaked: mx.vmap(lambda x: leaked)(X),
    "in reference": lambda leaked: mx.reference(lambda x: ops.neg(leaked))(X),
    "as reference's result": lambda leaked: mx.reference(lambda x: leaked)(X),
    "as auxiliary data": lambda leaked: mx.vjp(lambda x: (x, leaked), X, has_aux=True),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("source", LEAKS)
def test_a_leaked_tracer(source, use):
    leaked = make_leak(source)
    with pytest.raises(LeakedTracerError) as caught:
        USES[use](leaked)
    message = str(caught.value)
    for phrase in ("after its transformation had ended", type(leaked).__name__, "called at"):
        assert phrase in message
    assert "Return the value from the transformed function" in message
    assert "test_tracing.py" in message


def test_a_leak_names_where_the_tracer_was_made():
    leaked = make_leak("make_graph")
    with pytest.raises(LeakedTracerError, match=r"made by mul at .*test_tracing.py:\d+ \(stash\)"):
        ops.tanh(leaked)


def test_a_leak_names_the_operation():
    with pytest.raises(LeakedTracerError, match=r"^tanh: a tracer was used after"):
        ops.tanh(make_leak("jit"))


def test_a_leak_through_a_generator():
    def generator(x):
        yield x * 2.0
        yield x + x

    def function(x):
        STASH.append(generator(x))
        return next(STASH[-1])

    mx.make_graph(function)(X)
    with pytest.raises(LeakedTracerError):
        next(STASH.pop())


def test_a_leak_through_a_closure():
    def function(x):
        STASH.append(lambda: ops.neg(x))
        return x

    mx.jit(function)(X)
    with pytest.raises(LeakedTracerError, match=r"^neg:"):
        STASH.pop()()


def test_an_inner_tracer_used_outside():
    def outer(x):
        mx.vjp(stash, x)
        return ops.tanh(STASH.pop())

    for transform in (mx.make_graph, mx.jit, mx.reference, mx.grad):
        with pytest.raises(LeakedTracerError, match="after its transformation had ended"):
            transform(outer)(np.float32(1))


def test_a_tracer_of_an_inner_trace_that_is_still_running():
    def outer(x):
        trace = current_trace()

        def inner(y):
            with under(trace):
                return ops.tanh(y)

        return mx.vjp(inner, x)[0]

    for transform in (mx.make_graph, mx.reference):
        with pytest.raises(LeakedTracerError) as caught:
            transform(outer)(X)
        assert "outside its transformation, which is still active" in str(caught.value)
        assert "Pass the value as an argument" in str(caught.value)


def test_a_tracer_of_a_finished_outer_trace_inside_an_inner_one():
    leaked = make_leak("vmap")
    with pytest.raises(LeakedTracerError):
        mx.make_graph(lambda x: mx.vmap(lambda y: y * leaked)(x))(X)


# State.


class Boom(Exception):
    """Raised in the middle of a trace."""


def boom(*_):
    raise Boom


FAILING = {
    "make_graph": lambda: mx.make_graph(boom)(X),
    "jit": lambda: mx.jit(boom)(X),
    "grad": lambda: mx.grad(boom)(1.0),
    "jvp": lambda: mx.jvp(boom, (X,), (X,)),
    "vmap": lambda: mx.vmap(boom)(X),
    "reference": lambda: mx.reference(boom)(X),
    "nested": lambda: mx.jit(mx.vmap(mx.grad(mx.jit(boom))))(X),
}


@pytest.mark.parametrize("name", FAILING)
def test_an_exception_restores_everything(name):
    with pytest.raises(Boom):
        FAILING[name]()


def test_a_wrong_operand_restores_everything():
    def function(x):
        before = current_trace()
        for _ in range(2):
            with pytest.raises(ShapeError):
                ops.add(x, "text")
            assert current_trace() is before
            assert state_module.state.source is None
        return x * x

    assert mx.grad(function)(3.0) == 6
    assert mx.jvp(function, (3.0,), (1.0,))[1] == 6


def test_the_collector_stays_off_where_it_was_off():
    gc.disable()
    try:
        mx.make_graph(ops.tanh)(X)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_rests_while_tracing():
    seen = []
    mx.make_graph(lambda x: seen.append(gc.isenabled()) or x)(X)
    assert seen == [False]


def run_in_threads(*functions):
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures


def test_two_threads_trace_at_once():
    barrier = threading.Barrier(2, timeout=30)
    graphs = {}

    def work(name, operation):
        def function(x):
            for _ in range(50):
                barrier.wait()
                x = operation(x)
            return x

        graphs[name] = mx.make_graph(function)(X)

    run_in_threads(lambda: work("tanh", ops.tanh), lambda: work("exp", ops.exp))
    assert names(graphs["tanh"]) == ["Tanh"] * 50
    assert names(graphs["exp"]) == ["Exp"] * 50
    assert gc.isenabled()


def test_a_new_thread_starts_at_the_evaluator():
    seen = []

    def function(x):
        run_in_threads(lambda: seen.append(current_trace()))
        return x

    mx.make_graph(function)(X)
    assert seen == [default_trace()]


def test_one_pullback_in_two_threads():
    _, pullback = mx.vjp(lambda x: ops.mul(ops.tanh(x), x), X)
    expected = pullback(X)[0]
    found = []

    def work():
        for _ in range(20):
            found.append(pullback(X)[0])

    run_in_threads(work, work)
    assert len(found) == 40
    for each in found:
        np.testing.assert_array_equal(each, expected)


# Small parts.


def test_the_evaluator_takes_its_place_whenever_it_is_loaded():
    script = """
import numpy as np
from minixla.core import Shape
from minixla.core.tracing import current_trace, default_trace, trace_to_graph, under
trace_to_graph(lambda x: [x], [Shape("f32")])
before = current_trace()
with under(before):
    evaluator = default_trace()
assert current_trace() is evaluator is before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_under_and_tracing_restore():
    trace = GraphTrace(current_trace())
    with tracing(trace):
        assert current_trace() is trace
        other = ReferenceTrace(trace)
        with under(other):
            assert current_trace() is other
        assert current_trace() is trace
    assert not trace.alive
    assert other.alive
    assert current_trace() is default_trace()


def test_own_lines():
    state_module.state.source = graph_source = mx.make_graph(ops.tanh)(X).instructions[0].source
    try:
        with at_own_lines():
            assert state_module.state.source is None
        assert state_module.state.source is graph_source
    finally:
        state_module.state.source = None


def test_reaching():
    outer = GraphTrace(default_trace())
    inner = GraphTrace(outer)
    tracer = outer.add_input(VECTOR)
    assert inner.reaches(tracer)
    assert outer.reaches(tracer)
    assert not outer.reaches(inner.add_input(VECTOR))
    outer.alive = False
    assert not inner.reaches(tracer)


def test_evaluation_of_a_graph():
    graph, _ = trace_to_graph(
        lambda x, y: [ops.add(x, y), *ops.call(lambda z: [z, ops.neg(z)], x)], [VECTOR] * 2
    )
    with under(ReferenceTrace(current_trace())):
        found = evaluate_graph(graph, [X, X])
        assert [each.data.tolist() for each in found] == [
            (2 * X).tolist(),
            X.tolist(),
            (-X).tolist(),
        ]
    for given, word in (([X], "shorter"), ([X] * 3, "longer")):
        with pytest.raises(ValueError, match=f"is {word} than"):
            evaluate_graph(graph, given)


def test_shapes_of_values():
    assert shape_of(VECTOR) is VECTOR
    assert str(shape_of(TupleValue([X, TupleValue([1])]))) == "(f32[3], (s32[]))"
    with pytest.raises(ShapeError, match=r"^here: argument value of type list is not an array"):
        shape_of([1], "here")
    with pytest.raises(ShapeError, match="Graph is not an array"):
        shape_of(mx.make_graph(ops.tanh)(X))
    with pytest.raises(ShapeError, match="elements of type <U1, which XLA does not support"):
        shape_of(np.array(["a"]))


WEAK = [
    (1.0, True),
    (True, False),
    (jnp.asarray(1.0), True),
    (np.float32(1), False),
    (jnp.ones(2), False),
]


@pytest.mark.parametrize(("value", "expected"), WEAK, ids=str)
def test_weak_types(value, expected):
    assert weak_type_of(value) is expected


def test_bind_takes_any_operation():
    np.testing.assert_allclose(bind(operation_named("Tanh")(), X), np.tanh(X), rtol=1e-6)
