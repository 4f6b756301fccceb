"""The report of a cross-check: its rows and findings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph, Instruction
from minixla.core.tables import Report, Table, plain, shown_number
from minixla.tools.evaluators import DIFFERENCES
from minixla.tools.graph_parts import node_name
from minixla.tools.reproducer import Reproducer, write_reproducer
from minixla.tools.xla_differences import Settings

KINDS = {"result": "function", "jvp": "forward derivative", "vjp": "reverse derivative"}


class Row(NamedTuple):
    """The comparison of one evaluator's result for one value."""

    value: str  # Its name: `result['loss']`, `gradient of args[0]['w']`.
    shape: str
    evaluator: str  # The evaluator's name; "all" if none computes the value.
    #: The largest error of an element, in units of the last place of its declared type, against the
    #: program in double; for integers and booleans the largest difference.
    ulp: float | None = None
    relative: float | None = None  # The largest error in units of the largest element.
    share: float | None = None  # An element's error in units of the error that rounding explains.
    bound: float | None = None  # The error that rounding explains at that element, in ulp.
    #: "ok"; "parts", if the error is larger than rounding explains; "inaccurate", if rounding
    #: explains it but half of the digits are lost; "not finite", if a NaN or an infinity differs
    #: from the value in double; "NaN", if all agree on NaN and no input is NaN; "fails", if a rule
    #: raised an error or XLA ended its process; or "not run".
    verdict: str = "not run"
    note: str = ""  # The reason.


#: The verdicts that a correct program does not have.
BAD = ("parts", "inaccurate", "not finite", "NaN", "fails")

#: The kinds of findings about the program itself, on which all backends may agree.
FAULTS = (
    "overflow",
    "underflow",
    "division by zero",
    "invalid",
    "zero times infinity",
    "cast out of range",
)

#: The kinds of findings, and what to do about each.
ADVICE = {
    "overflow": "Scale the operands, compute with logarithms, or use a wider element type.",
    "underflow": "Scale the operands, compute with logarithms, or use a wider element type.",
    "division by zero": "Keep the operand away from the pole: add an epsilon inside the operation, "
    "or select a safe operand with `where` before it.",
    "invalid": "Keep the operands inside the domain of the operation: select safe operands with "
    "`where` before it.",
    "zero times infinity": "Select a safe operand with `where` before the operation, or define the "
    "derivative with mx.custom_jvp.",
    "cast out of range": "Clip or scale the operand to the range of the element type, or choose a "
    "type with a larger range.",
    "cancellation": "Rewrite the expression without a difference of nearly equal values, or use a "
    "wider element type.",
    "decision": "Do not compare or round values that rounding errors move across the threshold.",
    "rule": "Compare the suspected rule or backend with the specification of the operation.",
    "derivative": "Compare the derivative rule with the derivative of the function.",
    "compiler": "Reduce the program to the instructions before this one, and report it with the "
    "version of the compiler.",
}


class Finding(NamedTuple):
    """A place where evaluators disagree, or digits are lost."""

    #: A key of ADVICE. Kinds in FAULTS blame the program, on any backend; "zero times infinity" is
    #: in the derivative of an operation. The others: "rule", if an evaluator differs on the same
    #: operands; "cancellation", if each instruction is right but here small errors become large;
    #: "decision", if rounding changes a comparison or a rounding to integers; "derivative", if a
    #: rule differs from finite differences; "compiler", if only the whole compiled program differs.
    kind: str
    program: str = "result"  # Or "jvp" or "vjp".
    #: Its index in the program; None for rules of transformations inside it.
    instruction: int | None = None
    operation: str | None = None  # Its builder's name.
    shapes: str = ""  # The shapes of operands and results.
    #: The suspected parts: evaluators, "reference rule", "StableHLO form", "derivative rule",
    #: "custom rule", "batching rule".
    suspects: tuple[str, ...] = ()
    element: tuple[int, ...] | None = None  # The index of the worst element.
    values: dict[str, str] = {}  # The value in each evaluator there.
    source: str | None = None  # The user's line.
    explanation: str = ""  # A summary in a few sentences.
    ulp: float | None = None  # The largest error there in units of the last place, if known.
    #: The instruction's name in pictures of the checked program; "" in derivatives, and
    #: without an instruction.
    node: str = ""
    advice: str = ""  # One sentence on what to change; default: the advice for the kind.

    def at(self, step: Instruction, graph: Graph, program: str) -> "Finding":
        """Return the finding with its place: an instruction of a graph in a program of a kind."""
        operands = ", ".join(str(value.shape) for value in step.operands)
        shapes = f"({operands}) -> {', '.join(map(str, step.shapes))}"
        source = None if step.source is None else str(step.source)
        number, name = graph.instructions.index(step), step.op.builder_name
        place = {"instruction": number, "operation": name, "shapes": shapes, "source": source}
        place["node"] = node_name(step, graph) if program == "result" else ""
        return self._replace(program=program, **place)

    def within(self, step: Instruction, graph: Graph, inner: Graph) -> "Finding":
        """Return the finding for a program that an instruction of a graph runs."""
        if not self.node:
            return self
        around = node_name(step, graph)
        index = [n for n, computation in enumerate(step.op.computations) if computation is inner]
        # Pictures do not open the program of a composed operation.
        return self._replace(node=f"{around}.{index[0]}.{self.node}" if index else around)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.explanation}"]
        if self.operation is not None:
            number = "" if self.instruction is None else f" (instruction {self.instruction})"
            lines.append(f"  {self.operation} {self.shapes}{number}")
        if self.values:
            where = "" if self.element is None else f"element {list(self.element)}: "
            texts = [f"{name} {text}" for name, text in self.values.items()]
            lines.append(f"  {where}{', '.join(texts)}")
        if self.source is not None:
            lines.append(f"  called at {self.source}")
        lines.append(f"  {self.advice or ADVICE[self.kind]}")
        return "\n".join(lines)


_COLUMNS = ("value", "shape", "evaluator", "ulp", "relative", "of bound", "verdict", "note")


@dataclass(repr=False, eq=False)
class CrossCheckReport(Report):
    """The outcome of `cross_check`; it prints as a table."""

    name: str  # The name of the function.
    rows: list[Row]  # One for each value and evaluator.
    findings: list[Finding]  # One for each place where evaluators disagree or digits are lost.
    graph: Graph  # The checked program.
    operands: list[np.ndarray]  # Its arguments.
    places: list[Finding]  # The findings before those of one error are merged.
    #: The function and its derivatives as programs with operands, by kind. Then the kinds with a
    #: value on which XLA may be wrong.
    programs: dict[str, tuple[Graph, list[np.ndarray]]] = field(default_factory=dict)
    doubtful: Sequence[str] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def ok(self) -> bool:
        """True if two independent backends agree on every value, and no row is in `BAD`."""
        return not self._bad() and not self._unconfirmed()

    @property
    def rows_of_outputs(self) -> list[list[Row]]:
        """The rows of each output of the checked program, which come before all others."""
        names = list(dict.fromkeys(row.value for row in self.rows))[: len(self.graph.outputs)]
        return [[row for row in self.rows if row.value == name] for name in names]

    def reproducer(
        self, path: str | Path, *, exact: bool = False, seconds: float = 60.0
    ) -> Reproducer:
        """Write a script that shows an error of XLA, with the smallest program found.

        Instructions are removed, values replaced by inputs, and sizes and numbers made smaller.
        XLA's result must keep differing from the reference's in the same way: a wrong value, a
        NaN or an infinity, an error, or a dead process. StableHLO's interpreter must agree with the
        reference wherever it is not known to be wrong. XLA runs in a separate process.

        The script needs jax and numpy only. It holds the StableHLO text that XLA receives, the
        inputs, the expected and the actual results, and the versions. It runs the program on XLA
        and on StableHLO's interpreter, and ends with status 1 while XLA's results differ.

        Args:
            path: the file that is written; an existing one is replaced.
            exact: whether results of programs that leave no choice of rounding must be equal bit
                for bit, including signs of zeros; default: as in the report.
            seconds: the time after which reduction stops at the smallest program so far.

        Returns:
            A Reproducer: `path`, `graph`, `operands`, `kind`, `instructions`.

        Raises:
            TransformError: XLA is right on the function and on its derivatives. The finding may be
                about a derivative rule, or about the program on all backends.
            OSError: the file cannot be written.

        Example:
            >>> from minixla.legalize import disabled
            >>> with disabled("cpu", "leading_zeros"):
            ...     report = mx.cross_check(lambda: ops.clz(ops.constant(np.int32([-1, 5]))))
            >>> report.reproducer(path).instructions
            1
        """
        kinds = self.programs if exact else self.doubtful
        programs = {KINDS[kind]: self.programs[kind] for kind in kinds}
        if not programs:
            problem = "XLA agrees with the reference on every value, so there is nothing to reduce"
            details = [f"finding of kind {x.kind}, program {x.program}" for x in self.findings]
            advice = "A reproducer shows an error of XLA: a value, an error or a dead process. "
            advice += "Findings about derivative rules, and about programs on which all backends "
            advice += "agree, are corrected in the function."
            raise explain(TransformError, "reproducer", problem, details[:4], advice)
        settings = self.settings._replace(exact=exact)
        return write_reproducer(path, self.name, programs, settings, seconds)

    def _bad(self) -> list[int]:
        verdicts = enumerate(row.verdict for row in self.rows)
        return [number for number, verdict in verdicts if verdict in BAD]

    def _unconfirmed(self) -> list[str]:
        """Return the values that fewer than two independent backends have evaluated."""
        # A derivative that does not exist has only a row for "all".
        backends: dict[str, set[str]] = {
            row.value: set() for row in self.rows if row.evaluator not in ("all", DIFFERENCES)
        }
        for row in self.rows:
            if row.verdict == "ok" and row.value in backends:
                # XLA is one backend, on any number of devices.
                backends[row.value].add(row.evaluator.split(",")[0])
        return [name for name, names in backends.items() if len(names - {DIFFERENCES}) < 2]

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        numbers = [[*map(shown_number, row[3:6])] for row in self.rows]
        cells = [[*x[:3], *n, x.verdict, x.note] for x, n in zip(self.rows, numbers, strict=True)]
        bad, asked = self._bad(), sum(row.verdict != "not run" for row in self.rows)
        outcome = f"{len(bad)} of {asked} comparisons fail" if bad else "ok"
        if not bad and (missing := self._unconfirmed()):
            outcome = f"fewer than two backends evaluated {', '.join(missing[:4])}"
        table = Table(_COLUMNS, cells, bad)
        return f"cross_check of {self.name}: {outcome}", [table], list(map(str, self.findings))

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON form: infinities and NaN are strings."""
        told = {"name": self.name, "rows": self.rows, "findings": self.findings}
        return plain(told | {"ok": self.ok})
