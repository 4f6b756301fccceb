"""Reductions, averages and running sums against jax.numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Row, Table, call, check, gradient, values
from tests.selection import diagonal

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


REDUCED = Table(
    {
        name: [
            *(
                call(name, values(dtype, 2, 3), **AXES[number % len(AXES)], jit=number == 0)
                for number, dtype in enumerate(types)
            ),
            call(name, values(types[0], 2, 3), axis=0),
        ]
        for name, types in REDUCTIONS.items()
    }
)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    REDUCED.check(name)


EMPTY_AXES = Table(
    {
        name: [call(name, values(F32, 2, 0, 3), axis=1), call(name, values(F32, 0, 3), axis=1)]
        for name in ["sum", "prod", "all", "any", "mean", "count_nonzero", "nansum"]
    }
)


@pytest.mark.parametrize("name", EMPTY_AXES.rows)
def test_empty_axes(name: str) -> None:
    EMPTY_AXES.check(name)


def with_initial(name: str) -> Iterator[Row]:
    for dtype in (F32, S32):
        x = values(dtype, 2, 3)
        yield call(name, x, axis=1, initial=2, where=MASK)
        yield call(name, x, initial=1)


WITH_INITIAL = Table({name: list(with_initial(name)) for name in ["sum", "prod", "max", "min"]})


@pytest.mark.parametrize("name", WITH_INITIAL.rows)
def test_initial_and_where(name: str) -> None:
    WITH_INITIAL.check(name)


MASKED = Table(
    {
        name: call(name, values(F32, 2, 3), axis=1, where=MASK)
        for name in ["mean", "var", "std", "all", "any", "nanmean"]
    }
)


@pytest.mark.parametrize("name", MASKED.rows)
def test_where(name: str) -> None:
    MASKED.check(name)


NANS = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]], F32)
OF_NANS = Table(
    {
        name: call(name, NANS, axis=1)
        for name in [
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
        ]
    }
)


@pytest.mark.parametrize("name", OF_NANS.rows)
def test_nan(name: str) -> None:
    OF_NANS.check(name)


def with_dtype(name: str) -> Iterator[Row]:
    yield call(name, values(S32, 2, 3), dtype=np.float32)
    yield call(name, values(BF16, 2, 3), dtype=np.float32)
    if name in ("sum", "prod"):
        yield call(name, values(F32, 2, 3), dtype=np.int32)
        yield call(name, values(U8, 2, 3), promote_integers=False)


WITH_DTYPE = Table({name: list(with_dtype(name)) for name in ["sum", "mean", "prod", "var"]})


@pytest.mark.parametrize("name", WITH_DTYPE.rows)
def test_dtype(name: str) -> None:
    WITH_DTYPE.check(name)


def test_options_of_var() -> None:
    x = values(F32, 3, 4)
    check(
        call("var", x, axis=0, ddof=1),
        call("std", x, correction=1),
        call("var", x, axis=1, mean=x.mean(1, keepdims=True)),
        call("var", x[:1], axis=0, ddof=1),
    )
    with pytest.raises(ValueError, match="ddof and correction are both given"):
        mnp.var(x, ddof=1, correction=1)


def test_average_with_weights() -> None:
    x = values(F32, 2, 3)
    check(
        call("average", x, axis=1, weights=np.float32([1, 2, 3]), returned=True),
        call("average", x, weights=np.abs(x)),
    )
    with pytest.raises(TypeError, match="the weights do not fit"):
        mnp.average(x, weights=np.ones(3, F32))


def test_covariance() -> None:
    x, y = values(F32, 3, 5), values(F32, 3, 5, seed=1)
    check(
        call("cov", x),
        call("cov", x[0], y[0], ddof=0),
        call("cov", x, y, rowvar=False),
        call("corrcoef", x),
    )


def extremes(name: str) -> Iterator[Row]:
    for dtype in (F32, S32, PRED, U8):
        x = values(dtype, 3, 4)
        yield call(name, x, axis=0)
        yield call(name, x, jit=dtype is F32)
    yield call(name, values(F32, 2, 3, 2), axis=-2, keepdims=True)
    yield call(name, values(F32, 2, 3), keepdims=True)
    # More than a few are reduced in another way.
    for dtype in (F32, BF16, S32):
        yield call(name, values(dtype, 5, 40), axis=1)
        yield call(name, values(dtype, 5, 40))


EXTREMES = Table({name: list(extremes(name)) for name in ["argmax", "argmin"]})


@pytest.mark.parametrize("name", EXTREMES.rows)
def test_index_of_extreme(name: str) -> None:
    EXTREMES.check(name)
    with pytest.raises(ValueError, match=f"{name}: the array is empty"):
        getattr(mnp, name)(np.ones((2, 0)), axis=1)


@pytest.mark.parametrize("count", [1, 2, 3, 20, 130])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_extreme_among_equals_and_nan(name: str, count: int) -> None:
    numbers = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
    rows = np.array(list(product(numbers, repeat=min(count, 3))), F32)
    rows = np.concatenate([rows, np.zeros((len(rows), count - rows.shape[1]), F32)], 1)
    # XLA:CPU's library leaves NaN out of the extremes of more than 4,096 elements.
    wanted, function = getattr(np, name)(rows, 1), getattr(mnp, name)
    np.testing.assert_array_equal(function(rows, 1), wanted)
    np.testing.assert_array_equal(mx.reference(function)(rows, 1), wanted)


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


SCANNED = Table(
    {
        name: [
            *(
                call(name, values(dtype, 2, 5), **AXES[number % 2], jit=number == 0)
                for number, dtype in enumerate(types)
            ),
            call(name, values(F32, 2, 5), axis=0, dtype=np.int32),
            call(name, np.float32(3)),
            call(name, values(F32, 2, 0), axis=1),
        ]
        for name, types in CUMULATIVE.items()
    }
)


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative(name: str) -> None:
    SCANNED.check(name)


LONG_SCANS = Table(
    {
        size: call("cumprod", values(F32, size, low=0.99, high=1.01), units=size)
        for size in [1, 2, 255, 256, 257, 1000]
    }
)


@pytest.mark.parametrize("size", LONG_SCANS.rows)
def test_long_scans(size: int) -> None:
    LONG_SCANS.check(size)
    x = values(F32, size, low=0.99, high=1.01)
    np.testing.assert_array_equal(mx.reference(mnp.cummax)(x), np.maximum.accumulate(x))
    np.testing.assert_array_equal(mx.reference(mnp.cummin)(x), np.minimum.accumulate(x))


def test_cumulative_of_the_array_api() -> None:
    x = values(U8, 2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        check(call(name, x, axis=1, include_initial=True), call(name, x[0]))
    with pytest.raises(ValueError, match="axis is required for an array of"):
        mnp.cumulative_sum(x)


GRADIENTS = Table(
    {
        name + str(options): gradient(name, values(F32, 2, 3, low=0.5), **options)
        for name in [
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
        for options in ({}, {"axis": 1})
    }
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def test_gradient_of_nanvar_has_no_nan() -> None:
    slope = mx.jit(mx.grad(lambda x: mnp.nanvar(x)))(np.float32([1, np.nan, 3]))
    np.testing.assert_allclose(slope, [-1, 0, 1])


def test_gradient_of_cumprod_through_zero() -> None:
    check(gradient("cumprod", np.float32([2, 0, 3, 0, 4])))


# Later factors overflow among themselves, which a block of the scan may multiply first.
ZERO_FIRST = {
    "at once": [0, 3e38, 3e38, 2],
    "after others": [2, 3, 0, 3e38, -3e38, 2],
    "among few": [2, 0, *[3e38] * 15, -2, *[-3e38] * 15],
    "among more": [2, 0, *[3e38] * 21, -2, *[-3e38] * 25],
    "in another block": [0, *[1] * 300, *[3e38] * 20],
    "in a long row": [-0.0, *[1] * 3000, *[-3e38] * 20],
    "a negative one": [2, -0.0, 3e38, -3e38, 0, *[-3e38] * 15],
    "not finite": [0, 2, np.inf, 3],
    "not finite among few": [0, *[3e38] * 20, np.inf, 3],
    "not finite in a long row": [0, *[3e38] * 3000, -np.inf, 3],
    "not a number": [0, 2, np.nan, 3],
}


@pytest.mark.parametrize(
    ("function", "name"), diagonal(["cumprod", "cumulative_prod", "nancumprod"], [*ZERO_FIRST])
)
def test_running_products_stay_zero(name: str, function: str) -> None:
    x = F32(ZERO_FIRST[name])
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = (np.nancumprod if function == "nancumprod" else np.cumprod)(x)
    run = getattr(mnp, function)
    for evaluate in (mx.reference, mx.jit):
        np.testing.assert_array_equal(np.real(evaluate(run)(x.astype(C64))), wanted)
        found = evaluate(run)(x)
        np.testing.assert_array_equal(found, wanted)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])
    columns = np.stack([x, np.ones_like(x)], 1)
    found = mx.jit(lambda x: run(x, axis=0))(columns)
    np.testing.assert_array_equal(found, np.stack([wanted, np.ones_like(x)], 1))


@pytest.mark.parametrize("size", [4, 20, 70])
def test_running_products_that_have_overflowed_do_not_become_zero(size: int) -> None:
    x = F32([3e38, 3e38, 0, *[2] * (size - 3)])
    np.testing.assert_array_equal(
        mx.jit(mnp.cumprod)(x), F32([3e38, np.inf, *[np.nan] * (size - 2)])
    )


def test_derivatives_of_running_products_at_zero() -> None:
    def last(x):
        return mnp.cumprod(x)[-1]

    x = F32([0, 3e38, 3e38, 2])
    for derivative in (mx.grad(last), mx.jacfwd(last)):
        np.testing.assert_array_equal(mx.jit(derivative)(x), [np.inf, 0, 0, 0])
    x = F32([2, 0, 3, 4])
    np.testing.assert_allclose(mx.jit(mx.grad(last))(x), [0, 24, 0, 0])
    second = np.zeros((4, 4))
    second[1] = second[:, 1] = [12, 0, 8, 6]
    np.testing.assert_allclose(mx.jit(mx.hessian(last))(x), second)


ERRORS = [
    ("sum", {"axis": 2}, "axis 2 is out of bounds for an array of 2 dimensions"),
    ("sum", {"axis": (0, 0)}, "an axis is repeated"),
    ("sum", {"out": np.ones(2)}, "out is not supported"),
    ("max", {"where": MASK}, "initial is required if no element may count"),
    ("mean", {"axis": "x"}, "axis is not an integer"),
]


@pytest.mark.parametrize(("name", "options", "message"), ERRORS)
def test_errors(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        getattr(mnp, name)(np.ones((2, 3), F32), **options)


def test_masks_must_be_boolean() -> None:
    with pytest.raises(TypeError, match="sum: where is not an array of booleans"):
        mnp.sum(np.ones(3), where=np.ones(3))
