"""Sort and TopK: orders, ties, special values, any comparator, derivatives."""

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, TransformError
from minixla.core.shapes import Shape
from minixla_ops.indexing.sort_orders import order_by_merging
from minixla_ops.programs.computations import computation_of
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.oracles import ALL_TYPES, assert_same, run_xla
from tests.oracles.values import edge_values, is_float

generator = np.random.default_rng(0)
DISTINCT = generator.permutation(np.linspace(-2, 3, 12)).reshape(3, 4)


def by_first(a, b, *others):
    return ops.lt(a, b)


def by_last(*scalars):
    return ops.gt(scalars[-2], scalars[-1])


def by_two_keys(a, b, c, d):
    return ops.or_(ops.lt(a, b), ops.and_(ops.eq(a, b), ops.gt(c, d)))


def reference(function, *operands):
    with jax.enable_x64(True):
        return mx.reference(function)(*operands)


# Facts of the specification.


def test_fact_operands_are_permuted_together():
    operands = [
        np.array([3, 1], np.int32),
        np.array([42, 50], np.int32),
        np.array([-3.0, 1.1], np.float32),
    ]
    results = check_operation(lambda *xs: ops.sort(xs, by_first), operands)
    assert [each.tolist() for each in results[:2]] == [[1, 3], [50, 42]]
    assert results[2].tolist() == [np.float32(1.1), -3]


@pytest.mark.parametrize("dimension", [0, 1, -1])
def test_fact_rows_and_columns_are_sorted_by_themselves(dimension):
    operand = generator.permutation(12).reshape(3, 4).astype(np.int32)
    (result,) = check_operation(lambda x: ops.sort(x, ops.lt, dimension), [operand])
    np.testing.assert_array_equal(result, np.sort(operand, dimension))


def test_fact_later_elements_do_not_come_before_earlier_ones():
    operand = generator.integers(0, 4, 50).astype(np.float32)
    for comparator, holds in ((ops.lt, np.less_equal), (ops.gt, np.greater_equal)):
        result = reference(lambda x: ops.sort(x, comparator), operand)  # noqa: B023
        assert holds(result[:-1], result[1:]).all()


def test_fact_a_stable_sort_keeps_the_order_of_equal_elements():
    keys = generator.integers(0, 3, (2, 40)).astype(np.int8)
    places = np.broadcast_to(np.arange(40, dtype=np.int32), keys.shape).copy()
    results = check_operation(lambda *xs: ops.sort(xs, by_first, is_stable=True), [keys, places])
    np.testing.assert_array_equal(results[1], np.argsort(keys, -1, kind="stable"))


def test_the_default_is_the_last_dimension_and_not_stable():
    (step,) = graph_of(lambda x: ops.sort(x, ops.lt), [DISTINCT]).instructions
    assert (step.op.dimension, step.op.is_stable) == (1, False)


# Values.


def usual(values):
    """Without NaN, which no partial order knows, and denormals, which XLA:CPU takes for zero."""
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    flushed = (np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16)
    least = float(ml_dtypes.finfo(values.dtype).tiny) if values.dtype in flushed else 0.0
    parts = np.stack([np.real(wide), np.imag(wide)])
    keep = ~np.isnan(parts) & ((parts == 0) | (np.abs(parts) >= least))
    return generator.permutation(values[keep.all(0)])


KINDS = [dtype for name, dtype in ALL_TYPES if not name.startswith("f6")]


@pytest.mark.parametrize("comparator", [ops.lt, ops.gt])
def test_element_types(comparator):
    operands = [usual(edge_values(dtype))[:40] for dtype in KINDS]
    check_operation(lambda *xs: [ops.sort(x, comparator, is_stable=True) for x in xs], operands)


def test_total_order_has_a_place_for_nan_and_for_both_zeros():
    floats = [dtype for dtype in KINDS if is_float(dtype)]
    operands = [generator.permutation(edge_values(dtype))[:40] for dtype in floats]
    # The interpreter ignores TOTALORDER.
    check_operation(
        lambda *xs: [ops.sort(x, ops.lt_total_order) for x in xs], operands, interpreter=False
    )
    special = np.array([0, -0.0, np.nan, 1, -np.nan, -np.inf, np.inf], np.float32)
    falling = reference(lambda x: ops.sort(x, ops.gt_total_order), special)
    assert [f"{each:g}" for each in falling[1:-1]] == ["inf", "1", "0", "-0", "-inf"]
    assert np.isnan(falling[[0, -1]]).all()
    assert np.signbit(falling[[0, -1]]).tolist() == [False, True]


@pytest.mark.parametrize("sizes", [(0,), (1,), (0, 3), (3, 0), (2, 1, 3)])
def test_sizes(sizes):
    operands = [np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)]
    check_operation(lambda x: [ops.sort(x, ops.gt, d) for d in range(len(sizes))], operands)


COMPARATORS = {
    "one of several": lambda a, b, c, d: ops.gt(c, d),
    "reversed": lambda a, b, c, d: ops.lt(b, a),
    "two keys": by_two_keys,
    "a function of the key": lambda a, b, c, d: ops.lt(ops.abs(a - 3), ops.abs(b - 3)),
    "not element-wise": lambda a, b, c, d: ops.lt(
        ops.reduce(ops.broadcast(a, [2]), 0, ops.add, [0]),
        ops.reduce(ops.broadcast(b, [2]), 0, ops.add, [0]),
    ),
    "all equal": lambda a, b, c, d: ops.lt(a, a),
}


@pytest.mark.parametrize("name", COMPARATORS)
def test_comparators(name):
    operands = [generator.integers(0, 6, (2, 11)).astype(np.int32) for _ in range(2)]
    check_operation(lambda *xs: ops.sort(xs, COMPARATORS[name], is_stable=True), operands)


@pytest.mark.parametrize("size", [0, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 100])
def test_merging_sorts_as_numpy_does(size):
    rows = generator.integers(0, max(size // 2, 2), (3, size)).astype(np.int32)
    comparator = computation_of(ops.lt, [Shape("s32")] * 2, "sort")
    expected = np.argsort(rows, -1, kind="stable")
    np.testing.assert_array_equal(order_by_merging([rows], comparator), expected)


def always(a, b):
    return ops.eq(a, a)


def cyclic(a, b):
    return ops.eq(ops.rem(b - a + 999, np.float32(3)), np.float32(1))


@pytest.mark.parametrize("comparator", [ops.le, ops.ne, ops.lt, always, cyclic])
def test_what_is_no_strict_weak_order_gives_a_permutation(comparator):
    # With ties or NaN std::sort would leave its array: XLA:CPU would die.
    operand = generator.integers(0, 3, 3000).astype(np.float32)
    if comparator is ops.lt:
        operand[generator.integers(0, 3000, 1500)] = np.nan

    def function(x):
        return ops.sort(x, comparator)

    (on_xla,) = run_xla(graph_of(function, [operand]).stablehlo("cpu"), [operand])
    for result in (on_xla, reference(function, operand)):
        np.testing.assert_array_equal(np.sort(result), np.sort(operand))


def test_double_precision():
    operand = np.array([2, 1, np.nan, 3], np.float32)
    for comparator in (ops.lt_total_order, by_first):
        run = mx.reference(lambda x: ops.sort(x[:2], comparator), precision="float64")  # noqa: B023
        assert run(operand).tolist() == [1, 2]


def test_a_comparator_is_traced_once():
    operand = np.zeros(3, np.float32)
    first, second = (
        graph_of(lambda x: ops.sort(x, ops.lt), [operand]).instructions[0] for _ in range(2)
    )
    assert first.op.comparator is second.op.comparator


def test_text():
    operands = [np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32)]
    text = str(graph_of(lambda *xs: ops.sort(xs, by_first, 0, True), operands))
    assert "(f32[2,3], s32[2,3]) sort(%arg0.1, %arg1.2), dimensions={0}, is_stable=true" in text
    assert "to_apply=%by_first" in text


# Derivatives and batches.


def test_derivatives():
    check_derivatives(lambda x: ops.sort(x * x * x, ops.lt), [DISTINCT], lambda x: lax.sort(x**3))
    check_derivatives(
        lambda x, y: ops.sort([x, y * x], by_first, 0),
        [DISTINCT, DISTINCT[::-1].copy()],
        lambda x, y: lax.sort([x, y * x], dimension=0, num_keys=1),
    )


def test_derivatives_on_the_engine():
    operand = DISTINCT.astype(np.float32)

    def function(x):
        return mx.vjp(lambda x: (ops.sort(x, ops.gt), *ops.top_k(x, 2)), x)[1]

    cotangents = operand[::-1], operand[:, 2:], np.zeros((3, 2), jax.dtypes.float0)
    for one, other in zip(
        mx.jit(lambda x: function(x)(cotangents))(operand),
        mx.reference(lambda x: function(x)(cotangents))(operand),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_derivatives_with_integers_and_complex_numbers():
    keys = generator.permutation(12).reshape(3, 4)
    values = DISTINCT + 1j * DISTINCT[::-1]
    check_derivatives(
        lambda k, x: ops.sort([k, x], by_first)[1],
        [keys, values],
        lambda k, x: lax.sort([k, x], num_keys=1)[1],
    )


def test_derivatives_follow_the_values_not_the_tangents():
    primals, tangents = np.array([2.0, 2, 1]), np.array([1.0, -1, 0])
    _, moved = reference(
        lambda x, t: mx.jvp(lambda x: ops.sort(x, ops.lt, is_stable=True), (x,), (t,)),
        primals,
        tangents,
    )
    assert moved.tolist() == [0, 1, -1]


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0)])
def test_derivatives_of_nothing(sizes):
    check_derivatives(lambda x: ops.sort(x, ops.lt), [np.zeros(sizes)], lax.sort, order=1)


def test_batching():
    keys = generator.permutation(12).reshape(3, 4).astype(np.int32)
    for dimension in (0, 1):
        check_batching(lambda k, x: ops.sort([k, x], by_first, dimension), [keys, DISTINCT])  # noqa: B023
    check_batching(lambda x: ops.sort(x, ops.lt), [DISTINCT[0]])
    check_batching(lambda x: mx.grad(lambda x: ops.sort(x, ops.lt)[0])(x), [DISTINCT[0]])


# Rejections.


def test_rejected():
    rows, other = np.zeros((2, 3), np.float32), np.zeros((3,), np.float32)
    expected = ShapeError, "sort: (C1)"
    check_rejected(lambda x, y: ops.sort([x, y], by_first), [rows, other], *expected, "f32[3]")
    nothing = computation_of(lambda: ops.constant(True), [], "sort")
    check_rejected(lambda: ops.sort([], nothing), [], *expected, "at least one operand")
    for dimension in (2, -2):
        check_rejected(
            lambda x: ops.sort(x, ops.lt, dimension),  # noqa: B023
            [rows],
            AttributeValueError,
            "sort: (C2)",
            f"no dimension {dimension}",
        )
    check_rejected(lambda x: ops.sort(x, ops.lt), [np.float32(1)], AttributeValueError, "(C2)")
    check_rejected(lambda x: ops.sort(x, ops.add), [rows], ShapeError, "sort: (C3)", "pred[]")
    graph = computation_of(ops.lt, [Shape("s32")] * 2, "sort")
    check_rejected(lambda x: ops.sort(x, graph), [rows], ShapeError, "sort: (C3)", "s32[]")
    check_rejected(lambda x: ops.sort([x, x], ops.lt), [rows], ShapeError, "sort", "4 arguments")
    check_rejected(lambda x: ops.sort(x, 3), [rows], ShapeError, "sort", "int")
    check_rejected(
        lambda x, y: ops.sort(x, lambda a, b: ops.lt(a, y)),
        [rows, np.float32(1)],
        TransformError,
        "sort",
    )


# TopK.


def test_fact_top_k_shapes():
    operand = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for k in (0, 1, 4):
        values, indices = reference(lambda x: ops.top_k(x, k), operand)  # noqa: B023
        assert values.shape == indices.shape == (2, 3, k)
        assert (values.dtype, indices.dtype) == (np.float32, np.int32)


def test_fact_of_two_equal_elements_the_lower_index_comes_first():
    operand = np.array([[1, 3, 2, 3], [2, 2, 2, 2]], np.int32)
    values, indices, least, places = check_operation(
        lambda x: [*ops.top_k(x, 3), *ops.top_k(x, 2, largest=False)], [operand]
    )
    assert values.tolist() == [[3, 3, 2], [2, 2, 2]]
    assert indices.tolist() == [[1, 3, 2], [0, 1, 2]]
    assert least.tolist() == [[1, 2], [2, 2]]
    assert places.tolist() == [[0, 2], [0, 1]]


@pytest.mark.parametrize("largest", [True, False])
def test_top_k_element_types(largest):
    # The interpreter ignores TOTALORDER.
    kinds = [dtype for dtype in KINDS if dtype.kind != "c"]
    operands = [generator.permutation(edge_values(dtype))[:40] for dtype in kinds]
    check_operation(
        lambda *xs: [y for x in xs for y in ops.top_k(x, min(9, x.shape[-1]), largest)],
        [*operands, np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32)],
        interpreter=False,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_top_k_of_special_values_is_that_of_jax(dtype):
    operand = np.array([1, np.nan, -np.nan, 0, -0.0, np.inf, -np.inf, 3, -0.0, 0], dtype)
    expected = lax.top_k(operand, 10)
    found = reference(lambda x: ops.top_k(x, 10), operand)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, np.asarray(other))


def test_top_k_runs_as_xla_s_own():
    compiled = jax.jit(mx.jit(lambda x: ops.top_k(x, 2))).lower(np.zeros(9, np.float32)).compile()
    assert 'custom_call_target="TopK"' in compiled.as_text()


def test_top_k_derivatives_and_batching():
    check_derivatives(
        lambda x: ops.top_k(x * x * x, 2)[0], [DISTINCT], lambda x: lax.top_k(x**3, 2)[0]
    )
    check_derivatives(
        lambda x: ops.top_k(x, 3, False)[0], [DISTINCT], lambda x: -lax.top_k(-x, 3)[0], order=1
    )
    check_derivatives(lambda x: ops.top_k(x, 0)[0], [np.zeros((2, 0))], order=1)
    check_batching(lambda x: ops.top_k(x, 2), [DISTINCT])


def test_top_k_text():
    text = str(graph_of(lambda x: ops.top_k(x, 2), [DISTINCT]))
    assert "(f64[3,2], s32[3,2]) topk(%arg0.1), k=2, largest=true" in text


def test_top_k_rejected():
    check_rejected(lambda x: ops.top_k(x, 5), [DISTINCT], ShapeError, "top_k: (C1)", "f64[3,4]")
    check_rejected(lambda x: ops.top_k(x, 0), [np.float32(1)], ShapeError, "top_k: (C1)")
    check_rejected(lambda x: ops.top_k(x, 1), [DISTINCT + 0j], ShapeError, "top_k: (C2)")
    check_rejected(lambda x: ops.top_k(x, -1), [DISTINCT], AttributeValueError, "top_k", ">= 0")
