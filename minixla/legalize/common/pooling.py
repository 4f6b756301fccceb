"""Gradients of pooling."""

import math
from typing import Any

from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.indexing.select_and_scatter import SelectAndScatter

#: XLA:CPU may need minutes to compile a program of more than about 32 elements.
MOST_ELEMENTS = 25


def _are_separate(operation: Any, operands: Operands, target: Target) -> bool:
    return not operation.window.overlaps and math.prod(operation.window_strides) <= MOST_ELEMENTS


@legalize(SelectAndScatter, ("cpu", "cuda"), when=_are_separate)
def separate_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU evaluates the windows element by element; a program of slices is 10 times faster.

    XLA:GPU needs temporary memory for the windows, but not for the program.
    """
    return operation.lowered(*operands)
