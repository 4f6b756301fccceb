"""The operations of Shardy's dialect (SDY) as operations of minixla."""

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from minixla.core.attributes import Enumeration, Instance, Integer, Text, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.data_flow import through
from minixla.core.hlo_text import quoted as hlo_quoted
from minixla.core.operation import Operation, register
from minixla.core.stablehlo_text import quoted
from minixla.sharding.axes import AxisRef
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla_ops.movement.constants import Constant
from minixla_ops.programs.call import Call

_Sharding = Instance(TensorSharding)
Shardings = SequenceAttribute(_Sharding)


class SdyOperation(Operation):
    """Base class of Shardy's operations."""

    namespace = "sdy"

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction("custom-call", operands, result, **self.hlo_attributes(shapes))

    def hlo_attributes(self, shapes):
        target = f'"sdy.{self.builder_name}"'
        attributes = {"custom_call_target": target}
        for name, value in self.values.items():
            if not self.fields[name].kind.holds_programs:
                text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                attributes[name] = hlo_quoted(text.replace('"', "'"))
        return attributes


class Identity(SdyOperation):
    """Base class of operations that return their operand and state something about sharding."""

    operands = ("operand",)
    linear_operands = (0,)
    is_elementwise = True
    dynamic_operands = (0,)
    only_arrays = False

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return operand

    def stablehlo(self, emit, operands, shapes, results):
        name, type_ = emit.name(), shapes[0].stablehlo
        emit.line(f"{name} = sdy.{self.builder_name} {operands[0]}{self.written(emit)} : {type_}")
        return [name]

    def written(self, emit: Any) -> str:
        """Return its StableHLO text after the operand."""
        raise self.lacks("written")

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)

    def batch(self, operands, dimensions):
        return self.of_batch(dimensions[0])(operands[0]), dimensions[0]

    def of_batch(self, at: int) -> Operation:
        """Return the operation on a batch, which is dimension `at`."""
        return self


class Placed(Identity):
    """Base class of operations that state a sharding."""

    sharding: TensorSharding | None = attribute(_Sharding)

    @property
    def meshes(self):
        return () if self.sharding is None else (self.sharding.mesh,)

    def shape(self, operand):
        if self.sharding is not None:
            self.sharding.check_rank(operand, self.builder_name)
        return operand

    def stablehlo(self, emit, operands, shapes, results):
        if not emit.inlines_meshes or isinstance(self, ShardingConstraint):
            return super().stablehlo(emit, operands, shapes, results)
        # XLA compiles constraints; it creates the others in its own passes.
        if self.sharding is None:
            return operands
        return ShardingConstraint(self.sharding).stablehlo(emit, operands, shapes, results)

    def written(self, emit):
        return f" {emit.sharding(self.sharding)}"

    def of_batch(self, at):
        sharding = self.sharding
        return self if sharding is None else self.replace(sharding=with_open(sharding, at))


def with_open(sharding: TensorSharding, at: int) -> TensorSharding:
    """Return a sharding with an additional open dimension at a position."""
    if sharding.mesh.is_maximal:
        return sharding
    dimensions = list(sharding.dimensions)
    dimensions.insert(at, DimensionSharding((), False))
    return sharding.of(dimensions=tuple(dimensions))


@register
class ShardingConstraint(Placed):
    """The operand, sharded by `sharding`. SDY: sharding_constraint.

    Args:
        operand: an array.
        sharding: a TensorSharding of as many dimensions.
    """


@register
class Reshard(Placed):
    """The operand, moved to the sharding `sharding`. SDY: reshard.

    Args:
        operand: an array.
        sharding: a TensorSharding of as many dimensions.
    """


@register
class AllReduce(Placed):
    """The sum of terms that devices along some axes hold. SDY: all_reduce.

    As an array over all devices, it is the operand.

    Args:
        operand: an array.
        sharding: a TensorSharding of as many dimensions, that of the sum.
        axes: axes of the mesh, or parts of them, along which devices add their terms.
    """

    axes: tuple[AxisRef, ...] = attribute(SequenceAttribute(Instance(AxisRef)))

    def stablehlo(self, emit, operands, shapes, results):
        if emit.inlines_meshes:
            return super().stablehlo(emit, operands, shapes, results)
        name, axes = emit.name(), ", ".join(map(str, self.axes))
        placed = f"out_sharding={emit.sharding(self.sharding)} : {shapes[0].stablehlo}"
        emit.line(f"{name} = sdy.all_reduce {{{axes}}} {operands[0]} {placed}")
        return [name]


@register
class DataFlowEdge(Placed):
    """A value that control flow carries, with the sharding of all its targets. SDY: data_flow_edge.

    Args:
        operand: the owner of the edge, an array.
        sharding: a TensorSharding of as many dimensions, or None.
    """

    sharding: TensorSharding | None = attribute(_Sharding, default=None)

    def written(self, emit):
        return "" if self.sharding is None else f" sharding={emit.sharding(self.sharding)}"


@register
class FuncDataFlowEdge(Identity):
    """An argument of a function, or a result of a call, with the sharding of its values.

    SDY: func_data_flow_edge. The sharding is that of the operation's result.

    Args:
        operand: the owner of the edge.
    """

    def stablehlo(self, emit, operands, shapes, results):
        if emit.inlines_meshes:  # XLA does not support it
            return operands
        return super().stablehlo(emit, operands, shapes, results)

    def written(self, emit):
        return ""


@register
class PropagationBarrier(Identity):
    """The operand; shardings pass it in one direction or not at all. SDY: propagation_barrier.

    Args:
        operand: an array.
        allowed_direction: FORWARD lets shardings pass from the operand to the result, BACKWARD from
            the result to the operand, NONE in neither direction.
    """

    allowed_direction: str = attribute(Enumeration("FORWARD", "BACKWARD", "NONE"))

    def written(self, emit):
        return f" allowed_direction={self.allowed_direction}"


@register
class ShardingGroup(Identity):
    """The operand, with the same sharding as all others of its group. SDY: sharding_group.

    Args:
        operand: an array; the arrays of one group have one shape.
        group_id: the id of the group, at least 0.
    """

    group_id: int = attribute(Integer(0, 2**63 - 1))

    def stablehlo(self, emit, operands, shapes, results):
        emit.line(
            f"sdy.sharding_group {operands[0]} group_id={self.group_id} : {shapes[0].stablehlo}"
        )
        return operands

    def jvp(self, primals, tangents, results):
        return _derived(self.group_id, "tangent")(*tangents)

    def transpose(self, cotangents, operands, linear):
        return (_derived(self.group_id, "cotangent")(cotangents),)

    def of_batch(self, at):
        return _derived(self.group_id, at)


# Groups of derivatives and batches, whose shapes differ, have ids from here on.
_own_groups = count(2**62)


@cache
def _derived(group_id: int, how: Any) -> ShardingGroup:
    return ShardingGroup(next(_own_groups))


@register
class SdyConstant(Constant):
    """A constant that passes do not fold or merge. SDY: constant."""

    name = "Constant"
    namespace = "sdy"
    builder_name = "sdy_constant"

    def __new__(cls, literal):
        return super(Constant, cls).__new__(cls, literal)

    def run(self):
        return Constant(self.literal).run()

    def stablehlo(self, emit, operands, shapes, results):
        return [emit.constant(self.literal, "sdy.constant")]


@register
class NamedComputation(Call):
    """A call that is inlined in the text, under a name. SDY: named_computation.

    Args:
        operands: values of the shapes of the computation's inputs.
        computation: the Graph.
        label: the name.
        in_shardings, out_shardings: a TensorSharding for each operand and result, or None.
    """

    namespace = "sdy"
    label: str = attribute(Text())
    in_shardings: tuple[TensorSharding, ...] | None = attribute(Shardings, default=None)
    out_shardings: tuple[TensorSharding, ...] | None = attribute(Shardings, default=None)

    def write(self, emit, operands, shapes, results):
        if emit.inlines_meshes:  # XLA compiles calls and constraints, not this
            placed = self._placed(emit, operands, shapes, self.in_shardings)
            called = super().write(emit, placed, shapes, results)
            return self._placed(emit, called, results, self.out_shardings)
        region = emit.region(self.computation, "sdy.return")
        texts: dict[str, Any] = {"name": quoted(self.label)}
        for key in ("in_shardings", "out_shardings"):
            placed = getattr(self, key)
            texts[key] = None if placed is None else emit.shardings(placed)
        name = "sdy.named_computation"
        return emit.operation(name, operands, shapes, results, [region], **texts)

    def _placed(self, emit: Any, names: Any, shapes: Any, shardings: Any) -> Any:
        """Return values with constraints, except the token of side effects before them."""
        rest, placed = len(names) - len(shardings or ()), list(names)
        for number, sharding in enumerate(shardings or (), rest):
            operand = placed[number : number + 1], shapes[number : number + 1]
            placed[number] = ShardingConstraint(sharding).stablehlo(emit, *operand, operand[1])[0]
        return placed

    @property
    def meshes(self):
        return {
            sharding.mesh for sharding in (*(self.in_shardings or ()), *(self.out_shardings or ()))
        }

    @property
    def operand_shardings(self):
        return self.in_shardings or ()

    def data_flow(self, *operands):
        return through(self.computation)

    def of_derived(self, computation):
        # Shardings of values of derivatives follow from their surroundings.
        return NamedComputation(computation, self.label)


def shardings_of(op: Any) -> Sequence[TensorSharding]:
    """Return the shardings that an operation itself states."""
    listed = getattr(op, "in_shardings", None) or (), getattr(op, "out_shardings", None) or ()
    candidates = (getattr(op, "sharding", None), *listed[0], *listed[1])
    return [candidate for candidate in candidates if isinstance(candidate, TensorSharding)]
