"""Gather: the specification's facts, clamping, batching dimensions, all types, JAX, derivatives."""

from __future__ import annotations

import functools
import itertools

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from minixla_ops.indexing.window_bounds import gather_or_fill
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
from tests.minixla_ops.indices import indices_of, starts, starts_of
from tests.oracles import ALL_TYPES, INTEGERS, random_values

Numbers = ops.GatherDimensionNumbers


def counted(*sizes, dtype=np.float32):
    return np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)


def gather(numbers, slice_sizes):
    return lambda operand, indices: ops.gather(operand, indices, numbers, slice_sizes)


ROWS = Numbers((1,), (0,), (0,), 1)
WINDOWS = Numbers((1, 2), (), (0, 1), 1)

# Operand sizes, index sizes, dimension numbers, slice sizes. Starts are in and out of bounds.
CASES = {
    "rows": ((6, 5), (4, 1), ROWS, (1, 5)),
    "implicit index vectors": ((6, 5), (4,), Numbers((0,), (1,), (1,), 1), (6, 1)),
    "one index vector": ((6, 5), (2,), Numbers((), (0, 1), (1, 0), 0), (1, 1)),
    "scalar index": ((6, 5), (), Numbers((0,), (0,), (0,), 0), (1, 4)),
    "windows": ((6, 5), (4, 2), WINDOWS, (3, 2)),
    "vectors first": ((6, 5, 4), (2, 4, 3), Numbers((0, 2), (1,), (2, 0), 0), (3, 1, 2)),
    "vectors amid": ((6, 5, 4), (2, 3, 2), Numbers((1,), (0, 2), (0, 1, 2), 1), (1, 2, 1)),
    "no index components": ((6, 5), (3, 0), Numbers((1, 2), (), (), 1), (2, 4)),
    "whole operand": ((3, 2), (2, 2), WINDOWS, (3, 2)),
    "scalar operand": ((), (2, 0), Numbers((), (), (), 1), ()),
    "batching": ((3, 4), (3, 5, 1), Numbers((), (1,), (1,), 2, (0,), (0,)), (1, 1)),
    "batching of windows": (
        (2, 5, 3),
        (3, 4, 1, 2),
        Numbers((1,), (), (1,), 2, (0, 2), (3, 0)),
        (1, 2, 1),
    ),
    "empty indices": ((6, 5), (0, 1), ROWS, (1, 5)),
    "empty slices": ((6, 5), (4, 2), WINDOWS, (3, 0)),
    "empty operand": ((0, 5), (0, 1), ROWS, (0, 5)),
    "empty batch": ((0, 4), (0, 5, 1), Numbers((), (1,), (1,), 2, (0,), (0,)), (0, 1)),
}


MEANINGS = Together(
    {
        case: (gather(numbers, slice_sizes), [counted(*sizes), starts(*index_sizes)], {})
        for case, (sizes, index_sizes, numbers, slice_sizes) in CASES.items()
    }
)


@pytest.mark.parametrize("case", CASES)
def test_meaning(case):
    MEANINGS.check(case)


def as_jax(numbers):
    """JAX's numbers, in which index vectors are along the last dimension of the indices."""
    fields = numbers._asdict()
    del fields["index_vector_dim"]
    return lax.GatherDimensionNumbers(**fields)


LAST = [
    case
    for case, (_, sizes, numbers, _) in CASES.items()
    if numbers.index_vector_dim == len(sizes) - 1 and "empty" not in case
]


def gather_of_jax(numbers, slice_sizes):
    return lambda x, i: lax.gather(x, i, as_jax(numbers), slice_sizes, mode="clip")


@functools.cache
def compiled(jit):
    """From a case to its result, all of them in one program of ours or of JAX's."""
    function = gather if jit is mx.jit else gather_of_jax
    return compiled_rows(
        {case: (function(*CASES[case][2:]), MEANINGS.rows[case][1]) for case in LAST}, jit=jit
    )


@pytest.mark.parametrize("case", LAST)
def test_clamps_starts_as_jax_does(case):
    np.testing.assert_array_equal(compiled(mx.jit)(case), compiled(jax.jit)(case))


def test_fact_index_vector_dim_of_the_rank_stands_for_a_dimension_of_size_one():
    operand, indices = counted(9), starts(6, 7, high=12)
    (implicit,) = check_operation(gather(Numbers((), (0,), (0,), 2), (1,)), [operand, indices])
    (explicit,) = check_operation(
        gather(Numbers((), (0,), (0,), 2), (1,)), [operand, indices[..., None]]
    )
    np.testing.assert_array_equal(implicit, explicit)


def test_fact_four_offsets_go_to_operand_dimensions_1_3_4_5():
    operand = counted(2, 3, 2, 3, 2, 2)
    numbers = Numbers((1, 2, 3, 4), (0, 2), (0, 2), 1)
    indices = np.array([[1, 0], [0, 1], [1, 1]], np.int32)
    (result,) = check_operation(gather(numbers, (1, 3, 1, 3, 2, 2)), [operand, indices])
    for g, (x, y) in enumerate(indices):
        np.testing.assert_array_equal(result[g], operand[x, :, y])


def test_fact_windows_of_8_by_6_out_of_16_by_11():
    operand = counted(16, 11)
    indices = np.stack([starts(5, low=0, high=9), starts(5, low=0, high=6)], 1).astype(np.int64)
    (result,) = check_operation(gather(WINDOWS, (8, 6)), [operand, indices])
    assert result.shape == (5, 8, 6)
    for g, o0, o1 in np.ndindex(5, 8, 6):
        x, y = indices[g]
        assert result[g, o0, o1] == operand[x + o0, y + o1]


def test_fact_windows_for_indices_of_two_batch_dimensions():
    operand = counted(16, 11)
    indices = np.stack([starts(4, 5, low=0, high=9), starts(4, 5, low=0, high=6)], 2)
    (result,) = check_operation(
        gather(Numbers((2, 3), (), (0, 1), 2), (8, 6)), [operand, indices.astype(np.int64)]
    )
    assert result.shape == (4, 5, 8, 6)
    for g0, g1, o0, o1 in np.ndindex(4, 5, 8, 6):
        x, y = indices[g0, g1]
        assert result[g0, g1, o0, o1] == operand[x + o0, y + o1]


def test_fact_gather_nd_picks_rows():
    operand, indices = counted(16, 11), starts(4, 5, 1, low=0, high=16)
    numbers = Numbers(
        offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2
    )
    (result,) = check_operation(gather(numbers, (1, 11)), [operand, indices])
    np.testing.assert_array_equal(result, operand[indices[..., 0]])


def test_numpy_fancy_indexing():
    operand, i, j = counted(4, 5, 6), starts(3, 2, low=0, high=4), starts(3, 2, low=0, high=6)
    numbers = Numbers((2,), (0, 2), (0, 2), 2)
    (result,) = check_operation(gather(numbers, (1, 5, 1)), [operand, np.stack([i, j], 2)])
    np.testing.assert_array_equal(result, operand[i, :, j])


def test_numpy_take_along_axis():
    operand, indices = counted(3, 5), starts(3, 4, low=0, high=5)
    numbers = Numbers((), (1,), (1,), 2, (0,), (0,))
    (result,) = check_operation(gather(numbers, (1, 1)), [operand, indices])
    np.testing.assert_array_equal(result, np.take_along_axis(operand, indices, 1))


# XLA:CPU knows no types of six bits.
ELEMENT_TYPES = Together(
    {
        name: (
            gather(ROWS, (1, 3)),
            [random_values(dtype, (5, 3), 0), starts(4, 1)],
            {"xla": not name.startswith("f6")},
        )
        for name, dtype in ALL_TYPES
    }
)


@pytest.mark.parametrize("name", ELEMENT_TYPES.rows)
def test_element_types(name):
    ELEMENT_TYPES.check(name)


INDEX_TYPES = Together(
    {
        name: (
            gather(Numbers((1,), (), (0,), 1), (2,)),
            [counted(300, dtype=np.int32), indices_of(dtype)],
            # The interpreter takes unsigned indices from half the range on for negative.
            {"interpreter": ml_dtypes.iinfo(dtype).min < 0},
        )
        for name, dtype in INTEGERS
    }
)


@pytest.mark.parametrize("name, dtype", INTEGERS, ids=[name for name, _ in INTEGERS])
def test_index_types(name, dtype):
    (result,) = INDEX_TYPES.check(name)
    clamped = [min(max(each, 0), 298) for each in starts_of(dtype)]
    np.testing.assert_array_equal(result, [[each, each + 1] for each in clamped])


def test_sorted_indices_are_promised_in_every_form():
    indices = np.array([[0], [2], [5]], np.int32)

    def function(x, i):
        return ops.gather(x, i, ROWS, (1, 5), indices_are_sorted=True)

    check_operation(function, [counted(6, 5), indices])
    graph = graph_of(function, [counted(6, 5), indices])
    assert "indices_are_sorted = true" in graph.stablehlo()
    assert "slice_sizes={1,5}, indices_are_sorted=true" in str(graph)


def test_lists_are_taken_for_dimension_numbers():
    numbers = Numbers([1], [0], [0], 1)
    graphs = [
        graph_of(gather(each, [1, 5]), [counted(6, 5), starts(4, 1)]) for each in (numbers, ROWS)
    ]
    assert graphs[0] == graphs[1]


def test_keeps_dynamic_dimensions_of_indices():
    from minixla.core.shapes import Shape
    from minixla.core.tracing import trace_to_graph

    indices = Shape("s32", (4, 1), (True, False))
    graph, _ = trace_to_graph(
        lambda x, i: [ops.gather(x, i, ROWS, (1, 5))], [Shape("f32", (6, 5)), indices]
    )
    assert str(graph.output_shapes[0]) == "f32[<=4,5]"


def slope_of_sum(function):
    def slope(x):
        result, pullback = mx.vjp(function, x)
        return pullback(np.ones(result.shape, result.dtype))[0]

    return slope


def squared(function, indices):
    return lambda x: function(x, indices) ** 2


DERIVATIVES = DerivativesTogether(
    {
        case: (
            squared(gather(numbers, slice_sizes), starts(*index_sizes)),
            [random_values(np.float64, sizes, 1)],
            # XLA:CPU fails at what JAX makes of a scalar operand.
            squared(gather_of_jax(numbers, slice_sizes), starts(*index_sizes))
            if case in LAST and case != "scalar operand"
            else None,
            {},
        )
        for case, (sizes, index_sizes, numbers, slice_sizes) in CASES.items()
        if "empty" not in case
    }
)


@pytest.mark.parametrize("case", DERIVATIVES.rows)
def test_derivatives(case):
    DERIVATIVES.check(case)


@pytest.mark.parametrize("case", [case for case in CASES if "empty" in case])
def test_derivatives_of_nothing_are_zero(case):
    sizes, index_sizes, numbers, slice_sizes = CASES[case]
    slope = slope_of_sum(lambda x: gather(numbers, slice_sizes)(x, starts(*index_sizes)))
    np.testing.assert_array_equal(slope(counted(*sizes)), np.zeros(sizes))


def test_derivative_adds_up_where_an_element_is_read_repeatedly():
    indices = np.array([[1], [1], [5], [9], [-2]], np.int32)
    slope = slope_of_sum(lambda x: gather(ROWS, (1, 2))(x, indices))(counted(6, 2))
    np.testing.assert_array_equal(slope[:, 0], [1, 2, 0, 0, 0, 2])


def test_complex_derivative():
    check_derivatives(
        lambda x: gather(ROWS, (1, 3))(x, starts(4, 1)),
        [random_values(np.complex128, (5, 3), 1)],
        lambda x: lax.gather(x, starts(4, 1), as_jax(ROWS), (1, 3), mode="clip"),
    )


def slope_at(x, i):
    return slope_of_sum(lambda x: gather(ROWS, (1, 2))(x, i))(x)


SLOPES = Together(
    {
        np.dtype(dtype).name: (
            slope_at,
            [counted(300, 2), np.array([0, 3, 7, -1]).astype(np.int8).astype(dtype)[:, None]],
            # The interpreter takes unsigned indices from half the range on for negative.
            {"interpreter": False},
        )
        for dtype in (np.int8, np.uint8, np.uint32, np.int64, np.uint64, ml_dtypes.int4)
    }
)


@pytest.mark.parametrize("name", SLOPES.rows)
def test_derivative_for_index_types(name):
    """The transpose clamps starts itself, in the type of the indices."""
    indices = SLOPES.rows[name][1][1]
    with jax.enable_x64(True):
        (slope,) = SLOPES.check(name)
    expected = np.zeros((300, 2))
    for start in indices[:, 0].tolist():
        expected[min(max(int(start), 0), 299)] += 1
    np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize("case", CASES)
def test_batching(case):
    sizes, index_sizes, numbers, slice_sizes = CASES[case]
    check_batching(gather(numbers, slice_sizes), [counted(*sizes), starts(*index_sizes)])


def test_batches_of_batches_stay_one_gather():
    function = mx.vmap(mx.vmap(gather(ROWS, (1, 5)), (0, 1)), (None, 0))
    operands = [counted(3, 6, 5), starts(2, 4, 3, 1)]
    graph = graph_of(function, operands)
    assert [each.op.name for each in graph.instructions].count("Gather") == 1
    (result,) = check_operation(function, operands)
    for a, b in itertools.product(range(2), range(3)):
        rows = np.clip(operands[1][a, :, b, 0], 0, 5)
        np.testing.assert_array_equal(result[a, b], operands[0][b][rows])


def test_empty_batch():
    result = mx.vmap(gather(ROWS, (1, 5)))(np.zeros((0, 6, 5), "f4"), np.zeros((0, 4, 1), "i4"))
    assert result.shape == (0, 4, 5)


@pytest.mark.parametrize("value", [0, -1.5])
def test_fill_of_whole_slices_is_that_of_jax(value):
    operand, indices = counted(6, 5), starts(7, 1)
    (result,) = check_operation(
        lambda x, i: gather_or_fill(x, i, ROWS, (1, 5), value), [operand, indices]
    )
    expected = lax.gather(operand, indices, as_jax(ROWS), (1, 5), mode="fill", fill_value=value)
    np.testing.assert_array_equal(result, expected)


def test_fill_of_parts_of_slices():
    indices = np.array([[-1], [4], [-7], [1], [127], [-128]], np.int8)
    (result,) = check_operation(
        lambda x, i: gather_or_fill(x, i, Numbers((1,), (), (0,), 1), (3,), 9),
        [counted(6), indices],
    )
    expected = [[9, 0, 1], [4, 5, 9], [9, 9, 9], [1, 2, 3], [9, 9, 9], [9, 9, 9]]
    np.testing.assert_array_equal(result, expected)


X, INDICES = np.zeros((6, 5), np.float32), np.zeros((4, 1), np.int32)
GOOD = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
}
BATCHED = {
    "offset_dims": (),
    "collapsed_slice_dims": (1,),
    "start_index_map": (1,),
    "index_vector_dim": 2,
    "operand_batching_dims": (0,),
    "start_indices_batching_dims": (0,),
}
J = np.zeros((6, 4, 1), np.int32)

# Label, changed dimension numbers, operand, indices, slice sizes, error, phrase.
WRONG = [
    ("C1", {}, X, INDICES.astype(np.float32), (1, 5), ShapeError, "an integer type, not f32"),
    ("C2", {"index_vector_dim": 3}, X, INDICES, (1, 5), AttributeValueError, "index_vector_dim 3"),
    ("C2", {"index_vector_dim": -1}, X, INDICES, (1, 5), AttributeValueError, "[0, 2]"),
    ("C3", {"start_index_map": (0, 1)}, X, INDICES, (1, 5), AttributeValueError, "2 entries"),
    ("C4", {"start_index_map": (2,)}, X, INDICES, (1, 5), AttributeValueError, "[0, 2)"),
    (
        "C5",
        {"offset_dims": (2,)},
        X,
        INDICES,
        (1, 5),
        AttributeValueError,
        "offset_dims must ascend",
    ),
    ("C6", {"collapsed_slice_dims": (2,)}, X, INDICES, (1, 5), AttributeValueError, "[0, 2)"),
    (
        "C6",
        {"offset_dims": (), "collapsed_slice_dims": (1, 0)},
        X,
        INDICES,
        (1, 1),
        AttributeValueError,
        "ascend",
    ),
    ("C10", {"offset_dims": (1, 2)}, X, INDICES, (1, 5), AttributeValueError, "2 + 1 + 0"),
    ("C11", {}, X, INDICES, (1,), AttributeValueError, "1 slice sizes"),
    (
        "C12",
        {},
        X,
        INDICES,
        (1, 6),
        AttributeValueError,
        "slice size 6 is out of range for dimension 1",
    ),
    ("C12", {}, X, INDICES, (1, -1), AttributeValueError, "size -1"),
    (
        "C13",
        {},
        X,
        INDICES,
        (2, 5),
        AttributeValueError,
        "dimension 0 is collapsed or batching, but its slice size is 2",
    ),
    ("C13", {}, X, INDICES, (0, 5), AttributeValueError, "are 1"),
]
WRONG_BATCHING = [
    ("C4", {"start_index_map": (0,)}, X, J, (1, 1), AttributeValueError, "that are not in operand"),
    ("C7", {"operand_batching_dims": (2,)}, X, J, (1, 1), AttributeValueError, "[0, 2)"),
    (
        "C7",
        {"operand_batching_dims": (1,), "start_index_map": (0,)},
        X,
        J,
        (1, 1),
        AttributeValueError,
        "and operand_batching_dims",
    ),
    (
        "C8",
        {"start_indices_batching_dims": (2,)},
        X,
        J,
        (1, 1),
        AttributeValueError,
        "not index_vector_dim",
    ),
    ("C8", {"start_indices_batching_dims": (3,)}, X, J, (1, 1), AttributeValueError, "[0, 3)"),
    ("C9", {"start_indices_batching_dims": (1,)}, X, J, (1, 1), ShapeError, "in size"),
    ("C9", {"start_indices_batching_dims": ()}, X, J, (1, 1), ShapeError, "in number"),
    ("C13", {}, X, J, (2, 1), AttributeValueError, "dimension 0"),
]


@pytest.mark.parametrize(
    "label, changed, operand, indices, slice_sizes, error, phrase",
    [(*row[:1], {**GOOD, **row[1]}, *row[2:]) for row in WRONG]
    + [(*row[:1], {**BATCHED, **row[1]}, *row[2:]) for row in WRONG_BATCHING],
)
def test_checks(label, changed, operand, indices, slice_sizes, error, phrase):
    check_rejected(
        lambda x, i: ops.gather(x, i, Numbers(**changed), slice_sizes),
        [operand, indices],
        error,
        "gather:",
        f"({label})",
        phrase,
    )


def test_other_values_are_no_dimension_numbers():
    for value in (None, ((1,), (0,), (0,), 1), ops.ScatterDimensionNumbers(*ROWS)):
        check_rejected(
            lambda x, i, value=value: ops.gather(x, i, value, (1, 2)),
            [np.zeros((7, 3), np.float32), INDICES],
            AttributeValueError,
            "dimension_numbers",
            "GatherDimensionNumbers",
        )
