"""Comparisons, signs and formats of floats that XLA folds wrongly."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, F32
from minixla.core.registry import REGISTRY
from minixla.legalize.barriers import are_constants, on_hidden, type_of
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.comparisons import MEMBERS
from minixla_ops.elementwise.families import FLOATS

_F4, _POWERS = ELEMENT_TYPES["f4e2m1fn"], ELEMENT_TYPES["f8e8m0fnu"]
# XLA folds these correctly for f8e8m0fnu. XLA:CPU treats its smallest number, 2**-127, as 0.
_RIGHT_OF_POWERS = ("Add", "Mul", "Div", "Min", "Max", "Clamp")
_ELEMENTWISE = [
    operation for operation in REGISTRY.values() if operation.is_elementwise and operation.operands
]


@legalize(
    [comparison for (_, is_total), comparison in MEMBERS.items() if is_total],
    "cpu",
    folds=True,
    element_types=FLOATS,
    when=are_constants,
)
def total_order(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds comparisons in total order by the rules of IEEE 754, where -0 equals +0."""
    return on_hidden(operation, operands)


@legalize(classes("Sign"), "cpu", folds=True, element_types=FLOATS, when=are_constants)
def sign_of_zero(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds the sign of -0 to +0."""
    return on_hidden(operation, operands)


def _is_narrow_constant(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).bits <= 16 and are_constants(operation, operands, target)


@legalize(classes("ReducePrecision"), "cpu", folds=True, when=_is_narrow_constant)
def reduced_subnormals(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds reduce_precision with 5 exponent bits of subnormal f16 and f8e5m2fnuz to 0."""
    return on_hidden(operation, operands)


@legalize(
    classes("RoundNearestAfz RoundNearestEven"),
    "cpu",
    folds=True,
    element_types=[ELEMENT_TYPES["f8e3m4"]],
)
def rounded_f8e3m4(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds roundings of f8e3m4 constants to NaN."""
    return on_hidden(operation, operands)


def _is_odd(operation: Any, operands: Operands, target: Target) -> bool:
    if operation.name == "ConvertElementType":
        return operation.new_element_type.kind != "pred"
    return type_of(operands[0]) is _F4 or operation.name not in _RIGHT_OF_POWERS


@legalize(_ELEMENTWISE, "cpu", folds=True, element_types=(_F4, _POWERS), when=_is_odd)
def formats_without_infinity(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds f8e8m0fnu and f4e2m1fn constants to zeros, signs or infinities that they lack."""
    return on_hidden(operation, operands)


def _is_integer(operation: Any, operands: Operands, target: Target) -> bool:
    return operation.new_element_type.is_integer


def _becomes_odd(operation: Any, operands: Operands, target: Target) -> bool:
    return operation.new_element_type in (_F4, _POWERS)


@legalize(classes("ConvertElementType"), "cpu", folds=True, when=_becomes_odd)
def conversions_without_infinity(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds conversions to f8e8m0fnu and f4e2m1fn and ignores signs and NaN."""
    return on_hidden(operation, operands)


@legalize(classes("ConvertElementType"), "cpu", element_types=[_F4], when=_is_integer)
def f4_as_integer(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU converts 6, the largest f4e2m1fn, to the largest integer."""
    return operation(ops.convert_element_type(operands[0], F32))
