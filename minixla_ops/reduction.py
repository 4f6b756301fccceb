"""Reduce: folding arrays along dimensions with any computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integers
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.computations import computation_of, monoid_of
from minixla_ops.folds import fold_computation, fold_monoid
from minixla_ops.rules import array_shape, splat

__all__ = ["as_sequence", "initial_values", "reduce"]


@register
class Reduce(Operation):
    """Folds N arrays along dimensions, which the results no longer have. XLA: Reduce.

    Starting from the initial values, the running values and the next elements go through
    `computation`, in this order: f(running_0 ... running_N-1, element_0 ... element_N-1). XLA may
    regroup the applications and use the initial values more than once, so f must be associative
    and the initial values its identity.

    Attributes:
        computation: the Graph f, from 2 N scalars to N scalars.
        dimensions_to_reduce: which dimensions, in any order.

    Checks:
        (C1) one initial value for each operand, at least one.
        (C2) the operands are arrays of equal dimensions.
        (C3) each initial value is a scalar of its operand's element type.
        (C4) the computation takes and gives scalars of the operands' element types.
        (C5) each dimension is one of the operands'.
        (C6) no dimension is named twice.
    """

    stablehlo_name = "reduce"
    operand_names = ("operands...", "init_values...")
    attributes = {"computation": Instance(Graph), "dimensions_to_reduce": Integers()}
    linear_operands = EVERY_OPERAND

    def operand_labels(self, count: int) -> list[str]:
        return operand_and_init_labels(count)

    def shape(
        self, *shapes: Any, computation: Graph, dimensions_to_reduce: tuple[int, ...]
    ) -> Shape | tuple[Shape, ...]:
        operands = check_folded(self, shapes, computation)
        first = operands[0]
        given = [f"operands[0] {first}", f"dimensions_to_reduce {dimensions_to_reduce}"]
        for dimension in dimensions_to_reduce:
            if not 0 <= dimension < first.rank:
                self.reject_attribute(
                    "C5",
                    f"dimension {dimension} is no dimension of the operands",
                    given,
                    f"Dimensions must be in [0, {first.rank}).",
                )
        if len(set(dimensions_to_reduce)) != len(dimensions_to_reduce):
            self.reject_attribute(
                "C6", "a dimension is named twice", given, "Name each dimension once."
            )
        kept = [index for index in range(first.rank) if index not in dimensions_to_reduce]
        results = tuple(
            Shape(
                operand.element_type,
                [operand.dimensions[index] for index in kept],
                [operand.dynamic[index] for index in kept],
            )
            for operand in operands
        )
        return results if len(results) > 1 else results[0]

    def reference(
        self, *operands: np.ndarray, computation: Graph, dimensions_to_reduce: tuple[int, ...]
    ) -> Any:
        count = len(operands) // 2
        arrays, initials = operands[:count], operands[count:]
        axes = tuple(sorted(dimensions_to_reduce))
        monoid = monoid_of(computation)
        if monoid is not None:
            return fold_monoid(monoid, arrays[0], axes, initials[0])
        kept = [axis for axis in range(arrays[0].ndim) if axis not in axes]
        sizes = [arrays[0].shape[axis] for axis in kept]
        extent = math.prod(arrays[0].shape[axis] for axis in axes)
        ordered = [each.transpose(*axes, *kept).reshape(extent, *sizes) for each in arrays]
        results = fold_computation(computation, ordered, initials)
        return tuple(results) if count > 1 else results[0]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        computation: Graph,
        dimensions_to_reduce: tuple[int, ...],
    ) -> Sequence[str]:
        operation = _short_form(computation)
        if operation is None:
            return emit.operation(
                "stablehlo.reduce",
                operands,
                shapes,
                results,
                [emit.region(computation)],
                dimensions=dimensions_to_reduce,
            )
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.reduce({operands[0]} init: {operands[1]}) applies {operation} "
            f"across dimensions = {list(dimensions_to_reduce)} : "
            f"({shapes[0].stablehlo}, {shapes[1].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]


def _short_form(computation: Graph) -> str | None:
    """The StableHLO operation that a computation consists of, where the text may just name it."""
    if monoid_of(computation) is None:
        return None
    (only,) = computation.pruned().instructions
    in_order = [id(value) for value in only.operands] == [id(value) for value in computation.inputs]
    return f"stablehlo.{only.operation.stablehlo_name}" if in_order else None


def operand_and_init_labels(count: int) -> list[str]:
    """Names for N operands followed by N initial values."""
    half = count // 2
    operands = [f"operands[{index}]" for index in range(count - half)]
    return operands + [f"init_values[{index}]" for index in range(half)]


def check_folded(
    operation: Operation, shapes: Sequence[AnyShape], computation: Graph
) -> Sequence[Shape]:
    """The shapes of the operands of Reduce or ReduceWindow, after checks C1 to C4."""
    count = len(shapes) // 2
    labels = operation.operand_labels(len(shapes))
    given = [f"{label} {shape}" for label, shape in zip(labels, shapes, strict=True)]
    if len(shapes) % 2 or not shapes:
        operation.reject(
            "C1",
            f"{len(shapes)} operands and initial values together",
            given,
            "Give one initial value for each operand, at least one.",
        )
    arrays = operation.array_shapes(shapes)
    operands, initials = arrays[:count], arrays[count:]
    for index, operand in enumerate(operands):
        if operand.dimensions != operands[0].dimensions:
            operation.reject(
                "C2",
                f"operands[0] and operands[{index}] differ in dimensions",
                given,
                "All operands must have the same dimensions.",
            )
    scalars = tuple(Shape(operand.element_type) for operand in operands)
    for index, (initial, scalar) in enumerate(zip(initials, scalars, strict=True)):
        if initial is not scalar:
            operation.reject(
                "C3",
                f"init_values[{index}] is {initial}",
                given,
                f"It must be a scalar of its operand's element type: {scalar}.",
            )
    check_computation(operation, "C4", "computation", computation, scalars * 2, scalars)
    return operands


def check_computation(
    operation: Operation,
    label: str,
    name: str,
    computation: Graph,
    inputs: Sequence[AnyShape],
    outputs: Sequence[AnyShape],
) -> None:
    """Rejects a computation whose inputs and outputs are not of the given shapes."""
    if computation.input_shapes == tuple(inputs) and computation.output_shapes == tuple(outputs):
        return
    operation.reject(
        label,
        f"{name} has other inputs or outputs than it must",
        [f"{name} {_signature(computation.input_shapes, computation.output_shapes)}"],
        f"It must be {_signature(inputs, outputs)}.",
    )


def _signature(inputs: Sequence[AnyShape], outputs: Sequence[AnyShape]) -> str:
    return f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})"


def as_sequence(values: Any) -> Sequence[Any]:
    """A list or tuple of values as it is, a single value in a list."""
    return values if isinstance(values, (list, tuple)) else [values]


def initial_values(operands: Sequence[Shape], init_values: Any) -> list[Any]:
    """Initial values as a list; Python numbers become scalars of the operands' element types.

    A Python number that the element type cannot hold as it is (a fraction for integers) is left
    for the operation's own check to reject.
    """
    values = list(as_sequence(init_values))
    for index, (operand, value) in enumerate(zip(operands, values, strict=False)):
        rank = _NUMBERS.get(type(value))
        if rank is not None and rank <= _KINDS[operand.element_type.kind]:
            values[index] = splat(value, Shape(operand.element_type))
    return values


# Which Python numbers are values of which kinds of element types: those of at least their rank.
_NUMBERS = {bool: 0, int: 1, float: 2, complex: 3}
_KINDS = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Graph | Callable[..., Any],
    dimensions_to_reduce: Sequence[int],
) -> Any:
    """Folds arrays along dimensions.

    Args:
        operands: N arrays of equal dimensions, or one array.
        init_values: N scalars of their element types, or one; Python numbers are converted.
        computation: a Graph or a function from N running values and N elements (scalars) to N
            scalars, such as `add`; associative, with the initial values as identity.
        dimensions_to_reduce: which dimensions, in any order.

    Returns:
        An array without these dimensions; for N > 1 a tuple of N arrays.

    Raises:
        ShapeError, AttributeValueError: see Reduce.
        TransformError: the computation reads a traced value of the enclosing function.
    """
    operands = as_sequence(operands)
    shapes = [array_shape(operand) for operand in operands]
    initials = initial_values(shapes, init_values)
    scalars = [Shape(shape.element_type) for shape in shapes]
    graph = computation_of(computation, (*scalars, *scalars), "reduce")
    dimensions = tuple(dimensions_to_reduce)
    return bind(
        Reduce.instance,  # type: ignore[attr-defined]
        *operands,
        *initials,
        computation=graph,
        dimensions_to_reduce=dimensions,
    )
