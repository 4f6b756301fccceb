"""Functions whose results, or whose choices, are booleans."""

import math
from collections.abc import Sequence
from typing import Any, overload

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Function, of_two, refuse_complex
from minixla.numpy.operands import (
    as_bool,
    lifted,
    listed,
    marked,
    operand_shape,
    promoted,
)
from minixla.numpy.shared_sections import BOOLEANS, PARAMETERS
from minixla.numpy.ufuncs import with_methods
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.conversion import sign_bit
from minixla_ops.helpers import shorthand


@of_two
@documented(BOOLEANS)
def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 == x2.

    Example:
        >>> np.equal(np.array([1, 2]), 2)
        Array([False,  True], dtype=bool)
    """
    return operators.equal(x1, x2)


@of_two
@documented(BOOLEANS)
def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 != x2.

    Example:
        >>> np.not_equal(np.array([1, 2]), 2)
        Array([ True, False], dtype=bool)
    """
    return operators.not_equal(x1, x2)


@of_two
@documented(BOOLEANS)
def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 > x2; complex numbers compare the real parts first.

    Example:
        >>> np.greater(np.array([1, 2, 3]), 2)
        Array([False, False,  True], dtype=bool)
    """
    return operators.greater(x1, x2)


@of_two
@documented(BOOLEANS)
def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 >= x2; complex numbers compare the real parts first.

    Example:
        >>> np.greater_equal(np.array([1, 2, 3]), 2)
        Array([False,  True,  True], dtype=bool)
    """
    return operators.greater_equal(x1, x2)


@of_two
@documented(BOOLEANS)
def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 < x2; complex numbers compare the real parts first.

    Example:
        >>> np.less(np.array([1, 2, 3]), 2)
        Array([ True, False, False], dtype=bool)
    """
    return operators.less(x1, x2)


@of_two
@documented(BOOLEANS)
def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether x1 <= x2; complex numbers compare the real parts first.

    Example:
        >>> np.less_equal(np.array([1, 2, 3]), 2)
        Array([ True,  True, False], dtype=bool)
    """
    return operators.less_equal(x1, x2)


def _both(subject: str, x1: Any, x2: Any) -> list[Any]:
    return promoted(subject, [as_bool(operand, subject) for operand in (x1, x2)])[0]


@with_methods(True)
@of_two
@documented(BOOLEANS)
def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether both operands are nonzero.

    Example:
        >>> np.logical_and(np.array([0, 1, 2]), np.array([1, 1, 0]))
        Array([False,  True, False], dtype=bool)
    """
    return ops.and_(*_both("logical_and", x1, x2))


@with_methods(False)
@of_two
@documented(BOOLEANS)
def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether at least one operand is nonzero.

    Example:
        >>> np.logical_or(np.array([0, 1, 2]), np.array([0, 1, 0]))
        Array([False,  True,  True], dtype=bool)
    """
    return ops.or_(*_both("logical_or", x1, x2))


@with_methods(False)
@of_two
@documented(BOOLEANS)
def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Test whether exactly one operand is nonzero.

    Example:
        >>> np.logical_xor(np.array([0, 1, 2]), np.array([0, 1, 0]))
        Array([False, False,  True], dtype=bool)
    """
    return ops.xor(*_both("logical_xor", x1, x2))


@one_program()
@documented(PARAMETERS, BOOLEANS)
def logical_not(x: ArrayLike, /) -> Array:
    """Test whether x is zero.

    Example:
        >>> np.logical_not(np.array([0.0, 1.0, np.nan]))
        Array([ True, False, False], dtype=bool)
    """
    return ops.not_(as_bool(x, "logical_not"))


def _test_of_parts(subject: str, x: Any, test: Function, join: Function, of_integers: bool) -> Any:
    """Test floats, or both parts of complex numbers; all integers have the same result."""
    shape = operand_shape(x, subject)
    kind = shape.element_type
    if kind.is_complex:
        return join(test(ops.real(x)), test(ops.imag(x)))
    return test(lifted(x)) if kind.is_float else mnp.full(shape.dimensions, of_integers)


_NO_SIGN = ("complex numbers have no sign", "Take the real part first.")


@one_program()
@documented(PARAMETERS, BOOLEANS)
def isfinite(x: ArrayLike, /) -> Array:
    """Test whether x is neither infinite nor NaN.

    Example:
        >>> np.isfinite(np.array([1.0, np.inf, np.nan]))
        Array([ True, False, False], dtype=bool)
    """
    return _test_of_parts("isfinite", x, ops.is_finite, ops.and_, True)


@one_program()
@documented(PARAMETERS, BOOLEANS)
def isinf(x: ArrayLike, /) -> Array:
    """Test whether x is infinite.

    Example:
        >>> np.isinf(np.array([1.0, np.inf, np.nan]))
        Array([False,  True, False], dtype=bool)
    """
    return _test_of_parts("isinf", x, lambda part: ops.abs(part) == math.inf, ops.or_, False)


@one_program()
@documented(PARAMETERS, BOOLEANS)
def isnan(x: ArrayLike, /) -> Array:
    """Test whether x is NaN.

    Example:
        >>> np.isnan(np.array([1.0, np.inf, np.nan]))
        Array([False, False,  True], dtype=bool)
    """
    return _test_of_parts("isnan", x, lambda part: ops.ne(part, part), ops.or_, False)


@documented(PARAMETERS)
@one_program()
def signbit(x: ArrayLike, /) -> Array:
    """Test whether the sign bit of x is set, also for -0.0.

    Raises:
        ShapeError: `x` is complex.

    Example:
        >>> np.signbit(np.array([-0.0, 0.0, -1.0]))
        Array([ True, False,  True], dtype=bool)
    """
    shape = operand_shape(x, "signbit")
    kind = shape.element_type
    refuse_complex("signbit", kind, _NO_SIGN)
    if not kind.is_float and kind.kind != "signed":
        return mnp.full(shape.dimensions, False)
    return sign_bit(lifted(x)) if kind.is_float else ops.lt(x, shorthand.full_like(x, 0))


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
@overload
def where(
    condition: ArrayLike,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> tuple[Array, ...]: ...
@documented(PARAMETERS)
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> Any:
    """Choose x where the condition is true and y elsewhere.

    With only the condition, return `nonzero(condition)`.

    Args:
        condition: an array of booleans, or of numbers, which are true if nonzero.
        x: an array.
        y: an array; all three broadcast together.
        size: see `nonzero`.
        fill_value: see `nonzero`.

    Returns:
        An array of the shape that the arguments broadcast to, with the common element type of x and
        y; with only the condition, a tuple of vectors of indices.

    Example:
        >>> x = np.array([-1.0, 2.0])
        >>> np.where(x > 0, x, 0)
        Array([0., 2.], dtype=float32)
    """
    if x is None and y is None:
        return mnp.nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        problem = "x and y must be passed together, without size and fill_value"
        advice = "Pass the condition, x and y; or the condition, with size if it is traced."
        raise operands.value_error("where", problem, advice)
    return _chosen(condition, x, y)


@one_program()
def _chosen(condition: Any, x: Any, y: Any) -> Any:
    mask = as_bool(condition, "where")
    (x, y), _, weak = promoted("where", (x, y))
    sizes = operators.broadcast_shapes([mask.shape, x.shape], "where")
    # A scalar condition applies to all elements.
    if sizes != x.shape or mask.ndim:
        mask, x, y = (operators.broadcast_to(operand, sizes) for operand in (mask, x, y))
    return marked(ops.select(mask, x, y), weak)


@documented(PARAMETERS)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """Choose from the first choice whose condition is true, element by element, or the default.

    An array in place of a list is split along its first axis.

    Args:
        condlist: a sequence of arrays of booleans.
        choicelist: an array for each condition, which broadcasts with it.
        default: the result where no condition is true.

    Returns:
        An array of the shape that all broadcast to, with the common type of the choices.

    Example:
        >>> x = np.arange(4)
        >>> np.select([x < 1, x < 3], [x, 10 * x], default=-1)
        Array([ 0, 10, 20, -1], dtype=int32)
    """
    condlist, choicelist = listed(condlist), listed(choicelist)
    if len(condlist) != len(choicelist) or not condlist:
        problem, advice = (
            "condlist and choicelist must be equally long",
            "Pass one or more of both.",
        )
        details = f"{len(condlist)} conditions, {len(choicelist)} choices"
        raise operands.type_error("select", problem, advice, details)
    *choices, result = operands.convert_all("select", [*choicelist, default])
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = where(condition, choice, result)
    return result
