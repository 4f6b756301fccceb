"""check_grads: what passes, what is found, in which mode and order, and what the message says."""

from __future__ import annotations

import collections
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.tracing import bind
from minixla_ops.elementwise.transcendental import FloatUnary

X = np.array([0.3, 1.2, -0.7], np.float32)
M = np.array([[1, 2, 3], [-1, 0.5, 2]], np.float32)
Point = collections.namedtuple("Point", ["x", "y"])


def check(function, args, evaluate="reference", **options):
    mx.check_grads(function, args, evaluate=evaluate, **options)


def failure(function, args, **options):
    with pytest.raises(mx.GradientCheckError) as caught:
        check(function, args, **options)
    assert isinstance(caught.value, AssertionError)
    assert "test_gradient_check.py" in str(caught.value)
    return str(caught.value)


def loop(x):
    return mx.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, mnp.sin(v[1])), (0, x))[1]


FUNCTIONS = {
    "sin": (mnp.sin, (X,)),
    "product": (lambda x, y: x * mnp.exp(y), (X, M)),
    "matmul": (lambda a, b: a @ b, (M, X)),
    "sum": (lambda x: (x * x).sum(), (M,)),
    "dictionary": (lambda tree: {"a": tree["x"] ** 2, "b": [tree["y"].sum()]}, ({"x": X, "y": M},)),
    "namedtuple": (lambda p: Point(p.x * p.y, None), (Point(X, X + 1),)),
    "jit": (mx.jit(lambda x: mnp.tanh(x) * x), (X,)),
    "vmap": (mx.vmap(lambda x: mnp.tanh(x).sum()), (M,)),
    "scan": (lambda x: mx.scan(lambda c, e: (c * e, c), x[0], x), (X,)),
    "while": (loop, (X,)),
    "cond": (lambda x: mx.cond(x[0] > 0, mnp.sin, mnp.cos, x), (X,)),
    "checkpoint": (mx.checkpoint(lambda x: mnp.sin(mnp.exp(x))), (X,)),
    "number": (lambda x, y: x * y, (2.0, X)),
    "Python numbers": (lambda x: x * x * x, (2.0,)),
    "constant": (lambda x: (x, mnp.ones(3, "float32"), 5), (X,)),
    "no arrays": (lambda x: {}, (X,)),
    "scalar": (mnp.exp, (np.float32(0.5),)),
    "empty": (lambda x: mnp.sin(x), (X[:0],)),
    "empty result": (lambda x, y: (mnp.sin(x[:0]), y), (X, X)),
    "large values": (lambda x: x + 1e4, (X,)),
    "large arguments": (lambda x: x * x, (X * 1e4,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_derivatives_pass(name):
    function, args = FUNCTIONS[name]
    check(function, args, modes=("fwd", "rev", "lin"))


@pytest.mark.parametrize("evaluate", [None, "jit"])
@pytest.mark.parametrize("name", ["dictionary", "scan", "number"])
def test_on_the_engine(name, evaluate):
    function, args = FUNCTIONS[name]
    check(function, args, evaluate)


def test_the_evaluator_that_is_current():
    calls = []

    def function(x):
        calls.append(type(x).__name__)
        return mnp.sin(x)

    mx.reference(lambda x: mx.check_grads(function, (X,), 1))(X)
    assert set(calls) >= {"ForwardTracer", "ReverseTracer"}
    calls.clear()
    check(function, (X,), "jit", order=1, modes=("fwd",))
    assert set(calls) == {"GraphTracer", "ForwardTracer"}


TYPES = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_narrow_types(dtype):
    x = X.astype(dtype)
    if x.itemsize == 1:  # too coarse for a factor of 3 to show
        check(mnp.sin, (x,), order=1)
        assert "differs" in failure(rotated(9.0), (x,), order=1)
    else:
        check(mnp.sin, (x,))
        assert "differs" in failure(rotated(3.0), (x,), order=1)


def test_double_precision():
    with jax.enable_x64(True):
        x = X.astype(np.float64)
        check(lambda x: mnp.sin(x) * x, (x,), order=3)
        message = failure(rotated(1.0001), (x,), order=1)
        assert "tolerance 1e-05 + 1e-05 * |value|" in message
        message = failure(rotated(1.0001), (x,), order=1, eps=1e-6)
        assert "step 1e-06, tolerance" in message


def test_double_precision_without_64_bits_is_single():
    check(lambda x: mnp.sin(x), (X.astype(np.float64),))


def test_complex_numbers():
    z = np.array([1 + 2j, 0.3 - 0.5j], np.complex64)
    check(lambda z: z * z * mnp.conj(z), (z,))
    check(lambda z: mnp.abs(z) + z.real, (z,))
    check(lambda x: x * (1 + 2j), (X,))

    @mx.custom_jvp
    def function(z):
        return z * mnp.conj(z)

    function.defjvp(lambda p, t: (function(*p), t[0] * mnp.conj(p[0]) + p[0] * t[0]))
    for mode in ("fwd", "rev"):
        message = failure(function, (z,), modes=(mode,))
        assert "] along 1j:" in message
    assert "fwd 0+2j, differences 4+0j" in failure(function, (z[:1],))
    # What is real stays so beside what is complex.
    message = failure(lambda x, z: (z * z, rotated(1.1)(x)), (X, z))
    assert "result[1][1] with respect to args[0][1]:" in message
    assert "fwd 0.3985935, differences" in message


def test_arguments_without_a_derivative_are_ignored():
    def function(x, n, tree, flag=None, text=""):
        assert text == "text"
        return {"x": x * n * tree["k"], "n": n + 1, "where": mnp.where(tree["b"], x, 2 * x)}

    tree = {"k": np.arange(3), "b": X > 0, "none": None}
    check(function, (X, np.int32(3), tree), kwargs={"flag": True, "text": "text"})
    check(lambda x: mnp.argmax(x), (X,))


# What is wrong.


def rotated(factor: float) -> Any:
    """sin, whose forward derivative is wrong in the second element."""

    @mx.custom_jvp
    def function(x):
        return mnp.sin(x)

    @function.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        factors = mnp.where(mnp.arange(x.size) == 1, factor, 1).astype(x.dtype)
        return function(x), t * mnp.cos(x) * factors

    return function


def wrong_reverse(x):
    @mx.custom_vjp
    def function(x):
        return mnp.sin(x)

    def backward(x, cotangent):
        return (cotangent * mnp.cos(x) * np.array([1, 1.1, 1], np.float32),)

    function.defvjp(lambda x: (function(x), x), backward)
    return function(x)


class HalfTransposed(FloatUnary):
    """sin, of whose rules only the reverse one is wrong."""

    numpy = np.sin
    stablehlo_name = "sine"

    def derivative(self, operand, result):
        return mnp.cos(operand)

    def vjp(self, cotangents, operands, results, active):
        return (cotangents * mnp.cos(operands[0]) * 2,)


def second_order(x):
    @mx.custom_jvp
    def function(x):
        return mnp.sin(x)

    function.defjvp(lambda p, t: (function(*p), t[0] * mnp.cos(mx.stop_gradient(p[0]))))
    return function(x)


HALF = HalfTransposed()


def test_a_wrong_jvp_rule():
    function = rotated(1.1)
    for mode, words in (("fwd", "forward derivative"), ("rev", "reverse derivative")):
        message = failure(function, (X,), modes=(mode,))
        for phrase in (
            f"check_grads: the {words} of function differs from finite differences.",
            "result[1] with respect to args[0][1]:",
            f"{mode} 0.39859",  # 1.1 cos(1.2)
            "differences 0.3623",  # cos(1.2)
            "apart by 0.0362, allowed 0.002",
            "step 3.8e-07, tolerance 0.002 + 0.002 * |value|",
            f"mode {mode}, order 1: ",
            "A derivative rule is wrong",
        ):
            assert phrase in message
    assert "linearized function" in failure(function, (X,), modes=("lin",))


def test_a_wrong_vjp_rule():
    message = failure(wrong_reverse, (X,), modes=("rev",), order=1)
    assert "mode rev, order 1" in message
    assert "result[1] with respect to args[0][1]:" in message
    with pytest.raises(mx.DerivativeError):
        check(wrong_reverse, (X,), modes=("fwd",))


def test_an_operation_with_one_wrong_rule():
    def function(x):
        return bind(HALF, x)

    check(function, (X,), modes=("fwd",))
    message = failure(function, (X,))
    assert "mode rev, order 1" in message
    assert "apart by" in message


def test_a_wrong_second_derivative():
    check(second_order, (X,), order=1)
    message = failure(second_order, (X,))
    for phrase in (
        "the forward derivative of the forward derivative of second_order differs",
        "mode fwd, order 2: ",
        "tangent of result[1] with respect to args[0][1]:",
    ):
        assert phrase in message
    message = failure(second_order, (X,), modes=("rev",))
    assert "the reverse derivative of the reverse derivative of second_order" in message
    assert "cotangent of args[0][" in message


def test_a_wrong_value():
    @mx.custom_jvp
    def function(x):
        return mnp.sin(x)

    function.defjvp(lambda p, t: (function(*p) + 1, t[0] * mnp.cos(p[0])))
    message = failure(lambda x: {"y": [function(x)]}, (X,))
    for phrase in (
        "the value that comes with the forward derivative of <lambda> is not the function's",
        "result['y'][0][0]",
        "fwd gives 1.29552, the function 0.2955202",
    ):
        assert phrase in message


def test_which_of_several_arguments_and_results():
    function = rotated(1.5)
    args = ({"w": [X, X]}, Point(X, M))
    message = failure(lambda tree, p: (p.y, function(tree["w"][1]) * p.x), args)
    assert "result[1][1] with respect to args[0]['w'][1][1]:" in message
    message = failure(lambda tree, p: (p.y, function(p.x)), args, modes=("rev",))
    assert "result[1][1] with respect to args[1].x[1]:" in message


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_one_of_many_elements(mode):
    def function(x):
        return mnp.where(mnp.arange(3000) == 777, mx.stop_gradient(x), x)

    message = failure(function, (np.ones(3000, np.float32),), modes=(mode,), order=1)
    assert "result[777] with respect to args[0][777]:" in message
    assert f"{mode} 0, differences 1" in message


def test_kinks():
    message = failure(mnp.abs, (np.float32([0.5, 0]),))
    assert "result[1] with respect to args[0][1]:" in message
    assert "not smooth within the step" in message
    check(mnp.abs, (np.float32([0.5, 1e-3]),), eps=1e-4)
    check(mnp.abs, (np.float32([0.5, 1e-3]),))
    assert "args[0][1]" in failure(mnp.abs, (np.float32([0.5, 1e-3]),), eps=5e-3)


def test_edges():
    check(mnp.log, (np.float32([1, 1e-3]),))
    message = failure(mnp.log, (np.float32([1, 1e-3]),), eps=5e-3)
    assert "differences nan" in message
    message = failure(mnp.log, (np.float32([1, -1]),))
    assert "check_grads: log gives NaN.\n  result[1]\n" in message


W = np.random.default_rng(0).normal(size=(2, 64, 64)).astype(np.float32) / 8
H = np.random.default_rng(1).normal(size=(16, 64)).astype(np.float32)


def normalised(h):
    return (h - h.mean(-1, keepdims=True)) / mnp.sqrt(h.var(-1, keepdims=True) + 1e-6)


# Right derivatives of functions with many elements, curvature, or large values.
ROUGH = {
    "many parameters": (lambda w: mnp.tanh(normalised(mnp.tanh(H @ w[0])) @ w[1]).mean(), (W,)),
    "softmax": (lambda w: mx.nn.log_softmax(normalised(H @ w[0] @ w[1]) * 4)[:, 3].mean(), (W,)),
    "a large constant": (lambda x: 1e6 + mnp.sin(x), (X,)),
    "steep": (lambda x: mnp.tanh(1e3 * x), (X * 1e-3,)),
    "oscillating": (lambda x: mnp.sin(300 * x), (X,)),
    "near a pole": (lambda x: 1 / x, (np.float32([2e-3, 1]),)),
    "bf16": (
        lambda w: mnp.tanh(mnp.dot(w[0], w[1])).sum(),
        (W[:, :8, :8].astype(ml_dtypes.bfloat16),),
    ),
    "f16": (lambda x: mnp.exp(4 * mnp.sin(x)), (X.astype(np.float16),)),
    "complex": (lambda z: mnp.sin(100 * z), (np.complex64([0.3 + 0.01j, 1]),)),
    "scan": (lambda x: mx.scan(lambda c, _: (3.7 * c * (1 - c), c), x, None, 12)[0], (X[:1],)),
}


@pytest.mark.parametrize("evaluate", [None, "reference"])
@pytest.mark.parametrize("name", ROUGH)
def test_rounding_and_curvature_are_no_errors(name, evaluate):
    function, args = ROUGH[name]
    check(function, args, evaluate, order=1)


def test_errors_that_rounding_would_hide():
    def function(w):
        return 1e5 + mnp.tanh(H @ w[0]).sum() + rotated(3.0)(w[1, 0, :3]).sum()

    assert "args[0][1, 0, 1]:" in failure(function, (W,), order=1)


@pytest.mark.parametrize(
    ("function", "modes"),
    [
        (lambda x: mnp.where(x > 0, mnp.log(x) * x * x, 0).sum(), ("rev",)),
        (lambda x: mnp.where(x > 0, mnp.sqrt(x) ** 3, 0), ("rev",)),
        (lambda x: mnp.sqrt(x * x), ("fwd", "rev", "lin")),
    ],
)
def test_nan_in_a_derivative_is_named(function, modes):
    for mode in modes:
        message = failure(function, (np.float32([0, 2]),), modes=(mode,), order=1)
        assert "mx.debug_nans()" in message and "rule is wrong" not in message


def test_tolerances():
    function = rotated(1.01)
    failure(function, (X,))
    check(function, (X,), rtol=0.02, order=1)
    check(function, (X,), atol=0.02, order=1)
    check(function, (X,), atol={"float32": 0.02}, order=1)
    message = failure(function, (X,), atol={"float16": 0.02}, rtol={np.float32: 1e-3})
    assert "tolerance 0.002 + 0.001 * |value|" in message
    assert "tolerance 0 + 1e-09 * |value|" in failure(mnp.exp, (X,), atol=0, rtol=1e-9)


# Wrong calls.


def test_nothing_to_differentiate():
    with pytest.raises(mx.DerivativeError) as caught:
        check(lambda n: n, (np.arange(3, dtype=np.int32),))
    for phrase in ("check_grads: no argument has a derivative", "s32[3]", "Pass floats"):
        assert phrase in str(caught.value)


WRONG_OPTIONS = [
    ({"order": 0}, "order = 0"),
    ({"modes": ("forward",)}, "modes = ('forward',)"),
    ({"modes": "fwd"}, "modes = 'fwd'"),
    ({"modes": ()}, "modes = ()"),
    ({"evaluate": "numpy"}, "evaluate = 'numpy'"),
    ({"modes": 1}, "modes = 1"),
    ({"eps": "1"}, "eps = '1'"),
    ({"eps": -1e-3}, "eps = -0.001"),
    ({"atol": [1]}, "atol = [1]"),
    ({"rtol": {"f32": "1"}}, "rtol = {'f32': '1'}"),
    ({"kwargs": [1]}, "kwargs = [1]"),
]


@pytest.mark.parametrize(("options", "given"), WRONG_OPTIONS, ids=str)
def test_wrong_options(options, given):
    with pytest.raises(mx.AttributeValueError, match="has an invalid value") as caught:
        check(mnp.sin, (X,), **options)
    assert given in str(caught.value)
    with pytest.raises(mx.AttributeValueError, match=r"args is a tuple of arguments, \(x,\)"):
        mx.check_grads(mnp.sin, X)
    with pytest.raises(mx.TransformError, match="check_grads: expected a function"):
        mx.check_grads(3, (X,))
