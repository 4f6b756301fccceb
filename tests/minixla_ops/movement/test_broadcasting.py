"""Broadcast, BroadcastInDim and the broadcasting of binary builders: every fact of its rules.

Facts are named as in the specification: rules R, facts F, rejections E.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    compiled_rows,
    graph_of,
)


def counted(*sizes, dtype=np.float32):
    return np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)


def array(*values):
    return np.array(values, np.float32)


MATRIX = array([1, 2, 3], [4, 5, 6])
SQUARE = array([1, 2, 3], [4, 5, 6], [7, 8, 9])
VECTOR = array(7, 8, 9)

# Name: operation, lhs, rhs, broadcast_dimensions, result.
FACTS = {
    "F1": (ops.add, MATRIX, VECTOR, (1,), [[8, 10, 12], [11, 13, 15]]),
    "F3": (ops.add, MATRIX, np.float32(7), None, [[8, 9, 10], [11, 12, 13]]),
    "F3 with bdims ()": (ops.add, MATRIX, np.float32(7), (), [[8, 9, 10], [11, 12, 13]]),
    "F4, F6": (ops.add, SQUARE, VECTOR, (1,), [[8, 10, 12], [11, 13, 15], [14, 16, 18]]),
    "F5, F7": (ops.add, SQUARE, VECTOR, (0,), [[8, 9, 10], [12, 13, 14], [16, 17, 18]]),
    "F9, F10": (
        ops.add,
        counted(2, 3, 4),
        100 * counted(3, 4),
        (1, 2),
        [
            [[0, 101, 202, 303], [404, 505, 606, 707], [808, 909, 1010, 1111]],
            [[12, 113, 214, 315], [416, 517, 618, 719], [820, 921, 1022, 1123]],
        ],
    ),
    "F15, F16": (ops.add, array([1], [2]), array([10, 20, 30]), None, [[11, 21, 31], [12, 22, 32]]),
    "F17": (ops.mul, array([1], [2]), array([10, 20, 30]), None, [[10, 20, 30], [20, 40, 60]]),
    "F18": (ops.add, array(1, 2, 3, 4), array([5, 6]), (0,), [[6, 7], [7, 8], [8, 9], [9, 10]]),
    "F19, F20": (
        ops.add,
        array([10, 20]),
        counted(4, 3, 1),
        (1, 2),
        [
            [[10, 20], [11, 21], [12, 22]],
            [[13, 23], [14, 24], [15, 25]],
            [[16, 26], [17, 27], [18, 28]],
            [[19, 29], [20, 30], [21, 31]],
        ],
    ),
    "F21 lower first": (
        ops.sub,
        array(1, 2, 3, 4),
        array([5, 6]),
        (0,),
        [[-4, -5], [-3, -4], [-2, -3], [-1, -2]],
    ),
    "F21 higher first": (
        ops.sub,
        array([5, 6]),
        array(1, 2, 3, 4),
        (0,),
        [[4, 5], [3, 4], [2, 3], [1, 2]],
    ),
    "R14 identity": (ops.add, MATRIX, MATRIX, (0, 1), [[2, 4, 6], [8, 10, 12]]),
    "R14 empty": (ops.add, MATRIX, MATRIX, (), [[2, 4, 6], [8, 10, 12]]),
    "R15 scalar first": (ops.sub, np.float32(7), VECTOR, None, [0, -1, -2]),
}


def with_dimensions(builder, dimensions):
    return lambda x, y: builder(x, y, dimensions)


FACTS_TOGETHER = Together(
    {
        fact: (with_dimensions(builder, dimensions), [lhs, rhs], {})
        for fact, (builder, lhs, rhs, dimensions, _) in FACTS.items()
    }
)


@pytest.mark.parametrize("fact", FACTS)
def test_fact(fact):
    (result,) = FACTS_TOGETHER.check(fact)
    assert result.tolist() == FACTS[fact][-1]


# Name: shapes of the operands, of the result.
STRETCHED = {
    "F11": ((2, 1), (2, 3), (2, 3)),
    "F12": ((1, 2, 5), (7, 2, 5), (7, 2, 5)),
    "F13": ((7, 2, 5), (7, 1, 5), (7, 2, 5)),
    "F15": ((2, 1), (1, 3), (2, 3)),
    "size 0 against 1": ((0, 3), (1, 3), (0, 3)),
    "size 1 against 0": ((1, 3), (0, 3), (0, 3)),
    "both empty": ((0, 1), (1, 0), (0, 0)),
    "rank 4": ((2, 1, 3, 1), (1, 4, 1, 5), (2, 4, 3, 5)),
}
STRETCHED_TOGETHER = Together(
    {
        fact: (with_dimensions(ops.add, None), [counted(*first), counted(*second) + 10], {})
        for fact, (first, second, _) in STRETCHED.items()
    }
)


@pytest.mark.parametrize("fact", STRETCHED)
def test_equal_ranks_stretch_as_numpy_does(fact):
    operands = STRETCHED_TOGETHER.rows[fact][1]
    (result,) = STRETCHED_TOGETHER.check(fact)
    assert result.shape == STRETCHED[fact][-1]
    np.testing.assert_array_equal(result, operands[0] + operands[1])


M, N, P, Q = 2, 3, 4, 5
TABLE_3_1 = [
    ((M,), (0,)),
    ((N,), (1,)),
    ((P,), (2,)),
    ((Q,), (3,)),
    ((P, Q), (2, 3)),
    ((N, P), (1, 2)),
    ((M, Q), (0, 3)),
    ((M, N), (0, 1)),
    ((M, P), (0, 2)),
    ((N, Q), (1, 3)),
]


TABLE_TOGETHER = Together(
    {
        dimensions: (
            with_dimensions(ops.add, dimensions),
            [counted(M, N, P, Q), 1000 * counted(*sizes)],
            {},
        )
        for sizes, dimensions in TABLE_3_1
    }
)


@pytest.mark.parametrize(("sizes", "dimensions"), TABLE_3_1)
def test_table_3_1_accepted(sizes, dimensions):
    higher, lower = TABLE_TOGETHER.rows[dimensions][1]
    spread = lower.reshape([s if d in dimensions else 1 for d, s in enumerate((M, N, P, Q))])
    (result,) = TABLE_TOGETHER.check(dimensions)
    np.testing.assert_array_equal(result, higher + spread)


def test_r15_degenerate_dimensions_of_both_and_in_dim_together():
    # The lower operand's dimension 0 and the higher operand's dimension 2 are stretched.
    lower, higher = counted(1, 3), counted(2, 4, 1) + 100
    (result,) = check_operation(lambda x, y: ops.sub(x, y, (1, 2)), [lower, higher])
    np.testing.assert_array_equal(result, lower[None] - higher)


def test_lowering_is_one_broadcast_in_dim_an_operand_that_changes():
    text = graph_of(lambda x, y: ops.add(x, y, (0,)), [counted(4), counted(1, 2)]).stablehlo()
    assert "dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>" in text
    assert "dims = [0, 1] : (tensor<1x2xf32>) -> tensor<4x2xf32>" in text
    text = graph_of(lambda x, y: ops.add(x, y, (1,)), [MATRIX, VECTOR]).stablehlo()
    assert text.count("broadcast_in_dim") == 1


# Name: shapes, broadcast_dimensions, what the message must say.
REJECTED = {
    "E1 (F2, R3)": ((2, 3), (3,), None, "different ranks"),
    "E2": ((2, 3, 4), (4, 3), (2, 1), "decreases"),
    "E2 (table 3.1)": ((M, N, P, Q), (P, N), (2, 1), "decreases"),
    "E3": ((2, 3, 4), (3, 3), (1, 1), "repeats"),
    "E3 (table 3.1)": ((M, N, P, Q), (P, P), (2, 2), "repeats"),
    "E4 too few": ((2, 3, 4), (3, 4), (1,), "1 entries"),
    "E4 too many": ((2, 3, 4), (3, 4), (0, 1, 2), "3 entries"),
    "E4 (table 3.1)": ((M, N, P, Q), (N, P), (1, 2, 3), "3 entries"),
    "E5 high": ((2, 3), (3,), (2,), "out of range"),
    "E5 negative": ((2, 3), (3,), (-1,), "out of range"),
    "E6 (F8)": ((2, 3), (3,), (0,), "size 3"),
    "E6 (table 3.1)": ((M, N, P, Q), (N,), (0,), "has 2"),
    "E6 size 0": ((2, 3), (0,), (0,), "size 0"),
    "E7 (F14)": ((7, 2, 5), (7, 2, 6), None, "sizes 5 and 6"),
    "E7 sizes 0 and 2": ((0, 3), (2, 3), None, "sizes 0 and 2"),
    "E8": ((2, 3), (2, 3), (1, 0), "identity"),
    "E9": ((2, 3), (), (0,), "rank 0"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    first, second, dimensions, phrase = REJECTED[case]
    operands = [counted(*first), counted(*second)]
    phrases = [f"add: ({case[:2]})", phrase, f"lhs f32[{','.join(map(str, first))}]"]
    if dimensions is not None:
        phrases.append(f"broadcast_dimensions {dimensions}")
    check_rejected(lambda x, y: ops.add(x, y, dimensions), operands, ShapeError, *phrases)
    # Whichever side is the lower operand.
    check_rejected(lambda x, y: ops.add(y, x, dimensions), operands, ShapeError, phrases[0])


def test_r16_element_types_must_match():
    operands = [MATRIX, MATRIX.astype(np.int32)]
    check_rejected(lambda x, y: ops.add(x, y), operands, ShapeError, "(B1)", "f32[2,3]", "s32[2,3]")


# Gradients: a cotangent is summed over what was repeated.


def pulled(builder, lhs, rhs, dimensions):
    def function(x, y):
        result, pullback = mx.vjp(lambda x, y: builder(x, y, dimensions), x, y)
        return pullback(np.ones(result.shape, np.float32))

    return mx.reference(function)(lhs, rhs)


def test_gradient_of_f1():
    matrix, vector = pulled(ops.add, MATRIX, VECTOR, (1,))
    assert vector.tolist() == [2, 2, 2]
    assert matrix.tolist() == np.ones((2, 3)).tolist()


def test_gradient_of_f3():
    assert pulled(ops.add, MATRIX, np.float32(7), None)[1] == 6


def test_gradient_of_f18():
    vector, matrix = pulled(ops.add, array(1, 2, 3, 4), array([5, 6]), (0,))
    assert vector.tolist() == [2, 2, 2, 2]
    assert matrix.tolist() == [[4, 4]]


@pytest.mark.parametrize("fact", ["F1", "F16", "F17", "F18", "F20", "F21"])
def test_derivatives_of_facts(fact):
    builder, lhs, rhs, dimensions, _ = next(v for k, v in FACTS.items() if fact in k)
    operands = [lhs.astype(np.float64), rhs.astype(np.float64)]
    check_derivatives(lambda x, y: builder(ops.mul(x, x), y, dimensions), operands)


@pytest.mark.parametrize("fact", ["F1", "F3", "F16", "F18", "F20", "F21"])
def test_batching_of_facts(fact):
    builder, lhs, rhs, dimensions, _ = next(v for k, v in FACTS.items() if fact in k)
    check_batching(lambda x, y: builder(x, y, dimensions), [lhs, rhs])


# The operations themselves.

OPERATIONS = {
    "broadcast a scalar": (
        lambda x: ops.broadcast(x, (2, 3)),
        (),
        lambda x: lax.broadcast(x, (2, 3)),
    ),
    "broadcast by nothing": (lambda x: ops.broadcast(x, ()), (2,), lambda x: x),
    "broadcast a matrix": (
        lambda x: ops.broadcast(x, (4, 1)),
        (2, 3),
        lambda x: lax.broadcast(x, (4, 1)),
    ),
    "broadcast to nothing": (
        lambda x: ops.broadcast(x, (0, 2)),
        (3,),
        lambda x: lax.broadcast(x, (0, 2)),
    ),
    "broadcast nothing": (
        lambda x: ops.broadcast(x, (2,)),
        (0, 3),
        lambda x: lax.broadcast(x, (2,)),
    ),
    "in_dim scalar": (
        lambda x: ops.broadcast_in_dim(x, (2, 3), ()),
        (),
        lambda x: lax.broadcast_in_dim(x, (2, 3), ()),
    ),
    "in_dim rows": (
        lambda x: ops.broadcast_in_dim(x, (2, 3), (1,)),
        (3,),
        lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)),
    ),
    "in_dim columns": (
        lambda x: ops.broadcast_in_dim(x, (2, 3), (0,)),
        (2,),
        lambda x: lax.broadcast_in_dim(x, (2, 3), (0,)),
    ),
    "in_dim stretch": (
        lambda x: ops.broadcast_in_dim(x, (2, 4, 3), (0, 2)),
        (1, 3),
        lambda x: lax.broadcast_in_dim(x, (2, 4, 3), (0, 2)),
    ),
    # The specification leaves this open; StableHLO and XLA allow it.
    "in_dim decreasing": (
        lambda x: ops.broadcast_in_dim(x, (4, 3, 2), (2, 1)),
        (2, 3),
        lambda x: lax.broadcast_in_dim(x.T, (4, 3, 2), (1, 2)),
    ),
    "in_dim permuted and stretched": (
        lambda x: ops.broadcast_in_dim(x, (3, 5, 2, 4), (2, 0, 3)),
        (2, 3, 1),
        lambda x: lax.broadcast_in_dim(x.transpose(1, 0, 2), (3, 5, 2, 4), (0, 2, 3)),
    ),
    "in_dim identity": (lambda x: ops.broadcast_in_dim(x, (2, 3), (0, 1)), (2, 3), lambda x: x),
    "in_dim 1 to 0": (
        lambda x: ops.broadcast_in_dim(x, (0, 3), (0, 1)),
        (1, 3),
        lambda x: lax.broadcast_in_dim(x, (0, 3), (0, 1)),
    ),
    "in_dim 1 stays 1": (
        lambda x: ops.broadcast_in_dim(x, (2, 1), (1,)),
        (1,),
        lambda x: lax.broadcast_in_dim(x, (2, 1), (1,)),
    ),
}


OPERATIONS_TOGETHER = Together(
    {case: (function, [counted(*sizes)], {}) for case, (function, sizes, _) in OPERATIONS.items()}
)
DERIVATIVES = DerivativesTogether(
    {
        case: (function, [counted(*sizes, dtype=np.float64)], jax_function, {"order": 1})
        for case, (function, sizes, jax_function) in OPERATIONS.items()
    }
)


@functools.cache
def operations_by_jax():
    """From a case to JAX's result, all of them in one program."""
    rows = {case: (OPERATIONS[case][2], row[1]) for case, row in OPERATIONS_TOGETHER.rows.items()}
    return compiled_rows(rows, jit=jax.jit)


@pytest.mark.parametrize("case", OPERATIONS)
def test_operation(case):
    (result,) = OPERATIONS_TOGETHER.check(case)
    np.testing.assert_array_equal(result, operations_by_jax()(case))


@pytest.mark.parametrize("case", OPERATIONS)
def test_operation_derivatives(case):
    DERIVATIVES.check(case)


@pytest.mark.parametrize("case", OPERATIONS)
def test_operation_batching(case):
    function, sizes, _ = OPERATIONS[case]
    check_batching(function, [counted(*sizes)])


def test_fact_broadcast_of_a_scalar():
    result = mx.reference(lambda x: ops.broadcast(x, (2, 3)))(np.float32(2))
    assert result.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_x9_new_dimensions_come_first():
    assert mx.reference(lambda x: ops.broadcast(x, (5,)))(MATRIX).shape == (5, 2, 3)


@pytest.mark.parametrize(
    ("label", "sizes", "dimensions", "error", "phrase"),
    [
        ("C1", (2, 3), (1,), AttributeValueError, "2 different dimensions"),
        ("C1", (2, 3), (1, 1), AttributeValueError, "2 different dimensions"),
        ("C2", (2, 3), (0, 3), AttributeValueError, "[0, 2)"),
        ("C2", (2, 3), (-1, 1), AttributeValueError, "[0, 2)"),
        ("C3", (3, 2), (0, 1), ShapeError, "size 2 cannot become 3"),
        ("C3", (2, 0), (0, 1), ShapeError, "size 0 cannot become 3"),
    ],
)
def test_broadcast_in_dim_rejected(label, sizes, dimensions, error, phrase):
    out = (3, 3) if label == "C3" else (2, 3)
    if label == "C3" and sizes == (2, 0):
        out = (2, 3)
    check_rejected(
        lambda x: ops.broadcast_in_dim(x, out, dimensions),
        [counted(*sizes)],
        error,
        f"({label})",
        phrase,
    )


def test_broadcast_rejects_a_negative_size():
    check_rejected(lambda x: ops.broadcast(x, (-1,)), [MATRIX], AttributeValueError, "must be >= 0")


def test_a_broadcast_constant_is_one_constant():
    graph = graph_of(
        lambda x: ops.add(x, ops.broadcast_in_dim(np.float32(2), (2, 3), ())), [MATRIX]
    )
    assert [each.op.name for each in graph.instructions] == ["Constant", "Add"]


def test_a_broadcast_constant_is_checked_too():
    check_rejected(
        lambda: ops.broadcast_in_dim(np.float32(2), (2, 3), (0,)), [], AttributeValueError, "(C1)"
    )


def test_eager_broadcast_of_constants_gives_values_of_the_trace():
    assert isinstance(ops.broadcast_in_dim(2.0, (2,), ()), jax.Array)
