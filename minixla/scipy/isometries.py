"""The isometries of polar decompositions, and nuclear norms, whose derivatives they are.

Derivatives of both contain sums of singular values, no differences: equal ones are no matter.
"""

from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.numpy.element_functions import with_rule
from minixla.numpy.operands import convert, kind_of, operand_shape
from minixla_ops.linear_algebra.gaps import over_columns, over_rows
from minixla_ops.linear_algebra.matrices import adjoint, product


def nuclear_norm(a: Any) -> Any:
    """The sums of the singular values of matrices; those that are 0 have derivative 0.

    Of `svdvals` second derivatives contain differences of values, of this sum they do not.
    """
    return with_rule(lambda a: mnp.sum(ops.svd(a, False, False), -1), _norm_rule)(a)


def _norm_rule(primals: Any, tangents: Any) -> Any:
    total, isometry = sum_and_isometry(primals[0], True)
    return total, _real_product(isometry, tangents[0])


def _real_product(a: Any, b: Any) -> Any:
    return mnp.sum(mnp.real(mnp.conjugate(a) * b), (-2, -1))


def sum_and_isometry(a: Any, by_rank: bool) -> tuple[Any, Any]:
    """The sums of s, and u vh, of a = u diag(s) vh; `by_rank` the part of it with s > 0."""

    def found(u: Any, s: Any, vh: Any) -> tuple[Any, Any]:
        counted = u * convert(s > 0, kind_of(u))[..., None, :] if by_rank else u
        return mnp.sum(s, -1), product(counted, vh)

    def rule(primals: Any, tangents: Any) -> Any:
        # With c = u^H a' v: u (c - c^H) / (s_i + s_j) v^H, and what leads out of the space of u, or
        # v; c alone where one of two values does not count.
        (a,), (tangent,) = primals, tangents
        u, s, vh = ops.svd(a, False)
        m, n = a.shape[-2:]
        left, right = product(adjoint(u), tangent), product(tangent, adjoint(vh))
        changed = product(left, adjoint(vh))
        like, other = operand_shape(changed), adjoint(changed)
        if by_rank:
            both = mnp.minimum(s[..., :, None], s[..., None, :]) > 0
            other = mnp.where(both, other, 0)
        numbers = convert(s, like.element_type)
        sums = over_columns(numbers, like) + over_rows(numbers, like)
        moved = product(u, product(ops.gap_quotient(changed - other, sums), vh))
        if m > n:
            outside, sums = right - product(u, changed), over_columns(numbers, operand_shape(right))
            moved = moved + product(ops.gap_quotient(outside, sums), vh)
        if m < n:
            outside, sums = left - product(changed, vh), over_rows(numbers, operand_shape(left))
            moved = moved + product(u, ops.gap_quotient(outside, sums))
        results = found(u, s, vh)
        return results, (_real_product(results[1], tangent), moved)

    return with_rule(lambda a: found(*ops.svd(a, False)), rule)(a)
