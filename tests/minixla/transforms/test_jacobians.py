"""linearize, jacfwd, jacrev and hessian against JAX's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from tests.harness import QUICKLY, by_jax, check_rejected, compiled_together
from tests.selection import unless

R = np.random.default_rng(0)
P = {
    "w": R.normal(size=(2, 3)).astype(np.float32),
    "b": R.normal(size=2).astype(np.float32),
}
X = R.normal(size=3).astype(np.float32)


def program(np_like):
    def function(p, x):
        y = np_like.tanh(p["w"] @ x + p["b"])
        return {"y": y, "norm": (p["w"] ** 2).sum() * y[0]}

    return function


OURS, THEIRS = program(mx.numpy), program(jnp)


def assert_same(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), ours, theirs)


WAYS = {"eager": lambda f: f, "jit": mx.jit, "reference": mx.reference, "in JAX": jax.jit}


NAMES = ["jacfwd", "jacrev", "hessian"]
ARGNUMS = [0, 1, (1, 0), -1]
# These run eagerly, too.
EAGER = [1, (1, 0)]


def jacobians(m, function):
    """All Jacobians of the program, by name."""
    return {
        f"{name} {argnums}": getattr(m, name)(function, argnums)
        for name in NAMES
        for argnums in ARGNUMS
    }


@functools.cache
def expected_jacobians():
    return compiled_together(jacobians(jax, THEIRS), P, X, jit=jax.jit)


@functools.cache
def compiled_jacobians(jit):
    return compiled_together(jacobians(mx, OURS), P, X, jit=jit)


@pytest.mark.parametrize(
    ("argnums", "way"),
    [
        pytest.param(argnums, way, marks=unless(way != "eager" or argnums == 1))
        for argnums in ARGNUMS
        for way in WAYS
        if way != "eager" or argnums in EAGER
    ],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_jacobians(name, argnums, way):
    if way in ("jit", "in JAX"):
        found = compiled_jacobians(WAYS[way])(f"{name} {argnums}")
    else:
        found = WAYS[way](getattr(mx, name)(OURS, argnums))(P, X)
    assert_same(found, expected_jacobians()(f"{name} {argnums}"))


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_auxiliary_data(name):
    ours = getattr(mx, name)(lambda x: (x * x, x.sum()), has_aux=True)
    jacobian, aux = ours(X)
    np.testing.assert_allclose(jacobian, np.diag(2 * X), rtol=1e-6)
    np.testing.assert_allclose(aux, X.sum(), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_auxiliary_data_that_are_no_arrays(name):
    ours = getattr(mx, name)(lambda x: ((x * x).sum(), {"n": 3, "kind": "sum"}), has_aux=True)
    assert ours(X)[1] == {"n": 3, "kind": "sum"}
    assert type(ours(X)[1]["n"]) is int


Z = (X + 1j).astype(np.complex64)


def holomorphic(m):
    """The complex Jacobians by name."""
    return {name: getattr(m, name)(lambda z: z * z * z, holomorphic=True) for name in NAMES}


@functools.cache
def compiled_holomorphic(m):
    return compiled_together(holomorphic(m), Z, jit=m.jit)


@pytest.mark.parametrize("name", NAMES)
def test_holomorphic(name):
    expected = compiled_holomorphic(jax)(name)
    assert_same(compiled_holomorphic(mx)(name), expected)
    assert_same(holomorphic(mx)[name](Z), expected)


COMPLEX = {
    "jacrev, to real numbers": ("jacrev", lambda n: lambda z: n.abs(z) ** 2, Z),
    "jacfwd, of real numbers": ("jacfwd", lambda n: lambda x: n.exp(1j * x) * x, X),
}


@pytest.mark.parametrize(("name", "build", "x"), COMPLEX.values(), ids=COMPLEX)
def test_between_real_and_complex_numbers(name, build, x):
    found = getattr(mx, name)(build(mx.numpy))(x)
    assert_same(found, by_jax(getattr(jax, name)(build(jax.numpy)), x))
    assert found.dtype == np.complex64


def test_integer_arguments():
    zeros = mx.jacrev(lambda i, x: x * i.sum(), (0, 1), allow_int=True)(np.arange(2), X)
    assert zeros[0].dtype == jax.dtypes.float0
    assert zeros[0].shape == (3, 2)


def test_sizes_0_and_scalars():
    def squares(m):
        return {name: getattr(m, name)(lambda x: (x * x).sum()) for name in NAMES}

    def of_both(m):
        return lambda *xs: [{name: f(x) for name, f in squares(m).items()} for x in xs]

    operands = np.zeros((0, 2), np.float32), np.float32(2)
    expected = by_jax(of_both(jax), *operands)
    for way in (functools.partial(mx.jit, compiler_options=QUICKLY), mx.reference):
        found = way(of_both(mx))(*operands)
        assert_same(found, expected)
        assert [x.shape for x in jax.tree.leaves(found)] == [
            x.shape for x in jax.tree.leaves(expected)
        ]


def test_jacobian_of_a_batch():
    batch = np.stack([X, X + 1])
    ours = mx.vmap(mx.jacfwd(OURS, 1), (None, 0))
    expected = by_jax(jax.vmap(jax.jacfwd(THEIRS, 1), (None, 0)), P, batch)
    for way in (functools.partial(mx.jit, compiler_options=QUICKLY), mx.reference):
        assert_same(way(ours)(P, batch), expected)


def linearized(m, function):
    """The result of a function, and its derivative in two directions."""

    def found(p, x):
        result, linear = m.linearize(function, p, x)
        return result, linear(p, x), linear(p, 2 * x)

    return found


@functools.cache
def expected_linearized():
    return by_jax(linearized(jax, THEIRS), P, X)


LINEARIZED = {False: linearized(mx, OURS), True: linearized(mx, mx.jit(OURS))}


@functools.cache
def compiled_linearized(jit):
    return compiled_together(LINEARIZED, P, X, jit=jit)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_jitted", LINEARIZED)
def test_linearize(way, is_jitted):
    if way in ("jit", "in JAX"):
        found = compiled_linearized(WAYS[way])(is_jitted)
    else:
        found = WAYS[way](LINEARIZED[is_jitted])(P, X)
    assert_same(found, expected_linearized())


def test_linearize_computes_primals_once():
    calls = []

    @mx.custom_jvp
    def noted(x):
        calls.append("value")
        return mx.numpy.sin(x)

    def rule(primals, tangents):
        calls.append("rule")
        return mx.numpy.sin(*primals), mx.numpy.cos(*primals) * tangents[0]

    noted.defjvp(rule)
    _, linear = mx.linearize(noted, X)
    before = list(calls)
    for _ in range(3):
        np.testing.assert_allclose(linear(X), np.cos(X) * X, rtol=1e-6)
    assert calls == before


def test_linearized_functions_follow_transformations():
    def function(x, t):
        return mx.linearize(lambda x: mx.numpy.sin(x) * x, x)[1](t).sum()

    def in_jax(x, t):
        return jax.linearize(lambda x: jnp.sin(x) * x, x)[1](t).sum()

    transforms = ("grad", "jacfwd", "hessian")

    def transformed(m, function):
        def found(x, batch):
            derivatives = {name: getattr(m, name)(function)(x, x) for name in transforms}
            return derivatives, m.vmap(function)(batch, batch)

        return found

    def in_jax_all(x, batch):
        linear = jax.linearize(lambda x: jnp.sin(x) * x, x)[1]
        return transformed(jax, in_jax)(x, batch), jax.vmap(linear)(batch)

    batch = np.stack([X, X + 1])
    expected, pushed = by_jax(in_jax_all, X, batch)
    for way in (mx.jit, mx.reference):
        assert_same(way(transformed(mx, function))(X, batch), expected)
    linear = mx.linearize(lambda x: mx.numpy.sin(x) * x, X)[1]
    assert_same(mx.vmap(linear)(batch), pushed)
    assert_same(mx.grad(lambda t: linear(t).sum())(X), np.sin(X) + X * np.cos(X))


def test_linearize_of_integers_and_constants():
    result, linear = mx.linearize(lambda i, x: (i + 1, x, 2.0), np.arange(2), X)
    zeros = np.zeros(2, jax.dtypes.float0)
    tangents = linear(zeros, X)
    assert tangents[0].dtype == jax.dtypes.float0
    np.testing.assert_array_equal(tangents[1], X)
    np.testing.assert_array_equal(tangents[2], 0)
    assert result[2] == 2


def test_linearize_with_auxiliary_data():
    result, linear, aux = mx.linearize(lambda x: (x * x, {"mean": x.mean()}), X, has_aux=True)
    assert_same((result, linear(X), aux), (X * X, 2 * X * X, {"mean": X.mean()}))


def test_errors():
    check_rejected(
        lambda i: mx.jacfwd(lambda i: i)(i),
        [np.arange(3, dtype=np.int32)],
        mx.DerivativeError,
        "jacfwd: argument i of type s32 has no Jacobian.",
    )
    check_rejected(
        lambda x: mx.jacrev(lambda x: x > 0)(x),
        [X],
        mx.DerivativeError,
        "jacrev: the result of type pred has no Jacobian.",
    )
    _, linear = mx.linearize(lambda x: x, X)
    with pytest.raises(mx.TransformError, match="linearize: the tangents must have the structure"):
        linear(X, X)
    with pytest.raises(mx.TransformError, match="the tangent of argument x does not match it"):
        linear(X[:2])
