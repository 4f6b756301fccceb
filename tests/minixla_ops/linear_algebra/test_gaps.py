"""GapQuotient: quotients, at zeros of either operand, and their derivatives."""

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.errors import ShapeError
from tests.harness import check_batching, check_derivatives, check_operation, check_rejected

X = np.array([1.5, -2, 0, 0, 3, 0, np.nan, np.inf, 0])
GAP = np.array([2.0, -4, 5, 0, 0, -0.0, 1, 3, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex64])
def test_values(dtype):
    x, gap = X[:7].astype(dtype), GAP[:7].astype(dtype)
    (found,) = check_operation(ops.gap_quotient, [x, gap], ulp=2, normwise=True)
    np.testing.assert_array_equal(found, np.array([0.75, 0.5, 0, 0, np.nan, 0, np.nan], dtype))


def test_what_is_0_is_0_over_anything():
    (found,) = check_operation(ops.gap_quotient, [X, GAP])
    np.testing.assert_array_equal(found[-2:], [np.inf, 0])


def test_derivatives():
    rng = np.random.default_rng(0)
    x, gap = rng.standard_normal((2, 4)) + 3
    check_derivatives(ops.gap_quotient, [x, gap], lambda x, gap: x / gap)
    check_derivatives(ops.gap_quotient, [x + 1j, gap - 2j], lambda x, gap: x / gap, order=1)
    check_batching(ops.gap_quotient, [x, gap])


def test_rejected():
    quotient = lambda x, gap: ops.gap_quotient(x, gap)  # noqa: E731
    pair = np.zeros(2), np.zeros(3)
    check_rejected(quotient, pair, ShapeError, "gap_quotient: (C1)", "differ in dimensions")
    whole = np.zeros(2, np.int32), np.zeros(2, np.int32)
    check_rejected(quotient, whole, ShapeError, "gap_quotient: (C2)", "s32")
