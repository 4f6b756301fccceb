"""JAX's rules to differentiate and batch our primitive.

Under `jax.jvp` a program becomes two: the program with residuals of its derivative, and a linear
program of the tangents. `jax.grad` transposes the linear one, which is our reverse derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import compress
from typing import Any

import jax
from jax.interpreters import ad, batching, mlir

from minixla.core.derived import (
    ReverseGraphs,
    batched_graph,
    entered_graph,
    jvp_graph,
    vjp_graphs,
)
from minixla.core.graph import Graph
from minixla.core.linear import instantiate, spread
from minixla.core.symbolic_zeros import ZeroTrace
from minixla.core.tracer import abstract_value
from minixla.core.tracing import evaluate_graph, trace_to_graph
from minixla.engine import program
from minixla.engine.jax_private import Primitive, weakref_cache_key_types
from minixla.engine.program import PROGRAM, bind_program
from minixla.typing import Array


class _Linear:
    """The linear part of a program's derivative, for the operands that have a tangent.

    Its operands are the program's operands, the residuals that the reverse derivative keeps, and a
    tangent for each active operand. Its results are the tangents of `halves.active_outputs`.
    """

    def __init__(self, graph: Graph, active: tuple[bool, ...]) -> None:
        self.graph, self.active = graph, active
        self.halves = vjp_graphs(graph, active)
        residuals = len(self.halves.forward.outputs) - len(graph.outputs)
        #: The number of the program's operands, and of all operands before the tangents.
        self.primals, self.start = len(graph.inputs), len(graph.inputs) + residuals

    def read(self, operands: Sequence[Array]) -> list[Array]:
        """Select the items for operands that the tangent graph reads."""
        return [*operands[: self.primals], *operands[self.start :]]

    @cached_property
    def tangent_graph(self) -> Graph:
        """The graph from primals and tangents to the results; custom_vjp does not have one."""
        wanted = self.halves.active_outputs
        whole, moving = jvp_graph(self.graph.silent(), self.active)

        def function(*operands: Array) -> list[Array]:
            outputs = evaluate_graph(whole, operands)
            results, tangents_out = outputs[: len(wanted)], spread(moving, outputs[len(wanted) :])
            return list(map(instantiate, compress(tangents_out, wanted), compress(results, wanted)))

        name = f"tangent_{self.graph.name}"
        return trace_to_graph(function, whole.input_shapes, name)[0].pruned()


weakref_cache_key_types.add(_Linear)

#: Operands and results: see `_Linear`.
LINEAR = Primitive("minixla_linear_program")
LINEAR.multiple_results = True


@LINEAR.def_abstract_eval
def _linear_abstract_eval(*operands: Any, linear: _Linear) -> list[Any]:
    shapes = compress(linear.graph.output_shapes, linear.halves.active_outputs)
    return program.varying_like(operands, list(map(abstract_value, shapes)))


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], graph: Graph
) -> tuple[list[Array], list[Any]]:
    active = tuple([type(tangent) is not ad.Zero for tangent in tangents])
    # Equal ones must be identical, for JAX's caches.
    linear = graph.remembered((_Linear, active), _Linear, graph, active)
    everything = bind_program(linear.halves.forward, *primals)
    results, residuals = everything[: len(graph.outputs)], everything[len(graph.outputs) :]
    flags = linear.halves.active_outputs
    operands = program.varying_alike((*primals, *residuals, *compress(tangents, active)))
    moving = LINEAR.bind(*operands, linear=linear) if any(flags) else ()
    zeros = [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]
    return results, spread(flags, moving, zeros)


def _pulled(
    halves: ReverseGraphs, residuals: Sequence[Array], cotangents: Sequence[Any]
) -> list[Array]:
    """Return the cotangents of all operands; absent ones are Zero as inputs, None as results."""
    absent = tuple([type(cotangent) is ad.Zero for cotangent in cotangents])
    nonzero = [
        cotangent for cotangent, is_zero in zip(cotangents, absent, strict=True) if not is_zero
    ]
    graph, is_zero = halves.backward, (False,) * sum(halves.active_inputs)
    if any(absent):
        is_known = (*[False] * len(residuals), *absent)
        graph, is_zero = entered_graph(graph, ZeroTrace(None), is_known)
    gradients = spread([not flag for flag in is_zero], bind_program(graph, *residuals, *nonzero))
    return spread(halves.active_inputs, gradients)


def _transpose_linear(cotangents: Sequence[Any], *operands: Any, linear: _Linear) -> list[Any]:
    residuals = operands[linear.primals : linear.start]
    pulled = compress(_pulled(linear.halves, residuals, cotangents), linear.active)
    tangents = operands[linear.start :]
    wanted = list(map(ad.is_undefined_primal, tangents))
    return [None] * linear.start + spread(wanted, compress(pulled, wanted))


def _transpose(cotangents: Sequence[Any], *operands: Any, graph: Graph) -> list[Any]:
    # The reverse derivative of a linear function is its transpose, wherever it is taken.
    unknown = tuple(map(ad.is_undefined_primal, operands))
    zeros = [ad.instantiate_zeros(ad.Zero(operand.aval)) for operand in compress(operands, unknown)]
    point = spread(unknown, zeros, operands)
    halves = vjp_graphs(graph, unknown)
    residuals = bind_program(halves.forward, *point)[len(graph.outputs) :]
    return _pulled(halves, residuals, list(compress(cotangents, halves.active_outputs)))


def _batch(operands: Sequence[Any], dimensions: Sequence[Any], graph: Graph) -> Any:
    at = tuple(dimensions)  # None also means "not mapped" in JAX
    sizes = [x.shape[d] for x, d in zip(operands, at, strict=True) if d is not None]
    batched = batched_graph(graph, at, sizes[0])
    return bind_program(batched.graph, *operands), list(batched.known)


def _of_held(rule: Callable[..., object]) -> Callable[..., object]:
    return lambda *arguments, graph: rule(*arguments, graph=graph.graph)


def _of_tangents(rule: Callable[..., object]) -> Callable[..., object]:
    # Residuals are functions of the primals, which the tangent graph reads instead.
    return lambda *arguments, linear: rule(*map(linear.read, arguments), graph=linear.tangent_graph)


ad.primitive_jvps[PROGRAM] = _of_held(_jvp)
ad.primitive_transposes[PROGRAM] = _of_held(_transpose)
batching.primitive_batchers[PROGRAM] = _of_held(_batch)
LINEAR.def_impl(
    lambda *operands, linear: bind_program(linear.tangent_graph, *linear.read(operands))
)
mlir.register_lowering(
    LINEAR,
    lambda ctx, *arguments, linear: program.lower_graph(
        ctx, linear.read(arguments), linear.read(ctx.avals_in), linear.tangent_graph
    ),
)
ad.primitive_jvps[LINEAR] = _of_tangents(_jvp)
ad.primitive_transposes[LINEAR] = _transpose_linear
batching.primitive_batchers[LINEAR] = _of_tangents(_batch)
