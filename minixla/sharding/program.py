"""Programs that passes change: functions, blocks and steps, as in MLIR."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, TypeVar

from minixla.core.data_flow import Edge, Place
from minixla.core.graph import Annotations, Graph, Instruction
from minixla.core.graph import Value as GraphValue
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.sharding_rule import ShardingRule
from minixla.core.source import Source
from minixla.core.stablehlo_text import Emitter, identifier, quoted
from minixla.sharding.mesh import Mesh
from minixla.sharding.operations import ShardingGroup
from minixla.sharding.tensor_sharding import TensorSharding
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.programs.call import Call

#: The attribute of a copied function with the name of the original.
ORIGINAL_NAME = "sdy.original_func_name"


class Value:
    """An input of a block, or a result of a step.

    Attributes:
        shape: its shape.
        sharding: its sharding, or None.
        owner: the step or block that it belongs to, as its result or input at `index`.
    """

    __slots__ = ("index", "owner", "shape", "sharding")

    def __init__(self, shape: AnyShape, owner: "Step | Block", index: int) -> None:
        self.shape = shape
        self.owner = owner
        self.index = index
        self.sharding: TensorSharding | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions; 0 for anything except arrays."""
        return getattr(self.shape, "rank", 0)

    @property
    def step(self) -> "Step | None":
        """The step whose result it is."""
        return self.owner if isinstance(self.owner, Step) else None

    @property
    def flow(self) -> "Step | None":
        """The step that computes it, or that runs the block with this input."""
        return self.owner if isinstance(self.owner, Step) else self.owner.step

    @property
    def block(self) -> "Block":
        """The block that contains it."""
        return self.owner.block if isinstance(self.owner, Step) else self.owner

    @property
    def can_be_sharded(self) -> bool:
        """True if it is an array of static sizes."""
        return isinstance(self.shape, Shape) and not self.shape.is_dynamic

    def __repr__(self) -> str:
        return f"<Value {self.shape} {self.sharding or ''}>"


class Step:
    """One application of an operation.

    Attributes:
        op: the record of its attributes. Programs within it are only those of `blocks`.
        operands, results: the values that it reads and computes.
        blocks: the programs that it runs, which passes may change.
        callee: the function that it calls, if it is a call.
        block: the block that contains it.
        source: the user's line, or None.
        stated_rule: the sharding rule that the program states for it, or None.
    """

    __slots__ = ("block", "blocks", "callee", "op", "operands", "results", "source", "stated_rule")

    def __init__(
        self,
        op: Operation,
        operands: Iterable[Value],
        shapes: Iterable[AnyShape],
        block: "Block",
        source: Source | None = None,
    ) -> None:
        self.op: Any = op
        self.operands = list(operands)
        self.results = [Value(shape, self, index) for index, shape in enumerate(shapes)]
        self.blocks: list[Block] = []
        self.callee: Function | None = None
        self.block = block
        self.source = source
        self.stated_rule: ShardingRule | None = None

    @property
    def sharding_rule(self) -> ShardingRule | None:
        """The dimensions that are split together, by the stated rule or the operation's."""
        return self.stated_rule or self.op.sharding_rule(*[value.shape for value in self.operands])

    @property
    def edges(self) -> Sequence[Edge]:
        """The edges along which its operation lets values flow."""
        return self.op.data_flow(*[value.shape for value in self.operands])

    def at(self, place: Place) -> Value:
        """Return the value at a place of an edge."""
        owner = self if place.kind in ("operand", "result") else self.blocks[place.block]
        return getattr(owner, f"{place.kind}s")[place.number]

    def around(self) -> "Iterator[Step]":
        """Yield the steps around it, the innermost first."""
        step = self.block.step
        while step is not None:
            yield step
            step = step.block.step

    def again(self, block: "Block", values: dict[Value, Value]) -> "Step":
        """Copy it into a block; `values` maps old values to new ones, and gets the results."""
        operands = [values.get(operand, operand) for operand in self.operands]
        shapes = [value.shape for value in self.results]
        made = Step(self.op, operands, shapes, block, self.source)
        for old, new in zip(self.results, made.results, strict=True):
            new.sharding, values[old] = old.sharding, new
        made.callee, made.stated_rule = self.callee, self.stated_rule
        made.blocks = [block.copied_to(Block(made), values) for block in self.blocks]
        return made

    def __repr__(self) -> str:
        return f"<Step {self.op.name}>"


class Block:
    """Steps in order, with inputs and outputs.

    Attributes:
        step: the step that runs it; None for a function.
    """

    def __init__(self, step: Step | None = None) -> None:
        self.step = step
        self.inputs: list[Value] = []
        self.steps: list[Step] = []
        self.outputs: list[Value] = []
        self.name = ""

    def add_input(self, shape: AnyShape) -> Value:
        """Add an input."""
        self.inputs.append(Value(shape, self, len(self.inputs)))
        return self.inputs[-1]

    def new_step(
        self, op: Operation, operands: Iterable[Value], source: Source | None = None
    ) -> Step:
        """Create a step of an operation, without inserting it into the block."""
        operands = list(operands)
        shapes = (
            () if isinstance(op, ShardingGroup) else op.infer(tuple([x.shape for x in operands]))
        )
        return Step(op, operands, shapes if isinstance(shapes, tuple) else (shapes,), self, source)

    def copied_to(self, made: "Target", values: dict[Value, Value]) -> "Target":
        """Make an empty block a copy; see `Step.again`."""
        made.name = self.name
        for old in self.inputs:
            values[old] = made.add_input(old.shape)
            values[old].sharding = old.sharding
        made.steps = [step.again(made, values) for step in self.steps]
        made.outputs = [values.get(output, output) for output in self.outputs]
        return made

    def walk(self) -> Iterator[Step]:
        """Yield every step, and those in its blocks, outer before inner, in order."""
        stack = [iter(list(self.steps))]
        while stack:
            for step in stack[-1]:
                yield step
                if step.blocks:
                    stack.extend(iter(list(block.steps)) for block in reversed(step.blocks))
                    break
            else:
                stack.pop()

    def blocks(self) -> "Iterator[Block]":
        """Yield it and the blocks of its steps, outer before inner."""
        yield self
        for step in self.walk():
            yield from step.blocks

    def read_instead(self, values: Mapping[Value, Value]) -> None:
        """Replace values by others in it and in inner blocks."""

        def current(value: Value) -> Value:
            while value in values:
                value = values[value]
            return value

        for block in self.blocks():
            for step in block.steps:
                step.operands = list(map(current, step.operands))
            block.outputs = list(map(current, block.outputs))

    def uses(self) -> "dict[Value, list[Use]]":
        """Return the uses of values in it and in inner blocks, in order; see `Program.uses`."""
        uses_of: dict[Value, list[Use]] = {}
        self._collect_uses(uses_of)
        return uses_of

    def _collect_uses(self, found: "dict[Value, list[Use]]") -> None:
        for step in self.steps:
            for number, value in enumerate(step.operands):
                found.setdefault(value, []).append(Use(step, number))
            for block in step.blocks:
                block._collect_uses(found)
        for number, value in enumerate(self.outputs):
            found.setdefault(value, []).append(Use(self, number))


Target = TypeVar("Target", bound=Block)


class Function(Block):
    """A function of a program.

    Attributes:
        name, is_public: its name, and whether callers outside may use it.
        output_shardings: for each result its sharding, or None.
        original_name: for a copy that a pass made, the name of the original.
    """

    def __init__(self, name: str, is_public: bool = True) -> None:
        super().__init__()
        self.name = name
        self.is_public = is_public
        self.output_shardings: list[TensorSharding | None] = []
        self.original_name: str | None = None

    def again(self, name: str) -> "Function":
        """Make a private copy under another name."""
        made = self.copied_to(Function(name, is_public=False), {})
        made.name, made.original_name = name, self.original_name or self.name
        made.output_shardings = list(self.output_shardings)
        return made


class Use(NamedTuple):
    """A use of a value: as an operand of a step, or an output of a block, at an index."""

    user: Step | Block
    number: int

    @property
    def step(self) -> Step | None:
        """The step that reads it; None if it is an output of a block."""
        return self.user if isinstance(self.user, Step) else None

    @property
    def block(self) -> Block:
        """The block that contains the use."""
        return self.user.block if isinstance(self.user, Step) else self.user

    @property
    def value(self) -> Value:
        """The value that is read."""
        return self._read[self.number]

    def put(self, value: Value) -> None:
        """Replace the value that is read."""
        self._read[self.number] = value

    @property
    def _read(self) -> list[Value]:
        return self.user.operands if isinstance(self.user, Step) else self.user.outputs


class Program:
    """A module: meshes and functions by name, in order.

    A called function is one object, the `callee` of all steps that call it.
    """

    def __init__(self) -> None:
        self.meshes: dict[str, Mesh] = {}
        self.functions: dict[str, Function] = {}

    @classmethod
    def of_graph(cls, graph: Graph) -> "Program":
        """Create a program with a graph as function `main`, and the functions that it calls."""
        return cls.of_graphs({"main": graph}, ["main"])

    @classmethod
    def of_graphs(cls, graphs: Mapping[str, Graph], public: Iterable[str]) -> "Program":
        """Create a program of functions by name, `public` or not, and the functions they call."""
        program = cls()
        reader = _Reader(program, graphs, set(public))
        for name in graphs:
            reader.function(name)
        program.functions = {
            name: program.functions[name] for name in (*graphs, *program.functions)
        }
        return program

    @property
    def main(self) -> Function:
        """The function `main`, or the first one."""
        return self.functions.get("main") or next(iter(self.functions.values()))

    def block_of(self, graph: Graph) -> Block:
        """Return a graph as a block that no step runs."""
        block = Block()
        _Reader(self, {}, set()).fill(block, graph, None)
        return block

    def walk(self) -> Iterator[Step]:
        """Yield every step of every function, outer before inner, in order."""
        for function in list(self.functions.values()):
            yield from function.walk()

    def blocks(self) -> Iterator[Block]:
        """Yield every block, outer before inner."""
        for function in list(self.functions.values()):
            yield from function.blocks()

    def uses(self) -> dict[Value, list[Use]]:
        """Return the uses of each value, in order, except for values without uses."""
        uses_of: dict[Value, list[Use]] = {}
        for function in self.functions.values():
            uses_of |= function.uses()
        return uses_of

    def read_instead(self, values: Mapping[Value, Value]) -> None:
        """Replace values by others everywhere."""
        for function in self.functions.values():
            function.read_instead(values)

    def graphs(self) -> dict[str, Graph]:
        """Return each function as a graph with its annotations, by name."""
        writer = _Writer(self)
        return {name: writer.function(function) for name, function in self.functions.items()}

    def graph(self, name: str = "main") -> Graph:
        """Return one function as a graph; by default the main one."""
        return self.graphs()[name if name in self.functions else self.main.name]

    def __str__(self) -> str:
        made, attributes = self.graphs(), {}
        functions = {name: (made[name], f.is_public) for name, f in self.functions.items()}
        for name, function in self.functions.items():
            if function.original_name is not None:
                attributes[name] = f"{ORIGINAL_NAME} = {quoted(function.original_name)}"
        return Emitter().module(made[self.main.name], functions, attributes)


class _Reader:
    """A builder of a program from graphs."""

    def __init__(self, program: Program, graphs: Mapping[str, Graph], public: set[str]) -> None:
        self.program, self.graphs, self.public = program, dict(graphs), public
        self.names = {id(graph): name for name, graph in graphs.items()}

    def function(self, name: str) -> Function:
        functions = self.program.functions
        if name not in functions:
            graph = self.graphs[name]
            made = Function(name, name in self.public)
            self.fill(made, graph, None)
            notes = graph.annotations or Annotations()
            made.output_shardings = list(notes.outputs) or [None] * len(graph.outputs)
            self.program.meshes.update(notes.meshes)
            functions[name] = made
        return functions[name]

    def called(self, graph: Graph) -> Function:
        """Return the function that computes a graph."""
        if id(graph) not in self.names:
            stem = name = identifier(graph.name)
            numbers = count()
            while name in self.graphs or name in self.program.functions:
                name = f"{stem}_{next(numbers)}"
            self.names[id(graph)], self.graphs[name] = name, graph
        return self.function(self.names[id(graph)])

    def fill(self, block: Block, graph: Graph, inputs: Sequence[Value] | None) -> None:
        """Add the steps of a graph to a block; its inputs are those of the block, or `inputs`."""
        notes = graph.annotations or Annotations()
        block.name = block.name or graph.name
        for value in graph.inputs:
            if inputs is None:
                block.add_input(value.shape).sharding = notes.values.get(value)
        values = dict(zip(graph.inputs, block.inputs if inputs is None else inputs, strict=True))
        for instruction in graph.instructions:
            step = self.step(block, instruction, values)
            for result in instruction.results:
                if result in notes.values:
                    values[result].sharding = notes.values[result]
                if result in notes.rules:
                    step.stated_rule = notes.rules[result]
        block.outputs = [values[output] for output in graph.outputs]

    def step(self, block: Block, instruction: Instruction, values: dict[GraphValue, Value]) -> Step:
        op, operands = instruction.op, [values[operand] for operand in instruction.operands]
        is_group, is_choice = isinstance(op, ShardingGroup), isinstance(op, Conditional)
        shapes = () if is_group else instruction.shapes
        taken = operands[:1] if is_choice else operands
        step = Step(op, taken, shapes, block, instruction.source)
        if type(op) is Call:
            step.callee = self.called(op.computation)
        elif not op.is_plain:
            for graph in op.computations:
                step.blocks.append(Block(step))
                self.fill(step.blocks[-1], graph, operands[1:] if is_choice else None)
        block.steps.append(step)
        values.update(zip(instruction.results, operands if is_group else step.results, strict=True))
        return step


class _Writer:
    """A builder of graphs from a program's functions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.done: dict[Function, Graph] = {}

    def function(self, function: Function) -> Graph:
        if function not in self.done:
            graph = self.block(function)
            notes = graph.annotations or Annotations()
            outputs = function.output_shardings
            outputs = tuple(outputs) if any(output is not None for output in outputs) else ()
            meshes = self.program.meshes
            if outputs or graph.annotations or meshes:
                notes = replace(notes, outputs=outputs, meshes=dict(meshes))
                graph = Graph(graph.inputs, graph.instructions, graph.outputs, graph.name, notes)
            self.done[function] = graph
        return self.done[function]

    def block(self, block: Block, captured: Sequence[Value] = ()) -> Graph:
        """Return a block as a graph; its last inputs are the `captured` values from outside."""
        read = (*block.inputs, *captured)
        inputs = [GraphValue(value.shape, None, number) for number, value in enumerate(read)]
        values = dict(zip(read, inputs, strict=True))
        notes: dict[GraphValue, Any] = {}
        rules: dict[GraphValue, Any] = {}
        for value in block.inputs:
            if value.sharding is not None:
                notes[values[value]] = value.sharding
        made: list[Instruction] = []
        for step in block.steps:
            made.append(self.step(step, values))
            for result in step.results:
                if result.sharding is not None:
                    notes[values[result]] = result.sharding
            if step.stated_rule is not None:
                rules[values[step.results[0]]] = step.stated_rule
        outputs = [values[output] for output in block.outputs]
        annotations = Annotations(notes, rules=rules) if notes or rules else None
        return Graph(inputs, made, outputs, block.name, annotations)

    def step(self, step: Step, values: dict[Value, GraphValue]) -> Instruction:
        op, operands = step.op, [values[operand] for operand in step.operands]
        if step.callee is not None:
            op = Call(self.function(step.callee))
        elif step.blocks:
            captured = captures(step) if isinstance(op, Conditional) else ()
            operands += [values[value] for value in captured]
            graphs = iter([self.block(block, captured) for block in step.blocks])
            op = op.changed(lambda value: _replaced(value, graphs))
        if isinstance(op, ShardingGroup):
            made = Instruction(op, tuple(operands), operands[0].shape, step.source)
            values[step.operands[0]] = made.results[0]
            return made
        shapes = op.infer(tuple([operand.shape for operand in operands]))
        made = Instruction(op, tuple(operands), shapes, step.source)
        values.update(zip(step.results, made.results, strict=True))
        return made


def _replaced(value: Any, graphs: Iterator[Graph]) -> Any:
    if type(value) is tuple:  # dimension numbers are tuples of other classes
        return tuple([_replaced(element, graphs) for element in value])
    return next(graphs) if isinstance(value, Graph) else value


def captures(step: Step) -> list[Value]:
    """Return the outside values that a step's blocks read, in the order of their uses."""
    inner = [inner_block for block in step.blocks for inner_block in block.blocks()]
    local = {value for block in inner for value in block.inputs}
    local.update(value for block in inner for step in block.steps for value in step.results)
    read = dict.fromkeys(value for block in step.blocks for value in block.uses())
    return [captured for captured in read if captured not in local]
