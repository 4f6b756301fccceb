"""Base classes of element-wise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, F32, ElementType, element_type
from minixla.core.errors import TransformError, explain
from minixla.core.linear import add_cotangents
from minixla.core.operation import EVERY_OPERAND, Operation
from minixla.core.shapes import Shape
from minixla.typing import Array
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import align_batches
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.changes import scaled
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.lowering import kept_program


def _types(*kinds: str) -> frozenset[ElementType]:
    return frozenset(kind for kind in ELEMENT_TYPES.values() if kind.kind in kinds)


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
    """Base class of operations whose result [i, ...] depends only on the operands' [i, ...].

    Checks:
        (C1) the operands are arrays with equal dimensions and element types.
        (C2) the element type is one of `element_types`.

    Subclasses define `element_types`, `numpy` (or their own `reference`) and a derivative.
    """

    element_types: ClassVar[frozenset[ElementType]] = ALL
    #: The NumPy function of arrays with the type of `casting.widened`; its results are rounded once
    #: to the operands' type.
    numpy: ClassVar[Any] = None
    #: True if NumPy computes floats in f64 and complex numbers in c128 for all operand types. It
    #: makes the reference of inexact functions more precise than every backend.
    in_double: ClassVar[bool] = False
    #: `lowered(*operands)`: the result by other operations, for the text, if the first operand has
    #: one of the `lowered_types`. StableHLO has the operation for other types. Accuracy requests
    #: are not passed on.
    lowered = GIVEN
    lowered_types: ClassVar[frozenset[ElementType]] = ALL
    dynamic_operands = EVERY_OPERAND
    is_elementwise = True

    def __init_subclass__(cls) -> None:
        if "numpy" in cls.__dict__:  # it is not a method
            cls.numpy = staticmethod(cls.numpy)
        if "hlo_name" not in cls.__dict__ and cls.stablehlo_name is not None:
            cls.hlo_name = cls.stablehlo_name.replace("_", "-")
        super().__init_subclass__()

    def shape(self, *operands):
        first, *rest = operands
        for index, other in enumerate(rest, 1):
            if other is not first:
                labels = self.operand_labels(len(operands))
                is_same_type = first.element_type is other.element_type
                what = "dimensions" if is_same_type else "their element types"
                problem = f"operands {labels[0]} and {labels[index]} differ in {what}"
                advice = "XLA's element-wise operations neither convert nor broadcast. Use"
                advice += " convert_element_type or broadcast_in_dim first, or mx.numpy."
                self.refuse("C1", problem, advice)
        if first.element_type not in self.element_types:
            allowed = [name for name, kind in ELEMENT_TYPES.items() if kind in self.element_types]
            advice = f"It takes {', '.join(allowed)}; convert with convert_element_type."
            self.refuse("C2", f"element type {first.element_type} is not supported", advice)
        return self.result_shape(first)

    def result_shape(self, operand: Shape) -> Shape:
        """Return the result's shape for operands with shape `operand`."""
        return operand

    def reference(self, *operands):
        if self.numpy is None:
            raise self.lacks(
                "reference", advice="Alternatively, declare numpy, a function of arrays."
            )
        kind = element_type(operands[0].dtype)
        wide = widened(kind, self.in_double)
        with np.errstate(all="ignore"):
            result = np.asarray(self.numpy(*[cast(operand, wide) for operand in operands]))
        return cast(result, kind) if result.dtype == wide.dtype else result

    def stablehlo(self, emit, operands, shapes, results):
        if self.lowered and shapes[0].element_type in self.lowered_types:
            program = kept_program(self.lowered, tuple(shapes), self.builder_name)
            if program.output_shapes != tuple(results):
                problem = (
                    f"lowered returns {program.output_shapes[0]}, but the shape rule {results[0]}"
                )
                advice = "Make them agree, or reject other element types with element_types."
                raise explain(TransformError, self.builder_name, problem, advice=advice)
            return emit.expand(program, operands)
        is_alike = shapes[0] is results[0] is shapes[-1]
        if is_alike and self.is_bare and self.stablehlo_name is not None:
            return emit.same_shape(f"stablehlo.{self.stablehlo_name}", operands, results[0])
        return super().stablehlo(emit, operands, shapes, results)

    def batch(self, operands, dimensions):
        aligned, dimension = align_batches(operands, dimensions)
        return self(*aligned), dimension


def in_f32(function: Callable[..., Array], *operands: Array) -> Array:
    """Compute function(*operands), in f32 for narrower types."""
    kind = array_shape(operands[0]).element_type
    if kind.bits >= 32:
        return function(*operands)
    wide = [ops.convert_element_type(operand, F32) for operand in operands]
    return ops.convert_element_type(function(*wide), kind)


class Unary(Elementwise):
    """Base class of element-wise operations of one operand.

    Args:
        operand: an array of `element_types`.

    Returns:
        An array with the operand's shape.

    Subclasses define `derivative`: d result / d operand as an expression in operand and result.
    """

    operands = ("operand",)

    def derivative(self, operand: Array, result: Array) -> Array:
        """Return the derivative of the result with respect to the operand, element-wise."""
        raise self.lacks("derivative")

    def jvp(self, primals, tangents, results):
        if self.linear_operands is not None:
            return super().jvp(primals, tangents, results)
        return scaled(tangents[0], self.derivative(primals[0], results))

    def vjp(self, cotangents, operands, results, active):
        if self.linear_operands is not None:
            return super().vjp(cotangents, operands, results, active)
        return (scaled(cotangents, self.derivative(operands[0], results)),)


class Binary(Elementwise):
    """Base class of element-wise operations of two operands.

    Args:
        lhs: an array of `element_types`.
        rhs: an array with the same shape and element type.

    Returns:
        An array with that shape.

    Subclasses define `derivatives`: for each operand, a function without parameters that returns
    the derivative, so that only the required ones are computed.
    """

    operands = "lhs", "rhs"

    def derivatives(
        self, lhs: Array, rhs: Array, result: Array
    ) -> tuple[Callable[[], Array], Callable[[], Array]]:
        """Return functions that compute the derivatives with respect to lhs and rhs."""
        raise self.lacks("derivatives")

    def jvp(self, primals, tangents, results):
        if self.linear_operands is not None:
            return super().jvp(primals, tangents, results)
        total = None
        partials = self.derivatives(primals[0], primals[1], results)
        for tangent, partial in zip(tangents, partials, strict=True):
            if tangent is not None:
                total = add_cotangents(total, scaled(tangent, partial()))
        return total

    def vjp(self, cotangents, operands, results, active):
        if self.linear_operands is not None:
            return super().vjp(cotangents, operands, results, active)
        partials = self.derivatives(operands[0], operands[1], results)
        return [
            scaled(cotangents, partial()) if wanted else None
            for wanted, partial in zip(active, partials, strict=True)
        ]
