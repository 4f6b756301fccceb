"""Shapes of values: arrays (with optional dynamic bounds), tuples and tokens; all interned."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from minixla.core.element_types import ElementType, canonical_element_type, element_type

__all__ = ["TOKEN", "AnyShape", "DeclaredArray", "Shape", "TokenShape", "TupleShape", "parse_shape"]


class Shape:
    """The shape of an array: element type, dimension sizes and which of them are bounds.

    There is one object for each shape, so equality is identity. A dynamic dimension's size is its
    upper bound. Prints as XLA does: `f32[2,3]`, `s32[<=10]`.
    """

    __slots__ = ("_text", "dimensions", "dynamic", "element_type", "stablehlo")
    _interned: dict[tuple[Any, ...], Shape] = {}

    element_type: ElementType
    dimensions: tuple[int, ...]
    dynamic: tuple[bool, ...]
    stablehlo: str

    def __new__(
        cls,
        element_type_: Any,
        dimensions: Iterable[int] = (),
        dynamic: Iterable[bool] | None = None,
    ) -> Shape:
        """Interns a shape.

        Args:
            element_type_: anything that `element_type` takes.
            dimensions: the sizes, each >= 0.
            dynamic: for each dimension whether its size is only an upper bound; default: none is.

        Raises:
            ValueError: a negative size, or `dynamic` of another length.
        """
        dimensions = tuple(dimensions)
        flags = tuple(dynamic) if dynamic is not None else ()
        if not any(flags):
            flags = ()
        key = (element_type_, dimensions, flags)
        found = cls._interned.get(key)
        return found if found is not None else cls._make(element_type_, dimensions, flags)

    @classmethod
    def _make(cls, declared: Any, sizes: tuple[Any, ...], flags: tuple[bool, ...]) -> Shape:
        declared = element_type(declared)
        sizes = tuple(int(size) for size in sizes)
        if any(size < 0 for size in sizes):
            raise ValueError(f"a dimension size is negative: {list(sizes)}")
        if flags and len(flags) != len(sizes):
            raise ValueError(f"{len(flags)} dynamic flags for {len(sizes)} dimensions")
        key = (declared, sizes, flags)
        found = cls._interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.element_type = declared
        self.dimensions = sizes
        self.dynamic = flags or (False,) * len(sizes)
        self._text = _print_array(declared, sizes, self.dynamic)
        self.stablehlo = _stablehlo_array(declared, sizes, self.dynamic)
        # setdefault keeps one object when two threads make the same shape.
        return cls._interned.setdefault(key, self)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dimensions)

    @property
    def size(self) -> int:
        """The number of elements (of the bounds, where dimensions are dynamic)."""
        return math.prod(self.dimensions)

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.element_type.dtype

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is dynamic."""
        return any(self.dynamic)

    def with_element_type(self, other: ElementType) -> Shape:
        """The same dimensions with another element type."""
        return Shape(other, self.dimensions, self.dynamic)

    def with_dimensions(self, dimensions: Sequence[int]) -> Shape:
        """The same element type with other, static dimensions."""
        return Shape(self.element_type, dimensions)

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return Shape, (self.element_type, self.dimensions, self.dynamic)


class TupleShape:
    """The shape of a tuple: its members' shapes. Prints as `(f32[], s32[4])`."""

    __slots__ = ("_text", "elements", "stablehlo")
    _interned: dict[tuple[AnyShape, ...], TupleShape] = {}

    elements: tuple[AnyShape, ...]
    stablehlo: str

    def __new__(cls, elements: Iterable[AnyShape]) -> TupleShape:
        """Interns a tuple shape."""
        key = tuple(elements)
        found = cls._interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.elements = key
        self._text = "(" + ", ".join(map(repr, key)) + ")"
        self.stablehlo = "tuple<" + ", ".join(each.stablehlo for each in key) + ">"
        return cls._interned.setdefault(key, self)

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleShape, (self.elements,)


class TokenShape:
    """The shape of a token, which carries no data. Prints as `token[]`."""

    __slots__ = ()
    stablehlo = "!stablehlo.token"

    def __repr__(self) -> str:
        return "token[]"

    def __reduce__(self) -> str:
        return "TOKEN"


#: The one token shape.
TOKEN = TokenShape()

AnyShape: TypeAlias = Shape | TupleShape | TokenShape


def _print_array(declared: ElementType, sizes: tuple[int, ...], dynamic: tuple[bool, ...]) -> str:
    parts = [f"<={size}" if flag else str(size) for size, flag in zip(sizes, dynamic, strict=True)]
    return f"{declared.name}[{','.join(parts)}]"


def _stablehlo_array(
    declared: ElementType, sizes: tuple[int, ...], dynamic: tuple[bool, ...]
) -> str:
    parts = ["?" if flag else str(size) for size, flag in zip(sizes, dynamic, strict=True)]
    bounds = ""
    if any(dynamic):
        listed = [str(size) if flag else "?" for size, flag in zip(sizes, dynamic, strict=True)]
        bounds = f", #stablehlo.bounds<{', '.join(listed)}>"
    return f"tensor<{'x'.join([*parts, declared.stablehlo])}{bounds}>"


_ARRAY = re.compile(r"\s*([a-z][a-z0-9]*)\[([^\]]*)\](\{[^}]*\})?\s*")


def parse_shape(text: str) -> AnyShape:
    """The shape that XLA's notation `text` names; layouts such as `{1,0}` are ignored.

    Raises:
        ValueError: `text` is not a shape.
    """
    shape, rest = _parse(text, text)
    if rest.strip():
        raise ValueError(f"{text!r} is not a shape: {rest!r} is left over")
    return shape


def _parse(text: str, whole: str) -> tuple[AnyShape, str]:
    text = text.lstrip()
    if text.startswith("("):
        return _parse_tuple(text[1:], whole)
    if text.startswith("token[]"):
        return TOKEN, text[len("token[]") :]
    match = _ARRAY.match(text)
    if match is None:
        raise ValueError(f"{whole!r} is not a shape, such as f32[2,3] or (f32[], s32[4])")
    sizes = [size.strip() for size in match[2].split(",")] if match[2].strip() else []
    try:
        shape = Shape(
            element_type(match[1]),
            [int(size.removeprefix("<=")) for size in sizes],
            [size.startswith("<=") for size in sizes],
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{whole!r} is not a shape: {error}") from None
    return shape, text[match.end() :]


def _parse_tuple(text: str, whole: str) -> tuple[AnyShape, str]:
    # Explicit stack of open tuples: nesting depth must not meet Python's recursion limit.
    open_tuples: list[list[AnyShape]] = [[]]
    while open_tuples:
        text = text.lstrip().removeprefix(",").lstrip()
        if text.startswith("("):
            open_tuples.append([])
            text = text[1:]
        elif text.startswith(")"):
            closed = TupleShape(open_tuples.pop())
            text = text[1:].lstrip()
            if not open_tuples:
                return closed, text
            open_tuples[-1].append(closed)
        else:
            shape, text = _parse(text, whole)
            open_tuples[-1].append(shape)
    raise AssertionError("unreachable")




class DeclaredArray(np.ndarray):
    """A NumPy array from inside, a constant of a rule: 64-bit types do not narrow."""


def shape_of_data(value: Any) -> Shape | None:
    """The shape of an array or Python scalar from outside; None where `value` is neither.

    NumPy arrays of 64-bit types narrow as `canonical_element_type` says; arrays that a backend
    made, and those of a rule, keep the types that they have.
    """
    if type(value) is DeclaredArray:
        return Shape(element_type(value.dtype), value.shape)
    if isinstance(value, (np.ndarray, np.generic)):
        try:
            return Shape(canonical_element_type(element_type(value.dtype)), value.shape)
        except TypeError:
            return None
    if isinstance(value, (bool, int, float, complex)):
        return Shape(element_type(type(value)))
    dtype = getattr(value, "dtype", None)
    sizes = getattr(value, "shape", None)
    if dtype is None or not isinstance(sizes, tuple):
        return None
    try:
        return Shape(element_type(dtype), sizes)
    except (TypeError, ValueError):
        return None
