"""Cholesky and TriangularSolve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from minixla.core.attributes import Boolean, Enumeration
from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.graph import Graph
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph
from minixla_ops.batching import batch_size, move_batch, move_dimension
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.casting import cast, widened
from minixla_ops.comparison import eq, le, lt
from minixla_ops.composed import without_lines
from minixla_ops.creation import iota
from minixla_ops.dot import dot_general
from minixla_ops.dot_dimensions import DotDimensionNumbers
from minixla_ops.lapack import lapack_call
from minixla_ops.operators import convert
from minixla_ops.reshaping import reshape, transpose
from minixla_ops.rules import add_cotangents, array_shape, full_like, zeros
from minixla_ops.selection import select
from minixla_ops.unary import conjugate

__all__ = ["cholesky", "triangular_solve"]

_F32 = ELEMENT_TYPES["f32"]


class MatrixOperation(Operation):
    """Base class: of stacks of matrices of floats or complex numbers, in two last dimensions.

    Types narrower than f32 are computed in f32 and rounded once.

    Attributes:
        lapack_name: the routine of LAPACK that computes it.
        has_info: whether that says for each matrix if there is no result.
    """

    lapack_name: ClassVar[str]
    has_info: ClassVar[bool] = False

    def check_matrix(self, label: str, a: Shape, given: Sequence[str]) -> None:
        """Raises ShapeError unless `a` is a stack of square matrices of inexact numbers."""
        if not a.element_type.is_inexact:
            self.reject(label, f"{a.element_type} is neither a float nor a complex type", given,
                        "Convert with convert_element_type.")  # fmt: skip
        if a.rank < 2 or a.dimensions[-1] != a.dimensions[-2]:
            self.reject(label, "a is not a square matrix, or a stack of such", given,
                        "The last two dimensions of a must be equal in size.")  # fmt: skip

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        (result,), arrays = self.array_shapes(results), self.array_shapes(shapes)
        wide = _F32 if result.element_type.bits < 32 else result.element_type
        names, wides = list(operands), [shape.with_element_type(wide) for shape in arrays]
        if wide is not result.element_type:
            triples = zip(names, arrays, wides, strict=True)
            names = [emit.operation("stablehlo.convert", [n], [s], [w])[0] for n, s, w in triples]
        whole = result.with_element_type(wide)
        if emit.platform == "cpu" and result.size:
            found = self._lapack_stablehlo(emit, names, wides, whole, attributes)
        else:
            given = self.stablehlo_attributes(**attributes)
            name = f"stablehlo.{self.stablehlo_name}"
            found = emit.operation(name, names, wides, [whole], **given)
        return emit.expand(_finished(self, result, wide, tuple(attributes.items())), found)

    def _lapack_stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[Shape],
        result: Shape,
        attributes: dict[str, Any],
    ) -> Sequence[str]:
        """The routine of LAPACK: XLA:CPU's own loops take ten times as long."""
        options = self.lapack_options(**attributes)
        if not self.has_info:
            return lapack_call(emit, self.lapack_name, operands, shapes, [result], **options)
        info = Shape("s32", result.dimensions[:-2])
        found = lapack_call(emit, self.lapack_name, operands, shapes, [result, info], **options)
        return emit.expand(_result_or_nan(self, result, info), found)

    def lapack_options(self, **attributes: Any) -> dict[str, str]:
        """The attributes as the routine's letters."""
        raise NotImplementedError

    def stablehlo_attributes(self, **attributes: Any) -> dict[str, Any]:
        """The attributes in StableHLO's notation."""
        return attributes

    def finish(self, result: Any, **attributes: Any) -> Any:
        """The result, of what StableHLO's operation gives."""
        return result


@lru_cache(maxsize=1024)
def _finished(
    operation: MatrixOperation, result: Shape, wide: ElementType, attributes: tuple[Any, ...]
) -> Graph:
    def function(found: Any) -> Any:
        return convert(operation.finish(found, **dict(attributes)), result.element_type)

    given = result.with_element_type(wide)
    name = operation.builder_name
    return without_lines(closed_graph(function, [given], name, name).pruned())


@lru_cache(maxsize=1024)
def _result_or_nan(operation: MatrixOperation, result: Shape, info: Shape) -> Graph:
    """NaN for matrices of which LAPACK says that they have no result."""

    def function(found: Any, failed: Any) -> Any:
        is_found = broadcast_in_dim(eq(failed, zeros(info)), result.dimensions, range(info.rank))
        return select(is_found, found, full_like(found, math.nan))

    name = operation.builder_name
    return without_lines(closed_graph(function, [result, info], name, name).pruned())


def _triangle(value: Any, lower: bool, strict: bool = False) -> Any:
    """One triangle of matrices, with or without the diagonal; zeros elsewhere."""
    shape = array_shape(value)
    square = Shape("s32", shape.dimensions[-2:])
    row, column = iota(square, 0), iota(square, 1)
    pair = (column, row) if lower else (row, column)
    mask = lt(*pair) if strict else le(*pair)
    mask = broadcast_in_dim(mask, shape.dimensions, (shape.rank - 2, shape.rank - 1))
    return select(mask, value, zeros(shape))


def _transposed(value: Any) -> Any:
    rank = array_shape(value).rank
    return transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def _applied(value: Any, transpose_a: str) -> Any:
    """op(value), as TriangularSolve has it."""
    if transpose_a == "NO_TRANSPOSE":
        return value
    return _transposed(conjugate(value) if transpose_a == "ADJOINT" else value)


def _product(lhs: Any, rhs: Any) -> Any:
    """The products of stacks of matrices."""
    rank = array_shape(lhs).rank
    batch = range(rank - 2)
    numbers = DotDimensionNumbers((rank - 1,), (rank - 2,), batch, batch)
    return dot_general(lhs, rhs, numbers, "HIGHEST")


@register
class Cholesky(MatrixOperation):
    """The Cholesky factor of Hermitian positive definite matrices. XLA: Cholesky.

    lower: a = l l^H with l lower triangular; else a = u^H u with u upper triangular. Only that
    triangle of `a` is read, and only the real parts of its diagonal. The result's other triangle
    is zero; where a matrix is not positive definite, its triangle is NaN (XLA: the last element,
    if that alone has no root).

    Attributes:
        lower: which triangle is read and written.

    Checks:
        (C1) a has a float or complex type, and two last dimensions of equal size.
    """

    stablehlo_name = "cholesky"
    lapack_name = "potrf"
    has_info = True
    operand_names = ("a",)
    attributes = {"lower": Boolean()}

    def shape(self, a: Any, /, *, lower: bool) -> Shape:
        (a,) = self.array_shapes([a])
        self.check_matrix("C1", a, [f"a {a}"])
        return a

    def reference(self, a: np.ndarray, /, *, lower: bool) -> np.ndarray:
        kind = element_type(a.dtype)
        wide = cast(a, widened(kind, in_double=True))
        if not lower:
            wide = wide.swapaxes(-1, -2).conj()
        factor = _cholesky(wide)
        if not lower:
            factor = factor.swapaxes(-1, -2).conj()
        return cast(factor, kind)

    def finish(self, result: Any, /, *, lower: bool) -> Any:
        return _triangle(result, lower)

    def lapack_options(self, *, lower: bool) -> dict[str, str]:
        return {"uplo": "L" if lower else "U"}

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /, *, lower: bool
    ) -> Any:
        # l' = l phi(l^-1 a' l^-H), where phi halves the diagonal of the lower triangle (Murray,
        # "Differentiation of the Cholesky decomposition", 2016).
        factor, tangent = (
            each if lower else _applied(each, "ADJOINT") for each in (results, tangents[0])
        )
        half = _half(tangent)
        whole = half + _applied(half, "ADJOINT")
        inner = triangular_solve(factor, whole, True, True)
        inner = triangular_solve(factor, inner, False, True, False, "ADJOINT")
        moved = _product(factor, _half(inner))
        return moved if lower else _applied(moved, "ADJOINT")

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, *, lower: bool
    ) -> tuple[Any, int]:
        return cholesky(move_dimension(operands[0], dimensions[0] or 0, 0), lower), 0


def _half(value: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    return (_triangle(value, True) + _triangle(value, True, strict=True)) * 0.5


def _cholesky(a: np.ndarray) -> np.ndarray:
    """The factors of stacked matrices; NaN in the lower triangle where there is none."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.tril(np.full_like(a, np.nan))
        return np.stack([_cholesky(each) for each in a])


def cholesky(a: Any, lower: bool = True) -> Any:
    """The Cholesky factor of Hermitian positive definite matrices.

    Args:
        a: an array [..., n, n] of floats or complex numbers, of which one triangle is read.
        lower: whether that is the lower one, and a = l l^H; else a = u^H u.

    Returns:
        l or u, the other triangle zero; NaN where a matrix is not positive definite.

    Raises:
        ShapeError: see Cholesky.
    """
    return bind(Cholesky.instance, a, lower=lower)


@register
class TriangularSolve(MatrixOperation):
    """Solves op(a) x = b, or x op(a) = b, for triangular matrices a. XLA: TriangularSolve.

    Attributes:
        left_side: op(a) x = b; else x op(a) = b.
        lower: a is lower triangular; else upper. The other triangle is not read.
        unit_diagonal: the diagonal of a is taken as ones and not read.
        transpose_a: op(a) is a (`NO_TRANSPOSE`), its transpose (`TRANSPOSE`) or its conjugate
            transpose (`ADJOINT`).

    Checks:
        (C1) a has a float or complex type, and two last dimensions of equal size.
        (C2) b has the type, the rank and the batch dimensions of a.
        (C3) b has as many rows (columns, without left_side) as a.
    """

    stablehlo_name = "triangular_solve"
    lapack_name = "trsm"
    operand_names = ("a", "b")
    attributes = {
        "left_side": Boolean(),
        "lower": Boolean(),
        "unit_diagonal": Boolean(),
        "transpose_a": Enumeration("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    }
    linear_operands = (1,)

    def shape(self, a: Any, b: Any, /, *, left_side: bool, **attributes: Any) -> Shape:
        a, b = self.array_shapes([a, b])
        given = [f"a {a}", f"b {b}", f"left_side {left_side}"]
        self.check_matrix("C1", a, given)
        if a.element_type is not b.element_type or a.dimensions[:-2] != b.dimensions[:-2] or (
            a.rank != b.rank
        ):  # fmt: skip
            self.reject("C2", "a and b differ in type or batch dimensions", given,
                        "All dimensions but the last two must be equal.")  # fmt: skip
        if b.dimensions[-2 if left_side else -1] != a.dimensions[-1]:
            self.reject("C3", "a and b do not fit each other", given,
                        "b must have as many rows as a, or columns without left_side.")  # fmt: skip
        return b

    def reference(
        self,
        a: np.ndarray,
        b: np.ndarray,
        /,
        *,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: str,
    ) -> np.ndarray:
        kind = element_type(b.dtype)
        a, b = (cast(each, widened(kind, in_double=True)) for each in (a, b))
        if transpose_a == "ADJOINT":
            a = a.conj()
        if not left_side:
            b = b.swapaxes(-1, -2)
        if (transpose_a != "NO_TRANSPOSE") == left_side:
            a, lower = a.swapaxes(-1, -2), not lower
        # Now a x = b, in either case.
        x, size = b.copy(), a.shape[-1]
        with np.errstate(all="ignore"):
            for row in range(size) if lower else reversed(range(size)):
                known = slice(0, row) if lower else slice(row + 1, size)
                x[..., row, :] -= (a[..., row, None, known] @ x[..., known, :])[..., 0, :]
                if not unit_diagonal:
                    x[..., row, :] /= a[..., row, row, None]
        return cast(x if left_side else x.swapaxes(-1, -2), kind)

    def stablehlo_attributes(self, **attributes: Any) -> dict[str, Any]:
        return {**attributes, "transpose_a": f"#stablehlo<transpose {attributes['transpose_a']}>"}

    def lapack_options(
        self, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str
    ) -> dict[str, str]:
        return {
            "diag": "U" if unit_diagonal else "N",
            "side": "L" if left_side else "R",
            "trans_x": {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[transpose_a],
            "uplo": "L" if lower else "U",
        }

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /, **attributes: Any
    ) -> Any:
        # op(a) x' = b' - op(a') x
        a, tangent = primals[0], tangents[1]
        if tangents[0] is not None:
            moved = _applied(self._read(tangents[0], **attributes), attributes["transpose_a"])
            pair = (moved, results) if attributes["left_side"] else (results, moved)
            tangent = add_cotangents(tangent, -_product(*pair))
        return bind(self, a, tangent, **attributes)

    def _read(self, a: Any, *, lower: bool, unit_diagonal: bool, **attributes: Any) -> Any:
        """The part of `a` that is read."""
        return _triangle(a, lower, strict=unit_diagonal)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        transpose_a: str,
        **attributes: Any,
    ) -> Sequence[Any]:
        a = conjugate(operands[0]) if transpose_a == "ADJOINT" else operands[0]
        turned = "TRANSPOSE" if transpose_a == "NO_TRANSPOSE" else "NO_TRANSPOSE"
        return None, bind(self, a, cotangents, transpose_a=turned, **attributes)

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        of_b = self.transpose(cotangents, operands, (False, True), **attributes)[1]
        if not active[0]:
            return None, of_b
        pair = (of_b, _transposed(results))
        if not attributes["left_side"]:
            pair = (_transposed(results), of_b)
        of_a = _applied(-_product(*pair), attributes["transpose_a"])
        return self._read(of_a, **attributes), of_b if active[1] else None

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        left_side: bool,
        **attributes: Any,
    ) -> tuple[Any, int]:
        (a, b), (a_at, b_at), size = operands, dimensions, batch_size(operands, dimensions)
        attributes["left_side"] = left_side
        if a_at is not None:
            a, b = move_dimension(a, a_at, 0), move_batch(b, b_at, 0, size)
            return bind(self, a, b, **attributes), 0
        # More columns, or rows, for the same matrix.
        at = array_shape(a).rank - (0 if left_side else 2)
        b = move_dimension(b, b_at or 0, at)
        sizes = array_shape(b).dimensions
        first = len(sizes) - (2 if left_side else 3)
        merged = sizes[first] * sizes[first + 1]
        joined = reshape(b, (*sizes[:first], merged, *sizes[first + 2 :]))
        return reshape(bind(self, a, joined, **attributes), sizes), at


def triangular_solve(
    a: Any,
    b: Any,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool = False,
    transpose_a: str = "NO_TRANSPOSE",
) -> Any:
    """x, where op(a) x = b or x op(a) = b with triangular a.

    Args:
        a: an array [..., m, m] of floats or complex numbers, of which one triangle is read.
        b: an array of the same type, [..., m, k] with `left_side`, else [..., k, m].
        left_side: whether op(a) stands left of x.
        lower: whether a is lower triangular, else upper.
        unit_diagonal: whether to take the diagonal of a as ones.
        transpose_a: NO_TRANSPOSE, TRANSPOSE or ADJOINT (the conjugate transpose).

    Returns:
        x, of the shape of b.

    Raises:
        ShapeError, AttributeValueError: see TriangularSolve.
    """
    return bind(
        TriangularSolve.instance,
        a,
        b,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=transpose_a,
    )
