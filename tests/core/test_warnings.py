"""Warnings name the user's line, wherever they are raised."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.source import warn

X = np.ones(4, np.float32)
KEY = jax.random.key(0)


def _register():
    return mx.register_op("Add", inputs=["x: float"], outputs=["y: float"], replace=True)


# Calls that warn: in our functions, in programs, and nested.
WARNINGS = {
    "a dtype": lambda: mnp.zeros(3, "float64"),
    "a dtype of a method": lambda: mx.jit(lambda x: x.astype("float64"))(X),
    "asarray": lambda: mnp.asarray(X, dtype="complex128"),
    "a sum": lambda: mnp.sum(X, dtype="float64"),
    "batched": lambda: mx.vmap(lambda x: mnp.full(2, x, dtype="float64"))(X),
    "differentiated": lambda: mx.grad(lambda x: mnp.sum(x, dtype="float64"))(X),
    "scanned": lambda: mx.scan(lambda c, x: (c, mnp.zeros(2, "int64")), 0.0, X),
    "traced": lambda: mx.make_graph(lambda x: mnp.mean(x, dtype="float64"))(X),
    "its shape": lambda: mx.eval_shape(lambda x: x + mnp.zeros(4, "float64"), X),
    "in the reference": lambda: mx.reference(lambda x: x + mnp.zeros(4, "float64"))(X),
    "inside JAX": lambda: jax.jit(mx.jit(lambda x: mnp.ones_like(x, dtype="float64")))(X),
    "random numbers": lambda: mx.random.normal(KEY, (2,), "float64"),
    "a name of XLA": _register,
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_names_the_users_line(name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        WARNINGS[name]()
    assert seen and {each.filename for each in seen} == {__file__}, [*map(str, seen)]


# Calls of our functions for which NumPy would warn.
SILENT = {
    "logarithm of a negative number": (mnp.log, -X),
    "division by 0": (lambda x: x / 0, X),
    "a Fourier transform of infinities": (mnp.fft.fft, X * np.float32(np.inf)),
    "eigenvalues of large numbers": (mnp.linalg.eigvalsh, np.full((3, 3), 3e38, "f4")),
    "NaN as an integer": (lambda x: (x * np.nan).astype("int32"), X),
    "a literal": (lambda x: x + mnp.array(1e300, "float32") + mnp.array([1e300], "float16"), X),
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("run", ["reference", "engine"])
def test_what_numpy_would_warn_of_is_silent_in_every_evaluator(name, run):
    function, argument = SILENT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (mx.reference(function) if run == "reference" else function)(jax.numpy.asarray(argument))


def test_a_warning_is_shown_once_for_each_line():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            mnp.zeros(2, "float64")
        mnp.zeros(2, "float64")
    assert len(seen) == 2 and seen[0].lineno + 1 == seen[1].lineno


def test_a_warning_may_be_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="float64 was requested"):
            mnp.zeros(2, "float64")
        with pytest.raises(DeprecationWarning, match="old"):
            warn("old", DeprecationWarning)
