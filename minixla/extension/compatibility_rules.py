"""The possible changes of a definition, and the report that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from minixla.core.tables import Report, Table

_RULES = {
    "S1": "nothing changes",
    "S2": "an attribute with a default is added",
    "S3": "more strings are allowed",
    "S4": "more types are allowed",
    "S5": "any type is allowed",
    "S6": "attributes are in another order",
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
    "S21": "an input is no longer a reference",
    "S22": "an output becomes a reference",
    "U1": "an attribute is removed",
    "U2": "an attribute without a default is added",
    "U3": "an array is added",
    "U4": "a list is added that is not empty by default",
    "U5": "an array has another type",
    "U6": "arrays are in another order",
    "U7": "an array is removed",
    "U8": "an attribute is of another kind",
    "U9": "an attribute becomes a list, or one of a list",
    "U10": "an array's type becomes a list of types",
    "U11": "a list of one type becomes a list of types",
    "U12": "fewer values are allowed",
    "U13": "a minimum is higher, or new",
    "U14": "an input becomes a reference, or an output is no longer one",
    "U15": "an output has another name",
    "U16": "a default is changed, added or removed",
}
_ADVICE = "Register the changed operation under a new name, and keep the old one."


class Change(NamedTuple):
    """One difference between two definitions.

    Attributes:
        rule: S1..S22 or U1..U16; "call" if it affects only Python callers.
        subject: the attribute, input or output.
        meaning: a description of the difference.
        old, new: the declarations; empty if missing.
    """

    rule: str
    subject: str
    meaning: str
    old: str = ""
    new: str = ""


@dataclass(repr=False, eq=False)
class CompatibilityReport(Report):
    """The result of `check_compatible`; it prints as a table.

    Attributes:
        name: the name of the operation.
        changes: all differences.
    """

    name: str
    changes: list[Change]

    @property
    def ok(self) -> bool:
        """True if stored programs mean the same with the new definition."""
        return not any(change.rule.startswith("U") for change in self.changes)

    @property
    def is_call_safe(self) -> bool:
        """True if Python calls of the old wrapper are valid calls of the new one."""
        return self.ok and not any(change.rule == "call" for change in self.changes)

    @property
    def verdict(self) -> str:
        """The verdict: `safe`, `graph-safe, call-unsafe` or `unsafe`."""
        graph_safe = "safe" if self.is_call_safe else "graph-safe, call-unsafe"
        return graph_safe if self.ok else "unsafe"

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        bad = [n for n, change in enumerate(self.changes) if not change.rule.startswith("S")]
        table = Table(("rule", "of", "change", "old", "new"), self.changes, bad)
        notes = [] if self.ok else [_ADVICE]
        if self.verdict.startswith("graph-safe"):
            notes = ["Keep a wrapper with the old signature; only append optional arguments."]
        return f"check_compatible of {self.name}: {self.verdict}", [table], notes


def change(rule: str, subject: str, old: Any = "", new: Any = "") -> Change:
    """Return the change of a rule, with the declarations before and after."""
    return Change(rule, subject, _RULES[rule], str(old), str(new))
