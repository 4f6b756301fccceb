"""Bitcasts of arrays with tiled memory layouts, as operations on padded arrays.

A layout orders the dimensions from the slowest to the fastest. It may split them into tiles
(`{1,0:T(8,128)}`), which pad sizes up to multiples of the tile sizes.
"""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import PRED
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph
from minixla.typing import Array
from minixla_ops.dump_only.operations import Bitcast
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.programs.reference_evaluation import reference_graph

#: The dimensions from the fastest to the slowest, and the sizes of each tile.
Layout = tuple[Sequence[int], Sequence[Sequence[int]]]
_MOST_CHECKED = 1 << 24


class _Stage(NamedTuple):
    """One step towards memory: pad, split dimensions into tiles, and transpose."""

    #: The sizes before the step, after padding and after splitting; and the permutation.
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    cut: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def turned(self) -> tuple[int, ...]:
        """The sizes after the step."""
        return tuple([self.cut[at] for at in self.order])

    def enter(self, x: Array) -> Array:
        """Move an array one step towards memory."""
        if self.padded != self.sizes:
            pairs = zip(self.sizes, self.padded, strict=True)
            config = [(0, padded - size, 0) for size, padded in pairs]
            x = ops.pad(x, zeros(Shape(array_shape(x).element_type)), config)
        return ops.transpose(ops.reshape(x, self.cut), self.order)

    def leave(self, x: Array) -> Array:
        """Move an array one step back from memory."""
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        x = ops.reshape(ops.transpose(x, back), self.padded)
        return ops.slice(x, (0,) * len(self.sizes), self.sizes)


def _stages(shape: Shape, layout: Layout | None) -> list[_Stage]:
    order, tiles = layout or (range(shape.rank)[::-1], ())
    # A tile of higher rank prepends ones to the array's dimensions.
    ones = max([0, *[len(tile) - shape.rank for tile in tiles]])
    slowest = (*range(ones), *[at + ones for at in reversed(order)])
    sizes = shape.dimensions
    stages = [_Stage(sizes, sizes, (1,) * ones + sizes, slowest)]
    for tile in tiles:
        sizes = stages[-1].turned
        count = len(sizes) - len(tile)
        counts = [-(-size // part) for size, part in zip(sizes[count:], tile, strict=True)]
        pairs = [*zip(counts, tile, strict=True)]
        cut = (*sizes[:count], *chain(*pairs))
        outer = range(count, len(cut), 2)
        padded = (*sizes[:count], *[n * part for n, part in pairs])
        turned = (*range(count), *outer, *[at + 1 for at in outer])
        stages.append(_Stage(sizes, padded, cut, turned))
    return stages


def tiled_bitcast(
    operand: Shape, result: Shape, layouts: Sequence[Layout | None]
) -> Callable[[Array], Array]:
    """Return the function that reads the memory of an array with shape `operand` as `result`.

    Raise ValueError with a clause as the reason if the bytes differ or include padding.
    """
    if operand.is_dynamic or result.is_dynamic:
        raise ValueError("sizes of tiled arrays must be static")
    ways = [_stages(*pair) for pair in zip((operand, result), layouts, strict=True)]
    into, out_of = ways
    bits = operand.element_type.bits, result.element_type.bits
    counts = [math.prod(stages[-1].cut) for stages in ways]
    if bits[0] * counts[0] != bits[1] * counts[1]:
        raise ValueError(f"the arrays have {counts[0]} and {counts[1]} elements in memory")
    if max(counts) > _MOST_CHECKED:
        raise ValueError("the tiled arrays are too large to compare")

    def entered(stages: Sequence[_Stage], x: Array) -> Array:
        for stage in stages:
            x = stage.enter(x)
        return ops.reshape(x, (math.prod(stages[-1].cut),))

    masks = []
    for bit, shape, stages in zip(bits, (operand, result), ways, strict=True):
        flags = shape.with_element_type(PRED)
        program = closed_graph(lambda x, stages=stages: entered(stages, x), [flags], "bitcast")
        (mask,) = reference_graph(program, [np.ones(shape.dimensions, np.bool_)])
        masks.append(np.repeat(mask, bit // math.gcd(*bits)))
    if not masks[0][masks[1]].all():
        raise ValueError("elements of the result are padding of the operand")

    def through_memory(x: Array) -> Array:
        flat = Bitcast(Shape(result.element_type, (counts[1],)))(entered(into, x))
        x = ops.reshape(flat, out_of[-1].turned)
        for stage in reversed(out_of):
            x = stage.leave(x)
        return x

    return through_memory
