"""Short names for writing derivative and batching rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from minixla.core import ElementType, shape_of
from minixla.core.builders import operand_list as operand_list
from minixla.core.linear import add_cotangents as add_cotangents
from minixla.core.linear import instantiate as instantiate
from minixla.core.linear import zeros_like as zeros_like
from minixla.core.registry import fill_role
from minixla.core.shapes import AnyShape, DeclaredArray, Shape, repeated_scalar
from minixla.typing import Array

if TYPE_CHECKING:
    from minixla.core.stablehlo_text import Emitter

#: Operands or results, and the batch dimension of each.
Values = Sequence[Array]
Places = Sequence[int | None]


def splat(value: complex | np.generic, shape: Shape) -> np.ndarray:
    """Return a read-only zero-stride array of `shape` that repeats the Python number `value`.

    A trace records equal arrays as one constant.
    """
    if value == 1:  # every type can represent 1; skipping `errstate` halves the time
        scalar = np.asarray(value).astype(shape.dtype)
    else:
        with np.errstate(all="ignore"):
            scalar = np.asarray(value).astype(shape.dtype)
    return repeated_scalar(scalar, shape.dimensions).view(DeclaredArray)


def array_shape(value: object, subject: str = "shape_of") -> Shape:
    """Return the Shape of a value that must be an array."""
    shape = shape_of(value, subject)
    assert isinstance(shape, Shape), f"{shape} is not an array"
    return shape


def holds(kind: ElementType, number: int) -> bool:
    """Return whether a Python number fits an integer type; every other type can hold it."""
    if not kind.is_integer:
        return not isinstance(number, int) or number.bit_length() < 1024
    info = ml_dtypes.iinfo(kind.dtype)
    return bool(info.min <= number <= info.max)


def listed(value: Any, depth: int = 1) -> Any:
    """Convert a list (of lists, for depth 2) to tuples, which can be hashed.

    Other values are returned unchanged: the attribute's declaration rejects them.
    """
    try:
        members = value if isinstance(value, (str, bytes)) else tuple(value)
    except TypeError:
        return value
    return members if depth == 1 else tuple([listed(member, depth - 1) for member in members])


def repeated(value: Any, count: int, join: Callable[[Any, Any], Any]) -> Any:
    """Join `count` >= 1 copies of `value` by doubling: pairs, pairs of pairs and so on."""
    result = None
    while count:
        if count & 1:
            result = value if result is None else join(result, value)
        count >>= 1
        value = join(value, value) if count else value
    return result


def zeros(shape: AnyShape) -> np.ndarray:
    """Return zeros with an array shape."""
    assert isinstance(shape, Shape), f"zeros need an array shape, not {shape}"
    return splat(0, shape)


def full_like(value: object, number: complex | np.generic) -> np.ndarray:
    """Return `number` repeated in the shape and element type of `value`."""
    return splat(number, array_shape(value))


def ones_like(value: object) -> np.ndarray:
    """Return ones in the shape and element type of `value`."""
    return splat(1, array_shape(value))


def written(emit: Emitter, text: str, shapes: Sequence[AnyShape], result: AnyShape) -> list[str]:
    """Write an operation with one result: `text`, and the types of the operands and the result."""
    name, types = emit.name(), ", ".join([shape.stablehlo for shape in shapes])
    emit.line(f"{name} = {text} : ({types}) -> {result.stablehlo}")
    return [name]


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return the results of an operation, or values for each of them, as a tuple."""
    return results if type(results) is tuple else (results,)


def as_results(values: Sequence[object]) -> Any:
    """Return a single value as it is, and several values as a tuple."""
    return values[0] if len(values) == 1 else tuple(values)


fill_role("zeros", zeros)
