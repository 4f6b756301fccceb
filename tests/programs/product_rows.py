"""Rows of sums of products.

XLA's begin with the first product, so that none may be -0: one operand is positive. Convolutions of
constants are folded in double: integers are small there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import (
    NUMERIC,
    Domain,
    is_inexact,
    multiplied,
    small,
)
from tests.programs.draft import Draft
from tests.programs.rows import Call, row

_ONES = Domain(
    lambda array: bool((array == 1).all()), lambda generator, dtype, sizes: np.ones(sizes, dtype)
)


def positive(domain: Domain) -> Domain:
    """The numbers of a domain of whole numbers that are above 0."""

    def is_positive(array: np.ndarray) -> bool:
        if array.dtype.kind == "c":
            return bool(((np.real(array) > 0) & (np.imag(array) > 0)).all())
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
    shape = array_shape(lhs)
    sizes = (shape.dimensions[-1], *d.sizes((0, 1) if shape.rank == 2 else (0,)))
    return (lhs, d.array((str(shape.element_type),), positive(multiplied(4)), sizes=sizes)), {}


def _product(d: Draft, kinds: Sequence[str]) -> tuple[Any, Any, ops.DotDimensionNumbers]:
    # The interpreter aborts where it contracts a dimension of size 0.
    lhs = d.array(kinds, multiplied(16), ranks=(2, 3, 1), least=1)
    shape = array_shape(lhs)
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
    if str(array_shape(lhs).element_type) in ("s8", "bf16", "f16"):
        wide = "s32" if array_shape(lhs).element_type.is_integer else "f32"
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
