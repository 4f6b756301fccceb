"""ReplicaId and PartitionID: who a process is."""

from __future__ import annotations

from typing import Any

import numpy as np

from minixla.core.attributes import ShapeAttribute, attribute
from minixla.core.builders import builder
from minixla.core.operation import Operation, register
from minixla.core.processes import current_process
from minixla.core.shapes import Shape

_SCALAR = Shape("u32")


@register
class ReplicaId(Operation):
    """The replica that runs this program, u32[] in [0, number of replicas). XLA: ReplicaId."""

    stablehlo_name = "replica_id"
    zero_derivative = "it has no operands"

    def shape(self):
        return _SCALAR

    def reference(self):
        return np.asarray(current_process().replica, np.uint32)


@register
class PartitionID(Operation):
    """The partition that runs this program, u32[] in [0, number of partitions). XLA: PartitionId.

    Args:
        shape: the result's shape.

    Returns:
        A u32 scalar.

    Checks:
        (C1) the shape is u32[].
    """

    hlo_name = "partition-id"
    stablehlo_name = builder_name = "partition_id"
    output_shape: Any = attribute(ShapeAttribute(), default=_SCALAR, stablehlo=None, hlo=None)
    zero_derivative = "it has no operands"

    def shape(self):
        if self.output_shape is not _SCALAR:
            self.refuse_attribute("C1", "the shape is not u32[]", "Convert the result.")
        return _SCALAR

    def reference(self):
        return np.asarray(current_process().partition, np.uint32)


replica_id = builder(ReplicaId)
partition_id = builder(PartitionID, output_shape="shape")
