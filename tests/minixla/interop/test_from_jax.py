"""from_jax: what a function of JAX's is inside ours, its derivatives, what is refused."""

import functools
import gc
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import minixla as mx
from tests.harness import by_jax, compiled_rows

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


def test_libraries_that_jax_calls_are_operations_whatever_the_backend(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    a = np.eye(3, dtype=np.float32)

    def graph_of_jax(function: Any) -> Any:
        traced: Any = mx.from_jax(lambda a: function(a))
        return traced.graph(a)

    for function, name in ((jnp.linalg.qr, "HouseholderProduct"), (jnp.linalg.eigh, "Eigh")):
        graph = graph_of_jax(function)
        found = {
            step.op.name for each in (graph, *graph.computations) for step in each.instructions
        }
        assert name in found
        assert not {"CustomCall", "LapackCall"} & found
    # What is none of ours is left to the backend's own library.
    assert "cusolver_sytrd_ffi" in graph_of_jax(jax.lax.linalg.tridiagonal).stablehlo()


def test_it_is_one_instruction_with_the_name_of_the_function():
    def attention(x):
        return jax.nn.softmax(x @ x.T) @ x

    function: Any = mx.from_jax(attention)
    graph = mx.make_graph(lambda x: function(x) + 1)(X)
    assert [step.op.builder_name for step in graph.instructions][:1] == ["from_jax"]
    assert graph.instructions[0].op.computation.name == "attention"
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
    def f(x):
        return jnp.sin(x) * x

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


def test_what_jax_has_no_derivative_of():
    ours = mx.from_jax(lambda a: jax.scipy.linalg.schur(a)[0].sum())
    for slope in (mx.grad(ours), mx.grad(mx.jit(ours)), mx.jit(mx.jacfwd(ours))):
        with pytest.raises(mx.DerivativeError, match="Differentiation rule for 'schur'"):
            slope(np.eye(3, dtype=np.float32))


def test_python_numbers_are_weakly_typed():
    ours = mx.from_jax(lambda x, y: x * y)
    half = X.astype(jnp.bfloat16)
    assert ours(half, 2.0).dtype == jnp.bfloat16
    assert mx.jit(lambda x: ours(x, 2.0))(half).dtype == jnp.bfloat16
    assert ours(half, np.float32(2)).dtype == jnp.float32
    number = jnp.asarray(2.0)  # which is weak
    rules = [mx.vmap, mx.jacfwd, mx.jacrev, mx.hessian, lambda f: mx.vmap(mx.vmap(mx.grad(f)))]
    for rule in rules:
        assert rule(lambda x: ours(x, number))(half).dtype == jnp.bfloat16


INDICES = np.array([2, 0], np.int32)
KEY = jax.random.key(7)
MODEL = eqx.nn.MLP(3, 2, 4, 1, key=KEY)

# JAX functions and arguments of which some are no arrays.
KNOWN = {
    "an axis by name": (jnp.sum, (X,), {"axis": 1}),
    "an axis by position": (jnp.sum, (X, 0), {}),
    "several axes and a truth value": (jnp.mean, (X,), {"axis": (0, 1), "keepdims": True}),
    "no axis": (jnp.max, (X,), {"axis": None}),
    "a length": (jnp.fft.irfft, (X, 8), {}),
    "a shape": (jax.random.normal, (KEY, (3,)), {}),
    "a shape and a type": (jax.random.randint, (KEY, (2, 2), 0, 9), {"dtype": jnp.int16}),
    "a number of classes": (jax.nn.one_hot, (INDICES, 4), {}),
    "a type by name": (lambda x, dtype: x.astype(dtype), (X, "float16"), {}),
    "a type of NumPy's": (lambda x, dtype: x.astype(dtype), (X, np.dtype("int8")), {}),
    "dimensions": (jnp.reshape, (X, (3, -1)), {}),
    "a word": (jnp.pad, (X, ((1, 0), (0, 2))), {"mode": "edge"}),
    "words before arrays": (jnp.einsum, ("ij,kj->ik", X, X), {}),
    "a function": (jnp.apply_along_axis, (jnp.cumsum, 1, X), {}),
    "numbers alone": (jnp.linspace, (0.0, 1.0, 5), {}),
    "a choice in Python": (lambda x, a, flag: x * a if flag and a > 1 else x, (X, 2.5, True), {}),
    "functions in a pytree": (lambda model, x: model(x), (MODEL, X[0]), {}),
}


def of_arrays(function, args, kwargs):
    """The function by from_jax, of those of its arguments that are arrays; and these."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (np.ndarray, jax.Array))]
    ours = mx.from_jax(function)

    def called(*arrays):
        given = dict(zip(at, arrays, strict=True))
        full = [given.get(index, leaf) for index, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(tree, full)
        return ours(*args, **kwargs)

    return called, [leaves[index] for index in at]


@functools.cache
def known_together():
    """From a name to what ours gives, all in one program."""
    return compiled_rows({name: of_arrays(*row) for name, row in KNOWN.items()})


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_no_array_is_known_while_jax_traces(name):
    function, args, kwargs = KNOWN[name]
    expected = function(*args, **kwargs)
    for found in (mx.from_jax(function)(*args, **kwargs), known_together()(name)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_equal_numbers_of_other_types_are_other_arguments():
    ours = mx.from_jax(lambda x, a: x.astype(jnp.int8) if a is True else x * a)
    whole = np.arange(3, dtype=np.int32)
    for number in (1, 1.0, True, 1):
        wanted = whole.astype(np.int8) if number is True else whole * jnp.asarray(number)
        assert ours(whole, number).dtype == wanted.dtype
    parted = mx.from_jax(lambda x, a: jnp.copysign(x, a))
    np.testing.assert_array_equal(parted(whole + 1.0, -0.0), -whole - 1.0)
    np.testing.assert_array_equal(parted(whole + 1.0, 0.0), whole + 1.0)


def test_a_number_of_python_that_is_differentiated_is_traced():
    def scaled(a, x, n):
        return jnp.sum(a * x**n)

    ours = mx.from_jax(scaled)
    for gradient in (mx.grad(ours), mx.jit(mx.grad(ours), static_argnums=2)):
        np.testing.assert_allclose(gradient(2.0, X, 3), np.sum(X**3), atol=1e-6)
    value, slope = mx.jvp(lambda a: ours(a, X, 2), (3.0,), (1.0,))
    np.testing.assert_allclose([value, slope], [3 * np.sum(X**2), np.sum(X**2)], rtol=1e-6)
    rows = mx.vmap(ours, (0, None, None))(np.ones(2, np.float32), X, 2)
    np.testing.assert_allclose(rows, [np.sum(X**2)] * 2, rtol=1e-6)


def test_arguments_that_are_named_static():
    class Config:
        def __init__(self, scale):
            self.scale = scale

    config = Config(jnp.float32(3))
    for options in ({"static_argnums": 1}, {"static_argnames": "config"}):
        ours = mx.from_jax(lambda x, config, n: x * config.scale + n, **options)
        np.testing.assert_allclose(ours(X, config, 2), 3 * X + 2, rtol=1e-6)
        np.testing.assert_allclose(ours(X, n=2, config=config), 3 * X + 2, rtol=1e-6)


def test_one_program_for_each_value_that_is_known():
    met = []

    @mx.from_jax
    def counted(x, n, name="a"):
        met.append((n, name))
        return x * n

    for n, name in [(1, "a"), (1, "a"), (2, "a"), (1, "b"), (2, "a")]:
        counted(X, n, name=name)
    assert met == [(1, "a"), (2, "a"), (1, "b")]
    for n in (5, 6):
        counted(X, np.int32(n))  # NumPy's numbers are traced
    assert len(met) == 4


def test_programs_keep_no_arrays_of_their_first_call():
    ours = mx.from_jax(lambda x, n: jnp.sin(x) * n)
    x = jnp.arange(3.0)
    kept = weakref.ref(x)
    ours(x, 2)
    mx.grad(lambda x: ours(x, 2).sum())(x)
    del x
    gc.collect()
    assert kept() is None


# How JAX is made to ask for a value, and what the message names.
ASKING = {
    "an argument by name": (
        lambda: mx.jit(lambda x, n: mx.from_jax(jnp.sum)(x, axis=n))(X, 1),
        ["sum asks for the value of axis, of which", "JAX traced axis s32[]"],
    ),
    "a number of NumPy's": (
        lambda: mx.from_jax(jnp.fft.irfft)(X, np.int64(8)),
        ["irfft asks for the value of n, of which", "give n as a Python number"],
    ),
    "an array of sizes": (
        lambda: mx.from_jax(jnp.reshape)(X, np.array([3, 2])),
        ["reshape asks for the value of shape, of which"],
    ),
    "a member of a tree": (
        lambda: mx.jit(mx.from_jax(lambda x, sizes: jnp.zeros(sizes["n"])))(X, {"n": 3}),
        ["asks for the value of sizes['n'], of which"],
    ),
    "a choice in Python": (
        lambda: mx.grad(mx.from_jax(lambda x: x if x > 0 else -x))(1.0),
        ["asks for the value of x, of which", "asked for at", "jnp.where or jax.lax.cond"],
    ),
    "an index": (
        lambda: mx.jit(lambda x, i: mx.from_jax(lambda x, i: [1, 2][i] * x)(x, i))(X, 1),
        ["asks for the value of i, of which", "static_argnums or static_argnames"],
    ),
}


@pytest.mark.parametrize("name", ASKING)
def test_what_jax_asks_for_is_named(name):
    call, phrases = ASKING[name]
    with pytest.raises(mx.ConcretizationError) as caught:
        call()
    for phrase in ["from_jax: ", *phrases, "called at", "test_from_jax.py", "mx.from_jax lets JAX"]:
        assert phrase in str(caught.value)
    assert "arrays[" not in str(caught.value)


def test_other_errors_of_the_function_are_its_own_and_name_from_jax():
    with pytest.raises(TypeError, match="dot_general requires") as caught:
        mx.from_jax(jnp.dot)(X, X)
    (note,) = [each for each in caught.value.__notes__ if "mx.from_jax" in each]
    assert note.startswith("mx.from_jax: raised while JAX traced dot, called at")
    assert "JAX traced: a f32[2,3], b f32[2,3]; all else" in note

    def unlucky(x):
        raise KeyError("spoon")

    with pytest.raises(KeyError, match="spoon") as caught:
        mx.jit(mx.from_jax(unlucky))(X)
    assert any("traced unlucky" in each for each in caught.value.__notes__)


def test_slices_reach_the_function_as_they_are():
    for function in (jnp.delete, lambda x, where: x[where]):
        ours = mx.from_jax(function)
        for each in (slice(0, 1), slice(2), slice(None, None, -1)):
            np.testing.assert_array_equal(ours(X, each), function(X, each))
    with pytest.raises(mx.TransformError, match="no array and not hashable"):
        mx.from_jax(lambda x, where: x)(X, slice([]))


def test_what_cannot_be_hashed_is_refused():
    with pytest.raises(mx.TransformError, match="no array and not hashable") as caught:
        mx.from_jax(lambda x, names: x)(X, {1, 2})
    assert "{1, 2}" in str(caught.value)


MESH = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
PARTS = jax.NamedSharding(MESH, jax.P("i"))
FIXING = {
    "a constraint": lambda x: jax.lax.with_sharding_constraint(x * 2, PARTS),
    "in a loop": lambda x: jax.lax.fori_loop(
        0, 2, lambda _, c: jax.lax.with_sharding_constraint(c, PARTS), x
    ),
    "of a nested jit": lambda x: jax.jit(lambda x: x, out_shardings=PARTS)(x) * 2,
    "moved": lambda x: jax.device_put(x, PARTS),
    "of a nested jit of ours": lambda x: mx.jit(lambda x: x, in_shardings=PARTS)(x),
}


@pytest.mark.parametrize("name", FIXING)
def test_layouts_are_not_lost_in_silence(name):
    x = np.arange(8, dtype=np.float32)
    refusing = mx.from_jax(FIXING[name], shardings="keep" if name == "moved" else "refuse")
    for call in (refusing, mx.jit(refusing)):
        with pytest.raises(mx.ImportError_, match="fixes the layout of a value") as caught:
            call(x)
        assert "spec=P('i',)" in str(caught.value)
        assert "test_from_jax.py" in str(caught.value)
        assert 'shardings="drop"' in str(caught.value)


@pytest.mark.parametrize("name", [name for name in FIXING if name != "moved"])
def test_layouts_are_kept(name):
    x = np.arange(8, dtype=np.float32)
    ours = mx.from_jax(FIXING[name])
    for call in (ours, mx.jit(ours), mx.jit(lambda x: mx.vmap(ours)(x[None])[0])):
        found = call(x)
        np.testing.assert_array_equal(found, FIXING[name](x))
        assert found.sharding.is_equivalent_to(jax.NamedSharding(MESH, jax.P("i")), 1)
    slope = jax.jit(jax.grad(lambda x: (FIXING[name](x) * x).sum()))(x)
    np.testing.assert_array_equal(mx.jit(mx.grad(lambda x: (ours(x) * x).sum()))(x), slope)


@pytest.mark.parametrize("derivatives", ["jax", "program"])
@pytest.mark.parametrize("name", FIXING)
def test_layouts_may_be_dropped(name: str, derivatives: Any) -> None:
    x = np.arange(8, dtype=np.float32)
    ours = mx.from_jax(FIXING[name], derivatives=derivatives, shardings="drop")
    np.testing.assert_array_equal(ours(x), FIXING[name](x))
    expected = jax.jit(jax.grad(lambda x: (FIXING[name](x) * x).sum()))(x)
    np.testing.assert_array_equal(mx.grad(lambda x: (ours(x) * x).sum())(x), expected)
    assert "sharding" not in mx.make_graph(ours)(x).stablehlo()


def test_there_are_three_ways_to_treat_layouts() -> None:
    with pytest.raises(mx.AttributeValueError, match=r'from_jax: .*\n.*lose.*\n(.*\n)*.*"drop"'):
        mx.from_jax(jnp.sin, shardings="lose")


@pytest.mark.parametrize("shardings", ["refuse", "drop"])
def test_functions_mapped_over_devices_are_refused_either_way(shardings: Any) -> None:
    mapped = jax.shard_map(lambda x: x * 2, mesh=MESH, in_specs=jax.P("i"), out_specs=jax.P("i"))
    with pytest.raises(mx.ImportError_, match=r"with jax\.shard_map") as caught:
        mx.from_jax(lambda x: jax.jit(mapped)(x), shardings=shardings)(np.ones(8, np.float32))
    assert "test_from_jax.py" in str(caught.value)


def test_functions_mapped_over_devices_are_instructions_of_ours():
    def function(x):
        return jax.lax.psum(jnp.sin(x), "i") * jax.lax.axis_index("i")

    mapped = jax.shard_map(function, mesh=MESH, in_specs=jax.P("i"), out_specs=jax.P("i"))
    x = np.arange(8, dtype=np.float32)
    expected = jax.jit(mapped)(x)
    for derivatives in ("jax", "program"):
        ours = mx.from_jax(mapped, derivatives=derivatives)
        for call in (ours, mx.jit(ours), mx.reference(ours)):
            np.testing.assert_allclose(call(x), expected, rtol=1e-5, atol=1e-6)
        slope = jax.jit(jax.grad(lambda x: mapped(x).sum()))(x)
        total = mx.grad(lambda x, ours=ours: ours(x).sum())
        np.testing.assert_allclose(mx.jit(total)(x), slope, rtol=1e-5)
    assert "sdy.manual_computation" in mx.make_graph(ours)(x).stablehlo()


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
    ("function", "message"),
    [
        (lambda x: jax.debug.print("{}", x) or x, "has side effects"),
        (
            lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
            "calls a Python function of the program's maker",
        ),
        (
            lambda x: io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True),
            "has side effects",
        ),
    ],
    ids=["debug.print", "pure_callback", "io_callback"],
)
def test_callbacks_are_refused(function, message):
    with pytest.raises(mx.ImportError_, match=message):
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

    def looped(x):
        return mx.fori_loop(0, 4, lambda i, c: ours(c) + i, x)

    expected = X
    for i in range(4):
        expected = np.cos(expected) + i
    for run in (looped, mx.jit(looped), mx.reference(looped)):
        np.testing.assert_allclose(run(X), expected, rtol=1e-5)

    def chosen(x):
        return mx.cond(x.sum() > 5, ours, lambda x: ours(x) * 2, x)

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
