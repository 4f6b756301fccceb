"""NumPy's names for element types, queries about element types, and constants."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy as np

from minixla.core.docstrings import documented
from minixla.core.element_types import ElementType, canonical_element_type
from minixla.core.element_types import element_type as _element_type
from minixla.core.errors import MinixlaError
from minixla.core.tracing import Tracer, weak_type_of
from minixla.numpy import creation
from minixla.numpy.operands import operand_shape, shape_error
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import DTypeLike
from minixla_ops.elementwise import promotion

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
euler_gamma = float(np.euler_gamma)

dtype, generic, number, integer, inexact = np.dtype, np.generic, np.number, np.integer, np.inexact
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
character, flexible, object_ = np.character, np.flexible, np.object_


class ScalarType:
    """An element type under NumPy's name, which has a `dtype` and converts values when called."""

    __slots__ = ("__name__", "dtype")

    def __init__(self, name: str) -> None:
        self.dtype = _element_type(getattr(ml_dtypes, name, None) or name).dtype
        self.__name__ = name

    def __call__(self, x: Any = 0) -> Any:
        """Return `x` as an array of this type."""
        return creation.asarray(x, dtype=self.dtype)

    def __eq__(self, other: object) -> bool:
        return self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"<minixla.numpy.{self.__name__}>"


bool_ = ScalarType("bool")
int2, int4, int8 = map(ScalarType, ("int2", "int4", "int8"))
int16, int32, int64 = map(ScalarType, ("int16", "int32", "int64"))
uint2, uint4, uint8 = map(ScalarType, ("uint2", "uint4", "uint8"))
uint16, uint32, uint64 = map(ScalarType, ("uint16", "uint32", "uint64"))
float4_e2m1fn, float6_e2m3fn = map(ScalarType, ("float4_e2m1fn", "float6_e2m3fn"))
float6_e3m2fn, float8_e3m4 = map(ScalarType, ("float6_e3m2fn", "float8_e3m4"))
float8_e4m3, float8_e4m3b11fnuz = map(ScalarType, ("float8_e4m3", "float8_e4m3b11fnuz"))
float8_e4m3fn, float8_e4m3fnuz = map(ScalarType, ("float8_e4m3fn", "float8_e4m3fnuz"))
float8_e5m2, float8_e5m2fnuz = map(ScalarType, ("float8_e5m2", "float8_e5m2fnuz"))
float8_e8m0fnu, bfloat16 = map(ScalarType, ("float8_e8m0fnu", "bfloat16"))
float16, float32, float64 = map(ScalarType, ("float16", "float32", "float64"))
complex64, complex128 = map(ScalarType, ("complex64", "complex128"))
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128


class _Arrays(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tracer) or hasattr(value, "aval")


class ndarray(metaclass=_Arrays):
    """The class of traced values and JAX arrays. Functions create arrays; this class does not."""

    def __new__(cls, *_: Any) -> Any:
        """Raise TypeError."""
        raise TypeError("arrays are created by functions such as mx.numpy.array and mx.numpy.zeros")


# Types whose values denote a dtype. Some have attributes with the names that arrays have.
_TYPES = (type, str, np.dtype, ScalarType, ElementType)


def _type_of(value: Any) -> tuple[ElementType, bool]:
    """Return the element type that an array or a dtype denotes, and whether it is weak."""
    if not isinstance(value, _TYPES):
        return operand_shape(value, "result_type").element_type, weak_type_of(value)
    kind = canonical_element_type(_element_type(value))
    # Compare by identity, because NumPy's 64-bit dtype equals Python's float.
    return kind, any(value is python_type for python_type in (int, float, complex))


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _of_dtypes(function: _Function) -> _Function:
    """Return a function of dtypes whose errors name the arguments."""

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except MinixlaError:
            raise
        except (TypeError, ValueError) as error:
            details, advice = [f"given {args}"], "Pass a dtype such as mx.numpy.float32."
            problem = f"an argument is not a dtype, or is of an unsupported kind: {error}"
            raise shape_error(function.__name__, problem, advice, *details) from None

    return cast(_Function, called)


@documented(PARAMETERS)
@_of_dtypes
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """Return the common dtype of arrays, scalars and dtypes by JAX's rules.

    Args:
        *arrays_and_dtypes: arrays, scalars and dtypes.

    Returns:
        A dtype.

    Example:
        >>> np.result_type(np.int32, np.bfloat16)
        dtype(bfloat16)
        >>> np.result_type(np.array([1.0]), 2)
        dtype('float32')
    """
    if not arrays_and_dtypes:
        raise shape_error("result_type", "an argument is required", "Pass one or more.")
    kind, _ = promotion.result_type([_type_of(dtype) for dtype in arrays_and_dtypes])
    return kind.dtype


@documented(PARAMETERS)
@_of_dtypes
def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype:
    """Return the common dtype of two dtypes by JAX's rules.

    Args:
        a: a dtype.
        b: a dtype.

    Returns:
        A dtype.

    Example:
        >>> np.promote_types(np.float16, np.bfloat16)
        dtype('float32')
    """
    return promotion.result_type([_type_of(np.dtype(a)), _type_of(np.dtype(b))])[0].dtype


# NumPy's class for each kind, its classes for several, and the array API's names of kinds.
_CLASSES = {"pred": np.bool_, "signed": signedinteger, "unsigned": unsignedinteger}
_CLASSES |= {"float": floating, "complex": complexfloating}
_ABSTRACT = {generic, number, integer, inexact, *_CLASSES.values()} - {np.bool_}
_NAMES = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
_KINDS = dict(zip(_NAMES, _CLASSES.values(), strict=True), integral=integer, numeric=number)


@documented(PARAMETERS)
@_of_dtypes
def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Test whether dtype `arg1` is `arg2`, or belongs to it.

    Unlike NumPy's function, bfloat16 and the narrower types are floats and integers.

    Args:
        arg1: a dtype, or a type that stands for one.
        arg2: a dtype, or an abstract class such as `np.floating`.

    Returns:
        True or False.

    Example:
        >>> np.issubdtype(np.bfloat16, np.floating)
        True
    """
    if arg1 in _ABSTRACT:
        return bool(np.issubdtype(arg1, arg2))
    if arg2 not in _ABSTRACT:
        return np.dtype(arg1) == np.dtype(arg2)
    return issubclass(_CLASSES[_element_type(np.dtype(arg1)).kind], arg2)


@documented(PARAMETERS)
@_of_dtypes
def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Test whether a dtype belongs to a kind of the array API.

    Args:
        dtype: a dtype.
        kind: a dtype, one of "bool", "signed integer", "unsigned integer", "integral", "real
            floating", "complex floating" and "numeric", or a tuple of names.

    Returns:
        True or False.

    Example:
        >>> np.isdtype(np.dtype("float32"), "real floating")
        True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, member) for member in kind)
    if not isinstance(kind, str):
        return np.dtype(dtype) == np.dtype(kind)
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of dtype; kinds are {', '.join(_KINDS)}")
    return issubdtype(np.dtype(dtype), _KINDS[kind])


@documented(PARAMETERS)
@_of_dtypes
def can_cast(from_: DTypeLike, to: DTypeLike, casting: Any = "safe") -> bool:
    """Test whether values of one dtype can be cast to another under a rule of NumPy.

    Args:
        from_: a dtype.
        to: a dtype.
        casting: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns:
        True or False.

    Example:
        >>> np.can_cast(np.int32, np.int8)
        False
    """
    return bool(np.can_cast(getattr(from_, "dtype", from_), to, casting))


def _dtype_of(value: Any) -> np.dtype:
    """Return a dtype, or the dtype of an array or a number."""
    if not isinstance(value, _TYPES):
        value = getattr(value, "dtype", type(value))
    return np.dtype(value)


@documented(PARAMETERS)
@_of_dtypes
def finfo(dtype: DTypeLike) -> Any:
    """Return the limits of a float type: eps, max, min, tiny, bits ...

    The limits of a complex type are those of its parts.

    Args:
        dtype: a float or complex type, or an array of one.

    Returns:
        An object whose attributes are the limits.

    Example:
        >>> float(np.finfo(np.float32).eps)
        1.1920928955078125e-07
    """
    return ml_dtypes.finfo(_element_type(_dtype_of(dtype)).real.dtype)


@documented(PARAMETERS)
@_of_dtypes
def iinfo(int_type: DTypeLike) -> Any:
    """Return the limits of an integer type: min, max, bits.

    Args:
        int_type: an integer type, or an array of one.

    Returns:
        An object whose attributes are the limits.

    Example:
        >>> np.iinfo(np.int8).max
        127
    """
    return ml_dtypes.iinfo(_dtype_of(int_type))


class _Information:
    """The answers to queries of the array API about types, devices and capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """Return what is supported: masks as indices, but no shapes that depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """Return None, which stands for JAX's default device."""

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the types of arrays created from Python scalars."""
        kinds = {"real floating": float, "complex floating": complex, "integral": int}
        defaults = {name: _type_of(kind)[0].dtype for name, kind in kinds.items()}
        return {**defaults, "indexing": defaults["integral"]}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Return the types of the array API, optionally only those of some kinds."""
        names = ["bool", *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]]
        names += ["float32", "float64", "complex64", "complex128"]
        types = {name: canonical_element_type(_element_type(np.dtype(name))) for name in names}
        exact = {
            name: element_type.dtype
            for name, element_type in types.items()
            if element_type.dtype.name == name
        }
        return {
            name: dtype for name, dtype in exact.items() if kind is None or isdtype(dtype, kind)
        }

    def devices(self) -> list[Any]:
        """Return all devices."""
        import jax  # late: queries about types need not load it

        return jax.devices()


def __array_namespace_info__() -> _Information:
    """Return an object with `capabilities()`, `default_dtypes()`, `devices()` and `dtypes()`."""
    return _Information()


__array_api_version__ = "2024.12"
