"""Comparison: twelve operations of the family Compare."""

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.operation import REGISTRY
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import Together, check_batching, check_operation, check_rejected, graph_of
from tests.minixla_ops.operand_pairs import (
    ALL,
    COMPLEX,
    FLOATS,
    WITHOUT_XLA,
    pairs,
    rows_of_values,
)
from tests.oracles.values import all_values, bit_width

# Builder, name in XLA, direction.
PLAIN = {
    "eq": (ops.eq, "Eq", "EQ"),
    "ne": (ops.ne, "Ne", "NE"),
    "ge": (ops.ge, "Ge", "GE"),
    "gt": (ops.gt, "Gt", "GT"),
    "le": (ops.le, "Le", "LE"),
    "lt": (ops.lt, "Lt", "LT"),
}
TOTAL = {
    "eq_total_order": (ops.eq_total_order, "EqTotalOrder", "EQ"),
    "ne_total_order": (ops.ne_total_order, "NeTotalOrder", "NE"),
    "ge_total_order": (ops.ge_total_order, "GeTotalOrder", "GE"),
    "gt_total_order": (ops.gt_total_order, "GtTotalOrder", "GT"),
    "le_total_order": (ops.le_total_order, "LeTotalOrder", "LE"),
    "lt_total_order": (ops.lt_total_order, "LtTotalOrder", "LT"),
}
BUILDERS = {**PLAIN, **TOTAL}


def plain(lhs, rhs):
    return [row[0](lhs, rhs) for row in PLAIN.values()]


def total(lhs, rhs):
    return [row[0](lhs, rhs) for row in TOTAL.values()]


VALUES = Together(rows_of_values(plain, {kind: pairs(kind) for kind in ALL}))
TOTAL_ORDER = Together(
    {
        # StableHLO's interpreter compares them as it does without.
        kind: (total, pairs(kind), {"interpreter": False})
        for kind in FLOATS
        if kind not in WITHOUT_XLA
    }
)


@pytest.mark.parametrize("row", VALUES.rows, ids="-".join)
def test_values(row):
    VALUES.check(row)


@pytest.mark.parametrize("kind", TOTAL_ORDER.rows)
def test_total_order_of_floats(kind):
    TOTAL_ORDER.check(kind)


@pytest.mark.parametrize("kind", WITHOUT_XLA)
def test_total_order_of_six_bits_does_not_reach_xla(kind):
    # XLA dies of the comparison; the engine refuses programs of these types before XLA sees them.
    operands = pairs(kind)
    assert f"(tensor<{len(operands[0])}xf32>, " in graph_of(total, operands).stablehlo()
    with pytest.raises(mx.TransformError, match="6-bit floats"):
        mx.jit(total)(*operands)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind not in FLOATS])
def test_total_order_of_other_types_is_the_plain_one(kind):
    operands = pairs(kind)
    graph = graph_of(lambda x, y: (*plain(x, y), *total(x, y)), operands)
    results = reference_graph(graph, operands)
    for actual, expected in zip(results[6:], results[:6], strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert "TOTALORDER" not in graph.stablehlo() + str(graph)


@pytest.mark.parametrize("kind", FLOATS)
def test_total_order_of_every_value(kind):
    # -NaN < -inf < -finite < -0 < +0 < +finite < +inf < +NaN; equal only to the same bits.
    dtype = ELEMENT_TYPES[kind].dtype
    if bit_width(dtype) <= 8:
        values = all_values(dtype)
    else:
        values = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan]).astype(dtype)
    ordered = sorted(values, key=place_in_total_order)
    lhs, rhs = np.repeat(ordered, len(values)), np.tile(ordered, len(values))
    rank = np.arange(len(values))
    ranks = np.repeat(rank, len(values)), np.tile(rank, len(values))
    results = reference_graph(graph_of(total, [lhs, rhs]), [lhs, rhs])
    relations = [np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less]
    for name, result, relation in zip(TOTAL, results, relations, strict=True):
        np.testing.assert_array_equal(result, relation(*ranks), err_msg=name)


def place_in_total_order(value):
    """Class, then size, then bits, as the specification lists them."""
    bits = int(value.view(f"u{value.dtype.itemsize}"))
    if value.dtype == ml_dtypes.float8_e8m0fnu:
        return 0, bits
    is_negative = bool(bits >> (bit_width(value.dtype) - 1))
    size = np.inf if np.isnan(value) else abs(float(value))
    place = (bool(np.isnan(value)), size, bits)
    return (-1, [-place[0], -size, -bits]) if is_negative else (1, [*place])


NAN = np.float32(np.nan)
FACTS = [
    (ops.eq_total_order, -0.0, 0.0, False),
    (ops.lt_total_order, -0.0, 0.0, True),
    (ops.eq_total_order, NAN, NAN, True),
    (ops.lt_total_order, np.inf, NAN, True),
    (ops.lt_total_order, -NAN, -np.inf, True),
    (ops.ge_total_order, NAN, np.inf, True),
    (ops.gt_total_order, 0.0, -0.0, True),
    (ops.le_total_order, -NAN, NAN, True),
    (ops.ne_total_order, 0.0, -0.0, True),
]
FACTS_TOGETHER = Together(
    {
        f"{function.__name__} of {lhs} and {rhs}": (
            function,
            [np.float32(lhs), np.float32(rhs)],
            {"interpreter": False},
        )
        for function, lhs, rhs, _ in FACTS
    }
)


@pytest.mark.parametrize(
    ("fact", "expected"),
    list(zip(FACTS_TOGETHER.rows, [row[-1] for row in FACTS], strict=True)),
)
def test_facts_of_the_total_order(fact, expected):
    (result,) = FACTS_TOGETHER.check(fact)
    assert bool(result) is expected


def test_comparisons_of_floats_obey_ieee_754():
    nan = np.float32(np.nan)
    lhs, rhs = np.array([nan, 1, -0.0], np.float32), np.array([1, nan, 0.0], np.float32)
    results = check_operation(plain, [lhs, rhs])
    assert [each.tolist() for each in results] == [
        [False, False, True],  # eq
        [True, True, False],  # ne
        [False, False, True],  # ge
        [False, False, False],  # gt
        [False, False, True],  # le
        [False, False, False],  # lt
    ]


@pytest.mark.parametrize("kind", COMPLEX)
def test_order_of_complex_numbers_is_lexicographic(kind):
    lhs = np.array([1 + 5j, 2 + 0j, 1 + 1j], ELEMENT_TYPES[kind].dtype)
    rhs = np.array([2 - 9j, 2 - 1j, 1 + 1j], lhs.dtype)
    _, _, ge, gt, le, lt = check_operation(plain, [lhs, rhs])
    assert gt.tolist() == [False, True, False] and ge.tolist() == [False, True, True]
    assert lt.tolist() == [True, False, False] and le.tolist() == [True, False, True]


@pytest.mark.parametrize("total_order", [False, True])
@pytest.mark.parametrize("direction", ["EQ", "NE", "GE", "GT", "LE", "LT"])
def test_compare_makes_the_operation_of_the_family(direction, total_order):
    x = np.ones(2, np.float32)
    graph = graph_of(lambda a, b: ops.compare(a, b, direction, None, total_order), [x, x])
    name = direction.capitalize() + "TotalOrder" * total_order
    assert [each.op for each in graph.instructions] == [REGISTRY[name]()]
    assert "Compare" in REGISTRY[name].spec_names


@pytest.mark.parametrize("name", BUILDERS)
def test_text(name):
    function, xla_name, direction = BUILDERS[name]
    graph = graph_of(function, [np.ones(2, np.float32)] * 2)
    (instruction,) = graph.instructions
    assert instruction.op is REGISTRY[xla_name]() and str(graph.output_shapes[0]) == "pred[2]"
    kind = "TOTALORDER" if name in TOTAL else "FLOAT"
    assert f"stablehlo.compare {direction}, %arg0, %arg1, {kind}" in graph.stablehlo()
    total_order = ", type=TOTALORDER" if name in TOTAL else ""
    assert f"compare(%arg0.1, %arg1.2), direction={direction}{total_order}" in str(graph)
    assert function.__name__ == name and xla_name in function.__doc__


@pytest.mark.parametrize(
    ("kind", "compare_type"), [("s8", "SIGNED"), ("u8", "UNSIGNED"), ("pred", "UNSIGNED")]
)
def test_compare_type(kind, compare_type):
    operands = [np.ones(2, ELEMENT_TYPES[kind].dtype)] * 2
    assert f", {compare_type} :" in graph_of(ops.lt_total_order, operands).stablehlo()


def test_batching():
    operands = [np.array([[1.0, 2, 3], [3, 2, 1]], np.float32), np.full((2, 3), 2, np.float32)]
    check_batching(lambda x, y: (*plain(x, y), *total(x, y)), operands)
    check_batching(plain, [np.complex64(1 + 2j), np.complex64(1 - 2j)])


@pytest.mark.parametrize("name", BUILDERS)
def test_broadcast_dimensions(name):
    function = BUILDERS[name][0]
    operands = [np.array([[1.0, 2, 3], [3, 2, 1]]), np.array([1.0, 2])]

    def apply(x, y):
        return function(x, y, (0,))

    (result,) = reference_graph(graph_of(apply, operands), operands)
    spread = [operands[0], np.broadcast_to(operands[1][:, None], (2, 3))]
    (expected,) = reference_graph(graph_of(function, spread), spread)
    np.testing.assert_array_equal(result, expected)


def test_results_have_no_derivative():
    x = np.array([1.0, 2.0], np.float32)

    def function(v):
        return v * ops.convert_element_type(ops.gt(v, np.float32(1.5)), np.float32)

    np.testing.assert_array_equal(mx.vjp(function, x)[1](np.ones_like(x))[0], [0, 1])
    np.testing.assert_array_equal(mx.jvp(function, (x,), (np.ones_like(x),))[1], [0, 1])


def test_unknown_direction_is_rejected():
    x = np.ones(2, np.float32)
    for direction in ("lt", "==", ""):
        check_rejected(
            lambda a, b: ops.compare(a, b, direction),  # noqa: B023 - called at once
            [x, x],
            AttributeValueError,
            "compare",
            f"direction = {direction!r}",
            "EQ, NE, GE, GT, LE, LT",
        )


def test_operands_of_other_shapes_are_rejected():
    x = np.ones((2, 3), np.float32)
    check_rejected(lambda a, b: ops.lt(a, b), [x, x.astype(int)], ShapeError, "lt", "(B1)")
    check_rejected(lambda a, b: ops.lt(a, b), [x, x[0]], ShapeError, "lt", "(E1)")
    check_rejected(lambda a, b: ops.compare(a, b, "EQ", (1, 0)), [x, x], ShapeError, "eq", "(E8)")
