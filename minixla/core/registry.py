"""Registered operations by name, each registrar's in a namespace of its own."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from minixla.core.operation import Operation

OperationClass = TypeVar("OperationClass", bound="Operation")

_XLA = "xla"
#: The classes of XLA's operations by XLA's name (`DotGeneral`). Any: each has its own attributes.
REGISTRY: dict[str, type[Any]] = {}
#: The operations of each namespace by their names in it.
NAMESPACES: dict[str, dict[str, type[Any]]] = {_XLA: REGISTRY}
#: The packages whose operations are XLA's.
OURS = ("minixla", "minixla_ops")


def full_name(name: str, namespace: str, module: str) -> str:
    """What an operation is called: `my.Name`; without a namespace in XLA's.

    Where its class declares none, that is the top-level package of its module.
    """
    package = module.partition(".")[0]
    space = namespace or (_XLA if package in OURS else package)
    return _joined(space, name)


def _joined(space: str, name: str) -> str:
    return name if space == _XLA else f"{space}.{name}"


def register(cls: type[OperationClass]) -> type[OperationClass]:
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
        from minixla.core.user_rules import check_rules  # it reads values, which are made later

        check_rules(cls)
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
