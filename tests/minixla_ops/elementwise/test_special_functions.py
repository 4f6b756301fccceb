"""Functions of chlo as operations: values in NumPy against numbers and SciPy, by XLA, derivatives.

Every one is tried against SciPy, with its derivatives, in tests/minixla/interop/test_chlo.py.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.special
from jax import lax

import minixla as mx
from minixla import ShapeError, ops
from minixla.core.element_types import ELEMENT_TYPES, F64
from minixla.core.shapes import Shape
from minixla.interop.chlo import decomposition
from minixla_ops.elementwise.special_functions import SPECIAL
from minixla_ops.programs.reference_evaluation import apply_elementwise
from tests.harness import check_batching, check_derivatives, check_rejected, compiled_rows
from tests.oracles.compare import ulp_distance

# Rounded from 40 digits by mpmath, where SciPy, or a formula of fewer terms, has lost some.
NUMBERS = {
    "lgamma": [
        ((0.75,), 0.20328095143129538),
        ((1 - 2**-20,), 5.504765026737053e-07),
        ((1 + 2**-10,), -0.0005629031799912047),
        ((1.25,), -0.09827183642181316),
        ((2 - 2**-20,), -4.0319826848018475e-07),
        ((2.75,), 0.47521466691493713),
        ((3.75,), 1.486815578593417),
        ((1e10,), 220258509288.81058),
    ],
    "digamma": [
        ((2**-20,), -1048576.5772140962),
        ((0.75,), -1.0858608797864722),
        ((1.4375,), -0.023613544005297898),
        ((1.46163,), -2.0756283887224574e-06),
        ((1.5,), 0.03648997397857652),
        ((2.0625,), 0.4623229805281309),
        ((2.75,), 0.8189010249754326),
        ((1e10,), 23.025850929890456),
    ],
    "erf_inv": [
        ((1e-300,), 8.86226925452758e-301),
        ((2**-12,), 0.00021636399884810805),
        ((0.25,), 0.2253120550121781),
        ((-0.5,), -0.4769362762044699),
        ((0.875,), 1.0847870400692832),
        ((1 - 2**-20,), 3.465505025803331),
        ((1 - 2**-53,), 5.8635847487551676),
    ],
    "erfc": [
        ((-3.0,), 1.9999779095030015),
        ((0.75,), 0.28884436634648486),
        ((5.0,), 1.537459794428035e-12),
        ((26.0,), 5.663192408856143e-296),
    ],
    "zeta": [
        ((1 + 2**-10, 0.25), 1028.232845943436),
        ((1.5, 2.0), 1.6123753486854884),
        ((2.0, 0.125), 65.38813344498803),
        ((3.0, 40.5), 0.00031245118966461647),
        ((7.5, 1.25), 0.19002848222237145),
        ((20.0, 3.5), 1.3229189094143142e-11),
    ],
    "polygamma": [
        ((1.0, 0.125), 65.38813344498803),
        ((2.0, 40.5), -0.0006249023793292329),
        ((5.0, 1.25), 32.513767681292045),
        ((20.0, 3.5), -9182070.204945628),
        ((3.0, 1e5), 2.0000300002e-15),
    ],
}


def by_rule(name, *operands):
    return SPECIAL[f"chlo.{name}"].reference(*map(np.asarray, operands))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_right_to_a_few_steps(name):
    given = zip(*[arguments for arguments, _ in NUMBERS[name]], strict=True)
    wanted = np.array([number for _, number in NUMBERS[name]])
    assert ulp_distance(by_rule(name, *map(np.array, given)), wanted).max() <= 6


# Where SciPy's own error is some steps.
SMOOTH = {
    "erf_inv": (scipy.special.erfinv, -1, 1),
    "erfc": (scipy.special.erfc, -6, 3),
    "lgamma": (scipy.special.gammaln, 3, 300),
    "digamma": (scipy.special.psi, 2, 300),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_scipy_agrees(name):
    function, low, high = SMOOTH[name]
    x = np.random.default_rng(0).uniform(low, high, 2000)
    assert ulp_distance(by_rule(name, x), function(x)).max() <= 12


@pytest.mark.parametrize(
    ("name", "numpy", "most"), [("sinh", np.sinh, 6), ("atanh", np.arctanh, 4)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_programs_keep_the_digits_that_mlirs_form_loses(name, numpy, most, dtype):
    kind = ELEMENT_TYPES[{"float64": "f64", "float32": "f32", "float16": "f16"}.get(dtype, "bf16")]
    top = 1 if name == "atanh" else 700 if dtype == "float64" else 10 if dtype == "float16" else 88
    sizes = np.linspace(0, top, 4001), np.logspace(-300 if dtype == "float64" else -30, 0, 500)
    x = np.concatenate([*sizes, [np.inf, np.nan, 1, 2]]).astype(kind.dtype)
    with jax.enable_x64(True):
        x = np.concatenate([x, -x])
        found = np.asarray(mx.jit(getattr(ops, name))(x))
    wanted = numpy(x.astype(np.longdouble))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(x[x == 0]))
    is_number = ~np.isnan(wanted)
    assert ulp_distance(found[is_number], wanted[is_number].astype(kind.dtype)).max() <= most


EDGES = [0.0, -0.0, -1, -2, -3, np.inf, -np.inf, np.nan, 1, 2, 3, -0.5, -2.5, 1e-310, 1e300, -1e300]
ORDERS = [0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, 2.5, -0.5, np.inf, -np.inf, np.nan, 170, 171, 180]


@pytest.mark.parametrize("name", ["erfc", "erf_inv", "lgamma", "digamma", "zeta", "polygamma"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edges_are_those_of_mlir(name):
    operation, x = SPECIAL[f"chlo.{name}"], np.array([*EDGES, 0.5, -0.99, 0.9999])
    given = [x]
    if len(operation.operands) == 2:
        # In infinity, and below 0 for whole orders, MLIR's are wrong: see _Sum.
        order, x = (each.ravel() for each in np.meshgrid(np.array(ORDERS, float), x))
        is_ours = np.isinf(x) | ((x < 0) & (x != np.floor(x)) & (order == np.floor(order)))
        given = [order[~is_ours], x[~is_ours]]
    scalar = Shape(F64)
    graph = decomposition(f"chlo.{name}", (scalar,) * len(given), (scalar,), "")
    found, (wanted,) = by_rule(name, *given), apply_elementwise(graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-14)
    signs = np.signbit(found) == np.signbit(wanted)
    assert (signs | np.isnan(found)).all()


# Builders: the function in JAX, and operands.
X = np.linspace(0.15, 0.85, 6).reshape(2, 3)
_OF_ONE = "acos acosh asin asinh atan atanh digamma erf_inv erfc lgamma sinh"
BUILDERS = {
    **{name: (getattr(lax, name), (X + (name == "acosh"),)) for name in _OF_ONE.split()},
    "next_after": (lax.nextafter, (X, 1 - X)),
    "polygamma": (lambda x: lax.polygamma(np.full_like(X, 2), x), (X,)),
    "zeta": (lambda x: lax.zeta(np.full_like(X, 3), x), (X,)),
}
OF_ORDER = {
    "polygamma": lambda x: ops.polygamma(np.full_like(X, 2), x),
    "zeta": lambda x: ops.zeta(np.full_like(X, 3), x),
}


def test_every_function_has_a_builder():
    assert {f"chlo.{name}" for name in BUILDERS} == SPECIAL.keys()
    assert SPECIAL.keys() == {f"chlo.{name}" for name in dir(ops)} & SPECIAL.keys()


@pytest.mark.parametrize("name", sorted(BUILDERS.keys() - {"next_after"}))
def test_derivatives(name):
    by_jax, operands = BUILDERS[name]
    # XLA's approximations by JAX have no derivative that is right to the last digits.
    approximated = name in ("digamma", "lgamma", "polygamma", "zeta")
    function = OF_ORDER.get(name, getattr(ops, name))
    check_derivatives(function, operands, None if approximated else by_jax, rtol=1e-5)


@pytest.mark.parametrize("name", ["sinh", "lgamma", "next_after"])
def test_batches(name):
    check_batching(getattr(ops, name), BUILDERS[name][1])


def test_orders_of_polygamma_are_not_differentiated():
    assert np.isnan(mx.reference(mx.grad(lambda n: ops.polygamma(n, 2.0)))(3.0))


def test_zeta_is_differentiated_by_its_exponent():
    """Against difference quotients of SciPy's zeta function in double precision."""
    exponents = np.array([1.1, 2, 2.5, 30, 3], np.float32)
    starts = np.array([0.5, 1, 3.3, 2, 200], np.float32)
    step = 1e-5
    wide = np.float64(exponents)
    upper, lower = scipy.special.zeta(wide + step, starts), scipy.special.zeta(wide - step, starts)
    found = mx.grad(lambda s: ops.zeta(s, starts).sum())(exponents)
    np.testing.assert_allclose(found, (upper - lower) / (2 * step), 2e-6)


NARROW = ("f4e2m1fn", "f8e4m3fn", "f8e5m2", "bf16", "f16")


def narrow_rows():
    for kind in NARROW:
        dtype = ELEMENT_TYPES[kind].dtype
        for name, (_, operands) in BUILDERS.items():
            given = [np.array(each.ravel()[:3] * 2).astype(dtype) for each in operands]
            if name in OF_ORDER:
                given = [np.full(3, 2).astype(dtype), *given]
            yield f"{name} of {kind}", (getattr(ops, name), tuple(given))


def test_narrow_types_are_rounded_from_wider_ones():
    rows = dict(narrow_rows())
    result = compiled_rows(rows)
    for name, (function, given) in rows.items():
        found, wanted = np.asarray(result(name)), mx.reference(function)(*given)
        assert found.dtype == wanted.dtype == given[0].dtype
        assert (ulp_distance(found, wanted) <= 1).all(), name


def test_checks():
    half = np.array([0.5], ELEMENT_TYPES["f8e8m0fnu"].dtype)
    check_rejected(
        lambda x: ops.next_after(x, x), [half], ShapeError, "(C2)", "f8e8m0fnu is not supported"
    )
    check_rejected(lambda x: ops.lgamma(x), [np.int32(3)], ShapeError, "(C2)", "lgamma", "s32")
    check_rejected(
        lambda s, q: ops.zeta(s, q), [np.float32(3), np.zeros(2, "f4")], ShapeError, "(C1)", "zeta"
    )


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"])
def test_next_after_equal_zeros_has_the_sign_of_the_second(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    zeros = np.array([0.0, -0.0, 0.0, -0.0]).astype(dtype)
    others = np.array([-0.0, 0.0, 0.0, -0.0]).astype(dtype)
    found = mx.reference(ops.next_after)(zeros, others).astype(np.float64)
    np.testing.assert_array_equal(np.signbit(found), [True, False, False, True])
