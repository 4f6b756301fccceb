"""Gradients of pooling."""

import math
from functools import partial
from typing import Any

from minixla.core.tracing import closed_graph, shape_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.indexing.select_and_scatter import SelectAndScatter
from minixla_ops.programs.call import KeptCall
from minixla_ops.programs.computations import monoid_of
from minixla_ops.programs.lowering import kept_program

#: XLA:CPU may compile programs of some 32 elements and more for minutes.
_MOST_ELEMENTS = 25


def _overlaps(operation: Any, operands: Operands, target: Target) -> bool:
    is_small = math.prod(operation.window_dimensions) <= _MOST_ELEMENTS
    is_monoid = monoid_of(operation.scatter) is not None
    is_on_one = target.device_count == 1 and operands[1].shape.size > 0
    return is_on_one and operation.window.overlaps and is_small and is_monoid


@legalize(SelectAndScatter, "cpu", when=_overlaps)
def overlapping_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU evaluates the windows element by element; two programs of slices are faster.

    The selection and the sums are calls that stay apart: fused, XLA:CPU would repeat the selection
    for each element of the sums.
    """
    operand, *others = operands
    selection = kept_program(
        operation.selected_elements, (shape_of(operand),), operation.builder_name
    )
    (chosen,) = KeptCall(selection)(operand)
    base = array_shape(operand)
    shapes = [shape_of(other) for other in (chosen, *others)]
    sums = closed_graph(partial(operation.scattered, base), shapes, operation.builder_name)
    return KeptCall(sums)(chosen, *others)


def _are_separate(operation: Any, operands: Operands, target: Target) -> bool:
    return not operation.window.overlaps and math.prod(operation.window_strides) <= _MOST_ELEMENTS


@legalize(SelectAndScatter, "cpu", when=_are_separate)
def separate_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU evaluates the windows element by element; a program of slices is 10 times faster."""
    return operation.lowered(*operands)
