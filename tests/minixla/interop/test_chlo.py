"""Operations of the chlo dialect: values in NumPy and by XLA, derivatives, both against SciPy's."""

import functools
import math
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from jax.extend.mlir.dialects import chlo

import minixla as mx
from minixla.core.element_types import element_type
from minixla.interop.module import TRANSLATIONS
from tests.harness import compiled_rows, through_stablehlo
from tests.minixla.interop.import_programs import main

X = np.linspace(0.15, 0.85, 6).reshape(2, 3)
Y = np.linspace(1.4, 3.1, 6).reshape(2, 3)

# Name: the function, the derivative with respect to its last operand; None: zero or undefined.
UNARY = {
    "acos": (np.arccos, lambda x: -1 / np.sqrt(1 - x * x)),
    "asin": (np.arcsin, lambda x: 1 / np.sqrt(1 - x * x)),
    "asinh": (np.arcsinh, lambda x: 1 / np.sqrt(1 + x * x)),
    "atan": (np.arctan, lambda x: 1 / (1 + x * x)),
    "atanh": (np.arctanh, lambda x: 1 / (1 - x * x)),
    "bessel_i1e": (
        scipy.special.i1e,
        lambda x: scipy.special.i0e(x) - scipy.special.i1e(x) * (1 + 1 / x),
    ),
    "conj": (np.conj, np.ones_like),
    "cosh": (np.cosh, np.sinh),
    "digamma": (scipy.special.digamma, lambda x: scipy.special.polygamma(1, x)),
    "erf": (scipy.special.erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
    "erf_inv": (
        scipy.special.erfinv,
        lambda x: math.sqrt(math.pi) / 2 * np.exp(scipy.special.erfinv(x) ** 2),
    ),
    "erfc": (scipy.special.erfc, lambda x: -2 / math.sqrt(math.pi) * np.exp(-x * x)),
    "lgamma": (scipy.special.gammaln, scipy.special.digamma),
    "sinh": (np.sinh, np.cosh),
    "square": (np.square, lambda x: 2 * x),
    "tan": (np.tan, lambda x: 1 / np.cos(x) ** 2),
}
#: Applied to x + 1.
SHIFTED = {"acosh": (np.arccosh, lambda x: 1 / np.sqrt(x * x - 1))}
BINARY = {
    "broadcast_add": (np.add, lambda x, y: np.ones_like(y)),
    "broadcast_atan2": (np.arctan2, lambda x, y: -x / (x * x + y * y)),
    "broadcast_divide": (np.divide, lambda x, y: -x / y**2),
    "broadcast_maximum": (np.maximum, lambda x, y: np.ones_like(y)),
    "broadcast_minimum": (np.minimum, lambda x, y: np.zeros_like(y)),
    "broadcast_multiply": (np.multiply, lambda x, y: x),
    "broadcast_next_after": (np.nextafter, None),
    "broadcast_polygamma": (scipy.special.polygamma, None),
    "broadcast_power": (np.power, lambda x, y: x**y * np.log(x)),
    "broadcast_remainder": (np.fmod, lambda x, y: -np.trunc(x / y)),
    "broadcast_subtract": (np.subtract, lambda x, y: -np.ones_like(y)),
    "broadcast_zeta": (scipy.special.zeta, None),
    "next_after": (np.nextafter, None),
    # Of (order, x).
    "polygamma": (scipy.special.polygamma, lambda n, x: scipy.special.polygamma(n + 1, x)),
    "zeta": (scipy.special.zeta, lambda n, x: -n * scipy.special.zeta(n + 1, x)),
}
#: What the first operand is.
ORDERS = {"broadcast_polygamma": 2.0, "polygamma": 1.0, "broadcast_zeta": 3.0, "zeta": 3.0}
INTEGERS = {
    "broadcast_and": np.bitwise_and,
    "broadcast_or": np.bitwise_or,
    "broadcast_xor": np.bitwise_xor,
    "broadcast_shift_left": np.left_shift,
    "broadcast_shift_right_arithmetic": np.right_shift,
    "broadcast_shift_right_logical": np.right_shift,
    "mulhi": lambda x, y: (x.astype(np.int64) * y >> 32).astype(np.int32),
}
PREDICATES = {
    "is_inf": np.isinf,
    "is_pos_inf": np.isposinf,
    "is_neg_inf": np.isneginf,
}
ELSEWHERE = """_asin_acos_kernel broadcast_compare broadcast_complex broadcast_select constant
constant_like ragged_dot scan top_k"""


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


class Row(NamedTuple):
    """A program of one operation or some.

    Attributes:
        body: the instructions, of %x and %y, for the result %r.
        types: of the arguments.
        result: type of the result.
        arguments: arrays.
    """

    body: str
    types: tuple[str, ...]
    result: str
    arguments: tuple[Any, ...]


def row(name, type_, arguments, result=None):
    """One operation of operands of one type."""
    operands, types = ", ".join(["%x", "%y"][: len(arguments)]), (type_,) * len(arguments)
    result = result or type_
    # As StableHLO prints both forms.
    is_short = len(arguments) == 2 and not name.startswith("broadcast")
    kinds = f"{type_}, {type_}" if is_short else f"({', '.join(types)})"
    kinds = type_ if len(arguments) == 1 else kinds
    return Row(f"%r = chlo.{name} {operands} : {kinds} -> {result}", types, result, arguments)


F64, C128, S32 = "tensor<2x3xf64>", "tensor<2x3xcomplex<f64>>", "tensor<3xi32>"
BROADCAST = """
    %c = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction LT>}
        : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xi1>
    %s = chlo.broadcast_select %c, %x, %y
        : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
    %z = chlo.broadcast_complex %s, %y : (tensor<2x3xf64>, tensor<3xf64>)
        -> tensor<2x3xcomplex<f64>>
    %i = stablehlo.imag %z : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>
    %a = stablehlo.real %z : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>
    %k = "chlo.constant_like"(%x) <{value = 2.0 : f64}> : (tensor<2x3xf64>) -> tensor<2x3xf64>
    %l = "chlo.constant"() <{value = dense<3.0> : tensor<2x3xf64>}> : () -> tensor<2x3xf64>
    %b = stablehlo.multiply %a, %k : tensor<2x3xf64>
    %d = stablehlo.subtract %b, %i : tensor<2x3xf64>
    %r = stablehlo.subtract %d, %l : tensor<2x3xf64>"""
TOP_K = "%r, %i = chlo.top_k(%x, k = 2) : tensor<2x3xf64> -> (tensor<2x2xf64>, tensor<2x2xi32>)"
COMPLEX = ["sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh"]
ROWS = {name: row(name, F64, (X + (name in SHIFTED),)) for name in [*UNARY, *SHIFTED]}
ROWS |= {
    name: row(name, F64, (np.full((2, 3), ORDERS[name]) if name in ORDERS else X, Y))
    for name in BINARY
}
ROWS |= {f"complex {name}": row(name, C128, (X + 1j * Y,)) for name in COMPLEX}
ROWS |= {
    name: row(name, S32, (np.array([7, 12, 2**30], np.int32), np.array([3, 2, 30], np.int32)))
    for name in INTEGERS
}
ROWS |= {
    name: row(name, "tensor<4xf64>", (np.array([1, np.inf, -np.inf, np.nan]),), "tensor<4xi1>")
    for name in PREDICATES
}
ROWS["broadcast"] = Row(BROADCAST, (F64, "tensor<3xf64>"), F64, (X, np.array([0.3, 0.4, 0.5])))
ROWS["top_k"] = Row(TOP_K, (F64,), "tensor<2x2xf64>", (X,))


# Sums over k of powers of x + k, where x is negative. The fractions are exact.
BELOW = np.array([-1e-9, -0.25, -1.3, -3.75, -7.6, -8.4, -9.5, -20.3, -1000.7, -1e5 - 0.25])


def polygamma_below(order, x):
    """By reflection: polygamma(n, 1 - x) and the n-th derivative of pi cot(pi x)."""
    sine, cosine = np.sin(np.pi * (x - np.rint(x))), np.cos(np.pi * (x - np.rint(x)))
    cotangents = [cosine / sine, -1 / sine**2, 2 * cosine / sine**3, -(2 + 4 * cosine**2) / sine**4]
    above = (-1) ** order * scipy.special.polygamma(order, 1 - x)
    return above - np.pi ** (order + 1) * cotangents[order]


def zeta_below(exponent, x):
    return (-1) ** exponent * polygamma_below(exponent - 1, x) / math.factorial(exponent - 1)


VALUES_BELOW = {
    "lgamma below": scipy.special.gammaln,
    "digamma below": scipy.special.digamma,
    "polygamma below": lambda x: polygamma_below(2, x),
    "zeta below": lambda x: zeta_below(2, x),
}
DERIVATIVES_BELOW = {
    "digamma below": lambda x: polygamma_below(1, x),
    "polygamma below": lambda x: polygamma_below(3, x),
    "zeta below": lambda x: -2 * zeta_below(3, x),
}
ROWS |= {
    name: row(
        name.removesuffix(" below"),
        "tensor<10xf64>",
        (*([np.full(10, 2.0)] if name[0] in "pz" else []), BELOW),
    )
    for name in VALUES_BELOW
}


@functools.cache
def imported(name):
    inputs = ", ".join([f"%{x}: {type_}" for x, type_ in zip("xy", ROWS[name].types, strict=False)])
    return mx.import_stablehlo(main(ROWS[name].body, inputs, ROWS[name].result))


def value(name):
    return lambda *given: imported(name)(*given)


def gradient(name):
    """The derivative of the sum of a program's result with respect to the last argument."""
    last = len(ROWS[name].arguments) - 1
    return mx.grad(lambda *given: mx.numpy.sum(imported(name)(*given)), last)


DERIVED = [name for name, (_, each) in (UNARY | SHIFTED | BINARY).items() if each is not None]
FUNCTIONS = {name: value(name) for name in ROWS}
FUNCTIONS |= {
    f"derivative of {name}": gradient(name) for name in [*DERIVED, *DERIVATIVES_BELOW, "top_k"]
}


def arguments_of(name):
    return ROWS[name.removeprefix("derivative of ")].arguments


@functools.cache
def compiled():
    """What all functions give in one compiled program."""
    return compiled_rows({name: (each, arguments_of(name)) for name, each in FUNCTIONS.items()})


def results(name):
    """What a function gives in NumPy and compiled; raises the error of one that fails."""
    yield mx.reference(FUNCTIONS[name])(*arguments_of(name))
    yield compiled()(name)


#: Compositions of functions in f64, some hundreds of roundings: lgamma is 63 steps apart.
RTOL = 1e-13


def check(name, wanted, rtol=RTOL):
    for found in results(name):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-300)


def check_derivative(name, wanted, rtol=RTOL):
    check(f"derivative of {name}", wanted, rtol)
    *others, last = ROWS[name].arguments
    one = functools.partial(imported(name), *others)
    moved = mx.reference(lambda y: mx.jvp(one, (y,), (np.ones_like(y),))[1])(last)
    np.testing.assert_allclose(moved, wanted, rtol=rtol)


@pytest.mark.parametrize("name", [*UNARY, *SHIFTED])
def test_unary(name):
    function, derivative = (UNARY | SHIFTED)[name]
    check(name, function(*ROWS[name].arguments))
    check_derivative(name, derivative(*ROWS[name].arguments))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    words = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    words |= {"acosh": "arccosh", "atanh": "arctanh"}
    wanted = getattr(np, words.get(name, name))(*ROWS[f"complex {name}"].arguments)
    check(f"complex {name}", wanted)


def test_complex_sinh_keeps_digits_near_0():
    kind = "tensor<6xcomplex<f64>>"
    text = f"func.func @main(%0: {kind}) -> {kind} {{\n%1 = chlo.sinh %0 : {kind} -> {kind}\n"
    program = mx.import_stablehlo(f"{text}return %1 : {kind}\n}}")
    z = np.array([1e-9 + 1e-7j, -1e-12j, 1e-300 + 0j, 0.3 + 1e-20j, 2 - 1j, -1e-5 + 3j])
    with jax.enable_x64(True):
        for found in (mx.jit(program)(z), mx.reference(program)(z)):
            # NumPy's and ours are a few ulp from the truth, of 2.2e-16 each.
            np.testing.assert_allclose(found, np.sinh(z), rtol=1e-14)


@pytest.mark.parametrize("z", [-2 + 0.5j, -0.3 - 2j, -4 + 1e-3j, 2 + 0.5j])
def test_derivative_of_complex_acosh(z):
    # JAX's is the negative where the real part is.
    function = through_stablehlo(jax.lax.acosh)
    for evaluate in (mx.reference, mx.jit):
        found = evaluate(mx.grad(function, holomorphic=True))(np.complex128(z))
        np.testing.assert_allclose(found, 1 / (np.sqrt(z - 1) * np.sqrt(z + 1)), rtol=1e-12)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, derivative = BINARY[name]
    check(name, function(*ROWS[name].arguments))
    if derivative is not None:
        check_derivative(name, derivative(*ROWS[name].arguments))


@pytest.mark.parametrize("name", [*INTEGERS, *PREDICATES])
def test_integers_and_predicates(name):
    wanted = (INTEGERS | PREDICATES)[name](*ROWS[name].arguments)
    for found in results(name):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", VALUES_BELOW)
def test_negative_operands(name):
    check(name, VALUES_BELOW[name](BELOW), 2e-12)


@pytest.mark.parametrize("name", DERIVATIVES_BELOW)
def test_derivatives_at_negative_operands(name):
    check_derivative(name, DERIVATIVES_BELOW[name](BELOW), 2e-12)


def test_sums_at_infinity():
    orders = np.float64([0, 1, 2, 3] + [3] * 6)
    exponents = np.float64([1, 1.5, 2, 3] + [3] * 6)
    far = np.full(10, np.inf)

    def found():
        polygamma, zeta = imported("polygamma below"), imported("zeta below")
        return [polygamma(orders, far), zeta(exponents, far)]

    for evaluate in (mx.reference, mx.jit):
        polygamma, zeta = evaluate(found)()
        np.testing.assert_array_equal(polygamma, [np.inf] + [0] * 9)
        np.testing.assert_array_equal(zeta, scipy.special.zeta(exponents, far))


def test_second_derivative_of_lgamma_at_negative_operands():
    first = mx.grad(lambda x: mx.numpy.sum(imported("lgamma below")(x)))
    found = mx.reference(mx.grad(lambda x: mx.numpy.sum(first(x))))(BELOW)
    np.testing.assert_allclose(found, polygamma_below(1, BELOW), rtol=2e-12)


# Types narrower than f32: the interval whose values are all tried.
INTERVALS = dict.fromkeys(["asin", "acos", "atanh"], (-1, 1)) | {"acosh": (1, 100)}
INTERVALS |= dict.fromkeys(["asinh", "atan"], (-100, 100)) | {"erfc": (-9, 9), "sinh": (-9, 9)}


def of_vector(name, size, kind):
    type_ = f"tensor<{size}x{kind}>"
    return mx.import_stablehlo(
        main(f"%r = chlo.{name} %x : {type_} -> {type_}", f"%x: {type_}", type_)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", INTERVALS)
def test_derivatives_of_narrow_types_are_rounded_once(name, kind):
    low, high = INTERVALS[name]
    dtype = element_type(kind).dtype
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    x = x[(x.astype(np.float64) > low) & (x.astype(np.float64) < high)]
    wanted = (UNARY | SHIFTED)[name][1](x.astype(np.float64))
    limits = ml_dtypes.finfo(dtype)
    bound = 0.51 * float(limits.eps) * np.abs(wanted) + float(limits.smallest_normal)
    function = of_vector(name, x.size, kind)
    ones = np.ones_like(x)
    for evaluate in (mx.reference, mx.jit):
        found = evaluate(lambda x: mx.vjp(function, x)[1](ones)[0])(x)
        assert found.dtype == dtype
        assert (np.abs(np.asarray(found).astype(np.float64) - wanted) <= bound).all()


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_derivative_of_digamma_of_narrow_types(kind):
    dtype = element_type(kind).dtype
    x = np.array([-0.5, -1.375, -9.5, -33.25, -100.5, 0.75]).astype(dtype)
    digamma = of_vector("digamma", 6, kind)
    derivative = mx.grad(lambda x: mx.numpy.sum(digamma(x).astype("f4")))
    wanted = polygamma_below(1, x.astype(np.float64))
    for found in (mx.jit(derivative)(x), mx.reference(derivative)(x)):
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.astype(np.float64), wanted, rtol=16 * float(ml_dtypes.finfo(dtype).eps)
        )


def test_the_others_that_broadcast():
    x, vector = ROWS["broadcast"].arguments
    check("broadcast", 2 * np.minimum(x, vector) - vector - 3)


def test_top_k():
    check("top_k", np.sort(X)[:, :0:-1])
    check("derivative of top_k", np.float64([[0, 1, 1]] * 2))


def test_every_operation_is_here():
    # ragged_dot and scan have the values of jax.lax: see tests/minixla/bridge/function_rows.py.
    tested = {*UNARY, *SHIFTED, *BINARY, *INTEGERS, *PREDICATES, *ELSEWHERE.split()}
    found = {getattr(each, "OPERATION_NAME", None) for each in vars(chlo).values()} - {None}
    assert {f"chlo.{name}" for name in tested} == found
    assert found <= set(TRANSLATIONS)
