"""Element-wise functions against the truth, over extremes and random values of each type."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.numpy import arithmetic, elementwise, exponentials, inverses
from tests.compilation import OPTIMIZED, QUICKLY
from tests.minixla.numpy import array_accuracy
from tests.minixla.numpy.accuracy import MANY, errors, measured, page
from tests.minixla.numpy.accuracy_rows import BINARY, HAS_LONG_DOUBLE, TYPES, UNARY

PAGE = Path(__file__).resolve().parents[3] / "docs" / "accuracy.md"

#: Functions of integers, those that choose or move values, and pairs of others.
OTHERS = {
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "clip",
    "divmod",
    "gcd",
    "lcm",
    "left_shift",
    "nextafter",
    "right_shift",
}

needs_long_double = pytest.mark.skipif(
    not HAS_LONG_DOUBLE, reason="np.longdouble has no more digits than f64"
)


#: Those for which XLA:CPU has other code where it compiles quickly.
COMPILED_OTHERWISE = {"cbrt", "log1p", "sign", "tan"}


def check_bounds(
    arity: int,
    kind: str,
    count: int,
    options: Mapping[str, Any],
    not_compiled: Collection[str] = (),
) -> None:
    rows = UNARY if arity == 1 else BINARY
    found = measured(arity, kind, count, tuple(options.items()))
    too_far = [
        f"{name} by {who}: {each}"
        for name, pair in found.items()
        for who, each in zip(("XLA:CPU", "NumPy"), pair, strict=True)
        if not each.steps <= (rows[name].bound(kind) or 0)
        and not (who == "XLA:CPU" and name in not_compiled)
    ]
    assert not too_far, "\n".join(too_far)


@needs_long_double
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("arity", [1, 2])
def test_errors_are_within_bounds(arity: int, kind: str) -> None:
    check_bounds(arity, kind, 500, QUICKLY, COMPILED_OTHERWISE)


@pytest.mark.full
@needs_long_double
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("arity", [1, 2])
def test_errors_are_within_bounds_at_many_operands(arity: int, kind: str) -> None:
    check_bounds(arity, kind, MANY, OPTIMIZED)


def test_every_elementwise_function_has_bounds() -> None:
    modules = (arithmetic, elementwise, exponentials, inverses)
    found = {name: value for each in modules for name, value in vars(each).items()}
    functions = {name: value for name, value in found.items() if name in mnp.__all__}
    rows = {*UNARY, *BINARY, *OTHERS}
    known = {id(functions[name]) for name in rows}
    assert rows <= set(functions)
    assert not [name for name, function in functions.items() if id(function) not in known]


@needs_long_double
@pytest.mark.parametrize("name", array_accuracy.ROWS)
def test_errors_of_arrays_are_within_bounds(name: str) -> None:
    bounds = array_accuracy.BOUNDS[name]
    assert tuple(bounds) == array_accuracy.ROWS[name].kinds
    assert array_accuracy.worst(name, "f32", run=mx.reference) <= bounds["f32"][0]


@pytest.mark.full
@needs_long_double
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", array_accuracy.ROWS)
def test_errors_of_arrays_are_within_bounds_in_every_type(name: str, kind: str) -> None:
    bound = array_accuracy.BOUNDS[name].get(kind)
    if bound is not None:
        # A product of complex numbers is rounded more often in a program compiled quickly.
        for run in (mx.reference, functools.partial(mx.jit, compiler_options=OPTIMIZED)):
            assert array_accuracy.worst(name, kind, run=run) <= bound[0]


@needs_long_double
def test_a_wrong_element_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    row = array_accuracy.ROWS["linalg.qr"]

    def wrong(module: Any, a: Any) -> Any:
        q, r = row.call(module, a)
        return q, r * (1 + 1e-4)

    monkeypatch.setitem(array_accuracy.ROWS, "linalg.qr", row._replace(call=wrong))
    assert array_accuracy.worst("linalg.qr", "f32", run=mx.reference) > 100


def test_page_shows_the_bounds() -> None:
    command = "python -m tests.minixla.numpy.accuracy > docs/accuracy.md"
    assert PAGE.read_text() == page(), f"docs/accuracy.md is out of date: {command}"


def test_a_wrong_sign_of_zero_infinity_or_nan_is_infinitely_far() -> None:
    truth = np.array([0.0, -0.0, np.inf, np.nan, 1.0, 1.0], np.longdouble)
    given = np.array([-0.0, -0.0, 3e38, 1.0, np.nan, 1 + 2**-22], np.float32)
    found = errors(given, truth, UNARY["floor"])
    np.testing.assert_array_equal(found, [np.inf, 0, np.inf, np.inf, np.inf, 2])
    # Of complex numbers, too, but for zeros and infinities beside NaN.
    truth = np.array([complex(1, -0.0), complex(np.nan, -0.0), complex(1, 2**-60)], np.clongdouble)
    given = np.array([complex(1, 0.0), complex(np.nan, 0.0), complex(1, -0.0)], np.complex64)
    np.testing.assert_array_equal(errors(given, truth, UNARY["cos"])[:2], [np.inf, 0])
    assert errors(given, truth, UNARY["cos"])[2] < 1e-6
