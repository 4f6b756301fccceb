"""cond, switch, loops, scan, map and associative_scan against JAX's."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.harness import by_jax, compiled_rows, compiled_together

R = np.random.default_rng(0)
W, X = R.normal(size=5), R.normal(size=5)
BATCH = np.stack([X, -X, 0.3 * X])

#: From a namespace of control flow and one like NumPy's to a function of X that gives a scalar.
PROGRAMS = {
    "cond": lambda m, n: (
        lambda x: m.cond(x.sum() > 0, lambda x: n.sin(x) * W, lambda x: x * x, x).sum()
    ),
    "cond on a closed-over value": lambda m, n: (
        lambda x: m.cond(x[0] > 0, lambda: n.sin(x).sum(), lambda: (x * W).sum())
    ),
    "switch": lambda m, n: (
        lambda x: m.switch(
            (x[0] * 3).astype(int), [lambda x: x, lambda x: x * x, lambda x: n.sin(x)], x
        ).sum()
    ),
    "while_loop": lambda m, n: (
        lambda x: m.while_loop(
            lambda c: (c["x"] ** 2).sum() < 50,
            lambda c: {"n": c["n"] + 1, "x": c["x"] * 1.5 + 0.1 * n.sin(x)},
            {"n": 0, "x": x},
        )["x"].sum()
    ),
    "fori_loop": lambda m, n: lambda x: m.fori_loop(0, 5, lambda i, c: n.sin(c) + x * i, x).sum(),
    "fori_loop, unrolled": lambda m, n: (
        lambda x: m.fori_loop(0, 5, lambda i, c: n.sin(c) + x * i, x, unroll=2).sum()
    ),
    "scan": lambda m, n: (
        lambda x: both_sums(
            m.scan(lambda c, y: (n.sin(c) * x + y, c * y), x, n.stack([x, x * 2, x + 1]))
        )
    ),
    "scan, reversed and unrolled": lambda m, n: (
        lambda x: both_sums(
            m.scan(
                lambda c, y: (n.sin(c) * x + y, c * y),
                x,
                n.stack([x, x * 2, x + 1]),
                reverse=True,
                unroll=2,
            )
        )
    ),
    "scan without arrays": lambda m, n: (
        lambda x: m.scan(lambda c, _: (n.sin(c) * x, None), x, None, length=3)[0].sum()
    ),
    "map": lambda m, n: lambda x: m.map(lambda y: n.sin(y) * x, n.stack([x, x * 2, x + 1])).sum(),
    "map in batches": lambda m, n: (
        lambda x: m.map(lambda y: n.sin(y) * x, n.stack([x, x * 2, x + 1]), batch_size=2).sum()
    ),
    "associative_scan": lambda m, n: (
        lambda x: (m.associative_scan(lambda a, b: a * b, x) ** 2).sum()
    ),
    "associative_scan of pairs": lambda m, n: (
        lambda x: (
            m.associative_scan(
                lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x + 1), reverse=True
            )[1]
            ** 2
        ).sum()
    ),
    "loop in a branch in a loop": lambda m, n: (
        lambda x: m.fori_loop(
            0,
            3,
            lambda i, c: m.cond(
                c.sum() > 0,
                lambda c: m.fori_loop(0, 2, lambda j, d: n.sin(d) + x, c),
                lambda c: c * x,
                c,
            ),
            x,
        ).sum()
    ),
}


def both_sums(pair):
    return pair[0].sum() + (pair[1] ** 2).sum()


# Results for Python numbers, which stay weakly typed outside of transformations too.
WEAK_RESULTS = {
    "while": lambda m: m.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
    "fori": lambda m: m.fori_loop(0, 3, lambda i, c: c + i, 0),
    "fori, unrolled": lambda m: m.fori_loop(0, 3, lambda i, c: c + i, 0, unroll=True),
    "scan": lambda m: m.scan(lambda c, _: (c * 2, c), 1.0, None, length=3),
    "scan, strong": lambda m: m.scan(lambda c, x: (c * x, x), 1.0, np.ones(3, np.float16)),
    "cond": lambda m: m.cond(True, lambda: 1, lambda: 2),
    "cond, strong": lambda m: m.cond(True, lambda: np.int8(1), lambda: np.int8(2)),
    "switch": lambda m: m.switch(1, [lambda: (1.0, True), lambda: (2.0, False)]),
}


@pytest.mark.parametrize("name", WEAK_RESULTS)
def test_weak_results(name):
    program = WEAK_RESULTS[name]
    ours = jax.tree.leaves(program(mx))
    theirs = jax.tree.leaves(jax.eval_shape(lambda: program(lax)))
    assert [(x.dtype, x.weak_type) for x in ours] == [(x.dtype, x.weak_type) for x in theirs]


@pytest.fixture(autouse=True)
def in_double():
    with jax.enable_x64(True):
        yield


def assert_same(ours, theirs, tolerance=1e-9):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), ours, theirs
    )


@functools.cache
def expected():
    """What JAX says of the programs, by name: all of them in one."""

    def everything(theirs):
        # Forwards only: JAX cannot go back over a loop of unknown length.
        first = jax.jacfwd(lambda x: (theirs(x),) * 2, has_aux=True)

        def gradient(x):
            found, value = first(x)
            return found, (found, value)

        return jax.vmap(jax.jacfwd(gradient, has_aux=True))

    functions = {name: everything(program(lax, jnp)) for name, program in PROGRAMS.items()}
    found = compiled_together(functions, BATCH, jit=jax.jit)

    def known(name):
        # X is the first of the batch.
        hessians, (gradients, values) = jax.tree.map(np.asarray, found(name))
        return {
            "value": values[0],
            "batch": values,
            "gradient": gradients[0],
            "gradients": gradients,
            "jvp": (values[0], gradients[0] @ (X * X)),
            "along": gradients[0] @ W,
            "hessian": hessians[0],
        }

    return known


@functools.cache
def compiled():
    """What `mx.jit` makes of the programs, by name: all of them in one."""

    def everything(ours):
        return lambda x, batch: {
            "value": ours(x),
            "hessian": mx.hessian(ours)(x),
            "gradients": mx.vmap(mx.grad(ours))(batch),
        }

    functions = {name: everything(program(mx, mx.numpy)) for name, program in PROGRAMS.items()}
    return compiled_together(functions, X, BATCH)


def linearized(function):
    return lambda x: mx.linearize(function, x)[1](W)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    ours = PROGRAMS[name](mx, mx.numpy)
    assert_same(
        [ours(X), compiled()(name)["value"], mx.reference(ours)(X)], [expected()(name)["value"]] * 3
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name):
    ours, theirs = PROGRAMS[name](mx, mx.numpy), expected()(name)
    assert_same(mx.reference(lambda x: mx.jvp(ours, (x,), (x * x,)))(X), theirs["jvp"])
    assert_same(mx.reference(mx.grad(ours))(X), theirs["gradient"])
    assert_same(compiled()(name)["hessian"], theirs["hessian"], 1e-8)
    assert_same(mx.reference(linearized(ours))(X), theirs["along"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches(name):
    theirs = expected()(name)
    assert_same(mx.reference(mx.vmap(PROGRAMS[name](mx, mx.numpy)))(BATCH), theirs["batch"])
    assert_same(compiled()(name)["gradients"], theirs["gradients"])


@pytest.mark.parametrize("name", ["cond", "while_loop", "scan"])
def test_transformed_outside_of_jit(name):
    ours, theirs = PROGRAMS[name](mx, mx.numpy), expected()(name)
    assert_same(mx.jvp(ours, (X,), (X * X,)), theirs["jvp"])
    assert_same(mx.grad(ours)(X), theirs["gradient"])
    assert_same(linearized(ours)(X), theirs["along"])
    assert_same(mx.vmap(ours)(BATCH), theirs["batch"])


def test_unroll_true_leaves_no_loop():
    def function(x):
        return mx.fori_loop(1, 4, lambda i, c: c * i + x, x, unroll=True)

    graph = mx.make_graph(function)(X)
    assert not [step for step in graph.instructions if step.op.name == "While"]
    assert_same(
        mx.jit(function)(X), by_jax(lambda x: lax.fori_loop(1, 4, lambda i, c: c * i + x, x), X)
    )


def test_nothing_is_unrolled():
    graph = mx.make_graph(
        lambda x: mx.scan(lambda c, y: (c + y, c), x, np.ones((1000, 5), np.float32))[0]
    )(X)
    assert len(graph.instructions) < 5
    assert str(mx.make_graph(lambda x: mx.fori_loop(0, 9, lambda i, c: c + x, x))(X)).count(
        "while("
    )
    backwards = mx.make_graph(mx.grad(lambda x: mx.fori_loop(0, 500, lambda i, c: c * x, x).sum()))
    assert len(backwards(X).instructions) < 40


def test_only_one_branch_runs():
    """A branch that would not end is not taken."""

    def endless(x):
        return mx.while_loop(lambda c: c[0] == c[0], lambda c: c, x)

    def function(x):
        return mx.cond(x[0] > x[0], endless, lambda x: x + 1, x)

    for evaluate in (mx.reference, mx.jit):
        assert_same(evaluate(function)(X), X + 1)


FEW = [0, 1]


def in_few_steps(m, n, steps):
    def function(x):
        carry, ys = m.scan(lambda c, y: (c * y, c + y), x, n.stack([x] * 2)[:steps])
        return carry.sum() + ys.sum() + m.fori_loop(0, steps, lambda i, c: c * x, x).sum()

    return function


@functools.cache
def few_steps():
    """Values and gradients of ours and of JAX's after few steps."""
    ours = {n: mx.value_and_grad(in_few_steps(mx, mx.numpy, n)) for n in FEW}
    theirs = {n: jax.value_and_grad(in_few_steps(lax, jnp, n)) for n in FEW}
    return compiled_together(ours, X), compiled_together(theirs, X, jit=jax.jit)


@pytest.mark.parametrize("steps", FEW)
def test_few_steps(steps):
    ours, theirs = few_steps()
    assert_same(ours(steps), theirs(steps))
    assert_same(
        mx.reference(mx.value_and_grad(in_few_steps(mx, mx.numpy, steps)))(X), theirs(steps)
    )
    assert_same(mx.associative_scan(lambda a, b: a + b, X[:steps]), np.cumsum(X[:steps]))


NUMBERS = {size: np.arange(size, dtype=np.int32)[None] + 1 for size in range(9)}


def sums(x):
    """Sums from the front and from the back."""
    return (
        mx.associative_scan(lambda a, b: a + b, x, axis=1),
        mx.associative_scan(lambda a, b: a + b, x, axis=-1, reverse=True),
    )


@functools.cache
def compiled_sums():
    return compiled_rows({size: (sums, [x]) for size, x in NUMBERS.items()}, jit=mx.jit)


@pytest.mark.parametrize("size", NUMBERS)
def test_associative_scan_of_every_size(size):
    x = NUMBERS[size]
    at_once = [sums(x)] if size == 5 else []
    for found, back in (compiled_sums()(size), mx.reference(sums)(x), *at_once):
        np.testing.assert_array_equal(found, np.cumsum(x, 1))
        np.testing.assert_array_equal(back, np.cumsum(x[:, ::-1], 1)[:, ::-1])


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 7])
def test_switch_takes_branches_of_any_iterable(index):
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    assert mx.switch(index, iter(branches), 1.0) == mx.switch(index, branches, 1.0)


@pytest.mark.parametrize("index", [-2, 0, 1, 2, 9])
def test_switch_clamps_its_index(index):
    branches = [lambda x, i=i: x * i for i in range(3)]
    assert_same(mx.switch(index, branches, X), lax.switch(index, branches, X))
    assert_same(mx.switch(index, branches[:1], X), X * 0)


def test_branches_of_other_types_run_once():
    calls = []

    def weak():
        calls.append("weak")
        return 2

    assert np.asarray(mx.cond(X[0] < 9, weak, lambda: np.float32(3))).dtype == np.float32
    assert calls == ["weak"]


def test_the_index_of_a_loop_to_a_traced_bound_is_weakly_typed():
    def loop(m):
        return lambda n: m.fori_loop(0, n, lambda i, c: c + i, np.int8(0))

    count = np.asarray(4)
    assert mx.jit(loop(mx))(count).dtype == jax.eval_shape(loop(lax), count).dtype
    assert mx.jit(loop(mx))(count) == 6


def test_weak_types_give_way():
    x = np.ones(2, np.float32).astype(jnp.bfloat16)
    values = {
        "while": lambda m: m.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x[0]), (0, 1.0)
        ),
        "scan": lambda m: m.scan(lambda c, y: (c + y, None), 0.0, x),
        "fori": lambda m: m.fori_loop(0, 2, lambda i, c: c + x[0], 0.0),
        "fori, number": lambda m: m.fori_loop(0, 2, lambda i, c: c + i, np.int8(0)),
        "fori, known bounds": lambda m: m.fori_loop(
            np.int16(0), np.int16(2), lambda i, c: c + i, np.int8(0)
        ),
        "fori, wide bound": lambda m: m.fori_loop(0, np.int32(2), lambda i, c: c + i, np.int32(0)),
    }
    compiled = compiled_together({name: lambda p=p: p(mx) for name, p in values.items()})
    for name, program in values.items():
        ours = jax.tree.leaves(compiled(name))
        theirs = jax.tree.leaves(jax.eval_shape(lambda program=program: program(lax)))
        assert [each.dtype for each in ours] == [each.dtype for each in theirs], name
    # JAX asks for one type.
    assert np.asarray(mx.cond(x[0] > 0, lambda: 1.0, lambda: x[0])).dtype == jnp.bfloat16


def test_reverse_mode_of_a_long_loop_keeps_few_states():
    """10,000 iterations, counted at run time: memory is that of 256 states, see loop_reverse."""
    size, steps = 64, 10_000

    def function(x, count):
        return mx.while_loop(
            lambda c: c[0] < count,
            lambda c: (c[0] + 1, c[1] * 0.9999 + 1e-4 * mx.numpy.sin(c[1])),
            (0, x),
        )[1].sum()

    def counted(x):
        return lax.fori_loop(0, steps, lambda _, c: c * 0.9999 + 1e-4 * jnp.sin(c), x).sum()

    x = np.linspace(-1, 1, size)
    compiled = mx.jit(mx.grad(function)).lower(x, np.int64(steps)).compile()
    state = size * 8
    assert compiled.memory_analysis().temp_size_in_bytes < 1000 * state < steps * state
    assert_same(compiled(x, np.int64(steps)), by_jax(jax.grad(counted), x))


def test_values_read_from_outside_have_derivatives():
    def ours(w):
        return mx.scan(lambda c, y: (mx.numpy.tanh(w * c + y), None), X, np.stack([X, W]))[0].sum()

    def theirs(w):
        return lax.scan(lambda c, y: (jnp.tanh(w * c + y), None), X, np.stack([X, W]))[0].sum()

    expected = by_jax(jax.grad(theirs), W)
    assert_same(mx.grad(ours)(W), expected)
    assert_same(mx.jit(mx.grad(mx.jit(ours)))(W), expected)


def identity(x):
    return x


ERRORS = {
    "cond, not scalar": (
        lambda x: mx.cond(x > 0, identity, identity, x),
        mx.ShapeError,
        ["cond: pred is not a scalar", "pred pred[5]", "mx.numpy.where"],
    ),
    "cond, shapes": (
        lambda x: mx.cond(x[0] > 0, identity, lambda x: x[:2], x),
        mx.ShapeError,
        ["return the same shape for the result", "true_fun: f64[5]", "false_fun: f64[2]"],
    ),
    "cond, structures": (
        lambda x: mx.cond(x[0] > 0, identity, lambda x: (x, x), x),
        mx.TransformError,
        ["true_fun and false_fun must return the same structure"],
    ),
    "cond, no function": (
        lambda x: mx.cond(x[0] > 0, x, x),
        mx.TransformError,
        ["cond", "expected a function,"],
    ),
    "switch, float": (
        lambda x: mx.switch(x[0], [identity, identity], x),
        mx.ShapeError,
        ["switch: the index is not an integer", "index f64[]"],
    ),
    "switch, nothing": (
        lambda x: mx.switch(0, [], x),
        mx.TransformError,
        ["switch: at least one branch is"],
    ),
    "while, condition": (
        lambda x: mx.while_loop(lambda c: c, identity, x),
        mx.ShapeError,
        ["while_loop: cond_fun must return one boolean scalar", "it returns f64[5]"],
    ),
    "while, shape": (
        lambda x: mx.while_loop(lambda c: c[0] < 1, lambda c: c[:1], x),
        mx.ShapeError,
        ["body_fun must return c with the shape", "it takes f64[5]", "it returns f64[1]"],
    ),
    "while, type": (
        lambda x: mx.while_loop(lambda c: c[0] < 1, lambda c: c.astype(np.float32), x),
        mx.ShapeError,
        ["it returns f32[5]", "Its shape and element type"],
    ),
    "while, structure": (
        lambda x: mx.while_loop(lambda c: c[0] < 1, lambda c: (c, c), x),
        mx.TransformError,
        ["body_fun must return the structure that it takes"],
    ),
    "fori, bound": (
        lambda x: mx.fori_loop(0, 2.5, lambda i, c: c, x),
        mx.ShapeError,
        ["fori_loop: upper is not an integer", "upper f64[]"],
    ),
    "fori, unroll": (
        lambda x: mx.fori_loop(0, x[0].astype(int), lambda i, c: c, x, unroll=2),
        mx.TransformError,
        ["unroll requires bounds that are known while tracing"],
    ),
    "fori, negative unroll": (
        lambda x: mx.fori_loop(0, 3, lambda i, c: c, x, unroll=-1),
        mx.AttributeValueError,
        ["fori_loop: unroll must not be negative", "unroll = -1"],
    ),
    "scan, negative unroll": (
        lambda x: mx.scan(lambda c, y: (c, y), x, x, unroll=-2),
        mx.AttributeValueError,
        ["scan: unroll must not be negative"],
    ),
    "scan, unroll": (
        lambda x: mx.scan(lambda c, y: (c, y), x, x, unroll="all"),
        mx.AttributeValueError,
        ["scan: unroll has", "unroll is an integer or True or False"],
    ),
    "scan, unrolled, no pair": (
        lambda x: mx.scan(lambda c, y: (c, y, y), x, x, unroll=2),
        mx.TransformError,
        ["f must return the next carry and a result", "PyTreeDef((*, *, *))"],
    ),
    "scan, no pair but a dictionary": (
        lambda x: mx.scan(lambda c, y: {"carry": c, "result": y}, x, x),
        mx.TransformError,
        ["f must return the next carry and a result", "Return a pair"],
    ),
    "map, batch_size": (
        lambda x: mx.map(identity, x, batch_size=0),
        mx.AttributeValueError,
        ["map: batch_size must be at", "batch_size = 0"],
    ),
    "scan, no pair": (
        lambda x: mx.scan(lambda c, y: c, x, x),
        mx.TransformError,
        ["f must return the next carry and a result", "Return a pair"],
    ),
    "scan, carry": (
        lambda x: mx.scan(lambda c, y: (c[:2], y), x, x),
        mx.ShapeError,
        ["return c with the shape that it takes"],
    ),
    "scan, carry's structure": (
        lambda x: mx.scan(lambda c, y: ((c, c), y), x, x),
        mx.TransformError,
        ["return a carry with the structure"],
    ),
    "scan, lengths": (
        lambda x: mx.scan(lambda c, y: (c, y), x, (x, x[:2])),
        mx.ShapeError,
        ["in size along axis 0", "xs[1]: f64[2]"],
    ),
    "scan, scalar": (
        lambda x: mx.scan(lambda c, y: (c, y), x, x[0]),
        mx.ShapeError,
        ["the arrays of xs must all have axis 0", "xs: f64[]", "let f capture other values"],
    ),
    "scan, no length": (
        lambda x: mx.scan(lambda c, y: (c, y), x, None),
        mx.TransformError,
        ["the number of steps is unknown"],
    ),
    "associative_scan, no axis": (
        lambda x: mx.associative_scan(lambda a, b: a, [x, x[0]], axis=-1),
        mx.ShapeError,
        ["the arrays of elems must all have axis -1", "elems[1]: f64[]"],
    ),
    "associative_scan, sizes": (
        lambda x: mx.associative_scan(lambda a, b: a, [x, x[:2]]),
        mx.ShapeError,
        ["the arrays of elems must be equal in size along axis 0", "elems[1]: f64[2]"],
    ),
    "associative_scan": (
        lambda x: mx.associative_scan(lambda a, b: a[:1], x),
        mx.ShapeError,
        ["fn must return the structure and shapes that it takes"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    function, kind, phrases = ERRORS[name]
    with pytest.raises(kind) as caught:
        mx.make_graph(function)(X)
    for phrase in (*phrases, "test_control_flow.py"):
        assert phrase in str(caught.value)


def test_jax_names_are_ours():
    """The signatures are JAX's, so that the programs above serve both."""
    assert isinstance(mx.scan, types.FunctionType)
    for name in ("cond", "switch", "while_loop", "fori_loop", "scan", "map", "associative_scan"):
        assert callable(getattr(mx, name)) and callable(getattr(lax, name))
