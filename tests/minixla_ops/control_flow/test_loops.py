"""While: results in every form, checks, forward derivatives, batches, printing, effects."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Shape, parse_shape
from minixla.core.errors import ShapeError, TransformError
from minixla.core.tracing import evaluate_graph, trace_to_graph
from minixla_ops.control_flow.loops import repeat
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.side_effects import marked

ZERO, ONE = np.int32(0), np.int32(1)
X = np.array([0.5, -1.5, 2.0])


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def powers(n, x):
    """x, sin applied n times, and the sum of what came in between."""

    def condition(i, n, x, y):
        return ops.lt(i, n)

    def body(i, n, x, y):
        return [i + ONE, n, ops.sin(x) * 1.5, y + x]

    return ops.while_(condition, body, [ZERO, n, x, ops.sub(x, x)])[2:]


def jax_powers(n, x):
    def body(s):
        return (s[0] + 1, jnp.sin(s[1]) * 1.5, s[2] + s[1])

    return lax.while_loop(lambda s: s[0] < n, body, (0, x, jnp.zeros(3)))[1:]


def test_fact_thousand_iterations():
    vector = np.arange(10, dtype=np.float32)

    def function(zero):
        init = ops.tuple([zero, np.zeros(10, np.float32)])
        at = ops.get_tuple_element
        result = ops.while_(
            lambda t: ops.lt(at(t, 0), np.int32(1000)),
            lambda t: ops.tuple([ops.add(at(t, 0), ONE), ops.add(at(t, 1), vector)]),
            init,
        )
        return [at(result, 0), at(result, 1)]

    counter, total = check_operation(function, [ZERO])
    assert counter == 1000
    np.testing.assert_array_equal(total, 1000 * vector)
    assert function(ZERO)[0] == 1000


@pytest.mark.parametrize("n", [0, 1, 5])
def test_results(n):
    results = check_operation(powers, [np.int32(n), X], ulp=4)
    with jax.enable_x64(True):
        for one, other in zip(results, jax_powers(n, X), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_fact_init_is_the_result_where_the_condition_is_false_at_once():
    (result,) = check_operation(lambda x: ops.while_(lambda x: ops.gt(x, x), ops.neg, x), [ONE])
    assert result == 1


def test_one_value_and_a_sequence_of_values_and_tuples():
    def function(x):
        single = ops.while_(lambda x: ops.lt(x, np.float32(9)), lambda x: x + x, x)
        pair, y = ops.while_(
            lambda p, y: ops.lt(y, np.float32(9)),
            lambda p, y: [ops.tuple([ops.get_tuple_element(p, 0) + y]), y + y],
            (ops.tuple([x]), x),
        )
        return [single, ops.get_tuple_element(pair, 0), y]

    assert [float(each) for each in check_operation(function, [np.float32(1)])] == [16, 16, 16]
    assert isinstance(ops.while_(lambda i: ops.lt(i, ONE), lambda i: [i + ONE], [ZERO]), tuple)


def test_values_of_many_types_size_zero_and_special_values():
    types = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64"]
    arrays = [
        np.array([0, 1, 2]).astype(ml_dtypes.bfloat16 if t == "bfloat16" else t) for t in types
    ]
    arrays += [np.zeros((0, 2), np.float32), np.array([np.nan, np.inf, -0.0], np.float32)]
    results = check_operation(
        lambda *xs: ops.while_(
            lambda i, *xs: ops.lt(i, np.int32(3)),
            lambda i, *xs: [i + ONE, *[ops.rev(x, [0]) for x in xs]],
            [ZERO, *xs],
        ),
        arrays,
    )
    for result, array in zip(results[1:], arrays, strict=True):
        np.testing.assert_array_equal(result, array[::-1])


def test_repeat():
    def function(n, x):
        def step(k, carried, constants):
            return [carried[0] * constants[0] + k]

        return [*repeat(n, step, [ONE], [x]), *repeat(4, step, [ONE], [x]), *repeat(0, step, [x])]

    assert [int(each) for each in check_operation(function, [np.int32(4), np.int32(3)])] == [
        99,
        99,
        3,
    ]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_forward_derivative(n):
    check_derivatives(
        lambda x: powers(np.int32(n), x), [X], lambda x: jax_powers(n, x), modes=["fwd"]
    )


def test_forward_derivative_finds_who_gets_tangents():
    # y gets a tangent from x after one iteration, z from y after two, w never.
    one = np.float64(1)

    def function(x):
        init = [ZERO, x, one, one, one + one]
        return ops.while_(
            lambda i, *_: ops.lt(i, np.int32(3)),
            lambda i, x, y, z, w: [i + ONE, x, x * w, y * y, w + w],
            init,
        )

    def expected(x):
        y, z, w = 1.0, 1.0, 2.0
        for _ in range(3):
            y, z, w = x * w, y * y, w + w
        return 3, x, y, z, w

    check_derivatives(function, [np.float64(1.5)], expected)
    with jax.enable_x64(True):
        graph = mx.make_graph(lambda x: mx.jvp(function, (x,), (x,))[1][1:])(X[0])
    (loop,) = [each for each in graph.pruned().instructions if each.op.name == "While"]
    assert len(loop.operands) == 8  # five values, three of them with tangents
    body = loop.op.body
    assert body.outputs[2] is body.inputs[2]  # the tangent of a constant is one


def test_batching():
    check_batching(lambda x: powers(np.int32(2), x), [X])
    check_batching(lambda n, x: powers(n, x), [np.int32(2), X])


def test_members_that_stop_at_different_times():
    def function(n, x):
        def body(i, n, x):  # the inner loop would have no end where i is n
            inner = ops.while_(lambda j, m: ops.ne(j, m), lambda j, m: [j + ONE, m], [i, n - ONE])
            return [i + ONE, n, ops.div(x, n - i) + inner[0]]

        return ops.while_(lambda i, n, x: ops.lt(i, n), body, [ZERO, n, x])[2]

    counts, values = np.array([3, 0, 5, 1], np.int32), np.array([50, 60, 70, 80], np.int32)
    (result,) = check_operation(lambda n, x: mx.vmap(function)(n, x), [counts, values])
    expected = [int(mx.reference(function)(*each)) for each in zip(counts, values, strict=True)]
    assert result.tolist() == expected
    (empty,) = check_operation(lambda n, x: mx.vmap(function)(n, x), [counts[:0], values[:0]])
    assert empty.shape == (0,)


def shrinking(x, w):
    """x, brought below 1 in steps of w, and the logarithms of how far it stood above 1.

    Below 1 a step has no logarithm, and with w = 0 there is no end.
    """
    return mx.while_loop(
        lambda s: s[0] > 1,
        lambda s: (s[0] - s[1], s[1], s[2] + ops.log(s[0] - 1)),
        (x, w, np.float64(0)),
    )[::2]


#: Which of shrinking's values each vmap maps, the outermost first.
MAPPED = {
    "all values": [(1, 1)] * 3,
    "x alone": [(1, 0)] * 3,
    "w alone": [(0, 1)] * 3,
    "one each": [(0, 1), (1, 0), (0, 1)],
    "one, then both": [(1, 1), (1, 0), (1, 0)],
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", MAPPED)
def test_batches_of_batches_whose_members_stop_at_different_times(name):
    mapped, sizes = MAPPED[name], (2, 3, 2)
    draw = np.random.default_rng(0)
    shapes = [
        [size for size, flags in zip(sizes, mapped, strict=True) if flags[number]]
        for number in range(2)
    ]
    x, w = draw.uniform(0.2, 4, size=shapes[0]), draw.uniform(0.3, 1, size=shapes[1])
    if name == "all values":
        w[x < 1] = 0

    def function(x, w):
        return mx.jvp(lambda x: shrinking(x, w), (x,), (x,))

    expected = [np.zeros(sizes) for _ in range(4)]
    batched = function
    for flags in reversed(mapped):
        batched = mx.vmap(batched, in_axes=tuple(0 if flag else None for flag in flags))
    for index in np.ndindex(*sizes):
        member = [
            each[tuple(i for i, flags in zip(index, mapped, strict=True) if flags[number])]
            for number, each in enumerate((x, w))
        ]
        leaves = jax.tree.leaves(mx.reference(function)(*member))
        for array, one in zip(expected, leaves, strict=True):
            array[index] = one
    for run in (mx.reference(batched), mx.jit(batched)):
        for one, other in zip(jax.tree.leaves(run(x, w)), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)


def test_loops_over_batches_grow_by_as_much_with_each():
    function, lines = lambda x: shrinking(x, np.float64(2))[0], []
    for levels in range(1, 9):
        function = mx.vmap(function)
        graph = mx.make_graph(function)(np.full((1,) * levels, 3.5))
        lines.append(graph.pruned().stablehlo().count("\n"))
    # Each batch repeats the numbers that the loop holds.
    assert lines[-1] - lines[-2] == lines[2] - lines[1] < 10


def test_all_results_of_a_loop_over_two_batches():
    function = mx.vmap(lambda x: shrinking(x, np.float64(2))[0])
    x = np.array([[3.5, 100.0], [0.5, 7.0]])
    graph = mx.make_graph(function)(x[0]).pruned()
    (step,) = [each for each in graph.instructions if each.op.name == "While"]
    active, first, *others = [
        np.stack(values)
        for values in zip(*[operands_of(graph, step, row) for row in x], strict=True)
    ]
    batched = mx.vmap(lambda *operands: step.op(*operands))(active, first, *others)
    rows = [step.op(*row) for row in zip(active, first, *others, strict=True)]
    for both, apart in zip(batched, zip(*rows, strict=True), strict=True):
        np.testing.assert_array_equal(both, np.stack(apart))


def operands_of(graph, step, *arguments):
    """The operands of an instruction for these arguments of its program."""
    before = Graph(graph.inputs, graph.instructions, step.operands, "operands").pruned()
    return evaluate_graph(before, arguments)


def test_only_what_differs_over_the_batch_is_batched():
    graph = graph_of(
        mx.vmap(lambda n, x: powers(n, x), in_axes=(None, 0)), [np.int32(2), np.stack([X, X])]
    )
    (loop,) = [each for each in graph.instructions if each.op.name == "While"]
    assert [str(shape) for shape in loop.shapes] == ["s32[]", "s32[]", "f64[2,3]", "f64[2,3]"]


def test_printing():
    graph = graph_of(
        lambda x: ops.while_(lambda i, x: ops.lt(i, ONE), lambda i, x: [i, x], [ZERO, x]), [X]
    )
    text = str(graph)
    assert "(s32[], f64[3]) while(%tuple.5), condition=%_lambda_.3, body=%_lambda_.4" in text
    assert "while" in _hlo.hlo_module_from_text(text).to_string()
    alone = str(graph_of(lambda x: ops.while_(lambda x: ops.lt(x, ONE), ops.neg, x), [ZERO]))
    assert "s32[] while(%arg0.1)" in alone
    _hlo.hlo_module_from_text(alone)


def with_effect(x):
    def body(i, x):
        marked(i)
        return [i + ONE, x * 2.0]

    return ops.while_(lambda i, x: ops.lt(i, np.int32(3)), body, [ZERO, x])


def test_side_effects_are_kept_and_ordered():
    graph = graph_of(lambda x: [x, with_effect(x)][:1], [X])
    assert [each.op.name for each in graph.pruned().instructions] == ["Constant", "While"]
    assert "!stablehlo.token" in graph_of(with_effect, [X]).stablehlo()
    check_operation(with_effect, [X])
    check_derivatives(with_effect, [X], lambda x: (3, 8 * x), order=1)


PAIR = parse_shape("(s32[], f32[])")
GRAPH, _ = trace_to_graph(lambda x: [x], [Shape("f32")])


def always(x):
    return ops.eq(x, x)


REJECTED = {
    "C1": (lambda x: ops.while_(GRAPH, ops.neg, x), "the condition has the wrong signature"),
    "C2": (
        lambda x: ops.while_(ops.neg, ops.neg, x),
        "the condition has the wrong signature (s32[]) -> (s32[])",
    ),
    "C2 vector": (lambda x: ops.while_(lambda x: np.ones(2, bool), ops.neg, x), "pred[2]"),
    "C3": (lambda x: ops.while_(always, lambda x: [x, x], x), "the body has the wrong signature"),
    "C3 type": (
        lambda x: ops.while_(always, lambda x: ops.convert_element_type(x, "f32"), x),
        "(s32[]) -> (s32[])",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, phrase = REJECTED[case]
    check_rejected(function, [ZERO], ShapeError, f"while_: ({case[:2]})", phrase)


def test_programs_must_be_closed():
    with pytest.raises(TransformError, match="reads a traced value"):
        graph_of(lambda x: ops.while_(lambda i: ops.lt(i, x), lambda i: i + ONE, ZERO), [ONE])


def test_float64_precision_and_deep_loops():
    third = np.float32(1) / np.float32(3)

    def function(x):
        return ops.while_(
            lambda i, x: ops.lt(i, np.int32(50)),
            lambda i, x: [i + ONE, ops.sin(x) + third],
            [ZERO, x],
        )[1]

    y = np.float64(1)
    for _ in range(50):
        y = np.sin(y) + np.float64(third)
    assert mx.reference(function, precision="float64")(np.float32(1)) == pytest.approx(y, rel=1e-14)
