"""debug_nans and debug_infs: what they find, where they say it was made, what they let pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.tracing import current_trace, default_trace
from tests.selection import diagonal

X = np.array([1.0, 0.0, -2.0], np.float32)
ROWS = np.stack([X, X])


def log_sum(x):
    return mnp.log(x).sum()


def rooted(x):
    y = mnp.sqrt(mnp.abs(x))
    return mnp.where(x > 0.5, y, 0).sum()


def line(function, offset=1):
    return f"test_debug_nans.py:{function.__code__.co_firstlineno + offset} "


def found(function, *args, check=mx.debug_nans, error=mx.NaNError):
    """The message of the error that running a function under a check raises."""
    with pytest.raises(error) as caught, check():
        function(*args)
    assert isinstance(caught.value, FloatingPointError)
    assert current_trace() is default_trace()
    return str(caught.value)


FORWARD = {
    "eager": (lambda f: f, X),
    "jit": (mx.jit, X),
    "jit-jit": (lambda f: mx.jit(lambda x: 2 * mx.jit(f)(x)), X),
    "grad": (mx.grad, X),
    "grad-jit": (lambda f: mx.grad(mx.jit(f)), X),
    "jvp": (lambda f: lambda x: mx.jvp(f, (x,), (x,)), X),
    "vmap": (mx.vmap, ROWS),
    "vmap-jit-grad": (lambda f: mx.vmap(mx.jit(mx.value_and_grad(f))), ROWS),
    "checkpoint": (lambda f: mx.grad(mx.checkpoint(f)), X),
    "linearize": (lambda f: lambda x: mx.linearize(f, x), X),
    "reference": (mx.reference, X),
    "reference-jit": (lambda f: mx.reference(mx.jit(f)), X),
    "reference-vmap": (lambda f: mx.reference(mx.vmap(f)), ROWS),
    "jax.jit": (jax.jit, X),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    wrap, x = FORWARD[name]
    message = found(wrap(log_sum), mnp.asarray(x))
    at = "[0, 2]" if x is ROWS else "[2]"
    for phrase in (
        "log: it produces a NaN from operands without any, in the forward computation.",
        f"operand {'f32[2,3]' if x is ROWS else 'f32[3]'}: from -2.0 to 1.0",
        f"elements, first at {at}",
        "there operand = -2.0",
        line(log_sum),
        "(log_sum)",
        "mx.debug_nans(False)",
    ):
        assert phrase in message


REVERSE = {
    "grad": (mx.grad, X, "sqrt: its reverse derivative produces a NaN from a cotangent"),
    "vmap-grad": (mx.vmap(mx.grad(rooted)), ROWS, "sqrt: its reverse derivative produces a NaN"),
    "reference": (lambda f: mx.reference(mx.grad(f)), X, "sqrt: its reverse derivative produces"),
    "jit-grad": (lambda f: mx.jit(mx.grad(f)), X, "operands without any, in the reverse"),
    "grad-jit": (lambda f: mx.grad(mx.jit(f)), X, "in the reverse derivative of sqrt"),
    "grad-jit-jit": (lambda f: mx.grad(mx.jit(mx.jit(f))), X, "in the reverse derivative of sqrt"),
    "grad-checkpoint": (lambda f: mx.grad(mx.checkpoint(f)), X, "the reverse derivative of sqrt"),
    "reference-jit": (lambda f: mx.reference(mx.jit(mx.grad(f))), X, "derivative of sqrt"),
}


@pytest.mark.parametrize("name", REVERSE)
def test_reverse(name):
    wrap, x, expected = REVERSE[name]
    message = found(wrap if name == "vmap-grad" else wrap(rooted), x)
    for phrase in (expected, line(rooted), "(rooted)", "Choose the operand before the operation"):
        assert phrase in message


def test_functions_compiled_before_say_so_too():
    function = mx.grad(mx.jit(rooted))
    assert np.isnan(function(X)).any()
    assert "in the reverse derivative of sqrt" in found(function, X)
    assert np.isnan(function(X)).any()


def test_forward_derivatives():
    x = np.float32(0)
    message = found(lambda: mx.jvp(lambda x: mnp.sqrt(x), (x,), (x,)))
    assert message.startswith("sqrt: its forward derivative produces a NaN from a tangent")


def test_operands_and_results_are_shown():
    def function(x, y):
        return mnp.divide(x, y)

    message = found(mx.jit(function), np.float32([[1, 0]]), np.float32([[2, 0]]))
    for phrase in (
        "div: it produces a NaN",
        "lhs f32[1,2]: from 0.0 to 1.0",
        "rhs f32[1,2]: from 0.0 to 2.0",
        "result f32[1,2]: a NaN in 1 of 2 elements, first at [0, 1]",
        "there lhs = 0.0, rhs = 0.0",
        "in function, called at",
        line(function),
    ):
        assert phrase in message


# Programs in programs.


def stepped(x):
    def step(carry, element):
        return carry * 2, mnp.log(element + carry)

    return mx.scan(step, np.float32(0.25), x)[1]


def looped(x):
    def body(state):
        number, value = state
        return number + 1, value + mnp.sqrt(2 - number.astype("f4"))

    return mx.while_loop(lambda state: state[0] < 5, body, (0, x))[1]


def chosen(x):
    return mx.cond(x > 0, lambda v: v, lambda v: mnp.sqrt(v), x)


def outside(x):
    branches = [lambda v: v, lambda v: v + 1, lambda v: mnp.sqrt(v)]
    return mx.ops.conditional(mx.numpy.int32(-5), branches, [x, x, x])


def counted(x):
    def body(_, value):
        return mnp.sqrt(value - 1)

    return mx.fori_loop(0, 3, body, x)


NESTED = {
    "scan": (stepped, X, "log: ", "in step 2 of the scan, called at"),
    "while": (looped, np.float32(1), "sqrt: ", "in iteration 3 of the loop, called at"),
    "cond": (chosen, np.float32(-1), "sqrt: ", "in branch 1, called at"),
    "an index of no branch": (outside, np.float32(-1), "sqrt: ", "in branch 2, called at"),
    "fori": (counted, np.float32(2), "sqrt: ", "in iteration 2 of the loop, called at"),
}


@pytest.mark.parametrize(("name", "how"), diagonal([*NESTED], ["eager", "jit", "grad", "numpy"]))
def test_control_flow(name, how):
    function, x, subject, where = NESTED[name]

    def summed(x):
        return mnp.sum(function(x))

    wrap = {"eager": lambda f: f, "jit": mx.jit, "grad": mx.grad, "numpy": mx.reference}[how]
    message = found(wrap(summed), x)
    assert message.startswith(subject)
    assert where in message
    assert f"({function.__name__}" in message


def test_the_first_of_several_on_the_way_to_the_result():
    def function(x):
        masked = mnp.where(x > 0, mnp.log(x), 0)  # a NaN that reaches nothing
        first = mnp.sqrt(x - 1)
        return masked + first + mnp.arcsin(first + 2)

    message = found(mx.jit(function), X)
    assert message.startswith("sqrt: ")
    assert line(function, 2) in message


def test_custom_rules():
    @mx.custom_jvp
    def function(x):
        return mnp.log(x)

    @function.defjvp
    def rule(primals, tangents):
        return function(primals[0]), tangents[0] * mnp.sqrt(-primals[0])

    assert "log: " in found(function, X)
    one = np.float32(1)
    for wrap in (lambda f: f, mx.jit):
        message = found(wrap(mx.grad(function)), one)
        assert "sqrt: it produces a NaN" in message
        assert "test_debug_nans.py" in message


def test_mapped_over_devices():
    message = found(mx.pmap(log_sum), ROWS)
    assert "manual_computation: it produces a NaN" in message
    assert "elements, first at [0]" in message


# What passes.


@pytest.mark.parametrize("wrap", [lambda f: f, mx.jit, mx.reference], ids=["eager", "jit", "numpy"])
def test_what_is_meant_passes(wrap):
    nans = np.array([1, np.nan], np.float32)

    def constant(x):
        return mnp.where(mnp.abs(x) > 0.5, x, np.float32(np.nan))

    def branch(x):
        return mx.cond(x[0] > 0, lambda v: v * np.float32(np.nan), lambda v: v, x)

    with mx.debug_nans():
        assert np.isnan(wrap(mnp.sqrt)(nans)).tolist() == [False, True]
        assert np.isnan(wrap(constant)(X)).tolist() == [False, True, False]
        assert np.isnan(wrap(mx.grad(lambda x: mnp.sin(x).sum()))(nans)).tolist() == [False, True]
        assert np.isnan(wrap(lambda x: branch(x))(X)).all()
        assert wrap(lambda x: mnp.asarray(x).astype("int32"))(X).tolist() == [1, 0, -2]


def test_what_does_not_reach_a_compiled_result_passes():
    with mx.debug_nans():
        result = mx.jit(lambda x: mnp.where(x > 0, mnp.log(x), 0))(X)
    assert result.tolist() == [0, 0, 0]


def test_steps_of_derivative_rules_pass():
    x = np.array([-3.0, 0.0, 2.0], np.float32)  # the rule of pow has log(x) in it

    def function(x):
        return (x**2 + mnp.abs(x) ** 3).sum()

    expected = mx.grad(function)(x)
    with mx.debug_nans():
        assert mx.grad(function)(x).tolist() == expected.tolist()
        assert mx.jvp(function, (x,), (np.ones_like(x),))[1] == sum(expected)


def test_results_are_the_same_and_arguments_are_not_donated():
    function = mx.jit(lambda x: {"y": mnp.sin(x), "n": 3}, donate_argnums=0)
    x = mnp.asarray(X)
    with mx.debug_nans(), mx.debug_infs():
        result = function(x)
    assert isinstance(result["y"], jax.Array)
    assert result["y"].tolist() == mnp.sin(x).tolist()
    assert x.tolist() == X.tolist()


# Switching it on and off.


def test_off_inside():
    with mx.debug_nans():
        with mx.debug_nans(False):
            assert np.isnan(mnp.sqrt(X)).any()
            assert np.isnan(mx.grad(rooted)(X)).any()
            assert np.isnan(jnp.sqrt(X)).any()
        with pytest.raises(mx.NaNError):
            mnp.sqrt(X)
    assert np.isnan(mnp.sqrt(X)).any()


def test_off_inside_a_derivative():
    def function(x):
        with mx.debug_nans(False):
            y = mnp.sqrt(x)
        return mnp.where(x > 0, y, 0).sum()

    with mx.debug_nans():
        mx.vjp(function, X)
    with pytest.raises(mx.NaNError, match="sqrt"), mx.debug_nans():
        mx.vjp(lambda x: mnp.sqrt(x), X)


def test_on_inside_a_derivative():
    def function(x):
        with mx.debug_nans():
            return mnp.sqrt(x).sum()

    with pytest.raises(mx.NaNError, match="sqrt: it produces a NaN"):
        mx.grad(function)(X)
    with pytest.raises(mx.NaNError, match="sqrt: it produces a NaN"):
        mx.vmap(mx.grad(function))(ROWS)
    with pytest.raises(mx.NaNError, match="sqrt: it produces a NaN"):
        mx.reference(function)(X)
    assert np.isnan(mx.jit(function)(X)), "numbers are not known while a program is made"


def test_as_a_decorator():
    @mx.debug_nans()
    def function(x):
        return mnp.sqrt(x)

    for _ in range(2):
        with pytest.raises(mx.NaNError, match="sqrt"):
            function(X)
    assert function(np.float32(4)) == 2
    assert current_trace() is default_trace()


def test_it_leaves_no_trace():
    with mx.debug_nans():
        result = mnp.sin(X)
    assert type(result) is type(mnp.sin(X))
    assert current_trace() is default_trace()
    with pytest.raises(KeyError), mx.debug_nans(), mx.debug_infs():
        raise KeyError
    assert current_trace() is default_trace()
    assert np.isnan(jnp.sqrt(X)).any()


# JAX's own operations.


def test_operators_of_jax_arrays():
    x = mnp.asarray(X)

    def function():
        return (x - 1) / (x - 1)

    message = found(function)
    assert message.startswith("div: it produces a NaN from operands without any")
    assert line(function) in message


# Infinities.


def test_infinities():
    def function(x):
        return mnp.divide(np.float32(1), x).sum()

    for wrap in (lambda f: f, mx.jit, mx.vmap):
        message = found(wrap(function), ROWS, check=mx.debug_infs, error=mx.InfinityError)
        assert message.startswith("div: it produces an infinity from operands without any")
        assert "mx.debug_infs(False)" in message
    message = found(mx.grad(mnp.sqrt), np.float32(0), check=mx.debug_infs, error=mx.InfinityError)
    assert message.startswith("sqrt: its reverse derivative produces an infinity")
    with mx.debug_infs():
        assert np.isnan(mnp.sqrt(np.float32(-1)))
        assert mnp.exp(np.float32(-np.inf)) == 0
        assert mnp.max(np.array([-np.inf, 1], np.float32)) == 1


def test_an_infinity_that_becomes_nan_is_found():
    def vanishing(x):
        large = mnp.exp(x)
        return large - large

    def looping(x):
        return mx.fori_loop(0, 2, lambda i, y: vanishing(y), x)

    options = {"check": mx.debug_infs, "error": mx.InfinityError}
    for function in (vanishing, looping, mx.jit(vanishing)):
        message = found(mx.jit(function), np.float32([1000, 1]), **options)
        assert message.startswith("exp: it produces an infinity") and line(vanishing) in message
    with mx.debug_infs():
        assert np.isnan(mx.jit(lambda x: (x - x) / (x - x))(X)).all()


def test_both():
    def watch():
        return mx.debug_nans()

    with mx.debug_infs():
        with watch(), pytest.raises(mx.NaNError):
            mnp.sqrt(X)
        with watch(), pytest.raises(mx.InfinityError):
            mnp.log(np.float32(0))
        with pytest.raises(mx.InfinityError):
            mx.jit(mnp.log)(np.float32(0))


# Types, tuples, side effects.


@pytest.mark.parametrize(
    "dtype",
    [np.float16, ml_dtypes.bfloat16, np.complex64, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_element_types(dtype):
    x = np.array([0, 1]).astype(dtype)
    assert "div: it produces a NaN" in found(lambda: ops.div(x, x))
    assert "div: it produces a NaN" in found(mx.reference(lambda x: ops.div(x, x)), x)


def test_types_without_nans():
    x = np.array([0, 1]).astype(ml_dtypes.float4_e2m1fn)
    with mx.debug_nans(), mx.debug_infs():
        mx.reference(lambda x: ops.add(x, x))(x)
        ops.add(np.int8(3), np.int8(4))
        ops.not_(np.bool_(True))


def test_tuples_and_empty_arrays():
    def function(x):
        pair = ops.tuple([x, ops.log(x)])
        return ops.get_tuple_element(pair, 1)

    assert found(mx.jit(function), X).startswith("log: ")
    assert found(mx.reference(function), X).startswith("log: ")
    with mx.debug_nans():
        assert mx.jit(function)(X[:0]).shape == (0,)


def test_what_is_shown_is_not_shown_again(capfd):
    def function(x):
        mx.debug_print("x = {}", x)
        return mnp.log(x)

    assert found(mx.jit(function), X).startswith("log: ")
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x = ") == 1


def test_programs_with_side_effects_do_not_run_again():
    def function(x):
        low, high = (ops.constant(np.float32(each)) for each in (0, 1))
        noise = ops.rng_uniform(low, high, mx.Shape("f32", (3,)))
        return mnp.log(x) + noise

    message = found(mx.jit(function), X)
    assert message.startswith("call: it produces a NaN")
    assert "test_debug_nans.py" in message


ONE = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize(
    "transformed",
    [
        mx.jit,
        mx.shard_map(mesh=ONE, in_specs=jax.P("x"), out_specs=jax.P("x")),
        lambda function: mx.pmap(function, devices=jax.devices()[:1]),
        lambda function: function,
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_that_of_jax(transformed, is_new):
    """It says what ran, and no more: without the operation and its line."""

    def logarithm(x):
        return mx.numpy.log(x)

    function, x = transformed(logarithm), np.ones((1, 4), np.float32)
    if not is_new:
        function(x)
    message = r"invalid value \(nan\) encountered in .*log"
    for _ in range(2):
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match=message):
            function(-x)
    assert not np.isnan(function(x)).any()
