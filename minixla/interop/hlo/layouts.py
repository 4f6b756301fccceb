"""Bitcast: the one instruction whose meaning depends on how arrays lie in memory.

An array lies in memory along its layout: the dimensions from the slowest to the fastest, cut in
tiles where the layout says so (`{1,0:T(8,128)}`), which pad sizes up to multiples of the tile's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.step import Nest, Step
from minixla.interop.hlo.syntax import Layout

__all__ = ["LAYOUTS"]

# Tiles; the memory space S and the bits of an element E do not move elements.
_TILES = re.compile(r"T((?:\(\d{1,9}(?:,\d{1,9})*\))+)", re.ASCII)
_HARMLESS = re.compile(r"[SEL]\(\d+\)", re.ASCII)
_MOST_CHECKED = 1 << 24


class _Stage(NamedTuple):
    """One step of the way into memory: pads, cuts dimensions in tiles, and turns them.

    Attributes:
        sizes: before the step.
        padded: after padding.
        cut: after cutting.
        order: the permutation.
    """

    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    cut: tuple[int, ...]
    order: tuple[int, ...]


def _stages(step: Step, shape: Shape, layout: Layout | None) -> list[_Stage]:
    order, more = layout or (tuple(range(shape.rank))[::-1], "")
    slowest = order[::-1]
    sizes = tuple([shape.dimensions[each] for each in slowest])
    stages = [_Stage(shape.dimensions, shape.dimensions, shape.dimensions, slowest)]
    for tile in _tiles(step, more):
        missing = len(tile) - len(sizes)
        if missing > 0:  # a tile of more dimensions counts ones before the array's
            ones = (1,) * missing + sizes
            stages.append(_Stage(sizes, sizes, ones, tuple(range(len(ones)))))
            sizes = ones
        count = len(sizes) - len(tile)
        counts = [-(-size // part) for size, part in zip(sizes[count:], tile, strict=True)]
        padded = (*sizes[:count], *[n * part for n, part in zip(counts, tile, strict=True)])
        cut = list(sizes[:count])
        for n, part in zip(counts, tile, strict=True):
            cut += [n, part]
        outer = [count + 2 * index for index in range(len(tile))]
        turned = (*range(count), *outer, *[at + 1 for at in outer])
        stages.append(_Stage(sizes, padded, tuple(cut), turned))
        sizes = tuple([cut[at] for at in turned])
    return stages


def _tiles(step: Step, text: str) -> list[tuple[int, ...]]:
    match = _TILES.search(text)
    rest = text if match is None else text[: match.start()] + text[match.end() :]
    if _HARMLESS.sub("", rest):
        step.reject(f"layout {text} is not supported", "Layouts have tiles T(8,128), and S, E.")
    if match is None:
        return []
    found = [[int(n) for n in each.split(",")] for each in match[1][1:-1].split(")(")]
    if any(n < 1 for each in found for n in each):
        step.reject(f"layout {text} has tiles without elements", "Tiles' sizes are at least 1.")
    return [tuple(each) for each in found]


def _bitcast(step: Step) -> Nest:
    operand, result = step.operand(0, 1), step.array
    layouts = step.layouts[0], step.instruction.layout
    if not any(each is not None and each[1] for each in layouts):
        orders = [
            None if each is None or each[0] == tuple(range(len(each[0])))[::-1] else each[0]
            for each in layouts
        ]
        given = {"output_shape": result, "operand_layout": orders[0], "result_layout": orders[1]}
        return step.apply(REGISTRY["Bitcast"], step.values, given)
    into, out_of = _stages(step, operand, layouts[0]), _stages(step, result, layouts[1])
    if any(operand.dynamic) or any(result.dynamic):
        step.reject("sizes of tiled arrays are dynamic", "Such programs are not supported.")
    _check_memory(step, (operand, into), (result, out_of))
    value = step.values[0]
    for stage in into:
        value = _enter(step, value, stage)
    flat = _reshaped(step, value, (_count(into),))
    flat = step.bind("Bitcast", flat, output_shape=Shape(result.element_type, (_count(out_of),)))
    turned = out_of[-1]
    value = _reshaped(step, flat, [turned.cut[at] for at in turned.order])
    for stage in reversed(out_of):
        value = _leave(step, value, stage)
    return value


def _count(stages: Sequence[_Stage]) -> int:
    return math.prod(stages[-1].cut)


def _reshaped(step: Step, value: Value, sizes: Sequence[int]) -> Value:
    shape = value.shape
    assert isinstance(shape, Shape)
    same = shape.dimensions == tuple(sizes)
    return value if same else step.bind("Reshape", value, dimensions=tuple(sizes))


def _transposed(step: Step, value: Value, order: Sequence[int]) -> Value:
    same = tuple(order) == tuple(range(len(order)))
    return value if same else step.bind("Transpose", value, permutation=tuple(order))


def _enter(step: Step, value: Value, stage: _Stage) -> Value:
    """The array one step further into memory."""
    if stage.padded != stage.sizes:
        shape = value.shape
        assert isinstance(shape, Shape)
        literal = Literal.splat(0, Shape(shape.element_type))
        zero = step.bind("Constant", literal=literal)
        pairs = zip(stage.sizes, stage.padded, strict=True)
        config = tuple([(0, padded - size, 0) for size, padded in pairs])
        value = step.bind("Pad", value, zero, padding_config=config)
    return _transposed(step, _reshaped(step, value, stage.cut), stage.order)


def _leave(step: Step, value: Value, stage: _Stage) -> Value:
    """The array before a step, from that after it."""
    back = sorted(range(len(stage.order)), key=stage.order.__getitem__)
    value = _reshaped(step, _transposed(step, value, back), stage.padded)
    if stage.padded != stage.sizes:
        zeros = (0,) * len(stage.sizes)
        limits: dict[str, Any] = {"start_indices": zeros, "limit_indices": stage.sizes}
        value = step.bind("Slice", value, **limits, strides=(1,) * len(stage.sizes))
    return value


def _check_memory(
    step: Step, operand: tuple[Shape, list[_Stage]], result: tuple[Shape, list[_Stage]]
) -> None:
    """Refuses results of other bytes than the operand's, or of bytes that are padding."""
    bits = [shape.element_type.bits for shape, _ in (operand, result)]
    counts = [_count(stages) for _, stages in (operand, result)]
    advice = "Both arrays must lie in the same memory."
    if bits[0] * counts[0] != bits[1] * counts[1]:
        step.reject(f"{counts[0]} and {counts[1]} elements lie in memory", advice)
    if max(counts) > _MOST_CHECKED:
        step.reject("the tiled arrays are too large to compare", advice)
    common = math.gcd(*bits)
    masks = [
        np.repeat(_mask(stages), each // common)
        for each, (_, stages) in zip(bits, (operand, result), strict=True)
    ]
    if not masks[0][masks[1]].all():
        step.reject("elements of the result are padding of the operand", advice)


def _mask(stages: Sequence[_Stage]) -> np.ndarray:
    """Which bytes of memory hold elements."""
    mask = np.ones(stages[0].sizes, np.bool_)
    for stage in stages:
        pairs = zip(stage.sizes, stage.padded, strict=True)
        mask = np.pad(mask, [(0, padded - size) for size, padded in pairs])
        mask = mask.reshape(stage.cut).transpose(stage.order)
    return mask.reshape(-1)


#: By opcode.
LAYOUTS: dict[str, Entry] = {"bitcast": entry(_bitcast)}
