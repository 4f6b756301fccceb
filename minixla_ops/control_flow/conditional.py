"""Conditional: run one of several programs."""

import inspect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Instance, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.data_flow import Place, edge
from minixla.core.derived import ReverseGraphs, batched_graph, entered_graph, vjp_graphs
from minixla.core.errors import ShapeError, explain
from minixla.core.graph import Graph, Value, remembered
from minixla.core.linear import instantiate, spread
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import TOKEN, AnyShape, Shape
from minixla.core.symbolic_zeros import pullback_by
from minixla.core.tracing import evaluate_graph, shape_of
from minixla.typing import Array
from minixla_ops.control_flow.loops import any_of, choose, first_active, shadowed
from minixla_ops.helpers.shorthand import array_shape, as_results, full_like, operand_list, zeros
from minixla_ops.helpers.tuple_operations import without_tuples
from minixla_ops.programs import runs_programs as running
from minixla_ops.programs.computations import check_computation
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import Flags, RunsPrograms, in_front, over_batch, program

_Key = TypeVar("_Key")
#: The index of an input, or a slot: a shape and a number.
_Place = int | tuple[AnyShape, int]


@register
class Conditional(RunsPrograms):
    """Run one of several branches. XLA: Conditional.

    A predicate chooses branch 0 if it is true, else branch 1. An index chooses the branch with this
    index, or the last branch if it is out of range. In a graph, every branch takes all operands,
    including those of other branches, so that shared operands are passed only once.

    If batch elements choose different branches, each chosen branch runs on the whole batch. Batch
    elements that choose another branch are replaced by one that chooses it.

    Attributes:
        branches: the Graph of each branch.

    Checks:
        (C1) the first operand is s32[], or pred[] to choose between two branches.
        (C2) each branch takes its operands.
        (C3) all branches return values with the same shapes.
        (C4) there is at least one branch, and an operand for each.
    """

    stablehlo_name = "if"  # `case` for an index
    operands = ("branch_index", "branch_operands...")
    dynamic_operands = EVERY_OPERAND
    branches: tuple[Graph, ...] = attribute(SequenceAttribute(Instance(Graph)))

    def shape(self, branch_index, *operands):
        branches = self.branches
        if not branches:
            self.refuse("C4", "at least one branch is required")
        is_pred = branch_index is Shape("pred")
        if branch_index is not Shape("s32") and (not is_pred or len(branches) != 2):
            problem = (
                f"the first operand must be s32[], or pred[] for two branches, not {branch_index}"
            )
            self.refuse("C1", problem)
        outputs = branches[0].output_shapes
        for number, branch in enumerate(branches):
            name = f"branch {number}"
            check_computation(self, "C2", name, branch, operands, branch.output_shapes)
            check_computation(self, "C3", name, branch, operands, outputs)
        return outputs

    def reference(self, branch_index, *operands):
        return tuple(reference_graph(self.branches[self.chosen(branch_index)], operands))

    def chosen(self, branch_index: object) -> int:
        """Return the index of the branch that runs for a predicate or an index."""
        index, last = np.asarray(branch_index), len(self.branches) - 1
        number = 1 - int(index) if index.dtype == np.bool_ else int(index)
        return number if 0 <= number <= last else last

    def stablehlo(self, emit, operands, shapes, results):
        token = "captured" if any(branch.has_side_effect for branch in self.branches) else None
        if token:
            emit.take_token()
            results = [TOKEN, *results]
        regions = [
            emit.region(branch, token=token, operands=operands[1:]) for branch in self.branches
        ]
        name = "stablehlo.if" if shapes[0] is Shape("pred") else "stablehlo.case"
        names = emit.operation(name, operands[:1], shapes[:1], results, regions)
        return emit.give_token(names) if token else names

    def hlo(self, emit, operands, shapes, result):
        packed, names = [], []
        for branch in self.branches:
            numbers, inputs = running.own_inputs(branch)
            sections = [[listed[1 + number] for number in numbers] for listed in (operands, shapes)]
            packed.append(emit.pack(*sections))
            names.append(emit.computation(inputs, by_tuple=True))
        programs = {"branch_computations": f"{{{', '.join(names)}}}"}
        if shapes[0] is Shape("pred"):
            programs = {"true_computation": names[0], "false_computation": names[1]}
        return emit.instruction("conditional", [operands[0], *packed], result, **programs)

    def entered(self, trace, known):
        made = [entered_graph(branch, trace, known) for branch in self.branches]
        columns = zip(*[batched.known for batched in made], strict=True)
        joint = tuple([reduce(trace.joined, column) for column in columns])
        branches = [
            entered.graph
            if entered.known == joint
            else entered_graph(branch, trace, known, joint).graph
            for entered, branch in zip(made, self.branches, strict=True)
        ]
        return self.replace(branches=tuple(branches)), known, joint

    def enter(self, trace, operands):
        index, *_ = trace.as_known(operands[0], None)
        return self._enter(trace, [index], operands[1:])

    def dependent(self, variables):
        return super().dependent(variables[1:])

    def data_flow(self, *operands):
        if operands[0] is Shape("pred"):
            return ()  # SDY has edges only for `case`
        numbers = range(len(self.branches))
        return [
            edge([Place("output", i, number) for number in numbers], Place("result", i))
            for i in range(len(self.branches[0].outputs))
        ]

    def linearize(self, operands, active):
        index, *rest = operands
        halves = _reverse_halves(self.branches[0], self.branches, tuple(active[1:]))
        forward, backward, active_outputs, active_inputs, reread = halves
        everything = self.replace(branches=forward)(index, *rest)
        results = everything[: len(active_outputs)]
        kept = [*everything[len(results) :], *[rest[number] for number in reread]]
        pull = partial(self.replace(branches=backward), index, *kept)
        return results, pullback_by(pull, results, active_outputs, (False, *active_inputs))

    def batch_of(self, size, operands, dimensions):
        branches, at = self.branches, tuple(dimensions[1:])
        flags, every = running.batched_of(at), (0,) * len(branches[0].outputs)
        inner, guarded = branches[0].memo.get(("guards", branches[-1]), (None, None))
        if inner is not None and guarded == flags[1:]:
            places = in_front((True, *guarded))
            takes, *values = running.moved_batches(operands[1:], at, places, size)
            whole = over_batch(inner, in_front(guarded), size, every)
            return _guard(whole, guarded, takes, values), every
        if dimensions[0] is not None:
            values = running.moved_batches(operands[1:], at, in_front(flags), size)
            wholes = [over_batch(branch, in_front(flags), size, every) for branch in branches]
            return tuple(_chosen(branches, wholes, flags, operands[0], values)), every
        batched = [batched_graph(branch, at, size) for branch in branches]
        places = in_front(_any_of_each([running.batched_of(branch.known) for branch in batched]))
        wholes = tuple([over_batch(branch, at, size, places) for branch in branches])
        return self.replace(branches=wholes)(*operands), places


def _any_of_each(columns: Sequence[Sequence[bool]]) -> Flags:
    return tuple(any(flags) for flags in zip(*columns, strict=True))


@remembered
def _reverse_halves(
    kept_with: Graph, branches: Sequence[Graph], active: Flags
) -> tuple[tuple[Graph, ...], tuple[Graph, ...], Flags, Flags, list[int]]:
    """Build the branches of both halves of a reverse derivative.

    Also returns the active results and operands, and the operands that are read again. The first
    half returns the results and slots with residuals; branches share slots of equal shapes. The
    second half reads the slots, the operands that are read again, and cotangents.
    """
    halves = [vjp_graphs(branch, active) for branch in branches]
    active_outputs = _any_of_each([halve.active_outputs for halve in halves])
    active_inputs = _any_of_each([halve.active_inputs for halve in halves])
    count, inputs = len(active_outputs), branches[0].input_shapes
    places = [_places(halve.forward, count) for halve in halves]
    every = dict.fromkeys(itertools.chain(*places))
    slots = [place for place in every if isinstance(place, tuple)]
    reread = sorted([place for place in every if isinstance(place, int)])
    active_shapes = itertools.compress(branches[0].output_shapes, active_outputs)
    taken = [*[shape for shape, _ in slots], *[inputs[number] for number in reread], *active_shapes]

    def keeping(half: ReverseGraphs, places: Sequence[_Place]) -> Graph:
        """Build the first half of a branch: its results, and a residual or zeros in each slot."""

        def function(*values: Array) -> list[Array]:
            outputs = evaluate_graph(half.forward, values)
            held = dict(zip(places, outputs[count:], strict=True))
            return outputs[:count] + [instantiate(held.get(slot), slot[0]) for slot in slots]

        return program(function, inputs, half.forward.name)

    def pulling(half: ReverseGraphs, places: Sequence[_Place]) -> Graph:
        """Build the second half of a branch: a cotangent or zeros for each active operand."""

        def function(*values: Array) -> list[Array]:
            held = dict(zip([*slots, *reread], values, strict=False))
            cotangents = spread(active_outputs, values[len(held) :])
            pulled = running.pulled_back(half, [held[place] for place in places], cotangents)
            return running.instantiated(active_inputs, pulled, inputs)

        return program(function, taken, half.backward.name)

    forward = tuple(map(keeping, halves, places))
    backward = tuple(map(pulling, halves, places))
    return forward, backward, active_outputs, active_inputs, reread


def _places(forward: Graph, count: int) -> list[_Place]:
    """Return where a branch's residuals are: the index of an input, or a slot."""
    inputs = {id(value): number for number, value in enumerate(forward.inputs)}
    residuals = forward.outputs[count:]
    slots = iter(
        _told_apart([residual.shape for residual in residuals if id(residual) not in inputs])
    )
    return [
        inputs[id(residual)] if id(residual) in inputs else next(slots) for residual in residuals
    ]


def _told_apart(keys: Iterable[_Key]) -> list[tuple[_Key, int]]:
    """Pair each key with the number of its previous occurrences."""
    seen: defaultdict[object, Iterator[int]] = defaultdict(itertools.count)
    return [(key, next(seen[key])) for key in keys]


# If batch elements choose different branches, each chosen branch runs on the whole batch in a
# guard.
# A guard is a Conditional that runs the branch if any element chooses it, else returns zeros.
# Results for other elements are not used. A guard under another batch is again one guard over all
# elements. Batched like other Conditionals, it would run its program for nested batches, and need
# one more operand for every batch. Derivatives turn guards into other Conditionals.


def _chosen(
    branches: Sequence[Graph],
    wholes: Sequence[Graph],
    flags: Flags,
    index: Array,
    values: Sequence[Array],
) -> Sequence[Array]:
    """Select each batch element's results from its branch; `wholes` run on the batch."""
    results: Sequence[Array] = ()
    rows = zip(_takers(index, len(branches)), branches, wholes, strict=True)
    for takes, branch, whole in rows:
        # A branch may return only operands and constants.
        steps = branch.instructions
        reads = any(value in branch.inputs for step in steps for value in step.operands)
        computes = reads or not all(step.op.is_plain for step in steps)
        found = _guard(whole, flags, takes, values) if computes else evaluate_graph(whole, values)
        pairs = zip(found, results, strict=True) if results else ()
        results = [choose(takes, *pair) for pair in pairs] or found
    return results


def _takers(index: Array, count: int) -> list[Array]:
    """Return, for each branch, a mask of the batch elements that choose it, pred[size]."""
    if array_shape(index).element_type.kind == "pred":
        return [index, ops.not_(index)]
    last = full_like(index, count - 1)
    outside = ops.or_(ops.lt(index, full_like(index, 0)), ops.gt(index, last))
    numbers = ops.select(outside, last, index)
    return [ops.eq(numbers, full_like(numbers, number)) for number in range(count)]


def _guard(inner: Graph, flags: Flags, takes: Array, values: Sequence[Array]) -> tuple[Array, ...]:
    """Run a guarded program over a batch for the elements marked in `takes`."""
    programs = _guard_programs(inner, array_shape(takes).dimensions, flags)
    return Conditional(programs)(any_of(takes), takes, *values)


@remembered
def _guard_programs(inner: Graph, sizes: tuple[int, ...], flags: Flags) -> tuple[Graph, Graph]:
    """Return a program over a batch, whose first input marks elements, and one of zeros."""

    def run(takes: Array, *values: Array) -> list[Array]:
        return evaluate_graph(inner, shadowed(takes, first_active(takes), values, flags))

    shapes = [Shape("pred", sizes), *inner.input_shapes]
    guarding = program(run, shapes, inner.name)
    empty = program(lambda *_: list(map(zeros, inner.output_shapes)), shapes, "zeros")
    guarding.memo["guards", empty] = inner, flags
    return guarding, empty


# The parameters of `conditional`.
_FORMS = (
    ("predicate", "true_operand", "true_computation", "false_operand", "false_computation"),
    ("branch_index", "branch_computations", "branch_operands"),
)


def conditional(*arguments: object, **named: object) -> Any:
    """Run one of several branches on its own operand. XLA: Conditional.

    `conditional(predicate, true_operand, true_computation, false_operand, false_computation)` runs
    the first computation if the predicate is true, else the second.
    `conditional(branch_index, branch_computations, branch_operands)` runs the computation with
    index `branch_index`, or the last one if the index is out of range.

    Args:
        *arguments: the predicate is pred[], the index s32[]. A computation is a Graph or a
            function. It takes its operand, an array or a tuple, as one argument, and the elements
            of a Python sequence as separate arguments. It must not read other traced values: pass
            these as operands.
        **named: the same arguments by name.

    Returns:
        The results of the computation: one value, or a Python tuple of several.

    Raises:
        ShapeError: the operands do not match (C1 to C4).
        TransformError: a function reads traced values of the enclosing function.

    Example:
        >>> x = np.float32(2)
        >>> ops.conditional(np.bool_(True), x, ops.neg, x, ops.exp)
        Array(-2., dtype=float32)
        >>> ops.conditional(np.int32(1), [ops.neg, lambda x: x * x], [x, x])
        Array(4., dtype=float32)
    """
    subject = Conditional.builder_name
    index, branches, branch_operands = _form_of(arguments, named)
    computations = operand_list(branches, subject, "branch_computations")
    operands = operand_list(branch_operands, subject, "branch_operands")
    if len(computations) != len(operands):
        problem = f"(C4) there are {len(operands)} operands for {len(computations)} branches"
        raise explain(ShapeError, subject, problem, advice="Pass one operand for each branch.")
    pairs = zip(computations, operands, strict=True)
    graphs = [running.closed(function, operand, subject) for function, operand in pairs]
    flat = [without_tuples(graph) for graph in graphs]
    values: dict[tuple[int, int], Any] = {}  # once for all branches that read it
    keys = []
    for position, (branch, operand) in enumerate(zip(flat, operands, strict=True)):
        leaves = running.leaves_of(operand)
        declared = f"branch {position}", branch, list(map(shape_of, leaves)), branch.output_shapes
        check_computation(Conditional(tuple(flat)), "C2", *declared)
        keys.append(_told_apart(map(id, leaves)))
        values.update(zip(keys[-1], leaves, strict=True))
    whole = [_of_all(*branch, values) for branch in zip(flat, keys, strict=True)]
    results = Conditional(tuple(whole))(index, *values.values())
    return as_results(running.as_given(graphs[0].output_shapes, results))


def _of_all(
    branch: Graph, keys: Sequence[tuple[int, int]], values: Mapping[tuple[int, int], object]
) -> Graph:
    """Extend a branch to take all values; its own inputs have these keys."""
    by_key = dict(zip(keys, branch.inputs, strict=True))
    rows = enumerate(values.items())
    inputs = [by_key.get(key) or Value(shape_of(value), None, i) for i, (key, value) in rows]
    if tuple(inputs) == branch.inputs:
        return branch
    return Graph(inputs, branch.instructions, branch.outputs, branch.name)


def _form_of(arguments: Sequence[object], named: Mapping[str, object]) -> tuple[Any, Any, Any]:
    """Return the index (or predicate), computations and operands of either form."""
    form = _FORMS[len(arguments) + len(named) <= 3]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in form])
    try:
        index, *rest = signature.bind(*arguments, **named).arguments.values()
    except TypeError as error:
        problem = "the arguments match neither form"
        first, second = map(", ".join, _FORMS)
        advice = f"Pass ({first}) or ({second})."
        raise explain(ShapeError, "conditional", problem, [str(error)], advice) from None
    return (index, *rest) if len(rest) == 2 else (index, rest[1::2], rest[::2])
