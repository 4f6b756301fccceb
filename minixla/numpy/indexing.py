"""`array[index]`, as NumPy indexes, and `array.at[index]`, functional updates at an index.

Known integers and slices become Slice, Rev and Reshape, and traced scalars a DynamicSlice. Arrays
of indices become one Gather, or in updates one Scatter.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ElementType, element_type
from minixla.core.shapes import Shape
from minixla.core.tracing import Tracer
from minixla.numpy import operands
from minixla.numpy.element_functions import named, placeable
from minixla.numpy.index_parsing import (
    WHOLE,
    Box,
    Parsed,
    box_of,
    parse_index,
    static_key,
    unwrapped,
)
from minixla.numpy.operands import common_type, keep_weak, kind_of, lifted, operand_shape
from minixla_ops.elementwise.operators import broadcast_shapes, convert
from minixla_ops.helpers.shorthand import full_like, zeros
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.programs.computations import extreme_of


def getitem(array: Any, index: Any, mode: Any = None, fill_value: Any = None) -> Any:
    """Index an array as NumPy does; indices out of bounds are clamped, or see `mode` of `get`."""
    sizes = operand_shape(array, "indexing").dimensions
    key = static_key(index)
    if key is not None and mode != "fill":
        return keep_weak(_apply_box(lifted(array), sizes, box_of(sizes, key)), array)
    cut, parsed = lifted(array), _leading(index, sizes)
    if parsed is None:
        parsed = parse_index(index, sizes)
        key = tuple([parsed.slices.get(axis, WHOLE) for axis in range(len(parsed.sizes))])
        cut = cut if cut.shape == parsed.sizes else ops.reshape(cut, parsed.sizes)
        cut = _apply_box(cut, parsed.sizes, box_of(parsed.sizes, key))
        parsed = parsed._replace(sizes=cut.shape, slices={})
    ranks = [operand_shape(value, "indexing").rank for value in parsed.values.values()]
    if mode != "fill" and not any(ranks):
        return keep_weak(_dynamic(cut, parsed), array)
    plan = plan_of(parsed)
    if 0 in plan.result:
        return keep_weak(lifted(zeros(Shape(kind_of(cut), plan.result))), array)
    gathered = ops.gather(cut, plan.indices, plan.numbers, plan.window)
    gathered = _filled(gathered, plan, fill_value) if mode == "fill" else gathered
    return keep_weak(
        gathered if plan.sizes == plan.result else ops.reshape(gathered, plan.result), array
    )


def _apply_box(array: Any, sizes: tuple[int, ...], box: Box) -> Any:
    if box.limits != sizes or any(box.starts) or any(stride != 1 for stride in box.strides):
        strides = None if all(stride == 1 for stride in box.strides) else box.strides
        array = ops.slice(array, box.starts, box.limits, strides)
    if box.reversed:
        array = ops.rev(array, box.reversed)
    return array if array.shape == box.sizes else ops.reshape(array, box.sizes)


def _leading(index: Any, sizes: Sequence[int]) -> Parsed | None:
    """Parse the most common index, one traced array of integers; return None for others."""
    if not isinstance(index, Tracer) or not sizes or not sizes[0]:
        return None
    is_integer = index._array_shape().element_type.is_integer
    return Parsed(tuple(sizes), range(len(sizes)), {0: index}, {}, True) if is_integer else None


def index_dtype(sizes: Sequence[int]) -> np.dtype:
    """Return the type of indices into an array of `sizes`."""
    largest = max(sizes, default=0)
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


def wrapped(index: Any, sizes: Sequence[int], axis: int) -> Any:
    """Return indices of an axis of an array of `sizes`; negative ones count from its end."""
    size, dtype = sizes[axis], index_dtype(sizes)
    if isinstance(index, (int, np.integer, np.ndarray)):
        array = np.asarray(index).astype(np.int64)
        return np.where(array < 0, array + size, array).astype(dtype)
    index, declared = lifted(index), kind_of(index, "indexing")
    is_unsigned = declared.kind == "unsigned"
    if is_unsigned or declared.bits < dtype.itemsize * 8:
        index = ops.convert_element_type(index, dtype)
    if not is_unsigned:
        zero, whole = full_like(index, 0), full_like(index, size)
        index = ops.select(ops.lt(index, zero), ops.add(index, whole), index)
    return convert(index, element_type(dtype))


def _dynamic(array: Any, parsed: Parsed) -> Any:
    """Index an array by scalars, without slices."""
    starts: list[Any] = [np.zeros((), index_dtype(parsed.sizes))] * len(parsed.sizes)
    counts = list(parsed.sizes)
    for axis, value in parsed.values.items():
        starts[axis], counts[axis] = wrapped(value, parsed.sizes, axis), 1
    kept = [axis for axis in parsed.layout if axis not in parsed.values]
    result = [1 if axis is None else parsed.sizes[axis] for axis in kept]
    return ops.reshape(ops.dynamic_slice(array, starts, counts), result)


def checked_mode(mode: Any) -> str | None:
    """Return None, "clip", "fill" (also for "drop") or "promise_in_bounds".

    A member of GatherScatterMode is also accepted.
    """
    name = getattr(mode, "name", mode)
    name = name.lower() if isinstance(name, str) else name
    name = "fill" if name in ("drop", "fill_or_drop") else name
    if name not in (None, "clip", "fill", "promise_in_bounds"):
        advice = "Pass clip, fill, drop or promise_in_bounds."
        raise operands.value_error("indexing", f"mode {mode!r} is unknown", advice)
    return name


class Plan(NamedTuple):
    """The gather that reads the elements of an index."""

    indices: Any  # The index vectors.
    numbers: GatherDimensionNumbers  # Also those of Scatter, field by field.
    window: tuple[int, ...]  # The slice's size in each dimension of the operand.
    sizes: tuple[int, ...]  # The shape of the gathered array.
    result: tuple[int, ...]  # The same with new axes of size 1.
    limits: tuple[int, ...]  # The largest start in bounds for each component of the vectors.


def plan_of(parsed: Parsed) -> Plan:
    """Return the plan of an index that holds arrays."""
    dtype = index_dtype(parsed.sizes)
    window, offset_dims = list(parsed.sizes), []
    outer, sizes, result = [], [], []  # Sizes of index vectors, the gathered array and the result.
    # Components of the vectors, and the ends of their dimensions among the outer ones.
    columns: dict[int, tuple[Any, int]] = {}  # By the operand's axis.
    collapsed: list[int] = []  # Axes that the result lacks.

    def collapse(values: dict[int, Any], dimensions: Sequence[int]) -> None:
        for dims in (outer, sizes, result):
            dims.extend(dimensions)
        for axis, value in values.items():
            columns[axis], window[axis] = (value, len(outer)), 1
        collapsed.extend(values)

    # All arrays and scalars broadcast together. Their dimensions come at one position, which is the
    # front if slices or new axes separate them.
    values = {axis: wrapped(value, parsed.sizes, axis) for axis, value in parsed.values.items()}
    common = broadcast_shapes([value.shape for value in values.values()], "indexing")
    place = parsed.layout.index(min(values)) if values and parsed.is_contiguous else 0
    for at, axis in enumerate(parsed.layout):
        if values and at == place:
            collapse(values, common)
        if axis is None:
            result.append(1)
        if axis is None or axis in values:
            continue
        positions = range(parsed.sizes[axis])[slice(*parsed.slices.get(axis, WHOLE))]
        count = len(positions)
        if positions.step != 1 and count > 1:
            collapse({axis: np.asarray(positions, dtype)}, [count])
            continue
        if count != parsed.sizes[axis]:
            start = np.asarray(positions[0] if positions else 0, dtype)
            columns[axis], window[axis] = (start, len(outer)), count
        offset_dims.append(len(sizes))
        sizes.append(count)
        result.append(count)
    indices, vector_dim = _joined(list(columns.values()), outer, dtype)
    axes = tuple(columns)
    numbers = GatherDimensionNumbers(tuple(offset_dims), tuple(sorted(collapsed)), axes, vector_dim)
    limits = tuple([parsed.sizes[axis] - window[axis] for axis in axes])
    return Plan(indices, numbers, tuple(window), tuple(sizes), tuple(result), limits)


def _joined(columns: Sequence[Any], outer: Sequence[int], dtype: Any) -> tuple[Any, int]:
    """Join components into index vectors; also return the dimension that holds the components."""
    if not columns:
        return np.zeros((*outer, 0), dtype), len(outer)
    if len(columns) == 1 and columns[0][0].shape == tuple(outer):
        return columns[0][0], len(outer)
    spread, sizes = [], (*outer, 1)
    for value, end in columns:
        if isinstance(value, np.ndarray):
            aligned = value.reshape((*value.shape, *[1] * (len(sizes) - end)))
            spread.append(np.broadcast_to(aligned, sizes))
        else:
            places = range(end - len(value.shape), end)
            spread.append(ops.broadcast_in_dim(value, sizes, places))
    if all(isinstance(index, np.ndarray) for index in spread):
        return np.concatenate(spread, -1), len(outer)
    return ops.concat_in_dim(spread, len(outer)), len(outer)


def _filled(gathered: Any, plan: Plan, fill_value: Any) -> Any:
    """Replace gathered elements by a fill value if an index vector's window is out of bounds."""
    indices, vector_dim = plan.indices, plan.numbers.index_vector_dim
    inside = ops.and_(ops.ge(indices, full_like(indices, 0)), ops.le(indices, limits_of(plan)))
    if vector_dim != len(indices.shape):
        inside = mnp.all(inside, vector_dim)
    outer = [at for at in range(len(plan.sizes)) if at not in plan.numbers.offset_dims]
    mask = ops.broadcast_in_dim(inside, plan.sizes, outer)
    value = fill_of(kind_of(gathered)) if fill_value is None else fill_value
    return ops.select(mask, gathered, full_like(gathered, value))


def limits_of(plan: Plan) -> np.ndarray:
    """Return the largest starts that are in bounds, in the shape of the index vectors."""
    shape = operand_shape(plan.indices, "indexing")
    has_vectors = plan.numbers.index_vector_dim < shape.rank
    limits = np.asarray(plan.limits if has_vectors else plan.limits[0], shape.dtype)
    return np.broadcast_to(limits, shape.dimensions)


def fill_of(kind: ElementType) -> Any:
    """Return the value of missing elements: NaN, an integer type's min or max, or True."""
    is_signed = kind.kind == "signed"
    return math.nan if kind.is_inexact else extreme_of(kind.dtype, lowest=is_signed).item()


# Updates.

_BEYOND = 2**31 - 1  # replaces negative indices that are dropped
Combine = Callable[[Any, Any], Any]


def _replace(old: Any, new: Any) -> Any:
    return new


def _method(name: str, combine: Combine, text: str) -> Callable[..., Any]:
    def update(self: Any, values: Any, **options: Any) -> Any:
        return self._updated(values, combine, **options)

    return named(update, name, text)


@dataclass(slots=True, eq=False)
class IndexUpdate:
    """`array.at[index]`: methods that return an updated array (JAX: jax.numpy.ndarray.at).

    Every method takes keywords:
        indices_are_sorted: a promise that indices ascend.
        unique_indices: a promise that no element is named twice.
        mode: the treatment of indices out of bounds: None, "drop" or "fill" skips them, "clip"
            takes the nearest element, "promise_in_bounds" promises that none exist.
        wrap_negative_indices: whether negative integers count from the end; if not, they are out of
            bounds.
        out_sharding: the sharding of the result.
    """

    array: Any
    index: Any

    @placeable("out_sharding")
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
        out_sharding: Any = None,
    ) -> Any:
        """Return array[index]; mode "fill" gives `fill_value` for indices out of bounds.

        `fill_value` defaults to NaN, or to an integer type's min or max.
        """
        mode = checked_mode(mode)
        index = self._index_for(wrap_negative_indices, _BEYOND if mode == "fill" else 0)
        return getitem(self.array, index, mode, fill_value)

    set = _method("set", _replace, "Set elements at the index to `values`, which broadcast.")
    add = _method("add", ops.add, "Add `values`, as often as the index names an element.")
    subtract = _method("subtract", ops.sub, "Subtract `values` at the index.")
    multiply = mul = _method("multiply", ops.mul, "Multiply by `values` at the index.")
    min = _method("min", ops.min, "Take the minimum of the array and `values` at the index.")
    max = _method("max", ops.max, "Take the maximum of the array and `values` at the index.")

    def divide(self, values: Any, **options: Any) -> Any:
        """Divide the array by `values` at the index."""
        return self.array / self._among_ones(values, options)

    def power(self, values: Any, **options: Any) -> Any:
        """Raise the array to the power of `values` at the index."""
        return mnp.power(self.array, self._among_ones(values, options))

    def _among_ones(self, values: Any, options: dict[str, Any]) -> Any:
        return IndexUpdate(mnp.ones_like(self.array), self.index).multiply(values, **options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """Apply `func`, a function of arrays of any shape, to the elements at the index."""
        zero = np.zeros((), operand_shape(self.array, "at").dtype)
        return self._updated(zero, lambda old, _: func(old), **options)

    def _index_for(self, wraps: bool, beyond: int) -> Any:
        return self.index if wraps else unwrapped(self.index, mnp.shape(self.array), beyond)

    @placeable("out_sharding")
    def _updated(
        self,
        values: Any,
        combine: Combine,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
        out_sharding: Any = None,
    ) -> Any:
        mode, shape = checked_mode(mode), operand_shape(self.array, "at")
        if not shape.size:
            return lifted(self.array)
        kind = common_type("at", self.array, values)
        work, values = lifted(convert(self.array, kind)), convert(values, kind)
        index = self._index_for(wrap_negative_indices, 0 if mode == "clip" else _BEYOND)
        key = static_key(index)
        box = None if key is None else box_of(shape.dimensions, key)
        if box is not None and box.is_clamped and mode != "clip":
            result = work
        elif box is not None and all(stride == 1 for stride in box.strides) and not box.reversed:
            result = _box_updated(work, box, values, combine)
        else:
            parsed = parse_index(index, shape.dimensions)
            work, plan = mnp.reshape(work, parsed.sizes), plan_of(parsed)
            promises = indices_are_sorted, unique_indices
            result = _scattered(work, plan, values, combine, mode, *promises)
            result = mnp.reshape(result, shape.dimensions)
        return keep_weak(convert(result, shape.element_type), self.array)


@dataclass(slots=True, eq=False)
class IndexUpdates:
    """`array.at`; indexing it returns an IndexUpdate."""

    array: Any

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)


def _box_updated(array: Any, box: Box, values: Any, combine: Combine) -> Any:
    """Update one box of an array, whose position is known."""
    counts = tuple([limit - start for start, limit in zip(box.starts, box.limits, strict=True)])
    if 0 in counts:
        return array
    updates = mnp.reshape(mnp.broadcast_to(values, box.sizes), counts)
    is_whole = counts == array.shape
    if combine is not _replace:
        old = array if is_whole else ops.slice(array, box.starts, box.limits)
        updates = mnp.broadcast_to(lifted(combine(old, updates)), counts)
    starts = [np.asarray(start, np.int32) for start in box.starts]
    return updates if is_whole else ops.dynamic_update_slice(array, updates, starts)


def _scattered(
    array: Any, plan: Plan, values: Any, combine: Combine, mode: str | None, *promises: bool
) -> Any:
    updates = mnp.broadcast_to(values, plan.result)
    if 0 in plan.result:
        return array
    indices, is_inside = plan.indices, mode in ("clip", "promise_in_bounds")
    if mode == "clip":
        indices = ops.min(ops.max(indices, full_like(indices, 0)), limits_of(plan))
    elif isinstance(indices, np.ndarray):
        is_inside |= bool(np.all((indices >= 0) & (indices <= limits_of(plan))))
    updates, numbers = mnp.reshape(updates, plan.sizes), ScatterDimensionNumbers(*plan.numbers)
    return ops.scatter(
        array, indices, updates, combine, numbers, *promises, indices_in_bounds=is_inside
    )
