"""The kinds of attributes in declarations: their values, and the text of these values.

Each is a kind of `minixla.core.attributes`, and prints as it is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from minixla.core.attributes import Attribute, Boolean, Float, Integer, Literal, LiteralAttribute
from minixla.core.element_types import ElementType
from minixla.core.stablehlo_text import bytes_text
from minixla.extension.foreign_text import array_text, dictionary_text, type_code, type_of_code
from minixla.extension.text_format import Word
from minixla.extension.types import DeclaredType, declared_type, proto_name, set_names, type_name


class Kind(Attribute):
    """A kind of attribute.

    Attributes:
        spelling: its text in a declaration, without the minimum.
        minimum: the smallest value, or the smallest length of a list; None: no minimum.
    """

    spelling: str = ""
    minimum: int | None = None
    holds_programs = False

    def interpreted(self, value: Any) -> Any:
        """Convert a parsed default (`Reader.value`) to a value for `canonical`."""
        if isinstance(value, (Word, dict)):
            raise ValueError(f"must be {self.description}, not {value}")
        return value

    def written(self, value: Any) -> str:
        """Return a canonical value as the text of a default."""
        return str(value)

    def foreign(self, value: Any) -> str:
        """Return a canonical value in MLIR for compiled kernels; each kind has one type."""
        raise NotImplementedError(f"{type(self).__name__} has no foreign")

    def read_foreign(self, value: Any) -> Any:
        """Convert a value that `foreign` wrote, as Python reads it, to a value for `canonical`."""
        return value

    def __str__(self) -> str:
        return self.spelling + ("" if self.minimum is None else f" >= {self.minimum}")


class IntegerKind(Kind, Integer):
    """`int >= minimum`: 64 bits."""

    spelling = "int"

    def __init__(self, minimum: int | None = None) -> None:
        Integer.__init__(self, minimum)
        if minimum is not None:
            self.description = f"an integer >= {minimum}"

    def foreign(self, value: int) -> str:
        return f"{value} : i64"


class FloatKind(Kind, Float):
    """`float`: 32 bits, in all kernels."""

    spelling = "float"

    def canonical(self, value: Any) -> float:
        with np.errstate(over="ignore"):
            return float(np.float32(Float.canonical(self, value)))

    def written(self, value: float) -> str:
        return str(np.float32(value))

    def foreign(self, value: float) -> str:
        return f"0x{np.float32(value).view(np.uint32):08X} : f32"


class BooleanKind(Kind, Boolean):
    """`bool`."""

    spelling = "bool"

    def interpreted(self, value: Any) -> Any:
        return {"true": True, "false": False}.get(str(value).lower(), value)

    def written(self, value: bool) -> str:
        return str(value).lower()

    def foreign(self, value: bool) -> str:
        return str(value).lower()


class StringKind(Kind):
    """`string`: text, or bytes that are not text."""

    spelling = "string"
    description = "a string"
    takes = "str"
    accepts = str, bytes
    is_ambiguous = False

    def canonical(self, value: Any) -> str | bytes:
        super().canonical(value)
        try:
            return value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError:
            return value

    def written(self, value: str | bytes) -> str:
        return repr(value)

    def foreign(self, value: str | bytes) -> str:
        return bytes_text(value.encode() if isinstance(value, str) else value)


class BytesKind(StringKind):
    """`bytes`: like `string`, but the value is always bytes."""

    spelling = description = "bytes"
    takes = "bytes"

    def canonical(self, value: Any) -> bytes:
        Attribute.canonical(self, value)
        return value.encode() if isinstance(value, str) else bytes(value)


class EnumerationKind(StringKind):
    """`{'apple', 'orange'}`: one of a few strings."""

    def __init__(self, *names: str | bytes) -> None:
        self.names = tuple(map(super().canonical, names))
        listed = ", ".join(map(repr, self.names))
        self.spelling = f"{{{listed}}}"
        self.description = f"one of {listed}"

    def canonical(self, value: Any) -> str | bytes:
        found = super().canonical(value)
        if found not in self.names:
            raise ValueError(f"must be {self.description}, not {found!r}")
        return found


class TypeKind(Kind):
    """`type`, a named set of types, or a set of types in braces.

    Args:
        spelling: the declaration.
        allowed: the allowed types; None: any type.
    """

    takes = "Any"
    is_ambiguous = False

    def __init__(self, spelling: str = "type", allowed: Iterable[DeclaredType] | None = None):
        self.spelling = spelling
        self.allowed = None if allowed is None else tuple(allowed)

    @cached_property
    def description(self) -> str:
        return "a type" if self.allowed is None else f"one of the types {set_names(self.allowed)}"

    def canonical(self, value: Any) -> DeclaredType:
        declared = declared_type(value)
        if not self.takes_type(declared):
            raise TypeError(f"must be {self.description}, not {type_name(declared)}")
        return declared

    def takes_type(self, declared: DeclaredType) -> bool:
        """Test whether a type is allowed."""
        return self.allowed is None or declared in self.allowed

    def interpreted(self, value: Any) -> Any:
        return declared_type(str(value)) if isinstance(value, str) else value

    def written(self, value: DeclaredType) -> str:
        return proto_name(value)

    def foreign(self, value: DeclaredType) -> str:
        return f"{type_code(value)} : i32"

    def read_foreign(self, value: int) -> DeclaredType:
        return type_of_code(value)


class ShapeKind(Kind):
    """`shape`: sizes, None for an unknown one."""

    spelling = "shape"
    description = "a shape: a sequence of sizes, None for an unknown one"
    is_ambiguous = False

    def canonical(self, value: Any) -> tuple[int | None, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"must be {self.description}, not {value!r}")
        size = Integer(-1)
        sizes = [None if entry is None else size.canonical(entry) for entry in value]
        return tuple([None if entry == -1 else entry for entry in sizes])

    def interpreted(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return super().interpreted(value)
        if set(value) - {"dim"}:
            raise ValueError("write { dim { size: 2 } }: a shape has a known rank here")
        return [dimension.get("size", [-1])[-1] for dimension in value.get("dim", [])]

    def written(self, value: tuple[int | None, ...]) -> str:
        sizes = [f"dim {{ size: {-1 if entry is None else entry} }}" for entry in value]
        return " ".join(["{", *sizes, "}"])

    def foreign(self, value: tuple[int | None, ...]) -> str:
        return array_text("i64", [-1 if entry is None else entry for entry in value])


class TensorKind(Kind, LiteralAttribute):
    """`tensor`: a constant array."""

    spelling = "tensor"

    def interpreted(self, value: Any) -> Any:
        if isinstance(value, Word):
            raise ValueError(f"must be {self.description}, not {value}")
        if not isinstance(value, dict):
            return value
        if "dtype" not in value:
            raise ValueError("a tensor must state its dtype: { dtype: DT_INT32 int_val: 5 }")
        kind = declared_type(str(value["dtype"][-1]))
        if not isinstance(kind, ElementType):
            raise TypeError(f"a constant of {kind.name}: {kind.reason}")
        sizes = [
            ShapeKind().interpreted(dimensions) for dimensions in value.get("tensor_shape", [])
        ]
        numbers = [number for name in value if name.endswith("_val") for number in value[name]]
        numbers = [{"true": True, "false": False}.get(str(number), number) for number in numbers]
        array = np.asarray(numbers).astype(kind.dtype)
        if not kind.is_inexact and array.astype(object).tolist() != numbers:
            raise ValueError(f"a constant of {kind} cannot hold {numbers}")
        wanted = sizes[-1] if sizes else () if array.size == 1 else array.shape
        # The last number is repeated.
        missing = int(np.prod(wanted)) - array.size
        array = np.pad(array, (0, missing), mode="edge") if missing > 0 and array.size else array
        return np.asarray(array.reshape(wanted))

    def written(self, value: Literal) -> str:
        shape = ShapeKind().written(value.shape.dimensions)
        kind = value.shape.element_type
        field = {"signed": "int", "unsigned": "uint", "pred": "bool"}.get(kind.kind, "float")
        numbers = [str(number).lower() for number in value.array.reshape(-1).tolist()]
        listed = f"{field}_val: [{', '.join(numbers)}]"
        return f"{{ dtype: {proto_name(kind)} tensor_shape {shape} {listed} }}"

    def foreign(self, value: Literal) -> str:
        dtype = TypeKind().foreign(value.shape.element_type)
        sizes = ShapeKind().foreign(value.shape.dimensions)
        octets = np.frombuffer(np.ascontiguousarray(value.array).tobytes(), np.int8)
        data = array_text("i8", octets.tolist())
        return dictionary_text([("data", data), ("dtype", dtype), ("shape", sizes)])

    def read_foreign(self, value: Mapping[str, Any]) -> Any:
        dtype = type_of_code(value["dtype"]).dtype
        data = np.array(value["data"], np.int8).tobytes()
        return np.frombuffer(data, dtype).reshape(tuple(value["shape"]))


class ListKind(Kind):
    """`list(member) >= minimum`."""

    def __init__(self, member: Kind, minimum: int | None = None) -> None:
        self.member, self.minimum = member, minimum
        self.spelling = f"list({member})"
        self.takes = f"Sequence[{member.takes}]"
        self.is_ambiguous, self.keeps_identity = member.is_ambiguous, member.keeps_identity

    @cached_property
    def description(self) -> str:
        length = "" if self.minimum is None else f" of at least {self.minimum}"
        return f"a sequence{length}, each member {self.member.description}"

    def canonical(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise TypeError(f"must be {self.description}, not {value!r}")
        members = tuple([self.member.canonical(member) for member in value])
        if self.minimum is not None and len(members) < self.minimum:
            raise ValueError(f"has length {len(members)}, less than the minimum {self.minimum}")
        return members

    def interpreted(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"must be a list, [..., ...], not {value}")
        return [self.member.interpreted(member) for member in value]

    def written(self, value: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(self.member.written, value))}]"

    def foreign(self, value: tuple[Any, ...]) -> str:
        texts = list(map(self.member.foreign, value))
        plain = {IntegerKind: "i64", FloatKind: "f32", BooleanKind: "i1", TypeKind: "i32"}
        kind = plain.get(type(self.member))
        if kind is None:
            return dictionary_text((str(index), text) for index, text in enumerate(texts))
        return array_text(kind, [text.partition(" ")[0] for text in texts])

    def read_foreign(self, value: Any) -> list[Any]:
        if isinstance(value, Mapping):
            value = [value[str(index)] for index in range(len(value))]
        return list(map(self.member.read_foreign, value))
