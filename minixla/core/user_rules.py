"""Rules of users' operations, checked when they run: errors say which gave what."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.errors import DerivativeError, MinixlaError, ShapeError, TransformError, explain
from minixla.core.operation import Operation
from minixla.core.registry import OURS, registered
from minixla.core.shapes import Shape, TokenShape, TupleShape
from minixla.core.tracing import shape_of


def check_rules(kind: type[Any]) -> None:
    """Wraps the rules that a class, or a base of it outside this library, gives."""
    for name in _WANTED:
        home = next(base for base in kind.__mro__ if name in base.__dict__)
        is_checked = issubclass(home, Operation) and home in registered(home.name)
        if not is_checked and home.__module__.partition(".")[0] not in OURS:
            setattr(kind, name, _checked(name, home.__dict__[name]))


def _checked(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    wanted = _WANTED[name]

    @functools.wraps(rule)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        found = rule(self, *given, **named)
        missed = wanted(found, *given, **named)
        if missed:
            problem = f"its {name} rule gives something else than {missed}"
            shown = [f"rule of class {type(self).__name__}", f"given {_shown(found)}"]
            is_derivative = name in ("jvp", "vjp", "transpose")
            error = DerivativeError if is_derivative else TransformError
            raise explain(error, self.builder_name, problem, shown, f"Return {missed}.")
        return found

    return checked


def _shown(found: Any) -> str:
    if isinstance(found, (list, tuple)):
        return f"({', '.join(map(_shown, found))})"
    try:
        return str(shape_of(found))
    except (MinixlaError, TypeError, ValueError):
        return repr(found)


def _fit(found: Any, values: Any) -> bool:
    """Whether tangents or cotangents are None or have the shapes of the values."""
    if not isinstance(values, (list, tuple)):
        found, values = [found], [values]
    if not isinstance(found, Sequence) or len(found) != len(values):
        return False
    try:
        pairs = zip(found, values, strict=True)
        return all(each is None or shape_of(each) is shape_of(value) for each, value in pairs)
    except (ShapeError, TypeError):
        return False


# What a rule should have given, for what it gave and for its arguments; nothing if it did.


def _shapes(found: Any, *operands: Any) -> str:
    each = found if isinstance(found, tuple) else (found,)
    fits = all(isinstance(one, (Shape, TupleShape, TokenShape)) for one in each)
    return "" if fits else "a Shape, or a tuple of a Shape for each result"


def _tangents(found: Any, primals: Any, tangents: Any, results: Any) -> str:
    if found is None or _fit(found, results):
        return ""
    return f"tangents like its results, {_shown(results)}, or None for zero"


def _cotangents(found: Any, cotangents: Any, operands: Any, *others: Any, **named: Any) -> str:
    fits = _fit(found, operands)
    return "" if fits else f"a cotangent or None for each operand, {_shown(operands)}"


def _batched(found: Any, operands: Any, dimensions: Any) -> str:
    fits = isinstance(found, tuple) and len(found) == 2
    wanted = "a pair: the result (or a tuple) and its batch dimension (or one for each)"
    return "" if fits else wanted


_WANTED: dict[str, Callable[..., str]] = {
    "shape": _shapes,
    "jvp": _tangents,
    "vjp": _cotangents,
    "transpose": _cotangents,
    "batch": _batched,
}
