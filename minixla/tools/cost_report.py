"""What a program costs: by operation and in total, and what XLA says of the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax

from minixla.core.graph import Graph, remembered
from minixla.core.shapes import Shape
from minixla.engine import run_graph
from minixla.tools.costs import Cost, byte_count, graph_cost, instruction_cost, summed
from minixla.tools.graph_parts import inlined
from minixla.tools.tables import Report, Table, shown_number


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


@dataclass(repr=False, eq=False)
class CostReport(Report):
    """The costs of a program; printed, it is a table.

    Attributes:
        name: of the program.
        rows: a CostRow for each operation, the most expensive first.
        total: their sum.
        memory: the bytes of `arguments` and of `results`, and at the `peak` the most bytes of
            arguments, results and intermediate values that are needed at one time, where
            instructions run in order and nothing is fused.
        xla: XLA's own numbers by the same names, after its optimisation; `temporary` are its
            bytes besides arguments and results. Empty where it was not asked or cannot say.
    """

    name: str
    rows: list[CostRow]
    total: Cost
    memory: dict[str, int]
    xla: dict[str, float]

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        total = self.total._asdict()
        is_bound = total.pop("is_bound")
        sums = [
            [name, f"{value:,}", shown_number(self.xla.get(name))]
            for name, value in {**total, **self.memory}.items()
        ]
        tables = [Table(("in total", "ours", "XLA's"), sums)]
        if self.rows:
            cells = [[row.operation, *[f"{each:,}" for each in row[1:]]] for row in self.rows]
            tables.insert(0, Table(CostRow._fields, cells))
        note = "A loop's number of iterations is not known: its body is counted once."
        return f"cost of {self.name}", tables, [] if is_bound else [note]


def cost_report(graph: Graph, with_xla: bool = True) -> CostReport:
    """What a program costs, ours and, where XLA is to compile it, XLA's."""
    graph = inlined(graph).pruned()
    memory = {
        "arguments": byte_count(graph.input_shapes),
        "results": byte_count(graph.output_shapes),
        "peak": peak_bytes(graph),
    }
    xla = _by_xla(graph) if with_xla else {}
    return CostReport(graph.name, _rows(graph), graph_cost(graph), memory, xla)


def _rows(graph: Graph) -> list[CostRow]:
    costs: dict[str, list[Cost]] = {}
    for step in graph.instructions:
        costs.setdefault(step.op.builder_name, []).append(instruction_cost(step))
    rows = [CostRow(name, len(each), *summed(each)[:3]) for name, each in costs.items()]
    return sorted(rows, key=lambda row: (-row.flops, -row.transcendentals, -row.bytes))


@remembered
def peak_bytes(graph: Graph) -> int:
    """The most bytes of values that are needed at one time, arguments and results included.

    Values live from the instruction that makes them to the last that reads them; arguments always.
    Programs that an instruction runs need theirs besides.
    """
    steps = graph.pruned().instructions
    last = {value: number for number, step in enumerate(steps) for value in step.operands}
    last |= dict.fromkeys([*graph.outputs, *graph.inputs], len(steps))
    ends: list[list[int]] = [[] for _ in range(len(steps) + 1)]
    living = peak = byte_count(graph.input_shapes)
    for number, step in enumerate(steps):
        sizes = [byte_count([shape]) for shape in step.shapes]
        for value, size in zip(step.results, sizes, strict=True):
            ends[last.get(value, number)].append(size)
        living += sum(sizes)
        inner = [peak_bytes(each) - byte_count(each.input_shapes) for each in step.op.computations]
        peak = max(peak, living + max(inner, default=0))
        living -= sum(ends[number])
    return peak


def _by_xla(graph: Graph) -> dict[str, float]:
    shapes = [shape for shape in graph.input_shapes if isinstance(shape, Shape)]
    if len(shapes) < len(graph.inputs):
        return {}
    given = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    try:
        with jax.enable_x64(True):
            run = jax.jit(lambda *operands: run_graph(graph, operands))
            compiled = run.lower(*given).compile()
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return {}
    costs = compiled.cost_analysis() or {}
    theirs = ("flops", "transcendentals", "bytes accessed")
    found = {name.split()[0]: costs.get(name) for name in theirs}
    memory = compiled.memory_analysis()
    if memory is not None:
        sizes = memory.argument_size_in_bytes, memory.output_size_in_bytes
        found |= {"arguments": sizes[0], "results": sizes[1]}
        found["temporary"] = memory.temp_size_in_bytes
        found["peak"] = sum(sizes) + memory.temp_size_in_bytes - memory.alias_size_in_bytes
    return {name: float(value) for name, value in found.items() if value is not None}
