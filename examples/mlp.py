"""A multilayer perceptron that learns x -> sin(3x), in thirty lines."""

import numpy as np

import minixla as mx

random = np.random.default_rng(0)
sizes = [1, 64, 64, 1]
parameters = [
    (random.standard_normal((m, n)).astype(np.float32) / np.sqrt(m), np.zeros(n, np.float32))
    for m, n in zip(sizes, sizes[1:], strict=False)
]


def network(parameters, x):
    for weights, bias in parameters[:-1]:
        x = mx.numpy.tanh(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


@mx.jit
def step(parameters, x, y):
    def loss(parameters):
        return ((network(parameters, x) - y) ** 2).mean()

    value, gradient = mx.value_and_grad(loss)(parameters)
    updated = [(w - 0.02 * dw, b - 0.02 * db) for (w, b), (dw, db) in zip(parameters, gradient, strict=True)]
    return updated, value


x = np.linspace(-2, 2, 128, dtype=np.float32)[:, None]
for number in range(2001):
    parameters, value = step(parameters, x, np.sin(3 * x))
    if number % 500 == 0:
        print(f"step {number:4d}  loss {float(value):.6f}")
