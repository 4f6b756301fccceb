"""from_jax: what a function of JAX's is inside ours, its derivatives, what is refused."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import minixla as mx
from tests.harness import by_jax

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@jax.custom_jvp
def clipped(x):
    return jnp.clip(x, -0.5, 0.5)


@clipped.defjvp
def _straight_through(primals, tangents):
    return clipped(primals[0]), tangents[0]


@jax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (x * 2, x), lambda x, t: (100 * t * x,))


def test_it_is_one_instruction_with_the_name_of_the_function():
    def attention(x):
        return jax.nn.softmax(x @ x.T) @ x

    function: Any = mx.from_jax(attention)
    graph = mx.make_graph(lambda x: function(x) + 1)(X)
    assert [step.op.builder_name for step in graph.instructions][:1] == ["from_jax"]
    assert graph.instructions[0].attributes["computation"].name == "attention"
    assert function.graph(X).output_shapes == graph.output_shapes
    assert "func.call @attention" in graph.stablehlo()
    assert function.__name__ == "attention"


def test_custom_rules_of_jax_are_followed_unless_the_program_is_wanted():
    for function, by_rule, by_program in [
        (clipped, np.ones_like(X), (np.abs(X) < 0.5).astype(np.float32)),
        (doubled, 100 * X, np.full_like(X, 2)),
    ]:
        for derivatives, expected in [("jax", by_rule), ("program", by_program)]:
            ours = mx.from_jax(function, derivatives=derivatives)
            gradient = mx.grad(lambda x, ours=ours: mx.numpy.sum(ours(x)))
            for run in (gradient, mx.jit(gradient), mx.reference(gradient)):
                np.testing.assert_allclose(run(X), expected, rtol=1e-6)


def test_nested_derivatives_and_batches():
    f = lambda x: jnp.sin(x) * x  # noqa: E731
    ours = mx.from_jax(f)
    x = np.float32(0.7)

    def derivatives(library, f, total):
        def forward(x):
            return library.jvp(library.grad(f), (x,), (x,))[1]

        hessians = library.vmap(library.hessian(lambda row: total(f(row))))
        return lambda x, rows: (library.grad(library.grad(f))(x), forward(x), hessians(rows))

    second, along, hessians = mx.jit(derivatives(mx, ours, mx.numpy.sum))(x, X)
    expected = by_jax(derivatives(jax, f, jnp.sum), x, X)
    np.testing.assert_allclose(mx.grad(mx.grad(ours))(x), expected[0], rtol=1e-6)
    np.testing.assert_allclose(second, expected[0], rtol=1e-6)
    np.testing.assert_allclose(along, expected[1], rtol=1e-6)
    np.testing.assert_allclose(hessians, expected[2], rtol=1e-5, atol=1e-6)


def test_batches_and_forward_derivatives_outside_of_jit():
    ours = mx.from_jax(lambda x: jnp.sin(x) * x)
    np.testing.assert_allclose(mx.vmap(ours)(X), np.sin(X) * X, rtol=1e-6)
    value, slope = mx.jvp(ours, (X,), (2 * X,))
    np.testing.assert_allclose(value, np.sin(X) * X, rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * X * (np.cos(X) * X + np.sin(X)), rtol=1e-5)


def test_pytrees_static_arguments_and_names():
    def scaled(parameters, power, x, *, offset=0.0):
        return {"y": parameters["a"] * x**power + offset, "n": jnp.sum(x > 0)}

    ours = mx.from_jax(scaled, static_argnums=1)
    given = {"a": np.float32(3)}
    for power in (2, 3):
        found = mx.jit(lambda p, x, k=power: ours(p, k, x, offset=np.float32(1)))(given, X)
        np.testing.assert_allclose(found["y"], 3 * X**power + 1, rtol=1e-6)
        assert found["n"] == 3
    last = mx.from_jax(lambda x, power: x**power, static_argnums=-1)
    np.testing.assert_allclose(last(X, 2), X**2, rtol=1e-6)


def test_python_numbers_are_weakly_typed():
    ours = mx.from_jax(lambda x, y: x * y)
    half = X.astype(jnp.bfloat16)
    assert ours(half, 2.0).dtype == jnp.bfloat16
    assert mx.jit(lambda x: ours(x, 2.0))(half).dtype == jnp.bfloat16
    assert ours(half, np.float32(2)).dtype == jnp.float32


def test_typed_random_keys():
    ours = mx.from_jax(lambda key: jax.random.normal(key, (3,)))
    key = jax.random.key(7)
    expected = jax.random.normal(key, (3,))
    np.testing.assert_array_equal(ours(key), expected)
    data = jax.random.key_data(key)
    old = mx.from_jax(lambda data: jax.random.normal(data, (3,)))
    np.testing.assert_array_equal(mx.jit(old)(data), expected)
    np.testing.assert_allclose(mx.reference(old)(data), expected, rtol=1e-6)


def test_arrays_that_it_closes_over_are_constants():
    table = jnp.arange(6.0).reshape(2, 3)
    ours = mx.from_jax(lambda x: x + table)
    np.testing.assert_allclose(mx.jit(ours)(X), X + np.arange(6).reshape(2, 3))


WRAPS = [mx.make_graph, mx.jit, lambda f: mx.grad(lambda x: f(x).sum())]


@pytest.mark.parametrize("wrap", WRAPS, ids=["make_graph", "jit", "grad"])
def test_what_it_closes_over_of_ours_is_refused(wrap):
    with pytest.raises(mx.LeakedTracerError, match="Pass the value as an argument"):
        wrap(lambda x: mx.from_jax(lambda y: y * x)(x))(X)
    with pytest.raises(mx.ForeignCallError, match="its argument is a minixla tracer"):
        wrap(lambda x: mx.from_jax(lambda y: y * jnp.sin(x))(x))(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jax.debug.print("{}", x) or x,
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        lambda x: io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True),
    ],
    ids=["debug.print", "pure_callback", "io_callback"],
)
def test_callbacks_are_refused(function):
    with pytest.raises(mx.ImportError_, match=r"side effects|calls a Python function"):
        mx.from_jax(function)(X)


def test_what_is_no_function_and_no_array():
    with pytest.raises(mx.TransformError, match="from_jax"):
        mx.from_jax(3)
    with pytest.raises(TypeError, match="argument"):
        mx.from_jax(jnp.sin)("a word")


def test_a_function_is_staged_once_for_each_shape():
    count = 0

    @functools.partial(mx.from_jax, derivatives="program")
    def counted(x):
        nonlocal count
        count += 1
        return x * x

    for _ in range(3):
        mx.jit(mx.grad(lambda x: mx.numpy.sum(counted(x))))(X)
    assert count == 1
    counted(X[0])
    assert count == 2


def test_inside_loops_and_branches_and_simulated_processes():
    ours = mx.from_jax(lambda x: jnp.cos(x))
    looped = lambda x: mx.fori_loop(0, 4, lambda i, c: ours(c) + i, x)  # noqa: E731
    expected = X
    for i in range(4):
        expected = np.cos(expected) + i
    for run in (looped, mx.jit(looped), mx.reference(looped)):
        np.testing.assert_allclose(run(X), expected, rtol=1e-5)
    chosen = lambda x: mx.cond(x.sum() > 5, ours, lambda x: ours(x) * 2, x)  # noqa: E731
    np.testing.assert_allclose(mx.jit(chosen)(X), 2 * np.cos(X), rtol=1e-6)
    ((found,),) = mx.simulate([[ours]], [[(X,)]])
    np.testing.assert_allclose(found, np.cos(X), rtol=1e-6)


def test_ours_inside_theirs_inside_ours_and_the_other_way_round():
    def inner(x):
        return mx.numpy.tanh(x) * x

    def theirs(x):
        return jnp.sum(jnp.sin(inner(x)))

    def plain(x):
        return jnp.sum(jnp.sin(jnp.tanh(x) * x))

    def in_jax(x):
        return jax.grad(plain)(x), jax.grad(plain)(x / 2), jax.hessian(plain)(x[0])

    expected, of_half, curvature = by_jax(in_jax, X)
    for derivatives in ("jax", "program"):
        ours = mx.from_jax(theirs, derivatives=derivatives)
        np.testing.assert_allclose(mx.jit(mx.grad(ours))(X), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mx.reference(mx.grad(ours))(X), expected, rtol=1e-5, atol=1e-6)

        def transformed(x, ours=ours):
            back = jax.grad(lambda x: mx.jit(ours)(x) + 0.0)(x)
            return back, jax.hessian(ours)(x[0])

        back, hessian = jax.jit(transformed)(X)
        np.testing.assert_allclose(back, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(hessian, curvature, rtol=1e-4, atol=1e-5)
        each = jax.vmap(jax.grad(ours))(np.stack([X, X / 2]))
        np.testing.assert_allclose(each[0], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(each[1], of_half, rtol=1e-5, atol=1e-6)
