"""What is drawn of integers and booleans, of categories and of the elements of arrays."""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import U64, canonical_element_type
from minixla.engine.random_keys import KeyNumbers
from minixla.numpy import operands
from minixla.numpy.operands import (
    axis_of,
    convert,
    default_int,
    kind_of,
    lifted,
    operand_shape,
    shape_error,
    value_error,
)
from minixla.random import drawing
from minixla.random.sampling import finfo, random_bits, requested, sampler, sizes_of, split_keys


@sampler()
def bits(key: KeyNumbers, shape: Any = (), dtype: Any = None) -> Any:
    """Random bits, as unsigned integers.

    Raises:
        ShapeError: the dtype is of something else.
    """
    kind = requested(dtype, "bits", canonical_element_type(U64), "unsigned")
    return random_bits(key, kind.bits, shape)


@sampler("minval", "maxval")
def randint(key: KeyNumbers, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers between two numbers, all equally likely.

    Args:
        key: a random key.
        shape: the result's.
        minval: the least, which is among them; it broadcasts to the shape. Where it is not less
            than `maxval` all are this one.
        maxval: the first that is too large. Limits outside of the dtype count as its own.
        dtype: the result's type; default: the default integer.

    Raises:
        ShapeError: the dtype is none of integers, or the shapes do not fit.
    """
    kind = requested(dtype, "randint", default_int(), "signed", "unsigned")
    return drawing.integers(key, sizes_of("randint", shape, minval, maxval), minval, maxval, kind)


@sampler("p")
def bernoulli(key: KeyNumbers, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """Booleans that are true with a probability.

    Args:
        key: a random key.
        p: the probabilities, floats, which broadcast to the shape.
        shape: the result's; None: that of `p`.
        mode: "high" draws twice as many bits, so that small probabilities are exact.

    Raises:
        ShapeError: `p` is no float, or the shapes do not fit.
        AttributeValueError: there is no such mode.
    """
    operands.refuse_others(mode, ("high", "low"), "bernoulli", "mode")
    kind = kind_of(p, "bernoulli")
    if not kind.is_float:
        raise shape_error("bernoulli", f"p is of type {kind}", "Give floats.", p=p)
    sizes = sizes_of("bernoulli", shape, p)
    if mode == "low":
        return drawing.floats(key, sizes, kind) < p
    both = drawing.floats(key, (2, *sizes), kind)
    return both[1] * 2.0 ** -finfo(kind).nmant < p - both[0]


@sampler()
def rademacher(key: KeyNumbers, shape: Any = (), dtype: Any = None) -> Any:
    """-1 and 1, equally likely."""
    kinds = "signed", "unsigned", "float", "complex", "pred"
    kind = requested(dtype, "rademacher", default_int(), *kinds)
    return drawing.signs(key, shape, kind)


@sampler("logits")
def categorical(
    key: KeyNumbers,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Numbers of categories, of unnormalised logarithms of their probabilities.

    Args:
        key: a random key.
        logits: floats.
        axis: that of the categories.
        shape: the result's: that of the logits without the axis, and any sizes in front of it;
            None: none.
        replace: whether a category may be drawn again; else the sizes in front are one draw.
        mode: what `gumbel` has.

    Raises:
        ShapeError: the shapes do not fit.
        AttributeValueError: the axis is none of the logits, there is no such mode, or there are
            fewer categories than shall be drawn without repeating.
    """
    logits = lifted(logits)
    axis = axis_of(axis, logits.ndim, "categorical")
    rest = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    sizes = rest if shape is None else tuple(shape)
    if len(sizes) < len(rest) or sizes_of("categorical", sizes, mnp.zeros(rest)) != sizes:
        advice = "It ends with the sizes of the logits, but for the axis."
        raise shape_error("categorical", "shape does not fit", advice, shape=shape)
    front = sizes[: len(sizes) - len(rest)]
    kind = kind_of(logits)
    if replace:
        drawn = list(sizes[len(front) :])
        drawn.insert(axis, logits.shape[axis])
        noise = drawing.gumbels(key, (*front, *drawn), kind, mode)
        return mnp.argmax(noise + logits, axis - logits.ndim)
    noise = drawing.gumbels(key, logits.shape, kind, mode)
    count, most = math.prod(front), logits.shape[axis]
    _refuse_more("categorical", count, most)
    _, indices = ops.top_k(mnp.moveaxis(logits + noise, axis, -1), count)
    return mnp.reshape(mnp.moveaxis(indices, -1, 0), sizes)


def _refuse_more(subject: str, count: int, most: int) -> None:
    if count > most:
        problem = f"{count} cannot be drawn of {most} without repeating any"
        raise value_error(subject, problem, "Draw fewer, or give replace=True.")


@sampler("x", known=("x",))
def permutation(key: KeyNumbers, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """An array in random order, or the integers below a number.

    Args:
        key: a random key.
        x: an array; or an integer that is known when the function is traced.
        axis: along which it is put in another order.
        independent: whether each vector along it gets an order of its own.

    Raises:
        ShapeError: `x` is a single number that is no integer.
        AttributeValueError: it has no such axis.
    """
    if type(x) is int:
        axis_of(axis, 1, "permutation")
        return _shuffled(key, mnp.arange(x), 0)
    axis = axis_of(axis, operand_shape(x, "permutation").rank, "permutation")
    return _shuffled(key, x, axis, independent)


def _shuffled(key: KeyNumbers, x: Any, axis: int, independent: bool = False) -> Any:
    """What `permutation` gives of an array."""
    if independent or x.ndim == 1:
        order = _order(key, x.shape, axis)
        return x if order is None else mnp.take_along_axis(x, order, axis, mode="clip")
    order = _order(key, (x.shape[axis],), 0)
    return x if order is None else mnp.take(x, order, axis, mode="clip")


def _order(key: KeyNumbers, sizes: tuple[int, ...], axis: int) -> Any:
    """Indices along an axis in random order; None where there is only one."""
    order = None
    # Equal bits are so frequent that many elements need more of them than one sort sees.
    rounds = math.ceil(3 * math.log(max(1, math.prod(sizes))) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, own = split_keys(key, 2, sizes)
        found = mnp.argsort(random_bits(own, 32, sizes), axis)
        order = found if order is None else mnp.take_along_axis(order, found, axis, mode="clip")
    return order


@sampler("a", "p", known=("a",), is_sharded=False)
def choice(
    key: KeyNumbers,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Elements of an array, or integers below a number.

    Args:
        key: a random key.
        a: an array; or an integer that is known when the function is traced.
        shape: of what is drawn, which takes the place of the axis.
        replace: whether one may be drawn again.
        p: how probable each is, a vector of floats; default: all alike.
        axis: that of the array's elements.
        mode: what `gumbel` has, for `p` without repeating.

    Raises:
        ShapeError: `p` is no vector of as many numbers as there are elements.
        AttributeValueError: there is no such axis, or there are fewer elements than shall be drawn.
    """
    is_number = type(a) is int
    axis = 0 if is_number else axis_of(axis, a.ndim, "choice")
    most, count = a if is_number else a.shape[axis], math.prod(shape)
    if not count:
        # As in JAX, whatever the array's other sizes are.
        return mnp.zeros(shape, default_int() if is_number else kind_of(a))
    if most <= 0:
        problem = "there is nothing to draw of"
        raise value_error("choice", problem, "Give an array with elements, or draw nothing.", a=a)
    if not replace:
        _refuse_more("choice", count, most)
    sizes = (most,) if is_number else a.shape
    sizes = (*sizes[:axis], *shape, *sizes[axis + 1 :])
    if p is None and not replace:
        whole = _shuffled(key, mnp.arange(most) if is_number else a, axis)
        return mnp.reshape(ops.slice_in_dim(whole, 0, count, axis), sizes)
    if p is None:
        found = drawing.integers(key, tuple(shape), 0, most, default_int())
    else:
        found = _weighted(key, p, tuple(shape), most, replace, mode)
    return mnp.reshape(found if is_number else mnp.take(a, found, axis, mode="clip"), sizes)


def _weighted(
    key: KeyNumbers, p: Any, sizes: tuple[int, ...], most: int, replace: bool, mode: str | None
) -> Any:
    """Indices with probabilities."""
    p = operands.inexact_operand(p, "choice")
    if p.shape != (most,):
        advice = "Give a vector of as many numbers as there are elements."
        given = f"p {operand_shape(p)}", f"{most} elements"
        raise shape_error("choice", "p does not fit the elements", advice, *given)
    if replace:
        sums = mnp.cumsum(p)
        drawn = sums[-1] * (1 - drawing.floats(key, sizes, kind_of(sums)))
        return convert(mnp.searchsorted(sums, drawn), default_int())
    noise = drawing.gumbels(key, (most,), kind_of(p), mode)
    _, indices = ops.top_k(noise + ops.log(p), math.prod(sizes))
    return convert(indices, default_int())
