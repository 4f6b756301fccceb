"""Convolutions: the operation ConvGeneralDilated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType, element_type
from minixla.core.operation import register
from minixla.core.shapes import Shape
from minixla_ops.folds.sliding_windows import padded_base, window_view
from minixla_ops.products.convolution_dimensions import ConvolutionDimensions
from minixla_ops.products.convolution_lowering import cpu_program
from minixla_ops.products.convolution_rules import Convolution, sizes_at
from minixla_ops.products.product import Precisions, is_too_narrow, matrix_product
from minixla_ops.programs.call import Call
from minixla_ops.vocabulary.casting import emit_widened

# The reference copies windows out in blocks of about this many elements.
_BLOCK = 1 << 24


@register
class ConvGeneralDilated(Convolution):
    """Sums of products of a kernel with the windows of an input, in any number of dimensions.

    out[b, o, y...] = sum over i, k... of lhs[b, i, y * stride + k * rhs_dilation - low] *
    rhs[o, i, k], where lhs has zeros in its padding and in the holes of its dilation. The kernel
    is not flipped, unless window_reversal says so. XLA: Conv, ConvWithGeneralPadding,
    ConvWithGeneralDimensions, ConvGeneral, ConvGeneralDilated.

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

    Checks:
        (C1), (C2) see SumOfProducts.
        (C3) lhs and rhs are of equal rank, at least 2.
        (C4) dimension_numbers gives each dimension of lhs, rhs and the result one role.
        (C5) the window's lists have an entry for each spatial dimension.
        (C6) strides, dilations and the kernel's spatial sizes are positive.
        (C7) one of feature_group_count and batch_group_count is 1.
        (C8) the kernel's input features times feature_group_count are the features of lhs.
        (C9) feature_group_count divides the output features.
        (C10) batch_group_count divides the batch and the output features.
    """

    hlo_name = "convolution"
    stablehlo_name = "convolution"
    spec_names = (
        "Conv",
        "ConvWithGeneralPadding",
        "ConvWithGeneralDimensions",
        "ConvGeneral",
        "ConvGeneralDilated",
    )

    def shape(self, lhs, rhs):
        lhs, rhs = self.array_shapes([lhs, rhs])
        numbers = self.dimension_numbers
        kind = self.result_type(lhs, rhs, self.preferred_element_type)
        self._check_roles(lhs, rhs)
        self._check_window(rhs)
        self._check_groups(lhs, rhs)
        base = sizes_at(lhs, numbers.input_spatial_dimensions)
        batch = lhs.dimensions[numbers.input_batch_dimension] // self.batch_group_count
        outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
        roles = batch, outputs, *self.window(rhs.dimensions).positions(base)
        sizes = dict(zip(numbers.output, roles, strict=True))
        return Shape(kind, [sizes[each] for each in range(lhs.rank)])

    def _check_roles(self, lhs: Shape, rhs: Shape) -> None:
        if lhs.rank != rhs.rank or lhs.rank < 2:
            self.refuse(
                "C3",
                "lhs and rhs must have batch, feature and equally many spatial dimensions",
                "Insert dimensions of size 1 with reshape.",
            )
        for name in ("lhs", "rhs", "output"):
            dimensions = getattr(self.dimension_numbers, name)
            if sorted(dimensions) != list(range(lhs.rank)):
                self.refuse_attribute(
                    "C4",
                    f"dimension_numbers must give each dimension of {name} one role, not "
                    f"{dimensions}",
                    f"Name each of the dimensions 0 to {lhs.rank - 1} once.",
                )

    def _check_window(self, rhs: Shape) -> None:
        sizes = sizes_at(rhs, self.dimension_numbers.kernel_spatial_dimensions)
        positive = {
            "window_strides": self.window_strides,
            "lhs_dilation": self.lhs_dilation,
            "rhs_dilation": self.rhs_dilation,
            "the kernel's size": sizes,
        }
        others = {"padding": self.padding, "window_reversal": self.window_reversal}
        for name, value in {**positive, **others}.items():
            if len(value) != len(sizes):
                self.refuse_attribute(
                    "C5",
                    f"{name} has {len(value)} entries for {len(sizes)} spatial dimensions",
                    "Give one entry for each spatial dimension.",
                )
        for name, value in positive.items():
            if any(each < 1 for each in value):
                self.refuse_attribute(
                    "C6",
                    f"{name} must be positive in each spatial dimension",
                    "A stride or dilation of 1 is none.",
                )

    def _check_groups(self, lhs: Shape, rhs: Shape) -> None:
        numbers = self.dimension_numbers
        groups, batch_groups = self.feature_group_count, self.batch_group_count
        if groups > 1 and batch_groups > 1:
            self.refuse_attribute(
                "C7",
                "feature_group_count and batch_group_count are both above 1",
                "Use one kind of groups.",
            )
        batch, features = sizes_at(lhs, numbers.lhs[:2])
        outputs, inputs = sizes_at(rhs, numbers.rhs[:2])
        if features != inputs * groups:
            self.refuse(
                "C8",
                f"lhs has {features} features, the kernel takes {inputs * groups}",
                "The input features of rhs times feature_group_count must be the features of lhs.",
            )
        if outputs % groups:
            self.refuse(
                "C9",
                f"{groups} groups do not divide the {outputs} output features",
                "Each group must make equally many output features.",
            )
        if outputs % batch_groups or batch % batch_groups:
            self.refuse(
                "C10",
                f"{batch_groups} groups do not divide a batch of {batch} and the {outputs} "
                "output features",
                "Each group must have equally many members and output features.",
            )

    def reference(self, lhs, rhs):
        numbers = self.dimension_numbers
        result_type = self.preferred_element_type or element_type(lhs.dtype)
        backwards = tuple([axis for axis, flag in enumerate(self.window_reversal, 2) if flag])
        kernel = np.flip(rhs.transpose(numbers.rhs), backwards)
        window = self.window(rhs.shape)
        base = padded_base(lhs.transpose(numbers.lhs), lhs.dtype.type(0), window)
        windows = window_view(base, window)
        groups = self.feature_group_count, self.batch_group_count
        product = _grouped_product(windows, kernel, *groups, result_type)
        return product.transpose(np.argsort(numbers.output))

    def stablehlo(self, emit, operands, shapes, results):
        if emit.platform == "cpu" and is_too_narrow(shapes):
            return emit_widened(emit, partial(self.stablehlo, emit), operands, shapes, results)
        lhs, rhs = self.array_shapes(shapes)
        (result,) = self.array_shapes(results)
        if emit.platform == "cpu":
            program = cpu_program(self, lhs, rhs, result)
            if program is not None:
                return Call(program).stablehlo(emit, operands, shapes, results)
        write = _emit_complex if result.element_type.is_complex else _emit_real
        return [write(emit, operands, (lhs, rhs), result, self._attributes_text)]

    @cached_property
    def _attributes_text(self) -> str:
        """The attributes in StableHLO's short form."""
        window = ""
        if self.window_strides:
            reversal = ", ".join(["true" if flag else "false" for flag in self.window_reversal])
            window = (
                f"stride = {list(self.window_strides)}, "
                f"pad = {[list(pair) for pair in self.padding]}, "
                f"lhs_dilate = {list(self.lhs_dilation)}, "
                f"rhs_dilate = {list(self.rhs_dilation)}, reverse = [{reversal}]"
            )
        precision = self.precision_config
        others = f", precision_config = {Precisions().stablehlo(precision)}" if precision else ""
        return (
            f"dim_numbers = {ConvolutionDimensions().stablehlo(self.dimension_numbers)}, "
            f"window = {{{window}}} {{batch_group_count = {self.batch_group_count} : i64, "
            f"feature_group_count = {self.feature_group_count} : i64{others}}}"
        )

    def hlo_attributes(self, shapes):
        window = None
        if self.window_strides:
            window = self.window(self.array_shapes(shapes)[1].dimensions).hlo
            if any(self.window_reversal):
                reversal = "x".join([str(int(flag)) for flag in self.window_reversal])
                window = f"{window[:-1]} rhs_reversal={reversal}}}"
        return {"window": window, **super().hlo_attributes(shapes)}


def _grouped_product(
    windows: np.ndarray,
    kernel: np.ndarray,
    feature_groups: int,
    batch_groups: int,
    result_type: ElementType,
) -> np.ndarray:
    """Products of windows with a kernel, group by group.

    Args:
        windows: [batch, features, *positions, *sizes].
        kernel: [output features, features of a group, *sizes].
        feature_groups: into how many groups the features of windows are cut.
        batch_groups: into how many groups the batch is cut; one of the two is 1.
        result_type: the type to return.

    Returns:
        [batch of a group, output features, *positions].
    """
    count = kernel.ndim - 2
    groups = feature_groups * batch_groups
    batch, features = windows.shape[:2]
    positions, sizes = windows.shape[2 : 2 + count], windows.shape[2 + count :]
    batch, features = batch // batch_groups, features // feature_groups
    # Cutting a dimension into groups copies nothing; windows are copied out by the product.
    cut = windows.reshape(batch_groups, batch, feature_groups, features, *positions, *sizes)
    order = [0, 2, 1, *range(4, 4 + 2 * count), 3]
    cut = cut.transpose(order).reshape(groups, batch, *positions, *sizes, features)
    inner, outputs = prod(sizes) * features, kernel.shape[0] // groups
    weights = kernel.reshape(groups, outputs, features, *sizes)
    weights = weights.transpose(0, *range(3, 3 + count), 2, 1).reshape(groups, inner, outputs)
    result = np.empty((groups, batch, *positions, outputs), result_type.dtype)
    for block in _blocks((batch, *positions[:1]), inner * prod(positions[1:]) * groups):
        rows = cut[block]
        product = matrix_product(
            rows.reshape(groups, prod(rows.shape[1 : 2 + count]), inner), weights, result_type
        )
        result[block] = product.reshape(*rows.shape[: 2 + count], outputs)
    moved = np.moveaxis(result, (0, -1), (1, 2))
    return moved.reshape(batch, groups * outputs, *positions)


def _blocks(counts: Sequence[int], unit: int) -> Iterator[tuple[slice, ...]]:
    """Indices that cut [groups, batch, first positions, ...] into parts of a bearable size.

    Args:
        counts: the batch and, where there are any, the first positions.
        unit: how many elements are copied out for one position of one member.
    """
    member = unit * prod(counts[1:])
    if member <= _BLOCK or len(counts) == 1:
        step = max(1, _BLOCK // max(1, member))
        for start in range(0, counts[0], step):
            yield slice(None), slice(start, start + step)
        return
    step = max(1, _BLOCK // unit)
    for index in range(counts[0]):
        for start in range(0, counts[1], step):
            yield slice(None), slice(index, index + 1), slice(start, start + step)


def _emit_real(
    emit: Any, operands: Sequence[str], shapes: Sequence[Shape], result: Shape, text: str
) -> str:
    name = emit.name()
    types = ", ".join([shape.stablehlo for shape in shapes])
    emit.line(
        f"{name} = stablehlo.convolution({', '.join(operands)}) {text} : "
        f"({types}) -> {result.stablehlo}"
    )
    return name


def _emit_complex(
    emit: Any, operands: Sequence[str], shapes: Sequence[Shape], result: Shape, text: str
) -> str:
    """A complex convolution as real ones: GPUs have no other, and on CPU others are slow."""
    part = result.with_element_type(result.element_type.real)
    if not shapes[0].element_type.is_complex:
        real = _emit_real(emit, operands, shapes, part, text)
        return emit.operation("stablehlo.convert", [real], [part], [result])[0]
    parts = [shape.with_element_type(shape.element_type.real) for shape in shapes]
    (lhs_real, rhs_real), (lhs_imag, rhs_imag) = (
        [
            emit.operation(f"stablehlo.{which}", [operand], [shape], [own])[0]
            for operand, shape, own in zip(operands, shapes, parts, strict=True)
        ]
        for which in ("real", "imag")
    )

    def product(lhs: str, rhs: str) -> str:
        return _emit_real(emit, [lhs, rhs], parts, part, text)

    def combined(operation: str, lhs: str, rhs: str) -> str:
        return emit.same_shape(f"stablehlo.{operation}", [lhs, rhs], part)[0]

    real = combined("subtract", product(lhs_real, rhs_real), product(lhs_imag, rhs_imag))
    imag = combined("add", product(lhs_real, rhs_imag), product(lhs_imag, rhs_real))
    return emit.operation("stablehlo.complex", [real, imag], [part, part], [result])[0]
