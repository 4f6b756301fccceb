"""Helpers for element-wise functions: promotion, weak types, names, custom derivatives."""

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
    """Return `function` with a public name and docstring, for functions made from tables."""
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, text
    return function


class Row(NamedTuple):
    """The differences between the functions of a family."""

    name: str  # the public name
    fold: Any = None  # the monoid, or the function, that computes the result
    filling: Any = None  # replaces NaN; None if NaN counts


def placeable(*names: str) -> Callable[[_Function], _Function]:
    """Let a function place its result by the keywords `device` and `out_sharding`.

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
    """Return a package's public names: those that star imports took from its modules, and `also`.

    They are the names of objects that the modules define (except `hidden` modules, which hold
    helpers), numbers, None or dtypes. Names that the modules only import leave the namespace.
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
        # The import system adds submodules; keep them.
        if f"{package}.{name}" not in sys.modules:
            del namespace[name]
    return names


# Decorators of element-wise functions. They add shared sections to docstrings.


def of_one(function: _Function) -> _Function:
    """Make a function of an array accept any array or scalar."""
    name = function.__name__

    @wraps(function)
    def public(x: Any, /) -> Any:
        operand_shape(x, name)
        return lifted(function(x))

    return cast(_Function, one_program()(_with_sections(public, ONE_OPERAND)))


def of_two(function: _Function) -> _Function:
    """Compile an operator of two operands as one program."""
    return one_program()(_with_sections(function, TWO_OPERANDS))


def _with_sections(function: Any, sections: str) -> Any:
    return documented(PARAMETERS, sections)(function)


def of_promoted(
    adjust: Adjustment | None = None, is_real: bool = False
) -> Callable[[_Function], _Function]:
    """Make a function of two arrays of one shape and element type accept any two operands.

    Args:
        adjust: maps the common type of the operands to the type of the arrays.
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


_NOT_COMPLEX = "it is not defined for complex numbers", "Pass their parts or absolute values."


def refuse_complex(name: str, kind: ElementType, how: tuple[str, str] = _NOT_COMPLEX) -> None:
    """Raise ShapeError with `how`, a problem and advice, if an element type is complex."""
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
    """Apply `function` to a float array, or to both parts of a complex one."""
    if kind_of(x).is_complex:
        return ops.complex(function(ops.real(x)), function(ops.imag(x)))
    return function(x)


def either(of_reals: Function, of_complex: Function) -> Function:
    """Return a function that chooses one of two by the element type of its argument."""
    return lambda x: (of_complex if kind_of(x).is_complex else of_reals)(x)


# Custom derivatives, for functions whose differentiated formulas lose digits or give NaN.


@cache
def with_rule(function: Function, rule: Function, nondiff_argnums: tuple[int, ...] = ()) -> Any:
    """Give `function` a custom derivative, in the form that `minixla.custom_jvp` takes."""
    custom = transforms().custom_jvp(function, nondiff_argnums=nondiff_argnums)
    custom.defjvp(rule)
    return custom


def with_derivatives(function: Function, *derivatives: Function | None) -> Function:
    """Give `function` of arrays custom derivatives.

    There is one for each operand: a function of the result and the operands, or None for zero.
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
    """Replace elements of `result` where `is_wrong`; compute `right` only if there are any."""
    branches = (lambda: ops.select(is_wrong, right(), result)), lambda: result
    return transforms().cond(mnp.any(is_wrong), *branches)


def root(x: Any) -> Any:
    """Compute the square root of numbers >= 0; its derivative at 0 is 0."""
    is_zero = x == 0
    positive = ops.select(is_zero, ones_like(x), x)
    return ops.select(is_zero, full_like(x, 0), ops.sqrt(positive))
