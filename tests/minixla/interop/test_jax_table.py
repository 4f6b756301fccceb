"""Functions, classes and modules of JAX's that a table makes ours."""

from __future__ import annotations

import inspect
import pickle
import pydoc

import jax
import jax.numpy as jnp
import jax.scipy as of_jax
import numpy as np
import pytest
from jax.scipy.optimize import minimize as minimize_of_jax

import minixla as mx
import minixla.numpy as mnp
from minixla.interop.jax_table import functions_of

X = np.linspace(0.3, 2, 5).astype(np.float32)
ndtri = functions_of("jax.scipy.special", ["ndtri"])["ndtri"]
logsumexp = functions_of("jax.scipy.special", ["logsumexp"])["logsumexp"]
multigammaln = functions_of("jax.scipy.special", ["multigammaln"])["multigammaln"]
minimize = mx.scipy.optimize.minimize


def test_it_says_what_it_is():
    assert inspect.signature(logsumexp) == inspect.signature(of_jax.special.logsumexp)
    assert (logsumexp.__module__, logsumexp.__name__) == ("minixla.scipy.special", "logsumexp")
    text = str(logsumexp.__doc__)
    assert text.startswith("Log-sum-exp reduction.")
    assert "Traced by JAX: `jax.scipy.special.logsumexp` through `mx.from_jax`." in text
    assert "jax.scipy.special.logsumexp" in pydoc.render_doc(logsumexp)
    assert repr(logsumexp) == "<function minixla.scipy.special.logsumexp>"


def test_it_is_pickled_by_name():
    again = pickle.loads(pickle.dumps(mx.scipy.special.ndtri))
    assert again is mx.scipy.special.ndtri


def test_every_transformation_knows_it():
    x = X / 3
    expected = of_jax.special.ndtri(x)
    for function in (ndtri, mx.jit(ndtri), mx.vmap(ndtri), mx.reference(ndtri), jax.jit(ndtri)):
        np.testing.assert_allclose(function(x), expected, rtol=1e-5)
    slope = jax.grad(lambda x: of_jax.special.ndtri(x).sum())(x)
    np.testing.assert_allclose(mx.grad(lambda x: ndtri(x).sum())(x), slope, rtol=1e-5)
    np.testing.assert_allclose(mx.jvp(ndtri, (x,), (np.ones_like(x),))[1], slope, rtol=1e-5)


def test_numbers_make_no_programs_of_their_own():
    traced = []

    def seen(x):
        traced.append(x)
        return jnp.sin(x)

    function = functions_of("jax.numpy", ["sin"])["sin"]
    vars(function)["__wrapped__"] = seen
    vars(function)["__signature__"] = inspect.signature(jnp.sin)
    for number in (1.0, 2.0, 3.0):
        assert function(number) == pytest.approx(np.sin(number))
        mx.make_graph(lambda: function(number))()  # noqa: B023 - called at once
    assert len(traced) == 2


def test_numbers_that_must_be_known_are():
    expected = of_jax.special.multigammaln(5.0, 2)
    np.testing.assert_allclose(multigammaln(5.0, 2), expected)
    np.testing.assert_allclose(mx.jit(lambda x: multigammaln(x, 2))(5.0), expected, rtol=1e-6)
    read = mx.jit(lambda x: mx.scipy.ndimage.map_coordinates(x, [X], order=1, cval=2.5))
    np.testing.assert_allclose(read(X), of_jax.ndimage.map_coordinates(X, [X], 1, cval=2.5))
    spaced = mx.jit(lambda: mx.numpy.geomspace(1, 8, 4, dtype=mx.numpy.float32))  # no function
    np.testing.assert_allclose(spaced(), [1, 2, 4, 8], rtol=1e-6)


def test_arguments_may_have_no_hash_outside_of_transformations():
    np.testing.assert_allclose(logsumexp(X, axis=[0]), of_jax.special.logsumexp(X, axis=0))


def test_shapes_may_depend_on_values_outside_of_transformations():
    nonzero = functions_of("jax.numpy", ["nonzero"])["nonzero"]
    np.testing.assert_array_equal(nonzero(np.array([0, 3, 0, 4]))[0], [1, 3])
    with pytest.raises(mx.ConcretizationError, match="nonzero asks for the value"):
        mx.jit(nonzero)(np.array([0, 3]))


def test_errors_say_what_was_given_and_where():
    with pytest.raises(ValueError, match="axis 3 is out of bounds") as caught:
        logsumexp(X, axis=3)
    assert isinstance(caught.value, (mx.AxisError, np.exceptions.AxisError))
    for phrase in ("a f32[5]", "axis 3", "test_jax_table.py", "by jax.scipy.special.logsumexp:"):
        assert phrase in str(caught.value)
    with pytest.raises(mx.AxisError, match="axis 3 is out of bounds"):
        mx.jit(lambda x: logsumexp(x, axis=3))(X)
    for function in (mx.scipy.fft.dct, mx.jit(mx.scipy.fft.dct, static_argnames="type")):
        with pytest.raises(mx.UnsupportedError, match="dct: Only DCT type 2") as caught:
            function(X, type=3)
        assert isinstance(caught.value, NotImplementedError)
    gcd = functions_of("jax.numpy", ["gcd"])["gcd"]
    for kind in (TypeError, ValueError):  # NumPy's is the one, JAX's the other
        with pytest.raises(kind, match="gcd: Arguments to jax"):
            gcd(X, X)


def test_errors_of_functions_that_are_given_stay_theirs():
    def refuses(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        minimize(refuses, np.zeros(2), method="BFGS")
    assert type(caught.value) is ValueError
    with pytest.raises(ValueError) as caught:  # raised by NumPy within the function
        minimize(lambda x: x[0] + np.reshape(1, (2,)), np.zeros(2), method="BFGS")
    assert type(caught.value) is ValueError


def _nearest(c, xp, minimize):
    start = xp.zeros(3)
    return minimize(lambda x: xp.sum((x - c) ** 2 + 0.1 * c * x**4), start, method="BFGS").x


def test_functions_that_are_given_may_read_what_is_being_traced():
    c = np.array([1, 2, 0.5], np.float32)
    expected = _nearest(c, jnp, minimize_of_jax)
    slope = jax.jvp(lambda c: _nearest(c, jnp, minimize_of_jax), (c,), (c,))[1]

    def ours(c):
        return _nearest(c, mnp, minimize)

    np.testing.assert_allclose(ours(c), expected, rtol=1e-4)
    np.testing.assert_allclose(mx.jit(ours)(c), expected, rtol=1e-4)
    np.testing.assert_allclose(mx.jvp(ours, (c,), (c,))[1], slope, rtol=1e-3)


def test_derivatives_by_what_a_given_function_reads():
    cond = functions_of("jax.lax", ["cond"])["cond"]

    def product(c):
        return cond(c.sum() > 0, lambda x: (x * c).sum(), lambda x: x.sum(), c)

    np.testing.assert_allclose(mx.grad(product)(X), 2 * X)
    np.testing.assert_allclose(mx.grad(mx.jit(product))(X), 2 * X)
    np.testing.assert_allclose(mx.hessian(product)(X), 2 * np.eye(5), atol=1e-6)


def test_objects_of_its_classes_hold_values_of_ours():
    data = np.random.default_rng(0).normal(size=(2, 20)).astype(np.float32)
    points = data[:, :3]
    ours, theirs = mx.scipy.stats.gaussian_kde, of_jax.stats.gaussian_kde
    assert (ours(data).d, ours(data).n, ours(data).dataset.shape) == (2, 20, (2, 20))
    assert inspect.signature(ours) == inspect.signature(theirs)
    np.testing.assert_allclose(ours(data)(points), theirs(data)(points), rtol=1e-5)
    found = mx.jit(lambda each, x: each.logpdf(x))(ours(data), points)
    np.testing.assert_allclose(found, theirs(data).logpdf(points), rtol=1e-5)

    def total(data, kde):
        return kde(data, bw_method="silverman").logpdf(points).sum()

    slope = jax.grad(lambda x: total(x, theirs))(data)
    np.testing.assert_allclose(mx.grad(lambda x: total(x, ours))(data), slope, atol=1e-5)
    other = theirs(points).integrate_kde(theirs(data))
    np.testing.assert_allclose(ours(points).integrate_kde(ours(data)), other, rtol=1e-5)
    drawn = theirs(data).resample(jax.random.key(1), (3,))
    np.testing.assert_allclose(ours(data).resample(mx.random.key(1), (3,)), drawn, rtol=1e-5)
    with pytest.raises(ValueError, match="should have multiple elements") as caught:
        ours(np.float32(1))
    assert "raised by jax.scipy.stats.gaussian_kde: see its docstring" in str(caught.value)
    with pytest.raises(AttributeError, match="'gaussian_kde' object has no attribute 'nothing'"):
        _ = ours(data).nothing


def test_interpolators_are_differentiated_by_the_values_on_their_grid():
    grid = (np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32))
    values = np.arange(9, dtype=np.float32).reshape(3, 3)
    points = np.array([[1.5, 4.5], [2.2, 5.8]], np.float32)
    ours = mx.scipy.interpolate.RegularGridInterpolator
    theirs = of_jax.interpolate.RegularGridInterpolator
    found = mx.grad(lambda v: ours(grid, v)(points).sum())(values)
    expected = jax.grad(lambda v: theirs(grid, v)(points).sum())(values)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    nearest = mx.reference(lambda v: ours(grid, v, method="nearest")(points))(values)
    np.testing.assert_allclose(nearest, theirs(grid, values, method="nearest")(points))
