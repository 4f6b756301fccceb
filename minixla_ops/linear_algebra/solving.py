"""Base class of linear systems; solvers by triangular factors and by eigenvectors."""

from typing import Any

import minixla_ops as ops
from minixla.core import Operation, Shape, builder, register
from minixla.core.attributes import Enumeration, attribute
from minixla.typing import Array
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers import batch_dimensions
from minixla_ops.helpers.shorthand import add_cotangents, array_shape
from minixla_ops.linear_algebra.gaps import gap_quotient
from minixla_ops.linear_algebra.matrices import adjoint, oriented, permuted, product, transposed
from minixla_ops.programs.lowering import Lowered

TRANSPOSE_A: Any = attribute(
    Enumeration("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", mnemonic="transpose"),
    default="NO_TRANSPOSE",
)


class LinearSystem(Operation):
    """Base class that solves op(a) x = b, or x op(a) = b, for the first operand a and the last b.

    Subclasses have an attribute `transpose_a`, which selects op. They may have `left_side`, which
    says whether op(a) is left of x.
    """

    @property
    def is_left(self) -> bool:
        """True if op(a) is left of x."""
        return self.values.get("left_side", True)

    def read(self, a: Array) -> Any:
        """Return the part of `a` that is read."""
        return a

    def _product(self, of_a: Array, of_x: Array) -> Array:
        return product(of_a, of_x) if self.is_left else product(of_x, of_a)

    def jvp(self, primals, tangents, results):
        # op(a) x' = b' - op(a') x
        (of_a, *_, tangent), transpose_a = tangents, self.values["transpose_a"]
        if of_a is not None:
            moved = self._product(oriented(self.read(of_a), transpose_a), results)
            tangent = add_cotangents(tangent, -moved)
        return None if tangent is None else self(*primals[:-1], tangent)

    def transpose(self, cotangents, operands, linear):
        transpose_a, coefficients = self.values["transpose_a"], operands[:-1]
        turned = "TRANSPOSE" if transpose_a == "NO_TRANSPOSE" else "NO_TRANSPOSE"
        is_adjoint = transpose_a == "ADJOINT"
        b = conjugate(cotangents) if is_adjoint else cotangents
        solution = self(*coefficients, b, transpose_a=turned)
        return *[None] * len(coefficients), conjugate(solution) if is_adjoint else solution

    def vjp(self, cotangents, operands, results, active):
        *others, of_b = self.transpose(cotangents, operands, active)
        if active[0]:
            moved = -self._product(of_b, transposed(results))
            others[0] = self.read(oriented(moved, self.values["transpose_a"]))
        return *others, of_b if active[-1] else None

    def batch(self, operands, dimensions):
        (*coefficients, b), (*places, b_at) = operands, dimensions
        size = batch_dimensions.batch_size(operands, dimensions)
        if size == 0 or any(place is not None for place in places):
            return self(*batch_dimensions.to_front(operands, dimensions)[0]), 0
        # Merge the batch into the columns, or rows, for the same matrix.
        at = array_shape(coefficients[0]).rank - 2 + self.is_left
        merged = batch_dimensions.merge_dimension(b, b_at, at)
        return batch_dimensions.split_dimension(self(*coefficients, merged), at, size), at


@register
class LuSolve(LinearSystem, Lowered):
    """Solve op(a) x = b with the factors of a from `lu`, which are computed once.

    JAX: scipy.linalg.lu_solve, with custom derivatives.

    Derivatives are those of x with respect to a and b, and solve with the same factors. Values of
    lu and permutation must be the factors of a, and have no derivatives. Pass them as constants,
    the factors of `mx.stop_gradient(a)`, to avoid computing their derivatives in vain.

    Args:
        a: an array [..., m, m] of f32, f64, c64 or c128.
        lu: its factors, an array like a.
        permutation: s32 [..., m], the permutation of its rows.
        b: an array [..., m, k] with the type of a.
        transpose_a: op(a) is a (`NO_TRANSPOSE`), its transpose (`TRANSPOSE`) or its conjugate
            transpose (`ADJOINT`).

    Returns:
        x, with the shape of b.

    Checks:
        (C1) lu has the shape of a, whose last two dimensions have equal sizes.
        (C2) permutation is s32 and has the dimensions of a except the last.
        (C3) b has the type of a, and its dimensions except the last.

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
    transpose_a: str = TRANSPOSE_A

    def shape(self, a, lu, permutation, b):
        if lu is not a or a.rank < 2 or a.dimensions[-1] != a.dimensions[-2]:
            self.refuse(
                "C1",
                "a and lu must be square matrices with equal shapes",
                "Pass the results of lu(a).",
            )
        if permutation is not Shape("s32", a.dimensions[:-1]):
            self.refuse(
                "C2",
                "permutation must have one s32 for each row of a",
                "Pass the results of lu(a).",
            )
        if b.element_type is not a.element_type or b.dimensions[:-1] != a.dimensions[:-1]:
            self.refuse("C3", "a and b must have equal types, rows and batch dimensions")
        return b

    def lowered(self, a, lu, permutation, b):
        return solve_by_lu(lu, permutation, b, self.transpose_a)


lu_solve = builder(LuSolve)


@register
class LyapunovSolve(LinearSystem, Lowered):
    """Solve op(p) x + x op(p) = c for Hermitian p with known eigenvalues and eigenvectors.

    minixla: SciPy's linalg.solve_continuous_lyapunov for Hermitian matrices.

    Derivatives are those of x with respect to p and c, and solve with the same eigenvectors, like
    those of `lu_solve`. They do not contain differences of eigenvalues, so equal ones are allowed.

    Args:
        p: Hermitian matrices [..., n, n] of f32, f64, c64 or c128, p = v diag(w) v^H.
        sums: w[i] + w[j], an array like p.
        v: the eigenvectors in columns, an array like p.
        c: an array like p.
        transpose_a: op(p) is p (`NO_TRANSPOSE`, `ADJOINT`) or its transpose (`TRANSPOSE`).

    Returns:
        x, an array like p. A term divided by a sum of 0 is 0 if the term is 0, else NaN.

    Checks:
        (C1) all have the shape of p, whose last two dimensions have equal sizes.

    Example:
        >>> p, v = np.float32([[1, 0], [0, 3]]), np.eye(2, dtype=np.float32)
        >>> ops.lyapunov_solve(p, np.float32([[2, 4], [4, 6]]), v, np.float32([[2, 8], [4, 6]]))
        Array([[1., 2.],
               [1., 1.]], dtype=float32)
    """

    spec_names = ()
    operands = "p", "sums", "v", "c"
    linear_operands = (3,)
    transpose_a: str = TRANSPOSE_A

    def shape(self, *operands):
        p = operands[0]
        is_square = p.rank >= 2 and p.dimensions[-1] == p.dimensions[-2]
        if not is_square or any(operand is not p for operand in operands):
            self.refuse("C1", "operands must be square matrices with equal shapes")
        return p

    def _product(self, of_a: Array, of_x: Array) -> Array:
        return product(of_a, of_x) + product(of_x, of_a)

    def lowered(self, p, sums, v, c):
        if self.transpose_a == "TRANSPOSE":
            return conjugate(_by_vectors(sums, v, conjugate(c)))
        return _by_vectors(sums, v, c)

    def batch(self, operands, dimensions):
        return self(*batch_dimensions.to_front(operands, dimensions)[0]), 0


def _by_vectors(sums: Array, v: Array, c: Array) -> Array:
    mixed = product(adjoint(v), product(c, v))
    return product(v, product(gap_quotient(mixed, sums), adjoint(v)))


lyapunov_solve = builder(LyapunovSolve)


def solve_by_lu(
    lu: Array, permutation: Array, b: Array, transpose_a: str = "NO_TRANSPOSE"
) -> Array:
    """Solve op(a) x = b with the factors of a; op is defined by TriangularSolve."""
    if transpose_a == "NO_TRANSPOSE":
        moved = ops.triangular_solve(lu, permuted(b, permutation), True, True, True)
        return ops.triangular_solve(lu, moved, True, False)
    moved = ops.triangular_solve(lu, b, True, False, False, transpose_a)
    moved = ops.triangular_solve(lu, moved, True, True, True, transpose_a)
    return permuted(moved, _inverse(permutation))


def _inverse(permutation: Array) -> Array:
    shape = array_shape(permutation)
    last = shape.rank - 1
    pairs = [permutation, ops.iota(shape, last)]
    return ops.sort(pairs, lambda x, y, *_: ops.lt(x, y), last)[1]
