"""Functions of two operands, and logic, against jax.numpy: values, promotion, broadcasting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import assert_close, check, check_gradient, values

BF16 = ml_dtypes.bfloat16
F32, S32, U8, PRED, C64 = np.float32, np.int32, np.uint8, np.bool_, np.complex64

NUMERIC = [(F32, F32), (BF16, S32), (S32, U8), (C64, F32)]
REAL = [(F32, F32), (BF16, S32), (S32, S32), (U8, U8)]
INTEGER = [(S32, S32), (U8, U8), (S32, U8)]
BINARY = {
    "add": [*NUMERIC, (PRED, PRED)],
    "arctan2": [(F32, F32), (S32, U8), (BF16, BF16)],
    "bitwise_and": [*INTEGER, (PRED, PRED)],
    "bitwise_or": [*INTEGER, (PRED, PRED)],
    "bitwise_xor": [*INTEGER, (PRED, PRED)],
    "copysign": REAL,
    "divide": NUMERIC,
    "divmod": REAL,
    "equal": [*NUMERIC, (PRED, PRED)],
    "float_power": [(F32, F32)],
    "floor_divide": REAL,
    "fmax": REAL,
    "fmin": REAL,
    "fmod": REAL,
    "greater": [*NUMERIC, (C64, C64)],
    "greater_equal": NUMERIC,
    "heaviside": REAL,
    "hypot": REAL,
    "isclose": NUMERIC,
    "left_shift": [(S32, U8), (U8, U8)],
    "less": NUMERIC,
    "less_equal": [*NUMERIC, (C64, C64)],
    "logaddexp": [(F32, F32), (BF16, F32), (S32, S32)],
    "logaddexp2": [(F32, F32)],
    "logical_and": [*NUMERIC, (PRED, F32)],
    "logical_or": NUMERIC,
    "logical_xor": NUMERIC,
    "maximum": [*REAL, (PRED, PRED), (C64, C64)],
    "minimum": [*REAL, (PRED, PRED)],
    "multiply": [*NUMERIC, (PRED, PRED)],
    "not_equal": NUMERIC,
    "power": [(S32, U8), (C64, C64)],
    "remainder": REAL,
    "right_shift": [(S32, U8), (U8, U8)],
    "subtract": NUMERIC,
}
SHAPES = [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (0, 3))]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    for number, (first, second) in enumerate(BINARY[name]):
        sizes = SHAPES[number % len(SHAPES)]
        right = values(second, *sizes[1], seed=1)
        right = (
            np.abs(right).astype(second)
            if name in ("left_shift", "right_shift", "power")
            else right
        )
        check(name, values(first, *sizes[0]), right, jit=number == 0)


def test_power_of_floats() -> None:
    check("power", values(F32, 2, 3, low=0.1), values(F32, 3))
    check("power", values(F32, 2, 3), values(S32, 3))
    for exponent in (0, 1, 2, 3, -1, -2, 0.5, 2.5):
        check("power", values(F32, 2, 3, low=0.1), exponent)
        check("power", values(BF16, 2, 3, low=0.1), exponent)


NUMBERS = [2, 2.5, -1, True, np.float32(2), np.float64(2), np.int64(3), 1j]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda x: f"{type(x).__name__}-{x}")
def test_promotion_with_numbers(number: object) -> None:
    for dtype in (F32, BF16, S32, U8, PRED, C64):
        x = values(dtype, 2, 3)
        for name in ("add", "multiply", "divide", "maximum"):
            expected = jax.eval_shape(lambda x, name=name: getattr(jnp, name)(x, number), x)
            actual = mx.reference(lambda x, name=name: getattr(mnp, name)(x, number))(x)
            assert actual.dtype == expected.dtype
    check("where", values(PRED, 2, 3), x, number)


FLOATS_AND_ZERO = np.array([3.5, -3.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 7.0], F32)


@pytest.mark.parametrize(
    "name",
    [
        "floor_divide",
        "remainder",
        "fmod",
        "divide",
        "fmax",
        "fmin",
        "hypot",
        "copysign",
        "heaviside",
        "logaddexp",
    ],
)
def test_special_values(name: str) -> None:
    check(name, FLOATS_AND_ZERO[:, None], FLOATS_AND_ZERO)


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_integers_by_zero(name: str) -> None:
    check(name, np.array([3, -3, 0], S32), np.zeros(3, S32))


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "arctan2",
        "divide",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "maximum",
        "minimum",
        "multiply",
        "subtract",
        "fmax",
    ],
)
def test_gradient(name: str) -> None:
    check_gradient(name, values(F32, 2, 3, low=0.2), values(F32, 3, low=0.2, seed=1))


def test_gradient_of_logaddexp_at_infinities() -> None:
    for x, y in [(-np.inf, -np.inf), (np.inf, 0.0), (0.0, -np.inf), (np.inf, np.inf)]:
        actual = mx.grad(mnp.logaddexp, argnums=(0, 1))(x, y)
        expected = jax.grad(jnp.logaddexp, argnums=(0, 1))(x, y)
        np.testing.assert_allclose(np.array(actual), np.array(expected), rtol=1e-6)


def test_where() -> None:
    mask, x, y = values(PRED, 2, 3), values(F32, 3), values(S32, 2, 1)
    check("where", mask, x, y, jit=True)
    check("where", mask, 1.0, y)
    check("where", np.True_, x, y)
    check("where", values(F32, 3), x, 0)
    check_gradient("where", mask, x, values(F32, 2, 1))


def test_where_without_choices() -> None:
    x = np.array([[0, 1, 0], [2, 0, 3]], S32)
    check("where", x)
    check("nonzero", x)
    for size in (0, 2, 5):
        check("where", x, size=size, jit=True)
        check("nonzero", x, size=size, fill_value=-1)
    check("argwhere", x)
    check("flatnonzero", x)
    with pytest.raises(mx.ConcretizationError, match=r"nonzero: .*\n(.*\n)*.*Give size"):
        mx.jit(mnp.where)(x)
    with pytest.raises(ValueError, match="where: its arguments do not go together"):
        mnp.where(x, 1)


def test_select() -> None:
    x = values(F32, 2, 3)
    conditions = [x > 2, x > 0]
    check("select", conditions, [x, x * 2], 7)
    check("select", conditions, [np.float32(1), x])
    with pytest.raises(ValueError, match="one choice for each condition"):
        mnp.select(conditions, [x])
    check("select", np.stack([x > 1, x > 0]), np.stack([x, x * 2]), 7)
    stacked = mx.jit(mnp.select)(np.stack([x > 1, x > 0]), [x, 1.0])
    assert_close(stacked, mnp.select([x > 1, x > 0], [x, 1.0]))


def test_closeness_and_equality() -> None:
    x = np.array([1.0, np.nan, np.inf], F32)
    y = np.array([1.000001, np.nan, np.inf], F32)
    for equal_nan in (False, True):
        check("isclose", x, y, equal_nan=equal_nan)
        check("allclose", x, y, equal_nan=equal_nan, jit=equal_nan)
        check("array_equal", x, x, equal_nan=equal_nan)
    check("array_equal", x, x[:2])
    check("array_equiv", np.ones((2, 3), F32), np.ones(3, F32))
    check("array_equiv", np.ones((2, 3), F32), np.ones(2, F32))
    check("isin", values(S32, 2, 3), values(S32, 4, seed=1))


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(TypeError, match=r"maximum|max: the operands' dimensions do not broadcast"):
        mx.reference(mnp.maximum)(np.ones(2, F32), np.ones(3, F32))


def test_lists_are_refused() -> None:
    with pytest.raises(TypeError, match="an operand of type list is not an array"):
        mnp.add([1, 2], 3)


def test_eager_functions_return_jax_arrays() -> None:
    result = mnp.add(np.ones(3, F32), 2)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, 3)
