"""What the base classes of element-wise operations do for every member."""

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ShapeError
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.core.tracing import bind, trace_to_graph
from minixla_ops.elementwise.families import FLOATS, INEXACT, SIGNED, Binary, Elementwise, Unary
from minixla_ops.helpers.casting import widened
from tests.harness import check_batching, check_derivatives, check_operation, check_rejected


class Tanh(Unary):
    """A member, in what a member needs."""

    stablehlo_name = "tanh"
    element_types = INEXACT
    numpy = np.tanh

    def derivative(self, operand, result):
        return 1 - result * result


class Hypotenuse(Binary):
    """A member without a text of its own."""

    element_types = FLOATS
    numpy = np.hypot

    def derivatives(self, lhs, rhs, result, /):
        return lambda: lhs / result, lambda: rhs / result


class Doubled(Unary):
    """A member whose sums may overflow."""

    element_types = FLOATS | SIGNED
    numpy = staticmethod(lambda x: x + x)


TANH, HYPOTENUSE, DOUBLED = Tanh(), Hypotenuse(), Doubled()


def tanh(x):
    return bind(TANH, x)


def hypotenuse(x, y):
    return bind(HYPOTENUSE, x, y)


def test_a_unary_member_is_a_formula_and_its_derivative():
    operand = np.array([[0.5, -1.5, 2.0]])
    check_operation(tanh, [operand], ulp=7)
    check_derivatives(tanh, [operand], jax.lax.tanh)
    check_batching(tanh, [operand])


def test_a_binary_member_is_a_formula_and_its_derivatives():
    operands = [np.array([3.0, 0.5]), np.array([4.0, -1.0])]
    check_derivatives(hypotenuse, operands, jax.numpy.hypot)
    check_batching(hypotenuse, operands)


def test_only_the_derivatives_that_are_asked_for_are_computed():
    graph = mx.make_graph(lambda x, y: mx.grad(lambda z: hypotenuse(z, y))(x))(
        np.float32(3), np.float32(4)
    )
    divisions = [each for each in graph.instructions if each.op.name == "Div"]
    assert len(divisions) == 1


REJECTED = [
    # Operands, what the message says besides their shapes.
    (
        [np.zeros(3, np.float32), np.zeros(3, np.float64)],
        "(C1) operands lhs and rhs differ in their element types",
    ),
    (
        [np.zeros(3, np.float32), np.zeros((3, 1), np.float32)],
        "(C1) operands lhs and rhs differ in dimensions",
    ),
    (
        [np.zeros(3, np.float32), np.zeros((), np.float32)],
        "(C1) operands lhs and rhs differ in dimensions",
    ),
    ([np.zeros(3, np.int32), np.zeros(3, np.int32)], "(C2) element type s32 is not supported"),
    ([np.zeros(3, np.float32)], "got 1 operands"),
]


@pytest.mark.parametrize(("operands", "problem"), REJECTED)
def test_rejected(operands, problem):
    given = [str(Shape(operand.dtype, operand.shape)) for operand in operands[:1]]
    check_rejected(
        lambda *xs: bind(HYPOTENUSE, *xs), operands, ShapeError, f"hypotenuse: {problem}", *given
    )


WIDENED = [
    # Type, what NumPy computes in, and for functions that are not exact.
    ("s2", "s8", "s8"),
    ("u4", "u8", "u8"),
    ("s8", "s8", "s8"),
    ("u64", "u64", "u64"),
    ("pred", "pred", "pred"),
    ("f4e2m1fn", "f32", "f64"),
    ("f8e8m0fnu", "f32", "f64"),
    ("bf16", "f32", "f64"),
    ("f16", "f32", "f64"),
    ("f32", "f32", "f64"),
    ("f64", "f64", "f64"),
    ("c64", "c64", "c128"),
    ("c128", "c128", "c128"),
]


@pytest.mark.parametrize(("kind", "exact", "in_double"), WIDENED)
def test_widened(kind, exact, in_double):
    assert widened(ELEMENT_TYPES[kind]) is ELEMENT_TYPES[exact]
    assert widened(ELEMENT_TYPES[kind], in_double=True) is ELEMENT_TYPES[in_double]


def test_narrow_types_are_rounded_once_or_wrap():
    eighth = np.array([1.125, 240.0], ml_dtypes.float8_e4m3)
    assert DOUBLED.reference(eighth).astype(np.float32).tolist() == [2.25, np.inf]
    small = np.array([3, -8, 7], ml_dtypes.int4)
    assert DOUBLED.reference(small).astype(np.int8).tolist() == [6, 0, -2]
    assert DOUBLED.reference(np.array([100], np.int8)).tolist() == [-56]


def test_double_stands_for_any_float():
    # mx.reference(..., precision="float64") hands f64 to operations on narrower types.
    operand = np.linspace(-2, 2, 5)
    graph, _ = trace_to_graph(lambda x: [tanh(x)], [Shape("bf16", (5,))])
    result = graph.instructions[0].op.reference(operand)
    np.testing.assert_array_equal(result, np.tanh(operand))
    double = mx.reference(tanh, precision="float64")(operand.astype(np.float32))
    assert double.dtype == np.float64
    np.testing.assert_array_equal(double, np.tanh(operand))


def test_every_elementwise_operation_has_its_rules():
    for operation in REGISTRY.values():
        if issubclass(operation, Elementwise):
            assert operation.numpy is not None or operation.reference is not Elementwise.reference
            assert operation.has_rule("batch")
            derivable = (
                operation.zero_derivative or operation.no_derivative or operation.linear_operands
            )
            own = any(
                getattr(operation, rule, None) is not getattr(base, rule, None)
                for base, rule in [(Unary, "derivative"), (Binary, "derivatives"), (Unary, "jvp")]
            )
            assert derivable or own, operation.name
