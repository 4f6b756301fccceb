"""Gradients of pooling."""

import math
from typing import Any

from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.indexing.select_and_scatter import SelectAndScatter

_MOST_ELEMENTS = 25


def _are_separate(operation: Any, operands: Operands, target: Target) -> bool:
    return not operation.window.overlaps and math.prod(operation.window_strides) <= _MOST_ELEMENTS


@legalize(SelectAndScatter, "cuda", when=_are_separate)
def separate_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU needs temporary memory for the windows; a program of slices needs none."""
    return operation.lowered(*operands)
