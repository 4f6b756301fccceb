"""Scatter: the specification's facts, bounds, order, N operands, all types, batching, checks."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, TransformError
from minixla_ops.indexing.scatter_computations import combination_of, overwrite, separate
from tests.harness import (
    Together,
    by_jax,
    check_batching,
    check_operation,
    check_rejected,
    compiled_together,
    graph_of,
)
from tests.minixla_ops.indices import indices_of, starts, starts_of
from tests.oracles import ALL_TYPES, INTEGERS, random_values

Numbers = ops.ScatterDimensionNumbers

ROWS = Numbers((1,), (0,), (0,), 1)
WINDOWS = Numbers((1, 2), (), (0, 1), 1)


def counted(*sizes, dtype=np.float32):
    return np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)


def small(*sizes, seed=1, dtype=np.float32):
    """Small integers: sums and products of them are exact."""
    return np.random.default_rng(seed).integers(-3, 4, sizes).astype(dtype)


def affine(old, update):
    """Neither commutative nor associative."""
    return old * update + old


def scatter(computation, numbers, **promises):
    return lambda x, i, u: ops.scatter(x, i, u, computation, numbers, **promises)


COMPUTATIONS = {
    "add": (ops.add, np.add),
    "subtract": (ops.sub, np.subtract),
    "multiply": (ops.mul, np.multiply),
    "minimum": (ops.min, np.minimum),
    "maximum": (ops.max, np.maximum),
    "overwrite": (overwrite, lambda old, update: update),
    "keep": (lambda old, update: old, lambda old, update: old),
    "affine": (affine, affine),
}

# Operand sizes, index sizes, updates' sizes, dimension numbers. Starts are in and out of bounds,
# and repeated.
CASES = {
    "rows": ((6, 5), (7, 1), (7, 5), ROWS),
    "implicit index vectors": ((6, 5), (4,), (6, 4), Numbers((0,), (1,), (1,), 1)),
    "one index vector": ((6, 5), (2,), (), Numbers((), (0, 1), (1, 0), 0)),
    "scalar index": ((6, 5), (), (4,), Numbers((0,), (0,), (0,), 0)),
    "narrow rows": ((6, 5), (7, 1), (7, 2), ROWS),
    "windows": ((6, 5), (4, 2), (4, 3, 2), WINDOWS),
    "vectors first": ((6, 5, 4), (2, 4, 3), (1, 4, 2, 3), Numbers((0, 2), (1,), (2, 0), 0)),
    "vectors amid": ((3, 5, 4), (2, 3, 2), (2, 4, 2), Numbers((1,), (0, 2), (0, 1, 2), 1)),
    "no index components": ((6, 5), (3, 0), (3, 2, 4), Numbers((1, 2), (), (), 1)),
    "whole operand": ((3, 2), (3, 2), (3, 3, 2), WINDOWS),
    "scalar operand": ((), (2, 0), (2,), Numbers((), (), (), 1)),
    "batching": ((3, 4), (3, 5, 1), (3, 5), Numbers((), (1,), (1,), 2, (0,), (0,))),
    "batching of windows": (
        (2, 5, 3),
        (3, 4, 1, 2),
        (3, 2, 4, 2),
        Numbers((1,), (), (1,), 2, (0, 2), (3, 0)),
    ),
    "empty indices": ((6, 5), (0, 1), (0, 5), ROWS),
    "empty windows": ((6, 5), (4, 2), (4, 3, 0), WINDOWS),
    "empty operand": ((0, 5), (3, 1), (3, 5), ROWS),
    "empty batch": ((0, 4), (0, 5, 1), (0, 5), Numbers((), (1,), (1,), 2, (0,), (0,))),
}


def by_element(operand, indices, updates, numbers, combine):
    """The specification's rule, one element after the other, and which were written."""
    result = operand.copy()
    at = numbers.index_vector_dim
    vectors = indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)
    outer = [d for d in range(updates.ndim) if d not in numbers.update_window_dims]
    absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    inner = [d for d in range(operand.ndim) if d not in absent]
    order = sorted(np.ndindex(updates.shape), key=lambda u: [u[d] for d in outer])
    for u in order:
        g = [u[d] for d in outer]
        place = np.zeros(operand.ndim, int)
        for start, d in zip(vectors[tuple(g)], numbers.scatter_dims_to_operand_dims, strict=True):
            place[d] = start
        for d, along in zip(numbers[4], numbers[5], strict=True):
            place[d] = g[along - (along > at)]
        for d, window_dim in zip(inner, numbers.update_window_dims, strict=True):
            place[d] += u[window_dim]
        if all(0 <= p < size for p, size in zip(place, operand.shape, strict=True)):
            result[tuple(place)] = combine(result[tuple(place)], updates[u])
    return result


def given_of(case):
    sizes, index_sizes, update_sizes, _ = CASES[case]
    return [small(*sizes), starts(*index_sizes), small(*update_sizes, seed=2)]


MEANINGS = Together(
    {
        (case, name): (
            scatter(computation, numbers),
            given_of(case),
            # Where overlapping windows come before other dimensions, the interpreter's order is
            # another.
            {
                "interpreter": case not in ("vectors first", "batching of windows"),
                "signed_zeros": False,
            },
        )
        for case, (*_, numbers) in CASES.items()
        for name, (computation, _) in COMPUTATIONS.items()
    }
)


@pytest.mark.parametrize("case", CASES)
def test_meaning(case):
    for name, (_, combine) in COMPUTATIONS.items():
        (result,) = MEANINGS.check((case, name))
        expected = by_element(*given_of(case), CASES[case][3], combine)
        np.testing.assert_array_equal(result, expected, err_msg=name)


def as_jax(numbers):
    """JAX's numbers, in which index vectors are along the last dimension of the indices."""
    fields = numbers._asdict()
    del fields["index_vector_dim"]
    return lax.ScatterDimensionNumbers(**fields)


IN_JAX = {
    "add": lax.scatter_add,
    "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul,
    "minimum": lax.scatter_min,
    "maximum": lax.scatter_max,
    "overwrite": lax.scatter,
}


@pytest.mark.parametrize("case", ["rows", "narrow rows", "batching", "vectors amid"])
def test_skips_as_jax_does(case):
    """Of the cases in which no window lies partly outside: JAX skips those as a whole."""
    sizes, index_sizes, update_sizes, numbers = CASES[case]
    if case == "vectors amid":
        numbers, index_sizes = numbers._replace(index_vector_dim=2), (2, 2, 3)
    given = small(*sizes), starts(*index_sizes), small(*update_sizes, seed=2)
    ours = {name: scatter(COMPUTATIONS[name][0], numbers) for name in IN_JAX}
    actual = compiled_together(ours, *given)
    expected = by_jax(
        lambda *xs: {
            name: in_jax(*xs, as_jax(numbers), mode="drop") for name, in_jax in IN_JAX.items()
        },
        *given,
    )
    for name in IN_JAX:
        np.testing.assert_array_equal(actual(name), expected[name], err_msg=name)


def test_fact_four_window_dimensions_go_to_operand_dimensions_1_3_4_5():
    operand, updates = small(2, 3, 2, 3, 2, 2), small(3, 3, 3, 2, 2, seed=2)
    numbers = Numbers((1, 2, 3, 4), (0, 2), (0, 2), 1)
    indices = np.array([[1, 0], [0, 1], [1, 1]], np.int32)
    (result,) = check_operation(scatter(ops.add, numbers), [operand, indices, updates])
    expected = operand.copy()
    for g, (x, y) in enumerate(indices):
        expected[x, :, y] += updates[g]
    np.testing.assert_array_equal(result, expected)


def test_fact_index_trace_of_the_example_with_batching_dimensions():
    """Scatter's first example: (update index, result index), the last of them outside."""
    indices = np.zeros((2, 2, 3, 2), np.int64)
    indices[0, 0] = [[0, 0], [1, 0], [2, 1]]
    indices[0, 1] = [[0, 1], [1, 1], [0, 9]]
    indices[1, 0] = [[0, 0], [2, 1], [2, 2]]
    indices[1, 1] = [[1, 2], [0, 1], [1, 0]]
    operand, updates = small(2, 3, 4, 2, dtype=np.int32), small(2, 2, 3, 2, 2, dtype=np.int32)
    numbers = Numbers((3, 4), (1,), (2, 1), 3, (0,), (1,))
    (result,) = check_operation(scatter(ops.add, numbers), [operand, indices, updates])
    expected = operand.copy()
    for a, b, c, w0, w1 in np.ndindex(updates.shape):
        # Component 0 goes to operand dimension 2, component 1 to dimension 1; the batch is b.
        place = (b, indices[a, b, c, 1], indices[a, b, c, 0] + w0, w1)
        if place[1] < 3 and place[2] < 4:
            expected[place] += updates[a, b, c, w0, w1]
    np.testing.assert_array_equal(result, expected)


def test_fact_the_old_value_is_the_first_argument():
    operands = [
        np.array([10.0, 20.0], np.float32),
        np.array([[1]], np.int32),
        np.array([3.0], np.float32),
    ]
    (result,) = check_operation(scatter(ops.sub, Numbers((), (0,), (0,), 1)), operands)
    np.testing.assert_array_equal(result, [10, 17])


def test_fact_elements_outside_are_skipped_and_not_whole_windows():
    numbers = Numbers((1,), (), (0,), 1)
    indices, updates = np.array([[-1], [3], [4], [1]], np.int32), counted(4, 3) + 1
    given = [np.zeros(5, np.float32), indices, updates]
    (result,) = check_operation(scatter(ops.add, numbers), given)
    np.testing.assert_array_equal(result, [2, 13, 11, 16, 12])


@pytest.mark.parametrize("sizes", [(4,), (2, 2)])
def test_updates_with_one_target_follow_each_other_in_order(sizes):
    indices, updates = np.zeros((*sizes, 1), np.int32), counted(*sizes) + 1
    numbers = Numbers((), (0,), (0,), len(sizes))

    def horner(old, update):
        return old * 10 + update

    (result,) = check_operation(
        scatter(horner, numbers), [np.zeros(2, np.float32), indices, updates]
    )
    np.testing.assert_array_equal(result, [1234, 0])


def test_many_updates_with_few_targets():
    indices, updates = starts(500, 1, low=0, high=3), small(500)
    (result,) = check_operation(
        scatter(lambda a, b: (a + b) * 0.5, Numbers((), (0,), (0,), 1)),
        [np.zeros(3, np.float32), indices, updates],
    )
    assert np.isfinite(result).all()


def arg_max(old, old_place, update, place):
    is_less = ops.lt(old, update)
    return ops.select(is_less, update, old), ops.select(is_less, place, old_place)


def test_several_operands_of_different_types():
    numbers = Numbers((), (0,), (0,), 1)
    indices, updates = (
        np.array([[0], [1], [0], [5], [1]], np.int32),
        np.array([3, 1, 7, 9, 0], np.float32),
    )
    results = check_operation(
        lambda x, p, i, u, q: ops.scatter([x, p], i, [u, q], arg_max, numbers),
        [
            np.full(3, -1, np.float32),
            np.full(3, -1, np.int32),
            indices,
            updates,
            counted(5, dtype=np.int32),
        ],
    )
    np.testing.assert_array_equal(results[0], [7, 1, -1])
    np.testing.assert_array_equal(results[1], [2, 1, -1])


def test_several_independent_operands():
    def both(a, b, c, d):
        return (a + c, b * d)

    results = check_operation(
        lambda x, y, i, u, v: ops.scatter((x, y), i, (u, v), both, ROWS),
        [small(6, 5), small(6, 5, seed=3), starts(7, 1), small(7, 5), small(7, 5, seed=4)],
        signed_zeros=False,
    )
    assert len(results) == 2


def test_one_operand_gives_an_array_and_several_a_tuple():
    given = counted(6, 5), starts(4, 1), counted(4, 5)
    assert ops.scatter([given[0]], given[1], [given[2]], ops.add, ROWS).shape == (6, 5)

    def pair(a, b, c, d):
        return (a + c, b + d)

    assert type(ops.scatter([given[0]] * 2, given[1], [given[2]] * 2, pair, ROWS)) is tuple


# The interpreter and XLA:CPU do arithmetic of f8 and smaller types in ways of their own; XLA:CPU
# knows no types of six bits.
def of_type(dtype):
    return [random_values(dtype, (5, 3), 0), starts(6, 1), random_values(dtype, (6, 3), 1)]


ELEMENT_TYPES = Together(
    {
        (name, computation.__name__): (
            scatter(computation, ROWS),
            of_type(dtype),
            {"xla": not name.startswith("f6")},
        )
        for name, dtype in ALL_TYPES
        for computation in (overwrite, ops.max, ops.add)
        if computation is not ops.add or name[:2] not in ("f4", "f6", "f8")
    }
)


@pytest.mark.parametrize("row", ELEMENT_TYPES.rows, ids="-".join)
def test_element_types(row):
    ELEMENT_TYPES.check(row)


BITWISE = Together(
    {
        (dtype.__name__, computation.__name__): (scatter(computation, ROWS), of_type(dtype), {})
        for dtype in (np.bool_, np.int32, np.uint8)
        for computation in (ops.and_, ops.or_, ops.xor)
    }
)


@pytest.mark.parametrize("row", BITWISE.rows, ids="-".join)
def test_bitwise_computations(row):
    BITWISE.check(row)


SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1], np.float32)
EACH_SIX_TIMES = np.array([[a] for a in range(6) for _ in range(6)], np.int32)
SPECIAL_VALUES = Together(
    {
        (name, computation.__name__): (scatter(computation, numbers), given, {})
        for computation in (ops.add, ops.mul, ops.min, ops.max)
        for name, numbers, given in (
            ("pred", ROWS, of_type(np.bool_)),
            (
                "special values",
                Numbers((), (0,), (0,), 1),
                [SPECIAL, EACH_SIX_TIMES, np.tile(SPECIAL, 6)],
            ),
        )
    }
)


@pytest.mark.parametrize("row", SPECIAL_VALUES.rows, ids="-".join)
def test_computations_of_pred_and_of_special_values(row):
    SPECIAL_VALUES.check(row)


def at_starts_of(dtype, window):
    indices = indices_of(dtype)
    updates = np.arange(1, 1 + len(indices), dtype=np.int32)[:, None] * np.ones(window, np.int32)
    return [np.zeros(300, np.int32), indices, updates]


INDEX_TYPES = Together(
    {
        (name, window): (
            scatter(ops.add, Numbers((1,), (), (0,), 1)),
            at_starts_of(dtype, window),
            # The interpreter takes unsigned indices from half the range on for negative.
            {"interpreter": ml_dtypes.iinfo(dtype).min < 0},
        )
        for name, dtype in INTEGERS
        for window in (1, 3)
    }
)


@pytest.mark.parametrize("name, dtype", INTEGERS, ids=[name for name, _ in INTEGERS])
@pytest.mark.parametrize("window", [1, 3])
def test_index_types(name, dtype, window):
    with jax.enable_x64(True):
        (result,) = INDEX_TYPES.check((name, window))
    expected = np.zeros(300, int)
    for start, update in zip(starts_of(dtype), at_starts_of(dtype, window)[2], strict=True):
        for offset, value in enumerate(update):
            if 0 <= start + offset < 300:
                expected[start + offset] += value
    np.testing.assert_array_equal(result, expected)


def test_promises_are_made_in_every_form():
    indices = np.array([[0], [2], [5]], np.int32)
    function = scatter(ops.add, ROWS, indices_are_sorted=True, unique_indices=True)
    given = [counted(6, 5), indices, counted(3, 5)]
    check_operation(function, given)
    graph = graph_of(function, given)
    assert "indices_are_sorted = true, unique_indices = true" in graph.stablehlo()
    assert "indices_are_sorted=true, unique_indices=true, to_apply=%add" in str(graph)


def test_windows_promised_in_bounds_need_no_frame():
    given = [counted(6, 5), np.array([[1, 2], [3, 3]], np.int32), counted(2, 3, 2)]
    for promise in (False, True):
        function = scatter(ops.add, WINDOWS, indices_in_bounds=promise)
        check_operation(function, given)
        assert ("stablehlo.pad" in graph_of(function, given).stablehlo()) is not promise


def test_windows_in_which_no_start_moves_need_no_frame():
    graph = graph_of(scatter(ops.add, ROWS), [counted(6, 5), starts(4, 1), counted(4, 5)])
    assert "stablehlo.pad" not in graph.stablehlo()


@pytest.mark.parametrize("sizes", [(), (1,), (1, 1)])
def test_updates_of_a_single_element_that_no_index_leads_to(sizes):
    """XLA:CPU itself takes only one of them."""
    numbers = Numbers(tuple(range(1, 1 + len(sizes))), (), (), 1)
    given = [counted(*sizes) + 1, np.zeros((3, 0), np.int32), counted(3, *sizes) + 2]
    (result,) = check_operation(scatter(affine, numbers), given)
    np.testing.assert_array_equal(result, np.full(sizes, 60))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["add", "overwrite", "affine"])
def test_batching(case, name):
    sizes, index_sizes, update_sizes, numbers = CASES[case]
    given = [small(*sizes), starts(*index_sizes), small(*update_sizes, seed=2)]
    check_batching(scatter(COMPUTATIONS[name][0], numbers), given, size=2)


def test_batching_of_several_operands():
    def both(a, b, c, d):
        return (a + c * b, b - d)

    given = [small(6, 2), small(6, 2, seed=3), starts(7, 1), small(7, 2), small(7, 2, seed=4)]
    check_batching(lambda x, y, i, u, v: ops.scatter([x, y], i, [u, v], both, ROWS), given, size=2)


def test_batches_of_batches_stay_one_scatter():
    function = mx.vmap(mx.vmap(scatter(ops.add, ROWS), (0, 1, None)), (None, 0, 0))
    given = [small(3, 6, 5), starts(2, 4, 3, 1), small(2, 4, 5)]
    graph = graph_of(function, given)
    assert [each.op.name for each in graph.instructions].count("Scatter") == 1
    (result,) = check_operation(function, given)
    for a, b in np.ndindex(2, 3):
        expected = by_element(given[0][b], given[1][a, :, b], given[2][a], ROWS, np.add)
        np.testing.assert_array_equal(result[a, b], expected)


def test_empty_batch():
    result = mx.vmap(scatter(ops.add, ROWS))(
        np.zeros((0, 6, 5), "f4"), np.zeros((0, 4, 1), "i4"), np.zeros((0, 4, 5), "f4")
    )
    assert result.shape == (0, 6, 5)


def graph_for(function, count=2, kind=np.float32):
    return graph_of(function, [np.zeros((), kind)] * count)


@pytest.mark.parametrize(
    "function, combination",
    [
        (ops.add, "add"),
        (lambda a, b: ops.add(b, a), "add"),
        (ops.sub, "sub"),
        (lambda a, b: ops.sub(b, a), None),
        (overwrite, "set"),
        (lambda a, b: a, "keep"),
        (lambda a, b: a + a, None),
        (affine, None),
    ],
)
def test_combinations(function, combination):
    assert combination_of(graph_for(function)) == combination


def test_separate_computations():
    parts = separate(graph_for(lambda a, b, c, d: (a + c, d), 4))
    assert parts is not None
    assert [combination_of(part) for part in parts] == ["add", "set"]
    assert separate(graph_for(lambda a, b, c, d: (a + d, b + c), 4)) is None
    assert separate(graph_for(lambda a, b, c, d: (b, a), 4)) is None


X, INDICES, U = (
    np.zeros((6, 5), np.float32),
    np.zeros((4, 1), np.int32),
    np.zeros((4, 5), np.float32),
)
GOOD = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
BATCHED = {
    "update_window_dims": (),
    "inserted_window_dims": (1,),
    "scatter_dims_to_operand_dims": (1,),
    "index_vector_dim": 2,
    "operand_batching_dims": (0,),
    "scatter_indices_batching_dims": (0,),
}
J, V = np.zeros((6, 4, 1), np.int32), np.zeros((6, 4), np.float32)

# Label, changed dimension numbers, operands, indices, updates, error, phrase.
WRONG = [
    ("C1", {}, X, INDICES.astype(np.bool_), U, ShapeError, "an integer type, not pred"),
    ("C2", {"index_vector_dim": 3}, X, INDICES, U, AttributeValueError, "index_vector_dim 3"),
    ("C3", {"scatter_dims_to_operand_dims": ()}, X, INDICES, U, AttributeValueError, "0 entries"),
    ("C4", {"scatter_dims_to_operand_dims": (2,)}, X, INDICES, U, AttributeValueError, "[0, 2)"),
    (
        "C5",
        {"update_window_dims": (2,)},
        X,
        INDICES,
        U,
        AttributeValueError,
        "update_window_dims must ascend",
    ),
    (
        "C6",
        {"inserted_window_dims": (2,)},
        X,
        INDICES,
        U,
        AttributeValueError,
        "inserted_window_dims must",
    ),
    ("C10", {"inserted_window_dims": ()}, X, INDICES, U, AttributeValueError, "1 + 0 + 0"),
    ("C11", {}, [X, X], INDICES, [U], ShapeError, "2 operands and 1 updates"),
    ("C11", {}, [], INDICES, [], ShapeError, "0 operands and 0 updates"),
    ("C12", {}, [X, X.T], INDICES, [U, U], ShapeError, "operands[0] and operands[1]"),
    ("C13", {}, [X, X], INDICES, [U, U.T], ShapeError, "updates[0] and updates[1]"),
    ("C13", {}, X, INDICES, U.astype(np.int32), ShapeError, "must have equal element types"),
    ("C14", {}, X, INDICES, U[0], ShapeError, "rank 1 + 1, not 1"),
    (
        "C15",
        {},
        X,
        INDICES,
        np.zeros((4, 6), np.float32),
        ShapeError,
        "window size 6 exceeds the size 5 of dimension 1",
    ),
    ("C16", {}, X, INDICES, np.zeros((3, 5), np.float32), ShapeError, "must have size 4, not 3"),
]
WRONG_BATCHING = [
    ("C4", {"scatter_dims_to_operand_dims": (0,)}, X, J, V, AttributeValueError, "that are not in"),
    (
        "C7",
        {"operand_batching_dims": (1,), "scatter_dims_to_operand_dims": (0,)},
        X,
        J,
        V,
        AttributeValueError,
        "dimension 1 is in",
    ),
    (
        "C8",
        {"scatter_indices_batching_dims": (2,)},
        X,
        J,
        V,
        AttributeValueError,
        "not index_vector_dim",
    ),
    ("C9", {"scatter_indices_batching_dims": (1,)}, X, J, V, ShapeError, "in size"),
]


@pytest.mark.parametrize(
    "label, changed, operands, indices, updates, error, phrase",
    [(*row[:1], {**GOOD, **row[1]}, *row[2:]) for row in WRONG]
    + [(*row[:1], {**BATCHED, **row[1]}, *row[2:]) for row in WRONG_BATCHING],
)
def test_checks(label, changed, operands, indices, updates, error, phrase):
    computation = (lambda *values: values[1:]) if type(operands) is list else ops.add
    check_rejected(
        lambda *_: ops.scatter(operands, indices, updates, computation, Numbers(**changed)),
        [],
        error,
        "scatter:",
        f"({label})",
        phrase,
    )


@pytest.mark.parametrize(
    "computation",
    [
        lambda a, b: (a, b),
        lambda a, b: ops.lt(a, b),
        graph_of(ops.add, [np.zeros((), np.int32)] * 2),
        graph_of(ops.neg, [np.zeros((), np.float32)]),
    ],
)
def test_check_of_the_computation(computation):
    check_rejected(
        lambda x, i, u: ops.scatter(x, i, u, computation, ROWS),
        [X, INDICES, U],
        ShapeError,
        "(C17)",
        "(f32[], f32[]) -> (f32[])",
    )


def test_computations_are_closed():
    check_rejected(
        lambda x, i, u, s: ops.scatter(x, i, u, lambda a, b: a * s, ROWS),
        [X, INDICES, U, np.zeros((), np.float32)],
        TransformError,
        "traced value of the enclosing function",
    )


def test_tuples_are_no_operands():
    check_rejected(
        lambda x, i, u: ops.scatter(ops.tuple([x, x]), i, u, ops.add, ROWS),
        [X, INDICES, U],
        ShapeError,
        "operands[0] must be an array",
    )
