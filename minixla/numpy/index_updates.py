"""`array.at[index]`: functional updates of the elements that an index names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.numpy.element_functions import named
from minixla.numpy.index_parsing import Box, box_of, parse_index, static_key
from minixla.numpy.indexing import Plan, checked_mode, getitem, limits_of, plan_of
from minixla.numpy.operands import common_type, keep_weak, lifted, operand_shape
from minixla_ops.elementwise.operators import convert
from minixla_ops.indexing.index_numbers import ScatterDimensionNumbers
from minixla_ops.vocabulary.shorthand import full_like

Combine = Callable[[Any, Any], Any]


@dataclass(slots=True, eq=False)
class IndexUpdates:
    """`array.at`: indexing it gives an IndexUpdate."""

    array: Any

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)


def _replace(old: Any, new: Any) -> Any:
    return new


def _method(name: str, combine: Combine, text: str) -> Callable[..., Any]:
    def update(self: IndexUpdate, values: Any, **options: Any) -> Any:
        return _updated(self.array, self.index, values, combine, **options)

    return named(update, name, text)


@dataclass(slots=True, eq=False)
class IndexUpdate:
    """`array.at[index]`: methods that return an updated array (JAX: jax.numpy.ndarray.at).

    Every method takes keywords:
        indices_are_sorted: a promise that indices ascend.
        unique_indices: a promise that no element is named twice.
        mode: what happens to indices out of bounds: None, "drop" or "fill" leaves them out, "clip"
            takes the nearest element, "promise_in_bounds" says that there are none.
    """

    array: Any
    index: Any

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

    set = _method("set", _replace, "The array with `values`, which broadcast, at the index.")
    add = _method("add", ops.add, "The array with `values` added, as often as an element is named.")
    subtract = _method("subtract", ops.sub, "The array with `values` subtracted at the index.")
    multiply = mul = _method("multiply", ops.mul, "The array multiplied by `values` at the index.")
    min = _method("min", ops.min, "The smaller of the array and `values` at the index.")
    max = _method("max", ops.max, "The greater of the array and `values` at the index.")

    def divide(self, values: Any, **options: Any) -> Any:
        """The array divided by `values` at the index."""
        ones = IndexUpdate(mnp.ones_like(self.array), self.index)
        return self.array / ones.multiply(values, **options)

    def power(self, values: Any, **options: Any) -> Any:
        """The array to the power of `values` at the index."""
        ones = IndexUpdate(mnp.ones_like(self.array), self.index)
        return mnp.power(self.array, ones.multiply(values, **options))

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """The array with `func`, a function of arrays of any shape, applied at the index."""
        zero = np.zeros((), operand_shape(self.array, "at").dtype)
        return _updated(self.array, self.index, zero, lambda old, _: func(old), **options)


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
        work, plan = mnp.reshape(work, parsed.sizes), plan_of(parsed)
        promises = indices_are_sorted, unique_indices
        result = _scattered(work, plan, values, combine, mode, *promises)
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
