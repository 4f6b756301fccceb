"""Shardy's dialect (SDY) in StableHLO programs: meshes, annotations, its operations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jax.extend.mlir import ir

from minixla.core.graph import Value
from minixla.core.operation import Operation
from minixla.core.sharding_rule import ShardingRule
from minixla.interop.building import Builder
from minixla.interop.step import Step
from minixla.interop.values import literal_of
from minixla.sharding import operations as sdy
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.text import (
    parse_axes,
    parse_axis_list,
    parse_mesh,
    parse_sharding,
    parse_shardings,
)

# As SDY numbers them; the verifier rejects the fourth, BOTH.
_DIRECTIONS = "NONE", "FORWARD", "BACKWARD"
#: The name of the attribute on functions' arguments and results, and on operations.
SHARDING = "sdy.sharding"
#: The name of the attribute that states an operation's sharding rule.
RULE = "sdy.sharding_rule"


def meshes_of(module: Any) -> dict[str, Mesh]:
    """Return the meshes of a module by name."""
    operations = [view.operation for view in module.body.operations]
    return {
        ir.StringAttr(operation.attributes["sym_name"]).value: parse_mesh(
            str(operation.attributes["mesh"])
        )
        for operation in operations
        if operation.name == "sdy.mesh"
    }


class Shardings:
    """The meshes of a module, and its shardings after reading."""

    def __init__(self, module: Any) -> None:
        self.meshes = meshes_of(module)
        self._known: dict[Any, Any] = {}

    def name(self, meshes: Iterable[Mesh]) -> None:
        """Replace meshes of the module by known meshes with the same axes."""
        named_meshes = {tuple(mesh.shape.items()): mesh for mesh in meshes}
        for name, mesh in self.meshes.items():
            self.meshes[name] = named_meshes.get(tuple(mesh.shape.items()), mesh)

    def one(self, attribute: Any) -> TensorSharding:
        """Return the sharding in an MLIR attribute."""
        return self._read(parse_sharding, attribute)

    def several(self, attribute: Any) -> tuple[TensorSharding, ...]:
        """Return the shardings in an MLIR attribute."""
        return tuple(self._read(parse_shardings, attribute))

    def _read(self, parse: Callable[[str, Mapping[str, Mesh]], Any], attribute: Any) -> Any:
        if attribute not in self._known:
            self._known[attribute] = parse(str(attribute), self.meshes)
        return self._known[attribute]

    def annotate(self, operation: Any, results: Sequence[Value], builder: Builder) -> None:
        """Record the shardings and rule that an MLIR operation's attributes give its results."""
        attributes = operation.attributes
        if SHARDING in attributes and results:
            builder.shardings.update(zip(results, self.several(attributes[SHARDING]), strict=True))
        # A custom call stores its rule itself.
        if RULE in attributes and operation.name != "stablehlo.custom_call" and results:
            builder.rules[results[0]] = ShardingRule.parse(str(attributes[RULE]))

    def of_function(self, function: Any, which: str, count: int) -> list[TensorSharding | None]:
        """Return the shardings, or Nones, of a function's `arg_attrs` or `res_attrs`."""
        listed = function.attributes.get(which, None)
        if listed is None:
            return [None] * count
        return [
            self.one(attributes[SHARDING]) if SHARDING in attributes else None
            for attributes in listed
        ]


def _one(step: Step, operation: Operation) -> Sequence[Value]:
    return step.builder.apply(operation, step.operands)


def _placed(kind: Any) -> Callable[[Step], Sequence[Value]]:
    def read(step: Step) -> Sequence[Value]:
        attribute = step.raw("sharding")
        return _one(step, kind(None if attribute is None else step.module.shardings.one(attribute)))

    return read


def _all_reduce(step: Step) -> Sequence[Value]:
    axes = tuple(parse_axis_list(str(step.raw("reduction_axes"))))
    return _one(step, sdy.AllReduce(step.module.shardings.one(step.raw("out_sharding")), axes))


def _group(step: Step) -> Sequence[Value]:
    # Later operations read the member, so that dead code elimination keeps it.
    (member,) = _one(step, sdy.ShardingGroup(step.get("group_id")))
    step.builder.redefine(step.operation.operands[0], member)
    return ()


def _barrier(step: Step) -> Sequence[Value]:
    return _one(step, sdy.PropagationBarrier(_DIRECTIONS[step.get("allowed_direction")]))


def _constant(step: Step) -> Sequence[Value]:
    return _one(step, sdy.SdyConstant(literal_of(step)))


def _named(step: Step) -> Sequence[Value]:
    return _one(step, sdy.NamedComputation(step.region(0), step.get("name"), *_sides(step)))


def _manual(step: Step) -> Sequence[Value]:
    axes = tuple(parse_axes(str(step.raw("manual_axes"))))
    in_side, wanted = _sides(step)
    return _one(step, ManualComputation(step.region(0), in_side or (), wanted or (), axes))


def _sides(step: Step) -> list[tuple[TensorSharding, ...] | None]:
    both = [step.raw(f"{side}_shardings") for side in ("in", "out")]
    return [
        None if attribute is None else step.module.shardings.several(attribute)
        for attribute in both
    ]


#: The translations of Shardy's operations, by their full names.
SDY: dict[str, Callable[[Step], Sequence[Value]]] = {
    "sdy.sharding_constraint": _placed(sdy.ShardingConstraint),
    "sdy.reshard": _placed(sdy.Reshard),
    "sdy.all_reduce": _all_reduce,
    "sdy.data_flow_edge": _placed(sdy.DataFlowEdge),
    "sdy.func_data_flow_edge": lambda step: _one(step, sdy.FuncDataFlowEdge()),
    "sdy.sharding_group": _group,
    "sdy.propagation_barrier": _barrier,
    "sdy.constant": _constant,
    "sdy.named_computation": _named,
    "sdy.manual_computation": _manual,
}
