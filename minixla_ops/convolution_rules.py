"""Derivatives and batches of convolutions, which are convolutions with other attributes.

The cotangent of lhs is a convolution of the result's cotangent with the reversed kernel, that of
rhs one of lhs with the cotangent. A batch goes where there is room: into the batch dimension, the
output features, or the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla_ops.batching import batch_by_loop, batch_size, merge_dimension, split_dimension
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.operators import convert
from minixla_ops.products import in_common_type
from minixla_ops.rules import array_shape
from minixla_ops.windows import dilated_size

if TYPE_CHECKING:
    from minixla_ops.convolution import ConvGeneralDilated


def sizes_at(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    """The sizes of some dimensions."""
    return [shape.dimensions[dimension] for dimension in dimensions]


def _swapped(dimensions: Sequence[int]) -> tuple[int, ...]:
    first, second, *spatial = dimensions
    return second, first, *spatial


def _extents(
    operation: ConvGeneralDilated, cotangent: Shape, lhs: Shape, rhs: Shape
) -> zip[tuple[int, int, int, tuple[int, int]]]:
    """The dilated sizes of lhs, rhs and the cotangent, and the padding, in each dimension."""
    numbers = operation.dimension_numbers
    base = sizes_at(lhs, numbers.input_spatial_dimensions)
    window = sizes_at(rhs, numbers.kernel_spatial_dimensions)
    output = sizes_at(cotangent, numbers.output_spatial_dimensions)
    return zip(
        map(dilated_size, base, operation.lhs_dilation),
        map(dilated_size, window, operation.rhs_dilation),
        map(dilated_size, output, operation.window_strides),
        operation.padding,
        strict=True,
    )


def cotangent_of_lhs(operation: ConvGeneralDilated, cotangent: Any, lhs: Shape, rhs: Any) -> Any:
    """The cotangent of lhs, or None where there is nothing in operation.

    Args:
        operation: the convolution.
        cotangent: that of the result.
        lhs: the shape of lhs.
        rhs: the kernel.
    """
    given = array_shape(cotangent)
    if given.size == 0 or lhs.size == 0:
        return None
    numbers, groups = operation.dimension_numbers, operation.group_count
    extents = _extents(operation, given, lhs, array_shape(rhs))
    padding = [
        (window - low - 1, base + low - output) for base, window, output, (low, _) in extents
    ]
    kernel = rhs
    if groups > 1:  # the kernel's groups of output features become groups of input features
        kernel = split_dimension(kernel, numbers.kernel_output_feature_dimension, groups)
        kernel = merge_dimension(
            kernel, numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension
        )
    kernel = _reversed(kernel, numbers, [not flag for flag in operation.window_reversal])
    cotangent, kernel = in_common_type(cotangent, kernel)
    result = operation(
        cotangent,
        kernel,
        window_strides=operation.lhs_dilation,
        padding=tuple(padding),
        lhs_dilation=operation.window_strides,
        dimension_numbers=ConvolutionDimensionNumbers.of(
            numbers.output, _swapped(numbers.rhs), numbers.lhs
        ),
        feature_group_count=groups,
        batch_group_count=1,
        preferred_element_type=None,
        window_reversal=(False,) * len(padding),
    )
    if operation.batch_group_count > 1:
        result = split_dimension(
            result, numbers.input_feature_dimension, operation.batch_group_count
        )
        result = merge_dimension(
            result, numbers.input_feature_dimension, numbers.input_batch_dimension
        )
    return convert(result, lhs.element_type)


def cotangent_of_rhs(operation: ConvGeneralDilated, cotangent: Any, lhs: Any, rhs: Shape) -> Any:
    """The cotangent of rhs, or None where there is nothing in operation.

    Args:
        operation: the convolution.
        cotangent: that of the result.
        lhs: the input.
        rhs: the shape of the kernel.
    """
    given = array_shape(cotangent)
    if given.size == 0 or rhs.size == 0:
        return None
    numbers = operation.dimension_numbers
    extents = _extents(operation, given, array_shape(lhs), rhs)
    padding = [
        (low, output + window - 1 - base - low) for base, window, output, (low, _) in extents
    ]
    lhs, cotangent = in_common_type(lhs, cotangent)
    result = operation(
        lhs,
        cotangent,
        window_strides=operation.rhs_dilation,
        padding=tuple(padding),
        rhs_dilation=operation.window_strides,
        dimension_numbers=ConvolutionDimensionNumbers.of(
            _swapped(numbers.lhs), _swapped(numbers.output), _swapped(numbers.rhs)
        ),
        feature_group_count=operation.batch_group_count,
        batch_group_count=operation.feature_group_count,
        preferred_element_type=None,
        window_reversal=(False,) * len(padding),
    )
    return convert(_reversed(result, numbers, operation.window_reversal), rhs.element_type)


def _reversed(kernel: Any, numbers: ConvolutionDimensionNumbers, flags: Sequence[bool]) -> Any:
    marked = zip(numbers.kernel_spatial_dimensions, flags, strict=True)
    dimensions = [dimension for dimension, flag in marked if flag]
    return ops.rev(kernel, dimensions) if dimensions else kernel


def batched_convolution(
    operation: ConvGeneralDilated, operands: Sequence[Any], dimensions: Sequence[int | None]
) -> tuple[Any, int]:
    """A convolution over a batch, and where the batch is in the result.

    Args:
        operation: the convolution.
        operands: lhs and rhs, of which one or both have one more dimension.
        dimensions: where it is in each, or None.
    """
    size = batch_size(operands, dimensions)
    if size == 0:
        return batch_by_loop(operation, operands, dimensions, {})
    (lhs, rhs), (lhs_dimension, rhs_dimension) = operands, dimensions
    numbers = operation.dimension_numbers
    if rhs_dimension is None:
        return _batched_lhs(operation, lhs, rhs, lhs_dimension, size)
    if lhs_dimension is None:
        return _batched_rhs(operation, lhs, rhs, rhs_dimension, size)
    name, at = "feature_group_count", numbers.input_feature_dimension
    if operation.batch_group_count > 1:
        name, at = "batch_group_count", numbers.input_batch_dimension
    lhs = merge_dimension(lhs, lhs_dimension, at)
    rhs = merge_dimension(rhs, rhs_dimension, numbers.kernel_output_feature_dimension)
    result = operation(lhs, rhs, **{name: getattr(operation, name) * size})
    feature = numbers.output_feature_dimension
    return split_dimension(result, feature, size), feature


def _batched_lhs(
    operation: ConvGeneralDilated, lhs: Any, rhs: Any, dimension: Any, size: int
) -> tuple[Any, int]:
    numbers, groups = operation.dimension_numbers, operation.batch_group_count
    lhs = _merge_below_groups(lhs, dimension, numbers.input_batch_dimension, groups)
    batch = numbers.output_batch_dimension
    return split_dimension(operation(lhs, rhs), batch, size), batch


def _batched_rhs(
    operation: ConvGeneralDilated, lhs: Any, rhs: Any, dimension: int, size: int
) -> tuple[Any, int]:
    numbers, groups = operation.dimension_numbers, operation.group_count
    rhs = _merge_below_groups(rhs, dimension, numbers.kernel_output_feature_dimension, groups)
    result = operation(lhs, rhs)
    feature = numbers.output_feature_dimension
    if groups == 1:
        return split_dimension(result, feature, size), feature
    # The features are groups, batch, features of a group; the batch goes before the groups.
    result = split_dimension(split_dimension(result, feature, groups), feature + 1, size)
    return merge_dimension(result, feature, feature + 1), feature


def _merge_below_groups(value: Any, source: int, destination: int, groups: int) -> Any:
    """Merges the batch dimension `source` into `destination`, whose groups stay outermost.

    `destination` is counted without the batch dimension.
    """
    if groups == 1:
        return merge_dimension(value, source, destination)
    value = split_dimension(value, destination + (source <= destination), groups)
    value = merge_dimension(value, source + (source > destination), destination + 1)
    return merge_dimension(value, destination, destination)
