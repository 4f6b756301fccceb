"""The pass that applies constraints to the values that they constrain."""

from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import DataFlowEdge, NamedComputation, ShardingConstraint
from minixla.sharding.program import Block, Function, Program, Step, Use, Value
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import owner_of, put, put_own, sharding_of


def apply_sharding_constraints(program: Program, *, specification: bool = False) -> None:
    """Copy closed constraints to their values (SDY: sdy-apply-sharding-constraints).

    Propagation carries axes, but not that a dimension is closed. So an operand gets the sharding of
    a constraint that clearly dictates it: the operand has no sharding, the constraint's is closed,
    and no other constraint of the operand differs. Values on a data-flow edge stay as they are; all
    other uses read the constraint instead. A chain of constraints may begin at a value
    without a
    sharding. Later uses of the value in the block then read the end of the chain. Shardings of
    a manual computation's operands are constraints, too.

    Args:
        program: the program, which is changed.
        specification: whether a function's return reads the end of a chain, as in Shardy at first.
    """
    application = _Application(program, specification)
    for step in program.walk():
        application.apply(step)


class _Application:
    """The state of the pass on a program."""

    def __init__(self, program: Program, redirects_returns: bool) -> None:
        self.redirects_returns = redirects_returns
        self.uses = program.uses()
        #: The positions of steps; see `places_in`.
        self.places: dict[Block, dict[Step, float]] = {}
        #: The edges by owner.
        self.edges = {
            step.operands[0]: step for step in program.walk() if isinstance(step.op, DataFlowEdge)
        }

    def apply(self, step: Step) -> None:
        """Apply a step that is a constraint."""
        if isinstance(step.op, ShardingConstraint):
            self.use_end_of_chain(step)
            self.apply_to(step.operands[0], step.op.sharding, step)
        elif isinstance(step.op, ManualComputation):
            for number, sharding in enumerate(step.op.in_shardings):
                self.apply_to(step.operands[number], sharding, step)

    def apply_to(self, value: Value, sharding: TensorSharding | None, step: Step) -> None:
        """Apply the sharding that a step states for an operand."""
        if sharding is None or not self.is_dictated(value, sharding):
            return
        if not self.is_on_edge(value):
            _place(value, sharding)
            return
        if isinstance(step.op, ShardingConstraint):
            step.block.steps.remove(step)
        else:
            step = step.block.new_step(ShardingConstraint(sharding), [value], step.source)
            self.uses[value].append(Use(step, 0))
        self.put_behind(step, value)

    def is_dictated(self, value: Value, sharding: TensorSharding) -> bool:
        """Test whether a constraint of a value determines its sharding."""
        if not sharding.is_closed or self.sharding_of(value) is not None:
            return False
        constraints = [_constraint(use) for use in self.uses[value]]
        return all(constraint in (None, sharding) for constraint in constraints)

    def is_on_edge(self, value: Value) -> bool:
        """Test whether a value is an edge, or flows into one."""
        is_edge = value.step is not None and isinstance(value.step.op, DataFlowEdge)
        return is_edge or owner_of(value) in self.edges

    def sharding_of(self, value: Value) -> TensorSharding | None:
        """Return the sharding of a value, or of the edge that it flows into."""
        edge = self.edges.get(owner_of(value))
        return sharding_of(value) if edge is None else edge.op.sharding

    def put_behind(self, step: Step, value: Value) -> None:
        """Move a constraint directly after its operand; all other uses of that then read it."""
        before = value.step
        block = step.block = value.block
        at = 0 if before is None else block.steps.index(before) + 1
        places = self.places_in(block)
        first = -1.0 if before is None else places[before]
        last = places[block.steps[at]] if at < len(block.steps) else first + 1
        places[step] = (first + last) / 2
        if not first < places[step] < last:
            del self.places[block]
        block.steps.insert(at, step)
        others = [use for use in self.uses[value] if use.user is not step]
        self.redirect(value, step.results[0], others)

    def use_end_of_chain(self, first: Step) -> None:
        """Make other uses of a value read the chain of constraints that begins with a step."""
        value = first.operands[0]
        is_start = value.step is None or not isinstance(value.step.op, ShardingConstraint)
        if not is_start or self.sharding_of(value) is not None:
            return
        others = [use for use in self.uses[value] if use.user is not first]
        if not others or any(map(_constraint, others)):
            return
        last = self.end_of_chain(first)
        if last is not None and last is not first:
            later = [use for use in others if self.is_behind(use, last)]
            self.redirect(value, last.results[0], later)

    def is_behind(self, use: Use, last: Step) -> bool:
        """Test whether a use is in the block of a chain, after its end."""
        if use.block is not last.block:
            return False
        if use.step is None:
            return self.redirects_returns or not isinstance(use.user, Function)
        places = self.places_in(last.block)
        return places[use.step] > places[last]

    def places_in(self, block: Block) -> dict[Step, float]:
        """Return a number for each step of a block, in their order."""
        if block not in self.places:
            self.places[block] = {step: float(place) for place, step in enumerate(block.steps)}
        return self.places[block]

    def end_of_chain(self, step: Step) -> Step | None:
        """Return the last of constraints that follow each other without other uses, or None."""
        while True:
            uses = self.uses.get(step.results[0], [])
            if not any(map(_constraint, uses)):
                return step
            user = uses[0].step
            if len(uses) > 1 or user is None or not isinstance(user.op, ShardingConstraint):
                return None
            step = user

    def redirect(self, old: Value, new: Value, uses: list[Use]) -> None:
        """Make some uses of a value read another."""
        for use in uses:
            use.put(new)
        moved = set(uses)
        self.uses[old] = [use for use in self.uses[old] if use not in moved]
        self.uses.setdefault(new, []).extend(uses)


def _place(value: Value, sharding: TensorSharding) -> None:
    """Set the sharding of a value; make other unsharded results of its step open.

    Inputs of blocks other than computations' get no sharding.
    """
    value = owner_of(value)
    step, is_result = value.flow, value.step is not None
    is_named = step is not None and isinstance(step.op, NamedComputation)
    if step is None or is_result or is_named:
        put(value, sharding)
    if step is not None and is_result and not is_named:
        put_own(step.results)


def _constraint(use: Use) -> TensorSharding | None:
    """Return the sharding that a use states for its value."""
    if use.step is None:
        return None
    if isinstance(use.step.op, ManualComputation):
        return use.step.op.in_shardings[use.number]
    return use.step.op.sharding if isinstance(use.step.op, ShardingConstraint) else None
