"""Operations of three operands: Select and Clamp."""

import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ShapeError
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape, TupleShape
from minixla.core.tracing import trace_to_graph
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.operand_pairs import ALL, COMPLEX, WITHOUT_XLA, pairs, rows_of_values
from tests.oracles.compare import assert_same
from tests.oracles.values import random_values

F32 = random_values(np.float32, (2, 3), 1)
PRED = np.array([[True, False, True], [False, False, True]])


def triples(kind):
    """Every triple of some edge values."""
    first, _ = pairs(kind, 9)
    values = first[:: int(len(first) ** 0.5)]
    grid = np.meshgrid(*[np.arange(len(values))] * 3, indexing="ij")
    return [values[each.ravel()] for each in grid]


# Select.


def choices(kind):
    """Operands of select: an array of pred, and each of its scalars."""
    on_true, on_false = pairs(kind, 12)
    preds = {"array": np.arange(len(on_true)) % 3 == 0, "true": np.True_, "false": np.False_}
    return {name: [pred, on_true, on_false] for name, pred in preds.items()}


SELECTED = Together(
    {
        (kind, name): (ops.select, operands, {"xla": kind not in WITHOUT_XLA})
        for kind in ALL
        for name, operands in choices(kind).items()
    }
)


@pytest.mark.parametrize("row", SELECTED.rows, ids="-".join)
def test_select_values(row):
    (result,) = SELECTED.check(row)
    assert_same(result, np.where(*SELECTED.rows[row][1]))


def test_select_facts():
    v1, v2 = np.array([1, 2, 3, 4], np.int32), np.array([100, 200, 300, 400], np.int32)
    pred = np.array([True, False, False, True])
    assert check_operation(ops.select, [pred, v1, v2])[0].tolist() == [1, 200, 300, 4]
    assert check_operation(ops.select, [np.True_, v1, v2])[0].tolist() == [1, 2, 3, 4]


def test_select_between_tuples():
    def function(pred, a, b, c, d):
        on_true = ops.tuple([a, ops.tuple([b])])
        chosen = ops.select(pred, on_true, ops.tuple([c, ops.tuple([d])]))
        inner = ops.get_tuple_element(chosen, 1)
        return ops.get_tuple_element(chosen, 0), ops.get_tuple_element(inner, 0)

    a, b, c, d = F32, np.arange(3), -F32, np.arange(3) * 2
    for pred, expected in [(np.True_, (a, b)), (np.False_, (c, d))]:
        results = check_operation(function, [pred, a, b, c, d])
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)
    check_batching(function, [np.True_, a[0], b, c[0], d])


def test_select_between_several_results():
    def function(pred, x):
        chosen = ops.select(pred, ops.top_k(x, 1), ops.top_k(x, 1, largest=False))
        return ops.get_tuple_element(chosen, 0), ops.get_tuple_element(chosen, 1)

    for pred, expected in [(np.True_, (3.0, 2)), (np.False_, (1.0, 1))]:
        values = check_operation(function, [pred, np.array([2, 1, 3], np.float32)])
        assert [each.item() for each in values] == list(expected)


def test_select_of_tuples_has_the_shape_of_on_true():
    pair = TupleShape([Shape("f32", (2,)), Shape("s32")])
    graph, _ = trace_to_graph(lambda p, x, y: [ops.select(p, x, y)], [Shape("pred"), pair, pair])
    assert graph.output_shapes == (pair,)


SELECT_CASES = {
    "arrays": [PRED, F32.astype(np.float64), -2 * F32.astype(np.float64)],
    "scalar pred": [np.True_, F32.astype(np.float64), -2 * F32.astype(np.float64)],
    "complex": [
        PRED[0],
        random_values(np.complex128, (3,), 1),
        random_values(np.complex128, (3,), 2),
    ],
}


SELECT_DERIVATIVES = DerivativesTogether(
    {
        case: (
            # Products give the second derivatives something to see.
            lambda p, x, y: ops.select(p, x * x, x * y),
            operands,
            lambda p, x, y: lax.select(jnp.broadcast_to(p, x.shape), x * x, x * y),
            {},
        )
        for case, operands in SELECT_CASES.items()
    }
)


@pytest.mark.parametrize("case", SELECT_CASES)
def test_select_derivatives(case):
    SELECT_DERIVATIVES.check(case)


def test_select_keeps_cotangents_from_what_it_does_not_choose():
    pred, x = np.array([True, False]), np.array([1.0, 2.0], np.float32)
    cotangent = np.array([np.nan, 5.0], np.float32)
    pulled = mx.vjp(lambda on_true, on_false: ops.select(pred, on_true, on_false), x, x)[1]
    on_true, on_false = pulled(cotangent)
    np.testing.assert_array_equal(on_true, [np.nan, 0])
    np.testing.assert_array_equal(on_false, [0, 5])


@pytest.mark.parametrize("pred", [PRED, np.True_], ids=["array", "scalar"])
def test_select_batching(pred):
    check_batching(ops.select, [pred, F32, -F32])
    check_batching(ops.select, [np.True_, np.float32(1), np.float32(2)])


def test_select_with_only_a_batched_scalar_pred():
    preds = np.array([True, False])
    result = mx.vmap(lambda p: ops.select(p, F32, -F32))(preds)
    np.testing.assert_array_equal(result, [F32, -F32])


def test_select_rejections():
    check_rejected(
        lambda p, x: ops.select(p, x, x), [F32, F32], ShapeError, "(C1)", "pred f32[2,3]"
    )
    check_rejected(
        lambda p, x, y: ops.select(p, x, y), [PRED, F32, F32[0]], ShapeError, "(C2)", "f32[3]"
    )
    check_rejected(
        lambda p, x, y: ops.select(p, x, y),
        [PRED, F32, F32.astype(np.int32)],
        ShapeError,
        "(C2)",
        "on_false s32[2,3]",
    )
    check_rejected(
        lambda p, x: ops.select(p, x, x), [PRED[0], F32], ShapeError, "(C3)", "pred pred[3]"
    )
    check_rejected(
        lambda p, x, y: ops.select(p, ops.tuple([x, y]), ops.tuple([y, x])),
        [np.True_, F32, F32[0]],
        ShapeError,
        "(C4)",
        "(f32[2,3], f32[3])",
    )
    check_rejected(
        lambda p, x: ops.select(p, ops.tuple([x]), ops.tuple([x])),
        [PRED, F32],
        ShapeError,
        "(C4)",
        "pred pred[2,3]",
    )


def test_select_text():
    graph = graph_of(ops.select, [PRED, F32, F32])
    assert [each.op for each in graph.instructions] == [REGISTRY["Select"]()]
    assert " select(" in str(graph) and "stablehlo.select %arg0, %arg1, %arg2" in graph.stablehlo()
    # HLO's select takes no scalar pred beside arrays.
    assert "broadcast(%arg0.1), dimensions={}" in str(graph_of(ops.select, [np.True_, F32, F32]))


# Clamp.


CLAMPED = Together(
    rows_of_values(ops.clamp, {kind: triples(kind) for kind in ALL if kind not in COMPLEX})
)


@pytest.mark.parametrize("row", CLAMPED.rows, ids="-".join)
def test_clamp_values(row):
    CLAMPED.check(row)


@pytest.mark.parametrize("kind", COMPLEX)
def test_clamp_of_complex_numbers(kind):
    operands = [random_values(ELEMENT_TYPES[kind].dtype, (30,), seed) for seed in (1, 2, 3)]
    check_operation(ops.clamp, operands)
    check_operation(ops.clamp, [operands[0][0], operands[1], operands[2][0]])


def test_clamp_fact():
    operands = [np.int32(0), np.array([-1, 5, 9], np.int32), np.int32(6)]
    assert check_operation(ops.clamp, operands)[0].tolist() == [0, 5, 6]


def test_clamp_where_min_is_above_max_gives_max():
    operands = [np.float32(3), np.array([1, 2, 4], np.float32), np.float32(-1)]
    assert check_operation(ops.clamp, operands)[0].tolist() == [-1, -1, -1]


def test_clamp_of_nan_and_by_nan_is_nan():
    nan = np.float32(np.nan)
    for operands in [(nan, 1, 2), (0, nan, 2), (0, 1, nan)]:
        operands = [np.float32(each) for each in operands]
        assert np.isnan(check_operation(ops.clamp, operands)[0])


@pytest.mark.parametrize("low", [F32 - 1, np.float32(-1)], ids=["array", "scalar"])
@pytest.mark.parametrize("high", [F32 + 1, np.float32(1)], ids=["array", "scalar"])
def test_clamp_bounds_may_be_scalars(low, high):
    (result,) = check_operation(ops.clamp, [low, 2 * F32, high])
    np.testing.assert_array_equal(result, np.minimum(np.maximum(2 * F32, low), high))


OPERAND = np.array([-2.0, -0.3, 0.4, 1.5, 2.5])
CLAMP_CASES = {
    "arrays": [np.full(5, -1.0), OPERAND, np.linspace(0.5, 2, 5)],
    "scalars": [np.float64(-1), OPERAND, np.float64(1)],
    "scalar min": [np.float64(-1), OPERAND, np.full(5, 1.0)],
    "all scalars": [np.float64(-1), np.float64(3), np.float64(1)],
}


def with_jax(low, x, high):  # whose own derivative takes no scalar bounds
    return lax.clamp(*jnp.broadcast_arrays(low, x, high))


def of_powers(apply):
    return lambda low, x, high: apply(low * low * low, x, high * high)


CLAMP_DERIVATIVES = DerivativesTogether(
    {
        case: (of_powers(ops.clamp), operands, of_powers(with_jax), {})
        for case, operands in CLAMP_CASES.items()
    }
)


@pytest.mark.parametrize("case", CLAMP_CASES)
def test_clamp_derivatives(case):
    CLAMP_DERIVATIVES.check(case)


def test_clamp_derivatives_where_min_is_above_max():
    # The result is max and moves with it; JAX gives no operand a derivative there.
    check_derivatives(ops.clamp, [np.float64(3), OPERAND, np.float64(-1)])


def test_clamp_derivatives_at_the_bounds():
    operands = [np.array([0.0, 0, 1]), np.array([0.0, 1, 1]), np.array([1.0, 1, 1])]
    # Finite differences have no meaning at a kink; JAX gives no operand a derivative there.
    check_derivatives(ops.clamp, operands, lax.clamp, order=1, differences=False)


@pytest.mark.parametrize("case", ["arrays", "scalars", "scalar min", "all scalars"])
def test_clamp_batching(case):
    check_batching(ops.clamp, CLAMP_CASES[case])


def test_clamp_rejections():
    low = np.float32(0)
    check_rejected(
        lambda a, x, b: ops.clamp(a, x, b),
        [np.float64(0), F32, low],
        ShapeError,
        "(C1)",
        "min f64[]",
        "operand f32[2,3]",
    )
    check_rejected(
        lambda a, x, b: ops.clamp(a, x, b), [low, F32, F32[0]], ShapeError, "(C2)", "max f32[3]"
    )
    check_rejected(
        lambda a, x, b: ops.clamp(a, x, b), [F32[:1], F32, low], ShapeError, "(C2)", "min f32[1,3]"
    )


def test_clamp_text():
    graph = graph_of(ops.clamp, [F32, F32, F32])
    assert [each.op for each in graph.instructions] == [REGISTRY["Clamp"]()]
    assert " clamp(" in str(graph) and "stablehlo.clamp" in graph.stablehlo()
    assert "stablehlo.clamp" not in graph_of(ops.clamp, [F32.astype(complex)] * 3).stablehlo()
