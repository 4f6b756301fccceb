"""Calls of functions behind propagation, through which shardings passed as named computations."""

from collections.abc import Mapping, Sequence

from minixla.sharding.operations import NamedComputation, Reshard
from minixla.sharding.passes.symbols import Symbols
from minixla.sharding.program import Block, Function, Program, Step, Use, Value
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import sharding_of
from minixla_ops.programs.call import Call


def export_calls(program: Program) -> None:
    """Turns named computations into calls, those that are alike of one function.

    SDY: sdy-export-named-computations, sdy-propagate-to-func-results, sdy-unflatten-call-graph and
    sdy-insert-func-call-reshards.
    """
    exporter = _Exporter(program)
    for function in list(program.functions.values()):
        exporter.export(function)
    fit_calls(program)


class _Exporter:
    """Makes functions of named computations."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.symbols = Symbols([*program.functions, *program.meshes])
        self.made: dict[object, Function] = {}

    def export(self, block: Block) -> None:
        for step in block.steps:
            for each in step.blocks:
                self.export(each)
            if isinstance(step.op, NamedComputation):
                self.call(step)

    def call(self, step: Step) -> None:
        """Makes a call of a named computation."""
        op, (body,) = step.op, step.blocks
        name = self.symbols.free(op.label)
        results = tuple([sharding_of(value) for value in body.outputs])
        key = op.label, op.in_shardings, results, _callees(body)
        if key not in self.made:
            self.made[key] = self.program.functions[name] = self.function(name, body, op, results)
        step.op, step.callee, step.blocks = Call(op.computation), self.made[key], []
        for value, sharding in zip(step.results, op.out_shardings or (), strict=False):
            value.sharding = sharding

    def function(
        self,
        name: str,
        body: Block,
        op: NamedComputation,
        results: Sequence[TensorSharding | None],
    ) -> Function:
        """The function of a body."""
        function = Function(name, is_public=False)
        function.inputs, function.steps, function.outputs = body.inputs, body.steps, body.outputs
        function.output_shardings = list(results)
        for value in function.inputs:
            value.owner = function
        for value, sharding in zip(function.inputs, op.in_shardings or (), strict=False):
            value.sharding = sharding
        for step in function.steps:
            step.block = function
        return function


def _callees(body: Block) -> tuple[str, ...]:
    return tuple([step.callee.name for step in body.walk() if step.callee is not None])


def fit_calls(program: Program) -> None:
    """Reshards operands and results of calls that their functions lay out otherwise."""
    uses = program.uses()
    for block in program.blocks():
        steps: list[Step] = []
        for step in block.steps:
            steps += [step] if step.callee is None else _fitted(step, step.callee, uses)
        block.steps = steps


def _fitted(step: Step, callee: Function, uses: Mapping[Value, Sequence[Use]]) -> list[Step]:
    before, behind = [], []
    for number, value in enumerate(step.operands):
        wanted = callee.inputs[number].sharding
        if _differ(wanted, sharding_of(value)):
            before.append(step.block.new_step(Reshard(wanted), [value], step.source))
            step.operands[number] = before[-1].results[0]
    for value, made in zip(step.results, callee.output_shardings, strict=True):
        if _differ(value.sharding, made):
            behind.append(step.block.new_step(Reshard(value.sharding), [value], step.source))
            for use in uses.get(value, ()):
                use.put(behind[-1].results[0])
        value.sharding = made or value.sharding
    return [*before, step, *behind]


def _differ(wanted: TensorSharding | None, current: TensorSharding | None) -> bool:
    """Whether a value lies otherwise than wanted."""
    if wanted is None:
        return False
    return wanted.parts != (((),) * wanted.rank if current is None else current.parts)
