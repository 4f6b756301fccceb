"""Imported HLO as a function: compiled, differentiated, batched, run by many processes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
from tests.harness import by_jax
from tests.minixla.interop.hlo.hlo_programs import PROGRAMS, X, dump, in_steps

DIFFERENTIABLE = [
    ("functions", "optimised"),
    ("softmax", "unoptimised"),
    ("attention", "optimised"),
    ("scan", "optimised"),
    ("convolution", "unoptimised"),
    ("cholesky", "optimised"),
]


@pytest.mark.parametrize(("name", "form"), DIFFERENTIABLE)
def test_imported_programs_are_functions(name, form):
    function, arguments, ulp = PROGRAMS[name]
    made = dump(function, arguments)
    imported = mx.import_hlo(getattr(made, form))

    def first(*xs):
        results = imported(*xs)
        return results[0] if isinstance(results, tuple) else results

    assert in_steps(mx.jit(first)(*arguments), made.results[0]) <= ulp

    def loss(f):
        return lambda x: mx.numpy.sum(f(x, *arguments[1:]) ** 2)

    def jax_loss(x):
        return jnp.sum(jax.tree.leaves(function(x, *arguments[1:]))[0] ** 2)

    stacked = np.stack([arguments[0], arguments[0][::-1] if name != "cholesky" else arguments[0]])

    @mx.jit
    def transformed(x, xs):
        return mx.grad(loss(first))(x), mx.vmap(lambda x: first(x, *arguments[1:]))(xs)

    gradient, rows = map(np.asarray, transformed(arguments[0], stacked))
    expected = np.asarray(by_jax(jax.grad(jax_loss), arguments[0]))
    if name == "cholesky":  # JAX symmetrises its derivative
        expected, gradient = expected + expected.T, gradient + gradient.T
    np.testing.assert_allclose(gradient, expected, rtol=2e-4, atol=2e-5)
    for row, each in zip(rows, stacked, strict=True):
        alone = first(each, *arguments[1:])
        np.testing.assert_allclose(row, alone, rtol=1e-5, atol=1e-5)


def test_callbacks_are_refused():
    """The number of a callback is that of another function in another process."""

    def function(x):
        jax.debug.print("{x}", x=x, ordered=True)
        return x + jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4, 6), jnp.float32), x)

    lowered = jax.jit(function).lower(X)
    for text in (lowered.compiler_ir("hlo").as_hlo_text(True), lowered.compile().as_text()):
        imported = mx.import_hlo(text)
        assert str(imported.graph).count("python_cpu_callback") == 2
        for evaluate in (mx.reference, mx.jit):
            with pytest.raises(mx.TransformError, match="calls a Python function of"):
                evaluate(imported)(X)


def test_matrices_without_a_factor():
    """LAPACK says so by a number, of which JAX makes NaN, for each matrix of a batch."""
    batch = np.stack([np.eye(3), -np.eye(3), [[1, 2, 0], [2, 1, 0], [0, 0, 1]]]).astype(np.float32)
    made = dump(lambda x: jnp.linalg.cholesky(x, symmetrize_input=False), (batch,))
    assert np.isnan(made.results[0]).any(axis=(1, 2)).tolist() == [False, True, True]
    for text in (made.unoptimised, made.optimised):
        assert "lapack_spotrf_ffi" in text
        assert in_steps(mx.reference(mx.import_hlo(text))(batch), made.results[0]) <= 4


def test_libraries_get_the_layouts_that_they_ask_for():
    """LAPACK's arrays are column-major, so that a transposed result would come of other layouts."""
    matrix = np.array([[4, 1, 0], [2, 5, 1], [0, 3, 6]], np.float32)
    for function in (jnp.linalg.inv, lambda x: jnp.linalg.qr(x)[0]):
        made = dump(function, (matrix,))
        for text in (made.unoptimised, made.optimised):
            assert "{0,1}" in text
            assert in_steps(mx.jit(mx.import_hlo(text))(matrix), made.results[0]) <= 8


def sharded(function, *specs):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("i"))
    return jax.jit(mapped)


COLLECTIVES = {
    "psum": (lambda x: x + lax.psum(x, "i"), "all-reduce"),
    "all_gather": (lambda x: lax.all_gather(x, "i").reshape(4, 6)[:1], "all-gather"),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]),
        "collective-permute",
    ),
    "all_to_all": (lambda x: lax.all_to_all(x[:, :4], "i", 1, 0).reshape(1, 4), "all-to-all"),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x.reshape(6)[:4], "i").reshape(1, 1),
        "reduce-scatter",
    ),
    "axis_index": (lambda x: x + lax.axis_index("i"), "partition-id"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name):
    """Each process of the partitioned program, simulated, gives its part of what JAX gives."""
    function, opcode = COLLECTIVES[name]
    lowered = sharded(function, P("i")).lower(X)
    compiled = lowered.compile()
    text = compiled.as_text()
    assert opcode in text
    wanted = np.asarray(compiled(X))
    imported = mx.import_hlo(text, shardings="drop")
    programs = [[imported] * 4]  # one replica of four partitions
    arguments = [[(X[at : at + 1],) for at in range(4)]]
    (results,) = mx.simulate(programs, arguments)
    for at, part in enumerate(results):
        np.testing.assert_allclose(part, wanted[at : at + 1], rtol=1e-6)
    # Before XLA's passes the body of each process is a computation of its own.
    text = lowered.compiler_ir("hlo").as_hlo_text(True)
    whole = mx.import_hlo(text, shardings="drop")
    (body,) = [each for key, each in whole.functions.items() if "manual_computation_body" in key]
    (results,) = mx.simulate([[body] * 4], arguments)
    for at, part in enumerate(results):
        np.testing.assert_allclose(part, wanted[at : at + 1], rtol=1e-6)
