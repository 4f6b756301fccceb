"""Convolutions of vectors, and polynomials: vectors of coefficients, the highest power first."""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.promotion import inexact_type
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import named
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import convert, kind_of, lifted
from minixla_ops.vocabulary import shorthand

_ARGUMENTS = """

Args:
    a: a vector.
    v: a vector; both are converted to one type, at least float.
    mode: "full" all sums of products, "same" as many as the longer vector has elements, from the
        middle, "valid" those where the vectors overlap entirely.
    precision: DEFAULT, HIGH or HIGHEST; see `minixla_ops.conv_general_dilated`.
    preferred_element_type: the type to sum in and return, for which integers stay integers.

Raises:
    ShapeError: one is no vector, or has no elements.
    AttributeValueError: the mode is unknown."""


def _sliding(name: str, text: str, default: str) -> Any:
    @one_program("a", "v")
    def public(
        a: Any,
        v: Any,
        mode: str = default,
        *,
        precision: Any = None,
        preferred_element_type: Any = None,
    ) -> Any:
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

    return named(public, name, text + _ARGUMENTS)


convolve = _sliding(
    "convolve", "The sums of products of a vector and another one reversed.", "full"
)
correlate = _sliding(
    "correlate",
    "The sums of products of a vector and the conjugate of another, moved along it.",
    "valid",
)


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value at `x` of the polynomial with coefficients `p`; `unroll` has no effect."""
    first, *rest = mnp.unstack(p) or [0]
    result = first + operands.keep_weak(shorthand.zeros(operands.operand_shape(x, "polyval")), x)
    for each in rest:
        result = result * x + each
    return result


def _vectors(name: str, *given: Any, is_inexact: bool = True) -> list[Any]:
    """Coefficients as vectors of one type."""
    for each in given:
        operands.shape_of_rank(each, range(2), name, "Give vectors of coefficients.")
    kind = operands.common_type(name, *given)
    kind = inexact_type(kind) if is_inexact else kind
    return [mnp.atleast_1d(lifted(convert(each, kind))) for each in given]


def _aligned(name: str, a1: Any, a2: Any) -> list[Any]:
    both = _vectors(name, a1, a2, is_inexact=False)
    size = max(each.shape[0] for each in both)
    return [mnp.pad(each, [(size - each.shape[0], 0)]) for each in both]


def polyadd(a1: Any, a2: Any) -> Any:
    """The coefficients of the sum of two polynomials."""
    first, second = _aligned("polyadd", a1, a2)
    return first + second


def polysub(a1: Any, a2: Any) -> Any:
    """The coefficients of the difference of two polynomials."""
    first, second = _aligned("polysub", a1, a2)
    return first - second


def _without_leading_zeros(name: str, p: Any, tolerance: float) -> Any:
    known = np.abs(operands.concrete(p, name, "Leave trim_leading_zeros out.")) > tolerance
    return getitem(p, slice(int(known.argmax()) if known.any() else p.shape[0] - 1, None))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The coefficients of the product of two polynomials.

    Args:
        a1: coefficients.
        a2: coefficients.
        trim_leading_zeros: whether to leave zeros of both out, which must be known.
    """
    both = _vectors("polymul", a1, a2)
    if trim_leading_zeros:
        both = [_without_leading_zeros("polymul", each, 0) for each in both]
    return convolve(*[each if each.shape[0] else mnp.zeros(1, kind_of(each)) for each in both])


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The coefficients of the quotient and of the remainder of two polynomials.

    Args:
        u: coefficients of the dividend.
        v: those of the divisor, the first not zero.
        trim_leading_zeros: whether to leave those of the remainder out, which must be known; they
            may be wrong by the square root of eps.

    Raises:
        ShapeError: `v` has no coefficients.
    """
    rest, divisor = _vectors("polydiv", u, v)
    size = divisor.shape[0]
    if not size:
        raise operands.shape_error("polydiv", "v has no coefficients", "Give one or more.")
    found = []
    for at in range(rest.shape[0] - size + 1):
        found.append(rest[at] / divisor[0])
        rest = IndexUpdate(rest, slice(at, at + size)).add(-found[-1] * divisor)
    quotient = mnp.stack(found) if found else mnp.zeros(1, kind_of(rest))
    if trim_leading_zeros:
        tolerance = math.sqrt(float(mnp.finfo(kind_of(rest).dtype).eps))
        rest = _without_leading_zeros("polydiv", rest, tolerance)
    return quotient, rest


def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the m-th derivative of a polynomial."""
    (values,) = _vectors("polyder", p)
    order = operands.static_size(m, "polyder", "m")
    factors = [math.perm(power, order) for power in range(values.shape[0] - 1, order - 1, -1)]
    return getitem(values, slice(0, len(factors))) * np.array(factors, kind_of(values).dtype)


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
    values, constants = _vectors("polyint", p, 0 if k is None else k)
    if constants.shape[0] not in (1, order):
        advice = f"Give one, or {order}."
        raise operands.shape_error("polyint", "k has not m constants", advice, m=m)
    constants = mnp.broadcast_to(constants, (order,))
    highest = values.shape[0] + order - 1
    divisors = [math.perm(power, order) for power in range(highest, order - 1, -1)]
    divisors += map(math.factorial, range(order - 1, -1, -1))
    return mnp.concatenate([values, constants]) / np.array(divisors, kind_of(values).dtype)


def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial whose zeros are given, the first coefficient being 1.

    Raises:
        ShapeError: the zeros are no vector. (Of matrices NumPy takes the eigenvalues.)
    """
    (zeros,) = _vectors("poly", seq_of_zeros)
    if not zeros.shape[0]:
        return mnp.ones((), kind_of(zeros))
    result = mnp.ones(1, kind_of(zeros))
    for zero in mnp.unstack(zeros):
        result = mnp.pad(result, [(0, 1)]) - zero * mnp.pad(result, [(1, 0)])
    return result
