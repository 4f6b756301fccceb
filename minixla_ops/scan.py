"""Scan: a fixed number of steps along a dimension, each with its elements and a carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Instance, Integer, Optional
from minixla.core.derived import (
    call_vjp_graphs,
)
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, evaluate_graph, shape_of
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.composed import Composed
from minixla_ops.computations import computation_of
from minixla_ops.dynamic_slicing import dynamic_slice, dynamic_update_slice
from minixla_ops.evaluation import reference_graph
from minixla_ops.loops import repeat
from minixla_ops.nested import members, merged
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, instantiate, zeros, zeros_like
from minixla_ops.scan_programs import (
    batched_step,
    fixed_carries,
    scan_vjp_graphs,
    step_with_tangents,
)

__all__ = ["scan", "scan_all"]


@register
class Scan(Composed):
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

    operand_names = ("inputs and inits...",)
    attributes = {
        "to_apply": Instance(Graph),
        "carries": Integer(0),
        "length": Integer(0),
        "scan_dimension": Integer(0, default=0),
        "is_reverse": Boolean(default=False),
        "is_associative": Optional(Boolean()),
    }

    def shape(
        self,
        *operands: AnyShape,
        to_apply: Graph,
        carries: int,
        length: int,
        scan_dimension: int,
        **_: Any,
    ) -> tuple[AnyShape, ...]:
        count = len(operands) - carries
        inits, elements = operands[count:], []
        for index, each in enumerate(self.array_shapes(operands[:count])):
            sizes = each.dimensions
            if scan_dimension >= each.rank or sizes[scan_dimension] != length:
                self.reject(
                    "C1",
                    f"input {index} has no {length} elements along dimension {scan_dimension}",
                    [f"input {index} {each}", f"length = {length}"],
                    "Inputs have one size along the dimension that is scanned.",
                )
            elements.append(each.without_dimension(scan_dimension))
        taken, given = to_apply.input_shapes, to_apply.output_shapes
        wanted = (*elements, *inits)
        if taken != wanted:
            self.reject(
                "C2",
                "to_apply takes other values than the elements and carries",
                [f"it takes {_listed(taken)}", f"elements and carries: {_listed(wanted)}"],
                "It takes one element of each input, without the dimension, then the carries.",
            )
        outputs = given[: len(given) - carries]
        if given[len(outputs) :] != tuple(inits):
            self.reject(
                "C3",
                "to_apply gives other carries than it takes",
                [f"it gives {_listed(given)}", f"carries: {_listed(inits)}"],
                "Its last results are the next carries, of the same shapes.",
            )
        stacked = []
        for index, each in enumerate(self.array_shapes(outputs)):
            if each.rank < scan_dimension:
                self.reject(
                    "C4",
                    f"output {index} has too few dimensions to be stacked",
                    [f"element {each}", f"scan_dimension = {scan_dimension}"],
                    "The elements of outputs have the dimensions before scan_dimension.",
                )
            stacked.append(each.with_dimension(scan_dimension, length))
        return (*stacked, *inits)

    def reference(
        self,
        *operands: Any,
        to_apply: Graph,
        carries: int,
        length: int,
        scan_dimension: int,
        is_reverse: bool,
        **_: Any,
    ) -> tuple[Any, ...]:
        count = len(operands) - carries
        rows = [np.moveaxis(each, scan_dimension, 0) for each in operands[:count]]
        carried: Sequence[Any] = operands[count:]
        shapes = to_apply.output_shapes[: len(to_apply.outputs) - carries]
        stacks = [
            np.empty((length, *s.dimensions), s.dtype) for s in shapes if isinstance(s, Shape)
        ]
        for index in reversed(range(length)) if is_reverse else range(length):
            found = reference_graph(to_apply, [*[row[index] for row in rows], *carried])
            for stack, element in zip(stacks, found, strict=False):
                stack[index] = element
            carried = found[len(stacks) :]
        return (*[np.moveaxis(stack, 0, scan_dimension) for stack in stacks], *carried)

    def composition(
        self,
        *operands: Any,
        to_apply: Graph,
        carries: int,
        length: int,
        scan_dimension: int,
        is_reverse: bool,
        **_: Any,
    ) -> tuple[Any, ...]:
        count = len(operands) - carries
        inputs, inits = operands[:count], operands[count:]
        fixed = fixed_carries(to_apply, carries)
        constants = [each for each, flag in zip(inits, fixed, strict=True) if flag]
        moving = [each for each, flag in zip(inits, fixed, strict=True) if not flag]
        results = len(to_apply.outputs) - carries

        def step(index: Any, carried: Sequence[Any], given: Sequence[Any]) -> list[Any]:
            at = np.int32(length - 1) - index if is_reverse else index
            elements = [_element(each, at, scan_dimension) for each in given[:count]]
            carry = merged(fixed, given[count:], carried[results:])
            found = evaluate_graph(to_apply, [*elements, *carry])
            stacks = [
                _with_element(stack, element, at, scan_dimension)
                for stack, element in zip(carried[:results], found, strict=False)
            ]
            next_carry = zip(found[results:], fixed, strict=True)
            return [*stacks, *[each for each, flag in next_carry if not flag]]

        empty = [
            zeros(shape.with_dimension(scan_dimension, length))
            for shape in to_apply.output_shapes[:results]
            if isinstance(shape, Shape)
        ]
        found = repeat(length, step, [*empty, *moving], [*inputs, *constants])
        return (*found[:results], *merged(fixed, constants, found[results:]))

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        /,
        *,
        to_apply: Graph,
        carries: int,
        scan_dimension: int,
        is_reverse: bool,
        is_associative: bool | None,
        **_: Any,
    ) -> dict[str, Any]:
        return {
            "to_apply": to_apply,
            "dimensions": (scan_dimension,),
            "num_carries": carries,
            "is_reverse": "true" if is_reverse else None,
            "is_associative": None if is_associative is None else str(is_associative).lower(),
        }

    def forward(
        self, primals: Sequence[Any], tangents: Sequence[Any], **attributes: Any
    ) -> tuple[Any, Any]:
        to_apply, carries = attributes["to_apply"], attributes["carries"]
        count = len(primals) - carries
        given = tuple(
            [t is not None and has_tangent(p) for p, t in zip(primals, tangents, strict=True)]
        )
        active, derived, moving = step_with_tangents(to_apply, carries, given)
        pairs = list(zip(primals, tangents, active, strict=True))
        dotted = [instantiate(t, p) for p, t, flag in pairs if flag]
        first = sum(active[:count])
        operands = [*primals[:count], *dotted[:first], *primals[count:], *dotted[first:]]
        attributes = {**attributes, "to_apply": derived}
        attributes["carries"] = carries + len(dotted) - first
        found = bind(self, *operands, **attributes)
        results = len(to_apply.outputs) - carries
        outputs, rest = found[:results], found[results:]
        dots = sum(moving)
        found_dots = iter([*rest[:dots], *rest[dots + carries :]])
        flags = (*moving, *active[count:])
        tangents_out = tuple([next(found_dots) if flag else None for flag in flags])
        return (*outputs, *rest[dots : dots + carries]), tangents_out

    def linearize(
        self, operands: Sequence[Any], active: Sequence[bool], **attributes: Any
    ) -> tuple[Any, Callable[..., Any]]:
        given = tuple(flag and has_tangent(o) for o, flag in zip(operands, active, strict=True))
        shapes = tuple(map(shape_of, operands))
        key = ("scan_vjp", given, shapes, tuple(attributes.items())[1:])
        memo = attributes["to_apply"].memo
        if key not in memo:
            memo[key] = scan_vjp_graphs(self, shapes, given, attributes)
        results, pullback = call_vjp_graphs(
            memo[key], len(memo[key].active_outputs), list(operands)
        )
        return tuple(results), pullback

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Only a jvp rule applies a scan to tangents, and such a rule is linear in them.
        return True

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        # The reverse derivative of a linear function is its transpose, wherever it is taken.
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = self.linearize(point, linear, **attributes)
        return pullback({i: each for i, each in enumerate(cotangents) if each is not None})

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, Any]:
        to_apply, carries = attributes["to_apply"], attributes["carries"]
        size, count = batch_size(operands, dimensions), len(operands) - carries
        given = tuple([dimension is not None for dimension in dimensions])
        flags, batched, out = batched_step(to_apply, carries, given, size)
        # The batch stands last in inputs and outputs, where it does not meet the scanned dimension.
        moved = []
        for index, (operand, at, flag) in enumerate(zip(operands, dimensions, flags, strict=True)):
            rank = array_shape(operand).rank - (at is not None)
            moved.append(
                move_batch(operand, at, rank if index < count else 0, size) if flag else operand
            )
        results = bind(self, *moved, **{**attributes, "to_apply": batched})
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
    return reshape(
        dynamic_slice(value, starts, sizes), (*sizes[:dimension], *sizes[dimension + 1 :])
    )


def _with_element(stack: Any, element: Any, index: Any, dimension: int) -> Any:
    """The stack with another element along a dimension."""
    sizes = list(array_shape(stack).dimensions)
    starts = [index if at == dimension else 0 for at in range(len(sizes))]
    sizes[dimension] = 1
    return dynamic_update_slice(stack, reshape(element, sizes), starts)


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
    found = bind(
        Scan.instance,
        *inputs,
        *inits,
        to_apply=to_apply,
        carries=len(inits),
        length=length,
        scan_dimension=scan_dimension,
        is_reverse=is_reverse,
        is_associative=is_associative,
    )
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
    operation = Scan.instance
    shapes = operation.array_shapes([shape_of(each, "scan") for each in (*arrays, *first)])
    scan_dimension = operation.canonical_attribute("scan_dimension", scan_dimension)
    if not arrays or any(shape.rank <= scan_dimension for shape in shapes[: len(arrays)]):
        operation.reject(
            "C1",
            f"the inputs have no dimension {scan_dimension}",
            [f"inputs: {_listed(shapes[: len(arrays)])}"],
            "Give at least one input; each must have the dimension that is scanned.",
        )
    elements = [shape.without_dimension(scan_dimension) for shape in shapes[: len(arrays)]]
    step = computation_of(to_apply, [*elements, *shapes[len(arrays) :]], operation.builder_name)
    length = shapes[0].dimensions[scan_dimension]
    outputs, carried = scan_all(
        step, arrays, first, length, scan_dimension, is_reverse, is_associative
    )
    return (*outputs, *carried)
