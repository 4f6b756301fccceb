"""The pass that applies rules to the instructions of a graph and to the programs that they run."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.errors import TransformError, explain
from minixla.core.graph import Annotations, Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape
from minixla.core.state import held, state
from minixla.core.tracing import GraphTrace, GraphTracer, closed_graph, nested, tracing
from minixla.legalize.constants import CONSTANT, NOTHING, Constants, Fact, inputs_of, splat_of
from minixla.legalize.registry import NOTES, Rule, Table, Target, active_rules
from minixla_ops.helpers.shorthand import as_tuple
from minixla_ops.programs.call import Call
from minixla_ops.programs.lowering import kept, without_lines
from minixla_ops.programs.runs_programs import RunsPrograms

# The minimum number of instructions of a replacement that is called instead of copied. For shorter
# ones calls take longer, because MLIR verifies a module with several functions on several threads.
_CALLED = 16


def legalized(graph: Graph, target: Target, inputs: Sequence[Fact] = ()) -> Graph:
    """Return the program that XLA receives for a platform; it is `graph` if no rule applies.

    Results are cached with the graph, for each target and set of enabled rules.

    Args:
        graph: the program.
        target: the platform and devices that the program is lowered for.
        inputs: the facts about each input; default: none.

    Returns:
        A graph with the same inputs, outputs and results.
    """
    table = active_rules(target.platform)
    key = _key(target)
    if not table or key in graph.memo:
        return graph
    facts = tuple(inputs or (NOTHING,) * len(graph.inputs))
    key_of_facts = (*key, facts)
    if key_of_facts not in graph.memo:
        legalized_graph = _Pass(graph, facts, target, table).run().pruned()
        # The graph is already legalized, perhaps with other facts about its inputs.
        legalized_graph.memo[(*key, "seen") if legalized_graph is graph else key] = True
        graph.memo[key_of_facts] = legalized_graph
    return graph.memo[key_of_facts]


def legalized_text(graph: Graph, target: Target) -> Graph:
    """Legalize a program that replaces an operation; its operands may be constants.

    Programs that the pass has produced are returned unchanged.
    """
    if (*_key(target), "seen") in graph.memo:
        return graph
    return legalized(graph, target, (CONSTANT,) * len(graph.inputs))


def _key(target: Target) -> tuple[Any, ...]:
    return "legalized", target[:4], state.disabled_rules


class _Pass:
    """The rewriting of one graph."""

    def __init__(
        self,
        graph: Graph,
        facts: Sequence[Fact],
        target: Target,
        table: Table,
        used: tuple[Rule, ...] = (),
    ) -> None:
        self.graph, self.table, self.used = graph, table, used
        self.instructions: list[Instruction] = []
        self.values: dict[Value, Value] = {}
        constants = Constants(graph, facts)
        self.target = target._replace(
            is_constant=constants, array=constants.array, note=constants.note
        )

    def run(self) -> Graph:
        """Return the new graph, or the old one if nothing changed."""
        graph, values = self.graph, self.values
        for step in graph.instructions:
            operands = step.operands
            if values and not values.keys().isdisjoint(operands):
                operands = self.all(operands)
            self.add(step, operands, self.used)
        if not values:
            return graph
        notes = graph.annotations and self._notes(graph.annotations)
        outputs, paths = self.all(graph.outputs), graph.paths
        return Graph(graph.inputs, self.instructions, outputs, graph.name, notes, paths)

    def all(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """Map values of the old graph to values of the new one."""
        get = self.values.get
        return tuple([get(value, value) for value in values])

    def add(self, step: Instruction, operands: tuple[Value, ...], used: tuple[Rule, ...]) -> None:
        """Add an instruction, or its replacement by rules that are not used yet."""
        op = step.op
        if not op.is_plain:
            op = self._with_programs(step, operands)
        by_type = self.table.get(op.__class__)
        if by_type is not None:
            for rule in by_type.get(_type_of(step), ()):
                if rule not in used and rule.when(op, operands, self.target):
                    self._apply(rule, op, step, operands, used)
                    return
        if op is not step.op or operands != step.operands:  # values are compared by identity
            made = step.again(operands, op)
            self.values.update(zip(step.results, made.results, strict=True))
            step = made
        self.instructions.append(step)

    def _apply(
        self, rule: Rule, op: Operation, step: Instruction, operands: Any, used: tuple[Rule, ...]
    ) -> None:
        """Add the replacement of an instruction."""
        if rule.folds or rule.reads_graph or not self._is_by_shapes(operands):
            self._trace(rule, op, step, operands, used)
            return
        shapes, target = tuple([operand.shape for operand in operands]), Target(*self.target[:4])
        program = _replacement(op, shapes, rule, target)
        key = (*_key(target), "may change")
        if program.remembered(key, lambda: any(map(self._may_change, program.instructions))):
            facts, used = tuple(map(self._fact, operands)), (*used, rule)
            program = _legalized_replacement(op, shapes, facts, used, target, state.disabled_rules)
        source, results = step.source, program.outputs
        if len(program.instructions) >= _CALLED and target.device_count == 1:
            program.memo[(*key[:-1], "seen")] = True
            made = Instruction(Call(program), operands, program.output_shapes, source)
            self.instructions.append(made)
            results = made.results
        else:
            values = dict(zip(program.inputs, operands, strict=True))
            for instruction in program.instructions:
                inputs = tuple([values[value] for value in instruction.operands])
                made = Instruction(instruction.op, inputs, instruction.result_shapes, source)
                values.update(zip(instruction.results, made.results, strict=True))
                self.instructions.append(made)
            results = [values[value] for value in program.outputs]
        self.values.update(zip(step.results, results, strict=True))

    def _may_change(self, step: Instruction) -> bool:
        """Return whether an instruction runs programs, or has rules."""
        by_type = self.table.get(type(step.op))
        has_rules = by_type is not None and _type_of(step) in by_type
        return has_rules or isinstance(step.op, RunsPrograms)

    def _is_by_shapes(self, operands: Sequence[Value]) -> bool:
        """Return whether one replacement serves all operands with these facts."""
        are_distinct = 0 < len(operands) == len(set(operands))
        return are_distinct and not any(
            splat_of(operand) is None and self.target.array(operand) is not None
            for operand in operands
        )

    def _trace(
        self, rule: Rule, op: Operation, step: Instruction, operands: Any, used: tuple[Rule, ...]
    ) -> None:
        trace: Any = GraphTrace(state.trace)
        outer = self.target
        target = outer._replace(
            is_constant=lambda operand: outer.is_constant(operand._value),
            array=lambda operand: outer.array(operand._value),
            note=lambda operand, name: outer.note(operand._value, name),
        )
        with held("source", step.source), tracing(trace):
            tracers = [GraphTracer(trace, value) for value in operands]
            folded = self._folded(op, operands) if rule.folds else None
            results = folded or as_tuple(rule.replace(op, tracers, target))
            outputs = [trace.capture(result, rule.name) for result in results]
        for made in trace.instructions:
            self.add(made, self.all(made.operands), (*used, rule))
        self.values.update(zip(step.results, self.all(outputs), strict=True))

    def _folded(self, op: Operation, operands: Sequence[Value]) -> tuple[np.ndarray, ...] | None:
        """Compute an operation on constants whose numbers are known."""
        arrays = [self.target.array(value) for value in operands]
        return None if any(array is None for array in arrays) else as_tuple(op.reference(*arrays))

    def _with_programs(self, step: Instruction, operands: Sequence[Value]) -> Operation:
        """Return the operation with its programs legalized, except reducers."""
        op = step.op
        if not isinstance(op, RunsPrograms):
            return op
        facts = list(map(self._fact, operands))
        inputs: dict[int, tuple[Graph, tuple[Fact, ...]]] = {}
        by_identity: dict[int, Graph] = {}
        for number, program in enumerate(op.computations):
            after = inputs_of(step, number, facts)
            _, before = inputs.get(
                id(program), (program, after)
            )  # several branches may share the program
            merged = tuple([a | b for a, b in zip(before, after, strict=True)])
            inputs[id(program)] = program, merged
        with nested():
            for key, (program, merged) in inputs.items():
                by_identity[key] = legalized(program, self.target, merged)
        if all(id(program) == key for key, program in by_identity.items()):
            return op
        return op.changed(lambda value: _exchanged(value, by_identity))

    def _fact(self, value: Value) -> Fact:
        """Return the facts about a value for a program that takes it as an input."""
        target = self.target
        if target.is_constant(value):
            number = splat_of(value)
            return CONSTANT if number is None else Fact(True, np.asarray(number).tobytes())
        notes_by_name = {name: note(value, target) for name, note in NOTES.items()}
        notes = tuple([(name, fact) for name, fact in notes_by_name.items() if fact])
        return Fact(False, None, notes) if notes else NOTHING

    def _notes(self, notes: Annotations) -> Annotations:
        values, rules = (
            {self.values.get(value, value): note for value, note in by_value.items()}
            for by_value in (notes.values, notes.rules)
        )
        return Annotations(values, notes.outputs, notes.meshes, rules)


@kept
def _replacement(op: Operation, shapes: tuple[AnyShape, ...], rule: Rule, target: Target) -> Graph:
    """Return the program that a rule replaces an operation with."""

    def unread(*_: object) -> NoReturn:
        problem = f"the rule {rule.name} reads constants, but its replacement is cached by shapes"
        advice = "Register it with legalize(..., reads_graph=True)."
        raise explain(TransformError, "legalize", problem, advice=advice)

    without_values = target._replace(is_constant=unread, array=unread, note=unread)

    def replaced(*operands: Any) -> Any:
        return rule.replace(op, operands, without_values)

    return without_lines(closed_graph(replaced, shapes, rule.name, rule.name).pruned())


@kept
def _legalized_replacement(
    op: Operation,
    shapes: tuple[AnyShape, ...],
    facts: tuple[Fact, ...],
    used: tuple[Rule, ...],
    target: Target,
    disabled: frozenset[tuple[str, str]],
) -> Graph:
    """Return the legalized program that the last of the rules replaces an operation with."""
    program = _replacement(op, shapes, used[-1], target)
    return _Pass(program, facts, target, active_rules(target.platform), used).run().pruned()


def _type_of(step: Instruction) -> ElementType | None:
    """Return the element type of the rule table for an instruction."""
    values = step.operands or step.results
    return getattr(values[0].shape, "element_type", None) if values else None


def _exchanged(value: Any, programs: dict[int, Graph]) -> Any:
    if type(value) is tuple:
        return tuple([_exchanged(element, programs) for element in value])
    return programs.get(id(value), value)
