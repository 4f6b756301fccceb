"""While, and counted loops composed of it. The reverse derivative is in `loop_reverse`."""

from collections.abc import Callable, Sequence
from math import prod
from operator import or_
from typing import Any, NamedTuple

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Instance, attribute
from minixla.core.data_flow import Place, edge
from minixla.core.derived import batched_graph, entered_graph
from minixla.core.graph import Graph, remembered
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla.typing import Array, ArrayLike
from minixla_ops.control_flow import loop_reverse
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.helpers.tuple_operations import without_tuples
from minixla_ops.programs import runs_programs as running
from minixla_ops.programs.computations import Computation, check_computation
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import Flags, RunsPrograms, in_front, over_batch, program


@register
class While(RunsPrograms):
    """Run `body` on the loop's values while `condition` holds. XLA: While.

        values = init;  while condition(values): values = body(values)

    Both programs are closed: other values that they read are loop values that the body returns
    unchanged. Derivatives and batching treat them as constants of the loop, and do not store them
    for each iteration.

    Forward derivatives run in the same loop. The reverse derivative stores residuals of each
    iteration if their number is known while tracing (`i = 0; while i < 10: i = i + 1`). Otherwise,
    it stores a bounded number of states and recomputes the others; see `loop_reverse`.

    If the conditions of batch elements differ, the loop runs while any of them holds. Finished
    elements keep their values. The body sees an unfinished element in their place, so that it
    gets no values that it would not get without the batch.

    Attributes:
        condition: the Graph from the values to pred[].
        body: the Graph from the values to the next values.

    Checks:
        (C1) the condition takes the loop's values.
        (C2) the condition returns one pred[].
        (C3) the body takes the loop's values and returns values with the same shapes.
    """

    stablehlo_name = "while"
    operands = ("init...",)
    dynamic_operands = EVERY_OPERAND
    condition: Graph = attribute(Instance(Graph))
    body: Graph = attribute(Instance(Graph))

    def shape(self, *init):
        outputs = self.condition.output_shapes
        check_computation(self, "C1", "the condition", self.condition, init, outputs)
        check_computation(self, "C2", "the condition", self.condition, init, (Shape("pred"),))
        check_computation(self, "C3", "the body", self.body, init, init)
        return init

    def reference(self, *init):
        values: Sequence[np.ndarray] = init
        while reference_graph(self.condition, values)[0]:
            values = reference_graph(self.body, values)
        return tuple(values)

    def write(self, emit, operands, shapes, results):
        is_threaded = any(computation.has_side_effect for computation in self.computations)
        tokens = ("read", "parameter") if is_threaded else (None, None)
        pairs = zip(self.computations, tokens, strict=True)
        regions = [emit.region(program, token=token) for program, token in pairs]
        return emit.operation("stablehlo.while", operands, shapes, results, regions)

    def hlo(self, emit, operands, shapes, result):
        programs = {"condition": self.condition, "body": self.body}
        names = {key: emit.computation(program, by_tuple=True) for key, program in programs.items()}
        return emit.instruction("while", [emit.pack(operands, shapes)], result, **names)

    def entered(self, trace, known):
        step, known = running.entered_step(self.body, trace, known, len(known))
        test = entered_graph(self.condition, trace, known).graph
        condition = Graph(test.inputs, test.instructions, test.outputs[:1], test.name).pruned()
        return While(condition, step.graph), known, known

    def data_flow(self, *operands):
        return [
            edge(
                [Place("operand", i), Place("output", i, 1)],
                *(Place("result", i), Place("input", i, 0), Place("input", i, 1)),
            )
            for i in range(len(operands))
        ]

    def linearize(self, operands, active):
        return loop_reverse.linearize_while(self.condition, self.body, operands, active)

    def batch_of(self, size, operands, dimensions):
        loop = _batched(self.body, self.condition, running.batched_of(dimensions), size)
        places = in_front(loop.batched)
        moved = running.moved_batches(operands, dimensions, places, size)
        if loop.progress is None:
            return loop.operation(*moved), places
        values = moved[loop.skipped :]
        active, _, *results = loop.operation(*ops.call(loop.progress, *values), *values)
        if loop.skipped:  # all elements of each inner batch have stopped
            first = np.full(size, prod(array_shape(active).dimensions[1:]), np.int32)
            results = [active, first, *results]
        return tuple(results), places


class _Batched(NamedTuple):
    """A loop over a batch.

    Attributes:
        batched: which operands of the loop of one batch element differ over the batch.
        operation: the loop over the batch.
        progress: if batch elements stop at different times, the program that computes the first
            two values of `operation` from the others.
        skipped: how many operands `operation` computes anew: two for a loop that is such a loop
            already, over an inner batch.
    """

    batched: Flags
    operation: While
    progress: Graph | None = None
    skipped: int = 0


@remembered
def _batched(body: Graph, condition: Graph, batched: Flags, size: int) -> _Batched:
    """Return the loop over a batch, by the operands that differ over the batch."""
    # Over a further batch, a loop whose batch elements stop at different times is one such loop
    # over both batches. As any other loop it would choose among batch elements once per batch.
    if inner := body.memo.get(("elements", condition)):
        test, step, inner_batched = inner
        flags, differ = _differing(test, step, batched[2:], size)
        if differ and flags == inner_batched:
            loop, progress = _loop_of_elements(test, step, flags, size)
            return _Batched((True, True, *flags), loop, progress, skipped=2)
    flags, differ = _differing(condition, body, batched, size)
    if differ:
        return _Batched(flags, *_loop_of_elements(condition, body, flags, size))
    places = in_front(flags)
    test = over_batch(condition, places, size, (None,))
    return _Batched(flags, While(test, over_batch(body, places, size, places)))


def _differing(test: Graph, step: Graph, batched: Flags, size: int) -> tuple[Flags, bool]:
    """Return which values differ over the batch in the loop, and whether the condition does."""
    changing = [not is_constant for is_constant in running.constants_of(step)]

    def differ(flags: Flags) -> bool:
        return batched_graph(test, in_front(flags), size).known[0] is not None

    def after(flags: Flags) -> Flags:
        batched_after = running.batched_of(batched_graph(step, in_front(flags), size).known)
        return tuple(map(or_, batched_after, changing)) if differ(flags) else batched_after

    flags = running.grown(batched, len(batched), after)
    return flags, differ(flags)


def _loop_of_elements(
    condition: Graph, body: Graph, flags: Flags, size: int
) -> tuple[While, Graph]:
    """Build the loop of a batch whose elements stop at different times.

    It carries two more values in front: which elements are active, and the index of the first
    active one, or the batch size if all have stopped. So each iteration evaluates `condition` once.
    The second result is the program that computes these values from the others.
    """
    places = in_front(flags)
    test, step = over_batch(condition, places, size, (0,)), over_batch(body, places, size, places)
    constants = running.constants_of(step)

    def progress(*values: Array) -> list[Array]:
        active = evaluate_graph(test, values)[0]
        return [active, first_active(active)]

    def next_values(active: Array, first: Array, *values: Array) -> list[Array]:
        outputs = evaluate_graph(step, shadowed(active, first, values, flags))
        triples = zip(constants, outputs, values, strict=True)
        chosen = [old if stays else choose(active, new, old) for stays, new, old in triples]
        return [*progress(*chosen), *chosen]

    def goes_on(active: Array, first: Array, *_: Array) -> list[Array]:
        return [ops.lt(first, np.int32(array_shape(active).size))]

    start = program(progress, test.input_shapes, test.name)
    shapes = [*start.output_shapes, *step.input_shapes]
    whole, made = program(goes_on, shapes, test.name), program(next_values, shapes, step.name)
    made.memo["elements", whole] = test, step, flags
    return While(whole, made), start


def any_of(flags: Array) -> Array:
    """Return whether any element of a pred array is true."""
    return ops.reduce([flags], [np.False_], ops.or_, range(array_shape(flags).rank))


def choose(holds: Array, on_true: Array, on_false: Array) -> Array:
    """Select elements of a leading batch: `on_true` where `holds`, else `on_false`."""
    rank = array_shape(holds).rank
    sizes = array_shape(on_true).dimensions
    return ops.select(ops.broadcast_in_dim(holds, sizes, range(rank)), on_true, on_false)


def first_active(active: Array) -> Array:
    """Return the index of the first batch element marked in `active`, else the batch size."""
    batch = array_shape(active).dimensions
    size = prod(batch)
    count = np.int32(size)
    numbers = ops.reshape(ops.iota(Shape("s32", (size,)), 0), batch)
    numbers = ops.select(active, numbers, np.full(batch, count))
    return ops.reduce([numbers], [count], ops.min, range(len(batch)))


def shadowed(
    active: Array, first: Array, values: Sequence[Array], flags: Sequence[bool]
) -> list[Array]:
    """Replace batch elements not marked in `active` by element number `first`.

    The batch dimensions are in front of the values that `flags` marks.
    """
    batch = array_shape(active).dimensions
    size = prod(batch)
    if size == 0:
        return list(values)

    def shadow(value: Array) -> Array:
        sizes = array_shape(value).dimensions
        member = element(ops.reshape(value, (size, *sizes[len(batch) :])), first)
        kept = range(len(batch), len(sizes))
        return choose(active, value, ops.broadcast_in_dim(member, sizes, kept))

    return [shadow(v) if flag else v for v, flag in zip(values, flags, strict=True)]


def element(value: ArrayLike, index: ArrayLike) -> Array:
    """Return one element along the first dimension, and remove the dimension."""
    rest = array_shape(value).dimensions[1:]
    row = ops.dynamic_slice(value, [index, *[0] * len(rest)], (1, *rest))
    return ops.reshape(row, rest)


def with_elements(
    stacks: Sequence[ArrayLike], values: Sequence[ArrayLike], index: ArrayLike
) -> list[Array]:
    """Replace one element along the first dimension of each stack."""

    def changed(stack: ArrayLike, value: ArrayLike) -> Array:
        rest = array_shape(stack).dimensions[1:]
        update = ops.reshape(value, (1, *rest))
        return ops.dynamic_update_slice(stack, update, [index, *[0] * len(rest)])

    return list(map(changed, stacks, values))


def repeat(
    count: Array | int,
    body: Callable[..., Sequence[Array]],
    carried: Sequence[ArrayLike],
    constants: Sequence[ArrayLike] = (),
) -> list[Any]:
    """Apply `body` to `carried` for `count` steps.

    It takes the index of the step (s32[], from 0), the carried values and the constants, and must
    not read other traced values. Derivatives know the number of steps if it is a Python int.
    """
    if isinstance(count, int) and count <= 0:
        return list(carried)
    stop = 2 + len(carried)

    def step(*values: Array) -> list[Array]:
        carried_values, fixed = list(values[2:stop]), list(values[stop:])
        return [values[0] + np.int32(1), values[1], *body(values[0], carried_values, fixed), *fixed]

    limit = np.int32(count) if isinstance(count, int) else count
    init = [np.int32(0), limit, *carried, *constants]
    return list(while_(lambda index, limit, *_: ops.lt(index, limit), step, init)[2:stop])


def while_(condition: Computation, body: Computation, init: object) -> Any:
    """Run `body` on the loop's values while `condition` holds. XLA: While.

    Args:
        condition: a Graph or a function from the values to a scalar pred.
        body: a Graph or a function from the values to the next values, with the same shapes.
        init: the initial values: an array or a tuple, which the programs take as one argument, or a
            Python sequence of these, which they take as separate arguments. The programs must not
            read other traced values: pass these as values that the body returns unchanged.

    Returns:
        The last values, in the structure of `init`; a sequence becomes a tuple.

    Raises:
        ShapeError: the programs do not match `init` (C1, C2, C3).
        TransformError: a program reads traced values of the enclosing function.

    Example:
        >>> ops.while_(lambda x: x < 100, lambda x: x * 2, np.int32(3))
        Array(192, dtype=int32)
    """
    programs = [
        running.closed(function, init, While.builder_name) for function in (condition, body)
    ]
    loop = While(*map(without_tuples, programs))
    return running.in_form_of(init, loop(*running.leaves_of(init)))
