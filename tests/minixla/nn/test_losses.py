"""one_hot against jax.nn, cross_entropy against its definition in JAX."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import by_jax, check_rejected
from tests.minixla.nn.comparing import Case, Table, check, check_transformed, draw
from tests.minixla.numpy.tables import assert_close

ONE_HOT: list[tuple[Any, int, dict[str, Any]]] = [
    (np.array([0, 3, -1, 2, 7], np.int32), 4, {}),
    (np.array([[0, 1]], np.uint8), 3, {"axis": 0}),
    (np.array([[0, 1]], np.int16), 3, {"axis": 1, "dtype": np.int32}),
    (np.array(2, np.int32), 4, {}),
    (np.array([0], np.int32), 0, {}),
    (np.zeros((0,), np.int32), 3, {}),
    (np.array([1, 2], np.int32), 3, {"dtype": bool}),
    (np.array([0, 2, 1.5, -1, np.nan, np.inf], np.float32), 3, {}),
    (np.array([1, 2, 1 + 1j], np.complex64), 3, {"axis": 0}),
    (np.array([1, 2], np.uint32), 3, {"dtype": ml_dtypes.bfloat16, "axis": -2}),
]


def one_hot(x: np.ndarray, count: int, options: dict[str, Any]) -> Case:
    return Case(
        lambda x: mx.nn.one_hot(x, count, **options),
        lambda x: jax.nn.one_hot(x, count, **options),
        [x],
    )


ENCODED = Table({at: one_hot(*row) for at, row in enumerate(ONE_HOT)})


@pytest.mark.parametrize("row", ENCODED.cases)
def test_one_hot(row: int) -> None:
    ENCODED.check(row)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_more_classes_than_the_type_holds(dtype: Any) -> None:
    # Not JAX's: there, classes 256 and up wrap around.
    x = np.array([3, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    result = mx.reference(lambda x: mx.nn.one_hot(x, 300))(x)
    expected = np.arange(300) == x.astype(np.int32)[:, None]
    assert_close(result, expected.astype(np.float32))
    result = mx.reference(lambda x: mx.nn.one_hot(x, 300))(np.array([256], ml_dtypes.bfloat16))
    assert_close(result, np.eye(1, 300, 256, np.float32))


def test_one_hot_rejected() -> None:
    integers = np.array([1, 2], np.int32)
    check_rejected(
        lambda x: mx.nn.one_hot(x, 3),
        [draw(3) > 0],
        mx.ShapeError,
        "one_hot: x does not hold",
        "pred[3]",
    )
    check_rejected(
        lambda x: mx.nn.one_hot(x, -3), [integers], mx.AttributeValueError, "num_classes is -3"
    )
    check_rejected(
        lambda x: mx.nn.one_hot(x, 3, axis=2),
        [integers],
        mx.AttributeValueError,
        "one_hot: axis 2 is out of bounds",
    )
    check_rejected(
        lambda x: mx.nn.one_hot(x, x),
        [np.array(2, np.int32)],
        mx.ConcretizationError,
        "num_classes must be known",
    )


def jax_cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    if labels.ndim < logits.ndim:
        labels = jax.nn.one_hot(labels, logits.shape[axis], dtype=logits.dtype, axis=axis)
    return -(labels * jax.nn.log_softmax(logits, axis)).sum(axis)


CLASSES = np.array([0, 3, 1], np.int32)


PROBABILITIES = np.exp(draw(3, 4, seed=1))
PROBABILITIES /= PROBABILITIES.sum(-1, keepdims=True)


def of_type(dtype: Any) -> list[Case]:
    both, logits = (mx.nn.cross_entropy, jax_cross_entropy), draw(3, 4, dtype=dtype)
    return [
        Case(*both, [logits, CLASSES]),
        Case(*both, [logits, PROBABILITIES.astype(dtype)], eager=dtype is np.float32),
    ]


TYPES = Table({dtype: of_type(dtype) for dtype in [np.float32, np.float16, ml_dtypes.bfloat16]})


@pytest.mark.parametrize("dtype", TYPES.cases)
def test_cross_entropy(dtype: Any) -> None:
    TYPES.check(dtype)


def test_cross_entropy_axes() -> None:
    logits, labels = draw(2, 4, 3), np.array([[0, 3, 1], [2, 2, 0]], np.int32)
    check(
        *(
            Case(
                lambda x, y, axis=axis: mx.nn.cross_entropy(x, y, axis),
                lambda x, y, axis=axis: jax_cross_entropy(x, y, axis),
                [logits, labels],
            )
            for axis in (1, -2)
        )
    )


def test_cross_entropy_derivatives_and_batches() -> None:
    for labels in (CLASSES, PROBABILITIES):
        check_transformed(mx.nn.cross_entropy, jax_cross_entropy, [draw(3, 4), labels])


def test_classes_that_are_ruled_out() -> None:
    logits = np.array([[0, -np.inf, 1], [1e4, 0, -1e4]], np.float32)
    labels = np.array([2, 1], np.int32)
    value, gradient = mx.jit(mx.value_and_grad(lambda x: mx.nn.cross_entropy(x, labels).sum()))(
        logits
    )
    expected = by_jax(lambda x: jax.nn.softmax(x) - jax.nn.one_hot(labels, 3), logits)
    assert_close(gradient, expected)
    assert_close(value, np.float32(np.log1p(np.exp(-1.0)) + 1e4))


def test_labels_that_name_no_class() -> None:
    logits, labels = draw(3, 4), np.array([1, -1, 4], np.int32)
    loss = mx.jit(mx.nn.cross_entropy)(logits, labels)
    assert loss[0] > 0
    assert_close(loss[1:], np.zeros(2, np.float32))


def test_cross_entropy_rejected() -> None:
    phrases = (
        "cross_entropy: the labels must match the logits",
        "logits f32[3,4]",
        "labels s32[2]",
    )
    check_rejected(
        lambda x, y: mx.nn.cross_entropy(x, y), [draw(3, 4), CLASSES[:2]], mx.ShapeError, *phrases
    )
    check_rejected(
        lambda x, y: mx.nn.cross_entropy(x, y),
        [draw(3, 4), draw(3)],
        mx.ShapeError,
        "labels f32[3]",
    )
    check_rejected(
        lambda x, y: mx.nn.cross_entropy(x, y, 2),
        [draw(3, 4), CLASSES],
        mx.AttributeValueError,
        "cross_entropy: axis 2 is out of bounds",
    )
