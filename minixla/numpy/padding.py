"""pad: an array with elements put around it, by the modes of numpy.pad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, explain
from minixla.numpy.operands import concrete, keep_weak, lifted, operand_shape
from minixla_ops.elementwise.operators import convert

Widths = list[tuple[int, int]]


def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """`array` with elements put before and after it along each axis.

    Args:
        array: an array.
        pad_width: how many: (before, after) for each axis, one pair for all, or one number.
        mode: "constant" (keyword constant_values, default 0), "edge", "reflect" and "symmetric"
            (keyword reflect_type, "even" or "odd"), "wrap", "maximum", "minimum" and "mean" of
            the axis, "empty" (zeros).
        kwargs: the mode's keyword.

    Raises:
        AttributeValueError: the mode, a keyword or a width is unknown or negative; or there is no
            element to repeat.
    """
    array = lifted(array)
    shape = operand_shape(array, "pad")
    widths = _widths(pad_width, shape.rank)
    _check(mode, kwargs, widths)
    if mode in ("constant", "empty"):
        result = _constant(array, widths, kwargs.get("constant_values", 0))
    else:
        result = array
        for axis, (before, after) in enumerate(widths):
            if before or after:
                result = _padded(result, axis, before, after, mode, kwargs)
    return keep_weak(result, array)


_KEYWORDS = {
    "constant": "constant_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    **dict.fromkeys(("empty", "edge", "wrap", "maximum", "minimum", "mean")),
}


def _widths(given: Any, rank: int) -> Widths:
    known = concrete(np.asarray(given), "pad", "Give widths that are known when traced.")
    if known.dtype.kind not in "iu" and known.size:
        problem = "pad_width is not of integers"
        advice = "Give integers."
        raise explain(AttributeValueError, "pad", problem, [f"pad_width = {given}"], advice)
    return _pairs(known, rank, "pad_width")


def _pairs(given: np.ndarray, rank: int, name: str) -> list[tuple[Any, Any]]:
    """A pair for each axis: numpy broadcasts scalars, one pair, and one number each."""
    if given.shape not in ((), (1,), (2,), (1, 2), (rank, 1), (rank, 2)):
        problem = f"{name} has shape {given.shape} for {rank} axes"
        advice = f"Give a number, a pair (before, after), or {rank} pairs."
        raise explain(AttributeValueError, "pad", problem, advice=advice)
    return [(before, after) for before, after in np.broadcast_to(given, (rank, 2)).tolist()]


def _check(mode: Any, keywords: dict[str, Any], widths: Widths) -> None:
    allowed = _KEYWORDS.get(mode) if isinstance(mode, str) else None
    unknown = [name for name in keywords if name != allowed]
    if mode not in _KEYWORDS or unknown:
        problem = f"mode {mode!r} or its keywords are not supported"
        given = [f"keywords {', '.join(keywords) or 'none'}"]
        advice = f"Modes are {', '.join(_KEYWORDS)}."
        raise explain(AttributeValueError, "pad", problem, given, advice)
    if any(width < 0 for pair in widths for width in pair):
        given, advice = [f"pad_width = {widths}"], "Take elements away with slices."
        raise explain(AttributeValueError, "pad", "a width is negative", given, advice)


def _constant(array: Any, widths: Widths, values: Any) -> Any:
    kind = operand_shape(array, "pad").element_type
    rank = len(widths)
    if np.ndim(values) == 0:
        value = lifted(convert(values, kind))
        return ops.pad(array, value, [(*pair, 0) for pair in widths]) if rank else array
    values = mnp.asarray(values, kind)
    numbers = mnp.broadcast_to(values, (rank, 2))
    for axis, pair in enumerate(widths):
        for side in (0, 1):
            config = [(0, 0, 0)] * rank
            config[axis] = (pair[0], 0, 0) if side == 0 else (0, pair[1], 0)
            if pair[side]:
                array = ops.pad(array, numbers[axis, side], config)
    return array


def _padded(
    array: Any, axis: int, before: int, after: int, mode: str, keywords: dict[str, Any]
) -> Any:
    size = operand_shape(array, "pad").dimensions[axis]
    if size == 0:
        problem = f"axis {axis} has no element to repeat"
        advice = 'Use mode "constant".'
        raise explain(AttributeValueError, "pad", problem, [f"mode = {mode!r}"], advice)
    if mode in ("reflect", "symmetric"):
        is_odd = keywords.get("reflect_type", "even") == "odd"
        array = _mirrored(array, axis, before, size, mode, is_odd, at_front=True)
        return _mirrored(array, axis, after, size, mode, is_odd, at_front=False)
    parts = _AROUND[mode](array, axis, size, before, after)
    parts = [part for part in parts if operand_shape(part, "pad").dimensions[axis]]
    return parts[0] if len(parts) == 1 else ops.concat_in_dim(parts, axis)


def _repeated(part: Any, axis: int, count: int) -> Any:
    sizes = list(operand_shape(part, "pad").dimensions)
    sizes[axis] = count
    return ops.broadcast_in_dim(part, sizes, range(len(sizes)))


def _edges(array: Any, axis: int, size: int, before: int, after: int) -> list[Any]:
    first = ops.slice_in_dim(array, 0, 1, axis)
    last = ops.slice_in_dim(array, size - 1, size, axis)
    return [_repeated(first, axis, before), array, _repeated(last, axis, after)]


def _wrapped(array: Any, axis: int, size: int, before: int, after: int) -> list[Any]:
    front = ops.slice_in_dim(array, size - before % size, size, axis)
    back = ops.slice_in_dim(array, 0, after % size, axis)
    return [front, *[array] * (before // size + 1 + after // size), back]


def _statistic(name: str) -> Callable[..., list[Any]]:
    def around(array: Any, axis: int, size: int, before: int, after: int) -> list[Any]:
        kind = operand_shape(array, "pad").element_type
        function = {"maximum": mnp.max, "minimum": mnp.min, "mean": mnp.mean}
        value = function[name](array, axis, keepdims=True)
        if kind.is_integer:
            value = mnp.rint(value)
        value = lifted(convert(value, kind))
        return [_repeated(value, axis, before), array, _repeated(value, axis, after)]

    return around


_AROUND: dict[str, Callable[..., list[Any]]] = {
    "edge": _edges,
    "wrap": _wrapped,
    **{name: _statistic(name) for name in ("maximum", "minimum", "mean")},
}


def _mirrored(
    array: Any, axis: int, count: int, size: int, mode: str, is_odd: bool, at_front: bool
) -> Any:
    """`array` with a mirror image at one end, over and over where it is longer than `size`."""
    # "reflect" does not repeat the edge itself.
    offset = 1 if mode == "reflect" and size > 1 else 0
    while count > 0:
        total = operand_shape(array, "pad").dimensions[axis]
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
