"""Element-wise operations on the bits of two operands."""

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.operation import REGISTRY
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import Together, check_batching, check_operation, graph_of
from tests.minixla_ops.operand_pairs import (
    INTEGERS,
    PRED,
    SIGNED,
    UNSIGNED,
    check_element_types,
    pairs,
)

# Builder, name in XLA, StableHLO's name, element types.
BUILDERS = {
    "and_": (ops.and_, "And", "and", [*PRED, *INTEGERS]),
    "or_": (ops.or_, "Or", "or", [*PRED, *INTEGERS]),
    "xor": (ops.xor, "Xor", "xor", [*PRED, *INTEGERS]),
    "shift_left": (ops.shift_left, "ShiftLeft", "shift_left", INTEGERS),
    "shift_right_arithmetic": (
        ops.shift_right_arithmetic,
        "ShiftRightArithmetic",
        "shift_right_arithmetic",
        INTEGERS,
    ),
    "shift_right_logical": (
        ops.shift_right_logical,
        "ShiftRightLogical",
        "shift_right_logical",
        INTEGERS,
    ),
}


VALUES = Together(
    {
        (kind, name): (function, pairs(kind), {})
        for name, (function, _, _, kinds) in BUILDERS.items()
        for kind in kinds
    }
)


@pytest.mark.parametrize("row", VALUES.rows, ids="-".join)
def test_values(row):
    VALUES.check(row)


def shifts(lhs, rhs):
    return [BUILDERS[name][0](lhs, rhs) for name in BUILDERS if name.startswith("shift")]


def first_shift(kind):
    """-1 and 1."""
    return [np.array(-1, ELEMENT_TYPES[kind].dtype), np.array(1, ELEMENT_TYPES[kind].dtype)]


def out_of_range(kind):
    """What has the first bit, and amounts of its bits or more."""
    info = ml_dtypes.iinfo(ELEMENT_TYPES[kind].dtype)
    amount = info.bits if info.max >= info.bits else info.max
    least = np.full(3, info.min if info.min else info.max, ELEMENT_TYPES[kind].dtype)
    amounts = np.array([amount, info.max, -1 if info.min else info.max], least.dtype)
    if info.bits == 2:  # its amounts of 0 and 1 are all in range, those as unsigned ones are not
        amounts[:] = info.min if info.min else info.max
    return [least, amounts]


def with_the_first_bit(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    return [np.array([2 ** (ml_dtypes.iinfo(dtype).bits - 1), 1], dtype), np.array([1, 1], dtype)]


SHIFTS = Together(
    {("negative", kind): (shifts, first_shift(kind), {}) for kind in SIGNED}
    | {("out of range", kind): (shifts, out_of_range(kind), {}) for kind in INTEGERS}
    | {
        ("first bit", kind): (ops.shift_right_arithmetic, with_the_first_bit(kind), {})
        for kind in UNSIGNED
    }
)


@pytest.mark.parametrize("kind", SIGNED)
def test_shifts_of_negative_numbers(kind):
    bits = ml_dtypes.iinfo(ELEMENT_TYPES[kind].dtype).bits
    results = SHIFTS.check(("negative", kind))
    assert [int(each) for each in results] == [-2, -1, 2 ** (bits - 1) - 1]


@pytest.mark.parametrize("kind", INTEGERS)
def test_amounts_out_of_range_shift_every_bit_out(kind):
    info = ml_dtypes.iinfo(ELEMENT_TYPES[kind].dtype)
    left, arithmetic, logical = SHIFTS.check(("out of range", kind))
    assert not left.any() and not logical.any()
    sign = info.max if info.min == 0 else -1
    np.testing.assert_array_equal(arithmetic.astype(object), sign)


@pytest.mark.parametrize("kind", UNSIGNED)
def test_arithmetic_shifts_of_unsigned_numbers_copy_the_first_bit(kind):
    bits = ml_dtypes.iinfo(ELEMENT_TYPES[kind].dtype).bits
    (result,) = SHIFTS.check(("first bit", kind))
    assert [int(each) for each in result] == [2 ** (bits - 1) + 2 ** (bits - 2), 0]


def test_bits_of_integers_and_logic_of_pred():
    lhs, rhs = np.array([0b1100, -1], np.int32), np.array([0b1010, 5], np.int32)
    results = check_operation(
        lambda x, y: (ops.and_(x, y), ops.or_(x, y), ops.xor(x, y)), [lhs, rhs]
    )
    assert [each.tolist() for each in results] == [[0b1000, 5], [0b1110, -1], [0b0110, -6]]
    lhs, rhs = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert check_operation(ops.xor, [lhs, rhs])[0].tolist() == [False, True, True, False]


@pytest.mark.parametrize("name", BUILDERS)
def test_batching(name):
    generator = np.random.default_rng(0)
    operands = [generator.integers(0, 30, (2, 3)).astype(np.int32) for _ in range(2)]
    check_batching(BUILDERS[name][0], operands)


@pytest.mark.parametrize("name", BUILDERS)
def test_broadcast_dimensions(name):
    function = BUILDERS[name][0]
    higher, lower = np.arange(6, dtype=np.int32).reshape(2, 3), np.array([1, 2], np.int32)

    def apply(x, y):
        return function(x, y, (0,))

    (result,) = reference_graph(graph_of(apply, [higher, lower]), [higher, lower])
    spread = np.broadcast_to(lower[:, None], (2, 3))
    (expected,) = reference_graph(graph_of(function, [higher, spread]), [higher, spread])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", BUILDERS)
def test_integers_take_no_part_in_derivatives(name):
    function = BUILDERS[name][0]
    bits = np.array([1, 2, 3], np.int32)
    x = np.array([1.0, 2.0, 3.0], np.float32)

    def product(x):
        return x * ops.convert_element_type(function(bits, bits), np.float32)

    expected = np.asarray(function(bits, bits)).astype(np.float32)
    for tangent in (mx.jvp(product, (x,), (x / x,))[1], mx.vjp(product, x)[1](x / x)[0]):
        np.testing.assert_array_equal(tangent, expected)


@pytest.mark.parametrize("name", BUILDERS)
def test_element_types(name):
    function, _, _, kinds = BUILDERS[name]
    check_element_types(name, function, kinds)


@pytest.mark.parametrize("name", BUILDERS)
def test_text(name):
    function, xla_name, stablehlo_name, _ = BUILDERS[name]
    graph = graph_of(function, [np.ones(2, np.int32)] * 2)
    assert [each.op for each in graph.instructions] == [REGISTRY[xla_name]()]
    assert f" {stablehlo_name.replace('_', '-')}(" in str(graph)
    assert f"stablehlo.{stablehlo_name} " in graph.stablehlo()
