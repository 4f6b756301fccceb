"""softmax, log_softmax and logsumexp against jax.nn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import by_jax, check_rejected
from tests.minixla.nn.comparing import (
    Case,
    Table,
    Transformed,
    check,
    check_transformed,
    draw,
)
from tests.minixla.numpy.tables import assert_close

NAMES = ["softmax", "log_softmax", "logsumexp", "logmeanexp"]
INF, NAN = np.inf, np.nan
ROWS = np.array(
    [
        [0, 1, 2, 3],
        [1e4, -1e4, 0, 1],
        [-INF, -INF, -INF, -INF],
        [INF, 0, 0, 0],
        [NAN, 0, 1, 2],
        [-INF, 0, 1, -INF],
        [6e4, -6e4, 0, 1],
    ]
)
MASK = np.array(
    [
        [1, 1, 0, 1],
        [1, 1, 1, 1],
        [0, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 0, 0, 0],
        [1, 0, 1, 1],
    ],
    bool,
)
FORMS: list[dict[str, Any]] = [
    {"axis": -1},
    {"axis": 0},
    {"axis": (0, 1)},
    {"axis": None},
    {"axis": -1, "where": MASK},
    {"axis": 0, "where": MASK[:1]},
    {"axis": (1, 0), "where": MASK},
]
WEIGHTS = np.arange(28.0).reshape(7, 4) / 10


def pair(name: str, **options: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Our function and JAX's of a name, with options."""
    ours, theirs = getattr(mx.nn, name), getattr(jax.nn, name)
    return lambda x: ours(x, **options), lambda x: theirs(x, **options)


def named(form: dict[str, Any]) -> str:
    return "-".join([str(form["axis"]), *[key for key in form if key != "axis"]])


def over(forms: list[dict[str, Any]]) -> Callable[..., Any]:
    """Parametrises a test over names and the labels of forms."""

    def parametrised(test: Any) -> Any:
        labelled = pytest.mark.parametrize("form", list(map(named, forms)))
        return pytest.mark.parametrize("name", NAMES)(labelled(test))

    return parametrised


def table(case: Callable[..., Case], forms: list[dict[str, Any]]) -> Table:
    """A case for each name and form."""
    return Table({(name, named(form)): case(name, form) for name in NAMES for form in forms})


AT_EDGES = table(
    lambda name, form: Case(*pair(name, **form), [ROWS.astype(np.float32)], eager=True), FORMS
)


@over(FORMS)
def test_edges(name: str, form: str) -> None:
    AT_EDGES.check((name, form))


IN_16_BITS = Table(
    {
        (name, named(form), dtype): Case(*pair(name, **form), [ROWS.astype(dtype)])
        for name in NAMES
        for form in (FORMS[0], FORMS[4])
        for dtype in (np.float16, ml_dtypes.bfloat16)
    }
)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@over([FORMS[0], FORMS[4]])
def test_edges_in_16_bits(name: str, form: str, dtype: Any) -> None:
    IN_16_BITS.check((name, form, dtype))


def slopes(name: str, form: dict[str, Any]) -> Case:
    ours, theirs = pair(name, **form)

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        def weighted(x: Any) -> Any:
            result = function(x)
            weights = WEIGHTS if result.shape == WEIGHTS.shape else 1.0
            return (result * weights).astype(np.float32).sum()

        return weighted

    rows, finite = (x.astype(np.float32) for x in (ROWS, np.where(np.isfinite(ROWS), ROWS, 0)))
    gradient = mx.grad(loss(ours))
    return Case(gradient, jax.grad(loss(theirs)), [rows], units=64, others=[finite])


GRADIENTS = table(slopes, FORMS)


@over(FORMS)
def test_gradients_at_edges(name: str, form: str) -> None:
    GRADIENTS.check((name, form))


def finite(name: str, form: dict[str, Any]) -> Case:
    ours, theirs = pair(name, **form)
    if name == "log_softmax" and "where" in form:  # its -inf have no differences
        mask = form["where"]
        return Case(
            lambda x: mx.numpy.where(mask, ours(x), 0),
            lambda x: jax.numpy.where(mask, theirs(x), 0),
            [draw(2, 4)],
        )
    return Case(ours, theirs, [draw(2, 4)])


DERIVED = [*FORMS[:3], {"axis": 1, "where": MASK[:2]}]
VALUES = table(finite, DERIVED)
TRANSFORMED = Transformed(
    {key: (case.function, case.jax_function, case.arrays) for key, (case,) in VALUES.cases.items()}
)


@over(DERIVED)
def test_values_derivatives_and_batches(name: str, form: str) -> None:
    VALUES.check((name, form))
    TRANSFORMED.check((name, form))


EMPTY = [((0, 3), -1), ((0, 3), 0), ((3, 0), -1), ((0,), 0)]
OF_SIZE_ZERO = Table(
    {
        (name, sizes, axis): Case(*pair(name, axis=axis), [np.zeros(sizes, np.float32)])
        for name in NAMES
        for sizes, axis in EMPTY
    }
)


@pytest.mark.parametrize(("sizes", "axis"), EMPTY)
@pytest.mark.parametrize("name", NAMES)
def test_size_zero(name: str, sizes: tuple[int, ...], axis: int) -> None:
    OF_SIZE_ZERO.check((name, sizes, axis))


@functools.cache
def of_integers() -> dict[str, Any]:
    """JAX's results of small integers by name; pred holds others."""
    given = np.array([0, 1, 2, 5], np.float32), np.array([0, 1, 1, 1], np.float32)
    return by_jax(lambda xs: {n: [pair(n, axis=0)[1](x) for x in xs] for n in NAMES}, given)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("name", NAMES)
def test_integers(name: str, dtype: Any) -> None:
    x = np.array([0, 1, 2, 5], dtype)
    actual = mx.reference(pair(name, axis=0)[0])(x)
    assert_close(actual, of_integers()[name][dtype is np.bool_])


LOGSUMEXP: list[dict[str, Any]] = [
    {"b": np.array([1, -2, 0, 3], np.float32)},
    {"b": np.array([1, -2, 0, 3], np.float32), "return_sign": True},
    {"b": np.array([1, -2, 0, -3], np.float32), "axis": 1, "keepdims": True, "return_sign": True},
    {"b": 2.0, "axis": 0},
    {"b": -1.0},
    {"b": np.array([[1, -2, 0, 3]], np.float32), "axis": 1, "where": MASK[:2]},
    {"b": np.array([[2], [1]], np.int32), "axis": -1},
    {"axis": (0, 1), "keepdims": True},
    {"axis": 1, "return_sign": True},
]


WITH_OPTIONS = Table(
    {
        f"{'-'.join(options)}-{at}": Case(
            *pair("logsumexp", **options), [ROWS[:2].astype(np.float32)], eager=True
        )
        for at, options in enumerate(LOGSUMEXP)
    }
)


@pytest.mark.parametrize("options", WITH_OPTIONS.cases)
def test_logsumexp_options(options: str) -> None:
    WITH_OPTIONS.check(options)


def test_logsumexp_derivatives_of_weights() -> None:
    a, b = draw(2, 4), np.abs(draw(2, 4, seed=1)) + 0.1

    def ours(a: Any, b: Any) -> Any:
        return mx.nn.logsumexp(a, 1, b)

    def theirs(a: Any, b: Any) -> Any:
        return jax.nn.logsumexp(a, 1, b)

    check(Case(ours, theirs, [a, b]))
    check_transformed(ours, theirs, [a, b])


def test_logsumexp_of_complex_numbers() -> None:
    z = (draw(2, 3) + 1j * draw(2, 3, seed=1)).astype(np.complex64)
    check(
        Case(*pair("logsumexp", axis=1), [z]),
        Case(*pair("logsumexp", axis=1, return_sign=True), [z]),
    )


@pytest.mark.parametrize("name", NAMES)
def test_rejected(name: str) -> None:
    ours = getattr(mx.nn, name)
    message = f"{name}: argument {'a' if name == 'logsumexp' else 'x'} of type list is not an array"
    check_rejected(lambda: ours([1.0], axis=0), [], mx.ShapeError, message)
    message = f"{name}: axis 2 is out of bounds for an array of 2 dimensions"
    check_rejected(lambda x: ours(x, axis=2), [draw(2, 3)], mx.AttributeValueError, message)
    message = f"{name}: an axis is repeated"
    check_rejected(lambda x: ours(x, axis=(1, -1)), [draw(2, 3)], mx.AttributeValueError, message)


@pytest.mark.parametrize(
    ("name", "forward", "backward"), [("softmax", 10, 22), ("log_softmax", 11, 20)]
)
def test_graphs_are_small(name: str, forward: int, backward: int) -> None:
    function = getattr(mx.nn, name)
    assert len(mx.make_graph(function)(draw(2, 3)).pruned().instructions) <= forward
    gradient = mx.grad(lambda x, weights: (function(x) * weights).sum())
    graph = mx.make_graph(gradient)(draw(2, 3), draw(2, 3))
    assert len(graph.pruned().instructions) <= backward
