"""Convolutions: their attributes, derivatives and batches, which are convolutions with others.

The cotangent of lhs is a convolution of the result's cotangent with the reversed kernel, that of
rhs one of lhs with the cotangent. A batch goes where there is room: into the batch dimension, the
output features, or the groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.attributes import Boolean, Integer, Integers, TypeAttribute, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.element_types import ElementType
from minixla.core.shapes import Shape
from minixla_ops.elementwise.operators import convert
from minixla_ops.folds.sliding_windows import PaddingPairs, Pairs, Window, dilated_size
from minixla_ops.products.convolution_dimensions import (
    ConvolutionDimensionNumbers,
    ConvolutionDimensions,
)
from minixla_ops.products.product import Precision, Precisions, Product, in_common_type
from minixla_ops.vocabulary.batch_dimensions import (
    batch_by_loop,
    batch_size,
    merge_dimension,
    split_dimension,
)
from minixla_ops.vocabulary.shorthand import array_shape

# For each dimension the dilated sizes of lhs, rhs and the result, and the padding.
_Extents = Iterable[tuple[int, int, int, tuple[int, int]]]


class GroupCount(Integer):
    """How many groups there are; 1 is not written in HLO."""

    def hlo(self, value: int) -> int | None:
        """The number."""
        return value if value > 1 else None


class Convolution(Product):
    """Base class of ConvGeneralDilated, which documents the attributes."""

    window_strides: tuple[int, ...] = attribute(Integers(), hlo=None)
    padding: Pairs = attribute(PaddingPairs(), hlo=None)
    lhs_dilation: tuple[int, ...] = attribute(Integers(), hlo=None)
    rhs_dilation: tuple[int, ...] = attribute(Integers(), hlo=None)
    window_reversal: tuple[bool, ...] = attribute(SequenceAttribute(Boolean()), hlo=None)
    dimension_numbers: ConvolutionDimensionNumbers = attribute(
        ConvolutionDimensions(), hlo="dim_labels"
    )
    feature_group_count: int = attribute(GroupCount(1), default=1)
    batch_group_count: int = attribute(GroupCount(1), default=1)
    precision_config: Precision | None = attribute(
        Precisions(), default=None, hlo="operand_precision"
    )
    preferred_element_type: ElementType | None = attribute(
        TypeAttribute(), default=None, stablehlo=None, hlo=None
    )

    def window(self, kernel: Sequence[int]) -> Window:
        """The window, which the kernel's sizes complete."""
        spatial = self.dimension_numbers.kernel_spatial_dimensions
        sizes = tuple([kernel[dimension] for dimension in spatial])
        dilations = self.lhs_dilation, self.rhs_dilation
        return Window(sizes, self.window_strides, self.padding, *dilations)

    @property
    def group_count(self) -> int:
        """How many convolutions it is that have nothing in common."""
        return self.feature_group_count * self.batch_group_count

    def cotangent(self, index, cotangent, operands):
        shapes = [*map(array_shape, operands), array_shape(cotangent)]
        own, numbers = shapes[index], self.dimension_numbers
        if own.size == 0 or shapes[2].size == 0:
            return None
        spatial = (
            numbers.input_spatial_dimensions,
            numbers.kernel_spatial_dimensions,
            numbers.output_spatial_dimensions,
        )
        steps = self.lhs_dilation, self.rhs_dilation, self.window_strides
        dilated = [
            map(dilated_size, sizes_at(shape, at), step)
            for shape, at, step in zip(shapes, spatial, steps, strict=True)
        ]
        extents: Any = zip(*dilated, self.padding, strict=True)
        rule = self._cotangent_of_rhs if index else self._cotangent_of_lhs
        return convert(rule(cotangent, operands[1 - index], extents), own.element_type)

    def _cotangent_of_lhs(self, cotangent: Any, kernel: Any, extents: _Extents) -> Any:
        numbers, groups = self.dimension_numbers, self.group_count
        outputs, batches = numbers.kernel_output_feature_dimension, self.batch_group_count
        padding = tuple(
            [(window - low - 1, base + low - out) for base, window, out, (low, _) in extents]
        )
        if groups > 1:  # the kernel's groups of output features become groups of input features
            kernel = split_dimension(kernel, outputs, groups)
            kernel = merge_dimension(kernel, outputs, numbers.kernel_input_feature_dimension)
        kernel = self._reversed(kernel, [not flag for flag in self.window_reversal])
        result = self(
            *in_common_type(cotangent, kernel),
            window_strides=self.lhs_dilation,
            padding=padding,
            lhs_dilation=self.window_strides,
            dimension_numbers=ConvolutionDimensionNumbers.of(
                numbers.output, _swapped(numbers.rhs), numbers.lhs
            ),
            feature_group_count=groups,
            batch_group_count=1,
            preferred_element_type=None,
            window_reversal=(False,) * len(self.padding),
        )
        if batches > 1:
            features = numbers.input_feature_dimension
            result = split_dimension(result, features, batches)
            result = merge_dimension(result, features, numbers.input_batch_dimension)
        return result

    def _cotangent_of_rhs(self, cotangent: Any, lhs: Any, extents: _Extents) -> Any:
        numbers = self.dimension_numbers
        padding = tuple(
            [(low, out + window - 1 - base - low) for base, window, out, (low, _) in extents]
        )
        result = self(
            *in_common_type(lhs, cotangent),
            window_strides=self.rhs_dilation,
            padding=padding,
            rhs_dilation=self.window_strides,
            dimension_numbers=ConvolutionDimensionNumbers.of(
                _swapped(numbers.lhs), _swapped(numbers.output), _swapped(numbers.rhs)
            ),
            feature_group_count=self.batch_group_count,
            batch_group_count=self.feature_group_count,
            preferred_element_type=None,
            window_reversal=(False,) * len(self.padding),
        )
        return self._reversed(result, self.window_reversal)

    def _reversed(self, kernel: Any, flags: Sequence[bool]) -> Any:
        marked = zip(self.dimension_numbers.kernel_spatial_dimensions, flags, strict=True)
        dimensions = [dimension for dimension, flag in marked if flag]
        return ops.rev(kernel, dimensions) if dimensions else kernel

    def batch(self, operands, dimensions):
        size, numbers = batch_size(operands, dimensions), self.dimension_numbers
        if size == 0:
            return batch_by_loop(self, operands, dimensions)
        (lhs, rhs), (lhs_at, rhs_at) = operands, dimensions
        feature, outputs = numbers.output_feature_dimension, numbers.kernel_output_feature_dimension
        if rhs_at is None:
            groups, batch = self.batch_group_count, numbers.output_batch_dimension
            lhs = _merge_below_groups(lhs, lhs_at, numbers.input_batch_dimension, groups)
            return split_dimension(self(lhs, rhs), batch, size), batch
        if lhs_at is None:
            groups = self.group_count
            result = self(lhs, _merge_below_groups(rhs, rhs_at, outputs, groups))
            if groups == 1:
                return split_dimension(result, feature, size), feature
            # The features are groups, batch, features of a group; the batch goes first.
            result = split_dimension(split_dimension(result, feature, groups), feature + 1, size)
            return merge_dimension(result, feature, feature + 1), feature
        name, at = "feature_group_count", numbers.input_feature_dimension
        if self.batch_group_count > 1:
            name, at = "batch_group_count", numbers.input_batch_dimension
        lhs, rhs = merge_dimension(lhs, lhs_at, at), merge_dimension(rhs, rhs_at, outputs)
        result = self(lhs, rhs, **{name: getattr(self, name) * size})
        return split_dimension(result, feature, size), feature


def sizes_at(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    """The sizes of some dimensions."""
    return [shape.dimensions[dimension] for dimension in dimensions]


def _swapped(dimensions: Sequence[int]) -> tuple[int, ...]:
    first, second, *spatial = dimensions
    return second, first, *spatial


def _merge_below_groups(value: Any, source: int, destination: int, groups: int) -> Any:
    """Merges the batch dimension `source` into `destination`, whose groups stay outermost.

    `destination` is counted without the batch dimension.
    """
    if groups == 1:
        return merge_dimension(value, source, destination)
    value = split_dimension(value, destination + (source <= destination), groups)
    value = merge_dimension(value, source + (source > destination), destination + 1)
    return merge_dimension(value, destination, destination)
