"""Convolutions of vectors, and polynomials: vectors of coefficients, the highest power first."""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.whole_programs import one_program, plain_flags, with_flags
from minixla.numpy import operands
from minixla.numpy.element_functions import named
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import convert, kind_of, lifted
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand

_SLIDING = """
Args:
    a: a vector.
    v: a vector; both are converted to a common float or complex type.
    mode: "full" for all sums, "same" for as many as the longer vector has elements, from the
        middle, "valid" for those where the vectors overlap entirely.
    precision: DEFAULT, HIGH or HIGHEST; see `minixla_ops.conv_general_dilated`.
    preferred_element_type: the type to sum in and return; integers then stay integers.

Returns:
    A vector.

Raises:
    ShapeError: an argument is not a vector, or has no elements.
    AttributeValueError: the mode is unknown.
"""


def _sliding(
    name: str, a: Any, v: Any, mode: str, precision: Any, preferred_element_type: Any
) -> Array:
    operands.refuse_others(mode, ("full", "same", "valid"), name, "mode")
    shapes = [operands.shape_of_rank(each, (1,), name, "Give vectors.") for each in (a, v)]
    if not all(each.size for each in shapes):
        problem, given = "a vector has no elements", map(str, shapes)
        raise operands.shape_error(name, problem, "Check for size 0 first.", *given)
    common = operands.common_type(name, a, v)
    kind = inexact_type(common) if preferred_element_type is None else common
    image, kernel = (lifted(convert(each, kind)) for each in (a, v))
    is_correlation, is_turned = name == "correlate", shapes[0].size < shapes[1].size
    kernel = mnp.conjugate(kernel) if is_correlation else kernel
    image, kernel = (kernel, image) if is_turned else (image, kernel)
    size = kernel.shape[0]
    low, high = {"full": (size - 1, size - 1), "same": (size // 2, (size - 1) // 2)}.get(
        mode, (0, 0)
    )
    found = ops.conv_general_dilated(
        mnp.reshape(image, (1, 1, -1)),
        mnp.reshape(kernel if is_correlation else mnp.flip(kernel), (1, 1, -1)),
        (1,),
        [(low, high)],
        precision_config=precision,
        preferred_element_type=preferred_element_type,
    )
    return mnp.flip(found[0, 0]) if is_correlation and is_turned else found[0, 0]


@one_program("a", "v")
@documented(_SLIDING)
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolve two vectors.

    Example:
        >>> np.convolve(np.array([1, 2, 3]), np.array([1, 1]))
        Array([1., 3., 5., 3.], dtype=float32)
    """
    return _sliding("convolve", a, v, mode, precision, preferred_element_type)


@one_program("a", "v")
@documented(_SLIDING)
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Correlate two vectors; the second is conjugated.

    Example:
        >>> np.correlate(np.array([1, 2, 3]), np.array([1, 1]))
        Array([3., 5.], dtype=float32)
    """
    return _sliding("correlate", a, v, mode, precision, preferred_element_type)


@one_program("p", "x")
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value at `x` of the polynomial with coefficients `p`; `unroll` has no effect."""
    operands.shape_of_rank(p, range(1, 99), "polyval", "Give coefficients.")
    first, *rest = mnp.unstack(p) or [0]
    zeros = operands.keep_weak(shorthand.zeros(operands.operand_shape(x, "polyval")), x)
    result = mnp.add(first, zeros)
    for each in rest:
        result = mnp.add(mnp.multiply(result, x), each)
    return result


def _vectors(name: str, *given: Any, is_inexact: bool = True, least: int = 0) -> list[Any]:
    """Coefficients as vectors of one type; the first has at least so many dimensions."""
    for at, each in enumerate(given):
        operands.shape_of_rank(
            each, range(0 if at else least, 2), name, "Give vectors of coefficients."
        )
    kind = operands.common_type(name, *given)
    kind = inexact_type(kind) if is_inexact else kind
    return [mnp.atleast_1d(lifted(convert(each, kind))) for each in given]


def _by_power(name: str, operation: Any, what: str) -> Any:
    def public(a1: Any, a2: Any) -> Any:
        both = _vectors(name, a1, a2, is_inexact=False)
        size = max(each.shape[0] for each in both)
        return operation(*[mnp.pad(each, [(size - each.shape[0], 0)]) for each in both])

    text = f"The coefficients of the {what} of two polynomials."
    return one_program("a1", "a2")(named(public, name, text))


polyadd = _by_power("polyadd", operators.add, "sum")
polysub = _by_power("polysub", operators.subtract, "difference")


def _without_leading_zeros(
    name: str, p: Any, tolerance: float, advice: str = "Leave trim_leading_zeros out."
) -> Any:
    known = np.abs(operands.concrete(p, name, advice)) > tolerance
    return getitem(p, slice(int(known.argmax()) if known.any() else p.shape[0] - 1, None))


@with_flags
def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The coefficients of the product of two polynomials.

    Args:
        a1: coefficients.
        a2: coefficients.
        trim_leading_zeros: whether to leave zeros of both out, which must be known.
    """
    if trim_leading_zeros:
        both = _vectors("polymul", a1, a2)
        a1, a2 = [_without_leading_zeros("polymul", each, 0) for each in both]
    return _product(a1, a2)


@one_program()
def _product(a1: Any, a2: Any) -> Any:
    both = _vectors("polymul", a1, a2)
    first, second = [each if each.shape[0] else mnp.zeros(1, kind_of(each)) for each in both]
    return convolve(first, second)


@with_flags
def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The coefficients of the quotient and of the remainder of two polynomials.

    Args:
        u: coefficients of the dividend.
        v: those of the divisor, the first not zero.
        trim_leading_zeros: whether to leave those of the remainder out, which must be known; they
            may be wrong by the square root of eps.

    Raises:
        IndexError: `v` has no coefficients.
    """
    rest, divisor = _vectors("polydiv", u, v)
    size = divisor.shape[0]
    if not size:
        raise operands.index_error("polydiv", "v has no coefficients", "Give one or more.")
    found = []
    for at in range(rest.shape[0] - size + 1):
        found.append(rest[at] / divisor[0])
        rest = IndexUpdate(rest, slice(at, at + size)).add(-found[-1] * divisor)
    quotient = mnp.stack(found) if found else mnp.zeros(1, kind_of(rest))
    if trim_leading_zeros:
        tolerance = math.sqrt(float(mnp.finfo(kind_of(rest).dtype).eps))
        rest = _without_leading_zeros("polydiv", rest, tolerance)
    return quotient, rest


@one_program("p")
def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the m-th derivative of a polynomial."""
    (values,) = _vectors("polyder", p, least=1)
    order = operands.static_size(m, "polyder", "m")
    factors = [math.perm(power, order) for power in range(values.shape[0] - 1, order - 1, -1)]
    return getitem(values, slice(0, len(factors))) * np.array(factors, kind_of(values).dtype)


@one_program("p")
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The coefficients of the m-th antiderivative of a polynomial.

    Args:
        p: coefficients.
        m: how often to integrate.
        k: the constants of integration, the first one's first; or one for all. Default 0.

    Raises:
        ShapeError: there are not `m` constants.
    """
    order = operands.static_size(m, "polyint", "m")
    values, constants = _vectors("polyint", p, 0 if k is None else k, least=1)
    if constants.shape[0] not in (1, order):
        advice = f"Give one, or {order}."
        raise operands.shape_error("polyint", "k has not m constants", advice, m=m)
    constants = mnp.broadcast_to(constants, (order,))
    highest = values.shape[0] + order - 1
    divisors = [math.perm(power, order) for power in range(highest, order - 1, -1)]
    divisors += map(math.factorial, range(order - 1, -1, -1))
    return mnp.concatenate([values, constants]) / np.array(divisors, kind_of(values).dtype)


@one_program("seq_of_zeros")
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial whose zeros are given, the first coefficient being 1.

    Args:
        seq_of_zeros: a vector of zeros; or a square matrix, whose eigenvalues they are.

    Raises:
        ShapeError: it is neither.
    """
    sizes = operands.operand_shape(seq_of_zeros, "poly").dimensions
    if len(sizes) == 2 and sizes[0] == sizes[1] != 0:
        seq_of_zeros = mnp.linalg.eigvals(seq_of_zeros)
    (zeros,) = _vectors("poly", seq_of_zeros)
    if not zeros.shape[0]:
        return mnp.ones((), kind_of(zeros))
    result = mnp.ones(1, kind_of(zeros))
    for zero in mnp.unstack(zeros):
        result = mnp.pad(result, [(0, 1)]) - zero * mnp.pad(result, [(1, 0)])
    return result


@with_flags
def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The zeros of a polynomial, complex numbers: eigenvalues of its companion matrix.

    Args:
        p: coefficients.
        strip_zeros: whether to leave out coefficients 0 in front, which must be known then; else
            there is a NaN for each of them, at the end.

    Raises:
        ShapeError: `p` is no vector.
    """
    (values,) = _vectors("roots", p)
    if strip_zeros:
        values = _without_leading_zeros("roots", values, 0, "Give strip_zeros=False.")
    return _zeros(values, strip_zeros)


@one_program("values")
def _zeros(values: Any, strip_zeros: bool) -> Any:
    count = values.shape[0] - 1
    if count < 1:
        return mnp.zeros(0, kind_of(values).complex)
    is_zero, places = values == 0, np.arange(count + 1)
    missing = 0
    if not strip_zeros:
        missing = mnp.where(mnp.all(is_zero), count, mnp.argmin(is_zero))
        values = mnp.take(values, (places + missing) % (count + 1))
        values = mnp.where((places == 0) & mnp.all(is_zero), 1, values)
    top = -getitem(values, slice(1, None)) / values[0]
    below = np.eye(count - 1, count, dtype=kind_of(values).dtype)
    found = mnp.linalg.eigvals(mnp.concatenate([mnp.expand_dims(top, 0), below]))
    if strip_zeros:
        return found
    found = mnp.take(found, mnp.argsort(found == 0))
    return mnp.where(places[:count] < count - missing, found, complex(math.nan, math.nan))


def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of the polynomial for which the sum of squares of its errors is least.

    Args:
        x: where the values are, a vector.
        y: the values, a vector; or a matrix with a column for each polynomial.
        deg: the degree.
        rcond: see `linalg.lstsq`; None stands for eps times the number of values.
        full: whether to give how it was found, too.
        w: a factor for each error.
        cov: whether to give covariances of the coefficients, too; "unscaled" for errors of
            variance 1.

    Returns:
        The coefficients; with `full` a tuple of these and what `linalg.lstsq` gives besides, and
        rcond; else with `cov` a pair of these and the covariances.

    Raises:
        ShapeError: x, y or w have other axes; or there are too few values for covariances.
        AttributeValueError: `deg` is negative.
    """
    plain_flags("polyfit", ["full", "cov"], {"full": full, "cov": isinstance(cov, str) or cov})
    order = operands.static_size(deg, "polyfit", "deg") + 1
    shapes = [operands.operand_shape(each, "polyfit") for each in (x, y, 0 if w is None else w)]
    (points, *_), (rows, *_) = [(*each.dimensions, 0) for each in shapes[:2]]
    is_wrong = shapes[0].rank != 1 or shapes[1].rank not in (1, 2) or rows != points or not points
    if is_wrong or (w is not None and shapes[2].dimensions != (points,)):
        problem = "x and y, or w, are not as long as each other, or of other ranks, or empty"
        advice = "Give vectors x and w [m], and y [m] or [m, k]."
        raise operands.shape_error("polyfit", problem, advice, *map(str, shapes))
    kind = inexact_type(operands.common_type("polyfit", x))
    rcond = points * float(mnp.finfo(kind.dtype).eps) if rcond is None else rcond
    matrix = mnp.vander(lifted(convert(x, kind)), order)
    is_vector = shapes[1].rank == 1
    values = mnp.expand_dims(y, 1) if is_vector else lifted(y)
    if w is not None:
        factors = mnp.expand_dims(w, 1)
        matrix, values = matrix * factors, values * factors
    scale = mnp.sqrt(mnp.sum(matrix * matrix, 0))
    matrix = matrix / scale
    found, residuals, rank, s = mnp.linalg.lstsq(matrix, values, rcond)
    found = found / mnp.expand_dims(scale, 1)
    found = mnp.squeeze(found, 1) if is_vector else found
    if full:
        return found, residuals, rank, s, mnp.asarray(rcond)
    if not cov:
        return found
    spread = mnp.linalg.inv(mnp.matmul(mnp.matrix_transpose(matrix), matrix))
    spread = mnp.expand_dims(spread / mnp.outer(scale, scale), 2)
    if cov != "unscaled":
        if points <= order:
            problem = f"there are {points} values, not more than coefficients"
            raise operands.shape_error("polyfit", problem, 'Give more, or cov="unscaled".')
        spread = spread * (residuals / (points - order))
    return found, mnp.squeeze(spread, 2) if spread.shape[2] == 1 and is_vector else spread
