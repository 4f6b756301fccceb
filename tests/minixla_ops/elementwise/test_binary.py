"""Element-wise arithmetic of two operands."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ShapeError
from minixla.core.operation import REGISTRY
from minixla_ops.helpers.casting import cast
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.operand_pairs import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMERIC,
    SIGNED,
    WITHOUT_INFINITY,
    WITHOUT_INTERPRETER,
    WITHOUT_XLA,
    check_element_types,
    normal,
    pairs,
)
from tests.oracles.compare import assert_same
from tests.oracles.interpreter import run_stablehlo
from tests.oracles.values import random_values

# Builder, name in XLA, HLO opcode, element types.
BUILDERS = {
    "add": (ops.add, "Add", "add", ALL),
    "sub": (ops.sub, "Sub", "subtract", NUMERIC),
    "mul": (ops.mul, "Mul", "multiply", ALL),
    "div": (ops.div, "Div", "divide", NUMERIC),
    "rem": (ops.rem, "Rem", "remainder", [*INTEGERS, *FLOATS]),
    "pow": (ops.pow, "Pow", "power", NUMERIC),
    "max": (ops.max, "Max", "maximum", ALL),
    "min": (ops.min, "Min", "minimum", ALL),
    "atan2": (ops.atan2, "Atan2", "atan2", [*FLOATS, *COMPLEX]),
    "complex": (ops.complex, "Complex", "complex", ["f32", "f64"]),
}
# Products, quotients and powers of complex numbers have tests of their own.
ROUNDED = ("mul", "div", "pow", "atan2")
CASES = [
    (name, kind)
    for name, (_, _, _, kinds) in BUILDERS.items()
    for kind in kinds
    if not (name in ROUNDED and kind in COMPLEX)
]
BY_ZERO = ("div", "rem", "pow")


@functools.cache
def values_of(name):
    """The rows of a builder, an element type each, as the interpreter and as XLA is asked."""
    function = BUILDERS[name][0]
    rows = {}
    for kind in [kind for each, kind in CASES if each == name]:
        # XLA computes powers and angles of narrow floats in few bits, others to one step.
        ulp = 1 if name in ("pow", "atan2") and kind in FLOATS else 0
        for_interpreter = for_xla = pairs(kind)
        if kind in INTEGERS and name in ("div", "rem"):  # which kill the interpreter
            for_interpreter = defined_quotients(for_interpreter)
        if kind in WITHOUT_INFINITY and name in BY_ZERO:
            for_interpreter = [
                x[(for_interpreter[0] != 0) & (for_interpreter[1] != 0)] for x in for_interpreter
            ]
        if kind in INTEGERS and name == "pow":  # XLA takes exponents modulo 64
            for_xla = [x[for_xla[1].astype(object) < 64] for x in for_xla]
        rows[kind, "interpreter"] = (
            function,
            for_interpreter,
            {"ulp": ulp, "xla": False, "interpreter": kind not in WITHOUT_INTERPRETER},
        )
        rows[kind, "XLA"] = (
            function,
            normal(function, for_xla),
            {"ulp": ulp, "xla": kind not in WITHOUT_XLA, "interpreter": False},
        )
    return Together(rows)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_values(name, kind):
    for oracle in ("interpreter", "XLA"):
        values_of(name).check((kind, oracle))


def defined_quotients(operands):
    lhs, rhs = operands
    least = ml_dtypes.iinfo(lhs.dtype).min
    is_undefined = (rhs == 0) | ((lhs == least) & (rhs == -1) & (least < 0))
    return [each[~is_undefined] for each in operands]


@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize("name", ROUNDED)
def test_complex_values(name, kind):
    dtype = ELEMENT_TYPES[kind].dtype
    operands = [random_values(dtype, (400,), seed) for seed in (1, 2)]
    # XLA fuses the multiplications with the additions of a product and a quotient; in powers and
    # angles the rounding of the logarithm is multiplied by exponents of up to 6.
    ulp = {"mul": 2, "div": 3, "pow": 20, "atan2": 16}[name]
    check_operation(BUILDERS[name][0], operands, ulp=ulp, normwise=True, optimized=True)


def test_complex_quotients_of_zeros_and_infinities():
    # StableHLO's interpreter divides as C99's Annex G says; XLA does, but for signs of zeros.
    parts = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan])
    values = np.empty(len(parts) ** 2, complex)
    values.real, values.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    operands = [np.repeat(values, len(values)), np.tile(values, len(values))]
    check_operation(ops.div, operands, signed_zeros=False)


@pytest.mark.parametrize("kind", COMPLEX)
def test_complex_powers_of_zero_one_and_infinity(kind):
    bases = np.array([0, 0, 0, 1, 1, np.inf, np.inf, np.inf, 2], kind.replace("c", "complex"))
    exponents = np.array([0, 2, 0.5, np.inf, 1j, 0, 3, -1, 0], bases.dtype)
    (result,) = check_operation(ops.pow, [bases, exponents], interpreter=False)  # it gives NaN
    np.testing.assert_array_equal(result, [1, 0, 0, 1, 1, 1, np.inf, 0, 1])


@pytest.mark.parametrize("kind", SIGNED)
def test_division_rounds_toward_zero_and_the_remainder_has_the_sign_of_the_dividend(kind):
    # The facts that the specification derives: Rem(-7, 3) = -1 and Rem(7, -3) = 1.
    if kind == "s2":
        lhs, rhs, quotient, rest = [-1, 1], [1, -1], [-1, -1], [0, 0]
    else:
        lhs, rhs = [-7, 7, -7, 7], [3, -3, -3, 3]
        quotient, rest = [-2, -2, 2, 2], [-1, 1, -1, 1]
    operands = [np.array(x, ELEMENT_TYPES[kind].dtype) for x in (lhs, rhs)]
    results = check_operation(lambda x, y: (ops.div(x, y), ops.rem(x, y)), operands)
    for actual, expected in zip(results, (quotient, rest), strict=True):
        np.testing.assert_array_equal(actual.astype(int), expected)


@functools.cache
def undefined_quotients():
    rows = {}
    for kind in INTEGERS:
        info = ml_dtypes.iinfo(ELEMENT_TYPES[kind].dtype)
        lhs = np.array([info.min, info.max, 1, 0, info.min], ELEMENT_TYPES[kind].dtype)
        rhs = np.array([0, 0, 0, 0, info.max], lhs.dtype)
        if info.min:
            rhs[-1] = -1
        for name in ("div", "rem"):
            # They kill the interpreter.
            rows[name, kind] = BUILDERS[name][0], [lhs, rhs], {"interpreter": False}
    return Together(rows)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["div", "rem"])
def test_undefined_integer_quotients_are_those_of_xla(name, kind):
    undefined_quotients().check((name, kind))


def test_remainder_of_floats_is_that_of_c():
    lhs = np.array([7.5, -7.5, 5, -0.0, np.inf, 1, np.nan, 1e300, 3])
    rhs = np.array([2, 2, np.inf, 3, 2, 0, 1, 3, -np.inf])
    (result,) = check_operation(ops.rem, [lhs, rhs])
    assert_same(result, np.array([1.5, -1.5, 5, -0.0, np.nan, np.nan, np.nan, 1e300 % 3, 3]))


def test_integer_powers():
    base = np.array([0, 0, 0, 1, -1, -1, 2, 2, 3, 10, -2], np.int32)
    exponent = np.array([0, -1, 5, -7, -7, -8, -1, 31, 21, 9, 31], np.int32)
    expected = [1, 0, 0, 1, -1, 1, 0, 2**31, 3**21, 10**9, -(2**31)]
    (result,) = check_operation(ops.pow, [base, exponent])
    np.testing.assert_array_equal(result, np.array(expected).astype(np.int32))


def test_integer_powers_with_exponents_that_xla_cuts():
    # XLA:CPU takes them modulo 64; StableHLO and the reference do not.
    base, exponent = np.array([0, 3, 2], np.int64), np.array([64, 65, 100], np.int64)
    (result,) = check_operation(ops.pow, [base, exponent], xla=False)
    wrapped = (3**65 + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(result, [0, wrapped, 0])


def test_pred_is_boolean_algebra():
    lhs, rhs = np.array([False, False, True, True]), np.array([False, True, False, True])
    for function, expected in [
        (ops.add, lhs | rhs),
        (ops.mul, lhs & rhs),
        (ops.max, lhs | rhs),
        (ops.min, lhs & rhs),
    ]:
        np.testing.assert_array_equal(check_operation(function, [lhs, rhs])[0], expected)


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "f64", "f8e5m2"])
def test_extremum_of_nan_and_of_zeros(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    lhs = np.array([np.nan, 1, 0.0, -0.0, np.inf], dtype)
    rhs = np.array([1, np.nan, -0.0, 0.0, -np.inf], dtype)
    largest, least = check_operation(lambda x, y: (ops.max(x, y), ops.min(x, y)), [lhs, rhs])
    assert_same(largest, np.array([np.nan, np.nan, 0.0, 0.0, np.inf], dtype))
    assert_same(least, np.array([np.nan, np.nan, -0.0, -0.0, -np.inf], dtype))


def test_extremum_of_complex_numbers_is_lexicographic():
    lhs = np.array([1 + 5j, 2 + 0j, 1 + 1j], np.complex64)
    rhs = np.array([2 - 9j, 2 + 1j, 1 + 1j], np.complex64)
    largest, least = check_operation(lambda x, y: (ops.max(x, y), ops.min(x, y)), [lhs, rhs])
    np.testing.assert_array_equal(largest, [2 - 9j, 2 + 1j, 1 + 1j])
    np.testing.assert_array_equal(least, [1 + 5j, 2 + 0j, 1 + 1j])


def test_complex_keeps_both_parts():
    lhs, rhs = np.array([1.0, -0.0, np.inf], np.float32), np.array([-0.0, np.nan, 2], np.float32)
    (result,) = check_operation(ops.complex, [lhs, rhs])
    assert_same(np.real(result), lhs)
    assert_same(np.imag(result), rhs)


def test_narrow_floats_round_once():
    for kind in ("bf16", "f16", "f8e4m3fn"):
        lhs, rhs = (random_values(ELEMENT_TYPES[kind].dtype, (500,), seed) for seed in (3, 4))
        # Sums and products of such numbers are exact in f64, quotients as good as exact.
        for name, exact in [("add", np.add), ("mul", np.multiply), ("div", np.divide)]:
            (result,) = reference_graph(graph_of(BUILDERS[name][0], [lhs, rhs]), [lhs, rhs])
            wide = exact(lhs.astype(np.float64), rhs.astype(np.float64))
            assert_same(result, cast(wide, ELEMENT_TYPES[kind]), name=f"{name} {kind}")


# Derivatives.


def positive(shape, seed):
    return random_values(np.float64, shape, seed, 0.5, 3.0)


LHS, RHS = random_values(np.float64, (2, 3), 1), random_values(np.float64, (2, 3), 2, 0.6, 2.5)
COMPLEX_PAIR = [random_values(np.complex128, (3,), seed, 0.5, 2.0) for seed in (1, 2)]
DERIVATIVES = {
    "add": (ops.add, lax.add, [LHS, RHS]),
    "sub": (ops.sub, lax.sub, [LHS, RHS]),
    "mul": (ops.mul, lax.mul, [LHS, RHS]),
    "div": (ops.div, lax.div, [LHS, RHS]),
    "rem": (ops.rem, lax.rem, [LHS * 3, RHS]),
    "pow": (ops.pow, lax.pow, [RHS, LHS]),
    "max": (ops.max, lax.max, [LHS, RHS]),
    "min": (ops.min, lax.min, [LHS, RHS]),
    "atan2": (ops.atan2, lax.atan2, [LHS, RHS]),
    "complex": (ops.complex, lax.complex, [LHS, RHS]),
    "add of complex": (ops.add, lax.add, COMPLEX_PAIR),
    "sub of complex": (ops.sub, lax.sub, COMPLEX_PAIR),
    "mul of complex": (ops.mul, lax.mul, COMPLEX_PAIR),
    "div of complex": (ops.div, lax.div, COMPLEX_PAIR),
    "pow of complex": (ops.pow, lax.pow, COMPLEX_PAIR),
    "atan2 of complex": (ops.atan2, lax.atan2, COMPLEX_PAIR),
    "max of complex": (ops.max, lax.max, COMPLEX_PAIR),
    "min of complex": (ops.min, lax.min, COMPLEX_PAIR),
}


OF_BOTH = DerivativesTogether(
    {
        case: (function, operands, jax_function, {})
        for case, (function, jax_function, operands) in DERIVATIVES.items()
    }
)


@pytest.mark.parametrize("case", DERIVATIVES)
def test_derivatives(case):
    OF_BOTH.check(case)


def of_one(apply, operands, position):
    """The function of one operand, the other one being fixed."""
    fixed = operands[1 - position]
    return lambda x: apply(x, fixed) if position == 0 else apply(fixed, x)


OF_ONE = DerivativesTogether(
    {
        (name, position): (
            of_one(function, operands, position),
            [operands[position]],
            of_one(jax_function, operands, position),
            {},
        )
        for name, (function, jax_function, operands) in DERIVATIVES.items()
        if " " not in name
        for position in (0, 1)
    }
)


@pytest.mark.parametrize("row", OF_ONE.rows, ids=str)
def test_derivatives_in_one_operand(row):
    OF_ONE.check(row)


@pytest.mark.parametrize("name", ["max", "min"])
def test_each_of_two_equal_operands_has_half_of_the_derivative(name):
    function, jax_function, _ = DERIVATIVES[name]
    operands = [np.array([1.0, 2.0, -0.0, np.inf, np.nan]), np.array([1.0, 1.0, 0.0, np.inf, 1.0])]
    # Finite differences have no meaning at a kink; JAX's convention has.
    check_derivatives(function, operands, jax_function, order=1, differences=False)


def test_derivatives_of_powers_of_zero():
    operands = [np.array([0.0, 0.0, 0.0, 2.0]), np.array([1.0, 2.0, 3.0, 0.0])]
    # Finite differences of 0 ** y are not defined on both sides.
    check_derivatives(ops.pow, operands, lax.pow, order=1, differences=False)


def test_only_wanted_derivatives_are_computed():
    def square_root(x):
        return ops.pow(x, np.full((3,), 0.5, np.float32))

    graph = mx.make_graph(lambda x: mx.jvp(square_root, (x,), (x,))[1])(np.ones(3, np.float32))
    assert "log" not in str(graph)


def test_derivative_rules_may_divide_tangents():
    @mx.custom_jvp
    def scaled(x):
        return x / 3.0

    scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] / 3.0))
    x, cotangent = np.array([3.0, 6.0], np.float32), np.array([1.0, 2.0], np.float32)
    (gradient,) = mx.vjp(lambda v: scaled(v) * v, x)[1](cotangent)
    np.testing.assert_allclose(gradient, cotangent * 2 * x / 3, rtol=1e-6)


# Batching, shapes, text.


@pytest.mark.parametrize("name", BUILDERS)
def test_batching(name):
    function = BUILDERS[name][0]
    check_batching(function, [random_values(np.float32, (2, 3), seed, 0.5, 3) for seed in (1, 2)])
    check_batching(function, [np.float32(1.5), np.float32(0.5)])


@pytest.mark.parametrize("name", BUILDERS)
def test_broadcast_dimensions(name):
    function = BUILDERS[name][0]
    higher, lower = (random_values(np.float32, shape, 1, 0.5, 3) for shape in ((2, 3), (2,)))
    forms = {
        "lower second": (lambda x, y: function(x, y, (0,)), [higher, lower], lower[:, None]),
        "scalar": (function, [higher, np.float32(2)], np.float32(2)),
        "degenerate": (function, [higher, lower[:, None]], lower[:, None]),
    }
    for form, (apply, operands, spread) in forms.items():
        (result,) = reference_graph(graph_of(apply, operands), operands)
        spread = np.broadcast_to(spread, higher.shape)
        (expected,) = reference_graph(graph_of(function, [higher, spread]), [higher, spread])
        np.testing.assert_array_equal(result, expected, err_msg=form)


def test_operands_keep_their_order():
    lower, higher = np.array([1, 2, 3, 4]), np.array([[5, 6]])
    for apply, expected in [
        (lambda x, y: ops.sub(x, y, (0,)), [[-4, -5], [-3, -4], [-2, -3], [-1, -2]]),
        (lambda x, y: ops.sub(y, x, (0,)), [[4, 5], [3, 4], [2, 3], [1, 2]]),
    ]:
        np.testing.assert_array_equal(check_operation(apply, [lower, higher])[0], expected)


EMPTY_AND_SCALAR = Together(
    {
        (name, shape): (function, [np.full(shape, 2, np.float32)] * 2, {"ulp": 1})
        for name, (function, *_) in BUILDERS.items()
        for shape in [(), (0,), (2, 0, 3), (1, 1, 1, 1)]
    }
)


@pytest.mark.parametrize("row", EMPTY_AND_SCALAR.rows, ids=str)
def test_empty_and_scalar_operands(row):
    EMPTY_AND_SCALAR.check(row)


@pytest.mark.parametrize("name", BUILDERS)
def test_element_types(name):
    function, _, _, kinds = BUILDERS[name]
    check_element_types(name, function, kinds)


@pytest.mark.parametrize("name", BUILDERS)
def test_operands_of_other_shapes_are_rejected(name):
    function, xla_name, _, _ = BUILDERS[name]
    f32, f64 = np.ones((2, 3), np.float32), np.ones((2, 3))
    given = ["lhs f32[2,3]", "rhs f64[2,3]"]

    def build(x, y):
        return function(x, y)

    check_rejected(build, [f32, f64], ShapeError, "(B1)", name, *given)
    check_rejected(build, [f32, f32[0]], ShapeError, "(E1)", name)

    def bound(x, y):
        return REGISTRY[xla_name]()(x, y)

    check_rejected(bound, [f32, f32[:1]], ShapeError, "(C1)", name, "differ in dimensions")
    check_rejected(bound, [f32, f64], ShapeError, "(C1)", "element types", *given)


@pytest.mark.parametrize("name", BUILDERS)
def test_text(name):
    function, xla_name, opcode, _ = BUILDERS[name]
    graph = graph_of(function, [np.ones(2, np.float32)] * 2)
    assert [each.op for each in graph.instructions] == [REGISTRY[xla_name]()]
    assert f" {opcode}(" in str(graph)
    assert f"stablehlo.{opcode}" in graph.stablehlo()
    assert function.__name__ == name and xla_name in function.__doc__


def test_complex_extremum_is_decomposed_for_xla():
    # XLA:CPU's maximum compares the real parts alone.
    graph = graph_of(ops.max, [np.ones(2, np.complex64)] * 2)
    assert "stablehlo.maximum" not in graph.stablehlo()
    assert " maximum(" in str(graph)


def test_engine_and_interpreter_agree_on_a_program():
    def function(x, y):
        return ops.max(ops.div(ops.add(x, y), ops.atan2(x, y)), ops.rem(x, y))

    x, y = (random_values(np.float32, (4,), seed, 0.5, 3) for seed in (5, 6))
    (expected,) = run_stablehlo(graph_of(function, [x, y]).stablehlo(), [x, y])
    np.testing.assert_allclose(mx.jit(function)(x, y), expected, rtol=1e-6)
    np.testing.assert_allclose(function(jnp.asarray(x), jnp.asarray(y)), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(function)(x, y), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (4,)])
@pytest.mark.parametrize("is_broadcast", [False, True])
def test_power_of_one_half_is_no_square_root(kind, shape, is_broadcast):
    half = np.broadcast_to(np.array(0.5, kind), shape)
    for base, expected in ((-np.inf, np.inf), (-0.0, 0.0), (4.0, 2.0)):
        operand = np.full(shape, base, kind)
        found = mx.reference(ops.pow)(operand, half if is_broadcast else half.copy())
        np.testing.assert_array_equal(found, np.full(shape, expected, kind))
        assert not np.signbit(found).any()
