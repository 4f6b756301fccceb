"""Convolution, pooling and normalization, as functions of their parameters.

Images are channels-last: batch, spatial dimensions, features.
"""

import math
from collections.abc import Sequence
from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.element_types import F32
from minixla.core.tracing import one_program, with_flags
from minixla.numpy import operands
from minixla.numpy.operands import (
    Axis,
    convert,
    convert_all,
    inexact_operand,
    lifted,
    operand_shape,
)
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.programs.computations import neutral_element

Padding = str | Sequence[tuple[int, int]]


def conv(
    inputs: ArrayLike,
    kernel: ArrayLike,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    *,
    input_dilation: int | Sequence[int] = 1,
    kernel_dilation: int | Sequence[int] = 1,
    feature_group_count: int = 1,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Compute a convolution (cross-correlation) in any number of spatial dimensions.

    XLA: `ConvGeneralDilated`.

    Args:
        inputs: `[batch, spatial..., features]`.
        kernel: `[spatial..., features / feature_group_count, output features]`. Inputs and kernel
            are converted to their common type.
        strides: the strides of the window; one integer, or one for each spatial dimension.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        input_dilation: the distance between neighboring inputs (transposed convolution).
        kernel_dilation: the distance between neighboring weights (atrous convolution).
        feature_group_count: the number of groups of features.
        dimension_numbers: another order of dimensions, such as ("NCHW", "OIHW", "NCHW").
        preferred_element_type: the element type of the result.

    Returns:
        `[batch, spatial..., output features]`.

    Raises:
        ShapeError: there are fewer than two dimensions.
        ShapeError, AttributeValueError: see `minixla_ops.conv_general_dilated`.

    Example:
        >>> x, kernel = np.float32([[[1], [2], [3]]]), np.float32([[[1]], [[1]]])
        >>> mx.nn.conv(x, kernel, padding="VALID")[0, :, 0]
        Array([3., 5.], dtype=float32)
    """
    inputs, kernel = convert_all("conv", [inputs, kernel])
    shapes = operand_shape(inputs, "conv"), operand_shape(kernel, "conv")
    spatial = shapes[0].rank - 2
    if spatial < 0 or shapes[0].rank != shapes[1].rank:
        problem = "inputs and kernel do not have the same number of dimensions, at least two"
        details = [f"inputs {shapes[0]}", f"kernel {shapes[1]}"]
        advice = "Pass inputs [batch, spatial..., features] (x[None] adds a batch dimension) and "
        advice += "kernel [spatial..., features, output features]."
        raise operands.shape_error("conv", problem, advice, *details)
    if dimension_numbers is None:
        numbers = "".join(map(str, range(spatial)))
        dimension_numbers = f"b{numbers}f_{numbers}io->b{numbers}f"
    steps, dilation, spacing = [
        (dilation,) * spatial if isinstance(dilation, int) else tuple(dilation)
        for dilation in (strides, input_dilation, kernel_dilation)
    ]
    return ops.conv_general_dilated(
        *(inputs, kernel, steps, padding, dilation, spacing, dimension_numbers),
        feature_group_count=feature_group_count,
        preferred_element_type=preferred_element_type,
    )


def max_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Return the maximum of each window (XLA: `ReduceWindow`).

    Args:
        inputs: `[batch..., spatial..., features]`.
        window_shape: the size of the window in each spatial dimension.
        strides: the strides of the window; default: 1.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.

    Returns:
        `[batch..., positions..., features]`.

    Raises:
        ShapeError: the inputs lack the dimension of the features, or a spatial dimension.
        ShapeError, AttributeValueError: see `minixla_ops.reduce_window`.

    Example:
        >>> mx.nn.max_pool(np.float32([[[1], [3], [2]]]), (2,))[0, :, 0]
        Array([3., 3.], dtype=float32)
    """
    return _pool("max_pool", "max", lifted(inputs), window_shape, strides, padding)


@with_flags
def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Return the mean of each window (XLA: `ReduceWindow`).

    Args:
        inputs: `[batch..., spatial..., features]`; integers become floats.
        window_shape: the size of the window in each spatial dimension.
        strides: the strides of the window; default: 1.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        count_include_pad: whether padding counts as elements.

    Returns:
        `[batch..., positions..., features]`.

    Raises:
        ShapeError, AttributeValueError: see `max_pool`.

    Example:
        >>> mx.nn.avg_pool(np.float32([[[1], [3], [2]]]), (2,))[0, :, 0]
        Array([2. , 2.5], dtype=float32)
    """
    window = _window("avg_pool", window_shape)
    inputs, how = inexact_operand(inputs, "avg_pool"), (window, strides, padding)
    total = _pool("avg_pool", "add", inputs, *how)
    if count_include_pad:
        return total / math.prod(window)
    # All examples and features have the same counts.
    ones = np.ones((*inputs.shape[-1 - len(window) : -1], 1), inputs.dtype)
    return total / _pool("avg_pool", "add", ones, *how)


def _window(subject: str, window_shape: Any) -> tuple[int, ...]:
    sizes = operands.listed(window_shape)
    return tuple([operands.static_int(size, subject, "window_shape") for size in sizes])


def _pool(
    subject: str, monoid: str, inputs: Any, window_shape: Any, strides: Any, padding: Padding
) -> Any:
    shape = operand_shape(inputs, subject)
    window = _window(subject, window_shape)
    leading = shape.rank - 1 - len(window)
    if leading < 0:
        problem = f"a window of {len(window)} dimensions does not fit"
        advice = "The window covers the spatial dimensions, which precede the features."
        details = f"window_shape {window}", f"inputs {shape}"
        raise operands.shape_error(subject, problem, advice, *details)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    window, steps = ((*(1,) * leading, *sizes, 1) for sizes in (window, steps))
    if not isinstance(padding, str):
        padding = [(0, 0)] * leading + [*padding] + [(0, 0)]
    start = neutral_element(monoid, shape.element_type)
    return ops.reduce_window(inputs, start, getattr(ops, monoid), window, steps, padding)


@one_program("inputs", "scale", "offset")
def batch_norm(
    inputs: ArrayLike, scale: ArrayLike, offset: ArrayLike, epsilon: float = 1e-5, axis: int = -1
) -> tuple[Array, Array, Array]:
    """Normalize over the batch, for training (XLA: `BatchNormTraining`).

    Args:
        inputs: an array with features along `axis`.
        scale: a vector to multiply by, with one element for each feature.
        offset: a vector to add. All three are converted to their common type.
        epsilon: added to the variance.
        axis: the dimension of the features; the moments are taken over all others.

    Returns:
        The normalized inputs, and the mean and (biased) variance of each feature.

    Raises:
        AttributeValueError: the axis is out of range.
        ShapeError: see `minixla_ops.batch_norm_training`.

    Example:
        >>> x, one = np.float32([[1], [3]]), np.float32([1])
        >>> output, mean, variance = mx.nn.batch_norm(x, one, 0 * one)
        >>> mean, variance
        (Array([2.], dtype=float32), Array([1.], dtype=float32))
    """
    feature = operands.axis_of(axis, operand_shape(inputs, "batch_norm").rank, "batch_norm")
    converted = convert_all("batch_norm", [inputs, scale, offset])
    return ops.batch_norm_training(*converted, epsilon=epsilon, feature_index=feature)


@one_program("inputs", "scale", "offset", "mean", "variance")
def batch_norm_inference(
    inputs: ArrayLike,
    scale: ArrayLike,
    offset: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> Array:
    """Normalize with given moments (XLA: `BatchNormInference`); see `batch_norm`.

    Args:
        inputs: an array with features along `axis`.
        scale: a vector to multiply by, with one element for each feature.
        offset: a vector to add.
        mean: the mean of each feature.
        variance: the variance of each feature.
        epsilon: added to the variance.
        axis: the dimension of the features.

    Returns:
        The normalized inputs.

    Raises:
        AttributeValueError: the axis is out of range.
        ShapeError: the sizes of the vectors differ from the number of features.

    Example:
        >>> x, one = np.float32([[1], [3]]), np.float32([1])
        >>> mx.nn.batch_norm_inference(x, one, 0 * one, 2 * one, one)[:, 0]
        Array([-0.999995,  0.999995], dtype=float32)
    """
    subject = "batch_norm_inference"
    feature = operands.axis_of(axis, operand_shape(inputs, subject).rank, subject)
    converted = convert_all(subject, [inputs, scale, offset, mean, variance])
    return ops.batch_norm_inference(*converted, epsilon=epsilon, feature_index=feature)


@one_program("inputs", "scale", "offset")
def layer_norm(
    inputs: ArrayLike,
    scale: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    epsilon: float = 1e-5,
    axis: Axis = -1,
) -> Array:
    """Normalize each example, then scale and shift it.

    Source: J. L. Ba, J. R. Kiros, G. E. Hinton, Layer Normalization (2016).

    minixla: `standardize`, scaled and shifted.

    Args:
        inputs: an array; f16 and bf16 are computed in f32.
        scale: an array to multiply by, or None. It has the sizes of the normalized dimensions, in
            ascending order.
        offset: an array of the same sizes to add, or None.
        epsilon: added to the variance.
        axis: the dimension or dimensions to normalize over.

    Returns:
        An array with the shape of `inputs` and the common type of all three.

    Raises:
        AttributeValueError: an axis is out of range or repeated.
        ShapeError: scale or offset has other sizes.

    Example:
        >>> mx.nn.layer_norm(np.float32([1, 2, 3]))
        Array([-1.2247356,  0.       ,  1.2247356], dtype=float32)
    """
    inputs = inexact_operand(inputs, "layer_norm")
    shape = operand_shape(inputs, "layer_norm")
    axes = tuple(sorted(operands.axes_of(axis, shape.rank, "layer_norm")))
    arrays = [array for array in (inputs, scale, offset) if array is not None]
    wide = convert(inputs, operands.widened(shape.element_type))
    centred = wide - operands.spread(np.mean(wide, axes), axes, wide)
    variance = np.mean(centred * centred, axes)
    result = centred * operands.spread(ops.rsqrt(variance + epsilon), axes, wide)
    if scale is not None:
        result *= _along(axes, scale, shape.dimensions, "scale")
    if offset is not None:
        result += _along(axes, offset, shape.dimensions, "offset")
    return convert(result, operands.common_type("layer_norm", *arrays))


@one_program("x", "mean", "variance", "epsilon", "where")
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Shift and scale x to mean 0 and variance 1 (JAX: `jax.nn.standardize`).

    Args:
        x: an array.
        axis: the dimension or dimensions to normalize over; None for all.
        mean: used in place of the mean over `axis`.
        variance: used in place of the variance over `axis`.
        epsilon: added to the variance.
        where: booleans, true for elements that count for the mean and the variance.
        algorithm: how to compute the variance. `fast` is the mean of the squares minus the square
            of the mean, which cancels if the mean is large. `stable` is the mean of the squared
            distances.

    Returns:
        An array with the shape of `x`.

    Raises:
        AttributeValueError: the algorithm is unknown.

    Example:
        >>> mx.nn.standardize(np.float32([1, 2, 3]))
        Array([-1.224736,  0.      ,  1.224736], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        problem, advice = f"algorithm is {algorithm!r}", "Pass 'fast' or 'stable'."
        raise operands.value_error("standardize", problem, advice)
    x = inexact_operand(x, "standardize")
    mean = np.mean(x, axis, keepdims=True, where=where) if mean is None else lifted(mean)
    if variance is None and algorithm == "stable":
        variance = np.mean(np.square(x - mean), axis, keepdims=True, where=where)
    elif variance is None:
        squares = np.mean(np.square(x), axis, keepdims=True, where=where)
        variance = np.clip(squares - np.square(mean), 0)  # rounding may make it negative
    return (x - mean) * ops.rsqrt(inexact_operand(np.add(variance, epsilon), "standardize"))


@one_program("lhs", "rhs", "lhs_scales", "rhs_scales")
def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """Multiply batches of matrices that have a scale for each block (JAX: `jax.nn.scaled_matmul`).

    The products are computed in f32 on every platform. JAX's function needs a GPU with cuDNN.

    Args:
        lhs: `[batch, m, k]`.
        rhs: `[batch, n, k]`.
        lhs_scales: `[batch, m, blocks]`, for blocks of equal length along k.
        rhs_scales: `[batch, n, blocks]`.
        preferred_element_type: the element type of the result.

    Returns:
        `[batch, m, n]`: sums over k of scaled elements.

    Raises:
        ShapeError: the shapes do not match.

    Example:
        >>> lhs, rhs = np.ones((1, 2, 4), np.float32), np.ones((1, 3, 4), np.float32)
        >>> scales = np.float32([[[1, 10]]])
        >>> mx.nn.scaled_matmul(lhs, rhs, scales.repeat(2, 1), scales.repeat(3, 1))[0, 0, 0]
        Array(202., dtype=float32)
    """
    subject, arrays = "scaled_matmul", (lhs, rhs, lhs_scales, rhs_scales)
    shapes = [operand_shape(array, subject) for array in arrays]
    sizes = [shape.dimensions for shape in shapes]
    kind = operands.requested_type(preferred_element_type, subject, F32)
    if {*map(len, sizes)} == {3}:
        (batch, m, k), _, (_, _, blocks), _ = sizes
        wanted = [(batch, m, k), (batch, sizes[1][1], k)]
        wanted += [(*sizes[:2], blocks) for sizes in wanted]
        if sizes == wanted and blocks and not k % blocks:
            wide = [convert(array, F32) for array in arrays]
            pairs = zip(wide[:2], wide[2:], strict=True)
            scaled = [x * np.repeat(scale, k // blocks, -1) for x, scale in pairs]
            return convert(np.einsum("bmk,bnk->bmn", *scaled), kind)
    problem = "the shapes of the operands do not match"
    names = ("lhs", "rhs", "lhs_scales", "rhs_scales")
    details = [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)]
    advice = "Pass lhs [batch, m, k], rhs [batch, n, k], lhs_scales [batch, m, blocks] and "
    advice += "rhs_scales [batch, n, blocks], where the number of blocks divides k."
    raise operands.shape_error(subject, problem, advice, *details)


def _along(axes: tuple[int, ...], parameter: Any, sizes: tuple[int, ...], name: str) -> Any:
    """Repeat a parameter of the normalized dimensions along all others."""
    dimensions = operand_shape(parameter, "layer_norm").dimensions
    if dimensions != tuple([sizes[axis] for axis in axes]):
        problem = f"{name} does not fit the normalized dimensions"
        details = [f"{name} has dimensions {dimensions}", f"inputs have dimensions {sizes}"]
        advice = f"{name} must have the sizes of the dimensions that are normalized over."
        raise operands.shape_error("layer_norm", problem, advice, *details, axis=axes)
    return operands.keep_weak(ops.broadcast_in_dim(parameter, sizes, axes), parameter)
