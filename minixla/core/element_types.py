"""XLA's element types and their NumPy, StableHLO and HLO names."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from minixla.core.value_types import DTypeLike


class ElementType:
    """An XLA element type. There is a single object for each type, so compare with `is`.

    Attributes:
        name: XLA's name, such as `f32`, `s8`, `pred`, `f8e4m3fn`.
        dtype: the NumPy (or ml_dtypes) dtype that holds its values.
        bits: the width of one element in bits.
        kind: `pred`, `signed`, `unsigned`, `float` or `complex`.
        is_integer: whether it is signed or unsigned; false for pred.
        is_float, is_complex, is_inexact: whether elements are real, complex, or one of both.
        stablehlo: MLIR's spelling, such as `i8`, `ui8`, `complex<f32>`.
    """

    def __init__(self, name: str, dtype: "DTypeLike", bits: int, kind: str, stablehlo: str) -> None:
        self.name = name
        self.dtype: np.dtype = np.dtype(dtype)
        self.bits = bits
        self.kind = kind
        self.stablehlo = stablehlo
        self.is_integer = kind in ("signed", "unsigned")
        self.is_float = kind == "float"
        self.is_complex = kind == "complex"
        self.is_inexact = self.is_float or self.is_complex

    @property
    def real(self) -> "ElementType":
        """The type of the real part: f32 for c64, f64 for c128, otherwise the type."""
        return {"c64": F32, "c128": F64}.get(self.name, self)

    @property
    def complex(self) -> "ElementType":
        """The complex type with parts of this type; TypeError except for f32 and f64."""
        complex_type = {"f32": C64, "f64": C128}.get(self.name, self)
        if not complex_type.is_complex:
            raise TypeError(f"the parts of a complex type must be f32 or f64, not {self.name}")
        return complex_type

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return element_type, (self.name,)


PRED = ElementType("pred", np.bool_, 1, "pred", "i1")
BF16 = ElementType("bf16", ml_dtypes.bfloat16, 16, "float", "bf16")
F16 = ElementType("f16", np.float16, 16, "float", "f16")
F32 = ElementType("f32", np.float32, 32, "float", "f32")
F64 = ElementType("f64", np.float64, 64, "float", "f64")
C64 = ElementType("c64", np.complex64, 64, "complex", "complex<f32>")
C128 = ElementType("c128", np.complex128, 128, "complex", "complex<f64>")
_SMALL_FLOATS = (
    "f4e2m1fn f6e2m3fn f6e3m2fn f8e3m4 f8e4m3 f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz "
    "f8e8m0fnu"
)
_ORDERED = [PRED]
for _bits in (2, 4, 8, 16, 32, 64):
    _library: ModuleType = ml_dtypes if _bits < 8 else np
    for _kind, _start in ("signed", ""), ("unsigned", "u"):
        _dtype, _name = getattr(_library, f"{_start}int{_bits}"), f"{_start or 's'}{_bits}"
        _ORDERED.append(ElementType(_name, _dtype, _bits, _kind, f"{_start}i{_bits}"))
for _name in _SMALL_FLOATS.split():  # f8e4m3fn: float8_e4m3fn in ml_dtypes, f8E4M3FN in MLIR
    _dtype, _text = getattr(ml_dtypes, f"float{_name[1]}_{_name[2:]}"), f"f{_name[1:].upper()}"
    _ORDERED.append(ElementType(_name, _dtype, int(_name[1]), "float", _text))
_ORDERED += [BF16, F16, F32, F64, C64, C128]

#: Every element type by XLA's name.
ELEMENT_TYPES: dict[str, ElementType] = {kind.name: kind for kind in _ORDERED}
#: Element types by StableHLO's names.
BY_STABLEHLO = {kind.stablehlo: kind for kind in _ORDERED}

S8, S16, S32, S64 = (ELEMENT_TYPES[f"s{bits}"] for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (ELEMENT_TYPES[f"u{bits}"] for bits in (8, 16, 32, 64))

_BY_DTYPE = {kind.dtype: kind for kind in ELEMENT_TYPES.values()}
_PYTHON_TYPES = {bool: PRED, int: S64, float: F64, complex: C128}


def element_type(value: Any) -> ElementType:  # noqa: ANN401  # what np.dtype takes, too
    """Convert a value to an element type.

    Args:
        value: an ElementType, XLA's name (`"f32"`), any value that `np.dtype` accepts, or a scalar
            type of Python (which becomes a 32-bit type).

    Returns:
        An ElementType.

    Raises:
        TypeError: XLA lacks the element type.

    Example:
        >>> mx.element_type("bf16"), mx.element_type(np.int8), mx.element_type(float)
        (bf16, s8, f32)
    """
    if isinstance(value, ElementType):
        return value
    try:
        if value is None:
            raise TypeError  # np.dtype would return float64
        if value in ELEMENT_TYPES:
            return ELEMENT_TYPES[value]
        if value in _PYTHON_TYPES:
            return canonical_element_type(_PYTHON_TYPES[value])
        return _BY_DTYPE[np.dtype(value)]
    except (KeyError, TypeError, ValueError):
        raise TypeError(
            f"{value!r} is not an element type of XLA; the types are {', '.join(ELEMENT_TYPES)}"
        ) from None


_NARROW = {"s64": S32, "u64": U32, "f64": F32, "c128": C64}


def canonical_element_type(declared: ElementType) -> ElementType:
    """Return the type of a value from outside: 64 bits narrow unless `jax_enable_x64` is on."""
    narrow = _NARROW.get(declared.name)
    # Code that enables the mode has imported JAX; the core does not.
    if narrow is None or ((jax := sys.modules.get("jax")) and jax.config.jax_enable_x64):
        return declared
    return narrow
