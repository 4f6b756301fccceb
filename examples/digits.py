"""Train a small network to read handwritten digits, in forty lines."""

import drawing
from sklearn.datasets import load_digits

import minixla as mx
import minixla.numpy as np

pixels, labels = load_digits(return_X_y=True)  # 1,797 scanned digits of 8 x 8 pixels
images = np.asarray(pixels, np.float32) / 16
keys = mx.random.split(mx.random.key(0))
layers = [
    {"w": mx.random.normal(key, sizes) / sizes[0] ** 0.5, "b": np.zeros(sizes[1])}
    for key, sizes in zip(keys, [(64, 64), (64, 10)], strict=True)
]


def network(layers, x):
    hidden = mx.nn.relu(x @ layers[0]["w"] + layers[0]["b"])
    return hidden @ layers[1]["w"] + layers[1]["b"]


def loss(layers, x, y):
    return mx.nn.cross_entropy(network(layers, x), mx.nn.one_hot(y, 10)).mean()


@mx.jit
def step(layers, x, y):
    value, gradient = mx.value_and_grad(loss)(layers, x, y)
    return mx.tree.map(lambda p, g: p - 0.5 * g, layers, gradient), value


losses = []
for number in range(401):
    layers, value = step(layers, images[:1500], labels[:1500])
    losses.append(float(value))
    if number % 100 == 0:
        right = (network(layers, images[1500:]).argmax(-1) == labels[1500:]).mean()
        print(f"step {number:3d}  loss {value:.4f}  held-out digits read right {right:.1%}")
drawing.curves("digits", {"training": losses})
