"""Collectives over an axis of vmap, or over an axis that JAX maps.

Each has a second operand, the index of the batch element, which is batched only over this axis.
Batching over it turns the collective into an ordinary computation on the whole batch. Over an axis
that JAX maps, it is JAX's collective, between programs. Inside loops and branches, and over an axis
of pmap, it is XLA's.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import jax

import minixla_ops as ops
from minixla.core.attributes import Attribute, Boolean, Enumeration, Integer, Integers, attribute
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import DerivativeError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph
from minixla.engine.devices import bound_axes
from minixla.transforms.arguments import misfit
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers import batch_dimensions as batching
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.programs.call import Call
from minixla_ops.programs.computations import neutral_element, sum_over
from minixla_ops.programs.lowering import without_lines
from minixla_ops.programs.runs_programs import SpansDevices

Groups = tuple[tuple[int, ...], ...]


class AxisOperation(SpansDevices):
    """Base class of the operations; subclasses define `whole` and `by_xla`.

    `size` members take part: those of the axis, or of each of the `groups`; the default is one
    group. Each group of `partitions` is a separate axis; it is empty for an axis of vmap.
    `is_checked` states whether JAX checks which values differ between devices.
    """

    operands = "operand", "member"
    linear_operands = (0,)
    axis_name: Hashable = attribute(Attribute())
    size: int = attribute(Integer(0))
    groups: Groups = attribute(SequenceOf(Integers(0)))
    partitions: Groups = attribute(SequenceOf(Integers(0)))
    is_checked: bool = attribute(Boolean())

    def shape(self, operand, member):
        return operand

    def whole(self, operand: Array) -> tuple[Array, int | None]:
        """Return the result for all members, indexed by dimension 0, and its batch dimension."""
        raise self.lacks("whole")

    def by_jax(self, operand: Array, over: dict[str, Any]) -> Array:
        """Apply JAX's collective with its name and attributes over the axis in `over`."""
        attributes = {
            name: self.values[name] for name in self.fields if name not in AxisOperation.fields
        }
        tiled = {"tiled": True} if attributes else {}
        return getattr(jax.lax, self.builder_name)(operand, **over, **attributes, **tiled)

    def by_xla(self, operand: ArrayLike, groups: Sequence[Any], channel: int) -> Array:
        """Apply XLA's collective within groups of partitions."""
        raise self.lacks("by_xla")

    def between_partitions(self, operand: ArrayLike, channel: int) -> Array:
        """Apply XLA's collective in a program that runs on each partition."""
        groups = self.groups or (tuple(range(self.size)),)
        members = [tuple([p[n] for n in group]) for p in self.partitions for group in groups]
        return self.by_xla(operand, members, channel)

    def run(self, operand, member):
        if self.axis_name not in bound_axes():
            self.reference(operand, member)
        groups = list(map(list, self.groups)) or None
        over = {"axis_name": self.axis_name, "axis_index_groups": groups}
        return self.by_jax(jax.numpy.asarray(operand), over)

    def batch(self, operands, dimensions):
        # Batching over its axis applies the collective; over any other axis, all elements are
        # equal.
        (operand, member), (at, member_at) = operands, dimensions
        if member_at is None:
            last = array_shape(operand).rank - 1
            result = self(batching.move_dimension(operand, at, last), member)
            return result, array_shape(result).rank - 1
        front = batching.move_batch(operand, at, 0, array_shape(member).dimensions[member_at])
        if not self.groups:
            return self.whole(front)
        wholes = [self.whole(_taken(front, group)) for group in self.groups]
        parts = [batching.move_batch(*whole, 0, self.size) for whole in wholes]
        order = [number for group in self.groups for number in group]
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return _taken(ops.concat_in_dim(parts, 0), inverse), 0

    def reference(self, operand, member):  # a single member has no result
        problem = f"the axis {self.axis_name!r} is not mapped"
        advice = "Call the function that maps it: mx.vmap(f, axis_name=...)."
        raise misfit(self.builder_name, problem, advice=advice)

    def hlo_attributes(self, shapes):
        return {
            name: attribute
            for name, attribute in super().hlo_attributes(shapes).items()
            if attribute != ()
        }

    def stablehlo(self, emit, operands, shapes, results):
        if not self.partitions:
            self.reference(None, None)
        call = Call(_program(self, shapes[0]))
        return call.stablehlo(emit, operands[:1], shapes[:1], results)


@lru_cache(maxsize=1024)
def _program(operation: AxisOperation, shape: AnyShape) -> Graph:
    name = operation.builder_name
    graph = closed_graph(lambda x: operation.between_partitions(x, 1), [shape], name, name)
    return without_lines(graph)


def _taken(value: Array, numbers: Sequence[int]) -> Array:
    return ops.concat_in_dim([ops.slice_in_dim(value, n, n + 1, 0) for n in numbers], 0)


def _resized(shape: Shape, at: int, times: int, parts: int = 1) -> Shape:
    """Multiply and divide a size of a shape; without parts the size is 1."""
    return shape.with_size(at, shape.dimensions[at] * times // parts if parts else 1)


class AxisSum(AxisOperation):
    """The sum over the members."""

    builder_name = "psum"

    def whole(self, operand):
        return sum_over(operand, [0]), None

    def by_xla(self, operand, groups, channel):
        return ops.all_reduce(operand, ops.add, groups, channel, use_global_device_ids=True)

    def transpose(self, cotangents, operands, linear):
        if self.is_checked:
            # There, a sum is one value, whose cotangent counts once. Our derivative does not know
            # which values are equal on all devices.
            problem = (
                "its reverse derivative by mx.grad differs from JAX's if jax.shard_map checks "
            )
            problem += "which values differ between devices"
            advice = "Use jax.grad (of a function without psum in loops and branches), or "
            advice += "jax.shard_map(..., check_vma=False), where each device gets the derivative "
            advice += "of the sum of all devices' results."
            details = [f"axis_name = {self.axis_name!r}"]
            raise explain(DerivativeError, self.builder_name, problem, details, advice)
        return self(cotangents, operands[1]), None


class AxisExtreme(AxisOperation):
    """The maximum or minimum of the members' values."""

    builder_name = "pmax"
    linear_operands = None
    kind: str = attribute(Enumeration("max", "min"))

    def whole(self, operand):
        start = neutral_element(self.kind, array_shape(operand).element_type)
        return ops.reduce([operand], [start], getattr(ops, self.kind), [0]), None

    def by_jax(self, operand, over):
        # JAX's pmax and pmin have no derivative.

        @jax.custom_jvp
        def extreme(x: Array) -> Array:
            return (jax.lax.pmax if self.kind == "max" else jax.lax.pmin)(x, **over)

        @extreme.defjvp
        def _(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
            (x,), (moving,) = primals, tangents
            result = extreme(x)
            is_extreme = (x == result).astype(x.dtype)
            total = jax.lax.psum(moving * is_extreme, **over)
            return result, total / jax.lax.psum(is_extreme, **over)

        return extreme(operand)

    def by_xla(self, operand, groups, channel):
        extreme = getattr(ops, self.kind)
        return ops.all_reduce(operand, extreme, groups, channel, use_global_device_ids=True)

    def jvp(self, primals, tangents, results):
        # The mean tangent of the members that attain the result.
        operand, member = primals
        total = AxisSum(**{name: self.values[name] for name in AxisSum.fields})
        is_extreme = ops.eq(operand, results)
        counted = ops.convert_element_type(is_extreme, array_shape(operand).element_type)
        return total(tangents[0] * counted, member) / total(counted, member)


class _AlongAxis(AxisOperation):
    """Base class of linear operations that join or split one dimension."""

    axis: int = attribute(Integer(0))

    def transpose(self, cotangents, operands, linear):
        # The sum of the cotangents of each member's part, or the joined cotangents of all members.
        other = AxisAllGather if type(self) is AxisReduceScatter else AxisReduceScatter
        return other(**self.values)(cotangents, operands[1]), None


class AxisAllGather(_AlongAxis):
    """Gather the values of all indices of the mapped axis along one dimension."""

    builder_name = "all_gather"

    def shape(self, operand, member):
        return _resized(operand, self.axis, self.size)

    def whole(self, operand):
        return batching.merge_dimension(operand, 0, self.axis), None

    def by_xla(self, operand, groups, channel):
        along = self.axis, self.size
        return ops.all_gather(operand, *along, groups, channel, use_global_device_ids=True)


class AxisReduceScatter(_AlongAxis):
    """Sum over the mapped axis; each of its indices gets a part along one dimension."""

    builder_name = "psum_scatter"

    def shape(self, operand, member):
        return _resized(operand, self.axis, 1, self.size)

    def whole(self, operand):
        # The parts of a dimension of the sum become the batch.
        return batching.split_dimension(sum_over(operand, [0]), self.axis, self.size), self.axis

    def by_jax(self, operand, over):
        return jax.lax.psum_scatter(operand, **over, scatter_dimension=self.axis, tiled=True)

    def by_xla(self, operand, groups, channel):
        along = ops.add, self.axis, self.size
        return ops.reduce_scatter(operand, *along, groups, channel, use_global_device_ids=True)


class AxisAllToAll(AxisOperation):
    """Part j of member i becomes part i of member j: one dimension is split, the other joined."""

    builder_name = "all_to_all"
    split_axis: int = attribute(Integer(0))
    concat_axis: int = attribute(Integer(0))

    def shape(self, operand, member):
        cut = _resized(operand, self.split_axis, 1, self.size)
        return _resized(cut, self.concat_axis, self.size)

    def whole(self, operand):
        # Senders and receivers, exchanged.
        at = self.split_axis + 1
        parts = batching.split_dimension(operand, at, self.size)
        by_receiver = batching.move_dimension(parts, at, 0)
        return batching.merge_dimension(by_receiver, 1, self.concat_axis + 1), 0

    def by_xla(self, operand, groups, channel):
        axes = self.split_axis, self.concat_axis
        return ops.all_to_all(operand, *axes, self.size, groups, channel_id=channel)

    def transpose(self, cotangents, operands, linear):
        # The parts, sent back.
        back = self.replace(split_axis=self.concat_axis, concat_axis=self.split_axis)
        return back(cotangents, operands[1]), None


class AxisPermute(AxisOperation):
    """Each member gets the value of another, or zeros, by pairs of source and target."""

    builder_name = "ppermute"
    pairs: tuple[tuple[int, int], ...] = attribute(SequenceOf(Integers(0)))

    def whole(self, operand):
        source_of = {target: source for source, target in self.pairs}
        shape = array_shape(operand)
        empty = zeros(shape.with_dimensions((1, *shape.dimensions[1:])))
        sources = [source_of.get(member) for member in range(shape.dimensions[0])]
        parts = [empty if s is None else ops.slice_in_dim(operand, s, s + 1, 0) for s in sources]
        return ops.concat_in_dim(parts, 0), 0

    def by_jax(self, operand, over):
        return jax.lax.ppermute(operand, self.axis_name, self.pairs)

    def between_partitions(self, operand, channel):
        pairs = [(p[source], p[target]) for p in self.partitions for source, target in self.pairs]
        return ops.collective_permute(operand, pairs, channel_id=channel)

    def transpose(self, cotangents, operands, linear):
        # Send the cotangents back.
        back = [(target, source) for source, target in self.pairs]
        return self(cotangents, operands[1], pairs=back), None
