"""Linear algebra with LAPACK and BLAS."""

from collections.abc import Mapping, Sequence
from typing import Any

from minixla.core.shapes import Shape
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple
from minixla_ops.linear_algebra.eigen import Eig, Eigh, Schur
from minixla_ops.linear_algebra.factorization import has_elements
from minixla_ops.linear_algebra.lapack_calls import LETTERS
from minixla_ops.linear_algebra.lu import Lu
from minixla_ops.linear_algebra.matrix_calls import library_call
from minixla_ops.linear_algebra.qr import Geqrf, HouseholderProduct
from minixla_ops.linear_algebra.svd import Svd
from minixla_ops.linear_algebra.triangular_systems import (
    Cholesky,
    TriangularSolve,
    wide_type,
)


def _lapack(
    routine: str,
    options: Mapping[str, str],
    operands: Sequence[Any],
    results: Sequence[Shape],
    over: int = 0,
) -> tuple[Any, ...]:
    """Call a routine, given without the letter of the element type; options are letters."""
    kind = array_shape(operands[0]).element_type
    codes = {name: f"{ord(letter)} : ui8" for name, letter in options.items()}
    target = f"lapack_{LETTERS[kind.name]}{routine}_ffi"
    return library_call(target, codes, operands, results, over)


def _info(a: Shape) -> Shape:
    """Return the shape of LAPACK's status of each matrix: 0 for success."""
    return Shape("s32", a.dimensions[:-2])


@legalize(Cholesky, "cpu", when=has_elements)
def cholesky_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU factorizes in a loop that takes ten times as long as LAPACK."""
    (a,) = operands
    wide = array_shape(a).with_element_type(wide_type(a))
    results = _lapack(
        "potrf", operation.lapack_options(), [convert(a, wide.element_type)], [wide, _info(wide)]
    )
    return convert(operation.finish(*results), array_shape(a).element_type)


@legalize(TriangularSolve, "cpu", when=has_elements)
def triangular_solve_by_blas(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU solves in a loop that takes ten times as long as BLAS."""
    wide = wide_type(operands[0])
    values = [convert(operand, wide) for operand in operands]
    result = [array_shape(values[1])]
    (x,) = _lapack("trsm", operation.lapack_options(), values, result, over=1)
    return convert(x, array_shape(operands[1]).element_type)


@legalize((Geqrf, HouseholderProduct), "cpu", when=has_elements)
def reflections_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU reduces column by column in a loop; LAPACK is faster."""
    routine = operation.routines[array_shape(operands[0]).element_type.is_complex]
    shapes = operation.infer(tuple(map(array_shape, operands)))
    results = _lapack(routine, {}, operands, as_tuple(shapes))
    return as_results(results)


@legalize(Lu, "cpu", when=has_elements)
def lu_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; LAPACK does."""
    a = array_shape(operands[0])
    _, pivots, _ = operation.infer((a,))
    return operation.finish(*_lapack("getrf", {}, operands, [a, pivots, _info(a)]))


@legalize(Svd, "cpu", when=has_elements)
def svd_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; LAPACK does."""
    a = array_shape(operands[0])
    u, s, _, vh, info = operation.library_shapes(a, operation.vectors and operation.full_matrices)
    results = _lapack("gesdd", operation.lapack_options(), operands, [a, s, u, vh, info])
    return operation.finish(*results)


@legalize(Eigh, "cpu", when=has_elements)
def eigh_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; LAPACK does."""
    a = array_shape(operands[0])
    routine = "heevd" if a.element_type.is_complex else "syevd"
    values = Shape(a.element_type.real, a.dimensions[:-1])
    options = operation.lapack_options()
    return operation.finish(*_lapack(routine, options, operands, [a, values, _info(a)]))


@legalize(Eig, "cpu", when=has_elements)
def eig_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; LAPACK does."""
    a = array_shape(operands[0])
    vectors = a.with_element_type(a.element_type.complex)
    part = Shape(a.element_type, a.dimensions[:-1])
    parts = [part] * (1 if a.element_type.is_complex else 2)
    results = [*parts, vectors, vectors, _info(a)]
    return operation.finish(*_lapack("geev", operation.lapack_options(), operands, results))


@legalize(Schur, "cpu", when=has_elements)
def schur_by_lapack(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; LAPACK does."""
    a = array_shape(operands[0])
    values = [Shape(a.element_type, a.dimensions[:-1])] * (1 if a.element_type.is_complex else 2)
    options = {"mode": operation.mode, "sort": "N"}
    results = [a, a, *values, _info(a), _info(a)]
    return operation.finish(*_lapack("gees", options, operands, results))
