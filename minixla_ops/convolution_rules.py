"""Derivatives and batches of convolutions, which are convolutions with other attributes.

The cotangent of lhs is a convolution of the result's cotangent with the reversed kernel, that of
rhs one of lhs with the cotangent. A batch goes where there is room: into the batch dimension, the
output features, or the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minixla.core.element_types import ElementType
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.core.tracing import bind
from minixla_ops.batching import batch_by_loop, batch_size, merge_dimension, split_dimension
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.operators import convert
from minixla_ops.products import Precision, in_common_type
from minixla_ops.reshaping import rev
from minixla_ops.rules import array_shape
from minixla_ops.windows import Pairs, Window, dilated_size

__all__ = ["Convolution", "batched_convolution", "cotangent_of_lhs", "cotangent_of_rhs"]


class Convolution(NamedTuple):
    """The attributes of a ConvGeneralDilated, which documents them."""

    window_strides: tuple[int, ...]
    padding: Pairs
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision_config: Precision | None
    preferred_element_type: ElementType | None
    window_reversal: tuple[bool, ...]

    def window(self, kernel: Sequence[int]) -> Window:
        """The window, which the kernel's sizes complete."""
        spatial = self.dimension_numbers.kernel_spatial_dimensions
        return Window(
            tuple([kernel[dimension] for dimension in spatial]),
            self.window_strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
        )


def _sizes(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    return [shape.dimensions[dimension] for dimension in dimensions]


def _swapped(dimensions: Sequence[int]) -> tuple[int, ...]:
    first, second, *spatial = dimensions
    return second, first, *spatial


def _extents(
    cotangent: Shape, lhs: Shape, rhs: Shape, it: Convolution
) -> zip[tuple[int, int, int, tuple[int, int]]]:
    """The dilated sizes of lhs, rhs and the cotangent, and the padding, in each dimension."""
    numbers = it.dimension_numbers
    base = _sizes(lhs, numbers.input_spatial_dimensions)
    window = _sizes(rhs, numbers.kernel_spatial_dimensions)
    output = _sizes(cotangent, numbers.output_spatial_dimensions)
    return zip(
        map(dilated_size, base, it.lhs_dilation),
        map(dilated_size, window, it.rhs_dilation),
        map(dilated_size, output, it.window_strides),
        it.padding,
        strict=True,
    )


def cotangent_of_lhs(
    operation: Operation, cotangent: Any, lhs: Shape, rhs: Any, it: Convolution
) -> Any:
    """The cotangent of lhs, or None where there is nothing in it.

    Args:
        operation: ConvGeneralDilated.
        cotangent: that of the result.
        lhs: the shape of lhs.
        rhs: the kernel.
        it: the attributes.
    """
    given = array_shape(cotangent)
    if given.size == 0 or lhs.size == 0:
        return None
    numbers, groups = it.dimension_numbers, it.feature_group_count * it.batch_group_count
    extents = _extents(given, lhs, array_shape(rhs), it)
    padding = [
        (window - low - 1, base + low - output) for base, window, output, (low, _) in extents
    ]
    kernel = rhs
    if groups > 1:  # the kernel's groups of output features become groups of input features
        kernel = split_dimension(kernel, numbers.kernel_output_feature_dimension, groups)
        kernel = merge_dimension(
            kernel, numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension
        )
    kernel = _reversed(kernel, numbers, [not flag for flag in it.window_reversal])
    cotangent, kernel = in_common_type(cotangent, kernel)
    transposed = it._replace(
        window_strides=it.lhs_dilation,
        padding=tuple(padding),
        lhs_dilation=it.window_strides,
        dimension_numbers=ConvolutionDimensionNumbers.of(
            numbers.output, _swapped(numbers.rhs), numbers.lhs
        ),
        feature_group_count=groups,
        batch_group_count=1,
        preferred_element_type=None,
        window_reversal=(False,) * len(padding),
    )
    result = bind(operation, cotangent, kernel, **transposed._asdict())
    if it.batch_group_count > 1:
        result = split_dimension(result, numbers.input_feature_dimension, it.batch_group_count)
        result = merge_dimension(
            result, numbers.input_feature_dimension, numbers.input_batch_dimension
        )
    return convert(result, lhs.element_type)


def cotangent_of_rhs(
    operation: Operation, cotangent: Any, lhs: Any, rhs: Shape, it: Convolution
) -> Any:
    """The cotangent of rhs, or None where there is nothing in it.

    Args:
        operation: ConvGeneralDilated.
        cotangent: that of the result.
        lhs: the input.
        rhs: the shape of the kernel.
        it: the attributes.
    """
    given = array_shape(cotangent)
    if given.size == 0 or rhs.size == 0:
        return None
    numbers = it.dimension_numbers
    extents = _extents(given, array_shape(lhs), rhs, it)
    padding = [
        (low, output + window - 1 - base - low) for base, window, output, (low, _) in extents
    ]
    lhs, cotangent = in_common_type(lhs, cotangent)
    transposed = it._replace(
        window_strides=it.rhs_dilation,
        padding=tuple(padding),
        rhs_dilation=it.window_strides,
        dimension_numbers=ConvolutionDimensionNumbers.of(
            _swapped(numbers.lhs), _swapped(numbers.output), _swapped(numbers.rhs)
        ),
        feature_group_count=it.batch_group_count,
        batch_group_count=it.feature_group_count,
        preferred_element_type=None,
        window_reversal=(False,) * len(padding),
    )
    result = bind(operation, lhs, cotangent, **transposed._asdict())
    return convert(_reversed(result, numbers, it.window_reversal), rhs.element_type)


def _reversed(kernel: Any, numbers: ConvolutionDimensionNumbers, flags: Sequence[bool]) -> Any:
    marked = zip(numbers.kernel_spatial_dimensions, flags, strict=True)
    dimensions = [dimension for dimension, flag in marked if flag]
    return rev(kernel, dimensions) if dimensions else kernel


def batched_convolution(
    operation: Operation,
    operands: Sequence[Any],
    dimensions: Sequence[int | None],
    it: Convolution,
) -> tuple[Any, int]:
    """A convolution over a batch, and where the batch is in the result.

    Args:
        operation: ConvGeneralDilated.
        operands: lhs and rhs, of which one or both have one more dimension.
        dimensions: where it is in each, or None.
        it: the attributes.
    """
    size = batch_size(operands, dimensions)
    if size == 0:
        return batch_by_loop(operation, operands, dimensions, it._asdict())
    lhs_dimension, rhs_dimension = dimensions
    if rhs_dimension is None:
        assert lhs_dimension is not None
        return _batched_lhs(operation, operands, lhs_dimension, size, it)
    if lhs_dimension is None:
        return _batched_rhs(operation, operands, rhs_dimension, size, it)
    lhs, rhs = operands
    numbers = it.dimension_numbers
    if it.batch_group_count > 1:
        lhs = merge_dimension(lhs, lhs_dimension, numbers.input_batch_dimension)
        it = it._replace(batch_group_count=it.batch_group_count * size)
    else:
        lhs = merge_dimension(lhs, lhs_dimension, numbers.input_feature_dimension)
        it = it._replace(feature_group_count=it.feature_group_count * size)
    rhs = merge_dimension(rhs, rhs_dimension, numbers.kernel_output_feature_dimension)
    result = bind(operation, lhs, rhs, **it._asdict())
    feature = numbers.output_feature_dimension
    return split_dimension(result, feature, size), feature


def _batched_lhs(
    operation: Operation, operands: Sequence[Any], dimension: int, size: int, it: Convolution
) -> tuple[Any, int]:
    lhs, rhs = operands
    numbers = it.dimension_numbers
    lhs = _merge_below_groups(lhs, dimension, numbers.input_batch_dimension, it.batch_group_count)
    result = bind(operation, lhs, rhs, **it._asdict())
    batch = numbers.output_batch_dimension
    return split_dimension(result, batch, size), batch


def _batched_rhs(
    operation: Operation, operands: Sequence[Any], dimension: int, size: int, it: Convolution
) -> tuple[Any, int]:
    lhs, rhs = operands
    numbers, groups = it.dimension_numbers, it.feature_group_count * it.batch_group_count
    rhs = _merge_below_groups(rhs, dimension, numbers.kernel_output_feature_dimension, groups)
    result = bind(operation, lhs, rhs, **it._asdict())
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
