"""Losses and target encodings."""

from __future__ import annotations

from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.element_types import S32
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.nn.soft_functions import log_softmax
from minixla.numpy import operands
from minixla.numpy.operands import axis_of, default_float, operand_shape, requested_type, static_int
from minixla_ops.elementwise.operators import broadcast_to, convert


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the position that each integer names, 0 elsewhere (JAX: nn.one_hot).

    Args:
        x: integers; those outside `[0, num_classes)` give zeros.
        num_classes: the size of the new dimension.
        dtype: of the result; default: the default float type.
        axis: where the new dimension stands in the result.

    Raises:
        ShapeError: x has other elements than integers.
        AttributeValueError: the axis is out of range, or num_classes negative.
    """
    kind = requested_type(dtype, "one_hot", default_float())
    return convert(_is_class(x, num_classes, axis, "one_hot"), kind)


def _is_class(x: Any, count: int, axis: int, subject: str) -> Any:
    """Whether each integer names each class, along a new axis."""
    shape = operand_shape(x, subject)
    if not shape.element_type.is_integer:
        advice = "Convert it: x.astype(mx.numpy.int32)."
        raise explain(ShapeError, subject, "x does not hold integers", [f"x {shape}"], advice)
    place = axis_of(axis, shape.rank + 1, subject)
    if static_int(count, subject, "num_classes") < 0:
        raise explain(AttributeValueError, subject, f"num_classes is {count}", advice="Give >= 0.")
    kind = shape.element_type
    if kind.bits < 32 and count > 1 << (kind.bits - (kind.kind == "signed")):
        x, kind = convert(x, S32), S32  # which holds all numbers of the classes
    sizes = (*shape.dimensions[:place], count, *shape.dimensions[place:])
    spread = broadcast_to(np.expand_dims(x, place), sizes)
    return ops.eq(spread, ops.iota(Shape(kind, sizes), place))


@one_program("logits", "labels")
def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """The cross-entropy of softmax(logits) with the labels, one value for each example.

    Args:
        logits: unnormalised log-probabilities of the classes along `axis`.
        labels: integers without that dimension (those that name no class give 0), or probabilities
            shaped like `logits`.
        axis: the dimension of the classes.

    Raises:
        ShapeError: the labels fit neither form.
        AttributeValueError: the axis is out of range.
    """
    logits = operands.inexact_operand(logits, "cross_entropy")
    sizes = operand_shape(logits, "cross_entropy").dimensions
    place = axis_of(axis, len(sizes), "cross_entropy")
    given = operand_shape(labels, "cross_entropy")
    log_probabilities = log_softmax(logits, place)
    if given.element_type.is_integer and given.dimensions == sizes[:place] + sizes[place + 1 :]:
        is_label = _is_class(labels, sizes[place], place, "cross_entropy")
        # Not a product: classes ruled out by logits of -inf must not give 0 * inf.
        chosen = np.where(is_label, log_probabilities, 0)
    elif given.dimensions == sizes:
        chosen = labels * log_probabilities
    else:
        problem = "the labels fit the logits neither as classes nor as probabilities"
        shown = [f"logits {operand_shape(logits, 'cross_entropy')}", f"labels {given}"]
        advice = "Give integers without the class dimension, or probabilities of the logits' shape."
        raise explain(ShapeError, "cross_entropy", problem, shown, advice)
    return -np.sum(chosen, place)
