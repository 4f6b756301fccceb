"""Collectives, infeed, outfeed and channels of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.interop.operations import Translation
from minixla.interop.step import Step

_HOST_CHANNELS = (2, 3)


def replica_groups(step: Step, rows: Any = None) -> tuple[tuple[int, ...], ...]:
    """The replica groups; short ones are filled up with -1."""
    rows = step.get("replica_groups") if rows is None else rows
    if rows is None:
        return ()
    if not isinstance(rows, np.ndarray):
        step.reject(
            f"replica groups are given as {rows}", "Write them out as a dense array of numbers."
        )
    rows = rows.reshape(-1, rows.shape[-1]) if rows.size else np.zeros((0, 0), np.int64)
    return tuple([tuple([int(each) for each in row if each >= 0]) for row in rows])


def _channel(step: Step) -> int | None:
    handle = step.raw("channel_handle")
    return (stablehlo.ChannelHandle(handle).handle or None) if handle is not None else None


def _over_groups(step: Step, global_ids: bool = True) -> dict[str, Any]:
    given = {"replica_groups": replica_groups(step), "channel_id": _channel(step)}
    if global_ids:
        given["use_global_device_ids"] = bool(step.get("use_global_device_ids", False))
    return given


def _dimensions(value: Value) -> tuple[int, ...]:
    assert isinstance(value.shape, Shape), "MLIR's verifier checks that it is an array"
    return value.shape.dimensions


def _shards(step: Step, groups: Sequence[Sequence[int]], large: int, small: int) -> int:
    if small:
        return large // small
    return len(groups[0]) if groups else 1


def _all_gather(step: Step) -> Sequence[Value]:
    dimension, groups = step.get("all_gather_dim"), _over_groups(step)
    results = []
    for operand, shape in zip(step.operands, step.results, strict=True):
        small, large = _dimensions(operand)[dimension], shape.dimensions[dimension]  # type: ignore[union-attr]  # an array
        count = _shards(step, groups["replica_groups"], large, small)
        results.append(
            step.bind(
                "AllGather", operand, all_gather_dimension=dimension, shard_count=count, **groups
            )
        )
    return results


def _all_to_all(step: Step) -> Sequence[Value]:
    names = ("split_dimension", "concat_dimension", "split_count")
    given = {name: step.get(name) for name in names} | _over_groups(step, global_ids=False)
    return [step.bind("AllToAll", operand, **given) for operand in step.operands]


def _all_reduce(step: Step) -> Sequence[Value]:
    computation = step.region(0)
    operands = step.promoted(step.operands, computation.input_shapes[:1] * len(step.operands))
    given = {"computation": computation, **_over_groups(step)}
    return step.builder.apply(REGISTRY["AllReduce"], operands, given)


def _cross_replica_sum(step: Step) -> Sequence[Value]:
    shape = step.operands[0].shape
    assert isinstance(shape, Shape)
    scalar = Shape(shape.element_type)
    inputs = [Value(scalar, None, index) for index in range(2)]
    add = Instruction(REGISTRY["Add"](), tuple(inputs), scalar, None)
    given = {
        "computation": Graph(inputs, [add], add.results, "add"),
        "replica_groups": replica_groups(step),
    }
    return step.builder.apply(REGISTRY["AllReduce"], step.operands, given)


def _reduce_scatter(step: Step) -> Sequence[Value]:
    dimension, groups = step.get("scatter_dimension"), _over_groups(step)
    large, small = _dimensions(step.operands[0])[dimension], step.result.dimensions[dimension]
    count = _shards(step, groups["replica_groups"], large, small)
    computation = step.region(0)
    operands = step.promoted(step.operands, computation.input_shapes[:1])
    given = {"computation": computation, "scatter_dimension": dimension, "shard_count": count}
    return step.builder.apply(REGISTRY["ReduceScatter"], operands, given | groups)


def _collective_permute(step: Step) -> Sequence[Value]:
    rows = step.get("source_target_pairs").reshape(-1, 2)
    given = {
        "source_target_pairs": tuple([(int(source), int(target)) for source, target in rows]),
        "channel_id": _channel(step),
    }
    return [step.bind("CollectivePermute", operand, **given) for operand in step.operands]


def _collective_broadcast(step: Step) -> Sequence[Value]:
    given = _over_groups(step, global_ids=False)
    return [step.bind("CollectiveBroadcast", operand, **given) for operand in step.operands]


def _infeed(step: Step) -> Sequence[Value]:
    *data, _ = step.results
    shape = data[0] if len(data) == 1 else TupleShape(data)
    given = {"output_shape": shape, "infeed_config": step.get("infeed_config", "")}
    item, token = step.builder.apply(REGISTRY["Infeed"], step.operands, given)
    if len(data) == 1:
        return [item, token]
    members = [step.bind("GetTupleElement", item, index=i) for i in range(len(data))]
    return [*members, token]


def _outfeed(step: Step) -> Sequence[Value]:
    *data, token = step.operands
    leaves = [leaf for value in data for leaf in step.builder.leaves(value)]
    one = data[0].shape if len(data) == 1 else TupleShape([value.shape for value in data])
    given = {"shape_with_layout": one, "outfeed_config": step.get("outfeed_config", "")}
    return step.builder.apply(REGISTRY["Outfeed"], [*leaves, token], given)


def _transfer(step: Step) -> dict[str, Any]:
    handle = stablehlo.ChannelHandle(step.raw("channel_handle"))
    is_host = bool(step.get("is_host_transfer", False)) or handle.channel_type in _HOST_CHANNELS
    return {"channel_id": max(handle.handle, 1), "is_host_transfer": is_host}


_ONE_VALUE = "A transfer of ours moves one array: send several by channels of their own."


def _send(step: Step) -> Sequence[Value]:
    if len(step.operands) != 2:
        step.reject(f"it sends {len(step.operands) - 1} values", _ONE_VALUE)
    given = _transfer(step)
    return [step.bind("SendDone", step.bind("Send", *step.operands, **given), **given)]


def _recv(step: Step) -> Sequence[Value]:
    *data, token = step.results
    if len(data) != 1 or token is not TOKEN:
        step.reject(f"it receives {len(data)} values", _ONE_VALUE)
    given = _transfer(step)
    context = step.bind("Recv", *step.operands, output_shape=data[0], **given)
    return step.builder.apply(REGISTRY["RecvDone"], [context], given)


#: By StableHLO's name.
TRANSFERS: dict[str, Translation] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_broadcast": _collective_broadcast,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.cross-replica-sum": _cross_replica_sum,
    "stablehlo.infeed": _infeed,
    "stablehlo.outfeed": _outfeed,
    "stablehlo.recv": _recv,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.send": _send,
}
