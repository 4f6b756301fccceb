"""How JAX differentiates and batches our programs: rules of the primitive.

Under `jax.jvp` a program becomes the program with what its derivative needs, and a linear program
that maps tangents; under `jax.grad` JAX transposes the linear one, which is our reverse derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from minixla.core.derived import ReverseGraphs, batched_graph, jvp_graph, vjp_graphs
from minixla.core.graph import Graph, remembered
from minixla.core.linear import instantiate, spread
from minixla.core.tracing import evaluate_graph, trace_to_graph
from minixla.engine.program import (
    PROGRAM,
    abstract_value,
    bind_program,
    lower_graph,
    varying_alike,
    varying_like,
)


@dataclass(frozen=True, eq=False, slots=True)
class _Linear:
    """The linear part of the derivative of a program.

    Its operands are the program's, what the reverse derivative keeps of them (residuals), and a
    tangent for each active operand; its results are the tangents of `halves.active_outputs`.

    Attributes:
        graph: the program.
        active: the operands that have a tangent.
        halves: its reverse derivative.
    """

    graph: Graph
    active: tuple[bool, ...]
    halves: ReverseGraphs

    @property
    def primals(self) -> int:
        """The number of the program's operands."""
        return len(self.graph.inputs)

    @property
    def start(self) -> int:
        """The number of operands before the tangents."""
        residuals = len(self.halves.forward.outputs) - len(self.graph.outputs)
        return self.primals + residuals

    def read(self, operands: Sequence[Any]) -> list[Any]:
        """Those of the operands, or of what there is for each, that the tangent graph reads."""
        return [*operands[: self.primals], *operands[self.start :]]

    @property
    def tangent_graph(self) -> Graph:
        """From primals and tangents to the results.

        Made only where tangents are computed: custom_vjp has no forward derivative.
        """
        return self.graph.remembered(("tangents", self.active), _tangents_only, self)


@remembered
def _linear_of(graph: Graph, active: tuple[bool, ...]) -> _Linear:
    return _Linear(graph, active, vjp_graphs(graph, active))


def _tangents_only(linear: _Linear) -> Graph:
    graph, wanted = linear.graph, linear.halves.active_outputs
    whole, moving = jvp_graph(graph.silent(), linear.active)

    def function(*operands: Any) -> list[Any]:
        outputs = evaluate_graph(whole, operands)
        results, given = outputs[: len(wanted)], spread(moving, outputs[len(wanted) :])
        return [
            instantiate(tangent, result)
            for tangent, result, flag in zip(given, results, wanted, strict=True)
            if flag
        ]

    return trace_to_graph(function, whole.input_shapes, f"tangent_{graph.name}")[0].pruned()


#: Operands and results: see `_Linear`.
LINEAR = Primitive("minixla_linear_program")
LINEAR.multiple_results = True


@LINEAR.def_abstract_eval
def _linear_abstract_eval(*operands: Any, linear: _Linear) -> list[Any]:
    shapes = zip(linear.graph.output_shapes, linear.halves.active_outputs, strict=True)
    return varying_like(operands, [abstract_value(shape) for shape, flag in shapes if flag])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], graph: Graph) -> tuple[Any, Any]:
    active = tuple([type(tangent) is not ad.Zero for tangent in tangents])
    linear = _linear_of(graph, active)
    count = len(graph.outputs)
    everything = bind_program(linear.halves.forward, *primals)
    results, residuals = everything[:count], everything[count:]
    flags = linear.halves.active_outputs
    given = [tangent for tangent, flag in zip(tangents, linear.active, strict=True) if flag]
    operands = varying_alike((*primals, *residuals, *given))
    moving = iter(LINEAR.bind(*operands, linear=linear) if any(flags) else ())
    return results, [
        next(moving) if flag else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, flag in zip(results, flags, strict=True)
    ]


def _transpose_linear(cotangents: Sequence[Any], *operands: Any, linear: _Linear) -> list[Any]:
    residuals = operands[linear.primals : linear.start]
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    found = bind_program(linear.halves.backward, *residuals, *given)
    pulled = spread(linear.halves.active_inputs, found)
    wanted = [each for each, flag in zip(pulled, linear.active, strict=True) if flag]
    tangents = operands[linear.start :]
    return [None] * linear.start + [
        cotangent if ad.is_undefined_primal(tangent) else None
        for cotangent, tangent in zip(wanted, tangents, strict=True)
    ]


def _transpose(cotangents: Sequence[Any], *operands: Any, graph: Graph) -> list[Any]:
    # The reverse derivative of a linear function is its transpose, wherever it is taken.
    unknown = tuple(map(ad.is_undefined_primal, operands))
    point = [
        ad.instantiate_zeros(ad.Zero(operand.aval)) if flag else operand
        for operand, flag in zip(operands, unknown, strict=True)
    ]
    halves = vjp_graphs(graph, unknown)
    residuals = bind_program(halves.forward, *point)[len(graph.outputs) :]
    pairs = zip(cotangents, halves.active_outputs, strict=True)
    given = [ad.instantiate_zeros(cotangent) for cotangent, flag in pairs if flag]
    return spread(halves.active_inputs, bind_program(halves.backward, *residuals, *given))


def _batch(operands: Sequence[Any], dimensions: Sequence[Any], graph: Graph) -> Any:
    at = tuple(dimensions)  # None is JAX's mark for "not mapped" too
    sizes = [x.shape[d] for x, d in zip(operands, at, strict=True) if d is not None]
    batched = batched_graph(graph, at, sizes[0])
    return bind_program(batched.graph, *operands), list(batched.known)


def _of_held(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of programs as one of the primitive."""
    return lambda *given, graph: rule(*given, graph=graph.graph)


def _of_tangents(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of programs as one of the linear primitive.

    Residuals are functions of the primals, which the tangent graph reads instead.
    """
    return lambda *given, linear: rule(*map(linear.read, given), graph=linear.tangent_graph)


def register() -> None:
    """Tells JAX the rules."""
    ad.primitive_jvps[PROGRAM] = _of_held(_jvp)
    ad.primitive_transposes[PROGRAM] = _of_held(_transpose)
    batching.primitive_batchers[PROGRAM] = _of_held(_batch)
    LINEAR.def_impl(
        lambda *operands, linear: bind_program(linear.tangent_graph, *linear.read(operands))
    )
    mlir.register_lowering(
        LINEAR,
        lambda ctx, *given, linear: lower_graph(ctx, linear.read(given), linear.tangent_graph),
    )
    ad.primitive_jvps[LINEAR] = _of_tangents(_jvp)
    ad.primitive_transposes[LINEAR] = _transpose_linear
    batching.primitive_batchers[LINEAR] = _of_tangents(_batch)
