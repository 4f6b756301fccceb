"""LuSolve: linear systems by the triangular factors of their matrices."""

from typing import Any

import minixla_ops as ops
from minixla.core import Shape, register
from minixla.core.attributes import Enumeration, attribute
from minixla.core.builders import builder
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.linear_algebra.matrices import oriented, permuted, product, transposed
from minixla_ops.programs.compositions import Composed
from minixla_ops.vocabulary import batch_dimensions
from minixla_ops.vocabulary.shorthand import add_cotangents, array_shape


@register
class LuSolve(Composed):
    """Solves op(a) x = b by the factors of a that `lu` gives, which are computed once.

    JAX: scipy.linalg.lu_solve, with derivatives of its own.

    Derivatives are those of x by a and b, and solve with the same factors: of lu and permutation,
    which are taken to be those of a, there are none. Give them as constants, the factors of
    `mx.stop_gradient(a)`, or their own derivative is computed in vain.

    Args:
        a: an array [..., m, m] of f32, f64, c64 or c128.
        lu: its factors, an array like a.
        permutation: s32 [..., m], that of its rows.
        b: an array [..., m, k] of the type of a.
        transpose_a: op(a) is a (`NO_TRANSPOSE`), its transpose (`TRANSPOSE`) or its conjugate
            transpose (`ADJOINT`).

    Returns:
        x, of the shape of b.

    Checks:
        (C1) lu has the shape of a, whose last two dimensions are equal in size.
        (C2) permutation is s32 and has the dimensions of a but the last.
        (C3) b has the type of a, and its dimensions but the last.

    Example:
        >>> a, b = np.float32([[1, 2], [4, 4]]), np.float32([[5], [12]])
        >>> lu, pivots, permutation = ops.lu(a)
        >>> ops.lu_solve(a, lu, permutation, b)
        Array([[1.],
               [2.]], dtype=float32)
    """

    spec_names = ()
    operands = "a", "lu", "permutation", "b"
    linear_operands = (3,)
    transpose_a: str = attribute(
        Enumeration("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", mnemonic="transpose"),
        default="NO_TRANSPOSE",
    )

    def shape(self, a, lu, permutation, b):
        a, lu, permutation, b = self.array_shapes([a, lu, permutation, b])
        if lu is not a or a.rank < 2 or a.dimensions[-1] != a.dimensions[-2]:
            self.refuse("C1", "a and lu are not square matrices of one shape", "Give lu(a)'s.")
        if permutation is not Shape("s32", a.dimensions[:-1]):
            self.refuse("C2", "permutation does not fit a", "Give lu(a)'s.")
        if b.element_type is not a.element_type or b.dimensions[:-1] != a.dimensions[:-1]:
            advice = "All dimensions but the last must be equal."
            self.refuse("C3", "a and b differ in type, rows or batch dimensions", advice)
        return b

    def composition(self, a, lu, permutation, b):
        return solve_by_lu(lu, permutation, b, self.transpose_a)

    def jvp(self, primals, tangents, results):
        # op(a) x' = b' - op(a') x
        tangent, (of_a, *_) = tangents[3], tangents
        if of_a is not None:
            moved = product(oriented(of_a, self.transpose_a), results)
            tangent = add_cotangents(tangent, -moved)
        return None if tangent is None else self(*primals[:3], tangent)

    def transpose(self, cotangents, operands, linear):
        is_adjoint = self.transpose_a == "ADJOINT"
        turned = "TRANSPOSE" if self.transpose_a == "NO_TRANSPOSE" else "NO_TRANSPOSE"
        given = conjugate(cotangents) if is_adjoint else cotangents
        found = self(*operands[:3], given, transpose_a=turned)
        return None, None, None, conjugate(found) if is_adjoint else found

    def vjp(self, cotangents, operands, results, active):
        *_, of_b = self.transpose(cotangents, operands, (False, False, False, True))
        of_a = None
        if active[0]:
            of_a = oriented(-product(of_b, transposed(results)), self.transpose_a)
        return of_a, None, None, of_b if active[3] else None

    def batch(self, operands, dimensions):
        *given, b = operands
        if any(at is not None for at in dimensions[:3]):
            return self(*batch_dimensions.to_front(operands, dimensions)[0]), 0
        # More columns for the same matrix.
        at, last = dimensions[3], array_shape(b).rank - 2
        merged = batch_dimensions.merge_dimension(b, at, last)
        size = array_shape(b).dimensions[at]
        return batch_dimensions.split_dimension(self(*given, merged), last, size), last


lu_solve = builder(LuSolve)


def solve_by_lu(lu: Any, permutation: Any, b: Any, transpose_a: str = "NO_TRANSPOSE") -> Any:
    """The x with op(a) x = b, by the factors of a; op as TriangularSolve has it."""
    if transpose_a == "NO_TRANSPOSE":
        moved = ops.triangular_solve(lu, permuted(b, permutation), True, True, True)
        return ops.triangular_solve(lu, moved, True, False)
    moved = ops.triangular_solve(lu, b, True, False, False, transpose_a)
    moved = ops.triangular_solve(lu, moved, True, True, True, transpose_a)
    return permuted(moved, _inverse(permutation))


def _inverse(permutation: Any) -> Any:
    shape = array_shape(permutation)
    last = shape.rank - 1
    pairs = [permutation, ops.iota(shape, last)]
    return ops.sort(pairs, lambda x, y, *_: ops.lt(x, y), last)[1]
