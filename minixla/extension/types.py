"""Element types, and sets of them, by the names in declarations of operations."""

from __future__ import annotations

from typing import Any, TypeAlias

from minixla.core.element_types import ELEMENT_TYPES, F16, F32, F64, ElementType, element_type


class ForeignType:
    """A type that declarations may name, but that XLA's arrays cannot have.

    Attributes:
        name: the name in declarations, such as `string`.
        reason: why it is missing, and what to use instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __repr__(self) -> str:
        return self.name


#: A type in a declaration.
DeclaredType: TypeAlias = ElementType | ForeignType

STRING = ForeignType(
    "string",
    "XLA has no arrays of strings: only a reference kernel sees them, as NumPy's arrays of "
    "objects, outside of traced code",
)
_QUANTIZED = "XLA has no quantized type: use integers, with scale and zero point as inputs"
QUANTIZED = tuple(
    [ForeignType(f"q{name}", _QUANTIZED) for name in ("int8", "uint8", "int32", "int16", "uint16")]
)
NUMBERS = tuple([kind for kind in ELEMENT_TYPES.values() if kind.kind != "pred"])

#: The named sets of types.
SETS: dict[str, tuple[DeclaredType, ...]] = {
    "numbertype": (*NUMBERS, *QUANTIZED),
    "realnumbertype": tuple([kind for kind in NUMBERS if not kind.is_complex]),
    "quantizedtype": QUANTIZED,
}
#: Other names of these, and of single types.
ALIASES = {"numerictype": "numbertype", "realnumerictype": "realnumbertype"}
ALIASES |= {"float32": "float", "float64": "double", "float16": "half"}


def type_name(declared: DeclaredType) -> str:
    """Return a type's name in a declaration, such as `float`."""
    if isinstance(declared, ForeignType):
        return declared.name
    return {F32: "float", F64: "double", F16: "half"}.get(declared, declared.dtype.name)


#: The types by name.
TYPES: dict[str, DeclaredType] = {
    type_name(kind): kind for kind in (*ELEMENT_TYPES.values(), STRING, *QUANTIZED)
}


def proto_name(declared: DeclaredType) -> str:
    """Return a type's name in a default, such as `DT_FLOAT`."""
    return f"DT_{type_name(declared).upper()}"


_BY_PROTO_NAME = {proto_name(kind): kind for kind in TYPES.values()}


def type_named(name: str) -> DeclaredType | None:
    """Return the type with a name of declarations or defaults; None if it is unknown."""
    return _BY_PROTO_NAME.get(name) or TYPES.get(ALIASES.get(name, name))


def declared_type(value: Any) -> DeclaredType:
    """Return the type for a name as in declarations, or for a value that `element_type` takes.

    Raises:
        TypeError: it is not a type.
    """
    if isinstance(value, ForeignType):
        return value
    named = type_named(value) if isinstance(value, str) else None
    return named or element_type(value)


def set_names(types: tuple[DeclaredType, ...]) -> str:
    """Return the names of types: `float, int32`."""
    return ", ".join(map(type_name, types))
