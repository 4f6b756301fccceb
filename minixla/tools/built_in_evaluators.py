"""The built-in evaluators: our reference, StableHLO's interpreter, XLA."""

import re
from collections.abc import Sequence

import jax
import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape
from minixla.engine import run_graph
from minixla.engine.platform_text import platform_text
from minixla.legalize import platform_of
from minixla.sharding.explicit import without_layouts
from minixla.tools.costs import graph_cost, operations_per_element
from minixla.tools.evaluators import EvaluatorDied, NotEvaluated
from minixla.tools.graph_parts import every_step, type_of
from minixla.tools.interpreter import run_stablehlo
from minixla.tools.xla_process import run_xla
from minixla_ops.programs.lowering import is_lowered, lowered_program

#: The interpreter computes one element at a time, two million operations a second.
_MOST_OPERATIONS = 20_000_000
_SECONDS = 120.0
# Sums of more terms lose digits that sums in several parts keep.
_MANY = 2048


def by_xla(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of `mx.jit` on JAX's default device, or on the devices of the mesh."""
    sizes = [mesh.size for mesh in graph.meshes]
    if max(sizes, default=1) > (count := len(jax.devices())):
        raise NotEvaluated(f"the mesh has {max(sizes)} devices, and JAX has {count}")
    try:
        with jax.enable_x64(True):
            return list(map(np.asarray, run_graph(graph, list(map(jax.device_put, operands)))))
    except RuntimeError as error:
        raise NotEvaluated(str(error)) from error


def by_isolated_xla(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of XLA in a separate process, for one device of JAX's default platform.

    Raises:
        EvaluatorDied: the program ends that process, or does not terminate.
        NotEvaluated: XLA raises an error, or the program is for several devices.
    """
    if graph.meshes:
        raise NotEvaluated("XLA in a separate process runs programs for one device only")
    platform = platform_of(jax.default_backend())
    text = platform_text(without_layouts(graph), platform)
    outcome = run_xla(text, operands, platform, _SECONDS)
    if outcome.ending in ("died", "hangs"):
        raise EvaluatorDied(outcome.message)
    if outcome.ending is not None:
        raise NotEvaluated(outcome.message)
    return list(outcome.results)


def by_xla_alone(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of `mx.jit` on one device for a program for a mesh."""
    graph = without_layouts(graph)
    if graph.meshes:
        raise NotEvaluated("one device cannot run a manual computation")
    return by_xla(graph, operands)


def by_interpreter(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of StableHLO's interpreter, run in a separate process."""
    graph = without_layouts(graph)
    results = [value for s in every_step(graph) if s.op.name == "Fft" for value in s.results]
    if any(kind.real.bits == 32 for kind in _kinds(results)):
        raise NotEvaluated("StableHLO's interpreter does not support fft of single precision")
    text = graph.stablehlo()
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        raise NotEvaluated(f"StableHLO's interpreter does not support {unknown[1]}")
    cost = graph_cost(graph)
    count = cost.flops + cost.transcendentals + cost.bytes // 4
    if count > _MOST_OPERATIONS:
        raise NotEvaluated(f"{count:.1e} operations, one element at a time, would take too long")
    return run_stablehlo(text, operands, timeout=_SECONDS)


def by_hlo(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the interpreter's results for the program's HLO text, as XLA translates it."""
    return run_stablehlo(str(graph), operands, timeout=_SECONDS)


# These end the interpreter's process; collectives need several processes.
_UNKNOWN = re.compile(
    r"(?:stablehlo|sdy)\.(manual_computation|named_computation|constant\b(?<=sdy.constant)|batch_norm_\w+|cholesky|custom_call|set_dimension_size|rng\w*|all_\w+|"
    r"reduce_scatter|collective_\w+|replica_id|partition_id|infeed|outfeed|send|recv)\b"
)
# Faults of the interpreter, by element type and operation.
_ODD = {
    "f8e3m4": "rounds to integers and takes roots of f8e3m4 wrongly",
    "f8e8m0fnu": "gives wrong zeros, negative values and NaN of f8e8m0fnu",
    "f4e2m1fn": "gives zero for infinities and NaN of f4e2m1fn",
    "Scatter": "applies parts of windows that XLA drops, and overwrites scatter's operand",
    "SelectAndScatter": "adds the initial value twice",
    "Erf": "approximates chlo's functions",
}


def interpreter_gap(step: Instruction) -> str | None:
    """Return the reason why StableHLO's interpreter may be wrong, if one is known."""
    programs = [*step.op.computations]
    if is_lowered(step.op):
        shapes = tuple([value.shape for value in step.operands])
        programs.append(lowered_program(step.op, shapes))
    within = (inner for program in programs for inner in every_step(program))
    reasons = (reason for candidate in (step, *within) if (reason := _gap(candidate)) is not None)
    return next((f"StableHLO's interpreter {reason}" for reason in reasons), None)


def _gap(step: Instruction) -> str | None:
    name = step.op.name
    read, written = _kinds(step.operands), _kinds(step.results)
    for name_of_type in (*[kind.name for kind in read + written], name):
        if name_of_type in _ODD:
            return _ODD[name_of_type]
    if name.endswith("TotalOrder"):
        return "ignores TOTALORDER"
    if name in ("DynamicSlice", "DynamicUpdateSlice", "Gather"):
        if any(kind.kind == "unsigned" for kind in read[1:]):
            return "reads unsigned start indices as signed"
    elif name in ("DotGeneral", "ConvGeneralDilated") and len({*read, *written}) > 1:
        return "gives noise where a product's type is not that of its operands"
    elif name == "Fft" and step.op.fft_type == "IRFFT" and step.op.fft_length[-1] % 2 == 1:
        return "gives noise for IRFFT of odd lengths"
    elif name == "Pow" and written[0].is_complex:
        return "gives NaN for some complex powers"
    count = operations_per_element(step)
    if count > 2 and read and read[0].is_float and read[0].bits < 32:
        return "rounds after every addition"
    if count > _MANY and written and written[0].is_inexact:
        return "adds long sums up one by one"
    return None


def _kinds(values: Sequence[Value]) -> list[ElementType]:
    """Return the element types of the arrays among some values."""
    return [type_of(value) for value in values if isinstance(value.shape, Shape)]
