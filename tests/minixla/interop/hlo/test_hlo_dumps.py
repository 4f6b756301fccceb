"""HLO that JAX prints, imported: the reference gives what the compiled program gives."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla.reference import seed
from tests.minixla.interop.hlo.hlo_programs import PROGRAMS, X, Y, dump, whole_text


def in_steps(actual, expected):
    """The greatest distance, in steps at the greatest element; NaN and infinities are equal."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        return float(np.any(actual != expected))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    error = np.abs(actual.astype(wide) - expected.astype(wide))
    greatest = np.max(np.abs(expected.astype(wide)), initial=0, where=np.isfinite(expected))
    unit = float(jnp.finfo(expected.dtype).eps) * max(float(greatest), 1e-30)
    return float(np.max(np.where(same, 0, error), initial=0) / unit)


def check(text, arguments, wanted, ulp):
    results = mx.reference(mx.import_hlo(text))(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for actual, expected in zip(results, wanted, strict=True):
        assert in_steps(actual, expected) <= ulp


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reference_gives_what_xla_gives(name):
    function, arguments, ulp = PROGRAMS[name]
    made = dump(function, arguments)
    for text in (made.unoptimised, made.optimised):
        check(text, arguments, made.results, ulp)


def test_the_bound_of_a_sum_is_not_idle():
    """A sum that XLA takes in another order is not equal, so that the comparison sees results."""
    made = dump(lambda x: jnp.sum(jnp.sin(x)), (X,))
    actual = mx.reference(mx.import_hlo(made.optimised))(X)
    assert in_steps(actual + np.float32(1e-5), made.results[0]) > 24


def test_all_ways_of_printing():
    """XLA's printer with and without percent signs, layouts, metadata, shapes of operands."""
    from jaxlib import _hlo  # type: ignore[attr-defined]

    function, arguments, ulp = PROGRAMS["gradient of max pooling"]
    compiled = jax.jit(function).lower(*arguments).compile()
    wanted = [np.asarray(compiled(*arguments))]
    (module,) = compiled.runtime_executable().hlo_modules()
    variants = [_hlo.HloPrintOptions() for _ in range(6)]
    variants[1].print_percent = False
    variants[2].print_operand_shape = True
    variants[3].print_metadata = False
    variants[3].print_backend_config = False
    variants[4] = _hlo.HloPrintOptions.short_parsable()
    variants[5].print_operand_shape = True
    variants[5].include_layout_in_shapes = True
    variants[5].print_program_shape = False
    texts = []
    for each in variants:
        each.print_large_constants = True
        texts.append(module.to_string(each))
    assert len(set(texts)) >= 5
    for text in texts:
        check(text, arguments, wanted, ulp)
    first, *others = [mx.import_hlo(text).graph for text in texts]
    assert all(each == first for each in others)


# Transformations of what was imported.

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

    gradient = np.asarray(mx.jit(mx.grad(loss(first)))(arguments[0]))
    expected = np.asarray(jax.grad(jax_loss)(arguments[0]))
    if name == "cholesky":  # JAX symmetrises its derivative
        expected, gradient = expected + expected.T, gradient + gradient.T
    np.testing.assert_allclose(gradient, expected, rtol=2e-4, atol=2e-5)
    stacked = np.stack([arguments[0], arguments[0][::-1] if name != "cholesky" else arguments[0]])
    rows = mx.vmap(lambda x: first(x, *arguments[1:]))(stacked)
    for row, each in zip(rows, stacked, strict=True):
        alone = first(each, *arguments[1:])
        np.testing.assert_allclose(row, alone, rtol=1e-5, atol=1e-5)


# What is special in some dumps.


def test_source_lines():
    made = dump(lambda x: jnp.sin(x) + 1, (X,))
    imported = mx.import_hlo(made.optimised)
    text = "".join(str(each.graph) for each in imported.functions.values())
    found = set(re.findall(r'source_file="([^"]*)" source_line=(\d+)', text))
    files = {file for file, _ in found}
    assert any(file.endswith("test_hlo_dumps.py") for file in files), files


def test_functions_are_all_computations():
    made = dump(lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x), (X,))
    imported = mx.import_hlo(made.optimised)
    names = re.findall(r"^(?:ENTRY )?%([\w.-]+) \(", made.optimised, re.MULTILINE)
    assert sorted(imported.functions) == sorted(names)
    body = next(each for name, each in imported.functions.items() if "region_0" in name)
    index, value = mx.reference(body)(np.int32(3), X)
    np.testing.assert_array_equal(index, 4)
    np.testing.assert_array_equal(value, X * 2 + 3)


def test_large_constants_are_elided_by_as_text():
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    compiled = jax.jit(lambda x: x * table).lower(X).compile()
    assert "constant({...})" in compiled.as_text()
    imported = mx.import_hlo(compiled.as_text())
    assert "constant({...})" in str(imported.graph) or any(
        "constant({...})" in str(each.graph) for each in imported.functions.values()
    )
    with pytest.raises(mx.ImportError_, match="leaves out the numbers of the constant"):
        mx.reference(imported)(X)
    with pytest.raises(mx.ImportError_, match="leaves out the numbers"):
        mx.jit(imported)(X)
    check(whole_text(compiled), (X,), [np.asarray(X * table)], 0)


def test_random_numbers_of_xla():
    """The state of XLA's own generator: its numbers are the backend's, its form is not."""

    def function(low, high):
        return lax.rng_uniform(low, high, (100,))

    made = dump(function, (np.float32(2), np.float32(5)))
    for text in (made.unoptimised, made.optimised):
        seed(3)
        values = np.asarray(mx.reference(mx.import_hlo(text))(np.float32(2), np.float32(5)))
        assert values.shape == (100,)
        assert values.min() >= 2
        assert values.max() < 5
        assert len(set(values.tolist())) > 90
    assert "rng-get-and-update-state" in made.optimised


def test_libraries_are_called_by_name():
    made = dump(jnp.linalg.eigh, (np.eye(4, dtype=np.float32),))
    imported = mx.import_hlo(made.optimised)
    with pytest.raises(mx.TransformError, match="'lapack_ssyevd_ffi' has no meaning in Python"):
        mx.reference(imported)(np.eye(4, dtype=np.float32))


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
    compiled = sharded(function, P("i")).lower(X).compile()
    text = compiled.as_text()
    assert opcode in text
    wanted = np.asarray(compiled(X))
    imported = mx.import_hlo(text)
    programs = [[imported] * 4]  # one replica of four partitions
    (results,) = mx.simulate(programs, [[(X[at : at + 1],) for at in range(4)]])
    for at, part in enumerate(results):
        np.testing.assert_allclose(part, wanted[at : at + 1], rtol=1e-6)


def test_results_are_compared_by_name_and_number():
    made = dump(lambda x, y: (x + y, (x, y * 2)), (X, Y))
    sum_, first, second = mx.reference(mx.import_hlo(made.optimised))(X, Y)
    np.testing.assert_array_equal(sum_, X + Y)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, Y * 2)
