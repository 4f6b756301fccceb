"""Attributes of compiled kernels in MLIR's notation."""

from collections.abc import Iterable, Sequence
from typing import Any

from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.stablehlo_text import bytes_text
from minixla.extension.types import ForeignType

#: XLA's codes of element types (`XLA_FFI_DataType`).
_CODES: dict[str, int] = {
    name: code
    for text in (
        "pred 1 s2 26 s4 21 s8 2 s16 3 s32 4 s64 5",
        "u2 27 u4 22 u8 6 u16 7 u32 8 u64 9",
        "f16 10 f32 11 f64 12 bf16 16 c64 15 c128 18 f8e5m2 19 f8e3m4 29 f8e4m3 28 f8e4m3fn 20",
        "f8e4m3b11fnuz 23 f8e5m2fnuz 24 f8e4m3fnuz 25 f4e2m1fn 32 f8e8m0fnu 33",
    )
    for name, code in zip(text.split()[::2], map(int, text.split()[1::2]), strict=True)
}


def type_code(declared: Any) -> int:
    """Return XLA's code of an element type; 0 if compiled kernels do not support it."""
    return 0 if isinstance(declared, ForeignType) else _CODES.get(declared.name, 0)


def type_of_code(code: int) -> Any:
    """Return the element type for XLA's code; raise ValueError if it is unknown."""
    found = {number: name for name, number in _CODES.items()}.get(code)
    if found is None:
        raise ValueError(f"{code} is not the code of an element type")
    return ELEMENT_TYPES[found]


def array_text(kind: str, members: Sequence[Any]) -> str:
    """Return an array of numbers of one type in MLIR."""
    return f"array<{kind}: {', '.join(map(str, members))}>" if members else f"array<{kind}>"


def dictionary_text(members: Iterable[tuple[str, str]]) -> str:
    """Return a dictionary of attributes by name in MLIR."""
    return f"{{{', '.join([f'{bytes_text(name.encode())} = {text}' for name, text in members])}}}"
