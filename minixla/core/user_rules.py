"""Rules of users' operations, checked when they run: errors say which gave what."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.errors import DerivativeError, MinixlaError, ShapeError, TransformError, explain
from minixla.core.registry import OURS
from minixla.core.shapes import Shape, TokenShape, TupleShape
from minixla.core.tracing import shape_of

_Rule = Callable[..., Any]


def check_rules(kind: type[Any]) -> None:
    """Wraps the rules that a class, or a base of it outside this library, gives."""
    for name, checked in _CHECKED.items():
        home = next(base for base in kind.__mro__ if name in base.__dict__)
        if home.__module__.partition(".")[0] not in OURS:
            setattr(kind, name, checked(home.__dict__[name]))


def _refused(
    operation: Any, rule: str, found: Any, wanted: str, kind: type[MinixlaError] = TransformError
) -> MinixlaError:
    problem = f"its {rule} rule gives something else than {wanted}"
    given = [f"rule of class {type(operation).__name__}", f"given {_shown(found)}"]
    return explain(kind, operation.builder_name, problem, given, f"Return {wanted}.")


def _shown(found: Any) -> str:
    if isinstance(found, (list, tuple)):
        return f"({', '.join(map(_shown, found))})"
    try:
        return str(shape_of(found))
    except (MinixlaError, TypeError, ValueError):
        return repr(found)


def _shape(rule: _Rule) -> _Rule:
    @functools.wraps(rule)
    def shape(self: Any, *operands: Any) -> Any:
        found = rule(self, *operands)
        each = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(one, (Shape, TupleShape, TokenShape)) for one in each):
            raise _refused(self, "shape", found, "a Shape, or a tuple of a Shape for each result")
        return found

    return shape


def _jvp(rule: _Rule) -> _Rule:
    @functools.wraps(rule)
    def jvp(self: Any, primals: Any, tangents: Any, results: Any) -> Any:
        found = rule(self, primals, tangents, results)
        if found is not None and not _fit(found, results):
            wanted = f"tangents like its results, {_shown(results)}, or None for zero"
            raise _refused(self, "jvp", found, wanted, DerivativeError)
        return found

    return jvp


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


def _pulled(name: str) -> Callable[[_Rule], _Rule]:
    def checked(rule: _Rule) -> _Rule:
        @functools.wraps(rule)
        def pulled(self: Any, cotangents: Any, operands: Any, *given: Any) -> Any:
            found = rule(self, cotangents, operands, *given)
            if not _fit(found, operands):
                wanted = f"a cotangent or None for each operand, {_shown(operands)}"
                raise _refused(self, name, found, wanted, DerivativeError)
            return found

        return pulled

    return checked


def _batch(rule: _Rule) -> _Rule:
    @functools.wraps(rule)
    def batch(self: Any, operands: Any, dimensions: Any) -> Any:
        found = rule(self, operands, dimensions)
        if not isinstance(found, tuple) or len(found) != 2:
            wanted = "a pair: the result (or a tuple) and its batch dimension (or one for each)"
            raise _refused(self, "batch", found, wanted)
        return found

    return batch


_CHECKED = {
    "shape": _shape,
    "jvp": _jvp,
    "vjp": _pulled("vjp"),
    "transpose": _pulled("transpose"),
    "batch": _batch,
}
