"""Convolution and pooling, as functions of their parameters.

Images are channels-last: batch, spatial dimensions, features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.errors import ShapeError, explain
from minixla.numpy.operands import convert_all, inexact_operand, lifted, operand_shape
from minixla_ops.programs.computations import neutral_element

Padding = str | Sequence[tuple[int, int]]


def conv(
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    *,
    input_dilation: int | Sequence[int] = 1,
    kernel_dilation: int | Sequence[int] = 1,
    feature_group_count: int = 1,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution (cross-correlation) in any number of spatial dimensions.

    Args:
        inputs: `[batch, spatial..., features]`.
        kernel: `[spatial..., features / feature_group_count, output features]`; both are converted
            to their common type.
        strides: of the window; one number, or one for each spatial dimension.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        input_dilation: the distance between neighbouring inputs (transposed convolution).
        kernel_dilation: the distance between neighbouring weights (atrous convolution).
        feature_group_count: how many groups the features are cut into.
        dimension_numbers: another order of dimensions, such as ("NCHW", "OIHW", "NCHW").
        preferred_element_type: of the result.

    Returns:
        `[batch, spatial..., output features]`.

    Raises:
        ShapeError: there are fewer than two dimensions.
        ShapeError, AttributeValueError: see `minixla_ops.conv_general_dilated`.
    """
    inputs, kernel = convert_all("conv", [inputs, kernel])
    shapes = operand_shape(inputs, "conv"), operand_shape(kernel, "conv")
    spatial = shapes[0].rank - 2
    if spatial < 0 or shapes[0].rank != shapes[1].rank:
        problem = "inputs and kernel do not have the same number of dimensions, at least two"
        given = [f"inputs {shapes[0]}", f"kernel {shapes[1]}"]
        advice = "Give inputs [batch, spatial..., features] (x[None] adds a batch dimension) and "
        advice += "kernel [spatial..., features, output features]."
        raise explain(ShapeError, "conv", problem, given, advice)
    if dimension_numbers is None:
        numbers = "".join(map(str, range(spatial)))
        dimension_numbers = f"b{numbers}f_{numbers}io->b{numbers}f"
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

    Raises:
        ShapeError: the inputs have no dimension for the features, or no such spatial dimensions.
        ShapeError, AttributeValueError: see `minixla_ops.reduce_window`.
    """
    return _pool("max_pool", "max", lifted(inputs), window_shape, strides, padding)


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window.

    Args:
        inputs: `[batch..., spatial..., features]`; integers become floats.
        window_shape: the window's size in each spatial dimension.
        strides: of the window; default: 1.
        padding: "SAME", "VALID", or (low, high) for each spatial dimension.
        count_include_pad: whether padding counts as elements.

    Raises:
        ShapeError, AttributeValueError: as `max_pool`.
    """
    inputs = inexact_operand(inputs, "avg_pool")
    options = (window_shape, strides, padding)
    total = _pool("avg_pool", "add", inputs, *options)
    if count_include_pad:
        return total / math.prod(window_shape)
    # All examples and features have the same counts.
    sizes = (*inputs.shape[-1 - len(window_shape) : -1], 1)
    return total / _pool("avg_pool", "add", np.ones(sizes, inputs.dtype), *options)


def _pool(
    subject: str, monoid: str, inputs: Any, window_shape: Any, strides: Any, padding: Padding
) -> Any:
    shape = operand_shape(inputs, subject)
    window = tuple(window_shape)
    leading = shape.rank - 1 - len(window)
    if leading < 0:
        problem = f"a window of {len(window)} dimensions does not fit"
        given = [f"window_shape {window}", f"inputs {shape}"]
        advice = "The window covers the spatial dimensions, which stand before the features."
        raise explain(ShapeError, subject, problem, given, advice)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    window, steps = ((*(1,) * leading, *each, 1) for each in (window, steps))
    if not isinstance(padding, str):
        padding = [(0, 0)] * leading + [*padding] + [(0, 0)]
    computation = ops.max if monoid == "max" else ops.add
    start = neutral_element(monoid, shape.element_type)
    return ops.reduce_window(inputs, start, computation, window, steps, padding)
