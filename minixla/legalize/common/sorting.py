"""Sorting."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, ElementType
from minixla.core.tracing import evaluate_graph
from minixla.legalize.barriers import type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.folds.fold import as_sequence
from minixla_ops.helpers.shorthand import array_shape, as_results
from minixla_ops.indexing import sort_orders
from minixla_ops.indexing.sorting import Sort

#: Types that are sorted as another type with the same bits or values.
_SHORT_FLOATS = {name: f"u{name[1]}" for name in ELEMENT_TYPES if name[:2] in ("f4", "f8")}
_CARRIED = {"s2": "s8", "u2": "u8", **_SHORT_FLOATS}
_CARRIERS = {ELEMENT_TYPES[name]: ELEMENT_TYPES[carrier] for name, carrier in _CARRIED.items()}


def _is_misread(operation: Any, operands: Operands, target: Target) -> bool:
    return any(type_of(operand) in _CARRIERS for operand in operands)


@legalize(Sort, ("cpu", "cuda", "tpu"), when=_is_misread)
def sorts_of_short_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA converts short floats while it sorts, and loses integers of two bits.

    The conversion changes NaN, and the order of the smallest numbers of f8e5m2fnuz.
    """
    kinds = [array_shape(operand).element_type for operand in operands]

    def compare(*scalars: Any) -> Any:
        element_types = [kind for kind in kinds for _ in range(2)]
        return evaluate_graph(operation.comparator, list(map(_converted, scalars, element_types)))[
            0
        ]

    carriers = [_CARRIERS.get(kind, kind) for kind in kinds]
    converted = list(map(_converted, operands, carriers))
    results = as_sequence(ops.sort(converted, compare, operation.dimension, operation.is_stable))
    return as_results(list(map(_converted, results, kinds)))


def _converted(value: Any, kind: ElementType) -> Any:
    element_type = array_shape(value).element_type
    if element_type is kind:
        return value
    if element_type.is_integer and kind.is_integer:
        return ops.convert_element_type(value, kind)
    return ops.bitcast_convert_type(value, kind)


def _may_misorder(operation: Any, operands: Operands, target: Target) -> bool:
    if operation.is_stable:
        return False
    key = sort_orders.key_of(operation.comparator)
    return not key or not (key.in_total_order or not type_of(operands[key.operand]).is_inexact)


@legalize(Sort, ("cpu", "cuda", "tpu"), when=_may_misorder)
def sorts_by_any_order(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU reads outside the array if the comparator is not a strict weak order.

    This happens in std::sort, which unstable sorts use, but not in std::stable_sort.
    """
    return operation(*operands, is_stable=True)
