"""CompositeCall: a call that a backend may replace by one operation; and OptimizationBarrier."""

import re
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

import numpy as np

from minixla.core import element_type, shape_of
from minixla.core.attributes import Int32, Integers, Text, attribute
from minixla.core.data_flow import Place, edge
from minixla.core.errors import AttributeValueError, explain
from minixla.core.hlo_text import quoted as hlo_quoted
from minixla.core.linear import spread
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.stablehlo_text import bytes_text, nested_text, quoted
from minixla_ops.helpers.shorthand import as_results
from minixla_ops.helpers.tuple_operations import without_tuples
from minixla_ops.programs.call import Call
from minixla_ops.programs.computations import Computation, computation_of
from minixla_ops.programs.runs_programs import RunsPrograms, as_given, in_form_of, leaves_of


@register
class CompositeCall(Call):
    """Call a computation that a backend may replace by an operation. XLA: CompositeCall.

    The computation, its decomposition, defines the meaning, the derivatives and the batching rule.

    Attributes:
        computation: the Graph.
        composite_name: a dotted name, `namespace.operation`.
        composite_attributes: a dictionary in MLIR's notation, `{n = 1 : i32}`.
        version: a number that increases when the meaning of the name changes.

    Checks:
        (C1), (C2) the checks of Call hold.
        (C3) the name has two or more words joined by dots; the first is an identifier.
        (C4) the attributes are in braces.
    """

    stablehlo_name = "composite"
    composite_name: str = attribute(Text(), stablehlo="name")
    composite_attributes: str = attribute(Text(), default="{}")
    version: int = attribute(Int32(0), default=0)
    stablehlo = RunsPrograms.stablehlo

    def shape(self, *operands):
        space, *names = self.composite_name.split(".")
        is_name = re.compile(r"[\w$]+", re.ASCII).fullmatch
        is_space = re.fullmatch(r"[a-zA-Z]\w*", space, re.ASCII) is not None
        if not (is_space and names and all(map(is_name, names))):
            problem = f"{self.composite_name!r} is not a dotted name"
            advice = "Pass a namespace and a name, such as my_library.my_operation."
            self.refuse_attribute("C3", problem, advice)
        if not re.fullmatch(r"\{.*\}", self.composite_attributes, re.DOTALL):
            advice = (
                "Pass a dictionary in MLIR's notation, such as {n = 1 : i32}, or a Python dict."
            )
            self.refuse_attribute("C4", "the attributes are not a dictionary", advice)
        return super().shape(*operands)

    def write(self, emit, operands, shapes, results):
        told = {
            "name": quoted(self.composite_name),
            "composite_attributes": self.composite_attributes,
            "decomposition": emit.function(self.computation),
            "version": f"{self.version} : i32",
        }
        return emit.operation("stablehlo.composite", operands, shapes, results, **told)

    def hlo(self, emit, operands, shapes, result):
        texts = [
            f"composite.name={hlo_quoted(self.composite_name)}",
            f"composite.attributes={self.composite_attributes}",
            f'composite.version="{self.version}"',
        ]
        told = {"is_composite": True, "frontend_attributes": f"{{{','.join(texts)}}}"}
        return emit.instruction("call", operands, result, to_apply=self.computation, **told)

    def of_derived(self, computation):
        return Call(computation)


def composite_call(
    computation: Computation,
    *operands: object,
    name: str,
    attributes: str | Mapping[str, str | int | float | bool] | None = None,
    version: int = 0,
) -> Any:
    """Call a computation that a backend may replace by its own operation.

    XLA: CompositeCall.

    Args:
        computation: the decomposition: a Graph, or a function of the operands.
        *operands: values with the shapes of its inputs.
        name: a dotted name, `namespace.operation`.
        attributes: a dictionary in MLIR's notation, or a Python one. Its numbers become i64 and
            f64.
        version: a number that increases when the meaning of the name changes.

    Returns:
        The computation's results: one value, or a Python tuple of several.

    Raises:
        ShapeError, AttributeValueError: see CompositeCall.
        TransformError: the function reads traced values of the enclosing function.

    Example:
        >>> scaled = lambda x: ops.composite_call(lambda x: x + x, x, name="my.double")
        >>> scaled(np.int32([1, 2]))
        Array([2, 4], dtype=int32)
    """
    shapes = [shape_of(operand) for operand in operands]
    graph = computation_of(computation, shapes, CompositeCall.builder_name)
    operation = CompositeCall(graph, name, _dictionary_text(attributes), version)
    operation.infer(tuple(shapes))
    results = operation(*leaves_of(operands), computation=without_tuples(graph))
    return as_results(as_given(graph.output_shapes, results))


def _dictionary_text(attributes: object) -> str:
    """Write a dictionary in MLIR's notation, sorted; return strings unchanged, None is empty."""
    if isinstance(attributes, str):
        return attributes
    attributes = {} if attributes is None else attributes
    if not isinstance(attributes, Mapping) or not all(isinstance(key, str) for key in attributes):
        advice = "Pass a dictionary whose keys are strings, or its text in MLIR's notation."
        raise _not_written("attributes must be a dictionary with string keys", attributes, advice)
    pairs = []
    for key, value in sorted(attributes.items()):
        is_integer = isinstance(value, int) and value.bit_length() < 64
        if not is_integer and not isinstance(value, (str, float)):
            advice = "Values must be str, int of 64 bits, float or bool"
            advice = f"{advice}; write others in MLIR's notation."
            raise _not_written("an attribute's type is not supported", value, advice)
        is_word = re.fullmatch(r"[a-zA-Z_][\w$.]*", key, re.ASCII)
        pairs.append((key if is_word else quoted(key), value))
    return dictionary_text(pairs)


def _not_written(problem: str, value: object, advice: str) -> AttributeValueError:
    details = [f"got, of type {type(value).__name__}: {value!r}"[:200]]
    return explain(AttributeValueError, "composite_call", f"(C4) {problem}", details, advice)


def dictionary_text(attributes: Iterable[tuple[str, object]]) -> str:
    """Write attributes in MLIR's notation: str, bytes, bool, int, float, (dtype, scalars)."""
    return f"{{{', '.join([f'{name} = {_text(value)}' for name, value in attributes])}}}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return bytes_text(value)
    dtype, held = value if isinstance(value, tuple) else (np.asarray(value).dtype, value)
    kind, numbers = element_type(np.dtype(dtype)), np.array(held, dtype)
    texts = [nested_text(number, kind) for number in numbers.flat]
    if numbers.ndim:
        return (
            f"array<{kind.stablehlo}: {', '.join(texts)}>" if texts else f"array<{kind.stablehlo}>"
        )
    return texts[0] if kind.kind == "pred" else f"{texts[0]} : {kind.stablehlo}"


@register
class OptimizationBarrier(Operation):
    """Return the operands, and prevent compilers from moving code across. XLA: OptimizationBarrier.

    All operands are computed before anything that reads one of the results.
    """

    stablehlo_name = "optimization_barrier"
    hlo_name = "opt-barrier"
    operands = ("operand...",)
    only_arrays = False
    linear_operands = EVERY_OPERAND

    def shape(self, *operand):
        return operand

    def reference(self, *operand):
        return operand

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction(self.hlo_name, [emit.pack(operands, shapes)], result)

    def data_flow(self, *operands):
        return [edge([Place("operand", i)], Place("result", i)) for i in range(len(operands))]

    def jvp(self, primals, tangents, results):
        active = [tangent is not None for tangent in tangents]
        return tuple(spread(active, OptimizationBarrier()(*compress(tangents, active))))

    def transpose(self, cotangents, operands, linear):
        return self.jvp(operands, cotangents, None)

    def batch(self, operands, dimensions):
        return self(*operands), tuple(dimensions)


class RecomputationBarrier(OptimizationBarrier):
    """The start of a recomputation: its values are available once the cotangents are known.

    Attributes:
        cotangents: the positions of the cotangents among the operands.
    """

    cotangents: tuple[int, ...] = attribute(Integers(), hlo=None, stablehlo=None)


def optimization_barrier(operand: object) -> Any:
    """Return the operand, and prevent compilers from moving code across. XLA: OptimizationBarrier.

    Args:
        operand: an array, a tuple, or a Python sequence of these. All are computed before anything
            that reads one of the results.

    Returns:
        The same values, in the structure of `operand`; a sequence becomes a tuple.

    Example:
        >>> ops.optimization_barrier((np.int32(1), np.int32(2)))
        (Array(1, dtype=int32), Array(2, dtype=int32))
    """
    return in_form_of(operand, OptimizationBarrier()(*leaves_of(operand)))
