"""Lu: triangular factors of matrices, with row pivoting."""

import math

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, builder, register
from minixla.core.derived import batched_graph
from minixla.core.tracing import evaluate_graph
from minixla.typing import Array
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.linear_algebra.factorization import Factorization, routine
from minixla_ops.linear_algebra.matrices import (
    columns,
    identity,
    joined,
    permuted,
    product,
    rows,
    triangle,
)
from minixla_ops.programs.lowering import kept_program


@register
class Lu(Factorization):
    """LU factorization of matrices with row pivoting: P a = l u. JAX: lax.linalg.lu.

    Step i exchanges row i with the row, from i on, that has the largest element in column i. For
    complex numbers, the sums of the moduli of both parts are compared.

    Args:
        a: an array [..., m, n] of f32, f64, c64 or c128.

    Returns:
        lu: an array like a, with u in the upper triangle and l in the lower one. The diagonal of l
            is ones and is not stored.
        pivots: s32 [..., min(m, n)], the row that each row is exchanged with.
        permutation: s32 [..., m], the permutation of the rows: a[permutation] = l u.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, of rank 2 or more.

    Example:
        >>> lu, pivots, permutation = ops.lu(np.float32([[1, 2], [4, 4]]))
        >>> lu, permutation
        (Array([[4.  , 4.  ],
               [0.25, 1.  ]], dtype=float32), Array([1, 0], dtype=int32))
    """

    target = "LuDecomposition"
    operands = ("a",)

    def shape(self, a):
        self.check_matrices(a)
        *batch, m, n = a.dimensions
        return a, Shape("s32", (*batch, min(m, n))), Shape("s32", (*batch, m))

    def numpy(self, a):
        lu, pivots, _ = routine("getrf")(a)
        permutation = np.broadcast_to(np.arange(a.shape[-2]), a.shape[:-1]).copy()
        for step in range(pivots.shape[-1]):
            other = pivots[..., step, None] - 1
            moved = np.take_along_axis(permutation, other, -1)
            np.put_along_axis(permutation, other, permutation[..., step, None], -1)
            permutation[..., step, None] = moved
        return lu, pivots - 1, permutation

    def finish(self, lu: Array, pivots: Array, info: Array) -> tuple[Array, Array, Array]:
        """Return the results from those of LAPACK's getrf, whose rows are 1-based."""
        return lu, pivots - 1, permutation_of(pivots - 1, array_shape(lu).dimensions[-2])

    def jvp(self, primals, tangents, results):
        # l^-1 P a' u^-1 = l^-1 l' + u' u^-1, a sum of a strictly lower and an upper triangular
        # matrix.
        # An identity completes l and u to square matrices (de Hoog, Anderssen and Lukas,
        # "Differentiation of matrix functionals using triangular factorization", 2011).
        lu, _, permutation = results
        shape = array_shape(lu)
        m, n = shape.dimensions[-2:]
        k = min(m, n)
        eyes = [identity(shape.with_dimensions((*shape.dimensions[:-2], x, x))) for x in (m, n)]
        lower = triangle(lu, True, strict=True)
        lower = joined([columns(lower, 0, k), columns(eyes[0], k, m)], -1)
        upper = triangle(joined([rows(lu, 0, k), rows(eyes[1], k, n)], -2), False)
        moved = permuted(tangents[0], permutation)
        moved = ops.triangular_solve(lower, moved, True, True, True)
        moved = ops.triangular_solve(upper, moved, False, False)
        below = triangle(moved, True, strict=True)
        of_lower = below + product(triangle(lower, True, strict=True), below)
        return of_lower + product(triangle(moved, False), upper), None, None


lu = builder(Lu)


def permutation_of(pivots: Array, size: int) -> Array:
    """Return the permutation of `size` rows that results from exchanging rows with their pivots."""
    *batch, count = array_shape(pivots).dimensions
    shapes = Shape("s32", (size,)), Shape("s32", (count,))
    program, rows_ = kept_program(_exchanged, shapes), ops.iota(shapes[0], 0)
    if not batch:
        return evaluate_graph(program, [rows_, pivots])[0]
    members = math.prod(batch)
    together, _ = batched_graph(program, (None, 0), members)
    (permutation,) = evaluate_graph(together, [rows_, ops.reshape(pivots, (members, count))])
    return ops.reshape(permutation, (*batch, size))


def _exchanged(permutation: Array, pivots: Array) -> Array:
    (count,) = array_shape(pivots).dimensions

    def exchange(step: Array, permutation: Array, pivots: Array) -> tuple[Array, Array, Array]:
        other = ops.reshape(ops.dynamic_slice(pivots, [step], (1,)), ())
        both = [ops.dynamic_slice(permutation, [at], (1,)) for at in (step, other)]
        permutation = ops.dynamic_update_slice(permutation, both[1], [step])
        return step + 1, ops.dynamic_update_slice(permutation, both[0], [other]), pivots

    state = [np.int32(0), permutation, pivots]
    return ops.while_(lambda step, *_: step < count, exchange, state)[1]
