"""Convolution and pooling against jax.lax."""

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
from tests.minixla.numpy.tables import assert_close

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 5), (5, 3), {}),
    ((2, 6, 4), (3, 4, 2), {}),
    ((2, 6, 5, 2), (3, 2, 2, 3), {}),
    ((2, 6, 5, 2), (3, 2, 2, 3), {"strides": 2}),
    ((2, 6, 5, 2), (3, 2, 2, 3), {"strides": (2, 1), "padding": "VALID"}),
    ((2, 6, 5, 2), (3, 2, 2, 3), {"padding": [(1, 0), (2, 3)]}),
    ((2, 7, 5, 2), (3, 2, 2, 3), {"kernel_dilation": 2}),
    ((2, 4, 3, 2), (3, 2, 2, 3), {"input_dilation": (2, 1), "padding": [(0, 0), (1, 1)]}),
    ((1, 5, 4, 4), (2, 2, 2, 6), {"feature_group_count": 2}),
    ((1, 2, 5, 4), (3, 2, 2, 2), {"dimension_numbers": ("NCHW", "OIHW", "NCHW")}),
    ((1, 3, 4, 3, 2), (2, 2, 2, 2, 3), {}),
    ((1, 2, 3, 2, 2, 1), (2, 1, 2, 1, 1, 2), {}),
]
LETTERS = "DHWXYZ"


def jax_conv(inputs: Any, kernel: Any, **options: Any) -> Any:
    """The same convolution in JAX."""
    spatial = inputs.ndim - 2
    letters = LETTERS[:spatial]
    repeated = {
        name: (value,) * spatial if isinstance(value, int) else value
        for name, value in options.items()
        if name in ("strides", "input_dilation", "kernel_dilation")
    }
    return jax.lax.conv_general_dilated(
        inputs,
        kernel,
        repeated.get("strides", (1,) * spatial),
        options.get("padding", "SAME"),
        repeated.get("input_dilation"),
        repeated.get("kernel_dilation"),
        options.get("dimension_numbers", (f"N{letters}C", f"{letters}IO", f"N{letters}C")),
        options.get("feature_group_count", 1),
        preferred_element_type=options.get("preferred_element_type"),
    )


def convolution(inputs: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]) -> Case:
    return Case(
        lambda x, k: mx.nn.conv(x, k, **options),
        lambda x, k: jax_conv(x, k, **options),
        [draw(*inputs), draw(*kernel)],
        units=64,
        # Two dimensions, plain, with strides and with groups: the others are the same operation.
        eager=len(inputs) == 4 and set(options) <= {"strides", "feature_group_count"},
    )


CONVOLVED = Table(
    {
        f"{inputs}-{kernel}-{'-'.join(options) or 'default'}": convolution(inputs, kernel, options)
        for inputs, kernel, options in CONVOLUTIONS
    }
)


@pytest.mark.parametrize("row", CONVOLVED.cases)
def test_conv(row: str) -> None:
    CONVOLVED.check(row)


def test_conv_derivatives_and_batches() -> None:
    operands = [draw(1, 4, 3, 2), draw(3, 2, 2, 2)]

    def ours(x: Any, k: Any) -> Any:
        return mx.nn.conv(x, k, 2)

    def theirs(x: Any, k: Any) -> Any:
        return jax_conv(x, k, strides=2)

    check(Case(ours, theirs, operands))
    check_transformed(ours, theirs, operands)


def test_conv_types() -> None:
    images = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    kernel = draw(3, 3, 1, 2)
    check(
        Case(
            mx.nn.conv,
            lambda x, k: jax_conv(x.astype(np.float32), k),
            [images, kernel],
            units=64,
        )
    )
    narrow = draw(1, 4, 4, 1, dtype=ml_dtypes.bfloat16)
    assert mx.reference(mx.nn.conv)(narrow, kernel).dtype == np.float32
    same = kernel.astype(ml_dtypes.bfloat16)
    wide = mx.reference(lambda *xs: mx.nn.conv(*xs, preferred_element_type=np.float32))(
        narrow, same
    )
    assert wide.dtype == np.float32


def test_conv_rejected() -> None:
    different_ranks = "conv: inputs and kernel do not have the same number of dimensions"
    rows: list[tuple[tuple[int, ...], tuple[int, ...], Any, type[Exception], tuple[str, ...]]] = [
        ((3, 4, 2), (3, 3, 2, 4), 1, mx.ShapeError, (different_ranks, "f32[3,4,2]", "x[None]")),
        ((3,), (3,), 1, mx.ShapeError, (different_ranks, "inputs f32[3]")),
        (
            (1, 4, 4),
            (3, 5, 2),
            1,
            mx.ShapeError,
            ("(C8) lhs has 4 features, but the kernel takes 5",),
        ),
        ((1, 4, 4), (3, 4, 2), (1, 2), mx.AttributeValueError, ("window_strides",)),
    ]
    for inputs, kernel, strides, error, phrases in rows:
        check_rejected(
            lambda x, k, strides=strides: mx.nn.conv(x, k, strides),
            [draw(*inputs), draw(*kernel)],
            error,
            *phrases,
        )


POOLS: list[dict[str, Any]] = [
    {"window_shape": (2, 2)},
    {"window_shape": (2, 2), "strides": (2, 2)},
    {"window_shape": (3, 2), "strides": (1, 2), "padding": "SAME"},
    {"window_shape": (3, 2), "padding": [(1, 0), (0, 1)]},
]


def jax_pool(x: Any, neutral: Any, function: Any, **options: Any) -> Any:
    """The same pooling in JAX."""
    window = options["window_shape"]
    leading = x.ndim - 1 - len(window)
    padding = options.get("padding", "VALID")
    if not isinstance(padding, str):
        padding = [(0, 0)] * leading + padding + [(0, 0)]
    strides = options.get("strides", (1,) * len(window))
    return jax.lax.reduce_window(
        x,
        neutral,
        function,
        (1,) * leading + window + (1,),
        (1,) * leading + strides + (1,),
        padding,
    )


def jax_avg_pool(x: Any, count_include_pad: bool = True, **options: Any) -> Any:
    total = jax_pool(x, 0.0, jax.lax.add, **options)
    if count_include_pad:
        return total / np.prod(options["window_shape"])
    return total / jax_pool(jnp.ones_like(x), 0.0, jax.lax.add, **options)


def maxima(x: np.ndarray, options: dict[str, Any], **more: Any) -> Case:
    return Case(
        lambda x: mx.nn.max_pool(x, **options),
        lambda x: jax_pool(x, -np.inf, jax.lax.max, **options),
        [x],
        **more,
    )


def means(x: np.ndarray, options: dict[str, Any], counted: bool, **more: Any) -> Case:
    return Case(
        lambda x: mx.nn.avg_pool(x, **options, count_include_pad=counted),
        lambda x: jax_avg_pool(x, counted, **options),
        [x],
        **more,
    )


def pools(sizes: tuple[int, ...], options: dict[str, Any]) -> list[Case]:
    x, eager = draw(*sizes), {"eager": sizes == POOLED[0]}
    return [
        maxima(x, options, **eager),
        means(x, options, True, **eager),
        means(x, options, False, **eager),
    ]


POOLED = [(2, 5, 4, 3), (5, 4, 1), (0, 5, 4, 3), (2, 1, 5, 4, 2)]
POOL_TABLE = Table(
    {(sizes, "-".join(options)): pools(sizes, options) for sizes in POOLED for options in POOLS}
)


@pytest.mark.parametrize(("sizes", "options"), POOL_TABLE.cases)
def test_pools(sizes: tuple[int, ...], options: str) -> None:
    POOL_TABLE.check((sizes, options))


@pytest.mark.parametrize("options", POOLS[1:3], ids=lambda x: "-".join(x))
def test_pool_derivatives_and_batches(options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).permutation(32).reshape(2, 4, 4, 1) / 4.0  # no ties
    cases = [maxima(x, options), means(x, options, False)]
    check(*cases)
    for case in cases:
        check_transformed(case.function, case.jax_function, case.arrays)


def test_pools_of_other_types() -> None:
    integers = np.array([[-5, 3, 2, -7]], np.int8)[..., None]
    pool = mx.reference(lambda x: mx.nn.max_pool(x, (2,), (2,)))
    assert_close(pool(integers), np.array([[[3], [2]]], np.int8))
    assert_close(pool(integers.astype(np.uint8)), np.array([[[251], [249]]], np.uint8))
    assert_close(pool(integers > 0), np.array([[[True], [True]]]))
    bytes_ = np.array([[200, 100, 255, 255]], np.uint8)[..., None]
    mean = mx.reference(lambda x: mx.nn.avg_pool(x, (2,), (2,)))(bytes_)
    assert_close(mean, np.array([[[150], [255]]], np.float32))


def test_pool_edges() -> None:
    x = np.array([[np.nan, 1, -np.inf, -np.inf, np.inf, 0]], np.float32)[..., None]
    expected = np.array([[[np.nan], [-np.inf], [np.inf]]], np.float32)
    assert_close(mx.reference(lambda x: mx.nn.max_pool(x, (2,), (2,)))(x), expected)
    assert_close(mx.jit(lambda x: mx.nn.max_pool(x, (2,), (2,)))(x), expected)


def test_pools_rejected() -> None:
    for name in ("max_pool", "avg_pool"):
        pool = getattr(mx.nn, name)
        phrases = (
            f"{name}: a window of 2 dimensions does not fit",
            "window_shape (2, 2)",
            "f32[3,3]",
        )
        check_rejected(lambda x, pool=pool: pool(x, (2, 2)), [draw(3, 3)], mx.ShapeError, *phrases)
        check_rejected(
            lambda x, pool=pool: pool(x, (2, 2), (1,)),
            [draw(1, 3, 3, 1)],
            mx.AttributeValueError,
            "window_strides has 3 entries, but there are 4 dimensions",
        )
