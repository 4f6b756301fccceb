"""The steps of a scan's derivatives and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import minixla_ops as ops
from minixla.core.derived import ReverseGraphs, batched_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import evaluate_graph
from minixla_ops.programs.runs_programs import program
from minixla_ops.vocabulary.batch_dimensions import move_batch
from minixla_ops.vocabulary.shorthand import array_shape, instantiate

if TYPE_CHECKING:
    from minixla_ops.control_flow.scan import Scan


def fixed_carries(to_apply: Graph, carries: int) -> list[bool]:
    """Which carries `to_apply` returns as it takes them."""
    if not carries:
        return []
    pairs = zip(to_apply.inputs[-carries:], to_apply.outputs[-carries:], strict=True)
    return [taken is given for taken, given in pairs]


def _grown(
    flags: tuple[bool, ...], carries: int, found: Callable[[tuple[bool, ...]], Sequence[bool]]
) -> tuple[bool, ...]:
    """The flags of the operands, those of carries set where a step sets them, however late."""
    while True:
        after = found(flags)
        count = len(flags) - carries
        carried = [
            a or b for a, b in zip(flags[count:], after[len(after) - carries :], strict=True)
        ]
        grown = (*flags[:count], *carried)
        if grown == flags:
            return flags
        flags = grown


def batched_step(
    to_apply: Graph, carries: int, given: tuple[bool, ...], size: int
) -> tuple[tuple[bool, ...], Graph, tuple[bool, ...]]:
    """Which operands are batched, the step over the batch, and which outputs are batched."""
    key = ("scan_batch", carries, given, size)
    found = to_apply.memo.get(key)
    if found is not None:
        return found
    count, results = len(given) - carries, len(to_apply.outputs) - carries

    def derived(flags: tuple[bool, ...]) -> Any:
        # In elements the batch stands last, in carries first.
        ranks = [s.rank if isinstance(s, Shape) else 0 for s in to_apply.input_shapes]
        places = [*ranks[:count], *[0] * carries]
        at = tuple([place if flag else None for place, flag in zip(places, flags, strict=True)])
        return batched_graph(to_apply, at, size)

    def after(flags: tuple[bool, ...]) -> Sequence[bool]:
        return [at is not None for at in derived(flags).dimensions]

    flags = _grown(given, carries, after)
    graph, dimensions = derived(flags)
    out = tuple([at is not None for at in dimensions[:results]])
    wanted = (*out, *flags[count:])

    def step(*values: Any) -> list[Any]:
        outputs = evaluate_graph(graph, values)
        moved = []
        for index, (output, at, flag) in enumerate(zip(outputs, dimensions, wanted, strict=True)):
            last = array_shape(output).rank - (at is not None)
            place = last if index < results else 0
            moved.append(move_batch(output, at, place, size) if flag else output)
        return moved

    found = to_apply.memo[key] = (flags, program(step, graph.input_shapes, graph.name), out)
    return found


class _Residual(NamedTuple):
    """Where the way back finds a residual: an operand of the scan, or the next stack."""

    operand: int | None


def scan_vjp_graphs(
    operation: Scan, shapes: tuple[AnyShape, ...], given: tuple[bool, ...]
) -> ReverseGraphs:
    """The two halves of the reverse derivative, each a scan."""
    to_apply, carries = operation.to_apply, operation.carries
    length, dimension = operation.length, operation.scan_dimension
    count, results = len(given) - carries, len(to_apply.outputs) - carries
    active = _grown(given, carries, lambda flags: vjp_graphs(to_apply, flags).active_outputs)
    halves = vjp_graphs(to_apply, active)
    forward, fixed = halves.forward, fixed_carries(to_apply, carries)
    held = {id(value): index for index, value in enumerate(forward.inputs)}
    is_held = [True] * count + fixed
    places = []
    for value in forward.outputs[len(to_apply.outputs) :]:
        index = held.get(id(value))
        places.append(_Residual(index if index is not None and is_held[index] else None))
    residuals = forward.outputs[len(to_apply.outputs) :]
    kept = [value for value, place in zip(residuals, places, strict=True) if place.operand is None]
    # Residuals count along the first dimension.
    step = Graph(
        forward.inputs,
        forward.instructions,
        [*forward.outputs[:results], *kept, *forward.outputs[results : results + carries]],
        forward.name,
    )
    padded = _stackable(step, results, len(kept), dimension)
    used = sorted({place.operand for place in places if place.operand is not None})
    shared = [index for index in used if index >= count]

    def first(*operands: Any) -> list[Any]:
        found = operation(*operands, to_apply=padded)
        outputs, stacks = found[:results], found[results : results + len(kept)]
        return [*outputs, *found[results + len(kept) :], *[operands[i] for i in used], *stacks]

    made = program(first, shapes, f"forward_{to_apply.name}")
    flags = halves.active_outputs
    out_active, carry_active = flags[:results], active[count:]
    backward = _backward_step(halves, to_apply, carries, active, places, kept, used, dimension)

    def second(*values: Any) -> list[Any]:
        split = len(used) + len(kept)
        at = dict(zip(used, values, strict=False))
        stacks, cotangents = values[len(used) : split], list(values[split:])
        of_outputs, of_carries = cotangents[: sum(out_active)], cotangents[sum(out_active) :]
        scanned = [at[i] for i in used if i < count]
        found = operation(
            *[*scanned, *stacks, *of_outputs],
            *[*of_carries, *[at[i] for i in shared]],
            to_apply=backward,
            carries=len(of_carries) + len(shared),
            is_reverse=not operation.is_reverse,
            is_associative=None,
        )
        return list(found[: sum(active)])

    pairs = zip(to_apply.output_shapes[:results], out_active, strict=True)
    stacked = [s.with_dimension(dimension, length) for s, f in pairs if f and isinstance(s, Shape)]
    carried = [s for s, f in zip(to_apply.input_shapes[count:], carry_active, strict=True) if f]
    given_shapes = [*made.output_shapes[results + carries :], *stacked, *carried]
    pulled = program(second, given_shapes, f"vjp_{to_apply.name}")
    return ReverseGraphs(made, pulled, (*out_active, *carry_active), active)


def _stackable(step: Graph, start: int, count: int, dimension: int) -> Graph:
    """The step whose results `start` to `start + count` have at least `dimension` dimensions."""

    def function(*values: Any) -> list[Any]:
        outputs = evaluate_graph(step, values)
        for index in range(start, start + count):
            outputs[index] = _with_rank(outputs[index], dimension)
        return outputs

    return program(function, step.input_shapes, step.name) if dimension and count else step.pruned()


def _with_rank(value: Any, rank: int) -> Any:
    sizes = array_shape(value).dimensions
    return _reshaped(value, (*[1] * (rank - len(sizes)), *sizes))


def _reshaped(value: Any, sizes: Sequence[int]) -> Any:
    return value if array_shape(value).dimensions == tuple(sizes) else ops.reshape(value, sizes)


def _backward_step(
    halves: ReverseGraphs,
    to_apply: Graph,
    carries: int,
    active: tuple[bool, ...],
    places: Sequence[_Residual],
    kept: Sequence[Any],
    used: Sequence[int],
    dimension: int,
) -> Graph:
    """One step back: residuals and cotangents to those of the elements and of the carries."""
    count, results = len(active) - carries, len(to_apply.outputs) - carries
    flags = halves.active_outputs
    scanned = [index for index in used if index < count]
    shared = [index for index in used if index >= count]
    outputs = sum(flags[:results])
    moving = sum(active[count:])

    def function(*values: Any) -> list[Any]:
        found = iter(values)
        at = {index: next(found) for index in scanned}
        stacks = iter([_reshaped(next(found), value.shape.dimensions) for value in kept])
        of_outputs = [next(found) for _ in range(outputs)]
        of_carries = [next(found) for _ in range(moving)]
        at |= {index: next(found) for index in shared}
        after = spread(active[count:], of_carries)
        given = [
            *of_outputs,
            *[c for c, flag in zip(after, flags[results:], strict=True) if flag],
        ]
        residuals = [next(stacks) if p.operand is None else at[p.operand] for p in places]
        pulled = evaluate_graph(halves.backward, [*residuals, *given])
        before = spread(halves.active_inputs, pulled)
        wanted = [
            instantiate(each, shape)
            for each, shape, flag in zip(before, to_apply.input_shapes, active, strict=True)
            if flag
        ]
        return [*wanted, *[at[index] for index in shared]]

    shapes = to_apply.input_shapes
    rows = [
        value.shape.with_dimensions(
            (*[1] * (dimension - value.shape.rank), *value.shape.dimensions)
        )
        for value in kept
    ]
    given = [
        *[shapes[index] for index in scanned],
        *rows,
        *[s for s, flag in zip(to_apply.output_shapes[:results], flags, strict=False) if flag],
        *[s for s, flag in zip(shapes[count:], active[count:], strict=True) if flag],
        *[shapes[index] for index in shared],
    ]
    return program(function, given, f"vjp_{to_apply.name}")
