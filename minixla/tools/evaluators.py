"""What evaluates a graph for a cross-check: our reference, StableHLO's interpreter, XLA."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.graph import Graph, Instruction
from minixla.core.shapes import Shape
from minixla.engine import run_graph
from minixla.tools.costs import graph_cost, operations_per_element
from minixla.tools.interpreter import run_stablehlo
from minixla.tools.worker import OracleError
from minixla_ops.evaluation import reference_graph

__all__ = ["EVALUATORS", "HLO_FORM", "Evaluator", "NotEvaluated", "known_gap", "users_evaluators"]

#: The interpreter computes an element at a time: two million operations a second.
_MOST_OPERATIONS = 20_000_000
_SECONDS = 120.0
# Sums of more terms lose digits that sums in several parts keep.
_MANY = 2048


class NotEvaluated(Exception):
    """An evaluator cannot be asked about a program; the message says why."""


class _Run(Protocol):
    def __call__(self, graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results; NotEvaluated where there are none."""
        ...


class Evaluator(NamedTuple):
    """One opinion on what a graph computes.

    Attributes:
        name: what the report calls it.
        run: from a graph and arrays to arrays, or NotEvaluated.
    """

    name: str
    run: _Run


def _by_reference(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        return list(map(np.asarray, reference_graph(graph, operands)))
    except (MinixlaError, NotImplementedError) as error:
        raise NotEvaluated(_first_line(error)) from error


def _by_xla(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        with jax.enable_x64(True):
            return list(map(np.asarray, run_graph(graph, list(map(jax.device_put, operands)))))
    except (MinixlaError, RuntimeError, NotImplementedError) as error:
        raise NotEvaluated(_first_line(error)) from error


def _by_interpreter(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    if any(map(_is_single_fft, _every_step(graph))):
        raise NotEvaluated("StableHLO's interpreter does not know fft of single precision")
    text = _text_of(graph)
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        raise NotEvaluated(f"StableHLO's interpreter does not know {unknown[1]}")
    cost = graph_cost(graph)
    count = cost.flops + cost.transcendentals + cost.bytes // 4
    if count > _MOST_OPERATIONS:
        raise NotEvaluated(f"{count:.1e} operations, one element at a time, would take too long")
    try:
        return run_stablehlo(text, operands, timeout=_SECONDS)
    except OracleError as error:
        raise NotEvaluated(_first_line(error)) from error


def _text_of(graph: Graph) -> str:
    try:
        return graph.stablehlo()
    except MinixlaError as error:
        raise NotEvaluated(_first_line(error)) from error


def _by_hlo(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        return run_stablehlo(str(graph), operands, timeout=_SECONDS)
    except (MinixlaError, OracleError) as error:
        raise NotEvaluated(_first_line(error)) from error


def _first_line(error: BaseException) -> str:
    """What an error says, cut to what a table shows."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:160]


def _every_step(graph: Graph) -> list[Instruction]:
    """The instructions of a graph and of the programs that they run."""
    found, pending = [], [graph]
    while pending:
        for step in pending.pop().instructions:
            found.append(step)
            pending.extend(step.computations)
    return found


# It ends its process; collectives need several processes.
_UNKNOWN = re.compile(
    r"stablehlo\.(batch_norm_\w+|cholesky|custom_call|set_dimension_size|rng\w*|all_\w+|"
    r"reduce_scatter|collective_\w+|replica_id|partition_id|infeed|outfeed|send|recv)\b"
)


def _is_single_fft(step: Instruction) -> bool:
    kinds = [shape.element_type.name for shape in step.shapes if isinstance(shape, Shape)]
    return step.op.name == "Fft" and bool({"f32", "c64"} & {*kinds})


_ODD_TYPES = {
    "f8e3m4": "rounds to integers and takes roots of f8e3m4 wrongly",
    "f8e8m0fnu": "gives wrong zeros, negative values and NaN of f8e8m0fnu",
    "f4e2m1fn": "gives zero for infinities and NaN of f4e2m1fn",
}


def known_gap(step: Instruction) -> str | None:
    """Why StableHLO's interpreter may answer wrongly, where it is known to."""
    for shape in [value.shape for value in step.operands] + list(step.shapes):
        if isinstance(shape, Shape) and shape.element_type.name in _ODD_TYPES:
            return f"StableHLO's interpreter {_ODD_TYPES[shape.element_type.name]}"
    for applies, reason in _GAPS:
        if applies(step):
            return f"StableHLO's interpreter {reason}"
    return None


def _has_unsigned_starts(step: Instruction) -> bool:
    shapes = [value.shape for value in step.operands[1:]]
    kinds = [shape.element_type.kind for shape in shapes if isinstance(shape, Shape)]
    return step.op.name in ("DynamicSlice", "DynamicUpdateSlice", "Gather") and "unsigned" in kinds


def _is_odd_inverse(step: Instruction) -> bool:
    if step.op.name != "Fft" or step.given["fft_type"] != "IRFFT":
        return False
    return step.given["fft_length"][-1] % 2 == 1


def _changes_type(step: Instruction) -> bool:
    shapes = [value.shape for value in step.operands] + list(step.shapes)
    kinds = {shape.element_type for shape in shapes if isinstance(shape, Shape)}
    return step.op.name in ("DotGeneral", "ConvGeneralDilated") and len(kinds) > 1


def _is_complex_power(step: Instruction) -> bool:
    shape = step.shapes[0] if step.shapes else None
    return step.op.name == "Pow" and isinstance(shape, Shape) and shape.element_type.is_complex


def _adds_up_narrow(step: Instruction) -> bool:
    operands = step.operands
    shape = operands[0].shape if operands else None
    if not isinstance(shape, Shape) or not shape.element_type.is_float:
        return False
    return shape.element_type.bits < 32 and operations_per_element(step) > 2


def _adds_up_many(step: Instruction) -> bool:
    shape = step.shapes[0] if step.shapes else None
    is_inexact = isinstance(shape, Shape) and shape.element_type.is_inexact
    return is_inexact and operations_per_element(step) > _MANY


_GAPS: list[tuple[Callable[[Instruction], bool], str]] = [
    (lambda step: step.op.name.endswith("TotalOrder"), "ignores TOTALORDER"),
    (_has_unsigned_starts, "reads unsigned start indices as signed"),
    (
        lambda step: step.op.name == "Scatter",
        "applies parts of windows that XLA drops, and overwrites scatter's operand",
    ),
    (lambda step: step.op.name == "SelectAndScatter", "adds the initial value twice"),
    (lambda step: step.op.name == "Erf", "approximates chlo's functions"),
    (_is_odd_inverse, "gives noise for IRFFT of odd lengths"),
    (_changes_type, "gives noise where a product's type is not that of its operands"),
    (_is_complex_power, "gives NaN for some complex powers"),
    (_adds_up_narrow, "rounds after every addition"),
    (_adds_up_many, "adds long sums up one by one"),
]

EVALUATORS = (
    Evaluator("reference", _by_reference),
    Evaluator("interpreter", _by_interpreter),
    Evaluator("XLA", _by_xla),
)
#: The graph's HLO text, as XLA translates it, in the interpreter: it passes the `stablehlo` rules
#: by, and tells a wrong one from a wrong reference.
HLO_FORM = Evaluator("HLO form", _by_hlo)

#: What reports call difference quotients.
DIFFERENCES = "finite differences"
#: Names in reports that no evaluator of the user's may have.
_TAKEN = (*[each.name for each in EVALUATORS], HLO_FORM.name, "JAX", DIFFERENCES, "all")


def users_evaluators(given: Mapping[str, Callable[..., Any]] | None) -> list[Evaluator]:
    """Evaluators of the user's: functions of a graph and a list of its operands, by name.

    Raises:
        TransformError: a name is taken, or something is no function.
    """
    for name, function in (given or {}).items():
        problem = None
        if name in _TAKEN:
            problem = f"an evaluator cannot be called {name!r}, which reports call another"
        elif not callable(function):
            problem = f"evaluator {name!r} is no function: {function!r}"
        if problem is not None:
            advice = "Give evaluators={name: function of a graph and a list of arrays}."
            raise explain(TransformError, "cross_check", problem, [], advice)
    return [Evaluator(name, _checked(name, function)) for name, function in (given or {}).items()]


def _checked(name: str, function: Callable[..., Any]) -> _Run:
    """The function; what it gives must be what the graph's outputs are."""

    def run(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            results = list(map(np.asarray, function(graph, list(operands))))
        except NotImplementedError as error:
            raise NotEvaluated(_first_line(error)) from error
        wanted = [str(shape) for shape in graph.output_shapes]
        found = [_in_words(each) for each in results]
        if found != wanted:
            raise explain(
                TransformError,
                "cross_check",
                f"evaluator {name!r} gives other results than the graph has",
                [f"evaluator: {', '.join(found)}", f"graph: {', '.join(wanted)}"],
                "It returns an array for each output, of its type and shape; where it cannot, it "
                "raises NotImplementedError.",
            )
        return results

    return run


def _in_words(array: np.ndarray) -> str:
    try:
        return str(Shape(array.dtype, array.shape))
    except MinixlaError:
        return f"{array.dtype}{list(array.shape)}"
