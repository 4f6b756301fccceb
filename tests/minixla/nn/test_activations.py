"""Activations against jax.nn: values, edges, element types, derivatives, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import check_rejected
from tests.minixla.nn.comparing import check, check_both, check_compiled, draw, gradients
from tests.minixla.numpy.tables import assert_close

NAMES = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "squareplus",
    "tanh",
]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "celu": [{"alpha": 0.5}],
    "elu": [{"alpha": 0.5}],
    "gelu": [{"approximate": False}],
    "glu": [{"axis": 0}],
    "leaky_relu": [{"negative_slope": 0.2}],
    "squareplus": [{"b": 1}],
}
CASES = [(name, options) for name in NAMES for options in [{}, *OPTIONS.get(name, [])]]
ELEMENTWISE = [(name, options) for name, options in CASES if name != "glu"]
#: Where two pieces meet: relu, leaky_relu, elu; relu6 and its relatives; hard_tanh.
KINKS = [0.0, 6.0, -3.0, 3.0, 1.0, -1.0]
EDGES = [
    *KINKS,
    -0.0,
    1e-30,
    -1e-30,
    0.5,
    -0.5,
    -20.0,
    20.0,
    -100.0,
    100.0,
    -1e4,
    1e4,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
]


def pair(name: str, options: dict[str, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Our function and JAX's of a name, with options."""
    ours, theirs = getattr(mx.nn, name), getattr(jax.nn, name)
    return lambda x: ours(x, **options), lambda x: theirs(x, **options)


def edges(dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(EDGES).astype(dtype)


def named(case: Any) -> str:
    return case if isinstance(case, str) else "-".join(f"{k}={v}" for k, v in case.items())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "options"), ELEMENTWISE, ids=named)
def test_edges(name: str, options: dict[str, Any], dtype: Any) -> None:
    check(*pair(name, options), edges(dtype))


@pytest.mark.parametrize(("name", "options"), ELEMENTWISE, ids=named)
def test_gradients_at_edges(name: str, options: dict[str, Any]) -> None:
    # JAX's derivative of relu is 0 at NaN, which ours hands on; squareplus of 1e30 is NaN in JAX.
    points = edges(np.float32)
    points = points[~np.isnan(points)] if name != "squareplus" else points[np.abs(points) < 1e5]
    ours, theirs = pair(name, options)
    check_compiled(gradients(ours), gradients(theirs, jax), points)


@pytest.mark.parametrize(("name", "options"), CASES, ids=named)
def test_derivatives_and_batches(name: str, options: dict[str, Any]) -> None:
    check_both(*pair(name, options), [2 * draw(2, 4)])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("name", [n for n in NAMES if n != "glu"])
def test_integers(name: str, dtype: Any) -> None:
    x = np.array([0, 1, 2, 5], dtype)
    ours, theirs = pair(name, {})
    if name in ("relu", "hard_tanh"):
        assert_close(mx.reference(ours)(x), theirs(x))
    else:  # JAX does not take integers everywhere, and log_sigmoid(u8) negates them
        assert_close(mx.reference(ours)(x), theirs(x.astype(np.float32)))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("glu", "gelu")])
def test_numbers_stay_weakly_typed(name: str) -> None:
    ours, theirs = pair(name, {})
    actual, expected = jax.eval_shape(mx.jit(lambda: ours(2.0))), jax.eval_shape(theirs, 2.0)
    assert (actual.dtype, actual.weak_type) == (expected.dtype, expected.weak_type)


@pytest.mark.parametrize("name", ["elu", "leaky_relu", "celu"])
def test_array_parameters_promote(name: str) -> None:
    parameter = np.array([0.1, 0.2, 0.3], np.float32)
    ours, theirs = getattr(mx.nn, name), getattr(jax.nn, name)
    # XLA fuses what lies between into f32, the reference rounds it to bf16.
    check(ours, theirs, draw(2, 3, dtype=ml_dtypes.bfloat16), parameter, units=2**17)
    check_both(ours, theirs, [draw(2, 3), parameter])


@pytest.mark.parametrize("name", NAMES)
def test_size_zero(name: str) -> None:
    check(*pair(name, {}), np.zeros((2, 0), np.float32))


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "silu"])
def test_complex_numbers(name: str) -> None:
    z = (draw(3) + 1j * draw(3, seed=1)).astype(np.complex64)
    check(*pair(name, {}), z)


def test_other_names() -> None:
    assert mx.nn.swish is mx.nn.silu
    assert mx.nn.hard_swish is mx.nn.hard_silu


def test_exact_gelu_keeps_digits_in_16_bits() -> None:
    x = np.linspace(-4, -1, 50).astype(ml_dtypes.bfloat16)
    actual = np.asarray(mx.nn.gelu(x, approximate=False)).astype(np.float64)
    exact = np.asarray(jax.nn.gelu(x.astype(np.float32), approximate=False)).astype(np.float64)
    np.testing.assert_allclose(actual, exact, rtol=2**-8)


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_no_arrays(name: str) -> None:
    message = f"{name}: an operand of type list is not an array"
    check_rejected(lambda: getattr(mx.nn, name)([1.0]), [], mx.ShapeError, message)


def test_glu_of_an_odd_size() -> None:
    phrases = ("glu", "cannot be cut into halves", "x has dimensions (2, 3)", "must be even")
    check_rejected(lambda x: mx.nn.glu(x), [draw(2, 3)], mx.ShapeError, *phrases)


@pytest.mark.parametrize(
    ("name", "most"),
    [("relu", 3), ("sigmoid", 1), ("silu", 2), ("softplus", 9), ("gelu", 13), ("leaky_relu", 5)],
)
def test_graphs_are_small(name: str, most: int) -> None:
    graph = mx.make_graph(getattr(mx.nn, name))(draw(2, 3)).pruned()
    assert len(graph.instructions) <= most
