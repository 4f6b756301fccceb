"""Single operations on JAX's arrays: results, operands, errors, lifting, 64-bit mode."""

from __future__ import annotations

import functools
import inspect
import math
import pickle
import threading
import traceback
import weakref
from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import tracing
from minixla.core.attributes import Literal
from minixla.core.errors import AttributeValueError, LeakedTracerError, ShapeError
from minixla.core.operation import operation_named
from minixla.core.shapes import Shape, TupleValue
from minixla.core.state import transforming
from minixla.engine import ENGINE, compiled_functions
from minixla.engine import eager as eager_module
from minixla.engine.compiled_functions import CompiledFunctions
from minixla_ops.helpers import shorthand as rules
from tests.harness import compiled_rows
from tests.minixla.numpy.tables import split

X = np.arange(6, dtype=np.float32).reshape(2, 3)

FUNCTIONS_OF_A_NUMBER = {
    "sin": lambda n, s: n.sin(s),
    "multiply": lambda n, s: n.multiply(s, 2),
    "multiply by an array": lambda n, s: n.multiply(s, np.float16(2)),
    "where": lambda n, s: n.where(True, s, 1.0),
    "reshape": lambda n, s: n.reshape(s, (1,)),
    "stack": lambda n, s: n.stack([s, s]),
}


@pytest.mark.parametrize("disabled", [False, True], ids=["jit", "disable_jit"])
@pytest.mark.parametrize("name", FUNCTIONS_OF_A_NUMBER)
def test_results_for_python_numbers_are_weak(name, disabled):
    with jax.disable_jit(disabled):
        ours = FUNCTIONS_OF_A_NUMBER[name](mx.numpy, 0.5)
    theirs: Any = jax.eval_shape(lambda: FUNCTIONS_OF_A_NUMBER[name](jnp, 0.5))
    assert (ours.dtype, ours.shape, ours.weak_type) == (
        theirs.dtype,
        theirs.shape,
        theirs.weak_type and not disabled,
    )


CALLS = [
    (lambda: ops.add(X, X), X + X),
    (lambda: ops.add(jnp.asarray(X), X), X + X),
    (lambda: ops.add(1.0, 2.0), np.float32(3)),
    (lambda: ops.add(1, 2), np.int32(3)),
    (lambda: ops.add(True, False), np.bool_(True)),
    (lambda: ops.neg(X.T), -X.T),
    (lambda: ops.neg(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32)),
    (lambda: ops.constant(X), X),
    (lambda: ops.constant(5), np.int32(5)),
    (lambda: ops.iota(Shape("s32", (3,)), 0), np.arange(3, dtype=np.int32)),
    (lambda: ops.transpose(X, [1, 0]), X.T),
    (lambda: ops.transpose(X, np.array([1, 0])), X.T),
    (lambda: ops.add(ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(2)), ml_dtypes.bfloat16(3)),
]


@pytest.mark.parametrize(("call", "expected"), CALLS, ids=[str(i) for i in range(len(CALLS))])
def test_results(call, expected):
    found = call()
    assert isinstance(found, jax.Array)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_several_results():
    first, second = ops.call(lambda x: [ops.neg(x), x], X)
    np.testing.assert_array_equal(first, -X)
    np.testing.assert_array_equal(second, X)


WRONG = [
    ("text", "of type str is not an array", "'text'"),
    (None, "of type NoneType is not an array", "None"),
    ([1.0], "of type list is not an array", "[1.0]"),
    ((X, X), "of type tuple is not an array", "array("),
    (object, "of type type is not an array", "object"),
    (np.array(["a"]), "has elements of type <U1", "'a'"),
    (np.zeros(2, jax.dtypes.float0), "has elements of type", "float0"),
    (jax.random.key(0), "has elements of type key<fry>", "key"),
]


@pytest.mark.parametrize(
    "operation", [lambda x: ops.neg(x), lambda x: ops.add(X, x)], ids=["neg", "add"]
)
@pytest.mark.parametrize(("operand", "problem", "given"), WRONG, ids=[row[1] for row in WRONG])
def test_what_is_no_operand(operation, operand, problem, given):
    calls = [
        lambda: operation(operand),
        lambda: mx.grad(lambda x: x * operation(operand))(1.0),
        lambda: mx.jvp(lambda x: x * operation(operand), (1.0,), (1.0,)),
        lambda: mx.vjp(lambda x: ops.add(x, operand), X),
    ]
    for call in calls:
        with pytest.raises(ShapeError) as caught:
            call()
        for phrase in (": argument ", problem, given, "test_eager.py"):
            assert phrase in str(caught.value)


def test_rules_are_checked():
    with pytest.raises(ShapeError) as caught:
        ops.add(X, X.T)
    for phrase in ("f32[2,3]", "f32[3,2]", "test_eager.py"):
        assert phrase in str(caught.value)


def test_a_tracer_is_no_operand():
    seen = []
    mx.make_graph(lambda x: seen.append(x) or x)(X)
    with pytest.raises(LeakedTracerError, match=r"^neg: "):
        ops.neg(seen[0])


NAMED = {
    "sin": (lambda bad: mx.numpy.sin(bad), "x"),
    "add": (lambda bad: mx.numpy.add(X, bad), "x2"),
    "where": (lambda bad: mx.numpy.where(True, X, bad), "y"),
    "concatenate": (lambda bad: mx.numpy.concatenate([X, bad]), "arrays[1]"),
    "stack": (lambda bad: mx.numpy.stack((X, bad)), "arrays[1]"),
    "reshape": (lambda bad: mx.numpy.reshape(bad, (1,)), "a"),
    "matmul": (lambda bad: mx.numpy.matmul(X, bad), "b"),
    "array": (lambda bad: mx.numpy.array(bad), "object"),
    "relu": (lambda bad: mx.nn.relu(bad), "x"),
    "tanh": (lambda bad: ops.tanh(bad), "operand"),
    "mul": (lambda bad: ops.mul(bad, X), "lhs"),
    "dot": (lambda bad: ops.dot(X, bad), "rhs"),
    "select": (lambda bad: ops.select(X > 0, bad, X), "on_true"),
}


@pytest.mark.parametrize("bad", ["text", object(), np.array(["2026-01-01"], "M8[D]")], ids=type)
@pytest.mark.parametrize("name", NAMED)
def test_the_argument_that_is_no_array_is_named(name, bad):
    call, place = NAMED[name]
    for run in (call, mx.reference(call), lambda x: mx.jit(lambda: call(x))()):
        with pytest.raises(ShapeError) as caught:
            run(bad)
        assert str(caught.value).startswith(f"{name}: argument {place} ")
        assert "test_eager.py" in str(caught.value)


def test_lists_that_hold_themselves():
    endless = [X]
    endless.append(endless)
    with pytest.raises(ShapeError, match=r"^concatenate: argument arrays of type list"):
        mx.numpy.concatenate(endless)


def test_integers_that_do_not_fit():
    for number in (2**31, 2**70, -(2**31) - 1):
        with pytest.raises(
            AttributeValueError,
            match=f"argument operand, a Python int, does not fit s32.\n  {number}",
        ):
            ops.neg(number)
    with jax.enable_x64(True):
        assert ops.neg(2**31) == -(2**31)


LIFTED = [
    1.5,
    3,
    True,
    X,
    X.T,
    np.float64(1),
    np.zeros((0, 2)),
    np.broadcast_to(np.float32(2), (2, 3)),
    np.broadcast_to(np.float32(2), (0, 3)),
    np.broadcast_to(np.int8(-1), (2,)),
    np.broadcast_to(ml_dtypes.bfloat16(1), (3,)),
    np.broadcast_to(np.float64(0.1), (3,)),
]


@pytest.mark.parametrize("value", LIFTED, ids=lambda v: f"{np.asarray(v).dtype}{np.shape(v)}")
@pytest.mark.parametrize("x64", [False, True])
def test_lifting_gives_what_jax_makes_of_it(value, x64):
    with jax.enable_x64(x64):
        for _ in range(2):
            found, expected = ENGINE.lift(value), jnp.asarray(value)
            assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
            np.testing.assert_array_equal(found, expected)


def test_lifting_leaves_values_alone():
    array = jnp.ones(3)
    pair = TupleValue([array])
    assert ENGINE.lift(array) is array
    assert ENGINE.lift(pair) is pair


@pytest.mark.parametrize("value", ["text", None, [1.0], {}])
def test_lifting_what_is_no_array(value):
    with pytest.raises(ShapeError, match=r"^here: argument value of type"):
        ENGINE.lift(value, "here")


def test_repeated_values_made_while_jax_traces_do_not_leak():
    def function(x):
        return mx.grad(lambda y: 3.0)(x) + 1

    eager_module._SPLATS.clear()
    with jax.checking_leaks():
        for _ in range(2):
            np.testing.assert_array_equal(jax.jit(function)(jnp.ones(17)), np.ones(17))
    np.testing.assert_array_equal(function(jnp.ones(17)), np.ones(17))
    np.testing.assert_array_equal(jax.vmap(function)(jnp.ones((2, 19))), np.ones((2, 19)))


def test_few_repeated_values_are_kept(monkeypatch):
    monkeypatch.setattr(eager_module, "_MOST_SPLATS", 5)
    eager_module._SPLATS.clear()
    for number in range(20):
        found = ENGINE.lift(np.broadcast_to(np.float32(number), (3,)))
        np.testing.assert_array_equal(found, [number] * 3)
    assert len(eager_module._SPLATS) <= 5
    ENGINE.lift(np.broadcast_to(np.float32(1), (1000, 1000)))
    assert all(each.nbytes <= eager_module._SPLAT_BYTES for each in eager_module._SPLATS.values())


def test_signs_of_repeated_zeros():
    for number in (0.0, -0.0, 0.0):
        found = ENGINE.lift(np.broadcast_to(np.float32(number), (3,)))
        assert np.signbit(found).all() == np.signbit(number)


def test_constants_are_not_kept():
    before = eager_module._compiled.cache_info().currsize
    for number in range(50):
        ops.constant(np.full(3, number, np.float32))
    assert eager_module._compiled.cache_info().currsize == before
    literal = Literal(X)
    np.testing.assert_array_equal(operation_named("Constant")(literal)(), X)


def test_programs_of_one_operation_are_kept():
    ops.reshape(X, (3, 2))
    before = eager_module._compiled.cache_info()
    ops.reshape(X, (3, 2))
    ops.reshape(X.astype(np.int8), [3, 2])
    assert eager_module._compiled.cache_info().misses == before.misses


TRACED_AT_EACH_CALL = {
    "call": lambda: ops.call(lambda x: [ops.sin(x)], X),
    "loop": lambda: mx.fori_loop(0, 3, lambda _, x: x * 2, X),
    "branch": lambda: mx.cond(X[0, 1] > 0, lambda x: x * 2, lambda x: x, X),
    "scan": lambda: mx.scan(lambda c, x: (c + x, c), X[0], X),
    "checkpoint": lambda: mx.checkpoint(lambda x: ops.sin(ops.sin(x)))(X),
}


@pytest.mark.parametrize("name", TRACED_AT_EACH_CALL)
def test_equal_programs_are_compiled_once(name):
    function = TRACED_AT_EACH_CALL[name]
    function()
    before = eager_module._compiled.cache_info()
    function()
    assert eager_module._compiled.cache_info().misses == before.misses


def test_under_jax():
    def function(x):
        return ops.reduce([ops.mul(ops.tanh(x), x)], [np.float32(0)], ops.add, [0, 1])

    expected = np.tanh(X) + X * (1 - np.tanh(X) ** 2)
    np.testing.assert_allclose(jax.grad(function)(X), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(function))(X), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(lambda row: ops.neg(row))(X), -X)


ONE_PROGRAM = [
    (mnp.add, (X, X[0])),
    (mnp.multiply, (X, 2.5)),
    (mnp.true_divide, (X.astype(np.int32), 3)),
    (mnp.floor_divide, (X, -2)),
    (mnp.remainder, (X.astype(np.int8), 2)),
    (mnp.right_shift, (X.astype(np.uint8), np.uint8(1))),
    (mnp.less, (X, X.astype(np.float16))),
    (mnp.where, (X > 2, X, 0)),
    (mnp.log2, (X.astype(np.int32),)),
]


WITH_OPTIONS = [
    (mnp.sum, jnp.sum, (X, 1), {}),
    (mnp.sum, jnp.sum, (), {"a": X, "axis": (0, 1), "keepdims": True}),
    (mnp.max, jnp.max, (X,), {"axis": 0, "initial": 4.5, "where": X > 2}),
    (mnp.var, jnp.var, (X, 0), {"correction": 1}),
    (mnp.matmul, jnp.matmul, (X, X.T), {}),
    (mnp.dot, jnp.dot, (X, X.T), {"precision": "highest"}),
    (mnp.cumsum, jnp.cumsum, (X, 1), {}),
    (mnp.cumulative_prod, jnp.cumulative_prod, (X,), {"axis": 1, "include_initial": True}),
    (mx.nn.softmax, jax.nn.softmax, (X,), {"axis": 0}),
    (mx.nn.leaky_relu, jax.nn.leaky_relu, (X - 2,), {"negative_slope": 0.5}),
    (mx.nn.leaky_relu, jax.nn.leaky_relu, (X - 2,), {}),
    (mx.nn.gelu, jax.nn.gelu, (X, False), {}),
]


def in_double(operands):
    """The operands, the first of them in double."""
    return [np.asarray(operands[0], np.float64), *operands[1:]]


def place(operands):
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, operands)


@functools.cache
def in_jax(x64):
    """What JAX gives for the rows of both tables, in one program."""
    calls: dict[Any, Any] = {}
    for function, operands in ONE_PROGRAM:
        name, theirs = function.__name__, getattr(jnp, function.__name__)
        calls[name] = theirs, operands, {}
        calls[f"{name} in double"] = theirs, in_double(operands), {}
    for row, (_, theirs, operands, options) in enumerate(WITH_OPTIONS):
        calls[str(row)] = theirs, *as_default(operands, options, x64)
    rows = {}
    for key, (theirs, *given) in calls.items():
        arrays, rebuild = split(given)

        def call(*xs, theirs=theirs, rebuild=rebuild):
            operands, options = rebuild(xs)
            return theirs(*operands, **options)

        rows[key] = call, arrays
    with jax.enable_x64(x64):
        return compiled_rows(rows, jax.jit)


def as_default(operands, options, x64):
    """Operands and options whose floats are of the mode's own type."""

    def widened(x):
        return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x

    return jax.tree.map(widened, (operands, options)) if x64 else (operands, options)


@pytest.mark.parametrize(
    ("function", "operands"), ONE_PROGRAM, ids=lambda v: getattr(v, "__name__", "")
)
def test_functions_run_as_one_program(function, operands):
    placed = place(operands)
    (equation,) = jax.make_jaxpr(function)(*placed).eqns
    assert equation.primitive.name == "jit"
    actual, expected = function(*placed), in_jax(False)(function.__name__)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "row", range(len(WITH_OPTIONS)), ids=lambda row: WITH_OPTIONS[row][0].__name__
)
def test_options_of_one_program(row, x64):
    function, _, *given = WITH_OPTIONS[row]
    with jax.enable_x64(x64):
        operands, options = place(as_default(*given, x64))
        (equation,) = jax.make_jaxpr(lambda: function(*operands, **options))().eqns
        assert equation.primitive.name == "minixla_program"  # without tracers it is bound itself
        actual, expected = function(*operands, **options), in_jax(x64)(str(row))
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "operands"), ONE_PROGRAM, ids=lambda v: getattr(v, "__name__", "")
)
def test_functions_run_as_one_program_in_64_bits(function, operands):
    expected = in_jax(True)
    with jax.enable_x64(True):
        for suffix, given in {"": operands, " in double": in_double(operands)}.items():
            if function is mnp.right_shift and suffix:
                continue  # floats have no shifts
            actual, wanted = function(*place(given)), expected(function.__name__ + suffix)
            assert (actual.dtype, actual.weak_type) == (wanted.dtype, wanted.weak_type)
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def test_options_that_are_equal_but_not_the_same():
    x = jnp.zeros(0)
    for initial in (0.0, -0.0):
        found = mnp.prod(x + 1, initial=initial)
        np.testing.assert_array_equal(
            np.signbit(found), np.signbit(jnp.prod(x + 1, initial=initial))
        )


@pytest.mark.parametrize("most", [compiled_functions._MOST_COMPILED, 3])  # 3: some are evicted
def test_kept_programs_tell_options_apart(most, monkeypatch):
    monkeypatch.setattr(compiled_functions, "_MOST_COMPILED", most)

    @tracing.one_program("x")
    def described(x, option=0, *, more=None):
        traced.append(1)
        return x + len(repr((option, more)))

    x = jnp.ones(2)
    options = [1, True, (1,), (True,), ((1,), {"a": 1}), ((1,), {"a": True}), None, "1", np.float32]
    # The second time they are cached.
    for count in (3 * len(options), 0):
        traced: list[int] = []
        for option in options:
            np.testing.assert_array_equal(described(x, option), x + len(repr((option, None))))
            np.testing.assert_array_equal(described(x, more=option), x + len(repr((0, option))))
            np.testing.assert_array_equal(described(x, 1, more=option), x + len(repr((1, option))))
        assert len(traced) == count or most == 3
    unhashable = slice(1, 2)
    np.testing.assert_array_equal(described(x, unhashable), x + len(repr((unhashable, None))))


#: Float options, also nested in other options. Only their values differ between calls.
FLOATS = {
    "float": lambda v: v,
    "complex": lambda v: complex(v, 1),
    "NumPy's": np.float32,
    "in a tuple": lambda v: (1, v),
    "in nested containers": lambda v: {"a": [v, (True, v)]},
    "array": lambda v: np.float32([v, v]),
}


@pytest.mark.parametrize("name", FLOATS)
def test_there_is_one_program_for_all_values_of_a_float(name):
    traced = []

    @tracing.one_program("x")
    def scaled(x, option, *, more=0.0):
        traced.append(1)
        return x * sum(jax.tree.leaves((option, more)))

    x = jnp.ones(2)
    for value in (0.5, 1.5, -0.0, math.inf, 2.0):
        option = FLOATS[name](value)
        expected = x * sum(np.asarray(leaf) for leaf in jax.tree.leaves(option))
        np.testing.assert_allclose(scaled(x, option), expected)
        np.testing.assert_allclose(scaled(x, 1, more=option), expected + x)
    assert len(traced) == 2


def test_a_float_that_must_be_known_is_told_apart_by_its_bits():
    traced = []

    @tracing.one_program("x")
    def described(x, option, more=1.0):
        traced.append(1)
        return x * math.copysign(1, option) + len(repr(float(option))) + more

    x = jnp.zeros(())
    for option in (0.0, -0.0, 1.0, np.float64(1), 1, True, math.nan, math.inf) * 2:
        assert described(x, option) == len(repr(float(option))) + 1
    # One compilation for each, and one that fails because it needs the floats.
    assert len(traced) == 8 + 1
    assert described(x, 0.25, 2.0) == described(x, 0.25) + 1


def test_functions_are_not_kept():
    @tracing.one_program("x")
    def applied(x, function):
        return function(x)

    def function(x):
        return x * 2

    dead = weakref.ref(function)
    np.testing.assert_array_equal(applied(jnp.ones(2), function), [2, 2])
    del function
    assert dead() is None


def test_members_of_named_tuples_are_told_apart():
    pair = namedtuple("pair", ["first", "second"])

    @tracing.one_program("x")
    def described(x, option=(0, 1)):
        return x + len(repr(option))

    for option in [pair(0, 1), pair(False, True), (0, 1)] * 2:
        assert described(jnp.zeros(()), option) == len(repr(option))


def test_the_first_call_is_like_others():
    @tracing.one_program("x")
    def scaled(x, by, *, is_negative=False):
        if by == 0:
            raise ValueError("by is 0")
        return x * (-by if is_negative else by)

    assert str(inspect.signature(scaled)) == "(x, by, *, is_negative=False)"
    assert pickle.loads(pickle.dumps(mnp.trace)) is mnp.trace
    found = []
    for _ in range(2):
        with pytest.raises(TypeError, match=r"scaled\(\) missing 1 required positional argument"):
            scaled(jnp.ones(2))
        with pytest.raises(ValueError, match="by is 0") as caught:
            scaled(jnp.ones(2), 0)
        found.append([each.name for each in traceback.extract_tb(caught.tb)])
        np.testing.assert_array_equal(scaled(jnp.ones(2), 2, is_negative=np.True_), [-2, -2])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda np, x: np.stack([x, x], 1),
        lambda np, x: np.stack([x, x], axis=-1),
        lambda np, x: np.concatenate([x, x, x], axis=None),
        lambda np, x: np.lexsort((x, -x)),
        lambda np, x: np.roll(x, 2),
        lambda np, x: np.roll(x, np.array([1, 2]), (0, 1)),
        lambda np, x: np.linspace(1, 4, 5),
        lambda np, x: np.linspace(start=1.5, stop=4, num=5),
        lambda np, x: np.geomspace(1, 8, 4),
        lambda np, x: np.logspace(0.0, 2, 3, base=2),
        lambda np, x: np.split(x, 3, axis=1)[1],
        lambda np, x: np.array_split(x, np.array([1, 2]), axis=1)[2],
        lambda np, x: np.polymul(x[0], x[1]),
    ],
)
def test_a_function_gives_the_same_each_time(function):
    x = jnp.arange(6.0).reshape(2, 3)
    expected = function(jnp, x)
    for _ in range(3):
        np.testing.assert_allclose(function(mnp, x), expected, rtol=1e-6)


def test_arguments_that_the_function_refuses():
    with pytest.raises(TypeError):
        mnp.sum(jnp.ones((2, 3)), 1, a=jnp.ones(2))
    with pytest.raises(TypeError):
        mnp.sum(jnp.ones((2, 3)), *[None] * 8)
    with pytest.raises(TypeError, match="positional-only"):
        mnp.vecdot(x1=jnp.ones(3), x2=jnp.ones(3))


def test_kept_programs_heed_the_trace_of_their_own_thread():
    x = jnp.arange(3.0)

    def results():
        return mnp.cumsum(x), mnp.cumsum(x, axis=0), mnp.sin(x), mnp.fmax(x, x)

    results()  # now they are kept
    inside, done, seen = threading.Event(), threading.Event(), []

    def staged(y):
        inside.set()
        assert done.wait(60)
        # The operands are constants of this trace: it records what is made of them.
        seen.append(results())
        return y

    thread = threading.Thread(target=mx.make_graph(staged), args=(x,))
    thread.start()
    assert inside.wait(60)
    try:  # another thread's transformation is not this one's
        meanwhile = results()
    finally:
        done.set()
        thread.join()
    assert all(isinstance(each, jax.Array) for each in meanwhile)
    assert all(isinstance(each, tracing.Tracer) for each in seen[0])
    assert not transforming


def test_arguments_by_name_are_those_by_position():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.ones((2, 3))
    for _ in range(2):
        for found in (
            mnp.diff(x, 1, 0),
            mnp.diff(x, axis=0),
            mnp.diff(x, n=1, axis=0),
            mnp.diff(axis=0, a=x),
        ):
            np.testing.assert_array_equal(found, jnp.diff(x, axis=0))
        np.testing.assert_array_equal(mnp.clip(x, max=y), jnp.clip(x, max=y))
        np.testing.assert_array_equal(mnp.clip(x, y), jnp.clip(x, y))
        np.testing.assert_array_equal(mnp.clip(x, min=y, max=3), jnp.clip(x, y, 3))
        np.testing.assert_array_equal(
            mnp.average(x, weights=y * 2, axis=1, keepdims=True), x.mean(1, keepdims=True)
        )
        for wrong, message in (
            (lambda: mnp.diff(x, a=x), r"diff\(\) got multiple values for argument 'a'"),
            (lambda: mnp.diff(axis=0), r"diff\(\) missing 1 required positional argument: 'a'"),
            (lambda: mnp.clip(arr=x, min=y), "positional-only"),
            (lambda: mnp.floor(), r"floor\(\) missing 1 required positional argument: 'x'"),
            (lambda: mnp.diff(x, axes=0), "unexpected keyword argument 'axes'"),
        ):
            with pytest.raises(TypeError, match=message):
                wrong()


def test_options_that_no_program_is_made_for():
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(mnp.sum(x, axis=[0, 1]), 15)  # unhashable
    np.testing.assert_array_equal(mnp.max(x, initial=jnp.float32(9)), 9)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_arrays_of_what_is_else_known(dtype):
    traced = []

    @tracing.one_program("x", known=("by",))
    def scaled(x, by=2, *, offset=0):
        traced.append(isinstance(by, tracing.Tracer))
        return x * by + offset

    x, by = jnp.arange(3.0), jnp.asarray([1, 2, 3], dtype)
    for _ in range(3):
        np.testing.assert_array_equal(scaled(x, by), x * by)
        np.testing.assert_array_equal(scaled(x, by=by, offset=1), x * by + 1)
        np.testing.assert_array_equal(scaled(x, 3), x * 3)
        np.testing.assert_array_equal(scaled(x), x * 2)
        np.testing.assert_array_equal(scaled(by, x), x * by)
    # Once for each: the last is the first's program where both are of one type.
    assert (traced.count(False), traced.count(True)) == (2, 2 if dtype is np.float32 else 3)


def test_operands_by_name_are_of_kept_programs():
    traced = []

    @tracing.one_program("x", "by", "more")
    def scaled(x, by=2, more=0, *, offset=0.5):
        traced.append(offset)
        return x * by + more + offset

    x, y = jnp.arange(3.0), jnp.asarray([1.0, 2, 4])
    for _ in range(3):
        np.testing.assert_array_equal(scaled(x, by=y), x * y + 0.5)
        np.testing.assert_array_equal(scaled(x, more=y), x * 2 + y + 0.5)
        np.testing.assert_array_equal(scaled(x, more=y, by=x), x * x + y + 0.5)
        np.testing.assert_array_equal(scaled(x, more=3.0), x * 2 + 3.5)
        np.testing.assert_array_equal(scaled(x, more=5.0), x * 2 + 5.5)
        np.testing.assert_array_equal(scaled(x, y, offset=1.5, more=y), x * y + y + 1.5)
        np.testing.assert_array_equal(scaled(x, y, y, offset=1.5), x * y + y + 1.5)
        np.testing.assert_array_equal(scaled(x, offset=-0.0), x * 2)
        with pytest.raises(TypeError, match="multiple values"):
            scaled(x, x=y)
    # One for each set of parameters in the call.
    assert len(traced) == 7


@pytest.mark.parametrize(
    ("function", "count"), [(mnp.sin, 1), (mnp.less, 2), (mnp.fmax, 2), (mnp.nansum, 1)]
)
def test_kept_programs_are_for_arrays_alone(function, count):
    x = jnp.arange(1.0, 4.0)
    operands = (x,) * count
    expected = getattr(jnp, function.__name__)(*operands)
    for _ in range(3):
        np.testing.assert_allclose(function(*operands), expected, rtol=1e-6)
        # What is traced, what the reference evaluates and what is no array take other ways.
        graph = mx.make_graph(function)(*operands)
        assert graph.instructions
        assert type(mx.reference(function)(*map(np.asarray, operands))) is np.ndarray
        np.testing.assert_allclose(jax.jit(function)(*operands), expected, rtol=1e-6)
        with pytest.raises(ShapeError, match=r"argument .* of type str is not an array"):
            function(*["x"] * count)
        with pytest.raises(TypeError, match=function.__name__):
            function()
        with pytest.raises(RuntimeError, match="deleted"):
            deleted = x + 1
            deleted.delete()
            function(*(deleted,) * count)


def test_the_first_operand_may_have_its_name():
    x = jnp.arange(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(mnp.cumsum(a=x), mnp.cumsum(x))
        np.testing.assert_array_equal(mnp.fmax(x1=x, x2=-x), mnp.fmax(x, -x))


def test_what_does_not_run_as_one_program():
    # JAX would narrow a constant of a rule.
    constant = rules.splat(1.0, Shape("f64"))
    add: Any = CompiledFunctions(mnp.add)
    assert add((constant, constant), {}) is NotImplemented
    assert add((1, 2), {}) is NotImplemented
    # 2**40 is no int32, which JAX would make it.
    np.testing.assert_array_equal(mnp.add(jnp.ones(2, np.float32), 2**40), np.float32(2**40 + 1))
    with pytest.raises(
        ShapeError, match=r"add: the operands' dimensions do not broadcast together"
    ):
        mnp.add(jnp.ones(3), jnp.ones(4))
    with mx.debug_nans(), pytest.raises(mx.core.NaNError, match="div"):
        mnp.divide(jnp.zeros(2), jnp.zeros(2))
