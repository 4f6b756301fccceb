"""Broadcasting: XLA's rule for binary builders, and the operations Broadcast and BroadcastInDim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minixla.core.attributes import Integers
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, current_trace, host_array, shape_of
from minixla_ops.batching import batch_size, move_dimension
from minixla_ops.rules import array_shape, common_sizes, listed, splat, sum_over

__all__ = ["broadcast", "broadcast_in_dim", "broadcast_operands"]


def broadcast_operands(
    operation: Operation, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None
) -> tuple[Any, Any]:
    """The operands of a binary builder, broadcast to a common shape as XLA does (rule B).

    Equal shapes and scalars need nothing; equal ranks stretch dimensions of size 1; other ranks
    need `broadcast_dimensions`, which says for each dimension of the lower-rank operand which
    dimension of the other it is.

    Raises:
        ShapeError: element types differ (B1), or the shapes or `broadcast_dimensions` do not fit
            (E1 ... E9 of the broadcasting rules).
    """
    left, right = shape_of(lhs, operation.builder_name), shape_of(rhs, operation.builder_name)
    if broadcast_dimensions is not None:
        broadcast_dimensions = _as_integers(operation, broadcast_dimensions)
    if left is right and not broadcast_dimensions:
        return lhs, rhs
    left, right = operation.array_shapes([left, right])
    given = [f"lhs {left}", f"rhs {right}"]
    if broadcast_dimensions is not None:
        given.append(f"broadcast_dimensions {broadcast_dimensions}")

    def reject(label: str, problem: str, advice: str) -> ShapeError:
        return explain(ShapeError, operation.builder_name, f"({label}) {problem}", given, advice)

    if left.element_type is not right.element_type:
        raise reject(
            "B1",
            "the element types of lhs and rhs differ",
            "XLA's operations do not promote types: convert one side with convert_element_type, "
            "or use mx.numpy.",
        )
    if left.rank == right.rank:
        identity = tuple(range(left.rank))
        if broadcast_dimensions is not None and broadcast_dimensions not in (identity, ()):
            raise reject(
                "E8",
                "operands of equal rank take only the identity as broadcast_dimensions",
                f"Leave broadcast_dimensions out or give {identity}; transpose the operand first.",
            )
        sizes = _stretched(left.dimensions, right.dimensions, reject)
        both = _in_dim(lhs, left, sizes, identity), _in_dim(rhs, right, sizes, identity)
        return tuple(common_sizes(*both))
    lower, higher = (left, right) if left.rank < right.rank else (right, left)
    mapping = _checked_mapping(lower, higher, broadcast_dimensions, reject)
    sizes = list(higher.dimensions)
    for size, dimension in zip(lower.dimensions, mapping, strict=True):
        sizes[dimension] = size if sizes[dimension] == 1 else sizes[dimension]
    every = tuple(range(higher.rank))
    first, second = (mapping, every) if lower is left else (every, mapping)
    both = _in_dim(lhs, left, sizes, first), _in_dim(rhs, right, sizes, second)
    return tuple(common_sizes(*both))


_INTEGERS = Integers()


def _as_integers(operation: Operation, broadcast_dimensions: Any) -> tuple[int, ...]:
    try:
        return _INTEGERS.canonical(broadcast_dimensions)
    except (TypeError, ValueError) as error:
        raise explain(
            AttributeValueError,
            operation.builder_name,
            "broadcast_dimensions has a value that it cannot take",
            [f"broadcast_dimensions = {broadcast_dimensions!r}", str(error)],
            "Give for each dimension of the operand of lower rank which one of the other it is.",
        ) from None


def _in_dim(value: Any, shape: Shape, sizes: Sequence[int], mapping: Sequence[int]) -> Any:
    return value if shape.dimensions == tuple(sizes) else broadcast_in_dim(value, sizes, mapping)


def _stretched(first: Sequence[int], second: Sequence[int], reject: Any) -> list[int]:
    sizes = []
    for dimension, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other and 1 not in (one, other):
            raise reject(
                "E7",
                f"dimension {dimension} has sizes {one} and {other}",
                "Sizes must be equal or one of them 1.",
            )
        # Not the larger: against size 0 the degenerate side gives way.
        sizes.append(other if one == 1 else one)
    return sizes


def _checked_mapping(
    lower: Shape, higher: Shape, given: Sequence[int] | None, reject: Any
) -> tuple[int, ...]:
    if given is None:
        if lower.rank == 0:
            return ()
        raise reject(
            "E1",
            "the ranks differ and broadcast_dimensions is not given",
            "XLA does not align dimensions by itself: say for each dimension of the lower-rank "
            "operand which dimension of the other it is, or use mx.numpy.",
        )
    mapping = tuple(given)
    if len(mapping) != lower.rank:
        label = "E9" if lower.rank == 0 else "E4"
        raise reject(
            label,
            f"{len(mapping)} entries for an operand of rank {lower.rank}",
            "Give one entry for each dimension of the lower-rank operand.",
        )
    if any(not 0 <= dimension < higher.rank for dimension in mapping):
        raise reject("E5", "an entry is out of range", f"Entries must be in [0, {higher.rank}).")
    for before, after in pairwise(mapping):
        if before >= after:
            label, what = ("E3", "repeats a dimension") if before == after else ("E2", "decreases")
            raise reject(
                label,
                f"broadcast_dimensions {what}",
                "Entries must increase strictly; transpose the operand first.",
            )
    for index, dimension in enumerate(mapping):
        one, other = lower.dimensions[index], higher.dimensions[dimension]
        if one != other and 1 not in (one, other):
            raise reject(
                "E6",
                f"dimension {index} has size {one}, dimension {dimension} of the other has {other}",
                "Tied sizes must be equal or one of them 1.",
            )
    return mapping


@register
class BroadcastInDim(Operation):
    """Repeats an array along new dimensions and stretches dimensions of size 1.

    out[j] = operand[i] with i[k] = j[broadcast_dimensions[k]], or 0 where operand's size is 1.
    XLA: BroadcastInDim; HLO calls it broadcast (where size-1 dimensions are reshaped away first).

    Attributes:
        out_dim_size: the result's dimension sizes.
        broadcast_dimensions: for each operand dimension the result's dimension that it becomes.

    Checks:
        (C1) one entry of broadcast_dimensions for each operand dimension, none repeated.
        (C2) each entry is a dimension of the result.
        (C3) operand sizes are 1 or the size of the result's dimension.
    """

    hlo_name = "broadcast"
    stablehlo_name = "broadcast_in_dim"
    operand_names = ("operand",)
    attributes = {
        "out_dim_size": Integers(minimum=0),
        "broadcast_dimensions": Integers(),
    }
    linear_operands = (0,)

    def shape(
        self,
        operand: Any,
        *,
        out_dim_size: tuple[int, ...],
        broadcast_dimensions: tuple[int, ...],
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [
            f"operand {operand}",
            f"out_dim_size {out_dim_size}",
            f"broadcast_dimensions {broadcast_dimensions}",
        ]
        if len(set(broadcast_dimensions)) != operand.rank or (
            len(broadcast_dimensions) != operand.rank
        ):
            self.reject_attribute(
                "C1",
                f"broadcast_dimensions must name {operand.rank} different dimensions",
                given,
                "Give one entry for each dimension of operand.",
            )
        for index, dimension in enumerate(broadcast_dimensions):
            if not 0 <= dimension < len(out_dim_size):
                self.reject_attribute(
                    "C2",
                    f"entry {dimension} of broadcast_dimensions is no dimension of the result",
                    given,
                    f"Entries must be in [0, {len(out_dim_size)}).",
                )
            size = operand.dimensions[index]
            if size not in (1, out_dim_size[dimension]):
                self.reject(
                    "C3",
                    f"dimension {index} of size {size} cannot become {out_dim_size[dimension]}",
                    given,
                    "A size must be kept, unless it is 1.",
                )
        return Shape(operand.element_type, out_dim_size)

    def reference(
        self,
        operand: np.ndarray,
        *,
        out_dim_size: tuple[int, ...],
        broadcast_dimensions: tuple[int, ...],
    ) -> np.ndarray:
        order = np.argsort(broadcast_dimensions, kind="stable")
        spread = [1] * len(out_dim_size)
        for index in order:
            spread[broadcast_dimensions[index]] = operand.shape[index]
        aligned = operand.transpose(order) if operand.ndim else operand
        return np.broadcast_to(aligned.reshape(spread), out_dim_size)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        name = emit.name()
        dims = ", ".join(map(str, attributes["broadcast_dimensions"]))
        emit.line(
            f"{name} = stablehlo.broadcast_in_dim {operands[0]}, dims = [{dims}]"
            f" : ({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        *,
        out_dim_size: tuple[int, ...],
        broadcast_dimensions: tuple[int, ...],
    ) -> str:
        # HLO's broadcast adds dimensions and does not stretch: those of size 1 are dropped first.
        (operand,), (shape,) = operands, self.array_shapes(shapes)
        pairs = list(zip(shape.dimensions, broadcast_dimensions, strict=True))
        kept = [(size, dimension) for size, dimension in pairs if size == out_dim_size[dimension]]
        if len(kept) != len(pairs):
            squeezed = shape.with_dimensions([size for size, _ in kept])
            operand = emit.instruction("reshape", [operand], squeezed)
        mapping = tuple([dimension for _, dimension in kept])
        return emit.instruction("broadcast", [operand], result, dimensions=mapping)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        out_dim_size: tuple[int, ...],
        broadcast_dimensions: tuple[int, ...],
    ) -> Sequence[Any]:
        from minixla_ops.movement import reshape, transpose

        operand = array_shape(operands[0])
        kept = [
            dimension
            for size, dimension in zip(operand.dimensions, broadcast_dimensions, strict=True)
            if size == out_dim_size[dimension]
        ]
        total = sum_over(cotangents, [d for d in range(len(out_dim_size)) if d not in kept])
        if kept != sorted(kept):
            ranks = {dimension: index for index, dimension in enumerate(sorted(kept))}
            total = transpose(total, [ranks[dimension] for dimension in kept])
        if array_shape(total).dimensions == operand.dimensions:
            return (total,)
        return (reshape(total, operand.dimensions),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        out_dim_size: tuple[int, ...],
        broadcast_dimensions: tuple[int, ...],
    ) -> tuple[Any, int]:
        size = batch_size(operands, dimensions)
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        mapping = (0, *(dimension + 1 for dimension in broadcast_dimensions))
        return broadcast_in_dim(operand, (size, *out_dim_size), mapping), 0


def broadcast_in_dim(
    operand: Any, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """Repeats `operand` along new dimensions and stretches dimensions of size 1.

    Args:
        operand: an array.
        out_dim_size: the result's dimension sizes.
        broadcast_dimensions: for each operand dimension the result's dimension that it becomes.

    Raises:
        AttributeValueError, ShapeError: see BroadcastInDim.
    """
    is_constant = isinstance(operand, (np.ndarray, np.generic, int, float, complex))
    if is_constant and (not np.ndim(operand) or not any(np.asarray(operand).strides)):
        return _broadcast_constant(operand, out_dim_size, broadcast_dimensions)
    attributes = {
        "out_dim_size": listed(out_dim_size),
        "broadcast_dimensions": listed(broadcast_dimensions),
    }
    shape = shape_of(operand, BroadcastInDim.builder_name)
    if not isinstance(shape, Shape) or not shape.is_dynamic:
        return bind(BroadcastInDim.instance, operand, **attributes)
    from minixla_ops.dynamic_sizes import on_bounds

    # Over its bound; a dynamic dimension of bound 1 that is stretched has its size no more.
    return on_bounds(BroadcastInDim.instance, operand, attributes, broadcast_dimensions)


def _broadcast_constant(operand: Any, sizes: Sequence[int], mapping: Sequence[int]) -> Any:
    # One repeated value stays one repeated value: no instruction but a constant is needed.
    attributes = {"out_dim_size": listed(sizes), "broadcast_dimensions": listed(mapping)}
    given = array_shape(operand)
    shape, _ = BroadcastInDim.instance.infer((given,), attributes)
    array = host_array(operand, given, BroadcastInDim.builder_name)
    value = array[(0,) * array.ndim] if array.size else 0
    return current_trace().lift(splat(value, shape))


@register
class Broadcast(Operation):
    """Repeats an array along new leading dimensions. XLA: Broadcast.

    out[i..., j...] = operand[j...].

    Attributes:
        broadcast_sizes: the sizes of the new dimensions, which come first.
    """

    stablehlo_name = "broadcast"
    operand_names = ("operand",)
    attributes = {"broadcast_sizes": Integers(minimum=0)}
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand: Any, *, broadcast_sizes: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        added = len(broadcast_sizes)
        sizes = (*broadcast_sizes, *operand.dimensions)
        return Shape(operand.element_type, sizes, (*[False] * added, *operand.dynamic))

    def reference(self, operand: np.ndarray, *, broadcast_sizes: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(operand, (*broadcast_sizes, *operand.shape))

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], *, broadcast_sizes: tuple[int, ...]
    ) -> dict[str, Any]:
        (operand,) = self.array_shapes(shapes)
        first = len(broadcast_sizes)
        return {"dimensions": tuple(range(first, first + operand.rank))}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        broadcast_sizes: tuple[int, ...],
    ) -> Sequence[Any]:
        return (sum_over(cotangents, range(len(broadcast_sizes))),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        broadcast_sizes: tuple[int, ...],
    ) -> tuple[Any, int]:
        assert dimensions[0] is not None
        result = bind(self, operands[0], broadcast_sizes=broadcast_sizes)
        return result, dimensions[0] + len(broadcast_sizes)


def broadcast(operand: Any, broadcast_sizes: Sequence[int]) -> Any:
    """Repeats `operand` along new leading dimensions of sizes `broadcast_sizes`.

    Raises:
        AttributeValueError: a size is negative.
    """
    return bind(Broadcast.instance, operand, broadcast_sizes=listed(broadcast_sizes))
