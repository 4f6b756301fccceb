"""Running sums, products and extrema along an axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.core.errors import AttributeValueError, explain
from minixla.core.shapes import Shape
from minixla.numpy.arithmetic import maximum, minimum
from minixla.numpy.elementwise import clip
from minixla.numpy.logic import as_bool, isfinite, isnan, where
from minixla.numpy.manipulation import reshape
from minixla.numpy.operands import (
    axis_of,
    lifted,
    operand_shape,
    refuse_out,
    requested_type,
    sum_type,
)
from minixla_ops.elementwise.operators import convert
from minixla_ops.programs.computations import identity_of
from minixla_ops.vocabulary.shorthand import splat

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "nancumprod",
    "nancumsum",
]

# Up to this size the doubling scan passes over the whole array; longer axes are cut into blocks.
_BLOCK = 256


def _window(x: Any, axis: int, monoid: str) -> Any:
    """Running results of a monoid as one ReduceWindow, which XLA turns into a tree."""
    shape = operand_shape(x, "cumulative")
    size = shape.dimensions[axis]
    window = [size if at == axis else 1 for at in range(shape.rank)]
    padding = [(size - 1, 0) if at == axis else (0, 0) for at in range(shape.rank)]
    neutral = _neutral(monoid, shape.element_type)
    return ops.reduce_window([x], [neutral], _OPERATIONS[monoid], window, [1] * shape.rank, padding)


_OPERATIONS = {"add": ops.add, "mul": ops.mul, "or": ops.or_, "max": maximum, "min": minimum}


def _neutral(monoid: str, kind: ElementType) -> Any:
    return splat(identity_of(monoid, kind.dtype)[()], Shape(kind))


def _scan(x: Any, axis: int, combine: Callable[[Any, Any], Any], neutral: Any) -> Any:
    """Running results of an associative function, by doubling; differentiable step by step."""
    sizes = operand_shape(x, "scan").dimensions
    size, rank = sizes[axis], len(sizes)
    if size > _BLOCK:
        return _scan_blocks(x, axis, combine, neutral)
    distance = 1
    while distance < size:
        padding = [(distance, -distance, 0) if at == axis else (0, 0, 0) for at in range(rank)]
        x = combine(ops.pad(x, neutral, padding), x)
        distance *= 2
    return x


def _scan_blocks(x: Any, axis: int, combine: Callable[[Any, Any], Any], neutral: Any) -> Any:
    """The scan of blocks, each combined with the scan of the blocks before it."""
    sizes = operand_shape(x, "scan").dimensions
    size, rank = sizes[axis], len(sizes)
    count = -(-size // _BLOCK)
    padding = [(0, count * _BLOCK - size if at == axis else 0, 0) for at in range(rank)]
    blocks = (*sizes[:axis], count, _BLOCK, *sizes[axis + 1 :])
    inner = _scan(ops.reshape(ops.pad(x, neutral, padding), blocks), axis + 1, combine, neutral)
    totals = ops.slice_in_dim(inner, _BLOCK - 1, _BLOCK, axis + 1)
    before = _scan(totals, axis, combine, neutral)
    shift = [(1, -1, 0) if at == axis else (0, 0, 0) for at in range(rank + 1)]
    before = ops.pad(before, neutral, shift)
    spread = ops.broadcast_in_dim(before, blocks, range(rank + 1))
    joined = (*sizes[:axis], count * _BLOCK, *sizes[axis + 1 :])
    return ops.slice_in_dim(ops.reshape(combine(spread, inner), joined), 0, size, axis)


def _cumulative(
    subject: str,
    a: Any,
    axis: int | None,
    dtype: Any,
    run: Callable[[Any, int], Any],
    promote_integers: bool = False,
) -> Any:
    shape = operand_shape(a, subject)
    if axis is None or not shape.rank:
        # A scalar is a vector of one element.
        a, shape = reshape(a, (shape.size,)), shape.with_dimensions((shape.size,))
    place = axis_of(0 if axis is None else axis, shape.rank, subject)
    own = shape.element_type
    kind = sum_type(own) if promote_integers or own.kind == "pred" else own
    kind = kind if dtype is None else requested_type(dtype, subject)
    work = kind
    if kind.kind == "pred":
        a, work = as_bool(a, subject), sum_type(kind)
    a = lifted(convert(a, work))
    result = run(a, place) if operand_shape(a, subject).size else a
    return lifted(as_bool(result, subject) if kind.kind == "pred" else convert(result, kind))


def _sum(x: Any, axis: int) -> Any:
    return _window(x, axis, "add")


def _product(x: Any, axis: int) -> Any:
    if not operand_shape(x, "cumprod").element_type.is_inexact:
        return _window(x, axis, "mul")
    return _differentiable_product()(x, axis)


@cache
def _differentiable_product() -> Any:
    from minixla.transforms.custom_derivatives import custom_jvp
    from minixla.transforms.gradients import jvp

    custom = custom_jvp(_products, nondiff_argnums=(1,))

    @custom.defjvp
    def _(axis: int, primals: Any, tangents: Any) -> Any:
        neutral = _neutral("mul", operand_shape(primals[0], "cumprod").element_type)
        moved = jvp(lambda x: _scan(x, axis, _factors, neutral), primals, tangents)[1]
        return _product(primals[0], axis), moved

    return custom


_NONE, _ZERO, _INFINITE = map(np.uint8, (0, 1, 2))


def _products(x: Any, axis: int) -> Any:
    result = _window(x, axis, "mul")
    # Products of later factors may overflow; 0 times them is 0 where no factor is infinite or NaN.
    flags = ops.or_(where(x == 0, _ZERO, _NONE), where(isfinite(x), _NONE, _INFINITE))
    is_zero = _window(flags, axis, "or") == _ZERO
    return where(is_zero & isnan(result), 0, result)


def _factors(x: Any, y: Any) -> Any:
    """The product of x and y; beside 0 one that has overflowed counts as finite."""
    return _finite_beside(y, x) * _finite_beside(x, y)


def _finite_beside(other: Any, x: Any) -> Any:
    kind = operand_shape(x, "cumprod").element_type
    if kind.is_complex:
        return x
    largest = float(ml_dtypes.finfo(kind.dtype).max)
    return ops.select(other == 0, clip(x, -largest, largest), x)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The running sum along an axis.

    Args:
        a: an array.
        axis: the axis; None for the elements in row-major order.
        dtype: the type to sum in and return; default: that of `a`.
        out: not supported.
    """
    refuse_out("cumsum", out)
    return _cumulative("cumsum", a, axis, dtype, _sum)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The running product along an axis; arguments as for `cumsum`."""
    refuse_out("cumprod", out)
    return _cumulative("cumprod", a, axis, dtype, _product)


def _running(monoid: str) -> Callable[[Any, int], Any]:
    def run(x: Any, axis: int) -> Any:
        neutral = _neutral(monoid, operand_shape(x, "cumulative").element_type)
        return _scan(x, axis, _OPERATIONS[monoid], neutral)

    return run


def cummax(a: Any, axis: int | None = None) -> Any:
    """The greatest element so far along an axis; None for the elements in row-major order."""
    return _cumulative("cummax", a, axis, None, _running("max"))


def cummin(a: Any, axis: int | None = None) -> Any:
    """The least element so far along an axis; None for the elements in row-major order."""
    return _cumulative("cummin", a, axis, None, _running("min"))


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The running sum along an axis of what is not NaN; arguments as for `cumsum`."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """The running product along an axis of what is not NaN; arguments as for `cumsum`."""
    return cumprod(_without_nan(a, 1), axis, dtype, out)


def _without_nan(a: Any, number: int) -> Any:
    kind = operand_shape(a, "nancumsum").element_type
    return where(isnan(a), convert(number, kind), a) if kind.is_inexact else a


def _from_initial(
    subject: str,
    x: Any,
    axis: int | None,
    dtype: Any,
    run: Callable[[Any, int], Any],
    initial: int,
    include_initial: bool,
) -> Any:
    rank = operand_shape(x, subject).rank
    if rank == 0 or (axis is None and rank > 1):
        raise explain(
            AttributeValueError,
            subject,
            f"axis is not given for an array of {rank} dimensions",
            advice="Only for a vector may it be left out.",
        )
    place = axis_of(0 if axis is None else axis, rank, subject)
    result = _cumulative(subject, x, place, dtype, run, promote_integers=initial == 0)
    if not include_initial:
        return result
    shape = operand_shape(result, subject)
    padding = [(1 if at == place else 0, 0, 0) for at in range(shape.rank)]
    return ops.pad(result, splat(initial, Shape(shape.element_type)), padding)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running sum along an axis, which only of a vector may be left out; array API's cumsum.

    Args:
        x: an array.
        axis: the axis.
        dtype: the type to sum in and return; default: that of `x`, integers at least the default.
        include_initial: whether the sum of nothing comes first.
    """
    return _from_initial("cumulative_sum", x, axis, dtype, _sum, 0, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running product along an axis; as `cumulative_sum`, but integers stay narrow."""
    return _from_initial("cumulative_prod", x, axis, dtype, _product, 1, include_initial)
