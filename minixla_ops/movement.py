"""Operations that cut, join and pad arrays: Slice, ConcatInDim, Pad; with those of `reshaping`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integer, Integers, Optional
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import align_batches, move_batch
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.reshaping import reshape, transpose
from minixla_ops.rules import array_shape, splat, sum_over, zeros
from minixla_ops.selection import select

__all__ = ["concat_in_dim", "pad", "reshape", "slice", "slice_in_dim", "transpose"]

Triples = tuple[tuple[int, int, int], ...]


@register
class Slice(Operation):
    """Cuts a box out of an array, taking every strides[d]-th element of dimension d. XLA: Slice.

    out[i...] = operand[start_indices[d] + i[d] * strides[d], ...]; nothing is clamped.

    Attributes:
        start_indices: the first index of each dimension.
        limit_indices: the index after the last of each dimension.
        strides: the step of each dimension; default 1.

    Checks:
        (C1) each list has one entry for each dimension.
        (C2) 0 <= start <= limit <= size.
        (C3) strides are >= 1.
    """

    stablehlo_name = "slice"
    operand_names = ("operand",)
    attributes = {
        "start_indices": Integers(),
        "limit_indices": Integers(),
        "strides": Optional(Integers()),
    }
    linear_operands = (0,)

    def canonical_attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        attributes = super().canonical_attributes(given)
        if attributes["strides"] is None:
            attributes["strides"] = (1,) * len(attributes["start_indices"])
        return attributes

    def shape(
        self,
        operand: Any,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [
            f"operand {operand}",
            f"start_indices {start_indices}",
            f"limit_indices {limit_indices}",
            f"strides {strides}",
        ]
        if {len(start_indices), len(limit_indices), len(strides)} != {operand.rank}:
            self.reject_attribute(
                "C1",
                f"a list does not have {operand.rank} entries",
                given,
                "Give one start, one limit and one stride for each dimension.",
            )
        for at, (start, limit, size) in enumerate(
            zip(start_indices, limit_indices, operand.dimensions, strict=True)
        ):
            if not 0 <= start <= limit <= size:
                self.reject_attribute(
                    "C2",
                    f"[{start}, {limit}) is not within dimension {at} of size {size}",
                    given,
                    "0 <= start <= limit <= size must hold; dynamic_slice clamps, slice does not.",
                )
        if any(stride < 1 for stride in strides):
            self.reject_attribute(
                "C3", "a stride is less than 1", given, "Reverse with rev, strides are positive."
            )
        sizes = [
            -(-(limit - start) // stride)
            for start, limit, stride in zip(start_indices, limit_indices, strides, strict=True)
        ]
        # A single index of a dynamic dimension is static, as in XLA.
        dynamic = [flag and size != 1 for flag, size in zip(operand.dynamic, sizes, strict=True)]
        return Shape(operand.element_type, sizes, dynamic)

    def reference(
        self,
        operand: np.ndarray,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> np.ndarray:
        return operand[_python_slices(start_indices, limit_indices, strides)]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        ranges = zip(*attributes.values(), strict=True)
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.slice {operands[0]} "
            f"[{', '.join([f'{start}:{limit}:{stride}' for start, limit, stride in ranges])}]"
            f" : ({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        ranges = zip(*attributes.values(), strict=True)
        return {"slice": tuple([f"[{start}:{limit}:{stride}]" for start, limit, stride in ranges])}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Sequence[Any]:
        config = []
        whole, cut = array_shape(operands[0]), array_shape(cotangents)
        for start, stride, size, count in zip(
            start_indices, strides, whole.dimensions, cut.dimensions, strict=True
        ):
            end = start + (count - 1) * stride + 1 if count else start
            config.append((start, size - end, stride - 1))
        return (pad(cotangents, splat(0, Shape(whole.element_type)), config),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> tuple[Any, int]:
        at = dimensions[0]
        assert at is not None
        size = array_shape(operands[0]).dimensions[at]
        cut = slice(
            operands[0],
            _insert(start_indices, at, 0),
            _insert(limit_indices, at, size),
            _insert(strides, at, 1),
        )
        return cut, at


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The box [start_indices, limit_indices) of `operand`, every strides[d]-th element of it.

    Args:
        operand: an array of N dimensions.
        start_indices: N first indices.
        limit_indices: N indices after the last.
        strides: N steps; default 1.

    Raises:
        AttributeValueError: see Slice.
    """
    return bind(
        Slice.instance,  # type: ignore[attr-defined]
        operand,
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=None if strides is None else tuple(strides),
    )


def slice_in_dim(operand: Any, start: int, limit: int, dimension: int, stride: int = 1) -> Any:
    """The indices [start, limit) of one dimension, every `stride`-th, and all of the others.

    Raises:
        AttributeValueError: see Slice.
    """
    sizes = array_shape(operand).dimensions
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[dimension], limits[dimension], strides[dimension] = start, limit, stride
    return slice(operand, starts, limits, strides)


def _python_slices(
    starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> tuple[Any, ...]:
    return tuple(map(builtins.slice, starts, limits, strides))


def _insert(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position:])


@register
class ConcatInDim(Operation):
    """Joins arrays along one dimension, in the given order. XLA: ConcatInDim.

    Attributes:
        dimension: the dimension to join along.

    Checks:
        (C1) at least one operand.
        (C2) dimension is one of the operands' dimensions; scalars have none.
        (C3) operands have equal element types, ranks and, but for `dimension`, sizes.
    """

    hlo_name = "concatenate"
    stablehlo_name = "concatenate"
    operand_names = ("operands...",)
    attributes = {"dimension": Integer()}

    linear_operands = EVERY_OPERAND

    def shape(self, *operands: Any, dimension: int) -> Shape:
        shapes = self.array_shapes(operands)
        given = [f"operand {i}: {shape}" for i, shape in enumerate(shapes)]
        given.append(f"dimension {dimension}")
        if not shapes:
            self.reject("C1", "no operand was given", given, "Give one array or more.")
        first = shapes[0]
        if not 0 <= dimension < first.rank:
            self.reject_attribute(
                "C2",
                f"dimension {dimension} is no dimension of operands of rank {first.rank}",
                given,
                f"It must be in [0, {first.rank})."
                if first.rank
                else "Scalars cannot be joined: give each a dimension of size 1 with reshape.",
            )
        for index, shape in enumerate(shapes):
            if not _joins(first, shape, dimension):
                self.reject(
                    "C3",
                    f"operand {index} does not fit operand 0",
                    given,
                    "Element types, ranks and all sizes but the joined one must be equal.",
                )
        total = sum(shape.dimensions[dimension] for shape in shapes)
        sizes = (*first.dimensions[:dimension], total, *first.dimensions[dimension + 1 :])
        dynamic = map(any, zip(*[shape.dynamic for shape in shapes], strict=True))
        return Shape(first.element_type, sizes, dynamic)

    def reference(self, *operands: np.ndarray, dimension: int) -> np.ndarray:
        return np.concatenate(operands, dimension)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        dimension: int,
    ) -> Sequence[str]:
        return emit.operation(
            "stablehlo.concatenate", operands, shapes, results, dimension=dimension
        )

    def hlo_attributes(self, shapes: Sequence[AnyShape], *, dimension: int) -> dict[str, Any]:
        return {"dimensions": (dimension,)}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        dimension: int,
    ) -> Sequence[Any]:
        result: list[Any] = []
        start = 0
        for operand, wanted in zip(operands, linear, strict=True):
            limit = start + array_shape(operand).dimensions[dimension]
            result.append(slice_in_dim(cotangents, start, limit, dimension) if wanted else None)
            start = limit
        return result

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], *, dimension: int
    ) -> tuple[Any, int]:
        aligned, at = align_batches(operands, dimensions)
        return concat_in_dim(aligned, dimension + (dimension >= at)), at


def _joins(first: Shape, other: Shape, dimension: int) -> bool:
    if first.element_type is not other.element_type or first.rank != other.rank:
        return False
    pairs = enumerate(zip(first.dimensions, other.dimensions, strict=True))
    return all(one == two or at == dimension for at, (one, two) in pairs)


def concat_in_dim(operands: Sequence[Any], dimension: int) -> Any:
    """The operands joined along `dimension`.

    Args:
        operands: one array or more, of equal element type and of equal sizes but for `dimension`.
        dimension: the dimension to join along.

    Raises:
        ShapeError, AttributeValueError: see ConcatInDim.
    """
    return bind(ConcatInDim.instance, *operands, dimension=dimension)  # type: ignore[attr-defined]


@register
class Pad(Operation):
    """Puts a value around and between the elements, or takes edges away. XLA: Pad.

    In each dimension `interior` values are put between neighbours, then `low` before the first and
    `high` after the last element; a negative `low` or `high` removes that many instead.

    Attributes:
        padding_config: for each dimension (edge_padding_low, edge_padding_high, interior_padding).

    Checks:
        (C1) padding_value is a scalar of the operand's element type.
        (C2) one triple for each dimension.
        (C3) interior paddings are >= 0.
        (C4) no size of the result is negative.
    """

    stablehlo_name = "pad"
    operand_names = ("operand", "padding_value")
    attributes = {"padding_config": SequenceOf(Integers())}
    linear_operands = (0, 1)

    def shape(self, operand: Any, padding_value: Any, *, padding_config: Triples) -> Shape:
        operand, padding_value = self.array_shapes([operand, padding_value])
        given = [
            f"operand {operand}",
            f"padding_value {padding_value}",
            f"padding_config {padding_config}",
        ]
        if padding_value is not Shape(operand.element_type):
            self.reject(
                "C1",
                f"padding_value is not a scalar of type {operand.element_type}",
                given,
                "Give a scalar of the operand's element type.",
            )
        if len(padding_config) != operand.rank or any(len(each) != 3 for each in padding_config):
            self.reject_attribute(
                "C2",
                f"padding_config is not {operand.rank} triples",
                given,
                "Give (low, high, interior) for each dimension.",
            )
        sizes = []
        for at, (size, config) in enumerate(zip(operand.dimensions, padding_config, strict=True)):
            low, high, interior = config
            if interior < 0:
                self.reject_attribute(
                    "C3",
                    f"the interior padding of dimension {at} is negative",
                    given,
                    "Only edges can be removed; take every n-th element with slice.",
                )
            sizes.append(low + size + max(size - 1, 0) * interior + high)
            if sizes[-1] < 0:
                self.reject_attribute(
                    "C4",
                    f"dimension {at} would have size {sizes[-1]}",
                    given,
                    "No more can be removed than there is.",
                )
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(
        self, operand: np.ndarray, padding_value: np.ndarray, *, padding_config: Triples
    ) -> np.ndarray:
        spread = []
        for size, (low, high, interior) in zip(operand.shape, padding_config, strict=True):
            spread.append(max(low, 0) + size + max(size - 1, 0) * interior + max(high, 0))
        result = np.full(spread, padding_value, operand.dtype)
        inside = [
            (max(low, 0), max(low, 0) + max(size - 1, 0) * (interior + 1) + min(size, 1), interior + 1)
            for size, (low, _, interior) in zip(operand.shape, padding_config, strict=True)
        ]
        if inside:
            result[_python_slices(*zip(*inside, strict=True))] = operand
        else:
            result[()] = operand
        edges = [
            (max(-low, 0), size - max(-high, 0), 1)
            for size, (low, high, _) in zip(spread, padding_config, strict=True)
        ]
        return result[_python_slices(*zip(*edges, strict=True))] if edges else result

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        padding_config: Triples,
    ) -> Sequence[str]:
        low, high, interior = ([each[k] for each in padding_config] for k in range(3))
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.pad {operands[0]}, {operands[1]}, low = {low}, high = {high}, "
            f"interior = {interior} : ({shapes[0].stablehlo}, {shapes[1].stablehlo})"
            f" -> {results[0].stablehlo}"
        )
        return [name]

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        *,
        padding_config: Triples,
    ) -> str:
        if not padding_config:  # HLO's notation has no pad of a scalar
            return emit.instruction("copy", operands[:1], result)
        padding = "x".join([f"{low}_{high}_{interior}" for low, high, interior in padding_config])
        return emit.instruction("pad", operands, result, padding=padding)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        padding_config: Triples,
    ) -> Sequence[Any]:
        whole = array_shape(operands[0])
        return [
            _unpad(cotangents, whole, padding_config) if linear[0] else None,
            _sum_of_padding(cotangents, whole, padding_config) if linear[1] else None,
        ]

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        padding_config: Triples,
    ) -> tuple[Any, int]:
        operand, padding_value = operands
        at, value_at = dimensions
        if value_at is None:
            assert at is not None
            return pad(operand, padding_value, _insert(padding_config, at, (0, 0, 0))), at
        return _pad_with_each(operand, padding_value, at, padding_config)


def _unpad(cotangent: Any, operand: Shape, padding_config: Triples) -> Any:
    """What of a result of `pad` came from the operand, zero where the operand's edge was removed."""
    edges = [(-low, -high, 0) for low, high, _ in padding_config]
    inside = pad(cotangent, splat(0, Shape(operand.element_type)), edges)
    strides = [interior + 1 for _, _, interior in padding_config]
    return slice(inside, (0,) * operand.rank, array_shape(inside).dimensions, strides)


def _is_padding(operand: Shape, padding_config: Triples) -> Any:
    """A mask, where a result of `pad` has the padding value."""
    inside = splat(False, Shape("pred", operand.dimensions))
    return pad(inside, splat(True, Shape("pred")), padding_config)


def _sum_of_padding(cotangent: Any, operand: Shape, padding_config: Triples) -> Any:
    # Not the difference of two sums, as elsewhere: it cancels, and is NaN where both are infinite.
    mask = _is_padding(operand, padding_config)
    padding = select(mask, cotangent, zeros(array_shape(cotangent)))
    return sum_over(padding, range(operand.rank))


def _pad_with_each(
    operand: Any, padding_value: Any, at: int | None, padding_config: Triples
) -> tuple[Any, int]:
    """Pad over a batch of padding values."""
    (size,) = array_shape(padding_value).dimensions
    operand = move_batch(operand, at, 0, size)
    config = ((0, 0, 0), *padding_config)
    whole = array_shape(operand)
    padded = pad(operand, splat(0, Shape(whole.element_type)), config)
    values = broadcast_in_dim(padding_value, array_shape(padded).dimensions, (0,))
    return select(_is_padding(whole, config), values, padded), 0


def pad(operand: Any, padding_value: Any, padding_config: Sequence[Sequence[int]]) -> Any:
    """`operand` with `padding_value` around and between its elements, or with edges removed.

    Args:
        operand: an array.
        padding_value: a scalar of the same element type.
        padding_config: for each dimension (low, high, interior); low and high may be negative.

    Raises:
        ShapeError, AttributeValueError: see Pad.
    """
    config = tuple([tuple(each) for each in padding_config])
    return bind(Pad.instance, operand, padding_value, padding_config=config)  # type: ignore[attr-defined]
