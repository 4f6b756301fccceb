"""The sharding rule of a whole program."""

from __future__ import annotations

from typing import Any

from minixla.core import Graph, Instruction, Shape, Value
from minixla.core.registry import role
from minixla.core.sharding_rule import (
    ABSENT,
    BLOCKED,
    NEED_REPLICATION,
    PASS_THROUGH,
    RuleBuilder,
    ShardingRule,
)

#: A dimension of a value.
_Dimension = tuple[Value, int]


def program_rule(graph: Graph) -> ShardingRule:
    """Combine the sharding rules of a program's instructions into one for whole dimensions.

    Dimensions that instructions shard together are one factor. It passes through if it does so in
    all instructions. Otherwise the whole array is needed: a reduction, for example, may be followed
    by an instruction that is not linear.
    """
    links = _Links()
    for step in graph.instructions:
        links.add(step)
    tensors, count = [*graph.inputs, *graph.outputs], len(graph.inputs)
    rule = RuleBuilder(graph.input_shapes, graph.output_shapes)
    sizes = [*rule.operand_sizes, *rule.result_sizes]
    groups: dict[_Dimension, list[tuple[int, int]]] = {}
    # Number the factors in the order of the results.
    for number in (*range(count, len(tensors)), *range(count)):
        for index in range(len(sizes[number])):
            groups.setdefault(links.root((tensors[number], index)), []).append((number, index))
    for root, members in groups.items():
        marks = links.marks.get(root, set())
        is_one = len({number for number, _ in members}) == len(members)
        kind = NEED_REPLICATION if marks or not is_one else PASS_THROUGH
        for part in [members] if is_one else [[member] for member in members]:
            at = dict(part)
            places = [at.get(number, ABSENT) for number in range(len(tensors))]
            number, index = part[0]
            places_and_sizes = places[:count], places[count:], sizes[number][index]
            rule.add(*places_and_sizes, kind, BLOCKED in marks)
    return rule.build()


class _Links:
    """Union-find of the dimensions that are sharded together, with the kinds of their factors."""

    def __init__(self) -> None:
        self._parents: dict[_Dimension, _Dimension] = {}
        #: Kinds of factors, except those that pass through, and BLOCKED.
        self.marks: dict[_Dimension, set[str]] = {}

    def root(self, dimension: _Dimension) -> _Dimension:
        """Return the representative of the dimensions that are linked to this one."""
        while dimension in self._parents:
            dimension = self._parents[dimension]
        return dimension

    def add(self, step: Instruction) -> None:
        """Add the links of an instruction's rule; without a rule, all operands are replicated."""
        constant: Any = role("constant")
        if isinstance(step.op, constant) and step.op.literal.is_splat:
            return  # all its shards are equal
        values = [*step.operands, *step.results]
        rule = step.op.sharding_rule(*[value.shape for value in step.operands])
        factors: dict[int, list[_Dimension]] = {}
        tensors = (*rule.operands, *rule.results) if rule else [()] * len(values)
        for value, tensor in zip(values, tensors, strict=True):
            for index in range(value.shape.rank if isinstance(value.shape, Shape) else 0):
                parts = tensor[index] if rule else ()
                for factor in parts:
                    factors.setdefault(factor, []).append((value, index))
                if len(parts) != 1:
                    self._mark((value, index), NEED_REPLICATION)
        for factor, members in factors.items():
            for member in members[1:]:
                self._join(members[0], member)
            if rule and rule.kind(factor) != PASS_THROUGH:
                self._mark(members[0], rule.kind(factor))
            if rule and factor in rule.blocked:
                self._mark(members[0], BLOCKED)

    def _join(self, one: _Dimension, other: _Dimension) -> None:
        one, other = self.root(one), self.root(other)
        if one != other:
            self._parents[other] = one
            self.marks.setdefault(one, set()).update(self.marks.pop(other, ()))

    def _mark(self, dimension: _Dimension, mark: str) -> None:
        self.marks.setdefault(self.root(dimension), set()).add(mark)
