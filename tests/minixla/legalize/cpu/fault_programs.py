"""Programs of the fault rows that take more than a line."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla as mx
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, shape_of
from minixla.core.element_types import element_type
from minixla_ops.helpers.casting import cast


def array(numbers: Any, kind: str) -> np.ndarray:
    """Build an array of an element type by name; integers are not converted through floats."""
    dtype = ELEMENT_TYPES[kind].dtype
    return np.asarray(numbers).astype(dtype)


def full(x: Any, number: Any) -> Any:
    """Return a constant with the shape of `x` that repeats a number."""
    shape: Any = shape_of(x)
    return ops.constant(np.full(shape.dimensions, number).astype(shape.dtype))


def of_constants(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Any]:
    """A program without arguments."""
    return lambda: function(*map(ops.constant, arrays))


def with_number(name: str, number: Any, is_first: bool = False) -> Callable[[Any], Any]:
    """An operation on the operand and a constant that repeats a number."""

    def program(x: Any) -> Any:
        values = (full(x, number), x) if is_first else (x, full(x, number))
        return getattr(ops, name)(*values)

    return program


def chain(*steps: tuple[str, float]) -> Callable[[Any], Any]:
    """Operations with constants, one after the other."""

    def program(x: Any) -> Any:
        for name, number in steps:
            x = with_number(name, number)(x)
        return x

    return program


def clamped(low: np.ndarray, high: np.ndarray) -> Callable[[Any], Any]:
    """The operand between two constants."""
    return lambda x: ops.clamp(ops.constant(low), x, ops.constant(high))


def tables(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of numbers of a narrow type."""
    bits = ELEMENT_TYPES[kind].bits
    least = -(1 << (bits - 1)) if kind[0] == "s" else 0
    numbers = np.arange(least, least + (1 << bits))
    return array(np.repeat(numbers, len(numbers)), kind), array(
        np.tile(numbers, len(numbers)), kind
    )


def bits_of(name: str, kind: str) -> Callable[..., Any]:
    """An operation on a narrow type whose result is converted to 8 bits."""
    return lambda *x: ops.convert_element_type(getattr(ops, name)(*x), f"{kind[0]}8")


def narrowed(kind: str, fold: str) -> Callable[[Any], Any]:
    """A conversion to fewer bits, a window over it, and `or` of both."""
    dtype = ELEMENT_TYPES[kind].dtype
    low = np.iinfo(dtype).min if fold == "max" else 0
    size = 6 if fold == "cumsum" else 2

    def program(x: Any) -> Any:
        y = ops.convert_element_type(x, kind)
        function = ops.max if fold == "max" else ops.add
        return ops.or_(
            ops.reduce_window(y, dtype.type(low), function, (size,), (1,), ((size - 1, 0),)), y
        )

    return program


def _last(kind: str) -> Any:
    return ops.constant(np.array(-1).astype(ELEMENT_TYPES[kind].dtype))


def sliced(kind: str) -> Callable[[Any], Any]:
    """A slice from the greatest unsigned number."""
    return lambda x: ops.dynamic_slice(x, [_last(kind)], (3,))


def updated(kind: str) -> Callable[[Any], Any]:
    """An update at the greatest unsigned number."""
    return lambda x: ops.dynamic_update_slice(x, ops.constant(np.array([90, 91])), [_last(kind)])


def gathered(x: Any, index: Any) -> Any:
    """A window of two elements."""
    return ops.gather(x, index, ops.GatherDimensionNumbers((0,), (), (0,), 0), (2,))


def count(kind: Any, start: int, limit: int, step: int, by: str, change: Any = ops.add) -> Any:
    """A loop with constant bounds that returns the counter and the trip count."""

    def goes_on(i: Any, _: Any) -> Any:
        return ops.compare(i, ops.constant(kind(limit)), by)

    def body(i: Any, total: Any) -> Any:
        return change(i, ops.constant(kind(step))), ops.add(total, ops.constant(np.int32(1)))

    return lambda x: ops.while_(goes_on, body, [ops.constant(kind(start)), x])


def windows(padding: Any) -> Callable[[Any], Any]:
    """Windows of one element."""
    return lambda x: ops.reduce_window(x, np.float32(0), ops.add, (1, 1), (1, 1), padding)


def argmax(kind: str) -> Callable[[Any], Any]:
    """The greatest element and its index, in one reduction."""

    def program(x: Any) -> Any:
        def greater(a: Any, i: Any, b: Any, j: Any) -> Any:
            is_first = ops.or_(ops.gt(a, b), ops.and_(ops.eq(a, b), ops.lt(i, j)))
            return ops.select(is_first, a, b), ops.select(is_first, i, j)

        indices = ops.iota(mx.Shape("s32", (4,)), 0)
        least = np.array(0).astype(ELEMENT_TYPES[kind].dtype)
        return ops.reduce([x, indices], [least, np.int32(9)], greater, (0,))

    return program


def scattered(other: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One scatter into two arrays: x and `other(x)`."""
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,), 1)

    def added(a: Any, b: Any, p: Any, q: Any) -> Any:
        return ops.add(a, p), ops.add(b, q)

    def program(x: Any) -> Any:
        kind = element_type(shape_of(x).dtype)  # type: ignore[union-attr]  # x is an array
        updates = [ops.constant(cast(np.array(each), kind)) for each in ([1, 2], [10, 20])]
        return ops.scatter([x, other(x)], np.int32([[0], [2]]), updates, added, numbers)

    return program
