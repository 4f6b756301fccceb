"""Collectives, infeed, outfeed and channels of HLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.interop.hlo import notation
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.step import Nest, Step

__all__ = ["COLLECTIVES", "gathered", "groups_of", "permuted"]

_GROUPS = "channel_id replica_groups use_global_device_ids constrain_layout"


def groups_of(step: Step, global_ids: bool = True) -> dict[str, Any]:
    """The attributes that all collectives have."""
    given: dict[str, Any] = {
        "replica_groups": step.parsed(
            "replica_groups", notation.replica_groups, "{{0,1},{2,3}}", ()
        ),
        "channel_id": step.integer("channel_id", 0) or None,
    }
    # One empty group means all processes, as no group does.
    if given["replica_groups"] == ((),):
        given["replica_groups"] = ()
    if global_ids:
        given["use_global_device_ids"] = step.flag("use_global_device_ids")
    return given


def _size(shape: AnyShape, dimension: int) -> int:
    """The size of an array's dimension; 0 of what has no such."""
    if isinstance(shape, Shape) and 0 <= dimension < shape.rank:
        return shape.dimensions[dimension]
    return 0


def _declared(step: Step, index: int, dimension: int) -> int:
    """The size of a dimension of a declared result."""
    shape = step.shape
    if isinstance(shape, TupleShape):
        shape = shape.elements[index] if index < len(shape.elements) else shape
    return _size(shape, dimension)


def gathered(step: Step, large: int, index: int = 0) -> dict[str, Any]:
    """The attributes of an all-gather whose result has `large` elements along the dimension."""
    dimension, groups = step.dimension(), groups_of(step)
    small = _size(step.values[index].shape, dimension)
    members = len(groups["replica_groups"][0]) if groups["replica_groups"] else 1
    count = large // small if small else members
    return {"all_gather_dimension": dimension, "shard_count": count, **groups}


def _all_gather(step: Step) -> Nest:
    dimension = step.dimension()
    results = []
    for index, operand in enumerate(step.values):
        given = gathered(step, _declared(step, index, dimension), index)
        results.append(step.bind("AllGather", operand, **given))
    return step.nest(results)


def _all_reduce(step: Step) -> Nest:
    given = {"computation": step.computation("to_apply"), **groups_of(step)}
    return step.apply(REGISTRY["AllReduce"], step.values, given)


def _reduce_scatter(step: Step) -> Nest:
    dimension, groups = step.dimension(), groups_of(step)
    large = _size(step.values[0].shape, dimension) if step.values else 0
    small = _declared(step, 0, dimension)
    members = len(groups["replica_groups"][0]) if groups["replica_groups"] else 1
    given = {
        "computation": step.computation("to_apply"),
        "scatter_dimension": dimension,
        "shard_count": large // small if small else members,
        **groups,
    }
    return step.apply(REGISTRY["ReduceScatter"], step.values, given)


def _all_to_all(step: Step) -> Nest:
    groups = groups_of(step, global_ids=False)
    members = groups["replica_groups"]
    if not step.has("dimensions"):
        return _tuple_all_to_all(step, groups)
    if not members:
        step.reject("it has no replica_groups", "Give the groups whose members exchange blocks.")
    dimension = step.dimension()
    given = {"split_dimension": dimension, "concat_dimension": dimension, **groups}
    given["split_count"] = len(members[0])
    return step.nest([step.bind("AllToAll", operand, **given) for operand in step.values])


def _tuple_all_to_all(step: Step, groups: dict[str, Any]) -> Nest:
    """Operand i goes to member i of the group, and result i is what came from it."""
    values = step.values
    shapes = {value.shape for value in values}
    if len(shapes) != 1 or not isinstance(values[0].shape, Shape):
        step.reject("its operands are not of one shape", "Give an array for each member.")
    shape = values[0].shape
    rows = [step.bind("Reshape", each, dimensions=(1, *shape.dimensions)) for each in values]
    (stacked,) = step.builder.apply(REGISTRY["ConcatInDim"], rows, {"dimension": 0})
    given = {"split_dimension": 0, "concat_dimension": 0, "split_count": len(values), **groups}
    moved = step.bind("AllToAll", stacked, **given)
    results = []
    for index in range(len(values)):
        limits = {
            "start_indices": (index, *[0] * shape.rank),
            "limit_indices": (index + 1, *shape.dimensions),
        }
        row = step.bind("Slice", moved, **limits, strides=(1,) * (shape.rank + 1))
        results.append(step.bind("Reshape", row, dimensions=shape.dimensions))
    return step.nest(results)


def _ragged_all_to_all(step: Step) -> Nest:
    given = groups_of(step, global_ids=False)
    return step.apply(REGISTRY["RaggedAllToAll"], step.values, given)


def _collective_broadcast(step: Step) -> Nest:
    given = groups_of(step, global_ids=False)
    return step.nest([step.bind("CollectiveBroadcast", each, **given) for each in step.values])


def permuted(step: Step) -> dict[str, Any]:
    """The attributes of a collective-permute."""
    pairs = step.parsed("source_target_pairs", notation.lists, "{{0,1},{1,0}}")
    return {"source_target_pairs": pairs, "channel_id": step.integer("channel_id", 0) or None}


def _collective_permute(step: Step) -> Nest:
    if step.has("slice_sizes") or (len(step.values) > 1 and not _is_tuple(step)):
        step.reject(
            "it writes into an operand", "Passes make such programs late: dump an earlier one."
        )
    given = permuted(step)
    return step.nest([step.bind("CollectivePermute", each, **given) for each in step.values])


def _is_tuple(step: Step) -> bool:
    return isinstance(step.shape, TupleShape)


def _infeed(step: Step) -> Nest:
    declared = step.shape
    if not isinstance(declared, TupleShape) or len(declared.elements) != 2:
        step.reject(f"its result is {declared}", "It gives data and a token.")
    given = {
        "output_shape": declared.elements[0],
        "infeed_config": step.string("infeed_config", ""),
    }
    return tuple(step.builder.apply(REGISTRY["Infeed"], step.leaves, given))


def _outfeed(step: Step) -> Nest:
    leaves = step.leaves
    if len(step.operands) != 2:
        step.reject(f"{len(step.operands)} operands were given", "It takes data and a token.")
    data = step.operands[0]
    shape = data.shape if type(data) is Value else TupleShape([leaf.shape for leaf in leaves[:-1]])
    given = {"shape_with_layout": shape, "outfeed_config": step.string("outfeed_config", "")}
    return step.nest(step.builder.apply(REGISTRY["Outfeed"], leaves, given))


def _transfer(step: Step) -> dict[str, Any]:
    return {
        "channel_id": max(step.integer("channel_id", 1), 1),
        "is_host_transfer": step.flag("is_host_transfer"),
    }


def _by_channel(name: str, more: Callable[[Step], dict[str, Any]]) -> Entry:
    operation = REGISTRY[name]

    def translation(step: Step) -> Nest:
        results = step.builder.apply(operation, step.values, {**more(step), **_transfer(step)})
        return results[0] if len(results) == 1 else tuple(results)

    return entry(translation, "channel_id is_host_transfer")


def _received(step: Step) -> dict[str, Any]:
    declared = step.shape
    if not isinstance(declared, TupleShape) or not declared.elements:
        step.reject(f"its result is {declared}", "It gives data, a context and a token.")
    return {"output_shape": declared.elements[0]}


#: By opcode.
COLLECTIVES: dict[str, Entry] = {
    "all-gather": entry(_all_gather, f"{_GROUPS} dimensions"),
    "all-reduce": entry(_all_reduce, f"{_GROUPS} to_apply"),
    "all-to-all": entry(_all_to_all, f"{_GROUPS} dimensions"),
    "collective-broadcast": entry(_collective_broadcast, _GROUPS),
    "collective-permute": entry(_collective_permute, "channel_id source_target_pairs slice_sizes"),
    "infeed": entry(_infeed, "infeed_config"),
    "outfeed": entry(_outfeed, "outfeed_config outfeed_shape"),
    "ragged-all-to-all": entry(_ragged_all_to_all, _GROUPS),
    "recv": _by_channel("Recv", _received),
    "recv-done": _by_channel("RecvDone", lambda step: {}),
    "reduce-scatter": entry(_reduce_scatter, f"{_GROUPS} dimensions to_apply"),
    "send": _by_channel("Send", lambda step: {}),
    "send-done": _by_channel("SendDone", lambda step: {}),
}
