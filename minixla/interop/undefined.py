"""What programs leave undefined: the derivative where they choose the constant NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean
from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph
from minixla.interop.step import Step
from minixla_ops.elementwise import FLOATS, Elementwise
from minixla_ops.rules import full_like
from minixla_ops.selection import select

__all__ = ["translated_select"]


@register
class Undefined(Elementwise):
    """operand, and NaN where pred is true: of programs that choose the constant NaN.

    Such is the result of a function outside of its domain. Its derivative there is NaN, too, in
    both modes, where a Select of a constant would have 0.

    Attributes:
        keeps_zero: whether zeros stay: of cotangents those of results that nobody uses.
    """

    element_types = FLOATS
    operand_names = ("pred", "operand")
    attributes = {"keeps_zero": Boolean(False)}
    linear_operands = (1,)
    spec_names = ()

    def shape(self, pred: Any, operand: Any, /, **attributes: Any) -> Shape:
        """That of the operand."""
        return operand

    def reference(
        self, pred: np.ndarray, operand: np.ndarray, /, *, keeps_zero: bool
    ) -> np.ndarray:
        """In NumPy."""
        chosen = pred & (operand != 0) if keeps_zero else pred
        return np.where(chosen, np.array(math.nan, operand.dtype), operand)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        keeps_zero: bool,
    ) -> Sequence[str]:
        """A select."""
        return emit.expand(_program(shapes[0], shapes[1], keeps_zero), operands)

    def transpose(
        self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any
    ) -> Sequence[Any]:
        """The same of the cotangent."""
        return None, bind(self, operands[0], cotangents, keeps_zero=True)


@lru_cache(maxsize=1024)
def _program(pred: Shape, operand: Shape, keeps_zero: bool) -> Graph:
    def function(pred: Any, operand: Any) -> Any:
        chosen = pred & (operand != 0) if keeps_zero else pred
        return select(chosen, full_like(operand, math.nan), operand)

    return closed_graph(function, [pred, operand], "undefined")


def translated_select(step: Step) -> Sequence[Value]:
    """stablehlo.select: Undefined where one of the values is the constant NaN, else Select."""
    pred, on_true, on_false = step.operands
    kinds = [value.shape for value in step.operands]
    is_float = all(isinstance(kind, Shape) for kind in kinds) and kinds[1].element_type in FLOATS
    if is_float and kinds[0].dimensions == kinds[1].dimensions:
        if _is_nan(on_true):
            return step.builder.apply(REGISTRY["Undefined"], [pred, on_false])
        if _is_nan(on_false):
            return step.builder.apply(REGISTRY["Undefined"], [step.bind("Not", pred), on_true])
    return step.builder.apply(REGISTRY["Select"], step.operands)


def _is_nan(value: Value) -> bool:
    instruction = value.instruction
    if instruction is None:
        return False
    if instruction.op.name in ("Broadcast", "BroadcastInDim"):
        return _is_nan(instruction.operands[0])
    if instruction.op.name != "Constant":
        return False
    literal = instruction.attributes["literal"]
    return literal.is_splat and bool(np.isnan(literal.scalar))
