"""Operations that XLA does not split over devices, run by each device on its own pieces.

XLA gathers the operands of compiled code that it does not know, and each device computes all of
it. If such an operation has a sharding rule, its instruction becomes a manual computation along
the factors that its arrays are sharded along. Native propagation determines their shardings.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.core.sharding_rule import PASS_THROUGH, REDUCTION, ShardingRule
from minixla.sharding.axes import Part, merged, size_of
from minixla.sharding.inlining import inline
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla.sharding.operations import NamedComputation
from minixla.sharding.passes import import_program
from minixla.sharding.program import Block, Program, Step, Value
from minixla.sharding.propagation import user_priority_propagate
from minixla.sharding.propagation.driver import common_mesh
from minixla.sharding.propagation.factors import Tensor
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import sharding_of
from minixla_ops.helpers.shorthand import as_tuple
from minixla_ops.programs.call import Call
from minixla_ops.programs.lowering import Lowered, lowered_program
from minixla_ops.programs.runs_programs import program as program_of

#: The axes along which each factor of a rule is sharded.
Cuts = list[tuple[Part, ...]]


def on_pieces(graph: Graph, shardings: Sequence[TensorSharding | None] = ()) -> Graph:
    """Return a program in which each device runs operations that XLA does not split on its pieces.

    Args:
        graph: the program.
        shardings: the shardings of its operands, if they are known.

    Returns:
        The program with manual computations in place of operations whose arrays are sharded along
        factors of their sharding rules; the same program if it contains no such operations.
    """
    if not graph.has_pieces or not (any(shardings) or graph.meshes or graph.annotations):
        return graph
    # Passes use the first program, in which as much as possible is inlined, to find shardings. In
    # the second one, only steps around operations that run on pieces are inlined. Both have the
    # same order.
    original, program = Program.of_graph(graph), Program.of_graph(graph)
    for value, sharding in zip(original.main.inputs, shardings, strict=False):
        value.sharding = value.sharding or sharding
    inline(original.main, lambda step: _written_out(original, step, only_holders=False))
    inline(program.main, lambda step: _written_out(program, step, only_holders=True))
    steps = list(_split(original))
    import_program(original)
    user_priority_propagate(original)
    pairs = zip(_split(program), map(manual_computation, steps), strict=True)
    changed = [(step, made) for step, made in pairs if made is not None]
    for step, made in changed:
        step.op = made
    return program.graph() if changed else graph


def _split(program: Program) -> Iterator[Step]:
    return (step for step in program.main.walk() if step.op.split_by == "pieces")


def _written_out(program: Program, step: Step, only_holders: bool) -> Block | None:
    """Return the block to inline for a step: a call, or an operation that XLA decomposes.

    These are steps that contain operations that run on pieces. Unless `only_holders`, they include
    all other steps without a sharding rule.
    """
    op, shapes = step.op, tuple([value.shape for value in step.operands])
    is_holder = any(computation.has_pieces for computation in op.computations)
    if isinstance(op, Call) and not isinstance(op, NamedComputation):
        body = step.callee or step.blocks[0]
        return body if is_holder or not only_holders else None
    if not isinstance(op, Lowered) or op.split_by != "xla":
        return None
    if not is_holder and (only_holders or op.sharding_rule(*shapes) is not None):
        return None
    made = lowered_program(op, shapes)
    return program.block_of(made) if is_holder or not made.has_pieces else None


class Pieces(NamedTuple):
    """The way to split a step.

    Attributes:
        rule: its sharding rule.
        cuts: the axes along which each factor is sharded.
        given, wanted: the shardings of its operands and results.
        shapes: the shapes of the operands' pieces.
    """

    rule: ShardingRule
    cuts: Cuts
    given: tuple[TensorSharding, ...]
    wanted: tuple[TensorSharding, ...]
    shapes: list[Shape]


def pieces_of(step: Step) -> Pieces | None:
    """Return how to split a step, by the shardings of its values after propagation.

    Return None if nothing is sharded, or if the operation does not support pieces.
    """
    op, values = step.op, (*step.operands, *step.results)
    is_manual = any(isinstance(enclosing.op, ManualComputation) for enclosing in step.around())
    if is_manual or not all(value.can_be_sharded for value in values):
        return None
    shapes: Any = [value.shape for value in step.operands]
    rule, meshed = op.sharding_rule(*shapes), common_mesh(map(sharding_of, values))
    if op.split_by != "pieces" or rule is None or meshed is None:
        return None
    if not all(value.shape.size for value in values):  # type: ignore[union-attr]  # arrays
        return None  # XLA has no manual computations of empty arrays
    mesh, cuts = meshed.mesh, _cuts(step, rule, meshed.mesh)
    if not any(cuts):
        return None
    stated, wanted = (
        tuple([_sharding(mesh, dimensions, cuts) for dimensions in side])
        for side in (rule.operands, rule.results)
    )
    pieces = [at.local_shape(shape) for at, shape in zip(stated, shapes, strict=True)]
    expected = [at.local_shape(x.shape) for at, x in zip(wanted, step.results, strict=True)]
    try:
        if list(as_tuple(op.infer(tuple(pieces)))) != expected:
            return None  # an attribute determines the size of a result
    except MinixlaError:
        return None
    return Pieces(rule, cuts, stated, wanted, pieces)


def manual_computation(step: Step) -> ManualComputation | None:
    """Return the operation that each device runs in place of a step; None if it is not split."""
    pieces = pieces_of(step)
    if pieces is None:
        return None
    rule, mesh = pieces.rule, pieces.given[0].mesh
    summed = [part.name for factor in sorted(rule.reduction) for part in pieces.cuts[factor]]
    graph = _local(step.op, pieces.shapes, mesh.groups(summed) if summed else ())
    for instruction in graph.instructions:
        instruction.source = step.source
    return ManualComputation(graph, pieces.given, pieces.wanted, mesh.axis_names)


def _cuts(step: Step, rule: ShardingRule, mesh: Mesh) -> Cuts:
    """Return the axes along which each factor is sharded: first of results, then of operands."""
    cuts: Cuts = [()] * len(rule.sizes)
    used: list[Part] = []
    values = [*zip(step.results, rule.results, strict=True)]
    values += zip(step.operands, rule.operands, strict=True)
    allowed = _allowed(step, rule)
    for value, dimensions in values:
        for factor, split in Tensor(dimensions, sharding_of(value), rule.sizes).factors.items():
            if factor in allowed and not cuts[factor]:
                cuts[factor] = _even(split.parts, rule.sizes[factor], used, mesh)
                used += cuts[factor]
    sized = [pair for value, sharding in values for pair in _sized(value, sharding)]
    while wrong := [cut for pair in sized for cut in _misplaced(*pair, rule, cuts)]:
        for factor in wrong:
            cuts[factor] = ()
    return cuts


def _allowed(step: Step, rule: ShardingRule) -> set[int]:
    """Return the factors along which pieces of the results follow from pieces of the operands.

    A factor that passes through must be in every result, because a result without it would be
    whole. A factor that is summed over must be in no result.
    """
    results = [{factor for dimension in tensor for factor in dimension} for tensor in rule.results]
    operands = {factor for tensor in rule.operands for dimension in tensor for factor in dimension}
    can_add = all(_is_number(value.shape) for value in step.results)
    allowed = set()
    for factor in operands - rule.blocked:
        kind, of = rule.kind(factor), [factor in result for result in results]
        if (kind == PASS_THROUGH and all(of)) or (kind == REDUCTION and can_add and not any(of)):
            allowed.add(factor)
    return allowed


def _is_number(shape: Any) -> bool:
    return shape.element_type.kind != "pred"


def _even(parts: Sequence[Part], size: int, used: Sequence[Part], mesh: Mesh) -> tuple[Part, ...]:
    """Return the first axes that are whole, free, and divide a size into equal pieces."""
    even: list[Part] = []
    for part in parts:
        is_free = not any(part.overlaps(taken) for taken in used)
        if part != mesh.whole_axes[part.name] or not is_free or size % part.size:
            break
        even.append(part)
        size //= part.size
    return tuple(even)


def _sized(value: Value, dimensions: Sequence[Sequence[int]]) -> Iterator[tuple[Any, int]]:
    """Return the factors of each dimension with its size."""
    return zip(dimensions, value.shape.dimensions, strict=True)  # type: ignore[union-attr]  # an array


def _misplaced(factors: Sequence[int], size: int, rule: ShardingRule, cuts: Cuts) -> list[int]:
    """Return factors of a dimension that cannot be sharded, after one that is not fully sharded."""
    is_whole = [size_of(cuts[factor]) == rule.sizes[factor] for factor in factors]
    first = 1 + sum(takewhile(bool, is_whole))
    if math.prod([rule.sizes[factor] for factor in factors]) != size:
        first = 0  # the dimension is not just its factors
    return [factor for factor in factors[first:] if cuts[factor]]


def _sharding(mesh: Mesh, dimensions: Sequence[Sequence[int]], cuts: Cuts) -> TensorSharding:
    """Return the sharding of one array; along other axes all devices hold the same values."""
    parts = [
        merged([part for factor in factors for part in cuts[factor]]) for factors in dimensions
    ]
    sharding = TensorSharding.closed(mesh, len(parts)).with_parts(parts)
    rest = [name for name in mesh.axis_names if name not in sharding.cut_along]
    return sharding.replicated_along(rest, None)


def _local(op: Operation, pieces: Sequence[Shape], groups: Any) -> Graph:
    """Return the program of each device; results are summed over `groups`."""
    channels = count(1)

    def total(value: Any) -> Any:
        return ops.all_reduce(value, ops.add, groups, next(channels), use_global_device_ids=True)

    def function(*operands: Any) -> Sequence[Any]:
        results = as_tuple(op(*operands))
        return list(map(total, results)) if groups else results

    return program_of(function, pieces, op.builder_name)
