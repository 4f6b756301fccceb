"""Convolutions: the operation ConvGeneralDilated.

Its derivatives and batching rules are convolutions with other attributes. The cotangent of lhs is a
convolution of the result's cotangent with the reversed kernel, and that of rhs one of lhs with the
cotangent. A batch dimension is merged into the batch, the output features, or the groups.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import AnyShape, Shape, element_type, register, shape_of
from minixla.core.attributes import Boolean, Integer, Integers, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.builders import builds
from minixla.core.element_types import ElementType
from minixla.core.operation_docstrings import joined, sections
from minixla.core.sharding_rule import ABSENT, PERMUTATION, REDUCTION
from minixla.core.tracebacks import api_boundary
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.operators import convert
from minixla_ops.folds import sliding_windows
from minixla_ops.helpers.batch_dimensions import batch_size, merge_dimension, split_dimension
from minixla_ops.helpers.casting import emit_converted
from minixla_ops.helpers.shorthand import array_shape, listed, written
from minixla_ops.products import convolution_dimensions
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.products.dot import DotGeneral
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.products.product import PRECISION, PREFERRED_TYPE, Product, in_common_type

# The reference evaluator copies windows in blocks of about this many elements.
_BLOCK = 1 << 24


class GroupCount(Integer):
    """The number of groups; HLO text omits 1."""

    def hlo(self, value: int) -> int | None:
        return value if value > 1 else None


@register
class ConvGeneralDilated(Product):
    """Convolve an input with a kernel, in any number of dimensions.

    out[b, o, y...] = sum over i, k... of lhs[b, i, y * stride + k * rhs_dilation - low] *
    rhs[o, i, k]; lhs is 0 in its padding and in the holes of its dilation. The kernel
    is flipped only in the dimensions of window_reversal. XLA: Conv, ConvWithGeneralPadding,
    ConvWithGeneralDimensions, ConvGeneral, ConvGeneralDilated.

    Args:
        lhs: the input, with batch, feature and n spatial dimensions.
        rhs: the kernel, with the same element type, and with output feature, input feature and n
            spatial dimensions.
        window_strides: n distances between windows.
        padding: n pairs (low, high) of zeros around lhs; negative numbers crop. Or "SAME"
            (ceil(size / stride) windows, an odd zero on the high side) or "VALID" (no padding).
        lhs_dilation: n distances between the elements of lhs; default 1.
        rhs_dilation: n distances between the elements of rhs; default 1.
        dimension_numbers: a ConvolutionDimensionNumbers, JAX's three strings such as
            ("NHWC", "HWIO", "NHWC"), or HLO's labels such as "b01f_01io->b01f". Default: batch,
            features, spatial for lhs and the result; output features, input features, spatial for
            rhs.
        feature_group_count: the number of groups of features, which are convolved separately.
        batch_group_count: the number of groups of the batch and of the output features; group i of
            one is convolved with group i of the other.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.
        window_reversal: n flags, whether to reverse rhs in a dimension; default: false.

    Returns:
        An array with batch, output feature and n spatial dimensions.

    Checks:
        (C1), (C2) see SumOfProducts.
        (C3) lhs and rhs have equal ranks, at least 2.
        (C4) dimension_numbers assigns one role to each dimension of lhs, rhs and the result.
        (C5) the window's lists have an entry for each spatial dimension.
        (C6) strides, dilations and the kernel's spatial sizes are positive.
        (C7) one of feature_group_count and batch_group_count is 1.
        (C8) the kernel's input features times feature_group_count are the features of lhs.
        (C9) feature_group_count divides the output features.
        (C10) batch_group_count divides the batch and the output features.

    Example:
        >>> x, kernel = np.float32([[[1, 2, 3, 4]]]), np.float32([[[1, 1]]])
        >>> ops.conv_general_dilated(x, kernel, (1,), [(0, 0)], rhs_dilation=(2,))
        Array([[[4., 6.]]], dtype=float32)
    """

    hlo_name = "convolution"
    stablehlo_name = "convolution"
    spec_names = (
        *("Conv", "ConvWithGeneralPadding", "ConvWithGeneralDimensions"),
        *("ConvGeneral", "ConvGeneralDilated"),
    )
    window_strides: tuple[int, ...] = attribute(Integers(), hlo=None)
    padding: sliding_windows.Pairs = attribute(sliding_windows.PaddingPairs(), hlo=None)
    lhs_dilation: tuple[int, ...] = attribute(Integers(), hlo=None)
    rhs_dilation: tuple[int, ...] = attribute(Integers(), hlo=None)
    window_reversal: tuple[bool, ...] = attribute(SequenceAttribute(Boolean()), hlo=None)
    dimension_numbers: ConvolutionDimensionNumbers = attribute(
        convolution_dimensions.ConvolutionDimensions(), hlo="dim_labels"
    )
    feature_group_count: int = attribute(GroupCount(1), default=1)
    batch_group_count: int = attribute(GroupCount(1), default=1)
    precision_config: Any = PRECISION
    preferred_element_type: Any = PREFERRED_TYPE

    def window(self, kernel: Sequence[int]) -> sliding_windows.Window:
        """Return the window; its sizes are those of the kernel."""
        spatial = self.dimension_numbers.kernel_spatial_dimensions
        sizes = tuple([kernel[dimension] for dimension in spatial])
        dilations = self.lhs_dilation, self.rhs_dilation
        return sliding_windows.Window(sizes, self.window_strides, self.padding, *dilations)

    @property
    def group_count(self) -> int:
        """The number of independent convolutions."""
        return self.feature_group_count * self.batch_group_count

    def shape(self, lhs, rhs):
        numbers = self.dimension_numbers
        kind = self.result_type(lhs, rhs)
        self._check_roles(lhs, rhs)
        window = self.window(rhs.dimensions)
        lists = "window_strides", "lhs_dilation", "rhs_dilation", "padding", "window_reversal"
        named = {**{name: self.values[name] for name in lists}, "the kernel's size": window.sizes}
        declared = named, len(window.sizes), "spatial dimensions", ("C5", "C6")
        sliding_windows.check_entries(self, *declared)
        self._check_groups(lhs, rhs)
        base = sliding_windows.sizes_at(lhs, numbers.input_spatial_dimensions)
        batch = lhs.dimensions[numbers.input_batch_dimension] // self.batch_group_count
        outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
        roles = batch, outputs, *window.positions(base)
        sizes = dict(zip(numbers.output, roles, strict=True))
        return Shape(kind, [sizes[index] for index in range(lhs.rank)])

    def _check_roles(self, lhs: Shape, rhs: Shape) -> None:
        if lhs.rank != rhs.rank or lhs.rank < 2:
            problem = "lhs and rhs must have equal ranks, at least 2"
            self.refuse("C3", problem, "Insert dimensions of size 1 with reshape.")
        for name in ("lhs", "rhs", "output"):
            listed = getattr(self.dimension_numbers, name)
            if sorted(listed) != list(range(lhs.rank)):
                problem = f"dimension_numbers must assign one role to each dimension of {name}, not"
                advice = f"List each of the dimensions 0 to {lhs.rank - 1} once."
                self.refuse_attribute("C4", f"{problem} {listed}", advice)

    def _check_groups(self, lhs: Shape, rhs: Shape) -> None:
        numbers = self.dimension_numbers
        groups, batch_groups = self.feature_group_count, self.batch_group_count
        if groups > 1 and batch_groups > 1:
            problem = "feature_group_count and batch_group_count must not both exceed 1"
            self.refuse_attribute("C7", problem)
        batch, features = sliding_windows.sizes_at(lhs, numbers.lhs[:2])
        outputs, inputs = sliding_windows.sizes_at(rhs, numbers.rhs[:2])
        if features != inputs * groups:
            self.refuse(
                "C8", f"lhs has {features} features, but the kernel takes {inputs * groups}"
            )
        if outputs % groups:
            self.refuse(
                "C9", f"feature_group_count {groups} must divide the {outputs} output features"
            )
        if outputs % batch_groups or batch % batch_groups:
            output = f"the {outputs} output features"
            problem = (
                f"batch_group_count {batch_groups} must divide the batch of {batch} and {output}"
            )
            self.refuse("C10", problem)

    def reference(self, lhs, rhs):
        numbers = self.dimension_numbers
        result_type = self.preferred_element_type or element_type(lhs.dtype)
        backwards = tuple([axis for axis, flag in enumerate(self.window_reversal, 2) if flag])
        kernel = np.flip(rhs.transpose(numbers.rhs), backwards)
        window = self.window(rhs.shape)
        base = sliding_windows.padded_base(lhs.transpose(numbers.lhs), lhs.dtype.type(0), window)
        windows = sliding_windows.window_view(base, window)
        groups = self.feature_group_count, self.batch_group_count
        product = _grouped_product(windows, kernel, *groups, result_type)
        return product.transpose(np.argsort(numbers.output))

    def stablehlo(self, emit, operands, shapes, results):
        (result,) = results
        if result.element_type.is_complex and not shapes[0].element_type.is_complex:
            result = result.with_element_type(result.element_type.real)
        text = f"stablehlo.convolution({', '.join(operands)}) {self._attributes_text}"
        return emit_converted(emit, written(emit, text, shapes, result), [result], results)

    @cached_property
    def _attributes_text(self) -> str:
        lists = {
            "stride": self.window_strides,
            "pad": map(list, self.padding),
            "lhs_dilate": self.lhs_dilation,
            "rhs_dilate": self.rhs_dilation,
            "reverse": self.window_reversal,
        }
        texts = [f"{name} = {list(items)}".lower() for name, items in lists.items()]
        window = ", ".join(texts) if self.window_strides else ""
        told = self._written("stablehlo")
        others = f", precision_config = {told['precision_config']}" if self.precision_config else ""
        return (
            f"dim_numbers = {told['dimension_numbers']}, "
            f"window = {{{window}}} {{batch_group_count = {self.batch_group_count} : i64, "
            f"feature_group_count = {self.feature_group_count} : i64{others}}}"
        )

    def hlo_attributes(self, shapes):
        window = None
        if self.window_strides:
            window = self.window(shapes[1].dimensions).hlo
            if any(self.window_reversal):
                reversal = "x".join([str(int(flag)) for flag in self.window_reversal])
                window = f"{window[:-1]} rhs_reversal={reversal}}}"
        return {"window": window, **super().hlo_attributes(shapes)}

    def cotangent(self, index, cotangent, operands):
        shapes = [*map(array_shape, operands), array_shape(cotangent)]
        shape_of_operand, numbers = shapes[index], self.dimension_numbers
        if shape_of_operand.size == 0 or shapes[2].size == 0:
            return None
        spatial = [roles[2:] for roles in (numbers.lhs, numbers.rhs, numbers.output)]
        steps = self.lhs_dilation, self.rhs_dilation, self.window_strides
        sizes = map(sliding_windows.sizes_at, shapes, spatial)
        pairs = zip(sizes, steps, strict=True)
        # For each dimension, the dilated sizes of lhs, rhs and the result, and the lower padding.
        dilated = [map(sliding_windows.dilated_size, *pair) for pair in pairs]
        extents = zip(*dilated, [low for low, _ in self.padding], strict=True)
        rule = self._cotangent_of_rhs if index else self._cotangent_of_lhs
        return convert(rule(cotangent, operands[1 - index], extents), shape_of_operand.element_type)

    def _cotangent_of_lhs(
        self, cotangent: Array, kernel: Array, extents: Iterable[tuple[int, int, int, int]]
    ) -> Array:
        numbers, groups = self.dimension_numbers, self.group_count
        outputs, batches = numbers.kernel_output_feature_dimension, self.batch_group_count
        padding = [(window - low - 1, base + low - out) for base, window, out, low in extents]
        if groups > 1:  # the kernel's groups of output features become groups of input features
            kernel = split_dimension(kernel, outputs, groups)
            kernel = merge_dimension(kernel, outputs, numbers.kernel_input_feature_dimension)
        kernel = self.reversed(kernel, [not flag for flag in self.window_reversal])
        roles = numbers.output, _swapped(numbers.rhs), numbers.lhs
        steps = {"window_strides": self.lhs_dilation, "lhs_dilation": self.window_strides}
        counts = {"feature_group_count": groups, "batch_group_count": 1}
        result = self._of_roles(cotangent, kernel, roles, padding, **steps, **counts)
        if batches > 1:
            features = numbers.input_feature_dimension
            result = split_dimension(result, features, batches)
            result = merge_dimension(result, features, numbers.input_batch_dimension)
        return result

    def _cotangent_of_rhs(
        self, cotangent: Array, lhs: Array, extents: Iterable[tuple[int, int, int, int]]
    ) -> Array:
        numbers = self.dimension_numbers
        padding = [(low, out + window - 1 - base - low) for base, window, out, low in extents]
        roles = map(_swapped, (numbers.lhs, numbers.output, numbers.rhs))
        steps = {"window_strides": self.rhs_dilation, "rhs_dilation": self.window_strides}
        groups, batch_groups = self.feature_group_count, self.batch_group_count
        counts = {"feature_group_count": batch_groups, "batch_group_count": groups}
        result = self._of_roles(lhs, cotangent, roles, padding, **steps, **counts)
        return self.reversed(result, self.window_reversal)

    def _of_roles(
        self,
        lhs: Array,
        rhs: Array,
        roles: Iterable[Sequence[int]],
        padding: Sequence[tuple[int, int]],
        **changed: object,
    ) -> Array:
        """Apply the operation with other roles, without reversal, to types that may differ."""
        numbers, reversal = ConvolutionDimensionNumbers.of(*roles), (False,) * len(padding)
        changed |= {"dimension_numbers": numbers, "window_reversal": reversal}
        changed |= {"padding": tuple(padding), "preferred_element_type": None}
        return self(*in_common_type(lhs, rhs), **changed)

    def reversed(self, kernel: Array, flags: Sequence[bool]) -> Array:
        """Reverse the kernel along the marked spatial dimensions."""
        marked = zip(self.dimension_numbers.kernel_spatial_dimensions, flags, strict=True)
        dimensions = [dimension for dimension, flag in marked if flag]
        return ops.rev(kernel, dimensions) if dimensions else kernel

    def batch(self, operands, dimensions):
        size, numbers = batch_size(operands, dimensions), self.dimension_numbers
        if size == 0:
            return super().batch(operands, dimensions)
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
            # The features are groups, batch, features of a group; move the batch first.
            result = split_dimension(split_dimension(result, feature, groups), feature + 1, size)
            return merge_dimension(result, feature, feature + 1), feature
        name, at = "feature_group_count", numbers.input_feature_dimension
        if self.batch_group_count > 1:
            name, at = "batch_group_count", numbers.input_batch_dimension
        lhs, rhs = merge_dimension(lhs, lhs_at, at), merge_dimension(rhs, rhs_at, outputs)
        result = self(lhs, rhs, **{name: getattr(self, name) * size})
        return split_dimension(result, feature, size), feature

    def sharding_rule(self, lhs, rhs):
        numbers, rule = self.dimension_numbers, self.sharding_factors((lhs, rhs))
        batch, features, *base = zip(numbers.lhs, numbers.output, strict=True)
        outputs, inputs, *kernel = numbers.rhs
        if self.batch_group_count > 1:
            rule.add([batch[0], outputs], [features[1]], self.batch_group_count)
        size = lhs.dimensions[batch[0]] // self.batch_group_count
        rule.add([batch[0], ABSENT], [batch[1]], size)
        for (source, target), along in zip(base, kernel, strict=True):
            # Positions move along the dimension, and the kernel's elements are summed over. Put the
            # larger of the two first.
            rest, positions = lhs.dimensions[source], rule.result_sizes[0][target]
            moved = positions, PERMUTATION, [source, ABSENT], [target]
            summed = rhs.dimensions[along], REDUCTION, [source, along], [ABSENT]
            for count, kind, factors, results in sorted((moved, summed), key=lambda row: -row[0]):
                if (part := min(count, rest)) > 1:
                    rule.add(factors, results, part, kind)
                    rest //= part
        if self.feature_group_count > 1:
            rule.add([features[0], outputs], [features[1]], self.feature_group_count)
        rule.add([features[0], inputs], [ABSENT], rhs.dimensions[inputs], REDUCTION)
        size = rhs.dimensions[outputs] // self.group_count
        if size > 1:
            rule.add([ABSENT, outputs], [features[1]], size)
        return rule.build()


def _swapped(dimensions: Sequence[int]) -> tuple[int, ...]:
    first, second, *spatial = dimensions
    return second, first, *spatial


def _merge_below_groups(value: Array, source: int, destination: int, groups: int) -> Array:
    """Run `merge_dimension` into a dimension of groups, which remain outermost."""
    if groups == 1:
        return merge_dimension(value, source, destination)
    value = split_dimension(value, destination + (source <= destination), groups)
    value = merge_dimension(value, source + (source > destination), destination + 1)
    return merge_dimension(value, destination, destination)


def _grouped_product(
    windows: np.ndarray,
    kernel: np.ndarray,
    feature_groups: int,
    batch_groups: int,
    result: ElementType,
) -> np.ndarray:
    """Multiply windows with a kernel, group by group; one of the two group counts is 1.

    Windows are [batch, features, *positions, *sizes], kernels [output features, features of a
    group, *sizes], and results [batch of a group, output features, *positions].
    """
    count = kernel.ndim - 2
    batch, features = windows.shape[0] // batch_groups, windows.shape[1] // feature_groups
    outputs = kernel.shape[0] // (feature_groups * batch_groups)
    # Splitting a dimension into groups copies nothing; the product copies windows.
    cut = windows.reshape(batch_groups, batch, feature_groups, features, *windows.shape[2:])
    weights = kernel.reshape(batch_groups, feature_groups, outputs, features, *kernel.shape[2:])
    inner = (*range(4 + count, 4 + 2 * count), 3), (*range(4, 4 + count), 3)
    product = DotGeneral(DotDimensionNumbers(*inner, (0, 2), (0, 1)), None, result)
    # Use blocks along the larger of the batch and the first positions.
    axis = 4 if count and cut.shape[4] > batch else 1
    blocks = np.array_split(cut, max(1, min(cut.shape[axis], cut.size // _BLOCK)), axis)
    products = [product.reference(block, weights) for block in blocks]
    # [batch groups, feature groups, batch, *positions, outputs]
    moved = np.moveaxis(np.concatenate(products, 3 if axis == 4 else 2), (2, -1), (0, 3))
    return moved.reshape(batch, kernel.shape[0], *windows.shape[2 : 2 + count])


@builds(ConvGeneralDilated)
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: DTypeLike | None = None,
    window_reversal: Sequence[bool] | None = None,
) -> Array:
    strides = listed(window_strides)
    count = len(strides) if isinstance(strides, tuple) else 0
    if dimension_numbers is None:
        shape = shape_of(lhs)
        rank = shape.rank if isinstance(shape, Shape) else 2
        dimension_numbers = ConvolutionDimensionNumbers.of(*[range(max(rank, 2))] * 3)
    is_named = isinstance(padding, str) and padding.upper() in ("SAME", "VALID")
    pairs = ((0, 0),) * count if is_named else padding
    steps = [
        (1,) * count if dilation is None else dilation for dilation in (lhs_dilation, rhs_dilation)
    ]
    reversal = (False,) * count if window_reversal is None else window_reversal
    others = feature_group_count, batch_group_count, precision_config, preferred_element_type
    parameters: Any = (strides, pairs, *steps, reversal, dimension_numbers, *others)
    operation = ConvGeneralDilated(*parameters)
    if is_named:
        operation = _padded(operation, padding, shape_of(lhs), shape_of(rhs))
    return operation(lhs, rhs)


@api_boundary
def _padded(
    operation: ConvGeneralDilated,
    padding: str | Sequence[Sequence[int]],
    lhs: AnyShape,
    rhs: AnyShape,
) -> ConvGeneralDilated:
    """Resolve the padding "SAME" or "VALID"."""
    operation.infer((lhs, rhs))  # it raises for invalid operands
    padded, kernel = operation.array_shapes([lhs, rhs])
    base = sliding_windows.sizes_at(padded, operation.dimension_numbers.input_spatial_dimensions)
    window = operation.window(kernel.dimensions)._replace(padding=padding)
    return operation.replace(padding=sliding_windows.resolve_window(base, *window).padding)


def _plainer(name: str, what: str, example: str, *omitted: str) -> Callable[..., Any]:
    """Build `conv_general_dilated` under another name, without dilations and `omitted`."""
    omitted = *omitted, "lhs_dilation", "rhs_dilation", "window_reversal"
    declared = inspect.signature(conv_general_dilated).parameters.values()
    kept = [parameter for parameter in declared if parameter.name not in omitted]
    names = {parameter.name for parameter in kept}
    plain = inspect.Signature([parameter.replace(annotation=parameter.empty) for parameter in kept])
    arguments = ", ".join([f"{parameter.name}={parameter.name}" for parameter in kept])
    source = f"def {name}{plain}:\n    return conv_general_dilated({arguments})\n"
    space = {"conv_general_dilated": conv_general_dilated, "__name__": __name__}
    exec(compile(source, __file__, "exec"), space)
    function: Any = space[name]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in kept} | {
        "return": "Any"
    }
    parts = dict(sections(conv_general_dilated.__doc__ or ""))
    rows = _ROW.split(parts.get("Args", ""))  # empty under `python -OO`
    parts["Args"] = "".join(row for row in rows if row.strip().partition(":")[0] in names)
    parts |= {"": f"A convolution with {what}.", "Example": example}
    function.__doc__ = joined(parts)
    return function


_ROW = re.compile(r"(?m)^(?=    \S)")
_NAMED, _EXPLICIT = '"SAME" or "VALID" padding and', "explicit padding and"
_USUAL, _GIVEN = "dimensions in the default order. XLA: ", "given dimension numbers. XLA: "
conv = _plainer(
    "conv",
    f"{_NAMED} {_USUAL}Conv",
    """    >>> x, kernel = np.float32([[[1, 2, 3, 4]]]), np.float32([[[1, 1]]])
    >>> ops.conv(x, kernel, (1,), "VALID")
    Array([[[3., 5., 7.]]], dtype=float32)""",
    "dimension_numbers",
)
conv_with_general_padding = _plainer(
    "conv_with_general_padding",
    f"{_EXPLICIT} {_USUAL}ConvWithGeneralPadding",
    """    >>> x, kernel = np.float32([[[1, 2, 3]]]), np.float32([[[1, 1]]])
    >>> ops.conv_with_general_padding(x, kernel, (1,), [(1, 0)])
    Array([[[1., 3., 5.]]], dtype=float32)""",
    "dimension_numbers",
)
conv_with_general_dimensions = _plainer(
    "conv_with_general_dimensions",
    f"{_NAMED} {_GIVEN}ConvWithGeneralDimensions",
    """    >>> x, kernel = np.float32([[[1], [2], [3]]]), np.float32([[[1]], [[1]]])
    >>> numbers = "NWC", "WIO", "NWC"
    >>> ops.conv_with_general_dimensions(x, kernel, (1,), "VALID", numbers)[0, :, 0]
    Array([3., 5.], dtype=float32)""",
)
conv_general = _plainer(
    "conv_general",
    f"{_EXPLICIT} {_GIVEN}ConvGeneral",
    """    >>> x, kernel = np.float32([[[1], [2], [3]]]), np.float32([[[1]], [[1]]])
    >>> ops.conv_general(x, kernel, (1,), [(1, 0)], ("NWC", "WIO", "NWC"))[0, :, 0]
    Array([1., 3., 5.], dtype=float32)""",
)
