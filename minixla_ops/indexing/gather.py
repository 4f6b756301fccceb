"""Gather: copy slices of an array from positions given by an array of indices."""

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, register
from minixla.core.attributes import Flag, Integers, attribute
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION, PASS_THROUGH, REDUCTION
from minixla_ops.folds.sliding_windows import Window, window_view
from minixla_ops.helpers.batch_dimensions import batch_size, member_shapes
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.indexing import index_numbers, indexed_windows, window_bounds
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, NumbersAttribute


@register
class Gather(indexed_windows.IndexedWindows):
    """Copy slices of an array from starts given by an array of index vectors. XLA: Gather.

    out[g..., o...] = operand[start(g) + offset(o)]. The dimensions g of the result that are not in
    offset_dims select an index vector of start_indices. Its component k is the start in operand
    dimension start_index_map[k]. Starts in operand_batching_dims are the entries of g, and starts
    in other dimensions are 0. o indexes the slice without collapsed_slice_dims and
    operand_batching_dims. Like dynamic_slice, it clamps starts to [0, operand size - slice size].

    Args:
        operand: an array with any element type.
        start_indices: an array of integers that holds index vectors along one dimension.
        dimension_numbers: a GatherDimensionNumbers, which relates the dimensions of the arrays.
        slice_sizes: the size of the slice in each dimension of the operand.
        indices_are_sorted: a promise that the starts ascend; else the result is undefined.

    Returns:
        An array with the operand's element type and a slice for each index vector.

    Checks:
        (C1) ... (C10) see IndexedWindows.
        (C11) there is one slice size for each operand dimension, including collapsed ones.
        (C12) 0 <= slice size <= operand size.
        (C13) slice sizes in collapsed_slice_dims and operand_batching_dims are 1; they may be 0 if
             the result is empty.

    Example:
        >>> numbers = ops.GatherDimensionNumbers(
        ...     offset_dims=(1,),
        ...     collapsed_slice_dims=(0,),
        ...     start_index_map=(0,),
        ...     index_vector_dim=1,
        ... )
        >>> rows = np.int32([[1, 2], [3, 4], [5, 6]])
        >>> ops.gather(rows, np.int32([[2], [0]]), numbers, slice_sizes=(1, 2))
        Array([[5, 6],
               [1, 2]], dtype=int32)
    """

    stablehlo_name = "gather"
    operands = "operand", "start_indices"
    linear_operands = (0,)
    dynamic_operands = (1,)
    dimension_numbers: GatherDimensionNumbers = attribute(NumbersAttribute(GatherDimensionNumbers))
    slice_sizes: tuple[int, ...] = attribute(Integers())
    indices_are_sorted: bool = attribute(Flag(), default=False)

    def shape(self, operand, start_indices):
        numbers = self.dimension_numbers
        self.check_numbers(operand, start_indices)
        if len(self.slice_sizes) != operand.rank:
            problem = (
                f"{len(self.slice_sizes)} slice sizes do not match operand rank {operand.rank}"
            )
            self.refuse_attribute("C11", problem)
        for at, (part, size) in enumerate(zip(self.slice_sizes, operand.dimensions, strict=True)):
            if not 0 <= part <= size:
                problem = f"slice size {part} is out of range for dimension {at} of size {size}"
                self.refuse_attribute("C12", problem)
        inner = index_numbers.window_dimensions(operand.rank, numbers)
        window = [self.slice_sizes[d] for d in inner]
        at, parts = numbers.index_vector_dim, (start_indices.dimensions, start_indices.dynamic)
        outer, flags = (index_numbers.without_vectors(part, at) for part in parts)
        sizes = index_numbers.interleaved(outer, window, numbers.offset_dims)
        dynamic = index_numbers.interleaved(flags, [False] * len(window), numbers.offset_dims)
        result = Shape(operand.element_type, sizes, dynamic)
        for at in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims):
            size = self.slice_sizes[at]
            if size > 1 or (size == 0 and result.size):
                problem = f"dimension {at} is collapsed or batching, but its slice size is {size}"
                self.refuse_attribute("C13", problem)
        return result

    def reference(self, operand, start_indices):
        numbers, windows = self.dimension_numbers, self.slice_sizes
        inner = index_numbers.window_dimensions(operand.ndim, numbers)
        outer, starts = indexed_windows.window_starts(start_indices, operand.shape, numbers)
        limits = [size - window for size, window in zip(operand.shape, windows, strict=True)]
        clamped = [np.clip(start, 0, limit) for start, limit in zip(starts, limits, strict=True)]
        ones = (1,) * operand.ndim
        views = window_view(operand, Window(windows, ones, (), ones, ones))
        gathered = np.broadcast_to(views[tuple(clamped)], (*outer, *windows))
        sizes = (*outer, *(windows[d] for d in inner))
        axes = range(len(outer)), range(len(outer), len(sizes))
        order = index_numbers.interleaved(*axes, numbers.offset_dims)
        return gathered.reshape(sizes).transpose(order)

    def transpose(self, cotangents, operands, linear):
        operand, indices = operands
        shape, numbers = array_shape(operand), self.dimension_numbers
        windows = numbers, shape.dimensions, self.slice_sizes
        starts = window_bounds.clamped_starts(indices, *windows)
        # Clamping keeps the order of single components, but not of whole vectors.
        is_sorted = self.indices_are_sorted and len(numbers.start_index_map) == 1
        windows = starts, cotangents, ops.add, index_numbers.ScatterDimensionNumbers(*numbers)
        return ops.scatter(zeros(shape), *windows, is_sorted, indices_in_bounds=True), None

    def batch(self, operands, dimensions):
        operand_at, indices_at = dimensions
        numbers, sizes = self.dimension_numbers, list(self.slice_sizes)
        if operand_at is not None:
            size = batch_size(operands, dimensions)
            sizes.insert(operand_at, size if indices_at is None else min(size, 1))
        rank = array_shape(self.infer(member_shapes(operands, dimensions))).rank
        ranks = (len(self.slice_sizes), rank), dimensions
        wanted = operand_at if indices_at is None else indices_at
        whole, out = index_numbers.batched_numbers(numbers, *ranks, wanted or 0)
        is_sorted = self.indices_are_sorted and indices_at is None
        return Gather(whole, tuple(sizes), is_sorted)(*operands), out

    def sharding_rule(self, operand, start_indices):
        rule = self.sharding_factors((operand, start_indices))
        sizes, (result,) = operand.dimensions, rule.result_sizes

        def add(operand_dimension: int, along: int, index: int, size: int, kind: str) -> None:
            # A dimension of one element needs no reduction.
            kind = NEED_REPLICATION if size == 1 and kind == REDUCTION else kind
            rule.add([operand_dimension, along], [index], size, kind)

        def add_part(operand_dimension: int, index: int) -> None:
            if result[index] == 1:
                add(operand_dimension, ABSENT, ABSENT, sizes[operand_dimension], REDUCTION)
                add(ABSENT, ABSENT, index, 1, NEED_REPLICATION)
            else:
                rule.add(
                    [operand_dimension, ABSENT],
                    [index],
                    sizes[operand_dimension],
                    NEED_REPLICATION,
                    blocked=True,
                )

        arrays = sizes, start_indices.dimensions, result
        self.add_factors(arrays, add, add_part, PASS_THROUGH, REDUCTION)
        return rule.build()
