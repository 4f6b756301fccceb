"""The five builders of convolutions, from the plainest to the most general.

All make one operation, ConvGeneralDilated. What they leave out is: dimensions in the order batch,
features, spatial (the kernel's: output features, input features, spatial), no dilation, no
reversal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.shapes import Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.convolution import ConvGeneralDilated
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.rules import listed
from minixla_ops.windows import Pairs, resolve_padding

__all__ = [
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
]

Padding = str | Sequence[Sequence[int]]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
    window_reversal: Sequence[bool] | None = None,
) -> Any:
    """Sums of products of a kernel with the windows of an input.

    Args:
        lhs: the input, with batch, feature and n spatial dimensions.
        rhs: the kernel, of the same element type, with output feature, input feature and n spatial
            dimensions.
        window_strides: n distances between windows.
        padding: n pairs (low, high) of zeros around lhs (negative ones take elements away), "SAME"
            (ceil(size / stride) windows, the odd zero on the high side) or "VALID" (none).
        lhs_dilation: n distances between the elements of lhs; default 1.
        rhs_dilation: n distances between the elements of rhs; default 1.
        dimension_numbers: a ConvolutionDimensionNumbers, JAX's three strings such as
            ("NHWC", "HWIO", "NHWC"), or HLO's labels such as "b01f_01io->b01f"; default: batch,
            features, spatial for lhs and the result, output features, input features, spatial for
            rhs.
        feature_group_count: the features are cut into this many groups, convolved separately.
        batch_group_count: the batch and the output features are cut into this many groups; group i
            of the one is convolved with group i of the other.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.
        window_reversal: n flags whether to reverse rhs; default: none.

    Returns:
        An array with batch, output feature and n spatial dimensions.

    Raises:
        AttributeValueError, ShapeError: see ConvGeneralDilated.
    """
    operation = ConvGeneralDilated.instance
    numbers = operation.dimension_numbers(dimension_numbers, shape_of(lhs))
    ones = (1,) * len(numbers.kernel_spatial_dimensions)
    strides = operation.canonical_attribute("window_strides", window_strides)
    lhs_dilation = ones if lhs_dilation is None else lhs_dilation
    rhs_dilation = ones if rhs_dilation is None else rhs_dilation
    dilations = (
        operation.canonical_attribute("lhs_dilation", lhs_dilation),
        operation.canonical_attribute("rhs_dilation", rhs_dilation),
    )
    reversal = (False,) * len(ones) if window_reversal is None else listed(window_reversal)
    if isinstance(padding, str):
        padding = _explicit_padding(lhs, rhs, numbers, padding, strides, dilations)
    return bind(
        operation,
        lhs,
        rhs,
        window_strides=strides,
        padding=padding,
        lhs_dilation=dilations[0],
        rhs_dilation=dilations[1],
        dimension_numbers=numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision_config=precision_config,
        preferred_element_type=preferred_element_type,
        window_reversal=reversal,
    )


def _explicit_padding(
    lhs: Any,
    rhs: Any,
    numbers: ConvolutionDimensionNumbers,
    padding: str,
    strides: tuple[int, ...],
    dilations: tuple[tuple[int, ...], tuple[int, ...]],
) -> Pairs:
    left, right = shape_of(lhs), shape_of(rhs)
    count = len(strides)
    if (
        isinstance(left, Shape)
        and isinstance(right, Shape)
        and left.rank == right.rank
        and {*numbers.lhs, *numbers.rhs} == set(range(left.rank))
        and len(numbers.input_spatial_dimensions) == count
        and len(numbers.kernel_spatial_dimensions) == count
        and all(len(each) == count and min(each, default=1) > 0 for each in (strides, *dilations))
    ):
        base = [left.dimensions[each] for each in numbers.input_spatial_dimensions]
        sizes = [right.dimensions[each] for each in numbers.kernel_spatial_dimensions]
    else:  # the operation will say what does not fit
        base = sizes = strides = (1,) * count
        dilations = strides, strides
    return resolve_padding("conv_general_dilated", padding, base, sizes, strides, *dilations)


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution with "SAME" or "VALID" padding and dimensions in the default order.

    Args, result and errors: see `conv_general_dilated`.
    """
    return conv_with_general_dimensions(
        lhs, rhs, window_strides, padding, None,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution with explicit padding and dimensions in the default order.

    Args, result and errors: see `conv_general_dilated`.
    """
    return conv_general(
        lhs, rhs, window_strides, padding, None,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


def conv_with_general_dimensions(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution with "SAME" or "VALID" padding and given dimension numbers.

    Args, result and errors: see `conv_general_dilated`.
    """
    return conv_general(
        lhs, rhs, window_strides, padding, dimension_numbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


def conv_general(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution with explicit padding and given dimension numbers, without dilation.

    Args, result and errors: see `conv_general_dilated`.
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, None, None, dimension_numbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip
