"""Operations that StableHLO has given up, as the programs that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.core.tracing import closed_graph
from minixla.interop.operations import Translation
from minixla.interop.step import Step
from minixla.transforms.vmap import vmap

__all__ = ["DEPRECATED"]


def _inlined(step: Step, function: Callable[..., Any]) -> Sequence[Value]:
    graph = closed_graph(function, step.shapes, step.name)
    return step.builder.inline(graph, step.operands)


def _einsum(step: Step) -> Sequence[Value]:
    config = step.get("einsum_config")
    return _inlined(step, lambda *operands: mnp.einsum(config, *operands))


def _torch_index_select(step: Step) -> Sequence[Value]:
    batch = step.get("batch_dims", 0)
    axis = step.get("dim") - batch

    def select(operand: Any, index: Any) -> Any:
        return mnp.take(operand, index, axis=axis, mode="clip")

    for _ in range(batch):
        select = vmap(select)
    return _inlined(step, select)


#: By StableHLO's name.
DEPRECATED: dict[str, Translation] = {
    "stablehlo.einsum": _einsum,
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.unary_einsum": _einsum,
}
