"""Operations on tangents and cotangents, where None stands for zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minixla.core.registry import role
from minixla.core.shapes import TupleValue
from minixla.core.tracer import is_dynamic, shape_of
from minixla.core.value_types import Array


def zeros_like(value: object) -> Array:
    """Return zeros with the shape of a value (or of a static Shape)."""
    shape = shape_of(value)
    zeros = role("zeros")(shape)
    return role("resize")(zeros, value) if shape.is_dynamic else zeros


def with_sizes_of(value: Array | None, like: object) -> Array | None:
    """Make `value` as dynamic and as large as `like`, padded with zeros; None stays None."""
    # Values whose dimensions differ from those of `like` (or a Shape) are unchanged.
    if value is None or not (is_dynamic(value) or is_dynamic(like)):
        return value
    shape: Any = shape_of(value)
    wanted: Any = shape_of(like)
    if shape.dynamic == wanted.dynamic or shape.dimensions != wanted.dimensions:
        return value
    return role("resize")(value, like)


def instantiate(tangent: Array | None, like: object) -> Array:
    """Return `tangent`, or zeros like `like` if it is None."""
    return zeros_like(like) if tangent is None else tangent


def add_cotangents(first: Any, second: Any) -> Any:  # noqa: ANN401  # Array | TupleValue | None
    """Add two cotangents; either may be None (zero)."""
    if first is None:
        return second
    if second is None:
        return first
    if isinstance(first, TupleValue):
        return TupleValue(list(map(add_cotangents, first.elements, second.elements)))
    return role("add")(first, second)


def spread(
    flags: Iterable[object], values: Iterable[Any], others: Iterable[object] | None = None
) -> list[Any]:
    """Return the next of `values` where a flag is set, else the element of `others` (None)."""
    remaining = iter(values)
    if others is None:
        return [next(remaining) if flag else None for flag in flags]
    return [next(remaining) if flag else other for flag, other in zip(flags, others, strict=True)]
