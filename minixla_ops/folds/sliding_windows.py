"""Sliding windows: sizes, padding, dilation (rule W), and their view in NumPy.

ReduceWindow, SelectAndScatter and the convolutions describe their windows with them.
"""

import contextlib
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from minixla.core import Operation, Shape
from minixla.core.attributes import Attribute, Integer, Integers, attribute
from minixla_ops.helpers.shorthand import listed
from minixla_ops.movement.slicing import Pad

Pairs = tuple[tuple[int, int], ...]


class PaddingPairs(Attribute):
    """The number of positions to add below and above each dimension; negative numbers crop."""

    is_ambiguous = False

    description = '"SAME", "VALID" or a pair (low, high) of integers for each dimension'

    def canonical(self, value: object) -> Pairs:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"must be a sequence of pairs (low, high), not {value!r}")
        number = Integer().canonical
        return tuple([(number(low), number(high)) for low, high in value])

    def stablehlo(self, value: Pairs) -> Any:
        """Return the pairs; without pairs, return an array whose type states the rank."""
        return value or "dense<> : tensor<0x2xi64>"


def dilated_size(size: int, dilation: int) -> int:
    """Return the extent of `size` elements that are `dilation` positions apart; 0 for size 0."""
    return (size - 1) * dilation + 1 if size > 0 else 0


def window_positions(extent: int, window_extent: int, stride: int) -> int:
    """Return the number of positions of a dilated window on a dilated and padded base."""
    return (extent - window_extent) // stride + 1 if extent >= window_extent else 0


def same_padding(extent: int, window_extent: int, stride: int) -> tuple[int, int]:
    """Return the padding for ceil(extent / stride) positions; an odd element goes high."""
    total = max((-(-extent // stride) - 1) * stride + window_extent - extent, 0)
    return total // 2, total - total // 2


class Window(NamedTuple):
    """A window; each field has one entry for each dimension.

    Attributes:
        sizes: the number of elements that it covers.
        strides: the distances between its positions.
        padding: (low, high) added to the dilated base; negative numbers crop.
        base_dilations: the distances between elements of the base.
        window_dilations: the distances between the elements that it covers.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Pairs
    base_dilations: tuple[int, ...]
    window_dilations: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The sizes of the dilated window."""
        return tuple(map(dilated_size, self.sizes, self.window_dilations))

    @property
    def moving(self) -> list[int]:
        """The dimensions in which a window is not just the element at its position."""
        places = zip(self.sizes, self.strides, self.padding, strict=True)
        return [index for index, place in enumerate(places) if place != (1, 1, (0, 0))]

    @property
    def hlo(self) -> str:
        """The window in HLO notation: `{size=2x2 stride=2x2 pad=0_1x0_1}`."""
        ones = (1,) * len(self.sizes)
        parts = [
            ("size", self.sizes, ()),
            ("stride", self.strides, ones),
            ("pad", tuple([f"{low}_{high}" for low, high in self.padding]), ("0_0",) * len(ones)),
            ("lhs_dilate", self.base_dilations, ones),
            ("rhs_dilate", self.window_dilations, ones),
        ]
        texts = [
            f"{name}={'x'.join(map(str, value))}" for name, value, usual in parts if value != usual
        ]
        return f"{{{' '.join(texts)}}}"

    @property
    def overlaps(self) -> bool:
        """True if two positions of the window can share an element."""
        return any(map(operator.gt, self.extents, self.strides))

    def inserted(self, at: int) -> "Window":
        """Insert a dimension at `at`, in which the window covers single elements."""
        units = (1, 1, (0, 0), 1, 1)
        fields: Any = zip(self, units, strict=True)
        return Window(*[(*field[:at], unit, *field[at:]) for field, unit in fields])

    def along(self, dimension: int) -> "Window":
        """Return the window in only one of its dimensions."""
        fields: Any = self
        return Window(*[field[dimension : dimension + 1] for field in fields])

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Iterate over the elements' offsets from the window's position, in row-major order."""
        steps = zip(self.sizes, self.window_dilations, strict=True)
        return itertools.product(*[range(0, size * gap, gap) for size, gap in steps])

    def present(self, base: Sequence[int]) -> np.ndarray:
        """Return, for each window element and position, whether it is neither padding nor a hole.

        The dimensions are (number of elements, *positions), with size 1 if all are equal.
        """
        rank = len(self.sizes)
        result = np.ones((), np.bool_)
        for dimension, size in enumerate(base):
            line = self.along(dimension)
            there = window_view(padded_base(np.ones(size, np.bool_), np.False_, line), line)
            if there.all():
                there = there[:1] if len(there) else np.ones((1, line.sizes[0]), np.bool_)
            shape = [1] * (2 * rank)
            shape[dimension], shape[rank + dimension] = there.shape[::-1]
            result = result & there.T.reshape(shape)
        return result.reshape(math.prod(self.sizes), *result.shape[rank:])

    @property
    def padding_config(self) -> tuple[tuple[int, int, int], ...]:
        """The `pad` configuration of the base: dilation and padding."""
        pairs = zip(self.padding, self.base_dilations, strict=True)
        return tuple([(low, high, dilation - 1) for (low, high), dilation in pairs])

    def padded(self, base: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of the base after dilation and padding; never below 0."""
        dilated = map(dilated_size, base, self.base_dilations)
        pairs = zip(dilated, self.padding, strict=True)
        return tuple([max(size + low + high, 0) for size, (low, high) in pairs])

    def positions(self, base: Sequence[int]) -> tuple[int, ...]:
        """Return the number of window positions in each dimension of a base with sizes `base`."""
        return tuple(map(window_positions, self.padded(base), self.extents, self.strides))


_FIELD_NAMES = ["window_dimensions", "window_strides", *Window._fields[2:]]


class Windowed(Operation):
    """Base class of operations that have the fields of a window as attributes."""

    window_dimensions: tuple[int, ...] = attribute(Integers(), hlo=None)
    window_strides: tuple[int, ...] = attribute(Integers(), hlo=None)
    padding: Pairs = attribute(PaddingPairs(), hlo=None)

    @cached_property
    def window(self) -> Window:
        """The window; dilations are 1 if the operation lacks them."""
        fields: list[Any] = [self.values.get(name) for name in _FIELD_NAMES]
        ones = (1,) * len(fields[0])
        filled: list[Any] = [ones if field is None else field for field in fields]
        return Window(*filled)

    def hlo_attributes(self, shapes):
        return {"window": self.window.hlo, **super().hlo_attributes(shapes)}

    def check_window(self, rank: int, label: str, positive_label: str) -> None:
        """Raise unless every field has `rank` entries (`label`) >= 1 (`positive_label`)."""
        lists: dict[str, Any] = dict(zip(_FIELD_NAMES, self.window, strict=True))
        check_entries(self, lists, rank, "dimensions", (label, positive_label))


def check_entries(
    operation: Operation, lists: dict[str, Any], count: int, named: str, labels: tuple[str, str]
) -> None:
    """Raise unless each named list has `count` entries, and integers are at least 1."""
    for name, value in lists.items():
        if len(value) != count:
            problem = f"{name} has {len(value)} entries, but there are {count} {named}"
            operation.refuse_attribute(labels[0], problem, "Pass one entry for each.")
        if any(type(number) is int and number < 1 for number in value):
            advice = f"Entries of {name} must be at least 1."
            operation.refuse_attribute(labels[1], f"{name} has an entry below 1", advice)


def sizes_at(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    """Return the sizes of some dimensions."""
    return [shape.dimensions[dimension] for dimension in dimensions]


def resolve_window(
    base: Sequence[int], sizes: Any, strides: Any, padding: Any, *dilations: Any
) -> Window:
    """Build a Window from a builder's arguments; the operation rejects invalid ones later."""
    sizes, strides, dilations = listed(sizes), listed(strides), dilations or (None, None)
    ones, pairs = (1,) * len(base), padding
    steps = [ones if dilation is None else listed(dilation) for dilation in dilations]
    kind = padding.upper() if isinstance(padding, str) else ""
    if kind in ("SAME", "VALID"):
        pairs = ((0, 0),) * len(base)
    if kind == "SAME":
        with contextlib.suppress(TypeError, ZeroDivisionError):  # another argument is invalid
            extents = map(dilated_size, base, steps[0]), map(dilated_size, sizes, steps[1])
            pairs = tuple(map(same_padding, *extents, strides))
    return Window(sizes, strides, pairs, *steps)


def padded_base(array: np.ndarray, fill: np.ndarray | np.generic, window: Window) -> np.ndarray:
    """Dilate and pad the base (an array's last dimensions) with `fill`."""
    config = window.padding_config
    if not any(map(any, config)):
        return array
    return Pad((*[(0, 0, 0)] * (array.ndim - len(config)), *config)).reference(array, fill)


def window_view(padded: np.ndarray, window: Window) -> np.ndarray:
    """Return all windows of a base from `padded_base` as a read-only view, without copying.

    The window is in the last dimensions: (*kept dimensions, *positions, *window sizes).
    """
    kept = padded.ndim - len(window.sizes)
    counts = tuple(map(window_positions, padded.shape[kept:], window.extents, window.strides))
    steps = padded.strides[kept:]
    # as_strided supports only NumPy's own types.
    raw = padded if padded.dtype.isbuiltin == 1 else padded.view(f"u{padded.dtype.itemsize}")
    moves = (
        *padded.strides[:kept],
        *map(operator.mul, steps, window.strides),
        *map(operator.mul, steps, window.window_dilations),
    )
    sizes = (*padded.shape[:kept], *counts, *window.sizes)
    view = np.lib.stride_tricks.as_strided(raw, sizes, moves, writeable=False)
    return view if raw is padded else view.view(padded.dtype)
