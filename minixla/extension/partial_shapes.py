"""Shapes of which not all is known, for shape functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

#: A size, or None: it is not known.
Size = int | None


class PartialShape:
    """The sizes of an array, any of which, or even their number, may be unknown.

    It is a sequence of sizes, None for an unknown one. `PartialShape("[2,?]")` and
    `PartialShape((2, None))` are equal; `"?"` and None have unknown rank. It prints like that.

    Attributes:
        dimensions: the sizes; None where not even their number is known.
    """

    __slots__ = ("dimensions",)

    def __init__(self, sizes: PartialShape | Sequence[Size] | str | None = None) -> None:
        if isinstance(sizes, PartialShape):
            sizes = sizes.dimensions
        elif isinstance(sizes, str):
            sizes = _read(sizes)
        elif sizes is not None:
            sizes = tuple([None if each is None else _size(each) for each in sizes])
        self.dimensions: tuple[Size, ...] | None = sizes

    @property
    def rank(self) -> int | None:
        """How many dimensions it has; None: it is not known."""
        return None if self.dimensions is None else len(self.dimensions)

    def with_rank(self, rank: int) -> PartialShape:
        """The shape, which has `rank` dimensions.

        Raises:
            ValueError: it has another number of them.
        """
        if self.dimensions is None:
            return PartialShape([None] * rank)
        if self.rank != rank:
            raise ValueError(f"shape must be rank {rank} but is rank {self.rank}")
        return self

    def merge(self, other: PartialShape | Sequence[Size] | str | None) -> PartialShape:
        """What both shapes say together.

        Raises:
            ValueError: they cannot be the same.
        """
        other = PartialShape(other)
        if self.dimensions is None or other.dimensions is None:
            return other if self.dimensions is None else self
        sizes = []
        pairs = zip(self.with_rank(len(other.dimensions)), other, strict=True)
        for index, (one, two) in enumerate(pairs):
            if one is not None and two is not None and one != two:
                raise ValueError(f"dimension {index} must be equal, but is {one} and {two}")
            sizes.append(two if one is None else one)
        return PartialShape(sizes)

    def with_size(self, index: int, size: Size) -> PartialShape:
        """The shape, whose dimension `index` has `size`.

        Raises:
            ValueError: it has another.
        """
        if self.dimensions is None:
            return self
        wanted: list[Size] = [None] * len(self.dimensions)
        wanted[index] = size
        return self.merge(wanted)

    def __getitem__(self, index: Any) -> Any:
        if self.dimensions is None:
            return PartialShape() if isinstance(index, slice) else None
        found = self.dimensions[index]
        return PartialShape(found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        if self.dimensions is None:
            raise ValueError("the number of dimensions is not known")
        return len(self.dimensions)

    def __iter__(self) -> Iterator[Size]:
        if self.dimensions is None:
            raise ValueError("the number of dimensions is not known")
        return iter(self.dimensions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialShape, tuple, list, str)):
            return NotImplemented
        return self.dimensions == PartialShape(other).dimensions

    def __hash__(self) -> int:
        return hash(self.dimensions)

    def __repr__(self) -> str:
        if self.dimensions is None:
            return "?"
        return f"[{','.join('?' if each is None else str(each) for each in self.dimensions)}]"


def _size(value: Any) -> int:
    size = value.__index__()
    if size < 0:
        raise ValueError(f"a size is negative: {size}")
    return size


def _read(text: str) -> tuple[Size, ...] | None:
    text = text.replace(" ", "")
    if text == "?":
        return None
    sizes = text[1:-1].split(",") if len(text) > 2 else []
    is_list = text[:1] == "[" and text[1:][-1:] == "]"
    if not is_list or not all(re.fullmatch(r"\d+|\?", each) for each in sizes):
        raise ValueError(f"a shape is written as '?' or '[2,?]', not {text!r}")
    return tuple([None if each == "?" else int(each) for each in sizes])


def add_sizes(first: Size, second: Size) -> Size:
    """The sum of two sizes, either of which may be unknown."""
    return None if first is None or second is None else first + second


def multiply_sizes(first: Size, second: Size) -> Size:
    """The product of two sizes; 0 times an unknown one is 0."""
    if 0 in (first, second):
        return 0
    return None if first is None or second is None else first * second


def unchanged_shape(context: Any, *inputs: Any) -> Any:
    """The shape function of operations whose outputs have the shape of their first input.

    Where that is a list of arrays, the output is one, too.

    Args:
        context: the attributes and the user's line, as every shape function is given them.
        inputs: PartialShapes, or lists of such.

    Returns:
        The first input's.

    Example:
        >>> op = mx.register_op(
        ...     "example.Third",
        ...     inputs=["x: float"],
        ...     outputs=["y: float"],
        ...     shape_fn=mx.unchanged_shape,
        ... )
        >>> mx.make_graph(op.wrapper)(np.float32([1, 2])).output_shapes
        (f32[2],)
    """
    outputs = context.operation.definition.outputs
    return inputs[0] if len(outputs) == 1 else [inputs[0]] * len(outputs)
