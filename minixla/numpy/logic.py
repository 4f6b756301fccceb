"""Functions whose results, or whose choices, are booleans."""

import math
from collections.abc import Sequence
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Function, named, of_two, refuse_complex
from minixla.numpy.operands import as_bool, convert, lifted, listed, marked, operand_shape, promoted
from minixla.numpy.ufuncs import with_methods
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.conversion import sign_bit
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand

equal = of_two("equal", "Whether x1 == x2.")
not_equal = of_two("not_equal", "Whether x1 != x2.")
greater = of_two("greater", "Whether x1 > x2; complex by real part first.")
greater_equal = of_two("greater_equal", "Whether x1 >= x2; complex by real part first.")
less = of_two("less", "Whether x1 < x2; complex by real part first.")
less_equal = of_two("less_equal", "Whether x1 <= x2; complex by real part first.")


def _logical(name: str, identity: bool, text: str, operation: Function) -> Any:
    def both(x1: Any, x2: Any, /) -> Any:
        return operation(*promoted(name, [as_bool(each, name) for each in (x1, x2)])[0])

    return with_methods(identity)(of_two(name, text, both))


logical_and = _logical("logical_and", True, "Whether both are not zero.", ops.and_)
logical_or = _logical("logical_or", False, "Whether at least one is not zero.", ops.or_)
logical_xor = _logical("logical_xor", False, "Whether just one is not zero.", ops.xor)


@one_program()
def logical_not(x: Any, /) -> Any:
    """Whether x is zero."""
    return ops.not_(as_bool(x, "logical_not"))


def _test_of_parts(
    name: str, test: Function, text: str, join: Function | None = ops.or_, of_integers: bool = False
) -> Any:
    """A test of floats, and of both parts of complex numbers; integers have one answer."""

    def tested(x: Any, /) -> Any:
        shape = operand_shape(x, name)
        kind = shape.element_type
        if join is None:
            refuse_complex(name, kind, _NO_SIGN)
        elif kind.is_complex:
            return join(test(ops.real(x)), test(ops.imag(x)))
        return test(lifted(x)) if kind.is_float else mnp.full(shape.dimensions, of_integers)

    return one_program()(named(tested, name, text))


_NO_SIGN = ("complex numbers have no sign", "Take the real part first.")
isfinite = _test_of_parts(
    "isfinite", ops.is_finite, "Whether x is neither infinite nor NaN.", ops.and_, True
)
isinf = _test_of_parts("isinf", lambda x: ops.abs(x) == math.inf, "Whether x is infinite.")
isnan = _test_of_parts("isnan", lambda part: ops.ne(part, part), "Whether x is NaN.")


def _test_of_infinity(name: str, infinity: float) -> Any:
    test = _test_of_parts(name, lambda x: x == infinity, "", None)

    def tested(x: Any, /, out: None = None) -> Any:
        operands.refuse_out(name, out)
        return test(x)

    return named(tested, name, f"Whether a real x is {infinity}; `out` is not supported.")


isposinf, isneginf = (
    _test_of_infinity("isposinf", math.inf),
    _test_of_infinity("isneginf", -math.inf),
)


@one_program()
def signbit(x: Any, /) -> Any:
    """Whether the sign bit of x is set: of -0.0 too."""
    shape = operand_shape(x, "signbit")
    kind = shape.element_type
    refuse_complex("signbit", kind, _NO_SIGN)
    if not kind.is_float and kind.kind != "signed":
        return mnp.full(shape.dimensions, False)
    return sign_bit(lifted(x)) if kind.is_float else ops.lt(x, shorthand.full_like(x, 0))


def _test_of_imag(name: str, test: Function, text: str) -> Any:
    def tested(x: Any) -> Any:
        return test(mnp.imag(x), 0)

    return one_program()(named(tested, name, f"Whether the imaginary part of x is {text}."))


iscomplex = _test_of_imag("iscomplex", not_equal, "not zero")
isreal = _test_of_imag("isreal", equal, "zero")


def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """X where the condition is true and y elsewhere; with the condition alone, `nonzero`.

    Args:
        condition: an array of booleans (or numbers: true where not zero).
        x: an array.
        y: an array; all three broadcast together.
        size: see `nonzero`.
        fill_value: see `nonzero`.

    Raises:
        AttributeValueError: only one of x and y is given.
    """
    if x is None and y is None:
        return mnp.nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        problem = "its arguments do not go together"
        advice = "Give the condition, x and y; or the condition, with size if it is traced."
        raise operands.value_error("where", problem, advice)
    return _chosen(condition, x, y)


@one_program()
def _chosen(condition: Any, x: Any, y: Any) -> Any:
    mask = as_bool(condition, "where")
    (x, y), _, weak = promoted("where", (x, y))
    sizes = operators.broadcast_shapes([mask.shape, x.shape], "where")
    # A scalar condition chooses for all.
    if sizes != x.shape or mask.ndim:
        mask, x, y = (operators.broadcast_to(each, sizes) for each in (mask, x, y))
    return marked(ops.select(mask, x, y), weak)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """From the first choice whose condition is true, element by element; else the default.

    An array in place of a list is taken apart along its first axis.

    Raises:
        AttributeValueError: there are not as many conditions as choices, or none.
    """
    condlist, choicelist = listed(condlist), listed(choicelist)
    if len(condlist) != len(choicelist) or not condlist:
        problem, advice = "there is not one choice for each condition", "Give one or more of both."
        given = f"{len(condlist)} conditions, {len(choicelist)} choices"
        raise operands.type_error("select", problem, advice, given)
    *choices, result = operands.convert_all("select", [*choicelist, default])
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = where(condition, choice, result)
    return result


@one_program("a", "b")
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol * |b|, or a == b."""
    (a, b), kind, _ = promoted("isclose", (a, b), inexact_type)
    rtol, atol = (convert(each, kind.real) for each in (rtol, atol))
    error, bound = ops.abs(a - b), ops.abs(b) * rtol + atol
    close = (a == b) | (isfinite(b) & (error <= bound))
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@one_program("a", "b")
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close; see `isclose`."""
    return mnp.all(isclose(a, b, rtol, atol, equal_nan))


@one_program()
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements."""
    a1, a2 = mnp.asarray(a1), mnp.asarray(a2)
    if a1.shape != a2.shape:
        return mnp.full((), False)
    same = equal(a1, a2)
    return mnp.all(same | (isnan(a1) & isnan(a2)) if equal_nan else same)
