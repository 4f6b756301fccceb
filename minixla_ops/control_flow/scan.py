"""Scan: a fixed number of steps along a dimension, each with its elements and a carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Boolean, Dimension, Instance, Integer, attribute
from minixla.core.derived import (
    call_vjp_graphs,
    entered_graph,
)
from minixla.core.errors import ShapeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import evaluate_graph, shape_of
from minixla_ops.control_flow.loops import repeat
from minixla_ops.control_flow.scan_programs import (
    batched_step,
    fixed_carries,
    scan_vjp_graphs,
)
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.computations import computation_of
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import RunsPrograms, members, merged
from minixla_ops.vocabulary.batch_dimensions import move_batch
from minixla_ops.vocabulary.shorthand import array_shape, zeros


class _Promise(Boolean):
    def hlo(self, value: bool) -> bool | None:
        """Left out where it is the default."""
        return value or None


@register
class Scan(RunsPrograms, Composed):
    """Calls `to_apply` with the elements of each step and the carry. XLA: Scan.

        for i in 0 ... N-1 (reversed: N-1 ... 0):
            outputs[i], carry = to_apply(inputs[i], carry)

    Operands are the inputs, then the first carries; results the outputs, then the last carries.
    Output i stands where input i does, reversed or not. Without steps the outputs are empty and
    the carries the first ones.

    A reverse derivative keeps what it needs of each step. Carries that `to_apply` returns as it
    takes them are constants of the scan, of which nothing is kept.

    Attributes:
        to_apply: the Graph of one step.
        carries: how many of the operands, and of the results, are carries.
        length: N; it must be that of the inputs.
        scan_dimension: the dimension of inputs and outputs that counts the steps.
        is_reverse: whether the last step comes first.
        is_associative: a promise that the steps may be grouped in any way; None promises nothing.
            The result is computed step by step all the same.

    Checks:
        (C1) each input has the dimension scan_dimension, of size `length`.
        (C2) to_apply takes one element of each input and the carries.
        (C3) it gives the outputs' elements, then carries of the same shapes.
        (C4) the outputs' elements have the dimensions before scan_dimension.
    """

    operands = ("inputs and inits...",)
    to_apply: Graph = attribute(Instance(Graph))
    carries: int = attribute(Integer(0), hlo="num_carries")
    length: int = attribute(Integer(0), hlo=None)
    scan_dimension: int = attribute(Dimension(0), default=0, hlo="dimensions")
    is_reverse: bool = attribute(_Promise(), default=False)
    is_associative: bool | None = attribute(Boolean(), default=None)

    def shape(self, *operands):
        count, dimension = len(operands) - self.carries, self.scan_dimension
        inits, elements = operands[count:], []
        for index, each in enumerate(self.array_shapes(operands[:count])):
            if dimension >= each.rank or each.dimensions[dimension] != self.length:
                self.refuse(
                    "C1",
                    f"input {index} has no {self.length} elements along dimension {dimension}",
                    "Inputs have one size along the dimension that is scanned.",
                )
            elements.append(each.without_dimension(dimension))
        taken, given = self.to_apply.input_shapes, self.to_apply.output_shapes
        if taken != (*elements, *inits):
            self.refuse(
                "C2",
                "to_apply takes other values than the elements and carries: "
                f"{_listed(taken)}, not {_listed((*elements, *inits))}",
                "It takes one element of each input, without the dimension, then the carries.",
            )
        outputs = given[: len(given) - self.carries]
        if given[len(outputs) :] != tuple(inits):
            self.refuse(
                "C3",
                f"to_apply gives other carries than it takes: it gives {_listed(given)}, "
                f"the carries are {_listed(inits)}",
                "Its last results are the next carries, of the same shapes.",
            )
        stacked = []
        for index, each in enumerate(self.array_shapes(outputs)):
            if each.rank < dimension:
                self.refuse(
                    "C4",
                    f"output {index}, with elements {each}, has too few dimensions to be stacked",
                    "The elements of outputs have the dimensions before scan_dimension.",
                )
            stacked.append(each.with_dimension(dimension, self.length))
        return (*stacked, *inits)

    def reference(self, *operands):
        count = len(operands) - self.carries
        rows = [np.moveaxis(each, self.scan_dimension, 0) for each in operands[:count]]
        carried: Sequence[Any] = operands[count:]
        shapes = self.to_apply.output_shapes[: len(self.to_apply.outputs) - self.carries]
        stacks = [
            np.empty((self.length, *s.dimensions), s.dtype) for s in shapes if isinstance(s, Shape)
        ]
        for index in reversed(range(self.length)) if self.is_reverse else range(self.length):
            found = reference_graph(self.to_apply, [*[row[index] for row in rows], *carried])
            for stack, element in zip(stacks, found, strict=False):
                stack[index] = element
            carried = found[len(stacks) :]
        return (*[np.moveaxis(stack, 0, self.scan_dimension) for stack in stacks], *carried)

    def composition(self, *operands):
        count = len(operands) - self.carries
        inputs, inits = operands[:count], operands[count:]
        fixed = fixed_carries(self.to_apply, self.carries)
        constants = [each for each, flag in zip(inits, fixed, strict=True) if flag]
        moving = [each for each, flag in zip(inits, fixed, strict=True) if not flag]
        results = len(self.to_apply.outputs) - self.carries

        def step(index: Any, carried: Sequence[Any], given: Sequence[Any]) -> list[Any]:
            at = np.int32(self.length - 1) - index if self.is_reverse else index
            elements = [_element(each, at, self.scan_dimension) for each in given[:count]]
            carry = merged(fixed, given[count:], carried[results:])
            found = evaluate_graph(self.to_apply, [*elements, *carry])
            stacks = [
                _with_element(stack, element, at, self.scan_dimension)
                for stack, element in zip(carried[:results], found, strict=False)
            ]
            next_carry = zip(found[results:], fixed, strict=True)
            return [*stacks, *[each for each, flag in next_carry if not flag]]

        empty = [
            zeros(shape.with_dimension(self.scan_dimension, self.length))
            for shape in self.to_apply.output_shapes[:results]
            if isinstance(shape, Shape)
        ]
        found = repeat(self.length, step, [*empty, *moving], [*inputs, *constants])
        return (*found[:results], *merged(fixed, constants, found[results:]))

    def entered(self, trace, known):
        count, results = len(known) - self.carries, len(self.to_apply.outputs) - self.carries
        while True:
            step = entered_graph(self.to_apply, trace, known)
            carried = tuple(map(trace.joined, known[count:], step.known[results:]))
            if carried == known[count:]:
                break
            known = (*known[:count], *carried)
        out = (*step.known[:results], *carried)
        if step.known != out:
            step = entered_graph(self.to_apply, trace, known, out)
        pairs = zip(self.to_apply.input_shapes[count:], carried, strict=True)
        carries = sum([len(trace.shapes_of(*pair)) for pair in pairs])
        return self.replace(to_apply=step.graph, carries=carries), known, out

    def stablehlo(self, emit, operands, shapes, results):
        return Composed.stablehlo(self, emit, operands, shapes, results)

    def linearize(self, operands, active):
        given = tuple(flag and has_tangent(o) for o, flag in zip(operands, active, strict=True))
        shapes = tuple(map(shape_of, operands))
        key = ("scan_vjp", given, shapes, *list(self.values.values())[1:])
        memo = self.to_apply.memo
        if key not in memo:
            memo[key] = scan_vjp_graphs(self, shapes, given)
        results, pullback = call_vjp_graphs(
            memo[key], len(memo[key].active_outputs), list(operands)
        )
        return tuple(results), pullback

    def batch_of(self, size, operands, dimensions):
        count = len(operands) - self.carries
        given = tuple([dimension is not None for dimension in dimensions])
        flags, batched, out = batched_step(self.to_apply, self.carries, given, size)
        # The batch stands last in inputs and outputs, where it does not meet the scanned dimension.
        moved = []
        for index, (operand, at, flag) in enumerate(zip(operands, dimensions, flags, strict=True)):
            rank = array_shape(operand).rank - (at is not None)
            moved.append(
                move_batch(operand, at, rank if index < count else 0, size) if flag else operand
            )
        results = self(*moved, to_apply=batched)
        last = [array_shape(each).rank - 1 for each in results[: len(out)]]
        ends = [at if flag else None for at, flag in zip(last, out, strict=True)]
        return results, (*ends, *[0 if flag else None for flag in flags[count:]])


def _listed(shapes: Sequence[AnyShape]) -> str:
    return ", ".join(map(str, shapes)) or "none"


def _element(value: Any, index: Any, dimension: int) -> Any:
    """One element along a dimension, without it."""
    sizes = list(array_shape(value).dimensions)
    starts = [index if at == dimension else 0 for at in range(len(sizes))]
    sizes[dimension] = 1
    return ops.reshape(
        ops.dynamic_slice(value, starts, sizes), (*sizes[:dimension], *sizes[dimension + 1 :])
    )


def _with_element(stack: Any, element: Any, index: Any, dimension: int) -> Any:
    """The stack with another element along a dimension."""
    sizes = list(array_shape(stack).dimensions)
    starts = [index if at == dimension else 0 for at in range(len(sizes))]
    sizes[dimension] = 1
    return ops.dynamic_update_slice(stack, ops.reshape(element, sizes), starts)


def scan_all(
    to_apply: Graph,
    inputs: Sequence[Any],
    inits: Sequence[Any],
    length: int,
    scan_dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> tuple[list[Any], list[Any]]:
    """The outputs and the last carries of a scan of `length` steps; see Scan."""
    operation = Scan(to_apply, len(inits), length, scan_dimension, is_reverse, is_associative)
    found = operation(*inputs, *inits)
    count = len(found) - len(inits)
    return list(found[:count]), list(found[count:])


def scan(
    inputs: Any,
    inits: Any,
    to_apply: Graph | Callable[..., Any],
    scan_dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> tuple[Any, ...]:
    """The outputs of a scan and its last carries, in one Python tuple.

    Args:
        inputs: an array or a sequence of arrays, at least one, of one size along scan_dimension.
        inits: an array or a sequence of arrays: the first carries.
        to_apply: a Graph or a function from one element of each input and the carries to the
            outputs' elements and the next carries.
        scan_dimension: the dimension to scan along.
        is_reverse: whether to begin at its end.
        is_associative: see Scan.

    Raises:
        ShapeError: see Scan.
        TransformError: the function reads traced values of the enclosing function.
    """
    arrays, first = members(inputs), members(inits)
    shapes = Scan.array_shapes([shape_of(each, "scan") for each in (*arrays, *first)])
    scan_dimension = Scan.fields["scan_dimension"].checked("scan", scan_dimension)
    if not arrays or any(shape.rank <= scan_dimension for shape in shapes[: len(arrays)]):
        raise explain(
            ShapeError,
            "scan",
            f"(C1) the inputs have no dimension {scan_dimension}",
            [f"inputs: {_listed(shapes[: len(arrays)])}"],
            "Give at least one input; each must have the dimension that is scanned.",
        )
    elements = [shape.without_dimension(scan_dimension) for shape in shapes[: len(arrays)]]
    step = computation_of(to_apply, [*elements, *shapes[len(arrays) :]], Scan.builder_name)
    length = shapes[0].dimensions[scan_dimension]
    outputs, carried = scan_all(
        step, arrays, first, length, scan_dimension, is_reverse, is_associative
    )
    return (*outputs, *carried)
