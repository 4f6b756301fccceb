"""The pass that gives every use of a constant a separate constant."""

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
    """Copy constants, so that each use may have its own sharding.

    SDY: sdy-constant-or-scalar-splitter. Constants and iotas are constant. So are element-wise
    operations, slices, broadcasts and reshapes of constant values, and functions and named
    computations that contain only these. Each use by another operation gets a copy of all steps
    that compute the value. So does each use of a scalar's broadcast. Scalars are shared, because
    they cannot be sharded.

    Args:
        program: the program, whose constants are split.
        specification: whether to split scalars too, and not to split reshapes, calls, named
            computations and broadcasts of non-constant scalars, as Shardy did at first.
    """
    splitter = _Splitter(program, specification)
    for function in callees_first(program):
        splitter.split_function(function)


class _Splitter:
    """The state of the pass on a program."""

    def __init__(self, program: Program, by_specification: bool) -> None:
        self.program = program
        self.by_specification = by_specification
        #: Steps with constant results, and steps that broadcast scalars that are not constant.
        self.constants: dict[Step, None] = {}
        self.expansions: dict[Step, None] = {}
        #: The steps to insert before a step.
        self.before: dict[Step, list[Step]] = {}
        #: The group memberships of a value, in the order in which MLIR lists its uses.
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
        #: The labels of named computations that have a non-constant instance, up to this function.
        self.varying: set[str] = set()

    def split_function(self, function: Function) -> None:
        """Split the constants of a function, after those of the functions that it calls."""
        for step in function.walk():
            is_named = isinstance(step.op, NamedComputation)
            if is_named and not self.can_be_constant(step.blocks[0]):
                self.varying.add(step.op.label)
        self.split(function)
        self.constant_functions[function] = self.can_be_constant(function)

    def split(self, block: Block) -> None:
        """Split the constants that the steps and outputs of a block use."""
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
        """Test whether all values of a block are constant if its inputs are."""
        return all(
            isinstance(step.op, ShardingGroup) or self.preserves(step) for step in block.steps
        )

    def preserves(self, step: Step) -> bool:
        """Test whether the results of a step are constant if its operands are."""
        op = step.op
        if isinstance(op, (Constant, Iota, Slice, *_BROADCASTS)):
            return True
        if not self.by_specification:
            if isinstance(op, Reshape):
                return True
            if step.callee is not None:
                # Only constant functions are copied.
                return self.constant_functions.get(step.callee, True)
            if isinstance(op, NamedComputation):
                return op.label not in self.varying and self.can_be_constant(step.blocks[0])
        if isinstance(op, BitcastConvertType):
            return step.operands[0].rank == step.results[0].rank
        return op.is_elementwise and not isinstance(op, _MARKS)

    def is_constant(self, step: Step) -> bool:
        """Test whether all operands of a step, and so its results, are constant."""
        return self.preserves(step) and all(
            operand.step in self.constants for operand in step.operands
        )

    def is_expansion(self, step: Step) -> bool:
        """Test whether a step broadcasts a scalar."""
        is_broadcast = not self.by_specification and isinstance(step.op, _BROADCASTS)
        return is_broadcast and step.operands[0].rank == 0

    def is_split(self, value: Value) -> bool:
        """Test whether each use of a value gets a copy."""
        is_whole = value.rank > 0 or self.by_specification
        return is_whole and (value.step in self.constants or value.step in self.expansions)

    def own(self, value: Value) -> Value:
        """Return a value for one use: a copy with all steps that compute it, if it is split."""
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
        """Return the operands of a value's step that must be copied first, the last one first."""
        assert value.step is not None
        operands = [
            operand
            for operand in value.step.operands
            if operand not in values and self.is_split(operand)
        ]
        return operands[::-1]

    def copy(self, value: Value, values: dict[Value, Value]) -> None:
        """Copy the step that computes a value, and its groups."""
        step = value.step
        assert step is not None
        made = step.again(step.block, values)
        if made.callee is not None:
            made.callee = self.copies.copy(made.callee)
        copies = [group.again(step.block, values) for group in self.groups.get(value, ())]
        self.before.setdefault(step, []).extend([made, *copies])

    def erase(self, block: Block) -> None:
        """Remove copied steps that only groups still use, and these groups."""
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
