"""The operations of Shardy's dialect (SDY) as operations of ours."""

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from minixla.core.attributes import Enumeration, Instance, Integer, Text, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.data_flow import through
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import Shape
from minixla.sharding.axes import size_of
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla_ops.movement.constants import Constant
from minixla_ops.programs.call import Call
from minixla_ops.programs.runs_programs import RunsPrograms

_Sharding = Instance(TensorSharding)
_Shardings = SequenceAttribute(_Sharding)


class SdyOperation(Operation):
    """Base class of Shardy's operations."""

    namespace = "sdy"

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction("custom-call", operands, result, **self.hlo_attributes(shapes))

    def hlo_attributes(self, shapes):
        target = f'"sdy.{self.builder_name}"'
        found = {"custom_call_target": target}
        for name, value in self.values.items():
            if not self.fields[name].kind.holds_programs:
                shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                found[name] = '"{}"'.format(shown.replace('"', "'"))
        return found


class Identity(SdyOperation):
    """Base class of those that give their operand, and say something of how it lies."""

    operands = ("operand",)
    linear_operands = (0,)
    is_elementwise = True
    dynamic_operands = (0,)

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return operand

    def stablehlo(self, emit, operands, shapes, results):
        name, type_ = emit.name(), shapes[0].stablehlo
        emit.line(f"{name} = sdy.{self.builder_name} {operands[0]}{self.written(emit)} : {type_}")
        return [name]

    def written(self, emit: Any) -> str:
        """What its text says besides its operand."""
        raise NotImplementedError

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)

    def batch(self, operands, dimensions):
        return self.of_batch(dimensions[0])(operands[0]), dimensions[0]

    def of_batch(self, at: int) -> Operation:
        """The operation on a batch, which is dimension `at`."""
        return self


class Placed(Identity):
    """Base class of those that say a sharding."""

    sharding: TensorSharding | None = attribute(_Sharding)

    def shape(self, operand):
        if self.sharding is not None:
            self.sharding.check_rank(operand, self.builder_name)
        return operand

    def written(self, emit):
        return f" {emit.sharding(self.sharding)}"

    def of_batch(self, at):
        given = self.sharding
        return self if given is None else self.replace(sharding=with_open(given, at))


def with_open(sharding: TensorSharding, at: int) -> TensorSharding:
    """A sharding with one more dimension, which is open, at a place."""
    if sharding.mesh.is_maximal:
        return sharding
    dimensions = list(sharding.dimensions)
    dimensions.insert(at, DimensionSharding((), False))
    return sharding.of(dimensions=tuple(dimensions))


@register
class ShardingConstraint(Placed):
    """The operand, laid out over devices as `sharding` says. SDY: sharding_constraint.

    Args:
        operand: an array.
        sharding: a TensorSharding of as many dimensions.
    """


@register
class Reshard(Placed):
    """The operand, moved so that it lies as `sharding` says. SDY: reshard.

    Args:
        operand: an array.
        sharding: a TensorSharding of as many dimensions.
    """


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
class PropagationBarrier(Identity):
    """The operand, past which shardings go one way or not at all. SDY: propagation_barrier.

    Args:
        operand: an array.
        allowed_direction: FORWARD lets them go from the operand to the result, BACKWARD from the
            result to the operand, NONE neither way.
    """

    allowed_direction: str = attribute(Enumeration("FORWARD", "BACKWARD", "NONE"))

    def written(self, emit):
        return f" allowed_direction={self.allowed_direction}"


@register
class ShardingGroup(Identity):
    """The operand, which lies as all others of its group do. SDY: sharding_group.

    Args:
        operand: an array; those of one group have one shape.
        group_id: the number of the group, 0 or more.
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


# Groups of derivatives and batches, which have shapes of their own, are numbered from here.
_own_groups = count(2**62)


@cache
def _derived(group_id: int, how: Any) -> ShardingGroup:
    return ShardingGroup(next(_own_groups))


@register
class SdyConstant(Constant):
    """A constant that passes neither fold nor merge. SDY: constant."""

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
    """A call that is written out in place, under a name. SDY: named_computation.

    Args:
        operands: values of the shapes of the computation's inputs.
        computation: the Graph.
        label: the name.
        in_shardings, out_shardings: a TensorSharding for each operand and result, or None.
    """

    namespace = "sdy"
    label: str = attribute(Text())
    in_shardings: tuple[TensorSharding, ...] | None = attribute(_Shardings, default=None)
    out_shardings: tuple[TensorSharding, ...] | None = attribute(_Shardings, default=None)

    def write(self, emit, operands, shapes, results):
        region = emit.region(self.computation, "sdy.return")
        texts = {"name": f'"{self.label}"'}
        for key in ("in_shardings", "out_shardings"):
            given = getattr(self, key)
            texts[key] = None if given is None else emit.shardings(given)
        name = "sdy.named_computation"
        return emit.operation(name, operands, shapes, results, [region], **texts)

    def data_flow(self, *operands):
        return through(self.computation)

    def of_derived(self, computation):
        # Where values of derivatives lie follows from what is around them.
        return NamedComputation(computation, self.label)


@register
class ManualComputation(RunsPrograms):
    """A program that each device runs on its own pieces. SDY: manual_computation.

    Along its manual axes each device holds one piece of every operand and result; along others the
    program is as without devices.

    Args:
        operands: arrays; along the manual axes of a dimension a piece for each device.
        computation: the Graph of one device, from pieces to pieces.
        in_shardings, out_shardings: a TensorSharding of each operand and result.
        manual_axes: the names of the axes, all of one mesh.

    Checks:
        (C1) a sharding for each operand, and for each result.
        (C2) in a dimension manual axes come before others, and their sizes divide the dimension's.
        (C3) the computation takes the operands' pieces.
        (C4) every sharding is on one mesh, which has the manual axes.
    """

    namespace = "sdy"
    hlo_name = "call"
    operands = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    computation: Graph = attribute(Instance(Graph))
    in_shardings: tuple[TensorSharding, ...] = attribute(_Shardings)
    out_shardings: tuple[TensorSharding, ...] = attribute(_Shardings)
    manual_axes: tuple[str, ...] = attribute(SequenceAttribute(Text()))

    def shape(self, *operands):
        given, wanted = self.in_shardings, self.computation.input_shapes
        if not len(operands) == len(given) == len(wanted):
            problem = f"{len(operands)} operands, {len(given)} shardings of operands, and "
            problem += f"{len(wanted)} inputs"
            self.refuse("C1", problem, "Give one sharding for each operand.")
        outputs = self.computation.output_shapes
        if len(outputs) != len(self.out_shardings):
            problem = f"{len(outputs)} results, and {len(self.out_shardings)} shardings of results"
            self.refuse("C1", problem, "Give one sharding for each result.")
        self._check_mesh()
        for number, (shape, sharding) in enumerate(zip(operands, given, strict=True)):
            sharding.check_rank(shape, self.builder_name)
            piece = self._piece(shape, sharding, f"operand {number}")
            if piece is not wanted[number]:
                problem = f"operand {number} of shape {shape} has pieces {piece}, and input "
                problem += f"{number} is {wanted[number]}"
                self.refuse("C3", problem, "The computation takes pieces along manual axes.")
        pairs = enumerate(zip(outputs, self.out_shardings, strict=True))
        return tuple([self._whole(*pair, f"result {number}") for number, pair in pairs])

    def _check_mesh(self) -> None:
        meshes = {each.mesh for each in (*self.in_shardings, *self.out_shardings)}
        meshes = {each for each in meshes if not each.is_empty}
        if len(meshes) > 1:
            shown = " and ".join(sorted(map(str, meshes)))
            self.refuse("C4", f"shardings are on several meshes, {shown}", "Give one mesh.")
        for mesh in meshes:
            for axis in self.manual_axes:
                if axis not in mesh.shape:
                    problem = f"the mesh {mesh} has no axis {axis}"
                    self.refuse("C4", problem, "Manual axes are axes of the mesh.")

    def manual_sizes(self, sharding: TensorSharding, what: str = "it") -> list[int]:
        """In how many pieces manual axes cut each dimension."""
        found = []
        for number, parts in enumerate(sharding.parts):
            manual = [part for part in parts if part.name in self.manual_axes]
            if tuple(manual) != parts[: len(manual)]:
                problem = f"in dimension {number} of {what} a manual axis comes after a free one"
                self.refuse("C2", f"{problem}: {sharding}", "Put manual axes first.")
            found.append(size_of(manual))
        return found

    def _piece(self, shape: Any, sharding: TensorSharding, what: str) -> Any:
        if not isinstance(shape, Shape):
            return shape
        sizes = self.manual_sizes(sharding, what)
        for number, (size, pieces) in enumerate(zip(shape.dimensions, sizes, strict=False)):
            if size % pieces:
                problem = (
                    f"dimension {number} of {what}, of size {size}, has no {pieces} equal parts"
                )
                self.refuse("C2", problem, "The manual axes' sizes divide the dimension's.")
            if pieces > 1:
                shape = _resized(shape, number, size // pieces)
        return shape

    def _whole(self, shape: Any, sharding: TensorSharding, what: str) -> Any:
        if not isinstance(shape, Shape):
            return shape
        sharding.check_rank(shape, self.builder_name)
        for number, pieces in enumerate(self.manual_sizes(sharding, what)):
            if pieces > 1:
                shape = _resized(shape, number, shape.dimensions[number] * pieces)
        return shape

    def write(self, emit, operands, shapes, results):
        region = emit.region(self.computation, "sdy.return")
        axes = ", ".join([f'"{name}"' for name in self.manual_axes])
        texts = {
            "in_shardings": emit.shardings(self.in_shardings),
            "manual_axes": f"#sdy<manual_axes{{{axes}}}>",
            "out_shardings": emit.shardings(self.out_shardings),
        }
        name = "sdy.manual_computation"
        return emit.operation(name, operands, shapes, results, [region], **texts)

    def data_flow(self, *operands):
        return through(self.computation)


def _resized(shape: Shape, number: int, size: int) -> Shape:
    sizes = list(shape.dimensions)
    sizes[number] = size
    return shape.with_dimensions(sizes)


def constraint(operand: Any, sharding: TensorSharding | None) -> Any:
    """A value with a sharding, which is itself where none is given."""
    return operand if sharding is None else ShardingConstraint(sharding)(operand)


def shardings_of(op: Any) -> Sequence[TensorSharding]:
    """The shardings that an operation itself says."""
    found = getattr(op, "sharding", None)
    listed = getattr(op, "in_shardings", None) or (), getattr(op, "out_shardings", None) or ()
    return [each for each in (found, *listed[0], *listed[1]) if isinstance(each, TensorSharding)]
