"""The table of random programs: for each builder how to draw a call whose result is exact.

A row draws operands that hold numbers for which the operation gives the same bits in any order of
evaluation and any intermediate precision: integers and Booleans without bounds, floats that are
small whole numbers. `EXCLUDED` says of all other builders why they have no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Literal
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla_ops.computations import identity_of
from tests.programs.draft import (
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
    Draft,
    is_inexact,
    multiplied,
    small,
    summed,
    whole,
)

Call = tuple[Sequence[Any], dict[str, Any]]


class Row(NamedTuple):
    """How to draw a call of a builder.

    Attributes:
        name: the builder's.
        call: draws arguments; None where there is no fitting call.
        interpreted: whether StableHLO's interpreter can run it.
        is_basic: whether programs inside programs have it too.
    """

    name: str
    call: Callable[[Draft], Call | None]
    interpreted: bool = True
    is_basic: bool = True

    @property
    def builder(self) -> Callable[..., Any]:
        """The function of the operation set."""
        return getattr(ops, self.name)


TABLE: dict[str, Row] = {}


def row(*names: str, interpreted: bool = True, is_basic: bool = True) -> Callable[..., Any]:
    """Makes a function that draws a call the row of these builders."""

    def decorated(call: Callable[[Draft], Call | None]) -> Callable[[Draft], Call | None]:
        for name in names:
            add_row(name, call, interpreted, is_basic)
        return call

    return decorated


def add_row(
    name: str,
    call: Callable[[Draft], Call | None],
    interpreted: bool = True,
    is_basic: bool = True,
) -> None:
    """Adds a row."""
    TABLE[name] = Row(name, call, interpreted, is_basic)


# One element at a time.

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
_ONES = Domain(
    lambda array: bool((array == 1).all()), lambda generator, dtype, sizes: np.ones(sizes, dtype)
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
    shape = shape_of(lhs)
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
    sizes = () if d.chance(3) else shape_of(value).dimensions
    return (d.array(PRED, sizes=sizes), value, d.like(value)), {}


@row("clamp")
def _clamp(d: Draft) -> Call:
    value = d.array(REALS, ORDERED)
    kind = (str(shape_of(value).element_type),)
    ends = [
        d.array(kind, ORDERED, sizes=()) if d.chance() else d.like(value, ORDERED) for _ in "lh"
    ]
    return (ends[0], value, ends[1]), {}


@row("convert_element_type")
def _convert(d: Draft) -> Call:
    value = d.array(KINDS, whole(lambda dtype: 4.0, free=True))
    inexact = shape_of(value).element_type.is_inexact
    # Integers beyond 4 may be rounded on the way to floats; numbers wrap between integers.
    known = d.known(value)
    is_small = known is not None and bool((np.abs(known.astype(np.complex128)) <= 4).all())
    allowed = KINDS if is_small else BITS
    return (value, d.choice(allowed if not inexact or is_small else NUMERIC)), {}


@row("bitcast_convert_type")
def _bitcast(d: Draft) -> Call | None:
    # Floats only where they hold no NaN, whose bits may change. XLA folds 4 bits wrongly.
    value = d.array(("s32", "u8", "s8", "u16", "u64", "f32", "f64", "f16", "bf16"), ORDERED)
    shape = shape_of(value)
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


# Shapes.


@row("broadcast")
def _broadcast(d: Draft) -> Call:
    return (d.array(ranks=(1, 0, 2)), d.sizes((1, 0, 2))), {}


@row("broadcast_in_dim")
def _broadcast_in_dim(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 0))
    sizes = shape_of(value).dimensions
    rank = len(sizes) + d.integer(0, 1)
    places = d.shuffled(range(rank))[: len(sizes)]
    out = [d.size() for _ in range(rank)]
    for size, place in zip(sizes, places, strict=True):
        out[place] = size if size != 1 else out[place]
    return (value, out, places), {}


def _factors(d: Draft, count: int) -> list[int]:
    """Sizes of an array of `count` elements."""
    sizes = []
    while count > 1 and d.chance(3) is False:
        divisors = [each for each in range(2, count + 1) if count % each == 0]
        sizes.append(d.choice(divisors))
        count //= sizes[-1]
    sizes += [count] if count != 1 else []
    return d.shuffled(sizes + [1] * d.integer(0, 1))


@row("reshape")
def _reshape(d: Draft) -> Call:
    value = d.array()
    return (value, _factors(d, shape_of(value).size)), {}


@row("reshape_explicit")
def _reshape_explicit(d: Draft) -> Call:
    (value, sizes), _ = _reshape(d)
    return (Shape(shape_of(value).element_type, sizes), value), {}


@row("collapse")
def _collapse(d: Draft) -> Call:
    value = d.array(ranks=(2, 3, 1))
    rank = shape_of(value).rank
    first = d.integer(0, rank - 1)
    return (value, list(range(first, d.integer(first, rank - 1) + 1))), {}


@row("transpose")
def _transpose(d: Draft) -> Call:
    value = d.array(ranks=(2, 3, 1))
    return (value, d.shuffled(range(shape_of(value).rank))), {}


@row("rev")
def _rev(d: Draft) -> Call:
    value = d.array()
    return (value, d.subset(range(shape_of(value).rank))), {}


@row("slice")
def _slice(d: Draft) -> Call:
    value = d.array()
    sizes = shape_of(value).dimensions
    starts = [d.integer(0, size) for size in sizes]
    limits = [d.integer(start, size) for start, size in zip(starts, sizes, strict=True)]
    strides = None if d.chance() else [d.integer(1, 3) for _ in sizes]
    return (value, starts, limits, strides), {}


@row("slice_in_dim")
def _slice_in_dim(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 3))
    at = d.integer(0, shape_of(value).rank - 1)
    size = shape_of(value).dimensions[at]
    start = d.integer(0, size)
    return (value, start, d.integer(start, size), at), {"stride": d.integer(1, 3)}


@row("pad")
def _pad(d: Draft) -> Call:
    value = d.array()
    shape = shape_of(value)
    config = []
    for size in shape.dimensions:
        interior = d.integer(0, 1)
        whole_size = size + max(size - 1, 0) * interior
        low = d.integer(-1, 2)
        config.append((low, max(d.integer(-1, 2), -whole_size - low), interior))
    return (value, d.array((str(shape.element_type),), sizes=()), config), {}


@row("concat_in_dim")
def _concat(d: Draft) -> Call:
    first = d.array(ranks=(1, 2, 3))
    shape = shape_of(first)
    at = d.integer(0, shape.rank - 1)
    others = []
    for _ in range(d.integer(0, 2)):
        sizes = [d.size() if i == at else size for i, size in enumerate(shape.dimensions)]
        others.append(d.array((str(shape.element_type),), sizes=sizes))
    return ([first, *others], at), {}


@row("iota")
def _iota(d: Draft) -> Call:
    sizes = d.sizes((1, 2, 3))
    return (Shape(d.kind(NUMERIC), sizes), d.integer(0, len(sizes) - 1)), {}


@row("constant")
def _constant(d: Draft) -> Call:
    shape = Shape(d.kind(KINDS), d.sizes())
    array = ANY.sample(np.random.default_rng(d.integer(0, 99)), shape.dtype, shape.dimensions)
    return (Literal(array, shape),), {}


@row("parameter", is_basic=False)
def _parameter(d: Draft) -> Call | None:
    count = len(d.trace.inputs)
    if not count:
        return None
    number = d.integer(0, count - 1)
    return (number, d.trace.inputs[number].shape, d.choice(("", "x"))), {}


@row("get_dimension_size")
def _get_dimension_size(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 3))
    return (value, d.integer(0, shape_of(value).rank - 1)), {}


@row("tuple")
def _tuple(d: Draft) -> Call:
    return ([d.array() for _ in range(d.integer(0, 3))],), {}


@row("get_tuple_element")
def _get_tuple_element(d: Draft) -> Call:
    count = d.integer(1, 3)
    return (ops.tuple([d.array() for _ in range(count)]), d.integer(0, count - 1)), {}


@row("create_token")
def _create_token(d: Draft) -> Call:
    return (), {}


@row("after_all")
def _after_all(d: Draft) -> Call:
    return ([ops.create_token() for _ in range(d.integer(0, 2))],), {}


# Indexing. Out of bounds too: starts are clamped.

_STARTS = small(-2, 6)


@row("dynamic_slice")
def _dynamic_slice(d: Draft) -> Call:
    value = d.array()
    sizes = shape_of(value).dimensions
    kind = d.kind(INTEGERS)
    starts = [d.array((kind,), _STARTS, sizes=()) for _ in sizes]
    return (value, starts, [d.integer(0, size) for size in sizes]), {}


@row("dynamic_update_slice")
def _dynamic_update_slice(d: Draft) -> Call:
    (value, starts, sizes), _ = _dynamic_slice(d)
    update = d.array((str(shape_of(value).element_type),), sizes=sizes)
    return (value, update, starts), {}


class _Windows(NamedTuple):
    """Where windows of an array are taken or put."""

    window: list[int]
    dropped: list[int]
    mapped: list[int]
    offsets: list[int]
    vector_at: int
    batching: list[int]
    indices_batching: list[int]
    index_sizes: list[int]
    result_sizes: list[int]


def _windows(d: Draft, sizes: Sequence[int]) -> _Windows:
    rank = len(sizes)
    batching = [each for each in range(rank) if d.chance(5)]
    window = [1 if i in batching and s else d.integer(0, s) for i, s in enumerate(sizes)]
    dropped = [i for i in range(rank) if i not in batching and window[i] == 1 and d.chance()]
    mapped = d.shuffled([i for i in range(rank) if i not in batching and d.chance(3) is False])
    others = d.sizes((1, 0, 2))
    # The batch of the indices: sizes of their own, and those of the batching dimensions.
    named = d.shuffled([*[(size, None) for size in others], *[(sizes[i], i) for i in batching]])
    vector_at = d.integer(0, len(named))
    index_sizes = [size for size, _ in named]
    places = {i: at + (at >= vector_at) for at, (_, i) in enumerate(named) if i is not None}
    kept = [window[i] for i in range(rank) if i not in dropped and i not in batching]
    result_rank = len(named) + len(kept)
    offsets = sorted(d.shuffled(range(result_rank))[: len(kept)])
    batch, slices = iter(index_sizes), iter(kept)
    result = [next(slices) if i in offsets else next(batch) for i in range(result_rank)]
    if len(mapped) != 1 or vector_at != len(named) or d.chance():
        index_sizes = [*index_sizes[:vector_at], len(mapped), *index_sizes[vector_at:]]
    return _Windows(
        window,
        dropped,
        mapped,
        offsets,
        vector_at,
        batching,
        [places[i] for i in batching],
        index_sizes,
        result,
    )


@row("gather")
def _gather(d: Draft) -> Call | None:
    value = d.array(ranks=(2, 1, 3, 0))
    sizes = shape_of(value).dimensions
    w = _windows(d, sizes)
    if any(not sizes[i] for i in w.batching) or math.prod(w.result_sizes) > 200:
        return None
    numbers = ops.GatherDimensionNumbers(
        w.offsets, w.dropped, w.mapped, w.vector_at, w.batching, w.indices_batching
    )
    return (value, d.array(INTEGERS, _STARTS, sizes=w.index_sizes), numbers, w.window), {}


@row("scatter")
def _scatter(d: Draft) -> Call | None:
    kind = d.kind(KINDS)
    function, _, domain = _monoid(d, kind, 40)
    value = d.array((kind,), domain, ranks=(2, 1, 3, 0))
    sizes = shape_of(value).dimensions
    w = _windows(d, sizes)
    if any(not sizes[i] for i in w.batching) or math.prod(w.result_sizes) > 200:
        return None
    numbers = ops.ScatterDimensionNumbers(
        w.offsets, w.dropped, w.mapped, w.vector_at, w.batching, w.indices_batching
    )
    # The interpreter applies a part of a window, XLA nothing, where it is not within bounds.
    room = min([sizes[i] - w.window[i] for i in w.mapped], default=0)
    starts = _STARTS if all(each == 1 for each in w.window) else small(0, room)
    indices = d.array(INTEGERS, starts, sizes=w.index_sizes)
    return (value, indices, d.array((kind,), domain, sizes=w.result_sizes), function, numbers), {}


# Folds.


def _monoid(d: Draft, kind: str, count: int) -> tuple[Callable[..., Any], np.ndarray, Domain]:
    """A computation, its identity, and what it combines `count` of exactly."""
    dtype = Shape(kind).dtype
    names = {
        "pred": ("or", "and", "xor", "max", "min"),
        "float": ("add", "max", "min", "mul"),
        "complex": ("add",),
    }.get(Shape(kind).element_type.kind, ("add", "mul", "max", "min", "and", "or", "xor"))
    name = d.choice(names)
    identity = {"max": "or", "min": "and"}.get(name, name) if kind == "pred" else name
    domain = {"add": summed(count), "mul": small(-1, 1)}.get(name, ORDERED)
    domain = domain if Shape(kind).element_type.is_inexact else ANY
    function = getattr(ops, name, None) or getattr(ops, f"{name}_")
    if d.chance(4):
        return (lambda x, y: function(x, y)), identity_of(identity, dtype), domain
    return function, identity_of(identity, dtype), domain


def _scalar(array: np.ndarray) -> Any:
    return Literal(array, Shape(array.dtype))


@row("reduce")
def _reduce(d: Draft) -> Call:
    kind = d.kind(KINDS)
    function, identity, domain = _monoid(d, kind, 64)
    value = d.array((kind,), domain)
    dimensions = d.shuffled(d.subset(range(shape_of(value).rank)))
    if d.chance(4) and not Shape(kind).element_type.is_complex:
        return _argmax(d, value, dimensions)
    return (value, ops.constant(_scalar(identity)), function, dimensions), {}


def _argmax(d: Draft, value: Any, dimensions: Sequence[int]) -> Call:
    """Two operands: the largest number of those that come first."""
    if not shape_of(value).element_type.is_integer:
        value = d.array(INTEGERS)
        dimensions = d.subset(range(shape_of(value).rank))
    places = d.like(value, kinds=("s32",))
    least = identity_of("max", shape_of(value).dtype)

    def larger(x: Any, at: Any, y: Any, other: Any) -> Any:
        wins = ops.or_(ops.gt(x, y), ops.and_(ops.eq(x, y), ops.le(at, other)))
        return ops.select(wins, x, y), ops.select(wins, at, other)

    inits = [ops.constant(_scalar(least)), ops.constant(_scalar(np.array(2**31 - 1, np.int32)))]
    return ([value, places], inits, larger, dimensions), {}


@row("reduce_window")
def _reduce_window(d: Draft) -> Call:
    kind = d.kind(KINDS)
    function, identity, domain = _monoid(d, kind, 27)
    value = d.array((kind,), domain)
    rank = shape_of(value).rank

    def each(low: int, high: int) -> list[int]:
        return [d.integer(low, high) for _ in range(rank)]

    padding = d.choice(("VALID", "SAME", None)) or [(d.integer(0, 2), d.integer(0, 2))] * rank
    keywords = {}
    if d.chance() and not isinstance(padding, str):
        keywords = {"base_dilations": each(1, 2), "window_dilations": each(1, 2)}
    init = ops.constant(_scalar(identity))
    return (value, init, function, each(1, 3), each(1, 2), padding), keywords


@row("select_and_scatter")
def _select_and_scatter(d: Draft) -> Call | None:
    kind = d.kind((*INTEGERS, *FLOATS))
    value = d.array((kind,), ORDERED, ranks=(1, 2), least=1)
    shape = shape_of(value)
    window = [d.integer(1, size) for size in shape.dimensions]
    strides = [d.integer(1, 2) for _ in window]
    sizes = [(s - w) // t + 1 for s, w, t in zip(shape.dimensions, window, strides, strict=True)]
    # The interpreter adds the initial value twice.
    zero = ops.constant(Literal(np.zeros((), shape.dtype), Shape(kind)))
    source = d.array((kind,), summed(16), sizes=sizes)
    return (value, ops.ge, window, strides, "VALID", source, zero, ops.add), {}


@row("sort")
def _sort(d: Draft) -> Call:
    value = d.array((*REALS, *PRED), ORDERED, ranks=(1, 2, 3))
    dimension = d.integer(-1, shape_of(value).rank - 1)
    direction = d.choice((ops.lt, ops.gt))
    if d.chance():
        return (value, direction, dimension, d.chance()), {}
    values = [value, *[d.like(value, kinds=KINDS) for _ in range(d.integer(1, 2))]]
    return (values, lambda x, y, *others: direction(x, y), dimension), {"is_stable": True}


@row("top_k")
def _top_k(d: Draft) -> Call:
    value = d.array(REALS, ORDERED, ranks=(1, 2))
    return (value, d.integer(0, shape_of(value).dimensions[-1])), {"largest": d.chance()}


# Products. XLA's sums of products begin with the first, so that no product may be -0: one operand
# is positive. Convolutions of constants are folded in double: integers are small there.


def positive(domain: Domain) -> Domain:
    """The numbers of a domain of whole numbers that are above 0."""

    def is_positive(array: np.ndarray) -> bool:
        if array.dtype.kind == "c":
            return bool(((array.real > 0) & (array.imag > 0)).all())
        return bool((array.astype(np.float64) > 0).all())

    def sample(generator: Any, dtype: np.dtype, sizes: tuple[int, ...]) -> np.ndarray:
        if not is_inexact(dtype):
            return domain.sample(generator, dtype, sizes)
        found = np.ones(sizes, dtype) * (1 + 1j if dtype.kind == "c" else 1)
        twice = np.array([1, 2]).astype(dtype)
        most = 1 if domain.accepts(twice) else 0
        return (found * twice[generator.integers(0, most, sizes, endpoint=True)]).astype(dtype)

    return Domain(
        lambda array: not is_inexact(array.dtype) or (domain.accepts(array) and is_positive(array)),
        sample,
        domain.free,
    )


def few(domain: Domain) -> Domain:
    """The numbers of a domain that are small where they are integers."""
    least = small(-9, 9)

    def accepts(array: np.ndarray) -> bool:
        return domain.accepts(array) if is_inexact(array.dtype) else least.accepts(array)

    def sample(generator: Any, dtype: np.dtype, sizes: tuple[int, ...]) -> np.ndarray:
        return (domain if is_inexact(dtype) else least).sample(generator, dtype, sizes)

    return Domain(accepts, sample)


@row("dot")
def _dot(d: Draft) -> Call:
    lhs = d.array(NUMERIC, multiplied(4), ranks=(2, 1), least=1)
    shape = shape_of(lhs)
    sizes = (shape.dimensions[-1], *d.sizes((0, 1) if shape.rank == 2 else (0,)))
    return (lhs, d.array((str(shape.element_type),), positive(multiplied(4)), sizes=sizes)), {}


def _product(d: Draft, kinds: Sequence[str]) -> tuple[Any, Any, ops.DotDimensionNumbers]:
    # The interpreter aborts where it contracts a dimension of size 0.
    lhs = d.array(kinds, multiplied(16), ranks=(2, 3, 1), least=1)
    shape = shape_of(lhs)
    order = d.shuffled(range(shape.rank))
    contracting = order[: d.integer(0, min(2, shape.rank))]
    batch = [i for i in order if i not in contracting and d.chance(3)]
    free = d.sizes((1, 0))
    parts = d.shuffled(
        [*[(shape.dimensions[i], i) for i in (*contracting, *batch)], *[(s, None) for s in free]]
    )
    places = {i: at for at, (_, i) in enumerate(parts) if i is not None}
    kind = str(shape.element_type)
    rhs = d.array((kind,), positive(multiplied(16)), sizes=[size for size, _ in parts])
    numbers = ops.DotDimensionNumbers(
        contracting, [places[i] for i in contracting], batch, [places[i] for i in batch]
    )
    return lhs, rhs, numbers


@row("dot_general")
def _dot_general(d: Draft) -> Call:
    lhs, rhs, numbers = _product(d, NUMERIC)
    keywords = {"precision_config": d.choice((None, "HIGHEST"))}
    if str(shape_of(lhs).element_type) in ("s8", "bf16", "f16"):
        wide = "s32" if shape_of(lhs).element_type.is_integer else "f32"
        keywords["preferred_element_type"] = d.choice((None, wide))
    return (lhs, rhs, numbers), keywords


@row("ragged_dot")
def _ragged_dot(d: Draft) -> Call:
    rows, depth, columns, groups = d.size(), d.size(1), d.size(), d.size(1)
    kind = d.kind(NUMERIC)
    numbers = ops.RaggedDotDimensionNumbers(ops.DotDimensionNumbers([1], [1]), [0], [0])
    lhs = d.array((kind,), multiplied(4), sizes=(rows, depth))
    rhs = d.array((kind,), positive(multiplied(4)), sizes=(groups, depth, columns))
    return (lhs, rhs, d.array(("s32",), small(0, 2), sizes=(groups,)), numbers), {}


@row("scaled_dot")
def _scaled_dot(d: Draft) -> Call:
    kind = d.kind(("f32", "bf16", "f16", "f64"))
    lhs, rhs, numbers = _product(d, (kind,))
    scales = [d.array((kind,), _ONES, sizes=()) for _ in "lr"]
    return (lhs, scales[0], rhs, scales[1], numbers), {}


@row("conv_general_dilated")
def _conv_general_dilated(d: Draft) -> Call:
    arguments, keywords = _convolution(d)
    spatial = len(arguments[2])
    if spatial and d.chance():
        keywords["lhs_dilation"] = [d.integer(1, 2) for _ in range(spatial)]
        keywords["rhs_dilation"] = [d.integer(1, 2) for _ in range(spatial)]
        keywords["window_reversal"] = [d.chance() for _ in range(spatial)]
        arguments[3] = [(d.integer(0, 2), d.integer(0, 2)) for _ in range(spatial)]
    return arguments, keywords


def _convolution(d: Draft) -> tuple[list[Any], dict[str, Any]]:
    """Operands, strides and padding; the groups."""
    kind = d.kind(("s32", "f32", "f64", "s8", "u8", "s64", "f16", "bf16", "c64"))
    spatial = d.integer(0, 2)
    groups, batch_groups = d.choice(((1, 1), (2, 1), (1, 2)))
    inputs, outputs = d.integer(1, 2), d.integer(1, 2) * groups * batch_groups
    lhs = [batch_groups * d.integer(1, 2), groups * inputs, *[d.size(1) for _ in range(spatial)]]
    rhs = [outputs, inputs, *[d.integer(1, 3) for _ in range(spatial)]]
    domain = few(multiplied(32))
    padding = d.choice(("SAME", "VALID", None))
    padding = padding or [(d.integer(-1, 2), d.integer(0, 2)) for _ in range(spatial)]
    arguments = [
        d.array((kind,), domain, sizes=lhs),
        d.array((kind,), positive(domain), sizes=rhs),
        [d.integer(1, 2) for _ in range(spatial)],
        padding,
    ]
    return arguments, {"feature_group_count": groups, "batch_group_count": batch_groups}


@row("conv", "conv_general", "conv_with_general_dimensions")
def _conv(d: Draft) -> Call:
    arguments, keywords = _convolution(d)
    arguments[3] = arguments[3] if isinstance(arguments[3], str) else "SAME"
    return arguments, keywords


@row("conv_with_general_padding")
def _conv_with_general_padding(d: Draft) -> Call:
    arguments, keywords = _convolution(d)
    arguments[3] = [(0, 1)] * len(arguments[2])
    return arguments, keywords


@row("triangular_solve", interpreted=False)
def _triangular_solve(d: Draft) -> Call:
    kind, size, batch = d.kind(("f32", "f64", "c64")), d.integer(1, 3), d.sizes((0, 1))
    a = d.array((kind,), small(0, 1) if kind[0] == "f" else _ONES, sizes=(*batch, size, size))
    left = d.chance()
    sizes = (size, d.size()) if left else (d.size(), size)
    b = d.array((kind,), small(-2, 2) if kind[0] == "f" else _ONES, sizes=(*batch, *sizes))
    keywords = {"unit_diagonal": True, "transpose_a": d.choice(("NO_TRANSPOSE", "TRANSPOSE"))}
    return (a, b, left, d.chance()), keywords


# Programs in programs.

_STEPS = (1, 3)


def _basic() -> list[Row]:
    return [each for each in TABLE.values() if each.is_basic and each.interpreted]


def _arrays(d: Draft, low: int, high: int) -> list[Any]:
    return [d.array() for _ in range(d.integer(low, high))]


def _body(d: Draft, operands: Sequence[Any], outputs: Sequence[Any]) -> Any:
    shapes = [shape_of(each) for each in operands]
    return d.inner(shapes, _basic(), d.integer(*_STEPS), outputs)


@row("call", is_basic=False)
def _call(d: Draft) -> Call:
    operands = _arrays(d, 0, 3)
    outputs = [Shape(d.kind(KINDS), d.sizes()) for _ in range(d.integer(1, 2))]
    return (_body(d, operands, outputs), *operands), {}


@row("composite_call", is_basic=False)
def _composite_call(d: Draft) -> Call:
    return _call(d)[0], {"name": "test.composite", "attributes": {"size": 3, "mode": "x"}}


@row("optimization_barrier", is_basic=False)
def _optimization_barrier(d: Draft) -> Call:
    return (_arrays(d, 1, 3),), {}


@row("conditional", is_basic=False)
def _conditional(d: Draft) -> Call:
    outputs = [Shape(d.kind(KINDS), d.sizes()) for _ in range(d.integer(1, 2))]
    if d.chance():
        sides = [_arrays(d, 1, 2) for _ in range(2)]
        bodies = [_body(d, side, outputs) for side in sides]
        return (d.array(PRED, sizes=()), sides[0], bodies[0], sides[1], bodies[1]), {}
    branches = [_arrays(d, 1, 2) for _ in range(d.integer(1, 3))]
    bodies = [_body(d, operands, outputs) for operands in branches]
    return (d.array(("s32",), _STARTS, sizes=()), bodies, branches), {}


@row("while_", is_basic=False)
def _while(d: Draft) -> Call:
    values = _arrays(d, 1, 3)
    counter = ops.constant(np.zeros((), np.int32))
    limit = d.integer(0, 4)
    body = _body(d, [counter, *values], [shape_of(each) for each in values])

    def next_values(count: Any, *others: Any) -> Any:
        return (ops.add(count, np.int32(1)), *ops.call(body, count, *others))

    def condition(count: Any, *others: Any) -> Any:
        return ops.lt(count, np.int32(limit))

    return (condition, next_values, [counter, *values]), {}


@row("scan", is_basic=False)
def _scan(d: Draft) -> Call:
    first = d.array(ranks=(1, 2), least=0)
    at = d.integer(0, shape_of(first).rank - 1)
    length = shape_of(first).dimensions[at]
    inputs = [first]
    if d.chance():
        sizes = [length if i == at else d.size() for i in range(at + 1)]
        inputs.append(d.array(sizes=sizes))
    carries = _arrays(d, 0, 2)
    elements = [shape_of(each).without_dimension(at) for each in inputs]
    shapes = [*elements, *map(shape_of, carries)]
    # An output's dimensions before the one that is scanned are those of the inputs.
    heads = [elements[0].dimensions[:at]]
    outputs = [Shape(d.kind(KINDS), (*heads[0], *d.sizes((0, 1)))) for _ in range(d.integer(0, 2))]
    body = d.inner(shapes, _basic(), d.integer(*_STEPS), [*outputs, *map(shape_of, carries)])
    return (inputs, carries, body, at), {"is_reverse": d.chance()}


@row("map", is_basic=False)
def _map(d: Draft) -> Call:
    first = d.array()
    operands = [first, *[d.like(first, kinds=KINDS) for _ in range(d.integer(0, 1))]]
    static = _arrays(d, 0, 1)
    scalars = [Shape(shape_of(each).element_type) for each in operands]
    shapes = [*scalars, *map(shape_of, static)]
    body = d.inner(shapes, _basic(), d.integer(*_STEPS), [Shape(d.kind(KINDS))])
    return (operands, body), {"static_operands": static}


# What the interpreter does not evaluate.


@row("rng_bit_generator", interpreted=False)
def _rng_bit_generator(d: Draft) -> Call:
    algorithm = d.choice(("rng_three_fry", "rng_philox"))
    state = d.array(("u64",), sizes=(2,))
    shape = Shape(d.choice(("u32", "u64", "u8", "s32", "u16", "f32")), d.sizes())
    return (algorithm, state, shape), {}


@row("replica_id", "partition_id", interpreted=False)
def _process_id(d: Draft) -> Call:
    return (), {}


_INEXACT = "it rounds: in the table of inexact programs"
_PROCESSES = "processes communicate, or read a queue: tests/oracles/parallel.py"
_DUMPED = "it always raises: only the compiler makes it"
_DYNAMIC = "the interpreter aborts on dynamic sizes"

EXCLUDED: dict[str, str] = {
    **dict.fromkeys(
        [
            "atan2",
            "batch_norm_grad",
            "batch_norm_inference",
            "batch_norm_training",
            "cbrt",
            "cholesky",
            "cos",
            "cosh",
            "erf",
            "exp",
            "expm1",
            "fft",
            "log",
            "log1p",
            "logistic",
            "rsqrt",
            "sin",
            "sqrt",
            "tan",
            "tanh",
        ],
        _INEXACT,
    ),
    **dict.fromkeys(
        [
            "all_gather",
            "all_reduce",
            "all_to_all",
            "collective_broadcast",
            "collective_permute",
            "cross_replica_sum",
            "infeed",
            "outfeed",
            "ragged_all_to_all",
            "recv",
            "recv_done",
            "recv_to_host",
            "recv_with_tokens",
            "reduce_scatter",
            "send",
            "send_done",
            "send_to_host",
            "send_with_tokens",
        ],
        _PROCESSES,
    ),
    **dict.fromkeys(
        [
            "add_dependency",
            "all_gather_done",
            "all_gather_start",
            "all_reduce_done",
            "all_reduce_start",
            "async_done",
            "async_start",
            "async_update",
            "bitcast",
            "collective_permute_done",
            "collective_permute_start",
            "copy",
            "copy_done",
            "copy_start",
            "domain",
            "fusion",
            "rng_get_and_update_state",
        ],
        _DUMPED,
    ),
    **dict.fromkeys(("set_dimension_size", "dynamic_reshape"), _DYNAMIC),
    **dict.fromkeys(("rng_normal", "rng_uniform"), "its numbers are the backend's choice"),
    **dict.fromkeys(("custom_call", "register_custom_call"), "it runs code of the user's"),
}

__all__ = ["EXCLUDED", "TABLE", "Row"]
