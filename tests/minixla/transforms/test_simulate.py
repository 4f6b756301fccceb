"""mx.simulate: programs, arguments and queues in and out, and transformations inside."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import ConcretizationError, TransformError
from minixla.core.shapes import Shape

F = Shape("f32")


def psum(x):
    return ops.cross_replica_sum(x)


def test_results_have_the_nesting_of_arguments():
    def program(x, how):
        return {"ids": (ops.replica_id(), ops.partition_id()), "x": x, "how": how}

    found = mx.simulate(program, [[(1.0, "a"), (2.0, "b"), (3.0, "c")]] * 2)
    assert [len(row) for row in found] == [3, 3]
    assert found[1][2] == {"ids": (1, 2), "x": 3, "how": "c"}
    assert type(found[0][0]["x"]) is np.ndarray


def test_a_program_each():
    programs = [[lambda x: x + 1, lambda x: x + 2], [lambda x: x + 3, lambda x: x + 4]]
    found = mx.simulate(programs, [[(0,), (0,)], [(0,), (0,)]])
    assert found == [[1, 2], [3, 4]]


def test_queues():
    def program(x):
        x = x + ops.infeed(F)
        ops.outfeed(psum(x))
        ops.outfeed((x, x))
        return x

    arguments = [[(0.0,)], [(10.0,)]]
    written = ["is replaced"]
    # Each has its own copy of one list; or a list each.
    assert mx.simulate(program, arguments, infeed=[1.0]) == [[1], [11]]
    found = mx.simulate(program, arguments, infeed=[[[1.0]], [[2.0]]], outfeed=written)
    assert found == [[1], [12]]
    assert [[float(each[0]) for each in row] for row in written] == [[13], [13]]
    assert written[1][0][1] == (12, 12)


@pytest.mark.parametrize(
    ("programs", "arguments", "infeed", "phrases"),
    [
        (psum, [], (), ["arguments must be a list of replicas,", "0 replicas"]),
        (psum, [[(1.0,)], []], (), ["arguments must be a list", "2 replicas of [1, 0]"]),
        (psum, 3, (), ["arguments must be a list", "arguments: 3"]),
        (psum, [[(1.0,)]], 3, ["infeed = 3", "infeed is a list of arrays"]),
        (psum, [[1.0]], (), ["the arguments of a process must be a tuple", "(x,)"]),
        ([[psum]], [[(1.0,)]] * 2, (), ["programs must have the nesting", "1 replicas of [1]"]),
        ([psum], [[(1.0,)]], (), ["programs must have the nesting"]),
        ([[3]], [[(1.0,)]], (), ["expected a function, got int"]),
        (psum, [[(1.0,)]] * 2, [[[1.0]]], ["infeed must have the nesting of arguments"]),
    ],
)
def test_rejected(programs, arguments, infeed, phrases):
    with pytest.raises((TransformError, mx.AttributeValueError)) as caught:
        mx.simulate(programs, arguments, infeed=infeed)
    for phrase in ("simulate: ", *phrases, "called at", "test_simulate.py"):
        assert phrase in str(caught.value)


def test_numbers_only():
    with pytest.raises(ConcretizationError, match="only concrete values can be evaluated"):
        mx.jit(lambda x: mx.simulate(psum, [[(x,)]])[0][0])(1.0)


def test_64_bits_are_as_outside():
    # JAX's mode belongs to a thread, and each process has its own.
    def program(x):
        return psum(x) + mnp.asarray(np.float64(1))

    with jax.enable_x64(True):
        assert mx.simulate(program, [[(np.float64(1),)]])[0][0].dtype == np.float64
    assert mx.simulate(program, [[(np.float64(1),)]])[0][0].dtype == np.float32


def loss(weights, inputs, targets):
    hidden = mnp.tanh(inputs @ weights["first"])
    return ((hidden @ weights["second"] - targets) ** 2).sum()


WEIGHTS = {
    "first": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "second": np.linspace(1, 2, 4, dtype=np.float32).reshape(4, 1),
}
INPUTS = np.linspace(-1, 2, 24, dtype=np.float32).reshape(8, 3)
TARGETS = np.linspace(0, 1, 8, dtype=np.float32).reshape(8, 1)


@pytest.mark.parametrize("jitted", [False, True])
def test_training_on_parts_of_the_data(jitted):
    def step(weights, inputs, targets):
        gradients = mx.grad(loss)(weights, inputs, targets)
        totals = ops.cross_replica_sum(list(gradients.values()))
        pairs = zip(weights.items(), totals, strict=True)
        return {name: value - 0.01 * slope for (name, value), slope in pairs}

    parts = zip(np.split(INPUTS, 4), np.split(TARGETS, 4), strict=True)
    program = mx.jit(step) if jitted else step
    found = mx.simulate(program, [[(WEIGHTS, *part)] for part in parts])
    slopes = mx.reference(mx.grad(loss))(WEIGHTS, INPUTS, TARGETS)
    for name, value in WEIGHTS.items():
        expected = value - 0.01 * slopes[name]
        for row in found:
            np.testing.assert_allclose(row[0][name], expected, rtol=1e-5)


def test_every_transformation_inside():
    def function(x):
        return mnp.sin(psum(x * x))

    def together(values):
        return np.sin(np.sum(values**2))

    points = np.array([0.5, 1.0, 0.25], np.float32)
    given = [[(each,)] for each in points]
    # The derivative is of the sum of all three results, which are equal.
    slopes = 3 * np.cos(np.sum(points**2)) * 2 * points
    transformed = {
        "grad": mx.grad(function),
        "jit of grad": mx.jit(mx.grad(function)),
        "grad of jit": mx.grad(mx.jit(function)),
        "vjp": lambda x: mx.vjp(function, x)[1](np.float32(1))[0],
        "vmap of grad": lambda x: mx.vmap(mx.grad(function))(mnp.stack([x, x]))[1],
    }
    for name, program in transformed.items():
        found = [row[0] for row in mx.simulate(program, given)]
        np.testing.assert_allclose(found, slopes, rtol=1e-5, err_msg=name)
    tangents = mx.simulate(lambda x: mx.jvp(function, (x,), (np.float32(1),))[1], given)
    along = np.cos(np.sum(points**2)) * 2 * np.sum(points)
    np.testing.assert_allclose(np.ravel(tangents), [along] * 3, rtol=1e-5)
    np.testing.assert_allclose(np.ravel(mx.simulate(function, given)), [together(points)] * 3)


def test_collectives_inside_computations():
    def program(x):
        looped = ops.while_(lambda state: state < 20, lambda state: psum(state), x)
        chosen = ops.conditional(x > 100, x, lambda y: y, x, lambda y: psum(y))
        called = ops.call(lambda y: psum(y) * 2, x)[0]
        return looped, chosen, called

    found = mx.simulate(program, [[(3.0,)], [(4.0,)]])
    assert found == [[(28, 7, 14)], [(28, 7, 14)]]


def test_what_xla_makes_for_each_device_runs_in_numpy():
    mesh, spec = mx.sharding.Mesh(jax.devices()[:4], ("a", "b"), shape=(2, 2)), PartitionSpec
    weights = [(spec(None, "b"), spec("b"))]

    def loss(weights, x):
        for first, second in weights:
            x = mx.numpy.tanh(x @ first) @ second
        return (x**2).mean()

    options = {"mesh": mesh, "in_shardings": (weights, spec("a")), "out_shardings": weights}
    gradient = mx.jit(mx.grad(loss), **options)
    random = np.random.default_rng(0)

    def draw(*sizes):
        return random.standard_normal(sizes).astype(np.float32)

    given = [(draw(4, 8), draw(8, 4))], draw(6, 4)
    compiled = gradient.lower(*given).compile()
    program = mx.import_hlo(compiled.as_text(), shardings="drop")
    places = jax.tree.leaves(compiled.input_shardings[0])
    pairs = list(zip(jax.tree.leaves(given), places, strict=True))
    devices = jax.devices()[:4]
    pieces = [tuple(x[at.devices_indices_map(x.shape)[d]] for x, at in pairs) for d in devices]
    (found,) = mx.simulate([[program] * 4], [pieces])
    for number, whole in enumerate(jax.tree.leaves(gradient(*given))):
        for device, results in zip(devices, found, strict=True):
            at = whole.sharding.devices_indices_map(whole.shape)[device]
            np.testing.assert_allclose(results[number], np.asarray(whole)[at], rtol=1e-4, atol=1e-6)
