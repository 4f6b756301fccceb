"""Grouped convolutions; XLA:CPU runs some of them ten to a hundred times too slowly.

A convolution with few features per group becomes a sum of shifted and scaled inputs, one per
kernel element. The gradient of a depthwise kernel becomes a sum of products for each of its
elements. XLA fuses both into loops over the result. Other groups become separate convolutions
or, if there are many, batch groups become feature groups.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.folds.sliding_windows import sizes_at
from minixla_ops.helpers.batch_dimensions import merge_dimension, split_dimension
from minixla_ops.helpers.shorthand import add_cotangents, array_shape, splat
from minixla_ops.products.convolution import ConvGeneralDilated
from minixla_ops.products.product import summing_type
from minixla_ops.programs.computations import sum_over

# Limits measured against XLA:CPU's grouped convolution.
_MOST_ELEMENTS = 64
_MOST_POSITIONS = 16
_MOST_GROUPS = 32
_FEWEST_FEATURES = 8

Form = Callable[[ConvGeneralDilated, Any, Any], Any]
Places = dict[int, int]


def _has_slow_batch_groups(operation: Any, operands: Operands, target: Target) -> bool:
    return _form(operation, *[operand.shape for operand in operands]) is _by_feature_groups


@legalize(ConvGeneralDilated, "cpu", when=_has_slow_batch_groups)
def batch_groups(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU computes many batch groups more slowly than feature groups."""
    return _by_feature_groups(operation, *operands)


def _has_slow_groups(operation: Any, operands: Operands, target: Target) -> bool:
    return _form(operation, *[operand.shape for operand in operands]) not in (
        None,
        _by_feature_groups,
    )


@legalize(ConvGeneralDilated, "cpu", when=_has_slow_groups)
def grouped_convolutions(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU computes grouped convolutions in a loop without its library."""
    form: Any = _form(operation, *map(array_shape, operands))
    return form(operation, *operands)


@lru_cache(maxsize=1024)
def _form(it: ConvGeneralDilated, lhs: Shape, rhs: Shape) -> Form | None:
    """Return the function that computes a convolution faster, or None."""
    if it.group_count == 1 or lhs.element_type.bits < 8:  # other rules convert these types first
        return None
    result: Any = it.infer((lhs, rhs))
    numbers = it.dimension_numbers
    features = rhs.dimensions[numbers.kernel_input_feature_dimension]
    kernel = sizes_at(rhs, numbers.kernel_spatial_dimensions)
    positions = sizes_at(result, numbers.output_spatial_dimensions)
    groups = it.group_count
    if result.size == 0 or rhs.size == 0:
        return None
    if it.feature_group_count > 1 and features * prod(kernel) <= _MOST_ELEMENTS:
        return _by_elements
    outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    if batch == outputs == it.batch_group_count and prod(positions) <= _MOST_POSITIONS:
        return _depthwise_gradient
    if groups <= _MOST_GROUPS and features >= _FEWEST_FEATURES:
        return _one_by_one
    return _by_feature_groups if it.batch_group_count > 1 else None


def _one_by_one(it: ConvGeneralDilated, lhs: Any, rhs: Any) -> Any:
    """Compute the convolution of each group separately."""
    numbers = it.dimension_numbers
    by_feature, groups = it.feature_group_count > 1, it.group_count
    cut = numbers.input_feature_dimension if by_feature else numbers.input_batch_dimension
    outputs = numbers.kernel_output_feature_dimension
    pairs = zip(_parts(lhs, cut, groups), _parts(rhs, outputs, groups), strict=True)
    alone = it.replace(feature_group_count=1, batch_group_count=1)
    return ops.concat_in_dim([alone(*pair) for pair in pairs], numbers.output_feature_dimension)


def _parts(value: Any, dimension: int, count: int) -> list[Any]:
    size = array_shape(value).dimensions[dimension] // count
    return [ops.slice_in_dim(value, i * size, (i + 1) * size, dimension) for i in range(count)]


def _by_feature_groups(it: ConvGeneralDilated, lhs: Any, rhs: Any) -> Any:
    """Convert batch groups to feature groups: the images of each group get its features."""
    numbers, groups = it.dimension_numbers, it.batch_group_count
    lhs = split_dimension(lhs, numbers.input_batch_dimension, groups)
    lhs = merge_dimension(lhs, numbers.input_batch_dimension, numbers.input_feature_dimension)
    return it(lhs, rhs, batch_group_count=1, feature_group_count=groups)


def _by_elements(it: ConvGeneralDilated, lhs: Any, rhs: Any) -> Any:
    """Sum the products of a kernel element and a part of lhs over all kernel elements."""
    result: Any = it.infer((array_shape(lhs), array_shape(rhs)))
    numbers = it.dimension_numbers
    wide = summing_type(result.element_type, array_shape(lhs).element_type)
    feature, groups = numbers.output_feature_dimension, it.feature_group_count
    # The features of all arrays become two dimensions: groups, and the features of a group.
    order = _matched(numbers.output, numbers.lhs)
    base = _padded(ops.transpose(convert(lhs, wide), order), numbers.output_spatial_dimensions, it)
    base = split_dimension(base, feature, groups)
    kernel = ops.transpose(convert(rhs, wide), numbers.rhs)  # [outputs, features, *sizes]
    sizes = [*result.dimensions[:feature], groups, result.dimensions[feature] // groups]
    sizes += result.dimensions[feature + 1 :]
    spatial = [dimension + (dimension > feature) for dimension in numbers.output_spatial_dimensions]
    kept = [index for index in range(len(sizes)) if index != feature + 1]
    steps = {feature + 1: 1, **dict(zip(spatial, it.window_strides, strict=True))}
    total: Any = None
    for element, at, offsets in _elements(kernel, it):
        places = dict(zip([feature + 1, *spatial], [at, *offsets], strict=True))
        part = _strided(base, places, steps, {**dict(enumerate(sizes)), feature + 1: 1})
        part = ops.broadcast_in_dim(
            ops.reshape(part, [sizes[dimension] for dimension in kept]), sizes, kept
        )
        weight = ops.reshape(element, sizes[feature : feature + 2])
        weight = ops.broadcast_in_dim(weight, sizes, [feature, feature + 1])
        total = add_cotangents(total, part * weight)
    return convert(ops.reshape(total, result.dimensions), result.element_type)


def _elements(kernel: Any, it: ConvGeneralDilated) -> Iterator[tuple[Any, int, list[int]]]:
    """Yield for each kernel element the weights of all outputs, its feature, and offsets in lhs."""
    outputs, *sizes = array_shape(kernel).dimensions
    for feature, *index in itertools.product(*map(range, sizes)):
        triples = zip(sizes[1:], index, it.window_reversal, strict=True)
        stored = [size - 1 - i if flag else i for size, i, flag in triples]
        limits = [outputs, feature + 1, *[dimension + 1 for dimension in stored]]
        offsets = [i * step for i, step in zip(index, it.rhs_dilation, strict=True)]
        yield ops.slice(kernel, [0, feature, *stored], limits), feature, offsets


def _depthwise_gradient(it: ConvGeneralDilated, lhs: Any, rhs: Any) -> Any:
    """Compute one output feature per batch element: sums of products at each position."""
    result: Any = it.infer((array_shape(lhs), array_shape(rhs)))
    numbers = it.dimension_numbers
    wide = summing_type(result.element_type, array_shape(lhs).element_type)
    # rhs in the dimension order of lhs: its output features as batch, its input features as
    # features.
    kernel = ops.transpose(convert(rhs, wide), _matched(numbers.lhs, numbers.rhs))
    spatial = numbers.input_spatial_dimensions
    kernel = ops.rev(kernel, list(itertools.compress(spatial, it.window_reversal)))
    base = _padded(convert(lhs, wide), spatial, it)
    positions = sizes_at(result, numbers.output_spatial_dimensions)
    summed = [numbers.input_feature_dimension, *spatial]
    outputs = result.dimensions[numbers.output_feature_dimension]
    steps = dict(zip(spatial, it.rhs_dilation, strict=True))
    counts = dict(enumerate(array_shape(kernel).dimensions))
    columns = []
    for position in itertools.product(*map(range, positions)):
        offsets = [i * stride for i, stride in zip(position, it.window_strides, strict=True)]
        part = _strided(base, dict(zip(spatial, offsets, strict=True)), steps, counts)
        columns.append(ops.reshape(sum_over(part * kernel, summed), (1, outputs)))
    joined = ops.concat_in_dim(columns, 0)
    # [*positions, outputs] in the dimension order of the result, whose batch size is one.
    batch, feature, *where = numbers.output
    permutation = [[*where, feature, batch].index(index) for index in range(result.rank)]
    whole = ops.reshape(joined, [*positions, outputs, 1])
    return convert(ops.transpose(whole, permutation), result.element_type)


def _matched(target: Sequence[int], source: Sequence[int]) -> list[int]:
    """Return the permutation that moves dimensions in the order `source` to the order `target`."""
    by_place = dict(zip(target, source, strict=True))
    return [by_place[place] for place in range(len(target))]


def _padded(value: Any, spatial: Sequence[int], it: ConvGeneralDilated) -> Any:
    """Pad the spatial dimensions of `value` with the convolution's padding and dilation."""
    shape = array_shape(value)
    config = [(0, 0, 0)] * shape.rank
    for dimension, (low, high), dilation in zip(spatial, it.padding, it.lhs_dilation, strict=True):
        config[dimension] = (low, high, dilation - 1)
    return ops.pad(value, splat(0, Shape(shape.element_type)), config)


def _strided(base: Any, offsets: Places, steps: Places, counts: Places) -> Any:
    """Slice dimensions of `base`: `counts` elements from `offsets`, every `steps`-th."""
    sizes = array_shape(base).dimensions
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    for dimension, offset in offsets.items():
        starts[dimension] = offset
        limits[dimension] = offset + (counts[dimension] - 1) * steps[dimension] + 1
        strides[dimension] = steps[dimension]
    return ops.slice(base, starts, limits, strides)
