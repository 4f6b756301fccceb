"""Derivatives where those of formulas are wrong, lose digits, or are not numbers."""

import functools
import itertools
import math

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.harness import compiled_rows

INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


# Where larger and smaller operands are equal, or an operand is 0: the matrix of second derivatives.


def hessian_of_hypot(x, y):
    return np.float64([[y * y, -x * y], [-x * y, x * x]]) / math.hypot(x, y) ** 3


def hessian_of_log_of_sum(x, y):
    share = 1 / (1 + math.exp(y - x))
    return share * (1 - share) * np.float64([[1, -1], [-1, 1]])


def hessian_of_log2_of_sum(x, y):
    ratio = math.log(2)
    return ratio * hessian_of_log_of_sum(x * ratio, y * ratio)


HESSIANS = {
    "hypot": hessian_of_hypot,
    "logaddexp": hessian_of_log_of_sum,
    "logaddexp2": hessian_of_log2_of_sum,
}
POINTS = [(2, 2), (-2, 2), (0, 2), (2, 0), (3, 4), (-1e-3, 5)]
PAIRS = list(itertools.product(HESSIANS, POINTS))


def hessians(name):
    """The second derivatives of a function of two numbers, by three ways to nest the modes."""
    function = getattr(mnp, name)
    outer = mx.jacfwd, mx.jacrev
    gradient = mx.grad(function, (0, 1))
    return lambda *given: [
        *[each(gradient, (0, 1))(*given) for each in outer],
        mx.jacfwd(mx.jacfwd(function, (0, 1)), (0, 1))(*given),
    ]


@functools.cache
def compiled_hessians():
    return compiled_rows({(n, at): (hessians(n), [*map(np.float64, at)]) for n, at in PAIRS})


@pytest.mark.parametrize(("name", "point"), PAIRS)
def test_second_derivatives_where_operands_are_equal_or_zero(name, point):
    given = [*map(np.float64, point)]
    for found in (mx.reference(hessians(name))(*given), compiled_hessians()((name, point))):
        for each in found:
            np.testing.assert_allclose(each, HESSIANS[name](*point), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("point", "value", "slopes"),
    [
        ((0, 0), 0, (0, 0)),
        ((INF, 1), INF, (1, 0)),
        ((1, -INF), INF, (0, -1)),
        ((-INF, INF), INF, (-1, 1)),
        ((NAN, 1), NAN, (NAN, NAN)),
        ((1e300, 1e300), math.hypot(1e300, 1e300), (math.sqrt(0.5), math.sqrt(0.5))),
        ((3e-300, -4e-300), 5e-300, (0.6, -0.8)),
    ],
)
def test_hypot_at_its_ends(point, value, slopes):
    given = [*map(np.float64, point)]
    found = mx.reference(lambda x, y: (mnp.hypot(x, y), mx.grad(mnp.hypot, (0, 1))(x, y)))(*given)
    np.testing.assert_allclose(found[0], value, rtol=1e-15)
    np.testing.assert_allclose(found[1], slopes, rtol=1e-15)
    for at in (0, 1):
        tangents = [np.float64(at == 0), np.float64(at == 1)]
        moved = mx.reference(lambda x, y, t=tangents: mx.jvp(mnp.hypot, (x, y), t)[1])(*given)
        np.testing.assert_allclose(moved, slopes[at], rtol=1e-15)


# Roots of sums of squares: 0 where nothing varies.


def norm(**options):
    return lambda x: mnp.linalg.norm(x, **options)


def vector_norm(order):
    return lambda x: mnp.linalg.vector_norm(x, axis=None, ord=order)


ROOTS = {
    **{f"norm {order}": norm(ord=order) for order in (None, 2, 3, 2.5, 1.5, 0.5, -1, -2)},
    **{f"vector_norm {order}": vector_norm(order) for order in (2, 3, 1.5, 0.5, -1)},
    "std": mnp.std,
    "std, ddof": lambda x: mnp.std(x, ddof=1),
    "nanstd": lambda x: mnp.nanstd(x, ddof=1),
    "std of some": lambda x: mnp.std(x, where=np.array([True, True, False])),
}
#: Of 3 numbers as a matrix of one column.
MATRIX_ROOTS = {
    "norm": norm(),
    "norm fro": norm(ord="fro"),
    "matrix_norm": mnp.linalg.matrix_norm,
    "norm of columns": lambda x: norm(axis=0, keepdims=True)(x).sum(),
}
ROOTS |= {
    f"{name} of a matrix": lambda x, each=each: each(x.reshape(3, 1))
    for name, each in MATRIX_ROOTS.items()
}
ZEROS, COMPLEX_ZEROS = np.zeros(3), np.zeros(3, np.complex128)


def derivatives(function):
    """First and second derivatives, in both modes, of a function of a vector."""

    def found(x):
        if x.dtype.kind == "c":
            moved = [mx.jvp(function, (x,), (t * np.ones_like(x),))[1] for t in (1, 1j)]
            return [mx.grad(function)(x), *moved]
        return [mx.grad(function)(x), mx.jacfwd(function)(x), mx.hessian(function)(x)]

    return found


CONSTANTS = {
    f"{name}, {kind}": (derivatives(each), [np.zeros(3, kind)])
    for name, each in ROOTS.items()
    for kind in ("float64", "complex128")
}


@functools.cache
def compiled_constants():
    return compiled_rows(CONSTANTS)


@pytest.mark.parametrize("name", CONSTANTS)
def test_roots_have_derivative_zero_where_nothing_varies(name):
    function, given = CONSTANTS[name]
    for found in (mx.reference(function)(*given), compiled_constants()(name)):
        assert found
        for each in found:
            np.testing.assert_array_equal(each, 0)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("number", [3, 0.1])
def test_std_of_equal_numbers_has_derivative_zero(kind, number):
    given = np.full(5, number).astype(kind)
    for evaluate in (mx.reference, mx.jit):
        found = evaluate(mx.grad(mnp.std))(given)
        assert found.dtype == given.dtype
        np.testing.assert_allclose(found.astype(np.float64), 0, atol=1e-6)


@pytest.mark.parametrize("name", ROOTS)
def test_roots_elsewhere_have_the_derivatives_of_difference_quotients(name):
    function, x, step = ROOTS[name], np.array([1.0, -2.0, 3.0]), 1e-5
    steps = step * np.eye(3)
    evaluate = mx.reference(lambda x: [function(x), mx.grad(function)(x)])
    above, below = ([evaluate(x + s * each) for each in steps] for s in (1, -1))
    slopes, curves = (
        np.stack([(up[at] - down[at]) / (2 * step) for up, down in zip(above, below, strict=True)])
        for at in (0, 1)
    )
    found, forward, hessian = mx.reference(derivatives(function))(x)
    np.testing.assert_allclose(found, slopes, atol=1e-8)
    np.testing.assert_allclose(forward, slopes, atol=1e-8)
    np.testing.assert_allclose(hessian, curves, atol=1e-8)


def test_members_of_a_batch_do_not_disturb_each_other():
    batch = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
    found = mx.reference(mx.vmap(mx.grad(mnp.std)))(batch)
    np.testing.assert_array_equal(found[0], 0)
    deviations = batch[1] - batch[1].mean()
    np.testing.assert_allclose(found[1], deviations / (3 * batch[1].std()), rtol=1e-14)


# The derivatives of sinc, integrals of t**n cos(u t + n pi / 2) from 0 to 1 with u = pi x.

NODES, WEIGHTS = np.polynomial.legendre.leggauss(30)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2
X = np.array([0, 1e-30, 1e-8, 1e-4, -1e-3, 0.01, 0.1, -0.3, 0.47, 0.48, 0.55, -0.9, 1.3])
#: The direction of numbers of a type.
ANGLES = dict.fromkeys(("float16", "bfloat16", "float32", "float64"), 0.0)
ANGLES |= dict.fromkeys(("complex64", "complex128"), 0.7)


def exact_sinc(x, order):
    turns = [np.cos, lambda u: -np.sin(u), lambda u: -np.cos(u), np.sin]
    moment = WEIGHTS * (np.pi * NODES) ** order
    return (moment * turns[order % 4](np.pi * NODES * x[:, None])).sum(-1)


def sinc_derivatives(orders):
    """A function that gives the derivatives of sinc of these orders, element by element."""

    def found(x):
        results, function = [], mnp.sinc
        for order in range(orders):
            results.append(mx.vmap(function)(x))
            mode = mx.grad(function, holomorphic=x.dtype.kind == "c")
            # Both modes in turn.
            function = mode if order % 2 == 0 else tangent_of(function)
        return results

    return found


def tangent_of(function):
    return lambda x: mx.jvp(function, (x,), (mnp.ones_like(x),))[1]


@pytest.mark.parametrize("kind", ANGLES)
def test_derivatives_of_sinc_have_all_digits_near_zero(kind):
    x = (X * np.exp(1j * ANGLES[kind]) if ANGLES[kind] else X).astype(kind)
    wide = x.astype(np.complex128 if ANGLES[kind] else np.float64)
    eps = float(ml_dtypes.finfo(kind).eps)
    for evaluate in (mx.reference, mx.jit):
        for order, found in enumerate(evaluate(sinc_derivatives(5))(x)):
            assert found.dtype == x.dtype
            wanted = exact_sinc(wide, order)
            # Near 0 odd derivatives are as small as x; elsewhere the angle is rounded.
            bound = 40 * eps * np.where(np.abs(x) < 0.2, np.abs(wanted), np.pi**order)
            distance = np.abs(np.asarray(found).astype(wide.dtype) - wanted)
            assert (distance <= bound).all(), (order, distance / bound)
