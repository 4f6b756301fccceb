"""JAX's type promotion: which element type two or more operands have in common.

Source: the type promotion lattice of JAX (`jax.numpy` documentation, "Type promotion semantics").
Python scalars, and values made from such alone, are weak: they do not widen the other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from minixla.core.element_types import (
    ELEMENT_TYPES,
    ElementType,
    canonical_element_type,
)
from minixla.core.errors import ShapeError, explain

__all__ = ["promote_types", "result_type"]

# The lattice: each node and the nodes right above it. i*, f* and c* are Python's scalar types.
_ABOVE: dict[str, list[str]] = {
    "pred": ["i*"],
    "u8": ["s16", "u16"],
    "u16": ["s32", "u32"],
    "u32": ["s64", "u64"],
    "u64": ["f*"],
    "i*": ["u8", "s8", "u2", "u4", "s2", "s4"],
    "s8": ["s16"],
    "s16": ["s32"],
    "s32": ["s64"],
    "s64": ["f*"],
    "u2": [],
    "u4": [],
    "s2": [],
    "s4": [],
    "f*": ["c*", "bf16", "f16", *[name for name in ELEMENT_TYPES if name[:2] in ("f4", "f6", "f8")]],
    **{name: [] for name in ELEMENT_TYPES if name[:2] in ("f4", "f6", "f8")},
    "bf16": ["f32"],
    "f16": ["f32"],
    "f32": ["f64", "c64"],
    "f64": ["c128"],
    "c*": ["c64"],
    "c64": ["c128"],
    "c128": [],
}
_WEAK = {"pred": "pred", "signed": "i*", "unsigned": "i*", "float": "f*", "complex": "c*"}
_DEFAULT = {"i*": "s64", "f*": "f64", "c*": "c128"}


@lru_cache(maxsize=None)
def _upper_bounds(node: str) -> frozenset[str]:
    found = {node}
    for above in _ABOVE[node]:
        found |= _upper_bounds(above)
    return frozenset(found)


@lru_cache(maxsize=None)
def _join(nodes: frozenset[str]) -> str | None:
    common = frozenset.intersection(*map(_upper_bounds, nodes))
    least = [node for node in common if common <= _upper_bounds(node)]
    return least[0] if least else None


def result_type(operands: Iterable[tuple[ElementType, bool]]) -> tuple[ElementType, bool]:
    """The common element type of operands, and whether it is still weak.

    Args:
        operands: the element type of each and whether it is weakly typed.

    Raises:
        ShapeError: the types have no common type that loses nothing (`f8e4m3fn` and `bf16`).
    """
    return _result_type(tuple(operands))


@lru_cache(maxsize=None)
def _result_type_wide(operands: tuple[tuple[ElementType, bool], ...]) -> tuple[ElementType, bool]:
    nodes = frozenset(_WEAK[each.kind] if weak else each.name for each, weak in operands)
    joined = _join(nodes)
    if joined is None:
        raise explain(
            ShapeError,
            "promotion",
            "the element types have no common type",
            [", ".join(each.name for each, _ in operands)],
            "Convert one side explicitly, with .astype or ops.convert_element_type.",
        )
    if joined not in _DEFAULT:
        return ELEMENT_TYPES[joined], all(weak for _, weak in operands) and joined != "pred"
    return ELEMENT_TYPES[_DEFAULT[joined]], all(weak for _, weak in operands)


def _result_type(operands: tuple[tuple[ElementType, bool], ...]) -> tuple[ElementType, bool]:
    kind, weak = _result_type_wide(operands)
    return canonical_element_type(kind), weak


def promote_types(first: ElementType, second: ElementType) -> ElementType:
    """The common type of two strongly typed operands."""
    return result_type([(first, False), (second, False)])[0]
