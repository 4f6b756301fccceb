"""cross_check on programs with NaN and infinities: what is found, where, and what is right."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops


def softmax(x):
    e = mnp.exp(x)
    return e / e.sum()


def hypotenuse(x, y):
    return mnp.sqrt(x * x + y * y)


def masked_log(x):
    return ((x > 0).astype("float32") * mnp.log(x)).sum()


def difference(x):
    return mnp.sqrt((x + 1) - 1 - x)


def powers(x):
    return mx.fori_loop(0, 12, lambda i, y: y * y, x)


def newton(x):
    return mx.fori_loop(0, 3, lambda i, y: y - y * y / (2 * y), x)


def branch(x):
    return mx.cond(x[0] > 0, lambda y: mnp.log(y - 2), lambda y: y, x)


def quantized(x, dtype):
    return x.astype(dtype).astype("float32")


def double_overflow(x):
    return mnp.exp(x).sum()


bf16 = ml_dtypes.bfloat16
f32, f16, f64 = np.float32, np.float16, np.float64
# Name: function, arguments, the kind and the operation of a finding.
FORWARD = {
    "softmax in bf16": (softmax, [np.array([200, 100], bf16)], "overflow", "exp"),
    "softmax in f16": (softmax, [f16([12, 1])], "overflow", "exp"),
    "softmax in f32": (softmax, [f32([100, 1])], "overflow", "exp"),
    "softmax of small numbers": (softmax, [f32([-200, -210])], "underflow", "exp"),
    "softmax in f64": (softmax, [f64([800, 1])], "overflow", "exp"),
    "softmax of small numbers in f64": (softmax, [f64([-800, -810])], "underflow", "exp"),
    "exp alone": (mnp.exp, [f32([1000.0, 1])], "overflow", "exp"),
    "a scalar": (mnp.exp, [f32(1000.0)], "overflow", "exp"),
    "hypotenuse": (hypotenuse, [f32([1e30]), f32([1.0])], "overflow", "mul"),
    "a sum": (lambda x: x.sum(), [f16([60000, 60000])], "overflow", "reduce"),
    "a product of matrices": (
        lambda x: x @ x,
        [f16([[300, 300], [300, 300]])],
        "overflow",
        "dot_general",
    ),
    "a difference of infinities": (
        lambda x: mnp.exp(x) - mnp.exp(x),
        [f32([100.0])],
        "overflow",
        "exp",
    ),
    "cosh": (lambda x: mnp.cosh(x), [f32([100.0])], "overflow", "cosh"),
    "a power": (lambda x: x ** mnp.float32(20.5), [f32([100.0])], "overflow", "pow"),
    "overflow, then finite": (lambda x: 1 / (x * x) * x, [f32([1e30])], "overflow", "mul"),
    "underflow, then finite": (lambda x: (x * x) * 1e38 * 1e10, [f32([1e-30])], "underflow", "mul"),
    "a loop": (powers, [f32([2.0, 0.5])], "overflow", "mul"),
    "a complex exponential": (mnp.exp, [np.complex64([1000 + 1j])], "overflow", "exp"),
    "masked log": (masked_log, [f32([0, 2, 4])], "division by zero", "log"),
    "log of 0": (mnp.log, [f32([0, 1])], "division by zero", "log"),
    "a singular matrix": (
        mnp.linalg.inv,
        [f32([[1, 1], [1, 1]])],
        "division by zero",
        "lu_solve",
    ),
    "1 / 0": (lambda x: 1 / x, [f32([0, 1])], "division by zero", "div"),
    "mean of nothing": (
        lambda x, m: (x * m).sum() / m.sum(),
        [f32([1, 2]), f32([0, 0])],
        "invalid",
        "div",
    ),
    "rsqrt": (lambda x: ops.rsqrt(x), [f32([0, 1])], "division by zero", "rsqrt"),
    "a negative power of 0": (
        lambda x: x ** mnp.float32(-1.5),
        [f32([0, 1])],
        "division by zero",
        "pow",
    ),
    "atanh of 1": (mnp.arctanh, [f32([1, 0])], "division by zero", "atanh"),
    "normalized zero": (lambda x: x / mnp.sqrt((x * x).sum()), [f32([0, 0])], "invalid", "div"),
    "a small norm": (lambda x: 1 / (x * x).sum(), [f32([1e-30, 1e-30])], "underflow", "mul"),
    "log of a product": (lambda x: mnp.log(x.prod()), [f32([0.01] * 40)], "underflow", "reduce"),
    "sqrt of -1": (mnp.sqrt, [f32([-1, 1])], "invalid", "sqrt"),
    "log of -1": (mnp.log, [f64([-1, 1])], "invalid", "log"),
    "acos of 2": (mnp.arccos, [f32([2, 1])], "invalid", "sqrt"),
    "a negative difference": (difference, [f32([0.1, 0.3, 0.7])], "invalid", "sqrt"),
    "a branch": (branch, [f32([1, 1])], "invalid", "log"),
    "sine of an infinity": (mnp.sin, [f32([np.inf, 1])], "invalid", "sin"),
    "inf - inf of an input": (lambda x: x - x, [f32([np.inf, 1])], "invalid", "sub"),
    "a masked row": (
        lambda x: softmax(mnp.where(x > 9, x, -np.inf) - mnp.where(x > 9, x, -np.inf).max()),
        [f32([1, 2])],
        "invalid",
        "sub",
    ),
    "a NaN of the program": (
        lambda x: x + np.float32(np.nan),
        [f32([1, 2])],
        "invalid",
        "constant",
    ),
    "a cast to e4m3": (
        lambda x: quantized(x, ml_dtypes.float8_e4m3fn),
        [f32([500, 1])],
        "cast out of range",
        "convert_element_type",
    ),
    "a cast to e5m2": (
        lambda x: quantized(x, ml_dtypes.float8_e5m2),
        [f32([1e6, 1])],
        "cast out of range",
        "convert_element_type",
    ),
    "a cast to f16": (
        lambda x: quantized(x, "float16"),
        [f32([1e6, 1])],
        "cast out of range",
        "convert_element_type",
    ),
    "a cast to bf16": (
        lambda x: x.astype(bf16),
        [f32([3.4e38, 1])],
        "cast out of range",
        "convert_element_type",
    ),
    "a cast to int8": (
        lambda x: x.astype("int8"),
        [f32([300, 1])],
        "cast out of range",
        "convert_element_type",
    ),
    "a product in e4m3": (
        lambda x: x * x,
        [np.array([300, 1], ml_dtypes.float8_e4m3fn)],
        "overflow",
        "mul",
    ),
    "log of 0 in e4m3": (
        mnp.log,
        [np.array([0, 1], ml_dtypes.float8_e4m3fn)],
        "division by zero",
        "log",
    ),
    "a complex product": (lambda x: x * x, [np.complex64([1e30 + 1e30j])], "overflow", "mul"),
    "a complex quotient": (lambda x: 1 / x, [np.complex64([0])], "division by zero", "div"),
    "a scan": (
        lambda x: mx.scan(lambda c, y: (c * y, mnp.log(c)), x[0], x)[1],
        [f32([1, 0, 3])],
        "division by zero",
        "log",
    ),
    "a cast to f32": (
        lambda x: x.astype("float32"),
        [f64([1e300, 1])],
        "cast out of range",
        "convert_element_type",
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_where_values_stop_being_finite(name):
    function, arguments, kind, operation = FORWARD[name]
    with jax.enable_x64(any(x.dtype == f64 for x in arguments)):
        report = mx.cross_check(function, *arguments, gradients=False)
    found = [(each.kind, each.operation, each.suspects) for each in report.findings]
    assert found == [(kind, operation, ())], report


def where_sqrt(x):
    return mnp.where(x > 0, mnp.sqrt(x), 0.0).sum()


GRADIENTS = {
    "where around sqrt": (where_sqrt, [f32([0, 4])], "zero times infinity", "sqrt"),
    "where around sqrt of -1": (where_sqrt, [f32([-1, 4])], "invalid", "sqrt"),
    "where around log": (
        lambda x: mnp.where(x > 0, mnp.log(x), 0.0).sum(),
        [f32([0, 4])],
        "zero times infinity",
        "log",
    ),
    "x log x": (
        lambda x: mnp.where(x > 0, x * mnp.log(x), 0.0).sum(),
        [f32([0, 4])],
        "zero times infinity",
        "log",
    ),
    "where around division": (
        lambda x: mnp.where(x == 0, 1.0, mnp.sin(x) / x).sum(),
        [f32([0, 4])],
        "zero times infinity",
        "div",
    ),
    "where around exp": (
        lambda x: mnp.where(x < 50, mnp.exp(x), 0.0).sum(),
        [f32([100, 4])],
        "zero times infinity",
        "exp",
    ),
    "a norm at 0": (
        lambda x: mnp.sqrt((x * x).sum()),
        [f32([0, 0])],
        "zero times infinity",
        "sqrt",
    ),
    "sqrt at 0": (lambda x: mnp.sqrt(x).sum(), [f32([0, 1])], "division by zero", "sqrt"),
    "acos at 1": (lambda x: mnp.arccos(x).sum(), [f32([1, 0])], "division by zero", "sqrt"),
    "a power below 1": (
        lambda x: (x ** mnp.float32(0.5)).sum(),
        [f32([0, 1])],
        "division by zero",
        "pow",
    ),
    "masked norm": (
        lambda x: mnp.where(x[0] > 0, mnp.sqrt(x @ x), 0.0),
        [f32([0, 0])],
        "zero times infinity",
        "sqrt",
    ),
    "logistic by hand": (
        lambda x: 1 / (1 + mnp.exp(x)),
        [f32([100.0, 1])],
        "zero times infinity",
        "exp",
    ),
    "cbrt at 0": (lambda x: mnp.cbrt(x), [f32([0, -8])], "division by zero", "cbrt"),
    "in a branch": (
        lambda x: mx.cond(
            x[0] < 1, lambda y: mnp.where(y > 0, mnp.sqrt(y), y), lambda y: y, x
        ).sum(),
        [f32([0, 4])],
        "zero times infinity",
        "sqrt",
    ),
    "in f16": (
        lambda x: mnp.where(x > 0, mnp.log(x), 0).sum(),
        [f16([0, 4])],
        "zero times infinity",
        "log",
    ),
    "in a loop": (
        lambda x: mx.fori_loop(0, 2, lambda i, y: mnp.where(x > 0, mnp.sqrt(x) * y, y), x).sum(),
        [f32([0, 4])],
        "zero times infinity",
        "sqrt",
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_where_derivatives_stop_being_finite(name):
    function, arguments, kind, operation = GRADIENTS[name]
    report = mx.cross_check(function, *arguments)
    found = {(each.kind, each.operation) for each in report.findings}
    assert (kind, operation) in found, report
    assert not any(each.suspects for each in report.findings), report


def attention(q, k, mask):
    scores = mnp.where(mask, q @ k.T, -np.inf)
    return mx.nn.softmax(scores) @ k


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / mnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def safe_sqrt(x):
    is_positive = x > 0
    return mnp.where(is_positive, mnp.sqrt(mnp.where(is_positive, x, 1.0)), 0.0)


def cross_entropy(x, labels):
    return -(mx.nn.log_softmax(x) * labels).sum(axis=-1).mean()


def loop(x):
    return mx.fori_loop(0, 5, lambda i, y: mnp.tanh(y) * 1.5, x)


random = np.random.default_rng(0)


def normal(*sizes, dtype=f32):
    return random.normal(size=sizes).astype(dtype)


CAUSAL = np.tril(np.ones((4, 4), bool))
RIGHT = {
    "softmax": (mx.nn.softmax, [f32([1000, 1, -1000])]),
    "softmax in bf16": (mx.nn.softmax, [np.array([200, 100], bf16)]),
    "softmax with a masked element": (mx.nn.softmax, [f32([1, -np.inf, 2])]),
    "log_softmax": (mx.nn.log_softmax, [f32([100, 1, 2])]),
    "logsumexp": (mx.nn.logsumexp, [f32([1000, 999])]),
    "logsumexp with a masked element": (mx.nn.logsumexp, [f32([1, -np.inf, 2])]),
    "causal attention": (attention, [normal(4, 3), normal(4, 3), CAUSAL]),
    "layer norm": (layer_norm, [normal(3, 5)]),
    "layer norm of constants": (layer_norm, [np.ones((2, 4), f32)]),
    "relu": (mx.nn.relu, [f32([0, 1, -1])]),
    "gelu": (mx.nn.gelu, [normal(5)]),
    "silu": (mx.nn.silu, [f32([-1, 0, 1])]),
    "softplus": (mx.nn.softplus, [f32([-100, 0, 100])]),
    "sigmoid": (mx.nn.sigmoid, [f32([-100, 0, 100])]),
    "tanh": (mnp.tanh, [f32([-100, 0, 100])]),
    "safe sqrt": (safe_sqrt, [f32([0, 4, -1])]),
    "sqrt away from 0": (mnp.sqrt, [f32([1, 4])]),
    "log1p": (mnp.log1p, [f32([0, 1e-6])]),
    "expm1": (mnp.expm1, [f32([0, 1e-6])]),
    "logaddexp": (lambda x, y: mnp.logaddexp(x, y), [f32([1000, -1000]), f32([999, 0])]),
    "cross entropy": (cross_entropy, [normal(3, 4) * 50, np.eye(3, 4, dtype=f32)]),
    "maximum with -inf": (lambda x: mnp.where(x > 0, x, -np.inf).max(), [f32([1, -1, 2])]),
    "minimum with inf": (lambda x: mnp.minimum(x, np.inf), [f32([1, -1])]),
    "exp of -inf": (lambda x: mnp.exp(mnp.where(x > 0, x, -np.inf)), [f32([1, -1])]),
    "exp that is 0": (lambda x: mnp.exp(x), [f32([-500, 1])]),
    "clipped log": (lambda x: mnp.log(mnp.maximum(x, 1e-6)), [f32([0, 1])]),
    "clipped cast": (
        lambda x: quantized(mnp.clip(x, -448, 448), ml_dtypes.float8_e4m3fn),
        [f32([500, 1])],
    ),
    "an infinite operand that is not chosen": (
        lambda x: mnp.where(x > 0, 1 / mnp.where(x > 0, x, 1.0), 0.0),
        [f32([0, 2])],
    ),
    "a norm at 0": (lambda x: mnp.linalg.norm(x), [f32([0, 0])]),
    "cbrt": (lambda x: mnp.cbrt(x), [f32([1, -8])]),
    "arctan of an infinity": (lambda x: mnp.arctan(mnp.exp(x)), [f32([3, -100])]),
    "nan_to_num": (lambda x: mnp.nan_to_num(x), [f32([np.nan, np.inf, 1])]),
    "nansum": (lambda x: mnp.nansum(x), [f32([np.nan, 2, 1])]),
    "inputs with NaN": (lambda x: x * 2, [f32([np.nan, 1])]),
    "inputs with infinities": (lambda x: x * 2, [f32([np.inf, -np.inf])]),
    "a loop": (loop, [normal(3)]),
    "cumsum": (mnp.cumsum, [normal(5)]),
    "norm": (mnp.linalg.norm, [normal(5)]),
    "complex": (lambda z: mnp.exp(z) * z.conj(), [np.complex64([1 + 1j, 2])]),
    "no elements": (lambda x: mnp.log(x), [np.zeros((0, 3), f32)]),
    "mean of doubles": (lambda x: mnp.log(x).mean(), [f64([1, 2, 3])]),
    "a scan": (lambda x: mx.scan(lambda c, y: (c + y, mnp.exp(-c)), x[0], x)[1], [normal(4)]),
    "a product with a mask": (lambda x, m: (x * m).sum(), [normal(4), f32([0, 1, 0, 1])]),
    "a norm with an epsilon": (
        lambda x: x / mnp.maximum(mnp.sqrt((x * x).sum() + 1e-12), 1e-6),
        [f32([0, 0])],
    ),
    "sinc": (mnp.sinc, [f32([0, 1, 2.5])]),
    "hypot": (mnp.hypot, [f32([3e20, 1]), f32([4e20, 2])]),
    "max pool of JAX": (
        lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, (2,), (2,), "SAME"),
        [normal(5)],
    ),
    "entropy with a safe log": (
        lambda p: mnp.where(p > 0, p * mnp.log(mnp.where(p > 0, p, 1)), 0).sum(),
        [f32([0, 0.5, 0.5])],
    ),
    "float to index": (lambda x: mx.nn.one_hot(x.astype("int32"), 4), [f32([0, 1, 3])]),
    "a cast that is not chosen": (
        lambda x: mnp.where(x < 100, x.astype("int8"), np.int8(0)),
        [f32([1e4, -5])],
    ),
    "a running maximum": (
        lambda x: mx.scan(lambda c, y: (mnp.maximum(c, y), c), mnp.float32(-np.inf), x)[0],
        [normal(4)],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_have_no_findings(name):
    function, arguments = RIGHT[name]
    with jax.enable_x64(any(x.dtype == f64 for x in arguments)):
        report = mx.cross_check(function, *arguments)
    assert report.ok and not report.findings, report


@pytest.mark.parametrize(
    "function", [masked_log, where_sqrt, mnp.log], ids=["result", "gradient", "both"]
)
def test_a_nan_from_inputs_without_nan_fails(function):
    assert not mx.cross_check(function, f32([0, -1, 4])).ok


def test_an_infinity_on_which_all_agree_does_not_fail():
    report = mx.cross_check(mnp.log, f32([0, 1]), gradients=False)
    assert report.ok and [each.kind for each in report.findings] == ["division by zero"]
