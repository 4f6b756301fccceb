"""Functions of two operands, and logic, against jax.numpy: values, promotion, broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.harness import QUICKLY, by_jax
from tests.minixla.numpy.tables import Row, Table, assert_close, call, check, gradient, values

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


def of_types(name: str) -> Iterator[Row]:
    for number, (first, second) in enumerate(BINARY[name]):
        sizes = SHAPES[number % len(SHAPES)]
        right = values(second, *sizes[1], seed=1)
        if name in ("left_shift", "right_shift", "power"):
            right = np.abs(right).astype(second)
        yield call(name, values(first, *sizes[0]), right, jit=number == 0)


VALUES = Table({name: list(of_types(name)) for name in BINARY})


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    VALUES.check(name)


def test_power_of_floats() -> None:
    check(
        call("power", values(F32, 2, 3, low=0.1), values(F32, 3)),
        call("power", values(F32, 2, 3), values(S32, 3)),
        *(
            call("power", values(dtype, 2, 3, low=0.1), exponent)
            for exponent in (0, 1, 2, 3, -1, -2, 0.5, 2.5)
            for dtype in (F32, BF16)
        ),
    )


NUMBERS = [2, 2.5, -1, True, np.float32(2), np.float64(2), np.int64(3), 1j]
CHOICES = Table(
    {
        f"{type(number).__name__}-{number}": call(
            "where", values(PRED, 2, 3), values(C64, 2, 3), number
        )
        for number in NUMBERS
    }
)


@pytest.mark.parametrize(("row", "number"), list(zip(CHOICES.rows, NUMBERS, strict=True)))
def test_promotion_with_numbers(row: str, number: object) -> None:
    for dtype in (F32, BF16, S32, U8, PRED, C64):
        x = values(dtype, 2, 3)
        for name in ("add", "multiply", "divide", "maximum"):
            expected = jax.eval_shape(lambda x, name=name: getattr(jnp, name)(x, number), x)
            actual = mx.reference(lambda x, name=name: getattr(mnp, name)(x, number))(x)
            assert actual.dtype == expected.dtype
    CHOICES.check(row)


FLOATS_AND_ZERO = np.array([3.5, -3.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 7.0], F32)


AT_SPECIAL_VALUES = Table(
    {
        name: call(name, FLOATS_AND_ZERO[:, None], FLOATS_AND_ZERO)
        for name in [
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
        ]
    }
)


@pytest.mark.parametrize("name", AT_SPECIAL_VALUES.rows)
def test_special_values(name: str) -> None:
    AT_SPECIAL_VALUES.check(name)


BY_ZERO = Table(
    {
        name: call(name, np.array([3, -3, 0], S32), np.zeros(3, S32))
        for name in ["remainder", "fmod"]
    }
)


@pytest.mark.parametrize("name", BY_ZERO.rows)
def test_integers_by_zero(name: str) -> None:
    BY_ZERO.check(name)


GRADIENTS = Table(
    {
        name: gradient(name, values(F32, 2, 3, low=0.2), values(F32, 3, low=0.2, seed=1))
        for name in [
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
        ]
    }
)


@pytest.mark.parametrize("name", GRADIENTS.rows)
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


def test_gradient_of_logaddexp_at_infinities() -> None:
    x, y = np.float32([-np.inf, np.inf, 0, np.inf]), np.float32([-np.inf, 0, -np.inf, np.inf])
    slopes = mx.vmap(mx.grad(mnp.logaddexp, argnums=(0, 1)))
    expected = by_jax(jax.vmap(jax.grad(jnp.logaddexp, argnums=(0, 1))), x, y)
    for way in (mx.reference, functools.partial(mx.jit, compiler_options=QUICKLY)):
        np.testing.assert_allclose(np.array(way(slopes)(x, y)), np.array(expected), rtol=1e-6)


def test_where() -> None:
    mask, x, y = values(PRED, 2, 3), values(F32, 3), values(S32, 2, 1)
    check(
        call("where", mask, x, y, jit=True),
        call("where", mask, 1.0, y),
        call("where", np.True_, x, y),
        call("where", values(F32, 3), x, 0),
        gradient("where", mask, x, values(F32, 2, 1)),
    )


def test_where_without_choices() -> None:
    x = np.array([[0, 1, 0], [2, 0, 3]], S32)
    count = {"size": 3}
    check(
        call("where", x, theirs=count),
        call("nonzero", x, theirs=count),
        *(call("where", x, size=size, jit=True) for size in (0, 2, 5)),
        *(call("nonzero", x, size=size, fill_value=-1) for size in (0, 2, 5)),
        call("argwhere", x, theirs=count),
        call("flatnonzero", x, theirs=count),
    )
    with pytest.raises(mx.ConcretizationError, match=r"nonzero: .*\n(.*\n)*.*Pass size"):
        mx.jit(mnp.where)(x)
    with pytest.raises(ValueError, match="where: x and y must be passed together"):
        mnp.where(x, 1)


def test_select() -> None:
    x = values(F32, 2, 3)
    conditions = [x > 2, x > 0]
    check(
        call("select", conditions, [x, x * 2], 7),
        call("select", conditions, [np.float32(1), x]),
        call("select", np.stack([x > 1, x > 0]), np.stack([x, x * 2]), 7),
    )
    with pytest.raises(ValueError, match="condlist and choicelist must be equally long"):
        mnp.select(conditions, [x])
    stacked, several = mx.jit(
        lambda pair, x: (mnp.select(pair, [x, 1.0]), mnp.select([x > 1, x > 0], [x, 1.0]))
    )(np.stack([x > 1, x > 0]), x)
    assert_close(stacked, several)


def test_closeness_and_equality() -> None:
    x = np.array([1.0, np.nan, np.inf], F32)
    y = np.array([1.000001, np.nan, np.inf], F32)
    for equal_nan in (False, True):
        check(
            call("isclose", x, y, equal_nan=equal_nan),
            call("allclose", x, y, equal_nan=equal_nan, jit=equal_nan),
            call("array_equal", x, x, equal_nan=equal_nan),
        )
    check(
        call("array_equal", x, x[:2]),
        call("array_equiv", np.ones((2, 3), F32), np.ones(3, F32)),
        call("array_equiv", np.ones((2, 3), F32), np.ones(2, F32)),
        call("isin", values(S32, 2, 3), values(S32, 4, seed=1)),
    )


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(TypeError, match=r"^maximum: the operands' dimensions do not broadcast"):
        mx.reference(mnp.maximum)(np.ones(2, F32), np.ones(3, F32))


# Of functions of each kind: how errors name their first argument.
PLACES = {"x1": "add hypot fmax logaddexp", "x": "square floor exp", r"arys\[0\]": "atleast_2d"}
PLACED = [(name, place) for place, names in PLACES.items() for name in names.split()]


@pytest.mark.parametrize(("name", "place"), PLACED)
def test_what_is_no_array_is_refused_by_its_place(name: str, place: str) -> None:
    function = getattr(mnp, name)
    count = 1 if place == "x" else 2
    with pytest.raises(TypeError, match=rf"argument {place} of type str is not an array"):
        function(*["a"] * count)


def test_lists_are_refused() -> None:
    with pytest.raises(TypeError, match="argument x1 of type list is not an array"):
        mnp.add([1, 2], 3)


def test_eager_functions_return_jax_arrays() -> None:
    result = mnp.add(np.ones(3, F32), 2)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, 3)
