"""How JAX differentiates and batches our programs: rules of the primitive.

Under `jax.jvp` a program becomes the program with what its derivative needs, and a linear program
that maps tangents; under `jax.grad` JAX transposes the linear one, which is our reverse derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from minixla.core.derived import batched_graph, jvp_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.engine.program import PROGRAM, abstract_value, bind_program, lower_graph

__all__ = ["register"]


@dataclass(frozen=True, eq=False, slots=True)
class _Linear:
    """The linear part of a derivative.

    Attributes:
        tangent_graph: from primals and tangents to tangents of the results.
        backward: from residuals and cotangents to cotangents of `active_inputs`.
        primals, residuals: how many operands are such; tangents follow.
        active_inputs: for each tangent whether `backward` has a cotangent for it.
    """

    tangent_graph: Graph
    backward: Graph
    primals: int
    residuals: int
    active_inputs: tuple[bool, ...]


#: Operands: primals, residuals, tangents; results: tangents.
LINEAR = Primitive("minixla_linear_program")
LINEAR.multiple_results = True


@LINEAR.def_abstract_eval
def _linear_abstract_eval(*_: Any, linear: _Linear) -> list[Any]:
    return [abstract_value(shape) for shape in linear.tangent_graph.output_shapes]


def _tangent_operands(operands: Sequence[Any], linear: _Linear) -> list[Any]:
    """The operands of the tangent graph: it computes from primals what the residuals hold."""
    return [*operands[: linear.primals], *operands[linear.primals + linear.residuals :]]


def _run_linear(*operands: Any, linear: _Linear) -> list[Any]:
    return bind_program(linear.tangent_graph, *_tangent_operands(operands, linear))


def _lower_linear(ctx: Any, *operands: Any, linear: _Linear) -> Sequence[Any]:
    return lower_graph(ctx, _tangent_operands(operands, linear), linear.tangent_graph)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], graph: Graph) -> tuple[Any, Any]:
    active = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    halves = vjp_graphs(graph, active)
    count = len(graph.outputs)
    everything = bind_program(halves.forward, *primals)
    results, residuals = everything[:count], everything[count:]
    moving = iter(_linear_results(graph, active, primals, residuals, tangents, halves))
    tangents_out = [
        next(moving) if flag else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, flag in zip(results, jvp_graph(graph, active).active_outputs, strict=True)
    ]
    return results, tangents_out


def _linear_results(
    graph: Graph,
    active: tuple[bool, ...],
    primals: Sequence[Any],
    residuals: Sequence[Any],
    tangents: Sequence[Any],
    halves: Any,
) -> list[Any]:
    given = [tangent for tangent, flag in zip(tangents, active, strict=True) if flag]
    wanted = tuple(f for f, flag in zip(halves.active_inputs, active, strict=True) if flag)
    tangent_graph = _tangents_only(graph, active)
    if not tangent_graph.outputs:
        return []
    linear = _Linear(tangent_graph, halves.backward, len(primals), len(residuals), wanted)
    return LINEAR.bind(*primals, *residuals, *given, linear=linear)


def _tangents_only(graph: Graph, active: tuple[bool, ...]) -> Graph:
    key = ("tangents", active)
    found = graph.memo.get(key)
    if found is None:
        whole = jvp_graph(graph, active).graph
        outputs = whole.outputs[len(graph.outputs) :]
        found = Graph(whole.inputs, whole.instructions, outputs, f"tangent_{graph.name}").pruned()
        graph.memo[key] = found
    return found


def _linear_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, linear: _Linear
) -> tuple[Any, Any]:
    # Residuals are functions of the primals, which the tangent graph reads instead.
    return _jvp(
        _tangent_operands(primals, linear),
        _tangent_operands(tangents, linear),
        graph=linear.tangent_graph,
    )


def _transpose(cotangents: Sequence[Any], *operands: Any, linear: _Linear) -> list[Any]:
    start = linear.primals + linear.residuals
    residuals = operands[linear.primals : start]
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    found = iter(bind_program(linear.backward, *residuals, *given))
    gathered = [next(found) if flag else None for flag in linear.active_inputs]
    tangents = operands[start:]
    return [None] * start + [
        cotangent if ad.is_undefined_primal(tangent) else None
        for cotangent, tangent in zip(gathered, tangents, strict=True)
    ]


def _batch(operands: Sequence[Any], dimensions: Sequence[Any], graph: Graph) -> Any:
    at = tuple(dimensions)  # None is JAX's mark for "not mapped" too
    sizes = [x.shape[d] for x, d in zip(operands, at, strict=True) if d is not None]
    batched = batched_graph(graph, at, sizes[0])
    return bind_program(batched.graph, *operands), list(batched.dimensions)


def _batch_linear(operands: Sequence[Any], dimensions: Sequence[Any], *, linear: _Linear) -> Any:
    return _batch(
        _tangent_operands(operands, linear),
        _tangent_operands(dimensions, linear),
        graph=linear.tangent_graph,
    )


def register() -> None:
    """Tells JAX the rules."""
    ad.primitive_jvps[PROGRAM] = lambda primals, tangents, graph: _jvp(primals, tangents, graph.graph)
    batching.primitive_batchers[PROGRAM] = lambda operands, dimensions, graph: _batch(
        operands, dimensions, graph.graph
    )
    LINEAR.def_impl(_run_linear)
    mlir.register_lowering(LINEAR, _lower_linear)
    ad.primitive_jvps[LINEAR] = _linear_jvp
    ad.primitive_transposes[LINEAR] = _transpose
    batching.primitive_batchers[LINEAR] = _batch_linear
