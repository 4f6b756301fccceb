"""AllGather and AllToAll: collectives that join values of a group's members."""

from functools import partial

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Dimension, Integer, attribute
from minixla.core.operation import register
from minixla_ops.collectives import collective_groups
from minixla_ops.collectives.processes import current_process


@register
class AllGather(collective_groups.Collective):
    """Join the operands of a group along a dimension, in its order. XLA: AllGather.

    Args:
        operand: an array.
        all_gather_dimension: the dimension to join along.
        shard_count: the size of each group.
        replica_groups, channel_id, use_global_device_ids: the groups; see Collective.
        layout: a memory layout, which is ignored.

    Returns:
        An array whose size in that dimension is multiplied by shard_count.

    Checks:
        (C1) all_gather_dimension is a dimension of the operand.
        (G1) to (G4) see Collective; the size is shard_count.

    Example:
        >>> gather = lambda x: ops.all_gather(x, 0, 2)
        >>> mx.simulate(gather, [[(np.int32([1]),)], [(np.int32([2]),)]])[0]
        [array([1, 2], dtype=int32)]
    """

    stablehlo_name = "all_gather"
    gives_all_the_same = True
    all_gather_dimension: int = attribute(Dimension(), stablehlo="all_gather_dim", hlo="dimensions")
    shard_count: int = attribute(Integer(minimum=1), stablehlo=None, hlo=None)
    replica_groups = collective_groups.GROUPS
    channel_id = collective_groups.CHANNEL
    layout = collective_groups.LAYOUT
    use_global_device_ids = collective_groups.GLOBAL_IDS
    linear_operands = (0,)
    along = ("all_gather_dimension",)
    counted_by = "shard_count"

    def shape(self, operand):
        dimension = self.check_dimension("all_gather_dimension", operand)
        self.check_groups()
        return collective_groups.scaled(operand, dimension, self.shard_count)

    def reference(self, operand):
        dimension = self.all_gather_dimension
        join = partial(np.concatenate, axis=dimension)
        return self.exchange(operand, self.members(), join, dimension=dimension)

    def transpose(self, cotangents, operands, linear):
        dimension, count = self.all_gather_dimension, self.shard_count
        return (ops.reduce_scatter(cotangents, ops.add, dimension, count, **self.groups),)


@register
class AllToAll(collective_groups.Collective):
    """Split the operand, send block i to member i, and join received blocks. XLA: AllToAll.

    Args:
        operand: an array.
        split_dimension: the dimension to split.
        concat_dimension: the dimension to join along, in the order of the group.
        split_count: the number of blocks, which is the size of each group.
        replica_groups, channel_id: the groups; see Collective.
        layout: a memory layout, which is ignored.

    Returns:
        An array with the same number of elements.

    Checks:
        (C1) split_dimension and concat_dimension are dimensions of the operand.
        (C2) split_count divides the size of split_dimension.
        (G1), (G2), (G4) see Collective; the size is split_count.

    Example:
        >>> swap = lambda x: ops.all_to_all(x, 0, 0, 2)
        >>> mx.simulate(swap, [[(np.int32([1, 2]),)], [(np.int32([3, 4]),)]])
        [[array([1, 3], dtype=int32)], [array([2, 4], dtype=int32)]]
    """

    stablehlo_name = "all_to_all"
    split_dimension: int = attribute(Integer(), hlo=None)
    concat_dimension: int = attribute(Integer(), hlo=None)
    split_count: int = attribute(Integer(minimum=1), hlo=None)
    replica_groups = collective_groups.GROUPS
    layout = collective_groups.LAYOUT
    channel_id = collective_groups.CHANNEL
    linear_operands = (0,)
    along = ("split_dimension", "concat_dimension")
    counted_by = "split_count"

    def shape(self, operand):
        split, concat = [self.check_dimension(name, operand) for name in self.along]
        part = self.block(operand, split, "C2")
        self.check_groups()
        return collective_groups.scaled(part, concat, self.split_count)

    def reference(self, operand):
        members, split, concat = self.members(), self.split_dimension, self.concat_dimension
        operands = self.exchange(operand, members, split=split, concat=concat)
        index = members.index(current_process().id)
        blocks = [np.split(operand, self.split_count, split)[index] for operand in operands]
        return np.concatenate(blocks, concat)

    def hlo(self, emit, operands, shapes, result):
        # HLO's operation joins along the dimension that it splits; the blocks are moved afterwards.
        (shape,), at, count = shapes, self.split_dimension, self.split_count
        texts = self.hlo_attributes(shapes)
        name = emit.instruction("all-to-all", operands, shape, **texts, dimensions=(at,))
        if at == self.concat_dimension:
            return name
        sizes = list(shape.dimensions)
        sizes[at : at + 1] = count, sizes[at] // count
        order = [index for index in range(shape.rank + 1) if index != at]
        order.insert(self.concat_dimension, at)
        split = emit.instruction("reshape", [name], shape.with_dimensions(sizes))
        turned = shape.with_dimensions([sizes[dimension] for dimension in order])
        moved = emit.instruction("transpose", [split], turned, dimensions=tuple(order))
        return emit.instruction("reshape", [moved], result)

    def transpose(self, cotangents, operands, linear):
        back = {"split_dimension": self.concat_dimension, "concat_dimension": self.split_dimension}
        return (self(cotangents, **back),)
