"""What collectives over an axis of vmap, or one that JAX maps, are: operations on its members.

None is an operation of XLA. Each has a second operand, the member's number, which differs over
the one batch that it is about; batching that makes it an ordinary computation on the whole batch.
Under every other transformation it stays what it is. Over an axis that JAX maps it is JAX's own
collective, between the programs before and after it; inside loops and branches it is XLA's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from minixla.core.attributes import Attribute, Boolean, Enumeration, Integer, Integers, Optional
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import DerivativeError, TransformError, explain
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla.engine.devices import bound_axes
from minixla_ops.batching import merge_dimension, move_dimension, split_dimension
from minixla_ops.binary import max as maximum
from minixla_ops.binary import min as minimum
from minixla_ops.broadcasting import broadcast
from minixla_ops.calls import Call
from minixla_ops.comparison import eq
from minixla_ops.computations import neutral_element
from minixla_ops.conversion import convert_element_type
from minixla_ops.movement import concat_in_dim, slice_in_dim
from minixla_ops.reduction import reduce
from minixla_ops.rules import array_shape, sum_over, zeros

__all__ = [
    "ALL_GATHER",
    "ALL_TO_ALL",
    "EXTREME",
    "PERMUTE",
    "REDUCE_SCATTER",
    "SUM",
    "while_both_are_there",
]


class AxisOperation(Operation):
    """Base class of the operations; members give `whole`.

    Attributes:
        axis_name: the name of the axis.
        size: how many members take part: those of the axis, or of each group.
        groups: the members of each group, or None.
        partitions: the partitions that meet over an axis of a mesh of JAX's, or None.
        is_checked: whether JAX checks there what differs between devices.
    """

    operand_names = ("operand", "member")
    linear_operands: ClassVar[Any] = (0,)
    spans_devices = True
    attributes: ClassVar[dict[str, Attribute]] = {
        "axis_name": Attribute(),
        "size": Integer(0),
        "groups": Optional(SequenceOf(Integers(0))),
        "partitions": Optional(SequenceOf(Integers(0))),
        "is_checked": Boolean(default=False),
    }

    def shape(self, operand: AnyShape, member: AnyShape, **attributes: Any) -> AnyShape:
        """That of the operand."""
        return operand

    def whole(self, operand: Any, size: int, **attributes: Any) -> tuple[Any, int | None]:
        """The result for all members, which the first dimension counts; its batch dimension."""
        raise NotImplementedError

    def by_jax(self, operand: Any, over: dict[str, Any], **attributes: Any) -> Any:
        """JAX's collective over the axis that `over` names."""
        raise NotImplementedError

    def run(  # type: ignore[override]  # a method here
        self,
        operand: Any,
        member: Any,
        /,
        *,
        axis_name: Any,
        size: int,
        groups: Any,
        partitions: Any,
        is_checked: bool,
        **attributes: Any,
    ) -> Any:
        """The result where JAX is tracing what it maps over the axis."""
        if axis_name not in bound_axes():
            raise self._unbound({"axis_name": axis_name})
        divided = None if groups is None else list(map(list, groups))
        over = {"axis_name": axis_name, "axis_index_groups": divided}
        return self.by_jax(jax.numpy.asarray(operand), over, **attributes)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        axis_name: Any,
        groups: Any,
        partitions: Any,
        is_checked: bool,
        **attributes: Any,
    ) -> tuple[Any, int | None]:
        """The collective over its own axis; over any other batch, the same for every member."""
        (operand, member), (at, member_at) = operands, dimensions
        if member_at is None:
            assert at is not None  # one of them is batched
            moved = move_dimension(operand, at, array_shape(operand).rank - 1)
            mapped = {"axis_name": axis_name, "partitions": partitions, "is_checked": is_checked}
            given = {**mapped, "groups": groups, **attributes}
            result = bind(self, moved, member, **given)
            return result, array_shape(result).rank - 1
        count = array_shape(member).dimensions[member_at]
        front = broadcast(operand, (count,)) if at is None else move_dimension(operand, at, 0)
        if groups is None:
            return self.whole(front, **attributes)
        parts = []
        for group in groups:
            value, where = self.whole(_taken(front, group), **attributes)
            whole = broadcast(value, (len(group),)) if where is None else value
            parts.append(move_dimension(whole, where or 0, 0))
        order = [number for group in groups for number in group]
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return _taken(concat_in_dim(parts, 0), inverse), 0

    def _unbound(self, attributes: dict[str, Any]) -> TransformError:
        return explain(
            TransformError,
            self.builder_name,
            f"the axis {attributes['axis_name']!r} is not mapped here",
            advice="Run the function that maps it: mx.vmap(f, axis_name=...).",
        )

    def reference(self, *operands: Any, **attributes: Any) -> Any:
        """Refuses: one member alone has no result."""
        raise self._unbound(attributes)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        partitions: Any,
        **attributes: Any,
    ) -> Sequence[str]:
        """XLA's collective between partitions; without any, one member alone has no result."""
        if partitions is None:
            raise self._unbound(attributes)
        from minixla.transforms.device_axis import collective_program

        own = {k: v for k, v in attributes.items() if k not in ("axis_name", "size", "is_checked")}
        graph = collective_program(self, shapes[0], partitions, tuple(own.items()))
        shapes, operands = shapes[:1], operands[:1]
        return Call(graph).stablehlo(emit, operands, shapes, results)


def _taken(value: Any, numbers: Sequence[int]) -> Any:
    """The entries of these numbers along the first dimension."""
    return concat_in_dim([slice_in_dim(value, n, n + 1, 0) for n in numbers], 0)


class AxisSum(AxisOperation):
    """The sum over the members."""

    builder_name = "psum"

    def whole(self, operand: Any, size: int) -> tuple[Any, None]:
        """The sum over the batch."""
        return sum_over(operand, [0]), None

    def by_jax(self, operand: Any, over: dict[str, Any]) -> Any:
        """See AxisOperation."""
        return jax.lax.psum(operand, **over)

    def transpose(
        self, cotangents: Any, operands: Sequence[Any], linear: Sequence[bool], /, **attributes: Any
    ) -> Sequence[Any]:
        """The sum of the cotangents."""
        if attributes["is_checked"]:
            # There a sum is one value, whose cotangent counts once; ours does not know which
            # values are equal everywhere.
            raise explain(
                DerivativeError,
                self.builder_name,
                "its reverse derivative by mx.grad is not JAX's where jax.shard_map checks what "
                "differs between devices",
                [f"axis_name = {attributes['axis_name']!r}"],
                "Use jax.grad (of a function whose loops and branches hold no psum), or "
                "jax.shard_map(..., check_vma=False), where each device gets its derivative of the "
                "sum of all devices' results.",
            )
        return bind(self, cotangents, operands[1], **attributes), None


class AxisExtreme(AxisOperation):
    """The largest or smallest of the members' values."""

    builder_name = "pmax"
    linear_operands = None
    attributes = {**AxisOperation.attributes, "kind": Enumeration("max", "min")}

    def whole(self, operand: Any, size: int, *, kind: str) -> tuple[Any, None]:
        """The extreme over the batch."""
        start = neutral_element(kind, array_shape(operand).element_type)
        return reduce([operand], [start], maximum if kind == "max" else minimum, [0]), None

    def by_jax(self, operand: Any, over: dict[str, Any], *, kind: str) -> Any:
        """See AxisOperation; JAX's has no derivative."""

        @jax.custom_jvp
        def extreme(x: Any) -> Any:
            return (jax.lax.pmax if kind == "max" else jax.lax.pmin)(x, **over)

        @extreme.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            (x,), (moving,) = primals, tangents
            result = extreme(x)
            is_extreme = (x == result).astype(x.dtype)
            total = jax.lax.psum(moving * is_extreme, **over)
            return result, total / jax.lax.psum(is_extreme, **over)

        return extreme(operand)

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        results: Any,
        /,
        *,
        kind: str,
        **attributes: Any,
    ) -> Any:
        """The mean tangent of the members that have the extreme value."""
        operand, member = primals
        shape = array_shape(operand)
        is_extreme = convert_element_type(eq(operand, results), shape.element_type)
        moving = bind(SUM, tangents[0] * is_extreme, member, **attributes)
        return moving / bind(SUM, is_extreme, member, **attributes)


class AxisAllGather(AxisOperation):
    """The values of all members, along one dimension.

    Attributes:
        axis: which.
        tiled: whether that dimension is there already, and the values are joined along it.
    """

    builder_name = "all_gather"
    attributes = {**AxisOperation.attributes, "axis": Integer(0), "tiled": Boolean()}

    def shape(
        self, operand: Any, member: Any, *, size: int, axis: int, tiled: bool, **_: Any
    ) -> Any:
        """With one dimension more, or a longer one."""
        sizes = list(operand.dimensions)
        if tiled:
            sizes[axis] *= size
        else:
            sizes.insert(axis, size)
        return operand.with_dimensions(sizes)

    def whole(self, operand: Any, size: int, *, axis: int, tiled: bool) -> tuple[Any, None]:
        """The batch, moved."""
        move = merge_dimension if tiled else move_dimension
        return move(operand, 0, axis), None

    def by_jax(self, operand: Any, over: dict[str, Any], **attributes: Any) -> Any:
        """See AxisOperation."""
        return jax.lax.all_gather(operand, **over, **attributes)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        axis: int,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The sum of the cotangents, each member's part to it."""
        return bind(REDUCE_SCATTER, cotangents, operands[1], axis=axis, **attributes), None


class AxisReduceScatter(AxisOperation):
    """The sum over the members, of which each gets its part along one dimension.

    Attributes:
        axis: which.
        tiled: whether a part keeps the dimension.
    """

    builder_name = "psum_scatter"
    attributes = AxisAllGather.attributes

    def shape(
        self, operand: Any, member: Any, *, size: int, axis: int, tiled: bool, **_: Any
    ) -> Any:
        """With a shorter dimension, or without it."""
        sizes = list(operand.dimensions)
        _require_parts(self.builder_name, operand, "scatter_dimension", axis, size, tiled)
        sizes[axis : axis + 1] = [sizes[axis] // size] if tiled else []
        return operand.with_dimensions(sizes)

    def whole(self, operand: Any, size: int, *, axis: int, tiled: bool) -> tuple[Any, int]:
        """The sum over the batch; a dimension of it is the batch."""
        total = sum_over(operand, [0])
        return (split_dimension(total, axis, size) if tiled else total), axis

    def by_jax(self, operand: Any, over: dict[str, Any], *, axis: int, tiled: bool) -> Any:
        """See AxisOperation."""
        return jax.lax.psum_scatter(operand, **over, scatter_dimension=axis, tiled=tiled)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        axis: int,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The cotangents of all members, joined."""
        return bind(ALL_GATHER, cotangents, operands[1], axis=axis, **attributes), None


class AxisAllToAll(AxisOperation):
    """Part j of member i becomes part i of member j.

    Attributes:
        split_axis: the dimension that is cut.
        concat_axis: the dimension along which parts are joined.
        tiled: whether both dimensions stay; else one goes and one comes.
    """

    builder_name = "all_to_all"
    attributes = {
        **AxisOperation.attributes,
        "split_axis": Integer(0),
        "concat_axis": Integer(0),
        "tiled": Boolean(),
    }

    def shape(
        self,
        operand: Any,
        member: Any,
        *,
        size: int,
        split_axis: int,
        concat_axis: int,
        tiled: bool,
        **_: Any,
    ) -> Any:
        """A shorter and a longer dimension, or one less and one more."""
        _require_parts(self.builder_name, operand, "split_axis", split_axis, size, tiled)
        sizes = list(operand.dimensions)
        if tiled:
            sizes[split_axis] //= size
            sizes[concat_axis] *= size
        else:
            del sizes[split_axis]
            sizes.insert(concat_axis, size)
        return operand.with_dimensions(sizes)

    def whole(
        self, operand: Any, size: int, *, split_axis: int, concat_axis: int, tiled: bool
    ) -> tuple[Any, int]:
        """Senders and receivers, exchanged."""
        parts = split_dimension(operand, split_axis + 1, size) if tiled else operand
        by_receiver = move_dimension(parts, split_axis + 1, 0)
        move = merge_dimension if tiled else move_dimension
        return move(by_receiver, 1, concat_axis + 1), 0

    def by_jax(
        self,
        operand: Any,
        over: dict[str, Any],
        *,
        split_axis: int,
        concat_axis: int,
        tiled: bool,
    ) -> Any:
        """See AxisOperation; always tiled, since JAX transposes the other kind wrongly."""
        if tiled:
            return jax.lax.all_to_all(operand, **over, **_ends(split_axis, concat_axis), tiled=True)
        split, concat = while_both_are_there(split_axis, concat_axis)
        parts = jax.numpy.expand_dims(operand, concat)
        found = jax.lax.all_to_all(parts, **over, **_ends(split, concat), tiled=True)
        return jax.numpy.squeeze(found, split)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        split_axis: int,
        concat_axis: int,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The parts, sent back."""
        back = _ends(concat_axis, split_axis)
        return bind(self, cotangents, operands[1], **back, **attributes), None


def _ends(split_axis: int, concat_axis: int) -> dict[str, int]:
    return {"split_axis": split_axis, "concat_axis": concat_axis}


def while_both_are_there(split_axis: int, concat_axis: int) -> tuple[int, int]:
    """The axes of an exchange that is not tiled, as those of a tiled one.

    The new dimension, of size 1, stands beside that which is cut until the latter is gone.
    """
    if concat_axis <= split_axis:
        return split_axis + 1, concat_axis
    return split_axis, concat_axis + 1


class AxisPermute(AxisOperation):
    """Each member gets the value of another, or zeros.

    Attributes:
        pairs: of source and target.
    """

    builder_name = "ppermute"
    attributes = {**AxisOperation.attributes, "pairs": SequenceOf(Integers(0))}

    def whole(self, operand: Any, size: int, *, pairs: Any) -> tuple[Any, int]:
        """The batch in another order."""
        source_of = {target: source for source, target in pairs}
        shape = array_shape(operand)
        empty = zeros(shape.with_dimensions((1, *shape.dimensions[1:])))
        sources = [source_of.get(member) for member in range(shape.dimensions[0])]
        parts = [empty if s is None else slice_in_dim(operand, s, s + 1, 0) for s in sources]
        return concat_in_dim(parts, 0), 0

    def by_jax(self, operand: Any, over: dict[str, Any], *, pairs: Any) -> Any:
        """See AxisOperation."""
        return jax.lax.ppermute(operand, over["axis_name"], pairs)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        pairs: Any,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The cotangents, sent back."""
        back = tuple([(target, source) for source, target in pairs])
        return bind(self, cotangents, operands[1], pairs=back, **attributes), None


def _require_parts(
    subject: str, operand: Shape, what: str, axis: int, size: int, tiled: bool
) -> None:
    """Raises TransformError where a dimension cannot be cut into a part for each member."""
    given = operand.dimensions[axis]
    if (given % size == 0) if tiled and size else given == size:
        return
    raise explain(
        TransformError,
        subject,
        f"dimension {axis} of size {given} cannot be cut into a part for each of {size} members",
        [f"x {operand}", f"{what} = {axis}, tiled = {tiled}"],
        "Its size must be a multiple of the axis's."
        if tiled
        else "Its size must be the axis's; larger parts need tiled=True.",
    )


SUM, EXTREME = AxisSum(), AxisExtreme()
ALL_GATHER, REDUCE_SCATTER = AxisAllGather(), AxisReduceScatter()
ALL_TO_ALL, PERMUTE = AxisAllToAll(), AxisPermute()
