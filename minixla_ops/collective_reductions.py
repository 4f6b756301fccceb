"""AllReduce (CrossReplicaSum) and ReduceScatter: the operands of a group combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold_left
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integer
from minixla.core.element_types import ElementType
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.processes import current_process
from minixla.core.shapes import Shape
from minixla.core.tracing import bind, shape_of
from minixla.core.tuples import TupleValue
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.binary import add
from minixla_ops.binary import max as maximum
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
from minixla_ops.collectives import all_gather
from minixla_ops.comparison import eq
from minixla_ops.composed import Composed
from minixla_ops.computations import check_computation, computation_of, monoid_of
from minixla_ops.creation import iota
from minixla_ops.dynamic_slicing import dynamic_slice
from minixla_ops.evaluation import apply_elementwise
from minixla_ops.fold_programs import fold_in_order
from minixla_ops.folding import not_a_sum
from minixla_ops.operators import convert
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, splat
from minixla_ops.slicing import slice_in_dim
from minixla_ops.tuples import tuple_leaves

__all__ = ["all_reduce", "cross_replica_sum", "reduce_scatter"]

Computation = Graph | Callable[..., Any]


class _Reducing(Collective, Composed):
    """Base class: combines the operands of a group, element by element and in its order.

    Derivatives: a sum is linear. The tangent of a maximum or minimum is the mean of the tangents
    of the members that have it. Other computations are derived as a program that gathers the
    operands and combines them, for which the size of the groups must be known.
    """

    operand_names = ("operands...",)

    # What members give.

    def apply(self, operand: Any, computation: Computation, **attributes: Any) -> Any:
        """The operation on one operand with another computation."""
        return bind(
            self, operand, computation=_computation(self, computation, operand), **attributes
        )

    def spread(self, result: Any, **attributes: Any) -> Any:
        """A result as every member has it of what it has of the operand."""
        raise NotImplementedError

    def own_part(self, whole: Any, size: int, **attributes: Any) -> Any:
        """What this member has of the combination of all."""
        raise NotImplementedError

    def sum_transpose(self, cotangent: Any, **attributes: Any) -> Any:
        """An operand's cotangent where the computation is a sum."""
        raise NotImplementedError

    def check_operands(self, operands: Sequence[Any], computation: Graph) -> Sequence[Shape]:
        """The shapes, after checks C1 to C3."""
        shapes = self.array_shapes(operands)
        given = [f"operand {index}: {shape}" for index, shape in enumerate(shapes)]
        if not shapes:
            self.reject("C1", "there is no operand", given, "Give an array, or several.")
        scalar = Shape(shapes[0].element_type)
        if any(shape.element_type is not scalar.element_type for shape in shapes):
            problem = "operands differ in element type"
            self.reject("C2", problem, given, "Reduce those of each type by a call of its own.")
        check_computation(self, "C3", "computation", computation, (scalar, scalar), (scalar,))
        return shapes

    def total(self, operands: Any, computation: Graph, how: Any, **groups: Any) -> list[np.ndarray]:
        """Each operand combined over the group, once for all members."""
        members = self.members(**groups)
        assert members is not None

        def combine(running: Any, value: Any) -> Any:
            return apply_elementwise(computation, [running, value])[0]

        def combined(columns: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
            return [fold_left(combine, column) for column in zip(*columns, strict=True)]

        attributes = {"computation": computation, **how}
        return self.exchange(operands, members, groups["channel_id"], combined, **attributes)

    def composition(self, *operands: Any, computation: Graph, **attributes: Any) -> Any:
        _, count, groups = _parts(**attributes)
        size = count or self.group_size(**groups)
        results = []
        for operand in operands:
            sizes = array_shape(operand).dimensions
            rows = all_gather(reshape(operand, (1, *sizes)), 0, size, **groups)
            each = [reshape(slice_in_dim(rows, i, i + 1, 0), sizes) for i in range(size)]
            rest = [[row] for row in each[1:]]
            (whole,) = fold_in_order(computation, rest, each[:1], sizes)
            results.append(self.own_part(whole, size, **attributes))
        return tuple(results)

    def is_native(self, computation: Graph, kind: ElementType) -> bool:
        """Whether XLA's backends know the computation as a reduction."""
        if kind.bits == 2:
            return False
        known = ("and", "or") if kind.kind == "pred" else ("add", "mul", "max", "min")
        return monoid_of(computation) in known

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[Any],
        results: Sequence[Any],
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Sequence[str]:
        if emit.platform and not self.is_native(computation, shapes[0].element_type):
            attributes["computation"] = computation
            return super().stablehlo(emit, operands, shapes, results, **attributes)
        regions = [emit.region(computation)]
        dimension, count, groups = _parts(**attributes)
        texts = {**self.group_text(size=count, **groups), "scatter_dimension": dimension}
        # StableHLO's all_reduce takes several operands, its reduce_scatter one.
        step = len(operands) if dimension is None else 1
        names: list[str] = []
        for start in range(0, len(operands), step):
            some = [each[start : start + step] for each in (operands, shapes, results)]
            names += self.emit_collective(emit, *some, regions=regions, **texts)
        return names

    def hlo_attributes(
        self, shapes: Any, *, computation: Graph, **attributes: Any
    ) -> dict[str, Any]:
        dimension, _, groups = _parts(**attributes)
        dimensions = None if dimension is None else (dimension,)
        return {**self.hlo_groups(**groups), "dimensions": dimensions, "to_apply": computation}

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Of its own tangents, and `transpose` rejects what is no sum.
        return True

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        results: Any,
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Any:
        monoid = monoid_of(computation)
        if monoid not in ("add", "max", "min"):
            attributes["computation"] = computation
            return super().jvp(primals, tangents, results, **attributes)
        given = results if type(results) is tuple else (results,)
        moving = [index for index, tangent in enumerate(tangents) if tangent is not None]
        if monoid == "add":
            found = _bound(self, [tangents[i] for i in moving], computation, **attributes)
        else:
            found = [
                self._extreme_tangent(primals[i], tangents[i], given[i], **attributes)
                for i in moving
            ]
        by_index = dict(zip(moving, found, strict=True))
        out = tuple([by_index.get(index) for index in range(len(primals))])
        return out if type(results) is tuple else out[0]

    def _extreme_tangent(self, primal: Any, tangent: Any, result: Any, **attributes: Any) -> Any:
        whole = self.spread(result, **attributes)
        chosen = convert(eq(primal, whole), array_shape(primal).element_type)
        count = self.apply(chosen, add, **attributes)
        return self.apply(tangent * chosen, add, **attributes) / count

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Sequence[Any]:
        if monoid_of(computation) != "add":
            raise not_a_sum(self, computation)
        given = cotangents if type(cotangents) is tuple else (cotangents,)
        return [
            self.sum_transpose(each, **attributes) if wanted and each is not None else None
            for each, wanted in zip(given, linear, strict=True)
        ]


def _parts(
    scatter_dimension: int | None = None, shard_count: int | None = None, **groups: Any
) -> tuple[int | None, int | None, dict[str, Any]]:
    """The attributes of ReduceScatter, of which AllReduce has the groups alone."""
    return scatter_dimension, shard_count, groups


@register
class AllReduce(_Reducing):
    """Combines the operands of a group; every member gets the result. XLA: AllReduce.

    Several operands are reduced each on its own. CrossReplicaSum is AllReduce with `add`.

    Attributes:
        computation: a Graph that combines two scalars.
        replica_groups, channel_id, use_global_device_ids: see Collective.

    Checks:
        (C1) at least one operand.
        (C2) operands have one element type.
        (C3) computation takes two scalars of it and gives one.
        (G1) to (G4) see Collective; groups may differ in size.
    """

    spec_names = ("AllReduce", "CrossReplicaSum")
    stablehlo_name = "all_reduce"
    attributes = {
        "computation": Instance(Graph),
        "replica_groups": GROUPS,
        "channel_id": CHANNEL,
        "use_global_device_ids": GLOBAL_IDS,
    }

    def shape(self, *operands: Any, computation: Graph, **groups: Any) -> Any:
        shapes = self.check_operands(operands, computation)
        self.check_groups(**groups)
        return tuple(shapes) if len(shapes) > 1 else shapes[0]

    def reference(self, *operands: np.ndarray, computation: Graph, **groups: Any) -> Any:
        results = self.total(operands, computation, {}, **groups)
        return tuple(results) if len(results) > 1 else results[0]

    def spread(self, result: Any, **attributes: Any) -> Any:
        return result

    def own_part(self, whole: Any, size: int, **attributes: Any) -> Any:
        return whole

    def sum_transpose(self, cotangent: Any, **attributes: Any) -> Any:
        return self.apply(cotangent, add, **attributes)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> Any:
        out = tuple(dimensions) if len(dimensions) > 1 else dimensions[0]
        return bind(self, *operands, **attributes), out


@register
class ReduceScatter(_Reducing):
    """Combines the operands of a group; member i gets block i of the result. XLA: ReduceScatter.

    Several operands are reduced each on its own.

    Attributes:
        computation: a Graph that combines two scalars.
        scatter_dimension: the dimension to cut into blocks.
        shard_count: the number of blocks, which is the size of each group.
        replica_groups, channel_id, use_global_device_ids: see Collective.

    Checks:
        (C1) to (C3) see AllReduce.
        (C4) scatter_dimension is a dimension of each operand.
        (C5) shard_count divides its size.
        (G1) to (G4) see Collective; the size is shard_count.
    """

    stablehlo_name = "reduce_scatter"
    attributes = {
        "computation": Instance(Graph),
        "scatter_dimension": Integer(),
        "shard_count": Integer(minimum=1),
        "replica_groups": GROUPS,
        "channel_id": CHANNEL,
        "use_global_device_ids": GLOBAL_IDS,
    }

    def shape(
        self,
        *operands: Any,
        computation: Graph,
        scatter_dimension: int,
        shard_count: int,
        **groups: Any,
    ) -> Any:
        shapes = self.check_operands(operands, computation)
        results = []
        for operand in shapes:
            check_dimension(self, "scatter_dimension", operand, scatter_dimension, "C4")
            if operand.dimensions[scatter_dimension] % shard_count:
                self.reject_attribute(
                    "C5",
                    f"shard_count {shard_count} does not divide dimension {scatter_dimension}",
                    [f"operand {operand}"],
                    "All blocks must have one size.",
                )
            results.append(scaled(operand, scatter_dimension, 1, shard_count))
        self.check_groups(size=shard_count, **groups)
        return tuple(results) if len(results) > 1 else results[0]

    def reference(
        self,
        *operands: np.ndarray,
        computation: Graph,
        scatter_dimension: int,
        shard_count: int,
        **groups: Any,
    ) -> Any:
        members = self.members(**groups)
        assert members is not None
        check_count(self, "shard_count", shard_count, len(members))
        totals = self.total(operands, computation, {"dimension": scatter_dimension}, **groups)
        own = members.index(current_process().id)
        results = [np.split(each, shard_count, scatter_dimension)[own] for each in totals]
        return tuple(results) if len(results) > 1 else results[0]

    def spread(
        self, result: Any, *, scatter_dimension: int, shard_count: int, **groups: Any
    ) -> Any:
        return all_gather(result, scatter_dimension, shard_count, **groups)

    def own_part(self, whole: Any, size: int, *, scatter_dimension: int, **attributes: Any) -> Any:
        # Of the counts that all bring, member i keeps i.
        counted = iota(Shape("s32", (size,)), 0)
        own = reduce_scatter(counted, maximum, 0, **attributes)
        sizes = list(array_shape(whole).dimensions)
        sizes[scatter_dimension] //= size
        block = splat(sizes[scatter_dimension], Shape("s32"))
        starts: list[Any] = [splat(0, Shape("s32"))] * len(sizes)
        starts[scatter_dimension] = reshape(own, ()) * block
        return dynamic_slice(whole, starts, sizes)

    def sum_transpose(
        self, cotangent: Any, *, scatter_dimension: int, shard_count: int, **groups: Any
    ) -> Any:
        return all_gather(cotangent, scatter_dimension, shard_count, **groups)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        scatter_dimension: int,
        **attributes: Any,
    ) -> Any:
        size = batch_size(operands, dimensions)
        moved = [move_batch(o, at, 0, size) for o, at in zip(operands, dimensions, strict=True)]
        results = bind(self, *moved, scatter_dimension=scatter_dimension + 1, **attributes)
        return results, (0,) * len(moved) if len(moved) > 1 else 0


def _computation(operation: Collective, computation: Computation, operand: Any) -> Graph:
    (shape,) = operation.array_shapes([shape_of(operand, operation.builder_name)])
    scalar = Shape(shape.element_type)
    return computation_of(computation, (scalar, scalar), operation.builder_name)


def _bound(
    operation: _Reducing, operands: Sequence[Any], computation: Graph, **attributes: Any
) -> list[Any]:
    results = bind(operation, *operands, computation=computation, **attributes)
    return list(results) if len(operands) > 1 else [results]


def _reduced(
    operation: _Reducing, operand: Any, computation: Computation, **attributes: Any
) -> Any:
    """What a builder returns: an array for an array, a tuple for a sequence or a tuple."""
    is_single = not isinstance(operand, (list, tuple, TupleValue))
    leaves = list(operand) if isinstance(operand, (list, tuple)) else tuple_leaves(operand)
    graph = _computation(operation, computation, leaves[0]) if leaves else Graph((), (), ())
    results = _bound(operation, leaves, graph, **attributes)
    return results[0] if is_single and len(leaves) == 1 else tuple(results)


def all_reduce(
    operand: Any,
    computation: Computation,
    replica_groups: Groups = (),
    channel_id: int | None = None,
    shape_with_layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The operands of a group combined, element by element.

    Args:
        operand: an array, or a tuple or list of arrays, of which each is reduced on its own.
        computation: a Graph, or a function of two scalars, such as `add`.
        replica_groups: who takes part; see Collective.
        channel_id: see Collective.
        use_global_device_ids: see Collective.
        shape_with_layout: a request for a layout in memory, without effect.

    Returns:
        An array, or a tuple of arrays.

    Raises:
        ShapeError, AttributeValueError: see AllReduce.
    """
    groups = group_attributes(replica_groups, channel_id, use_global_device_ids)
    return _reduced(AllReduce.instance, operand, computation, **groups)


def cross_replica_sum(operand: Any, replica_groups: Groups = ()) -> Any:
    """The sum of the operands of a group of replicas: AllReduce with `add`."""
    return all_reduce(operand, add, replica_groups)


def reduce_scatter(
    operand: Any,
    computation: Computation,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: int | None = None,
    layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The operands of a group combined; member i gets block i of the result.

    Args:
        operand: an array, or a tuple or list of arrays, of which each is reduced on its own.
        computation: a Graph, or a function of two scalars, such as `add`.
        scatter_dimension: the dimension to cut into blocks.
        shard_count: the number of blocks, which is the size of each group.
        replica_groups: who takes part; see Collective.
        channel_id: see Collective.
        use_global_device_ids: see Collective.
        layout: a request for a layout in memory, without effect.

    Returns:
        An array, or a tuple of arrays.

    Raises:
        ShapeError, AttributeValueError: see ReduceScatter.
    """
    groups = group_attributes(replica_groups, channel_id, use_global_device_ids)
    counts = {"scatter_dimension": scatter_dimension, "shard_count": shard_count}
    return _reduced(ReduceScatter.instance, operand, computation, **counts, **groups)
