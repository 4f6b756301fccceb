"""What functions of elements are made of: promotion, weak types, names, own derivatives."""

import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import ElementType
from minixla.core.hooks import transforms as transforms
from minixla.core.shapes import Shape
from minixla.core.tracebacks import hide_frames
from minixla.core.tracing import Tracer, one_program
from minixla.numpy import operands
from minixla.numpy.operands import inexact_operand, keep_weak, kind_of, lifted, marked, promoted
from minixla.numpy.shared_sections import (
    ONE_FLOAT,
    ONE_OPERAND,
    PARAMETERS,
    TWO_FLOATS,
    TWO_OPERANDS,
)
from minixla_ops.elementwise.operators import Adjustment, operand_shape
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers.shorthand import full_like, ones_like

Function = Callable[..., Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def named(function: Function, name: str, text: str, module: str = "minixla.numpy") -> Any:
    """`function` as a public one of this name and docstring, for those that tables make."""
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, text
    return function


class Row(NamedTuple):
    """What a function of a family has of its own."""

    name: str  # its public one
    fold: Any = None  # the monoid, or the function, that its result is made by
    filling: Any = None  # what stands in place of NaN; None where NaN counts


def placeable(*names: str) -> Callable[[_Function], _Function]:
    """Let a function say where its result is to be, by the keywords `device` and `out_sharding`.

    Args:
        names: the keywords that the function declares; it need not read them.

    Returns:
        A decorator.
    """

    def made(function: Any) -> Any:
        def with_places(*args: Any, **options: Any) -> Any:
            try:
                if options and not options.keys().isdisjoint(names):
                    places = [(name, options.pop(name, None)) for name in names]
                    result = function(*args, **options)
                    for name, place in places:
                        result = transforms().layouts.placed(result, place, name)
                    return result
                return function(*args, **options)
            except Exception as error:
                hide_frames(error)
                raise

        public: Any = wraps(function)(with_places)
        public.places = frozenset(names)  # for `one_program`
        return public

    return made


def offered(
    namespace: dict[str, Any], also: Sequence[str] = (), hidden: Sequence[str] = ()
) -> list[str]:
    """The names that a package offers, which stars have imported from its modules, and `also`.

    They name what the modules define themselves (but the `hidden` ones, which hold nothing for
    users), numbers, None or dtypes. What the modules have imported leaves the namespace.
    """
    package = namespace["__name__"]
    helpers = [f"{package}.{module}" for module in hidden]

    def is_own(value: Any) -> bool:
        home = getattr(value, "__module__", "numpy") or ""
        is_here = home in ("numpy", package) or home.startswith(f"{package}.")
        return is_here and home not in helpers and not isinstance(value, (ModuleType, dict, str))

    public = [(name, value) for name, value in namespace.items() if not name.startswith("_")]
    names = [name for name, value in public if name in also or is_own(value)]
    for name in {name for name, _ in public} - {*names}:
        # The import system put submodules there.
        if f"{package}.{name}" not in sys.modules:
            del namespace[name]
    return names


# Decorators of element-wise functions. They complete docstrings by sections that all share.


def of_one(function: _Function) -> _Function:
    """Make a function of an array accept any array or scalar."""
    name = function.__name__

    @wraps(function)
    def public(x: Any, /) -> Any:
        operand_shape(x, name)
        return lifted(function(x))

    return cast(_Function, one_program()(_with_sections(public, ONE_OPERAND)))


def of_two(function: _Function) -> _Function:
    """Make a program of an operator of two operands."""
    return one_program()(_with_sections(function, TWO_OPERANDS))


def _with_sections(function: Any, sections: str) -> Any:
    return documented(PARAMETERS, sections)(function)


def of_promoted(
    adjust: Adjustment | None = None, is_real: bool = False
) -> Callable[[_Function], _Function]:
    """Make a function of two arrays of one shape and element type accept any two operands.

    Args:
        adjust: converts their common type to that of the arrays.
        is_real: whether complex operands raise an error.

    Returns:
        A decorator.
    """

    def made(function: _Function) -> _Function:
        @wraps(function)
        def public(x1: Any, x2: Any) -> Any:
            operands, kind, weak = promoted(function.__name__, (x1, x2), adjust)
            if is_real:
                refuse_complex(function.__name__, kind)
            return marked(function(*operands), weak)

        sections = TWO_FLOATS if adjust is inexact_type else TWO_OPERANDS
        return cast(_Function, one_program()(_with_sections(public, sections)))

    return made


_NOT_COMPLEX = "it is not defined for complex numbers", "Give their parts or absolute values."


def refuse_complex(name: str, kind: ElementType, how: tuple[str, str] = _NOT_COMPLEX) -> None:
    """Raises ShapeError, saying the problem and the advice `how`, where a type is complex."""
    if kind.is_complex:
        raise operands.shape_error(name, *how)


def of_inexact(is_real: bool = False) -> Callable[[_Function], _Function]:
    """Make a function of a float or complex array accept any array or scalar.

    Args:
        is_real: whether complex operands raise an error.

    Returns:
        A decorator.
    """

    def made(function: _Function) -> _Function:
        name = function.__name__

        @wraps(function)
        def converted(x: Any, /) -> Any:
            if is_real:
                refuse_complex(name, kind_of(x, name))
            if isinstance(x, Tracer):
                shape = x._shape
                if type(shape) is Shape and shape.element_type.is_inexact and not x.weak_type:
                    return function(x)
            return keep_weak(function(inexact_operand(x, name)), x)

        return cast(_Function, one_program()(_with_sections(converted, ONE_FLOAT)))

    return made


def by_parts(function: Callable[[Any], Any], x: Any) -> Any:
    """`function` of a float array, or of both parts of a complex one."""
    if kind_of(x).is_complex:
        return ops.complex(function(ops.real(x)), function(ops.imag(x)))
    return function(x)


def either(of_reals: Function, of_complex: Function) -> Function:
    """The function of an array that one of two is, by the kind of its elements."""
    return lambda x: (of_complex if kind_of(x).is_complex else of_reals)(x)


# Derivatives of their own, for functions where those of the formulas lose digits or are NaN.


@cache
def with_rule(function: Function, rule: Function, nondiff_argnums: tuple[int, ...] = ()) -> Any:
    """`function` with a derivative of its own, as `minixla.custom_jvp` takes it."""
    custom = transforms().custom_jvp(function, nondiff_argnums=nondiff_argnums)
    custom.defjvp(rule)
    return custom


def with_derivatives(function: Function, *derivatives: Function | None) -> Function:
    """`function` of arrays with derivatives of its own.

    There is one for each operand, a function of the result and the operands, or None for zero.
    """

    def rule(derivative: Function) -> Function:
        return lambda tangent, result, *operands: tangent * derivative(result, *operands)

    @cache
    def made() -> Any:
        custom = transforms().custom_jvp(function)
        custom.defjvps(*[derivative and rule(derivative) for derivative in derivatives])
        return custom

    return lambda *operands: made()(*operands)


def mended(result: Any, is_wrong: Any, right: Callable[[], Any]) -> Any:
    """`result` with what is `right` where it is wrong, which is computed where anything is."""
    branches = (lambda: ops.select(is_wrong, right(), result)), lambda: result
    return transforms().cond(mnp.any(is_wrong), *branches)


def root(x: Any) -> Any:
    """The square root of numbers >= 0; its derivative at 0 is 0."""
    is_zero = x == 0
    positive = ops.select(is_zero, ones_like(x), x)
    return ops.select(is_zero, full_like(x, 0), ops.sqrt(positive))
