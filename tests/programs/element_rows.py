"""Rows of operations on one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minixla.core.shapes import Shape
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import (
    ANY,
    COMPLEX,
    FACTOR,
    FLOATS,
    INTEGERS,
    KINDS,
    NUMERIC,
    ORDERED,
    PRED,
    REALS,
    SIGNED,
    TERM,
    Domain,
    small,
    whole,
)
from tests.programs.draft import Draft
from tests.programs.rows import Call, add_row, row

# Whole and half numbers, at which roundings differ.
_HALVES = Domain(
    lambda array: bool(np.isin(array.astype(np.float64), np.arange(-8, 9) / 2).all()),
    lambda generator, dtype, sizes: (generator.integers(-8, 9, sizes) / 2).astype(dtype),
)
_ROUNDED = tuple(kind for kind in FLOATS if kind != "f8e3m4")  # the interpreter rounds it to NaN
_WHOLE = whole(lambda dtype: 4.0)
# The interpreter aborts on 0; the least integer by -1 overflows; floats divide exactly by these.
_DIVISORS = Domain(
    lambda array: bool(np.isin(array.astype(np.float64), (1, 2)).all()),
    lambda generator, dtype, sizes: generator.integers(1, 3, sizes).astype(dtype),
)


def unary(kinds: Sequence[str], domain: Domain = ANY) -> Callable[[Draft], Call]:
    """A row of an operation on one array."""
    return lambda d: ((d.array(kinds, domain),), {})


for names, kinds, domain in (
    (("abs",), (*SIGNED, *FLOATS), ANY),
    (("neg",), NUMERIC, _WHOLE),
    (("sign",), (*SIGNED, *FLOATS), ORDERED),
    (("ceil", "floor", "round", "round_nearest_afz", "round_nearest_even"), _ROUNDED, _HALVES),
    (("not_",), (*INTEGERS, *PRED), ANY),
    (("clz", "population_count"), INTEGERS, small(0, 100)),
    (("is_finite",), FLOATS, ANY),
    (("real", "imag"), (*COMPLEX, "f32", "f64"), ANY),
):
    for name in names:
        add_row(name, unary(kinds, domain))


def pair(d: Draft, kinds: Sequence[str], domain: Domain, other: Domain | None = None) -> Call:
    """Two arrays; sometimes one has fewer dimensions, or sizes of 1 where the other has more."""
    lhs = d.array(kinds, domain)
    shape = array_shape(lhs)
    kind, sizes, way = str(shape.element_type), shape.dimensions, d.integer(0, 5)
    if way == 4:
        return (lhs, d.array((kind,), other or domain, sizes=())), {}
    if way == 5:
        kept = d.subset(range(len(sizes)))
        shorter = [1 if d.chance(3) else sizes[each] for each in kept]
        rhs = d.array((kind,), other or domain, sizes=shorter)
        return (lhs, rhs), {"broadcast_dimensions": kept}
    return (lhs, d.like(lhs, other or domain)), {}


def binary(
    kinds: Sequence[str], domain: Domain = ANY, other: Domain | None = None
) -> Callable[[Draft], Call]:
    """A row of an operation on two arrays that broadcasts."""
    return lambda d: pair(d, kinds, domain, other)


BITS = (*INTEGERS, *PRED)
for names, kinds, domain, other in (
    (("add", "sub"), NUMERIC, TERM, TERM),
    (("mul",), NUMERIC, FACTOR, FACTOR),
    (("div",), REALS, _WHOLE, _DIVISORS),
    (("rem",), REALS, _WHOLE, _DIVISORS),
    (("pow",), INTEGERS, ANY, small(0, 3)),
    (("max", "min"), KINDS, ORDERED, ORDERED),
    (("and_", "or_", "xor"), BITS, ANY, ANY),
    (("shift_left", "shift_right_arithmetic", "shift_right_logical"), INTEGERS, ANY, small(0, 9)),
    (("complex",), ("f32", "f64"), ANY, ANY),
    (("eq", "ne"), KINDS, ANY, ANY),
    (("ge", "gt", "le", "lt"), (*REALS, *PRED), ANY, ANY),
    # The interpreter ignores TOTALORDER.
    (("eq_total_order", "ne_total_order", "ge_total_order"), (*REALS, *PRED), ORDERED, ORDERED),
    (("gt_total_order", "le_total_order", "lt_total_order"), (*REALS, *PRED), ORDERED, ORDERED),
):
    for name in names:
        add_row(name, binary(kinds, domain, other))


@row("compare")
def _compare(d: Draft) -> Call:
    arguments, keywords = pair(d, (*REALS, *PRED), ORDERED)
    direction = d.choice(("EQ", "NE", "GE", "GT", "LE", "LT"))
    return (*arguments, direction), {**keywords, "total_order": d.chance()}


@row("select")
def _select(d: Draft) -> Call:
    value = d.array()
    sizes = () if d.chance(3) else array_shape(value).dimensions
    return (d.array(PRED, sizes=sizes), value, d.like(value)), {}


@row("clamp")
def _clamp(d: Draft) -> Call:
    value = d.array(REALS, ORDERED)
    kind = (str(array_shape(value).element_type),)
    ends = [
        d.array(kind, ORDERED, sizes=()) if d.chance() else d.like(value, ORDERED) for _ in "lh"
    ]
    return (ends[0], value, ends[1]), {}


@row("convert_element_type")
def _convert(d: Draft) -> Call:
    value = d.array(KINDS, whole(lambda dtype: 4.0, free=True))
    inexact = array_shape(value).element_type.is_inexact
    # Integers beyond 4 may be rounded on the way to floats; numbers wrap between integers.
    known = d.known(value)
    is_small = known is not None and bool((np.abs(known.astype(np.complex128)) <= 4).all())
    allowed = KINDS if is_small else BITS
    return (value, d.choice(allowed if not inexact or is_small else NUMERIC)), {}


@row("bitcast_convert_type")
def _bitcast(d: Draft) -> Call | None:
    # Floats only where they hold no NaN, whose bits may change. XLA folds 4 bits wrongly.
    value = d.array(("s32", "u8", "s8", "u16", "u64", "f32", "f64", "f16", "bf16"), ORDERED)
    shape = array_shape(value)
    bits = shape.element_type.bits
    fitting = [
        kind
        for kind in INTEGERS
        if (to := Shape(kind).element_type.bits) >= 8
        and (to <= bits or (shape.rank and shape.dimensions[-1] * bits == to))
    ]
    return (value, d.choice(fitting)), {}


@row("reduce_precision")
def _reduce_precision(d: Draft) -> Call:
    return (d.array(("f32", "f64", "f16", "bf16"), _WHOLE), d.integer(3, 9), d.integer(3, 24)), {}


@row("threefry2x32")
def _threefry2x32(d: Draft) -> Call:
    first = d.array(("u32",))
    return (first, *[d.like(first) for _ in range(3)]), {
        name: d.choice((False, True)) for name in ("of_keys", "is_loop")
    }
