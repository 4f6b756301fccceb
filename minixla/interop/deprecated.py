"""Operations that StableHLO has given up, as the programs that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.interop.operations import Translation
from minixla.interop.step import Step
from minixla.transforms.vmap import vmap


def _einsum(step: Step) -> Sequence[Value]:
    config = step.get("einsum_config")
    # As in a dot_general, products and sums have the type that the result is declared.
    step.operands = step.promoted(step.operands, [step.result] * len(step.operands))
    return step.inlined(lambda *operands: mnp.einsum(config, *operands))


def _torch_index_select(step: Step) -> Sequence[Value]:
    batch = step.get("batch_dims", 0)
    axis = step.get("dim") - batch

    def select(operand: Any, index: Any) -> Any:
        return mnp.take(operand, index, axis=axis, mode="clip")

    for _ in range(batch):
        select = vmap(select)
    return step.inlined(select)


#: By StableHLO's name.
DEPRECATED: dict[str, Translation] = {
    "stablehlo.einsum": _einsum,
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.unary_einsum": _einsum,
}
