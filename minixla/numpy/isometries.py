"""Isometries of polar decompositions, nuclear norms and extreme singular values.

The isometries are the derivatives of the nuclear norms. Derivatives of both, of every order,
contain sums of singular values but no differences, so equal values are allowed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.numpy.element_functions import transforms, with_rule
from minixla.numpy.operands import convert, kind_of, operand_shape
from minixla.numpy.systems import pseudo_inverse
from minixla_ops.linear_algebra.gaps import over_columns, over_rows
from minixla_ops.linear_algebra.matrices import adjoint, product


def extremes(a: Any, picks: Sequence[Callable[..., Any]]) -> tuple[Any, ...]:
    """Return the singular values of matrices that each of `picks`, maxima or minima, selects.

    Derivatives use only the vectors of the selected values. Other values may be equal, also for the
    second derivative. Equal selected values share the derivative, and those of 0 have derivative 0.
    """

    def found(s: Any) -> tuple[Any, ...]:
        return tuple([pick(s, -1) for pick in picks])

    def rule(primals: Any, tangents: Any) -> Any:
        u, s, vh = ops.svd(primals[0], False)
        results, moved = found(s), []
        for result in results:
            is_found = mnp.where(s > 0, s == result[..., None], mnp.isnan(s))
            # Select instead of multiplying: changes of other vectors may be NaN.
            part = product(
                mnp.where(is_found[..., None, :], u, 0), mnp.where(is_found[..., None], vh, 0)
            )
            count = convert(mnp.maximum(mnp.sum(is_found, -1), 1), kind_of(s))
            moved.append(_along(part, tangents[0]) / count)
        return results, tuple(moved)

    return with_rule(lambda a: found(ops.svd(a, False, False)), rule)(a)


def extreme_value(a: Any, pick: Callable[..., Any]) -> Any:
    """Return the singular value that one `pick` selects; see `extremes`."""
    return extremes(a, [pick])[0]


def nuclear_norm(a: Any) -> Any:
    """Sum the singular values of matrices; those that are 0 have derivative 0.

    Second derivatives of `svdvals` contain differences of values; those of this sum do not.
    """
    return with_rule(lambda a: mnp.sum(ops.svd(a, False, False), -1), _norm_rule)(a)


def _norm_rule(primals: Any, tangents: Any) -> Any:
    a, tangent = (_tall(primal) for primal in (*primals, *tangents))
    return _norm_by_vectors_rule((a, *_vectors(a, True)), (tangent,))


def _norm_by_vectors_rule(primals: Any, tangents: Any) -> Any:
    norm = with_rule(lambda a, u, s, vh: mnp.sum(s, -1), _norm_by_vectors_rule)
    return norm(*primals), _along(_isometry(True, *primals), tangents[0])


def _along(slope: Any, tangent: Any) -> Any:
    return mnp.sum(mnp.real(mnp.conjugate(slope) * tangent), (-2, -1))


def isometry(a: Any, by_rank: bool) -> Any:
    """Return the product u vh of a = u diag(s) vh; `by_rank` takes only the part with s > 0."""
    tall = _tall(a)
    factors = _isometry(by_rank, tall, *_vectors(tall, by_rank))
    return factors if tall is a else adjoint(factors)


def _tall(a: Any) -> Any:
    return a if a.shape[-2] >= a.shape[-1] else adjoint(a)


def _vectors(a: Any, by_rank: bool) -> tuple[Any, Any, Any]:
    """Return the factors u, s and vh as constants; `by_rank` zeroes vectors of u for s = 0."""
    u, s, vh = ops.svd(transforms().stop_gradient(a), False)
    return u * convert(s > 0, kind_of(u))[..., None, :] if by_rank else u, s, vh


def _isometry(by_rank: bool, *operands: Any) -> Any:
    function = with_rule(lambda _, a, u, s, vh: product(u, vh), _isometry_rule, (0,))
    return function(by_rank, *operands)


def _isometry_rule(by_rank: bool, primals: Any, tangents: Any) -> Any:
    # u' = u x + (a' - u u^H a') p^-1; here p = u^H a, and x solves p x + x p = u^H a' - a'^H u.
    (a, _, s, vh), tangent = primals, tangents[0]
    u, v = _isometry(by_rank, *primals), adjoint(vh)
    p, inner = product(adjoint(u), a), product(adjoint(u), tangent)
    p = (p + adjoint(p)) * 0.5
    numbers, like = convert(s, kind_of(v)), operand_shape(v)
    sums = over_columns(numbers, like) + over_rows(numbers, like)
    if by_rank:
        sums = mnp.where(sums == 0, np.inf, sums)
    moved = product(u, ops.lyapunov_solve(p, sums, v, inner - adjoint(inner)))
    if by_rank or a.shape[-2] > a.shape[-1]:
        counts = s > 0 if by_rank else mnp.ones_like(s, bool)
        outer = tangent - product(u, inner)
        moved = moved + product(outer, pseudo_inverse(p, v, s, vh, counts))
        if by_rank:
            # NaN where the rank would grow.
            weights = over_columns(convert(counts, kind_of(v)), operand_shape(a))
            grown = ops.gap_quotient(product(outer, v) * (1 - weights), weights)
            moved = moved + product(grown, vh)
    return u, moved
