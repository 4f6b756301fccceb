"""Sort and TopK: the elements along one dimension put into order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Instance, Integer
from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph, evaluate_graph, shape_of
from minixla_ops.batching import align_batches, move_dimension
from minixla_ops.casting import cast, widened
from minixla_ops.comparison import gt_total_order, lt_total_order, total_order
from minixla_ops.composed import Composed
from minixla_ops.computations import check_computation, computation_of
from minixla_ops.conversion import bitcast_convert_type, convert_element_type
from minixla_ops.creation import iota
from minixla_ops.folding import as_sequence
from minixla_ops.gather import gather
from minixla_ops.index_numbers import GatherDimensionNumbers
from minixla_ops.numpy_sorting import key_of, order_by_key, order_by_merging
from minixla_ops.rules import array_shape, zeros
from minixla_ops.slicing import slice_in_dim

__all__ = ["sort", "top_k"]

_PRED, _S32 = Shape("pred"), Shape("s32")


@register
class Sort(Operation):
    """Puts the elements of N arrays along a dimension into the order of a comparator. XLA: Sort.

    All arrays are permuted together, and each row along the dimension by itself. Of elements at
    i < j of a result either comparator(v[i], v[j]) holds or neither that nor
    comparator(v[j], v[i]): `lt` sorts ascending. The comparator must be a strict weak order; with
    another one (such as `lt` of floats where there is a NaN) the result is some permutation.

    Attributes:
        comparator: the Graph, from two scalars of each operand in turn (left and right of the
            first, left and right of the second ...) to whether the left ones come first.
        dimension: along which dimension.
        is_stable: whether elements that are equal to the comparator keep their order.

    Checks:
        (C1) at least one operand, all of equal dimensions.
        (C2) dimension is one of theirs.
        (C3) the comparator takes two scalars of each operand's element type and gives a pred.

    Derivatives are permuted as the values are; the comparator decides on the values alone.
    """

    stablehlo_name = "sort"
    operand_names = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    attributes = {
        "comparator": Instance(Graph),
        "dimension": Integer(),
        "is_stable": Boolean(False),
    }

    def shape(
        self, *operands: Any, comparator: Graph, dimension: int, is_stable: bool
    ) -> Shape | tuple[Shape, ...]:
        shapes = self.array_shapes(operands)
        given = [f"operands[{index}] {shape}" for index, shape in enumerate(shapes)]
        if len({shape.dimensions for shape in shapes}) != 1:
            self.reject("C1", "operands differ in dimensions" if given else "there is no operand",
                        given, "Give at least one array, all of equal dimensions.")  # fmt: skip
        if not 0 <= dimension < shapes[0].rank:
            self.reject_attribute(
                "C2",
                f"there is no dimension {dimension}",
                given,
                f"dimension must be in [0, {shapes[0].rank}), or -1 for the last.",
            )
        check_computation(self, "C3", "comparator", comparator, _parameters(shapes), [_PRED])
        return shapes[0] if len(shapes) == 1 else tuple(shapes)

    def reference(
        self, *operands: np.ndarray, comparator: Graph, dimension: int, is_stable: bool
    ) -> Any:
        rows = [np.moveaxis(operand, dimension, -1) for operand in operands]
        order = order_by_key(rows, comparator)
        if order is None:
            order = order_by_merging(rows, comparator)
        sorted_rows = [np.take_along_axis(row, order, -1) for row in rows]
        results = tuple([np.moveaxis(row, -1, dimension) for row in sorted_rows])
        return results[0] if len(results) == 1 else results

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        comparator: Graph,
        dimension: int,
        is_stable: bool,
    ) -> Sequence[str]:
        arrays = self.array_shapes(shapes)
        if any(shape.element_type in _CARRIERS for shape in arrays):
            return emit.expand(_carried(arrays, comparator, dimension, is_stable), operands)
        # XLA:CPU sorts by std::sort, which reads outside of its array where the comparator is no
        # strict weak order; std::stable_sort does not.
        key = key_of(comparator)
        is_safe = key is not None and (
            key.in_total_order or not arrays[key.operand].element_type.is_inexact
        )
        return emit.operation(
            "stablehlo.sort",
            operands,
            shapes,
            results,
            [emit.region(comparator)],
            dimension=dimension,
            is_stable=is_stable or not is_safe,
        )

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], /, *, comparator: Graph, dimension: int, is_stable: bool
    ) -> dict[str, Any]:
        stable = {"is_stable": True} if is_stable else {}
        return {"dimensions": (dimension,), **stable, "to_apply": comparator}

    def forward(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        comparator: Graph,
        dimension: int,
        is_stable: bool,
    ) -> tuple[Any, Any]:
        # The positions are sorted along, and say where tangents go.
        shape = array_shape(primals[0])
        positions = iota(Shape("s32", shape.dimensions), dimension)
        *results, order = bind(
            self,
            *primals,
            positions,
            comparator=_with_positions(comparator),
            dimension=dimension,
            is_stable=is_stable,
        )
        moved = [None if t is None else _taken(t, order, dimension) for t in tangents]
        return (tuple(results), tuple(moved)) if len(results) > 1 else (results[0], moved[0])

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        comparator: Graph,
        dimension: int,
        is_stable: bool,
    ) -> tuple[Any, Any]:
        aligned, at = align_batches(operands, dimensions)
        results = sort(aligned, comparator, dimension + (at <= dimension), is_stable)
        return results, (at,) * len(operands) if len(operands) > 1 else at


def sort(
    operands: Any,
    comparator: Graph | Callable[..., Any],
    dimension: int = -1,
    is_stable: bool = False,
) -> Any:
    """Arrays with their elements along a dimension in the order of a comparator.

    Args:
        operands: an array, or a list or tuple of N arrays of equal dimensions.
        comparator: a Graph or a function of 2 N scalars, two of each operand in turn, that gives
            a pred: whether the left ones (the first of each pair) come first. `minixla_ops.lt`
            sorts one operand in ascending order.
        dimension: along which dimension; -1 is the last.
        is_stable: whether elements that are equal to the comparator keep their order.

    Returns:
        The sorted array; for N > 1 a tuple of N arrays, all permuted together.

    Raises:
        ShapeError, AttributeValueError: see Sort.
        TransformError: the comparator reads a traced value of the enclosing function.
    """
    values = as_sequence(operands)
    shapes = Sort.instance.array_shapes([shape_of(value, "sort") for value in values])
    graph = computation_of(comparator, _parameters(shapes), "sort")
    if dimension == -1 and shapes:
        dimension = shapes[0].rank - 1
    return bind(Sort.instance, *values, comparator=graph, dimension=dimension, is_stable=is_stable)


def _parameters(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple([scalar for shape in shapes for scalar in [Shape(shape.element_type)] * 2])


def _with_positions(comparator: Graph) -> Graph:
    """The comparator where one more operand, of s32, is sorted along."""
    found = comparator.memo.get("with_positions")
    if found is None:
        found = comparator.memo["with_positions"] = closed_graph(
            lambda *scalars: evaluate_graph(comparator, scalars[:-2]),
            (*comparator.input_shapes, _S32, _S32),
            "sort",
            comparator.name,
        )
    return found


def _taken(operand: Any, indices: Any, dimension: int) -> Any:
    """Along a dimension of `operand` the elements at `indices`, row by row."""
    shape = array_shape(indices)
    if not array_shape(operand).size:
        return zeros(array_shape(operand).with_dimensions(shape.dimensions))
    others = [each for each in range(shape.rank) if each != dimension]
    numbers = GatherDimensionNumbers((), (dimension,), (dimension,), shape.rank, others, others)
    return gather(operand, indices, numbers, [1] * shape.rank)


# Types that XLA:CPU does not sort rightly, each with the type whose bits or values are sorted
# instead. XLA converts short floats on the way, which changes NaN and the order of the least
# f8e5m2fnuz, and it loses elements of two bits.
_CARRIERS = {
    ELEMENT_TYPES[name]: ELEMENT_TYPES[carrier]
    for name, carrier in [
        ("s2", "s8"),
        ("u2", "u8"),
        *[(name, f"u{name[1]}") for name in ELEMENT_TYPES if name[:2] in ("f4", "f8")],
    ]
}


def _carried(shapes: Sequence[Shape], comparator: Graph, dimension: int, is_stable: bool) -> Graph:
    """The program that sorts operands of such types as carriers."""

    def compare(*scalars: Any) -> Any:
        kinds = [shape.element_type for shape in comparator.input_shapes]  # type: ignore[union-attr]
        return evaluate_graph(comparator, list(map(_converted, scalars, kinds)))[0]

    def function(*operands: Any) -> list[Any]:
        kinds = [shape.element_type for shape in shapes]
        carriers = [_CARRIERS.get(kind, kind) for kind in kinds]
        results = sort(list(map(_converted, operands, carriers)), compare, dimension, is_stable)
        return list(map(_converted, as_sequence(results), kinds))

    return closed_graph(function, shapes, "sort", "sort")


def _converted(value: Any, kind: ElementType) -> Any:
    own = array_shape(value).element_type
    if own is kind:
        return value
    convert = convert_element_type if own.is_integer and kind.is_integer else bitcast_convert_type
    return convert(value, kind)


@register
class TopK(Composed):
    """The k greatest or least elements of the last dimension, and where they are. XLA: TopK.

    (values, indices), in falling or rising order; of equal elements those of lower index come
    first. Floats are in the total order, in which -NaN is the least and +NaN the greatest, and -0
    less than +0. Indices are s32.

    Attributes:
        k: how many.
        largest: the greatest elements, or else the least.

    Checks:
        (C1) operand has a last dimension, of at least k elements.
        (C2) its element type has an order: it is not complex.
    """

    hlo_name = "topk"
    operand_names = ("operand",)
    attributes = {"k": Integer(minimum=0), "largest": Boolean(True)}

    def shape(self, operand: Any, /, *, k: int, largest: bool) -> tuple[Shape, Shape]:
        (operand,) = self.array_shapes([operand])
        if not operand.rank or k > operand.dimensions[-1]:
            self.reject("C1", f"there are no {k} elements in a row", [f"operand {operand}"],
                        "k must not exceed the size of the last dimension.")  # fmt: skip
        if operand.element_type.is_complex:
            self.reject("C2", "complex numbers have no order", [f"operand {operand}"],
                        "Take the real parts, or sort by a comparator.")  # fmt: skip
        sizes = (*operand.dimensions[:-1], k)
        return operand.with_dimensions(sizes), Shape("s32", sizes)

    def reference(
        self, operand: np.ndarray, /, *, k: int, largest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        kind = element_type(operand.dtype)
        ranks = total_order(operand, kind) if kind.is_float else cast(operand, widened(kind))
        indices = np.argsort(~ranks if largest else ranks, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(operand, indices, -1), indices.astype(np.int32)

    def composition(self, operand: Any, /, *, k: int, largest: bool) -> tuple[Any, ...]:
        # XLA knows this form, and does not sort the whole array.
        shape = array_shape(operand)
        last = shape.rank - 1
        positions = iota(Shape("s32", shape.dimensions), last)
        ordered = sort([operand, positions], _is_greater if largest else _is_less, last, True)
        return tuple([slice_in_dim(each, 0, k, last) for each in ordered])

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /, **attributes: Any
    ) -> tuple[Any, None]:
        indices = results[1]
        return _taken(tangents[0], indices, array_shape(indices).rank - 1), None

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, tuple[int, int]]:
        at = dimensions[0] or 0
        if at == array_shape(operands[0]).rank - 1:
            operands, at = [move_dimension(operands[0], at, 0)], 0
        return bind(self, *operands, **attributes), (at, at)


def _is_greater(x: Any, y: Any, i: Any, j: Any) -> Any:
    return gt_total_order(x, y)


def _is_less(x: Any, y: Any, i: Any, j: Any) -> Any:
    return lt_total_order(x, y)


def top_k(operand: Any, k: int, largest: bool = True) -> tuple[Any, Any]:
    """The k greatest (or least) elements of each row of the last dimension, and their indices.

    Args:
        operand: an array of at least one dimension, not complex.
        k: how many, at most the size of the last dimension.
        largest: whether the greatest, in falling order, or the least, in rising order.

    Returns:
        Values and s32 indices, both with k elements in the last dimension.

    Raises:
        ShapeError, AttributeValueError: see TopK.
    """
    return bind(TopK.instance, operand, k=k, largest=largest)
