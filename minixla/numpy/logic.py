"""Functions whose results, or whose choices, are booleans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy.arithmetic import of_two_operands
from minixla.numpy.operands import (
    convert_all,
    lifted,
    listed,
    marked,
    operand_shape,
    promote_any,
    promote_inexact,
)
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import broadcast_shapes, broadcast_to, convert
from minixla_ops.vocabulary.shorthand import full_like, splat

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "iscomplex",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "select",
    "signbit",
    "where",
]

equal = of_two_operands("equal", operators.equal, "Whether x1 == x2.")
not_equal = of_two_operands("not_equal", operators.not_equal, "Whether x1 != x2.")
greater = of_two_operands(
    "greater", operators.greater, "Whether x1 > x2; complex by real part first."
)
greater_equal = of_two_operands(
    "greater_equal", operators.greater_equal, "Whether x1 >= x2; complex by real part first."
)
less = of_two_operands("less", operators.less, "Whether x1 < x2; complex by real part first.")
less_equal = of_two_operands(
    "less_equal", operators.less_equal, "Whether x1 <= x2; complex by real part first."
)


def as_bool(x: Any, subject: str) -> Any:
    """Where `x` is not zero, as pred."""
    kind = operand_shape(x, subject).element_type
    x = lifted(x)
    return x if kind.kind == "pred" else ops.ne(x, full_like(x, 0))


def _logical(name: str, operation: Callable[[Any, Any], Any], text: str) -> Any:
    def of_two(x1: Any, x2: Any) -> Any:
        sizes = broadcast_shapes([operand_shape(x, name).dimensions for x in (x1, x2)], name)
        return operation(*[broadcast_to(as_bool(x, name), sizes) for x in (x1, x2)])

    return of_two_operands(name, of_two, text)


logical_and = _logical("logical_and", ops.and_, "Whether both are not zero.")
logical_or = _logical("logical_or", ops.or_, "Whether at least one is not zero.")
logical_xor = _logical("logical_xor", ops.xor, "Whether just one is not zero.")


def logical_not(x: Any, /) -> Any:
    """Whether x is zero."""
    return ops.not_(as_bool(x, "logical_not"))


def _everywhere(answer: bool, shape: Shape) -> Any:
    return lifted(splat(answer, Shape("pred", shape.dimensions)))


def _of_parts(
    name: str, x: Any, test: Callable[[Any], Any], join: Callable[[Any, Any], Any], default: bool
) -> Any:
    """A test of floats, of both parts of complex numbers; integers have one answer."""
    shape = operand_shape(x, name)
    kind = shape.element_type
    if kind.is_complex:
        return join(test(ops.real(x)), test(ops.imag(x)))
    return test(lifted(x)) if kind.is_float else _everywhere(default, shape)


def isfinite(x: Any, /) -> Any:
    """Whether x is neither infinite nor NaN."""
    return _of_parts("isfinite", x, ops.is_finite, ops.and_, True)


def isinf(x: Any, /) -> Any:
    """Whether x is infinite."""
    return _of_parts("isinf", x, lambda part: operators.absolute(part) == math.inf, ops.or_, False)


def isnan(x: Any, /) -> Any:
    """Whether x is NaN."""
    return _of_parts("isnan", x, lambda part: ops.ne(part, part), ops.or_, False)


def _is_infinity(name: str, x: Any, infinity: float) -> Any:
    if operand_shape(x, name).element_type.is_complex:
        raise explain(
            ShapeError, name, "complex numbers have no sign", advice="Take the real part first."
        )
    return _of_parts(name, x, lambda part: part == infinity, ops.or_, False)


def isposinf(x: Any, /) -> Any:
    """Whether x is inf.

    Raises:
        ShapeError: x is complex.
    """
    return _is_infinity("isposinf", x, math.inf)


def isneginf(x: Any, /) -> Any:
    """Whether x is -inf.

    Raises:
        ShapeError: x is complex.
    """
    return _is_infinity("isneginf", x, -math.inf)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit of x is set: of -0.0 too.

    Raises:
        ShapeError: x is complex.
    """
    shape = operand_shape(x, "signbit")
    kind = shape.element_type
    if kind.is_complex:
        raise explain(
            ShapeError,
            "signbit",
            "complex numbers have no sign",
            advice="Take the real part first.",
        )
    if kind.is_float:
        x = ops.bitcast_convert_type(lifted(x), f"s{kind.bits}")
    elif kind.kind != "signed":
        return _everywhere(False, shape)
    return ops.lt(x, full_like(x, 0))


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part of x is not zero."""
    from minixla.numpy.elementwise import imag

    return not_equal(imag(x), 0)


def isreal(x: Any) -> Any:
    """Whether the imaginary part of x is zero."""
    return logical_not(iscomplex(x))


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
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
        from minixla.numpy.taking import nonzero

        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        raise explain(
            AttributeValueError,
            "where",
            "its arguments do not go together",
            advice="Give the condition, x and y; or the condition, with size if it is traced.",
        )
    return _chosen(condition, x, y)


@one_program()
def _chosen(condition: Any, x: Any, y: Any) -> Any:
    mask = as_bool(condition, "where")
    (x, y), _, weak = promote_any("where", x, y)
    own = operand_shape(x, "where").dimensions
    sizes = broadcast_shapes([operand_shape(mask, "where").dimensions, own], "where")
    # A scalar condition chooses for all.
    mask = mask if sizes == own and mask.ndim == 0 else broadcast_to(mask, sizes)
    return marked(ops.select(mask, broadcast_to(x, sizes), broadcast_to(y, sizes)), weak)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """From the first choice whose condition is true, element by element; else the default.

    An array in place of a list is taken apart along its first axis.

    Raises:
        AttributeValueError: there are not as many conditions as choices, or none.
    """
    condlist, choicelist = listed(condlist), listed(choicelist)
    if len(condlist) != len(choicelist) or not condlist:
        raise explain(
            AttributeValueError,
            "select",
            "there is not one choice for each condition",
            [f"{len(condlist)} conditions, {len(choicelist)} choices"],
            "Give one choice for each condition, at least one.",
        )
    *choices, result = convert_all("select", [*choicelist, default])
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = where(condition, choice, result)
    return result


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol * |b|, or a == b."""
    (a, b), kind, _ = promote_inexact("isclose", a, b)
    rtol, atol = (convert(each, kind.real) for each in (rtol, atol))
    error, bound = ops.abs(a - b), ops.abs(b) * rtol + atol
    close = (a == b) | (isfinite(b) & (error <= bound))
    return close | (isnan(a) & isnan(b)) if equal_nan else close


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close; see `isclose`."""
    from minixla.numpy.reductions import all

    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements."""
    from minixla.numpy.creation import asarray
    from minixla.numpy.reductions import all

    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return _everywhere(False, Shape("pred"))
    same = equal(a1, a2)
    return all(same | (isnan(a1) & isnan(a2)) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast together and are equal then."""
    from minixla.numpy.creation import asarray
    from minixla.numpy.reductions import all

    a1, a2 = asarray(a1), asarray(a2)
    try:
        broadcast_shapes([a1.shape, a2.shape], "array_equiv")
    except ShapeError:
        return _everywhere(False, Shape("pred"))
    return all(equal(a1, a2))


def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """Whether each element is one of `test_elements`; compares all pairs."""
    from minixla.numpy.creation import asarray
    from minixla.numpy.manipulation import expand_dims, ravel
    from minixla.numpy.reductions import any

    found = any(equal(expand_dims(asarray(element), -1), ravel(asarray(test_elements))), -1)
    return ops.not_(found) if invert else found
