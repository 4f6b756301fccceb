"""Conditional: one of several programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Instance
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.derived import ReverseGraphs, batched_graph, jvp_graph, vjp_graphs
from minixla.core.errors import ShapeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.operation import Operation, register
from minixla.core.shapes import TOKEN, AnyShape, Shape
from minixla.core.tracing import bind, evaluate_graph, shape_of
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.bitwise import or_
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import eq, gt, lt
from minixla_ops.computations import check_computation
from minixla_ops.evaluation import reference_graph
from minixla_ops.loops import any_of, choose, shadowed
from minixla_ops.nested import as_given, closed, leaves_of, program
from minixla_ops.rules import add_cotangents, full_like, instantiate, splat, zeros, zeros_like
from minixla_ops.selection import select
from minixla_ops.tuples import without_tuples

__all__ = ["conditional"]

Flags = tuple[bool, ...]


@register
class Conditional(Operation):
    """Runs one of several branches on its own operands. XLA: Conditional.

    A predicate chooses branch 0 where it is true, else branch 1; an index chooses the branch of
    that number, and the last one where there is none.

    In a batch whose members choose differently each branch that a member takes runs on the whole
    batch; where a member takes another, the branch sees in its place one that takes it.

    Attributes:
        computations: the Graph of each branch; the operands after the first are the inputs of
            branch 0, then those of branch 1, and so on.

    Checks:
        (C1) the first operand is pred[], and there are two branches, or s32[], and there are any.
        (C2) each branch takes its operands.
        (C3) all branches give values of the same shapes.
        (C4) there is a branch, and as many operands as branches.
    """

    operand_names = ("branch_index", "branch_operands...")
    attributes = {"computations": SequenceAttribute(Instance(Graph))}

    def shape(
        self, branch_index: AnyShape, *operands: AnyShape, computations: tuple[Graph, ...]
    ) -> tuple[AnyShape, ...]:
        count = len(computations)
        given = [f"branch_index {branch_index}", f"{count} branches"]
        if not computations:
            self.reject("C4", "there is no branch", given, "Give one or more.")
        if branch_index is not Shape("s32") and (branch_index is not Shape("pred") or count != 2):
            advice = "It must be s32[], or pred[] to choose between two branches."
            self.reject("C1", "the predicate or index has another type", given, advice)
        outputs = computations[0].output_shapes
        for number, (branch, shapes) in enumerate(_sections(computations, operands)):
            name = f"branch {number}"
            check_computation(self, "C2", name, branch, shapes, branch.output_shapes)
            check_computation(self, "C3", name, branch, shapes, outputs)
        return outputs

    def reference(
        self, branch_index: Any, *operands: Any, computations: tuple[Graph, ...]
    ) -> tuple[Any, ...]:
        last = len(computations) - 1
        if branch_index.dtype == np.bool_:
            number = 1 - int(branch_index)
        else:
            number = int(branch_index) if 0 <= branch_index <= last else last
        branch, values = _sections(computations, operands)[number]
        return tuple(reference_graph(branch, values))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        computations: tuple[Graph, ...],
    ) -> Sequence[str]:
        token = None
        if any(branch.has_side_effect for branch in computations):
            token, results = "captured", [TOKEN, *results]
            emit.take_token()
        regions = [
            emit.region(branch, token=token, operands=names)
            for branch, names in _sections(computations, operands[1:])
        ]
        name = "stablehlo.if" if shapes[0] is Shape("pred") else "stablehlo.case"
        names = emit.operation(name, operands[:1], shapes[:1], results, regions)
        return emit.give_token(names) if token else names

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        computations: tuple[Graph, ...],
    ) -> str:
        pairs = list(zip(operands[1:], shapes[1:], strict=True))
        packed = []
        for _, section in _sections(computations, pairs):
            packed.append(emit.pack([name for name, _ in section], [each for _, each in section]))
        names = [emit.computation(branch, by_tuple=True) for branch in computations]
        if shapes[0] is Shape("pred"):
            programs = {"true_computation": names[0], "false_computation": names[1]}
        else:
            programs = {"branch_computations": f"{{{', '.join(names)}}}"}
        return emit.instruction("conditional", [operands[0], *packed], result, **programs)

    def forward(  # type: ignore[override]  # a hook: None or a method
        self, primals: Sequence[Any], tangents: Sequence[Any], *, computations: tuple[Graph, ...]
    ) -> tuple[Any, Any]:
        index, *rest = primals
        count = len(computations[0].outputs)
        flags = [t is not None and has_tangent(p) for p, t in zip(primals, tangents, strict=True)]
        sections = [each for _, each in _sections(computations, flags[1:])]
        derived = [jvp_graph(b, tuple(s)) for b, s in zip(computations, sections, strict=True)]
        moving = _any_of_each([each.active_outputs for each in derived])
        branches = tuple(_giving(each.graph, each.active_outputs, moving) for each in derived)
        pairs = list(zip(rest, tangents[1:], flags[1:], strict=True))
        operands = []
        for _, section in _sections(computations, pairs):
            operands += [primal for primal, _, _ in section]
            operands += [tangent for _, tangent, flag in section if flag]
        results = bind(self, index, *operands, computations=branches)
        found = iter(results[count:])
        return results[:count], tuple(next(found) if flag else None for flag in moving)

    def linearize(  # type: ignore[override]  # a hook: None or a method
        self,
        operands: Sequence[Any],
        active: Sequence[bool],
        *,
        computations: tuple[Graph, ...],
    ) -> tuple[Any, Callable[..., Any]]:
        index, *rest = operands
        count = len(computations[0].outputs)
        plan = _reverse_plan(computations, tuple(active[1:]), _first_equal(rest))
        everything = bind(self, index, *rest, computations=plan.forward)
        results, kept = everything[:count], everything[count:]

        def pullback(cotangents: Any) -> list[Any]:
            given = [
                instantiate(cotangents.get(i), result)
                for i, (result, flag) in enumerate(zip(results, plan.active_outputs, strict=True))
                if flag
            ]
            sources = {"operand": rest, "kept": kept}
            sections = [
                [*(sources[source][place] for source, place in places), *given]
                for places in plan.residuals
            ]
            values = [value for section in sections for value in section]
            found = bind(self, index, *values, computations=plan.backward) if plan.targets else ()
            pulled: list[Any] = [None] * len(operands)
            for target, cotangent in zip(plan.targets, found, strict=True):
                pulled[1 + target] = cotangent
            return pulled

        return results, pullback

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Only a jvp rule applies branches to tangents, and such a rule is linear in them.
        return not variables[0]

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        computations: tuple[Graph, ...],
    ) -> Sequence[Any]:
        # The reverse derivative of a linear function is its transpose, wherever it is taken.
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = self.linearize(point, linear, computations=computations)
        return pullback(dict(enumerate(cotangents)))

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        computations: tuple[Graph, ...],
    ) -> tuple[Any, Any]:
        size = batch_size(operands, dimensions)
        if dimensions[0] is not None:
            return self._batch_of_choices(operands, dimensions, computations, size)
        sections = _sections(computations, dimensions[1:])
        batched = [batched_graph(branch, tuple(each), size) for branch, each in sections]
        flags = _any_of_each([[at is not None for at in each.dimensions] for each in batched])
        branches = tuple(_in_front(*each, flags, size) for each in batched)
        results = bind(self, *operands, computations=branches)
        return results, tuple(0 if flag else None for flag in flags)

    def _batch_of_choices(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        computations: tuple[Graph, ...],
        size: int,
    ) -> tuple[Any, Any]:
        """Members that choose differently: each branch that one of them takes, and a selection."""
        numbers = _branch_numbers(operands[0], len(computations))
        pairs = zip(operands[1:], dimensions[1:], strict=True)
        moved = [o if at is None else move_batch(o, at, 0, size) for o, at in pairs]
        flags = [at is not None for at in dimensions[1:]]
        values = list(zip(moved, flags, strict=True))
        results: list[Any] = []
        for number, (branch, section) in enumerate(_sections(computations, values)):
            takes = eq(numbers, full_like(numbers, number))
            run, nothing = _taken(branch, tuple(flag for _, flag in section), size)
            given = [value for value, _ in section]
            found = bind(
                self, any_of(takes), takes, *given, takes, *given, computations=(run, nothing)
            )
            results = [
                choose(takes, *each) if number else each[0]
                for each in zip(found, results or found, strict=True)
            ]
        return tuple(results), (0,) * len(results)


def _sections(computations: Sequence[Graph], values: Sequence[Any]) -> list[tuple[Graph, Any]]:
    """Each branch with what belongs to its inputs."""
    bounds = [0, *accumulate(len(branch.inputs) for branch in computations)]
    if bounds[-1] != len(values):
        Conditional.instance.reject(
            "C2",
            f"{len(values)} operands for branches of {bounds[-1]} inputs",
            [f"branch {i} {list(branch.input_shapes)}" for i, branch in enumerate(computations)],
            "Give each branch its operands, in order.",
        )
    parts = [values[a:b] for a, b in pairwise(bounds)]
    return list(zip(computations, parts, strict=True))


def _any_of_each(columns: Sequence[Sequence[bool]]) -> Flags:
    return tuple(any(flags) for flags in zip(*columns, strict=True))


def _giving(graph: Graph, moving: Flags, flags: Flags) -> Graph:
    """A jvp graph that gives a tangent, zero where need be, for each result marked in `flags`."""
    if moving == flags:
        return graph
    count = len(flags)

    def function(*values: Any) -> list[Any]:
        outputs = evaluate_graph(graph, values)
        found = iter(outputs[count:])
        tangents = [next(found) if flag else None for flag in moving]
        pairs = zip(outputs[:count], tangents, flags, strict=True)
        return outputs[:count] + [instantiate(t, primal) for primal, t, flag in pairs if flag]

    return program(function, graph.input_shapes, graph.name)


def _in_front(
    graph: Graph, dimensions: Sequence[int | None], flags: Sequence[bool], size: int
) -> Graph:
    """A batched graph with the batch in front of each output marked in `flags`."""

    def function(*values: Any) -> list[Any]:
        triples = zip(evaluate_graph(graph, values), dimensions, flags, strict=True)
        return [move_batch(out, at, 0, size) if flag else out for out, at, flag in triples]

    return program(function, graph.input_shapes, graph.name)


def _branch_numbers(index: Any, count: int) -> Any:
    """For each member of a batch the number of its branch, s32[size]."""
    last = count - 1
    if shape_of(index) is Shape("pred", shape_of(index).dimensions):  # type: ignore[union-attr]
        zero = zeros(Shape("s32", index.shape))
        return select(index, zero, full_like(zero, 1))
    outside = or_(lt(index, full_like(index, 0)), gt(index, full_like(index, last)))
    return select(outside, full_like(index, last), index)


def _taken(branch: Graph, flags: Flags, size: int) -> tuple[Graph, Graph]:
    """A branch over a batch where the first input says who takes it, and zeros in its place."""
    key = ("taken", flags, size)
    found = branch.memo.get(key)
    if found is None:
        batched = batched_graph(branch, tuple(0 if flag else None for flag in flags), size)
        inner = _in_front(*batched, [True] * len(batched.dimensions), size)
        shapes = [Shape("pred", (size,)), *inner.input_shapes]
        found = branch.memo[key] = (
            program(
                lambda takes, *values: evaluate_graph(inner, shadowed(takes, values, flags)),
                shapes,
                inner.name,
            ),
            program(lambda *_: list(map(zeros, inner.output_shapes)), shapes, "nothing"),
        )
    return found


class _ReversePlan(NamedTuple):
    """The two halves of a reverse derivative, as branches.

    Attributes:
        forward: from the operands to the results and what is kept for the second halves. What one
            branch keeps may take the place of what another does.
        backward: each from its residuals, and cotangents of `active_outputs`, to cotangents of
            the operands in `targets`.
        active_outputs: which results a cotangent is taken for.
        residuals: for each branch where its residuals are: ("operand", number) or ("kept", number).
        targets: which operands get cotangents. One that is given several times gets one only.
    """

    forward: tuple[Graph, ...]
    backward: tuple[Graph, ...]
    active_outputs: Flags
    residuals: tuple[tuple[tuple[str, int], ...], ...]
    targets: tuple[int, ...]


def _first_equal(operands: Sequence[Any]) -> tuple[int, ...]:
    """For each operand the number of the first that is the same value."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(id(each), number) for number, each in enumerate(operands))


def _reverse_plan(
    computations: tuple[Graph, ...], active: Flags, first_equal: tuple[int, ...]
) -> _ReversePlan:
    key = ("conditional_vjp", computations, active, first_equal)
    memo = computations[0].memo
    found = memo.get(key)
    if found is None:
        found = memo[key] = _make_reverse_plan(computations, active, first_equal)
    return found


def _make_reverse_plan(
    computations: tuple[Graph, ...], active: Flags, first_equal: tuple[int, ...]
) -> _ReversePlan:
    count = len(computations[0].outputs)
    halves = [vjp_graphs(b, tuple(flags)) for b, flags in _sections(computations, active)]
    active_outputs = _any_of_each([each.active_outputs for each in halves])
    numbers = list(range(len(active)))
    sections = [numbers for _, numbers in _sections(computations, numbers)]
    slots: list[AnyShape] = []
    residuals = [
        _placed(half.forward, count, section, slots)
        for half, section in zip(halves, sections, strict=True)
    ]
    targets = sorted(
        {
            first_equal[number]
            for half, section in zip(halves, sections, strict=True)
            for number, flag in zip(section, half.active_inputs, strict=True)
            if flag
        }
    )
    forward = [
        _keeping(half.forward, count, places, slots)
        for half, places in zip(halves, residuals, strict=True)
    ]
    backward = [
        _pulling(
            half, count, active_outputs, [first_equal[number] for number in section],
            {target: shape for target, shape in _shapes_at(computations, targets)},
        )
        for half, section in zip(halves, sections, strict=True)
    ]  # fmt: skip
    return _ReversePlan(
        tuple(forward), tuple(backward), active_outputs, tuple(residuals), tuple(targets)
    )


def _shapes_at(computations: Sequence[Graph], targets: Sequence[int]) -> list[tuple[int, AnyShape]]:
    shapes = [shape for branch in computations for shape in branch.input_shapes]
    return [(target, shapes[target]) for target in targets]


def _placed(
    forward: Graph, count: int, section: Sequence[int], slots: list[AnyShape]
) -> tuple[tuple[str, int], ...]:
    """Where the residuals of a branch are; `slots` grows by the shapes that it lacks."""
    inputs = {id(value): number for value, number in zip(forward.inputs, section, strict=True)}
    free = list(range(len(slots)))
    places: list[tuple[str, int]] = []
    for value in forward.outputs[count:]:
        if id(value) in inputs:
            places.append(("operand", inputs[id(value)]))
            continue
        slot = next((each for each in free if slots[each] is value.shape), None)
        if slot is None:
            slot = len(slots)
            slots.append(value.shape)
        else:
            free.remove(slot)
        places.append(("kept", slot))
    return tuple(places)


def _keeping(
    forward: Graph, count: int, places: Sequence[tuple[str, int]], slots: Sequence[AnyShape]
) -> Graph:
    """The first half of a branch: its results, and each slot's residual, or zeros."""

    def function(*values: Any) -> list[Any]:
        outputs = evaluate_graph(forward, values)
        pairs = zip(places, outputs[count:], strict=True)
        kept = {number: value for (source, number), value in pairs if source == "kept"}
        return outputs[:count] + [
            kept[number] if number in kept else zeros(shape) for number, shape in enumerate(slots)
        ]

    return program(function, forward.input_shapes, forward.name)


def _pulling(
    half: ReverseGraphs,
    count: int,
    active_outputs: Flags,
    numbers: Sequence[int],
    targets: dict[int, AnyShape],
) -> Graph:
    """The second half of a branch: a cotangent, or zeros, for each of `targets`."""
    kept = len(half.forward.outputs) - count
    shapes = half.forward.output_shapes

    def function(*values: Any) -> list[Any]:
        received = iter(values[kept:])
        given = [next(received) if flag else None for flag in active_outputs]
        wanted = [c for c, flag in zip(given, half.active_outputs, strict=True) if flag]
        found = iter(evaluate_graph(half.backward, [*values[:kept], *wanted]))
        pulled: dict[int, Any] = {}
        for number, flag in zip(numbers, half.active_inputs, strict=True):
            if flag:
                pulled[number] = add_cotangents(pulled.get(number), next(found))
        return [instantiate(pulled.get(number), shape) for number, shape in targets.items()]

    cotangents = [shape for shape, flag in zip(shapes, active_outputs, strict=False) if flag]
    return program(function, [*shapes[count:], *cotangents], half.backward.name)


def _by_predicate(
    predicate: Any,
    true_operand: Any,
    true_computation: Any,
    false_operand: Any,
    false_computation: Any,
) -> tuple[Any, list[Any], list[Any]]:
    return predicate, [true_computation, false_computation], [true_operand, false_operand]


def _by_index(
    branch_index: Any, branch_computations: Sequence[Any], branch_operands: Sequence[Any]
) -> tuple[Any, list[Any], list[Any]]:
    return branch_index, list(branch_computations), list(branch_operands)


def conditional(*arguments: Any, **named: Any) -> Any:
    """Runs one of several branches on its own operand.

    `conditional(predicate, true_operand, true_computation, false_operand, false_computation)` runs
    the first computation where the predicate holds, else the second.
    `conditional(branch_index, branch_computations, branch_operands)` runs computation number
    `branch_index`, and the last one where there is none of that number.

    Args:
        arguments, named: the predicate is pred[], the index s32[]. A computation is a Graph or a
            function; it takes its operand, an array or a tuple, as one argument, and the members
            of a Python sequence each by itself. It may read no other traced values: give these as
            operands.

    Returns:
        What the computations give: one value, or a Python tuple where they give several.

    Raises:
        ShapeError: the operands do not fit (C1 to C4).
        TransformError: a function reads traced values of the enclosing function.
    """
    operation = Conditional.instance
    is_by_index = len(arguments) + len(named) == 3 or "branch_index" in named
    try:
        bound = inspect.signature(_by_index if is_by_index else _by_predicate).bind(
            *arguments, **named
        )
    except TypeError as error:
        raise explain(
            ShapeError,
            operation.builder_name,
            "the arguments fit neither form",
            [str(error)],
            "Give (predicate, true_operand, true_computation, false_operand, false_computation) "
            "or (branch_index, branch_computations, branch_operands).",
        ) from None
    index, computations, operands = (_by_index if is_by_index else _by_predicate)(
        *bound.args, **bound.kwargs
    )
    if len(computations) != len(operands):
        operation.reject(
            "C4",
            f"{len(operands)} operands for {len(computations)} branches",
            [],
            "Give one operand for each branch.",
        )
    graphs = [
        closed(computation, operand, operation.builder_name)
        for computation, operand in zip(computations, operands, strict=True)
    ]
    leaves = [leaf for operand in operands for leaf in leaves_of(operand)]
    flat = tuple(map(without_tuples, graphs))
    results = bind(operation, index, *leaves, computations=flat)
    values = as_given(graphs[0].output_shapes, results)
    return values[0] if len(values) == 1 else tuple(values)
