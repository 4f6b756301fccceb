"""Whether programs and callers of an operation still work with a changed definition.

The rules are those of TensorFlow's op_compatibility_test: S1..S22 are safe, U1..U16 are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from minixla.core.attributes import REQUIRED
from minixla.core.errors import AttributeValueError, explain
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration
from minixla.extension.kinds import EnumerationKind, Kind, ListKind, TypeKind
from minixla.extension.types import type_name
from minixla.tools.reports import Report, Table

_RULES = {
    "S1": "nothing changes",
    "S2": "an attribute with a default is added",
    "S3": "more strings are allowed",
    "S4": "more types are allowed",
    "S5": "any type is allowed",
    "S6": "attributes stand in another order",
    "S7": "a type becomes an attribute that has it for a default",
    "S8": "an array becomes a list of one by default",
    "S9": "an array becomes a list of one, of its type, by default",
    "S10": "an array becomes a list of types, of its own by default",
    "S11": "an array becomes a list of one of the same attribute's type",
    "S12": "arrays become a list of as many by default",
    "S13": "arrays become a list of types, of theirs by default",
    "S14": "an input has another name",
    "S15": "a list of a fixed type is added, empty by default",
    "S16": "a list of a new attribute's type is added, empty by default",
    "S17": "a list of an old attribute's type is added, empty by default",
    "S18": "a list of types is added, empty by default",
    "S19": "a list may be shorter",
    "S20": "an integer may be smaller",
    "S21": "an input is no reference any more",
    "S22": "an output becomes a reference",
    "U1": "an attribute is gone",
    "U2": "an attribute without a default is added",
    "U3": "an array is added",
    "U4": "a list is added that is not empty by default",
    "U5": "an array has another type",
    "U6": "arrays stand in another order",
    "U7": "an array is gone",
    "U8": "an attribute is of another kind",
    "U9": "an attribute becomes a list, or one of a list",
    "U10": "an array's type becomes a list of types",
    "U11": "a list of one type becomes a list of types",
    "U12": "fewer values are allowed",
    "U13": "a minimum is higher, or new",
    "U14": "an input becomes a reference, or an output is none any more",
    "U15": "an output has another name",
    "U16": "a default is another, new or gone",
}
_ADVICE = "Register the changed operation under a new name, and keep the old one."


class Change(NamedTuple):
    """One difference between two definitions.

    Attributes:
        rule: S1..S22 or U1..U16; "call" where only Python's callers are concerned.
        subject: the attribute, input or output.
        meaning: what the difference is.
        old, new: the declarations; empty where there is none.
    """

    rule: str
    subject: str
    meaning: str
    old: str = ""
    new: str = ""


@dataclass(repr=False, eq=False)
class CompatibilityReport(Report):
    """What `check_compatible` found; printed, it is a table.

    Attributes:
        name: of the operation.
        changes: all that differs.
    """

    name: str
    changes: list[Change]

    @property
    def ok(self) -> bool:
        """Whether stored programs mean the same with the new definition."""
        return not any(change.rule.startswith("U") for change in self.changes)

    @property
    def is_call_safe(self) -> bool:
        """Whether Python's calls of the old wrapper are calls of the new one."""
        return self.ok and not any(change.rule == "call" for change in self.changes)

    @property
    def verdict(self) -> str:
        """`safe`, `graph-safe, call-unsafe` or `unsafe`."""
        graph_safe = "safe" if self.is_call_safe else "graph-safe, call-unsafe"
        return graph_safe if self.ok else "unsafe"

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {**super().as_dict(), "ok": self.ok, "verdict": self.verdict}

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        bad = [n for n, each in enumerate(self.changes) if not each.rule.startswith("S")]
        table = Table(("rule", "of", "change", "old", "new"), self.changes, bad)
        notes = [] if self.ok else [_ADVICE]
        if self.verdict.startswith("graph-safe"):
            notes = ["Keep a wrapper with the old signature; only append optional arguments."]
        return f"check_compatible of {self.name}: {self.verdict}", [table], notes


def check_compatible(old: Any, new: Any) -> CompatibilityReport:
    """Says whether what was made with one definition of an operation works with another.

        report = mx.check_compatible(stored, my_op)
        assert report.ok, report

    Programs that were stored with the old definition must mean the same with the new one: S1..S22
    of op_compatibility_test are safe, U1..U16 are not. The signatures of the wrappers are compared
    as well: what is safe for programs may break Python's calls ("graph-safe, call-unsafe").

    Args:
        old: an operation of `register_op`, or what its `definition.as_dict()` gave, as a dictionary
            or as JSON.
        new: the same, after the change.

    Returns:
        A report: `ok` (stored programs are safe), `is_call_safe`, `verdict`, `changes`.

    Raises:
        AttributeValueError: one of them is no definition.
    """
    first, second = _definition(old), _definition(new)
    changes = [*_of_attributes(first, second)]
    for side in ("input", "output"):
        changes += _of_arguments(first, second, side)
    changes += _of_calls(first, second)
    return CompatibilityReport(second.name, changes or [_change("S1", second.name)])


def _definition(given: Any) -> Definition:
    given = getattr(given, "definition", given)
    if isinstance(given, Definition):
        return given
    try:
        return Definition.from_dict(json.loads(given) if isinstance(given, str) else given)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, AttributeValueError):
            raise
        problem = f"{type(given).__name__} is no definition of an operation"
        advice = "Give an operation of mx.register_op, or its definition.as_dict()."
        shown = [repr(given)[:200]]
        raise explain(AttributeValueError, "check_compatible", problem, shown, advice) from None


def _change(rule: str, subject: str, old: Any = "", new: Any = "") -> Change:
    return Change(rule, subject, _RULES[rule], str(old), str(new))


def _of_attributes(old: Definition, new: Definition) -> Iterator[Change]:
    numbers = {each.number for each in (*old.inputs.values(), *old.outputs.values())}
    # Attributes of new lists and types are told with their inputs and outputs.
    used = {word for each in (*new.inputs.values(), *new.outputs.values()) for word in _used(each)}
    for name, before in old.attributes.items():
        after = new.attributes.get(name)
        if after is None:
            yield _change("U1", name, before)
            continue
        for rule in _of_kind(before.kind, after.kind, name in numbers):
            yield _change(rule, name, before, after)
        if before.default != after.default:
            yield _change("U16", name, before, after)
    for name, after in new.attributes.items():
        if name not in old.attributes and after.default is REQUIRED:
            yield _change("U2", name, "", after)
        elif name not in old.attributes and name not in used:
            yield _change("S2", name, "", after)
    kept = [
        [name for name in one.attributes if name in two.attributes]
        for one, two in ((old, new), (new, old))
    ]
    if kept[0] != kept[1]:
        yield _change("S6", "attributes", ", ".join(kept[0]), ", ".join(kept[1]))


def _of_kind(old: Kind, new: Kind, is_number: bool) -> Iterator[str]:
    """The rules of a change from a kind to another."""
    if isinstance(old, ListKind) != isinstance(new, ListKind):
        yield "U9"
        return
    members = [each.member if isinstance(each, ListKind) else each for each in (old, new)]
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
    """What a kind is but for the values that it is restricted to."""
    return EnumerationKind.__bases__[0] if isinstance(kind, EnumerationKind) else type(kind)


def _allowed(kind: Kind) -> set[Any] | None:
    """The values that a kind is restricted to."""
    found = kind.names if isinstance(kind, EnumerationKind) else getattr(kind, "allowed", None)
    return None if found is None else set(found)


def _used(argument: ArgumentDeclaration) -> list[str]:
    """The attributes that an input's or output's type names."""
    return [each for each in (argument.number, argument.type) if isinstance(each, str)]


def _of_arguments(old: Definition, new: Definition, side: str) -> Iterator[Change]:
    """What is another among inputs or outputs.

    Both are compared as single arrays: what a new attribute stands for is its default, that which
    stored programs have.
    """
    before, after = getattr(old, f"{side}s"), getattr(new, f"{side}s")
    first = [(part, each) for each in before.values() for part in _parts(each, old, old)]
    second = [(part, each) for each in after.values() for part in _parts(each, new, old)]
    for each in after.values():
        if not _parts(each, new, old):
            yield _change(_of_empty(each, new, old), each.name, "", each)
    types = [part for part, _ in first], [part for part, _ in second]
    if types[0] != types[1] and sorted(types[0]) == sorted(types[1]):
        shown = [", ".join(map(str, each.values())) for each in (before, after)]
        yield _change("U6", f"{side}s", *shown)
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


def _parts(argument: ArgumentDeclaration, own: Definition, old: Definition) -> list[str]:
    """The arrays of an input or output, as text; an old attribute stands for itself."""
    number, kind, attributes = argument.number, argument.type, own.attributes

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
    """The rule of a list that is added and empty by default."""
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
        yield _change(rule, one.name, one, two)
    for _, one in gone[len(come) :]:
        yield _change("U7", one.name, one)
    added = {each.name: each for _, each in come[len(gone) :]}
    for each in added.values():
        yield _change("U4" if new.is_list(each) else "U3", each.name, "", each)


def _of_kept(
    replaced: Sequence[ArgumentDeclaration],
    after: ArgumentDeclaration,
    new: Definition,
    old: Definition,
    side: str,
) -> Iterator[Change]:
    """What differs where the arrays themselves are the same."""
    before, count = replaced[0], len({each.name for each in replaced})
    if not old.is_list(before) and new.is_list(after):
        yield _change(_of_list(before, after, count), after.name, before, after)
    elif before.type != after.type:
        yield _change("S7", after.name, before, after)
    if before.is_reference != after.is_reference:
        is_safe = before.is_reference == (side == "input")
        rule = ("S21" if side == "input" else "S22") if is_safe else "U14"
        yield _change(rule, after.name, before, after)
    if after.name not in [each.name for each in replaced]:
        yield _change("S14" if side == "input" else "U15", after.name, before, after)


def _of_list(before: ArgumentDeclaration, after: ArgumentDeclaration, count: int) -> str:
    """The rule of arrays that become a list."""
    if after.number is None:
        return "S10" if count == 1 else "S13"
    if count > 1:
        return "S12"
    if isinstance(before.type, str):
        return "S11"
    return "S9" if isinstance(after.type, str) else "S8"


def _of_calls(old: Definition, new: Definition) -> Iterator[Change]:
    """What breaks calls from Python: an argument that is elsewhere, or called otherwise."""
    before, after = list(_parameters(old)), list(_parameters(new))
    for at, one in enumerate(before):
        other = after[at] if at < len(after) else None
        if other is None or one[:2] != other[:2]:
            meaning = "an argument of the wrapper is another"
            yield Change("call", one[0], meaning, _shown(one), _shown(other))
    for each in after[len(before) :]:
        if not each[2]:
            meaning = "the wrapper needs one more argument"
            yield Change("call", each[0], meaning, "", _shown(each))


def _parameters(definition: Definition) -> Iterator[tuple[str, bool, bool]]:
    """The wrapper's parameters: name, whether it takes a list, whether it may be left out."""
    for each in definition.inputs.values():
        yield each.name, definition.is_list(each), False
    plain = [
        each for name, each in definition.attributes.items() if name not in definition.inferred
    ]
    for each in sorted(plain, key=lambda each: each.default is not REQUIRED):
        yield each.name, False, each.default is not REQUIRED


def _shown(parameter: tuple[str, bool, bool] | None) -> str:
    if parameter is None:
        return ""
    name, is_list, is_optional = parameter
    return f"{name}{': list' * is_list}{' = ...' * is_optional}"
