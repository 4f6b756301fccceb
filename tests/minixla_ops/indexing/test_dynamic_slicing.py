"""DynamicSlice and DynamicUpdateSlice: clamping, index types, derivatives, batches of indices."""

from __future__ import annotations

import functools

import jax
import ml_dtypes
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
from tests.oracles import INTEGERS


# JAX takes negative indices for Python's, unless told not to; XLA clamps them.
def jax_cut(x, starts, sizes):
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


def jax_put(x, update, starts):
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def counted(*sizes, dtype=np.float32):
    return np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)


def index(*values, dtype=np.int32):
    return [np.array(value).astype(dtype) for value in values]


def cut(sizes):
    return lambda x, *starts: ops.dynamic_slice(x, starts, sizes)


def put(x, update, *starts):
    return ops.dynamic_update_slice(x, update, starts)


# Operand, start indices, sizes of the box: ranks 0-4, sizes 0 and 1, starts in and out of bounds.
CASES = {
    "scalar": ((), (), ()),
    "vector": ((5,), (2,), (2,)),
    "below": ((5,), (-3,), (2,)),
    "above": ((5,), (4,), (2,)),
    "extremes": ((4, 3), (2**31 - 1, -(2**31)), (2, 2)),
    "whole": ((4, 3), (1, 1), (4, 3)),
    "one element": ((4, 3), (3, 2), (1, 1)),
    "empty box": ((4, 3), (3, 1), (0, 2)),
    "empty operand": ((0, 3), (1, 1), (0, 2)),
    "rank 3": ((2, 3, 4), (1, 2, 2), (1, 2, 3)),
    "rank 4": ((2, 1, 3, 2), (0, 5, 1, 1), (2, 1, 2, 1)),
}


CUTS = Together(
    {
        case: (cut(box), [counted(*sizes), *index(*starts)], {})
        for case, (sizes, starts, box) in CASES.items()
    }
)
PUTS = Together(
    {
        case: (put, [counted(*sizes), counted(*box) + 100, *index(*starts)], {})
        for case, (sizes, starts, box) in CASES.items()
    }
)


@functools.cache
def by_jax_for_all():
    """From a case and whether it cuts or puts to what JAX gives."""
    cuts = {
        (case, "cut"): (lambda x, *s, box=box: jax_cut(x, s, box), CUTS.rows[case][1])
        for case, (_, _, box) in CASES.items()
    }
    puts = {
        (case, "put"): (lambda x, u, *s: jax_put(x, u, s), PUTS.rows[case][1]) for case in CASES
    }
    return compiled_rows(cuts | puts, jit=jax.jit)


@pytest.mark.parametrize("case", CASES)
def test_dynamic_slice(case):
    (result,) = CUTS.check(case)
    np.testing.assert_array_equal(result, by_jax_for_all()((case, "cut")))


@pytest.mark.parametrize("case", CASES)
def test_dynamic_update_slice(case):
    (result,) = PUTS.check(case)
    np.testing.assert_array_equal(result, by_jax_for_all()((case, "put")))


def scalar_starts(dtype):
    info = ml_dtypes.iinfo(dtype)
    return np.array([dtype.type(int(value)) for value in (info.min, 0, 1, info.max)], dtype)


def at_each(x, *starts):
    slices = [ops.dynamic_slice(x, [start], (2,)) for start in starts]
    return slices + [ops.dynamic_update_slice(x, -slices[0], [start]) for start in starts]


# Past the type's range, the limit of the clamp must not wrap into it.
INDEX_TYPES = Together(
    {
        (name, size): (
            at_each,
            [counted(size, dtype=np.int32), *scalar_starts(dtype)],
            # StableHLO's interpreter takes large unsigned indices for negative ones; XLA does not.
            {"interpreter": not name.startswith("ui") or ml_dtypes.iinfo(dtype).bits < 32},
        )
        for name, dtype in INTEGERS
        for size in (3, 200, 70000)
    }
)


@pytest.mark.parametrize(("name", "dtype"), INTEGERS, ids=[name for name, _ in INTEGERS])
@pytest.mark.parametrize("size", [3, 200, 70000])
def test_index_of_every_integer_type(name, dtype, size):
    results = INDEX_TYPES.check((name, size))
    for start, result in zip(scalar_starts(dtype), results, strict=False):
        first = min(max(int(start), 0), size - 2)
        assert result.tolist() == [first, first + 1]


def test_fact_dynamic_slice():
    def reference(x, starts, sizes):
        return mx.reference(cut(sizes))(x, *index(*starts)).tolist()

    a, b = counted(5), counted(4, 3)
    assert reference(a, [2], (2,)) == [2, 3]
    assert reference(b, [2, 1], (2, 2)) == [[7, 8], [10, 11]]
    assert reference(a, [4], (2,)) == [3, 4]
    assert reference(a, [-1], (2,)) == [0, 1]


def test_fact_x5_index_0_is_clamped_too():
    assert mx.reference(cut((2, 1)))(counted(4, 3), *index(9, 0)).tolist() == [[6], [9]]


def test_fact_dynamic_update_slice():
    a = mx.reference(put)(counted(5), np.array([5, 6], np.float32), *index(2))
    assert a.tolist() == [0, 1, 5, 6, 4]
    update = np.array([[12, 13], [14, 15], [16, 17]], np.float32)
    b = mx.reference(put)(counted(4, 3), update, *index(1, 1))
    assert b.tolist() == [[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]


def test_a_scalar_that_another_rule_gave_is_updated():
    x = np.float32([1, 2])

    def function(x):
        return ops.dynamic_update_slice(ops.reduce([x], [np.float32(0)], ops.add, [0]), x[0], [])

    assert mx.reference(function)(x) == 1

    def step(carry, element):
        return carry, ops.dynamic_update_slice(element, carry, [])

    found = mx.reference(lambda x: mx.scan(step, x[1], x)[1])(x)
    np.testing.assert_array_equal(found, [2, 2])


def test_python_ints_take_the_type_of_the_other_indices():
    graph = graph_of(
        lambda x, s: ops.dynamic_slice(x, [1, s], (1, 1)), [counted(2, 3), np.uint8(1)]
    )
    assert "u8[]" in str(graph)
    eager = ops.dynamic_slice(counted(2, 3), [1, 2], (1, 1))
    assert eager.tolist() == [[5]]


def rows_of_derivatives(case):
    sizes, starts, box = CASES[case]
    operand = counted(*sizes, dtype=np.float64)
    update = counted(*box, dtype=np.float64) + 0.5
    starts = index(*starts)
    return {
        (case, "cut"): (
            cut(box),
            [operand, *starts],
            lambda x, *s: jax_cut(x, s, box),
            {"order": 1},
        ),
        (case, "put"): (
            put,
            [operand, update, *starts],
            lambda x, u, *s: jax_put(x, u, s),
            {"order": 1},
        ),
    }


DERIVATIVES = DerivativesTogether(
    {name: row for case in CASES for name, row in rows_of_derivatives(case).items()}
)


@pytest.mark.parametrize("row", DERIVATIVES.rows, ids="-".join)
def test_derivatives(row):
    DERIVATIVES.check(row)


def test_derivatives_of_derivatives():
    def function(x, u, s, multiply, take, place):
        return take(place(multiply(x, x), multiply(u, u), (s, s)), (s, s), (2, 2))

    check_derivatives(
        lambda x, u, s: function(x, u, s, ops.mul, ops.dynamic_slice, ops.dynamic_update_slice),
        [counted(3, 4, dtype=np.float64), counted(2, 1, dtype=np.float64) + 1, np.int32(1)],
        lambda x, u, s: function(x, u, s, lax.mul, jax_cut, jax_put),
    )


# The batch's other members are shuffles of the first, so indices are arrays of one element there.


@pytest.mark.parametrize("case", [case for case in CASES if case != "extremes"])
def test_batching(case):
    sizes, starts, box = CASES[case]
    check_batching(cut(box), [counted(*sizes), *index(*starts)])
    check_batching(put, [counted(*sizes), counted(*box) + 100, *index(*starts)])


def both(x, u, s):
    return ops.dynamic_slice(x, [s], (2,)), ops.dynamic_update_slice(x, u, [s])


def members(dtype, axes):
    """The operands of `both`, those with an axis in batches of four."""
    info = ml_dtypes.iinfo(dtype)
    starts = np.array([int(info.min), 0, 2, int(info.max)]).astype(dtype)
    operands = counted(4, 200), counted(4, 2) - 50, starts
    return [x if axis == 0 else x[1] for x, axis in zip(operands, axes, strict=True)]


BATCHES = Together(
    {
        (np.dtype(dtype).name, axes): (
            mx.vmap(both, in_axes=axes),
            members(dtype, axes),
            {"interpreter": False},
        )
        for dtype in (np.int8, np.uint8, np.int32, np.uint32, ml_dtypes.int4)
        for axes in [(0, 0, 0), (None, None, 0), (0, None, 0), (None, 0, 0)]
    }
)


@pytest.mark.parametrize("row", BATCHES.rows, ids=str)
def test_batch_of_different_indices(row):
    _, axes = row
    _, given, _ = BATCHES.rows[row]
    rows = [
        mx.reference(both)(*[x[k] if axis == 0 else x for x, axis in zip(given, axes, strict=True)])
        for k in range(4)
    ]
    expected = map(np.stack, zip(*rows, strict=True))
    for result, stacked in zip(BATCHES.check(row), expected, strict=True):
        np.testing.assert_array_equal(result, stacked)


@pytest.mark.parametrize("axes", [(None, None, 0), (0, None, 0), (1, 1, 0), (0, None, None)])
def test_empty_batch_of_indices(axes):
    members = [counted(5), counted(2), np.int32(1)]
    operands = [
        each if at is None else np.expand_dims(each, at).repeat(0, at)
        for each, at in zip(members, axes, strict=True)
    ]
    results = check_operation(mx.vmap(both, in_axes=axes), operands)
    assert [each.shape for each in results] == [(0, 2), (0, 5)]


def test_batches_of_indices_are_one_gather_and_one_scatter():
    operands = [counted(5), counted(2), counted(3, dtype=np.int32)]
    graph = graph_of(mx.vmap(both, in_axes=(None, None, 0)), operands)
    names = [each.op.name for each in graph.instructions]
    assert (names.count("Gather"), names.count("Scatter")) == (1, 1)


def test_derivative_of_a_batch_of_indices():
    starts = np.array([3, -1, 1], np.int32)

    def function(x, u, take, place, batch):
        def one(x, u, s):
            return take(place(x, u, [s]), [s], (3,))

        return batch(one, in_axes=(None, 0, 0))(x, u, starts)

    check_derivatives(
        lambda x, u: function(x, u, ops.dynamic_slice, ops.dynamic_update_slice, mx.vmap),
        [counted(5, dtype=np.float64), counted(3, 2, dtype=np.float64)],
        lambda x, u: function(x, u, jax_cut, jax_put, jax.vmap),
        order=1,
    )


X, U, ONE = counted(4, 3), counted(2, 2), np.int32(1)
REJECTED = {
    "dynamic_slice C1 count": (lambda x, i: ops.dynamic_slice(x, [i], (1, 1)), [X, ONE], "1 start"),
    "dynamic_slice C1 float": (
        lambda x, i: ops.dynamic_slice(x, [i, i], (1, 1)), [X, np.float32(1)], "integer scalar",
    ),
    "dynamic_slice C1 pred": (
        lambda x, i: ops.dynamic_slice(x, [i, i], (1, 1)), [X, np.bool_(1)], "integer scalar",
    ),
    "dynamic_slice C1 rank": (
        lambda x, i: ops.dynamic_slice(x, [i, i], (1, 1)), [X, counted(1, dtype=int)], "scalar",
    ),
    "dynamic_slice C1 types": (
        lambda x, i, j: ops.dynamic_slice(x, [i, j], (1, 1)), [X, ONE, np.uint8(1)], "u8[]",
    ),
    "dynamic_slice C1 int": (
        lambda x, i: ops.dynamic_slice(x, [i, -1], (1, 1)), [X, np.uint8(1)], "same integer type",
    ),
    "dynamic_slice C2 count": (
        lambda x, i: ops.dynamic_slice(x, [i, i], (1,)), [X, ONE], "1 dimensions",
    ),
    "dynamic_slice C2 size": (
        lambda x, i: ops.dynamic_slice(x, [i, i], (1, 4)), [X, ONE], "size 4 in dimension 1",
    ),
    "dynamic_update_slice C1": (lambda x, u: ops.dynamic_update_slice(x, u, []), [X, U], "0 start"),
    "dynamic_update_slice C2": (
        lambda x, u, i: ops.dynamic_update_slice(x, u, [i, i]), [X, U.astype(int), ONE], "s64[2,2]",
    ),
    "dynamic_update_slice C3 rank": (
        lambda x, u, i: ops.dynamic_update_slice(x, u, [i, i]), [X, counted(2), ONE], "f32[2]",
    ),
    "dynamic_update_slice C3 size": (
        lambda x, u, i: ops.dynamic_update_slice(x, u, [i, i]), [X, counted(5, 1), ONE], "size 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, operands, phrase = REJECTED[case]
    name, label = case.split()[:2]
    check_rejected(function, operands, ShapeError, f"{name}: ({label})", phrase)


def test_negative_size_is_rejected():
    check_rejected(cut((-1, 1)), [X, ONE, ONE], AttributeValueError, "must be >= 0")
