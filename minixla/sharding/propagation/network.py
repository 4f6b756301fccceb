"""A program as what propagation sees of it: tensors with shardings, and nodes that connect them.

A node is a step with a sharding rule, a data-flow edge with its sources, or a result of a function
with the value that is returned.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from minixla.core.data_flow import Edge
from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import (
    DataFlowEdge,
    NamedComputation,
    Placed,
    PropagationBarrier,
    SdyOperation,
    ShardingGroup,
)
from minixla.sharding.program import Block, Function, Program, Step, Value
from minixla.sharding.propagation.conservative import conservative
from minixla.sharding.propagation.manual import ManualAxes, View, put_bound
from minixla.sharding.tensor_sharding import TensorSharding

#: Puts a sharding where the program keeps it.
Write = Callable[[TensorSharding], None]
#: The tensor in the place of what lies nowhere: it never has a sharding.
NOWHERE = 0


class Kind(NamedTuple):
    """What nodes have in common between which shardings pass in the same way.

    Attributes:
        number: they are numbered.
        rule: the sharding rule.
        op: an operation; None for a function's result.
        is_elementwise: whether it is an element-wise operation.
        reads_once: whether nobody else reads its operands, scalars left out.
    """

    number: int
    rule: ShardingRule
    op: Any
    is_elementwise: bool
    reads_once: bool

    @property
    def can_be_conservative(self) -> bool:
        """Whether careful propagation treats them carefully: not barriers, edges and results."""
        return self.op is not None and not isinstance(self.op, PropagationBarrier)


class Node:
    """One connection between tensors.

    Attributes:
        kind: the kind of node.
        tensors: the numbers of the operands' tensors and of the results'.
        views: for each tensor how the node sees it, where that is otherwise than as it is.
        hears_operands: whether it is visited again when an operand changes.
        number: its place among the nodes.
    """

    __slots__ = ("hears_operands", "kind", "number", "tensors", "views")

    def __init__(self, kind: Kind, tensors: Sequence[int]) -> None:
        self.kind, self.tensors = kind, tensors
        self.views: Sequence[View | None] = ()
        self.hears_operands = True
        self.number = -1


class Network:
    """The tensors and nodes of a program.

    Attributes:
        shardings: of each tensor its sharding, or None.
        nodes: in the program's order, outer before inner.
        results: the nodes of functions' results, numbered behind the others.
        watchers: for each tensor the nodes to visit when it changes, the last first.
        members: for each tensor of a sharding group the tensors that change with it.
        kinds: the kinds of nodes.
    """

    def __init__(self, program: Program, is_conservative: bool = False) -> None:
        self._is_conservative = is_conservative
        self.shardings: list[TensorSharding | None] = [None]
        self.nodes: list[Node] = []
        self.results: list[Node] = []
        self.watchers: list[list[Node]] = []
        self.members: dict[int, list[int]] = {}
        self.kinds: dict[Any, Kind] = {}
        self._homes: list[Value | Write | None] = [None]
        self._tensors: dict[Value, int] = {}
        self._targets: set[Value] = set()
        self._edges: dict[Step, dict[Value, Edge]] = {}
        self._rules: dict[Any, ShardingRule | None] = {}
        self._readers: dict[Value, int] = {}
        self._owners: set[Value] = set()
        steps = list(program.walk())
        self._count_readers(program, steps)
        for function in program.functions.values():
            self._add_values(function.inputs)
        for step in steps:
            self._add_made(step)
        for step in steps:
            if isinstance(step.op, DataFlowEdge):
                self._alias_targets(step)
        groups: dict[int, list[Value]] = {}
        for step in steps:
            if isinstance(step.op, ShardingGroup):
                groups.setdefault(step.op.group_id, []).append(step.operands[0])
            else:
                self._add_node(step)
        for function in program.functions.values():
            if function.is_public:
                self._add_results(function)
        for values in groups.values():
            self._add_group(values)
        self._watch()

    def write(self) -> None:
        """Puts the shardings into the program."""
        for home, sharding in zip(self._homes, self.shardings, strict=True):
            if sharding is None:
                continue
            if isinstance(home, Value):
                home.sharding = sharding
            elif home is not None:
                home(sharding)

    # Tensors.

    def _count_readers(self, program: Program, steps: Iterable[Step]) -> None:
        readers = self._readers
        for step in steps:
            for value in step.operands:
                readers[value] = readers.get(value, 0) + 1
            if isinstance(step.op, DataFlowEdge):
                self._owners.update(step.operands)
            for block in step.blocks:
                for value in block.outputs:
                    readers[value] = readers.get(value, 0) + 1
        for function in program.functions.values():
            for value in function.outputs:
                readers[value] = readers.get(value, 0) + 1

    def _add(self, sharding: TensorSharding | None, home: Value | Write) -> int:
        self.shardings.append(sharding)
        self._homes.append(home)
        return len(self.shardings) - 1

    def _add_values(self, values: Iterable[Value]) -> None:
        """Values that keep their shardings; owners of edges leave that to the edges."""
        for value in values:
            if value.can_be_sharded and value not in self._owners:
                self._tensors[value] = self._add(value.sharding, value)

    def _add_made(self, step: Step) -> None:
        """The results of a step, and the inputs of its blocks where these have shardings."""
        op = step.op
        if isinstance(op, Placed):
            home = partial(_replace_sharding, step)
            self._tensors[step.results[0]] = self._add(op.sharding, home)
        elif isinstance(op, (ManualComputation, NamedComputation)):
            self._add_bound(step, step.results, "out_shardings")
            self._add_bound(step, step.blocks[0].inputs, "in_shardings")
        else:
            self._add_values(step.results)

    def _add_bound(self, step: Step, values: Iterable[Value], name: str) -> None:
        """Values whose shardings stand in their step's `in_shardings` or `out_shardings`."""
        given = getattr(step.op, name)
        for number, value in enumerate(values):
            if not value.can_be_sharded or value in self._owners:
                continue
            sharding = None if given is None else given[number]
            leave = None
            is_manual = isinstance(step.op, ManualComputation)
            if is_manual and name == "in_shardings" and sharding is not None:
                manual = ManualAxes(sharding, step.op.manual_axes)
                sharding, leave = manual.inside(sharding), manual.outside
            home = partial(_put_bound, step, name, number, leave)
            self._tensors[value] = self._add(sharding, home)

    def _alias_targets(self, step: Step) -> None:
        """Has the targets of an edge, but for its owner, share the edge's sharding."""
        found = self._edge_of(step)
        if found is not None:
            flow, edge = found
            for target in edge.targets:
                value = flow.at(target)
                if value is not step.operands[0]:
                    self._tensors[value] = self._tensors[step.results[0]]
                    self._targets.add(value)

    def _edge_of(self, step: Step) -> tuple[Step, Edge] | None:
        """The step and edge whose owner an edge step reads."""
        owner = step.operands[0].owner
        flow = owner.step if isinstance(owner, Block) else owner
        if flow is None:
            return None
        if flow not in self._edges:
            self._edges[flow] = {flow.at(each.owner): each for each in flow.edges}
        edge = self._edges[flow].get(step.operands[0])
        return None if edge is None else (flow, edge)

    # Nodes.

    def _numbers(self, values: Iterable[Value]) -> list[int]:
        find = self._tensors.get
        return [find(value, NOWHERE) for value in values]

    def _kind(self, rule: ShardingRule, op: Any, reads_once: bool) -> Kind:
        # The rules live as long as this.
        key = id(rule), op if isinstance(op, SdyOperation) else type(op), reads_once
        if key not in self.kinds:
            is_elementwise = op is not None and op.is_elementwise and op.namespace != "sdy"
            self.kinds[key] = Kind(len(self.kinds), rule, op, is_elementwise, reads_once)
        return self.kinds[key]

    def _add_node(self, step: Step) -> None:
        if isinstance(step.op, DataFlowEdge):
            self._add_edge(step)
            return
        rule = self._rule(step)
        if rule is not None:
            kind = self._kind(rule, step.op, self._reads_once(step.operands))
            self.nodes.append(Node(kind, self._numbers(step.operands + step.results)))

    def _rule(self, step: Step) -> ShardingRule | None:
        if isinstance(step.op, SdyOperation) and step.results:
            return self._identity(step.results[0])
        key = step.op, *[value.shape for value in step.operands]
        if key not in self._rules:
            rule = step.op.sharding_rule(*key[1:])
            if rule is not None and self._is_conservative:
                rule = conservative(rule, step.op)
            self._rules[key] = rule
        return self._rules[key]

    def _identity(self, value: Value, operands: int = 1) -> ShardingRule:
        """The rule of what gives one of its operands."""
        key: Any = (value.shape, operands)
        if key not in self._rules:
            sizes = value.shape.dimensions  # type: ignore[union-attr]
            tensor = tuple([(number,) for number in range(len(sizes))])
            self._rules[key] = ShardingRule((tensor,) * operands, (tensor,), sizes)
        return self._rules[key]  # type: ignore[return-value]

    def _reads_once(self, operands: Iterable[Value]) -> bool:
        return all(self._readers[value] == 1 or value.rank == 0 for value in operands)

    def _add_edge(self, step: Step) -> None:
        found = self._edge_of(step)
        if found is None:
            return
        flow, edge = found
        sources = [flow.at(place) for place in edge.sources]
        rule = self._identity(step.results[0], len(sources))
        node = Node(self._kind(rule, None, True), self._numbers([*sources, *step.results]))
        is_input = edge.owner.kind == "input"
        # Shardy does not visit the edge of a block's input again when what flows in changes.
        node.hears_operands = not is_input
        if isinstance(flow.op, ManualComputation):
            bounds = flow.op.in_shardings if is_input else flow.op.out_shardings
            manual = ManualAxes(bounds[edge.owner.number], flow.op.manual_axes)
            node.views = [None, manual.seen_outside if is_input else manual.seen_inside]
        self.nodes.append(node)

    def _add_results(self, function: Function) -> None:
        outputs = function.output_shardings
        for number, value in enumerate(function.outputs):
            if value in self._tensors:
                home = partial(outputs.__setitem__, number)
                tensors = [self._tensors[value], self._add(outputs[number], home)]
                kind = self._kind(self._identity(value), None, True)
                self.results.append(Node(kind, tensors))

    def _add_group(self, values: Iterable[Value]) -> None:
        """Has tensors of a group change together.

        What a loop carries changes with the others, but in Shardy these do not change with it where
        the member is the loop's own value, and not the result of the edge.
        """
        listed = [value for value in values if value in self._tensors]
        tensors = list(dict.fromkeys(self._tensors[value] for value in listed))
        leading = {self._tensors[value] for value in listed if value not in self._targets}
        self.members.update(dict.fromkeys(leading, tensors))

    def _watch(self) -> None:
        """Lists for each tensor the nodes to visit: the one that makes it, then those that read it.

        The last is visited first, and those that read it in the order of the program.
        """
        makers: list[list[Node]] = [[] for _ in self.shardings]
        readers: list[list[Node]] = [[] for _ in self.shardings]
        for number, node in enumerate([*self.nodes, *self.results]):
            node.number = number
        for node in self.nodes:
            count = len(node.kind.rule.operands)
            for tensor in node.tensors[:count] if node.hears_operands else ():
                readers[tensor].append(node)
            for tensor in node.tensors[count:]:
                makers[tensor].append(node)
        for made, read in zip(makers, readers, strict=True):
            made += reversed(read)
        self.watchers = makers


def _replace_sharding(step: Step, sharding: TensorSharding) -> None:
    step.op = step.op.replace(sharding=sharding)


def _put_bound(step: Step, name: str, number: int, leave: Any, sharding: TensorSharding) -> None:
    put_bound(step, name, number, sharding if leave is None else leave(sharding))
