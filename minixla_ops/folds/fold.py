"""Reduce, and the base class that it shares with ReduceWindow: a fold of N operands."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import minixla_ops as ops
from minixla.core import AnyShape, Graph, Shape, shape_of
from minixla.core.attributes import Instance, Integers, attribute
from minixla.core.builders import builds
from minixla.core.errors import ShapeError, explain
from minixla.core.linear import instantiate, zeros_like
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.sharding_rule import ABSENT, PASS_THROUGH, REDUCTION
from minixla.typing import Array, ArrayLike
from minixla_ops.folds.fold_programs import fold, tangents_of_fold
from minixla_ops.folds.numpy_folds import fold_computation, fold_monoid
from minixla_ops.helpers import GIVEN, shorthand
from minixla_ops.helpers.batch_dimensions import batch_size, move_batch, shifted
from minixla_ops.helpers.checks import check_dimensions, check_equal_dimensions
from minixla_ops.helpers.shorthand import Values, array_shape, as_results, as_tuple, splat
from minixla_ops.programs import computations
from minixla_ops.programs.computations import Computation

_T = TypeVar("_T")


class Fold(Operation):
    """Base class of operations that fold N arrays by a computation, from N initial values.

    Checks:
        (C1) there is one initial value for each operand, and at least one operand.
        (C2) the operands are arrays with equal dimensions.
        (C3) each initial value is a scalar of its operand's element type.
        (C4) the computation takes and returns scalars of the operands' element types.

    Sums are linear. For other computations, forward mode folds pairs of values and tangents, and
    reverse mode differentiates a program (`fold_programs.fold`). Subclasses have better rules for
    maxima and minima.

    Subclasses define
        folded(operands, initials): the N results by differentiable operations; initials may have
            the results' sizes.
        over_batch(at): the operation for operands batched at `at`, and the results' batch
            dimension.
        sum_transpose(cotangent, operand): the operand's cotangent if the computation is a sum.
        extreme_jvp(tangent, operand, result), extreme_vjp(cotangent, operand, result): the
            operand's rules if the computation is a maximum or minimum.
    """

    operands = "operands...", "init_values..."
    linear_operands = EVERY_OPERAND
    folded = over_batch = sum_transpose = extreme_jvp = extreme_vjp = GIVEN
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")

    def check_operands(self, shapes: Sequence[Shape]) -> Sequence[Shape]:
        """Run checks C1 to C4 and return the shapes of the N operands."""
        if len(shapes) % 2 or not shapes:
            self.refuse(
                "C1",
                f"the number of operands and initial values, {len(shapes)}, must be even",
                _ONE_EACH,
            )
        operands, initials = halves(shapes)
        check_equal_dimensions(self, "C2", "operands", operands)
        scalars = tuple([Shape(operand.element_type) for operand in operands])
        for index, (initial, scalar) in enumerate(zip(initials, scalars, strict=True)):
            if initial is not scalar:
                self.refuse("C3", f"init_values[{index}] must be {scalar}, not {initial}")
        wanted = scalars * 2, scalars
        computations.check_computation(self, "C4", "computation", self.computation, *wanted)
        return operands

    def jvp(self, primals, tangents, results):
        monoid = computations.monoid_of(self.computation)
        if monoid == "add":
            return super().jvp(primals, tangents, results)
        if monoid in ("max", "min"):
            best, starts = self._split(primals, results)
            of_operand, of_initial = tangents
            tangent = None if of_operand is None else self.extreme_jvp(of_operand, primals[0], best)
            if starts is None:
                return tangent
            if of_initial is not None:
                of_initial = ops.broadcast_in_dim(of_initial, array_shape(best).dimensions, ())
            return ops.select(starts, instantiate(of_initial, best), instantiate(tangent, best))

        def apply(pairs: Graph, operands: Values, initials: Values) -> Values:
            return self(*operands, *initials, computation=pairs)

        moved = tangents_of_fold(self.computation, halves(primals), halves(tangents), apply)
        return as_results(moved)

    def transpose(self, cotangents, operands, linear):
        monoid = computations.monoid_of(self.computation)
        if monoid is None:
            # It is linear in the tangents; the primal values do not matter then.
            pairs = zip(operands, linear, strict=True)
            filled: list[Any] = [
                shorthand.zeros(tangent) if flag else tangent for tangent, flag in pairs
            ]
            return self._program_vjp(cotangents, filled, linear)
        if monoid != "add":
            raise self.not_linear(f"{self.computation.name}: only sums are linear")
        return (
            self.sum_transpose(cotangents, array_shape(operands[0])) if linear[0] else None,
            computations.total(cotangents) if linear[1] else None,
        )

    def vjp(self, cotangents, operands, results, active):
        monoid = computations.monoid_of(self.computation)
        if monoid == "add":
            return self.transpose(cotangents, operands, active)
        if monoid in ("max", "min"):
            best, starts = self._split(operands, results)
            zero = zeros_like(cotangents)
            inside = cotangents if starts is None else ops.select(starts, zero, cotangents)
            of_operand = self.extreme_vjp(inside, operands[0], best) if active[0] else None
            if starts is None or not active[1]:
                return of_operand, None
            return of_operand, computations.total(ops.select(starts, cotangents, zero))
        return self._program_vjp(cotangents, operands, active)

    def _split(self, operands: Values, result: Array) -> tuple[Array, Array | None]:
        """Return the extremes of the elements only, and where the initial value beats them."""
        operand, initial = operands
        monoid = computations.monoid_of(self.computation) or ""
        if computations.is_identity(monoid, initial):
            return result, None
        kind = array_shape(operand).element_type
        best = self(operand, computations.neutral_element(monoid, kind))
        spread = ops.broadcast_in_dim(initial, array_shape(best).dimensions, ())
        return best, (ops.gt if monoid == "max" else ops.lt)(spread, best)

    def _program_vjp(
        self, cotangents: object, operands: Sequence[Array], active: Sequence[bool]
    ) -> Sequence[Array | None]:
        program = self.program(tuple(map(shape_of, operands)))
        return computations.pulled_program(program, operands, as_tuple(cotangents), active)

    def program(self, shapes: tuple[AnyShape, ...]) -> Graph:
        """Return the operation as a program of differentiable operations, cached."""

        def function(*values: Array) -> list[Array]:
            return self.folded(*halves(values))

        return computations.program_of(self, self.computation, shapes, function)

    def batch(self, operands, dimensions):
        (arrays, initials), (of_arrays, of_initials) = halves(operands), halves(dimensions)
        size = batch_size(operands, dimensions)
        at = next((array for array in of_arrays if array is not None), 0)
        columns = zip(arrays, of_arrays, strict=True)
        moved = [move_batch(array, dimension, at, size) for array, dimension in columns]
        operation, out = self.over_batch(at)
        places = as_results([out] * len(moved))
        if all(dimension is None for dimension in of_initials):
            return operation(*moved, *initials), places
        scalars = [array_shape(array).with_dimensions(()) for array in moved]
        sizes = as_tuple(operation.infer((*map(array_shape, moved), *scalars)))[0].dimensions
        starts = [
            ops.broadcast_in_dim(initial, sizes, () if dimension is None else (out,))
            for initial, dimension in zip(initials, of_initials, strict=True)
        ]
        monoid = computations.monoid_of(self.computation)
        if monoid is None:
            return as_results(operation.folded(moved, starts)), places
        # Apply the initial values at the end; the fold starts from the identity.
        total = operation(*moved, computations.neutral_element(monoid, scalars[0].element_type))
        return computations.apply_computation(self.computation, [*starts, total])[0], out


def halves(values: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    """Split a sequence into the parts for the operands and for the initial values."""
    count = len(values) // 2
    return values[:count], values[count:]


def fold_arguments(
    operation: type[Fold],
    operands: ArrayLike | Sequence[ArrayLike],
    init_values: ArrayLike | Sequence[ArrayLike],
    computation: Computation,
) -> tuple[Sequence[Shape], list[Any], Graph]:
    """Return the operands' shapes, all operands, and the computation of a builder's arguments."""
    operands, init_values = as_sequence(operands), as_sequence(init_values)
    subject = operation.builder_name
    shapes = operation.array_shapes([shape_of(operand, subject) for operand in operands])
    if len(operands) != len(init_values) or not operands:
        details = [f"{len(operands)} operands", f"{len(init_values)} initial values"]
        problem = "(C1) there must be one initial value for each operand"
        raise explain(ShapeError, subject, problem, details, _ONE_EACH)
    scalars = [Shape(shape.element_type) for shape in shapes]
    graph = computations.computation_of(computation, (*scalars, *scalars), subject)
    return shapes, [*operands, *initial_values(shapes, init_values)], graph


_ONE_EACH = "Pass one or more operands, and one initial value for each."


def as_sequence(values: ArrayLike | Sequence[ArrayLike]) -> Sequence[Any]:
    """Return a list or tuple as it is, and a single value in a list."""
    return values if isinstance(values, (list, tuple)) else [values]


# A Python scalar is converted if its rank is at most that of the element type's kind.
_NUMBERS = {bool: 0, int: 1, float: 2, complex: 3}
_KINDS = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}


def initial_values(operands: Sequence[Shape], init_values: Sequence[Any]) -> list[Any]:
    """Convert initial values that are Python scalars and fit the operands' element types."""
    values = list(init_values)
    for index, (operand, value) in enumerate(zip(operands, values, strict=False)):
        rank = _NUMBERS.get(type(value))
        kind = operand.element_type
        if rank is not None and rank <= _KINDS[kind.kind] and shorthand.holds(kind, value):
            values[index] = splat(value, Shape(kind))
    return values


@register
class Reduce(Fold):
    """Fold N arrays along dimensions, and remove these dimensions. XLA: Reduce.

    `computation` combines the running values, at first the initial values, with the next elements:
    f(running_0 ... running_N-1, element_0 ... element_N-1). XLA may regroup the applications and
    use the initial values more than once. Therefore, f must be associative and the initial values
    its identity.

    Args:
        operands: N arrays with equal dimensions, or one array.
        init_values: N scalars with their element types, or one; Python scalars are converted.
        computation: a Graph or a function from N running values and N elements (scalars) to N
            scalars, such as `add`.
        dimensions_to_reduce: the dimensions to reduce, in any order.

    Returns:
        An array without these dimensions; for N > 1 a tuple of N arrays.

    Checks:
        (C1) ... (C4) see Fold.
        (C5) each dimension is a dimension of the operands.
        (C6) no dimension is repeated.

    Raises:
        TransformError: the computation reads a traced value of the enclosing function.

    Example:
        >>> ops.reduce(np.int32([[1, 2], [3, 4]]), 0, ops.add, [0])
        Array([4, 6], dtype=int32)
    """

    stablehlo_name = "reduce"
    dynamic_operands = EVERY_OPERAND
    dimensions_to_reduce: tuple[int, ...] = attribute(
        Integers(), stablehlo="dimensions", hlo="dimensions"
    )

    def shape(self, *shapes):
        operands = self.check_operands(shapes)
        dimensions = self.dimensions_to_reduce
        check_dimensions(self, "C5", operands[0], *dimensions, of="operands")
        if len(set(dimensions)) != len(dimensions):
            self.refuse_attribute("C6", "dimensions_to_reduce must not repeat a dimension")
        kept = self._kept(operands[0].rank)
        results = []
        for operand in operands:
            sizes = [operand.dimensions[at] for at in kept]
            results.append(Shape(operand.element_type, sizes, [operand.dynamic[at] for at in kept]))
        return as_results(results)

    def _kept(self, rank: int) -> list[int]:
        """Return the dimensions, among `rank`, that are not reduced."""
        return [index for index in range(rank) if index not in self.dimensions_to_reduce]

    def _order(self, sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the order with reduced dimensions first, and the sizes with them merged first."""
        reduced, kept = sorted(self.dimensions_to_reduce), self._kept(len(sizes))
        extent = math.prod([sizes[index] for index in reduced])
        return [*reduced, *kept], [extent, *(sizes[index] for index in kept)]

    def reference(self, *operands):
        arrays, initials = halves(operands)
        monoid = computations.monoid_of(self.computation)
        if monoid is not None:
            axes = tuple(sorted(self.dimensions_to_reduce))
            return fold_monoid(monoid, arrays[0], axes, initials[0])
        order, sizes = self._order(arrays[0].shape)
        stacked = [array.transpose(order).reshape(sizes) for array in arrays]
        return as_results(fold_computation(self.computation, stacked, initials))

    def stablehlo(self, emit, operands, shapes, results):
        operation = computations.short_form(self.computation)
        if operation is None:
            return super().stablehlo(emit, operands, shapes, results)
        text = f"stablehlo.reduce({operands[0]} init: {operands[1]}) applies {operation} across"
        text = f"{text} dimensions = {list(self.dimensions_to_reduce)}"
        return shorthand.written(emit, text, shapes, results[0])

    def folded(self, operands, initials):
        order, sizes = self._order(array_shape(operands[0]).dimensions)
        if order != sorted(order):
            operands = [ops.transpose(operand, order) for operand in operands]
        return fold(
            self.computation, [ops.reshape(operand, sizes) for operand in operands], initials
        )

    def over_batch(self, at):
        reduced = shifted(self.dimensions_to_reduce, at)
        return self.replace(dimensions_to_reduce=reduced), at - sum(
            [dimension < at for dimension in reduced]
        )

    def sharding_rule(self, *operands):
        rule, count = self.sharding_factors(operands), len(operands) // 2
        kept = self._kept(operands[0].rank)
        for index, size in enumerate(operands[0].dimensions):
            at = kept.index(index) if index in kept else ABSENT
            kind = PASS_THROUGH if index in kept else REDUCTION
            rule.add([index] * count + [ABSENT] * count, [at] * count, size, kind)
        return rule.build()

    def sum_transpose(self, cotangent, operand):
        return ops.broadcast_in_dim(cotangent, operand.dimensions, self._kept(operand.rank))

    def extreme_jvp(self, tangent, operand, result):
        winners, count = self._winners(operand, result)
        return computations.sum_over(tangent * winners, self.dimensions_to_reduce) / count

    def extreme_vjp(self, cotangent, operand, result):
        winners, count = self._winners(operand, result)
        return self.sum_transpose(cotangent / count, array_shape(operand)) * winners

    def _winners(self, operand: Array, result: Array) -> tuple[Array, Array]:
        """Return a mask, 1 for elements equal to an extreme and else 0, and the count of ones.

        The extreme's derivative is shared among them. The count is 0 if the result is NaN, and the
        derivative then is NaN, too.
        """
        shape = array_shape(operand)
        wins = ops.eq(operand, self.sum_transpose(result, shape))
        winners = ops.convert_element_type(wins, shape.element_type)
        return winners, computations.sum_over(winners, self.dimensions_to_reduce)


@builds(Reduce)
def reduce(
    operands: ArrayLike | Sequence[ArrayLike],
    init_values: ArrayLike | Sequence[ArrayLike],
    computation: Computation,
    dimensions_to_reduce: Sequence[int],
) -> Any:
    _, values, graph = fold_arguments(Reduce, operands, init_values, computation)
    return Reduce(graph, shorthand.listed(dimensions_to_reduce))(*values)
