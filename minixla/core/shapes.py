"""Shapes of arrays (possibly with dynamic bounds), tuples and tokens, and shapes of host values."""

import math
import operator
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np

from minixla.core import element_types
from minixla.core.element_types import ElementType, canonical_element_type, element_type
from minixla.core.errors import too_large


class _Interned:
    """Base class of shapes: immutable, with one object for each shape."""

    __slots__ = ()
    is_dynamic: bool = False

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"shapes are immutable: {self!r}.{name}")

    __delattr__ = __setattr__


class Shape(_Interned):
    """The shape of an array: element type, dimension sizes, and which sizes are bounds.

    There is one object for each shape, so equality is identity. The size of a dynamic dimension is
    its upper bound. Prints as in XLA: `f32[2,3]`, `s32[<=10]`.

    Attributes:
        element_type: the type of the elements; `dtype` is NumPy's.
        dimensions: the sizes; `rank` is their number.
        dynamic: for each dimension, whether its size is only an upper bound; `is_dynamic`: any is.
        size: the number of elements (for bounds, the maximum); `nbytes` is their bytes in NumPy.
        stablehlo: the type in StableHLO.
    """

    __slots__ = ("_text", "dimensions", "dtype", "dynamic", "element_type", "is_dynamic", "nbytes")
    __slots__ += ("rank", "size", "stablehlo")
    _interned: dict[tuple[object, ...], "Shape"] = {}

    element_type: ElementType
    dimensions: tuple[int, ...]
    dynamic: tuple[bool, ...]
    is_dynamic: bool
    rank: int
    size: int
    nbytes: int
    dtype: np.dtype
    stablehlo: str

    def __new__(
        cls,
        element_type_: object,
        dimensions: Iterable[int] = (),
        dynamic: Iterable[bool] | None = None,
    ) -> "Shape":
        """Intern a shape.

        Args:
            element_type_: any value that `element_type` accepts.
            dimensions: the sizes, each >= 0.
            dynamic: for each dimension, whether its size is only an upper bound; default: False.

        Raises:
            TypeError: the element type is invalid, or a size is not an integer.
            ValueError: a size is negative, or `dynamic` has the wrong length.
            SizeError: the size in bytes exceeds signed 64-bit integers.
        """
        dimensions, flags = tuple(dimensions), ()
        if dynamic is not None:
            flags = tuple(map(bool, dynamic))
            if len(flags) != len(dimensions):
                raise ValueError(f"got {len(flags)} dynamic flags for {len(dimensions)} dimensions")
            flags = flags if any(flags) else ()
        interned = cls._interned.get((element_type_, dimensions, flags))
        if interned is not None:
            return interned
        declared = element_type(element_type_)
        sizes = tuple([operator.index(size) for size in dimensions])
        if any(size < 0 for size in sizes):
            raise ValueError(f"dimension sizes must not be negative: {list(sizes)}")
        key = (declared, sizes, flags)
        interned = cls._interned.get(key)
        if interned is not None:
            return interned
        dynamic, dtype, size = flags or (False,) * len(sizes), declared.dtype, math.prod(sizes)
        if math.prod([size or 1 for size in sizes]) * dtype.itemsize > _MOST_BYTES:
            text = f"{declared.name}[{','.join(map(str, sizes))}] has more than 2**63 - 1 bytes"
            more = ", where empty dimensions count as one element" if 0 in sizes else ""
            raise too_large("shape", text + more)
        pairs = list(zip(map(str, sizes), dynamic, strict=True))
        listed = [f"<={number}" if flag else number for number, flag in pairs]
        typed = ["?" if flag else number for number, flag in pairs]
        bounds = ", ".join([number if flag else "?" for number, flag in pairs])
        bounded = f", #stablehlo.bounds<{bounds}>" if flags else ""
        stablehlo = f"tensor<{'x'.join([*typed, declared.stablehlo])}{bounded}>"
        self = object.__new__(cls)
        fields = dict(
            element_type=declared, dimensions=sizes, dynamic=dynamic, is_dynamic=bool(flags)
        )
        fields |= dict(rank=len(sizes), dtype=dtype, size=size, nbytes=size * dtype.itemsize)
        fields |= dict(_text=f"{declared.name}[{','.join(listed)}]", stablehlo=stablehlo)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        # setdefault keeps one object if two threads create the same shape.
        return cls._interned.setdefault(key, self)

    def with_element_type(self, other: ElementType) -> "Shape":
        """Return the same dimensions with another element type."""
        return Shape(other, self.dimensions, self.dynamic)

    def with_dimensions(self, dimensions: Sequence[int]) -> "Shape":
        """Return the same element type with other, static dimensions."""
        return Shape(self.element_type, dimensions)

    def with_size(self, index: int, size: int) -> "Shape":
        """Replace the size of one dimension; all dimensions become static."""
        return self.with_dimensions((*self.dimensions[:index], size, *self.dimensions[index + 1 :]))

    def with_dimension(self, index: int, size: int) -> "Shape":
        """Insert a static dimension at `index`."""
        sizes = (*self.dimensions[:index], size, *self.dimensions[index:])
        flags = (*self.dynamic[:index], False, *self.dynamic[index:]) if self.is_dynamic else None
        return Shape(self.element_type, sizes, flags)

    def without_dimension(self, index: int) -> "Shape":
        """Remove one dimension."""
        sizes = self.dimensions[:index] + self.dimensions[index + 1 :]
        flags = self.dynamic[:index] + self.dynamic[index + 1 :] if self.is_dynamic else None
        return Shape(self.element_type, sizes, flags)

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[object, ...]:
        return Shape, (self.element_type, self.dimensions, self.dynamic)


class TupleShape(_Interned):
    """The shape of a tuple: its elements' shapes. Prints as `(f32[], s32[4])`."""

    __slots__ = ("elements",)
    _interned: dict[tuple["AnyShape", ...], "TupleShape"] = {}

    elements: tuple["AnyShape", ...]

    def __new__(cls, elements: Iterable["AnyShape"]) -> "TupleShape":
        """Intern a tuple shape.

        Raises:
            TypeError: an element is not a shape.
        """
        key = tuple(elements)
        interned = cls._interned.get(key)
        if interned is not None:
            return interned
        for member in key:
            if not isinstance(member, (Shape, TupleShape, TokenShape)):
                raise TypeError(f"an element of a tuple shape must be a shape, not {member!r}")
        self = object.__new__(cls)
        object.__setattr__(self, "elements", key)
        return cls._interned.setdefault(key, self)

    @property
    def stablehlo(self) -> str:
        """The type in StableHLO: `tuple<tensor<f32>, tensor<4xi32>>`."""
        return _nested_text(self, "tuple<", ">", lambda leaf: leaf.stablehlo)

    def __repr__(self) -> str:
        return _nested_text(self, "(", ")", repr)

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle as text: pickling element by element would recurse.
        return parse_shape, (repr(self),)


class TokenShape(_Interned):
    """The shape of a token, which carries no data. Prints as `token[]`."""

    __slots__ = ()
    stablehlo = "!stablehlo.token"

    def __new__(cls) -> "TokenShape":
        """Return the only token shape."""
        return TOKEN

    def __repr__(self) -> str:
        return "token[]"

    def __reduce__(self) -> str:
        return "TOKEN"


# NumPy and XLA count bytes in signed 64-bit integers. XLA aborts on overflow, even if another
# dimension is empty: strides are products of sizes, too.
_MOST_BYTES = (1 << 63) - 1
#: Current machines cannot address more bytes than this (five levels of page tables).
ADDRESS_SPACE = 1 << 57


def _nested_text(shape: TupleShape, opening: str, closing: str, text: Callable[[Any], str]) -> str:
    # An explicit stack, as in `parse_shape`.
    parts: list[str] = []
    stack: list[AnyShape | str] = [shape]
    while stack:
        current = stack.pop()
        if isinstance(current, TupleShape):
            separated = [part for member in current.elements for part in (", ", member)]
            stack += [closing, *reversed(separated[1:])]
            current = opening
        parts.append(current if isinstance(current, str) else text(current))
    return "".join(parts)


#: The only token shape.
TOKEN: TokenShape = object.__new__(TokenShape)

AnyShape: TypeAlias = Shape | TupleShape | TokenShape
ShapeList: TypeAlias = Sequence[AnyShape]


# Layouts are ignored.
_LAYOUT = r"(?:\{[^}]*\})?"
_LEXEME = re.compile(
    rf"(?:(?P<open>\()|(?P<close>\)){_LAYOUT}|(?P<comma>,)|(?P<token>token\[\]){_LAYOUT}"
    rf"|(?P<array>([a-z][a-z0-9]*)\[([^\]]*)\]){_LAYOUT})"
)

_BLANK = re.compile(r"\s*")
_MEMBER = "open", "token", "array"
_SIZE = re.compile(r"(?:<=\s*)?(\d+)", re.ASCII)


def parse_shape(text: str) -> AnyShape:
    """Parse a shape in XLA's notation; layouts such as `{1,0}` are ignored.

    Args:
        text: XLA's notation, `f32[2,3]`, or `(f32[2], s32[])` for a tuple.

    Returns:
        A Shape, a TupleShape, or a TokenShape.

    Raises:
        SizeError: the size in bytes exceeds signed 64-bit integers.
        ValueError: `text` is not a shape.

    Example:
        >>> mx.parse_shape("f32[2,3]{1,0}").dimensions
        (2, 3)
    """
    # Use an explicit stack of open tuples: nesting must not reach Python's recursion limit.
    open_tuples: list[list[AnyShape]] = []
    if not isinstance(text, str):
        raise _no_shape(repr(text), 0)
    at, expected = _after_blanks(text, 0), _MEMBER
    while True:
        match = _LEXEME.match(text, at)
        kind = None if match is None else match.lastgroup
        if match is None or kind not in expected:
            raise _no_shape(text, at)
        if kind == "comma":
            expected = _MEMBER
        elif kind == "open":
            open_tuples.append([])
            expected = *_MEMBER, "close"
        else:
            shape = TupleShape(open_tuples.pop()) if kind == "close" else _leaf(text, match)
            if not open_tuples:
                break
            open_tuples[-1].append(shape)
            expected = "comma", "close"
        at = _after_blanks(text, match.end())
    at = _after_blanks(text, match.end())
    if at != len(text):
        raise _no_shape(text, at)
    return shape


def _after_blanks(text: str, at: int) -> int:
    """Return the end of the blanks and comments (`/*index=5*/`) at a position."""
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it also matches ""
        end = text.find("*/", at + 2) if text.startswith("/*", at) else -1
        if end < 0:
            return at
        at = end + 2


def _leaf(text: str, match: re.Match[str]) -> AnyShape:
    if match["token"]:
        return TOKEN
    name, listed = match.group(6, 7)
    if name not in element_types.ELEMENT_TYPES:
        raise _no_shape(text, match.start())
    parts = [part.strip() for part in listed.split(",")] if listed.strip() else []
    sizes = [_SIZE.fullmatch(part) for part in parts]
    # A number longer than 2**63 - 1 is a mistake (and slow to parse).
    sizes_read = [
        (int(size[1]), size[0][0] == "<") for size in sizes if size and len(size[1]) <= 19
    ]
    if len(sizes_read) < len(sizes):
        raise _no_shape(text, match.start(7))
    return Shape(name, [size for size, _ in sizes_read], [flag for _, flag in sizes_read])


def _no_shape(text: str, at: int) -> ValueError:
    excerpt = text if len(text) <= 80 else f"{text[:77]}..."
    rest = repr(text[at : at + 20]) if at < len(text) else "the end"
    return ValueError(
        f"{excerpt!r} is not a shape, such as f32[2,3] or (f32[], s32[4]): "
        f"invalid at position {at}, at {rest}"
    )


class TupleValue:
    """A value of tuple shape outside graphs; in a graph, tuples are traced values."""

    # Its elements are values of any trace, or TupleValues. As a tangent or cotangent, it may
    # contain None for zero.
    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Any]) -> None:
        self.elements = tuple(elements)

    def __repr__(self) -> str:
        return f"TupleValue{self.elements!r}"


class DeclaredArray(np.ndarray):
    """A NumPy array created by a rule: its 64-bit types do not narrow."""


def repeated_scalar(scalar: np.ndarray | np.generic, sizes: Sequence[int]) -> np.ndarray:
    """Return a read-only zero-stride array of the given sizes that repeats a scalar."""
    # A view by np.broadcast_to would share memory with `scalar`, and take six times as long.
    return np.ndarray(sizes, scalar.dtype, scalar.tobytes(), 0, (0,) * len(sizes))


def is_mutable(value: object) -> bool:
    """Return whether a value is a mutable JAX array (`jax.new_ref`), or JAX's tracer of one."""
    # JAX would read the abstract value of our tracers, which some do not have.
    is_plain = isinstance(value, np.ndarray) or hasattr(value, "_shape")
    return not is_plain and isinstance(value, jax.Ref)


def shape_of_data(value: object) -> Shape | None:
    """Return the shape of a host array or Python scalar; None for other values."""
    # NumPy's 64-bit types narrow by `canonical_element_type`; arrays of a backend or of a rule keep
    # their types.
    is_numpy = isinstance(value, (np.ndarray, np.generic))
    if not is_numpy and isinstance(value, (bool, int, float, complex)):
        # JAX passes Python scalars with a dtype to its rules.
        return Shape(element_type(getattr(value, "dtype", type(value))))
    dtype, sizes = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or not isinstance(sizes, tuple) or (not is_numpy and is_mutable(value)):
        return None
    try:
        kind = element_type(dtype)
        is_narrowed = is_numpy and type(value) is not DeclaredArray
        return Shape(canonical_element_type(kind) if is_narrowed else kind, sizes)
    except (TypeError, ValueError):
        return None


def symbolic_sizes(value: object) -> tuple[object, ...]:
    """Return the sizes of an array that are expressions of `jax.export.symbolic_shape`."""
    sizes = getattr(value, "shape", None)
    if not isinstance(sizes, tuple) or getattr(value, "dtype", None) is None:
        return ()
    return tuple([size for size in sizes if not hasattr(type(size), "__index__")])


# The array and its last snapshot, by the id of the array, while both are alive.
_TAKEN: dict[int, tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]] = {}


def snapshot(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy of `array`; the array itself if it is not writeable."""
    # Two snapshots of an unchanged array are the same object, which a program stores once.
    if not array.flags.writeable:
        return array
    key = id(array)
    array_ref, last = _TAKEN.get(key, (lambda: None, lambda: None))
    taken = last()
    if array_ref() is array and taken is not None:
        is_alike = taken.dtype == array.dtype and taken.shape == array.shape
        if is_alike and taken.tobytes() == array.tobytes():
            return taken
    taken = array.copy()
    taken.flags.writeable = False
    forget = weakref.ref(array, lambda _: _TAKEN.pop(key, None))
    _TAKEN[key] = (forget, weakref.ref(taken))
    return taken
