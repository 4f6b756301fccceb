"""softmax, log_softmax and logsumexp against jax.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import check_rejected
from tests.minixla.nn.comparing import check, check_both, check_compiled, draw
from tests.minixla.numpy.tables import assert_close

NAMES = ["softmax", "log_softmax", "logsumexp"]
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


def named(form: Any) -> str | None:
    if not isinstance(form, dict):
        return None
    return "-".join([str(form["axis"]), *[key for key in form if key != "axis"]])


@pytest.mark.parametrize("form", FORMS, ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_edges(name: str, form: dict[str, Any]) -> None:
    check(*pair(name, **form), ROWS.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", [FORMS[0], FORMS[4]], ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_edges_in_16_bits(name: str, form: dict[str, Any], dtype: Any) -> None:
    check(*pair(name, **form), ROWS.astype(dtype))


@pytest.mark.parametrize("form", FORMS, ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_at_edges(name: str, form: dict[str, Any]) -> None:
    ours, theirs = pair(name, **form)

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        def weighted(x: Any) -> Any:
            result = function(x)
            weights = WEIGHTS if result.shape == WEIGHTS.shape else 1.0
            return (result * weights).astype(np.float32).sum()

        return weighted

    rows, finite = (x.astype(np.float32) for x in (ROWS, np.where(np.isfinite(ROWS), ROWS, 0)))
    gradient = mx.grad(loss(ours))
    check_compiled(gradient, jax.grad(loss(theirs)), rows, units=64, others=[finite])


@pytest.mark.parametrize("form", [*FORMS[:3], {"axis": 1, "where": MASK[:2]}], ids=named)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_and_batches(name: str, form: dict[str, Any]) -> None:
    ours, theirs = pair(name, **form)
    if name == "log_softmax" and "where" in form:  # its -inf have no differences
        mask = form["where"]
        check_both(
            lambda x: mx.numpy.where(mask, ours(x), 0),
            lambda x: jax.numpy.where(mask, theirs(x), 0),
            [draw(2, 4)],
        )
    else:
        check_both(ours, theirs, [draw(2, 4)])


@pytest.mark.parametrize(("sizes", "axis"), [((0, 3), -1), ((0, 3), 0), ((3, 0), -1), ((0,), 0)])
@pytest.mark.parametrize("name", NAMES)
def test_size_zero(name: str, sizes: tuple[int, ...], axis: int) -> None:
    check(*pair(name, axis=axis), np.zeros(sizes, np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("name", NAMES)
def test_integers(name: str, dtype: Any) -> None:
    x = np.array([0, 1, 2, 5], dtype)
    ours, theirs = pair(name, axis=0)
    assert_close(mx.reference(ours)(x), theirs(x.astype(np.float32)))


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


@pytest.mark.parametrize("options", LOGSUMEXP, ids=lambda options: "-".join(options))
def test_logsumexp_options(options: dict[str, Any]) -> None:
    check(*pair("logsumexp", **options), ROWS[:2].astype(np.float32))


def test_logsumexp_derivatives_of_weights() -> None:
    a, b = draw(2, 4), np.abs(draw(2, 4, seed=1)) + 0.1
    check_both(
        lambda a, b: mx.nn.logsumexp(a, 1, b), lambda a, b: jax.nn.logsumexp(a, 1, b), [a, b]
    )


def test_logsumexp_of_complex_numbers() -> None:
    z = (draw(2, 3) + 1j * draw(2, 3, seed=1)).astype(np.complex64)
    check(*pair("logsumexp", axis=1), z)
    check(*pair("logsumexp", axis=1, return_sign=True), z)


@pytest.mark.parametrize("name", NAMES)
def test_rejected(name: str) -> None:
    ours = getattr(mx.nn, name)
    message = f"{name}: an operand of type list is not an array"
    check_rejected(lambda: ours([1.0], axis=0), [], mx.ShapeError, message)
    message = f"{name}: axis 2 is out of bounds for an array of 2 dimensions"
    check_rejected(lambda x: ours(x, axis=2), [draw(2, 3)], mx.AttributeValueError, message)
    message = f"{name}: an axis is named twice"
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
