"""Convolutions with our kernel, `minixla/engine/kernels/convolutions.cc`."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.shapes import Shape
from minixla.core.stablehlo_text import Layouts
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.folds.sliding_windows import sizes_at
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.products.convolution import ConvGeneralDilated
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.products.convolution_kernel import TARGETS

_SUMMED_IN = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64"}

Layout = tuple[int, ...]


def _is_for_kernel(operation: Any, operands: Operands, target: Target) -> bool:
    """Return whether the kernel supports a convolution: one group, one or two dimensions."""
    lhs, rhs = (operand.shape for operand in operands)
    is_simple = operation.group_count == 1 and lhs.rank in (3, 4)
    if not target.calls_kernels or not is_simple or any(operation.window_reversal):
        return False
    shapes = lhs, rhs, operation.infer((lhs, rhs))
    is_static = not any(shape.is_dynamic or 0 in shape.dimensions for shape in shapes)
    kinds = {_SUMMED_IN.get(shape.element_type.name) for shape in shapes}
    return is_static and kinds in ({"f32"}, {"f64"})


@legalize(ConvGeneralDilated, "cpu", when=_is_for_kernel)
def convolutions_by_kernel(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU runs a convolution on one thread, or in loops if its library does not support it.

    The kernel runs on all threads. XLA converts the arrays to the layouts that it reads and writes.
    """
    shapes = tuple(map(array_shape, operands))
    result: Any = operation.infer(shapes)
    kind = _SUMMED_IN[result.element_type.name]
    wide = element_type(kind)
    lhs, rhs, out = (shape.with_element_type(wide) for shape in (*shapes, result))
    options, (taken, made) = _attributes(operation, lhs, rhs, out)
    call = CustomCall(TARGETS[kind], (out,), options, operand_layouts=taken, result_layouts=made)
    (found,) = call(*[convert(operand, wide) for operand in operands])
    return convert(found, result.element_type)


@lru_cache(maxsize=1024)
def _attributes(
    it: ConvGeneralDilated, lhs: Shape, rhs: Shape, result: Shape
) -> tuple[tuple[tuple[str, Any], ...], Sequence[Layouts]]:
    """Return the attributes of the call and the layouts of its operands and result."""
    numbers = it.dimension_numbers
    batch, features, *base = sizes_at(lhs, numbers.lhs)
    kernel = sizes_at(rhs, numbers.kernel_spatial_dimensions)
    windows = sizes_at(result, numbers.output_spatial_dimensions)
    # A kernel's gradient has a few large windows; prefer them unless more data must be copied.
    convolved, correlated = _layouts(numbers, False), _layouts(numbers, True)
    costs = [
        sum(dimensions != tuple(sorted(dimensions)[::-1]) for dimensions in x)
        for x in (correlated, convolved)
    ]
    is_correlation = (costs[0], prod(windows)) < (costs[1], prod(kernel))
    is_correlation &= set(it.lhs_dilation) == {1}
    number, last = (features, batch) if is_correlation else (batch, features)
    outputs = result.dimensions[numbers.output_feature_dimension]
    pad = [(0, 0)] * (2 - len(base))
    lists: dict[str, Iterable[int]] = {
        "sizes": (number, *_two(base), last, *_two(kernel), *_two(windows), outputs),
        "padding": chain(*pad, *it.padding),
        "lhs_dilation": _two(it.lhs_dilation),
        "window_strides": _two(it.window_strides),
        "rhs_dilation": _two(it.rhs_dilation),
    }
    options: dict[str, Any] = {
        name: np.array([*numbers], np.int64) for name, numbers in lists.items()
    }
    options |= {"is_correlation": is_correlation, "dim_labels": str(numbers)}
    *taken, made = correlated if is_correlation else convolved
    return tuple(options.items()), (taken, [made])


def _two(sizes: Sequence[int]) -> Sequence[int]:
    """Pad the entries of one dimension to two."""
    return [1] * (2 - len(sizes)) + [*sizes]


def _layouts(numbers: ConvolutionDimensionNumbers, is_correlation: bool) -> tuple[Layout, ...]:
    """Return the dimensions of lhs, rhs and the result, from the fastest to the slowest.

    A correlation sums over adjacent elements of the images, which are features of lhs.
    """
    batch, features, *base = numbers.lhs
    outputs, inputs, *kernel = numbers.rhs
    members, made, *windows = numbers.output
    base, kernel, windows = (dimensions[::-1] for dimensions in (base, kernel, windows))
    if is_correlation:
        return (batch, *base, features), (outputs, *kernel, inputs), (made, members, *windows)
    return (features, *base, batch), (outputs, inputs, *kernel), (made, *windows, members)
