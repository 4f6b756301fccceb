"""What all element-wise operations share: equal operand shapes, one element at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.linear import add_cotangents
from minixla.core.operation import EVERY_OPERAND, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import align_batches
from minixla_ops.casting import cast, widened

__all__ = [
    "ALL",
    "COMPLEX",
    "FLOATS",
    "INEXACT",
    "INTEGERS",
    "INTEGERS_AND_PRED",
    "NUMERIC",
    "REALS",
    "SIGNED",
    "Binary",
    "Elementwise",
    "Unary",
    "named_like",
]


def _types(*kinds: str) -> frozenset[ElementType]:
    return frozenset(each for each in ELEMENT_TYPES.values() if each.kind in kinds)


ALL = _types("pred", "signed", "unsigned", "float", "complex")
FLOATS = _types("float")
COMPLEX = _types("complex")
INEXACT = FLOATS | COMPLEX
INTEGERS = _types("signed", "unsigned")
INTEGERS_AND_PRED = INTEGERS | _types("pred")
REALS = INTEGERS | FLOATS
NUMERIC = INTEGERS | INEXACT
SIGNED = _types("signed")


class Elementwise(Operation):
    """Base class: result element [i, ...] depends on operand elements [i, ...] alone.

    Checks:
        (C1) the operands are arrays of equal dimensions and element type.
        (C2) the element type is one of `element_types`.

    Members give `element_types` and `numpy` (or their own `reference`) and a derivative.
    """

    element_types: ClassVar[frozenset[ElementType]] = ALL
    #: The NumPy function of arrays of the type that `casting.widened` says, where results of the
    #: operands' type are rounded once from.
    numpy: ClassVar[Callable[..., Any] | None] = None
    #: Whether NumPy computes floats in f64 and complex numbers in c128, whatever the operands'
    #: type: for functions that are not exact, so that the reference is more so than any backend.
    in_double: ClassVar[bool] = False
    dynamic_operands = EVERY_OPERAND

    def shape(self, *operands: Any, **attributes: Any) -> Shape:
        first, *rest = self.array_shapes(operands)
        for index, other in enumerate(rest, 1):
            if other is not first:
                self._reject_unequal(operands, index)
        if first.element_type not in self.element_types:
            self._reject_type(first)
        return self.result_shape(first, **attributes)

    def result_shape(self, operand: Shape, **attributes: Any) -> Shape:
        """The result's shape for operands of shape `operand`."""
        return operand

    def _reject_unequal(self, shapes: Sequence[Any], index: int) -> None:
        names = self.operand_labels(len(shapes))
        what = "dimensions" if shapes[0].element_type is shapes[index].element_type else "types"
        self.reject(
            "C1",
            f"operands {names[0]} and {names[index]} differ in their element {what}"
            if what == "types"
            else f"operands {names[0]} and {names[index]} differ in dimensions",
            [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)],
            "XLA's element-wise operations neither convert nor broadcast: use "
            "convert_element_type or broadcast_in_dim first, or mx.numpy, which does both.",
        )

    def _reject_type(self, shape: Shape) -> None:
        allowed = ", ".join(n for n, each in ELEMENT_TYPES.items() if each in self.element_types)
        self.reject(
            "C2",
            f"element type {shape.element_type} is not supported",
            [f"{self.operand_labels(1)[0]} {shape}"],
            f"It takes {allowed}; convert with convert_element_type.",
        )

    def reference(self, *operands: Any, **attributes: Any) -> Any:
        function = self.numpy
        assert function is not None, f"{self.name} gives neither numpy nor reference"
        kind = element_type(operands[0].dtype)
        wide = widened(kind, self.in_double)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*[cast(operand, wide) for operand in operands]))
        return cast(result, kind) if result.dtype == wide.dtype else result

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        if results[0] is shapes[0]:
            return emit.same_shape(f"stablehlo.{self.stablehlo_name}", operands, results[0])
        return emit.operation(f"stablehlo.{self.stablehlo_name}", operands, shapes, results)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int]:
        aligned, dimension = align_batches(operands, dimensions)
        return bind(self, *aligned, **attributes), dimension


class Unary(Elementwise):
    """Base class of element-wise operations of one operand.

    Members give `derivative`: d result / d operand as an expression in operand and result.
    """

    operand_names = ("operand",)

    def derivative(self, operand: Any, result: Any, **attributes: Any) -> Any:
        """The derivative of the result with respect to the operand, element by element."""
        raise NotImplementedError(f"{self.name} has no derivative")

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, **attributes: Any
    ) -> Any:
        if self.linear_operands is not None:
            return super().jvp(primals, tangents, results, **attributes)
        return tangents[0] * self.derivative(primals[0], results, **attributes)

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        **attributes: Any,
    ) -> Sequence[Any]:
        if self.linear_operands is not None:
            return super().vjp(cotangents, operands, results, active, **attributes)
        return (cotangents * self.derivative(operands[0], results, **attributes),)


class Binary(Elementwise):
    """Base class of element-wise operations of two operands.

    Members give `derivatives`: for each operand a function of nothing that makes the derivative,
    so that only the ones wanted are computed.
    """

    operand_names = ("lhs", "rhs")

    def derivatives(
        self, lhs: Any, rhs: Any, result: Any
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """The derivatives with respect to lhs and rhs, each behind a function."""
        raise NotImplementedError(f"{self.name} has no derivative")

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, **attributes: Any
    ) -> Any:
        if self.linear_operands is not None:
            return super().jvp(primals, tangents, results, **attributes)
        total = None
        partials = self.derivatives(primals[0], primals[1], results)
        for tangent, partial in zip(tangents, partials, strict=True):
            if tangent is not None:
                total = add_cotangents(total, tangent * partial())
        return total

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        **attributes: Any,
    ) -> Sequence[Any]:
        if self.linear_operands is not None:
            return super().vjp(cotangents, operands, results, active, **attributes)
        partials = self.derivatives(operands[0], operands[1], results)
        return [
            cotangents * partial() if wanted else None
            for wanted, partial in zip(active, partials, strict=True)
        ]


def named_like(function: Callable[..., Any], operation: type[Operation]) -> Callable[..., Any]:
    """Gives a builder function the name and documentation of its operation."""
    function.__name__ = function.__qualname__ = operation.builder_name
    function.__module__ = operation.__module__
    function.__doc__ = inspect.getdoc(operation)
    return function
