"""Evaluators that run programs in different ways: eagerly, in JAX, in loops, over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from minixla.core.errors import UnsupportedError
from minixla.core.graph import Graph
from minixla.core.tracing import evaluate_graph
from minixla.extension.kernel_table import forced
from minixla.extension.kernels import PythonKernel
from minixla.extension.registered import RegisteredOperation
from minixla.interop import import_stablehlo
from minixla.tools.evaluators import REFERENCE
from minixla.transforms import jit, pmap, scan, vmap


def _arrays(results: Any) -> list[np.ndarray]:
    return list(map(np.asarray, results))


def _way(run: Callable[[Callable[..., Any], list[Any]], Any]) -> Callable[..., list[np.ndarray]]:
    """Return an evaluator that runs a function of arrays, which returns a list, in some way."""

    def evaluate(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        with jax.enable_x64(True):
            try:
                arrays = list(map(jax.numpy.asarray, operands))
                return _arrays(run(lambda *xs: list(evaluate_graph(graph, xs)), arrays))
            except (RuntimeError, UnsupportedError) as error:
                raise NotImplementedError(str(error)) from error

    return evaluate


def _scanned(function: Callable[..., Any], operands: list[Any]) -> Any:
    steps = [np.stack([operand, operand]) for operand in operands]
    results = scan(lambda _, xs: ((), function(*xs)), (), steps, length=2)[1]
    return [result[1] for result in results]


def _mapped(function: Callable[..., Any], operands: list[Any]) -> Any:
    one = [operand[None] for operand in operands]
    return [result[0] for result in pmap(function, axis_size=1)(*one)] if one else function()


def _batched(which: int, function: Callable[..., Any], operands: list[Any]) -> Any:
    """Return one element of a batch of three; the others are the same arrays, rolled."""
    if not operands:
        return function()
    others = [
        np.roll(operand, 1) if operand.dtype.kind in "fc" else operand for operand in operands
    ]
    members = [others, others, others]
    members[which] = operands
    stacked = [np.stack(copies) for copies in zip(*members, strict=True)]
    return [result[which] for result in jit(vmap(function))(*stacked)]


def _batched_alone(function: Callable[..., Any], operands: list[Any]) -> Any:
    """Batch one operand at a time; return the first results that differ from the unbatched ones."""
    results = function(*operands)
    for number in range(len(operands)):
        axes = [0 if index == number else None for index in range(len(operands))]
        stacked = [np.stack([x, x]) if at == 0 else x for x, at in zip(operands, axes, strict=True)]
        again = [result[1] for result in jit(vmap(function, axes))(*stacked)]
        pairs = list(zip(again, results, strict=True))
        if not all(
            np.array_equal(*map(np.asarray, pair), equal_nan=_has_nan(pair)) for pair in pairs
        ):
            return again
    return results


def _has_nan(pair: Sequence[Any]) -> bool:
    return all(np.asarray(side).dtype.kind in "fc" for side in pair)


def _read_again(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    function = import_stablehlo(graph.stablehlo())
    results = _way(lambda _, arguments: jax.tree.leaves(jit(function)(*arguments)))
    return results(graph, operands)


WAYS: dict[str, Callable[..., Any]] = {
    "eager": _way(lambda function, arguments: function(*arguments)),
    "inside JAX": _way(lambda function, arguments: jax.jit(function)(*arguments)),
    "scan": _way(_scanned),
    "pmap": _way(_mapped),
    "vmap, first": _way(partial(_batched, 0)),
    "vmap, last": _way(partial(_batched, 2)),
    "vmap, each operand": _way(_batched_alone),
    "StableHLO, read again": _read_again,
}


def by_kernels(op: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield evaluators for each kernel that may run here: traced kernels and compiled ones."""
    if not isinstance(op, RegisteredOperation):
        return
    for number, kernel in enumerate(op.kernels.listed):
        is_traced = isinstance(kernel, PythonKernel) and kernel.platform != REFERENCE
        if is_traced or (kernel.platform == jax.default_backend() and not is_traced):

            def run(
                function: Callable[..., Any], arguments: list[Any], kernel: Any = kernel
            ) -> Any:
                with forced(kernel):
                    return jit(lambda *xs: function(*xs))(*arguments)

            yield f"kernel {number} ({kernel.platform})", _way(run)
