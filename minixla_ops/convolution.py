"""Convolutions: the operation ConvGeneralDilated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integer, Integers, Optional, TypeAttribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.element_types import ElementType, element_type
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla_ops.calls import Call
from minixla_ops.casting import emit_widened
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers, ConvolutionDimensions
from minixla_ops.convolution_lowering import cpu_program
from minixla_ops.convolution_rules import (
    Convolution,
    batched_convolution,
    cotangent_of_lhs,
    cotangent_of_rhs,
)
from minixla_ops.products import (
    PrecisionAttribute,
    Product,
    is_too_narrow,
    matrix_product,
    precision_hlo,
)
from minixla_ops.rules import array_shape
from minixla_ops.windows import PaddingPairs, Window, padded_base, window_view

__all__ = ["ConvGeneralDilated"]

# The reference copies windows out in blocks of about this many elements.
_BLOCK = 1 << 24


@register
class ConvGeneralDilated(Product):
    """Sums of products of a kernel with the windows of an input, in any number of dimensions.

    out[b, o, y...] = sum over i, k... of lhs[b, i, y * stride + k * rhs_dilation - low] *
    rhs[o, i, k], where lhs has zeros in its padding and in the holes of its dilation. The kernel
    is not flipped, unless window_reversal says so. XLA: Conv, ConvWithGeneralPadding,
    ConvWithGeneralDimensions, ConvGeneral, ConvGeneralDilated.

    Attributes:
        window_strides: the distance between windows in each spatial dimension.
        padding: for each spatial dimension a pair (low, high) of zeros to add; negative numbers
            take elements away.
        lhs_dilation: the distance between the elements of lhs.
        rhs_dilation: the distance between the elements of the kernel.
        dimension_numbers: see ConvolutionDimensions.
        feature_group_count: the features are cut into this many groups, which are convolved
            separately.
        batch_group_count: the batch and the output features are cut into this many groups; group i
            of the one is convolved with group i of the other.
        precision_config: see PrecisionAttribute.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.
        window_reversal: whether to reverse the kernel in each spatial dimension.

    Checks:
        (C1), (C2) see Product.
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
    attributes = {
        "window_strides": Integers(),
        "padding": PaddingPairs(),
        "lhs_dilation": Integers(),
        "rhs_dilation": Integers(),
        "dimension_numbers": ConvolutionDimensions(),
        "feature_group_count": Integer(minimum=1, default=1),
        "batch_group_count": Integer(minimum=1, default=1),
        "precision_config": Optional(PrecisionAttribute()),
        "preferred_element_type": Optional(TypeAttribute()),
        "window_reversal": SequenceAttribute(Boolean()),
    }

    def dimension_numbers(self, given: Any, lhs: AnyShape) -> ConvolutionDimensionNumbers:
        """The dimension numbers in their own class; the default order where none are given.

        Raises:
            AttributeValueError: `given` is in none of the forms of ConvolutionDimensions.
        """
        if given is None:
            return ConvolutionDimensionNumbers.default(max(self.array_shapes([lhs])[0].rank, 2))
        return self.canonical_attribute("dimension_numbers", given)

    def shape(self, lhs: Any, rhs: Any, /, **attributes: Any) -> Shape:
        lhs, rhs = self.array_shapes([lhs, rhs])
        it = Convolution(**attributes)
        kind = self.result_type(lhs, rhs, it.preferred_element_type)
        self._check_roles(lhs, rhs, it.dimension_numbers)
        window = self._checked_window(rhs, it)
        self._check_groups(lhs, rhs, it)
        numbers = it.dimension_numbers
        base = [lhs.dimensions[each] for each in numbers.input_spatial_dimensions]
        sizes = {
            numbers.output_batch_dimension: lhs.dimensions[numbers.input_batch_dimension]
            // it.batch_group_count,
            numbers.output_feature_dimension: rhs.dimensions[
                numbers.kernel_output_feature_dimension
            ],
            **dict(zip(numbers.output_spatial_dimensions, window.positions(base), strict=True)),
        }
        return Shape(kind, [sizes[each] for each in range(lhs.rank)])

    def _check_roles(self, lhs: Shape, rhs: Shape, numbers: ConvolutionDimensionNumbers) -> None:
        if lhs.rank != rhs.rank or lhs.rank < 2:
            self.reject(
                "C3",
                "lhs and rhs must have batch, feature and equally many spatial dimensions",
                [f"lhs {lhs}", f"rhs {rhs}"],
                "Insert dimensions of size 1 with reshape.",
            )
        roles = {"lhs": numbers.lhs, "rhs": numbers.rhs, "output": numbers.output}
        for name, dimensions in roles.items():
            if sorted(dimensions) != list(range(lhs.rank)):
                self.reject_attribute(
                    "C4",
                    f"dimension_numbers must give each dimension of {name} one role",
                    [f"lhs {lhs}", f"rhs {rhs}", f"dimension_numbers for {name}: {dimensions}"],
                    f"Name each of the dimensions 0 to {lhs.rank - 1} once.",
                )

    def _checked_window(self, rhs: Shape, it: Convolution) -> Window:
        sizes = tuple([rhs.dimensions[i] for i in it.dimension_numbers.kernel_spatial_dimensions])
        lists = {
            "window_strides": it.window_strides,
            "padding": it.padding,
            "lhs_dilation": it.lhs_dilation,
            "rhs_dilation": it.rhs_dilation,
            "window_reversal": it.window_reversal,
        }
        for name, value in lists.items():
            if len(value) != len(sizes):
                self.reject_attribute(
                    "C5",
                    f"{name} has {len(value)} entries for {len(sizes)} spatial dimensions",
                    [f"{name} {value}", f"rhs {rhs}", f"dimension_numbers {it.dimension_numbers}"],
                    "Give one entry for each spatial dimension.",
                )
        positive = {
            "window_strides": it.window_strides,
            "lhs_dilation": it.lhs_dilation,
            "rhs_dilation": it.rhs_dilation,
            "the kernel's size": sizes,
        }
        for name, value in positive.items():
            if any(each < 1 for each in value):
                self.reject_attribute(
                    "C6",
                    f"{name} must be positive in each spatial dimension",
                    [f"{name} {value}", f"rhs {rhs}", f"dimension_numbers {it.dimension_numbers}"],
                    "A stride or dilation of 1 is none.",
                )
        return it.window(rhs.dimensions)

    def _check_groups(self, lhs: Shape, rhs: Shape, it: Convolution) -> None:
        numbers = it.dimension_numbers
        groups, batch_groups = it.feature_group_count, it.batch_group_count
        given = [
            f"lhs {lhs}",
            f"rhs {rhs}",
            f"dimension_numbers {numbers}",
            f"feature_group_count {groups}, batch_group_count {batch_groups}",
        ]
        if groups > 1 and batch_groups > 1:
            self.reject_attribute(
                "C7",
                "feature_group_count and batch_group_count are both above 1",
                given,
                "Use one kind of groups.",
            )
        features = lhs.dimensions[numbers.input_feature_dimension]
        wanted = rhs.dimensions[numbers.kernel_input_feature_dimension] * groups
        if features != wanted:
            self.reject(
                "C8",
                f"lhs has {features} features, the kernel takes {wanted}",
                given,
                "The input features of rhs times feature_group_count must be the features of lhs.",
            )
        outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
        if outputs % groups:
            self.reject(
                "C9",
                f"{groups} groups do not divide the {outputs} output features",
                given,
                "Each group must make equally many output features.",
            )
        batch = lhs.dimensions[numbers.input_batch_dimension]
        if outputs % batch_groups or batch % batch_groups:
            self.reject(
                "C10",
                f"{batch_groups} groups do not divide a batch of {batch} and the {outputs} "
                "output features",
                given,
                "Each group must have equally many members and output features.",
            )

    def reference(self, lhs: np.ndarray, rhs: np.ndarray, /, **attributes: Any) -> np.ndarray:
        it = Convolution(**attributes)
        numbers = it.dimension_numbers
        result_type = it.preferred_element_type or element_type(lhs.dtype)
        kernel = rhs.transpose(numbers.rhs)
        backwards = tuple([axis for axis, flag in enumerate(it.window_reversal, 2) if flag])
        window = it.window(rhs.shape)
        base = padded_base(lhs.transpose(numbers.lhs), lhs.dtype.type(0), window)
        windows = window_view(base, window)
        product = _grouped_product(
            windows, np.flip(kernel, backwards), it.feature_group_count, it.batch_group_count,
            result_type,
        )  # fmt: skip
        return product.transpose(np.argsort(numbers.output))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        if emit.platform == "cpu" and is_too_narrow(shapes):
            write = partial(self.stablehlo, emit, **attributes)
            return emit_widened(emit, write, operands, shapes, results)
        it = Convolution(**attributes)
        lhs, rhs = self.array_shapes(shapes)
        (result,) = results
        assert isinstance(result, Shape)
        if emit.platform == "cpu":
            program = cpu_program(self, lhs, rhs, result, it)
            if program is not None:
                return Call(program).stablehlo(emit, operands, shapes, results)
        text = _attributes_text(it)
        if not result.element_type.is_complex:
            return [_emit_real(emit, operands, (lhs, rhs), result, text)]
        return [_emit_complex(emit, operands, (lhs, rhs), result, text)]

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        it = Convolution(**attributes)
        rhs = self.array_shapes(shapes)[1]
        window = None
        if it.window_strides:
            window = it.window(rhs.dimensions).hlo
            if any(it.window_reversal):
                reversal = "x".join([str(int(flag)) for flag in it.window_reversal])
                window = f"{window[:-1]} rhs_reversal={reversal}}}"
        return {
            "window": window,
            "dim_labels": str(it.dimension_numbers),
            "feature_group_count": it.feature_group_count if it.feature_group_count > 1 else None,
            "batch_group_count": it.batch_group_count if it.batch_group_count > 1 else None,
            "operand_precision": precision_hlo(it.precision_config),
        }

    def cotangent(
        self, index: int, cotangent: Any, operands: Sequence[Any], **attributes: Any
    ) -> Any:
        lhs, rhs = operands
        it = Convolution(**attributes)
        if index == 0:
            return cotangent_of_lhs(self, cotangent, array_shape(lhs), rhs, it)
        return cotangent_of_rhs(self, cotangent, lhs, array_shape(rhs), it)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int]:
        return batched_convolution(self, operands, dimensions, Convolution(**attributes))


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


@lru_cache(maxsize=4096)
def _attributes_text(it: Convolution) -> str:
    """The attributes in StableHLO's form."""
    lhs, rhs, output = (f"[{', '.join(roles)}]" for roles in it.dimension_numbers.labels)
    window = ""
    if it.window_strides:
        reversal = ", ".join(["true" if flag else "false" for flag in it.window_reversal])
        window = (
            f"stride = {list(it.window_strides)}, pad = {[list(pair) for pair in it.padding]}, "
            f"lhs_dilate = {list(it.lhs_dilation)}, rhs_dilate = {list(it.rhs_dilation)}, "
            f"reverse = [{reversal}]"
        )
    counts = (
        f"batch_group_count = {it.batch_group_count} : i64, "
        f"feature_group_count = {it.feature_group_count} : i64"
    )
    if it.precision_config:
        names = ", ".join([f"#stablehlo<precision {name}>" for name in it.precision_config])
        counts += f", precision_config = [{names}]"
    return f"dim_numbers = {lhs}x{rhs}->{output}, window = {{{window}}} {{{counts}}}"


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
