"""Conditional: both forms, clamped indices, checks, derivatives, batches, printing, effects."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Shape
from minixla.core.errors import ShapeError, TransformError
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.side_effects import marked
from tests.selection import quick_rows

X, Y = np.array([0.3, 1.2]), np.float64(2)
ZERO, TRUE = np.int32(0), np.bool_(1)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def by_predicate(p, x, y):
    return ops.conditional(p, x, ops.cos, [x, y], lambda x, y: x * y)


def jax_by_predicate(p, x, y):
    return lax.cond(p, lambda x, y: jnp.cos(x), lambda x, y: x * y, x, y)


def by_index(i, x, y):
    branches = [
        lambda x, y: [ops.sin(x) * y, y],
        lambda x: [x * x * x, ops.reshape(ops.slice(x, [1], [2], [1]), ())],
        lambda y: [ops.broadcast(y, [2]), ops.exp(y)],
    ]
    return ops.conditional(i, branches, [[x, y], x, y])


def jax_by_index(i, x, y):
    branches = [
        lambda x, y: (jnp.sin(x) * y, y),
        lambda x, y: (x * x * x, x[1]),
        lambda x, y: (jnp.broadcast_to(y, 2), jnp.exp(y)),
    ]
    return lax.switch(jnp.where((i < 0) | (i > 2), 2, i), branches, x, y)


INDICES = [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1]


def test_fact_true_branch_and_false_branch():
    for p, expected in ((True, np.cos(X)), (False, X * Y)):
        (result,) = check_operation(by_predicate, [np.bool_(p), X, Y], ulp=1)
        np.testing.assert_allclose(result, expected, rtol=1e-15)


@pytest.mark.parametrize("function", [by_predicate, by_index])
def test_the_operation_says_which_branch_runs(function):
    given = INDICES if function is by_index else [True, False]
    kind, compiled = (np.int32 if function is by_index else np.bool_), mx.jit(function)
    for index in map(kind, given):
        (step,) = mx.make_graph(function)(index, X, Y).instructions
        ran = reference_graph(step.op.branches[step.op.chosen(index)], [X, Y])
        for one, other in zip(ran, jax.tree.leaves(compiled(index, X, Y)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.parametrize("index", INDICES)
def test_fact_index_out_of_range_runs_the_last_branch(index):
    results = check_operation(by_index, [np.int32(index), X, Y], ulp=1)
    for one, other in zip(results, jax_by_index(index, X, Y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_names_of_both_forms():
    x = np.float32(2)
    one = ops.conditional(
        predicate=TRUE, true_operand=x, true_computation=ops.neg,
        false_operand=x, false_computation=ops.exp,
    )  # fmt: skip
    two = ops.conditional(ZERO, branch_computations=[ops.neg], branch_operands=[x])
    three = ops.conditional(branch_index=ZERO, branch_computations=[ops.neg], branch_operands=[x])
    assert one == two == three == -2


def test_tuples_as_operands_and_results():
    def function(p, x, y):
        at = ops.get_tuple_element
        result = ops.conditional(
            p,
            ops.tuple([x, y]), lambda t: ops.tuple([at(t, 1), at(t, 0)]),
            y, lambda y: ops.tuple([y, ops.broadcast(y, [2])]),
        )  # fmt: skip
        return [at(result, 0), at(result, 1)]

    for p, expected in ((True, (Y, X)), (False, (Y, [Y, Y]))):
        results = check_operation(function, [np.bool_(p), X, Y])
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    check_derivatives(lambda x, y: function(TRUE, x, y), [X, Y], lambda x, y: (y, x))


def test_graphs_empty_arrays_and_integers():
    graph, _ = trace_to_graph(lambda x: [x, np.int8(3)], [Shape("u16", (0, 2))])
    empty = np.zeros((0, 2), np.uint16)
    result, three = check_operation(
        lambda i, x: ops.conditional(i, [graph, graph], [x, x]), [ZERO, empty]
    )
    assert result.shape == (0, 2) and three == 3


def test_branches_share_operands():
    graph = graph_of(by_predicate, [TRUE, X, Y])
    (step,) = graph.instructions
    assert len(step.operands) == 3

    def twice(p, x):
        return ops.conditional(p, [x, x], ops.add, x, ops.neg)

    assert len(graph_of(twice, [TRUE, X]).instructions[0].operands) == 3
    np.testing.assert_array_equal(mx.reference(twice)(TRUE, X), 2 * X)


@pytest.mark.parametrize("index", [-1, 0, 1, 2])
def test_derivatives(index):
    order = 2 if index == 0 else 1
    check_derivatives(by_index, [np.int32(index), X, Y], jax_by_index, order=order)
    if index in (0, 1):
        given = [np.bool_(index), X, Y]
        check_derivatives(by_predicate, given, jax_by_predicate, order=1 + index)


def test_the_derivative_runs_everywhere():
    def slopes(i, x, y):
        def total(x, y):
            return mx.numpy.sum(by_index(i, x, y)[0])

        return mx.grad(total, argnums=(0, 1))(x, y)

    check_operation(slopes, [np.int32(0), X.astype(np.float32), np.float32(2)], ulp=4)


def test_residuals_share_slots_and_operands_are_not_copied():
    graph = graph_of(lambda i, x, y: mx.vjp(lambda x, y: by_index(i, x, y), x, y)[0], [ZERO, X, Y])
    (step,) = [each for each in graph.instructions if each.op.name == "Conditional"]
    # Branch 0 keeps a vector, branch 2 a scalar; none keeps x, nor branch 0 what repeats y.
    assert [str(shape) for shape in step.shapes[2:]] == ["f64[2]", "f64[]"]


def test_batching():
    check_batching(by_index, [ZERO, X, Y])
    check_batching(by_predicate, [np.bool_(0), X, Y])


def test_members_that_choose_differently():
    indices, ys = np.array([1, 5, 0, -1], np.int32), np.arange(4.0)
    mapped = mx.vmap(by_index, in_axes=(0, None, 0))
    check_derivatives(
        lambda x, y: mapped(indices, x, y), [X, ys],
        lambda x, y: jax.vmap(jax_by_index, in_axes=(0, None, 0))(indices, x, y),
    )  # fmt: skip
    results = check_operation(lambda i, x, y: mapped(i, x, y), [indices, X, ys], ulp=1)
    for k, (i, y) in enumerate(zip(indices, ys, strict=True)):
        for batch, one in zip(results, mx.reference(by_index)(i, X, y), strict=True):
            np.testing.assert_allclose(batch[k], one, rtol=1e-14)
    empty = mx.reference(mapped)(indices[:0], X, ys[:0])
    assert [each.shape for each in empty] == [(0, 2), (0,)]


def test_members_do_not_see_the_branch_that_they_do_not_take():
    # log has no derivative at 0, and the loop no end at 0.
    def double_up(x):
        return ops.while_(lambda x: ops.lt(x, np.float64(8)), lambda x: x + x, x)

    def function(x):
        return ops.conditional(
            ops.gt(x, np.float64(0)), x, lambda x: ops.log(double_up(x)), x, ops.neg
        )

    xs = np.array([0.0, 3.0, -1.0])
    slope = mx.jit(mx.grad(lambda xs: mx.numpy.sum(mx.vmap(function)(xs))))
    np.testing.assert_allclose(slope(xs), [-1, 1 / 3, -1])
    np.testing.assert_allclose(mx.reference(slope)(xs[::2]), [-1, -1])


def gated(x, w, u):
    """For x > 0 only, the first branch ends and is a number."""

    def grown(x, w, u):
        doubled = mx.while_loop(lambda x: x < 8, lambda x: x + x, x)
        return mx.numpy.log(doubled) * w + mx.numpy.sqrt(u)

    return mx.cond(x > 0, grown, lambda x, w, u: x * w, x, w, u)


def total(x, w, u):
    return gated(x, w, u) ** 2


#: Which of gated's operands each vmap maps, the outermost first.
MAPPED = {
    "all operands": [(1, 1, 1)] * 3,
    "x alone": [(1, 0, 0)] * 3,
    "one each": [(0, 1, 0), (0, 0, 1), (1, 0, 0)],
    "the choice outside": [(1, 0, 0), (1, 1, 0), (0, 1, 1)],
    "the choice in between": [(0, 1, 1), (1, 0, 0), (0, 1, 0), (1, 0, 1)],
    "more outside": [(1, 1, 0), (1, 0, 1), (1, 0, 0)],
}


@pytest.mark.parametrize("name", quick_rows(MAPPED, [*MAPPED][::2]))
def test_batches_of_batches_whose_members_choose_differently(name):
    mapped, sizes = MAPPED[name], (3, 2, 4, 2)
    draw = np.random.default_rng(0)
    shapes = [
        [size for size, flags in zip(sizes, mapped, strict=False) if flags[number]]
        for number in range(3)
    ]
    x, w, u = draw.normal(size=shapes[0]), draw.normal(size=shapes[1]), draw.random(shapes[2])
    x[-1:] = -np.abs(x[-1:])  # a batch no member of which takes the first branch
    function, squares, slopes = gated, total, mx.grad(total, argnums=(0, 1, 2))
    for flags in reversed(mapped):
        axes = tuple(0 if flag else None for flag in flags)
        function, squares = (mx.vmap(each, in_axes=axes) for each in (function, squares))
    values, of_members = np.zeros(sizes[: len(mapped)]), [np.zeros(each) for each in shapes]
    for index in np.ndindex(*values.shape):
        own = [
            tuple(i for i, flags in zip(index, mapped, strict=True) if flags[number])
            for number in range(3)
        ]
        member = [each[at] for each, at in zip((x, w, u), own, strict=True)]
        values[index] = mx.reference(gated)(*member)
        for sums, at, slope in zip(of_members, own, mx.reference(slopes)(*member), strict=True):
            sums[at] += slope
    assert mx.make_graph(function)(x, w, u).stablehlo().count("stablehlo.if") == 2

    def sum_of(*each):
        return mx.numpy.sum(squares(*each))

    def whole(*each):
        return (function(*each), mx.grad(sum_of, argnums=(0, 1, 2))(*each))

    for found in (mx.reference(whole)(x, w, u), mx.jit(whole)(x, w, u)):
        for one, other in zip([found[0], *found[1]], [values, *of_members], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)
    again = mx.vmap(mx.grad(sum_of, argnums=(0, 1, 2)), in_axes=(0, None, 0))
    found = mx.reference(again)(np.stack([x, -np.abs(x)]), w, np.stack([u, u]))
    for one, other in zip(found, of_members, strict=True):
        np.testing.assert_allclose(one[0], other, rtol=1e-10)


def test_members_that_do_not_take_a_branch_show_nothing(capsys):
    def shown(x):
        mx.debug_print("{}", x)
        return x * 2

    def function(x):
        return mx.cond(x > 0, shown, lambda x: x, x)

    x = np.array([[[1.0, -1], [-1, -2]], [[-3, -4], [-5, 2]]])
    mapped = mx.vmap(mx.vmap(mx.vmap(function)))
    for run in (mx.reference(mapped), mx.jit(mapped)):
        np.testing.assert_array_equal(run(x), np.where(x > 0, 2 * x, x))
        assert sorted(capsys.readouterr().out.split()) == ["1.0", "2.0"]
        np.testing.assert_array_equal(run(-np.abs(x)), -np.abs(x))
        assert not capsys.readouterr().out


def test_a_branch_that_computes_nothing_runs_without_a_choice():
    branches = [lambda x: x, lambda x: mx.numpy.zeros(2), mx.numpy.sin, lambda x: marked(x)]

    def function(i, x):
        return mx.switch(i, branches, x)

    graph = mx.make_graph(mx.vmap(function, in_axes=(0, None)))(np.arange(5, dtype=np.int32), X)
    assert graph.stablehlo().count("stablehlo.if") == 2
    found = reference_graph(graph, [np.arange(5, dtype=np.int32), X])[0]
    np.testing.assert_allclose(found, [X, 0 * X, np.sin(X), X, X])


def test_printing():
    text = str(graph_of(by_predicate, [TRUE, X, Y]))
    assert "f64[2] conditional(%arg0.1, %arg1.2, %tuple.5), true_computation=%cos.4, " in text
    assert "false_computation=%_lambda_.6" in text
    assert "true_computation" in _hlo.hlo_module_from_text(text).to_string()
    text = str(graph_of(by_index, [ZERO, X, Y]))
    assert (
        "conditional(%arg0.1, %tuple.4, %arg1.2, %arg2.3), branch_computations={%_lambda_.5, "
        in text
    )
    assert "branch_computations" in _hlo.hlo_module_from_text(text).to_string()


def test_side_effects_are_kept_and_ordered():
    def function(p, x):
        return ops.conditional(p, x, marked, x, ops.neg)

    graph = graph_of(lambda p, x: [x, function(p, x)][:1], [TRUE, X])
    assert [each.op.name for each in graph.pruned().instructions] == ["Conditional"]
    assert "!stablehlo.token" in graph.stablehlo()
    check_operation(function, [TRUE, X])


def graph(*outputs: str) -> Graph:
    shapes = [Shape(each) for each in outputs]
    return trace_to_graph(lambda x: [np.zeros((), each.dtype) for each in shapes], [Shape("f32")])[
        0
    ]


ONE = np.float32(1)
REJECTED = {
    "C1": (lambda x: ops.conditional(x, x, ops.neg, x, ops.neg), "branch_index f32[]"),
    "C1 pred": (lambda x: ops.conditional(TRUE, [ops.neg] * 3, [x] * 3), "pred[] for two branches"),
    "C1 vector": (lambda x: ops.conditional(np.zeros(2, np.int32), [ops.neg], [x]), "s32[2]"),
    "C2": (
        lambda x: ops.conditional(ZERO, [graph("f32")], [ZERO]),
        "branch 0 has the wrong signature (f32[])",
    ),
    "C2 count": (lambda x: ops.conditional(ZERO, [graph("f32")], [[x, x]]), "(f32[], f32[])"),
    "C3": (
        lambda x: ops.conditional(TRUE, x, graph("f32"), x, graph("s32")),
        "branch 1 has the wrong signature",
    ),
    "C3 count": (lambda x: ops.conditional(TRUE, x, ops.neg, x, lambda x: [x, x]), "branch 1"),
    "C4": (lambda x: ops.conditional(ZERO, [], []), "at least one branch"),
    "C4 count": (lambda x: ops.conditional(ZERO, [ops.neg], [x, x]), "2 operands for 1 branches"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, phrase = REJECTED[case]
    check_rejected(function, [ONE], ShapeError, f"conditional: ({case[:2]})", phrase)


def test_arguments_of_neither_form():
    phrases = "the arguments match neither form", "branch_operands"
    check_rejected(lambda x: ops.conditional(ZERO, [ops.neg]), [ONE], ShapeError, *phrases)
    check_rejected(lambda x: ops.conditional(TRUE, x, x, x, x, x), [ONE], ShapeError, *phrases)


def test_branches_must_be_closed():
    with pytest.raises(TransformError, match="reads a traced value"):
        graph_of(lambda x: ops.conditional(TRUE, x, lambda y: x, x, ops.neg), [ONE])


def test_hlo_of_a_branch_with_an_instruction_that_nothing_reads():
    def branch(value):
        ops.sin(value)
        return ops.constant(ONE)

    text = str(graph_of(lambda x: ops.conditional(x < 0, x, branch, x, ops.neg), [ONE]))
    assert "conditional(" in text
    assert "sine" not in text
