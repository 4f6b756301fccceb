"""Operations of the chlo dialect: values in NumPy and by XLA, derivatives, both against SciPy's."""

import math

import jax
import numpy as np
import pytest
import scipy.special
from jax.extend.mlir.dialects import chlo

import minixla as mx
from minixla.interop.module import TRANSLATIONS
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


def imported(body, *types, result):
    inputs = ", ".join([f"%{name}: {type_}" for name, type_ in zip("xy", types, strict=False)])
    return mx.import_stablehlo(main(body, inputs, result))


def check(program, wanted, *arguments, rtol=1e-12):
    for run in (mx.reference(program), mx.jit(program)):
        np.testing.assert_allclose(run(*arguments), wanted, rtol=rtol, atol=1e-300)


def check_derivative(program, wanted, *arguments, rtol=1e-11):
    def total(*given):
        return mx.numpy.sum(program(*given))

    last = len(arguments) - 1
    check(mx.grad(total, last), wanted, *arguments, rtol=rtol)
    one = lambda y: program(*arguments[:-1], y)  # noqa: E731
    moved = mx.reference(lambda y: mx.jvp(one, (y,), (np.ones_like(y),))[1])(arguments[-1])
    np.testing.assert_allclose(moved, wanted, rtol=rtol)


@pytest.mark.parametrize("name", [*UNARY, *SHIFTED])
def test_unary(name):
    function, derivative = (UNARY | SHIFTED)[name]
    x, type_ = X + (name in SHIFTED), "tensor<2x3xf64>"
    program = imported(f"%r = chlo.{name} %x : {type_} -> {type_}", type_, result=type_)
    check(program, function(x), x)
    check_derivative(program, derivative(x), x)


@pytest.mark.parametrize("name", ["sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_complex(name):
    z, type_ = X + 1j * Y, "tensor<2x3xcomplex<f64>>"
    program = imported(f"%r = chlo.{name} %x : {type_} -> {type_}", type_, result=type_)
    words = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    words |= {"acosh": "arccosh", "atanh": "arctanh"}
    check(program, getattr(np, words.get(name, name))(z), z)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, derivative = BINARY[name]
    type_ = "tensor<2x3xf64>"
    kinds = f"({type_}, {type_}) -> {type_}" if "broad" in name else f"{type_}, {type_} -> {type_}"
    program = imported(f"%r = chlo.{name} %x, %y : {kinds}", type_, type_, result=type_)
    x = X if name not in ORDERS else np.full((2, 3), ORDERS[name])
    check(program, function(x, Y), x, Y)
    if derivative is not None:
        check_derivative(program, derivative(x, Y), x, Y)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    x, y = np.array([7, 12, 2**30], np.int32), np.array([3, 2, 30], np.int32)
    type_ = "tensor<3xi32>"
    kinds = f"({type_}, {type_}) -> {type_}" if "_" in name else f"{type_}, {type_} -> {type_}"
    program = imported(f"%r = chlo.{name} %x, %y : {kinds}", type_, type_, result=type_)
    for run in (mx.reference(program), mx.jit(program)):
        np.testing.assert_array_equal(run(x, y), INTEGERS[name](x, y))


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name):
    x = np.array([1, np.inf, -np.inf, np.nan])
    text = f"%r = chlo.{name} %x : tensor<4xf64> -> tensor<4xi1>"
    program = imported(text, "tensor<4xf64>", result="tensor<4xi1>")
    for run in (mx.reference(program), mx.jit(program)):
        np.testing.assert_array_equal(run(x), PREDICATES[name](x))


def test_the_others_that_broadcast():
    body = """
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
    program = imported(body, "tensor<2x3xf64>", "tensor<3xf64>", result="tensor<2x3xf64>")
    row = np.array([0.3, 0.4, 0.5])
    check(program, 2 * np.minimum(X, row) - row - 3, X, row)


def test_top_k():
    text = "%r, %i = chlo.top_k(%x, k = 2) : tensor<2x3xf64> -> (tensor<2x2xf64>, tensor<2x2xi32>)"
    program = imported(text, "tensor<2x3xf64>", result="tensor<2x2xf64>")
    check(program, np.sort(X)[:, :0:-1], X)
    check(mx.grad(lambda x: mx.numpy.sum(program(x))), np.float64([[0, 1, 1]] * 2), X)


def test_every_operation_is_here():
    # ragged_dot and scan are what jax.lax gives: see jax_rows.
    tested = {*UNARY, *SHIFTED, *BINARY, *INTEGERS, *PREDICATES, *ELSEWHERE.split()}
    found = {getattr(each, "OPERATION_NAME", None) for each in vars(chlo).values()} - {None}
    assert {f"chlo.{name}" for name in tested} == found
    assert found <= set(TRANSLATIONS)
