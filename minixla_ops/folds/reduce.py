"""Reduce: folding arrays along dimensions with any computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.attributes import Integers, attribute
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import Shape
from minixla_ops.folds.fold import Fold, fold_arguments, halves
from minixla_ops.folds.fold_programs import fold
from minixla_ops.folds.numpy_folds import fold_computation, fold_monoid
from minixla_ops.programs.computations import is_identity, monoid_of, short_form, sum_over
from minixla_ops.vocabulary.shorthand import (
    add_cotangents,
    array_shape,
    as_results,
    listed,
    zeros_like,
)


@register
class Reduce(Fold):
    """Folds N arrays along dimensions, which the results no longer have. XLA: Reduce.

    Starting from the initial values, the running values and the next elements go through
    `computation`, in this order: f(running_0 ... running_N-1, element_0 ... element_N-1). XLA may
    regroup the applications and use the initial values more than once (XLA:CPU does for more than
    32 elements), so f must be associative and the initial values its identity.

    Args:
        operands: N arrays of equal dimensions, or one array.
        init_values: N scalars of their element types, or one; Python numbers are converted.
        computation: a Graph or a function from N running values and N elements (scalars) to N
            scalars, such as `add`.
        dimensions_to_reduce: which dimensions, in any order.

    Returns:
        An array without these dimensions; for N > 1 a tuple of N arrays.

    Checks:
        (C1) ... (C4) see Fold.
        (C5) each dimension is one of the operands'.
        (C6) no dimension is named twice.

    Raises:
        TransformError: the computation reads a traced value of the enclosing function.
    """

    stablehlo_name = "reduce"
    dynamic_operands = EVERY_OPERAND
    dimensions_to_reduce: tuple[int, ...] = attribute(
        Integers(), stablehlo="dimensions", hlo="dimensions"
    )

    def shape(self, *shapes):
        operands = self.check_operands(shapes)
        rank, dimensions = operands[0].rank, self.dimensions_to_reduce
        for dimension in dimensions:
            if not 0 <= dimension < rank:
                problem = f"dimension {dimension} is no dimension of the operands"
                self.refuse_attribute("C5", problem, f"Dimensions must be in [0, {rank}).")
        if len(set(dimensions)) != len(dimensions):
            self.refuse_attribute("C6", "a dimension is named twice", "Name each dimension once.")
        kept = self._kept(rank)
        results = []
        for each in operands:
            sizes = [each.dimensions[at] for at in kept]
            results.append(Shape(each.element_type, sizes, [each.dynamic[at] for at in kept]))
        return as_results(results)

    def _kept(self, rank: int) -> list[int]:
        """The dimensions of operands of rank `rank` that the results have."""
        return [index for index in range(rank) if index not in self.dimensions_to_reduce]

    def _order(self, sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The reduced dimensions before the others, and the sizes where they are one in front."""
        reduced, kept = sorted(self.dimensions_to_reduce), self._kept(len(sizes))
        extent = math.prod([sizes[index] for index in reduced])
        return [*reduced, *kept], [extent, *(sizes[index] for index in kept)]

    def reference(self, *operands):
        arrays, initials = halves(operands)
        monoid = monoid_of(self.computation)
        if monoid is not None:
            axes = tuple(sorted(self.dimensions_to_reduce))
            return fold_monoid(monoid, arrays[0], axes, initials[0])
        order, sizes = self._order(arrays[0].shape)
        stacked = [each.transpose(order).reshape(sizes) for each in arrays]
        return as_results(fold_computation(self.computation, stacked, initials))

    def stablehlo(self, emit, operands, shapes, results):
        operation = short_form(self.computation)
        if operation is None:
            return super().stablehlo(emit, operands, shapes, results)
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.reduce({operands[0]} init: {operands[1]}) applies {operation} "
            f"across dimensions = {list(self.dimensions_to_reduce)} : "
            f"({shapes[0].stablehlo}, {shapes[1].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def folded(self, operands, initials):
        order, sizes = self._order(array_shape(operands[0]).dimensions)
        if order != sorted(order):
            operands = [ops.transpose(operand, order) for operand in operands]
        return fold(self.computation, [ops.reshape(each, sizes) for each in operands], initials)

    def over_batch(self, at):
        shifted = tuple([each + (each >= at) for each in self.dimensions_to_reduce])
        before = sum([each < at for each in shifted])
        return self.replace(dimensions_to_reduce=shifted), at - before

    def sum_transpose(self, cotangent, operand):
        return ops.broadcast_in_dim(cotangent, operand.dimensions, self._kept(operand.rank))

    def extreme_jvp(self, primals, tangents, result):
        of_operand, of_initial = tangents
        winners, alone, count = self._winners(primals, result)
        total = None
        if of_operand is not None:
            total = sum_over(of_operand * winners, self.dimensions_to_reduce)
        if of_initial is not None and alone is not None:
            total = add_cotangents(total, of_initial * alone)
        return None if total is None else total / count

    def extreme_vjp(self, cotangent, operands, result, active):
        winners, alone, count = self._winners(operands, result)
        share = cotangent / count
        of_operand = of_initial = None
        if active[0]:
            of_operand = self.sum_transpose(share, array_shape(operands[0])) * winners
        if active[1] and alone is not None:
            of_initial = sum_over(share * alone, range(array_shape(share).rank))
        return of_operand, of_initial

    def _winners(self, operands: Sequence[Any], result: Any) -> tuple[Any, Any, Any]:
        """What an extreme's derivative is shared among: who attains it, else the start.

        1 at the elements that equal the result, 1 where only the initial value does (None:
        nowhere), 0 elsewhere; and the number of winners. Where the result is NaN all are 0, and the
        derivative is NaN.
        """
        operand, initial = operands
        shape, result_shape = array_shape(operand), array_shape(result)
        kind = shape.element_type
        winners = ops.convert_element_type(ops.eq(operand, self.sum_transpose(result, shape)), kind)
        count = sum_over(winners, self.dimensions_to_reduce)
        if is_identity(monoid_of(self.computation) or "", initial):
            return winners, None, count
        is_initial = ops.eq(ops.broadcast_in_dim(initial, result_shape.dimensions, ()), result)
        alone = ops.convert_element_type(
            ops.and_(is_initial, ops.eq(count, zeros_like(count))), kind
        )
        return winners, alone, count + alone

    @staticmethod
    def build(
        operands: Any,
        init_values: Any,
        computation: Graph | Callable[..., Any],
        dimensions_to_reduce: Sequence[int],
    ) -> Any:
        _, values, graph = fold_arguments(Reduce, operands, init_values, computation)
        return Reduce(graph, listed(dimensions_to_reduce))(*values)
