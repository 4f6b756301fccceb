"""The view of a program in propagation: tensors with shardings, and nodes that connect them.

A node is a step with a sharding rule; a data-flow edge with its sources; or a result of a function
with the returned value.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import Any, NamedTuple

from minixla.core.data_flow import Edge
from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import (
    DataFlowEdge,
    FuncDataFlowEdge,
    NamedComputation,
    Placed,
    PropagationBarrier,
    SdyOperation,
    ShardingGroup,
)
from minixla.sharding.program import Function, Program, Step, Value
from minixla.sharding.propagation.conservative import conservative
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import put, stated_sharding, with_axes_of, without_axes

#: Writes a sharding to the program.
Write = Callable[[TensorSharding], None]
#: The tensor of values that are not arrays, which never has a sharding.
NOWHERE = 0
_UNKNOWN: Any = object()
# Operations that hold the shardings of their results.
_HOLDERS = (Placed, ManualComputation, NamedComputation)


class Kind(NamedTuple):
    """The common properties of nodes through which shardings pass in the same way.

    Attributes:
        number: its number.
        rule: the sharding rule.
        op: an operation; None for a function's result.
        is_elementwise: whether it is an element-wise operation.
        reads_once: whether its operands, except scalars, have no other readers.
    """

    number: int
    rule: ShardingRule
    op: Any
    is_elementwise: bool
    reads_once: bool

    @property
    def can_be_conservative(self) -> bool:
        """True if conservative propagation restricts them, unlike barriers, edges and results."""
        return self.op is not None and not isinstance(self.op, PropagationBarrier)


class View(NamedTuple):
    """The conversion of a tensor's sharding for a node and back: without and with manual axes."""

    enter: Callable[[TensorSharding], TensorSharding]
    leave: Callable[[TensorSharding], TensorSharding]


class Node:
    """One connection between tensors.

    Attributes:
        kind: the kind of node.
        tensors: the numbers of the operands' tensors and of the results', two or more.
        of_tensors: picks the entries of these tensors from a list with an entry for each tensor.
        views: for each tensor, the node's view of it if it differs from the tensor itself.
        hears_operands: whether it is visited again when an operand changes.
        is_waiting, settled: for the driver: whether it is to be visited, and which plan of visits
            changed nothing since its tensors changed.
    """

    __slots__ = (
        "hears_operands",
        "is_waiting",
        "kind",
        "of_tensors",
        "settled",
        "tensors",
        "views",
    )

    def __init__(self, kind: Kind, tensors: tuple[int, ...]) -> None:
        self.kind = kind
        self.tensors = tensors
        self.of_tensors: Callable[[list[int]], tuple[int, ...]] = itemgetter(*tensors)
        self.views: Sequence[View | None] = ()
        self.hears_operands = self.is_waiting = True
        self.settled: Any = None


class Network:
    """The tensors and nodes of a program.

    Args:
        program: the program, which `write` changes.
        is_conservative: whether rules are restricted; see `conservative`.
        counts_readers: whether kinds know which nodes have `reads_once`; if not, all have it.

    Attributes:
        shardings: for each tensor its sharding, or None.
        nodes: the nodes in the program's order, outer before inner.
        results: the nodes of functions' results.
        watchers: for each tensor the nodes to visit when it changes, the last first.
        others: by tensor, nodes that contain it but do not watch it.
        groups: the members of each sharding group.
        members: for each tensor of a sharding group, the tensors that change with it.
        kinds: the kinds of nodes.
    """

    def __init__(
        self, program: Program, is_conservative: bool = False, counts_readers: bool = True
    ) -> None:
        self._is_conservative = is_conservative
        self.shardings: list[TensorSharding | None] = [None]
        self.nodes: list[Node] = []
        self.results: list[Node] = []
        self.groups: dict[int, list[Value]] = {}
        self.members: dict[int, list[int]] = {}
        self.kinds: list[Kind] = []
        self._homes: list[Value | Write | None] = [None]
        self._tensors = _Tensors()
        self._targets: set[Value] = set()
        self._edges: dict[Step, dict[Value, Edge]] = {}
        self._kinds: dict[Any, Kind | None] = {}
        self._passing_kinds: dict[tuple[Any, int], Kind] = {}
        steps, functions = list(program.walk()), program.functions.values()
        holders: list[Step] = []
        plain: list[Step] = []
        for step in steps:
            (holders if isinstance(step.op, _HOLDERS) else plain).append(step)
        edges = [step for step in holders if isinstance(step.op, DataFlowEdge)]
        self._often_read = _often_read(functions, steps) if counts_readers else set()
        function_edges = [step for step in plain if isinstance(step.op, FuncDataFlowEdge)]
        self._owners = {step.operands[0] for step in (*edges, *function_edges)}
        self._calls: dict[Function, list[Step]] = {}
        for step in steps if function_edges else ():
            if step.callee is not None:
                self._calls.setdefault(step.callee, []).append(step)
        self._add_values(chain.from_iterable([function.inputs for function in functions]))
        self._add_values(chain.from_iterable([step.results for step in plain]))
        for step in holders:
            self._add_held(step)
        for step in edges:
            self._alias_targets(step)
        for step in plain:
            self._alias_without_edge(step)
        self._add_nodes(steps)
        for function in functions:
            if function.is_public:
                self._add_results(function)
        for values in self.groups.values():
            self._add_group(values)
        self._watch()

    def write(self) -> None:
        """Write the shardings to the program."""
        for home, sharding in zip(self._homes, self.shardings, strict=True):
            if sharding is None:
                continue
            if isinstance(home, Value):
                put(home, sharding)
            elif home is not None:
                home(sharding)

    # Tensors.

    def _add(self, sharding: TensorSharding | None, home: Value | Write) -> int:
        self.shardings.append(sharding)
        self._homes.append(home)
        return len(self.shardings) - 1

    def _add_values(self, values: Iterable[Value]) -> None:
        """Add values that hold their shardings; edges hold those of their owners."""
        owners = self._owners
        kept = [value for value in values if value.can_be_sharded and value not in owners]
        self._tensors.update(zip(kept, count(len(self.shardings)), strict=False))
        self.shardings += [value.sharding for value in kept]
        self._homes += kept

    def _add_held(self, step: Step) -> None:
        """Add the results of a step that holds their shardings, and the inputs of its block."""
        for value in (*step.results, *[x for block in step.blocks for x in block.inputs]):
            is_kept = value.can_be_sharded and value not in self._owners
            if is_kept or isinstance(step.op, Placed):
                self._tensors[value] = self._add(stated_sharding(value), value)

    def _alias_targets(self, step: Step) -> None:
        """Let the targets of an edge, except its owner, share the edge's sharding."""
        found = self._edge_of(step)
        if found is not None:
            flow, edge = found
            for target in edge.targets:
                value = flow.at(target)
                if value is not step.operands[0]:
                    self._tensors[value] = self._tensors[step.results[0]]
                    self._targets.add(value)

    def _alias_without_edge(self, step: Step) -> None:
        """Make targets of owners without an edge share the owner's sharding."""
        for edge in step.edges if step.blocks else ():
            owner = step.at(edge.owner)
            if owner in self._tensors and owner not in self._owners:
                for value in map(step.at, edge.targets):
                    self._tensors.setdefault(value, self._tensors[owner])

    def _edge_of(self, step: Step) -> tuple[Step, Edge] | None:
        """Return the step and edge whose owner an edge step reads."""
        flow = step.operands[0].flow
        if flow is None:
            return None
        if flow not in self._edges:
            self._edges[flow] = {flow.at(edge.owner): edge for edge in flow.edges}
        edge = self._edges[flow].get(step.operands[0])
        return None if edge is None else (flow, edge)

    # Nodes.

    def _new_kind(self, rule: ShardingRule, op: Any, reads_once: bool) -> Kind:
        is_elementwise = op is not None and op.is_elementwise and op.namespace != "sdy"
        self.kinds.append(Kind(len(self.kinds), rule, op, is_elementwise, reads_once))
        return self.kinds[-1]

    def _add_nodes(self, steps: Iterable[Step]) -> None:
        nodes, kinds, tensor_of = self.nodes, self._kinds, self._tensors.__getitem__
        for step in steps:
            op, operands = step.op, step.operands
            reads_once = self._often_read.isdisjoint(operands)
            key = op, step.stated_rule, reads_once, *[value.shape for value in operands]
            kind = kinds.get(key, _UNKNOWN)
            if kind is _UNKNOWN:
                kind = kinds[key] = self._kind_of(step, reads_once)
            if kind is not None:
                nodes.append(Node(kind, tuple(map(tensor_of, operands + step.results))))
            elif isinstance(op, DataFlowEdge):
                self._add_edge(step)
            elif isinstance(op, FuncDataFlowEdge):
                self._add_function_edge(step)
            elif isinstance(op, ShardingGroup):
                self.groups.setdefault(op.group_id, []).append(operands[0])

    def _kind_of(self, step: Step, reads_once: bool) -> Kind | None:
        """Return the kind of node of a step; None if it is not a node by itself."""
        if (
            isinstance(step.op, (DataFlowEdge, FuncDataFlowEdge))
            or len(step.operands) + len(step.results) < 2
        ):
            return None
        rule = self._rule(step)
        return None if rule is None else self._new_kind(rule, step.op, reads_once)

    def _rule(self, step: Step) -> ShardingRule | None:
        if step.stated_rule is not None:
            return step.stated_rule
        if isinstance(step.op, SdyOperation):
            return _identity(step.results[0].shape, 1)
        rule = step.sharding_rule
        return conservative(rule, step.op) if rule and self._is_conservative else rule

    def _passing(self, value: Value, operands: int = 1) -> Kind:
        """Return the kind of nodes that pass on an operand: edges, and results of functions."""
        key = value.shape, operands
        if key not in self._passing_kinds:
            self._passing_kinds[key] = self._new_kind(_identity(*key), None, True)
        return self._passing_kinds[key]

    def _add_edge(self, step: Step) -> None:
        found = self._edge_of(step)
        if found is None:
            return
        flow, edge = found
        sources = [flow.at(place) for place in edge.sources]
        kind = self._passing(step.results[0], len(sources))
        node = Node(kind, tuple(map(self._tensors.__getitem__, sources + step.results)))
        self.nodes.append(node)
        is_input = edge.owner.kind == "input"
        # Shardy does not visit the edge of a block's input again when what flows in changes.
        node.hears_operands = not is_input
        if isinstance(flow.op, ManualComputation):
            bounds = flow.op.in_shardings if is_input else flow.op.out_shardings
            names, bound = flow.op.manual_axes, bounds[edge.owner.number]
            inside = partial(without_axes, names=names)
            outside = partial(with_axes_of, other=bound, names=names)
            node.views = [None, View(outside, inside) if is_input else View(inside, outside)]

    def _add_function_edge(self, step: Step) -> None:
        """Add a node for arguments that calls pass to a function, or for its returned values."""
        (value,), (target,) = step.operands, step.results
        owner = value.owner
        if isinstance(owner, Step):
            assert owner.callee is not None
            sources = [owner.callee.outputs[value.index]]
        else:
            assert isinstance(owner, Function)
            sources = [call.operands[value.index] for call in self._calls.get(owner, ())]
        if sources and value.can_be_sharded:
            kind = self._passing(value, len(sources))
            tensors = tuple(map(self._tensors.__getitem__, (*sources, target)))
            self.nodes.append(Node(kind, tensors))

    def _add_results(self, function: Function) -> None:
        outputs = function.output_shardings
        for number, value in enumerate(function.outputs):
            if value in self._tensors:
                home = partial(outputs.__setitem__, number)
                tensors = self._tensors[value], self._add(outputs[number], home)
                self.results.append(Node(self._passing(value), tensors))

    def _add_group(self, values: Iterable[Value]) -> None:
        """Let tensors of a group change together.

        A value that a loop carries changes with the others. As in Shardy, the others do not change
        with it if the member is the loop's own value, not the result of the edge.
        """
        listed = [value for value in values if value in self._tensors]
        tensors = list(dict.fromkeys(self._tensors[value] for value in listed))
        leading = {self._tensors[value] for value in listed if value not in self._targets}
        self.members.update(dict.fromkeys(leading, tensors))

    def _watch(self) -> None:
        """List the nodes to visit for each tensor: the one that computes it, then its readers.

        The last is visited first, and readers in the order of the program.
        """
        self.watchers: list[list[Node]] = [[] for _ in self.shardings]
        self.others: dict[int, list[Node]] = {}
        for node in reversed(self.nodes):
            tensors, count = node.tensors, len(node.kind.rule.operands)
            for tensor in tensors[:count]:
                if node.hears_operands:
                    self.watchers[tensor].append(node)
                else:
                    self.others.setdefault(tensor, []).append(node)
            for tensor in tensors[count:]:
                if tensor != NOWHERE:
                    self.watchers[tensor].insert(0, node)


class _Tensors(dict[Value, int]):
    """The tensor of each value that can be sharded."""

    def __missing__(self, _: Value) -> int:
        return NOWHERE


def _often_read(functions: Iterable[Function], steps: Iterable[Step]) -> set[Value]:
    """Return the values, except scalars, that are read more than once."""
    blocks = [*functions, *[block for step in steps for block in step.blocks]]
    read = [*[step.operands for step in steps], *[block.outputs for block in blocks]]
    counts = Counter(chain.from_iterable(read))
    return {value for value, times in counts.items() if times > 1 and value.rank}


def _identity(shape: Any, operands: int) -> ShardingRule:
    """Return the rule of nodes that pass on an operand."""
    tensor = tuple([(number,) for number in range(len(shape.dimensions))])
    return ShardingRule((tensor,) * operands, (tensor,), shape.dimensions)
