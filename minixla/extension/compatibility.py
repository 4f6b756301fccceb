"""Checks that programs and callers of an operation work with a changed definition.

The rules are those of TensorFlow's op_compatibility_test: S1..S22 are safe, U1..U16 are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from minixla.core.attributes import REQUIRED
from minixla.core.errors import AttributeValueError, explain
from minixla.extension.attribute_types import EnumerationKind, Kind, ListKind, TypeKind
from minixla.extension.compatibility_rules import Change, CompatibilityReport, change
from minixla.extension.compatible_arguments import of_arguments, used
from minixla.extension.definitions import Definition
from minixla.extension.wrappers import given_attributes


def check_compatible(old: Any, new: Any) -> CompatibilityReport:
    """Check whether programs made with one definition of an operation work with another.

        report = mx.check_compatible(stored, my_op)
        assert report.ok, report

    Programs that were stored with the old definition must mean the same with the new one: S1..S22
    of op_compatibility_test are safe, U1..U16 are not. The signatures of the wrappers are compared
    as well: a change that is safe for programs may break Python calls ("graph-safe, call-unsafe").

    Args:
        old: an operation of `register_op`, or the result of its `definition.as_dict()`, as a
            dictionary or as JSON.
        new: the same, after the change.

    Returns:
        A report: `ok` (stored programs are safe), `is_call_safe`, `verdict`, `changes`.

    Raises:
        AttributeValueError: one of them is not a definition.

    Example:
        >>> make = lambda *attrs: mx.register_op(
        ...     "example.Scale",
        ...     attrs=attrs,
        ...     inputs=["x: float"],
        ...     outputs=["y: float"],
        ...     replace=True,
        ... )
        >>> old = make("factor: float").definition.as_dict()
        >>> mx.check_compatible(old, make("factor: float", "offset: float = 0")).ok
        True
    """
    first, second = _definition(old), _definition(new)
    changes = [*_of_attributes(first, second)]
    for side in ("input", "output"):
        changes += of_arguments(first, second, side)
    changes += _of_calls(first, second)
    return CompatibilityReport(second.name, changes or [change("S1", second.name)])


def _definition(source: Any) -> Definition:
    source = getattr(source, "definition", source)
    if isinstance(source, Definition):
        return source
    try:
        return Definition.from_dict(json.loads(source) if isinstance(source, str) else source)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, AttributeValueError):
            raise
        problem = f"{type(source).__name__} is not a definition of an operation"
        advice = "Pass an operation of mx.register_op, or its definition.as_dict()."
        details = [repr(source)[:200]]
        raise explain(AttributeValueError, "check_compatible", problem, details, advice) from None


def _of_attributes(old: Definition, new: Definition) -> Iterator[Change]:
    numbers = {value.number for value in (*old.inputs.values(), *old.outputs.values())}
    # Attributes of new lists and types are reported with their inputs and outputs.
    words = {
        word for value in (*new.inputs.values(), *new.outputs.values()) for word in used(value)
    }
    for name, before in old.attributes.items():
        after = new.attributes.get(name)
        if after is None:
            yield change("U1", name, before)
            continue
        for rule in _of_kind(before.kind, after.kind, name in numbers):
            yield change(rule, name, before, after)
        if before.default != after.default:
            yield change("U16", name, before, after)
    for name, after in new.attributes.items():
        if name not in old.attributes and after.default is REQUIRED:
            yield change("U2", name, "", after)
        elif name not in old.attributes and name not in words:
            yield change("S2", name, "", after)
    kept = [
        [name for name in one.attributes if name in two.attributes]
        for one, two in ((old, new), (new, old))
    ]
    if kept[0] != kept[1]:
        yield change("S6", "attributes", ", ".join(kept[0]), ", ".join(kept[1]))


def _of_kind(old: Kind, new: Kind, is_number: bool) -> Iterator[str]:
    """Yield the rules of a change from one kind to another."""
    if isinstance(old, ListKind) != isinstance(new, ListKind):
        yield "U9"
        return
    members = [kind.member if isinstance(kind, ListKind) else kind for kind in (old, new)]
    if _family(members[0]) != _family(members[1]):
        yield "U8"
        return
    allowed, wider = map(_allowed, members)
    if wider is None and allowed is not None:
        yield "S5" if isinstance(members[0], TypeKind) else "S3"
    elif wider is not None and (allowed is None or not allowed <= wider):
        yield "U12"
    elif wider is not None and wider != allowed:
        yield "S4" if isinstance(members[0], TypeKind) else "S3"
    lowest, least = old.minimum, new.minimum
    if least is not None and (lowest is None or least > lowest):
        yield "U13"
    elif lowest != least:
        yield "S19" if is_number or isinstance(old, ListKind) else "S20"


def _family(kind: Kind) -> type:
    """Return the type of a kind, regardless of the values that it is restricted to."""
    return EnumerationKind.__bases__[0] if isinstance(kind, EnumerationKind) else type(kind)


def _allowed(kind: Kind) -> set[Any] | None:
    """Return the values that a kind is restricted to."""
    names = kind.names if isinstance(kind, EnumerationKind) else getattr(kind, "allowed", None)
    return None if names is None else set(names)


def _of_calls(old: Definition, new: Definition) -> Iterator[Change]:
    """Yield the changes that break calls from Python: arguments that moved or were renamed."""
    before, after = list(_parameters(old)), list(_parameters(new))
    for at, one in enumerate(before):
        other = after[at] if at < len(after) else None
        if other is None or one[:2] != other[:2]:
            meaning = "an argument of the wrapper differs"
            yield Change("call", one[0], meaning, _shown(one), _shown(other))
    for argument in after[len(before) :]:
        if not argument[2]:
            meaning = "the wrapper needs one more argument"
            yield Change("call", argument[0], meaning, "", _shown(argument))


def _parameters(definition: Definition) -> Iterator[tuple[str, bool, bool]]:
    """Yield the wrapper's parameters: name, whether it takes a list, whether it is optional."""
    for argument in definition.inputs.values():
        yield argument.name, definition.is_list(argument), False
    for argument in given_attributes(definition):
        yield argument.name, False, argument.default is not REQUIRED


def _shown(parameter: tuple[str, bool, bool] | None) -> str:
    if parameter is None:
        return ""
    name, is_list, is_optional = parameter
    return f"{name}{': list' * is_list}{' = ...' * is_optional}"
