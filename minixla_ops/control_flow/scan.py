"""Scan: a fixed number of steps along a dimension, each with its elements and a carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Dimension, Instance, Integer, attribute
from minixla.core.derived import ReverseGraphs, batched_graph, call_vjp_graphs, vjp_graphs
from minixla.core.errors import ShapeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import spread
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import evaluate_graph, shape_of
from minixla_ops.control_flow.loops import element, in_sizes, repeat, with_element
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.computations import computation_of
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import (
    Flags,
    RunsPrograms,
    batched_of,
    constants_of,
    entered_step,
    grown,
    instantiated,
    members,
    merged,
    moved_batches,
    over_batch,
    parted,
    program,
    pulled_back,
    split,
    two_halves,
)
from minixla_ops.vocabulary.batch_dimensions import member_shapes
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
                problem = f"input {index} has no {self.length} elements along dimension {dimension}"
                advice = "Inputs have one size along the dimension that is scanned."
                self.refuse("C1", problem, advice)
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
            for stack, value in zip(stacks, found, strict=False):
                stack[index] = value
            carried = found[len(stacks) :]
        return (*[np.moveaxis(stack, 0, self.scan_dimension) for stack in stacks], *carried)

    def composition(self, *operands):
        count = len(operands) - self.carries
        inputs, inits = operands[:count], operands[count:]
        fixed = constants_of(self.to_apply, self.carries)
        constants, moving = parted(fixed, inits)
        results = len(self.to_apply.outputs) - self.carries

        def step(index: Any, carried: Sequence[Any], given: Sequence[Any]) -> list[Any]:
            at = np.int32(self.length - 1) - index if self.is_reverse else index
            elements = [element(each, at, self.scan_dimension) for each in given[:count]]
            carry = merged(fixed, given[count:], carried[results:])
            found = evaluate_graph(self.to_apply, [*elements, *carry])
            stacks = [
                with_element(stack, each, at, self.scan_dimension)
                for stack, each in zip(carried[:results], found, strict=False)
            ]
            return [*stacks, *parted(fixed, found[results:])[1]]

        empty = [
            zeros(shape.with_dimension(self.scan_dimension, self.length))
            for shape in self.to_apply.output_shapes[:results]
            if isinstance(shape, Shape)
        ]
        found = repeat(self.length, step, [*empty, *moving], [*inputs, *constants])
        return (*found[:results], *merged(fixed, constants, found[results:]))

    def entered(self, trace, known):
        step, known = entered_step(self.to_apply, trace, known, self.carries)
        start = len(known) - self.carries
        pairs = zip(self.to_apply.input_shapes[start:], known[start:], strict=True)
        carries = sum([len(trace.shapes_of(*pair)) for pair in pairs])
        return self.replace(to_apply=step.graph, carries=carries), known, step.known

    def stablehlo(self, emit, operands, shapes, results):
        return Composed.stablehlo(self, emit, operands, shapes, results)

    def linearize(self, operands, active):
        given = tuple(flag and has_tangent(o) for o, flag in zip(operands, active, strict=True))
        shapes = tuple(map(shape_of, operands))
        key = ("scan_vjp", given, shapes, *list(self.values.values())[1:])
        graphs = self.to_apply.remembered(key, lambda: _Reverse(self, given).graphs(shapes))
        return call_vjp_graphs(graphs, operands)

    def batch_of(self, size, operands, dimensions):
        # The batch stands last in inputs and outputs, where it does not meet the scanned dimension.
        step, carries, given = self.to_apply, self.carries, batched_of(dimensions)
        key = ("scan_batch", carries, given, size)
        flags, batched, out = step.remembered(key, _batched_step, step, carries, given, size)
        taken = member_shapes(operands, dimensions)
        moved = moved_batches(operands, dimensions, _batch_places(taken, flags, carries), size)
        gives: Any = self.infer(taken)
        return self(*moved, to_apply=batched), _batch_places(gives, out, carries)


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
        problem = f"(C1) the inputs have no dimension {scan_dimension}"
        shown = [f"inputs: {_listed(shapes[: len(arrays)])}"]
        advice = "Give at least one input; each must have the dimension that is scanned."
        raise explain(ShapeError, "scan", problem, shown, advice)
    elements = [shape.without_dimension(scan_dimension) for shape in shapes[: len(arrays)]]
    step = computation_of(to_apply, [*elements, *shapes[len(arrays) :]], Scan.builder_name)
    length = shapes[0].dimensions[scan_dimension]
    outputs, carried = scan_all(
        step, arrays, first, length, scan_dimension, is_reverse, is_associative
    )
    return (*outputs, *carried)


# Derivatives and batches.


def _batch_places(
    shapes: Sequence[AnyShape], flags: Sequence[bool], carries: int
) -> tuple[int | None, ...]:
    """Where the batch is in values of `shapes` that have one: last, but first in the carries."""
    count = len(shapes) - carries
    ranks = [s.rank if isinstance(s, Shape) and i < count else 0 for i, s in enumerate(shapes)]
    return tuple([rank if flag else None for rank, flag in zip(ranks, flags, strict=True)])


def _batched_step(
    to_apply: Graph, carries: int, given: Flags, size: int
) -> tuple[Flags, Graph, Flags]:
    """Which operands are batched, the step over the batch, and which results are batched."""
    taken, gives = to_apply.input_shapes, to_apply.output_shapes

    def after(flags: Flags) -> Flags:
        places = _batch_places(taken, flags, carries)
        return batched_of(batched_graph(to_apply, places, size).dimensions)

    flags = grown(given, carries, after)
    out = (*after(flags)[: len(gives) - carries], *flags[len(taken) - carries :])
    places = _batch_places(taken, flags, carries), _batch_places(gives, out, carries)
    return flags, over_batch(to_apply, places[0], size, places[1]), out


class _Reverse:
    """The two halves of the reverse derivative, each a scan.

    Attributes:
        active: which operands have cotangents in the course of the scan.
        halves: the reverse derivative of one step with respect to these.
        places: for each residual the number of the operand that it is, an input or a constant;
            None for one that is kept of each step.
        kept: those of which a stack is kept.
        scanned, shared: the inputs, and the constants, that are residuals.
    """

    def __init__(self, operation: Scan, given: Flags) -> None:
        self.operation, self.step = operation, operation.to_apply
        step, carries = operation.to_apply, operation.carries
        self.count, self.results = len(given) - carries, len(step.outputs) - carries
        self.active = grown(given, carries, lambda x: vjp_graphs(step, x).active_outputs)
        self.halves = vjp_graphs(step, self.active)
        is_held = [*[True] * self.count, *constants_of(step, carries)]
        held = {id(x): i for i, x in compress(enumerate(self.halves.forward.inputs), is_held)}
        residuals = self.halves.forward.outputs[len(step.outputs) :]
        self.places = [held.get(id(value)) for value in residuals]
        self.kept = [value for value in residuals if id(value) not in held]
        used = sorted({place for place in self.places if place is not None})
        self.scanned = [index for index in used if index < self.count]
        self.shared = [index for index in used if index >= self.count]
        self.carry_active = self.active[self.count :]
        self.out_active = self.halves.active_outputs[: self.results]

    def _padded(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of what is stacked: the steps count along a dimension that may not be the first."""
        return (*[1] * (self.operation.scan_dimension - len(sizes)), *sizes)

    def forward_step(self) -> Graph:
        """One step to the results, what is kept of it, and the carries."""
        forward, start, stop = self.halves.forward, self.results, len(self.step.outputs)
        outputs = [*forward.outputs[:start], *self.kept, *forward.outputs[start:stop]]
        step = Graph(forward.inputs, forward.instructions, outputs, forward.name)
        if not self.operation.scan_dimension or not self.kept:
            return step.pruned()

        def function(*values: Any) -> list[Any]:
            results, kept, carried = split(evaluate_graph(step, values), start, len(self.kept))
            sizes = [self._padded(array_shape(each).dimensions) for each in kept]
            return [*results, *map(in_sizes, sizes, kept), *carried]

        return program(function, step.input_shapes, step.name)

    def backward_step(self) -> Graph:
        """One step back: residuals and cotangents to those of the elements and of the carries."""
        counts = len(self.scanned), len(self.kept), sum(self.out_active), sum(self.carry_active)
        held: list[Any] = [value.shape for value in self.kept]

        def function(*values: Any) -> list[Any]:
            scanned, rows, of_outputs, of_carries, shared = split(values, *counts)
            at = dict(zip([*self.scanned, *self.shared], [*scanned, *shared], strict=True))
            kept = iter([in_sizes(s.dimensions, x) for s, x in zip(held, rows, strict=True)])
            residuals = [next(kept) if place is None else at[place] for place in self.places]
            after = [*spread(self.out_active, of_outputs), *spread(self.carry_active, of_carries)]
            before = pulled_back(self.halves, residuals, after)
            return [*instantiated(self.active, before, self.step.input_shapes), *shared]

        shapes = self.step.input_shapes
        given = [
            *[shapes[index] for index in self.scanned],
            *[shape.with_dimensions(self._padded(shape.dimensions)) for shape in held],
            *compress(self.step.output_shapes, self.out_active),
            *compress(shapes[self.count :], self.carry_active),
            *[shapes[index] for index in self.shared],
        ]
        return program(function, given, f"vjp_{self.step.name}")

    def graphs(self, shapes: Sequence[AnyShape]) -> ReverseGraphs:
        """The halves, for operands of `shapes`."""
        active_outputs = (*self.out_active, *self.carry_active)
        forward_step, backward_step = self.forward_step(), self.backward_step()
        used = [*self.scanned, *self.shared]

        def first(*operands: Any) -> list[Any]:
            found = self.operation(*operands, to_apply=forward_step)
            outputs, stacks, carried = split(found, self.results, len(self.kept))
            return [*outputs, *carried, *[operands[index] for index in used], *stacks]

        def second(*values: Any) -> list[Any]:
            counts = len(self.scanned), len(self.shared), len(self.kept), sum(self.out_active)
            scanned, shared, stacks, of_outputs, of_carries = split(values, *counts)
            found = self.operation(
                *[*scanned, *stacks, *of_outputs, *of_carries, *shared],
                to_apply=backward_step,
                carries=len(of_carries) + len(shared),
                is_reverse=not self.operation.is_reverse,
                is_associative=None,
            )
            return list(found[: sum(self.active)])

        halves = two_halves(first, second, shapes, active_outputs, self.step.name)
        return ReverseGraphs(*halves, active_outputs, self.active)


def _listed(shapes: Sequence[AnyShape]) -> str:
    return ", ".join(map(str, shapes)) or "none"
