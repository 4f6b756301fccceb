"""The pass that gives every use of a constant a constant of its own."""

from minixla.sharding.operations import (
    DataFlowEdge,
    NamedComputation,
    SdyConstant,
    ShardingConstraint,
    ShardingGroup,
)
from minixla.sharding.passes.calls import FunctionCopies, callees_first
from minixla.sharding.program import Block, Function, Program, Step, Value
from minixla_ops.elementwise.conversion import BitcastConvertType
from minixla_ops.movement.broadcasting import Broadcast, BroadcastInDim
from minixla_ops.movement.constants import Constant, Iota
from minixla_ops.movement.reshaping import Reshape
from minixla_ops.movement.slicing import Slice

_BROADCASTS = BroadcastInDim, Broadcast
# Element-wise, but neither kept nor copied like a computation.
_MARKS = ShardingConstraint, ShardingGroup, DataFlowEdge


def split_constants(program: Program, *, specification: bool = False) -> None:
    """Copies constants, so that each use may lie as it needs.

    SDY: sdy-constant-or-scalar-splitter. Constant are constants, iotas, and what element-wise
    operations, slices, broadcasts and reshapes, and functions and named computations of these
    alone, make of nothing but constants. Each use by anything else gets a copy of all that the
    value is computed of. So does each use of a scalar's broadcast. Scalars are shared: they cannot
    be sharded.

    Args:
        program: the program, whose constants are split.
        specification: whether scalars are split too, and reshapes, calls, named computations and
            broadcasts of scalars that are not constant are not, as it first was in Shardy.
    """
    splitter = _Splitter(program, specification)
    for function in callees_first(program):
        splitter.split_function(function)


class _Splitter:
    """The pass at work on a program."""

    def __init__(self, program: Program, by_specification: bool) -> None:
        self.program = program
        self.by_specification = by_specification
        #: Steps whose results are constant, and those that broadcast scalars which are not.
        self.constants: dict[Step, None] = {}
        self.expansions: dict[Step, None] = {}
        #: What comes before a step.
        self.before: dict[Step, list[Step]] = {}
        #: The memberships of a value, in the order in which MLIR lists its uses.
        self.groups: dict[Value, list[Step]] = {}
        for step in program.walk():
            if isinstance(step.op, ShardingGroup):
                self.groups.setdefault(step.operands[0], []).insert(0, step)
        for step in program.walk():
            if type(step.op) is Constant:
                step.op = SdyConstant(step.op.literal)
                self.groups.get(step.results[0], []).reverse()
        self.copies = FunctionCopies(program)
        self.constant_functions: dict[Function, bool] = {}
        #: The labels of named computations of which one, up to this function, is not constant.
        self.varying: set[str] = set()

    def split_function(self, function: Function) -> None:
        """Splits the constants of a function, those that it calls having been split."""
        for step in function.walk():
            is_named = isinstance(step.op, NamedComputation)
            if is_named and not self.can_be_constant(step.blocks[0]):
                self.varying.add(step.op.label)
        self.split(function)
        self.constant_functions[function] = self.can_be_constant(function)

    def split(self, block: Block) -> None:
        """Splits the constants that the steps of a block use, and what it gives."""
        for step in block.steps:
            for inner_block in step.blocks:
                self.split(inner_block)
            if self.is_constant(step):
                self.constants[step] = None
            elif self.is_expansion(step):
                self.expansions[step] = None
            elif not isinstance(step.op, ShardingGroup):
                step.operands = [self.own(operand) for operand in step.operands]
        block.outputs = [self.own(output) for output in block.outputs]
        block.steps = [new for step in block.steps for new in (*self.before.pop(step, ()), step)]
        self.erase(block)

    def can_be_constant(self, block: Block) -> bool:
        """Whether constant inputs make all that a block computes constant."""
        return all(
            isinstance(step.op, ShardingGroup) or self.preserves(step) for step in block.steps
        )

    def preserves(self, step: Step) -> bool:
        """Whether a step makes constants of constants."""
        op = step.op
        if isinstance(op, (Constant, Iota, Slice, *_BROADCASTS)):
            return True
        if not self.by_specification:
            if isinstance(op, Reshape):
                return True
            if step.callee is not None:
                # Copies are made of constant functions alone.
                return self.constant_functions.get(step.callee, True)
            if isinstance(op, NamedComputation):
                return op.label not in self.varying and self.can_be_constant(step.blocks[0])
        if isinstance(op, BitcastConvertType):
            return step.operands[0].rank == step.results[0].rank
        return op.is_elementwise and not isinstance(op, _MARKS)

    def is_constant(self, step: Step) -> bool:
        """Whether a step makes its results of constants alone."""
        return self.preserves(step) and all(
            operand.step in self.constants for operand in step.operands
        )

    def is_expansion(self, step: Step) -> bool:
        """Whether a step broadcasts a scalar."""
        is_broadcast = not self.by_specification and isinstance(step.op, _BROADCASTS)
        return is_broadcast and step.operands[0].rank == 0

    def is_split(self, value: Value) -> bool:
        """Whether each use of a value has its own."""
        is_whole = value.rank > 0 or self.by_specification
        return is_whole and (value.step in self.constants or value.step in self.expansions)

    def own(self, value: Value) -> Value:
        """A value for one use: a copy of it, and of all that it is computed of, if it is split."""
        values: dict[Value, Value] = {}
        stack = [value] if self.is_split(value) else []
        while stack:
            top = stack[-1]
            missing = [] if top in values else self.missing(top, values)
            if top not in values and not missing:
                self.copy(top, values)
            if missing:
                stack += missing
            else:
                stack.pop()
        return values.get(value, value)

    def missing(self, value: Value, values: dict[Value, Value]) -> list[Value]:
        """Which of the operands that make a value are to be copied first, the last one first."""
        assert value.step is not None
        operands = [
            operand
            for operand in value.step.operands
            if operand not in values and self.is_split(operand)
        ]
        return operands[::-1]

    def copy(self, value: Value, values: dict[Value, Value]) -> None:
        """Copies the step that makes a value, and its groups."""
        step = value.step
        assert step is not None
        made = step.again(step.block, values)
        if made.callee is not None:
            made.callee = self.copies.copy(made.callee)
        copies = [group.again(step.block, values) for group in self.groups.get(value, ())]
        self.before.setdefault(step, []).extend([made, *copies])

    def erase(self, block: Block) -> None:
        """Takes away what was copied, where only groups use it now, and these."""
        uses = block.uses()
        dead: set[Step] = set()
        for step in reversed(block.steps):
            users = [use.step for result in step.results for use in uses.get(result, ())]
            left = [user for user in users if user not in dead]
            is_copied = step in self.constants or step in self.expansions
            if is_copied and all(use and isinstance(use.op, ShardingGroup) for use in left):
                dead.update([step, *filter(None, left)])
        for each in {step.block: None for step in dead}:
            each.steps = [step for step in each.steps if step not in dead]
