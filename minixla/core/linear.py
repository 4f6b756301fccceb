"""What linear operations share: jvp and vjp follow from the operation and its transpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from minixla.core.errors import DerivativeError, explain
from minixla.core.operation import Operation
from minixla.core.registry import role
from minixla.core.shapes import TupleValue
from minixla.core.tracer import is_dynamic
from minixla.core.tracing import shape_of


def zeros_like(value: Any) -> Any:
    """Zeros of the shape of a value (or of a static Shape)."""
    shape = shape_of(value)
    zeros = role("zeros")(shape)
    return role("resize")(zeros, value) if shape.is_dynamic else zeros


def with_sizes_of(value: Any, like: Any) -> Any:
    """`value` (or None) with its dimensions dynamic where those of `like` are, and as large.

    What it gets beyond its size is zero. Values of other dimensions than `like`, which may be a
    Shape where its values are not known, stay as they are.
    """
    if value is None or not (is_dynamic(value) or is_dynamic(like)):
        return value
    shape: Any = shape_of(value)
    wanted: Any = shape_of(like)
    if shape.dynamic == wanted.dynamic or shape.dimensions != wanted.dimensions:
        return value
    return role("resize")(value, like)


def instantiate(tangent: Any, like: Any) -> Any:
    """`tangent`, or zeros shaped like `like` where it is None."""
    return zeros_like(like) if tangent is None else tangent


def add_cotangents(first: Any, second: Any) -> Any:
    """The sum of two cotangents, either of which may be None (zero)."""
    if first is None:
        return second
    if second is None:
        return first
    if isinstance(first, TupleValue):
        return TupleValue(list(map(add_cotangents, first.elements, second.elements)))
    return role("add")(first, second)


def spread(
    flags: Iterable[Any], values: Iterable[Any], others: Iterable[Any] | None = None
) -> list[Any]:
    """The next of `values` where a flag is set, elsewhere what stands there in `others` (None)."""
    found = iter(values)
    if others is None:
        return [next(found) if flag else None for flag in flags]
    return [next(found) if flag else other for flag, other in zip(flags, others, strict=True)]


def pullback_by(
    backward: Callable[..., Any], results: Sequence[Any], outputs: Sequence[Any], inputs: Any
) -> Callable[[Any], list[Any]]:
    """A pullback, as `Operation.linearize` gives it.

    `backward` takes the cotangents of the results that `outputs` marks and gives those of the
    operands that `inputs` marks.
    """

    def pullback(cotangents: Any) -> list[Any]:
        marked = compress(enumerate(results), outputs)
        given = [instantiate(cotangents.get(index), result) for index, result in marked]
        return spread(inputs, backward(*given))

    return pullback


def linear_jvp(operation: Operation, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of an operation that is linear in `linear_operands`."""
    linear = operation.linear_operands or ()
    _require_declared(operation, [tangent is not None for tangent in tangents])
    if operation.jointly_linear:
        mixed = [
            instantiate(tangents[i], primals[i]) if i in linear else primal
            for i, primal in enumerate(primals)
        ]
        return operation(*mixed)
    total = None
    for index in linear:
        if tangents[index] is not None:
            mixed = list(primals)
            mixed[index] = tangents[index]
            total = add_cotangents(total, operation(*mixed))
    return total


def linear_vjp(
    operation: Operation, cotangents: Any, operands: Sequence[Any], active: Sequence[bool]
) -> Sequence[Any]:
    """The cotangents of an operation that is linear in `linear_operands`."""
    _require_declared(operation, active)
    if operation.jointly_linear:
        return operation.transpose(cotangents, operands, active)
    result: list[Any] = [None] * len(operands)
    for index, wanted in enumerate(active):
        if wanted:
            mask = [i == index for i in range(len(operands))]
            result[index] = operation.transpose(cotangents, operands, mask)[index]
    return result


def _require_declared(operation: Operation, active: Sequence[bool]) -> None:
    """Raises DerivativeError where an operand that is differentiated is not a linear one."""
    linear = operation.linear_operands or ()
    if len(linear) >= len(active):
        return
    labels = operation.operand_labels(len(active))
    missing = [labels[i] for i, flag in enumerate(active) if flag and i not in linear]
    if missing:
        problem = f"it has no derivative with respect to {', '.join(missing)}"
        advice = (
            "Wrap that operand in mx.stop_gradient, or give the call a rule with mx.custom_jvp or "
            "mx.custom_vjp."
        )
        raise explain(DerivativeError, operation.builder_name, problem, advice=advice)


def not_linear(operation: Operation, *given: str) -> DerivativeError:
    """The error for the transpose of an operation that is not linear, as the given lines say."""
    problem = "a jvp rule applies it to a tangent, but it is not linear there"
    advice = "A jvp rule must be linear in its tangents, for reverse mode transposes it."
    return explain(DerivativeError, operation.builder_name, problem, given, advice)
