"""Normalisations against their formulas in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import check_rejected
from tests.minixla.nn.comparing import Case, Table, check, check_transformed, draw


def jax_batch_norm(
    x: Any, scale: Any, offset: Any, epsilon: float = 1e-5, axis: int = -1
) -> tuple[Any, Any, Any]:
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    mean, variance = x.mean(others), x.var(others)
    return jax_inference(x, scale, offset, mean, variance, epsilon, axis), mean, variance


def jax_inference(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> Any:
    def along(vector: Any) -> Any:
        return jnp.expand_dims(vector, tuple(i for i in range(x.ndim) if i != axis % x.ndim))

    factor = along(scale) * jax.lax.rsqrt(along(variance) + epsilon)
    return (x - along(mean)) * factor + along(offset)


def jax_layer_norm(
    x: Any, scale: Any = 1.0, offset: Any = 0.0, epsilon: float = 1e-5, axis: Any = -1
) -> Any:
    mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * scale + offset


def batch_norms(sizes: tuple[int, ...], axis: int, epsilon: float) -> list[Case]:
    count = sizes[axis]
    scale, offset = draw(count, seed=1), draw(count, seed=2)
    mean, variance = draw(count, seed=3), np.abs(draw(count, seed=4)) + 0.1
    options = {"epsilon": epsilon, "axis": axis}
    return [
        Case(
            lambda *xs: mx.nn.batch_norm(*xs, **options),
            lambda *xs: jax_batch_norm(*xs, **options),
            [draw(*sizes), scale, offset],
            eager=True,
        ),
        Case(
            lambda *xs: mx.nn.batch_norm_inference(*xs, **options),
            lambda *xs: jax_inference(*xs, **options),
            [draw(*sizes), scale, offset, mean, variance],
            eager=True,
        ),
    ]


BATCHES = [((6, 3), -1, 1e-5), ((4, 3, 2, 2), 1, 0.1), ((3, 8), -2, 1e-3)]
BATCH_NORMS = Table({row: batch_norms(*row) for row in BATCHES})


@pytest.mark.parametrize(("sizes", "axis", "epsilon"), BATCHES)
def test_batch_norm(sizes: tuple[int, ...], axis: int, epsilon: float) -> None:
    BATCH_NORMS.check((sizes, axis, epsilon))


def test_batch_norm_derivatives() -> None:
    operands = [draw(5, 2), draw(2, seed=1), draw(2, seed=2)]

    def ours(*xs: Any) -> Any:
        return mx.nn.batch_norm(*xs)[0]

    def theirs(*xs: Any) -> Any:
        return jax_batch_norm(*xs)[0]

    check(Case(ours, theirs, operands))
    check_transformed(ours, theirs, operands)


def test_batch_norm_promotes() -> None:
    x = np.arange(8, dtype=np.uint8).reshape(4, 2)
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    result, mean, variance = mx.reference(mx.nn.batch_norm)(x, ones, zeros)
    assert {each.dtype.name for each in (result, mean, variance)} == {"float32"}
    narrow = draw(4, 2, dtype=ml_dtypes.bfloat16)
    assert mx.reference(mx.nn.batch_norm)(narrow, ones, zeros)[0].dtype == np.float32
    moments = (ones, zeros, zeros, ones)
    assert mx.reference(mx.nn.batch_norm_inference)(narrow, *moments).dtype == np.float32


def layer_norms(sizes: tuple[int, ...]) -> list[Case]:
    x, scale, offset = draw(*sizes), draw(sizes[-1], seed=1), draw(sizes[-1], seed=2)
    both, eager = (mx.nn.layer_norm, jax_layer_norm), len(sizes) == 2
    return [
        Case(*both, [x], eager=eager),
        Case(*both, [x, scale], eager=eager),
        Case(*both, [x, scale, offset], eager=eager),
        Case(
            lambda x: mx.nn.layer_norm(x, None, offset, 0.1),
            lambda x: jax_layer_norm(x, 1, offset, 0.1),
            [x],
            eager=eager,
        ),
    ]


LAYER_NORMS = Table({sizes: layer_norms(sizes) for sizes in [(2, 5), (2, 3, 4)]})


@pytest.mark.parametrize("sizes", LAYER_NORMS.cases)
def test_layer_norm(sizes: tuple[int, ...]) -> None:
    LAYER_NORMS.check(sizes)


def layer_norm_over(axis: Any) -> Case:
    sizes = (2, 3, 4)
    axes = [each % 3 for each in np.atleast_1d(axis)]
    x, scale = draw(*sizes), draw(*(sizes[i] for i in sorted(axes)), seed=1)
    spread = scale.reshape([size if i in axes else 1 for i, size in enumerate(sizes)])
    return Case(
        lambda x, scale: mx.nn.layer_norm(x, scale, axis=axis),
        lambda x, _: jax_layer_norm(x, spread, axis=axis),
        [x, scale],
        eager=axis == (2, 1),
    )


AXES = Table(
    {axis: layer_norm_over(axis) for axis in [0, 1, -2, (0, 1), (2, 1), (0, 2), (-3, -2, -1)]}
)


@pytest.mark.parametrize("axis", AXES.cases)
def test_layer_norm_axes(axis: Any) -> None:
    AXES.check(axis)


def test_layer_norm_derivatives_and_batches() -> None:
    operands = [draw(2, 4), draw(4, seed=1), draw(4, seed=2)]
    check(Case(mx.nn.layer_norm, jax_layer_norm, operands))
    check_transformed(mx.nn.layer_norm, jax_layer_norm, operands)


def test_layer_norm_of_16_bits() -> None:
    # Squares of 300 overflow f16; the moments are taken in f32.
    x = np.array([[300, -300, 100, 500]], np.float16)
    check(
        Case(
            mx.nn.layer_norm,
            lambda x: jax_layer_norm(x.astype(np.float32)).astype(np.float16),
            [x],
        ),
        # A scale of f32 makes the result f32, all of whose digits are right.
        Case(
            mx.nn.layer_norm,
            lambda x, scale: jax_layer_norm(x.astype(np.float32), scale),
            [x, draw(4, seed=1)],
        ),
    )


MASK = draw(2, 3, 4, seed=5) > 0
STANDARDIZE: list[dict[str, Any]] = [
    {},
    {"axis": 0},
    {"axis": None},
    {"axis": (0, 2), "algorithm": "stable"},
    {"where": MASK},
    {"where": MASK, "algorithm": "stable"},
    {"mean": 0.5},
    {"mean": draw(2, 3, 1, seed=1), "variance": abs(draw(2, 3, 1, seed=2))},
    {"epsilon": 0.1},
]


def standardized(library: Any, options: dict[str, Any]) -> Any:
    return lambda x: library.nn.standardize(x, **options)


STANDARDIZED = Table(
    {
        f"{'-'.join(options)}-{at}": Case(
            standardized(mx, options),
            standardized(jax, options),
            [draw(2, 3, 4)],
            others=[np.zeros((2, 3, 4), np.float32)],
            units=16,
            eager=not options,
        )
        for at, options in enumerate(STANDARDIZE)
    }
)


@pytest.mark.parametrize("options", STANDARDIZED.cases)
def test_standardize(options: str) -> None:
    STANDARDIZED.check(options)


def test_standardize_derivatives_and_batches() -> None:
    options = {"where": MASK[0], "axis": 1}
    given = standardized(mx, options), standardized(jax, options), [draw(3, 4)]
    check_transformed(*given)


def test_standardize_of_integers() -> None:
    assert mx.nn.standardize(np.arange(3)).dtype == np.float32


def test_rejected() -> None:
    with pytest.raises(mx.AttributeValueError, match="standardize: algorithm is 'best'"):
        mx.nn.standardize(1.0, algorithm="best")
    x = draw(2, 3, 4)
    check_rejected(
        lambda x: mx.nn.layer_norm(x, np.ones(3, np.float32)),
        [x],
        mx.ShapeError,
        "layer_norm: scale does not fit the normalized dimensions",
        "scale has dimensions (3,)",
        "inputs have dimensions (2, 3, 4)",
    )
    check_rejected(
        lambda x: mx.nn.layer_norm(x, axis=3),
        [x],
        mx.AttributeValueError,
        "layer_norm: axis 3 is out of bounds for an array of 3 dimensions",
    )
    vectors = [np.ones(4, np.float32), np.ones(4, np.float32)]
    check_rejected(
        lambda *xs: mx.nn.batch_norm(*xs, axis=3),
        [x, *vectors],
        mx.AttributeValueError,
        "batch_norm: axis 3 is out of bounds for an array of 3 dimensions",
    )
    check_rejected(
        lambda *xs: mx.nn.batch_norm(*xs, axis=1),
        [x, *vectors],
        mx.ShapeError,
        "batch_norm_training: (C3)",
        "f32[3]",
    )
    check_rejected(
        lambda *xs: mx.nn.batch_norm_inference(*xs, *vectors, axis=-4),
        [x, *vectors],
        mx.AttributeValueError,
        "batch_norm_inference: axis -4 is out of bounds",
    )
