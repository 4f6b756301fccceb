"""Typed attributes of operations: each kind says which values it takes and makes them hashable."""

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

#: The default of an attribute that must be given.
REQUIRED: Any = object()


class Attribute:
    """A kind of attribute: which values it takes, and how they are written.

    A subclass says what it `accepts`, or defines `canonical`, which returns the value in one
    hashable form or raises ValueError or TypeError with a clause such as `must be >= 0, not -1`.
    """

    description = "any hashable value"
    accepts: Any = object
    #: The type of what callers give.
    takes = "Any"
    #: Whether values that differ, such as 1 and True or 0.0 and -0.0, may be equal.
    is_ambiguous = True
    #: Whether equal values are to be told apart by what equality leaves out, such as the names and
    #: source lines of programs.
    keeps_identity = False
    #: Whether values are programs, or hold some.
    holds_programs = False
    #: `of_result(shape)`: the value where StableHLO says it by the type of the result alone.
    of_result: Any = None

    def canonical(self, value: object) -> object:
        """The canonical form of `value`."""
        if not isinstance(value, self.accepts):
            raise TypeError(f"must be {self.description}, not {value!r}")
        if self.accepts is object:
            hash(value)
        return value

    def stablehlo(self, value: object) -> object:
        """A canonical value as `stablehlo_text.attribute_text` takes it; None is not written.

        A dict is of several such values, each under its own name there.
        """
        return value

    def hlo(self, value: object) -> object:
        """A canonical value as `HloEmitter.attribute` takes it, or a dict; see `stablehlo`."""
        return value

    def read(self, written: object) -> object:
        """A value, for `canonical`, from what StableHLO's text says.

        That is a number, boolean, string, tuple or NumPy's array, of other attributes the text.
        """
        return written


_ENTRY = re.compile(r"(\w+) = (?:\[([^]]*)\]|(-?\d+))")


@lru_cache(maxsize=1024)
def written_fields(text: str) -> Mapping[str, Any]:
    """The numbers and lists of numbers in `#stablehlo.gather<offset_dims = [0], ...>`, by name."""
    return {
        name: int(number)
        if number
        else tuple([int(digits) for digits in listed.split(",") if digits])
        for name, listed, number in _ENTRY.findall(text)
    }


class Field(NamedTuple):
    """An attribute of an operation, as its class declares it; see `attribute`."""

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
        """The canonical form of a value; raises AttributeValueError, of `subject`, for others."""
        name, must_be = self.name, self.kind.description
        if value is REQUIRED:
            advice = f"Give {name}: {must_be}."
            raise explain(AttributeValueError, subject, f"attribute {name} is missing", (), advice)
        if value is self.default:
            return value
        try:
            return self.kind.canonical(value)
        except MinixlaError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            problem = f"attribute {name} has a value that it cannot take"
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
    """Declares one attribute of an operation, in its class.

    `size: int = attribute(Integer(1))` there makes `self.size` in its rules.

    Args:
        kind: which values it takes, and how they are written.
        default: what it is where it is not given; left out, it must be given.
        stablehlo: its name in StableHLO's text, `=` for its own, None where that does not have it.
        hlo: the same for HLO's text.

    Returns:
        What a class's body assigns to the attribute's name.

    Example:
        >>> from minixla.core import Operation, attribute, attributes
        >>> class Shifted(Operation):
        ...     places: int = attribute(attributes.Integer(0, 3), default=1)
        >>> Shifted(), Shifted(places=2)
        (<Operation __main__.Shifted places=1>, <Operation __main__.Shifted places=2>)
    """
    return Field(kind, default, stablehlo, hlo)


def exact(value: object) -> Hashable:
    """A key that is equal for the same value only: 0.0 and -0.0 differ, and 1 and True."""
    # Programs count by identity: who keeps the key keeps the value. Keys of lists can be hashed.
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
    """What tells equal attributes apart that differ: 1, 1.0 and True, or 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), *map(spelling, value)
    return repr(value) if isinstance(value, INEXACT) else type(value)


INEXACT = (float, complex, np.inexact)


class Integer(Attribute):
    """An integer in `[minimum, maximum]`, of 64 bits where it has no such bounds."""

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
    """An integer of 32 bits, in `[minimum, 2**31)`."""

    def __init__(self, minimum: int = -(2**31)) -> None:
        super().__init__(minimum, 2**31 - 1)

    def stablehlo(self, value: int) -> str:
        return f"{value} : i32"


class Dimension(Integer):
    """The number of a dimension, which HLO has in a list: `dimensions={1}`."""

    def hlo(self, value: int) -> tuple[int]:
        return (value,)


class Float(Attribute):
    """A real number."""

    description = "a real number"
    takes = "float"

    def canonical(self, value: SupportsFloat) -> float:
        """The value as a Python float; every NaN is the same one, so that equality holds."""
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
    """True or False, where HLO's text has it only if it is True."""

    def hlo(self, value: bool) -> bool | None:
        return value or None


class Text(Attribute):
    """A string."""

    description = "a string"
    takes = "str"
    accepts = str
    is_ambiguous = False


class Enumeration(Attribute):
    """One of a few names, which StableHLO writes as its enumeration `mnemonic`."""

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
        """`#stablehlo<transpose ADJOINT>`; the name itself where there is no mnemonic."""
        return f"#stablehlo<{self.mnemonic} {value}>" if self.mnemonic else value

    def read(self, written: str) -> str:
        return written.rstrip(">").rpartition(" ")[2]


class Instance(Attribute):
    """An object of a given class, kept as it is (a Graph, a dimension-numbers record)."""

    is_ambiguous = False

    def __init__(self, kind: type) -> None:
        self.accepts = kind
        self.description = f"a {kind.__name__}"
        self.keeps_identity = self.holds_programs = getattr(kind, "keeps_identity", False)


class Function(Attribute):
    """A Python function of one call, which no table keeps alive: equal ones are not the same."""

    description = "a function"
    accepts = Callable
    is_ambiguous = False


class Sequence(Attribute):
    """A tuple of values of one kind."""

    def __init__(self, member: Attribute) -> None:
        self.member = member
        self.takes = f"Sequence[{member.takes}]"
        self.is_ambiguous = member.is_ambiguous
        self.keeps_identity = member.keeps_identity
        self.holds_programs = member.holds_programs
        self.description = f"a sequence, each member {member.description}"

    def canonical(self, value: object) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"must be a sequence, not {value!r}")
        return tuple(self.member.canonical(member) for member in value)


class Integers(Sequence):
    """A tuple of integers; with `unique`, no two are equal."""

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
    """An element type, given in any form that `element_type` takes."""

    description = "an element type"
    is_ambiguous = False
    of_result = operator.attrgetter("element_type")

    def canonical(self, value: ElementType | DTypeLike) -> ElementType:
        return element_type(value)


class ShapeAttribute(Attribute):
    """A shape: array, tuple or token."""

    description = "a Shape"
    takes = "Shape"
    accepts = Shape, TupleShape, TokenShape
    is_ambiguous = False

    def of_result(self, shape: Shape) -> Shape:
        return shape


class Literal:
    """An immutable array constant; equal when type, dimensions and bytes are equal.

    A constant that repeats one value is held as a zero-stride view, whatever its size. Arrays that
    a backend holds stay there (`data` is then that array) and come to NumPy only when asked for.
    """

    __slots__ = ("_array", "data", "shape")
    #: Comparing many constants by content would take quadratic time.
    keeps_identity = True

    def __init__(self, data: ArrayLike, shape: Shape | None = None) -> None:
        """Wraps an array; the caller gives its shape only where nobody will write to it."""
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
        """The constant of `shape` that holds `value` everywhere."""
        return cls(repeated_scalar(np.asarray(value).astype(shape.dtype), shape.dimensions), shape)

    @property
    def array(self) -> np.ndarray:
        """The value as a NumPy array of the declared dtype."""
        if self._array is None:
            self._array = np.asarray(self.data).astype(self.shape.dtype, copy=False)
        return self._array

    @property
    def is_splat(self) -> bool:
        """Whether the array is held as one value repeated (always true for scalars)."""
        data = self.data
        if self.shape.rank == 0:
            return True
        return isinstance(data, np.ndarray) and data.size > 0 and not any(data.strides)

    @property
    def is_printed(self) -> bool:
        """Whether a program holds it; a backend's array, or a large one, enters as an operand."""
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
