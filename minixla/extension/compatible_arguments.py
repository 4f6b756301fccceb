"""Changes of inputs and outputs, compared as single arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from minixla.core.attributes import REQUIRED
from minixla.extension.attribute_types import ListKind
from minixla.extension.compatibility_rules import Change, change
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration
from minixla.extension.types import type_name


def used(argument: ArgumentDeclaration) -> list[str]:
    """Return the attributes that the type of an input or output names."""
    return [label for label in (argument.number, argument.type) if isinstance(label, str)]


def of_arguments(old: Definition, new: Definition, side: str) -> Iterator[Change]:
    """Yield the changes among inputs or outputs.

    Both are compared as single arrays. A new attribute stands for its default, which stored
    programs have.
    """
    before, after = getattr(old, f"{side}s"), getattr(new, f"{side}s")
    first = [
        (part, argument) for argument in before.values() for part in _parts(argument, old, old)
    ]
    second = [
        (part, argument) for argument in after.values() for part in _parts(argument, new, old)
    ]
    for argument in after.values():
        if not _parts(argument, new, old):
            yield change(_of_empty(argument, new, old), argument.name, "", argument)
    types = [part for part, _ in first], [part for part, _ in second]
    if types[0] != types[1] and sorted(types[0]) == sorted(types[1]):
        texts = [", ".join(map(str, arguments.values())) for arguments in (before, after)]
        yield change("U6", f"{side}s", *texts)
        return
    kept: dict[str, list[ArgumentDeclaration]] = {}
    for how, *at in SequenceMatcher(None, *types, autojunk=False).get_opcodes():
        gone, come = first[at[0] : at[1]], second[at[2] : at[3]]
        if how != "equal":
            yield from _of_difference(gone, come, new)
            continue
        for (_, one), (_, two) in zip(gone, come, strict=True):
            kept.setdefault(two.name, []).append(one)
    for name, replaced in kept.items():
        yield from _of_kept(replaced, after[name], new, old, side)


def _parts(argument: ArgumentDeclaration, definition: Definition, old: Definition) -> list[str]:
    """Return the arrays of an input or output, as text; an old attribute stands for itself."""
    number, kind, attributes = argument.number, argument.type, definition.attributes

    def known(name: str) -> Any:
        return None if name in old.attributes else attributes[name].default

    if isinstance(kind, str):
        default = known(kind)
        is_list = isinstance(attributes[kind].kind, ListKind)
        if default is None or default is REQUIRED:
            types = [f"list {kind}" if is_list else f"${kind}"]
        else:
            types = list(map(type_name, default if is_list else [default]))
    else:
        types = [type_name(kind)]
    if number is None:
        return types
    count = known(number)
    return types * count if isinstance(count, int) else [f"{number} * {types[0]}"]


def _of_empty(argument: ArgumentDeclaration, new: Definition, old: Definition) -> str:
    """Return the rule for a list that is added and empty by default."""
    if argument.number is None:
        return "S18"
    if not isinstance(argument.type, str):
        return "S15"
    return "S17" if argument.type in old.attributes else "S16"


def _of_difference(
    gone: Sequence[tuple[str, ArgumentDeclaration]],
    come: Sequence[tuple[str, ArgumentDeclaration]],
    new: Definition,
) -> Iterator[Change]:
    for (part, one), (other, two) in zip(gone, come, strict=False):
        rule = "U5"
        if other.startswith("list "):
            rule = "U11" if " * " in part else "U10" if part.startswith("$") else "U5"
        yield change(rule, one.name, one, two)
    for _, one in gone[len(come) :]:
        yield change("U7", one.name, one)
    added = {added_argument.name: added_argument for _, added_argument in come[len(gone) :]}
    for argument in added.values():
        yield change("U4" if new.is_list(argument) else "U3", argument.name, "", argument)


def _of_kept(
    replaced: Sequence[ArgumentDeclaration],
    after: ArgumentDeclaration,
    new: Definition,
    old: Definition,
    side: str,
) -> Iterator[Change]:
    """Yield the changes of a declaration that still takes the same arrays."""
    before, count = replaced[0], len({argument.name for argument in replaced})
    if not old.is_list(before) and new.is_list(after):
        yield change(_of_list(before, after, count), after.name, before, after)
    elif before.type != after.type:
        yield change("S7", after.name, before, after)
    if before.is_reference != after.is_reference:
        is_safe = before.is_reference == (side == "input")
        rule = ("S21" if side == "input" else "S22") if is_safe else "U14"
        yield change(rule, after.name, before, after)
    if after.name not in [argument.name for argument in replaced]:
        yield change("S14" if side == "input" else "U15", after.name, before, after)


def _of_list(before: ArgumentDeclaration, after: ArgumentDeclaration, count: int) -> str:
    """Return the rule for arrays that become a list."""
    if after.number is None:
        return "S10" if count == 1 else "S13"
    if count > 1:
        return "S12"
    if isinstance(before.type, str):
        return "S11"
    return "S9" if isinstance(after.type, str) else "S8"
