"""Convolutions as calls of `minixla/engine/kernels/convolutions.cc`, on all threads of a CPU.

XLA:CPU runs a convolution on one thread, of few features slowly, and in loops without its library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import minixla_ops as ops
from minixla.core import Graph, Shape, element_type
from minixla.core.stablehlo_text import Layouts
from minixla_ops.folds.sliding_windows import sizes_at
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.vocabulary.casting import emit_converted

if TYPE_CHECKING:
    from minixla_ops.products.convolution import ConvGeneralDilated

#: The targets, by the element type in which they sum.
TARGETS = {"f32": "minixla_convolution_f32", "f64": "minixla_convolution_f64"}
_SUMMED_IN = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64"}

Layout = tuple[int, ...]


@lru_cache(maxsize=1024)
def is_for_kernel(it: ConvGeneralDilated, lhs: Shape, rhs: Shape, result: Shape) -> bool:
    """Whether the kernel computes a convolution: of one group, in one dimension or two."""
    shapes = lhs, rhs, result
    is_simple = it.group_count == 1 and lhs.rank in (3, 4) and not any(it.window_reversal)
    is_static = not any(shape.is_dynamic or 0 in shape.dimensions for shape in shapes)
    kinds = {_SUMMED_IN.get(shape.element_type.name) for shape in shapes}
    return is_simple and is_static and kinds in ({"f32"}, {"f64"})


def kernel_call(
    it: ConvGeneralDilated, emit: Any, operands: Sequence[str], shapes: tuple[Shape, Shape, Shape]
) -> Sequence[str]:
    """Writes the call; XLA brings the arrays into the layouts that the kernel reads and writes."""
    kind = _SUMMED_IN[shapes[0].element_type.name]
    wide = [shape.with_element_type(element_type(kind)) for shape in shapes]
    operands = emit_converted(emit, operands, shapes[:2], wide[:2])
    told = _attributes(it, *wide)
    names = emit.custom_call(TARGETS[kind], operands, wide[:2], wide[2:], *told)
    return emit_converted(emit, names, wide[2:], shapes[2:])


@lru_cache(maxsize=1024)
def _attributes(
    it: ConvGeneralDilated, lhs: Shape, rhs: Shape, result: Shape
) -> tuple[str, Sequence[Layouts]]:
    """What the kernel is told, and the layouts that it needs."""
    numbers = it.dimension_numbers
    batch, features, *base = sizes_at(lhs, numbers.lhs)
    kernel = sizes_at(rhs, numbers.kernel_spatial_dimensions)
    windows = sizes_at(result, numbers.output_spatial_dimensions)
    # As of a kernel's gradient: a few large windows, unless more must be copied for it.
    convolved, correlated = _layouts(numbers, False), _layouts(numbers, True)
    costs = [sum(each != tuple(sorted(each)[::-1]) for each in x) for x in (correlated, convolved)]
    is_correlation = (costs[0], prod(windows)) < (costs[1], prod(kernel))
    is_correlation &= set(it.lhs_dilation) == {1}
    number, last = (features, batch) if is_correlation else (batch, features)
    outputs = result.dimensions[numbers.output_feature_dimension]
    pad = [(0, 0)] * (2 - len(base))
    given: dict[str, Iterable[int]] = {
        "sizes": (number, *_two(base), last, *_two(kernel), *_two(windows), outputs),
        "padding": chain(*pad, *it.padding),
        "lhs_dilation": _two(it.lhs_dilation),
        "window_strides": _two(it.window_strides),
        "rhs_dilation": _two(it.rhs_dilation),
    }
    config = [f"{name} = array<i64: {', '.join(map(str, each))}>" for name, each in given.items()]
    config += [f"is_correlation = {str(is_correlation).lower()}", f'dim_labels = "{numbers}"']
    *taken, made = correlated if is_correlation else convolved
    return f"{{{', '.join(config)}}}", (taken, [made])


def convolution_of(
    call: Any, shapes: Sequence[Shape], programs: Sequence[Graph] = ()
) -> Callable[..., Any] | None:
    """What such a call, a CustomCall, means; None where it is none that `kernel_call` writes."""
    options = dict(call.options)
    count = shapes[0].rank - 2
    try:
        lists = [options[name][1] for name in ("window_strides", "lhs_dilation", "rhs_dilation")]
        strides, holes, inner = (each[-count:] for each in lists)
        padding = options["padding"][1][-2 * count :]
        labels = options["dim_labels"]
    except (KeyError, IndexError, TypeError):
        return None
    pairs = list(pairwise(padding))[::2]
    return lambda x, w: ops.conv_general_dilated(x, w, strides, pairs, holes, inner, labels)


def _two(sizes: Sequence[int]) -> Sequence[int]:
    """The entries of two dimensions, of which the first may be none."""
    return [1] * (2 - len(sizes)) + [*sizes]


def _layouts(numbers: ConvolutionDimensionNumbers, is_correlation: bool) -> tuple[Layout, ...]:
    """Of lhs, rhs and the result the dimensions from the fastest on.

    A correlation sums over what lies side by side in the images, which are features of lhs.
    """
    batch, features, *base = numbers.lhs
    outputs, inputs, *kernel = numbers.rhs
    members, made, *windows = numbers.output
    base, kernel, windows = (each[::-1] for each in (base, kernel, windows))
    if is_correlation:
        return (batch, *base, features), (outputs, *kernel, inputs), (made, members, *windows)
    return (features, *base, batch), (outputs, inputs, *kernel), (made, *windows, members)
