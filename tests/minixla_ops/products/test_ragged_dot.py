"""RaggedDot: its three kinds, against the oracles, JAX and products by group."""

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from minixla_ops import RaggedDotDimensionNumbers
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.product_tables import exact_values

generator = np.random.default_rng(0)

ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
# lhs, rhs, group sizes, dimension numbers. The sizes leave rows that belong to no group.
CASES = {
    "rows": ((6, 3), (4, 3, 2), [2, 0, 3, 0], ROWS),
    "rows, all in groups": ((6, 3), (2, 3, 2), [4, 2], ROWS),
    "rows, one group": ((6, 3), (1, 3, 2), [5], ROWS),
    "rows of a batch": (
        (2, 5, 3), (3, 2, 3, 2), [[1, 2, 2], [0, 3, 1]],
        RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), [1], [0]),
    ),
    "rows of a batch, equal sizes": (
        (2, 5, 3), (2, 2, 3, 3), [1, 2, 1],
        RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (0,))), [1], [3]),
    ),
    "rows inside of others": (
        (3, 2, 5), (2, 4, 2), [[1, 3], [4, 0], [2, 2]],
        RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [2], [2]),
    ),
    "sums": (
        (2, 5), (5, 3), [2, 0, 2],
        RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1]),
    ),
    "sums in a batch": (
        (4, 2, 3), (2, 5, 4), [[1, 2], [3, 1]],
        RaggedDotDimensionNumbers((((0,), (2,)), ((1,), (0,))), [0]),
    ),
    "sums over two dimensions": (
        (2, 3, 4), (4, 3, 2), [[1, 1], [2, 1], [0, 4]],
        RaggedDotDimensionNumbers((((1, 2), (1, 0)), ((), ())), [2]),
    ),
    "a batch": (
        (4, 2, 3), (4, 3, 2), [1, 2],
        RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), [0]),
    ),
}  # fmt: skip


def operands_of(case, dtype=np.float64, exact=True):
    lhs, rhs, sizes, _ = CASES[case]
    if exact:
        return [exact_values(lhs, dtype), exact_values(rhs, dtype, 1), np.array(sizes, np.int32)]
    pair = [generator.standard_normal(lhs), generator.standard_normal(rhs)]
    return [*pair, np.array(sizes, np.int32)]


def product(case, **attributes):
    return lambda x, y, n: ops.ragged_dot(x, y, n, CASES[case][3], **attributes)


def jax_product(case):
    numbers = lax.RaggedDotDimensionNumbers(*CASES[case][3])
    return lambda x, y, n: lax.ragged_dot_general(x, y, n, numbers)


def reference(function, *operands):
    with jax.enable_x64(True):
        return mx.reference(function)(*operands)


@pytest.mark.parametrize("case", CASES)
def test_against_the_oracles_and_jax(case):
    operands = operands_of(case, np.float32)
    (result,) = check_operation(product(case), operands, signed_zeros=False)
    np.testing.assert_array_equal(result, jax_product(case)(*operands))


def test_each_group_of_rows_has_its_own_operand():
    lhs, rhs, sizes = operands_of("rows", exact=False)
    result = reference(product("rows"), lhs, rhs, sizes)
    np.testing.assert_allclose(result[:2], lhs[:2] @ rhs[0])
    np.testing.assert_allclose(result[2:5], lhs[2:5] @ rhs[2])
    np.testing.assert_array_equal(result[5:], 0)
    np.testing.assert_allclose(result, lax.ragged_dot(lhs, rhs, sizes), atol=1e-5)


def test_each_group_has_its_own_sum():
    lhs, rhs, sizes = operands_of("sums", exact=False)
    result = reference(product("sums"), lhs, rhs, sizes)
    expected = [lhs[:, :2] @ rhs[:2], np.zeros((2, 3)), lhs[:, 2:4] @ rhs[2:4]]
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("case", ["rows", "sums"])
def test_element_types(case):
    kinds = [np.float64, np.float16, np.int32, np.uint8, np.complex64, np.bool_]
    kinds += [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4]
    operands = [operands_of(case, kind)[:2] for kind in kinds]
    sizes = operands_of(case)[2].astype(np.int8)
    check_operation(
        lambda n, *xs: [product(case)(x, y, n) for x, y in zip(xs[::2], xs[1::2], strict=True)],
        [sizes, *(each for pair in operands for each in pair)],
        signed_zeros=False,
    )


def test_preferred_element_type():
    lhs, rhs, sizes = operands_of("rows", np.int8)
    function = product("rows", preferred_element_type="f32", precision_config="HIGHEST")
    (result,) = check_operation(function, [lhs, rhs, sizes], signed_zeros=False)
    assert result.dtype == np.float32


@pytest.mark.parametrize("case", ["rows", "sums"])
def test_infinities_stay_in_their_group(case):
    lhs, rhs, sizes = operands_of(case, np.float32)
    expected = reference(product(case), lhs, rhs, sizes)
    lhs[(5,) if case == "rows" else (0, 4)] = np.nan  # in no group
    rhs[(0,)] = np.inf
    (result,) = check_operation(product(case), [lhs, rhs, sizes], signed_zeros=False)
    rest = (slice(2, None),)
    np.testing.assert_array_equal(result[rest], expected[rest])


@pytest.mark.parametrize("case", ["rows", "sums"])
@pytest.mark.parametrize("sizes", [np.array([2**31 - 1] * 2, np.int32), np.array([2**32 + 1, 1])])
def test_groups_larger_than_all_there_is(case, sizes):
    lhs, rhs, _ = operands_of(case)
    rhs = rhs[:2] if case == "rows" else rhs
    (result,) = check_operation(product(case), [lhs, rhs, sizes], signed_zeros=False)
    whole = np.array([max(lhs.shape), 0])
    np.testing.assert_array_equal(result, reference(product(case), lhs, rhs, whole))


def test_sizes_of_zero():
    numbers = ROWS
    for rows, inner, columns in ((0, 3, 2), (4, 0, 2), (4, 3, 0)):
        operands = [np.ones((rows, inner)), np.ones((2, inner, columns)), np.array([1, 2])]
        check_operation(
            lambda x, y, n: ops.ragged_dot(x, y, n, numbers),
            operands,
            signed_zeros=False,
            interpreter=bool(rows and inner and columns),  # it aborts on empty products
        )
    nothing = [np.ones((3, 2)), np.ones((0, 2, 2)), np.zeros(0, np.int32)]
    assert not reference(lambda x, y, n: ops.ragged_dot(x, y, n, numbers), *nothing).any()
    sums = CASES["sums"][3]
    nothing = [np.ones((2, 5)), np.ones((5, 3)), np.zeros(0, np.int32)]
    (result,) = check_operation(
        lambda x, y, n: ops.ragged_dot(x, y, n, sums), nothing, interpreter=False
    )
    assert result.shape == (0, 2, 3)


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    operands = operands_of(case, exact=False)
    # JAX transposes only where the ragged dimension is kept.
    function = jax_product(case) if case.startswith("rows") else None
    order = 2 if case in ("rows of a batch", "sums in a batch") else 1
    check_derivatives(product(case), operands, function, order=1)
    check_derivatives(product(case), operands, order=order)


@pytest.mark.parametrize("case", ["rows", "rows of a batch", "sums", "a batch"])
def test_batching(case):
    check_batching(product(case), operands_of(case))


def test_dimension_numbers_of_jax_are_taken():
    operands = operands_of("rows")
    ours = graph_of(product("rows"), operands)
    numbers = lax.RaggedDotDimensionNumbers(*ROWS)
    theirs = graph_of(lambda x, y, n: ops.ragged_dot(x, y, n, numbers), operands)
    assert ours == theirs


def test_text():
    text = str(graph_of(product("rows"), operands_of("rows", np.float32)))
    assert (
        "f32[6,2] ragged-dot(%arg0.1, %arg1.2, %arg2.3), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}" in text
    )


def test_rejected():
    lhs, rhs, sizes = operands_of("rows")
    dot = ROWS.dot_dimension_numbers

    def check(error, label, numbers, operands, *phrases):
        check_rejected(
            lambda x, y, n: ops.ragged_dot(x, y, n, numbers), operands, error, label, *phrases
        )

    given = [lhs, rhs, sizes]
    check(ShapeError, "(C1)", ROWS, [lhs, rhs.astype(np.float32), sizes], "element types")
    check(ShapeError, "(C7)", ROWS, [lhs[:, :2], rhs, sizes], "contracting dimensions")
    for ragged in ((), (0, 1), (2,), (-1,)):
        numbers = RaggedDotDimensionNumbers(dot, ragged, (0,))
        check(AttributeValueError, "(C8)", numbers, given, "one ragged dimension")
    for groups in ((), (1,), (0, 2), (2,), (3,)):
        numbers = RaggedDotDimensionNumbers(dot, (0,), groups)
        check(ShapeError, "(C9)", numbers, given, "indexes the groups")
    check(ShapeError, "(C9)", ROWS, [lhs, rhs, sizes[:3]], "group_sizes s32[3]")
    sums = RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), (1,))
    check(ShapeError, "(C9)", sums, [lhs, lhs.T.copy(), sizes], "group dimension")
    check(ShapeError, "(C10)", ROWS, [lhs, rhs, sizes.astype(np.float32)], "must be integers")
    check(ShapeError, "(C10)", ROWS, [lhs, rhs, sizes[None]], "s32[1,4]")
    check(ShapeError, "(C10)", ROWS, [lhs, rhs, sizes[0]], "s32[]")
    check(AttributeValueError, "dimension_numbers", dot, given, "RaggedDotDimensionNumbers")
