"""JAX's type promotion: the common element type of two or more operands.

Source: the type promotion lattice of JAX (`jax.numpy` documentation, "Type promotion semantics").
Python scalars, and values computed only from them, are weak: they do not widen the other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from minixla.core.element_types import ELEMENT_TYPES, ElementType, canonical_element_type
from minixla.core.errors import ShapeError, explain

_SMALL_FLOATS = [name for name in ELEMENT_TYPES if name[:2] in ("f4", "f6", "f8")]
# The lattice as increasing chains; i*, f* and c* are the types of Python scalars.
_WAYS = ["pred i* s8 s16 s32 s64 f*", "i* u8 u16 u32 u64 f*", "u8 s16", "u16 s32", "u32 s64"]
_WAYS += ["i* u2", "i* u4", "i* s2", "i* s4", *[f"f* {name}" for name in _SMALL_FLOATS]]
_WAYS += ["f* c* c64 c128", "f* bf16 f32 f64 c128", "f* f16 f32 c64"]
_STEPS = [step for way in _WAYS for step in pairwise(way.split())]
_WEAK = {"pred": "pred", "signed": "i*", "unsigned": "i*", "float": "f*", "complex": "c*"}
_DEFAULT = {"i*": "s64", "f*": "f64", "c*": "c128"}


@cache
def _upper_bounds(node: str) -> frozenset[str]:
    return frozenset([node]).union(
        *[_upper_bounds(above) for below, above in _STEPS if below == node]
    )


@cache
def _join(nodes: frozenset[str]) -> str | None:
    common = frozenset.intersection(*map(_upper_bounds, nodes))
    least = [node for node in common if common <= _upper_bounds(node)]
    return least[0] if least else None


def result_type(operands: Iterable[tuple[ElementType, bool]]) -> tuple[ElementType, bool]:
    """Return the common element type of operands, and whether it is still weak."""
    # Raises ShapeError if every common type loses information (`f8e4m3fn` and `bf16`).
    operands = tuple(operands)
    kind, weak = _result_type(operands)
    # A strong operand with this type declares it, so the type is kept in 32-bit mode.
    return kind if (kind, False) in operands else canonical_element_type(kind), weak


@cache
def _result_type(operands: tuple[tuple[ElementType, bool], ...]) -> tuple[ElementType, bool]:
    kinds = {kind for kind, _ in operands}
    all_weak = all(weak for _, weak in operands)
    if len(kinds) == 1:
        return operands[0][0], all_weak
    named = [_WEAK[kind.kind] if weak and not all_weak else kind.name for kind, weak in operands]
    joined = _join(frozenset(named))
    if joined is None:
        problem = "the element types have no common type"
        details = [", ".join(kind.name for kind, _ in operands)]
        advice = "Convert one side explicitly, with .astype or ops.convert_element_type."
        raise explain(ShapeError, "promotion", problem, details, advice)
    return ELEMENT_TYPES[_DEFAULT.get(joined, joined)], all_weak or joined in _DEFAULT


def promote_types(first: ElementType, second: ElementType) -> ElementType:
    """Return the common type of two strongly typed operands, or raise ShapeError."""
    return result_type([(first, False), (second, False)])[0]


def numeric_type(kind: ElementType) -> ElementType:
    """Return the type in which numbers of type `kind` are computed: s32 for pred."""
    return ELEMENT_TYPES["s32"] if kind.kind == "pred" else kind


def inexact_type(kind: ElementType) -> ElementType:
    """Return the type of quotients of type `kind`: f32 for pred and integers, f64 if 64-bit."""
    if kind.is_inexact:
        return kind
    return canonical_element_type(ELEMENT_TYPES["f64" if kind.bits == 64 else "f32"])
