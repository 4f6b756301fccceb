"""jit(f).lower beside what jax.jit's own way gives for the same staged function."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.core.shared_contexts import SharedContexts
from minixla.engine import lowering
from minixla.engine.lowering import lowered
from minixla.engine.program import stage_for_jax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
KEY = jax.random.key(0)


def noted(x):
    mx.debug_print("{}", x)
    return x


ops.register_custom_call("tests.lowering_twice", lambda x: 2 * x)


def on_host(x):
    return ops.custom_call("tests.lowering_twice", [x], Shape("f32", X.shape))


LARGE = np.arange(3000.0, dtype=np.float32).reshape(1000, 3)
ON_DEVICE = jnp.asarray(LARGE)
KINDS = (ml_dtypes.bfloat16, np.float16, np.int8, np.uint32, np.complex64, ml_dtypes.int4, bool)

# Functions, and arguments for which the shorter way is taken.
PLAIN = {
    "an array": (lambda x: mx.numpy.tanh(x), (X,)),
    "trees": (lambda p, y: {"a": (p["w"] * y, None), "b": [y]}, ({"w": X, "none": None}, X)),
    "numbers": (lambda x, n: (x * n, n), (X, 2)),
    "numbers of each kind": (lambda a, b, c, d: (a, b, c, d), (True, 1, 1.5, 2j)),
    "a scalar of NumPy's": (lambda x, n: x * n, (X, np.float32(2))),
    "64 bits": (lambda x, n: (x + 1, n + 1), (np.arange(3.0), np.int64(5))),
    "bfloat16": (lambda x: x + x, (X.astype(ml_dtypes.bfloat16),)),
    "an array of JAX's": (lambda x: x * 2, (jnp.asarray(X),)),
    "a weak array of JAX's": (lambda x: x * 2, (jnp.asarray(2.0),)),
    "a shape": (lambda x: x.sum(), (jax.ShapeDtypeStruct((2, 3), np.float32),)),
    "no elements": (lambda x: x * 2, (np.ones((0, 3), np.float32),)),
    "no arguments": (lambda: mx.numpy.ones((2,)), ()),
    "an argument that is not read": (lambda x, y: x * 2, (X, X)),
    "an argument as the result": (lambda x, y: (y, x, x), (X, X)),
    "a call of Python": (on_host, (X,)),
    "functions within": (lambda x: mx.jit(lambda y: mx.numpy.sin(y))(x) + 1, (X,)),
    "a large constant": (lambda x: x + LARGE, (X[:1],)),
    "large constants of many types": (
        lambda x: [LARGE.astype(kind) + x.astype(kind) for kind in KINDS],
        (X[:1],),
    ),
    "a large constant as the result": (lambda x: (LARGE, x), (X,)),
    "large constants within": (
        lambda x: mx.fori_loop(0, 3, lambda i, y: mx.jit(lambda z: z * LARGE)(y), LARGE + x),
        (X[:1],),
    ),
    "a loop": (lambda x: mx.fori_loop(0, 3, lambda i, y: y * 2, x), (X,)),
    "a derivative": (mx.grad(lambda x: (x * x).sum()), (X,)),
}
# And for which JAX must decide.
OTHERS = {
    "an array on a device": (lambda x: x * 2, (jax.device_put(X, jax.devices()[0]),)),
    "a key": (lambda key: jax.random.key_data(key), (KEY,)),
    "a side effect": (noted, (X,)),
    "a constant on a device": (lambda x: x + ON_DEVICE, (X[:1],)),
    "a very large constant": (lambda x: x + np.arange(5e6, dtype=np.float32), (X[:1, :1],)),
    "zeros of float0": (lambda x: x * 2, (np.zeros((2,), jax.dtypes.float0),)),
    "no results": (lambda x: (), (X,)),
    "no array": (lambda x: x, ("text",)),
}


@pytest.mark.parametrize(("function", "args"), PLAIN.values(), ids=PLAIN)
def test_the_stage_is_the_one_that_jax_makes(function, args):
    staged = stage_for_jax(function)
    ours, theirs = lowered(staged, args, {}), jax.jit(staged).lower(*args)
    assert ours is not None
    for name in ("args_info", "in_tree", "out_tree", "in_avals", "donate_argnums"):
        assert getattr(ours, name) == getattr(theirs, name), name
    described = [
        [(each.shape, each.dtype, each.sharding) for each in jax.tree.leaves(stage.out_info)]
        for stage in (ours, theirs)
    ]
    assert described[0] == described[1]
    given = jax.tree.map(lambda leaf: X if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, args)
    compiled = ours.compile(), theirs.compile()
    found, wanted = (each(*given) for each in compiled)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for mine, own in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(own))
        assert (mine.dtype, mine.weak_type) == (own.dtype, own.weak_type)
    assert compiled[0].input_shardings == compiled[1].input_shardings
    assert compiled[0].output_shardings == compiled[1].output_shardings


@pytest.mark.parametrize(("function", "args"), OTHERS.values(), ids=OTHERS)
def test_what_concerns_devices_keys_effects_or_constants_goes_through_jax(function, args):
    assert lowered(stage_for_jax(function), args, {}) is None


def test_named_arguments():
    staged = stage_for_jax(lambda x, *, scale: x * scale["by"])
    ours = lowered(staged, (X,), {"scale": {"by": 3.0}})
    assert ours is not None
    theirs = jax.jit(staged).lower(X, scale={"by": 3.0})
    assert ours.args_info == theirs.args_info
    np.testing.assert_array_equal(ours.compile()(X, scale={"by": 3.0}), X * 3)


def test_the_module_has_the_name_of_the_function_and_its_text_is_whole():
    def scaled(x):
        return x * 2

    text = mx.jit(scaled).lower(X).as_text()
    assert text.startswith("module @jit_scaled attributes {mhlo.num_partitions = 1 : i32")
    assert "func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32>" in text
    assert mx.import_stablehlo(text)(X).shape == (2, 3)
    assert "scaled" in mx.jit(scaled).lower(X).as_text("hlo")


def test_a_compiled_program_names_the_argument_that_does_not_fit():
    compiled = mx.jit(lambda first, second: first + second).lower(X, X).compile()
    with pytest.raises(TypeError, match=r"'second'"):
        compiled(X, X[0])


ORDERS = {
    "lower, call": lambda f: (f.lower(X), f(X)),
    "call, lower": lambda f: (f(X), f.lower(X)),
    "lower twice": lambda f: (f.lower(X), f.lower(X)),
    "lower, JAX's way": lambda f: (f.lower(X), f.trace(X), f.eval_shape(X)),
}


@pytest.mark.parametrize("use", ORDERS.values(), ids=ORDERS)
def test_a_function_is_traced_once_for_each_combination_of_shapes(use):
    traces = []

    def function(x):
        traces.append(x.shape)
        return x * 2

    jitted = mx.jit(function)
    use(jitted)
    assert traces == [(2, 3)]
    jitted.lower(X[0])
    assert traces == [(2, 3), (3,)]


def test_it_is_traced_again_where_jax_would():
    traces = []
    jitted = mx.jit(lambda x: traces.append(x) or x + 1)
    jitted.lower(X)
    jax.clear_caches()
    jitted.lower(X)
    with jax.enable_x64(True):
        assert jitted.lower(X.astype(np.float64)).out_info.dtype == np.float64
    assert len(traces) == 3


@pytest.mark.parametrize("use", [lambda f: f(X), lambda f: f.lower(X)], ids=["call", "lower"])
def test_a_cleared_cache_forgets_traces(use):
    traces = []
    jitted = mx.jit(lambda x: traces.append(x) or x + 1)
    use(jitted)
    jitted.clear_cache()
    use(jitted)
    assert len(traces) == 2


def test_what_a_function_holds_goes_with_it():
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    staged = stage_for_jax(lambda x, held=held: x)
    lowered(staged, (X,), {})
    gc.disable()
    try:
        del staged, held
        assert gone() is None
    finally:
        gc.enable()


def test_a_function_that_is_gone_is_not_kept():
    def function(x):
        return x * 2

    jitted, gone = mx.jit(function), weakref.ref(function)
    jitted.lower(X)
    del jitted, function
    gc.collect()
    assert gone() is None


def test_the_default_device_decides():
    with jax.default_device(jax.devices("cpu")[0]):
        compiled = mx.jit(lambda x: x * 2).lower(X).compile()
    assert compiled(X).devices() == {jax.devices("cpu")[0]}


def test_errors_of_the_function_come_as_they_are():
    with pytest.raises(ZeroDivisionError):
        mx.jit(lambda x: x * (1 // 0)).lower(X)
    with pytest.raises(mx.ShapeError):
        mx.jit(lambda x: ops.add(x, X[0])).lower(X)


def test_stages_of_one_context_are_used_on_several_threads():
    def staged(step):
        return mx.jit(lambda x: ops.tanh(x * step) + step).lower(X)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(staged, range(24)))
        texts = list(pool.map(lambda each: each.as_text(), made))
        results = list(pool.map(lambda each: each.compile()(X), made))
    assert len(set(texts)) == 24
    for step, result in enumerate(results):
        np.testing.assert_allclose(result, np.tanh(X * step) + step, rtol=1e-5)


def test_a_full_context_is_followed_by_another(monkeypatch):
    contexts = SharedContexts(lowering.mlir.make_ir_context, most=300)
    monkeypatch.setattr(lowering, "_contexts", contexts)
    stages = [mx.jit(lambda x, n=n: x + n).lower(X) for n in range(3)]
    modules = [each.compiler_ir() for each in stages]
    assert len({id(each.context) for each in modules}) > 1
    assert [float(each.compile()(X)[0, 0]) for each in stages] == [0, 1, 2]
