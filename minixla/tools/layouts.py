"""The shardings of all values of a program over a mesh, before anything is compiled."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

import numpy as np

from minixla.core.annotations import UNNAMED, Paths
from minixla.core.errors import AttributeValueError, check_arguments, explain
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.source import PROGRAM_TEXT, Source
from minixla.core.stablehlo_text import Emitter, symbol_text
from minixla.core.tables import Table, terminal_width
from minixla.engine.shardy import shardy_pass
from minixla.interop.sharding_passes import read_program
from minixla.sharding.collectives import Collective, collectives
from minixla.sharding.inlining import inline_calls
from minixla.sharding.passes import PASSES
from minixla.sharding.program import Block, Program, Value
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import sharding_of
from minixla.tools.drawing import dot_text
from minixla.tools.layered_drawing import picture
from minixla.tools.program_files import opened

_ENGINES = ("native", "shardy")
_PASSES = (
    "sdy-import-pipeline",
    "sdy-user-priority-propagate",
    "sdy-sink-data-flow-edges",
    "sdy-update-non-divisible-input-output-shardings",
    "sdy-remove-sub-axes-in-input-output-shardings",
)
_FORMS = (".svg", ".dot", ".txt")


class Row(NamedTuple):
    """One value: its label, sharding and source line."""

    depth: int  # the number of loops, branches and manual computations around it
    label: str
    shape: Any
    sharding: TensorSharding | None
    local: Any  # the shape of the piece on each device
    source: Source | None

    @property
    def bytes(self) -> int:
        """The bytes of it on each device."""
        return self.local.nbytes if isinstance(self.local, Shape) else 0


class Collectives(list[Collective]):
    """The collectives of a program, in order; it prints as a table."""

    @property
    def bytes(self) -> int:
        """The bytes of all results on each device; those in loops count once."""
        return sum(row.bytes for row in self)

    def table(self) -> Table:
        """Return a table with a row for each collective."""
        header = ["collective", "over", "devices", "result", "bytes", "for", "", "line"]
        rows = [
            [
                row.kind,
                ", ".join(row.axes),
                str(row.devices),
                str(row.shape),
                f"{row.bytes:,}",
                f"{row.step}{', in a loop' if row.in_loop else ''}",
                row.why,
                str(row.source or ""),
            ]
            for row in self
        ]
        return Table(header, rows)

    def __str__(self) -> str:
        return self.table().text(terminal_width()) if self else "no collectives"

    def _repr_html_(self) -> str:
        return self.table().html()


class Layouts:
    """The shardings of all values of a program.

    Attributes:
        program: the program after Shardy's import passes and propagation.
        rows: a Row for each argument, result of an instruction, and result of the function.
    """

    def __init__(self, program: Program, paths: Paths = UNNAMED) -> None:
        self.program, self._paths = program, paths
        self.rows = list(_rows(program, paths))

    @cached_property
    def graph(self) -> Graph:
        """The program as a graph with its annotations: `.stablehlo()` is Shardy's output."""
        return self.program.graph().with_paths(self._paths)

    @property
    def arguments(self) -> list[TensorSharding | None]:
        """The sharding of each argument."""
        return [sharding_of(value) for value in self.program.main.inputs]

    @property
    def results(self) -> list[TensorSharding | None]:
        """The sharding of each result."""
        main = self.program.main
        pairs = zip(main.outputs, main.output_shardings, strict=True)
        return [sharding or sharding_of(value) for value, sharding in pairs]

    def collectives(self) -> Collectives:
        """Return the communication that the shardings require, with bytes and lines."""
        return Collectives(collectives(self.program))

    def table(self) -> Table:
        """Return a table with a row for each value."""
        header = ["value", "shape", "layout", "on each device", "bytes", "line"]
        rows = [
            [
                f"{'  ' * row.depth}{row.label}",
                str(row.shape),
                row.sharding.shown if row.sharding else "",
                str(row.local),
                f"{row.bytes:,}",
                str(row.source or ""),
            ]
            for row in self.rows
        ]
        return Table(header, rows)

    def draw(self, path: Any) -> None:
        """Write a picture of the graph with its layouts, or their table.

        Args:
            path: a file that ends in .svg, .dot (Graphviz's language) or .txt (the table).

        Raises:
            AttributeValueError: it has another suffix.
        """
        form = os.path.splitext(os.fspath(path))[1]
        if form not in _FORMS:
            problem, advice = f"{path} ends in {form!r}", f"Use one of {', '.join(_FORMS)}."
            raise explain(AttributeValueError, "draw", problem, (), advice)
        texts = {
            ".svg": lambda: picture(opened(self.graph)),
            ".dot": lambda: dot_text(self.graph),
            ".txt": self._text,
        }
        with open(path, "w", encoding="utf-8") as file:
            file.write(texts[form]())

    def _text(self, width: int | None = None) -> str:
        meshes = [f"{symbol_text(name)} = {mesh}" for name, mesh in self.program.meshes.items()]
        return "\n".join([*meshes, self.table().text(width)])

    def __str__(self) -> str:
        return self._text(terminal_width())

    def _repr_html_(self) -> str:
        return f"<p>{escape(', '.join(self.program.meshes))}</p>{self.table().html()}"

    def __repr__(self) -> str:
        return f"<Layouts of {len(self.rows)} values>"


def layouts(graph: Graph, engine: str = "native") -> Layouts:
    """Return the shardings of all values of a graph, derived from those that it declares.

    Args:
        graph: a graph with constraints, manual computations or annotations.
        engine: `native`, or `shardy` for Shardy's own passes, in a separate process.

    Returns:
        Layouts, which print as a table of instructions with the sharding of each result.

    Raises:
        AttributeValueError: the engine is unknown.
        ShardingError: the program breaks a rule of the passes.

    Example:
        >>> mesh = mx.sharding.Mesh(None, "x", (2,))
        >>> f = lambda x: mx.sharding.constrain(x, jax.P("x"), mesh=mesh) + 1
        >>> found = mx.sharding.layouts(mx.make_graph(f)(np.float32([1, 2])))
        >>> print(str(found).splitlines()[-1])
        result = %3             f32[2]  [{x, ?}]  f32[1]              4
    """
    check_arguments(
        "layouts", graph=(graph, isinstance(graph, Graph), "a Graph: mx.make_graph(f)(x)")
    )
    if engine not in _ENGINES:
        problem, advice = f"engine {engine!r} is unknown", f"Pass {' or '.join(_ENGINES)}."
        raise explain(AttributeValueError, "shardings", problem, (), advice)
    program = (
        Program.of_graph(graph)
        if _is_written(graph)
        else read_program(Emitter(locations=True).module(graph))
    )
    inline_calls(program)
    if engine == "native":
        for name in _PASSES:
            PASSES[name](program)
        return Layouts(program, graph.paths)
    text = str(program)
    for name in _PASSES:
        text = shardy_pass(text, name)
    return Layouts(read_program(text), graph.paths)


def _is_written(graph: Graph) -> bool:
    """Test whether all instructions are StableHLO's or Shardy's, as Shardy sees when compiling."""
    operations = [step.op for step in graph.instructions]
    # Other calls, such as those of `checkpoint`, are lowered differently.
    is_known = all(
        op.stablehlo_name or op.namespace == "sdy" or op.name == "Call" for op in operations
    )
    return is_known and all(map(_is_written, graph.computations))


def _rows(program: Program, paths: Paths) -> Iterator[Row]:
    for function in program.functions.values():
        names: dict[Value, str] = {}
        is_main = function is program.main
        called = paths if is_main else UNNAMED
        for index, value in enumerate(function.inputs):
            names[value] = f"%arg{value.index}"
            path = called.argument(index) if index < len(called.arguments) else "argument"
            yield _row(0, f"{names[value]} {path}", value, sharding_of(value), None)
        yield from _rows_of(function, 0, names)
        pairs = zip(function.outputs, function.output_shardings, strict=True)
        for number, (value, sharding) in enumerate(pairs):
            placement = sharding or sharding_of(value)
            yield _row(
                0, f"{called.result(number)} = {names.get(value, '')}", value, placement, None
            )


def _rows_of(block: Block, depth: int, names: dict[Value, str]) -> Iterator[Row]:
    for step in block.steps:
        for value in step.results:
            names[value] = f"%{len(names)}"
            label = f"{names[value]} {step.op.builder_name}"
            yield _row(depth, label, value, sharding_of(value), step.source)
        for inner in step.blocks:
            if any(value.rank for value in inner.inputs) or len(inner.steps) > 1:
                for value in inner.inputs:
                    names[value] = f"%{len(names)}"
                    label = f"{names[value]} input {value.index}"
                    yield _row(depth + 1, label, value, sharding_of(value), step.source)
                yield from _rows_of(inner, depth + 1, names)


def _row(depth: int, label: str, value: Value, sharding: Any, source: Source | None) -> Row:
    local = value.shape if sharding is None else sharding.local_shape(value.shape)
    is_users = source is not None and source.file != PROGRAM_TEXT
    return Row(depth, label, value.shape, sharding, local, source if is_users else None)


def visualize_sharding(shape: Sequence[int], sharding: TensorSharding) -> str:
    """Return the devices of each piece of an array, as text.

    Args:
        shape: the array's sizes.
        sharding: its sharding.

    Returns:
        A line for each piece: the indices, as slices, and the ids of its devices.

    Raises:
        ShardingError: the sharding has another number of dimensions.

    Example:
        >>> sharding = mx.sharding.parse_sharding('<mesh<["x"=2]>, [{"x"}]>')
        >>> print(mx.sharding.visualize_sharding((4,), sharding))
        piece  devices
        [0:2]        0
        [2:4]        1
    """
    is_list = isinstance(shape, (list, tuple)) and all(hasattr(x, "__index__") for x in shape)
    check_arguments(
        "visualize_sharding",
        shape=(shape, is_list, "a tuple of sizes"),
        sharding=(sharding, isinstance(sharding, TensorSharding), "a TensorSharding"),
    )
    sharding.check_rank(Shape("f32", tuple(shape)), "visualize_sharding")
    mesh, parts = sharding.mesh, sharding.parts or ((),) * len(shape)
    local = sharding.local_sizes(shape)
    pieces: dict[tuple[int, ...], list[int]] = {}
    for place in np.ndindex(mesh.axis_sizes):
        at = dict(zip(mesh.axis_names, place, strict=True))
        starts = tuple([mesh.piece(part, at) for part in parts])
        pieces.setdefault(starts, []).append(int(mesh.numbers[place]))
    rows = []
    for starts, devices in sorted(pieces.items()):
        ends = zip(starts, local, shape, strict=True)
        index = ", ".join([f"{min(n * k, size)}:{min((n + 1) * k, size)}" for n, k, size in ends])
        rows.append([f"[{index}]", ", ".join(map(str, sorted(devices)))])
    return Table(["piece", "devices"], rows).text()
