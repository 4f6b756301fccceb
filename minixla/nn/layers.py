"""Convolution, pooling and normalisation as functions of their parameters.

Images are channels-last: a batch, spatial dimensions, features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.errors import ShapeError, explain

__all__ = ["avg_pool", "batch_norm", "batch_norm_inference", "conv", "layer_norm", "max_pool"]

Padding = str | Sequence[tuple[int, int]]
_SPATIAL = "DHW"


def conv(
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    *,
    input_dilation: int | Sequence[int] = 1,
    kernel_dilation: int | Sequence[int] = 1,
    feature_group_count: int = 1,
    dimension_numbers: tuple[str, str, str] | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution (cross-correlation) in any number of spatial dimensions.

    Args:
        inputs: `[batch, spatial..., features]`.
        kernel: `[spatial..., features / feature_group_count, output features]`.
        strides: of the window; one number or one for each spatial dimension.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        input_dilation: the distance between neighbouring inputs (transposed convolution).
        kernel_dilation: the distance between neighbouring weights (atrous convolution).
        feature_group_count: how many groups the features are cut into.
        dimension_numbers: JAX's triple of strings; default: channels last (`NHWC HWIO NHWC`).
        preferred_element_type: of the result.

    Raises:
        ShapeError, AttributeValueError: see `ops.conv_general_dilated`.
    """
    spatial = len(np.shape(inputs)) - 2
    if dimension_numbers is None:
        letters = _SPATIAL[-spatial:] if spatial else ""
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    return ops.conv_general_dilated(
        inputs,
        kernel,
        _repeated(strides, spatial),
        padding,
        _repeated(input_dilation, spatial),
        _repeated(kernel_dilation, spatial),
        dimension_numbers,
        feature_group_count=feature_group_count,
        preferred_element_type=preferred_element_type,
    )


def _repeated(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def _pool(
    inputs: Any,
    initial: Any,
    computation: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
) -> Any:
    window = tuple(window_shape)
    rank = len(np.shape(inputs))
    if len(window) > rank - 1:
        raise explain(
            ShapeError,
            "pool",
            f"a window of {len(window)} dimensions does not fit inputs of rank {rank}",
            [f"window_shape {window}", f"inputs {np.shape(inputs)}"],
            "The window covers the spatial dimensions, which stand before the features.",
        )
    leading = rank - 1 - len(window)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    if not isinstance(padding, str):
        padding = [(0, 0)] * leading + [*padding] + [(0, 0)]
    return ops.reduce_window(
        [inputs],
        [initial],
        computation,
        (1,) * leading + window + (1,),
        (1,) * leading + steps + (1,),
        padding,
    )


def max_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Any:
    """The largest element of each window.

    Args:
        inputs: `[batch..., spatial..., features]`.
        window_shape: the window's size in each spatial dimension.
        strides: of the window; default: 1.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
    """
    inputs = np.asarray(inputs)
    is_float = np.issubdtype(inputs.dtype, np.inexact)
    lowest = -math.inf if is_float else int(np.iinfo(inputs.dtype).min)
    initial = np.full((), lowest, inputs.dtype)
    return _pool(inputs, initial, ops.max, window_shape, strides, padding)


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window.

    Args:
        inputs: `[batch..., spatial..., features]`.
        window_shape: the window's size in each spatial dimension.
        strides: of the window; default: 1.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        count_include_pad: whether padding counts as elements.
    """
    inputs = np.asarray(inputs)
    zero = np.zeros((), inputs.dtype)
    total = _pool(inputs, zero, ops.add, window_shape, strides, padding)
    if count_include_pad:
        return total / math.prod(window_shape)
    counts = _pool(np.ones_like(inputs), zero, ops.add, window_shape, strides, padding)
    return total / counts


def batch_norm(
    inputs: Any, scale: Any, offset: Any, epsilon: float = 1e-5, axis: int = -1
) -> tuple[Any, Any, Any]:
    """Normalisation over the batch, for training (XLA: BatchNormTraining).

    Args:
        inputs: an array with features along `axis`.
        scale, offset: vectors of the feature size.
        epsilon: added to the variance.
        axis: the dimension of the features; the moments are taken over all others.

    Returns:
        The normalised inputs, and the mean and (biased) variance of each feature.
    """
    inputs = np.asarray(inputs)
    return ops.batch_norm_training(inputs, scale, offset, epsilon, axis % inputs.ndim)


def batch_norm_inference(
    inputs: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> Any:
    """Normalisation with given moments (XLA: BatchNormInference); see `batch_norm`."""
    inputs = np.asarray(inputs)
    feature = axis % inputs.ndim
    return ops.batch_norm_inference(inputs, scale, offset, mean, variance, epsilon, feature)


def layer_norm(
    inputs: Any, scale: Any = None, offset: Any = None, epsilon: float = 1e-5, axis: int = -1
) -> Any:
    """Normalisation of each example over `axis`, then scaled and shifted.

    Args:
        inputs: an array.
        scale, offset: vectors of that dimension's size, or None.
        epsilon: added to the variance.
        axis: the dimension to normalise over.
    """
    mean = np.mean(inputs, axis=axis, keepdims=True)
    centred = inputs - mean
    variance = np.mean(centred * centred, axis=axis, keepdims=True)
    result = centred * ops.rsqrt(variance + epsilon)
    if scale is not None:
        result = result * scale
    return result if offset is None else result + offset
