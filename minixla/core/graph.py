"""Graphs: closed programs whose instructions are XLA operations."""

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import count
from operator import attrgetter
from typing import Any, TypeVar, cast

from minixla.core import hooks
from minixla.core.annotations import UNNAMED, Annotations, Paths
from minixla.core.attributes import Literal, spelling
from minixla.core.operation import Operation, Shapes
from minixla.core.registry import role
from minixla.core.shapes import AnyShape
from minixla.core.source import SOME_IMPORTED, Source, is_imported, printable
from minixla.core.tracebacks import Function

# Calls nested deeper than this are inlined for compilers, except every _CALLS_AT_ONCE-th level.
_MOST_CALLS, _CALLS_AT_ONCE = 64, 8

Made = TypeVar("Made")


@dataclass(eq=False, repr=False, slots=True)
class Value:
    """A value in a graph: an input (`instruction` is None) or one result of an instruction."""

    shape: AnyShape
    instruction: "Instruction | None"
    index: int

    @property
    def literal(self) -> Literal | None:
        """The constant's literal, if a constant of the program computes the value."""
        operation: Any = None if self.instruction is None else self.instruction.op
        return operation.literal if type(operation) is role("constant") else None

    def __repr__(self) -> str:
        owner = "input" if self.instruction is None else self.instruction.op.hlo_name
        return f"<Value {self.shape} of {owner}>"


Values = Sequence[Value]
_producer = attrgetter("instruction")


class Instruction:
    """One application of an operation.

    Attributes:
        op: the operation, with its attributes.
        operands: the Values that it reads.
        results: its result Values, in the order of the operation's results, and their `shapes`.
        single: whether the operation returns one value rather than a tuple of values.
        source: the user's line, or None.
    """

    __slots__ = ("operands", "op", "results", "shapes", "single", "source")

    def __init__(
        self, op: Operation, operands: tuple[Value, ...], shapes: Shapes, source: Source | None
    ) -> None:
        self.op: Any = op  # Any: with the attributes of its class
        self.operands = operands
        self.source = source
        if isinstance(shapes, tuple):
            self.single, self.shapes = False, shapes
            self.results = tuple([Value(shape, self, i) for i, shape in enumerate(shapes)])
        else:
            self.single, self.shapes = True, (shapes,)
            self.results = (Value(shapes, self, 0),)

    @property
    def result_shapes(self) -> Shapes:
        """The shape of the result, or a tuple of shapes, as `Operation.infer` returns it."""
        return self.shapes[0] if self.single else self.shapes

    def again(self, operands: Values, op: Operation | None = None) -> "Instruction":
        """Copy the instruction for other operands and, optionally, another operation."""
        return Instruction(op or self.op, tuple(operands), self.result_shapes, self.source)

    @property
    def has_side_effect(self) -> bool:
        """True if the operation, or an operation in a program that it runs, must not be dropped."""
        op = self.op
        return not op.is_plain and any(part.has_side_effect for part in (op, *op.computations))

    def __repr__(self) -> str:
        return f"<Instruction {self.op.hlo_name} -> {self.shapes}>"


def remembered(make: Function) -> Function:
    """Cache the results of a function of a program with the program, by its other arguments."""

    @wraps(make)
    def found(graph: "Graph", *arguments: object) -> object:
        # Do not use `graph.remembered`: programs may nest deeply, and each frame counts.
        key = make, *arguments
        if key not in graph.memo:
            graph.memo[key] = make(graph, *arguments)
        return graph.memo[key]

    return cast(Function, found)


def inner_first(make: Function) -> Function:
    """Cache like `remembered`, but compute the programs that a program runs before itself."""

    @wraps(make)
    def found(graph: "Graph") -> object:
        if make not in graph.memo:
            # They may be nested deeper than Python's recursion limit.
            for computation in innermost_first(graph, lambda each: make in each.memo):
                computation.memo[make] = make(computation)
        return graph.memo[make]

    return cast(Function, found)


class Graph:
    """A closed program: inputs, instructions in order of execution, outputs.

    Equality is structural: the same operations, attributes and data flow; names and source lines
    are ignored. A graph is immutable.
    """

    #: Equal graphs may differ in names and source lines, so identity matters.
    keeps_identity = True

    def __init__(
        self,
        inputs: Values,
        instructions: Sequence[Instruction],
        outputs: Values,
        name: str = "main",
        annotations: Annotations | None = None,
        paths: Paths = UNNAMED,
    ) -> None:
        self.inputs = tuple(inputs)
        self.instructions = tuple(instructions)
        self.outputs = tuple(outputs)
        self.name = name if name.isprintable() else printable(name)
        #: The shardings that it states, if any.
        self.annotations = annotations
        #: The paths of its inputs and outputs, if known.
        self.paths = paths
        self.input_shapes = tuple([value.shape for value in self.inputs])
        self.output_shapes = tuple([value.shape for value in self.outputs])
        # Derived programs (derivative, batched, pruned, compiled) by key; see `derived`.
        self.memo: dict[object, Any] = {}

        self._identity = object()

    @property
    @inner_first
    def has_side_effect(self) -> bool:
        """True if an instruction, or one of a program that it runs, has a side effect."""
        return any(step.has_side_effect for step in self.instructions if not step.op.is_plain)

    @property
    @remembered
    def computations(self) -> list["Graph"]:
        """The programs that its instructions run."""
        operations = [step.op for step in self.instructions]
        return [program for op in operations if not op.is_plain for program in op.computations]

    @property
    @inner_first
    def has_pieces(self) -> bool:
        """True if it, or a program that it runs, has an operation that runs on shards."""
        has_own = any(step.op.split_by == "pieces" for step in self.instructions)
        return has_own or any(computation.has_pieces for computation in self.computations)

    @property
    @inner_first
    def meshes(self) -> list[Any]:
        """The meshes of devices that it names, without duplicates."""
        operations = [step.op for step in self.instructions if not step.op.is_plain]
        own_meshes = [mesh for op in operations for mesh in op.meshes]
        inner_meshes = [mesh for program in self.computations for mesh in program.meshes]
        return list(dict.fromkeys([*own_meshes, *inner_meshes]))

    @property
    @inner_first
    def depth(self) -> int:
        """The nesting depth of the programs that it runs; 0 without programs."""
        return max([1 + computation.depth for computation in self.computations], default=0)

    @property
    def is_inlined(self) -> bool:
        """True if it is inlined at its calls for compilers, which recurse over calls."""
        return self.depth > _MOST_CALLS and self.depth % _CALLS_AT_ONCE != 0

    def with_paths(self, paths: Paths) -> "Graph":
        """Return the same program with other paths of its inputs and outputs."""
        return Graph(
            self.inputs, self.instructions, self.outputs, self.name, self.annotations, paths
        )

    def pruned(self) -> "Graph":
        """Return the program without pure instructions that no output depends on."""
        if "pruned" not in self.memo:
            graph = self._pruned()
            self.memo["pruned"] = graph.memo["pruned"] = graph
        return self.memo["pruned"]

    def _pruned(self) -> "Graph":
        needed = {value.instruction for value in self.outputs}
        kept: list[Instruction] = []
        for step in reversed(self.instructions):
            if step in needed or (not step.op.is_plain and step.has_side_effect):
                kept.append(step)
                needed.update(map(_producer, step.operands))
        if len(kept) == len(self.instructions):
            return self
        notes, paths = self.annotations, self.paths
        return Graph(self.inputs, kept[::-1], self.outputs, self.name, notes, paths)

    @inner_first
    def silent(self) -> "Graph":
        """Return the program without instructions that have no results: they only show values."""
        return _Silent(self, Graph.silent).run()

    @inner_first
    def evaluated(self) -> "Graph":
        """Return the program without users' rules, which evaluation ignores.

        A cache of compiled functions would keep these rules and arrays in their closures alive.
        """
        return self if self.annotations is not None else _Evaluated(self, Graph.evaluated).run()

    def remembered(self, key: Hashable, make: Callable[..., Made], *arguments: object) -> Made:
        """Return `make(*arguments)`, computed once for a key and cached with the program."""
        if key not in self.memo:
            self.memo[key] = make(*arguments)
        return self.memo[key]

    def stablehlo(self, platform: str | None = None) -> str:
        """Return the program as a StableHLO module whose public function is `main`.

        Args:
            platform: `cpu`, `gpu` or `tpu` for the text that XLA receives on one device of that
                platform, after legalization; default: the program without legalization.

        Raises:
            AttributeValueError: the platform is unknown.
        """
        if platform is not None:
            return hooks.platform_text(self, platform)
        from minixla.core.stablehlo_text import Emitter  # avoids an import cycle

        return Emitter().module(self)

    def __str__(self) -> str:
        from minixla.core.hlo_text import HloEmitter  # as above

        return HloEmitter().module(self)

    def _repr_html_(self) -> str:
        return hooks.html_of(self)

    def __repr__(self) -> str:
        shapes = (", ".join(map(repr, side)) for side in (self.input_shapes, self.output_shapes))
        signature = "({}) -> ({})".format(*shapes)
        return f"<Graph {self.name} {signature}, {len(self.instructions)} instructions>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        if self._identity is not other._identity and _same_program(self, other):
            other._identity = self._identity  # cached for the next comparison
        return self._identity is other._identity

    def __copy__(self, memo: object = None) -> "Graph":
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[object, ...]:
        # Proceed step by step, since following operands would recurse. Write the programs that it
        # runs separately, since these may nest deeply. Source lines are written only for imported
        # programs.
        programs: dict[int, _Place] = {}

        def written(op: Operation) -> object:
            return (type(op), _without_programs(op, programs)) if op.computations else op

        parts = []
        for graph in innermost_first(self, lambda program: id(program) in programs):
            flags = tuple([is_imported(step.source) for step in graph.instructions])
            parts.append((graph.name, graph._parts(written), flags, graph.paths))
            programs[id(graph)] = _Place(len(programs))
        return _rebuilt, (parts,)

    def _parts(self, written: Callable[[Any], object]) -> tuple[object, ...]:
        """Return shapes of inputs, steps, outputs and annotations; values are numbered."""
        number = {id(value): index for index, value in enumerate(self.inputs)}
        steps = []
        for step in self.instructions:
            operands = tuple([number[id(value)] for value in step.operands])
            steps.append((written(step.op), operands, step.result_shapes))
            number.update(zip(map(id, step.results), count(len(number)), strict=False))
        outputs, notes = tuple([number[id(output)] for output in self.outputs]), self.annotations
        if notes is not None:
            placed, rules = _numbered(notes.values, number), _numbered(notes.rules, number)
            notes = placed, tuple(notes.outputs), tuple(notes.meshes.items()), rules
        return self.input_shapes, tuple(steps), outputs, notes

    @inner_first
    def __hash__(self) -> int:
        steps = [(step.op.name, *step.op.computations) for step in self.instructions]
        return hash((self.input_shapes, self.output_shapes, *steps))


class Rewriting:
    """Rewrite a program; the base class leaves everything unchanged.

    Attributes:
        old: the program.
        inner: returns the programs that it runs, rewritten before.
        instructions: the instructions of the new program so far.
        values: replacements of values of the old program.
    """

    def __init__(self, graph: Graph, inner: Callable[[Graph], Graph]) -> None:
        self.old, self.inner = graph, inner
        self.instructions: list[Instruction] = []
        self.values: dict[Value, Value] = {}

    def replaced(self, step: Instruction) -> Values | None:
        """Return replacements of an instruction's results; None to keep the instruction."""
        return None

    def after(self, step: Instruction, results: Values) -> Values:
        """Return replacements of the results of a kept instruction."""
        return results

    def outputs(self) -> list[Value]:
        """Return the outputs of the new program."""
        return self.all(self.old.outputs)

    def all(self, values: Values) -> list[Value]:
        """Return the replacements of values of the old program."""
        return [self.values.get(value, value) for value in values]

    def apply(self, op: Operation, operands: Values, source: Source | None) -> Values:
        """Append an instruction on values of the new program, and return its results."""
        shapes = op.infer(tuple([operand.shape for operand in operands]))
        self.instructions.append(Instruction(op, tuple(operands), shapes, source))
        return self.instructions[-1].results

    def run(self) -> Graph:
        """Return the new program, without annotations; the old program if nothing changed."""
        old = self.old
        for step in old.instructions:
            results = self.replaced(step)
            if results is None:
                results = self.after(step, self._kept(step).results)
            if results is not step.results:
                self.values.update(zip(step.results, results, strict=True))
        outputs = self.outputs()
        is_same = not self.values and outputs == list(old.outputs) and old.annotations is None
        if is_same and len(self.instructions) == len(old.instructions):
            return old
        return Graph(old.inputs, self.instructions, outputs, old.name, paths=old.paths)

    def _kept(self, step: Instruction) -> Instruction:
        op, operands = step.op, self.all(step.operands)
        if not op.is_plain and any(self.inner(part) is not part for part in op.computations):
            op = op.changed(lambda value: _replaced(value, self.inner))
        if op is not step.op or any(map(operator.is_not, operands, step.operands)):
            step = step.again(operands, op)
        self.instructions.append(step)
        return step


class _Silent(Rewriting):
    """Remove instructions without results."""

    def replaced(self, step: Instruction) -> Values | None:
        return None if step.results else ()


class _Evaluated(Rewriting):
    """Replace operations that have users' rules."""

    def replaced(self, step: Instruction) -> Values | None:
        op = role("without_user_rule")(step.op)
        return None if op is None else self.apply(op, self.all(step.operands), step.source)


class _Place(int):
    """Placeholder for an inner program of a pickled or compared program: its index."""


def _without_programs(op: Operation, programs: dict[int, _Place]) -> tuple[object, ...]:
    return _replaced(tuple(op.values.values()), lambda program: programs[id(program)])


def _replaced(value: object, place: Callable[[Any], object]) -> Any:  # noqa: ANN401  # as nested as the value
    """Replace programs, or their placeholders, in nested attributes."""
    if type(value) is tuple:
        return tuple([_replaced(element, place) for element in value])
    return place(value) if isinstance(value, (Graph, _Place)) else value


def _numbered(notes: Mapping[Value, object], number: Mapping[int, int]) -> tuple[object, ...]:
    """Return notes on values by value index, in order; skip pruned values."""
    pairs = [(number[id(value)], note) for value, note in notes.items() if id(value) in number]
    return tuple(sorted(pairs, key=operator.itemgetter(0)))


def _rebuilt(programs: Sequence[tuple[Any, ...]]) -> Graph:
    """Rebuild the last of some programs from their parts (see `Graph._parts`), inner first."""
    made: list[Graph] = []
    for name, (input_shapes, steps, outputs, notes), flags, paths in programs:
        inputs = [Value(shape, None, index) for index, shape in enumerate(input_shapes)]
        values, instructions = [*inputs], []
        for (op, operands, shapes), flag in zip(steps, flags, strict=True):
            if type(op) is tuple:
                op = op[0](*_replaced(op[1], made.__getitem__))
            source, read = SOME_IMPORTED if flag else None, tuple([values[n] for n in operands])
            step = Instruction(op, read, shapes, source)
            instructions.append(step)
            values.extend(step.results)
        if notes is not None:
            placed, rules = ({values[number]: note for number, note in notes[at]} for at in (0, 3))
            notes = Annotations(placed, notes[1], dict(notes[2]), rules)
        outputs = [values[number] for number in outputs]
        made.append(Graph(inputs, instructions, outputs, name, notes, paths))
    return made[-1]


def innermost_first(graph: Graph, is_done: Callable[[Graph], bool]) -> Iterator[Graph]:
    """Yield a graph and the programs that it runs, except finished ones, inner before outer."""
    # Use an explicit stack: programs may be nested deeper than Python's recursion limit.
    stack = [graph]
    while stack:
        waiting = [program for program in stack[-1].computations if not is_done(program)]
        if waiting:
            stack.extend(waiting)
        else:
            innermost = stack.pop()
            if not is_done(innermost):
                yield innermost


def _same_program(first: Graph, second: Graph) -> bool:
    if hash(first) != hash(second):
        return False
    programs: dict[int, _Place] = {}
    numbers: dict[object, _Place] = {}
    unhashable: list[object] = []

    def written(op: Operation) -> object:
        if not (op.keeps_identity or op.is_unique):
            return op  # unique for its attributes
        values = _without_programs(op, programs)
        try:
            hash(values)
        except TypeError:  # a user's function
            if values not in unhashable:
                unhashable.append(values)
            values = (unhashable.index(values),)
        return type(op), values, spelling(values) if op.is_ambiguous else None

    # Equal programs get one number, inner ones first: they may be nested deeply.
    for compared in (first, second):
        for graph in innermost_first(compared, lambda program: id(program) in programs):
            programs[id(graph)] = numbers.setdefault(graph._parts(written), _Place(len(numbers)))
    return programs[id(first)] == programs[id(second)]


def part_of(
    inputs: Sequence[Value], steps: Sequence[Instruction], outputs: Sequence[Value], name: str
) -> Graph:
    """Build a graph from some instructions; `inputs` are not computed by them."""
    inputs_of_part = [Value(v.shape, None, index) for index, v in enumerate(inputs)]
    copies, own = dict(zip(inputs, inputs_of_part, strict=True)), []
    for step in steps:
        own.append(step.again([copies[v] for v in step.operands]))
        for value, made in zip(step.results, own[-1].results, strict=True):
            copies.setdefault(value, made)
    return Graph(inputs_of_part, own, [copies[v] for v in outputs], name)


def hoist_constants(graph: Graph) -> tuple[Graph, list[Literal]]:
    """Turn constants that are not printed into the first inputs; return the graph and them."""
    constant = role("constant")
    constants = [step for step in graph.instructions if type(step.op) is constant]
    hoisted = {step: step.op.literal for step in constants if not step.op.literal.is_printed}
    if not hoisted:
        return graph, []
    inputs = [*[step.results[0] for step in hoisted], *graph.inputs]
    kept = [step for step in graph.instructions if step not in hoisted]
    return Graph(inputs, kept, graph.outputs, graph.name), list(hoisted.values())
