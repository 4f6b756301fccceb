"""CompositeCall: a named program that may stand for one operation; and OptimizationBarrier."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minixla.core.attributes import Integer, Text
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import TOKEN, AnyShape
from minixla.core.stablehlo_text import quoted, real_text
from minixla.core.tracing import bind, shape_of
from minixla_ops.calls import Call
from minixla_ops.computations import computation_of
from minixla_ops.nested import as_given, leaves_of, members
from minixla_ops.tuples import without_tuples

__all__ = ["composite_call", "optimization_barrier"]


def _of_call(rule: str) -> Any:
    """Call's rule, for the computation alone."""
    method = getattr(Call, rule)

    def apply(self: Call, *arguments: Any, computation: Graph, **_: Any) -> Any:
        return method(self, *arguments, computation=computation)

    return apply


@register
class CompositeCall(Call):
    """A call that a backend may replace by an operation of the given name. XLA: CompositeCall.

    The computation, its decomposition, says what it means; derivatives and batches are those of it.

    Attributes:
        computation: the Graph.
        name: a dotted name, `namespace.operation`.
        composite_attributes: a dictionary in MLIR's notation, `{n = 1 : i32}`.
        version: raised when the meaning of the name changes.

    Checks:
        (C1), (C2) as Call has them.
        (C3) the name is words joined by dots, two at least, the first an identifier.
        (C4) the attributes are in braces.
    """

    stablehlo_name = "composite"
    attributes = {
        **Call.attributes,
        "name": Text(),
        "composite_attributes": Text(default="{}"),
        "version": Integer(0, 2**31 - 1, default=0),
    }

    def shape(
        self,
        *operands: AnyShape,
        computation: Graph,
        name: str,
        composite_attributes: str,
        version: int,
    ) -> tuple[AnyShape, ...]:
        if not re.fullmatch(r"[a-zA-Z]\w*(\.[\w$]+)+", name, re.ASCII):
            advice = "Give a namespace and a name, such as my_library.my_operation."
            self.reject_attribute("C3", "the name is not a dotted name", [f"name {name!r}"], advice)
        if not re.fullmatch(r"\{.*\}", composite_attributes, re.DOTALL):
            given = [f"attributes {composite_attributes!r}"]
            advice = "Give a dictionary in MLIR's notation, such as {n = 1 : i32}, or a Python one."
            self.reject_attribute("C4", "the attributes are no dictionary", given, advice)
        return super().shape(*operands, computation=computation)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        computation: Graph,
        name: str,
        composite_attributes: str,
        version: int,
    ) -> Sequence[str]:
        given = {
            "name": quoted(name),
            "composite_attributes": composite_attributes,
            "decomposition": emit.function(computation),
            "version": f"{version} : i32",
        }
        is_threaded = computation.has_side_effect
        if is_threaded:
            operands, shapes = [emit.take_token(), *operands], [TOKEN, *shapes]
            results = [TOKEN, *results]
        names = emit.operation("stablehlo.composite", operands, shapes, results, **given)
        return emit.give_token(names) if is_threaded else names

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        computation: Graph,
        name: str,
        composite_attributes: str,
        version: int,
    ) -> str:
        frontend = (
            f"composite.name={quoted(name)},composite.attributes={composite_attributes},"
            f'composite.version="{version}"'
        )
        return emit.instruction(
            "call",
            operands,
            result,
            to_apply=computation,
            is_composite=True,
            frontend_attributes=f"{{{frontend}}}",
        )

    reference = _of_call("reference")
    forward = _of_call("forward")
    linearize = _of_call("linearize")
    dependent = _of_call("dependent")
    transpose = _of_call("transpose")
    batch = _of_call("batch")
    batch_within = _of_call("batch_within")


def composite_call(
    computation: Graph | Callable[..., Any],
    *operands: Any,
    name: str,
    attributes: str | Mapping[str, str | int | float | bool] | None = None,
    version: int = 0,
) -> Any:
    """The results of a computation that a backend may replace by an operation of its own.

    Args:
        computation: the decomposition: a Graph, or a function of the operands.
        *operands: values of the shapes of its inputs.
        name: a dotted name, `namespace.operation`.
        attributes: a dictionary in MLIR's notation, or a Python one, whose numbers become i64 and
            f64.
        version: raised when the meaning of the name changes.

    Returns:
        What the computation gives: one value, or a Python tuple where it gives several.

    Raises:
        ShapeError, AttributeValueError: see CompositeCall.
        TransformError: the function reads traced values of the enclosing function.
    """
    operation = CompositeCall.instance
    shapes = [shape_of(operand) for operand in operands]
    graph = computation_of(computation, shapes, operation.builder_name)
    text = _dictionary_text(attributes)
    given = {"name": name, "composite_attributes": text, "version": version}
    operation.infer(tuple(shapes), {"computation": graph, **given})
    leaves = leaves_of(operands)
    results = bind(operation, *leaves, computation=without_tuples(graph), **given)
    values = as_given(graph.output_shapes, results)
    return values[0] if len(values) == 1 else tuple(values)


def _dictionary_text(attributes: Any) -> str:
    """A dictionary in MLIR's notation and order; text is in that already, None is an empty one."""
    if isinstance(attributes, str):
        return attributes
    attributes = {} if attributes is None else attributes
    if not isinstance(attributes, Mapping) or not all(isinstance(key, str) for key in attributes):
        given = [f"attributes = {attributes!r}"[:200]]
        advice = "Give a dictionary whose keys are strings, or one as text in MLIR's notation."
        operation: Operation = CompositeCall.instance
        operation.reject_attribute("C4", "attributes are no dictionary of names", given, advice)
    return f"{{{', '.join(f'{_key(k)} = {_value(v)}' for k, v in sorted(attributes.items()))}}}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[a-zA-Z_][\w$.]*", key, re.ASCII) else quoted(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() < 64:
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{real_text(value)} : f64"
    given = [f"a value of type {type(value).__name__}: {value!r}"[:200]]
    advice = "Values are str, int of 64 bits, float and bool; give others in MLIR's notation."
    operation: Operation = CompositeCall.instance
    operation.reject_attribute("C4", "an attribute has no notation", given, advice)


@register
class OptimizationBarrier(Operation):
    """The operands, across which no compiler moves computation. XLA: OptimizationBarrier.

    All of them are computed before anything that reads one of the results.
    """

    stablehlo_name = "optimization_barrier"
    hlo_name = "opt-barrier"
    operand_names = ("operand...",)
    linear_operands = EVERY_OPERAND

    def shape(self, *operand: AnyShape) -> tuple[AnyShape, ...]:
        return operand

    def reference(self, *operand: Any) -> tuple[Any, ...]:
        return operand

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        **attributes: Any,
    ) -> str:
        return emit.instruction(self.hlo_name, [emit.pack(operands, shapes)], result)

    def jvp(self, primals: Any, tangents: Any, results: Any, /, **attributes: Any) -> Any:
        return self._of_given(tangents)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        return self._of_given(cotangents)

    def _of_given(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The barrier for those values that are not None."""
        found = iter(bind(self, *[each for each in values if each is not None]))
        return tuple(None if each is None else next(found) for each in values)

    def batch(self, operands: Any, dimensions: Any, /, **attributes: Any) -> tuple[Any, Any]:
        return bind(self, *operands), tuple(dimensions)


def optimization_barrier(operand: Any) -> Any:
    """The operand, across which no compiler moves computation.

    Args:
        operand: an array, a tuple, or a Python sequence of such: all are computed before anything
            that reads one of the results.

    Returns:
        The same values, in the form of `operand` (for a sequence, a Python tuple).
    """
    results = bind(OptimizationBarrier.instance, *leaves_of(operand))
    values = as_given([shape_of(each) for each in members(operand)], results)
    return tuple(values) if isinstance(operand, (list, tuple)) else values[0]
