"""A program as what propagation sees of it: tensors with shardings, and nodes that connect them.

A node is a step with a sharding rule, a data-flow edge with its sources, or a result of a function
with the value that is returned.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

from minixla.core.data_flow import Edge
from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import (
    DataFlowEdge,
    NamedComputation,
    Placed,
    SdyOperation,
    ShardingGroup,
)
from minixla.sharding.program import Block, Function, Program, Step, Value
from minixla.sharding.propagation.manual import ManualAxes, View
from minixla.sharding.tensor_sharding import TensorSharding

#: Puts a sharding where the program keeps it.
Write = Callable[[TensorSharding], None]


class Node:
    """One connection between tensors.

    Attributes:
        rule: its sharding rule.
        tensors: the numbers of the operands' tensors and the results'; None where values lie
            nowhere.
        op: the operation; None for a function's result.
        is_elementwise: whether it is an element-wise operation.
        reads_once: whether nobody else reads its operands, scalars left out.
        views: for each tensor how the node sees it, where that is otherwise than as it is.
    """

    __slots__ = ("is_elementwise", "number", "op", "reads_once", "rule", "tensors", "views")

    def __init__(
        self,
        rule: ShardingRule,
        tensors: Sequence[int | None],
        op: Any = None,
        reads_once: bool = False,
        views: Sequence[View | None] = (),
    ) -> None:
        self.rule, self.tensors, self.op = rule, tuple(tensors), op
        self.reads_once, self.views = reads_once, views
        self.is_elementwise = op is not None and op.is_elementwise and op.namespace != "sdy"
        self.number = -1


class Network:
    """The tensors and nodes of a program.

    Attributes:
        shardings: of each tensor its sharding, or None.
        nodes: in the program's order, outer before inner.
        results: for each function the nodes of its results.
        watchers: for each tensor the nodes to visit when it changes, the last first.
        members: for each tensor those of its sharding group, itself included.
    """

    def __init__(self, program: Program) -> None:
        self.shardings: list[TensorSharding | None] = []
        self.nodes: list[Node] = []
        self.results: list[Node] = []
        self.watchers: list[list[Node]] = []
        self.members: dict[int, list[int]] = {}
        self._writes: list[Write] = []
        self._tensors: dict[Value, int] = {}
        self._edges: dict[Step, dict[Value, Edge]] = {}
        self._uses = program.uses()
        self._rules: dict[Any, ShardingRule | None] = {}
        groups: dict[int, list[int]] = {}
        for function in program.functions.values():
            self._add_function(function)
        steps = list(program.walk())
        for step in steps:
            self._add_values(step)
        for step in steps:
            if isinstance(step.op, DataFlowEdge):
                self._alias_targets(step)
        for step in steps:
            if isinstance(step.op, ShardingGroup):
                tensor = self._tensors.get(step.operands[0])
                if tensor is not None:
                    groups.setdefault(step.op.group_id, []).append(tensor)
            else:
                self._add_node(step)
        for function in program.functions.values():
            self._add_results(function)
        for each in groups.values():
            unique = list(dict.fromkeys(each))
            self.members.update(dict.fromkeys(unique, unique))
        self._watch()

    def write(self) -> None:
        """Puts the shardings into the program."""
        for write, sharding in zip(self._writes, self.shardings, strict=True):
            if sharding is not None:
                write(sharding)

    # Tensors.

    def _add(self, sharding: TensorSharding | None, write: Write) -> int:
        self.shardings.append(sharding)
        self._writes.append(write)
        return len(self.shardings) - 1

    def _add_value(self, value: Value) -> None:
        if value.can_be_sharded:
            write = partial(setattr, value, "sharding")
            self._tensors[value] = self._add(value.sharding, write)

    def _add_function(self, function: Function) -> None:
        for value in function.inputs:
            self._add_value(value)

    def _add_values(self, step: Step) -> None:
        op = step.op
        if isinstance(op, Placed):
            write = partial(_replace_sharding, step)
            self._tensors[step.results[0]] = self._add(op.sharding, write)
        elif isinstance(op, (ManualComputation, NamedComputation)):
            self._add_bound(step, step.results, "out_shardings")
            self._add_bound(step, step.blocks[0].inputs, "in_shardings")
        else:
            for value in step.results:
                self._add_value(value)

    def _add_bound(self, step: Step, values: Iterable[Value], name: str) -> None:
        """Values whose shardings stand in their step's `in_shardings` or `out_shardings`."""
        given = getattr(step.op, name)
        for number, value in enumerate(values):
            if not value.can_be_sharded:
                continue
            sharding = None if given is None else given[number]
            leave = None
            if name == "in_shardings" and isinstance(step.op, ManualComputation):
                manual = ManualAxes(given[number], step.op.manual_axes)
                sharding, leave = manual.inside(given[number]), manual.outside
            write = partial(_replace_bound, step, name, number, leave)
            self._tensors[value] = self._add(sharding, write)

    def _alias_targets(self, step: Step) -> None:
        """Has the targets of an edge, but for its owner, share the edge's sharding."""
        found = self._edge_of(step)
        if found is not None:
            flow, edge = found
            tensor = self._tensors[step.results[0]]
            for target in edge.targets:
                value = flow.at(target)
                if value is not step.operands[0]:
                    self._tensors[value] = tensor

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

    def _tensor(self, value: Value) -> int | None:
        return self._tensors.get(value)

    def _add_node(self, step: Step) -> None:
        if isinstance(step.op, DataFlowEdge):
            self._add_edge(step)
            return
        rule = self._rule(step)
        if rule is None:
            return
        tensors = [self._tensor(value) for value in (*step.operands, *step.results)]
        self.nodes.append(Node(rule, tensors, step.op, self._reads_once(step.operands)))

    def _rule(self, step: Step) -> ShardingRule | None:
        op, shapes = step.op, tuple([value.shape for value in step.operands])
        if isinstance(op, SdyOperation):
            return _identity(step.results[0]) if step.results else None
        key = op, shapes
        if key not in self._rules:
            self._rules[key] = op.sharding_rule(*shapes)
        return self._rules[key]

    def _reads_once(self, operands: Iterable[Value]) -> bool:
        return all(value.rank == 0 or len(self._uses[value]) == 1 for value in operands)

    def _add_edge(self, step: Step) -> None:
        found = self._edge_of(step)
        if found is None:
            return
        flow, edge = found
        sources = [flow.at(place) for place in edge.sources]
        tensors = [*map(self._tensor, sources), self._tensor(step.results[0])]
        views: list[View | None] = []
        if isinstance(flow.op, ManualComputation):
            is_input, number = edge.owner.kind == "input", edge.owner.number
            bound = (flow.op.in_shardings if is_input else flow.op.out_shardings)[number]
            manual = ManualAxes(bound, flow.op.manual_axes)
            views = [None, manual.seen_outside if is_input else manual.seen_inside]
        rule = _identity(step.results[0], len(sources))
        self.nodes.append(Node(rule, tensors, step.op, True, views))

    def _add_results(self, function: Function) -> None:
        outputs = function.output_shardings
        for number, value in enumerate(function.outputs):
            tensor = self._tensor(value)
            if tensor is not None:
                result = self._add(outputs[number], partial(outputs.__setitem__, number))
                self.results.append(Node(_identity(value), (tensor, result)))

    def _watch(self) -> None:
        """Lists for each tensor the nodes to visit: the one that makes it, then those that read it.

        The last is visited first, and those that read it in the order of the program.
        """
        makers: list[list[Node]] = [[] for _ in self.shardings]
        readers: list[list[Node]] = [[] for _ in self.shardings]
        for number, node in enumerate(self.nodes):
            node.number = number
            count = len(node.rule.operands)
            for tensors, found in ((node.tensors[:count], readers), (node.tensors[count:], makers)):
                for tensor in tensors:
                    if tensor is not None:
                        found[tensor].append(node)
        self.watchers = [
            [*first, *reversed(rest)] for first, rest in zip(makers, readers, strict=True)
        ]


def _replace_sharding(step: Step, sharding: TensorSharding) -> None:
    step.op = step.op.replace(sharding=sharding)


def _replace_bound(
    step: Step, name: str, number: int, leave: Any, sharding: TensorSharding
) -> None:
    """Puts one of a step's `in_shardings` or `out_shardings` into its operation."""
    values = step.results if name == "out_shardings" else step.operands
    given = list(getattr(step.op, name) or [None] * len(values))
    given[number] = sharding if leave is None else leave(sharding)
    if given == list(getattr(step.op, name) or ()):
        return
    empty = sharding.mesh, sharding.mesh_name
    shardings = [
        TensorSharding.open(empty[0], value.rank, empty[1]) if each is None else each
        for each, value in zip(given, values, strict=True)
    ]
    step.op = step.op.replace(**{name: tuple(shardings)})


def _identity(value: Value, operands: int = 1) -> ShardingRule:
    return identity_rule(value.shape.dimensions, operands)


@cache
def identity_rule(sizes: tuple[int, ...], operands: int = 1) -> ShardingRule:
    """The rule of what gives one of its operands."""
    tensor = tuple([(number,) for number in range(len(sizes))])
    return ShardingRule((tensor,) * operands, (tensor,), sizes)
