# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from jax.numpy import append as append
from jax.numpy import apply_along_axis as apply_along_axis
from jax.numpy import array_equiv as array_equiv
from jax.numpy import bartlett as bartlett
from jax.numpy import bincount as bincount
from jax.numpy import bitwise_count as bitwise_count
from jax.numpy import blackman as blackman
from jax.numpy import block as block
from jax.numpy import c_ as c_
from jax.numpy import choose as choose
from jax.numpy import corrcoef as corrcoef
from jax.numpy import cov as cov
from jax.numpy import delete as delete
from jax.numpy import diag_indices as diag_indices
from jax.numpy import diag_indices_from as diag_indices_from
from jax.numpy import diagflat as diagflat
from jax.numpy import ediff1d as ediff1d
from jax.numpy import einsum_path as einsum_path
from jax.numpy import fill_diagonal as fill_diagonal
from jax.numpy import frexp as frexp
from jax.numpy import frombuffer as frombuffer
from jax.numpy import fromfunction as fromfunction
from jax.numpy import fromstring as fromstring
from jax.numpy import geomspace as geomspace
from jax.numpy import hamming as hamming
from jax.numpy import hanning as hanning
from jax.numpy import histogram_bin_edges as histogram_bin_edges
from jax.numpy import i0 as i0
from jax.numpy import indices as indices
from jax.numpy import kaiser as kaiser
from jax.numpy import kron as kron
from jax.numpy import ldexp as ldexp
from jax.numpy import load as load
from jax.numpy import logspace as logspace
from jax.numpy import mask_indices as mask_indices
from jax.numpy import mgrid as mgrid
from jax.numpy import ogrid as ogrid
from jax.numpy import packbits as packbits
from jax.numpy import place as place
from jax.numpy import poly as poly
from jax.numpy import polyadd as polyadd
from jax.numpy import polyder as polyder
from jax.numpy import polydiv as polydiv
from jax.numpy import polyfit as polyfit
from jax.numpy import polyint as polyint
from jax.numpy import polymul as polymul
from jax.numpy import polysub as polysub
from jax.numpy import polyval as polyval
from jax.numpy import put as put
from jax.numpy import put_along_axis as put_along_axis
from jax.numpy import r_ as r_
from jax.numpy import ravel_multi_index as ravel_multi_index
from jax.numpy import resize as resize
from jax.numpy import rollaxis as rollaxis
from jax.numpy import roots as roots
from jax.numpy import rot90 as rot90
from jax.numpy import sort_complex as sort_complex
from jax.numpy import spacing as spacing
from jax.numpy import trapezoid as trapezoid
from jax.numpy import trim_zeros as trim_zeros
from jax.numpy import unpackbits as unpackbits
from jax.numpy import unravel_index as unravel_index
from jax.numpy import unwrap as unwrap
from jax.numpy import vander as vander
from minixla.numpy import fft as fft
from minixla.numpy import linalg as linalg
from minixla.numpy.dtypes import ScalarType as ScalarType
from minixla.numpy.ufuncs import ufunc as ufunc
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from minixla.typing import ShapeLike
from numpy import array_repr as array_repr
from numpy import array_str as array_str
from numpy import character as character
from numpy import complexfloating as complexfloating
from numpy import dtype as dtype
from numpy import flexible as flexible
from numpy import floating as floating
from numpy import generic as generic
from numpy import get_printoptions as get_printoptions
from numpy import inexact as inexact
from numpy import integer as integer
from numpy import iterable as iterable
from numpy import ndarray as _ndarray
from numpy import number as number
from numpy import object_ as object_
from numpy import printoptions as printoptions
from numpy import save as save
from numpy import savez as savez
from numpy import set_printoptions as set_printoptions
from numpy import signedinteger as signedinteger
from numpy import unsignedinteger as unsignedinteger
from numpy.exceptions import ComplexWarning as ComplexWarning
from numpy.lib._index_tricks_impl import IndexExpression
from typing import Any
from typing import overload

__all__: list[str]

ndarray = Array

def convolve(a: ArrayLike, v: ArrayLike, mode: str = ..., *, precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sums of products of a vector and one reversed."""

def correlate(a: ArrayLike, v: ArrayLike, mode: str = ..., *, precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sums of products of a vector and the conjugate of another, moved along it."""

def array(object: Any, dtype: DTypeLike | None = ..., *, copy: builtins.bool = ..., order: str | None = ..., ndmin: int = ..., device: Any = ..., out_sharding: Any = ...) -> Array:
    """An array made of an array, a number, or nested lists of these."""

def asarray(a: Any, dtype: DTypeLike | None = ..., order: str | None = ..., *, copy: builtins.bool | None = ..., device: Any = ..., out_sharding: Any = ...) -> Array:
    """An array made of an array, a number, or nested lists of these; see `array`."""

def zeros(shape: ShapeLike, dtype: DTypeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """Zeros of a shape: a size, or a sequence of them."""

def ones(shape: ShapeLike, dtype: DTypeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """Ones of a shape: a size, or a sequence of them."""

def empty(shape: ShapeLike, dtype: DTypeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """An array of a shape, of zeros."""

def full(shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """An array of a shape that holds `fill_value`, which broadcasts to it."""

def zeros_like(a: ArrayLike, dtype: DTypeLike | None = ..., shape: ShapeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """Zeros of the shape and dtype of `a`, or those given."""

def ones_like(a: ArrayLike, dtype: DTypeLike | None = ..., shape: ShapeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """Ones of the shape and dtype of `a`, or those given."""

def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = ..., shape: ShapeLike | None = ..., *, device: Any = ...) -> Array:
    """Zeros of the shape and dtype of `prototype`, or those given."""

def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = ..., shape: ShapeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """`fill_value` in the shape and dtype of `a`, or those given."""

def arange(start: ArrayLike, stop: ArrayLike | None = ..., step: ArrayLike | None = ..., dtype: DTypeLike | None = ..., *, device: Any = ..., out_sharding: Any = ...) -> Array:
    """Numbers from `start` (default 0) to before `stop`, `step` apart (default 1)."""

@overload
def linspace(start: ArrayLike, stop: ArrayLike, num: int = ..., endpoint: builtins.bool = ..., dtype: DTypeLike | None = ..., axis: int = ..., *, device: Any = ...) -> Array:
    """`num` numbers evenly from `start` to `stop`, which is the last unless `endpoint` is False."""

@overload
def linspace(start: ArrayLike, stop: ArrayLike, num: int = ..., endpoint: builtins.bool = ..., retstep: builtins.bool = ..., dtype: DTypeLike | None = ..., axis: int = ..., *, device: Any = ...) -> Any:
    """`num` numbers evenly from `start` to `stop`, which is the last unless `endpoint` is False."""

def meshgrid(*xi: ArrayLike, copy: builtins.bool = ..., sparse: builtins.bool = ..., indexing: str = ...) -> list[Array]:
    """Coordinate arrays of a grid, one for each vector."""

def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Vectors as arrays that broadcast to their grid, for indexing with all combinations."""

def quantile(a: ArrayLike, q: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., method: str = ..., keepdims: builtins.bool = ..., *, weights: ArrayLike | None = ...) -> Array:
    """The quantiles over axes, NaN where one is among the elements."""

def percentile(a: ArrayLike, q: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., method: str = ..., keepdims: builtins.bool = ..., *, weights: ArrayLike | None = ..., out_sharding: Any = ...) -> Array:
    """The percentiles over axes, NaN where one is there."""

def nanquantile(a: ArrayLike, q: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., method: str = ..., keepdims: builtins.bool = ..., *, weights: ArrayLike | None = ...) -> Array:
    """The quantiles over axes of what is not NaN."""

def nanpercentile(a: ArrayLike, q: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., method: str = ..., keepdims: builtins.bool = ..., *, weights: ArrayLike | None = ...) -> Array:
    """The percentiles of what is not NaN."""

def median(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., keepdims: builtins.bool = ...) -> Array:
    """The median over axes; see `quantile`."""

def nanmedian(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., overwrite_input: builtins.bool = ..., keepdims: builtins.bool = ...) -> Array:
    """The median over axes of what is not NaN."""

def histogram(a: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] | str = ..., range: Array | _ndarray | Sequence[Any] | None = ..., weights: ArrayLike | None = ..., density: builtins.bool | None = ...) -> tuple[Array, Array]:
    """How many elements are in each of some bins, and the edges of these."""

def histogramdd(sample: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] | str = ..., range: Array | _ndarray | Sequence[Any] | None = ..., weights: ArrayLike | None = ..., density: builtins.bool | None = ...) -> tuple[Array, list[Array]]:
    """How many points are in each of some boxes, and their edges."""

def histogram2d(x: ArrayLike, y: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] | str = ..., range: Array | _ndarray | Sequence[Any] | None = ..., weights: ArrayLike | None = ..., density: builtins.bool | None = ...) -> tuple[Array, Array, Array]:
    """How many points are in each of some rectangles, the edges along x, and those along y."""

pi: builtins.float

e: builtins.float

inf: builtins.float

nan: builtins.float

newaxis: None

euler_gamma: builtins.float

bool_: ScalarType

int2: ScalarType

int4: ScalarType

int8: ScalarType

int16: ScalarType

int32: ScalarType

int64: ScalarType

uint2: ScalarType

uint4: ScalarType

uint8: ScalarType

uint16: ScalarType

uint32: ScalarType

uint64: ScalarType

float4_e2m1fn: ScalarType

float6_e2m3fn: ScalarType

float6_e3m2fn: ScalarType

float8_e3m4: ScalarType

float8_e4m3: ScalarType

float8_e4m3b11fnuz: ScalarType

float8_e4m3fn: ScalarType

float8_e4m3fnuz: ScalarType

float8_e5m2: ScalarType

float8_e5m2fnuz: ScalarType

float8_e8m0fnu: ScalarType

bfloat16: ScalarType

float16: ScalarType

float32: ScalarType

float64: ScalarType

complex64: ScalarType

complex128: ScalarType

single: ScalarType

double: ScalarType

csingle: ScalarType

cdouble: ScalarType

int_: ScalarType

uint: ScalarType

float_: ScalarType

complex_: ScalarType

def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The dtype that arrays, scalars and dtypes have in common, by JAX's rules."""

def promote_types(a: ArrayLike, b: ArrayLike) -> dtype:
    """The dtype that two dtypes have in common, by JAX's rules."""

def issubdtype(arg1: Any, arg2: Any) -> builtins.bool:
    """Whether dtype `arg1` is, or belongs to, `arg2`: a dtype or one of NumPy's abstract classes."""

def isdtype(dtype: DTypeLike, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind: a dtype, a name of the array API, or a tuple of these."""

def can_cast(from_: DTypeLike, to: DTypeLike, casting: Any = ...) -> builtins.bool:
    """Whether values of one dtype can become another under NumPy's rule `casting`."""

def finfo(dtype: DTypeLike) -> Any:
    """The limits of a float type: eps, max, min, tiny, bits ... (of a complex one, its parts')."""

def iinfo(int_type: DTypeLike) -> Any:
    """The limits of an integer type: min, max, bits."""

def iscomplexobj(x: Any) -> builtins.bool:
    """Whether `x` is of a complex type."""

def isrealobj(x: Any) -> builtins.bool:
    """Whether `x` is not of a complex type."""

def isscalar(element: Any) -> builtins.bool:
    """Whether `element` is a number or an array without dimensions."""

bool: ScalarType

class _UfuncOf2(ufunc):
    def __call__(self, x1: ArrayLike, x2: ArrayLike, /, *, out: None = ..., where: None = ...) -> Array: ...

add: _UfuncOf2
"""The sum; of booleans, their or."""

subtract: _UfuncOf2
"""The difference."""

multiply: _UfuncOf2
"""The product; of booleans, their and."""

def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient; of integers a float."""

def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient; of integers a float."""

def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded down."""

def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What floor_divide leaves, with the sign of x2."""

def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What floor_divide leaves, with the sign of x2."""

def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power of x2; a known integer x2 means repeated products."""

def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power of x2; a known integer x2 means repeated products."""

bitwise_and: _UfuncOf2
"""The and of each bit."""

bitwise_or: _UfuncOf2
"""The or of each bit."""

bitwise_xor: _UfuncOf2
"""The exclusive or of each bit."""

def left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of x1 moved up by x2 places."""

def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of x1 moved up by x2 places."""

def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of x1 moved down by x2 places; the sign stays."""

def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of x1 moved down by x2 places; the sign stays."""

maximum: _UfuncOf2
"""The greater; NaN wins."""

minimum: _UfuncOf2
"""The smaller; NaN wins."""

def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers, of any signs."""

def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers, of any signs."""

def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """The pair of `floor_divide` and `remainder`."""

class _UfuncOf1(ufunc):
    def __call__(self, x: ArrayLike, /, *, out: None = ..., where: None = ...) -> Array: ...

negative: _UfuncOf1
"""The number with the other sign."""

def positive(x: ArrayLike, /) -> Array:
    """The number itself."""

def absolute(x: ArrayLike, /) -> Array:
    """The absolute value, of complex numbers too."""

def abs(x: ArrayLike, /) -> Array:
    """The absolute value, of complex numbers too."""

def bitwise_not(x: ArrayLike, /) -> Array:
    """Each bit the other way."""

def invert(x: ArrayLike, /) -> Array:
    """Each bit the other way."""

def bitwise_invert(x: ArrayLike, /) -> Array:
    """Each bit the other way."""

def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What division rounded toward zero leaves, with the sign of x1; 0 of an integer by 0."""

def float_power(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 to the power of x2, as floats."""

def arctan2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The angle of the point (x2, x1), in (-pi, pi]."""

def atan2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The angle of the point (x2, x1), in (-pi, pi]."""

def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greater; of a NaN and a number, the number."""

def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller; of a NaN and a number, the number."""

def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where x1 < 0, x2 where it is 0, 1 where it is greater."""

def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 with the sign of x2."""

def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next float after x1 in the direction of x2."""

def exp(x: ArrayLike, /) -> Array:
    """e to the power of x."""

def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact near 0."""

def log(x: ArrayLike, /) -> Array:
    """The natural logarithm."""

def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), exact near 0."""

def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""

def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN of negative numbers."""

def sin(x: ArrayLike, /) -> Array:
    """The sine of an angle in radians."""

def cos(x: ArrayLike, /) -> Array:
    """The cosine of an angle in radians."""

def tan(x: ArrayLike, /) -> Array:
    """The tangent of an angle in radians."""

def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""

def cbrt(x: ArrayLike, /) -> Array:
    """The cube root."""

def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a float."""

def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x."""

def deg2rad(x: ArrayLike, /) -> Array:
    """An angle given in degrees, in radians."""

def rad2deg(x: ArrayLike, /) -> Array:
    """An angle given in radians, in degrees."""

def radians(x: ArrayLike, /) -> Array:
    """An angle given in degrees, in radians."""

def degrees(x: ArrayLike, /) -> Array:
    """An angle given in radians, in degrees."""

def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2."""

def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""

def exp2(x: ArrayLike, /) -> Array:
    """2 to the power of x."""

def square(x: ArrayLike, /) -> Array:
    """The product x * x."""

def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of x; NaN is its own, complex numbers give x / abs(x)."""

def floor(x: ArrayLike) -> Array:
    """The nearest integer that is not greater."""

def ceil(x: ArrayLike) -> Array:
    """The nearest integer that is not less."""

def trunc(x: ArrayLike) -> Array:
    """The nearest integer that is not farther from 0."""

def fix(x: ArrayLike) -> Array:
    """The nearest integer that is not farther from 0."""

def rint(x: ArrayLike, /) -> Array:
    """The nearest integer as a float, ties to even; of each part of a complex number."""

def round(a: ArrayLike, decimals: int = ..., out: None = ...) -> Array:
    """`a` rounded to so many decimals, ties to even."""

def around(a: ArrayLike, decimals: int = ..., out: None = ...) -> Array:
    """`a` rounded to so many decimals, ties to even."""

def modf(x: ArrayLike, /, out: None = ...) -> tuple[Array, Array]:
    """The fraction and the integer part of x, both with its sign; `out` is not supported."""

def real(val: ArrayLike, /) -> Array:
    """The real part."""

def imag(val: ArrayLike, /) -> Array:
    """The imaginary part; zeros of real numbers."""

def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; of real numbers the number itself."""

def conj(x: ArrayLike, /) -> Array:
    """The complex conjugate; of real numbers the number itself."""

def angle(z: ArrayLike, deg: builtins.bool = ...) -> Array:
    """The angle of a complex number from the positive real axis, in radians or degrees."""

def clip(arr: ArrayLike, /, min: ArrayLike | None = ..., max: ArrayLike | None = ...) -> Array:
    """`arr` brought between `min` and `max`; None is no bound."""

def nan_to_num(x: ArrayLike, copy: builtins.bool = ..., nan: ArrayLike = ..., posinf: ArrayLike | None = ..., neginf: ArrayLike | None = ...) -> Array:
    """`x` with other numbers in place of NaN and infinities."""

def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is x."""

def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] whose cosine is x."""

def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is x."""

def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""

def arcsinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is x."""

def arccosh(x: ArrayLike, /) -> Array:
    """The number >= 0 whose hyperbolic cosine is x."""

def arctanh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic tangent is x."""

def asin(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is x."""

def acos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] whose cosine is x."""

def atan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is x."""

def asinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is x."""

def acosh(x: ArrayLike, /) -> Array:
    """The number >= 0 whose hyperbolic cosine is x."""

def atanh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic tangent is x."""

def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), 1 at 0."""

def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """sqrt(x1**2 + x2**2), without overflow on the way; its derivative at 0, 0 is 0."""

logaddexp: _UfuncOf2
"""log(exp(x1) + exp(x2)) of reals, without overflow on the way."""

logaddexp2: _UfuncOf2
"""log2(2**x1 + 2**x2) of reals, without overflow on the way."""

def concatenate(arrays: Array | _ndarray | Sequence[ArrayLike], axis: int | None = ..., dtype: DTypeLike | None = ...) -> Array:
    """Arrays joined along an axis; None joins their elements in row-major order."""

def concat(arrays: Sequence[Any], /, *, axis: int | None = ...) -> Array:
    """Arrays joined along an axis; see `concatenate`."""

def stack(arrays: Array | _ndarray | Sequence[ArrayLike], axis: int = ..., out: None = ..., dtype: DTypeLike | None = ...) -> Array:
    """Arrays of one shape joined along a new axis."""

def unstack(x: ArrayLike, /, *, axis: int = ...) -> tuple[Array, ...]:
    """The members of an array along an axis, which they no longer have."""

def vstack(tup: Array | _ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = ...) -> Array:
    """Arrays joined along the first axis; vectors are rows."""

def hstack(tup: Array | _ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = ...) -> Array:
    """Arrays joined along the second axis, vectors along their only one."""

def dstack(tup: Array | _ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = ...) -> Array:
    """Arrays joined along the third axis."""

def column_stack(tup: Array | _ndarray | Sequence[ArrayLike]) -> Array:
    """Arrays joined along the second axis; vectors are columns."""

def split(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = ...) -> list[Array]:
    """An array cut along an axis: into equal sections, or before each of the given indices."""

def array_split(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = ...) -> list[Array]:
    """Like `split`; where sections cannot be equal, the first ones are longer by one."""

def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """`split` along axis 0."""

def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """`split` along axis 2."""

def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """`split` along axis 1, of vectors along their only one."""

def tile(A: ArrayLike, reps: ShapeLike) -> Array:
    """`A` repeated as a whole, `reps` times along each axis."""

def repeat(a: ArrayLike, repeats: ArrayLike | Sequence[int], axis: int | None = ..., *, total_repeat_length: int | None = ..., out_sharding: Any = ...) -> Array:
    """Each element of `a` repeated along an axis; default: of the elements in row-major order."""

def insert(arr: ArrayLike, obj: ArrayLike | Sequence[int] | slice, values: ArrayLike, axis: int | None = ...) -> Array:
    """`arr` with values put before some indices of an axis."""

def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The sum of products over the last axis of `a` and the last but one (or only) of `b`."""

def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The matrix product, `a @ b`; leading axes broadcast."""

def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]] = ..., *, precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The sum of products over pairs of axes."""

def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sum of products over the last axes; with a scalar the product."""

def outer(a: ArrayLike, b: ArrayLike, out: None = ...) -> Array:
    """The products of each element of `a` with each of `b`, in row-major order."""

def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sum of products of all elements, those of `a` conjugated."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = ..., precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sum of products along an axis, x1 conjugated; the other axes broadcast."""

def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices [..., m, k] and vectors [..., k]."""

def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of conjugated vectors [..., k] and matrices [..., k, n]."""

def cross(a: ArrayLike, b: ArrayLike, axisa: int = ..., axisb: int = ..., axisc: int = ..., axis: int | None = ...) -> Array:
    """The vector product of vectors of size 2 or 3 along an axis; of two of size 2 a number."""

def einsum(subscripts: Any, /, *operands: Any, out: None = ..., optimize: Any = ..., precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The sum of products that `subscripts` names (numpy.einsum)."""

def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 == x2."""

def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 != x2."""

def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 > x2; complex by real part first."""

def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 >= x2; complex by real part first."""

def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 < x2; complex by real part first."""

def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether x1 <= x2; complex by real part first."""

logical_and: _UfuncOf2
"""Whether both are not zero."""

logical_or: _UfuncOf2
"""Whether at least one is not zero."""

logical_xor: _UfuncOf2
"""Whether just one is not zero."""

def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is zero."""

def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither infinite nor NaN."""

def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite."""

def isnan(x: ArrayLike, /) -> Array:
    """Whether x is NaN."""

def isposinf(x: ArrayLike, /, out: None = ...) -> Array:
    """Whether a real x is inf; `out` is not supported."""

def isneginf(x: ArrayLike, /, out: None = ...) -> Array:
    """Whether a real x is -inf; `out` is not supported."""

def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit of x is set: of -0.0 too."""

def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part of x is not zero."""

def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part of x is zero."""

@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """X where the condition is true and y elsewhere; with the condition alone, `nonzero`."""

@overload
def where(condition: ArrayLike, x: ArrayLike | None = ..., y: ArrayLike | None = ..., /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Any:
    """X where the condition is true and y elsewhere; with the condition alone, `nonzero`."""

def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = ...) -> Array:
    """From the first choice whose condition is true, element by element; else the default."""

def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = ..., atol: ArrayLike = ..., equal_nan: builtins.bool = ...) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, or a == b."""

def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = ..., atol: ArrayLike = ..., equal_nan: builtins.bool = ...) -> Array:
    """Whether all elements are close; see `isclose`."""

def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: builtins.bool = ...) -> Array:
    """Whether two arrays have one shape and equal elements."""

def from_dlpack(x: Any, /, *, device: Any = ..., copy: builtins.bool | None = ...) -> Array:
    """An array of another library's, taken over by DLPack, without a copy where that can be."""

def fromfile(*args: Any, **kwargs: Any) -> Array:
    """An array made of the contents of a file. Arguments are those of numpy.fromfile."""

def fromiter(*args: Any, **kwargs: Any) -> Array:
    """An array made of the numbers of an iterable. Arguments are those of numpy.fromiter."""

index_exp: IndexExpression

s_: IndexExpression

def ndim(a: ArrayLike) -> int:
    """The number of dimensions."""

def shape(a: ArrayLike) -> tuple[int, ...]:
    """The dimension sizes."""

def size(a: ArrayLike, axis: int | Sequence[int] | None = ...) -> int:
    """The number of elements, or how many there are along the axes."""

def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: builtins.bool = ..., device: Any = ...) -> Array:
    """`x` with its elements converted to `dtype` (None: the default float type)."""

def copy(a: ArrayLike, order: str | None = ...) -> Array:
    """`a` itself, for arrays do not change."""

def reshape(a: ArrayLike, shape: ShapeLike, order: str = ..., *, copy: builtins.bool | None = ..., out_sharding: Any = ...) -> Array:
    """The elements of `a`, in row-major order, in an array of another shape."""

def ravel(a: ArrayLike, order: str = ..., *, out_sharding: Any = ...) -> Array:
    """The elements of `a` in row-major ("C") or column-major ("F") order, in one dimension."""

def transpose(a: ArrayLike, axes: Sequence[int] | None = ...) -> Array:
    """`a` with its dimensions in the order `axes`; default: reversed."""

def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """`a` with its dimensions in the order `axes`."""

def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two dimensions exchanged."""

def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two dimensions exchanged."""

def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """`a` with dimensions `source` moved to `destination`, the others in their order."""

def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """`a` with dimensions of size 1 at the places `axis` of the result."""

def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = ...) -> Array:
    """`a` without its dimensions of size 1, or without those named."""

def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: Any = ...) -> Array:
    """`array` repeated to `shape` by NumPy's rule."""

def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays broadcast to their common shape."""

def broadcast_shapes(*shapes: ShapeLike) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""

def atleast_1d(*arys: ArrayLike) -> Any:
    """The arrays with dimensions of size 1 where they are scalars; a list where there are several."""

def atleast_2d(*arys: ArrayLike) -> Any:
    """The arrays with dimensions of size 1 put in front until there are two."""

def atleast_3d(*arys: ArrayLike) -> Any:
    """The arrays with dimensions of size 1 added until there are three: vectors become (1, n, 1)."""

def flip(m: ArrayLike, axis: int | Sequence[int] | None = ...) -> Array:
    """`m` with the order of its elements reversed along axes; default: all."""

def fliplr(m: ArrayLike) -> Array:
    """`m` reversed along axis 1."""

def flipud(m: ArrayLike) -> Array:
    """`m` reversed along axis 0."""

def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = ...) -> Array:
    """`a` with its elements moved along axes by `shift` places; what falls off comes in again."""

def vectorize(pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = ..., signature: str | None = ...) -> Callable[..., Any]:
    """A function that applies `pyfunc` to all elements of arrays, which broadcast together."""

def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """A function of an array and an axis, applied to what it gave for the axis before."""

def piecewise(x: ArrayLike, condlist: Array | _ndarray | Sequence[ArrayLike], funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Each element by the function of the last condition that holds for it."""

def eye(N: int, M: int | None = ..., k: int = ..., dtype: DTypeLike | None = ..., *, device: Any = ...) -> Array:
    """A matrix with ones on a diagonal and zeros elsewhere."""

def identity(n: int, dtype: DTypeLike | None = ...) -> Array:
    """The identity matrix of n rows."""

def tri(N: int, M: int | None = ..., k: int = ..., dtype: DTypeLike | None = ...) -> Array:
    """A matrix with ones on and below the diagonal `k` above the main one; zeros above."""

def tril(m: ArrayLike, k: int = ...) -> Array:
    """Matrices with zeros above the diagonal `k` above the main one."""

def triu(m: ArrayLike, k: int = ...) -> Array:
    """Matrices with zeros below the diagonal `k` above the main one."""

def diagonal(a: ArrayLike, offset: int = ..., axis1: int = ..., axis2: int = ...) -> Array:
    """The diagonal of matrices, `offset` above the main one, as the last axis."""

def trace(a: ArrayLike, offset: int = ..., axis1: int = ..., axis2: int = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array:
    """The sum of a diagonal of matrices; arguments as for `diagonal`."""

def diag(v: ArrayLike, k: int = ...) -> Array:
    """A matrix with the vector `v` on a diagonal; of a matrix `v`, that diagonal."""

def tril_indices(n: int, k: int = ..., m: int | None = ...) -> tuple[Array, Array]:
    """The row and column indices of the lower triangle of an n by m matrix."""

def tril_indices_from(arr: ArrayLike, k: int = ...) -> tuple[Array, Array]:
    """The row and column indices of the lower triangle of a matrix."""

def triu_indices(n: int, k: int = ..., m: int | None = ...) -> tuple[Array, Array]:
    """The row and column indices of the upper triangle of an n by m matrix."""

def triu_indices_from(arr: ArrayLike, k: int = ...) -> tuple[Array, Array]:
    """The row and column indices of the upper triangle of a matrix."""

def pad(array: ArrayLike, pad_width: Any, mode: Any = ..., **kwargs: Any) -> Array:
    """`array` with elements put before and after it along each axis."""

def sum(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ..., promote_integers: builtins.bool = ...) -> Array:
    """The sum over axes."""

def prod(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ..., promote_integers: builtins.bool = ...) -> Array:
    """The product over axes."""

def nansum(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ..., promote_integers: builtins.bool = ...) -> Array:
    """The sum over axes of what is not NaN."""

def nanprod(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ..., promote_integers: builtins.bool = ...) -> Array:
    """The product over axes of what is not NaN."""

def max(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The greatest element over axes, or NaN."""

def amax(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The greatest element over axes, or NaN."""

def min(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The least element over axes, or NaN."""

def amin(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The least element over axes, or NaN."""

def nanmax(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The greatest number over axes, else NaN."""

def nanmin(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array:
    """The least number over axes, else NaN."""

def ptp(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ...) -> Array:
    """The greatest minus the least element over axes."""

def all(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., *, where: ArrayLike | None = ...) -> Array:
    """Whether all elements over axes are not zero."""

def any(a: ArrayLike, axis: int | Sequence[int] | None = ..., out: None = ..., keepdims: builtins.bool = ..., *, where: ArrayLike | None = ...) -> Array:
    """Whether any element over axes is not zero."""

def count_nonzero(a: ArrayLike, axis: int | Sequence[int] | None = ..., keepdims: builtins.bool = ...) -> Array:
    """How many elements over axes are not zero."""

def argmax(a: ArrayLike, axis: int | None = ..., out: None = ..., keepdims: builtins.bool | None = ...) -> Array:
    """The first index of the greatest element, or of NaN."""

def argmin(a: ArrayLike, axis: int | None = ..., out: None = ..., keepdims: builtins.bool | None = ...) -> Array:
    """The first index of the least element, or of NaN."""

def nanargmax(a: ArrayLike, axis: int | None = ..., out: None = ..., keepdims: builtins.bool | None = ...) -> Array:
    """The first index of the greatest number, or -1."""

def nanargmin(a: ArrayLike, axis: int | None = ..., out: None = ..., keepdims: builtins.bool | None = ...) -> Array:
    """The first index of the least number, or -1."""

def cumsum(a: ArrayLike, axis: int | None = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array:
    """The running sum along an axis."""

def cumprod(a: ArrayLike, axis: int | None = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array:
    """The running product along an axis."""

def nancumsum(a: ArrayLike, axis: int | None = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array:
    """The running sum of what is not NaN."""

def nancumprod(a: ArrayLike, axis: int | None = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array:
    """The running product of what is not NaN."""

def cummax(a: ArrayLike, axis: int | None = ...) -> Array:
    """The greatest element so far along an axis."""

def cummin(a: ArrayLike, axis: int | None = ...) -> Array:
    """The least element so far along an axis."""

def cumulative_sum(x: ArrayLike, /, *, axis: int | None = ..., dtype: DTypeLike | None = ..., include_initial: builtins.bool = ...) -> Array:
    """The array API's name of cumsum."""

def cumulative_prod(x: ArrayLike, /, *, axis: int | None = ..., dtype: DTypeLike | None = ..., include_initial: builtins.bool = ...) -> Array:
    """The array API's cumprod."""

@overload
def unique(ar: ArrayLike, axis: int | None = ..., *, equal_nan: builtins.bool = ..., size: int | None = ..., fill_value: ArrayLike | None = ..., sorted: builtins.bool = ...) -> Array:
    """The distinct elements in ascending order, NaN last."""

@overload
def unique(ar: ArrayLike, return_index: builtins.bool = ..., return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., axis: int | None = ..., *, equal_nan: builtins.bool = ..., size: int | None = ..., fill_value: ArrayLike | None = ..., sorted: builtins.bool = ...) -> Any:
    """The distinct elements in ascending order, NaN last."""

def unique_all(x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Any:
    """The distinct values, indices, inverse_indices, counts; every NaN is distinct. See `unique`."""

def unique_counts(x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Any:
    """The distinct values, counts; every NaN is distinct. See `unique`."""

def unique_inverse(x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Any:
    """The distinct values, inverse_indices; every NaN is distinct. See `unique`."""

def unique_values(x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The distinct values; every NaN is distinct. See `unique`."""

@overload
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: builtins.bool = ..., *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The distinct elements that are in both arrays, in ascending order; NaN is in none."""

@overload
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: builtins.bool = ..., return_indices: builtins.bool = ..., *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Any:
    """The distinct elements that are in both arrays, in ascending order; NaN is in none."""

def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: builtins.bool = ..., *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The distinct elements that are in just one of two arrays; see `intersect1d`."""

def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: builtins.bool = ..., *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The distinct elements of an array that are not in another, in ascending order."""

def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The distinct elements of two arrays, in ascending order; see `unique`."""

def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: builtins.bool = ..., invert: builtins.bool = ..., *, method: str = ...) -> Array:
    """Whether each element is one of others; NaN is none."""

def sort(a: ArrayLike, axis: int | None = ..., *, kind: None = ..., order: None = ..., stable: builtins.bool = ..., descending: builtins.bool = ...) -> Array:
    """The elements along an axis in ascending order, NaN last; complex by real part first."""

def argsort(a: ArrayLike, axis: int | None = ..., *, kind: None = ..., order: None = ..., stable: builtins.bool = ..., descending: builtins.bool = ..., dtype: DTypeLike | None = ...) -> Array:
    """The indices along an axis that put the elements into order, equal ones as they are."""

def partition(a: ArrayLike, kth: int | Sequence[int], axis: int = ...) -> Array:
    """The elements along an axis, the kth where it is in order, less ones before it."""

def argpartition(a: ArrayLike, kth: int | Sequence[int], axis: int = ...) -> Array:
    """The indices along an axis of the elements that `partition` gives; see there."""

def lexsort(keys: Sequence[Any], axis: int = ...) -> Array:
    """The indices along an axis that put elements into the order of several keys."""

def searchsorted(a: ArrayLike, v: ArrayLike, side: str = ..., sorter: ArrayLike | None = ..., *, method: str = ...) -> Array:
    """Where in the ascending vector `a` the values `v` would be put in."""

def digitize(x: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] | str, right: builtins.bool = ..., *, method: str | None = ...) -> Array:
    """The number of the bin that each element is in: 0 before the first edge."""

def mean(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ...) -> Array:
    """The mean over axes."""

def nanmean(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ...) -> Array:
    """The mean over axes of what is not NaN."""

def var(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., ddof: int = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ..., mean: ArrayLike | None = ..., correction: int | float | None = ...) -> Array:
    """The mean over axes of |a - mean|**2, a real number."""

def std(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., ddof: int = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ..., mean: ArrayLike | None = ..., correction: int | float | None = ...) -> Array:
    """The square root of `var`; its derivative at 0 is 0."""

def nanvar(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., ddof: int = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ..., mean: ArrayLike | None = ..., correction: int | float | None = ...) -> Array:
    """The variance over axes of what is not NaN."""

def nanstd(a: ArrayLike, axis: int | Sequence[int] | None = ..., dtype: DTypeLike | None = ..., out: None = ..., ddof: int = ..., keepdims: builtins.bool = ..., where: ArrayLike | None = ..., mean: ArrayLike | None = ..., correction: int | float | None = ...) -> Array:
    """The square root of `nanvar`; its derivative at 0 is 0."""

@overload
def average(a: ArrayLike, axis: int | Sequence[int] | None = ..., weights: ArrayLike | None = ..., keepdims: builtins.bool = ...) -> Array:
    """The mean over axes, each element counted with a weight."""

@overload
def average(a: ArrayLike, axis: int | Sequence[int] | None = ..., weights: ArrayLike | None = ..., returned: builtins.bool = ..., keepdims: builtins.bool = ...) -> Any:
    """The mean over axes, each element counted with a weight."""

def diff(a: ArrayLike, n: int = ..., axis: int = ..., prepend: ArrayLike | None = ..., append: ArrayLike | None = ...) -> Array:
    """The difference of each element and the one before, `n` times; of booleans if they differ."""

def gradient(f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = ..., edge_order: int | None = ...) -> Any:
    """Central differences along axes, one-sided at the ends."""

def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | str | None = ..., right: ArrayLike | str | None = ..., period: ArrayLike | None = ...) -> Array:
    """Linear interpolation between points."""

def take(a: ArrayLike, indices: ArrayLike, axis: int | None = ..., out: None = ..., mode: str | None = ..., unique_indices: builtins.bool = ..., indices_are_sorted: builtins.bool = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The elements of `a` at some indices of an axis."""

def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = ..., mode: str | None = ..., fill_value: ArrayLike | None = ..., *, wrap_negative_indices: builtins.bool | None = ...) -> Array:
    """For each place of `indices` the element of `arr` at that place, but for the axis."""

def nonzero(a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | tuple[ArrayLike, ...] | None = ...) -> tuple[Array, ...]:
    """The indices of the elements that are not zero: an array for each axis, in row-major order."""

def flatnonzero(a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | tuple[ArrayLike, ...] | None = ...) -> Array:
    """The indices, in row-major order, of the elements that are not zero; see `nonzero`."""

def argwhere(a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """The index vectors of the elements that are not zero, one a row; see `nonzero`."""

def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike = ...) -> Array:
    """The elements, in row-major order, where the condition is true; see `compress`."""

def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = ..., *, size: int | None = ..., fill_value: ArrayLike = ..., out: None = ...) -> Array:
    """The elements of an axis where the condition is true."""

def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = ...) -> ufunc:
    """A `ufunc` of a function of scalars; arguments are those of `ufunc`."""

