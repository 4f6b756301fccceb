"""The pass that reshards where an operation's operands and results are laid out in other ways."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.axes import Part, merged, size_of
from minixla.sharding.operations import Reshard
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.propagation.driver import common_mesh
from minixla.sharding.propagation.factors import Parts, Tensor
from minixla.sharding.propagation.strategies import shared_prefix, without
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla.sharding.value_shardings import sharding_of
from minixla_ops.movement.slicing import ConcatInDim
from minixla_ops.products.dot import DotGeneral

#: A factor and axes along which to split it.
Candidate = tuple[int, Parts]
Find = Callable[[Sequence[Tensor], Sequence[int], ShardingRule], list[Parts] | None]


def insert_explicit_reshards(program: Program) -> None:
    """Reshards operands and results of concatenations, and results of some products.

    SDY: sdy-insert-explicit-reshards, as it is by default: XLA's partitioner reshards for all other
    operations.
    """
    for block in program.blocks():
        steps: list[Step] = []
        for step in block.steps:
            find = _FINDERS.get(type(step.op))
            steps += [step] if find is None else _resharded(program, step, find)
        block.steps = steps


def _resharded(program: Program, step: Step, find: Find) -> list[Step]:
    """A step, with the reshards before and behind it."""
    rule = step.op.sharding_rule(*[value.shape for value in step.operands])
    values = [*step.operands, *step.results]
    given = [sharding_of(value) for value in values]
    known = common_mesh(given)
    if rule is None or known is None:
        return [step]
    mappings = (*rule.operands, *rule.results)
    tensors = [
        Tensor(mapping, sharding, rule.sizes)
        for mapping, sharding in zip(mappings, given, strict=True)
    ]
    axes = find(tensors, [_size(value) for value in values], rule)
    if axes is None:
        return [step]
    before, behind = [], []
    for number, (tensor, sharding) in enumerate(zip(tensors, given, strict=True)):
        for factor, own in tensor.factors.items():
            own.parts, own.overflow = axes[factor], ()
        wanted = _laid_out(tensor, known)
        if tensor.parts() == (sharding.parts if sharding else ((),) * len(tensor.dimensions)):
            continue
        if number < len(step.operands):
            before.append(_reshard(step, step.operands[number], wanted))
            step.operands[number] = before[-1].results[0]
        else:
            uses = program.uses().get(values[number], ())
            old = sharding or TensorSharding.closed(
                known.mesh, values[number].rank, known.mesh_name
            )
            behind.append(_reshard(step, values[number], old))
            program.replace(values[number], behind[-1].results[0], uses)
            values[number].sharding = wanted
    return [*before, step, *behind]


def _reshard(step: Step, value: Value, sharding: TensorSharding) -> Step:
    return step.block.new_step(Reshard(sharding), [value], step.source)


def _laid_out(tensor: Tensor, known: TensorSharding) -> TensorSharding:
    axes = [tuple(map(known.mesh.axis, parts)) for parts in tensor.parts()]
    dimensions = tuple(map(DimensionSharding, axes))
    return TensorSharding(known.mesh, dimensions, mesh_name=known.mesh_name)


def _axes_of(tensors: Sequence[Tensor], factor: int) -> set[Parts]:
    return {each.factors[factor].parts for each in tensors if factor in each.factors}


def _size(value: Value) -> int:
    size = 1
    for each in getattr(value.shape, "dimensions", ()):
        size *= each
    return size


def _product_axes(
    tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule
) -> list[Parts] | None:
    """The operands' axes, where the result has those of the sum in place of one of them.

    Then the result moves behind the product, if it is not larger than the operand that would move
    else. None where it is otherwise.
    """
    operands, result = tensors[:-1], tensors[-1]
    found = [_axes_of(operands, factor) for factor in range(len(rule.sizes))]
    if any(len(each) != 1 for each in found):
        return None
    axes = [next(iter(each)) for each in found]
    summed = [axes[factor] for factor in rule.reduction if axes[factor]]
    other = [factor for factor, own in result.factors.items() if own.parts != axes[factor]]
    if len(other) != 1 or not axes[other[0]] or result.factors[other[0]].parts not in summed:
        return None
    holders = zip(operands, sizes[:-1], strict=True)
    if sizes[-1] > max(size for each, size in holders if other[0] in each.factors):
        return None
    rest = [part for factor in result.factors if factor != other[0] for part in axes[factor]]
    is_free = all(without(part, rest) == part for part in axes[other[0]])
    return axes if is_free else None


def _common_axes(
    tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule
) -> list[Parts] | None:
    """For each factor the axes along which all tensors are to be split; None if they are.

    Every tensor votes for its axes, and for each beginning of them, with its size. What has most
    votes is taken, again and again, until nothing is left that goes with what was taken.
    """
    if all(len(_axes_of(tensors, factor)) == 1 for factor in range(len(rule.sizes))):
        return None
    whole = rule.need_replication
    lists = [
        (size, factor, own.parts)
        for tensor, size in zip(tensors, sizes, strict=True)
        for factor, own in tensor.factors.items()
    ]
    votes: dict[Candidate, int] = {}
    for _, factor, parts in lists:
        for count in range(1, len(parts) + 1):
            first = parts[:count]
            voters = [
                each
                for each, other, own in lists
                if other == factor and shared_prefix(first, own) == first
            ]
            votes[factor, first] = sum(voters)
    taken: list[Parts] = [()] * len(rule.sizes)

    def rank(candidate: Candidate) -> tuple[object, ...]:
        factor, parts = candidate
        gain = size_of(parts) // size_of(taken[factor])
        return votes[candidate], factor not in whole, gain, factor, len(parts), parts

    while votes:
        factor, parts = max(votes, key=rank)
        taken[factor] = parts
        votes = _left(votes, factor, taken)
    return _moved(taken, rule.sizes, whole)


def _left(votes: dict[Candidate, int], chosen: int, taken: Sequence[Parts]) -> dict[Candidate, int]:
    """The candidates that still go, after one for a factor was taken."""
    found: dict[Candidate, int] = {}
    for (factor, parts), count in votes.items():
        left: list[Part] = []
        for part in parts if factor != chosen else ():
            kept = without(part, taken[chosen])
            left += () if kept is None else (kept,)
            if kept != part:
                break
        key = factor, parts if factor == chosen else tuple(left)
        if key[1] != taken[factor] and shared_prefix(taken[factor], key[1]) == taken[factor]:
            found[key] = max(count, found.get(key, 0))
    return found


def _moved(taken: list[Parts], sizes: Sequence[int], whole: Collection[int]) -> list[Parts]:
    """The axes of factors that must stay whole go to others, as far as they divide these."""
    axes = [part for factor in sorted(whole) for part in taken[factor]]
    for factor, size in enumerate(sizes):
        if factor in whole:
            taken[factor] = ()
            continue
        while axes and size % (size_of(taken[factor]) * axes[0].size) == 0:
            taken[factor] = tuple(merged([*taken[factor], axes.pop(0)]))
    return taken


#: By operation how all tensors are to be split, given them, their numbers of elements and the rule.
_FINDERS: dict[type[Any], Find] = {ConcatInDim: _common_axes, DotGeneral: _product_axes}
