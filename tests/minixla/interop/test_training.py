"""Equinox networks and Optax: exported and imported, inside ours, and our losses inside JAX."""

import functools

import jax
import jax.export
import numpy as np
import optax
import pytest

import minixla as mx
from tests.harness import by_jax
from tests.minixla.interop.networks import NAMES, networks

OPTIMIZER = optax.adamw(1e-2)
# Compiling takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def close(actual, expected, tolerance=1e-5):
    ours, theirs = jax.tree.leaves(actual), jax.tree.leaves(expected)
    for one, other in zip(ours, theirs, strict=True):
        scale = float(np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(scale, 1e-2))


def step_of(network):
    """One step of training in JAX, and the gradient that it takes."""

    def step(parameters, state, *batch):
        value, gradient = jax.value_and_grad(network.loss)(parameters, *batch)
        updates, state = OPTIMIZER.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value, gradient

    return step


@functools.cache
def initial_state(name):
    """The optimizer's state before the first step."""
    return by_jax(OPTIMIZER.init, networks()[name].parameters)


@functools.cache
def trained(name):
    """What three steps in JAX give, each after what is there at the start.

    That is parameters, states, and the losses and gradients at the parameters before.
    """
    network = networks()[name]
    step = jax.jit(step_of(network), compiler_options=QUICK)
    found = [(network.parameters, initial_state(name), None, None)]
    for _ in range(3):
        found.append(step(*found[-1][:2], *network.batch))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_trained_in_jax_exported_and_imported(name):
    network = networks()[name]
    parameters = trained(name)[1][0]
    exported = jax.export.export(jax.jit(network.loss))(parameters, *network.batch)
    program = mx.import_stablehlo(bytes(exported.serialize()))
    assert mx.import_stablehlo(exported).graph == program.graph
    expected = trained(name)[2][2:]
    ours = mx.value_and_grad(program)
    close(mx.jit(ours, compiler_options=QUICK)(parameters, *network.batch), expected)
    close(mx.reference(ours)(parameters, *network.batch), expected)
    tangents = jax.tree.map(np.cos, parameters)
    forward = mx.reference(lambda p, t: mx.jvp(lambda p: program(p, *network.batch), (p,), (t,)))
    _, moved = forward(parameters, tangents)
    along = sum(np.vdot(t, g) for t, g in zip(tangents, expected[1], strict=True))
    np.testing.assert_allclose(moved, along, rtol=1e-4)


def test_each_member_of_a_batch_of_an_imported_network():
    network = networks()["CNN"]
    images, labels = network.batch
    exported = jax.export.export(jax.jit(network.loss))(network.parameters, images[:1], labels[:1])
    program = mx.import_stablehlo(bytes(exported.serialize()))
    each = mx.vmap(mx.grad(program), (None, 0, 0))
    found = mx.jit(each, compiler_options=QUICK)(
        network.parameters, images[:, None], labels[:, None]
    )
    mean = [np.asarray(leaf).mean(0) for leaf in found]
    close(mean, trained("CNN")[1][3])


def test_a_whole_step_of_training_exported_and_imported():
    network = networks()["CNN"]
    leaves, tree = jax.tree.flatten(initial_state("CNN"))

    def step(parameters, leaves, *batch):
        state = jax.tree.unflatten(tree, leaves)
        parameters, state, value, _ = step_of(network)(parameters, state, *batch)
        return parameters, jax.tree.leaves(state), value

    exported = jax.export.export(jax.jit(step))(network.parameters, leaves, *network.batch)
    program = mx.import_stablehlo(bytes(exported.serialize()))
    found = mx.jit(program, compiler_options=QUICK)(network.parameters, leaves, *network.batch)
    close(found, jax.tree.leaves(trained("CNN")[1][:3]))


@pytest.mark.parametrize("name", ["CNN", "transformer"])
def test_a_jax_network_and_optimizer_inside_our_step(name):
    network = networks()[name]

    @mx.jit(compiler_options=QUICK)
    def step(parameters, state, *batch):
        value, gradient = mx.value_and_grad(network.loss)(parameters, *batch)
        updates, state = OPTIMIZER.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    ours = (network.parameters, initial_state(name))
    for number in (1, 2, 3):
        *ours, value = step(*ours, *network.batch)
        *theirs, expected, _ = trained(name)[number]
        assert jax.tree.structure(ours) == jax.tree.structure(theirs)
        np.testing.assert_allclose(value, expected, rtol=1e-4)
    assert float(value) < float(trained(name)[1][2])


def our_loss(parameters, x, y):
    hidden = mx.nn.relu(x @ parameters["w"] + parameters["b"])
    return ((hidden @ parameters["v"] - y) ** 2).mean()


def jax_loss(parameters, x, y):
    hidden = jax.nn.relu(x @ parameters["w"] + parameters["b"])
    return ((hidden @ parameters["v"] - y) ** 2).mean()


RANDOM = np.random.default_rng(3)
PARAMETERS = {
    "w": RANDOM.normal(size=(3, 8)).astype(np.float32),
    "b": np.zeros(8, np.float32),
    "v": RANDOM.normal(size=8).astype(np.float32),
}
DATA = (
    RANDOM.normal(size=(16, 3)).astype(np.float32),
    RANDOM.normal(size=16).astype(np.float32),
)


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.checkpoint, mx.jit], ids=["plain", "remat", "jit"]
)
def test_our_loss_minimised_by_optax_in_jax(wrap):
    losses, initial = [], by_jax(OPTIMIZER.init, PARAMETERS)
    for loss in (our_loss, jax_loss):
        loss = wrap(loss) if loss is our_loss else loss

        @functools.partial(jax.jit, compiler_options=QUICK)
        def step(parameters, state, loss=loss):
            value, gradient = jax.value_and_grad(loss)(parameters, *DATA)
            updates, state = OPTIMIZER.update(gradient, state, parameters)
            return optax.apply_updates(parameters, updates), state, value

        at, found = (PARAMETERS, initial), []
        for _ in range(10):
            *at, value = step(*at)
            found.append(float(value))
        losses.append(found)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_our_loss_in_a_loop_of_jax_over_members_of_a_batch():
    def steps(loss):
        def step(parameters, _):
            each = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, *DATA)
            moved = jax.tree.map(lambda p, g: p - 0.1 * g.mean(0), parameters, each)
            return moved, loss(moved, *DATA)

        return by_jax(lambda p: jax.lax.scan(step, p, length=4), PARAMETERS)

    close(steps(our_loss), steps(jax_loss), 1e-4)


def test_our_gradient_exported_by_jax():
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (PARAMETERS, *DATA))
    exported = jax.export.export(jax.jit(jax.grad(our_loss)))(*shapes)
    again = jax.export.deserialize(exported.serialize())
    expected = by_jax(jax.grad(jax_loss), PARAMETERS, *DATA)
    close(again.call(PARAMETERS, *DATA), expected)
    exported = jax.export.export(jax.jit(our_loss))(*shapes)
    again = jax.export.deserialize(exported.serialize(vjp_order=1))
    close(jax.grad(again.call)(PARAMETERS, *DATA), expected)
