"""Tables of the costs of programs: our counts, and XLA's for this machine or another."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding, PartitionSpec

from minixla.core import Graph, Shape
from minixla.core.errors import TransformError, explain
from minixla.core.tables import Report, Table, shown_number
from minixla.core.tracing import _state
from minixla.engine import cross_compile, kernels, run_graph
from minixla.engine.meshes import abstract_mesh, spec_of
from minixla.sharding.mesh import Mesh
from minixla.tools.costs import Cost, byte_count, graph_cost, instruction_cost, peak_bytes, summed
from minixla.tools.graph_parts import inlined
from minixla.tools.layouts import layouts
from minixla.transforms import jit
from minixla.transforms.evaluation import graph_of
from minixla.transforms.layouts import mesh_in_force

# The largest number of instructions of a device, and of arguments, that a report shows.
_SHOWN = 20


class CostRow(NamedTuple):
    """The cost of all instructions of one operation."""

    operation: str  # its builder's name
    count: int  # instructions in a loop are counted with the loop
    flops: int
    transcendentals: int
    bytes: int


class ArgumentRow(NamedTuple):
    """A leaf of the arguments."""

    argument: str  # its path, such as `args[0]['w']`
    shape: str
    bytes: int


class DeviceRow(NamedTuple):
    """An instruction that a device runs."""

    instruction: str  # its name in XLA's text
    opcode: str  # of HLO; for an instruction in two parts, of the first one
    shape: str  # of its result
    cycles: int | None  # of the device's clock, if XLA estimates them
    source: str  # the user's line


@dataclass(repr=False, eq=False)
class CostReport(Report):
    """The costs of a program; it prints as a table."""

    name: str
    rows: list[CostRow]  # one for each operation, the most expensive first
    total: Cost
    #: The bytes of `arguments` and of `results`, and at the `peak`; see `peak_bytes`.
    memory: dict[str, int]
    #: XLA's numbers by the same names, after optimization, for one device. `temporary` counts bytes
    #: besides arguments and results, `seconds` is XLA's estimate for a run, and `cycles` is the sum
    #: over all instructions. `seconds_by_bytes` and `seconds_by_cycles` follow from the memory and
    #: clock that a chip's maker states. Empty if XLA does not compile, or lacks the numbers.
    xla: dict[str, float]
    platform: str = ""  # The platform that XLA compiled for, if it is not this machine.
    device_rows: Sequence[DeviceRow] = ()  # By cycles, if XLA estimates them.
    arguments: Sequence[ArgumentRow] = ()  # In the order of the call, if paths are known.

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        total = dict(zip(Cost._fields, self.total[:3], strict=False)) | self.memory
        sums = [[name, f"{n:,}", shown_number(self.xla.get(name))] for name, n in total.items()]
        title, tables = f"cost of {self.name}", [Table(("in total", "ours", "XLA's"), sums)]
        if self.rows:
            cells = [[row.operation, *[f"{count:,}" for count in row[1:]]] for row in self.rows]
            tables.insert(0, Table(CostRow._fields, cells))
        if len(self.arguments) > 1:
            largest = sorted(self.arguments, key=lambda row: -row.bytes)[:_SHOWN]
            cells = [[row.argument, row.shape, f"{row.bytes:,}"] for row in largest]
            tables.append(Table(ArgumentRow._fields, cells))
        if self.platform:
            title += f"; XLA's for a device of {self.platform}"
            sums += [[n, "", shown_number(self.xla[n])] for n in _COMPILED if n in self.xla]
            longest = self.device_rows[:_SHOWN]
            cells = [[*row[:3], shown_number(row.cycles), row.source] for row in longest]
            tables.append(Table(DeviceRow._fields, cells))
        note = "A loop's number of iterations is not known: its body is counted once."
        return title, tables, [] if self.total.is_bound else [note]


# Numbers that only a compiled program has.
_COMPILED = ("temporary", "seconds", "cycles", "seconds_by_bytes", "seconds_by_cycles")


def cost(
    fun: Callable[..., Any], *args: Any, platform: str | None = None, **kwargs: Any
) -> CostReport:
    """Return the costs of a function: arithmetic, bytes and memory by our count, and by XLA's.

    Args:
        fun: a function of pytrees of arrays, jitted or not; shardings of a jitted one are used.
        args: arrays or `jax.ShapeDtypeStruct`s, and pytrees of them; only their shapes matter.
        platform: the platform that XLA compiles for, which need not be installed: `"tpu v5e:2x2"`
            (four chips; `"tpu v5e:16x16"` has 256) or `"gpu h100"`. Default: this machine. `pmap`
            maps over the chips of the platform, if there are as many as batch elements.
        kwargs: keyword arguments, like `args`.

    Returns:
        A report, which prints as tables. XLA's numbers are those of one device.

    Raises:
        AttributeValueError: `platform` is unknown.
        TransformError: the compiler for the platform is not installed, or rejects the program.

    Example:
        >>> report = mx.cost(lambda x: x * x + 1, np.ones(1000, np.float32))
        >>> report.total.flops, report.memory["arguments"]
        (2000, 4000)
    """
    count = 1 if platform is None else cross_compile.platform_named(platform).size
    chips = Mesh(None, ("devices",), shape=(count,)) if count > 1 else None
    with mesh_in_force(_state.mesh or chips):
        # `graph` of an imported program is the Graph itself.
        staged: Any = getattr(fun, "graph", None)
        graph: Graph = (
            staged(*args, **kwargs)  # pyright: ignore[reportAssignmentType]  # a method of ours
            if callable(staged)
            else graph_of("cost", fun, args, kwargs)
        )
    if platform is None or graph.meshes:
        return cost_report(graph, platform=platform)
    jitted = fun if hasattr(fun, "lower") else jit(fun)
    return _report(graph, *costs_on(platform, jitted, args, kwargs), platform)


def cost_report(graph: Graph, with_xla: bool = True, platform: str | None = None) -> CostReport:
    """Return the costs of a program: ours and, if `with_xla`, XLA's, here or for a platform."""
    shapes = [shape for shape in graph.input_shapes if isinstance(shape, Shape)]
    if not with_xla or len(shapes) < len(graph.inputs):
        return _report(graph)
    structs = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    placed = {} if platform is None else _placed(graph)
    run = jax.jit(lambda *operands: run_graph(graph, operands), **placed)
    with jax.enable_x64(True):
        if platform is not None:
            return _report(graph, *costs_on(platform, run, structs), platform)
        try:
            with kernels.left_out():
                compiled = run.lower(*structs).compile()
            return _report(graph, cross_compile.analysed(compiled).numbers)
        except (RuntimeError, TypeError, ValueError):  # JAX or XLA rejects the program
            return _report(graph)


def _placed(graph: Graph) -> dict[str, Any]:
    """Return the options of jit for the shardings of a program's arguments and results."""
    meshes = [mesh for mesh in graph.meshes if mesh.size > 1]
    if not meshes:
        return {}
    placements, whole = layouts(graph), NamedSharding(abstract_mesh(meshes[0]), PartitionSpec())

    def named(shardings: Any) -> tuple[Any, ...]:
        return tuple(
            [
                whole
                if sharding is None
                else NamedSharding(abstract_mesh(sharding.mesh), spec_of(sharding))
                for sharding in shardings
            ]
        )

    return {
        "in_shardings": named(placements.arguments),
        "out_shardings": [*named(placements.results)],
    }


def costs_on(
    platform: str, jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> tuple[dict[str, float], list[DeviceRow]]:
    """Return XLA's costs of a jitted function, ours or JAX's, on one device of a platform.

    Names of the costs are those in a `CostReport`. See `cost` for `platform` and the errors.
    """
    target = cross_compile.platform_named(platform)
    try:
        exported = cross_compile.exported_for(target, jitted, args, kwargs)
        compiled = cross_compile.compile_for(target, exported)
    except cross_compile.Refused as refused:
        problem = f"XLA does not compile it for {target}: {str(refused)[:1000]}"
        advice = "The columns tpu and gpu of `python -m minixla ops` list what each platform lacks."
        name = getattr(jitted, "__name__", "function")
        raise explain(TransformError, name, problem, advice=advice) from None
    rows = sorted(device_rows(compiled.text), key=lambda row: -(row.cycles or 0))
    cycles = float(sum(row.cycles or 0 for row in rows))
    numbers = compiled.numbers | ({"cycles": cycles} if cycles else {})
    return numbers | cross_compile.seconds_on(target, numbers), rows


def _report(
    graph: Graph, xla: Any = None, rows: Sequence[DeviceRow] = (), platform: str | None = None
) -> CostReport:
    graph = inlined(graph).pruned()
    where = str(cross_compile.platform_named(platform)) if platform else ""
    inputs, made = byte_count(graph.input_shapes), byte_count(graph.output_shapes)
    memory = {"arguments": inputs, "results": made, "peak": peak_bytes(graph)}
    costs: dict[str, list[Cost]] = {}
    for step in graph.instructions:
        costs.setdefault(step.op.builder_name, []).append(instruction_cost(step))
    own = [CostRow(name, len(cost), *summed(cost)[:3]) for name, cost in costs.items()]
    own.sort(key=lambda row: (-row.flops, -row.transcendentals, -row.bytes))
    pairs = zip(graph.paths.arguments, graph.input_shapes, strict=False)
    arguments = [ArgumentRow(path, str(shape), byte_count([shape])) for path, shape in pairs]
    total = graph_cost(graph)
    return CostReport(graph.name, own, total, memory, xla or {}, where, rows, arguments)


_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?(\S+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
# A computation that runs inside the instruction that names it.
_WITHIN = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
# Instructions of libraries refer to tables of files, positions and frames instead.
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_FILES = re.compile(r'^(\d+) "(.*)"$', re.MULTILINE)
_POSITIONS = re.compile(
    r"^(\d+) \{file_name_id=(\d+) function_name_id=\d+ line=(\d+)", re.MULTILINE
)
_FRAMES = re.compile(r"^(\d+) \{file_location_id=(\d+)", re.MULTILINE)
_LAYOUT = re.compile(r"\{[^{}]*\}")
# Instructions that run nothing by themselves.
_NAMES = {"after-all", "bitcast", "call", "conditional", "constant", "get-tuple-element"}
_NAMES |= {"parameter", "partition-id", "replica-id", "tuple", "while"}


def _frames_of(text: str) -> dict[str, str]:
    """Return the file and line of each stack frame that a module lists, by its id."""
    files = dict(_FILES.findall(text.partition("\nFunctionNames")[0]))
    positions = {at: f"{files[file]}:{line}" for at, file, line in _POSITIONS.findall(text)}
    return {frame: positions[at] for frame, at in _FRAMES.findall(text)}


def device_rows(text: str) -> list[DeviceRow]:
    """Return the instructions of compiled HLO text that a device runs, in the text's order."""
    within, computation, rows, frames = set(_WITHIN.findall(text)), "", [], _frames_of(text)
    for line in text.splitlines():
        header, instruction = _COMPUTATION.match(line), _INSTRUCTION.match(line)
        computation = computation if header is None else header[1]
        if instruction is None or computation in within:
            continue
        name, shape, opcode = instruction.groups()
        if opcode in _NAMES or opcode.endswith("-done"):
            continue
        cycles, source, frame = [pattern.search(line) for pattern in (_CYCLES, _SOURCE, _FRAME)]
        clocks = None if cycles is None else int(cycles[1])
        place = "" if frame is None else frames.get(frame[1], "")
        place = place if source is None else ":".join(source.groups())
        rows.append(DeviceRow(name, opcode, _LAYOUT.sub("", shape), clocks, place))
    return rows
