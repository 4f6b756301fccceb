"""The pass that inserts reshards for operations whose operands and results differ in sharding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import (
    AllReduce,
    DataFlowEdge,
    Placed,
    PropagationBarrier,
    Reshard,
    ShardingGroup,
)
from minixla.sharding.passes.common_axes import are_compatible, axes_of, common_axes, voted_axes
from minixla.sharding.passes.insertions import Insertions, differ, replicated
from minixla.sharding.program import Block, Function, Program, Step, Use, Value
from minixla.sharding.propagation.driver import common_mesh
from minixla.sharding.propagation.factors import Parts, Tensor, tensors_of
from minixla.sharding.propagation.strategies import without
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import own_shardings, put, sharding_of, without_axes
from minixla_ops.movement.slicing import ConcatInDim, Slice
from minixla_ops.products.dot import DotGeneral

#: How to split all tensors along each factor; None if they stay as they are.
Find = Callable[[Sequence[Tensor], Sequence[int], ShardingRule], list[Parts] | None]


def insert_explicit_reshards(program: Program, *, enable_full_version: bool = False) -> None:
    """Reshard operands and results of operations that are not split alike.

    SDY: sdy-insert-explicit-reshards.

    Args:
        program: the program, which is changed.
        enable_full_version: whether to do this for all operations, values that control flow
            carries and results of functions, and to write out sums over devices. If not, it is done
            only for calls, concatenations and results of some products; XLA's partitioner does the
            rest.
    """
    reduced = _reduce_operands(program)
    inserted = Insertions(program)
    for function in program.functions.values():
        for step in _inner_first(function):
            if step.callee is not None:
                _fit_operands(inserted, step, step.callee)
            elif not enable_full_version:
                find = _FINDERS.get(type(step.op))
                if find is _common_axes and (step in reduced or _is_unreduced(step)):
                    find = voted_axes  # Shardy compares shardings, and these differ
                if find is not None:
                    _Split(inserted, step).fit(find)
            elif step.edges:
                _fit_sources(inserted, step)
            elif not isinstance(step.op, _AS_THEY_ARE):
                _Split(inserted, step, _seen_sharding).fit(_full, with_sums=True)
        if enable_full_version:
            for number, sharding in enumerate(function.output_shardings):
                _fit(inserted, Use(function, number), sharding)
    inserted.write()


def _is_unreduced(step: Step) -> bool:
    """Return whether a result has unreduced axes."""
    shardings = map(sharding_of, step.results)
    return any(sharding is not None and sharding.unreduced for sharding in shardings)


def _reduce_operands(program: Program) -> set[Step]:
    """Reduce operands along their unreduced axes, except axes that the reader's result has.

    Returns:
        The steps with a reduced operand.
    """
    inserted = Insertions(program)
    for function in program.functions.values():
        for step in _inner_first(function):
            if step.edges:
                for use, sharding in _sources(step):
                    _reduce(inserted, use, sharding, is_late=False)
            elif step.callee is not None:
                for number, wanted in enumerate(own_shardings(step.callee.inputs)):
                    _reduce(inserted, Use(step, number), wanted, is_late=False)
            elif not isinstance(step.op, AllReduce):
                left = sharding_of(step.results[0]) if step.results else None
                for number in range(len(step.operands)):
                    _reduce(inserted, Use(step, number), left)
        for number, sharding in enumerate(function.output_shardings):
            _reduce(inserted, Use(function, number), sharding)
    inserted.write()
    return {step for step in inserted.before if isinstance(step, Step)}


def _reduce(
    inserted: Insertions, use: Use, wanted: TensorSharding | None, is_late: bool = True
) -> None:
    """Reduce an operand along the unreduced axes that its reader does not keep."""
    stated = sharding_of(use.value)
    if stated is None or not stated.unreduced:
        return
    mesh = stated.mesh
    kept = [] if wanted is None else [wanted.mesh.part(axis) for axis in wanted.unreduced]
    left = [mesh.part(axis) for axis in stated.unreduced]
    for other in kept:
        left = [part for remaining in left for part in remaining.without(other)]
    if left:
        rest = [mesh.part(axis) for axis in stated.unreduced]
        for other in left:
            rest = [part for remaining in rest for part in remaining.without(other)]
        op = AllReduce(stated.of(unreduced=mesh.listed(rest)), mesh.listed(left))
        inserted.read_through(use, op, is_late)


def _inner_first(block: Block) -> Iterator[Step]:
    for step in list(block.steps):
        for inner in step.blocks:
            yield from _inner_first(inner)
        yield step


def _fit_operands(inserted: Insertions, step: Step, callee: Function) -> None:
    """Reshard the operands of a call to the shardings of the function's arguments."""
    for number, wanted in enumerate(own_shardings(callee.inputs)):
        _fit(inserted, Use(step, number), wanted, is_late=False)


def _fit_sources(inserted: Insertions, step: Step) -> None:
    """Reshard the sources of edges to the shardings of the edges' owners."""
    for use, sharding in _sources(step):
        _fit(inserted, use, sharding, is_late=False)


def _sources(step: Step) -> Iterator[tuple[Use, TensorSharding | None]]:
    """Yield the sources of a step's edges, and the shardings that the edges expect."""
    for edge in step.edges:
        for place in edge.sources:
            sharding = sharding_of(step.at(edge.owner))
            if sharding is not None and isinstance(step.op, ManualComputation):
                if place.kind == "operand":
                    sharding = step.op.in_shardings[place.number]
                else:
                    sharding = without_axes(sharding, step.op.manual_axes)
            user = step if place.kind == "operand" else step.blocks[place.block]
            yield Use(user, place.number), sharding


def _fit(
    inserted: Insertions, use: Use, wanted: TensorSharding | None, is_late: bool = True
) -> None:
    """Reshard an operand to the given sharding, or replicate it; see `reshard`."""
    stated = sharding_of(use.value)
    if wanted is None and stated is not None and stated.mesh.is_maximal:
        return  # a value on one device stays there
    if differ(stated, wanted):
        inserted.reshard(use, wanted or replicated(stated, use.value), is_late)


def _seen_sharding(value: Value) -> TensorSharding | None:
    """Return the sharding in front of barriers, with which Shardy compares a new one."""
    while value.step is not None and isinstance(value.step.op, PropagationBarrier):
        value = value.step.operands[0]
    return sharding_of(value)


class _Split:
    """A step whose tensors must be split alike."""

    def __init__(
        self,
        inserted: Insertions,
        step: Step,
        find_sharding: Callable[[Value], TensorSharding | None] = sharding_of,
    ) -> None:
        self.inserted, self.step = inserted, step
        self.values = [*step.operands, *step.results]
        self.given = list(map(find_sharding, self.values))

    def fit(self, find: Find, with_sums: bool = False) -> None:
        """Reshard operands and results.

        Args:
            find: finds how to split them.
            with_sums: whether to write out sums over devices.
        """
        meshed = common_mesh(self.given)
        rule = _rule_of(self.step)
        if rule is None or meshed is None:
            return
        tensors = tensors_of(rule, self.given)
        axes = find(tensors, [_size(value) for value in self.values], rule)
        if axes is not None:
            self._split(tensors, axes, meshed)
        if with_sums:
            self._add_sums(tensors, rule, meshed)

    def _split(
        self, tensors: Sequence[Tensor], axes: Sequence[Parts], known: TensorSharding
    ) -> None:
        behind = []
        for number, (tensor, value) in enumerate(zip(tensors, self.values, strict=True)):
            sharding = _seen_sharding(value)
            tensor.put(axes)
            if tensor.parts() == (sharding.parts if sharding else ((),) * len(tensor.dimensions)):
                continue
            wanted = _laid_out(tensor, sharding, known)
            if number < len(self.step.operands):
                self.inserted.reshard(Use(self.step, number), wanted)
                continue
            old = Reshard(sharding or replicated(known, value))
            behind.append(self.step.block.new_step(old, [value], self.step.source))
            _put(value, wanted)
        self.inserted.put_behind(behind, self.step)

    def _add_sums(
        self, tensors: Sequence[Tensor], rule: ShardingRule, known: TensorSharding
    ) -> None:
        factor_axes = [axes_of(tensors, factor) for factor in sorted(rule.reduction)]
        axes = [part for choices in factor_axes for part in next(iter(choices), ())]
        sums = []
        for value in self.step.results:
            sharding = sharding_of(value) or replicated(known, value)
            open_ = map(known.mesh.part, sharding.unreduced)
            left = [axis for axis in axes if not any(part.contains(axis) for part in open_)]
            if left:
                op = AllReduce(sharding, known.mesh.listed(left))
                sums.append(self.step.block.new_step(op, [value], self.step.source))
        self.inserted.put_behind(sums, self.step)


def _rule_of(step: Step) -> ShardingRule | None:
    """Return the rule of a step's operation; joins of array pieces use permutations."""
    rule = step.sharding_rule
    is_own = step.stated_rule is None and isinstance(step.op, ConcatInDim)
    if rule is not None and is_own and _joins_pieces(step):
        return replace(rule, need_replication=frozenset(), permutation=rule.need_replication)
    return rule


def _joins_pieces(step: Step) -> bool:
    """Test whether all operands are slices, or slices of one array or that array itself."""
    pieces = [value.step for value in step.operands]
    wholes = {
        piece.operands[0] if piece is not None and isinstance(piece.op, Slice) else value
        for value, piece in zip(step.operands, pieces, strict=True)
    }
    are_pieces = [piece is not None and isinstance(piece.op, Slice) for piece in pieces]
    return all(are_pieces) or (any(are_pieces) and len(wholes) == 1)


def _put(value: Value, sharding: TensorSharding) -> None:
    """Set the sharding of a result; make other unsharded results of its step replicated."""
    put(value, sharding)
    if value.step is not None and not isinstance(value.step.op, Placed):
        for result in value.step.results:
            result.sharding = result.sharding or replicated(sharding, result)


def _laid_out(
    tensor: Tensor, given: TensorSharding | None, known: TensorSharding
) -> TensorSharding:
    unreduced = given.unreduced if given is not None else ()
    whole = TensorSharding.closed(known.mesh, len(tensor.dimensions), known.mesh_name)
    return whole.with_parts(tensor.parts()).of(unreduced=unreduced)


def _size(value: Value) -> int:
    size = 1
    for dimension in getattr(value.shape, "dimensions", ()):
        size *= dimension
    return size


def _full(
    tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule
) -> list[Parts] | None:
    return None if are_compatible(tensors, rule) else common_axes(tensors, sizes, rule)


def _product_axes(
    tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule
) -> list[Parts] | None:
    """Return the operands' axes if the result has the axes of the sum in place of one of them.

    Then the result is moved after the product, if it is not larger than the operand that would be
    moved otherwise. Return None in other cases.
    """
    operands, result = tensors[:-1], tensors[-1]
    factor_axes = [axes_of(operands, factor) for factor in range(len(rule.sizes))]
    if any(len(choices) != 1 for choices in factor_axes):
        return None
    axes = [next(iter(choices)) for choices in factor_axes]
    summed = [axes[factor] for factor in rule.reduction if axes[factor]]
    other = [factor for factor, split in result.factors.items() if split.parts != axes[factor]]
    if len(other) != 1 or not axes[other[0]] or result.factors[other[0]].parts not in summed:
        return None
    holders = zip(operands, sizes[:-1], strict=True)
    if sizes[-1] > max(size for tensor, size in holders if other[0] in tensor.factors):
        return None
    rest = [part for factor in result.factors if factor != other[0] for part in axes[factor]]
    is_free = all(without(part, rest) == part for part in axes[other[0]])
    return axes if is_free else None


def _common_axes(
    tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule
) -> list[Parts] | None:
    """Return the axes of a concatenation if its tensors are not split alike."""
    if all(len(axes_of(tensors, factor)) == 1 for factor in range(len(rule.sizes))):
        return None
    return voted_axes(tensors, sizes, rule)


#: Operations that stay as they are, regardless of their rule.
_AS_THEY_ARE = Reshard, AllReduce, DataFlowEdge, PropagationBarrier, ShardingGroup
#: By operation, the function that finds how to split all tensors.
_FINDERS: dict[type[Any], Find] = {ConcatInDim: _common_axes, DotGeneral: _product_axes}
