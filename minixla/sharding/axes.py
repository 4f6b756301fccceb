"""Axes of a mesh and parts of axes, along which dimensions of arrays are sharded."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minixla.core.stablehlo_text import quoted


class AxisRef(NamedTuple):
    """An axis of a mesh, or a part of one (SDY: `"x"`, `"x":(2)4`).

    An axis of size n is [pre_size, size, n / (pre_size * size)]; the part is the middle.

    Attributes:
        name: the name of the axis.
        pre_size: the product of the sizes of the parts major to this one.
        size: the size of the part; None for the whole axis.
    """

    name: str
    pre_size: int = 1
    size: int | None = None

    def __str__(self) -> str:
        part = "" if self.size is None else f":({self.pre_size}){self.size}"
        return f"{quoted(self.name)}{part}"


class Part(NamedTuple):
    """An axis or a part of one, with its size, for computations with shardings.

    Attributes:
        name: the name of the axis.
        start: the product of the sizes of the parts major to it.
        end: `start` times its own size.
    """

    name: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of devices along it."""
        return self.end // self.start

    def contains(self, other: "Part") -> bool:
        """Test whether another is a part of this one, or the same."""
        return self.name == other.name and self.start <= other.start and other.end <= self.end

    def is_prefix_of(self, other: "Part") -> bool:
        """Test whether another begins with this one, or equals it."""
        return self.name == other.name and self.start == other.start and self.end <= other.end

    def overlaps(self, other: "Part") -> bool:
        """Test whether this axis overlaps another; an axis of size one overlaps itself."""
        if self.name != other.name:
            return False
        return self == other or (self.start < other.end and other.start < self.end)

    def can_coexist(self, other: "Part") -> bool:
        """Test whether an axis can be split into parts so that both are products of its parts."""
        if self.name != other.name:
            return True
        (first, second), (third, fourth) = (
            sorted(pair) for pair in ((self.start, other.start), (self.end, other.end))
        )
        if third > second:
            return third % second == 0 and second % first == 0 and fourth % third == 0
        return second % third == 0

    def can_merge(self, other: "Part") -> bool:
        """Test whether another follows this one, so that both form one part."""
        return self.name == other.name and self.end == other.start

    def merged(self, other: "Part") -> "Part":
        """Return the part formed by this one and the one that follows it."""
        return Part(self.name, self.start, other.end)

    def before(self, other: "Part") -> "Part | None":
        """Return the beginning of it before another that overlaps it and can coexist with it."""
        if self.start >= other.start:
            return None
        return Part(self.name, self.start, min(self.end, other.start))

    def without(self, other: "Part") -> "list[Part]":
        """Return the parts of it that are not in another, major to minor."""
        if not self.overlaps(other):
            return [self]
        parts = (self.start, min(self.end, other.start)), (max(self.start, other.end), self.end)
        return [Part(self.name, start, end) for start, end in parts if start < end]


def merged(parts: Iterable[Part]) -> list[Part]:
    """Return parts, major to minor, with adjacent parts merged."""
    merged_parts: list[Part] = []
    for part in parts:
        if merged_parts and merged_parts[-1].can_merge(part):
            part = merged_parts.pop().merged(part)
        merged_parts.append(part)
    return merged_parts


def size_of(parts: Sequence[Part]) -> int:
    """Return the number of devices along all parts."""
    size = 1
    for part in parts:
        size *= part.end // part.start
    return size
