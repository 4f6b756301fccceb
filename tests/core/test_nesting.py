"""Functions and programs deep within each other, and those that have no end."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from itertools import combinations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.derived import batched_graph, jvp_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph, trace_to_graph
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.selection import diagonal

SCALAR = Shape("f32")
X = np.float32(0.5)
#: JAX 0.10.2 ends in RecursionError above 58 (checkpoint under grad) to 135 (cond) levels.
LEVELS = 150
#: The reverse derivative of a loop stacks what it needs: a dimension a level, of NumPy's 64.
LEVELS_OF_STACKS = 60


def ruled_forward(function):
    custom = mx.custom_jvp(lambda x: function(x))
    custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0] * mx.numpy.cos(X)))
    return custom


def ruled_backward(function):
    custom = mx.custom_vjp(lambda x: function(x))
    custom.defvjp(lambda x: (function(x), x), lambda x, given: (given * mx.numpy.cos(x),))
    return custom


#: From a function to one that runs it within a transformation and is equal to it.
WITHIN = {
    "jit": lambda f: mx.jit(lambda x: f(x)),
    "checkpoint": lambda f: mx.checkpoint(lambda x: f(x)),
    "cond": lambda f: lambda x: mx.cond(x > 0, lambda y: f(y), lambda y: y, x),
    "switch": lambda f: lambda x: mx.switch(x.astype("int32"), [lambda y: f(y), lambda y: y], x),
    "scan": lambda f: lambda x: mx.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "map": lambda f: lambda x: mx.map(lambda y: f(y), x[None])[0],
    "vmap": lambda f: mx.vmap(lambda x: f(x), in_axes=None, out_axes=None, axis_size=2),
    "custom_jvp": ruled_forward,
    "custom_vjp": ruled_backward,
    "while_loop": lambda f: (
        lambda x: mx.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]
    ),
}


def nested(name, levels=LEVELS):
    function = mx.numpy.sin
    for _ in range(levels):
        function = WITHIN[name](function)
    return function


@pytest.fixture(autouse=True)
def usual_recursion():
    """Python's limit as it is where nobody has changed it, for what runs from here on."""
    before = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 1000)
    yield
    assert sys.getrecursionlimit() == depth + 1000, "the limit is left as it was"
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", WITHIN)
def test_functions_are_traced_within_each_other_deeper_than_in_jax(name):
    graph = mx.make_graph(nested(name))(X)
    np.testing.assert_allclose(reference_graph(graph, [X])[0], np.sin(X), rtol=1e-6)


LIMITS_C_CALLS = sys.version_info[:2] == (3, 12)
REASON = "Python 3.12 limits nested calls through C, whatever sys.setrecursionlimit says"


@pytest.mark.parametrize(("name", "transformation"), diagonal([*WITHIN], ["grad", "jvp", "vmap"]))
def test_transformations_of_functions_deep_within_each_other(name, transformation):
    if (name, transformation) == ("custom_vjp", "jvp"):
        with pytest.raises(mx.DerivativeError, match="custom_vjp"):
            mx.jvp(nested(name, 2), (X,), (X,))
        return
    if LIMITS_C_CALLS and name == "custom_vjp":
        pytest.skip(REASON)
    is_stacked = name in ("scan", "map", "while_loop") and transformation == "grad"
    function = nested(name, LEVELS_OF_STACKS if is_stacked else LEVELS)
    transformed = {
        "grad": lambda: mx.grad(function)(X),
        "jvp": lambda: mx.jvp(function, (X,), (np.float32(1),))[1],
        "vmap": lambda: mx.vmap(function)(np.stack([X, X]))[0],
    }[transformation]
    expected = np.sin(X) if transformation == "vmap" else np.cos(X)
    np.testing.assert_allclose(mx.reference(transformed)(), expected, rtol=1e-6)


def batched(function):
    return lambda x: mx.vmap(lambda y: function(y))(x[None])[0]


def in_turn(names, levels):
    within = {**WITHIN, "vmap": batched}
    function = mx.numpy.sin
    for level in range(levels):
        function = within[names[level % len(names)]](function)
    return function


def conditionals(function):
    return len(re.findall(r"stablehlo\.(?:if|case)\b", mx.make_graph(function)(X).stablehlo()))


TURNS = [
    *combinations(["jit", "cond", "checkpoint", "vmap"], 2),
    ("switch", "vmap"),
    ("scan", "cond", "vmap"),
]


@pytest.mark.parametrize("names", TURNS, ids="+".join)
def test_programs_grow_by_as_much_with_each_level(names):
    levels = 6 * len(names)
    transformations = {
        "itself": lambda f: f,
        "grad": mx.grad,
        "jvp": lambda f: lambda x: mx.jvp(f, (x,), (x,))[1],
        "vmap of grad": lambda f: batched(mx.grad(f)),
    }
    for name, transformed in transformations.items():
        half, whole = (transformed(in_turn(names, n)) for n in (levels // 2, levels))
        assert conditionals(whole) <= 2 * conditionals(half), name
        expected = np.sin(X) if name == "itself" else X * np.cos(X) if name == "jvp" else np.cos(X)
        np.testing.assert_allclose(mx.reference(whole)(X), expected, rtol=1e-6, err_msg=name)


def test_jit_cond_checkpoint_and_vmap_in_turn_100_deep():
    names = ["jit", "cond", "checkpoint", "vmap"]
    function = in_turn(names, 100)
    assert conditionals(function) == 25
    assert conditionals(mx.grad(function)) < 100
    np.testing.assert_allclose(mx.reference(mx.value_and_grad(function))(X), [np.sin(X), np.cos(X)])
    compiled = mx.jit(mx.value_and_grad(in_turn(names, 48)))
    np.testing.assert_allclose(compiled(X), [np.sin(X), np.cos(X)], rtol=1e-6)


@mx.jit
def jits_itself(x):
    return jits_itself(x) + 1


@mx.jit
def even(x):
    return mx.cond(x > 0, lambda y: odd(y - 1), lambda y: y, x)


def odd(x):
    return mx.checkpoint(even)(x)


@mx.custom_jvp
def ruled(x):
    return ruled(x)


ruled.defjvp(lambda primals, tangents: (ruled(*primals), tangents[0]))


def differentiates_itself(x):
    return mx.grad(differentiates_itself)(x)


def scans_itself(x):
    return mx.scan(lambda c, _: (scans_itself(c), None), x, None, length=2)[0]


def loops_itself(x):
    return mx.while_loop(lambda c: c < 0, loops_itself, x)


def batches_itself(x):
    return mx.vmap(batches_itself, in_axes=None, axis_size=2)(x)


def combines_itself(x):
    return mx.associative_scan(lambda a, b: combines_itself(a), mx.numpy.stack([x, x]))[0]


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (jits_itself, ["a function calls itself, "]),
        (mx.grad(jits_itself), ["a function calls itself, "]),
        (mx.reference(jits_itself), ["a function calls itself, "]),
        (even, ["3 lines call each other, ", "(even)", "(even.<locals>.<lambda>)", "(odd)"]),
        (ruled, ["a function calls itself, ", "(ruled)"]),
        (differentiates_itself, ["a function calls itself, ", "(differentiates_itself)"]),
        (scans_itself, ["2 lines call each other, ", "(scans_itself)"]),
        (loops_itself, ["a function calls itself, ", "(loops_itself)"]),
        (batches_itself, ["a function calls itself, ", "(batches_itself)"]),
        (mx.jit(combines_itself), ["2 lines call each other, ", "(combines_itself)"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_error_of_a_function_without_end_names_the_lines_that_call_each_other(function, lines):
    with pytest.raises(mx.NestingError) as caught:
        function(X)
    message = str(caught.value)
    assert isinstance(caught.value, RecursionError)
    assert message.startswith("trace: traced functions are nested deeper than the ")
    assert f"{__file__.rpartition('/')[2]}:" in message
    assert all(line in message for line in lines)
    assert "write the repetition as mx.while_loop, mx.fori_loop or mx.scan" in message
    assert len(caught.traceback) < 40
    # All that was being done has been given up: the next program is made as ever.
    assert mx.make_graph(mx.numpy.sin)(X).depth == 0


def test_the_error_of_different_functions_lists_outermost_and_innermost_ones():
    function = mx.numpy.sin
    for number in range(2000):
        lines = "\n" * number + "lambda x: inner(x)"
        function = mx.checkpoint(eval(lines, {"inner": function}))
    with pytest.raises(mx.NestingError) as caught:
        mx.make_graph(function)(X)
    message = str(caught.value)
    assert "from the outermost to the innermost:" in message
    assert "<string>:2000 (<lambda>)" in message
    assert " more ..." in message


def test_recursion_that_is_not_within_transformations_is_pythons_error():
    def endless(x):
        return endless(x)

    with pytest.raises(RecursionError) as caught:
        mx.make_graph(endless)(X)
    assert not isinstance(caught.value, mx.MinixlaError)


def test_threads_raise_the_limit_together_and_leave_it_as_it_was():
    found = []

    def run():
        try:
            even(X)
        except mx.NestingError as error:
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3


#: From a program of one number to one that runs it once and is equal to it.
RUNNING = {
    "call": lambda graph: lambda x: list(ops.call(graph, x)),
    "cond": lambda graph: (
        lambda x: [mx.cond(x > 0, lambda y: evaluate_graph(graph, [y])[0], lambda y: y, x)]
    ),
    "while_loop": lambda graph: (
        lambda x: [
            mx.while_loop(
                lambda s: s[0] < 1, lambda s: (s[0] + 1, evaluate_graph(graph, [s[1]])[0]), (0, x)
            )[1]
        ]
    ),
    "scan": lambda graph: (
        lambda x: [
            mx.scan(lambda c, _: (evaluate_graph(graph, [c])[0], None), x, None, length=1)[0]
        ]
    ),
}
#: What is done with a program; the value that it must have at 0.5, if it has one.
STAGES = {
    "text": lambda graph: graph.stablehlo() and None,
    "hlo": lambda graph: str(graph) and None,
    "equality": lambda graph: {graph: None}[pickle.loads(pickle.dumps(graph))],
    "reference": lambda graph: (reference_graph(graph, [X]), np.sin(X)),
    "jvp": lambda graph: (
        reference_graph(jvp_graph(graph, (True,)).graph, [X, np.float32(1)])[1:],
        np.cos(X),
    ),
    "vjp": lambda graph: vjp_graphs(graph, (True,)) and None,
    "pullback": lambda graph: (pulled(graph), np.cos(X)),
    "batch": lambda graph: (
        reference_graph(batched_graph(graph, (0,), 2).graph, [np.stack([X, X])])[0][:1],
        np.sin(X),
    ),
}


def pulled(graph: Graph):
    graphs = vjp_graphs(graph, (True,))
    _, *kept = reference_graph(graphs.forward, [X])
    return reference_graph(graphs.backward, [*kept, np.float32(1)])


def program(name, levels):
    graph, _ = trace_to_graph(lambda x: [ops.sin(x)], [SCALAR])
    for _ in range(levels):
        graph, _ = trace_to_graph(RUNNING[name](graph), [SCALAR])
    return graph


DEPTHS = {"call": 500, "cond": 150, "while_loop": 150, "scan": 300}


# The other pairs are among those of the next test, but those of calls.
@pytest.mark.parametrize(("name", "stage"), diagonal([*DEPTHS], [*STAGES]))
def test_what_is_done_with_programs_deep_within_each_other(name, stage):
    check_stage(name, stage, DEPTHS[name])


@pytest.mark.full
@pytest.mark.parametrize("name", ["cond", "while_loop", "scan"])
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_done_with_programs_500_deep(name, stage):
    check_stage(name, stage, 500)


def check_stage(name, stage, levels):
    if (stage, name) in {("vjp", "while_loop"), ("pullback", "while_loop"), ("pullback", "scan")}:
        levels = LEVELS_OF_STACKS
    graph = program(name, levels)
    assert graph.depth == levels
    found = STAGES[stage](graph)
    if found is not None:
        np.testing.assert_allclose(found[0], [found[1]], rtol=1e-6)


@pytest.mark.skipif(LIMITS_C_CALLS, reason=REASON)
def test_xla_runs_calls_500_deep_and_refuses_loops_that_would_kill_it():
    calls, loops = program("call", 500), program("while_loop", 200)
    found = mx.jit(mx.value_and_grad(lambda x: ops.call(calls, x)[0]))(X)
    np.testing.assert_allclose(found, [np.sin(X), np.cos(X)], rtol=1e-6)
    with pytest.raises(mx.NestingError, match="deeper than XLA can compile") as caught:
        mx.jit(lambda x: ops.call(loops, x)[0])(X)
    assert "201 nested computations; at most 160 are supported" in str(caught.value)
    assert "mx.reference" in str(caught.value)


def test_calls_that_are_written_in_place_keep_the_order_of_what_is_shown(capsys):
    def shown(x):
        mx.debug_print("{}", x)
        return x + 1

    graph = mx.make_graph(shown)(X)
    for _ in range(70):
        graph = mx.make_graph(lambda x, graph=graph: shown(ops.call(graph, x)[0]))(X)
    mx.jit(lambda x: ops.call(graph, x)[0])(X).block_until_ready()
    assert capsys.readouterr().out.split() == [str(0.5 + n) for n in range(71)]
