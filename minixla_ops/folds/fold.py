"""What Reduce and ReduceWindow share: N operands, N initial values and a computation that folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import minixla_ops as ops
from minixla.core.attributes import Instance, attribute
from minixla.core.errors import ShapeError, explain
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import shape_of
from minixla_ops.folds.fold_programs import tangents_of_fold
from minixla_ops.programs import computations
from minixla_ops.vocabulary.batch_dimensions import add_batch, align_batches, batch_size, move_batch
from minixla_ops.vocabulary.shorthand import array_shape, as_results, as_tuple, holds, splat, zeros


class Fold(Operation):
    """Base class: folds N arrays by a computation, starting from N initial values.

    Checks:
        (C1) one initial value for each operand, at least one.
        (C2) the operands are arrays of equal dimensions.
        (C3) each initial value is a scalar of its operand's element type.
        (C4) the computation takes and gives scalars of the operands' element types.

    Derivatives: a sum is linear. Other computations have their values and tangents folded as
    pairs forwards, and are derived as a program (`fold_programs.fold`) backwards; members know
    better for maxima and minima.
    """

    operands = "operands...", "init_values..."
    linear_operands = EVERY_OPERAND
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")

    def check_operands(self, shapes: Sequence[AnyShape]) -> Sequence[Shape]:
        """The shapes of the N operands, after checks C1 to C4."""
        if len(shapes) % 2 or not shapes:
            self.refuse("C1", f"{len(shapes)} operands and initial values together", _ONE_EACH)
        operands, initials = halves(self.array_shapes(shapes))
        computations.check_equal_dimensions(self, "C2", "operands", operands)
        scalars = tuple([Shape(operand.element_type) for operand in operands])
        for index, (initial, scalar) in enumerate(zip(initials, scalars, strict=True)):
            if initial is not scalar:
                advice = f"It must be a scalar of its operand's element type: {scalar}."
                self.refuse("C3", f"init_values[{index}] is {initial}", advice)
        computations.check_computation(
            self, "C4", "computation", self.computation, scalars * 2, scalars
        )
        return operands

    # What members give.

    def folded(self, operands: Sequence[Any], initials: Sequence[Any]) -> list[Any]:
        """The N results, by differentiable operations; initials may have the results' sizes."""
        raise self.lacks("folded")

    def over_batch(self, at: int) -> tuple[Self, int]:
        """The operation for operands with a batch at `at`, and where the results have it."""
        raise self.lacks("over_batch")

    def sum_transpose(self, cotangent: Any, operand: Shape) -> Any:
        """The operand's cotangent where the computation is a sum."""
        raise self.lacks("sum_transpose")

    def extreme_jvp(self, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
        """The jvp where the computation is a maximum or minimum."""
        raise self.lacks("extreme_jvp")

    def extreme_vjp(
        self, cotangent: Any, operands: Sequence[Any], result: Any, active: Sequence[bool]
    ) -> Sequence[Any]:
        """The vjp where the computation is a maximum or minimum."""
        raise self.lacks("extreme_vjp")

    # Derivatives.

    def jvp(self, primals, tangents, results):
        monoid = computations.monoid_of(self.computation)
        if monoid == "add":
            return super().jvp(primals, tangents, results)
        if monoid in ("max", "min"):
            return self.extreme_jvp(primals, tangents, results)

        def apply(pairs: Graph, operands: Sequence[Any], initials: Sequence[Any]) -> Any:
            return self(*operands, *initials, computation=pairs)

        moved = tangents_of_fold(self.computation, halves(primals), halves(tangents), apply)
        return as_results(moved)

    def transpose(self, cotangents, operands, linear):
        monoid = computations.monoid_of(self.computation)
        if monoid is None:
            # Linear in the tangents of pairs, whose own values do not matter then.
            pairs = zip(operands, linear, strict=True)
            filled = [zeros(each) if flag else each for each, flag in pairs]
            return self._program_vjp(cotangents, filled, linear)
        if monoid != "add":
            raise self.not_linear(f"{self.computation.name}: it is linear only where it sums")
        of_operand = of_initial = None
        if linear[0]:
            of_operand = self.sum_transpose(cotangents, array_shape(operands[0]))
        if linear[1]:
            of_initial = computations.sum_over(cotangents, range(array_shape(cotangents).rank))
        return of_operand, of_initial

    def vjp(self, cotangents, operands, results, active):
        monoid = computations.monoid_of(self.computation)
        if monoid == "add":
            return self.transpose(cotangents, operands, active)
        if monoid in ("max", "min"):
            return self.extreme_vjp(cotangents, operands, results, active)
        return self._program_vjp(cotangents, operands, active)

    def _program_vjp(
        self, cotangents: Any, operands: Sequence[Any], active: Sequence[bool]
    ) -> Sequence[Any]:
        program = self.program(tuple(map(shape_of, operands)))
        return computations.pulled_program(program, operands, as_tuple(cotangents), active)

    def program(self, shapes: tuple[AnyShape, ...]) -> Graph:
        """The operation as a program of differentiable ones, kept with its computation."""
        name = f"{self.builder_name}_{self.computation.name}"

        def function(*values: Any) -> list[Any]:
            return self.folded(*halves(values))

        return computations.program_of(self, self.computation, shapes, function, name)

    # Batches.

    def batch(self, operands, dimensions):
        count = len(operands) // 2
        arrays, initials = halves(operands)
        if any(dimension is not None for dimension in dimensions[count:]):
            return self._batch_initials(arrays, initials, dimensions)
        moved, at = align_batches(arrays, dimensions[:count])
        operation, out = self.over_batch(at)
        return operation(*moved, *initials), (out,) * count if count > 1 else out

    def _batch_initials(
        self, arrays: Sequence[Any], initials: Sequence[Any], dimensions: Sequence[int | None]
    ) -> tuple[Any, Any]:
        of_arrays, of_initials = halves(dimensions)
        size = batch_size([*arrays, *initials], dimensions)
        if computations.monoid_of(self.computation) is not None:
            return self._batch_monoid(arrays[0], initials[0], of_arrays[0], size)
        columns = zip(arrays, of_arrays, strict=True)
        moved = [move_batch(array, dimension, 0, size) for array, dimension in columns]
        operation, at = self.over_batch(0)
        shapes = [array_shape(array) for array in moved]
        scalars = [Shape(shape.element_type) for shape in shapes]
        results = operation.infer((*shapes, *scalars))
        sizes = as_tuple(results)[0].dimensions
        starts = [
            ops.broadcast_in_dim(initial, sizes, () if dimension is None else (at,))
            for initial, dimension in zip(initials, of_initials, strict=True)
        ]
        folded = operation.folded(moved, starts)
        return as_results(folded), as_results([at] * len(folded))

    def _batch_monoid(self, array: Any, initial: Any, at: int | None, size: int) -> tuple[Any, int]:
        """Over a batch of initial values: they join at the end, the identity takes their place."""
        monoid = computations.monoid_of(self.computation)
        assert monoid is not None
        neutral = computations.neutral_element(monoid, array_shape(array).element_type)
        if at is None:
            total, out = add_batch(self(array, neutral), size, 0), 0
        else:
            operation, out = self.over_batch(at)
            total = operation(array, neutral)
        first = ops.broadcast_in_dim(initial, array_shape(total).dimensions, (out,))
        return computations.apply_computation(self.computation, [first, total])[0], out


def halves(values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """What there is for the operands, and for the initial values."""
    count = len(values) // 2
    return values[:count], values[count:]


def fold_arguments(
    operation: type[Fold], operands: Any, init_values: Any, computation: Graph | Callable[..., Any]
) -> tuple[Sequence[Shape], list[Any], Graph]:
    """What a builder was given: the operands' shapes, all operands, and the computation.

    Arrays and scalars may be alone or in lists, Python numbers are converted, and a function is
    traced on scalars of the operands' types.
    """
    operands, init_values = as_sequence(operands), as_sequence(init_values)
    subject = operation.builder_name
    shapes = operation.array_shapes([shape_of(each, subject) for each in operands])
    if len(operands) != len(init_values) or not operands:
        given = [f"{len(operands)} operands", f"{len(init_values)} initial values"]
        problem = "(C1) operands and initial values do not match"
        raise explain(ShapeError, subject, problem, given, _ONE_EACH)
    scalars = [Shape(shape.element_type) for shape in shapes]
    graph = computations.computation_of(computation, (*scalars, *scalars), subject)
    return shapes, [*operands, *initial_values(shapes, init_values)], graph


_ONE_EACH = "Give one initial value for each operand, at least one."


def as_sequence(values: Any) -> Sequence[Any]:
    """A list or tuple as it is, a single value in a list."""
    return values if isinstance(values, (list, tuple)) else [values]


# Which Python numbers are values of which kinds of element types: those of at least their rank.
_NUMBERS = {bool: 0, int: 1, float: 2, complex: 3}
_KINDS = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}


def initial_values(operands: Sequence[Shape], init_values: Sequence[Any]) -> list[Any]:
    """Initial values as a list; Python numbers become scalars of the operands' element types.

    A Python number that the element type cannot hold as it is (a fraction or a number too large for
    integers) is left for the operation's own check to reject.
    """
    values = list(init_values)
    for index, (operand, value) in enumerate(zip(operands, values, strict=False)):
        rank = _NUMBERS.get(type(value))
        kind = operand.element_type
        if rank is not None and rank <= _KINDS[kind.kind] and holds(kind, value):
            values[index] = splat(value, Shape(kind))
    return values
