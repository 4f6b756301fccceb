"""Gradients of pooling."""

import math
from functools import partial
from typing import Any

from minixla.core.tracing import closed_graph, shape_of
from minixla.legalize.common.pooling import MOST_ELEMENTS
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.indexing.select_and_scatter import SelectAndScatter
from minixla_ops.programs.call import KeptCall
from minixla_ops.programs.computations import monoid_of
from minixla_ops.programs.lowering import kept_program


def _overlaps(operation: Any, operands: Operands, target: Target) -> bool:
    is_small = math.prod(operation.window_dimensions) <= MOST_ELEMENTS
    is_monoid = monoid_of(operation.scatter) is not None
    is_on_one = target.device_count == 1 and operands[1].shape.size > 0
    return is_on_one and operation.window.overlaps and is_small and is_monoid


@legalize(SelectAndScatter, "cpu", when=_overlaps)
def overlapping_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU evaluates the windows element by element; two programs of slices are faster.

    The selection and the sums are separate calls: if they were fused, XLA:CPU would repeat the
    selection for each element of the sums.
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
