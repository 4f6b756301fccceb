"""Bitcast: the one instruction whose meaning depends on how arrays lie in memory.

An array lies in memory along its layout: the dimensions from the slowest to the fastest, cut in
tiles where the layout says so (`{1,0:T(8,128)}`), which pad sizes up to multiples of the tile's.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.interop.step import Step

#: The dimensions from the fastest to the slowest, and the sizes of each tile.
_Layout = tuple[Sequence[int], Sequence[Sequence[int]]]
_MOST_CHECKED = 1 << 24
_ADVICE = "Both arrays must lie in the same memory."


class _Stage(NamedTuple):
    """One step of the way into memory: pads, cuts dimensions in tiles, and turns them."""

    #: The sizes before the step, after padding and after cutting.
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    cut: tuple[int, ...]
    #: The permutation.
    order: tuple[int, ...]

    @property
    def turned(self) -> tuple[int, ...]:
        """The sizes after the step."""
        return tuple([self.cut[at] for at in self.order])

    def enter(self, numpy: Any, x: Any) -> Any:
        """An array of NumPy's or ours one step further into memory."""
        if self.padded != self.sizes:
            pairs = zip(self.sizes, self.padded, strict=True)
            x = numpy.pad(x, [(0, padded - size) for size, padded in pairs])
        return numpy.transpose(numpy.reshape(x, self.cut), self.order)

    def leave(self, x: Any) -> Any:
        """An array of ours one step back out of memory."""
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        x = mnp.reshape(mnp.transpose(x, back), self.padded)
        return x[tuple([slice(size) for size in self.sizes])]


def _stages(shape: Shape, layout: _Layout | None) -> list[_Stage]:
    order, tiles = layout or (range(shape.rank)[::-1], ())
    # A tile of more dimensions counts ones before the array's.
    ones = max([0, *[len(tile) - shape.rank for tile in tiles]])
    slowest = (*range(ones), *[at + ones for at in reversed(order)])
    sizes = shape.dimensions
    stages = [_Stage(sizes, sizes, (1,) * ones + sizes, slowest)]
    for tile in tiles:
        sizes = stages[-1].turned
        count = len(sizes) - len(tile)
        counts = [-(-size // part) for size, part in zip(sizes[count:], tile, strict=True)]
        pairs = [*zip(counts, tile, strict=True)]
        cut = (*sizes[:count], *itertools.chain(*pairs))
        outer = range(count, len(cut), 2)
        padded = (*sizes[:count], *[n * part for n, part in pairs])
        turned = (*range(count), *outer, *[at + 1 for at in outer])
        stages.append(_Stage(sizes, padded, cut, turned))
    return stages


def bitcast(step: Step) -> Sequence[Value]:
    """The bytes of the operand as an array of another shape or layout."""
    (operand,), result = step.shapes, step.result
    layouts = step.module.details["layouts"]
    if not isinstance(operand, Shape):
        step.reject(f"its operand is {operand}", "It takes an array.")
    if not any(each and each[1] for each in layouts):
        orders = [
            None if each is None or sorted(each[0], reverse=True) == each[0] else tuple(each[0])
            for each in layouts
        ]
        given = {"output_shape": result, "operand_layout": orders[0], "result_layout": orders[1]}
        return [step.bind("Bitcast", *step.operands, **given)]
    if operand.is_dynamic or result.is_dynamic:
        step.reject("sizes of tiled arrays are dynamic", "Such programs are not supported.")
    into, out_of = _stages(operand, layouts[0]), _stages(result, layouts[1])
    _check_memory(step, (operand, into), (result, out_of))

    def through_memory(x: Any) -> Any:
        for stage in into:
            x = stage.enter(mnp, x)
        flat = Shape(result.element_type, (math.prod(out_of[-1].cut),))
        x = REGISTRY["Bitcast"](flat)(mnp.reshape(x, -1))
        x = mnp.reshape(x, out_of[-1].turned)
        for stage in reversed(out_of):
            x = stage.leave(x)
        return x

    return step.inlined(through_memory)


def _check_memory(step: Step, *arrays: tuple[Shape, list[_Stage]]) -> None:
    """Refuses results of other bytes than the operand's, or of bytes that are padding."""
    bits = [shape.element_type.bits for shape, _ in arrays]
    counts = [math.prod(stages[-1].cut) for _, stages in arrays]
    if bits[0] * counts[0] != bits[1] * counts[1]:
        step.reject(f"{counts[0]} and {counts[1]} elements lie in memory", _ADVICE)
    if max(counts) > _MOST_CHECKED:
        step.reject("the tiled arrays are too large to compare", _ADVICE)
    masks = []
    for each, (shape, stages) in zip(bits, arrays, strict=True):
        mask = np.ones(shape.dimensions, np.bool_)
        for stage in stages:
            mask = stage.enter(np, mask)
        masks.append(np.repeat(mask.reshape(-1), each // math.gcd(*bits)))
    if not masks[0][masks[1]].all():
        step.reject("elements of the result are padding of the operand", _ADVICE)
