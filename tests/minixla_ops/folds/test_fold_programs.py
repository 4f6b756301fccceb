"""Folds as programs, and how a computation is told to be associative."""

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.folds.fold_programs import fold, fold_in_order, is_associative, paired_computation
from minixla_ops.helpers.shorthand import splat
from minixla_ops.programs.computations import computation_of
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import graph_of


def of_scalars(function, *kinds):
    return computation_of(function, [Shape(kind) for kind in kinds * 2], "test")


def affine(a, b, c, d):
    return a * c, b * c + d


def later_maximum(value, index, other, at):
    wins = ops.ge(other, value)
    return ops.select(wins, other, value), ops.select(wins, at, index)


@pytest.mark.parametrize(
    ("function", "kinds", "expected"),
    [
        (ops.add, ["f32"], True),
        (ops.xor, ["u8"], True),
        (ops.max, ["c64"], True),
        (affine, ["f32", "f32"], True),
        (affine, ["s8", "s8"], True),
        (later_maximum, ["bf16", "s32"], True),
        (lambda x, y: ops.log(ops.exp(x) + ops.exp(y)), ["f16"], True),
        (lambda x, y: x + y + x * y, ["f64"], True),
        (lambda x, y: ops.and_(x, ops.not_(ops.not_(y))), ["pred"], True),
        (lambda x, y: y, ["f32"], True),
        (ops.sub, ["f32"], False),
        (ops.sub, ["u4"], False),
        (lambda x, y: x + y * y, ["f32"], False),
        (lambda x, y: x * 0.9 + y, ["f32"], False),
        (lambda x, y: (x + y) * 0.5, ["c64"], False),
        (lambda x, y: ops.and_(x, ops.not_(y)), ["pred"], False),
    ],
)
def test_associativity(function, kinds, expected):
    assert is_associative(of_scalars(function, *kinds)) is expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("function", [affine, lambda a, b, c, d: (a * 3 - c, b + d)])
def test_folds_keep_the_order(count, function):
    """Composition does not commute; the other computation is not even associative."""
    computation = of_scalars(function, "s64", "s64")
    generator = np.random.default_rng(count)
    operands = list(generator.integers(-3, 4, (2, count, 2)))
    start = [splat(2, Shape("s64")), splat(1, Shape("s64"))]
    graph = graph_of(lambda a, b: fold(computation, [a, b], start), operands)
    found = reference_graph(graph, operands)
    running = (np.full(2, 2), np.full(2, 1))
    for row in zip(*operands, strict=True):
        running = function(*running, *row)
    for one, other in zip(found, running, strict=True):
        assert np.array_equal(one, other)


def test_rows_that_are_absent_take_no_part():
    computation = of_scalars(lambda x, y: x * 10 + y, "s32")
    rows = np.arange(1, 7, dtype=np.int32).reshape(3, 2)
    present = np.array([[True, False], [True, True], [False, True]])
    graph, _ = trace_to_graph(
        lambda *xs: fold_in_order(computation, [[x] for x in xs], [np.int32(9)], (2,), present),
        [Shape("s32", (2,))] * 3,
    )
    assert reference_graph(graph, list(rows))[0].tolist() == [913, 946]


def test_a_tree_is_of_logarithmic_depth():
    computation = of_scalars(ops.mul, "f32")
    shape = Shape("f32", (1024,))
    graph, _ = trace_to_graph(lambda x: fold(computation, [x], [np.float32(1)]), [shape])
    products = [i for i in graph.instructions if i.op.name == "Mul"]
    assert len(products) == 11


def test_pairs_carry_tangents_where_the_computation_does():
    def swap(a, b, c, d):
        return b + d, a + c

    computation = of_scalars(swap, "f32", "f32")
    pairs, carried = paired_computation(computation, (True, False))
    assert carried == (True, True)  # the tangent of the first reaches the second
    assert len(pairs.inputs) == 8
    values = [np.float32(value) for value in range(8)]
    # (a, b, ta, tb), (c, d, tc, td) -> (b + d, a + c, tb + td, ta + tc)
    assert [float(x) for x in reference_graph(pairs, values)] == [6, 4, 10, 8]


def test_pairs_carry_no_tangents_of_integers():
    pairs, carried = paired_computation(of_scalars(later_maximum, "f32", "s32"), (True, False))
    assert carried == (True, False)
    assert len(pairs.outputs) == 3
