"""Import of custom calls with known targets: XLA's targets, and LAPACK routines.

A function in this module gets the call, the shapes of its operands, and the programs that it runs.
It returns a function of the operands, or None for a call that does not match the target.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product, starmap
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, AnyShape, Graph, MinixlaError, Shape
from minixla.core.operation import Operation
from minixla.typing import Array
from minixla_ops.dynamic_sizes.dimension_sizes import SetDimensionSize
from minixla_ops.helpers.shorthand import array_shape, as_tuple, full_like, zeros
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.host.lapack import lapack_routine, letters
from minixla_ops.linear_algebra.eigen import Eig, Eigh
from minixla_ops.linear_algebra.factorization import Factorization, ValuesAndVectors
from minixla_ops.linear_algebra.matrices import diagonal
from minixla_ops.linear_algebra.qr import Geqrf, HouseholderProduct
from minixla_ops.linear_algebra.svd import Svd
from minixla_ops.linear_algebra.triangular_systems import Cholesky, TriangularSolve
from minixla_ops.products import convolution_kernel

_Function = Callable[..., object]


def meaning(
    call: CustomCall, shapes: Sequence[AnyShape], programs: Sequence[Graph]
) -> _Function | None:
    """Return the function that a CustomCall computes; None if it is unknown."""
    routine = lapack_routine(call.target_name)
    entry = _LAPACK.get(routine[1]) if routine is not None else _MEANINGS.get(call.target_name)
    if entry is None and (kind := _factorizations().get(call.target_name)) is not None:
        return _factors(kind)(call, shapes, programs)
    if entry is None or not all(isinstance(shape, Shape) for shape in (*shapes, *call.shapes)):
        return None
    apply, *counts = entry
    lengths = len(shapes), len(call.shapes)
    fits = all(wanted in (count, None) for wanted, count in zip(counts, lengths, strict=True))
    return apply(call, shapes, programs) if fits else None


def _top_k(call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]) -> _Function | None:
    """Import XLA's TopK: the largest elements, and their indices."""
    values = call.shapes[0]
    return (lambda x: ops.top_k(x, values.dimensions[-1])) if values.rank else None


def _approximate_top_k(
    call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]
) -> _Function | None:
    """Import XLA's ApproxTopK, exactly: the first elements in the order of its program.

    Backends may omit elements in the approximation; XLA does so only on TPUs.
    """
    count, dimension = len(call.shapes), dict(call.options).get("reduction_dim")
    if len(shapes) != 2 * count or len(programs) != 1 or type(dimension) is not int:
        return None
    sort = REGISTRY["Sort"](comparator=programs[0], dimension=dimension, is_stable=True)

    def first(*operands: Array) -> list[Array]:
        pairs = zip(as_tuple(sort(*operands[:count])), call.shapes, strict=True)
        return [ops.slice(x, (0,) * shape.rank, shape.dimensions) for x, shape in pairs]

    return first


def _slice_to_dynamic(
    call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]
) -> _Function | None:
    """Import a call that gives the operand the dynamic sizes of the other operands."""
    (declared,) = call.shapes

    def cut(value: Array, *sizes: Array) -> Array:
        for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
            value = ops.set_dimension_size(value, size, dimension) if flag else value
        return value

    return cut if len(shapes) == declared.rank + 1 else None


def _pad_to_static(call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]) -> _Function:
    """Import a call that returns the operand padded to its bounds, and its sizes."""
    (shape,) = shapes

    def padded(value: Array) -> list[Array]:
        sizes = [ops.get_dimension_size(value, dimension) for dimension in range(shape.rank)]
        for dimension, flag in enumerate(shape.dynamic):
            if flag:
                bound = np.int32(shape.dimensions[dimension])
                value = SetDimensionSize(dimension, to_bound=True)(value, bound)
        return [value, *sizes]

    return padded


@cache
def _by_options(kind: Any) -> dict[frozenset[tuple[str, str]], Operation]:
    """Return every Cholesky or TriangularSolve, by the letters of LAPACK's options."""
    choices = [getattr(field.kind, "names", (False, True)) for field in kind.fields.values()]
    every = starmap(kind, product(*choices))
    return {frozenset(operation.lapack_options().items()): operation for operation in every}


def _of_options(kind: type[Operation], call: CustomCall) -> Any:
    options = dict(call.options)
    return _by_options(kind).get(frozenset((name, letters(options, name)) for name in options))


def _cholesky(call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]) -> _Function | None:
    """Import LAPACK's potrf: the factor in a triangle of the operand, and a failure flag.

    The other triangle keeps the operand's elements. If a matrix has no factor, the triangle is NaN
    and the flag 1; else it is 0. Empty matrices have a factor.
    """
    cholesky, (shape,) = _of_options(Cholesky, call), shapes
    rank, counts = shape.rank, Shape("s32", shape.dimensions)
    first = (*shape.dimensions[:-2], *[min(size, 1) for size in shape.dimensions[-2:]])

    def factor(a: Array) -> tuple[Array, Array]:
        triangle = cholesky(a)
        rows, columns = (ops.iota(counts, rank - dimension) for dimension in (2, 1))
        inside = ops.ge(rows, columns) if cholesky.lower else ops.le(rows, columns)
        corner = ops.slice(triangle, (0,) * rank, first)
        failed = ops.reduce(ops.ne(corner, corner), False, ops.or_, (rank - 2, rank - 1))
        info = ops.convert_element_type(failed, call.shapes[1].element_type)
        return ops.select(inside, triangle, a), info

    return None if cholesky is None else factor


@cache
def _factorizations() -> dict[str, type[Factorization]]:
    """Return the factorizations by their names in portable text."""
    kinds = REGISTRY.values()
    return {kind.target: kind for kind in kinds if issubclass(kind, Factorization)}


def _factors(kind: type[Factorization]) -> Callable[..., _Function | None]:
    """Import a call with the operands, attributes and results of an operation."""

    def meant(
        call: CustomCall, shapes: Sequence[Shape], programs: Sequence[Graph]
    ) -> _Function | None:
        try:
            operation = kind(**{n: x for n, x in call.options if n in kind.fields})
            return operation if as_tuple(operation.infer(tuple(shapes))) == call.shapes else None
        except MinixlaError:
            return None  # the call raises its own error for these shapes

    return meant


def _lu(call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]) -> _Function | None:
    """Import LAPACK's getrf: 1-based rows, and the 1-based index of the first zero pivot, or 0."""
    (shape,), declared = shapes, [shape.dimensions for shape in call.shapes]
    count = min(shape.dimensions[-2:], default=0)
    batch = shape.dimensions[:-2]
    if declared != [shape.dimensions, (*batch, count), batch]:
        return None

    def factors(a: Array) -> tuple[Array, Array, Array]:
        lu, pivots, _ = ops.lu(a)
        counts, none = array_shape(pivots), count + 1
        steps = ops.iota(counts, counts.rank - 1) + 1
        steps = ops.select(diagonal(lu) == 0, steps, full_like(pivots, none))
        first = ops.reduce(steps, np.int32(none), ops.min, (counts.rank - 1,))
        return lu, pivots + 1, ops.select(first == none, full_like(first, 0), first)

    return factors


def _decomposed(
    kind: type[ValuesAndVectors], placed: Callable[..., dict[int, Array]]
) -> Callable[..., _Function | None]:
    """Import a routine that computes values and vectors; `placed` maps them to its results.

    It gets the operand and the operation's results. The last result is 1 for a matrix without
    values, which are NaN then, else 0. Other results are undefined in LAPACK.
    """

    def meant(call: Any, shapes: Sequence[Shape], programs: Sequence[Graph]) -> _Function | None:
        operation, count = _of_options(kind, call), len(call.shapes)

        def results(a: Array) -> list[Any]:
            outputs = as_tuple(operation(a))
            values = outputs[len(outputs) == 3]  # the middle one of u, s and vh
            is_lost = ops.reduce(ops.ne(values, values), False, ops.or_, (array_shape(a).rank - 2,))
            info = ops.convert_element_type(is_lost, call.shapes[-1].element_type)
            by_index = {**placed(a, *outputs), count - 1: info}
            return [
                by_index[at] if at in by_index else zeros(call.shapes[at]) for at in range(count)
            ]

        return None if operation is None else results

    return meant


def _of_svd(a: Array, *factors: Array) -> dict[int, Array]:
    return {0: a, **dict(zip((2, 1, 3) if len(factors) == 3 else (1,), factors, strict=True))}


def _of_eig(a: Array, values: Array, *vectors: Array) -> dict[int, Array]:
    is_complex = array_shape(a).element_type.is_complex
    parts = [values] if is_complex else [ops.real(values), ops.imag(values)]
    # Left vectors precede right vectors.
    return dict(enumerate(parts)) | dict(enumerate(vectors, len(parts) + 1))


def _of_eigh(a: Array, values: Array, *vectors: Array) -> dict[int, Array]:
    return {1: values, **dict(enumerate(vectors))}


#: Import functions by target or routine, and the required counts of operands and results or None.
_MEANINGS: dict[str, tuple[Callable[..., _Function | None], int | None, int | None]] = {
    "ApproxTopK": (_approximate_top_k, None, None),
    "PadToStatic": (_pad_to_static, 1, None),
    "SliceToDynamic": (_slice_to_dynamic, None, 1),
    "TopK": (_top_k, 1, 2),
    **dict.fromkeys(convolution_kernel.TARGETS.values(), (convolution_kernel.convolution_of, 2, 1)),
}
_LAPACK = {
    "geev": (_decomposed(Eig, _of_eig), 1, None),
    "geqrf": (_factors(Geqrf), 1, 2),
    "gesdd": (_decomposed(Svd, _of_svd), 1, 5),
    "gesvd": (_decomposed(Svd, _of_svd), 1, 5),
    "getrf": (_lu, 1, 3),
    "heevd": (_decomposed(Eigh, _of_eigh), 1, 3),
    "orgqr": (_factors(HouseholderProduct), 2, 1),
    "potrf": (_cholesky, 1, 2),
    "syevd": (_decomposed(Eigh, _of_eigh), 1, 3),
    "trsm": (lambda call, shapes, programs: _of_options(TriangularSolve, call), 2, 1),
    "ungqr": (_factors(HouseholderProduct), 2, 1),
}
