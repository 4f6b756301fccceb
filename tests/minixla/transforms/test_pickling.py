"""Functions, programs and what these are made of, pickled and read in a new process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import cloudpickle
import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla_ops as ops

X = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)


def loss(x):
    return (x * mx.numpy.sin(x)).sum()


@mx.jit
def jitted(x):
    """A decorated function of a module, which plain pickle finds by name."""
    return mx.grad(loss)(x)


def forward_rule():
    function = mx.custom_jvp(loss)
    function.defjvp(lambda primals, tangents: (function(*primals), 3 * tangents[0].sum()))
    return function


def backward_rule():
    function = mx.custom_vjp(loss)
    function.defvjp(lambda x: (loss(x), x), lambda x, given: (given * x,))
    return function


ONE = mx.sharding.Mesh(None, ("x",), shape=(1,))
POLICY = mx.checkpoint_policies.dots_saveable
#: Functions of X.
FUNCTIONS = {
    "jit": lambda: mx.jit(loss),
    "jit with static arguments": lambda: mx.jit(lambda x, n=2: x * n, static_argnums=1),
    "jit of what a lambda holds": lambda: mx.jit(lambda x, scale=X: x * scale),
    "grad": lambda: mx.grad(loss),
    "value_and_grad": lambda: mx.value_and_grad(loss),
    "vmap": lambda: mx.vmap(loss, in_axes=1),
    "jit of vmap of grad of jit": lambda: mx.jit(mx.vmap(mx.grad(mx.jit(loss)))),
    "jvp": lambda: lambda x: mx.jvp(loss, (x,), (x,)),
    "vjp": lambda: lambda x: mx.vjp(loss, x)[1](mx.numpy.float32(2)),
    "jacfwd": lambda: mx.jacfwd(loss),
    "jacrev": lambda: mx.jacrev(loss),
    "hessian": lambda: mx.hessian(loss),
    "checkpoint": lambda: mx.grad(mx.checkpoint(loss, policy=POLICY)),
    "custom_jvp": lambda: mx.jit(mx.grad(forward_rule())),
    "custom_vjp": lambda: mx.jit(mx.grad(backward_rule())),
    "pmap": lambda: mx.pmap(loss),
    "shard_map": lambda: mx.shard_map(loss, mesh=ONE, in_specs=P(), out_specs=P()),
    "loops and branches": lambda: mx.jit(
        lambda x: mx.fori_loop(0, 3, lambda _, y: mx.cond(y[0, 0] < 0, ops.sin, ops.cos, y), x)
    ),
    "reference": lambda: mx.reference(mx.grad(loss)),
    "from_jax": lambda: mx.jit(mx.grad(mx.from_jax(lambda x: (x**3).sum()))),
    "import_stablehlo": lambda: mx.import_stablehlo(mx.make_graph(loss)(X).stablehlo()),
    "make_graph": lambda: lambda x: str(mx.make_graph(loss)(x)),
}

_READER = """
import pickle, sys
programs, x = pickle.load(sys.stdin.buffer)
results = {}
for name, data in programs.items():
    try:
        results[name] = pickle.loads(data)(x if name != "pmap" else x[:1])
    except Exception as error:
        results[name] = repr(error)
import jax
arrays = jax.tree_util.tree_map(lambda x: x if isinstance(x, str) else jax.device_get(x), results)
sys.stdout.buffer.write(pickle.dumps(arrays))
"""


def given(name):
    return X[:1] if name == "pmap" else X


def assert_same(found, expected):
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(expected)
    leaves = jax.tree_util.tree_leaves
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def results():
    """What each function gives in another process, once used and pickled here."""
    # Tests are no module that another process finds: what they define is pickled by value.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    programs, expected = {}, {}
    for name, make in FUNCTIONS.items():
        function = make()
        expected[name] = function(given(name))
        programs[name] = cloudpickle.dumps(function)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    reader = subprocess.run(
        [sys.executable, "-c", _READER],
        input=pickle.dumps((programs, X)),
        capture_output=True,
        timeout=100,
        check=True,
    )
    return pickle.loads(reader.stdout), expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cloudpickle_takes_transformed_functions_to_another_process(results, name):
    found, expected = results
    assert_same(found[name], jax.device_get(expected[name]))


@pytest.mark.parametrize("name", ["jit", "grad", "custom_vjp", "pmap"])
def test_copies_and_pickles_in_this_process_do_the_same(name):
    function = FUNCTIONS[name]()
    expected = function(given(name))
    for other in (
        copy.deepcopy(function),
        copy.copy(function),
        pickle.loads(cloudpickle.dumps(function)),
    ):
        assert_same(other(given(name)), expected)


def test_a_jitted_function_read_again_is_jitted():
    calls = []

    def counted(x):
        calls.append(1)
        return x + len(calls)

    function = pickle.loads(cloudpickle.dumps(mx.jit(counted)))
    assert_same([function(X), function(X)], [X + 1, X + 1])
    assert function.lower(X).compile()(X).shape == X.shape
    assert function.graph(X).output_shapes == mx.make_graph(counted)(X).output_shapes


def test_plain_pickle_finds_decorated_functions_by_name():
    assert pickle.loads(pickle.dumps(jitted)) is jitted


@pytest.mark.parametrize(
    "thing",
    [
        mx.make_graph(loss)(X).input_shapes[0],
        mx.element_type("f32"),
        mx.make_graph(loss)(X).instructions[0].op,
    ],
    ids=["shape", "element type", "operation"],
)
def test_what_there_is_once_stays_so(thing):
    assert pickle.loads(pickle.dumps(thing)) is thing
    assert copy.deepcopy(thing) is thing


def test_graphs_and_operations_are_read_where_nothing_is_loaded_yet():
    graph = mx.make_graph(mx.grad(mx.checkpoint(loss)))(X)
    reader = subprocess.run(
        [sys.executable, "-c", "import pickle, sys; print(pickle.load(sys.stdin.buffer))"],
        input=pickle.dumps(graph),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert reader.stdout.decode().strip() == str(pickle.loads(pickle.dumps(graph))).strip()
