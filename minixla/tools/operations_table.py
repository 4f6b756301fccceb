"""The table of operations and their rules, from the registry."""

import argparse
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core.operation import REGISTRY, Operation
from minixla.core.tables import Table, terminal_width
from minixla.legalize.unsupported import unsupported_types
from minixla_ops.elementwise.families import Binary, Elementwise, Unary
from minixla_ops.inventory import ENTRIES, Entry
from minixla_ops.programs.lowering import Lowered


class Row(NamedTuple):
    """One entry and its rules; an empty cell is a missing rule.

    A cell such as `zero: piecewise constant` or `none: ...` holds a reason after its colon.
    """

    number: int
    name: str
    builder: str
    stablehlo: str
    shape: str
    reference: str
    jvp: str
    reverse: str
    batch: str
    sharding: str
    tpu: str
    gpu: str
    built_by: str
    source: str


# Attributes that a member of a family must define for a rule that it inherits.
_NEEDED = {
    **dict.fromkeys((Unary.jvp, Unary.vjp), "derivative"),
    **dict.fromkeys((Binary.jvp, Binary.vjp), "derivatives"),
    **dict.fromkeys((Lowered.stablehlo, Lowered.jvp, Lowered.batch), "lowered"),
    Elementwise.reference: "numpy",
}


def _has(operation: type[Operation], rule: str) -> bool:
    """Test whether the operation has a working rule, its own or its family's."""
    defined = getattr(operation, rule)
    needed = _NEEDED.get(defined)
    if needed is None:
        return operation.has_rule(rule)
    family = next(base for base in operation.__mro__ if base.__dict__.get(rule) is defined)
    return getattr(operation, needed) is not getattr(family, needed)


def _cells(operation: type[Operation]) -> dict[str, str]:
    """Return the cells of an operation by column; "" for a missing rule."""
    missing = {rule: f"none: {reason}" for rule, reason in operation.missing_rules.items()}
    form = operation.stablehlo_name or ("decomposed" if operation.has_rule("stablehlo") else "")
    if operation.stablehlo is Lowered.stablehlo and _has(operation, "stablehlo"):
        missing["stablehlo"] = "decomposed"

    def cell(rule: str, otherwise: str = "") -> str:
        return missing.get(rule, "yes" if _has(operation, rule) else otherwise)

    def on(platform: str) -> str:
        if "stablehlo" in operation.missing_rules:
            return ""
        types = unsupported_types(operation, platform)
        if "any" in types:
            return "no"
        return f"not {', '.join(types)}" if types else "yes"

    is_linear = operation.linear_operands is not None and operation.has_rule("transpose")
    reasons = {"zero": operation.zero_derivative, "none": operation.no_derivative}
    declared = next((f"{kind}: {why}" for kind, why in reasons.items() if why is not None), None)
    forward = "yes" if operation.forward is not None else "linear" if is_linear else ""
    jvp = declared or cell("jvp", forward)
    reverse = "transpose" if is_linear else "transposed jvp" if jvp else ""
    if operation.linearize is not None or _has(operation, "vjp"):
        reverse = "vjp"
    has_batch = operation.batch_within is not None or _has(operation, "batch")
    batch = missing.get("batch", "rule" if has_batch else "loop")
    if not operation.operands and not operation.missing_rules:
        batch = "none: it has no operands"
    return {
        "stablehlo": missing.get("stablehlo", form),
        "shape": cell("shape"),
        "reference": cell("reference"),
        "jvp": jvp,
        "reverse": declared or missing.get("transpose", reverse),
        "batch": batch,
        "sharding": _sharding(operation),
        "tpu": on("tpu"),
        "gpu": on("cuda"),
        "source": f"{operation.__module__.replace('.', '/')}.py",
    }


def _sharding(operation: type[Operation]) -> str:
    follows = operation.sharding_rule is Lowered.sharding_rule
    has_own = operation.has_rule("sharding_rule") and not follows
    if has_own or (operation.is_elementwise and operation.operands):
        return "rule"
    return "program" if follows or operation.runs_programs else "none"


def operation_rows() -> list[Row]:
    """Return a row for each entry of XLA's page, in its order, and then for other operations."""
    members: dict[str, list[type[Operation]]] = {}
    for operation in REGISTRY.values():
        for name in operation.spec_names or [operation.name]:
            members.setdefault(name, []).append(operation)
    classes = [
        name
        for name, (first, *_) in members.items()
        if first.__module__.startswith("minixla_ops.") and hasattr(ops, first.builder_name)
    ]
    others = [name for name in classes if name not in {entry.name for entry in ENTRIES}]
    numbered = [Entry(n, name, "user") for n, name in enumerate(others, len(ENTRIES) + 1)]
    return [_row(entry, members.get(entry.name, [])) for entry in (*ENTRIES, *numbered)]


def _row(entry: Entry, operations: Sequence[type[Operation]]) -> Row:
    # The rules that all operations of one entry have; a cell is empty if one of them lacks it.
    tables = list(map(_cells, operations))
    columns = {column: dict.fromkeys(x[column] for x in tables) for column in _cells(Operation)}
    cells = {
        column: "" if "" in entries else " / ".join(entries) for column, entries in columns.items()
    }
    builder = f"ops.{entry.builder}" if hasattr(ops, entry.builder) else ""
    return Row(entry.number, entry.name, builder, built_by=entry.built_by, **cells)


def show(options: argparse.Namespace) -> int:
    """Print the table as text, as a JSON list of objects, or as a page."""
    rows = operation_rows()
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
    else:
        table, notes = _noted(rows)
        text = "\n".join([Table(_HEADER, table).text(terminal_width()), "", *notes])
        print(as_markdown(rows) if options.markdown else text)
    return 0


def _noted(rows: Sequence[Row]) -> tuple[list[list[str]], list[str]]:
    """Return the cells with reasons replaced by numbers of notes, and the notes."""
    notes: dict[str, int] = {}

    def short(cell: Any) -> str:
        kind, colon, reason = str(cell).partition(": ")
        return f"{kind} [{notes.setdefault(reason, len(notes) + 1)}]" if colon else kind

    table = [list(map(short, row)) for row in rows]
    return table, [f"[{number}] {reason}" for reason, number in notes.items()]


_HEADER = [name.replace("_", " ") for name in Row._fields]
_PAGE = """# Operations

Written by `python -m minixla ops --markdown > docs/operations.md` from the registry of operations.
The entries and their numbers are those of XLA's operation semantics. Entries from 154 on are other
operations that the array library uses.

- *stablehlo*: the operation's StableHLO name; *decomposed*: it is written as several operations.
- *jvp*: *linear*: the tangent is the operation itself, applied to tangents.
- *reverse*: *vjp*: a separate rule; *transpose*: of the linear operation; *transposed jvp*: the
  forward rule, transposed.
- *batch*: *rule*: over the whole batch at once; *loop*: one batch element at a time.
- *sharding*: *rule*: the dimensions of operands and results that are sharded together; *program*:
  follows from the rules of the operations that it runs; *none*: shardings do not constrain each
  other.
- *tpu*, *gpu*: the element types for which XLA has no code there (docs/platforms.md). Programs that
  communicate over channels (Send, Recv and related) are for several processes, not for jit.
- *zero* and *none*: the derivative is zero, or the rule does not exist, for the reason in the note.
- *built by*: *dump-only* instructions are internal to XLA; programs with them are read, printed
  and run, and their builders raise an error.

"""


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table as the page docs/operations.md."""
    table, notes = _noted(rows)
    lines = [_HEADER, ["---"] * len(_HEADER), *table]
    body = [f"| {' | '.join(row)} |" for row in lines]
    return _PAGE + "\n".join([*body, "", *[f"- {note}" for note in notes]])
