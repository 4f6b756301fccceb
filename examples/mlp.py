"""Train a multilayer perceptron to compute sin(3 x), in thirty lines."""

from itertools import pairwise

import drawing
import jax
import numpy as np

import minixla as mx

random = np.random.default_rng(0)
parameters = [
    (random.normal(0, m**-0.5, (m, n)).astype(np.float32), np.zeros(n, np.float32))
    for m, n in pairwise([1, 64, 64, 1])
]


def network(parameters, x):
    for weights, bias in parameters[:-1]:
        x = mx.numpy.tanh(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


@mx.jit
def step(parameters, velocity, x, y):
    """Gradient descent with momentum."""
    loss, gradient = mx.value_and_grad(lambda p: ((network(p, x) - y) ** 2).mean())(parameters)
    velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.05 * g, velocity, gradient)
    return jax.tree.map(lambda p, v: p + v, parameters, velocity), velocity, loss


x = np.linspace(-2, 2, 128, dtype=np.float32)[:, None]
velocity = jax.tree.map(np.zeros_like, parameters)
for number in range(2001):
    parameters, velocity, loss = step(parameters, velocity, x, np.sin(3 * x))
    if number % 500 == 0:
        print(f"step {number:4d}  loss {float(loss):.6f}")
fitted = network(parameters, x)
drawing.curves("mlp", {"data": (x, np.sin(3 * x)), "network": (x, fitted)}, "x", "y")
