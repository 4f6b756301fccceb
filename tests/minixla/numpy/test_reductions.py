"""Reductions, averages and running sums against jax.numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import check, check_gradient, values

BF16 = ml_dtypes.bfloat16
F32, F16, S32, U8, PRED, C64 = np.float32, np.float16, np.int32, np.uint8, np.bool_, np.complex64

MASK = np.array([[True, False, True], [False, False, True]])
REDUCTIONS = {
    "all": [F32, PRED, C64],
    "any": [S32, PRED],
    "average": [F32, S32],
    "count_nonzero": [F32, PRED],
    "max": [F32, BF16, S32, PRED],
    "mean": [F32, BF16, S32, PRED, C64],
    "min": [F32, U8, PRED],
    "nanmax": [F32, S32],
    "nanmean": [F32, S32],
    "nanmin": [F32],
    "nanprod": [F32],
    "nanstd": [F32],
    "nansum": [F32, S32],
    "nanvar": [F32, S32],
    "prod": [F32, BF16, U8, PRED, C64],
    "ptp": [F32, S32],
    "std": [F32, F16, S32],
    "sum": [F32, BF16, S32, U8, PRED, C64],
    "var": [F32, BF16, S32, C64],
}
AXES = [{}, {"axis": 1}, {"axis": (0, -1), "keepdims": True}, {"axis": 0}, {"axis": ()}]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    for number, dtype in enumerate(REDUCTIONS[name]):
        check(name, values(dtype, 2, 3), **AXES[number % len(AXES)], jit=number == 0)
    check(name, values(REDUCTIONS[name][0], 2, 3), axis=0)


@pytest.mark.parametrize("name", ["sum", "prod", "all", "any", "mean", "count_nonzero", "nansum"])
def test_empty_axes(name: str) -> None:
    check(name, values(F32, 2, 0, 3), axis=1)
    check(name, values(F32, 0, 3), axis=1)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_and_where(name: str) -> None:
    for dtype in (F32, S32):
        x = values(dtype, 2, 3)
        check(name, x, axis=1, initial=2, where=MASK)
        check(name, x, initial=1)


@pytest.mark.parametrize("name", ["mean", "var", "std", "all", "any", "nanmean"])
def test_where(name: str) -> None:
    check(name, values(F32, 2, 3), axis=1, where=MASK)


NANS = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]], F32)


@pytest.mark.parametrize(
    "name",
    [
        "max",
        "min",
        "argmax",
        "argmin",
        "nanmax",
        "nanmin",
        "nansum",
        "nanprod",
        "nanmean",
        "nanvar",
        "nanargmax",
        "nanargmin",
    ],
)
def test_nan(name: str) -> None:
    check(name, NANS, axis=1)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var"])
def test_dtype(name: str) -> None:
    check(name, values(S32, 2, 3), dtype=np.float32)
    check(name, values(BF16, 2, 3), dtype=np.float32)
    if name in ("sum", "prod"):
        check(name, values(F32, 2, 3), dtype=np.int32)
        check(name, values(U8, 2, 3), promote_integers=False)


def test_options_of_var() -> None:
    x = values(F32, 3, 4)
    check("var", x, axis=0, ddof=1)
    check("std", x, correction=1)
    check("var", x, axis=1, mean=x.mean(1, keepdims=True))
    check("var", x[:1], axis=0, ddof=1)
    with pytest.raises(ValueError, match="ddof and correction are both given"):
        mnp.var(x, ddof=1, correction=1)


def test_average_with_weights() -> None:
    x = values(F32, 2, 3)
    check("average", x, axis=1, weights=np.float32([1, 2, 3]), returned=True)
    check("average", x, weights=np.abs(x))
    with pytest.raises(TypeError, match="the weights do not fit"):
        mnp.average(x, weights=np.ones(3, F32))


def test_covariance() -> None:
    x, y = values(F32, 3, 5), values(F32, 3, 5, seed=1)
    check("cov", x)
    check("cov", x[0], y[0], ddof=0)
    check("cov", x, y, rowvar=False)
    check("corrcoef", x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_extreme(name: str) -> None:
    for dtype in (F32, S32, PRED, U8):
        x = values(dtype, 3, 4)
        check(name, x, axis=0)
        check(name, x, jit=dtype is F32)
    check(name, values(F32, 2, 3, 2), axis=-2, keepdims=True)
    check(name, values(F32, 2, 3), keepdims=True)
    with pytest.raises(ValueError, match=f"{name}: there is no element"):
        getattr(mnp, name)(np.ones((2, 0)), axis=1)


def test_index_of_extreme_has_no_derivative() -> None:
    x = values(F32, 4)
    slope = mx.reference(mx.grad(lambda x: x[mnp.argmax(x)] * 2))(x)
    np.testing.assert_array_equal(slope, 2.0 * (np.arange(4) == x.argmax()))


CUMULATIVE = {
    "cumprod": [F32, S32, PRED],
    "cumsum": [F32, BF16, S32, U8, PRED],
    "nancumprod": [F32],
    "nancumsum": [F32],
}


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative(name: str) -> None:
    for number, dtype in enumerate(CUMULATIVE[name]):
        check(name, values(dtype, 2, 5), **AXES[number % 2], jit=number == 0)
    check(name, values(F32, 2, 5), axis=0, dtype=np.int32)
    check(name, np.float32(3))
    check(name, values(F32, 2, 0), axis=1)


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 1000])
def test_long_scans(size: int) -> None:
    x = values(F32, size, low=0.99, high=1.01)
    check("cumprod", x, units=size)
    np.testing.assert_array_equal(mx.reference(mnp.cummax)(x), np.maximum.accumulate(x))
    np.testing.assert_array_equal(mx.reference(mnp.cummin)(x), np.minimum.accumulate(x))


def test_cumulative_of_the_array_api() -> None:
    x = values(U8, 2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        check(name, x, axis=1, include_initial=True)
        check(name, x[0])
    with pytest.raises(ValueError, match="axis is not given"):
        mnp.cumulative_sum(x)


def _gradient_cases() -> list:
    names = [
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "var",
        "std",
        "nansum",
        "nanmean",
        "average",
        "ptp",
        "cumsum",
        "cumprod",
    ]
    return [(name, axis) for name in names for axis in ({}, {"axis": 1})]


@pytest.mark.parametrize(("name", "options"), _gradient_cases())
def test_gradient(name: str, options: dict) -> None:
    check_gradient(name, values(F32, 2, 3, low=0.5), **options)


def test_gradient_of_nanvar_has_no_nan() -> None:
    slope = mx.grad(lambda x: mnp.nanvar(x))(np.float32([1, np.nan, 3]))
    np.testing.assert_allclose(slope, [-1, 0, 1])


def test_gradient_of_cumprod_through_zero() -> None:
    check_gradient("cumprod", np.float32([2, 0, 3, 0, 4]))


ERRORS = [
    ("sum", {"axis": 2}, "axis 2 is out of bounds for an array of 2 dimensions"),
    ("sum", {"axis": (0, 0)}, "an axis is named twice"),
    ("sum", {"out": np.ones(2)}, "out is not supported"),
    ("max", {"where": MASK}, "there may be no element"),
    ("mean", {"axis": "x"}, "axis is not an integer"),
]


@pytest.mark.parametrize(("name", "options", "message"), ERRORS)
def test_errors(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        getattr(mnp, name)(np.ones((2, 3), F32), **options)


def test_masks_must_be_boolean() -> None:
    with pytest.raises(TypeError, match="sum: where is not an array of booleans"):
        mnp.sum(np.ones(3), where=np.ones(3))
