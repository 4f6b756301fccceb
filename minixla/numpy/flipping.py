"""Functions that reverse or shift elements along axes."""

import operator
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.errors import ConcretizationError
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import axes_of, axis_of, keep_weak, lifted, listed, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike


@documented(PARAMETERS)
@one_program("m")
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Reverse the order of elements along axes.

    Example:
        >>> np.flip(np.array([[1, 2], [3, 4]]))
        Array([[4, 3],
               [2, 1]], dtype=int32)
    """
    axes = axes_of(axis, operand_shape(m, "flip").rank, "flip")
    return keep_weak(ops.rev(lifted(m), axes) if axes else lifted(m), m)


@one_program()
@documented(PARAMETERS)
def fliplr(m: ArrayLike) -> Array:
    """Reverse an array along axis 1.

    Example:
        >>> np.fliplr(np.array([[1, 2], [3, 4]]))
        Array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return flip(m, 1)


@one_program()
@documented(PARAMETERS)
def flipud(m: ArrayLike) -> Array:
    """Reverse an array along axis 0.

    Example:
        >>> np.flipud(np.array([[1, 2], [3, 4]]))
        Array([[3, 4],
               [1, 2]], dtype=int32)
    """
    return flip(m, 0)


@documented(PARAMETERS)
def roll(
    a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """Shift elements along axes; those shifted out enter at the other end.

    Args:
        shift: an integer, or one for each axis; may be traced.
        axis: axes; None for the elements in row-major order.

    Example:
        >>> np.roll(np.arange(5), 2)
        Array([3, 4, 0, 1, 2], dtype=int32)
    """
    return (_turned_by_arrays if hasattr(shift, "shape") else _turned)(a, shift, axis)


def _all_turned(a: Any, shift: Any, axis: Any) -> Any:
    dimensions = operand_shape(a, "roll").dimensions
    if axis is None:
        return mnp.reshape(_all_turned(mnp.ravel(a), shift, 0), dimensions)
    places = [axis_of(number, len(dimensions), "roll") for number in listed(axis)]
    shifts = listed(shift)
    count = len(shifts if len(places) == 1 else places)
    if len(places) not in (1, count) or len(shifts) not in (1, count):
        problem = f"there are {len(shifts)} shifts for {len(places)} axes"
        raise operands.shape_error("roll", problem, "Give one for each, or one for all.")
    result = lifted(a)
    for at, amount in islice(zip(cycle(places), cycle(shifts)), count):
        if operand_shape(amount, "roll").element_type.is_complex:
            raise operands.shape_error("roll", f"shift {amount} is complex", "Give an integer.")
        result = _rolled(result, dimensions[at], amount, at) if dimensions[at] else result
    return keep_weak(result, a)


_turned, _turned_by_arrays = (one_program(*names)(_all_turned) for names in (["a"], ["a", "shift"]))


def _rolled(a: Any, size: int, amount: Any, axis: int) -> Any:
    try:
        start = -operator.index(amount) % size
    except (ConcretizationError, TypeError):
        starts = [lifted(np.int32(0))] * a.ndim
        starts[axis] = mnp.astype(size - amount % size, np.int32)
        return ops.dynamic_slice(ops.concat_in_dim([a, a], axis), starts, a.shape)
    parts = [ops.slice_in_dim(a, *bounds, axis) for bounds in ((start, size), (0, start))]
    return ops.concat_in_dim(parts, axis) if start else a
