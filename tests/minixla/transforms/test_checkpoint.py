"""checkpoint: same derivatives, fewer values kept."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from tests.harness import by_jax, compiled_together

R = np.random.default_rng(0)
W, X = R.normal(size=(4, 4)).astype(np.float32), R.normal(size=4).astype(np.float32)
POLICIES = {
    "default": None,
    "everything": mx.checkpoint_policies.everything_saveable,
    "dots": mx.checkpoint_policies.dots_saveable,
    "named": mx.checkpoint_policies.save_only_these_names("hidden"),
    "not the named": mx.checkpoint_policies.save_any_names_but_these("hidden"),
    "other names": mx.checkpoint_policies.save_any_names_but_these("another"),
    "dots and named": mx.checkpoint_policies.save_from_both_policies(
        mx.checkpoint_policies.checkpoint_dots,
        mx.checkpoint_policies.save_only_these_names("hidden"),
    ),
}


def layer(np_like, name=lambda x, _: x):
    return lambda w, x: np_like.sin(name(np_like.tanh(w @ x), "hidden") + x)


def ours(policy=None, prevent_cse=True):
    inner = mx.checkpoint(layer(mx.numpy, mx.checkpoint_name), prevent_cse, policy)
    return lambda w, x: inner(w, inner(w, x)).sum()


def theirs(w, x):
    return layer(jnp)(w, layer(jnp)(w, x)).sum()


def assert_same(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, theirs)


BATCH = np.stack([X, 2 * X])


def derivatives(m, function):
    """What is compared with JAX: functions of W, X and BATCH."""
    return {
        "hessian": lambda w, x, _: m.hessian(function, 1)(w, x),
        "jacfwd": lambda w, x, _: m.jacfwd(function, 1)(w, x),
        "batch": lambda w, _, batch: m.vmap(m.grad(function, 1), (None, 0))(w, batch),
        "grad": lambda w, x, _: m.grad(function, (0, 1))(w, x),
    }


@functools.cache
def expected():
    return compiled_together(derivatives(jax, theirs), W, X, BATCH, jit=jax.jit)


COMPILED = ["default", "everything", "dots", "named", "dots and named"]


@functools.cache
def compiled():
    """The same of ours by policy, whether the compiler may merge, and name: all in one program."""
    functions = {
        f"{policy}, {prevent_cse}, {name}": function
        for policy in COMPILED
        for prevent_cse in (False, True)
        for name, function in derivatives(mx, ours(POLICIES[policy], prevent_cse)).items()
    }
    return compiled_together(functions, W, X, BATCH)


@pytest.mark.parametrize("prevent_cse", [False, True])
@pytest.mark.parametrize("policy", COMPILED)
def test_derivatives(policy, prevent_cse):
    function = ours(POLICIES[policy], prevent_cse)
    assert_same(mx.reference(mx.grad(function, (0, 1)))(W, X), expected()("grad"))
    for name in derivatives(mx, function):
        assert_same(compiled()(f"{policy}, {prevent_cse}, {name}"), expected()(name))


# How often each is computed: forwards twice, again as the policy says; the cotangents' two products
# come on top.
@pytest.mark.parametrize(
    ("policy", "dots", "tangents"),
    [
        ("default", 6, 4),
        ("everything", 4, 2),
        ("dots", 4, 4),
        ("named", 4, 2),
        ("not the named", 6, 4),
        ("other names", 4, 2),
        ("dots and named", 4, 2),
    ],
)
def test_what_is_computed_again(policy, dots, tangents):
    text = str(mx.make_graph(mx.grad(ours(POLICIES[policy]), 1))(W, X))
    assert text.count(" tanh(") == tangents
    assert text.count(" dot(") == dots


def test_the_compiler_cannot_merge_the_two():
    text = mx.make_graph(mx.grad(ours(), 1))(W, X).stablehlo()
    assert "stablehlo.optimization_barrier" in text
    text = mx.make_graph(mx.grad(ours(prevent_cse=False), 1))(W, X).stablehlo()
    assert "stablehlo.optimization_barrier" not in text


def test_only_arguments_are_kept():
    """What a call gives besides its result is kept for the way back."""

    def inside(x):
        for _ in range(5):
            x = mx.numpy.sin(x @ x)
        return x

    def results_of_calls(block):
        graph = mx.make_graph(mx.grad(lambda x: block(block(x)).sum()))(np.ones((4, 4), np.float32))
        calls = [each for each in graph.instructions if each.op.name == "Call"]
        return [len(each.results) for each in calls]

    assert results_of_calls(mx.checkpoint(inside)) == [1, 1, 1, 1]
    assert max(results_of_calls(mx.jit(inside))) > 5


def test_pytrees_static_arguments_and_closures():
    scale = mx.numpy.asarray(2.0)

    def function(data, mode, *, shift):
        y = data["x"] * scale if mode == "double" else data["x"]
        return {"y": y + shift, "unused": data["n"]}

    checked = mx.checkpoint(function, static_argnums=1)
    data = {"x": X, "n": np.arange(3)}
    assert_same(checked(data, "double", shift=1.0)["y"], 2 * X + 1)
    gradient = mx.grad(lambda d: checked(d, "double", shift=1.0)["y"].sum(), allow_int=True)(data)
    assert_same(gradient["x"], np.full(4, 2.0))


def test_values_of_enclosing_functions():
    def function(x):
        return mx.checkpoint(lambda y: mx.numpy.sin(y) * x)(x * 2).sum()

    def plain(x):
        return (jnp.sin(x * 2) * x).sum()

    assert_same(mx.grad(function)(X), by_jax(jax.grad(plain), X))
    assert_same(mx.jit(mx.hessian(function))(X), by_jax(jax.hessian(plain), X))


def test_inside_jax():
    function = ours()
    assert_same(jax.grad(lambda x: function(W, x))(X), by_jax(jax.grad(theirs, 1), W, X))


def test_policies_for_batched_products():
    batched = mx.checkpoint_policies.dots_with_no_batch_dims_saveable
    a = R.normal(size=(2, 3, 3)).astype(np.float32)

    def function(a):
        inner = mx.checkpoint(lambda a: mx.numpy.tanh(a @ a @ a), policy=batched)
        return inner(a).sum()

    text = str(mx.make_graph(mx.grad(function))(a))
    assert text.count(" dot(") > 6
    expected = by_jax(jax.grad(lambda a: jnp.tanh(a @ a @ a).sum()), a)
    for gradient in (mx.grad(function), mx.jit(mx.grad(function))):
        assert_same(gradient(a), expected)


def blocks(wrap, weights, x):
    """A net whose blocks each make four arrays of the size of `x`."""

    def block(w, x):
        for _ in range(4):
            x = mx.numpy.tanh(x @ w)
        return x

    for w in weights:
        x = wrap(block)(w, x)
    return (x * x).sum()


@pytest.mark.parametrize("kind", [np.float32, jnp.bfloat16, np.complex64])
def test_memory(kind):
    """XLA:CPU drops optimization barriers, and would merge both computations again."""
    weights, x = [np.full((8, 8), 0.1 * i, kind) for i in range(6)], np.ones((1024, 8), kind)

    def compiled(wrap):
        def loss(weights, x):
            value = blocks(wrap, weights, x)
            return mx.numpy.real(value) if kind is np.complex64 else value

        found = mx.jit(mx.grad(loss)).lower(weights, x).compile()
        return found(weights, x), found.memory_analysis().temp_size_in_bytes

    (plain, most), (again, least) = map(compiled, (lambda f: f, mx.checkpoint))
    jax.tree.map(np.testing.assert_array_equal, again, plain)
    assert least < 0.6 * most


# Besides numbers: keys, flags, integers, no elements, scalars, infinite cotangents.
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        pytest.param(function, arguments, id=name)
        for name, function, *arguments in [
            ("flags", lambda x, flag: mx.numpy.where(flag, mx.numpy.sin(x), x), X, X > 0),
            ("integers", lambda x, i: mx.numpy.sin(x)[i], X, np.arange(3)),
            (
                "2-bit integers",
                lambda x, i: mx.numpy.sin(x) * i.astype(np.float32),
                X,
                np.ones(4, jnp.int2),
            ),
            ("scalar", lambda x: mx.numpy.sin(x), np.float32(2)),
            ("no elements", lambda x: mx.numpy.sin(x), X[:0]),
            ("NaN", lambda x: mx.numpy.sin(x) * np.float32("nan"), X),
            ("infinite", lambda x: mx.numpy.sin(x) * np.float32("inf"), X),
            ("negative zero", lambda x, y: mx.numpy.sin(x) / y, X, np.full(4, -0.0, np.float32)),
            ("f8", lambda x: mx.numpy.sin(x), X.astype(jnp.float8_e4m3fn)),
            ("f64", lambda x: mx.numpy.sin(x), X.astype(np.float64)),
            ("c128", lambda x: mx.numpy.real(mx.numpy.sin(x)), X.astype(np.complex128)),
            ("two results", lambda x: (mx.numpy.sin(x), mx.numpy.cos(x)), X),
            (
                "keys",
                lambda x, key: x * mx.random.normal(key, (4,), np.float32),
                X,
                mx.random.key(0),
            ),
        ]
    ],
)
def test_second_start(function, arguments):
    """What is computed again starts from the very same values."""

    def pulled(wrap):
        def both(*arguments):
            results, pull = mx.vjp(lambda x: wrap(function)(x, *arguments[1:]), arguments[0])
            return pull(jax.tree.map(lambda each: each / 2, results))

        return mx.jit(both)(*arguments)

    jax.tree.map(np.testing.assert_array_equal, pulled(mx.checkpoint), pulled(lambda f: f))


@pytest.mark.parametrize(("platform", "selects"), [("cpu", 1), ("tpu", 0), ("cuda", 0)])
def test_other_platforms_keep_the_barrier(platform, selects):
    gradient = mx.grad(mx.checkpoint(lambda x: mx.numpy.sin(x[0])))
    text = jax.export.deserialize(mx.export(gradient, X, platforms=(platform,))).mlir_module()
    assert text.count("stablehlo.select ") == selects
    assert text.count("stablehlo.optimization_barrier") == 1 - selects
