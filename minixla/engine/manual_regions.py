"""Split operations that run on shards, in programs that JAX lowers for several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.graph import Graph
from minixla.engine.jax_private import ShardingContext, ir
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import TensorSharding


def split(context: Any, operands: Sequence[Any], kinds: Sequence[Any], graph: Graph) -> Graph:
    """Split a program that JAX lowers into manual regions for operations that XLA does not split.

    Its operands are values of the module in `context`, with JAX's abstract values `kinds`.
    """
    axes = context.axis_context
    if not graph.has_pieces or not isinstance(axes, ShardingContext) or axes.num_devices == 1:
        return graph
    from minixla.sharding.per_shard import on_pieces  # loads propagation

    return on_pieces(graph.pruned(), list(map(_sharding_of, operands, kinds)))


def _sharding_of(value: Any, kind: Any) -> TensorSharding | None:
    """Return a value's sharding if its type or the operation that computes it states one."""
    typed = kind.sharding
    if any(typed.spec):
        return TensorSharding.from_spec(Mesh.of(typed.mesh), typed.spec, kind.ndim)
    if isinstance(value, ir.BlockArgument):
        attributes: Any = value.owner.owner.attributes
        listed = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
        dictionary: Any = listed[value.arg_number] if listed else {}
        return _read(str(dictionary["sdy.sharding"])) if "sdy.sharding" in dictionary else None
    if value.owner.name != "sdy.sharding_constraint":
        return None
    sharding = _read(str(value.owner.attributes["sharding"]))
    is_open = sharding is not None and sharding.is_replicated and not sharding.is_closed
    return _sharding_of(value.owner.operands[0], kind) if is_open else sharding


def _read(text: str) -> TensorSharding | None:
    if "mesh<" not in text:  # programs from other sources may refer to meshes by name
        return None
    from minixla.sharding.text import parse_sharding  # needed only for programs on several devices

    return parse_sharding(text)
