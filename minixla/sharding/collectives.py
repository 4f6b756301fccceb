"""The collectives that a program's shardings require, before anything is compiled.

A step computes pieces of its results if its operands are sharded along the same factors of its
sharding rule. Operands with another sharding are moved first. If a factor that the step sums over
is sharded, the devices' sums are added. Source: XLA's partitioner (openxla/xla,
`xla/service/spmd`), and Shardy's explicit reshards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from minixla.core.shapes import Shape
from minixla.core.sharding_rule import ShardingRule
from minixla.core.source import Source
from minixla.sharding.axes import Part, size_of
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla.sharding.operations import Placed
from minixla.sharding.per_shard import pieces_of
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.propagation.factors import Tensor, joined
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import owner_of, sharding_of
from minixla_ops.collectives import collective_groups

Parts = tuple[Part, ...]
Layout = tuple[Parts, ...]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Collective:
    """One communication between devices.

    Attributes:
        kind: `all-reduce`, `all-gather`, `all-to-all`, `collective-permute`, `reduce-scatter`.
        axes: the axes of the mesh along which devices exchange.
        groups: the ids of the devices in each group, or of source and target.
        shape: the shape of each device's piece after it.
        bytes: the size of that piece.
        step: the instruction that needs it, such as `dot_general`.
        why: its purpose.
        in_loop: whether it is in a loop, and so runs once for each iteration.
        source: the user's line, or None.
    """

    kind: str
    axes: tuple[str, ...]
    groups: Groups
    shape: Shape
    bytes: int
    step: str
    why: str
    in_loop: bool
    source: Source | None

    @property
    def devices(self) -> int:
        """The number of devices in each group."""
        return len(self.groups[0])


def collectives(program: Program) -> list[Collective]:
    """Return the collectives of a propagated program in order; functions count where they are.

    A value that is moved to one sharding for several users is counted once. XLA may merge or move
    collectives; it inserts none where this function returns none.
    """
    needed: list[Collective] = []
    done: set[tuple[Value, Layout]] = set()
    for function in program.functions.values():
        for step in function.walk():
            needed += _Step(step, done).collectives()
        for value, wanted in zip(function.outputs, function.output_shardings, strict=True):
            if wanted is not None:
                at = wanted.mesh, wanted.parts
                needed += _moved(value, *at, done, None, "result of the function")
    return needed


def _layout(value: Value) -> Layout:
    sharding = sharding_of(value)
    return ((),) * value.rank if sharding is None else sharding.parts


def _local(shape: Any, layout: Layout) -> Shape:
    pairs = zip(shape.dimensions, layout, strict=False)
    return shape.with_dimensions([-(-size // size_of(parts)) for size, parts in pairs])


def _made(
    kind: str, parts: Sequence[Part], shape: Shape, mesh: Mesh, step: Step | None, why: str
) -> Collective:
    axes = tuple(dict.fromkeys([part.name for part in parts]))
    return _collective(kind, axes, mesh.groups_along(parts), shape, step, why)


def _collective(
    kind: str, axes: tuple[str, ...], groups: Groups, shape: Shape, step: Step | None, why: str
) -> Collective:
    in_loop = step is not None and any(map(_is_loop, step.around()))
    label = "return" if step is None else step.op.builder_name
    source = None if step is None else step.source
    return Collective(kind, axes, groups, shape, shape.nbytes, label, why, in_loop, source)


def _is_loop(step: Step) -> bool:
    """Test whether the results of a step's programs flow into them again."""
    return any(
        any(place.kind == "output" for place in edge.sources)
        and any(place.kind == "input" for place in edge.targets)
        for edge in step.edges
    )


Move = tuple[str, Parts, Shape]


def _moved(
    value: Value,
    mesh: Mesh,
    wanted: Layout,
    done: set[tuple[Value, Layout]],
    step: Step | None,
    why: str,
) -> Iterator[Collective]:
    """Yield the collectives that move a value to a layout, unless others did before."""
    if value.can_be_sharded and not mesh.is_maximal and (value, wanted) not in done:
        done.add((value, wanted))
        for move in _moves(_layout(value), wanted, value.shape):
            yield _made(*move, mesh, step, why)


def _moves(old: Layout, new: Layout, shape: Any) -> Iterator[Move]:
    """Yield the moves of an array between two layouts: the kind, axes and result of each."""
    new = tuple([_split_alike(parts, old) for parts in new])
    old = tuple([_split_alike(parts, new) for parts in old])
    pairs = [(size_of(was), size_of(now)) for was, now in zip(old, new, strict=True)]
    if all(was % now == 0 for was, now in pairs):
        yield from _put_together(old, new, shape)
    elif all(now % was == 0 for was, now in pairs):
        if any(now[: len(was)] != was for was, now in zip(old, new, strict=True)):
            yield "collective-permute", _all(new), _local(shape, new)  # after slicing
    else:
        yield from _sent(old, new, shape)


def _put_together(old: Layout, new: Layout, shape: Any) -> Iterator[Move]:
    """Merge pieces into larger ones, after permuting devices if necessary."""
    local = list(_local(shape, old).dimensions)
    gone = [
        part
        for parts in old
        for part in parts
        if not any(part in parts_after for parts_after in new)
    ]
    if any(was[: len(now)] != now for was, now in zip(old, new, strict=True)):
        yield "collective-permute", _all(old), shape.with_dimensions(local)
    for at in reversed(range(len(old))):
        along: list[Part] = []
        while size_of(old[at]) // size_of(new[at]) > size_of(along):
            along.insert(0, gone.pop())
        if along:
            local[at] *= size_of(along)
            yield "all-gather", tuple(along), shape.with_dimensions(local)


def _sent(old: Layout, new: Layout, shape: Any) -> Iterator[Move]:
    """Gather axes that no dimension keeps; then send pieces to other dimensions."""
    places = {part: at for at, parts in enumerate(new) for part in parts}
    kept = tuple([tuple([part for part in parts if part in places]) for parts in old])
    yield from _put_together(old, kept, shape)
    moved: Parts = ()
    for at, parts in enumerate(kept):
        leaving = tuple([part for part in parts if places[part] != at])
        minor = parts[len(parts) - len(leaving) :]
        # Send pieces of the minor axis, and permute devices afterwards.
        moved += minor if size_of(minor) == size_of(leaving) else leaving
    if moved:
        yield "all-to-all", moved, _local(shape, new)
    for at, parts in enumerate(kept):
        stays = tuple([part for part in parts if places[part] == at])
        arrived = (*stays, *[part for part in moved if places[part] == at])
        if parts[: len(stays)] != stays or new[at][: len(arrived)] != arrived:
            yield "collective-permute", _all(old), _local(shape, new)
            return


def _all(layout: Layout) -> Parts:
    return tuple([part for parts in layout for part in parts])


def _split_alike(parts: Parts, other: Layout) -> Parts:
    """Return the same axes, split where those of another layout are."""
    common: list[Part] = []
    for part in parts:
        same = [axis for axes in other for axis in axes if axis.overlaps(part)]
        cuts = {cut for run in same for cut in run[1:] if part.start < cut < part.end}
        ends = [part.start, *sorted(cuts), part.end]
        common += [Part(part.name, *pair) for pair in pairwise(ends)]
    return tuple(common)


class _Step:
    """The collectives of one step."""

    def __init__(self, step: Step, done: set[tuple[Value, Layout]]) -> None:
        self.step, self.done = step, done

    def collectives(self) -> Iterator[Collective]:
        """Yield those of its operands, then those of its results."""
        step, op = self.step, self.step.op
        if isinstance(op, collective_groups.Collective):
            yield from self._own()
        elif isinstance(op, Placed):
            if op.sharding is not None:
                yield from self._moved(step.operands[0], op.sharding, "as constrained")
        elif isinstance(op, ManualComputation):
            for value, sharding in zip(step.operands, op.in_shardings, strict=True):
                yield from self._moved(value, sharding, "piece of each device")
        elif op.split_by != "xla":
            yield from self._unsplit()
        elif step.edges:
            for edge in step.edges:
                sharding = sharding_of(owner_of(step.at(edge.owner)))
                if sharding is not None:
                    for place in edge.sources:
                        yield from self._moved(step.at(place), sharding, "carried value")
        else:
            rule = step.sharding_rule
            shardings = [*map(sharding_of, step.operands), *map(sharding_of, step.results)]
            meshes = [
                sharding.mesh
                for sharding in shardings
                if sharding is not None and sharding.mesh.axis_names
            ]
            if rule is not None and meshes:
                yield from self._by_rule(rule, meshes[0])

    def _unsplit(self) -> Iterator[Collective]:
        """Yield those of an operation that XLA does not split; it gets pieces, or whole arrays."""
        pieces = pieces_of(self.step)
        if pieces is not None:
            yield from self._by_rule(pieces.rule, pieces.given[0].mesh, pieces.cuts)
            return
        for value in self.step.operands:
            sharding = sharding_of(value)
            if sharding is not None and sharding.mesh.axis_names:
                closed = TensorSharding.closed(sharding.mesh, value.rank)
                yield from self._moved(value, closed, "whole on each device")

    def _own(self) -> Iterator[Collective]:
        """Yield a collective of the program itself, over axes of the enclosing computation."""
        step = self.step
        manual = [
            enclosing.op
            for enclosing in step.around()
            if isinstance(enclosing.op, ManualComputation)
        ]
        mesh = manual[0].mesh if manual else None
        groups = step.op.replica_groups or ((0,),)
        axes = () if mesh is None else mesh.axes_of(groups) or ()
        for value in step.results:
            if isinstance(value.shape, Shape):
                shape = _local(value.shape, _layout(value))
                yield _collective(step.op.hlo_name, axes, groups, shape, step, "written so")

    def _moved(self, value: Value, wanted: TensorSharding, why: str) -> Iterator[Collective]:
        return _moved(value, wanted.mesh, wanted.parts, self.done, self.step, why)

    def _by_rule(
        self, rule: ShardingRule, mesh: Mesh, cuts: Sequence[Parts] | None = None
    ) -> Iterator[Collective]:
        step, factors = self.step, self._factors(rule) if cuts is None else cuts
        for value, dimensions in zip(step.operands, rule.operands, strict=False):
            if len(dimensions) == value.rank:
                wanted = joined(dimensions, factors, rule.sizes)
                yield from _moved(
                    value, mesh, wanted, self.done, step, "to match the result's sharding"
                )
        halo = [part for factor in sorted(rule.permutation) for part in factors[factor]]
        for value, dimensions in zip(step.results, rule.results, strict=False):
            if not value.can_be_sharded:
                continue
            dimension_parts = joined(dimensions, factors, rule.sizes)
            shape = _local(value.shape, dimension_parts)
            for factor in sorted(rule.reduction):
                if factors[factor]:
                    why = "sum of the devices' parts"
                    yield _made("all-reduce", factors[factor], shape, mesh, step, why)
            if halo:
                yield _made("collective-permute", halo, shape, mesh, step, "what neighbors hold")
            for move in _moves(dimension_parts, _layout(value), value.shape):
                yield _made(*move, mesh, step, "to the result's layout")

    def _factors(self, rule: ShardingRule) -> list[Parts]:
        """Return the axes of each factor while the step computes.

        Sums for which all operands have one sharding come first, then the shardings of the results,
        then factors that are sharded only in operands.
        """
        step = self.step
        operands = self._taken_apart(step.operands, rule.operands, rule.sizes)
        results = self._taken_apart(step.results, rule.results, rule.sizes)
        in_results = {factor for result in results for factor in result}
        factors: list[Parts] = [()] * len(rule.sizes)
        seen: list[Part] = []

        def take(factor: int, parts: Parts) -> None:
            if factors[factor] or factor in rule.need_replication:
                return
            if not any(earlier.overlaps(part) for earlier in seen for part in parts):
                factors[factor] = parts
                seen.extend(parts)

        for factor in sorted(rule.reduction):
            candidates = {operand[factor] for operand in operands if factor in operand}
            if len(candidates) == 1:
                take(factor, *candidates)
        for tensor in results:
            for factor, parts in tensor.items():
                take(factor, parts)
        for tensor in operands:
            for factor, parts in tensor.items():
                if factor not in in_results:
                    take(factor, parts)
        return factors

    def _taken_apart(
        self, values: Sequence[Value], tensors: Sequence[Any], sizes: Sequence[int]
    ) -> list[dict[int, Parts]]:
        """Return the axes of each factor of each value."""
        factor_parts = []
        for value, dimensions in zip(values, tensors, strict=False):
            if value.can_be_sharded and len(dimensions) == value.rank:
                tensor = Tensor(dimensions, sharding_of(value), sizes)
                factor_parts.append(
                    {factor: split.parts for factor, split in tensor.factors.items()}
                )
        return factor_parts
