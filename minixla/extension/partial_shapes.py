"""Partly known shapes, for shape functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from minixla.core.element_types import ElementType, element_type
from minixla.core.shapes import Shape

#: A size; None if it is unknown.
Size = int | None


class PartialShape:
    """The sizes of an array; any of them, or even their number, may be unknown.

    It is a sequence of sizes, None for an unknown one. `PartialShape("[2,?]")` and
    `PartialShape((2, None))` are equal; `"?"` and None have unknown rank. It prints like that.

    Attributes:
        dimensions: the sizes; None if even their number is unknown.
    """

    __slots__ = ("dimensions",)

    def __init__(self, sizes: PartialShape | Sequence[Size] | str | None = None) -> None:
        if isinstance(sizes, PartialShape):
            sizes = sizes.dimensions
        elif isinstance(sizes, str):
            sizes = _read(sizes)
        elif sizes is not None:
            sizes = tuple([None if size is None else _size(size) for size in sizes])
        self.dimensions: tuple[Size, ...] | None = sizes

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if it is unknown."""
        return None if self.dimensions is None else len(self.dimensions)

    def with_rank(self, rank: int) -> PartialShape:
        """Return the shape with `rank` dimensions.

        Raises:
            ValueError: it has another number of dimensions.
        """
        if self.dimensions is None:
            return PartialShape([None] * rank)
        if self.rank != rank:
            raise ValueError(f"shape must be rank {rank} but is rank {self.rank}")
        return self

    def merge(self, other: PartialShape | Sequence[Size] | str | None) -> PartialShape:
        """Combine the known sizes of both shapes.

        Raises:
            ValueError: they contradict each other.
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
        """Return the shape with `size` for dimension `index`.

        Raises:
            ValueError: it has another size there.
        """
        if self.dimensions is None:
            return self
        wanted: list[Size] = [None] * len(self.dimensions)
        wanted[index] = size
        return self.merge(wanted)

    def __getitem__(self, index: Any) -> Any:
        if self.dimensions is None:
            return PartialShape() if isinstance(index, slice) else None
        entry = self.dimensions[index]
        return PartialShape(entry) if isinstance(index, slice) else entry

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
        sizes = ["?" if size is None else str(size) for size in self.dimensions]
        return f"[{','.join(sizes)}]"


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
    if not is_list or not all(re.fullmatch(r"\d+|\?", size) for size in sizes):
        raise ValueError(f"a shape is written as '?' or '[2,?]', not {text!r}")
    return tuple([None if size == "?" else int(size) for size in sizes])


class Stated(NamedTuple):
    """The shape that a shape function states for one array.

    Attributes:
        shape: its sizes.
        type: its element type; None if only the sizes are stated.
    """

    shape: PartialShape
    type: ElementType | None = None


def stated_shapes(result: Any, lengths: Sequence[int | None]) -> list[Stated] | None:
    """Return the stated shapes of all arrays of the outputs, in order.

    The sizes of an array are a sequence of integers and None; an integer for one dimension; text
    such as `"[2,?]"`; None for an unknown rank; or an object with a shape and an element type.
    Several outputs, and an output that is a list, take an iterable of these. For a single output
    the list is optional.

    Args:
        result: what the function returned.
        lengths: for each output its number of arrays if it is a list, else None.

    Returns:
        One entry for each array, or None if the result has another form.

    Raises:
        ValueError: a size is negative, or a text is not a shape.
    """
    result = _listed(result)
    if len(lengths) == 1:
        whole = _of_output(result, lengths[0])
        if whole is not None or not isinstance(result, list):
            return whole
    if not isinstance(result, list) or len(result) != len(lengths):
        return None
    shapes: list[Stated] = []
    for entry, length in zip(result, lengths, strict=True):
        output = _of_output(entry, length)
        if output is None:
            return None
        shapes += output
    return shapes


def _of_output(value: Any, length: int | None) -> list[Stated] | None:
    """Return the stated shapes of one output; None if the value has another form."""
    if length is not None and (not isinstance(value, list) or len(value) != length):
        return None
    stated = [_stated(entry) for entry in ([value] if length is None else value)]
    certain = [entry for entry in stated if entry is not None]
    return certain if len(certain) == len(stated) else None


def _stated(value: Any) -> Stated | None:
    """Return the stated shape of one array; None if the value has another form."""
    if value is None or isinstance(value, (PartialShape, str)):
        return Stated(PartialShape(value))
    if isinstance(value, list):
        return Stated(PartialShape(value)) if all(map(_is_size, value)) else None
    if _is_size(value):
        return Stated(PartialShape([value]))
    if isinstance(value, Shape):
        return Stated(PartialShape(value.dimensions), value.element_type)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Stated(PartialShape(value.shape), element_type(value.dtype))
    return None


def _is_size(value: Any) -> bool:
    return value is None or (hasattr(value, "__index__") and not isinstance(value, bool))


def _listed(value: Any) -> Any:
    """Convert all iterables in a result to lists, and arrays of integers to their elements."""
    if isinstance(value, (PartialShape, str, Shape)):
        return value
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return value.tolist()
    is_listed = isinstance(value, Iterable) and not isinstance(value, Mapping)
    return [_listed(element) for element in value] if is_listed else value


def add_sizes(first: Size, second: Size) -> Size:
    """Add two sizes; the sum with an unknown one is unknown."""
    return None if first is None or second is None else first + second


def multiply_sizes(first: Size, second: Size) -> Size:
    """Multiply two sizes; 0 times an unknown one is 0."""
    if 0 in (first, second):
        return 0
    return None if first is None or second is None else first * second


def unchanged_shape(context: Any, *inputs: Any) -> Any:
    """Return the shape of the first input, for operations whose outputs have that shape.

    If it is a list of arrays, the output is one, too.

    Args:
        context: the attributes and the user's line, as for every shape function.
        inputs: PartialShapes, or lists of them.

    Returns:
        The shape of the first input.

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
