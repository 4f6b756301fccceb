"""The base class of Gather and Scatter: windows of an array at positions given by indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core import ELEMENT_TYPES, Operation, Shape, element_type
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION, PASS_THROUGH
from minixla_ops.helpers.casting import cast, emit_converted
from minixla_ops.indexing import index_numbers
from minixla_ops.indexing.index_numbers import IndexNumbers, Sizes

Adding = Callable[[int, int, int, int, str], object]
AddingPart = Callable[[int, int], object]


class IndexedWindows(Operation):
    """Base class of Gather and Scatter: windows of an operand at positions given by an array.

    Checks (windows are Gather's slices):
        (C1) indices have an integer type.
        (C2) 0 <= index_vector_dim <= rank of the indices.
        (C3) there is one operand dimension for each component of an index vector.
        (C4) those are different dimensions of the operand, and not batching dimensions.
        (C5) window dimensions (offset_dims, update_window_dims) ascend, without repeats, within
            the rank of the result or the updates.
        (C6) collapsed or inserted dimensions ascend, without repeats, within the operand's rank.
        (C7) batching dimensions of the operand ascend, too; they are not collapsed or inserted.
        (C8) the batching dimensions of the indices are different dimensions of the indices, and
            not index_vector_dim.
        (C9) the batching dimensions of operand and indices are equal in number and in size.
        (C10) window, collapsed or inserted, and batching dimensions add up to the operand's rank.
    """

    dimension_numbers: Any

    def check_numbers(self, operand: Shape, indices: Shape) -> None:
        """Run the checks C1 ... C10 for the operand of the windows and the index vectors."""
        numbers: IndexNumbers = self.dimension_numbers
        names, rank = numbers._fields, operand.rank
        if not indices.element_type.is_integer:
            advice = "Convert them to a signed or unsigned integer type with convert_element_type."
            self.refuse(
                "C1", f"indices must have an integer type, not {indices.element_type}", advice
            )
        self._check_index_vectors(operand, indices)
        self._check_ascending("C6", 1, rank)
        self._check_ascending("C7", 4, rank)
        both = set(numbers[1]) & set(numbers[4])
        if both:
            self.refuse_attribute(
                "C7", f"dimension {min(both)} is in both {names[1]} and {names[4]}"
            )
        self._check_batching(operand, indices)
        parts = [len(numbers[0]), len(numbers[1]), len(numbers[4])]
        if sum(parts) != rank:
            problem = (
                f"there are {' + '.join(map(str, parts))} dimensions for an operand of rank {rank}"
            )
            self.refuse_attribute("C10", problem)
        outer = index_numbers.without_vectors(indices.dimensions, numbers.index_vector_dim)
        self._check_ascending("C5", 0, len(numbers[0]) + len(outer))

    def _check_index_vectors(self, operand: Shape, indices: Shape) -> None:
        numbers: IndexNumbers = self.dimension_numbers
        at, mapped, name = numbers.index_vector_dim, numbers[2], numbers._fields[2]
        if not 0 <= at <= indices.rank:
            problem = f"index_vector_dim {at} is out of range for the indices"
            advice = f"It must be in [0, {indices.rank}]; the rank means an implicit size of 1."
            self.refuse_attribute("C2", problem, advice)
        components = (*indices.dimensions, 1)[at]
        if len(mapped) != components:
            problem = f"{name} has {len(mapped)} entries, but index vectors have {components}"
            advice = "Pass the operand dimension of each component, or change index_vector_dim."
            self.refuse_attribute("C3", problem, advice)
        named = [*mapped, *numbers[4]]
        if len(set(named)) != len(named) or any(
            not 0 <= dimension < operand.rank for dimension in mapped
        ):
            problem = f"{name} must list different dimensions of the operand that are not in"
            advice = f"Entries must be in [0, {operand.rank})."
            self.refuse_attribute("C4", f"{problem} {numbers._fields[4]}", advice)

    def _check_ascending(self, label: str, field: int, rank: int) -> None:
        listed = self.dimension_numbers[field]
        if list(listed) != sorted(set(listed)) or any(
            not 0 <= dimension < rank for dimension in listed
        ):
            name = self.dimension_numbers._fields[field]
            problem = f"{name} must ascend, without repeats, within [0, {rank})"
            advice = "Sort the dimensions; if their order matters, transpose the array."
            self.refuse_attribute(label, problem, advice)

    def _check_batching(self, operand: Shape, indices: Shape) -> None:
        numbers: IndexNumbers = self.dimension_numbers
        batching, name, listed = *numbers._fields[4:], numbers[5]
        in_range = all(0 <= dimension < indices.rank for dimension in listed)
        if not in_range or len(set(listed)) != len(listed) or numbers.index_vector_dim in listed:
            problem = f"{name} must list different dimensions of the indices, not index_vector_dim"
            self.refuse_attribute("C8", problem, f"Entries must be in [0, {indices.rank}).")
        sizes = [operand.dimensions[number] for number in numbers[4]]
        if sizes != [indices.dimensions[dimension] for dimension in listed]:
            self.refuse("C9", f"{batching} and {name} must be equal in number and in size")

    def add_factors(
        self, arrays: Sequence[Sizes], add: Adding, add_part: AddingPart, apart: str, absent: str
    ) -> None:
        """Add the factors of a sharding rule.

        Args:
            arrays: the sizes of operand, indices and windows (the result, or the updates).
            add: adds a factor with these dimensions of the three arrays, a size and a kind.
            add_part: adds the factors of an operand dimension and a smaller window dimension.
            apart: the kind of dimensions that distinguish windows.
            absent: the kind of dimensions that windows lack.
        """
        (operand, indices, windows), numbers = arrays, self.dimension_numbers
        at = numbers.index_vector_dim
        inner = iter(index_numbers.window_dimensions(len(operand), numbers))
        outer = iter([index for index in range(len(indices)) if index != at])
        batching = dict(zip(numbers[5], numbers[4], strict=True))
        for index, size in enumerate(windows):
            if index not in numbers[0]:
                along = next(outer)
                operand_dimension = batching.get(along, ABSENT)
                add(
                    operand_dimension,
                    along,
                    index,
                    size,
                    apart if operand_dimension == ABSENT else PASS_THROUGH,
                )
            elif operand[operand_dimension := next(inner)] == size:
                add(operand_dimension, ABSENT, index, size, PASS_THROUGH)
            else:
                add_part(operand_dimension, index)
        for operand_dimension in numbers[1]:
            add(operand_dimension, ABSENT, ABSENT, operand[operand_dimension], absent)
        if at < len(indices):
            add(ABSENT, at, ABSENT, indices[at], NEED_REPLICATION)

    def stablehlo(self, emit, operands, shapes, results):
        # XLA reads out of bounds for 2-bit and 4-bit indices.
        types, at = list(shapes), len(shapes) // 2
        if shapes[at].element_type.bits < 8:
            types[at] = shapes[at].with_element_type(element_type("s32"))
        converted = emit_converted(emit, operands, shapes, types)
        return super().stablehlo(emit, converted, types, results)


def window_starts(
    indices: np.ndarray, dimensions: Sizes, numbers: IndexNumbers
) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Return the starts of windows in an operand of sizes `dimensions`, in NumPy.

    The first result is the sizes of the indices without index_vector_dim. The second has, for each
    operand dimension, the starts as s64, neither clamped nor broadcast.
    """
    at = numbers.index_vector_dim
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**62))  # it is outside of every operand, too
    indices = cast(indices, ELEMENT_TYPES["s64"])
    vectors = indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)
    outer = vectors.shape[:-1]
    starts = [np.zeros((1,) * len(outer), np.int64) for _ in dimensions]
    for component, dimension in enumerate(numbers[2]):
        starts[dimension] = vectors[..., component]
    along = np.indices(outer, sparse=True)
    for dimension, axis in zip(numbers[4], numbers[5], strict=True):
        starts[dimension] = along[axis - (axis > at)]
    return outer, starts


def target_places(
    indices: np.ndarray, dimensions: Sizes, numbers: IndexNumbers, windows: Sizes
) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat operand index of each window element, and whether it is inside."""
    outer, starts = window_starts(indices, dimensions, numbers)
    inner = index_numbers.window_dimensions(len(dimensions), numbers)
    sizes = (*outer, *(windows[d] for d in inner))
    places, inside = np.zeros(sizes, np.int64), np.ones(sizes, bool)
    within = dict(zip(inner, np.indices([windows[d] for d in inner], sparse=True), strict=True))
    for dimension, (start, size) in enumerate(zip(starts, dimensions, strict=True)):
        place = start.reshape((*start.shape, *[1] * len(inner))) + within.get(dimension, 0)
        inside &= (place >= 0) & (place < size)
        places = places * size + place
    return places, inside
