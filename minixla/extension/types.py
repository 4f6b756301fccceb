"""Element types by the names that declarations of operations use, and sets of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from minixla.core.element_types import ELEMENT_TYPES, F16, F32, F64, ElementType, element_type


class ForeignType:
    """A type that declarations may name, and that no array of XLA's has.

    Attributes:
        name: as in declarations, `string`.
        reason: why there is none, and what to use instead.
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

#: The sets that have a name, by the names that each has.
SETS: dict[str, tuple[DeclaredType, ...]] = {
    "numbertype": (*NUMBERS, *QUANTIZED),
    "realnumbertype": tuple([kind for kind in NUMBERS if not kind.is_complex]),
    "quantizedtype": QUANTIZED,
}
#: Other names of these, and of single types.
ALIASES = {"numerictype": "numbertype", "realnumerictype": "realnumbertype"}
ALIASES |= {"float32": "float", "float64": "double", "float16": "half"}


def type_name(declared: DeclaredType) -> str:
    """`float`: what a type is called in a declaration."""
    if isinstance(declared, ForeignType):
        return declared.name
    return {F32: "float", F64: "double", F16: "half"}.get(declared, declared.dtype.name)


#: The types by name.
TYPES: dict[str, DeclaredType] = {
    type_name(kind): kind for kind in (*ELEMENT_TYPES.values(), STRING, *QUANTIZED)
}


def proto_name(declared: DeclaredType) -> str:
    """`DT_FLOAT`: what a type is called in a default."""
    return f"DT_{type_name(declared).upper()}"


_BY_PROTO_NAME = {proto_name(kind): kind for kind in TYPES.values()}


def type_named(name: str) -> DeclaredType | None:
    """The type that a declaration or a default calls `name`; None where there is none."""
    return _BY_PROTO_NAME.get(name) or TYPES.get(ALIASES.get(name, name))


def declared_type(value: Any) -> DeclaredType:
    """The type that a caller gives: a name as in declarations, or what `element_type` takes.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, ForeignType):
        return value
    named = type_named(value) if isinstance(value, str) else None
    return named or element_type(value)


def set_names(types: tuple[DeclaredType, ...]) -> str:
    """`float, int32`: the types by name."""
    return ", ".join(map(type_name, types))
