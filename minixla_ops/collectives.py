"""AllGather and AllToAll: collectives that join what the members of a group have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integer
from minixla.core.operation import register
from minixla.core.processes import current_process
from minixla.core.shapes import Shape
from minixla.core.tracing import bind
from minixla_ops.collective_groups import (
    CHANNEL,
    GLOBAL_IDS,
    GROUPS,
    Collective,
    Groups,
    check_count,
    check_dimension,
    group_attributes,
    scaled,
)

__all__ = ["all_gather", "all_to_all"]


@register
class AllGather(Collective):
    """Joins the operands of a group along one dimension, in its order. XLA: AllGather.

    Attributes:
        all_gather_dimension: the dimension to join along.
        shard_count: the size of each group.
        replica_groups, channel_id, use_global_device_ids: see Collective.

    Checks:
        (C1) all_gather_dimension is one of the operand's dimensions.
        (G1) to (G4) see Collective; the size is shard_count.
    """

    stablehlo_name = "all_gather"
    attributes = {
        "all_gather_dimension": Integer(),
        "shard_count": Integer(minimum=1),
        "replica_groups": GROUPS,
        "channel_id": CHANNEL,
        "use_global_device_ids": GLOBAL_IDS,
    }
    linear_operands = (0,)

    def shape(
        self, operand: Any, /, *, all_gather_dimension: int, shard_count: int, **groups: Any
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        check_dimension(self, "all_gather_dimension", operand, all_gather_dimension)
        self.check_groups(size=shard_count, **groups)
        return scaled(operand, all_gather_dimension, shard_count)

    def reference(
        self, operand: np.ndarray, /, *, all_gather_dimension: int, shard_count: int, **groups: Any
    ) -> np.ndarray:
        members = self.members(**groups)
        assert members is not None
        check_count(self, "shard_count", shard_count, len(members))
        return self.exchange(
            operand,
            members,
            groups["channel_id"],
            lambda blocks: np.concatenate(blocks, all_gather_dimension),
            dimension=all_gather_dimension,
        )

    def stablehlo(
        self,
        emit: Any,
        *values: Any,
        all_gather_dimension: int,
        shard_count: int,
        **groups: Any,
    ) -> Sequence[str]:
        attributes = self.group_text(size=shard_count, **groups)
        attributes["all_gather_dim"] = all_gather_dimension
        return self.emit_collective(emit, *values, **attributes)

    def hlo_attributes(
        self,
        shapes: Any,
        *,
        all_gather_dimension: int,
        shard_count: int,
        **groups: Any,
    ) -> dict[str, Any]:
        return {**self.hlo_groups(**groups), "dimensions": (all_gather_dimension,)}

    def transpose(
        self,
        cotangents: Any,
        *_: Any,
        all_gather_dimension: int,
        shard_count: int,
        **groups: Any,
    ) -> Sequence[Any]:
        from minixla_ops.binary import add
        from minixla_ops.collective_reductions import reduce_scatter

        return (reduce_scatter(cotangents, add, all_gather_dimension, shard_count, **groups),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        all_gather_dimension: int,
        **attributes: Any,
    ) -> tuple[Any, int]:
        (at,) = dimensions
        assert at is not None
        dimension = all_gather_dimension + (at <= all_gather_dimension)
        return bind(self, *operands, all_gather_dimension=dimension, **attributes), at


@register
class AllToAll(Collective):
    """Cuts the operand into blocks, sends block i to member i and joins what came. XLA: AllToAll.

    Attributes:
        split_dimension: the dimension to cut.
        concat_dimension: the dimension to join along, in the order of the group.
        split_count: the number of blocks, which is the size of each group.
        replica_groups, channel_id: see Collective.

    Checks:
        (C1) split_dimension and concat_dimension are dimensions of the operand.
        (C2) split_count divides the size of split_dimension.
        (G1), (G2), (G4) see Collective; the size is split_count.
    """

    stablehlo_name = "all_to_all"
    attributes = {
        "split_dimension": Integer(),
        "concat_dimension": Integer(),
        "split_count": Integer(minimum=1),
        "replica_groups": GROUPS,
        "channel_id": CHANNEL,
    }
    linear_operands = (0,)

    def shape(
        self,
        operand: Any,
        /,
        *,
        split_dimension: int,
        concat_dimension: int,
        split_count: int,
        **groups: Any,
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        check_dimension(self, "split_dimension", operand, split_dimension)
        check_dimension(self, "concat_dimension", operand, concat_dimension)
        if operand.dimensions[split_dimension] % split_count:
            self.reject_attribute(
                "C2",
                f"split_count {split_count} does not divide dimension {split_dimension}",
                [f"operand {operand}"],
                "All blocks must have one size.",
            )
        self.check_groups(size=split_count, **groups)
        part = scaled(operand, split_dimension, 1, split_count)
        return scaled(part, concat_dimension, split_count)

    def reference(
        self,
        operand: np.ndarray,
        /,
        *,
        split_dimension: int,
        concat_dimension: int,
        split_count: int,
        **groups: Any,
    ) -> np.ndarray:
        members = self.members(**groups)
        assert members is not None
        check_count(self, "split_count", split_count, len(members))
        how = {"split": split_dimension, "concat": concat_dimension}
        operands = self.exchange(operand, members, groups["channel_id"], list, **how)
        own = members.index(current_process().id)
        blocks = [np.split(each, split_count, split_dimension)[own] for each in operands]
        return np.concatenate(blocks, concat_dimension)

    def stablehlo(
        self,
        emit: Any,
        *values: Any,
        split_count: int,
        replica_groups: Groups,
        channel_id: int | None,
        **dimensions: int,
    ) -> Sequence[str]:
        attributes = {**dimensions, "split_count": split_count}
        attributes |= self.group_text(replica_groups, channel_id, size=split_count)
        return self.emit_collective(emit, *values, **attributes)

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[Any],
        result: Any,
        /,
        *,
        split_dimension: int,
        concat_dimension: int,
        split_count: int,
        **groups: Any,
    ) -> str:
        # HLO's joins along the dimension that it cuts; then the blocks move.
        (shape,) = shapes
        texts = {**self.hlo_groups(**groups), "dimensions": (split_dimension,)}
        name = emit.instruction("all-to-all", operands, shape, **texts)
        if split_dimension == concat_dimension:
            return name
        sizes = list(shape.dimensions)
        sizes[split_dimension : split_dimension + 1] = (
            split_count,
            sizes[split_dimension] // split_count,
        )
        order = [at for at in range(shape.rank + 1) if at != split_dimension]
        order.insert(concat_dimension, split_dimension)
        split = emit.instruction("reshape", [name], shape.with_dimensions(sizes))
        turned = shape.with_dimensions([sizes[at] for at in order])
        moved = emit.instruction("transpose", [split], turned, dimensions=tuple(order))
        return emit.instruction("reshape", [moved], result)

    def transpose(
        self,
        cotangents: Any,
        *_: Any,
        split_dimension: int,
        concat_dimension: int,
        **attributes: Any,
    ) -> Sequence[Any]:
        back = {"split_dimension": concat_dimension, "concat_dimension": split_dimension}
        return (bind(self, cotangents, **back, **attributes),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        split_dimension: int,
        concat_dimension: int,
        **attributes: Any,
    ) -> tuple[Any, int]:
        (at,) = dimensions
        assert at is not None
        attributes["split_dimension"] = split_dimension + (at <= split_dimension)
        attributes["concat_dimension"] = concat_dimension + (at <= concat_dimension)
        return bind(self, *operands, **attributes), at


def all_gather(
    operand: Any,
    all_gather_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: int | None = None,
    layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The operands of a group joined along a dimension, in the order of the group.

    Args:
        operand: an array.
        all_gather_dimension: the dimension to join along.
        shard_count: the size of each group.
        replica_groups: who takes part; see Collective.
        channel_id: see Collective.
        use_global_device_ids: see Collective.
        layout: a request for a layout in memory, without effect.

    Raises:
        ShapeError, AttributeValueError: see AllGather.
    """
    groups = group_attributes(replica_groups, channel_id, use_global_device_ids)
    counts = {"all_gather_dimension": all_gather_dimension, "shard_count": shard_count}
    return bind(AllGather.instance, operand, **counts, **groups)


def all_to_all(
    operand: Any,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups = (),
    layout: Any = None,
    channel_id: int | None = None,
) -> Any:
    """Block i of the operand goes to member i of the group; what came is joined in its order.

    Args:
        operand: an array.
        split_dimension: the dimension to cut into blocks.
        concat_dimension: the dimension to join along.
        split_count: the number of blocks, which is the size of each group.
        replica_groups: who takes part; see Collective.
        channel_id: see Collective.
        layout: a request for a layout in memory, without effect.

    Raises:
        ShapeError, AttributeValueError: see AllToAll.
    """
    return bind(
        AllToAll.instance,
        operand,
        split_dimension=split_dimension,
        concat_dimension=concat_dimension,
        split_count=split_count,
        replica_groups=replica_groups,
        channel_id=channel_id,
    )
