"""What custom calls mean: one table for programs in StableHLO and in HLO.

A meaning is given the call and its operands, all arrays, and adds to the graph under construction.
It gives the results, or None for a call that is not as the target wants it; such a call is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph
from minixla.interop.building import Builder
from minixla_ops.host.lapack import PORTABLE, LapackCall, column_major, lapack_routine, letters


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

    def inlined(self, function: Callable[..., Any]) -> list[Value]:
        """The results of a function of the operands, instruction by instruction."""
        shapes = [value.shape for value in self.operands]
        return self.builder.inline(closed_graph(function, shapes, self.target), self.operands)


def known_call(call: ForeignCall) -> Sequence[Value] | None:
    """The results of a call whose meaning is known; None for others."""
    routine = lapack_routine(call.target)
    found = _LAPACK.get(routine[1]) if routine is not None else _MEANINGS.get(call.target)
    arrays = [value.shape for value in call.operands] + [*call.results]
    if found is None or not all(isinstance(shape, Shape) for shape in arrays):
        return None
    meaning, *counts = found
    own = len(call.operands), len(call.results)
    fits = all(wanted in (count, None) for wanted, count in zip(counts, own, strict=True))
    return meaning(call, *call.operands) if fits else None


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


def _top_k(call: ForeignCall, operand: Value) -> Sequence[Value] | None:
    """XLA:CPU's TopK: the greatest elements, and where they are."""
    values = call.results[0]
    assert isinstance(values, Shape)
    return call.inlined(lambda x: ops.top_k(x, values.dimensions[-1])) if values.rank else None


def _approximate_top_k(call: ForeignCall, *operands: Value) -> Sequence[Value] | None:
    """XLA's ApproxTopK, exactly: the first elements in the order of the program that it is given.

    Which ones an approximation misses is up to the backend, and XLA misses none but on TPUs.
    """
    count = len(call.results)
    dimension = (call.options or {}).get("reduction_dim")
    if len(operands) != 2 * count or len(call.computations) != 1 or not count:
        return None
    if type(dimension) is not int:
        return None
    attributes = {"comparator": call.computations[0], "dimension": dimension, "is_stable": True}
    ordered = call.builder.apply(REGISTRY["Sort"], operands[:count], attributes)
    return [_first(call, *each) for each in zip(ordered, call.results, strict=True)]


def _first(call: ForeignCall, value: Value, shape: AnyShape) -> Value:
    assert isinstance(shape, Shape)
    zeros, ones = (0,) * shape.rank, (1,) * shape.rank
    limits = {"start_indices": zeros, "limit_indices": shape.dimensions, "strides": ones}
    return call.builder.bind("Slice", value, **limits)


def _cholesky(call: ForeignCall, operand: Value) -> Sequence[Value] | None:
    """LAPACK's potrf: the factor in a triangle of the operand's, and whether there is none.

    The other triangle keeps the operand's elements. Without a factor, which is NaN everywhere then,
    there is 1 for a matrix, else 0; empty ones have one.
    """
    uplo, info = letters(call.options, "uplo"), call.results[1]
    if uplo not in ("L", "U"):
        return None
    assert isinstance(info, Shape)

    def factor(a: Any) -> tuple[Any, Any]:
        found = ops.cholesky(a, lower=uplo == "L")
        rows, columns = (ops.iota(Shape("s32", a.shape), a.ndim - each) for each in (2, 1))
        inside = ops.ge(rows, columns) if uplo == "L" else ops.le(rows, columns)
        failed = mnp.any(mnp.isnan(found[..., :1, :1]), (-2, -1))
        return ops.select(inside, found, a), failed.astype(info.dtype)

    return call.inlined(factor)


def _triangular_solve(call: ForeignCall, *operands: Value) -> Sequence[Value] | None:
    """BLAS's trsm: x of a x = b, or x a = b."""
    found = letters(call.options, "side", "uplo", "diag", "trans_x")
    if not found:
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
    return call.builder.apply(REGISTRY["TriangularSolve"], operands, attributes)


def _slice_to_dynamic(call: ForeignCall, value: Value, *sizes: Value) -> Sequence[Value] | None:
    """The operand with the sizes that the other operands say."""
    (declared,) = call.results
    assert isinstance(declared, Shape)
    if len(sizes) != declared.rank:
        return None
    for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
        if flag:
            value = call.builder.bind("SetDimensionSize", value, size, dimension=dimension)
    return [value]


def _pad_to_static(call: ForeignCall, value: Value) -> Sequence[Value]:
    """The operand at its bounds, and its sizes."""
    shape, bind = value.shape, call.builder.bind
    assert isinstance(shape, Shape)
    sizes = [bind("GetDimensionSize", value, dimension=at) for at in range(shape.rank)]
    for dimension, flag in enumerate(shape.dynamic):
        if flag:
            bound = call.builder.constant(shape.dimensions[dimension], Shape("s32"))
            value = bind("SetDimensionSize", value, bound, dimension=dimension, to_bound=True)
    return (value, *sizes)


#: A meaning, and how many operands and results there must be; None for any number.
_Meaning = tuple[Callable[..., "Sequence[Value] | None"], int | None, int | None]
_MEANINGS: dict[str, _Meaning] = {
    "ApproxTopK": (_approximate_top_k, None, None),
    "PadToStatic": (_pad_to_static, 1, None),
    "SliceToDynamic": (_slice_to_dynamic, None, 1),
    "TopK": (_top_k, 1, 2),
}
#: By LAPACK's and BLAS's names, without the letter of the element type.
_LAPACK: dict[str, _Meaning] = {"potrf": (_cholesky, 1, 2), "trsm": (_triangular_solve, 2, 1)}
