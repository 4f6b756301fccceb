"""Python's operators on tracers: NumPy broadcasting and JAX's type promotion over strict operations.

Derivative and batching rules are written with them; `minixla.numpy` offers the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.errors import ShapeError, explain
from minixla.core.operation import Operation
from minixla.core.promotion import result_type
from minixla.core.shapes import Shape, shape_of_data
from minixla.core.tracing import Tracer, bind, not_a_value, weak_type_of
from minixla_ops.binary import Add, Div, Mul, Sub
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.rules import splat
from minixla_ops.unary import Neg

__all__ = ["arithmetic", "broadcast_shapes", "broadcast_to", "convert", "promote"]


def convert(value: Any, kind: ElementType) -> Any:
    """`value` as an array of element type `kind`; constants are converted at once."""
    if isinstance(value, (int, float, complex)):
        return splat(value, Shape(kind))
    if _array_shape(value).element_type is kind:
        return value
    from minixla_ops.conversion import convert_element_type

    return convert_element_type(value, kind)


def broadcast_to(value: Any, sizes: Sequence[int]) -> Any:
    """`value` broadcast to `sizes` by NumPy's rule (trailing dimensions are aligned)."""
    own = _array_shape(value).dimensions
    if own == tuple(sizes):
        return value
    first = len(sizes) - len(own)
    return broadcast_in_dim(value, sizes, range(first, len(sizes)))


def broadcast_shapes(sizes: Sequence[Sequence[int]], subject: str) -> tuple[int, ...]:
    """The common dimensions of several by NumPy's rule.

    Raises:
        ShapeError: there are none.
    """
    rank = max(map(len, sizes), default=0)
    common = [1] * rank
    for each in sizes:
        for index, size in enumerate(each, rank - len(each)):
            if common[index] == 1:
                common[index] = size
            elif size not in (1, common[index]):
                raise explain(
                    ShapeError,
                    subject,
                    "the operands' dimensions do not broadcast together",
                    [f"operand {i} has dimensions {tuple(each)}" for i, each in enumerate(sizes)],
                    "Aligned from the right, sizes must be equal or one of them 1; insert "
                    "dimensions of size 1 with reshape or x[:, None].",
                )
    return tuple(common)


def promote(subject: str, *operands: Any) -> tuple[list[Any], bool]:
    """Operands converted and broadcast to one element type and shape.

    Returns:
        The operands, and whether all were weakly typed.

    Raises:
        ShapeError: they do not broadcast, or have no common type.
    """
    shapes = [_array_shape(operand, subject) for operand in operands]
    types = [(s.element_type, weak_type_of(o)) for s, o in zip(shapes, operands, strict=True)]
    kind, weak = result_type(types)
    sizes = broadcast_shapes([shape.dimensions for shape in shapes], subject)
    return [broadcast_to(convert(operand, kind), sizes) for operand in operands], weak


def _array_shape(value: Any, subject: str = "operator") -> Shape:
    if isinstance(value, Tracer):
        return value._array_shape()
    shape = shape_of_data(value)
    if shape is None:
        raise not_a_value(value, subject)
    return shape


def arithmetic(operation: Operation) -> Callable[[Any, Any], Any]:
    """The function of two operands that promotes and broadcasts them for `operation`."""
    name = operation.builder_name

    def function(lhs: Any, rhs: Any) -> Any:
        # Equal shapes and Python numbers, most of all calls, need no promotion.
        if isinstance(lhs, Tracer):
            if isinstance(rhs, Tracer):
                if lhs._shape is rhs._shape and not _may_be_weak(lhs):
                    return bind(operation, lhs, rhs)
            elif type(rhs) in _NUMBERS and _is_strong_inexact(lhs):
                return bind(operation, lhs, splat(rhs, lhs._shape))  # type: ignore[arg-type]
        elif type(lhs) in _NUMBERS and isinstance(rhs, Tracer) and _is_strong_inexact(rhs):
            return bind(operation, splat(lhs, rhs._shape), rhs)
        (left, right), weak = promote(name, lhs, rhs)
        result = bind(operation, left, right)
        if weak and isinstance(result, Tracer):
            result._mark_weak()
        return result

    return function


_NUMBERS = frozenset((int, float))


def _may_be_weak(value: Tracer) -> bool:
    return not getattr(value._shape, "dimensions", None) and value.weak_type


def _is_strong_inexact(value: Any) -> bool:
    shape = value._shape
    return type(shape) is Shape and shape.element_type.is_inexact and not _may_be_weak(value)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Tracer, int, float, complex, np.ndarray, np.generic)) or (
        hasattr(value, "dtype") and hasattr(value, "shape")
    )


def install(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Makes `function` Tracer's operator `name` (`add`), from both sides."""

    def forward(self: Tracer, other: Any) -> Any:
        return function(self, other) if _is_operand(other) else NotImplemented

    def reflected(self: Tracer, other: Any) -> Any:
        return function(other, self) if _is_operand(other) else NotImplemented

    setattr(Tracer, f"__{name}__", forward)
    setattr(Tracer, f"__r{name}__", reflected)


add = arithmetic(Add.instance)  # type: ignore[attr-defined]
subtract = arithmetic(Sub.instance)  # type: ignore[attr-defined]
multiply = arithmetic(Mul.instance)  # type: ignore[attr-defined]
divide = arithmetic(Div.instance)  # type: ignore[attr-defined]

install("add", add)
install("sub", subtract)
install("mul", multiply)
install("truediv", divide)
Tracer.__neg__ = lambda self: bind(Neg.instance, self)  # type: ignore[attr-defined]
