"""Registered operations by name, each registrar's in a namespace of its own, and by role.

Transformations need a few: derivatives add cotangents, batching falls back on a loop, nested
programs are called. The core does not know which operations do that; the set that is imported says
so. Rules of users' operations are checked when they run: errors say which gave what.
"""

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minixla.core import errors
from minixla.core.errors import explain
from minixla.core.shapes import Shape, TokenShape, TupleShape
from minixla.core.tracer import shape_of

Class = TypeVar("Class", bound=type[Any])

_XLA = "xla"
#: The classes of XLA's operations by XLA's name (`DotGeneral`). Any: each has its own attributes.
REGISTRY: dict[str, type[Any]] = {}
#: The operations of each namespace by their names in it.
NAMESPACES: dict[str, dict[str, type[Any]]] = {_XLA: REGISTRY}
#: The packages whose operations are XLA's.
_OURS = ("minixla", "minixla_ops")
_ROLES: dict[str, Callable[..., Any]] = {}


def full_name(name: str, namespace: str, module: str) -> str:
    """What an operation is called: `my.Name`; without a namespace in XLA's.

    Where its class declares none, that is the top-level package of its module.
    """
    package = module.partition(".")[0]
    space = namespace or (_XLA if package in _OURS else package)
    return _joined(space, name)


def _joined(space: str, name: str) -> str:
    return name if space == _XLA else f"{space}.{name}"


def register(cls: Class) -> Class:
    """Class decorator: puts an operation into its namespace.

    Raises:
        ValueError: another operation of the namespace has the name, or the class has no docstring.
    """
    if registered(cls.name):
        raise ValueError(f"an operation named {cls.name} is registered already")
    if not inspect.getdoc(cls):
        raise ValueError(f"operation {cls.name} has no docstring")
    space, _, name = cls.name.rpartition(".")
    if space:
        _check_rules(cls)
    NAMESPACES.setdefault(space or _XLA, {})[name] = cls
    return cls


def registered(name: str) -> list[type[Any]]:
    """The operation of a full name, or nothing."""
    space, _, plain = name.rpartition(".")
    found = NAMESPACES.get(space or _XLA, {}).get(plain)
    return [] if found is None else [found]


def operation_named(name: str, module: str | None = None) -> type[Any]:
    """The class of the registered operation of a name.

    Args:
        name: with its namespace, `my.Name`; or without: XLA's operation of that name, else the
            only one in all other namespaces.
        module: what registers it, if that is not loaded yet.

    Raises:
        KeyError: there is none, or several other namespaces have one.
    """
    found = registered(name)
    if not found and module is not None:
        importlib.import_module(module)
        found = registered(name)
    if not found and "." not in name:
        found = [names[name] for names in NAMESPACES.values() if name in names]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join([each.name for each in found])
        raise KeyError(f"several operations are named {name}; give one of these names: {several}")
    known = [_joined(space, each) for space, names in NAMESPACES.items() for each in names]
    similar = ", ".join(difflib.get_close_matches(name, known)) or "none"
    raise KeyError(
        f"no operation is named {name}; similar names: {similar}; "
        f"namespaces: {', '.join(NAMESPACES)}"
    )


def fill_role(name: str, function: Callable[..., Any]) -> None:
    """Makes `function` the one that plays `name`.

    Roles: `add(x, y)`, `zeros(shape)`, `constant` and `tuple` (classes of operations: of a
    Literal, and of no attribute), `call(graph, *operands)`,
    `batch_by_loop(operation, operands, dimensions)`,
    `move_batch(value, from, to, size)`, `resize(value, like)` (see `linear.with_sizes_of`).
    """
    _ROLES[name] = function


def role(name: str) -> Callable[..., Any]:
    """The function that plays `name`."""
    found = _ROLES.get(name)
    if found is None:
        importlib.import_module("minixla_ops")
        found = _ROLES[name]
    return found


def _check_rules(kind: type[Any]) -> None:
    """Wraps the rules that a class, or a base of it outside this library, gives."""
    for name in _WANTED:
        home = next(base for base in kind.__mro__ if name in base.__dict__)
        is_checked = any(home in names.values() for names in NAMESPACES.values())
        if not is_checked and home.__module__.partition(".")[0] not in _OURS:
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
            error = errors.DerivativeError if is_derivative else errors.TransformError
            raise explain(error, self.builder_name, problem, shown, f"Return {missed}.")
        return found

    return checked


def _shown(found: Any) -> str:
    if isinstance(found, (list, tuple)):
        return f"({', '.join(map(_shown, found))})"
    try:
        return str(shape_of(found))
    except (errors.MinixlaError, TypeError, ValueError):
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
    except (errors.ShapeError, TypeError):
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
