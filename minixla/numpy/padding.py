"""pad: an array with elements put around it, by the modes of numpy.pad."""

from typing import Any

import jax
import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import concrete, keep_weak, kind_of, lifted, resized
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.operators import convert


@documented(PARAMETERS)
@one_program("array")
def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Pad an array before and after each axis.

    Args:
        array: an array.
        pad_width: (before, after) for each axis, one pair for all, or one integer.
        mode: "constant" (keyword constant_values, default 0), "edge", "reflect" and "symmetric"
            (keyword reflect_type, "even" or "odd"), "wrap", "empty" (zeros), "linear_ramp" (keyword
            end_values), "maximum", "minimum", "mean" and "median" of the axis (keyword
            stat_length), or a function, which jax.numpy.pad calls.
        **kwargs: the keyword of the mode.

    Example:
        >>> np.pad(np.array([1, 2]), (1, 2), constant_values=9)
        Array([9, 1, 2, 9, 9], dtype=int32)
        >>> np.pad(np.array([1, 2, 3]), 2, mode="reflect")
        Array([3, 2, 1, 2, 3, 2, 1], dtype=int32)
    """
    result = array = lifted(array)
    widths = _widths(pad_width, array.ndim)
    allowed = _KEYWORDS.get(mode) if isinstance(mode, str) else None
    if callable(mode) or (allowed in ("end_values", "stat_length") and array.size):
        return jax.numpy.pad(array, widths, mode, **kwargs)
    if mode not in _KEYWORDS or any(name != allowed for name in kwargs):
        problem = f"mode {mode!r} or its keywords are not supported"
        raise operands.value_error("pad", problem, f"Modes are {', '.join(_KEYWORDS)}.", **kwargs)
    values, kind = kwargs.get("constant_values", 0), kind_of(array)
    if isinstance(values, (list, tuple)):
        values = mnp.asarray(values)
    if mode in ("constant", "empty") and np.ndim(values) == 0:
        config = [(*pair, 0) for pair in widths]
        result = ops.pad(array, lifted(convert(values, kind)), config) if config else array
        return keep_weak(result, array)
    if mode == "constant":
        kwargs = {"ends": mnp.broadcast_to(mnp.asarray(values, kind), (array.ndim, 2))}
    for axis, (before, after) in enumerate(widths):
        if before or after:
            result = _padded(result, axis, before, after, mode, kwargs)
    return keep_weak(result, array)


_KEYWORDS = dict(constant="constant_values", linear_ramp="end_values", edge=None, empty=None)
_KEYWORDS |= dict(reflect="reflect_type", symmetric="reflect_type", wrap=None)
_KEYWORDS |= dict.fromkeys(("maximum", "minimum", "mean", "median"), "stat_length")


def _widths(stated: Any, rank: int) -> list[tuple[int, int]]:
    """A pair for each axis: numpy broadcasts scalars, one pair, and one number each."""
    widths = concrete(stated, "pad", "Give widths that are known when traced.")
    problem = advice = ""
    if widths.dtype.kind not in "iu" and widths.size:
        problem, advice = "pad_width is not of integers", "Give integers."
    elif widths.shape not in ((), (1,), (2,), (1, 2), (rank, 1), (rank, 2)):
        problem = f"pad_width has shape {widths.shape} for {rank} axes"
        advice = f"Give a number, a pair (before, after), or {rank} pairs."
    elif (widths < 0).any():
        problem, advice = "a width is negative", "Take elements away with slices."
    if problem:
        raise operands.type_error("pad", problem, advice, pad_width=stated)
    return [(before, after) for before, after in np.broadcast_to(widths, (rank, 2)).tolist()]


def _padded(array: Any, axis: int, before: int, after: int, mode: str, keywords: Any) -> Any:
    size = array.shape[axis]
    if size == 0 and mode != "constant":
        problem = f"axis {axis} has no element to repeat"
        raise operands.value_error("pad", problem, 'Use mode "constant".', mode=mode)
    if mode in ("reflect", "symmetric"):
        # "reflect" does not repeat the edge itself.
        offset = 1 if mode == "reflect" and size > 1 else 0
        is_odd = keywords.get("reflect_type", "even") == "odd"
        array = _mirrored(array, axis, before, size, offset, is_odd, at_front=True)
        return _mirrored(array, axis, after, size, offset, is_odd, at_front=False)
    if mode == "wrap":
        front = ops.slice_in_dim(array, size - before % size, size, axis)
        back = ops.slice_in_dim(array, 0, after % size, axis)
        parts = [front, *[array] * (before // size + 1 + after // size), back]
    else:
        if mode == "edge":
            ends = [ops.slice_in_dim(array, at, at + 1, axis) for at in (0, size - 1)]
        else:
            sizes = resized(array.shape, axis, 1)
            ends = [mnp.broadcast_to(keywords["ends"][axis, side], sizes) for side in (0, 1)]
        parts = [_repeated(ends[0], axis, before), array, _repeated(ends[1], axis, after)]
    parts = [part for part in parts if part.shape[axis]]
    return parts[0] if len(parts) == 1 else ops.concat_in_dim(parts, axis)


def _repeated(part: Any, axis: int, count: int) -> Any:
    return ops.broadcast_in_dim(part, resized(part.shape, axis, count), range(part.ndim))


def _mirrored(
    array: Any, axis: int, count: int, size: int, offset: int, is_odd: bool, at_front: bool
) -> Any:
    """`array` with a mirror image at one end, over and over where it is longer than `size`."""
    while count > 0:
        total = array.shape[axis]
        part = min(count, size - offset)
        count -= part
        start = offset if at_front else total - offset - part
        image = mnp.flip(ops.slice_in_dim(array, start, start + part, axis), axis)
        if is_odd:
            edge = 0 if at_front else total - 1
            end = ops.slice_in_dim(array, edge, edge + 1, axis)
            image = 2 * _repeated(end, axis, part) - image
        array = ops.concat_in_dim([image, array] if at_front else [array, image], axis)
    return array
