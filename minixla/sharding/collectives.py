"""Which collectives a program's layouts make necessary, before anything is compiled.

A step computes pieces of its results where its operands lie along the same factors of its sharding
rule. Operands that lie otherwise are moved first; where a factor over which the step adds up is
cut, the devices' sums are added. Source: how XLA's partitioner goes about it (openxla/xla,
`xla/service/spmd`), and Shardy's explicit reshards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minixla.core.shapes import Shape
from minixla.core.sharding_rule import ShardingRule
from minixla.core.source import Source
from minixla.sharding.axes import Part, merged, size_of
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import Placed
from minixla.sharding.per_shard import pieces_of
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.value_shardings import owner_of, sharding_of

Parts = tuple[Part, ...]
Layout = tuple[Parts, ...]
# Collectives that stand in programs themselves, by the builders' names.
_OWN = {"all_reduce", "all_gather", "all_to_all", "collective_permute", "reduce_scatter"}
_OWN |= {"collective_broadcast", "ragged_all_to_all", "cross_replica_sum"}


@dataclass(frozen=True)
class Collective:
    """One exchange between devices.

    Attributes:
        kind: `all-reduce`, `all-gather`, `all-to-all`, `collective-permute`, `reduce-scatter`.
        axes: the axes of the mesh along which devices exchange; none where the program has it.
        devices: how many take part in each group.
        shape: what each device has after it.
        bytes: its size.
        step: the instruction for which it is, `dot_general`.
        why: what it does for that, in words.
        in_loop: whether it is in a loop, and so done once for each iteration.
        source: the user's line, or None.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    shape: Shape
    bytes: int
    step: str
    why: str
    in_loop: bool
    source: Source | None


def collectives(program: Program) -> list[Collective]:
    """The collectives of a program after propagation, in order; functions count where they stand.

    XLA may join several, or move them; it makes none where this has none.
    """
    found: list[Collective] = []
    for function in program.functions.values():
        for step in function.walk():
            found += _Step(step).collectives()
        for value, wanted in zip(function.outputs, function.output_shardings, strict=True):
            if wanted is not None and value.can_be_sharded:
                moved = _moves(_layout(value), wanted.parts, value.shape)
                found += [_made(*each, None, "result of the function") for each in moved]
    return found


def _layout(value: Value) -> Layout:
    sharding = sharding_of(value)
    return ((),) * value.rank if sharding is None else sharding.parts


def _local(shape: Any, layout: Layout) -> Shape:
    pairs = zip(shape.dimensions, layout, strict=False)
    return shape.with_dimensions([-(-size // size_of(parts)) for size, parts in pairs])


def _made(
    kind: str, parts: Sequence[Part], shape: Shape, step: Step | None, why: str
) -> Collective:
    names, block, in_loop = tuple(part.name for part in parts), step and step.block, False
    while block is not None and block.step is not None:
        in_loop = in_loop or block.step.op.name in ("While", "Scan", "Map")
        block = block.step.block
    label = "return" if step is None else step.op.builder_name
    source = None if step is None else step.source
    shown = tuple(dict.fromkeys(names))
    return Collective(kind, shown, size_of(parts), shape, shape.nbytes, label, why, in_loop, source)


def _moves(old: Layout, new: Layout, shape: Any) -> Iterator[tuple[str, list[Part], Shape]]:
    """The collectives that bring an array from one layout into another: kind, axes, result."""
    if old == new:
        return
    before = _pieces(old)
    after = _pieces(new)
    gone = [part for part, _ in before if not any(part.overlaps(each) for each, _ in after)]
    places = dict(after)
    stays = [(part, at) for part, at in before if part not in gone]
    moved = [part for part, at in stays if places.get(part, at) != at]
    kept = tuple([tuple([p for p in parts if p not in gone]) for parts in old])
    if gone:
        yield "all-gather", gone, _local(shape, kept)
    if moved:
        yield "all-to-all", moved, _local(shape, new)
        return
    orders = zip(kept, new, strict=True)
    if any([p for p in now if p in was] != list(was) for was, now in orders):
        yield "collective-permute", [p for parts in kept for p in parts], _local(shape, new)


def _pieces(layout: Layout) -> list[tuple[Part, int]]:
    return [(part, at) for at, parts in enumerate(layout) for part in parts]


class _Step:
    """The collectives of one step."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def collectives(self) -> Iterator[Collective]:
        """Those of its operands, then those of its results."""
        step, op = self.step, self.step.op
        if op.builder_name in _OWN:
            yield from self._own()
        elif isinstance(op, Placed):
            if op.sharding is not None:
                yield from self._moved(step.operands[0], op.sharding.parts, "as constrained")
        elif isinstance(op, ManualComputation):
            for value, sharding in zip(step.operands, op.in_shardings, strict=True):
                yield from self._moved(value, sharding.parts, "piece of each device")
        elif op.split_by != "xla":
            yield from self._unsplit()
        elif step.edges:
            for edge in step.edges:
                sharding = sharding_of(owner_of(step.at(edge.owner)))
                for place in edge.sources if sharding is not None else ():
                    yield from self._moved(step.at(place), sharding.parts, "carried value")
        else:
            rule = op.sharding_rule(*[value.shape for value in step.operands])
            if rule is not None:
                yield from self._by_rule(rule)

    def _unsplit(self) -> Iterator[Collective]:
        """Those of what XLA does not split: it is given pieces, or all."""
        found = pieces_of(self.step)
        if found is not None:
            yield from self._with(found.rule, found.cuts)
            return
        for value in self.step.operands:
            yield from self._moved(value, ((),) * value.rank, "whole on each device")

    def _own(self) -> Iterator[Collective]:
        step = self.step
        kind = "all-reduce" if "sum" in step.op.builder_name else step.op.builder_name
        groups = getattr(step.op, "replica_groups", None) or ((),)
        for value in step.results:
            if isinstance(value.shape, Shape):
                part = Part("", 1, len(groups[0]) or 1)
                made = _made(kind.replace("_", "-"), [part], value.shape, step, "written so")
                yield Collective(**{**vars(made), "axes": ()})

    def _moved(self, value: Value, wanted: Layout, why: str) -> Iterator[Collective]:
        if value.can_be_sharded:
            for kind, parts, shape in _moves(_layout(value), wanted, value.shape):
                yield _made(kind, parts, shape, self.step, why)

    def _by_rule(self, rule: ShardingRule) -> Iterator[Collective]:
        # The cheaper of: adding up what the devices have, or gathering what would be added up.
        summed = self._factors(rule, sums=True)
        choices = [list(self._with(rule, summed))]
        if any(summed[factor] for factor in rule.reduction):
            choices.append(list(self._with(rule, self._factors(rule, sums=False))))
        yield from min(choices, key=lambda made: sum(each.bytes for each in made))

    def _factors(self, rule: ShardingRule, sums: bool) -> list[Parts]:
        """The axes of each factor while the step computes."""
        found: list[Parts] = [()] * len(rule.sizes)
        seen: list[Part] = []
        values = [*zip(self.step.results, rule.results, strict=False)]
        values += zip(self.step.operands, rule.operands, strict=False)
        for is_sum in (True, False) if sums else (False,):
            for value, dimensions in values:
                for parts, factors in zip(_layout(value), dimensions, strict=False):
                    factor = factors[0]
                    if found[factor] or (factor in rule.reduction) is not is_sum:
                        continue
                    if factor in rule.need_replication or not self._is_wanted(rule, factor, value):
                        continue
                    if not any(each.overlaps(part) for each in seen for part in parts):
                        found[factor] = parts
                        seen += parts
        return found

    def _is_wanted(self, rule: ShardingRule, factor: int, value: Value) -> bool:
        """Whether a value says where a factor is cut: results do, of what they have."""
        in_results = any(factor in each for result in rule.results for each in result)
        return (isinstance(value.owner, Step) and value.owner is self.step) or not in_results

    def _with(self, rule: ShardingRule, factors: Sequence[Parts]) -> Iterator[Collective]:
        step = self.step

        def layout(dimensions: Any) -> Layout:
            return tuple(
                [tuple(merged([p for f in each for p in factors[f]])) for each in dimensions]
            )

        for value, dimensions in zip(step.operands, rule.operands, strict=False):
            if value.can_be_sharded and len(dimensions) == value.rank:
                if any(len(each) > 1 for each in dimensions):
                    continue  # a reshape cuts as its operand does
                yield from self._moved(value, layout(dimensions), "to lie as the result does")
        sums = [part for factor in sorted(rule.reduction) for part in factors[factor]]
        halo = [part for factor in sorted(rule.permutation) for part in factors[factor]]
        for value, dimensions in zip(step.results, rule.results, strict=False):
            if not value.can_be_sharded or any(len(each) > 1 for each in dimensions):
                continue
            own = layout(dimensions)
            shape = _local(value.shape, own)
            if sums:
                yield _made("all-reduce", sums, shape, step, "sum of the devices' parts")
            if halo:
                yield _made("collective-permute", halo, shape, step, "what neighbours hold")
            for kind, parts, moved in _moves(own, _layout(value), value.shape):
                yield _made(kind, parts, moved, step, "to the result's layout")
