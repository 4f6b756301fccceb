"""`array.at[index]`: functional updates of the elements that an index names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.numpy.index_parsing import Box, box_of, parse_index, static_key
from minixla.numpy.indexing import Plan, checked_mode, getitem, limits_of, plan_of
from minixla.numpy.operands import common_type, keep_weak, lifted, operand_shape
from minixla_ops.elementwise.operators import convert
from minixla_ops.indexing.index_numbers import ScatterDimensionNumbers

Combine = Callable[[Any, Any], Any]


class IndexUpdates:
    """`array.at`: indexing it gives an IndexUpdate."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdates({self.array!r})"


class IndexUpdate:
    """`array.at[index]`: methods that return an updated array (JAX: jax.numpy.ndarray.at).

    Every method takes keywords:
        indices_are_sorted: a promise that indices ascend.
        unique_indices: a promise that no element is named twice.
        mode: what happens to indices out of bounds: None, "drop" or "fill" leaves them out, "clip"
            takes the nearest element, "promise_in_bounds" says that there are none.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
    ) -> Any:
        """array[index]; mode "fill" gives `fill_value` (default NaN) for what is out of bounds."""
        return getitem(self.array, self.index, checked_mode(mode), fill_value)

    def set(self, values: Any, **options: Any) -> Any:
        """The array with `values`, which broadcast, at the index."""
        return _updated(self.array, self.index, values, _replace, **options)

    def add(self, values: Any, **options: Any) -> Any:
        """The array with `values` added at the index, once for each time an element is named."""
        return _updated(self.array, self.index, values, ops.add, **options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """The array with `values` subtracted at the index."""
        return _updated(self.array, self.index, values, ops.sub, **options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """The array multiplied by `values` at the index."""
        return _updated(self.array, self.index, values, ops.mul, **options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Any:
        """The array divided by `values` at the index."""
        return self.array / self._of_ones(values, options)

    def power(self, values: Any, **options: Any) -> Any:
        """The array to the power of `values` at the index."""
        return mnp.power(self.array, self._of_ones(values, options))

    def min(self, values: Any, **options: Any) -> Any:
        """The smaller of the array and `values` at the index."""
        return _updated(self.array, self.index, values, ops.min, **options)

    def max(self, values: Any, **options: Any) -> Any:
        """The greater of the array and `values` at the index."""
        return _updated(self.array, self.index, values, ops.max, **options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """The array with `func`, a function of arrays of any shape, applied at the index."""
        zero = np.zeros((), operand_shape(self.array, "at").dtype)
        return _updated(self.array, self.index, zero, lambda old, _: func(old), **options)

    def _of_ones(self, values: Any, options: dict[str, Any]) -> Any:
        return IndexUpdate(mnp.ones_like(self.array), self.index).multiply(values, **options)


def _replace(old: Any, new: Any) -> Any:
    return new


def _updated(
    array: Any,
    index: Any,
    values: Any,
    combine: Combine,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    mode = checked_mode(mode)
    own = operand_shape(array, "at")
    if not own.size:
        return lifted(array)
    kind = common_type("at", array, values)
    work, values = lifted(convert(array, kind)), convert(values, kind)
    key = static_key(index)
    box = None if key is None else box_of(own.dimensions, key)
    if box is not None and box.is_clamped and mode != "clip":
        result = work
    elif box is not None and all(stride == 1 for stride in box.strides) and not box.reversed:
        result = _box_updated(work, box, values, combine)
    else:
        parsed = parse_index(index, own.dimensions)
        promises = (indices_are_sorted, unique_indices)
        work = mnp.reshape(work, parsed.sizes)
        result = _scattered(work, plan_of(parsed), values, combine, mode, promises)
        result = mnp.reshape(result, own.dimensions)
    return keep_weak(convert(result, own.element_type), array)


def _box_updated(array: Any, box: Box, values: Any, combine: Combine) -> Any:
    """An update of one box of an array, whose place is known."""
    counts = tuple([limit - start for start, limit in zip(box.starts, box.limits, strict=True)])
    if 0 in counts:
        return array
    updates = mnp.broadcast_to(values, box.sizes)
    updates = updates if box.sizes == counts else ops.reshape(updates, counts)
    is_whole = counts == array.shape
    if combine is not _replace:
        old = array if is_whole else ops.slice(array, box.starts, box.limits)
        updates = mnp.broadcast_to(lifted(combine(old, updates)), counts)
    if is_whole:
        return updates
    starts = [np.asarray(start, np.int32) for start in box.starts]
    return ops.dynamic_update_slice(array, updates, starts)


def _scattered(
    array: Any,
    plan: Plan,
    values: Any,
    combine: Combine,
    mode: str | None,
    promises: tuple[bool, bool],
) -> Any:
    updates = mnp.broadcast_to(values, plan.result)
    if 0 in plan.result:
        return array
    updates = mnp.reshape(updates, plan.sizes)
    indices = _clipped(plan) if mode == "clip" else plan.indices
    is_inside = mode in ("clip", "promise_in_bounds") or _are_known_inside(plan)
    numbers = ScatterDimensionNumbers(*plan.numbers)
    return ops.scatter(
        array, indices, updates, combine, numbers, *promises, indices_in_bounds=is_inside
    )


def _are_known_inside(plan: Plan) -> bool:
    indices = plan.indices
    if not isinstance(indices, np.ndarray):
        return False
    return bool(np.all((indices >= 0) & (indices <= limits_of(plan))))


def _clipped(plan: Plan) -> Any:
    limits = limits_of(plan)
    lowest = np.broadcast_to(np.zeros((), limits.dtype), limits.shape)
    return ops.min(ops.max(plan.indices, lowest), limits)
