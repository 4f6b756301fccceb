"""Activations against jax.nn: values, edges, element types, derivatives, batches."""

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
from tests.minixla.nn.comparing import Case, Table, Transformed, check, draw, gradients
from tests.minixla.numpy.tables import assert_close

NAMES = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
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


def edges(dtype: Any, least: float = -np.inf) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array([x for x in EDGES if not x < least]).astype(dtype)


def label(case: tuple[str, dict[str, Any]]) -> str:
    name, options = case
    return "-".join([name, *(f"{k}={v}" for k, v in options.items())])


def over(cases: list[tuple[str, dict[str, Any]]]) -> Any:
    """Parametrises a test over the labels of functions with options."""
    return pytest.mark.parametrize("case", list(map(label, cases)))


FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16]
#: Operands for which JAX is right: its squareplus loses digits below 0, and overflows far above.
LEAST, MOST = {"squareplus": -1}, {"squareplus": 200}


def known_edges(name: str, dtype: Any) -> np.ndarray:
    points = edges(dtype, LEAST.get(name, -np.inf))
    return points[~(np.isfinite(points) & (points > MOST.get(name, np.inf)))]


AT_EDGES = Table(
    {
        (label(case), dtype): Case(
            *pair(*case), [known_edges(case[0], dtype)], eager=dtype is np.float32
        )
        for case in ELEMENTWISE
        for dtype in FLOATS
    }
)


@pytest.mark.parametrize("dtype", FLOATS)
@over(ELEMENTWISE)
def test_edges(case: str, dtype: Any) -> None:
    AT_EDGES.check((case, dtype))


def slopes(name: str, options: dict[str, Any]) -> Case:
    # JAX's derivative of relu is 0 at NaN, ours is NaN. In JAX, squareplus and gelu of 1e30 and
    # the derivatives of sparse_plus and soft_sign at infinity are NaN. log1mexp is NaN below 0.
    points = edges(np.float32, 0 if name == "log1mexp" else -np.inf)
    largest = {"squareplus": 1e5, "sparse_plus": 1e31, "soft_sign": 1e31, "gelu": 1e5}.get(
        name, np.inf
    )
    points = points[np.abs(points) <= largest]
    ours, theirs = pair(name, options)
    optimized = name == "gelu" and not options
    return Case(gradients(ours), gradients(theirs, jax), [points], optimized=optimized)


GRADIENTS = Table({label(case): slopes(*case) for case in ELEMENTWISE})


@over(ELEMENTWISE)
def test_gradients_at_edges(case: str) -> None:
    GRADIENTS.check(case)


def points(name: str) -> np.ndarray:
    drawn = 2 * draw(2, 4)
    return abs(drawn) if name == "log1mexp" else drawn


VALUES = Table(
    {label(case): Case(*pair(*case), [points(case[0])], eager=case[0] == "glu") for case in CASES}
)
TRANSFORMED = Transformed({label(case): (*pair(*case), [points(case[0])]) for case in CASES})


def test_sparse_plus_has_a_derivative_at_infinity() -> None:
    ends = np.array([-np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(gradients(mx.nn.sparse_plus)(ends), [0, 1])


#: Where JAX's overflow or cancel: functions and their derivatives, against those of f64.
FAR = {
    "gelu": ([np.float16], [-6e4, -300, -100, 100, 300, 6e4], 2),
    "log1mexp": ([np.float32, np.float16], [20, 60, 100, 1e4], 2),
    "squareplus": ([np.float32, np.float16, ml_dtypes.bfloat16], [-200, -100, -20, -3], 0),
}


@pytest.mark.parametrize("name", FAR)
def test_far_from_0_narrow_floats_keep_their_digits(name: str) -> None:
    dtypes, points, order = FAR[name]
    slope = getattr(mx.nn, name)
    for _ in range(order + 1):
        function = mx.vmap(slope)
        for dtype in dtypes:
            x = np.array(points, dtype)
            with jax.enable_x64(True):
                expected = np.asarray(mx.jit(function)(x.astype(np.float64)))
            actual = np.asarray(mx.jit(function)(x)).astype(np.float64)
            eps = float(ml_dtypes.finfo(dtype).eps)
            np.testing.assert_allclose(actual, expected, rtol=8 * eps, atol=1e-7)
        slope = mx.grad(slope)


@over(CASES)
def test_values_derivatives_and_batches(case: str) -> None:
    VALUES.check(case)
    TRANSFORMED.check(case)


INTEGERS = [np.int32, np.uint8, np.bool_]
OF_INTEGERS = [n for n in NAMES if n != "glu"]


@functools.cache
def of_integers() -> dict[str, list[Any]]:
    """JAX's results of small integers, by name, for each type of INTEGERS."""
    arrays = [np.array([0, 1, 2, 5], dtype) for dtype in INTEGERS]

    def results(name: str, xs: list[Any]) -> list[Any]:
        # JAX does not take integers everywhere, and log_sigmoid(u8) negates them.
        kept = name in ("relu", "hard_tanh", "identity")
        return [getattr(jax.nn, name)(x if kept else x.astype(np.float32)) for x in xs]

    return by_jax(lambda xs: {name: results(name, xs) for name in OF_INTEGERS}, arrays)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name: str, dtype: Any) -> None:
    x = np.array([0, 1, 2, 5], dtype)
    actual = mx.reference(getattr(mx.nn, name))(x)
    assert_close(actual, of_integers()[name][INTEGERS.index(dtype)])


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("glu", "gelu")])
def test_numbers_stay_weakly_typed(name: str) -> None:
    ours, theirs = pair(name, {})
    actual, expected = jax.eval_shape(mx.jit(lambda: ours(2.0))), jax.eval_shape(theirs, 2.0)
    assert (actual.dtype, actual.weak_type) == (expected.dtype, expected.weak_type)


PARAMETER = np.array([0.1, 0.2, 0.3], np.float32)
PARAMETRIZED = Table(
    {
        name: [
            # XLA fuses what lies between into f32, the reference rounds it to bf16.
            Case(
                getattr(mx.nn, name),
                getattr(jax.nn, name),
                [draw(2, 3, dtype=ml_dtypes.bfloat16), PARAMETER],
                units=2**17,
            ),
            Case(getattr(mx.nn, name), getattr(jax.nn, name), [draw(2, 3), PARAMETER], eager=True),
        ]
        for name in ["elu", "leaky_relu", "celu"]
    }
)
PARAMETRIZED_TRANSFORMED = Transformed(
    {
        name: (getattr(mx.nn, name), getattr(jax.nn, name), [draw(2, 3), PARAMETER])
        for name in PARAMETRIZED.cases
    }
)


@pytest.mark.parametrize("name", PARAMETRIZED.cases)
def test_array_parameters_promote(name: str) -> None:
    PARAMETRIZED.check(name)
    PARAMETRIZED_TRANSFORMED.check(name)


OF_SIZE_ZERO = Table(
    {name: Case(*pair(name, {}), [np.zeros((2, 0), np.float32)]) for name in NAMES}
)


@pytest.mark.parametrize("name", NAMES)
def test_size_zero(name: str) -> None:
    OF_SIZE_ZERO.check(name)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "silu"])
def test_complex_numbers(name: str) -> None:
    z = (draw(3) + 1j * draw(3, seed=1)).astype(np.complex64)
    check(Case(*pair(name, {}), [z]))


def test_other_names() -> None:
    assert mx.nn.swish is mx.nn.silu
    assert mx.nn.hard_swish is mx.nn.hard_silu


def test_exact_gelu_keeps_digits_in_16_bits() -> None:
    x = np.linspace(-4, -1, 50).astype(ml_dtypes.bfloat16)
    actual = np.asarray(mx.nn.gelu(x, approximate=False)).astype(np.float64)
    exact = by_jax(lambda x: jax.nn.gelu(x.astype(np.float32), approximate=False), x)
    np.testing.assert_allclose(actual, exact, rtol=2**-8)


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_no_arrays(name: str) -> None:
    message = f"{name}: argument x of type list is not an array"
    check_rejected(lambda: getattr(mx.nn, name)([1.0]), [], mx.ShapeError, message)


def test_glu_of_an_odd_size() -> None:
    phrases = ("glu", "the dimension has an odd size", "x has dimensions (2, 3)", "must be even")
    check_rejected(lambda x: mx.nn.glu(x), [draw(2, 3)], mx.ShapeError, *phrases)


@pytest.mark.parametrize(
    ("name", "most"),
    [("relu", 3), ("sigmoid", 1), ("silu", 2), ("softplus", 9), ("gelu", 13), ("leaky_relu", 5)],
)
def test_graphs_are_small(name: str, most: int) -> None:
    graph = mx.make_graph(getattr(mx.nn, name))(draw(2, 3)).pruned()
    assert len(graph.instructions) <= most
