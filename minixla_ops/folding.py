"""What Reduce and ReduceWindow share: N operands, N initial values and a computation that folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.attributes import Instance
from minixla.core.derived import call_vjp_graphs, vjp_graphs
from minixla.core.errors import DerivativeError, explain
from minixla.core.graph import Graph
from minixla.core.linear import instantiate, linear_jvp
from minixla.core.operation import EVERY_OPERAND, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph, shape_of
from minixla_ops.batching import add_batch, batch_size, move_batch
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.computations import (
    apply_computation,
    check_computation,
    computation_of,
    monoid_of,
    neutral_element,
)
from minixla_ops.fold_programs import paired_computation
from minixla_ops.rules import array_shape, holds, splat, sum_over, zeros

__all__ = ["Fold", "as_sequence", "fold_arguments", "initial_values", "not_a_sum"]


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

    operand_names = ("operands...", "init_values...")
    linear_operands = EVERY_OPERAND
    attributes = {"computation": Instance(Graph)}

    def operand_labels(self, count: int) -> list[str]:
        half = count // 2
        operands = [f"operands[{index}]" for index in range(count - half)]
        return operands + [f"init_values[{index}]" for index in range(half)]

    def check_operands(self, shapes: Sequence[AnyShape], computation: Graph) -> Sequence[Shape]:
        """The shapes of the N operands, after checks C1 to C4."""
        count = len(shapes) // 2
        labels = self.operand_labels(len(shapes))
        given = [f"{label} {shape}" for label, shape in zip(labels, shapes, strict=True)]
        if len(shapes) % 2 or not shapes:
            self.reject(
                "C1",
                f"{len(shapes)} operands and initial values together",
                given,
                _ONE_EACH,
            )
        arrays = self.array_shapes(shapes)
        operands, initials = arrays[:count], arrays[count:]
        for index, operand in enumerate(operands):
            if operand.dimensions != operands[0].dimensions:
                self.reject(
                    "C2",
                    f"operands[0] and operands[{index}] differ in dimensions",
                    given,
                    "All operands must have the same dimensions.",
                )
        scalars = tuple([Shape(operand.element_type) for operand in operands])
        for index, (initial, scalar) in enumerate(zip(initials, scalars, strict=True)):
            if initial is not scalar:
                self.reject(
                    "C3",
                    f"init_values[{index}] is {initial}",
                    given,
                    f"It must be a scalar of its operand's element type: {scalar}.",
                )
        check_computation(self, "C4", "computation", computation, scalars * 2, scalars)
        return operands

    # What members give.

    def folded(
        self, operands: Sequence[Any], initials: Sequence[Any], **attributes: Any
    ) -> list[Any]:
        """The N results, by a program of differentiable operations.

        Args:
            operands: N values of the current trace.
            initials: N scalars, or values of the results' dimensions.
            attributes: the operation's.
        """
        raise NotImplementedError

    def over_batch(self, at: int, **attributes: Any) -> tuple[dict[str, Any], int]:
        """The attributes for operands with a batch at `at`, and where the results have it."""
        raise NotImplementedError

    def sum_transpose(self, cotangent: Any, operand: Shape, **attributes: Any) -> Any:
        """The operand's cotangent where the computation is a sum."""
        raise NotImplementedError

    def extreme_jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], result: Any, **attributes: Any
    ) -> Any:
        """The jvp where the computation is a maximum or minimum."""
        raise NotImplementedError

    def extreme_vjp(
        self,
        cotangent: Any,
        operands: Sequence[Any],
        result: Any,
        active: Sequence[bool],
        **attributes: Any,
    ) -> Sequence[Any]:
        """The vjp where the computation is a maximum or minimum."""
        raise NotImplementedError

    # Derivatives.

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        results: Any,
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Any:
        attributes["computation"] = computation
        monoid = monoid_of(computation)
        if monoid == "add":
            return linear_jvp(self, primals, tangents, attributes)
        if monoid in ("max", "min"):
            return self.extreme_jvp(primals, tangents, results, **attributes)
        return self._folded_pairs(primals, tangents, **attributes)

    def _folded_pairs(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Any:
        count = len(primals) // 2
        halves = zip(tangents[:count], tangents[count:], strict=True)
        moving = [one is not None or other is not None for one, other in halves]
        pairs, carried = paired_computation(computation, moving)
        wanted = [
            instantiate(tangent, primal)
            for tangent, primal, flag in zip(tangents, primals, carried * 2, strict=True)
            if flag
        ]
        half = len(wanted) // 2
        operands = [*primals[:count], *wanted[:half], *primals[count:], *wanted[half:]]
        found = iter(bind(self, *operands, computation=pairs, **attributes)[count:])
        given = tuple([next(found) if flag else None for flag in carried])
        return given if count > 1 else given[0]

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Sequence[Any]:
        monoid = monoid_of(computation)
        if monoid is None:
            # Linear in the tangents of pairs, whose own values do not matter then.
            filled = [
                zeros(each) if flag else each for each, flag in zip(operands, linear, strict=True)
            ]
            return self._program_vjp(
                cotangents, filled, linear, computation=computation, **attributes
            )
        if monoid != "add":
            raise not_a_sum(self, computation)
        of_operand = of_initial = None
        if linear[0]:
            of_operand = self.sum_transpose(cotangents, array_shape(operands[0]), **attributes)
        if linear[1]:
            of_initial = sum_over(cotangents, range(array_shape(cotangents).rank))
        return of_operand, of_initial

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        monoid = monoid_of(attributes["computation"])
        if monoid == "add":
            return self.transpose(cotangents, operands, active, **attributes)
        if monoid in ("max", "min"):
            return self.extreme_vjp(cotangents, operands, results, active, **attributes)
        return self._program_vjp(cotangents, operands, active, **attributes)

    def _program_vjp(
        self, cotangents: Any, operands: Sequence[Any], active: Sequence[bool], **attributes: Any
    ) -> Sequence[Any]:
        program = self.program(tuple(map(shape_of, operands)), **attributes)
        graphs = vjp_graphs(program, tuple(active))
        _, pullback = call_vjp_graphs(graphs, len(operands) // 2, list(operands))
        given = cotangents if type(cotangents) is tuple else (cotangents,)
        return pullback({i: each for i, each in enumerate(given) if each is not None})

    def program(self, shapes: tuple[Any, ...], **attributes: Any) -> Graph:
        """The operation as a program of differentiable ones, kept with its computation."""
        computation = attributes["computation"]
        others = {name: value for name, value in attributes.items() if name != "computation"}
        key = ("program", self.name, shapes, tuple(others.items()))
        program = computation.memo.get(key)
        if program is None:

            def function(*operands: Any) -> list[Any]:
                count = len(operands) // 2
                return self.folded(operands[:count], operands[count:], **attributes)

            name = f"{self.builder_name}_{computation.name}"
            program = closed_graph(function, shapes, self.builder_name, name)
            computation.memo[key] = program
        return program

    # Batches.

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, Any]:
        count = len(operands) // 2
        size = batch_size(operands, dimensions)
        arrays, initials = list(operands[:count]), list(operands[count:])
        if any(dimension is not None for dimension in dimensions[count:]):
            return self._batch_initials(arrays, initials, dimensions, size, **attributes)
        at = next(dimension for dimension in dimensions[:count] if dimension is not None)
        moved = [
            move_batch(array, dimension, at, size)
            for array, dimension in zip(arrays, dimensions, strict=False)
        ]
        attributes, out = self.over_batch(at, **attributes)
        results = bind(self, *moved, *initials, **attributes)
        return results, (out,) * count if count > 1 else out

    def _batch_initials(
        self,
        arrays: list[Any],
        initials: list[Any],
        dimensions: Sequence[int | None],
        size: int,
        **attributes: Any,
    ) -> tuple[Any, Any]:
        monoid = monoid_of(attributes["computation"])
        if monoid is not None:
            starts = initials[0], dimensions[0]
            return self._batch_monoid(monoid, arrays[0], *starts, size, **attributes)
        moved = [
            move_batch(array, dimension, 0, size)
            for array, dimension in zip(arrays, dimensions, strict=False)
        ]
        within, at = self.over_batch(0, **attributes)
        shapes = [array_shape(array) for array in moved]
        scalars = [Shape(shape.element_type) for shape in shapes]
        results, _ = self.infer((*shapes, *scalars), within)
        sizes = (results if type(results) is tuple else (results,))[0].dimensions  # type: ignore[union-attr]
        starts = [
            broadcast_in_dim(initial, sizes, () if dimension is None else (at,))
            for initial, dimension in zip(initials, dimensions[len(arrays) :], strict=True)
        ]
        folded = self.folded(operands=moved, initials=starts, **within)
        return (tuple(folded), (at,) * len(folded)) if len(folded) > 1 else (folded[0], at)

    def _batch_monoid(
        self, monoid: str, array: Any, initial: Any, at: int | None, size: int, **attributes: Any
    ) -> tuple[Any, int]:
        """Over a batch of initial values: they join at the end, the identity takes their place."""
        neutral = neutral_element(monoid, array_shape(array).element_type)
        if at is None:
            total, out = add_batch(bind(self, array, neutral, **attributes), size, 0), 0
        else:
            within, out = self.over_batch(at, **attributes)
            total = bind(self, array, neutral, **within)
        first = broadcast_in_dim(initial, array_shape(total).dimensions, (out,))
        return apply_computation(attributes["computation"], [first, total])[0], out


def not_a_sum(operation: Operation, computation: Graph) -> DerivativeError:
    """The error for the transpose of an operation that is linear only where it sums."""
    return explain(
        DerivativeError,
        operation.builder_name,
        "a jvp rule applies it to a tangent, but it is linear only where it sums",
        [f"computation {computation.name}"],
        "A jvp rule must be linear in its tangents, for reverse mode transposes it.",
    )


def fold_arguments(
    operation: Fold, operands: Any, init_values: Any, computation: Graph | Callable[..., Any]
) -> tuple[Sequence[Shape], list[Any], Graph]:
    """What a builder's arguments stand for.

    Args:
        operation: the operation.
        operands: a list or tuple of arrays, or one array.
        init_values: a list or tuple of scalars, or one; Python numbers are converted.
        computation: a Graph, or a function that is traced on scalars of the operands' types.

    Returns:
        The shapes of the operands; operands and initial values; the computation.
    """
    operands, init_values = as_sequence(operands), as_sequence(init_values)
    shapes = operation.array_shapes([shape_of(each, operation.builder_name) for each in operands])
    if len(operands) != len(init_values) or not operands:
        given = [f"{len(operands)} operands", f"{len(init_values)} initial values"]
        operation.reject("C1", "operands and initial values do not match", given, _ONE_EACH)
    scalars = [Shape(shape.element_type) for shape in shapes]
    graph = computation_of(computation, (*scalars, *scalars), operation.builder_name)
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
            values[index] = splat(value, Shape(operand.element_type))
    return values
