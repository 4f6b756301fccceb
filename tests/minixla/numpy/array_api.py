"""The Python array API standard, 2024.12, as tables: signatures, special cases, types, shapes.

https://data-apis.org/array-api/2024.12. Each row asks a namespace, so that the same rows hold
`jax.numpy` to it: `failures` gives those that a namespace fails. Functions of arrays run as they
are, or many in one compiled program.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

INF, NAN, PI = math.inf, math.nan, math.pi
Judge = Callable[[Any], None]


class Case(NamedTuple):
    """A function of arrays, made of a namespace, and what it must give.

    Attributes:
        made: from the namespace to the function.
        arrays: its arguments.
        judges: by what each says, functions that raise an error of a wrong result.
    """

    made: Callable[[Any], Callable[..., Any]]
    arrays: Sequence[Any]
    judges: dict[str, Judge]


def question(key: str, asked: Callable[[Any], None]) -> Case:
    """A question about a namespace: no function of arrays."""
    return Case(lambda xp: lambda: xp, (), {key: asked})


def failures(
    cases: Sequence[Case], xp: Any, jit: Callable[..., Any] | None = None, together: int = 100
) -> dict[str, str]:
    """What a namespace fails, and why; with `jit` so many functions are one program."""
    found: dict[str, str] = {}
    asked = [case for case in cases if not case.arrays]
    computed = [case for case in cases if case.arrays]
    for start in range(0, len(computed), together):
        group = computed[start : start + together]
        for case, result in zip(group, _results(group, xp, jit), strict=True):
            _judge(case, result, found)
    for case in asked:
        _judge(case, xp, found)
    return found


def _judge(case: Case, result: Any, found: dict[str, str]) -> None:
    for key, judge in case.judges.items():
        try:
            if isinstance(result, Exception):
                raise result
            judge(result)
        except Exception as error:
            found[key] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def _results(group: Sequence[Case], xp: Any, jit: Any) -> list[Any]:
    arrays = [[xp.asarray(x) for x in case.arrays] for case in group]
    if jit is None:
        return [_run(case, xp, given) for case, given in zip(group, arrays, strict=True)]
    errors: dict[int, Exception] = {}

    def program(arrays: Any) -> Any:
        results = [_run(case, xp, given) for case, given in zip(group, arrays, strict=True)]
        errors.update({at: x for at, x in enumerate(results) if isinstance(x, Exception)})
        return [None if isinstance(x, Exception) else x for x in results]

    results = jit(program)(arrays)
    return [errors.get(at, result) for at, result in enumerate(results)]


def _run(case: Case, xp: Any, arrays: Sequence[Any]) -> Any:
    try:
        result = case.made(xp)(*arrays)
        return tuple(result) if isinstance(result, (list, tuple)) else result
    except Exception as error:
        return error


# Names of parameters: before `/` by position only, after `*` by keyword only.
SIGNATURES = """
arange(start, /, stop, step, *, dtype, device)
asarray(obj, /, *, dtype, device, copy)
empty(shape, *, dtype, device)
empty_like(x, /, *, dtype, device)
eye(n_rows, n_cols, /, *, k, dtype, device)
from_dlpack(x, /, *, device, copy)
full(shape, fill_value, *, dtype, device)
full_like(x, /, fill_value, *, dtype, device)
linspace(start, stop, /, num, *, dtype, device, endpoint)
meshgrid(*arrays, indexing)
ones(shape, *, dtype, device)
ones_like(x, /, *, dtype, device)
tril(x, /, *, k)
triu(x, /, *, k)
zeros(shape, *, dtype, device)
zeros_like(x, /, *, dtype, device)
astype(x, dtype, /, *, copy, device)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min, max)
take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes)
vecdot(x1, x2, /, *, axis)
concat(arrays, /, *, axis)
expand_dims(x, /, *, axis)
flip(x, /, *, axis)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis)
reshape(x, /, shape, *, copy)
roll(x, /, shift, *, axis)
squeeze(x, /, axis)
stack(arrays, /, *, axis)
tile(x, repetitions, /)
unstack(x, /, *, axis)
argmax(x, /, *, axis, keepdims)
argmin(x, /, *, axis, keepdims)
count_nonzero(x, /, *, axis, keepdims)
nonzero(x, /)
searchsorted(x1, x2, /, *, side, sorter)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis, descending, stable)
sort(x, /, *, axis, descending, stable)
cumulative_prod(x, /, *, axis, dtype, include_initial)
cumulative_sum(x, /, *, axis, dtype, include_initial)
max(x, /, *, axis, keepdims)
mean(x, /, *, axis, keepdims)
min(x, /, *, axis, keepdims)
prod(x, /, *, axis, dtype, keepdims)
std(x, /, *, axis, correction, keepdims)
sum(x, /, *, axis, dtype, keepdims)
var(x, /, *, axis, correction, keepdims)
all(x, /, *, axis, keepdims)
any(x, /, *, axis, keepdims)
diff(x, /, *, axis, n, prepend, append)
fft.fft(x, /, *, n, axis, norm)
fft.ifft(x, /, *, n, axis, norm)
fft.fftn(x, /, *, s, axes, norm)
fft.ifftn(x, /, *, s, axes, norm)
fft.rfft(x, /, *, n, axis, norm)
fft.irfft(x, /, *, n, axis, norm)
fft.rfftn(x, /, *, s, axes, norm)
fft.irfftn(x, /, *, s, axes, norm)
fft.hfft(x, /, *, n, axis, norm)
fft.ihfft(x, /, *, n, axis, norm)
fft.fftfreq(n, /, *, d, dtype, device)
fft.rfftfreq(n, /, *, d, dtype, device)
fft.fftshift(x, /, *, axes)
fft.ifftshift(x, /, *, axes)
linalg.cholesky(x, /, *, upper)
linalg.cross(x1, x2, /, *, axis)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims, ord)
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol)
linalg.qr(x, /, *, mode)
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes)
linalg.trace(x, /, *, offset, dtype)
linalg.vecdot(x1, x2, /, *, axis)
linalg.vector_norm(x, /, *, axis, keepdims, ord)
"""
_ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor
imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
sign signbit sin sinh square sqrt tan tanh trunc"""
_TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"""

NAMES = """e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32
float64 complex64 complex128 __array_namespace_info__ __array_api_version__"""


def signatures() -> dict[str, str]:
    """The parameters of each function by its name."""
    found: dict[str, str] = {}
    for line in filter(None, SIGNATURES.split("\n")):
        name, _, found[name] = line.partition("(")
    found |= dict.fromkeys(_ONE.split(), "x, /)") | dict.fromkeys(_TWO.split(), "x1, x2, /)")
    return {name: text.rstrip(")") for name, text in found.items()}


def _signature(name: str, text: str) -> Judge:
    def check(xp: Any) -> None:
        own = inspect.signature(_named(xp, name)).parameters
        parameters = list(own.values())
        front, _, keywords = text.partition("*") if "*, " in text else (text, "", "")
        if text.startswith("*"):
            front, keywords = "", text.partition(", ")[2]
            assert parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
        only, bar, either = front.partition("/")
        if not bar:
            only, either = "", front
        takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        count = len([each for each in only.split(",") if each.strip()])
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        places = [each for each in parameters if each.kind in kinds]
        assert takes_any or len(places) >= count, f"{len(places)} parameters by position"
        # What has a default elsewhere than in the standard has its own name there, too.
        named = [each.strip() for each in (either + "," + keywords).split(",") if each.strip()]
        for each in named:
            assert each in own, f"no parameter {each}"
            assert own[each].kind is not inspect.Parameter.POSITIONAL_ONLY
        required = [each for each in places[count:] if each.default is each.empty]
        assert {each.name for each in required} <= set(named), "more parameters are required"

    return check


def _named(xp: Any, name: str) -> Any:
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


# Special cases of real numbers: operands and the result, of floats as they are written. "t" is any
# number between 1 and 2, "n" one between -2 and -1, "h" 0.5.
_CASES = """
abs: nan=nan -0=0 -inf=inf inf=inf
acos: nan=nan t=nan n=nan 1=0
acosh: nan=nan h=nan n=nan 1=0 inf=inf
add: nan,1=nan 1,nan=nan nan,nan=nan inf,-inf=nan -inf,inf=nan inf,inf=inf -inf,-inf=-inf inf,1=inf
add: -inf,1=-inf 1,inf=inf 1,-inf=-inf -0,-0=-0 -0,0=0 0,-0=0 0,0=0 0,t=t -0,t=t t,0=t t,-0=t t,n=0
asin: nan=nan t=nan n=nan 0=0 -0=-0
asinh: nan=nan 0=0 -0=-0 inf=inf -inf=-inf
atan: nan=nan 0=0 -0=-0 inf=pi/2 -inf=-pi/2
atan2: nan,1=nan 1,nan=nan t,0=pi/2 t,-0=pi/2 0,t=0 0,0=0 0,-0=pi 0,n=pi -0,t=-0 -0,0=-0 -0,-0=-pi
atan2: -0,n=-pi n,0=-pi/2 n,-0=-pi/2 t,inf=0 t,-inf=pi n,inf=-0 n,-inf=-pi inf,t=pi/2 -inf,t=-pi/2
atan2: inf,inf=pi/4 inf,-inf=3pi/4 -inf,inf=-pi/4 -inf,-inf=-3pi/4
atanh: nan=nan n=nan t=nan -1=-inf 1=inf 0=0 -0=-0
ceil: inf=inf -inf=-inf 0=0 -0=-0 nan=nan 3=3 h=1
copysign: h,-0=-h -h,0=h nan,1=nan 0,-1=-0 -inf,1=inf
cos: nan=nan 0=1 -0=1 inf=nan -inf=nan
cosh: nan=nan 0=1 -0=1 inf=inf -inf=inf
divide: nan,1=nan 1,nan=nan inf,inf=nan inf,-inf=nan 0,0=nan 0,-0=nan -0,0=nan 0,t=0 -0,t=-0 0,n=-0
divide: -0,n=0 t,0=inf t,-0=-inf n,0=-inf n,-0=inf inf,t=inf inf,n=-inf -inf,t=-inf -inf,n=inf
divide: t,inf=0 t,-inf=-0 n,inf=-0 n,-inf=0 inf,0=inf inf,-0=-inf
exp: nan=nan 0=1 -0=1 inf=inf -inf=0
expm1: nan=nan 0=0 -0=-0 inf=inf -inf=-1
floor: inf=inf -inf=-inf 0=0 -0=-0 nan=nan 3=3 h=0 -h=-1
floor_divide: nan,1=nan 1,nan=nan inf,inf=nan inf,-inf=nan 0,0=nan -0,0=nan 0,-0=nan 0,t=0 -0,t=-0
floor_divide: 0,n=-0 -0,n=0 t,0=inf t,-0=-inf n,0=-inf n,-0=inf inf,t=inf inf,n=-inf -inf,t=-inf
floor_divide: -inf,n=inf t,inf=0 t,-inf=-1 n,inf=-1 n,-inf=0 5,2=2 -5,2=-3 5,-2=-3 -5,-2=2
hypot: inf,nan=inf -inf,nan=inf nan,inf=inf nan,-inf=inf nan,1=nan 1,nan=nan 3,4=5 0,-0=0 -0,0=0
log: nan=nan n=nan 0=-inf -0=-inf 1=0 inf=inf -inf=nan
log1p: nan=nan -2=nan -1=-inf -0=-0 0=0 inf=inf
log2: nan=nan n=nan 0=-inf -0=-inf 1=0 inf=inf 8=3
log10: nan=nan n=nan 0=-inf -0=-inf 1=0 inf=inf 1000=3
logaddexp: nan,1=nan 1,nan=nan inf,1=inf 1,inf=inf -inf,-inf=-inf -inf,1=1 inf,inf=inf
maximum: nan,1=nan 1,nan=nan inf,1=inf -inf,1=1
minimum: nan,1=nan 1,nan=nan inf,1=1 -inf,1=-inf
multiply: nan,1=nan 1,nan=nan inf,0=nan -inf,-0=nan 0,inf=nan -0,-inf=nan inf,inf=inf inf,-inf=-inf
multiply: -inf,-inf=inf inf,t=inf inf,n=-inf t,-inf=-inf n,-inf=inf 0,n=-0 -0,n=0 0,-0=-0 -0,-0=0
negative: 0=-0 -0=0 nan=nan inf=-inf
nextafter: nan,1=nan 1,nan=nan 1,1=1 0,-0=-0 -0,0=0
pow: t,nan=nan 1,nan=1 nan,0=1 nan,-0=1 nan,t=nan t,inf=inf n,inf=inf t,-inf=0 n,-inf=0 1,inf=1
pow: 1,-inf=1 -1,inf=1 -1,-inf=1 h,inf=0 -h,inf=0 h,-inf=inf -h,-inf=inf inf,t=inf inf,n=0 0,0=1
pow: -inf,3=-inf -inf,2=inf -inf,t=inf -inf,-3=-0 -inf,-2=0 -inf,n=0 0,t=0 0,n=inf -0,3=-0 -0,2=0
pow: -0,t=0 -0,-3=-inf -0,-2=inf -0,n=inf n,t=nan 2,10=1024 inf,0=1 -inf,-0=1 t,0=1
reciprocal: inf=0 -inf=-0 0=inf -0=-inf nan=nan 2=h
remainder: nan,1=nan 1,nan=nan inf,inf=nan inf,-inf=nan 0,0=nan -0,0=nan 0,-0=nan 0,t=0 -0,t=0
remainder: 0,n=-0 -0,n=-0 t,0=nan t,-0=nan n,0=nan n,-0=nan inf,t=nan inf,n=nan -inf,t=nan
remainder: -inf,n=nan t,inf=t t,-inf=-inf n,inf=inf n,-inf=n 5,3=2 -5,3=1 5,-3=-1 -5,-3=-2 4,2=0
remainder: -4,2=0 4,-2=-0
round: inf=inf -inf=-inf 0=0 -0=-0 nan=nan h=0 -h=-0 t=2 2.5=2 3.5=4 -2.5=-2
sign: n=-1 t=1 0=?0 -0=?0 nan=nan inf=1 -inf=-1
sin: nan=nan 0=0 -0=-0 inf=nan -inf=nan
sinh: nan=nan 0=0 -0=-0 inf=inf -inf=-inf
sqrt: nan=nan n=nan 0=0 -0=-0 inf=inf -inf=nan
square: nan=nan -0=0 -inf=inf -3=9
subtract: nan,1=nan inf,inf=nan -inf,-inf=nan inf,-inf=inf -inf,inf=-inf 1,inf=-inf 1,-inf=inf
subtract: -0,0=-0 -0,-0=0 0,0=0 0,-0=0 t,t=0 inf,1=inf
tan: nan=nan 0=0 -0=-0 inf=nan -inf=nan
tanh: nan=nan 0=0 -0=-0 inf=1 -inf=-1
trunc: inf=inf -inf=-inf 0=0 -0=-0 nan=nan h=0 -h=-0 t=1 n=-1
"""
_BOOLEANS = """
isfinite: nan=0 inf=0 -inf=0 0=1 t=1
isinf: nan=0 inf=1 -inf=1 0=0
isnan: nan=1 inf=0 -nan=1 t=0
signbit: 0=0 -0=1 t=0 n=1 inf=0 -inf=1 nan=0 -nan=1
equal: nan,nan=0 nan,1=0 0,-0=1 inf,inf=1 inf,-inf=0 -inf,-inf=1
not_equal: nan,nan=1 nan,1=1 0,-0=0
less: nan,1=0 1,nan=0 -0,0=0 -inf,inf=1 inf,inf=0
less_equal: nan,1=0 1,nan=0 -0,0=1 inf,inf=1
greater: nan,1=0 1,nan=0 0,-0=0 inf,-inf=1
greater_equal: nan,1=0 nan,nan=0 0,-0=1 -inf,-inf=1
logical_and: nan,1=1 0,nan=0 -0,1=0
logical_or: nan,0=1 0,-0=0
logical_not: nan=0 -0=1 0=1 inf=0
logical_xor: nan,1=0 -0,nan=1
"""
_WORDS = {"t": 1.6, "n": -1.6, "h": 0.5, "-h": -0.5}


def _number(text: str) -> float:
    if "pi" in text:
        front, _, back = text.partition("pi")
        factor = {"": 1.0, "-": -1.0}.get(front) or float(front)
        return factor * PI / float(back[1:] or 1)
    return _WORDS[text] if text in _WORDS else float(text)


def _special(result: str, dtype: str, is_boolean: bool, at: int) -> Judge:
    def check(results: Any) -> None:
        found = np.asarray(results)
        assert found.dtype == (np.bool_ if is_boolean else dtype), found.dtype
        if is_boolean:
            assert bool(found[at]) == (result == "1"), found[at]
        else:
            _check_part(float(found[at]), result, dtype)

    return check


def _check_part(found: float, text: str, dtype: Any, negated: bool = False) -> None:
    """Asserts a number and, where the text does not begin with "?", its sign."""
    wanted = -_number(text.lstrip("?")) if negated else _number(text.lstrip("?"))
    if text.startswith("?"):
        found, wanted = abs(found), abs(wanted)
    np.testing.assert_allclose(found, wanted, rtol=8 * float(np.finfo(dtype).eps), atol=0)
    if not math.isnan(wanted):
        assert math.copysign(1, found) == math.copysign(1, wanted), f"the sign of {found}"


def _cases(text: str) -> Iterator[tuple[str, str, str]]:
    for line in filter(None, text.split("\n")):
        name, cases = line.split(": ")
        for case in cases.split():
            operands, result = case.split("=")
            yield name, operands, result


# Special cases of complex functions, of operands with imaginary parts >= 0: "a+bj", "?" where the
# sign is not given. Those with negative imaginary parts are conjugates; "odd" and "even" functions
# say the rest. Of finite parts "t" stands for 1.6.
_COMPLEX = """
acos: 0,0=pi/2,-0 -0,0=pi/2,-0 0,nan=pi/2,nan -0,nan=pi/2,nan t,inf=pi/2,-inf t,nan=nan,nan
acos: -inf,t=pi,-inf inf,t=0,-inf -inf,inf=3pi/4,-inf inf,inf=pi/4,-inf inf,nan=nan,?inf
acos: -inf,nan=nan,?inf nan,t=nan,nan nan,inf=nan,-inf nan,nan=nan,nan
acosh: 0,0=0,pi/2 -0,0=0,pi/2 t,inf=inf,pi/2 t,nan=nan,nan 0,nan=nan,pi/2 -inf,t=inf,pi inf,t=inf,0
acosh: -inf,inf=inf,3pi/4 inf,inf=inf,pi/4 inf,nan=inf,nan -inf,nan=inf,nan nan,t=nan,nan
acosh: nan,inf=inf,nan nan,nan=nan,nan
asinh: 0,0=0,0 t,inf=inf,pi/2 t,nan=nan,nan inf,t=inf,0 inf,inf=inf,pi/4 inf,nan=inf,nan nan,0=nan,0
asinh: nan,t=nan,nan nan,inf=?inf,nan nan,nan=nan,nan
atanh: 0,0=0,0 0,nan=0,nan 1,0=inf,0 t,inf=0,pi/2 t,nan=nan,nan inf,t=0,pi/2 inf,inf=0,pi/2
atanh: inf,nan=0,nan nan,t=nan,nan nan,inf=?0,pi/2 nan,nan=nan,nan
cosh: 0,0=1,0 0,inf=nan,?0 0,nan=nan,?0 t,inf=nan,nan t,nan=nan,nan inf,0=inf,0 inf,inf=inf,nan
cosh: inf,nan=inf,nan nan,0=nan,?0 nan,t=nan,nan nan,nan=nan,nan
exp: 0,0=1,0 -0,0=1,0 t,inf=nan,nan t,nan=nan,nan inf,0=inf,0 -inf,inf=?0,?0 inf,inf=?inf,nan
exp: -inf,nan=?0,?0 inf,nan=?inf,nan nan,0=nan,0 nan,t=nan,nan nan,nan=nan,nan
expm1: 0,0=0,0 -0,0=-0,0 t,inf=nan,nan t,nan=nan,nan inf,0=inf,0 -inf,inf=-1,?0 inf,inf=?inf,nan
expm1: -inf,nan=-1,?0 inf,nan=?inf,nan nan,0=nan,0 nan,t=nan,nan nan,nan=nan,nan
log: -0,0=-inf,pi 0,0=-inf,0 t,inf=inf,pi/2 t,nan=nan,nan -inf,t=inf,pi inf,t=inf,0
log: -inf,inf=inf,3pi/4 inf,inf=inf,pi/4 inf,nan=inf,nan -inf,nan=inf,nan nan,t=nan,nan
log: nan,inf=inf,nan nan,nan=nan,nan
log1p: -1,0=-inf,0 t,inf=inf,pi/2 t,nan=nan,nan -inf,t=inf,pi inf,t=inf,0 -inf,inf=inf,3pi/4
log1p: inf,inf=inf,pi/4 inf,nan=inf,nan -inf,nan=inf,nan nan,t=nan,nan nan,inf=inf,nan
log1p: nan,nan=nan,nan
sinh: 0,0=0,0 0,inf=?0,nan 0,nan=?0,nan t,inf=nan,nan t,nan=nan,nan inf,0=inf,0 inf,inf=?inf,nan
sinh: inf,nan=?inf,nan nan,0=nan,0 nan,t=nan,nan nan,nan=nan,nan
sqrt: 0,0=0,0 -0,0=0,0 t,inf=inf,inf nan,inf=inf,inf inf,inf=inf,inf -inf,inf=inf,inf t,nan=nan,nan
sqrt: -inf,t=0,inf inf,t=inf,0 -inf,nan=nan,?inf inf,nan=inf,nan nan,t=nan,nan nan,nan=nan,nan
tanh: 0,0=0,0 t,inf=nan,nan t,nan=nan,nan inf,t=1,?0 inf,inf=1,?0 inf,nan=1,?0 nan,0=nan,0
tanh: nan,t=nan,nan nan,nan=nan,nan 0,inf=?0,nan 0,nan=?0,nan
sign: 0,0=?0,?0 -0,0=?0,?0 nan,t=nan,nan t,nan=nan,nan 3,4=0.6,0.8
abs: inf,nan=inf nan,inf=inf -inf,t=inf nan,t=nan t,nan=nan 0,0=0 -0,0=0 3,4=5
"""


def _complex_special(result: str, dtype: Any, mirrored: bool, at: int) -> Judge:
    texts = result.split(",")
    parts = np.empty(0, dtype).real.dtype

    def check(results: Any) -> None:
        found = np.asarray(results)
        assert found.dtype == (dtype if len(texts) > 1 else parts), found.dtype
        _check_part(float(found[at].real), texts[0], parts)
        if len(texts) > 1:
            _check_part(float(found[at].imag), texts[1], parts, negated=mirrored)

    return check


INTEGERS = ["int8", "int16", "int32", "int64"]
NATURALS = ["uint8", "uint16", "uint32", "uint64"]
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]


def _promoted(first: str, second: str) -> str:
    """The standard's table, within kinds and of floats with complex numbers."""
    return np.result_type(first, second).name


def _pairs() -> Iterator[tuple[str, str]]:
    for kinds in (["bool"], [*INTEGERS], [*NATURALS], [*FLOATS, *COMPLEX]):
        yield from itertools.product(kinds, kinds)
    for first, second in itertools.product(INTEGERS, ["uint8", "uint16", "uint32"]):
        if np.result_type(first, second).kind == "i":
            yield first, second
            yield second, first


def _type_is(wanted: Any, at: int) -> Judge:
    def check(results: Any) -> None:
        assert results[at].dtype == np.dtype(wanted), f"{results[at].dtype} instead of {wanted}"

    return check


_KINDS_OF = {
    "add subtract multiply": [*INTEGERS, *NATURALS, *FLOATS, *COMPLEX],
    "divide pow": [*FLOATS, *COMPLEX],
    "atan2 copysign hypot logaddexp nextafter": FLOATS,
    "floor_divide remainder maximum minimum": [*INTEGERS, *NATURALS, *FLOATS],
    "bitwise_and bitwise_or bitwise_xor": ["bool", *INTEGERS, *NATURALS],
    "bitwise_left_shift bitwise_right_shift": [*INTEGERS, *NATURALS],
}
_COMPARISONS = {
    "equal not_equal": ["bool", *INTEGERS, *NATURALS, *FLOATS, *COMPLEX],
    "less less_equal greater greater_equal": [*INTEGERS, *NATURALS, *FLOATS],
    "logical_and logical_or logical_xor": ["bool"],
}


def _applied(name: str, pairs: Sequence[tuple[Any, Any]]) -> Callable[[Any], Any]:
    """From a namespace to a function that applies one to pairs of its arguments or of numbers."""

    def made(xp: Any) -> Callable[..., Any]:
        function = _named(xp, name)

        def applied(*xs: Any) -> Any:
            return [function(*[xs[int(x)] if isinstance(x, str) else x for x in p]) for p in pairs]

        return applied

    return made


def promotions() -> Iterator[Case]:
    """Types of results of two operands, and of one with a Python number."""
    for rows, is_boolean in ((_KINDS_OF, False), (_COMPARISONS, True)):
        for names, kinds in rows.items():
            arrays = [np.ones(2, kind) for kind in kinds]
            known = [pair for pair in _pairs() if {*pair} <= {*kinds}]
            pairs: list[tuple[Any, Any]] = [
                (str(kinds.index(first)), str(kinds.index(second))) for first, second in known
            ]
            wanted = [("bool" if is_boolean else _promoted(*pair)) for pair in known]
            said = [f"{first} and {second}" for first, second in known]
            for at, kind in enumerate([] if is_boolean else kinds):
                # A Python number takes the array's type.
                number = True if kind == "bool" else 1 if "int" in kind else 1.5
                pairs += [(str(at), number), (number, str(at))]
                wanted += [kind, kind]
                said += [f"{kind} and a Python number", f"a Python number and {kind}"]
            for name in names.split():
                judges = {
                    f"{name}: {text}": _type_is(kind, at)
                    for at, (text, kind) in enumerate(zip(said, wanted, strict=True))
                }
                yield Case(_applied(name, pairs), arrays, judges)


def elements() -> Iterator[Case]:
    """Special cases of functions of elements."""
    for text, is_boolean in ((_CASES, False), (_BOOLEANS, True)):
        for name, rows in itertools.groupby(sorted(_cases(text)), lambda row: row[0]):
            cases = [(operands, result) for _, operands, result in rows]
            for dtype in FLOATS:
                columns = zip(*[map(_number, given.split(",")) for given, _ in cases], strict=True)
                arrays = [np.array(column, dtype) for column in columns]
                judges = {
                    f"{name}({given}) is {result} in {dtype}": _special(
                        result, dtype, is_boolean, at
                    )
                    for at, (given, result) in enumerate(cases)
                }
                yield Case(lambda xp, name=name: _named(xp, name), arrays, judges)
    for name, rows in itertools.groupby(sorted(_cases(_COMPLEX)), lambda row: row[0]):
        cases = [(given, result) for _, given, result in rows]
        for dtype, mirrored in itertools.product(COMPLEX, (False, True)):
            array = np.zeros(len(cases), dtype)
            array.real, imaginary = zip(
                *[map(_number, x.split(",")) for x, _ in cases], strict=True
            )
            array.imag = np.negative(imaginary) if mirrored else imaginary
            word = " mirrored" * mirrored
            judges = {
                f"{name}({x}{word}) is {y} in {dtype}": _complex_special(y, dtype, mirrored, at)
                for at, (x, y) in enumerate(cases)
            }
            yield Case(lambda xp, name=name: _named(xp, name), [array], judges)


def namespace() -> Iterator[Case]:
    """Names and signatures."""
    for name in NAMES.split():
        yield question(f"{name} is there", lambda xp, name=name: getattr(xp, name) and None)
    for name, text in signatures().items():
        yield question(f"{name}({text})", _signature(name, text))
