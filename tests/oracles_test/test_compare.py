"""Distances in representable values, against the definition and against NumPy's `nextafter`."""

import ml_dtypes
import numpy as np
import pytest

from tests.oracles import (
    ALL_TYPES,
    FLOATS,
    all_values,
    assert_same,
    edge_pairs,
    edge_values,
    flush_denormals,
    ulp_distance,
)

NARROW = [row for row in FLOATS if row[1].itemsize <= 2]


@pytest.mark.parametrize(("name", "dtype"), ALL_TYPES)
def test_distance_is_zero_only_between_equals_and_symmetric(name, dtype):
    lhs, rhs = edge_pairs(dtype)
    distance = ulp_distance(lhs, rhs, signed_zeros=True)
    same = np.arange(len(edge_values(dtype))) * (len(edge_values(dtype)) + 1)
    assert (distance[same] == 0).all()
    np.testing.assert_array_equal(distance, ulp_distance(rhs, lhs, signed_zeros=True))
    with np.errstate(invalid="ignore"):
        both_nan = (lhs != lhs) & (rhs != rhs)
    assert ((distance > 0) | (lhs == rhs) | both_nan).all()


@pytest.mark.parametrize(("name", "dtype"), NARROW)
def test_neighbours_are_one_step_apart(name, dtype):
    with np.errstate(invalid="ignore"):
        numbers = np.unique(all_values(dtype).astype(np.float64))
        ordered = numbers[~np.isnan(numbers)].astype(dtype)
    np.testing.assert_array_equal(ulp_distance(ordered[1:], ordered[:-1]), 1)
    assert ulp_distance(ordered[:1], ordered[-1:]) == len(ordered) - 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_are_those_of_nextafter(dtype):
    values = edge_values(dtype)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        up = np.nextafter(values, dtype(np.inf))
    np.testing.assert_array_equal(ulp_distance(up, values), 1)
    assert ulp_distance(dtype(-np.inf), dtype(np.inf)) > 1e9


@pytest.mark.parametrize(
    ("lhs", "rhs", "plain", "signed"),
    [
        (0.0, -0.0, 0, np.inf),
        (np.nan, -np.nan, 0, 0),
        (np.nan, 1.0, np.inf, np.inf),
        (np.inf, np.inf, 0, 0),
        (np.inf, np.finfo(np.float32).max, 1, 1),
        (-1e-45, 1e-45, 2, 2),
    ],
)
def test_special_values(lhs, rhs, plain, signed):
    arrays = np.float32(lhs), np.float32(rhs)
    assert ulp_distance(*arrays) == plain
    assert ulp_distance(*arrays, signed_zeros=True) == signed


def test_integers_are_subtracted_without_overflow():
    assert ulp_distance(np.int64(-(2**63)), np.int64(2**63 - 1)) == 2.0**64
    assert ulp_distance(np.uint64(0), np.uint64(2**64 - 1)) == 2.0**64
    assert ulp_distance(ml_dtypes.int4(-8), ml_dtypes.int4(7)) == 15
    assert ulp_distance(np.bool_(True), np.bool_(False)) == 1


def test_complex_parts_and_norm():
    expected = np.complex64([1 + 1e-9j, complex(1, -0.0), complex(np.inf, 1)])
    actual = np.complex64([1 + 1.1e-9j, 1, complex(np.inf, 2)])
    partwise = ulp_distance(actual, expected, signed_zeros=True)
    assert partwise[0] > 1e5
    assert partwise[1] == np.inf
    normwise = ulp_distance(actual, expected, signed_zeros=True, normwise=True)
    assert 0 < normwise[0] < 1e-2
    assert normwise[1] == 0
    assert normwise[2] == 2.0**23  # From 1 to 2.
    next_up = np.complex64([np.nextafter(np.float32(3), np.float32(4)) + 4j])
    assert ulp_distance(next_up, np.complex64([3 + 4j]), normwise=True) == 0.5


def test_assert_same_reports_the_worst_element():
    inputs = [np.float32([[3, 4]]), np.float32(7)]
    actual, expected = np.float32([[1, 2]]), np.float32([[1, 2.0000002]])
    assert_same(actual, expected, ulp=1)
    with pytest.raises(AssertionError) as error:
        assert_same(actual, expected, inputs=inputs, name="add")
    assert str(error.value) == (
        "add: 1 of 2 elements differ by more than 0 ulp; the worst by 1, at [0, 1] of inputs "
        "4.0 (0x40800000)\n  actual   2.0 (0x40000000)\n  expected 2.0000002 (0x40000001)"
    )


def test_assert_same_wants_one_type_and_shape_and_the_signs_of_zeros():
    with pytest.raises(AssertionError, match=r"float32\[1\] instead of float64\[1\]"):
        assert_same(np.zeros(1, np.float32), np.zeros(1))
    with pytest.raises(AssertionError, match=r"f: int32\[1\] instead of int32\[\]"):
        assert_same(np.zeros(1, np.int32), np.int32(0), name="f")
    with pytest.raises(AssertionError, match="worst by inf"):
        assert_same(np.float64(-0.0), np.float64(0.0), ulp=5)
    assert_same(np.float64(-0.0), np.float64(0.0), signed_zeros=False)
    with pytest.raises(TypeError, match="cannot be compared"):
        ulp_distance(np.zeros(1), np.zeros(2))


def test_flush_denormals_keeps_signs_and_everything_else():
    for dtype in (np.float32, np.float64, ml_dtypes.bfloat16):
        values = edge_values(dtype)
        smallest = ml_dtypes.finfo(dtype).smallest_normal
        with np.errstate(invalid="ignore"):
            expected = np.where(abs(values) < smallest, np.copysign(dtype(0), values), values)
        assert_same(flush_denormals(values), expected.astype(dtype))
        assert (flush_denormals(values) != values).any()
    assert_same(flush_denormals(np.complex64(-1e-40 + 2j)), np.complex64(complex(-0.0, 2)))
