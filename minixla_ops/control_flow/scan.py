"""Scan: a fixed number of steps along a dimension, with elements and carries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Dimension, Flag, Instance, Integer, attribute
from minixla.core.derived import batched_graph, vjp_graphs
from minixla.core.errors import ShapeError, explain
from minixla.core.graph import Graph, remembered
from minixla.core.operation import register
from minixla.core.shapes import ShapeList
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla.core.tracing import evaluate_graph, shape_of
from minixla.typing import Array, ArrayLike
from minixla_ops.control_flow import loop_reverse, loops
from minixla_ops.helpers.batch_dimensions import member_shapes, move_dimension
from minixla_ops.helpers.shorthand import zeros
from minixla_ops.programs import runs_programs as running
from minixla_ops.programs.call import call
from minixla_ops.programs.computations import Computation, computation_of
from minixla_ops.programs.lowering import Lowered, lowered_program
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import Flags, RunsPrograms, in_front, merged, parted, split


@register
class Scan(RunsPrograms, Lowered):
    """Call `to_apply` with the elements of each step and the carries. XLA: Scan.

        for i in 0 ... N-1 (reversed: N-1 ... 0):
            outputs[i], carry = to_apply(inputs[i], carry)

    The operands are the inputs, then the initial carries; the results are the outputs, then the
    final carries. Output i is at the position of input i in both directions. Without steps,
    the outputs are empty and the final carries are the initial ones.

    A reverse derivative stores residuals of each step. Carries that `to_apply` returns unchanged
    are constants of the scan, and are not stored.

    Attributes:
        to_apply: the Graph of one step.
        carries: the number of carries among the operands, and among the results.
        length: N, the length of the inputs.
        scan_dimension: the dimension of inputs and outputs that indexes the steps.
        is_reverse: whether the last step runs first.
        is_associative: a promise that steps may be regrouped; None makes no promise. The result is
            still computed step by step.

    Checks:
        (C1) each input has the dimension scan_dimension, of size `length`.
        (C2) to_apply takes an element of each input, without that dimension, then the carries.
        (C3) to_apply returns the outputs' elements, then carries with the same shapes.
        (C4) the outputs' elements have the dimensions before scan_dimension.
    """

    operands = ("inputs and inits...",)
    to_apply: Graph = attribute(Instance(Graph))
    carries: int = attribute(Integer(0), hlo="num_carries")
    length: int = attribute(Integer(0), hlo=None)
    scan_dimension: int = attribute(Dimension(0), default=0, hlo="dimensions")
    is_reverse: bool = attribute(Flag(), default=False)
    is_associative: bool | None = attribute(Boolean(), default=None)

    @property
    def dynamic_operands(self):  # type: ignore[override]  # only the carries, which depend on attributes
        count = len(self.to_apply.inputs)
        return range(count - self.carries, count)

    def shape(self, *operands):
        count, dimension = len(operands) - self.carries, self.scan_dimension
        inits, elements = operands[count:], []
        for index, array in enumerate(self.array_shapes(operands[:count])):
            if dimension >= array.rank or array.dimensions[dimension] != self.length:
                problem = (
                    f"input {index} must have {self.length} elements along dimension {dimension}"
                )
                self.refuse("C1", problem)
            elements.append(array.without_dimension(dimension))
        taken, returned = self.to_apply.input_shapes, self.to_apply.output_shapes
        if taken != (*elements, *inits):
            both = f"{_listed(taken)}, not {_listed((*elements, *inits))}"
            self.refuse("C2", f"to_apply must take the elements and carries; it takes {both}")
        outputs = returned[: len(returned) - self.carries]
        if returned[len(outputs) :] != tuple(inits):
            both = f"it returns {_listed(returned)}, but the carries are {_listed(inits)}"
            self.refuse("C3", f"to_apply must return the carries that it takes; {both}")
        stacked = []
        for index, array in enumerate(self.array_shapes(outputs)):
            if array.rank < dimension:
                short = "has too few dimensions to be stacked"
                self.refuse("C4", f"output {index}, with elements {array}, {short}")
            stacked.append(array.with_dimension(dimension, self.length))
        return (*stacked, *inits)

    def reference(self, *operands):
        count = len(operands) - self.carries
        rows = [np.moveaxis(operand, self.scan_dimension, 0) for operand in operands[:count]]
        carried: Sequence[np.ndarray] = operands[count:]
        output_shapes = self.to_apply.output_shapes
        shapes = self.array_shapes(output_shapes[: len(output_shapes) - self.carries])
        stacks = [np.empty((self.length, *shape.dimensions), shape.dtype) for shape in shapes]
        for index in reversed(range(self.length)) if self.is_reverse else range(self.length):
            results_of_step = reference_graph(
                self.to_apply, [*[row[index] for row in rows], *carried]
            )
            for stack, value in zip(stacks, results_of_step, strict=False):
                stack[index] = value
            carried = results_of_step[len(stacks) :]
        return (*[np.moveaxis(stack, 0, self.scan_dimension) for stack in stacks], *carried)

    def lowered(self, *operands):
        count, results = len(operands) - self.carries, len(self.to_apply.outputs) - self.carries
        if self.scan_dimension:
            moved = [
                move_dimension(operand, self.scan_dimension, 0) for operand in operands[:count]
            ]
            outcome = self(*moved, *operands[count:], scan_dimension=0)
            stacks = [move_dimension(stack, 0, self.scan_dimension) for stack in outcome[:results]]
            return (*stacks, *outcome[results:])
        inputs, inits = operands[:count], operands[count:]
        fixed = running.constants_of(self.to_apply, self.carries)
        constants, moving = parted(fixed, inits)

        def step(index: Array, carried: Sequence[Array], given: Sequence[Array]) -> list[Array]:
            at = np.int32(self.length - 1) - index if self.is_reverse else index
            elements = [loops.element(stack, at) for stack in given[:count]]
            carry = merged(fixed, given[count:], carried[results:])
            outputs = evaluate_graph(self.to_apply, [*elements, *carry])
            stacks = loops.with_elements(carried[:results], outputs, at)
            return [*stacks, *parted(fixed, outputs[results:])[1]]

        shapes: Any = self.infer(tuple(map(shape_of, operands)))
        empty = map(zeros, shapes[:results])
        outcome = loops.repeat(self.length, step, [*empty, *moving], [*inputs, *constants])
        return (*outcome[:results], *merged(fixed, constants, outcome[results:]))

    def entered(self, trace, known):
        step, known = running.entered_step(self.to_apply, trace, known, self.carries)
        start = len(known) - self.carries
        pairs = zip(self.to_apply.input_shapes[start:], known[start:], strict=True)
        carries = sum([len(trace.shapes_of(*pair)) for pair in pairs])
        return self.replace(to_apply=step.graph, carries=carries), known, step.known

    def stablehlo(self, emit, operands, shapes, results):
        return Lowered.stablehlo(self, emit, operands, shapes, results)

    def linearize(self, operands, active):
        if not self.scan_dimension:
            return loop_reverse.linearize_scan(self, operands, active)
        moved = lowered_program(self, tuple(map(shape_of, operands)))
        return call_vjp_graphs(vjp_graphs(moved, tuple(active)), operands)

    def batch_of(self, size, operands, dimensions):
        if self.scan_dimension:  # a leading batch dimension would shift it
            moved = lowered_program(self, member_shapes(operands, dimensions))
            batched, places = batched_graph(moved, tuple(dimensions), size)
            return call(batched, *operands), places
        given = running.batched_of(dimensions)
        flags, out, step = _batched_step(self.to_apply, self.carries, given, size)

        def places_of(flags: Flags) -> Sequence[int | None]:
            stacks, carried = split(flags, len(flags) - self.carries)
            return (*[1 if flag else None for flag in stacks], *in_front(carried))

        moved = running.moved_batches(operands, dimensions, places_of(flags), size)
        return self(*moved, to_apply=step), places_of(out)


def scan_all(
    to_apply: Graph, inputs: Sequence[Array], inits: Sequence[Array], length: int, is_reverse: bool
) -> list[list[Array]]:
    """Run a scan along the first dimension; return the outputs and the final carries."""
    scanned = Scan(to_apply, len(inits), length, 0, is_reverse)(*inputs, *inits)
    return split(scanned, len(scanned) - len(inits))


def scan(
    inputs: ArrayLike | Sequence[ArrayLike],
    inits: ArrayLike | Sequence[ArrayLike],
    to_apply: Computation,
    scan_dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> tuple[Array, ...]:
    """Scan along a dimension; return the outputs and the final carries in one tuple. XLA: Scan.

    Args:
        inputs: an array or a non-empty sequence of arrays, with equal sizes along scan_dimension.
        inits: an array or a sequence of arrays: the initial carries.
        to_apply: a Graph or a function from one element of each input and the carries to the
            outputs' elements and the next carries.
        scan_dimension: the dimension to scan along.
        is_reverse: whether to begin at the end.
        is_associative: see Scan.

    Returns:
        The stacked outputs, then the final carries.

    Raises:
        ShapeError: see Scan.
        TransformError: the function reads traced values of the enclosing function.

    Example:
        >>> ops.scan(np.int32([1, 2, 3]), np.int32(0), lambda x, total: (total + x, total + x))
        (Array([1, 3, 6], dtype=int32), Array(6, dtype=int32))
    """
    arrays, first = running.members(inputs), running.members(inits)
    shapes = Scan.array_shapes([shape_of(array, "scan") for array in (*arrays, *first)])
    scan_dimension = Scan.fields["scan_dimension"].checked("scan", scan_dimension)
    if not arrays or any(shape.rank <= scan_dimension for shape in shapes[: len(arrays)]):
        problem = f"(C1) inputs must have dimension {scan_dimension}"
        details = [f"inputs: {_listed(shapes[: len(arrays)])}"]
        advice = "Pass at least one input; each must have the scanned dimension."
        raise explain(ShapeError, "scan", problem, details, advice)
    elements = [shape.without_dimension(scan_dimension) for shape in shapes[: len(arrays)]]
    step = computation_of(to_apply, [*elements, *shapes[len(arrays) :]], Scan.builder_name)
    length = shapes[0].dimensions[scan_dimension]
    options = length, scan_dimension, is_reverse, is_associative
    return Scan(step, len(first), *options)(*arrays, *first)


@remembered
def _batched_step(
    to_apply: Graph, carries: int, batched: Flags, size: int
) -> tuple[Flags, Flags, Graph]:
    """Return which operands and results are batched, and the step over the batch."""

    def after(flags: Flags) -> Flags:
        return running.batched_of(batched_graph(to_apply, in_front(flags), size).known)

    flags = running.grown(batched, carries, after)
    out = (
        *split(after(flags), len(to_apply.outputs) - carries)[0],
        *flags[len(batched) - carries :],
    )
    return flags, out, running.over_batch(to_apply, in_front(flags), size, in_front(out))


def _listed(shapes: ShapeList) -> str:
    return ", ".join(map(str, shapes)) or "none"
