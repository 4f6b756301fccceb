"""checking_leaks: which tracers it finds, where it says they were made and who holds them."""

from __future__ import annotations

import gc
import importlib
import inspect
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.tracing import current_trace, default_trace

X = np.array([1.0, 2.0], np.float32)


@pytest.fixture
def leaking() -> Iterator[Any]:
    """Functions that leak, and where to.

    Who holds a leak is asked of the garbage collector, which passes over all that was loaded when
    the tests had been collected: so this is loaded later.
    """
    module: Any = importlib.import_module("tests.minixla.transforms.leaking")
    yield module
    module.STORE.clear()
    module.BOX.__dict__.clear()
    module.KEPT = None


HOLDERS = {
    "in_list": "held by STORE[0]['a'][0], a global of ",
    "in_global": "held by KEPT, a global of ",
    "in_attribute": "held by value[0], an attribute of an object of class Box",
    "in_closure": "held by held, a variable of the function in_closure.<locals>.inner",
    "in_default": "held by the function in_default.<locals>.inner",
}
TRANSFORMS = {
    "jit": (mx.jit, "GraphTracer<f32[2]> of jit"),
    "grad": (mx.grad, "ReverseTracer<f32[2]> of grad or vjp"),
    "grad-jit": (lambda f: mx.grad(mx.jit(f)), "GraphTracer<f32[2]> of jit"),
    "jvp": (lambda f: lambda x: mx.jvp(f, (x,), (x,)), "ForwardTracer<f32[2]> of jvp"),
    "vmap": (lambda f: lambda x: mx.vmap(f)(np.stack([x, x])), "BatchTracer<f32[2]> of vmap"),
    "make_graph": (mx.make_graph, "GraphTracer<f32[2]> of jit or make_graph"),
    "reference": (mx.reference, "ReferenceTracer<f32[2]> of reference"),
    "linearize": (lambda f: lambda x: mx.linearize(f, x), "ForwardTracer<f32[2]> of linearize"),
    "checkpoint": (mx.checkpoint, "GraphTracer<f32[2]> of jit or make_graph"),
    "scan": (
        lambda f: lambda x: mx.scan(lambda c, e: (c, f(e)), x, np.stack([x, x])),
        "GraphTracer<f32[2]> of jit or make_graph",
    ),
}
CASES = [("in_list", name) for name in TRANSFORMS]
CASES += [(holder, "jit") for holder in HOLDERS if holder != "in_list"]


def leak(function, *args):
    with pytest.raises(mx.LeakedTracerError) as caught, mx.checking_leaks():
        function(*args)
    assert current_trace() is default_trace()
    return str(caught.value)


@pytest.mark.parametrize(("holder", "name"), CASES)
def test_what_is_said(leaking, holder, name):
    wrap, shown = TRANSFORMS[name]
    function = getattr(leaking, holder)
    message = leak(wrap(function), X)
    lines, first = inspect.getsourcelines(function)
    number = first + next(at for at, line in enumerate(lines) if "sin" in line)
    for phrase in (
        "checking_leaks: a tracer outlives its transformation.",
        shown,
        f"made by sin at tests/minixla/transforms/leaking.py:{number} ({holder})",
        HOLDERS[holder],
        "called at tests/minixla/transforms/test_leak_checks.py",
        "Return the value from the transformed function",
    ):
        assert phrase in message


def test_arguments(leaking):
    message = leak(mx.jit(leaking.STORE.append), X)
    assert "argument 0 of the traced function" in message
    leaking.STORE.clear()
    message = leak(mx.vjp, lambda x: leaking.STORE.append(x) or x, X)
    assert "an argument of the transformed function" in message


def test_variables_of_running_functions():
    kept = []

    def function(x):
        kept.append(x)
        return x

    message = leak(mx.jit(function), X)
    assert "kept[0], a variable of test_variables_of_running_functions" in message


def test_a_tracer_that_a_stored_pullback_would_not_need(leaking):
    def function(x):
        leaking.STORE.append(x)
        return mnp.sin(x)

    assert "STORE[0]" in leak(lambda: leaking.STORE.append(mx.vjp(function, X)[1]))


def test_several(leaking):
    def function(x):
        leaking.STORE.extend([x * k for k in range(7)])
        return x

    message = leak(mx.jit(function), X)
    assert "checking_leaks: 7 tracers outlive their transformations." in message
    assert "STORE[4]" in message
    assert "STORE[5]" not in message
    assert "and 2 more" in message


def test_what_is_no_leak():
    def function(x):
        y = mnp.sin(x)
        local = [y]
        return (local[0] * x).sum()

    results = []
    with mx.checking_leaks():
        results.append(function(mnp.asarray(X)))
        for wrap in (mx.jit, mx.grad, mx.hessian, lambda f: mx.jit(mx.grad(mx.checkpoint(f)))):
            results.append(wrap(function)(X))
        results.append(mx.vjp(function, X))
        results.append(mx.vjp(mx.jit(function), X))
        results.append(mx.linearize(function, X))
        results.append(mx.linearize(mx.jit(function), X))
        results.append(mx.vmap(mx.grad(function))(np.stack([X, X])))
        results.append(mx.scan(lambda c, e: (c * e, c), X[0], X))
        results.append(mx.make_graph(function)(X))
    np.testing.assert_array_equal(results[5][1](np.float32(1))[0], results[2])


def test_what_is_let_go_is_no_leak(leaking):
    def function(x):
        leaking.STORE.append(x)
        return x

    with mx.checking_leaks():
        mx.jit(function)(X)
        leaking.STORE.clear()


def test_leaks_from_before_do_not_count(leaking):
    mx.jit(leaking.in_list)(X)
    assert len(leaking.STORE) == 1
    with mx.checking_leaks():
        mx.jit(lambda x: x + 1)(X)
    assert "STORE[1]" in leak(mx.jit(leaking.in_list), X)


def test_functions_traced_before_are_traced_again(leaking):
    function = mx.jit(leaking.in_list)
    function(X)
    leaking.STORE.clear()
    function(X)
    assert not leaking.STORE
    leak(function, X)
    assert len(leaking.STORE) == 1


def test_as_a_decorator(leaking):
    @mx.checking_leaks()
    def function(x):
        return mx.jit(leaking.in_list)(x)

    for _ in range(2):
        with pytest.raises(mx.LeakedTracerError, match=r"a tracer outlives"):
            function(X)


def test_other_errors_come_first(leaking):
    def function(x):
        leaking.STORE.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), mx.checking_leaks():
        mx.jit(function)(X)
    assert current_trace() is default_trace()


def test_it_keeps_nothing_alive():
    with mx.checking_leaks():
        result = mx.jit(lambda x: x + 1)(X)
        alive = weakref.ref(result)
        del result
        gc.collect()
        assert alive() is None


def test_together_with_debug_nans(leaking):
    with pytest.raises(mx.NaNError), mx.checking_leaks(), mx.debug_nans():
        mx.jit(mnp.sqrt)(-X)
    with mx.debug_nans():
        leak_under_nans = pytest.raises(mx.LeakedTracerError)
        with leak_under_nans, mx.checking_leaks():
            mx.grad(leaking.in_list)(X)
        with pytest.raises(mx.NaNError):
            mx.jit(mnp.sqrt)(-X)
