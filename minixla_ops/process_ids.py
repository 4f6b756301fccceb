"""ReplicaId and PartitionID: who a process is."""

from __future__ import annotations

from typing import Any

import numpy as np

from minixla.core.attributes import ShapeAttribute
from minixla.core.operation import Operation, register
from minixla.core.processes import current_process
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind

__all__ = ["partition_id", "replica_id"]

_SCALAR = Shape("u32")


@register
class ReplicaId(Operation):
    """The replica that runs, u32[] in [0, number of replicas). XLA: ReplicaId."""

    stablehlo_name = "replica_id"
    zero_derivative = "it has no operands"

    def shape(self) -> Shape:
        return _SCALAR

    def reference(self) -> np.ndarray:
        return np.asarray(current_process().replica, np.uint32)


@register
class PartitionID(Operation):
    """The partition that runs, u32[] in [0, number of partitions). XLA: PartitionId.

    Attributes:
        output_shape: the result's shape.

    Checks:
        (C1) it is u32[].
    """

    hlo_name = "partition-id"
    stablehlo_name = builder_name = "partition_id"
    attributes = {"output_shape": ShapeAttribute(_SCALAR)}
    zero_derivative = "it has no operands"

    def shape(self, *, output_shape: AnyShape) -> Shape:
        if output_shape is not _SCALAR:
            given = [f"shape {output_shape}"]
            self.reject_attribute("C1", "the shape is not u32[]", given, "Convert the result.")
        return _SCALAR

    def reference(self, *, output_shape: Shape) -> np.ndarray:
        return np.asarray(current_process().partition, np.uint32)

    def stablehlo(self, emit: Any, *arguments: Any, output_shape: Shape) -> Any:
        return emit.operation("stablehlo.partition_id", *arguments)

    def hlo_attributes(self, shapes: Any, *, output_shape: Shape) -> dict[str, Any]:
        return {}


def replica_id() -> Any:
    """The replica that runs this program, a u32 scalar."""
    return bind(ReplicaId.instance)


def partition_id(shape: Shape = _SCALAR) -> Any:
    """The partition that runs this program, a u32 scalar.

    Raises:
        AttributeValueError: `shape` is another one (C1).
    """
    return bind(PartitionID.instance, output_shape=shape)
