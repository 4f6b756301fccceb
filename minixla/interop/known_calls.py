"""What custom calls mean: one table for programs in StableHLO and in HLO.

A meaning adds to the graph under construction and gives the results, or None for a call that is not
as the target wants it; such a call is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.building import Builder
from minixla.interop.lapack import PORTABLE, LapackCall, column_major, lapack_routine, letters


class ForeignCall(NamedTuple):
    """A custom call.

    Attributes:
        target: its name.
        builder: makes the graph.
        operands: arrays and tokens.
        results: the shapes that the program declares, of arrays and tokens.
        options: what the code is given; None where that is in a notation of its own.
        computations: the programs that it is given.
    """

    target: str
    builder: Builder
    operands: Sequence[Value]
    results: Sequence[AnyShape]
    options: dict[str, Any] | None
    computations: Sequence[Graph] = ()


def known_call(call: ForeignCall) -> Sequence[Value] | None:
    """The results of a call whose meaning is known; None for others."""
    routine = lapack_routine(call.target)
    meaning = _LAPACK.get(routine[1]) if routine is not None else _MEANINGS.get(call.target)
    return meaning(call) if meaning is not None else None


def kept_call(call: ForeignCall, attributes: dict[str, Any]) -> Sequence[Value]:
    """The results of the call itself, which evaluates where somebody registers what it means.

    Args:
        call: the call.
        attributes: those of CustomCall but for the target and the shapes. Where they have no
            layouts, a routine of LAPACK gets its own.
    """
    given = {"target_name": call.target, "shapes": tuple(call.results), **attributes}
    operation: type[Operation] = REGISTRY["CustomCall"]
    if call.target in PORTABLE and not any(map(given.get, _LAYOUTS)):
        operation = LapackCall
    elif (layouts := _lapack_layouts(call, attributes)) is not None:
        operation = LapackCall
        given.update(zip(_LAYOUTS, layouts, strict=True))
    return call.builder.apply(operation, call.operands, given)


_LAYOUTS = "operand_layouts", "result_layouts"


def _lapack_layouts(call: ForeignCall, attributes: dict[str, Any]) -> Any:
    """The layouts of a call of LAPACK; None for other calls, and for arrays in other layouts."""
    layouts = column_major(call.target, [value.shape for value in call.operands])
    if layouts is None or attributes["api_version"] != 4:
        return None
    shapes = [value.shape for value in call.operands], call.results
    for name, wanted, own in zip(_LAYOUTS, layouts, shapes, strict=True):
        found = attributes.get(name, wanted)
        if found is None:
            found = [range(shape.rank)[::-1] for shape in own if isinstance(shape, Shape)]
        if tuple(map(tuple, found)) != wanted:
            return None
    return layouts


def _top_k(call: ForeignCall) -> Sequence[Value] | None:
    """XLA:CPU's TopK: the greatest elements, and where they are."""
    values = call.results[0] if call.results else None
    if not isinstance(values, Shape) or not values.rank or len(call.operands) != 1:
        return None
    attributes = {"k": values.dimensions[-1]}
    return call.builder.apply(REGISTRY["TopK"], call.operands, attributes)


def _approximate_top_k(call: ForeignCall) -> Sequence[Value] | None:
    """XLA's ApproxTopK, exactly: the first elements in the order of the program that it is given.

    Which ones an approximation misses is up to the backend, and XLA misses none but on TPUs.
    """
    count = len(call.results)
    dimension = (call.options or {}).get("reduction_dim")
    if len(call.operands) != 2 * count or len(call.computations) != 1 or not count:
        return None
    arrays = call.operands[:count]
    if type(dimension) is not int or not all(isinstance(each.shape, Shape) for each in arrays):
        return None
    attributes = {"comparator": call.computations[0], "dimension": dimension, "is_stable": True}
    ordered = call.builder.apply(REGISTRY["Sort"], arrays, attributes)
    return [_first(call, *each) for each in zip(ordered, call.results, strict=True)]


def _first(call: ForeignCall, value: Value, shape: AnyShape) -> Value:
    assert isinstance(shape, Shape)
    zeros, ones = (0,) * shape.rank, (1,) * shape.rank
    limits = {"start_indices": zeros, "limit_indices": shape.dimensions, "strides": ones}
    return call.builder.bind("Slice", value, **limits)


def _cholesky(call: ForeignCall) -> Sequence[Value] | None:
    """LAPACK's potrf: the factor in a triangle of the operand's, and whether there is none.

    The other triangle keeps the operand's elements.
    """
    uplo = letters(call.options, "uplo")
    if uplo not in ("L", "U") or len(call.operands) != 1 or len(call.results) != 2:
        return None
    (operand,), lower, bind = call.operands, uplo == "L", call.builder.bind
    shape, info = operand.shape, call.results[1]
    if not isinstance(shape, Shape) or not isinstance(info, Shape):
        return None
    found = bind("Cholesky", operand, lower=lower)
    rows, columns = (_index(call, shape, shape.rank - each) for each in (2, 1))
    inside = bind("Ge" if lower else "Le", rows, columns)
    return bind("Select", inside, found, operand), _failed(call, found, shape, info)


def _index(call: ForeignCall, shape: Shape, dimension: int) -> Value:
    whole = Shape("s32", shape.dimensions)
    return call.builder.bind("Iota", output_shape=whole, iota_dimension=dimension)


def _failed(call: ForeignCall, factor: Value, shape: Shape, info: Shape) -> Value:
    """For each matrix 1 where it has no factor, which is NaN everywhere then; 0 where it has one.

    Empty matrices have one.
    """
    rank, sizes, bind = shape.rank, shape.dimensions, call.builder.bind
    if 0 in sizes[-2:]:
        none = np.zeros(info.dimensions, info.element_type.dtype)
        return bind("Constant", literal=Literal(none, info))
    limits = {"start_indices": (0,) * rank, "limit_indices": (*sizes[:-2], 1, 1)}
    cut = bind("Slice", factor, **limits, strides=(1,) * rank)
    corner = bind("Reshape", cut, dimensions=sizes[:-2])
    failed = bind("Ne", corner, corner)
    return bind("ConvertElementType", failed, new_element_type=info.element_type)


def _triangular_solve(call: ForeignCall) -> Sequence[Value] | None:
    """BLAS's trsm: x of a x = b, or x a = b."""
    found = letters(call.options, "side", "uplo", "diag", "trans_x")
    if not found or len(call.operands) != 2 or len(call.results) != 1:
        return None
    side, uplo, diagonal, transposed = found
    transposes = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    if side not in "LR" or uplo not in "LU" or diagonal not in "UN" or transposed not in transposes:
        return None
    attributes = {
        "left_side": side == "L",
        "lower": uplo == "L",
        "unit_diagonal": diagonal == "U",
        "transpose_a": transposes[transposed],
    }
    return call.builder.apply(REGISTRY["TriangularSolve"], call.operands, attributes)


def _slice_to_dynamic(call: ForeignCall) -> Sequence[Value] | None:
    """The operand with the sizes that the other operands say."""
    if len(call.results) != 1 or not call.operands:
        return None
    value, *sizes = call.operands
    (declared,) = call.results
    if not isinstance(declared, Shape) or len(sizes) != declared.rank:
        return None
    for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
        if flag:
            value = call.builder.bind("SetDimensionSize", value, size, dimension=dimension)
    return [value]


def _pad_to_static(call: ForeignCall) -> Sequence[Value] | None:
    """The operand at its bounds, and its sizes."""
    if len(call.operands) != 1:
        return None
    (value,), bind = call.operands, call.builder.bind
    shape = value.shape
    if not isinstance(shape, Shape):
        return None
    sizes = [bind("GetDimensionSize", value, dimension=at) for at in range(shape.rank)]
    for dimension, flag in enumerate(shape.dynamic):
        if flag:
            literal = Literal(np.array(shape.dimensions[dimension], np.int32), Shape("s32"))
            bound = bind("Constant", literal=literal)
            value = bind("SetDimensionSize", value, bound, dimension=dimension, to_bound=True)
    return (value, *sizes)


_Meaning = Callable[[ForeignCall], "Sequence[Value] | None"]
_MEANINGS: dict[str, _Meaning] = {
    "ApproxTopK": _approximate_top_k,
    "PadToStatic": _pad_to_static,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _top_k,
}
#: By LAPACK's and BLAS's names, without the letter of the element type.
_LAPACK: dict[str, _Meaning] = {"potrf": _cholesky, "trsm": _triangular_solve}
