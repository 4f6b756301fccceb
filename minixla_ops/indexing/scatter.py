"""Scatter: combine updates with windows of arrays at positions given by an array of indices."""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import minixla_ops as ops
from minixla.core import Graph, Shape, register, shape_of
from minixla.core.attributes import Flag, Instance, attribute
from minixla.core.builders import builds
from minixla.core.errors import ShapeError, explain
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION, PASS_THROUGH, REDUCTION
from minixla.typing import Array, ArrayLike
from minixla_ops.folds.fold import as_sequence
from minixla_ops.helpers.batch_dimensions import batch_size, member_shapes, shifted
from minixla_ops.helpers.checks import check_equal_dimensions
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple, zeros
from minixla_ops.indexing import index_numbers, indexed_windows, window_bounds
from minixla_ops.indexing.index_numbers import NumbersAttribute, ScatterDimensionNumbers
from minixla_ops.indexing.scatter_computations import apply_updates, combines, split
from minixla_ops.programs import computations
from minixla_ops.programs.call import Call
from minixla_ops.programs.runs_programs import moved_batches

_ONE_EACH = "Pass one or more operands, and one array of updates for each."


@register
class Scatter(indexed_windows.IndexedWindows):
    """Combine updates with N arrays at positions given by an array of index vectors. XLA: Scatter.

    results = operands; then, for each index u of the updates, results[start(g) + window(u)] =
    update_computation(results[start(g) + window(u)]..., updates[u]...). The entries g of u that
    are not in update_window_dims select an index vector of scatter_indices. Its component k is the
    start in operand dimension scatter_dims_to_operand_dims[k]. Starts in operand_batching_dims are
    the entries of g, and starts in other dimensions are 0. The entries of u in update_window_dims
    index the window without inserted_window_dims and operand_batching_dims. Elements outside the
    operands are skipped.

    The order of updates is not specified. Here windows are applied in the order of index vectors.
    XLA skips a whole window that is partly outside, while StableHLO skips single elements. The
    StableHLO text is written such that XLA skips single elements, too.

    Args:
        operands: an array, or a sequence of N arrays with equal dimensions.
        scatter_indices: an array of integers that holds index vectors along one dimension.
        updates: an array, or N arrays, with the operands' element types and a window for each index
            vector.
        update_computation: a Graph, or a function such as `add`, from N old values and N updates,
            all scalars, to N new values. Old values come first.
        dimension_numbers: a ScatterDimensionNumbers, which relates the dimensions of the arrays.
        indices_are_sorted: a promise that the starts ascend; else the result is undefined.
        unique_indices: a promise that no element is updated twice; else the result is undefined.
        indices_in_bounds: a promise that all elements of windows are inside the operands. It makes
            derivatives, and windows larger than one element, cheaper.

    Returns:
        An array like the operand, or a tuple of N.

    Checks (windows are those of IndexedWindows):
        (C1) ... (C10) see IndexedWindows.
        (C11) there are N >= 1 operands, the indices and N updates.
        (C12) operands have equal dimensions.
        (C13) updates have equal dimensions and the element types of their operands.
        (C14) the updates' rank is that of the indices without index_vector_dim plus the number of
            update_window_dims.
        (C15) windows are not larger than the operand.
        (C16) the other sizes of the updates are those of the indices without index_vector_dim.
        (C17) update_computation takes and returns scalars of the operands' element types.

    Raises:
        TransformError: the function reads traced values of the enclosing function.

    Example:
        >>> numbers = ops.ScatterDimensionNumbers(
        ...     update_window_dims=(),
        ...     inserted_window_dims=(0,),
        ...     scatter_dims_to_operand_dims=(0,),
        ...     index_vector_dim=1,
        ... )
        >>> zeros, places = np.int32([0, 0, 0]), np.int32([[2], [0], [2]])
        >>> ops.scatter(zeros, places, np.int32([1, 2, 3]), ops.add, numbers)
        Array([2, 0, 4], dtype=int32)
    """

    stablehlo_name = "scatter"
    operands = "operands...", "scatter_indices", "updates..."
    dimension_numbers: ScatterDimensionNumbers = attribute(
        NumbersAttribute(ScatterDimensionNumbers), stablehlo="scatter_dimension_numbers"
    )
    update_computation: Graph = attribute(Instance(Graph), hlo="to_apply")
    indices_are_sorted: bool = attribute(Flag(), default=False)
    unique_indices: bool = attribute(Flag(), default=False)
    indices_in_bounds: bool = attribute(Flag(), default=False, stablehlo=None, hlo=None)

    def is_linear_in(self, variables):
        # The transpose rule knows which update computations are linear.
        return not variables[len(variables) // 2]

    def shape(self, *shapes):
        operands, indices, updates = split(shapes)
        if len(operands) != len(updates) or not operands:
            problem = f"there are {len(operands)} operands and {len(updates)} updates"
            self.refuse("C11", problem, _ONE_EACH)
        check_equal_dimensions(self, "C12", "operands", operands)
        check_equal_dimensions(self, "C13", "updates", updates)
        for index, (operand, update) in enumerate(zip(operands, updates, strict=True)):
            if update.element_type is not operand.element_type:
                problem = f"operands[{index}] and updates[{index}] must have equal element types"
                self.refuse("C13", problem, "Convert one of them with convert_element_type.")
        self.check_numbers(operands[0], indices)
        self._check_updates(operands[0], indices, updates[0])
        scalars = [Shape(operand.element_type) for operand in operands]
        computation, name = self.update_computation, "update_computation"
        computations.check_computation(self, "C17", name, computation, scalars * 2, scalars)
        return as_results(operands)

    def _check_updates(self, operand: Shape, indices: Shape, updates: Shape) -> None:
        numbers = self.dimension_numbers
        outer = index_numbers.without_vectors(indices.dimensions, numbers.index_vector_dim)
        window_dims = numbers.update_window_dims
        if updates.rank != len(outer) + len(window_dims):
            problem = (
                f"updates must have rank {len(outer)} + {len(window_dims)}, not {updates.rank}"
            )
            self.refuse("C14", problem)
        inner = index_numbers.window_dimensions(operand.rank, numbers)
        for at, place in zip(inner, window_dims, strict=True):
            size, whole = updates.dimensions[place], operand.dimensions[at]
            if size > whole:
                self.refuse("C15", f"window size {size} exceeds the size {whole} of dimension {at}")
        places = index_numbers.outer_dimensions(updates.rank, numbers)
        for at, size in zip(places, outer, strict=True):
            given = updates.dimensions[at]
            if given != size:
                self.refuse(
                    "C16", f"dimension {at} of the updates must have size {size}, not {given}"
                )

    def reference(self, *arrays):
        operands, indices, updates = split(arrays)
        numbers, sizes = self.dimension_numbers, operands[0].shape
        windows = index_numbers.window_sizes(sizes, updates[0].shape, numbers)
        places, inside = indexed_windows.target_places(indices, sizes, numbers, windows)
        outer = index_numbers.outer_dimensions(updates[0].ndim, numbers)
        order = [*outer, *numbers.update_window_dims]
        results = [operand.flatten() for operand in operands]
        values = [update.transpose(order)[inside] for update in updates]
        apply_updates(self.update_computation, results, places[inside], values)
        return as_results([result.reshape(sizes) for result in results])

    def stablehlo(self, emit, operands, shapes, results):
        operand, *_, updates = shapes
        numbers = self.dimension_numbers
        windows = index_numbers.window_sizes(operand.dimensions, updates.dimensions, numbers)
        if not self.indices_in_bounds and window_bounds.may_lie_partly_outside(numbers, windows):
            function = self._by_elements
        elif not numbers.scatter_dims_to_operand_dims and updates.size > math.prod(windows):
            function = self._with_index_component
        else:
            return super().stablehlo(emit, operands, shapes, results)
        program = computations.program_of(self, self.update_computation, tuple(shapes), function)
        return Call(program).stablehlo(emit, operands, shapes, results)

    def _by_elements(self, *values: Array) -> Sequence[Array]:
        """Scatter into padded operands: XLA skips whole windows that are partly outside."""
        operands, indices, updates = split(values)
        sizes, numbers = array_shape(operands[0]).dimensions, self.dimension_numbers
        windows = index_numbers.window_sizes(sizes, array_shape(updates[0]).dimensions, numbers)
        config, moved = window_bounds.into_padding(indices, numbers, sizes, windows)
        # In the padding, windows may overlap and be in another order, although targets do not.
        inside = Scatter(numbers, self.update_computation, indices_in_bounds=True)
        framed = [window_bounds.framed(operand, config) for operand in operands]
        results = inside(*framed, moved, *updates)
        return [window_bounds.unframed(result, config) for result in as_tuple(results)]

    def _with_index_component(self, *values: Array) -> Sequence[Array]:
        """Add an operand dimension with index 0: XLA may drop windows without index components."""
        operands, indices, updates = split(values)
        numbers = self.dimension_numbers
        sizes, at = array_shape(operands[0]).dimensions, numbers.index_vector_dim
        outer = index_numbers.without_vectors(array_shape(indices).dimensions, at)
        inserted, batching = (shifted(dimensions, 0) for dimensions in (numbers[1], numbers[4]))
        along = [d - (d > at) for d in numbers.scatter_indices_batching_dims]
        parts = (0, *inserted), (0,), len(outer), batching, along
        indexed = ScatterDimensionNumbers(numbers.update_window_dims, *parts)
        raised = [ops.reshape(operand, (1, *sizes)) for operand in operands]
        start = zeros(Shape("s32", (*outer, 1)))
        inside = Scatter(indexed, self.update_computation, indices_in_bounds=True)
        return [ops.reshape(result, sizes) for result in as_tuple(inside(*raised, start, *updates))]

    def jvp(self, primals, tangents, results):
        results = as_tuple(results)
        return as_results(_derivatives().scatter_jvp(self, primals, tangents, results))

    def transpose(self, cotangents, operands, linear):
        cotangents = as_tuple(cotangents)
        return _derivatives().scatter_pull(self, cotangents, operands, None, linear)

    def vjp(self, cotangents, operands, results, active):
        cotangents, results = as_tuple(cotangents), as_tuple(results)
        return _derivatives().scatter_pull(self, cotangents, operands, results, active)

    def batch(self, operands, dimensions):
        numbers, size = self.dimension_numbers, batch_size(operands, dimensions)
        arrays, indices, updates = split(operands)
        of_arrays, indices_at, of_updates = split(dimensions)
        operand_at = next((at for at in of_arrays if at is not None), 0)
        updates_at = next((at for at in of_updates if at is not None), 0)
        members = member_shapes(operands, dimensions)
        ranks = array_shape(members[0]).rank, array_shape(members[-1]).rank
        places = operand_at, indices_at
        whole, updates_at = index_numbers.batched_numbers(numbers, ranks, places, updates_at)
        arrays = moved_batches(arrays, of_arrays, [operand_at] * len(arrays), size)
        updates = moved_batches(updates, of_updates, [updates_at] * len(arrays), size)
        is_sorted = self.indices_are_sorted and indices_at is None
        operation = self.replace(dimension_numbers=whole, indices_are_sorted=is_sorted)
        results = operation(*arrays, indices, *updates)
        return results, as_results([operand_at] * len(arrays))

    def sharding_rule(self, *shapes):
        rule, (operands, indices, updates) = self.sharding_factors(shapes), split(shapes)
        count, operand, update = len(operands), operands[0].dimensions, updates[0].dimensions

        def add(operand_dimension: int, along: int, index: int, size: int, kind: str) -> None:
            rule.add(
                [*[operand_dimension] * count, along, *[index] * count],
                [operand_dimension] * count,
                size,
                kind,
            )

        def add_part(operand_dimension: int, index: int) -> None:
            add(operand_dimension, ABSENT, ABSENT, operand[operand_dimension], NEED_REPLICATION)
            add(ABSENT, ABSENT, index, update[index], NEED_REPLICATION)

        arrays = operand, indices.dimensions, update
        kind = REDUCTION if combines(self.update_computation) else NEED_REPLICATION
        self.add_factors(arrays, add, add_part, kind, PASS_THROUGH)
        return rule.build()


@builds(Scatter)
def scatter(
    operands: ArrayLike | Sequence[ArrayLike],
    scatter_indices: ArrayLike,
    updates: ArrayLike | Sequence[ArrayLike],
    update_computation: computations.Computation,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    indices_in_bounds: bool = False,
) -> Any:
    operands, updates = as_sequence(operands), as_sequence(updates)
    if not operands or len(operands) != len(updates):
        problem = f"(C11) there are {len(operands)} operands and {len(updates)} updates"
        raise explain(ShapeError, "scatter", problem, advice=_ONE_EACH)
    values = [*operands, scatter_indices, *updates]
    shapes = Scatter.array_shapes([shape_of(value) for value in values])
    scalars = [Shape(shape.element_type) for shape in shapes[: len(operands)]]
    graph = computations.computation_of(update_computation, [*scalars, *scalars], "scatter")
    promises = indices_are_sorted, unique_indices, indices_in_bounds
    return Scatter(dimension_numbers, graph, *promises)(*values)


def _derivatives() -> ModuleType:
    from minixla_ops.indexing import scatter_derivatives  # loaded for the first derivative

    return scatter_derivatives
