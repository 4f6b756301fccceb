"""Typed attributes of operations: each kind validates values and makes them hashable."""

import math
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex

import numpy as np

from minixla.core.element_types import ElementType, canonical_element_type, element_type
from minixla.core.errors import AttributeValueError, MinixlaError, explain
from minixla.core.shapes import Shape, TokenShape, TupleShape, repeated_scalar, snapshot
from minixla.core.value_types import ArrayLike, DTypeLike

# Constants up to this many bytes are printed into programs.
_PRINTED_BYTES = 4096

#: The default of a required attribute.
REQUIRED: Any = object()


class Attribute:
    """A kind of attribute: its valid values, and its notation in text.

    A subclass sets the type `accepts`, or defines `canonical`. The latter returns the value in one
    hashable form, or raises ValueError or TypeError with a clause such as `must be >= 0, not -1`.
    """

    description = "any hashable value"
    accepts: Any = object
    #: The type of the argument, for annotations.
    takes = "Any"
    #: True if different values, such as 1 and True or 0.0 and -0.0, may be equal.
    is_ambiguous = True
    #: True if equal values must be distinguished by parts that equality ignores, such as the names
    #: and source lines of programs.
    keeps_identity = False
    #: True if values are programs, or contain programs.
    holds_programs = False
    #: `of_result(shape)`: the value if StableHLO states it only in the type of the result.
    of_result: Any = None

    def canonical(self, value: object) -> object:
        """Return the canonical form of `value`."""
        if not isinstance(value, self.accepts):
            raise TypeError(f"must be {self.description}, not {value!r}")
        if self.accepts is object:
            hash(value)
        return value

    def stablehlo(self, value: object) -> object:
        """Return a canonical value for `stablehlo_text.attribute_text`; None is not written.

        A dict contains several values, each under its name in StableHLO.
        """
        return value

    def hlo(self, value: object) -> object:
        """Return a canonical value for `HloEmitter.attribute`, or a dict; see `stablehlo`."""
        return value

    def read(self, written: object) -> object:
        """Return a value, for `canonical`, from its StableHLO text.

        `written` is a number, boolean, string, tuple or NumPy array; other attributes are text.
        """
        return written


_ENTRY = re.compile(r"(\w+) = (?:\[([^]]*)\]|(-?\d+))")


@lru_cache(maxsize=1024)
def written_fields(text: str) -> Mapping[str, Any]:
    """Parse `#stablehlo.gather<offset_dims = [0], ...>` to numbers and lists of numbers by name."""
    return {
        name: int(number)
        if number
        else tuple([int(digits) for digits in listed.split(",") if digits])
        for name, listed, number in _ENTRY.findall(text)
    }


class Field(NamedTuple):
    """An attribute of an operation, as declared in its class; see `attribute`."""

    kind: Attribute
    default: Any = REQUIRED
    stablehlo: str | None = "="
    hlo: str | None = "="
    name: str = ""

    def named(self, name: str) -> "Field":
        """Name a field as in the class; texts use the same name by default.

        A field that already has a name keeps it in messages.
        """
        stablehlo, hlo = (name if label == "=" else label for label in (self.stablehlo, self.hlo))
        return Field(self.kind, self.default, stablehlo, hlo, self.name or name)

    def checked(self, subject: str, value: object) -> Any:  # noqa: ANN401  # as annotated in the class
        """Return the canonical form of a value; else raise AttributeValueError for `subject`."""
        name, must_be = self.name, self.kind.description
        if value is REQUIRED:
            advice = f"Pass {name}: {must_be}."
            raise explain(AttributeValueError, subject, f"attribute {name} is missing", (), advice)
        if value is self.default:
            return value
        try:
            return self.kind.canonical(value)
        except MinixlaError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            problem = f"attribute {name} has an invalid value"
            details = [f"{name} = {value!r}", str(error)]
            advice = f"{name} must be {must_be}{', or None' if self.default is None else ''}."
            raise explain(AttributeValueError, subject, problem, details, advice) from None


def attribute(
    kind: Attribute,
    default: object = REQUIRED,
    *,
    stablehlo: str | None = "=",
    hlo: str | None = "=",
) -> Any:  # noqa: ANN401  # the annotation says the type
    """Declare one attribute of an operation, in its class.

    For example, `size: int = attribute(Integer(1))` defines `self.size` for its rules.

    Args:
        kind: the valid values, and their notation.
        default: the default value; without it, the attribute is required.
        stablehlo: its name in StableHLO text, `=` for the same name, None if it is not written.
        hlo: its name in HLO text, likewise.

    Returns:
        The value to assign to the attribute's name in the class body.

    Example:
        >>> from minixla.core import Operation, attribute, attributes
        >>> class Shifted(Operation):
        ...     places: int = attribute(attributes.Integer(0, 3), default=1)
        >>> Shifted(), Shifted(places=2)
        (<Operation __main__.Shifted places=1>, <Operation __main__.Shifted places=2>)
    """
    return Field(kind, default, stablehlo, hlo)


def exact(value: object) -> Hashable:
    """Return a key that is equal only for the same value: 0.0 and -0.0 differ, and 1 and True."""
    # Programs are compared by identity, so a key keeps them alive. Keys of lists are hashable.
    kind = type(value)
    if kind is int:
        return value
    if isinstance(value, (list, tuple)):
        members = [member if type(member) is int else exact(member) for member in value]
        return tuple(members) if kind is tuple else (kind, *members)
    if kind is float:
        return kind, repr(value)
    return kind, id(value) if getattr(kind, "keeps_identity", False) else value


def spelling(value: object) -> Hashable:
    """Return a key that distinguishes equal attributes: 1, 1.0 and True, or 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), *map(spelling, value)
    return repr(value) if isinstance(value, INEXACT) else type(value)


INEXACT = (float, complex, np.inexact)


class Integer(Attribute):
    """An integer in `[minimum, maximum]`; without bounds, a 64-bit integer."""

    description = "an integer"
    takes = "int"
    is_ambiguous = False

    def __init__(self, minimum: int | None = None, maximum: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum
        if minimum is not None and maximum is not None:
            self.description = f"an integer from {minimum} to {maximum}"

    def canonical(self, value: SupportsIndex) -> int:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"must be an integer, not the boolean {value}")
        if not hasattr(value, "__index__"):
            raise TypeError(f"must be an integer, not a {type(value).__name__}")
        number = operator.index(value)
        if self.minimum is not None and number < self.minimum:
            raise ValueError(f"must be >= {self.minimum}, not {number}")
        if self.maximum is not None and number > self.maximum:
            raise ValueError(f"must be <= {self.maximum}, not {number}")
        if number.bit_length() > 63:
            raise ValueError(f"must have 64 bits, not {number.bit_length() + 1}")
        return number


class Int32(Integer):
    """A 32-bit integer in `[minimum, 2**31)`."""

    def __init__(self, minimum: int = -(2**31)) -> None:
        super().__init__(minimum, 2**31 - 1)

    def stablehlo(self, value: int) -> str:
        return f"{value} : i32"


class Dimension(Integer):
    """The index of a dimension, which HLO writes in a list: `dimensions={1}`."""

    def hlo(self, value: int) -> tuple[int]:
        return (value,)


class Float(Attribute):
    """A real scalar."""

    description = "a real number"
    takes = "float"

    def canonical(self, value: SupportsFloat) -> float:
        """Return the value as a Python float; every NaN becomes the same object, for equality."""
        if isinstance(value, (str, bytes, bool, np.bool_)):
            raise TypeError(f"must be a real number, not {value!r}")
        number = float(value)
        return number if number == number else math.nan


class Boolean(Attribute):
    """True or False."""

    description = "True or False"
    takes = "bool"
    accepts = bool, np.bool_
    is_ambiguous = False

    def canonical(self, value: object) -> bool:
        return bool(super().canonical(value))


class Flag(Boolean):
    """True or False; HLO text omits it if it is False."""

    def hlo(self, value: bool) -> bool | None:
        return value or None


class Text(Attribute):
    """A string."""

    description = "a string"
    takes = "str"
    accepts = str
    is_ambiguous = False


class Enumeration(Attribute):
    """One of a few names, written in StableHLO as the enumeration `mnemonic`."""

    takes = "str"
    is_ambiguous = False

    def __init__(self, *names: str, mnemonic: str = "") -> None:
        self.names = names
        self.mnemonic = mnemonic
        self.description = "one of " + ", ".join(names)

    def canonical(self, value: str) -> str:
        if value not in self.names:
            raise ValueError(f"must be one of {', '.join(self.names)}, not {value!r}")
        return value

    def stablehlo(self, value: str) -> str:
        """Return `#stablehlo<transpose ADJOINT>`, or the name without a mnemonic."""
        return f"#stablehlo<{self.mnemonic} {value}>" if self.mnemonic else value

    def read(self, written: str) -> str:
        return written.rstrip(">").rpartition(" ")[2]


class Instance(Attribute):
    """An object of a given class, kept unchanged (a Graph, a dimension-numbers record)."""

    is_ambiguous = False

    def __init__(self, kind: type) -> None:
        self.accepts = kind
        self.description = f"a {kind.__name__}"
        self.keeps_identity = self.holds_programs = getattr(kind, "keeps_identity", False)


class Function(Attribute):
    """A Python function of one call, not kept alive by tables: equal functions are distinct."""

    description = "a function"
    accepts = Callable
    is_ambiguous = False


class Sequence(Attribute):
    """A tuple of values of the same kind."""

    def __init__(self, member: Attribute) -> None:
        self.member = member
        self.takes = f"Sequence[{member.takes}]"
        self.is_ambiguous = member.is_ambiguous
        self.keeps_identity = member.keeps_identity
        self.holds_programs = member.holds_programs
        self.description = f"a sequence, each element {member.description}"

    def canonical(self, value: object) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"must be a sequence, not {value!r}")
        return tuple(self.member.canonical(member) for member in value)


class Integers(Sequence):
    """A tuple of integers; with `unique`, all are different."""

    of_result = operator.attrgetter("dimensions")

    def __init__(self, minimum: int | None = None, unique: bool = False) -> None:
        super().__init__(Integer(minimum))
        self.unique = unique

    def canonical(self, value: object) -> tuple[int, ...]:
        numbers = super().canonical(value)
        if self.unique and len(set(numbers)) != len(numbers):
            raise ValueError(f"must not repeat a number: {list(numbers)}")
        return numbers


class TypeAttribute(Attribute):
    """An element type, in any form that `element_type` accepts."""

    description = "an element type"
    is_ambiguous = False
    of_result = operator.attrgetter("element_type")

    def canonical(self, value: ElementType | DTypeLike) -> ElementType:
        return element_type(value)


class ShapeAttribute(Attribute):
    """An array shape, a tuple shape or a token."""

    description = "a Shape"
    takes = "Shape"
    accepts = Shape, TupleShape, TokenShape
    is_ambiguous = False

    def of_result(self, shape: Shape) -> Shape:
        return shape


class Literal:
    """An immutable array constant; equal if element type, dimensions and bytes are equal.

    A constant that repeats one value is stored as a zero-stride view. Arrays of a backend remain
    there (`data` is then that array) and are copied to NumPy only on access.
    """

    __slots__ = ("_array", "data", "shape")
    #: Comparing many constants by content would be quadratic in time.
    keeps_identity = True

    def __init__(self, data: ArrayLike, shape: Shape | None = None) -> None:
        """Wrap an array; pass its shape only if the array is never modified."""
        if shape is None:
            data = snapshot(np.asarray(data))
            declared = canonical_element_type(element_type(data.dtype))
            data = data.astype(declared.dtype, copy=False)
            shape = Shape(declared, data.shape)
        self.data = data
        self.shape = shape
        self._array = data if isinstance(data, np.ndarray) else None

    @classmethod
    def splat(cls, value: ArrayLike, shape: Shape) -> "Literal":
        """Return the constant of `shape` that repeats `value`."""
        return cls(repeated_scalar(np.asarray(value).astype(shape.dtype), shape.dimensions), shape)

    @property
    def array(self) -> np.ndarray:
        """The value as a NumPy array with the declared dtype."""
        if self._array is None:
            self._array = np.asarray(self.data).astype(self.shape.dtype, copy=False)
        return self._array

    @property
    def is_splat(self) -> bool:
        """True if the array is stored as one repeated value (always true for scalars)."""
        data = self.data
        if self.shape.rank == 0:
            return True
        return isinstance(data, np.ndarray) and data.size > 0 and not any(data.strides)

    @property
    def is_printed(self) -> bool:
        """True if program text contains it; backend arrays and large arrays are operands."""
        is_host = isinstance(self.data, np.ndarray)
        return is_host and (self.is_splat or self.array.nbytes <= _PRINTED_BYTES)

    @property
    def scalar(self) -> Any:  # noqa: ANN401  # a NumPy scalar
        """The repeated value of a splat, as a NumPy scalar."""
        return self.array[(0,) * self.shape.rank]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        if self.shape is not other.shape or self.data is other.data:
            return self.shape is other.shape
        if self.is_splat and other.is_splat:
            return self.scalar.tobytes() == other.scalar.tobytes()
        return self.array.tobytes() == other.array.tobytes()

    def __hash__(self) -> int:
        return hash(self.shape)

    def __reduce__(self) -> tuple[object, ...]:
        if self.is_splat:
            return Literal.splat, (self.scalar, self.shape)
        return Literal, (self.array, self.shape)

    def __repr__(self) -> str:
        return f"Literal({self.shape})"


class LiteralAttribute(Attribute):
    """An array constant."""

    description = "an array"
    is_ambiguous = False
    keeps_identity = True

    def canonical(self, value: Literal | ArrayLike) -> Literal:
        return value if isinstance(value, Literal) else Literal(value)
