"""Collectives, infeed, outfeed and channels of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.attributes import written_fields
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.interop.operations import Translation
from minixla.interop.programs import folding
from minixla.interop.step import Step
from minixla_ops.collectives.collective_groups import ProcessLists

_HOST_CHANNELS = (2, 3)


def replica_groups(step: Step, rows: Any = None) -> Sequence[Sequence[int]]:
    """The replica groups; short ones are filled up with -1."""
    rows = step.get("replica_groups") if rows is None else rows
    return () if rows is None else ProcessLists().read(rows)


def _shards(step: Step, value: Value, result: Any, dimension: int) -> int:
    """How many members' values the result holds, or how many share the operand."""
    shape = value.shape
    assert isinstance(shape, Shape), "MLIR's verifier checks that it is an array"
    small, large = sorted((shape.dimensions[dimension], result.dimensions[dimension]))
    groups = () if small else replica_groups(step)
    return large // small if small else len(groups[0]) if groups else 1


def _all_gather(step: Step) -> Sequence[Value]:
    dimension, results = step.get("all_gather_dim"), []
    for operand, shape in zip(step.operands, step.results, strict=True):
        count = _shards(step, operand, shape, dimension)
        results += step.apply("AllGather", [operand], shard_count=count)
    return results


def _reduce_scatter(step: Step) -> Sequence[Value]:
    computation = step.region(0)
    count = _shards(step, step.operands[0], step.result, step.get("scatter_dimension"))
    operands = step.promoted(step.operands, computation.input_shapes)
    return step.apply("ReduceScatter", operands, computation=computation, shard_count=count)


def _for_each(name: str) -> Translation:
    """One instruction for each operand."""
    return lambda step: [step.apply(name, [operand])[0] for operand in step.operands]


def _cross_replica_sum(step: Step) -> Sequence[Value]:
    shape = step.operands[0].shape
    assert isinstance(shape, Shape)
    scalar = Shape(shape.element_type)
    inputs = [Value(scalar, None, index) for index in range(2)]
    add = Instruction(REGISTRY["Add"](), tuple(inputs), scalar, None)
    return step.apply("AllReduce", computation=Graph(inputs, [add], add.results, "add"))


def _infeed(step: Step) -> Sequence[Value]:
    *data, _ = step.results
    shape = data[0] if len(data) == 1 else TupleShape(data)
    item, token = step.apply("Infeed", output_shape=shape)
    if len(data) == 1:
        return [item, token]
    members = [step.bind("GetTupleElement", item, index=i) for i in range(len(data))]
    return [*members, token]


def _outfeed(step: Step) -> Sequence[Value]:
    *data, token = step.operands
    leaves = [leaf for value in data for leaf in step.builder.leaves(value)]
    one = data[0].shape if len(data) == 1 else TupleShape([value.shape for value in data])
    return step.apply("Outfeed", [*leaves, token], shape_with_layout=one)


def _transfer(step: Step) -> dict[str, Any]:
    handle = written_fields(str(step.raw("channel_handle")))
    is_host = bool(step.get("is_host_transfer", False)) or handle["type"] in _HOST_CHANNELS
    return {"channel_id": max(handle["handle"], 1), "is_host_transfer": is_host}


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
    return step.apply("RecvDone", [context], **given)


#: By StableHLO's name.
TRANSFERS: dict[str, Translation] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": folding("AllReduce"),
    "stablehlo.all_to_all": _for_each("AllToAll"),
    "stablehlo.collective_broadcast": _for_each("CollectiveBroadcast"),
    "stablehlo.collective_permute": _for_each("CollectivePermute"),
    "stablehlo.cross-replica-sum": _cross_replica_sum,
    "stablehlo.infeed": _infeed,
    "stablehlo.outfeed": _outfeed,
    "stablehlo.recv": _recv,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.send": _send,
}
