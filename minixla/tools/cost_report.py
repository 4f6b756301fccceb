"""What a program costs: by operation and in total, and what XLA says of the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from minixla.core.graph import Graph, Instruction
from minixla.core.shapes import Shape
from minixla.engine import run_graph
from minixla.tools.costs import Cost, byte_count, graph_cost, instruction_cost
from minixla.tools.graph_parts import inlined
from minixla.tools.tables import html_page, html_table, shown_number, text_table


class CostRow(NamedTuple):
    """What all instructions of one operation cost.

    Attributes:
        operation: its builder's name.
        count: how many there are; what a loop runs is counted with the loop.
        flops, transcendentals, bytes: see `minixla.tools.costs`.
    """

    operation: str
    count: int
    flops: int
    transcendentals: int
    bytes: int


class CostReport:
    """The costs of a program; printed, it is a table.

    Attributes:
        name: of the program.
        rows: a CostRow for each operation, the most expensive first.
        total: their sum.
        arguments, results: their bytes.
        peak: the most bytes of arguments, results and intermediate values that are needed at one
            time, where instructions run in order and nothing is fused.
        xla: XLA's own numbers by the same names, after its optimisation; `temporary` are its
            bytes besides arguments and results. Empty where it was not asked or cannot say.
    """

    def __init__(
        self,
        name: str,
        rows: Sequence[CostRow],
        total: Cost,
        memory: tuple[int, int, int],
        xla: dict[str, float],
    ) -> None:
        self.name = name
        self.rows = list(rows)
        self.total = total
        self.arguments, self.results, self.peak = memory
        self.xla = xla

    def _sums(self) -> list[list[str]]:
        ours = {
            "flops": self.total.flops,
            "transcendentals": self.total.transcendentals,
            "bytes": self.total.bytes,
            "arguments": self.arguments,
            "results": self.results,
            "peak": self.peak,
        }
        theirs = [shown_number(self.xla.get(name)) for name in ours]
        return [
            [name, f"{value:,}", other]
            for (name, value), other in zip(ours.items(), theirs, strict=True)
        ]

    def _cells(self) -> list[list[str]]:
        return [[row.operation, *[f"{each:,}" for each in row[1:]]] for row in self.rows]

    def _notes(self) -> list[str]:
        if self.total.is_bound:
            return []
        return ["A loop's number of iterations is not known: its body is counted once."]

    def __str__(self) -> str:
        parts = [f"cost of {self.name}"]
        if self.rows:
            parts += [text_table(CostRow._fields, self._cells()), ""]
        parts += [text_table(("in total", "ours", "XLA's"), self._sums()), *self._notes()]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        tables = [
            html_table(CostRow._fields, self._cells()),
            html_table(("in total", "ours", "XLA's"), self._sums()),
        ]
        return html_page(f"cost of {self.name}", tables, self._notes())

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "name": self.name,
            "rows": [row._asdict() for row in self.rows],
            "total": self.total._asdict(),
            "memory": {
                "arguments": self.arguments,
                "results": self.results,
                "peak": self.peak,
            },
            "xla": self.xla,
        }


def cost_report(graph: Graph, with_xla: bool = True) -> CostReport:
    """What a program costs.

    Args:
        graph: the program.
        with_xla: whether XLA compiles it, to say what it thinks.
    """
    graph = inlined(graph).pruned()
    memory = byte_count(graph.input_shapes), byte_count(graph.output_shapes), peak_bytes(graph)
    xla = _by_xla(graph) if with_xla else {}
    return CostReport(graph.name, _rows(graph), graph_cost(graph), memory, xla)


def _rows(graph: Graph) -> list[CostRow]:
    sums: dict[str, tuple[int, Cost]] = {}
    for step in graph.instructions:
        count, cost = sums.get(step.op.builder_name, (0, Cost()))
        sums[step.op.builder_name] = count + 1, cost.plus(instruction_cost(step))
    rows = [
        CostRow(name, count, cost.flops, cost.transcendentals, cost.bytes)
        for name, (count, cost) in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row.flops, -row.transcendentals, -row.bytes))


def peak_bytes(graph: Graph) -> int:
    """The most bytes of values that are needed at one time, arguments and results included.

    Values live from the instruction that makes them to the last that reads them; arguments always.
    Programs that an instruction runs need theirs besides.
    """
    found = graph.memo.get("peak_bytes")
    if found is None:
        found = graph.memo["peak_bytes"] = _peak(graph)
    return found


def _peak(graph: Graph) -> int:
    steps = graph.pruned().instructions
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        last.update((id(value), number) for value in step.operands)
    last.update((id(value), len(steps)) for value in graph.outputs)
    last.update((id(value), len(steps)) for value in graph.inputs)
    ends: list[list[int]] = [[] for _ in range(len(steps) + 1)]
    living = peak = byte_count(graph.input_shapes)
    for number, step in enumerate(steps):
        sizes = [byte_count([shape]) for shape in step.shapes]
        for value, size in zip(step.results, sizes, strict=True):
            ends[last.get(id(value), number)].append(size)
        living += sum(sizes)
        peak = max(peak, living + _inner(step))
        living -= sum(ends[number])
    return peak


def _inner(step: Instruction) -> int:
    """What the programs that an instruction runs need besides its operands."""
    inner = [peak_bytes(each) - byte_count(each.input_shapes) for each in step.op.computations]
    return max(inner, default=0)


def _by_xla(graph: Graph) -> dict[str, float]:
    shapes = [shape for shape in graph.input_shapes if isinstance(shape, Shape)]
    if len(shapes) < len(graph.inputs):
        return {}
    given = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    try:
        with jax.enable_x64(True):
            run: Callable[..., Any] = jax.jit(lambda *operands: run_graph(graph, operands))
            compiled = run.lower(*given).compile()  # type: ignore[attr-defined]  # jax.jit's
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return {}
    costs = compiled.cost_analysis() or {}
    found = {
        "flops": costs.get("flops"),
        "transcendentals": costs.get("transcendentals"),
        "bytes": costs.get("bytes accessed"),
    }
    memory = compiled.memory_analysis()
    if memory is not None:
        sizes = memory.argument_size_in_bytes, memory.output_size_in_bytes
        found |= {"arguments": sizes[0], "results": sizes[1]}
        found["temporary"] = memory.temp_size_in_bytes
        found["peak"] = sum(sizes) + memory.temp_size_in_bytes - memory.alias_size_in_bytes
    return {name: float(value) for name, value in found.items() if value is not None}
