"""The evaluators that are always there: our reference, StableHLO's interpreter, XLA."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import jax
import numpy as np

from minixla.core.graph import Graph, Instruction
from minixla.core.shapes import Shape
from minixla.engine import run_graph
from minixla.tools.costs import graph_cost, operations_per_element
from minixla.tools.evaluators import NotEvaluated
from minixla.tools.graph_parts import every_step
from minixla.tools.interpreter import run_stablehlo
from minixla.tools.worker import OracleError
from minixla_ops.programs.reference_evaluation import reference_graph

#: The interpreter computes an element at a time: two million operations a second.
_MOST_OPERATIONS = 20_000_000
_SECONDS = 120.0
# Sums of more terms lose digits that sums in several parts keep.
_MANY = 2048


def by_reference(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the operations' reference rules give, in their declared types."""
    return list(map(np.asarray, reference_graph(graph, operands)))


def by_xla(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What `mx.jit` gives, on JAX's default device."""
    try:
        with jax.enable_x64(True):
            return list(map(np.asarray, run_graph(graph, list(map(jax.device_put, operands)))))
    except RuntimeError as error:
        raise NotEvaluated(str(error)) from error


def by_interpreter(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What StableHLO's interpreter gives, in a process of its own."""
    if any(map(_is_single_fft, every_step(graph))):
        raise NotEvaluated("StableHLO's interpreter does not know fft of single precision")
    text = graph.stablehlo()
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        raise NotEvaluated(f"StableHLO's interpreter does not know {unknown[1]}")
    cost = graph_cost(graph)
    count = cost.flops + cost.transcendentals + cost.bytes // 4
    if count > _MOST_OPERATIONS:
        raise NotEvaluated(f"{count:.1e} operations, one element at a time, would take too long")
    return _interpreted(text, operands)


def by_hlo(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the interpreter gives for the program's HLO text, as XLA translates it."""
    return _interpreted(str(graph), operands)


def _interpreted(text: str, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        return run_stablehlo(text, operands, timeout=_SECONDS)
    except OracleError as error:
        raise NotEvaluated(str(error)) from error


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


def interpreter_gap(step: Instruction) -> str | None:
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
    if step.op.name != "Fft" or step.op.fft_type != "IRFFT":
        return False
    return step.op.fft_length[-1] % 2 == 1


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
