"""Tuple and GetTupleElement: as values of graphs, eagerly, under every transformation."""

from __future__ import annotations

import functools
import itertools

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import Shape, parse_shape
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.tracing import trace_to_graph
from minixla_ops.helpers.tuple_operations import without_tuples
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    compiled_together,
    graph_of,
)

A = np.arange(3.0, dtype=np.float32)
B = np.array([4, 5], np.int32)


def first(pair):
    return ops.get_tuple_element(pair, 0)


def second(pair):
    return ops.get_tuple_element(pair, 1)


def nested(a, b):
    """a * a through ((b, a), a)."""
    pair = ops.tuple([ops.tuple([b, a]), a])
    return ops.mul(second(first(pair)), second(pair)), first(first(pair))


def test_fact_tuple():
    v, s = np.arange(10, dtype=np.float32), np.int32(5)
    graph, _ = trace_to_graph(lambda v, s: [ops.tuple([v, s])], [Shape("f32", (10,)), Shape("s32")])
    assert graph.output_shapes == (parse_shape("(f32[10], s32[])"),)
    (t,) = reference_graph(graph, [v, s])
    assert (t[0].tolist(), t[1]) == (list(range(10)), 5)


def test_fact_get_tuple_element():
    shapes = [Shape("f32", (10,)), Shape("s32")]
    graph, _ = trace_to_graph(lambda v, s: [second(ops.tuple([v, s]))], shapes)
    assert graph.output_shapes == (Shape("s32"),)
    assert reference_graph(graph, [np.zeros(10, np.float32), np.int32(5)]) == [5]


def test_oracles():
    product, b = check_operation(nested, [A, B])
    assert (product.tolist(), b.tolist()) == ([0, 1, 4], [4, 5])


@pytest.mark.parametrize("members", [0, 1, 2, 5])
def test_any_number_of_members(members):
    def function(*values):
        whole = ops.tuple([*values, A])
        return [ops.get_tuple_element(whole, i) for i in range(members + 1)]

    check_operation(function, [np.full((i,), i, np.int16) for i in range(members)])


def test_graph_prints_and_lowers_both_operations():
    graph = graph_of(nested, [A, B])
    names = [each.op.name for each in graph.instructions]
    assert names == ["Tuple", "Tuple", "GetTupleElement", "GetTupleElement", "GetTupleElement",
                     "Mul", "GetTupleElement", "GetTupleElement"]  # fmt: skip
    assert "(s32[2], f32[3]) tuple(%arg1.2, %arg0.1)" in str(graph)
    assert "f32[3] get-tuple-element(%tuple.4), index=1" in str(graph)
    assert '"stablehlo.get_tuple_element"' in graph.stablehlo()


def test_eager():
    pair = ops.tuple([A, ops.tuple([B])])
    assert isinstance(first(pair), jax.Array)
    assert first(second(pair)).tolist() == [4, 5]


def test_eager_tuple_inside_a_graph():
    pair = ops.tuple([A, B])
    graph = graph_of(lambda x: [ops.mul(first(pair), x), second(pair)], [A])
    assert [each.op.name for each in graph.instructions].count("Tuple") == 1
    product, b = check_operation(lambda x: [ops.mul(first(pair), x), second(pair)], [A])
    assert (product.tolist(), b.tolist()) == ([0, 1, 4], [4, 5])


# Every order of jit, grad or jvp, and vmap around a function with tuples.

TRANSFORMATIONS = {
    "jit": (mx.jit, jax.jit),
    "grad": (
        lambda f: mx.grad(lambda x: summed(f(x))),
        lambda f: jax.grad(lambda x: f(x).sum()),
    ),
    "jvp": (
        lambda f: lambda x: mx.jvp(f, (x,), (x + 1,))[1],
        lambda f: lambda x: jax.jvp(f, (x,), (x + 1,))[1],
    ),
    "vmap": (mx.vmap, jax.vmap),
}


def summed(x):
    return ops.reduce(x, np.float32(0), ops.add, range(len(x.shape)))


def cubed(x):
    pair = ops.tuple([ops.mul(x, x), ops.tuple([x, B])])
    return ops.mul(first(pair), first(second(pair)))


ORDERS = list(itertools.permutations(TRANSFORMATIONS, 3))
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def composed(function, order, library):
    for name in order:
        function = TRANSFORMATIONS[name][library](function)
    return function


@functools.cache
def compositions_by_jax():
    """From an order to JAX's result, all of them in one program."""
    cubes = {order: composed(lambda x: x * x * x, order, 1) for order in ORDERS}
    return compiled_together(cubes, MATRIX, jit=jax.jit)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_compositions(order):
    ours = composed(cubed, order, 0)
    np.testing.assert_allclose(ours(MATRIX), compositions_by_jax()(order), rtol=1e-6)


def test_derivatives():
    check_derivatives(lambda a, b: nested(a, b)[0], [np.array([1.0, 2.0]), B], lambda a, b: a * a)


def test_transposition_of_a_rule_with_tuples():
    @mx.custom_jvp
    def square(x):
        return ops.mul(x, x)

    @square.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return square(x), ops.mul(first(ops.tuple([t, x])), ops.add(x, x))

    np.testing.assert_array_equal(mx.grad(lambda x: summed(square(x)))(A), 2 * A)


def test_member_without_a_tangent_stays_without():
    def function(x):
        pair = ops.tuple([x, A])
        return second(pair)

    graph = mx.make_graph(lambda x: mx.jvp(function, (x,), (x,))[1])(A)
    assert [each.op.name for each in graph.pruned().instructions] == ["Constant"]


def test_unused_members_add_nothing_to_a_gradient():
    graph = mx.make_graph(mx.grad(lambda x: summed(second(ops.tuple([ops.exp(x), x])))))(A)
    names = [each.op.name for each in graph.pruned().instructions]
    assert not {"Exp", "Mul", "Add"} & set(names), names


def test_batching():
    check_batching(nested, [A, B])


def test_batching_of_a_tuple_with_unbatched_members():
    rows = mx.vmap(lambda x: second(ops.tuple([x, A])), out_axes=None)(np.ones((2, 3)))
    assert rows.tolist() == A.tolist()


def test_float64_reference():
    third = mx.reference(lambda x: first(ops.tuple([ops.div(x, np.float32(3)), B])), "float64")
    assert third(np.float32(1)) == 1 / 3


def test_deep_nesting():
    def function(x):
        for _ in range(50):
            x = ops.tuple([x])
        for _ in range(50):
            x = first(x)
        return x

    check_operation(function, [A])


def test_without_tuples():
    shapes = [parse_shape("((f32[3], s32[2]), f32[3])"), parse_shape("s32[2]")]
    graph, _ = trace_to_graph(
        lambda p, b: [ops.tuple([ops.mul(first(first(p)), second(p)), b]), second(first(p))], shapes
    )
    flat = without_tuples(graph)
    assert flat.input_shapes == tuple(map(parse_shape, ["f32[3]", "s32[2]", "f32[3]", "s32[2]"]))
    results = reference_graph(flat, [A, B, A, B + 1])
    assert [each.tolist() for each in results] == [[0, 1, 4], [5, 6], [4, 5]]
    assert without_tuples(flat) is flat


# What operations with several results return is taken apart like a tuple.
RESULTS = {
    "reduce": lambda x: ops.reduce([x, x], [0.0, 1.0], lambda a, b, c, d: (a + c, b * d), [0]),
    "sort": lambda x: ops.sort([-x, x], lambda a, b, c, d: ops.lt(a, b)),
    "all_reduce": lambda x: ops.all_reduce(ops.tuple([x + 1, x]), ops.add, [[0]]),
    "top_k": lambda x: ops.top_k(x, 2, largest=False),
    "in a tuple": lambda x: ops.get_tuple_element(ops.tuple([x, (-x, x)]), 1),
}


@pytest.mark.parametrize("case", RESULTS)
def test_members_of_several_results(case):
    function = RESULTS[case]

    def members(x):
        return [ops.get_tuple_element(function(x), index) for index in (0, 1)]

    results = check_operation(members, [A], interpreter=case != "all_reduce")
    for actual, expected in zip(results, mx.reference(members)(A), strict=True):
        np.testing.assert_array_equal(actual, expected)
    for actual, expected in zip(members(A), results, strict=True):
        np.testing.assert_array_equal(actual, expected)


REJECTED = {
    "C1": (lambda a: first(a), ShapeError, "f32[3]"),
    "C2 high": (lambda a: ops.get_tuple_element(ops.tuple([a]), 1), AttributeValueError, "[0, 1)"),
    "C2 negative": (
        lambda a: ops.get_tuple_element(ops.tuple([a]), -1), AttributeValueError, "no element -1",
    ),
    "C2 results": (
        lambda a: ops.get_tuple_element(ops.top_k(a, 1), 2), AttributeValueError, "no element 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, error, phrase = REJECTED[case]
    check_rejected(function, [A], error, f"get_tuple_element: ({case[:2]})", phrase)


@pytest.mark.parametrize("case", REJECTED)
def test_rejected_eagerly(case):
    function, error, _ = REJECTED[case]
    with pytest.raises(error, match=case[:2]):
        function(A)


def test_a_tuple_is_no_array():
    with pytest.raises(
        ShapeError, match=r"operand operand must be an array[\s\S]*get_tuple_element"
    ):
        graph_of(lambda a: ops.exp(ops.tuple([a])), [A])
    with pytest.raises(ShapeError, match="unpack containers first"):
        ops.exp(ops.tuple([A]))
