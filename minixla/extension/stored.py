"""Custom operations in stored programs: their names, versions and attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from minixla.core import registry
from minixla.core.attributes import REQUIRED
from minixla.core.errors import ImportError_, explain
from minixla.extension.declared import DeclaredOperation

#: The name of the version among the attributes of a call in a text for reading.
VERSION = "minixla.version"


def stored_attributes(
    operation: DeclaredOperation, inferred: Collection[str] | None = None
) -> list[tuple[str, str]]:
    """Return the attributes in MLIR; `inferred` limits the ones that follow from inputs."""
    definition = operation.definition
    left_out = () if inferred is None else {*definition.inferred} - {*inferred}
    return [
        (name, declared.kind.foreign(operation.attr(name)))
        for name, declared in definition.attributes.items()
        if name not in left_out
    ]


def read_operation(
    target: str, version: int, values: Mapping[str, Any], shapes: Sequence[Any]
) -> DeclaredOperation | None:
    """Return the operation that a stored program calls by name; None if it is not registered.

    Args:
        target: the name, which the name of compiled code may follow.
        version: the version of the definition with which the program was made.
        values: the attributes as Python's numbers, strings, booleans, tuples and dictionaries.
        shapes: the shapes of the operands.

    Raises:
        ImportError_: an older version is registered.
        TypeError, ValueError: an attribute has a value that it cannot have.
    """
    kind = _registered(target)
    if kind is None:
        return None
    definition, names = kind.registered.definition, kind.field_names
    if version > kind.registered.version:
        problem = f"{kind.name} has version {version}, registered is {kind.registered.version}"
        advice = "Load the version of its package that the program was made with, or a newer one."
        raise explain(ImportError_, "import_stablehlo", problem, (), advice)
    attributes = {
        name: declared.kind.read_foreign(values[name])
        for name, declared in definition.attributes.items()
        if name in values
    }
    missing = [name for name in definition.inferred if name not in attributes]
    if missing:
        inferred = kind.registered.caller.inferred(_nested(definition, shapes))
        attributes.update({name: inferred[name] for name in missing if name in inferred})
    for name, declared in definition.attributes.items():
        if name not in attributes and declared.default is REQUIRED:
            raise ValueError(f"has no attribute {name}, which {kind.name} needs")
    return kind(**{names[name]: value for name, value in attributes.items()})


def _registered(target: str) -> type[DeclaredOperation] | None:
    """Return the class of the operation whose full name a target equals or begins with."""
    parts = target.split(".")
    for count in range(len(parts), 1, -1):
        kind = registry.registered(".".join(parts[:count]))
        if kind is not None and issubclass(kind, DeclaredOperation):
            return kind
    return None


def _nested(definition: Any, shapes: Sequence[Any]) -> list[Any]:
    """Return the operands' shapes by input; at most one input may be a list."""
    lists = [definition.is_list(value) for value in definition.inputs.values()]
    if sum(lists) > 1:
        raise ValueError("does not state how many arrays each of its inputs has")
    rest, count = iter(shapes), len(shapes) - lists.count(False)
    return [[next(rest) for _ in range(count)] if flag else next(rest) for flag in lists]
