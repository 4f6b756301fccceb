"""Cholesky and TriangularSolve."""

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register
from minixla.core.attributes import Boolean, attribute
from minixla.core.element_types import F32, ElementType, element_type
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION
from minixla.typing import Array
from minixla_ops.helpers import batch_dimensions
from minixla_ops.helpers.casting import cast, emit_converted, widened
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.linear_algebra.matrices import (
    adjoint,
    nan_unless,
    oriented,
    product,
    transposed,
    triangle,
)
from minixla_ops.linear_algebra.solving import TRANSPOSE_A, LinearSystem
from minixla_ops.programs.lowering import kept_program


def wide_type(value: object) -> ElementType:
    """Return the element type in which a value or shape is computed: f32 or wider."""
    kind = array_shape(value).element_type
    return F32 if kind.bits < 32 else kind


class MatrixOperation(Operation):
    """Base class of operations on stacks of matrices of floats or complex numbers.

    Types narrower than f32 are computed in f32 and rounded once.
    """

    def check_matrix(self, a: Shape) -> None:
        """Raise ShapeError unless `a` is a stack of square matrices with an inexact type."""
        if not a.element_type.is_inexact:
            problem = f"a must have a float or complex type, not {a.element_type}"
            self.refuse("C1", problem, "Convert with convert_element_type.")
        if a.rank < 2 or a.dimensions[-1] != a.dimensions[-2]:
            problem = "a must be a square matrix or a stack of square matrices"
            self.refuse("C1", problem, "The last two dimensions of a must have equal sizes.")

    def stablehlo(self, emit, operands, shapes, results):
        (result,) = results
        wide = wide_type(result)
        wides = [shape.with_element_type(wide) for shape in shapes]
        names = emit_converted(emit, operands, shapes, wides)
        wide_result = result.with_element_type(wide)
        names = super().stablehlo(emit, names, wides, [wide_result])
        names = emit.expand(kept_program(self.finish, (wide_result,)), names)
        return emit_converted(emit, names, [wide_result], results)

    def finish(self, result: Array) -> Array:
        """Return the result from that of StableHLO's operation or of a library."""
        return result


@register
class Cholesky(MatrixOperation):
    """Cholesky factor of Hermitian positive definite matrices. XLA: Cholesky.

    With `lower`, a = l l^H and l is lower triangular; else a = u^H u and u is upper triangular.
    Only that triangle of `a` is read, and only the real parts of its diagonal. The other triangle
    of the result is zero. If a matrix is not positive definite, the triangle is NaN. XLA sets only
    the last element to NaN if only that one has no root.

    Args:
        a: an array [..., n, n] of floats or complex numbers; only one triangle is read.
        lower: whether to read the lower triangle, and return l; else u.

    Returns:
        l or u, the other triangle zero; NaN if a matrix is not positive definite.

    Checks:
        (C1) a has a float or complex type, and its last two dimensions have equal sizes.

    Example:
        >>> ops.cholesky(np.float32([[4, 2], [2, 5]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """

    stablehlo_name = "cholesky"
    operands = ("a",)
    lower: bool = attribute(Boolean(), default=True)

    def shape(self, a):
        self.check_matrix(a)
        return a

    def reference(self, a):
        kind = element_type(a.dtype)
        wide = cast(a, widened(kind, in_double=True))
        if self.lower:
            return cast(_cholesky(wide), kind)
        return cast(_cholesky(wide.swapaxes(-1, -2).conj()).swapaxes(-1, -2).conj(), kind)

    def finish(self, result, failed=None):
        if failed is not None:  # a library's flags for matrices without factor
            result = nan_unless(failed == 0, result)
        return triangle(result, self.lower)

    def lapack_options(self) -> dict[str, str]:
        """Return the attributes of LAPACK's potrf."""
        return {"uplo": "L" if self.lower else "U"}

    def jvp(self, primals, tangents, results):
        # l' = l phi(l^-1 a' l^-H), where phi halves the diagonal of the lower triangle (Murray,
        # "Differentiation of the Cholesky decomposition", 2016).
        turned = "NO_TRANSPOSE" if self.lower else "ADJOINT"
        factor, change = oriented(results, turned), _hermitian(oriented(tangents[0], turned))
        inner = ops.triangular_solve(factor, change, True, True)
        inner = ops.triangular_solve(factor, inner, False, True, False, "ADJOINT")
        return oriented(product(factor, _half(inner)), turned)

    def batch(self, operands, dimensions):
        return self(*batch_dimensions.to_front(operands, dimensions)[0]), 0

    def sharding_rule(self, a):
        kinds = dict.fromkeys((a.rank - 2, a.rank - 1), NEED_REPLICATION)
        return self.sharding_factors((a,)).pointwise(a.dimensions, kinds).build()


def _hermitian(value: Array) -> Array:
    """Build Hermitian matrices from lower triangles and the real parts of their diagonals."""
    if array_shape(value).element_type.is_complex:
        half = _half(value)
        return half + adjoint(half)
    return triangle(value, True, other=transposed(value))  # one pass, which XLA fuses well


def _half(value: Array) -> Array:
    """Return the lower triangle with half of the diagonal."""
    return (triangle(value, True) + triangle(value, True, strict=True)) * 0.5


def _cholesky(a: np.ndarray) -> np.ndarray:
    """Return the factors of stacked matrices; NaN in the lower triangle on failure."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.tril(np.full_like(a, np.nan))
        return np.stack([_cholesky(matrix) for matrix in a])


@register
class TriangularSolve(MatrixOperation, LinearSystem):
    """Solve op(a) x = b, or x op(a) = b, for triangular matrices a. XLA: TriangularSolve.

    Args:
        a: an array [..., m, m] of floats or complex numbers; only one triangle is read.
        b: an array with the same type, [..., m, k] with `left_side`, else [..., k, m].
        left_side: whether op(a) is left of x.
        lower: whether a is lower triangular; else upper.
        unit_diagonal: whether to assume ones on the diagonal of a, and not read it.
        transpose_a: op(a) is a (`NO_TRANSPOSE`), its transpose (`TRANSPOSE`) or its conjugate
            transpose (`ADJOINT`).

    Returns:
        x, with the shape of b.

    Checks:
        (C1) a has a float or complex type, and its last two dimensions have equal sizes.
        (C2) b has the type, the rank and the batch dimensions of a.
        (C3) b has as many rows (columns, without left_side) as a.

    Example:
        >>> a, b = np.float32([[2, 0], [1, 1]]), np.float32([[2], [4]])
        >>> ops.triangular_solve(a, b, left_side=True, lower=True)
        Array([[1.],
               [3.]], dtype=float32)
    """

    stablehlo_name = "triangular_solve"
    operands = "a", "b"
    left_side: bool = attribute(Boolean())
    lower: bool = attribute(Boolean())
    unit_diagonal: bool = attribute(Boolean(), default=False)
    transpose_a: str = TRANSPOSE_A
    linear_operands = (1,)

    def shape(self, a, b):
        self.check_matrix(a)
        types, batches = (a.element_type, b.element_type), (a.dimensions[:-2], b.dimensions[:-2])
        if types[0] is not types[1] or a.rank != b.rank or batches[0] != batches[1]:
            self.refuse("C2", "a and b must have equal types, ranks and batch dimensions")
        if b.dimensions[-2 if self.left_side else -1] != a.dimensions[-1]:
            self.refuse("C3", "b must have as many rows (columns, without left_side) as a")
        return b

    def reference(self, a, b):
        kind, lower = element_type(b.dtype), self.lower
        a, b = (cast(operand, widened(kind, in_double=True)) for operand in (a, b))
        if self.transpose_a == "ADJOINT":
            a = a.conj()
        if not self.left_side:
            b = b.swapaxes(-1, -2)
        if (self.transpose_a != "NO_TRANSPOSE") == self.left_side:
            a, lower = a.swapaxes(-1, -2), not lower
        # The system is now a x = b in both cases.
        x, size = b.copy(), a.shape[-1]
        with np.errstate(all="ignore"):
            for row in range(size) if lower else reversed(range(size)):
                solved = slice(0, row) if lower else slice(row + 1, size)
                x[..., row, :] -= (a[..., row, None, solved] @ x[..., solved, :])[..., 0, :]
                if not self.unit_diagonal:
                    x[..., row, :] /= a[..., row, row, None]
        return cast(x if self.left_side else x.swapaxes(-1, -2), kind)

    def lapack_options(self) -> dict[str, str]:
        """Return the attributes of BLAS's trsm."""
        return {
            "diag": "U" if self.unit_diagonal else "N",
            "side": "L" if self.left_side else "R",
            "trans_x": {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[self.transpose_a],
            "uplo": "L" if self.lower else "U",
        }

    def read(self, a):
        return triangle(a, self.lower, strict=self.unit_diagonal)

    def sharding_rule(self, a, b):
        rule, last = self.sharding_factors((a, b)), b.rank - 1
        for index, size in enumerate(b.dimensions[:-2]):
            rule.same(index, size)
        # Pair the dimensions of a with b's solved dimension and with x.
        solved = last - 1 if self.left_side else last
        is_turned = (self.transpose_a == "NO_TRANSPOSE") != self.left_side
        read, found = (last, last - 1) if is_turned else (last - 1, last)
        for index in (last - 1, last):
            of_a, of_x = (read, ABSENT) if index == solved else (ABSENT, index)
            rule.add([of_a, index], [of_x], b.dimensions[index], NEED_REPLICATION)
        return rule.add([found, ABSENT], [solved], b.dimensions[solved], NEED_REPLICATION).build()
