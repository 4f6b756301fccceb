"""Python's operators on tracers, against those of JAX's arrays."""

import functools
import itertools
import operator
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, MinixlaError, ShapeError
from minixla.core.shapes import Shape
from minixla.core.tracing import Tracer, trace_to_graph
from minixla_ops.elementwise import operators
from tests.harness import QUICKLY, by_jax, check_derivatives, check_rejected, graph_of

TWO_SIDED = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ONE_SIDED = {
    "-": operator.neg,
    "+": operator.pos,
    "abs": abs,
    "~": operator.invert,
}
KINDS = ["pred", "u4", "s8", "u8", "s32", "u32", "f8e4m3fn", "bf16", "f16", "f32", "c64"]
NUMBERS = [True, 3, -2, 0.5, 2j]


def types_of_jax(calls):
    """The element types and weaknesses of JAX's results of functions, or None where it refuses.

    All in one evaluation: outside of one JAX filters the traceback of each error, slowly.
    """

    def everything(operands):
        results = []
        for (function, *_), given in zip(calls, operands, strict=True):
            try:
                results.append(function(*given))
            except (TypeError, jax.dtypes.TypePromotionError):
                results.append(None)
        return results

    shapes = jax.eval_shape(everything, [given for _, *given in calls])
    return [each and (np.dtype(each.dtype), bool(each.weak_type)) for each in shapes]


def type_of_ours(function, *given):
    found = []

    def traced(*tracers):
        result = function(*tracers)
        found.append((result.dtype, result.weak_type))
        return [result]

    try:
        graph, _ = trace_to_graph(traced, [Shape(each.dtype, each.shape) for each in given])
    except MinixlaError:
        return None
    (shape,) = graph.output_shapes
    assert isinstance(shape, Shape) and shape.dtype == found[0][0]
    return found[0]


def spec(kind):
    return jax.ShapeDtypeStruct((2,), ELEMENT_TYPES[kind].dtype)


def kinds_for(symbol):
    # JAX's own power does not know the width of 4-bit integers.
    return [kind for kind in KINDS if (symbol, kind) != ("**", "u4")]


def same(ours, expected):
    # Nothing is weaker than pred, so whether it is weak means nothing.
    if ours and expected and ours[0] == np.bool_:
        return expected[0] == np.bool_
    return ours == expected


@pytest.mark.parametrize("symbol", TWO_SIDED)
def test_types_of_two_arrays(symbol):
    function = TWO_SIDED[symbol]
    pairs = list(itertools.product(map(spec, kinds_for(symbol)), repeat=2))
    of_jax = types_of_jax([(function, *pair) for pair in pairs])
    for pair, expected in zip(pairs, of_jax, strict=True):
        ours = type_of_ours(function, *pair)
        if symbol in ("<", "<=", ">", ">=") and pair[0].dtype == pair[1].dtype == np.complex64:
            expected = np.dtype(bool), False
        assert same(ours, expected), (symbol, [each.dtype.name for each in pair])


@pytest.mark.parametrize("symbol", TWO_SIDED)
def test_types_with_python_numbers(symbol):
    function = TWO_SIDED[symbol]
    rows = [
        (kind, number, apply)
        for kind, number in itertools.product(kinds_for(symbol), NUMBERS)
        for apply in (
            lambda x, number=number: function(x, number),
            lambda x, number=number: function(number, x),
        )
    ]
    of_jax = types_of_jax([(apply, spec(kind)) for kind, _, apply in rows])
    for (kind, number, apply), expected in zip(rows, of_jax, strict=True):
        ours = type_of_ours(apply, spec(kind))
        if symbol == "**" and ours and expected:  # JAX's powers are not weak where they could be
            ours, expected = (ours[0], False), (expected[0], False)
        assert same(ours, expected), (kind, symbol, number)


@pytest.mark.parametrize("symbol", ONE_SIDED)
def test_types_of_one_array(symbol):
    calls = [(ONE_SIDED[symbol], spec(kind)) for kind in KINDS]
    for kind, call, expected in zip(KINDS, calls, types_of_jax(calls), strict=True):
        assert same(type_of_ours(*call), expected), (symbol, kind)


ARRAYS = {
    "b": np.array([True, False]),
    "u": np.array([3, 4], np.uint8),
    "i": np.array([3, -4], np.int32),
    "j": np.array([2, 3], np.int32),
    "z": np.array([0, 0], np.int32),
    "f": np.array([3.5, -4.0], np.float32),
    "g": np.array([-1.5, 0.75], np.float32),
    "h": np.array([3.5, -4.0], ELEMENT_TYPES["bf16"].dtype),
    "c": np.array([1 + 2j, -3j], np.complex64),
    "n": np.array([3, -4], ELEMENT_TYPES["s4"].dtype),
    "inf": np.array([np.inf, -np.inf], np.float32),
}
# fmt: off
EXPRESSIONS = [
    "b+b", "b*b", "b/b", "b//b", "b%b", "b**b", "b&b", "b<<b", "b>>b", "b+1", "b*2.0", "b+True",
    "b&1", "b|1", "b<<1", "b**2", "b==1", "~b", "abs(b)", "+b", "u+(-1)", "u+300", "u-1", "u/2",
    "u//2", "u%3", "u//-1", "u%-1", "u<<10", "u>>1", "u<<i", "u<-1", "u==-1", "u<300", "u**u",
    "u**2", "~u", "-u", "abs(u)", "i+(2**31-1)", "i/2", "i//3", "i//-3", "i%3", "i%-3", "i//0",
    "i%0", "i//z", "i%z", "i//-1", "i//2.5", "i%2.5", "i**2", "i**0", "i**j", "i**0.5",
    "i**2.0", "i<<1", "i<<40", "i>>1", "i>>-1", "i&3", "i|True", "i^5", "2**i", "7//i", "7%i",
    "7-i", "7/i", "divmod(i,3)", "divmod(7,i)", "abs(i)", "f//2", "f//-2", "f%2", "f%-2",
    "f//0.", "f%0.", "f//inf", "f%inf", "inf//2", "inf%2", "g//f", "g%f", "f**-2", "f**0",
    "f**3", "f**True", "f**j", "f**i", "f**2.0", "f**0.5", "2**f", "2.0**f", "1/f", "f<g",
    "f<=3.5", "1<f", "f!=f", "divmod(f,2)", "divmod(g,f)", "abs(f)", "-f", "f+1j", "f<1j",
    "2-f", "f**g", "g**-0.5", "h*0.1", "h+i", "h**2", "h//2", "h%2", "0.5-h", "h<f", "abs(h)",
    "c+1", "c*f", "c**2", "c**-2", "c/2", "c==c", "2j*f", "abs(c)", "n+n", "n*2", "n//n", "n%n",
    "n/n", "n**2", "n<<1", "-n",
]
# fmt: on


def evaluated(expression, arrays):
    result = eval(expression, {"abs": abs, "divmod": divmod}, arrays)
    return result if isinstance(result, tuple) else (result,)


@functools.cache
def values_by_jax():
    def everything(arrays):
        return {expression: evaluated(expression, arrays) for expression in EXPRESSIONS}

    return by_jax(everything, ARRAYS)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values(expression):
    found = mx.reference(lambda arrays: evaluated(expression, arrays))(ARRAYS)
    for actual, wanted in zip(found, values_by_jax()[expression], strict=True):
        assert actual.dtype == wanted.dtype
        wide = np.complex128 if actual.dtype.kind == "c" else np.float64
        # JAX's powers and complex products are rounded more than once.
        rtol = 1e-6 if actual.dtype.kind in "fc" else 0
        np.testing.assert_allclose(
            actual.astype(wide), np.asarray(wanted).astype(wide), rtol=rtol, atol=rtol
        )


TRACED = ["f + 1", "2 * f", "f / g", "f // g", "f % g", "f ** 2", "f < g"]


@functools.cache
def traced_by_jax():
    def everything(f, g):
        return {each: evaluated(each, {"f": f, "g": g})[0] for each in TRACED}

    return by_jax(everything, ARRAYS["f"], ARRAYS["g"])


@pytest.mark.parametrize("expression", TRACED)
def test_tracers_of_every_trace(expression):
    f, g = ARRAYS["f"], ARRAYS["g"]

    def function(f, g):
        return evaluated(expression, {"f": f, "g": g})[0]

    def every_trace(f, g):
        rows = mx.vmap(function)(f[:, None], g[:, None])[:, 0]
        return function(f, g), rows, mx.jvp(function, (f, g), (f, g))[0]

    for way in (mx.reference, functools.partial(mx.jit, compiler_options=QUICKLY)):
        for actual in way(every_trace)(f, g):
            np.testing.assert_allclose(actual, traced_by_jax()[expression], rtol=1e-6)


# Forms of operands.


def traced(function, *operands):
    return mx.reference(function)(*operands)


def test_numpy_arrays_on_the_left_leave_the_operator_to_tracers():
    x, y = np.array([1.0, 2.0], np.float32), np.array([3.0, 5.0])

    def function(x):
        results = y - x, y / x, y**x, y < x, y == x, np.float32(2) - x, np.int32(7) // x
        assert all(isinstance(each, Tracer) for each in results)
        return results

    for actual, expected in zip(
        traced(function, x),
        (y - x, y / x, y**x, y < x, y == x, 2 - x, 7 // x),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)


def test_numpy_arrays_on_the_left_without_the_numpy_layer():
    program = """
import sys, numpy as np, minixla_ops
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
graph, _ = trace_to_graph(lambda x: [np.ones(2, np.float32) - x], [Shape("f32", (2,))])
assert [each.op.name for each in graph.instructions] == ["Constant", "Sub"]
assert "minixla.numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_jax_arrays_on_the_left_leave_the_operator_to_tracers():
    y = jnp.array([3.0, 5.0])
    graph = graph_of(lambda x: (y - x, y < x), [np.ones(2, np.float32)])
    assert [str(shape) for shape in graph.output_shapes] == ["f32[2]", "pred[2]"]


def test_matrix_products_from_both_sides():
    x, y = (np.arange(6, dtype=np.float32).reshape(shape) for shape in ((2, 3), (3, 2)))
    for actual, expected in zip(
        traced(lambda a, b: (a @ b, x @ b, a @ y, a @ b[:, 0]), x, y),
        (x @ y, x @ y, x @ y, x @ y[:, 0]),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)


def test_arrays_are_strong_and_numpy_scalars_too():
    x = np.ones(2, ELEMENT_TYPES["bf16"].dtype)
    for number, expected in [
        (np.float64(2), "f32"),  # 64-bit mode is off
        (np.float32(2), "f32"),
        (np.float16(2), "f32"),
        (np.int64(2), "bf16"),
        (2.0, "bf16"),
        (np.ones(2), "f32"),
    ]:
        for graph in (graph_of(lambda v: v * number, [x]), graph_of(lambda v: number * v, [x])):  # noqa: B023
            assert str(graph.output_shapes[0]) == f"{expected}[2]", number


def test_other_objects_are_left_to_themselves():
    class Other:
        def __radd__(self, other):
            return "mine"

    def function(x):
        assert x + Other() == "mine"
        assert (x == None) is False and (x != "a") is True  # noqa: E711
        for wrong in (None, "a", [1.0, 2.0], (1, 2), {}):
            for apply in (operator.add, operator.truediv, operator.pow, operator.and_):
                with pytest.raises(TypeError, match=r"^unsupported operand type"):
                    apply(x, wrong)
            with pytest.raises(TypeError, match=r"^'<' not supported between instances"):
                _ = x < wrong
        return x

    graph_of(function, [np.ones(2, np.float32)])


def test_augmented_assignment_makes_a_new_value():
    def function(x):
        first = x
        x += 1
        x *= 2
        x -= first
        x /= 2
        x **= 2
        return x, first

    x = np.array([1.0, 3.0], np.float32)
    result, first = traced(function, x)
    np.testing.assert_array_equal(result, ((x + 1) * 2 - x) ** 2 / 4)
    np.testing.assert_array_equal(first, x)


def test_tracers_are_not_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        graph_of(lambda x: {x}, [np.ones(2)])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (3,), (2, 3)),
        ((), (2, 3), (2, 3)),
        ((4, 1, 3), (2, 1), (4, 2, 3)),
        ((0,), (1,), (0,)),
        ((1, 0), (2, 1), (2, 0)),
    ],
)
def test_broadcasting_is_that_of_numpy(left, right, expected):
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal(shape).astype(np.float32) for shape in (left, right))
    result = traced(lambda a, b: a - b, x, y)
    assert result.shape == expected
    np.testing.assert_array_equal(result, x - y)


def test_shapes_that_do_not_broadcast_are_rejected():
    check_rejected(
        lambda x, y: x + y,
        [np.ones((2, 3)), np.ones((2, 1, 4))],
        ShapeError,
        "add",
        "(2, 3)",
        "(2, 1, 4)",
        "broadcast",
    )


@pytest.mark.parametrize(
    ("function", "operands", "phrase"),
    [
        (lambda x: x // x, [np.ones(2, np.complex64)], "rem"),
        (lambda x: x % 2, [np.ones(2, np.complex64)], "rem"),
        (lambda x: x & x, [np.ones(2, np.float32)], "and_"),
        (lambda x: x << 1, [np.ones(2, np.float32)], "shift_left"),
        (lambda x: ~x, [np.ones(2, np.float32)], "not"),
        (lambda x: x - x, [np.ones(2, bool)], "sub"),
        (lambda x: -x, [np.ones(2, bool)], "neg"),
        (lambda x: x**-1, [np.ones(2, np.int32)], "negative power"),
        (lambda x: x + np.array(["a"]), [np.ones(2)], "elements of type <U1"),
    ],
)
def test_operators_that_have_no_meaning_are_rejected(function, operands, phrase):
    check_rejected(function, operands, ShapeError, phrase)


# Python numbers.


def test_large_numbers():
    x, u = np.array([1.0, 2.0], np.float32), np.array([1, 2], np.uint32)
    np.testing.assert_array_equal(traced(lambda v: v * 2**40, x), x * np.float32(2**40))
    np.testing.assert_array_equal(traced(lambda v: v * 2**70, x), x * np.float32(2**70))
    np.testing.assert_array_equal(traced(lambda v: v * 10**400, x), [np.inf, np.inf])
    np.testing.assert_array_equal(traced(lambda v: -(10**400) * v, x), [-np.inf, -np.inf])
    np.testing.assert_array_equal(traced(lambda v: v ^ 0xDEADBEEF, u), u ^ np.uint32(0xDEADBEEF))
    h = x.astype(ELEMENT_TYPES["bf16"].dtype)
    np.testing.assert_array_equal(traced(lambda v: v * 2**70, h).astype(np.float64), x * 2.0**70)


@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u32"])
def test_integers_that_fit_no_integer_type_are_rejected(kind):
    x = np.ones(2, ELEMENT_TYPES[kind].dtype)
    too_large = 2 ** (32 if kind == "u32" else 31)
    for number in (too_large, -(2**31) - 1, 2**70):
        check_rejected(lambda v: v + number, [x], AttributeValueError, str(number), kind)  # noqa: B023


def test_constants_are_converted_at_once():
    x = np.ones(2, ELEMENT_TYPES["bf16"].dtype)
    whole = np.array([1, 2], np.int32)
    for function in (lambda v: v * whole, lambda v: v + np.int8(3), lambda v: v - np.float32(1)):
        names = [each.op.name for each in graph_of(function, [x]).pruned().instructions]
        assert names.count("ConvertElementType") <= 1  # that of x itself
    names = [each.op.name for each in graph_of(lambda v: v * whole, [x]).instructions]
    assert names == ["Constant", "Mul"]


def test_common_calls_are_one_instruction():
    x = np.ones((4, 4), np.float32)
    graph = graph_of(lambda a, b: a * b + 2.0, [x, x])
    assert [each.op.name for each in graph.instructions] == ["Mul", "Constant", "Add"]
    graph = graph_of(lambda a: 1 / a, [x])
    assert [each.op.name for each in graph.instructions] == ["Constant", "Div"]
    graph = graph_of(lambda a: a**4, [x])
    assert [each.op.name for each in graph.instructions] == ["Mul", "Mul"]


def test_weakness_of_arrays_is_kept():
    def function(x):
        x._mark_weak()
        assert (x + x).weak_type and (x * 2).weak_type and (2 - x).weak_type and (-x).weak_type
        assert (x**2).weak_type and (x**0).weak_type and (x // 2).weak_type and abs(x).weak_type
        assert not (x + np.ones(2, np.float32)).weak_type
        half = np.ones(2, np.float16)
        assert (x * half).dtype == np.float16
        return x

    graph_of(function, [np.ones(2, np.float32)])


# Derivatives.

F = np.array([0.8, -1.3, 2.2])
G = np.array([1.1, 0.9, -0.6])


@pytest.mark.parametrize(
    "expression",
    ["f // g", "f % g", "f % 0.7", "f ** 3", "f ** -2", "f ** 0", "abs(f)", "-f", "1 / f"],
)
def test_derivatives(expression):
    def function(f, g):
        return evaluated(expression, {"f": f, "g": g})

    check_derivatives(function, [F, G], function)


def test_derivative_of_zero_to_integer_powers():
    base, exponent = np.zeros(4), np.array([0, 1, 2, 3])
    gradient = mx.vjp(lambda x: x**exponent, base)[1](np.ones(4))[0]
    np.testing.assert_array_equal(gradient, [0, 1, 0, 0])
    # JAX's second derivative of x ** 1 at 0 is not a number.
    check_derivatives(lambda x: x**exponent, [base])


def test_derivative_of_integer_arrays_as_exponents():
    exponent = np.array([0, 2, 3])
    check_derivatives(lambda x: x**exponent, [F], lambda x: x**exponent)


# Functions.


def test_functions_take_arrays_of_no_trace():
    x, y = jnp.array([5.0, -7.0]), np.array([2.0, 2.0], np.float32)
    np.testing.assert_array_equal(operators.floor_divide(x, y), [2, -4])
    np.testing.assert_array_equal(operators.remainder(x, 2), [1, 1])
    np.testing.assert_array_equal(operators.power(x, 2), [25, 49])
    np.testing.assert_array_equal(operators.multiply(x, y), [10, -14])


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_zeros_of_divisions_with_remainder_have_numpys_signs(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    x = np.array([0, -0.0, 8, -8, 0.5, -0.5, 1, -1.015625], dtype)
    y = np.array([-1, 1, -8, 8, 2, -2, np.inf, -0.0011549], dtype)
    for function in (operators.remainder, operators.floor_divide):
        actual, expected = np.asarray(function(x, y)), getattr(np, function.__name__)(x, y)
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@pytest.mark.parametrize("divisor", [4.0, -4.0])
def test_the_derivative_of_a_remainder_that_is_0_is_1(divisor):
    assert mx.grad(lambda x: x % divisor)(8.0) == 1


def test_conversion():
    assert operators.convert(3, ELEMENT_TYPES["bf16"]).dtype == ELEMENT_TYPES["bf16"].dtype
    splat = operators.convert(np.broadcast_to(np.float32(2), (1000, 1000)), ELEMENT_TYPES["s32"])
    assert splat.dtype == np.int32 and splat.strides == (0, 0)
    # As XLA converts: toward zero, and saturating.
    given = np.array([2.9, -2.9, 1e10], np.float32)
    assert operators.convert(given, ELEMENT_TYPES["s8"]).tolist() == [2, -2, 127]


def test_operators_work_inside_computations():
    total = ops.reduce(
        [np.arange(4.0, dtype=np.float32)], [np.float32(0)], lambda x, y: x + y, (0,)
    )
    np.testing.assert_array_equal(total[0] if isinstance(total, (tuple, list)) else total, 6)
