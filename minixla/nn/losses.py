"""Losses and target encodings."""

from __future__ import annotations

from typing import Any

import minixla.numpy as np
from minixla.core.errors import ShapeError, explain
from minixla.nn.activations import log_softmax

__all__ = ["cross_entropy", "one_hot"]


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the position that each integer names, 0 elsewhere (JAX: nn.one_hot).

    Args:
        x: integers; those outside `[0, num_classes)` give zeros.
        num_classes: the size of the new dimension.
        dtype: of the result; default: the default float type.
        axis: where the new dimension stands in the result.
    """
    x = np.asarray(x)
    axis = axis % (x.ndim + 1)
    sizes = [1] * (x.ndim + 1)
    sizes[axis] = num_classes
    classes = np.arange(num_classes, dtype=x.dtype).reshape(sizes)
    return (np.expand_dims(x, axis) == classes).astype(np.result_type(float) if dtype is None else dtype)


def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """The cross-entropy of softmax(logits) with the labels, one value for each example.

    Args:
        logits: unnormalised log-probabilities of the classes along `axis`.
        labels: integers without that dimension, or probabilities shaped like `logits`.
        axis: the dimension of the classes.

    Raises:
        ShapeError: the labels fit neither form.
    """
    logits, labels = np.asarray(logits), np.asarray(labels)
    if np.issubdtype(labels.dtype, np.integer) and labels.ndim == logits.ndim - 1:
        labels = one_hot(labels, logits.shape[axis], dtype=logits.dtype, axis=axis)
    if labels.shape != logits.shape:
        raise explain(
            ShapeError,
            "cross_entropy",
            "the labels fit the logits neither as classes nor as probabilities",
            [f"logits {logits.dtype}{list(logits.shape)}", f"labels {labels.dtype}{list(labels.shape)}"],
            "Give integers without the class dimension, or probabilities of the logits' shape.",
        )
    return -np.sum(labels * log_softmax(logits, axis=axis), axis=axis)
