"""Tracers as Python values: asking for numbers, for arrays, hashing, printing, tuples."""

from __future__ import annotations

import copy
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ConcretizationError, DerivativeError, ShapeError
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph

X = np.arange(3, dtype=np.float32)

# What Python may ask a value for, and what the message calls it.
QUESTIONS = {
    "bool": (bool, "a Python bool"),
    "if": (lambda x: 1.0 if x else 2.0, "a Python bool"),
    "while": (lambda x: next(iter([None for _ in [0] if x])), "a Python bool"),
    "not": (lambda x: not x, "a Python bool"),
    "int": (int, "a Python int"),
    "float": (float, "a Python float"),
    "complex": (complex, "a Python complex"),
    "math": (math.sin, "a Python float"),
    "item": (lambda x: x.item(), "a Python scalar"),
    "tolist": (lambda x: x.tolist(), "a list"),
    "np.asarray": (np.asarray, "a NumPy array"),
    "np.array of a list": (lambda x: np.array([x, x]), "a NumPy array"),
    "into a NumPy array": (lambda x: np.zeros(1).__setitem__(..., x), "a NumPy array"),
}
INTEGER_QUESTIONS = {
    "range": (range, "a Python index"),
    "list index": (lambda n: [1, 2][n], "a Python index"),
    "bin": (bin, "a Python index"),
    "repeat": (lambda n: [0] * n, "a Python index"),
}


@pytest.mark.parametrize("transform", [mx.make_graph, mx.jit], ids=["make_graph", "jit"])
@pytest.mark.parametrize("name", [*QUESTIONS, *INTEGER_QUESTIONS])
def test_a_staged_value_has_no_number(name, transform):
    question, wanted = {**QUESTIONS, **INTEGER_QUESTIONS}[name]
    value = np.int32(1) if name in INTEGER_QUESTIONS else np.float32(1)

    def function(x):
        y = ops.neg(x)
        return question(y)

    with pytest.raises(ConcretizationError, match=wanted) as caught:
        transform(function)(value)
    for phrase in (
        "only the shape",
        "it was computed by neg at ",
        "test_tracer.py",
        "static_argnums",
        "outside the staged function",
    ):
        assert phrase in str(caught.value)


def test_an_input_has_no_origin_but_itself():
    with pytest.raises(ConcretizationError, match="it is an input of the traced function"):
        mx.make_graph(bool)(1.0)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_batched_value_has_no_number(name):
    question, wanted = QUESTIONS[name]
    with pytest.raises(ConcretizationError, match=wanted) as caught:
        mx.vmap(question)(X)
    for phrase in (
        "one batch element is f32[], the batch has 3 elements",
        "in_axes=None",
        "test_tracer.py",
    ):
        assert phrase in str(caught.value)


def differentiate_forward(function, x):
    return mx.jvp(function, (x,), (1.0,))[1]


DERIVATIVES = {"grad": lambda f, x: mx.grad(f)(x), "jvp": differentiate_forward}
LOSING = [
    n for n, (_, wanted) in QUESTIONS.items() if wanted not in ("a Python bool", "a Python int")
]


@pytest.mark.parametrize("transform", DERIVATIVES)
@pytest.mark.parametrize("name", LOSING)
def test_a_derivative_is_not_lost_silently(name, transform):
    question, wanted = QUESTIONS[name]

    def function(x):
        question(x)
        return x

    with pytest.raises(ConcretizationError, match=wanted) as caught:
        DERIVATIVES[transform](function, 2.0)
    for phrase in (
        "is being differentiated",
        "would be lost",
        "mx.stop_gradient",
        "test_tracer.py",
    ):
        assert phrase in str(caught.value)


@pytest.mark.parametrize("transform", DERIVATIVES)
def test_control_flow_on_a_value_that_is_differentiated(transform):
    def function(x):
        y = x
        while y < 10:
            y = y * x
        return y if y > 0 else -y

    found = DERIVATIVES[transform](function, 2.0)
    assert found == jax.grad(function)(2.0) == 4 * 2.0**3
    assert mx.reference(lambda x: DERIVATIVES[transform](function, x))(2.0) == found


def test_numbers_without_a_derivative_may_be_read():
    def function(x):
        n = int(x)
        assert float(mx.stop_gradient(x)) == 2.5
        return x * n

    assert mx.grad(function)(2.5) == 2
    assert mx.grad(lambda x, n: x * float(n))(2.0, np.int32(3)) == 3


def test_the_reference_has_numbers():
    seen = []

    def function(x, n):
        seen.extend(
            [float(x), int(n), bool(x), [10, 20][n], x.item(), np.asarray(x).dtype, x.tolist()]
        )
        return x

    mx.reference(function)(1.5, 1)
    assert seen == [1.5, 1, True, 20, 1.5, np.dtype("f4"), 1.5]


def test_unmapped_values_have_numbers_in_vmap():
    found = mx.vmap(lambda x, n: x * [1.0, 5.0][n], in_axes=(0, None))(X, jnp.int32(1))
    np.testing.assert_array_equal(found, X * 5)


def attributes(x):
    return (x.shape, x.dtype, x.ndim, x.size)


@pytest.mark.parametrize(
    "transform",
    [
        mx.make_graph,
        mx.reference,
        lambda f: lambda x: mx.vjp(f, x),
        lambda f: lambda x: mx.jvp(f, (x,), (x,)),
        lambda f: lambda x: mx.vmap(f)(x[None]),
    ],
    ids=["graph", "numpy", "grad", "jvp", "vmap"],
)
def test_what_is_always_known(transform):
    seen = []
    x = np.zeros((2, 3), np.float32)

    def function(x):
        seen.extend([attributes(x), len(x), repr(x)])
        return x

    transform(function)(x)
    assert seen[0] == attributes(x)
    assert seen[1] == 2
    assert seen[2].endswith("Tracer<f32[2,3]>")


@pytest.mark.parametrize("transform", [mx.make_graph, mx.grad, mx.vmap, mx.reference])
def test_tracers_cannot_be_pickled(transform):
    def pickled(x):
        pickle.dumps({"value": x})
        return x

    argument = X if transform is mx.vmap else 1.0
    with pytest.raises(ConcretizationError, match="cannot be pickled") as caught:
        transform(pickled)(argument)
    assert "Pickle the result" in str(caught.value)


@pytest.mark.parametrize("value", [True, 1, 1.0, 1j, np.bool_(True), np.float64(1)], ids=repr)
def test_weakly_typed_is_what_jax_calls_so(value):
    for made in (lambda x: value, lambda x: x):
        assert mx.jit(made)(value).weak_type == jax.jit(made)(value).weak_type


def test_copies_of_a_tracer_are_the_value():
    def function(x):
        return copy.copy(x) * copy.deepcopy(x)

    assert mx.jit(mx.grad(function))(3.0) == 6.0


def test_tracers_are_not_hashable():
    with pytest.raises(TypeError, match="unhashable type: 'GraphTracer'") as caught:
        mx.make_graph(lambda x: {x: 1})(1.0)
    for phrase in ("hash", "dictionary key", "static_argnums", "test_tracer.py"):
        assert phrase in str(caught.value)


def test_scalars_have_no_length_and_no_members():
    with pytest.raises(TypeError, match="len: a scalar has no length") as caught:
        mx.make_graph(lambda x: [len(x)])(1.0)
    assert "x.size" in str(caught.value) and "test_tracer.py" in str(caught.value)
    with pytest.raises(TypeError, match="iteration: a scalar is not iterable") as caught:
        mx.make_graph(lambda x: [*x])(1.0)
    assert "mx.fori_loop" in str(caught.value) and "test_tracer.py" in str(caught.value)


def test_a_value_that_is_differentiated_may_be_shown():
    shown = []

    def function(x):
        shown.append(f"{x * 2:.3f}")
        return x * x

    assert mx.grad(function)(1.5) == 3.0
    assert mx.jvp(function, (1.5,), (1.0,))[1] == 3.0
    assert mx.reference(mx.grad(function))(1.5) == 3.0
    assert shown == ["3.000"] * 3


# Tuples.

TUPLE_USES = {
    "shape": lambda t: t.shape,
    "dtype": lambda t: t.dtype,
    "len": len,
    "+": lambda t: t + 1.0,
    "reflected +": lambda t: 1.0 + t,
    "two": lambda t: t * t,
    "with an array": lambda t: t - X,
    "-": lambda t: -t,
    "an operation": ops.tanh,
}


@pytest.mark.parametrize("name", TUPLE_USES)
def test_a_tuple_is_no_array(name):
    with pytest.raises(ShapeError) as caught:
        mx.make_graph(lambda x: TUPLE_USES[name](ops.tuple([x, x])))(X)
    for phrase in ("(f32[3], f32[3])", "get_tuple_element", "test_tracer.py"):
        assert phrase in str(caught.value)


# Functions of JAX.

FOREIGN = {
    "jnp.sin": jnp.sin,
    "jnp.dot": lambda x: jnp.dot(x, x),
    "jax.lax.add": lambda x: jax.lax.add(x, 1.0),
    "jax.lax.add, second": lambda x: jax.lax.add(np.float32(1), x),
    "jax.nn.relu": jax.nn.relu,
    "jax.jit": lambda x: jax.jit(lambda y: y)(x),
    "jax.vmap": lambda x: jax.vmap(lambda y: y)(x),
    "jax.grad": lambda x: jax.grad(lambda y: (y * y).sum())(x),
}
TRANSFORMS = {
    "jit or make_graph": mx.make_graph,
    "grad or vjp": lambda f: lambda x: mx.vjp(f, x),
    "jvp": lambda f: lambda x: mx.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: mx.vmap(f)(x[None]),
    "reference": mx.reference,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FOREIGN)
def test_functions_of_jax_read_tracers(name, transform):
    function = FOREIGN[name]
    if transform == "reference":
        np.testing.assert_allclose(mx.reference(function)(X), function(jnp.asarray(X)), rtol=1e-6)
    else:
        TRANSFORMS[transform](function)(X)


@pytest.mark.parametrize("operator", ["__add__", "__mul__", "__sub__", "__truediv__"])
@pytest.mark.parametrize("other", [np.float32(2), np.full(3, 2, "f4"), jnp.full(3, 2.0), 2.0, 2])
def test_arrays_leave_operators_to_tracers(operator, other):
    def apply(x):
        return getattr(type(other), operator)(other, x)

    def reflected(x):
        swapped = operator.replace("__", "__r", 1)
        return getattr(x, swapped)(other)

    expected = getattr(np.float32(2), operator)(X + 1)
    found = mx.reference(reflected)(X + 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    outcome = []
    trace_to_graph(lambda x: [outcome.append(apply(x)) or x], [Shape("f32", (3,))])
    assert outcome[0] is NotImplemented or type(outcome[0]).__name__ == "GraphTracer"


def test_a_tangent_in_a_rule_has_no_number():
    @mx.custom_jvp
    def function(x):
        return x * 1.0

    @function.defjvp
    def rule(primals, tangents):
        return function(*primals), tangents[0] if tangents[0] else -tangents[0]

    with pytest.raises(DerivativeError, match="was required, but the value is a tangent") as caught:
        mx.grad(function)(1.0)
    assert "must be linear in its tangents" in str(caught.value)
