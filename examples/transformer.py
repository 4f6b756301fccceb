"""Train a transformer with dropout to sort lists.

One `mx.scan` runs the layers, whose dropout draws from keys of `mx.random`. Every step draws new
lists. Optax's Adam is JAX code and becomes part of the program.

Source: A. Vaswani and others, Attention Is All You Need (2017).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import drawing
import optax

import minixla as mx
import minixla.numpy as np

Parameters = dict[str, Any]
LAYERS, SIZE, HEADS, NUMBERS = 2, 64, 4, 20


def initial_parameters(key: Any, length: int) -> Parameters:
    """Random weights; those of the layers are stacked."""
    sizes = {"attention": (SIZE, 3 * SIZE), "mixed": (SIZE, SIZE)}
    sizes |= {"expanded": (SIZE, 4 * SIZE), "contracted": (4 * SIZE, SIZE)}
    drawn = mx.nn.initializers.lecun_normal(batch_axis=0)
    keys = iter(mx.random.split(key, len(sizes) + 3))
    return {
        "layers": {name: drawn(next(keys), (LAYERS, *size)) for name, size in sizes.items()},
        "numbers": mx.random.normal(next(keys), (NUMBERS, SIZE)),
        "places": mx.random.normal(next(keys), (length, SIZE)),
        "scores": mx.nn.initializers.lecun_normal()(next(keys), (SIZE, NUMBERS)),
    }


def dropped(key: Any, x: Any, rate: float) -> Any:
    """`x` with a share of its elements set to 0, and the others larger."""
    return np.where(mx.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def logits(parameters: Parameters, key: Any, lists: Any, rate: float) -> Any:
    """Scores of the number that belongs at each place, f32[batch,length,NUMBERS]."""

    def layer(x: Any, given: Any) -> tuple[Any, None]:
        weights, key = given
        own = mx.random.split(key)
        batch, length, _ = x.shape
        projected = mx.nn.standardize(x) @ weights["attention"]
        heads = projected.reshape(batch, length, 3, HEADS, SIZE // HEADS)
        seen = mx.nn.dot_product_attention(heads[:, :, 0], heads[:, :, 1], heads[:, :, 2])
        x = x + dropped(own[0], seen.reshape(x.shape) @ weights["mixed"], rate)
        hidden = mx.nn.gelu(mx.nn.standardize(x) @ weights["expanded"])
        return x + dropped(own[1], hidden @ weights["contracted"], rate), None

    x = np.take(parameters["numbers"], lists, 0) + parameters["places"]
    x, _ = mx.scan(layer, x, (parameters["layers"], mx.random.split(key, LAYERS)))
    return mx.nn.standardize(x) @ parameters["scores"]


def loss(parameters: Parameters, key: Any, lists: Any, rate: float) -> Any:
    """Mean cross-entropy, in nats."""
    guesses = mx.nn.log_softmax(logits(parameters, key, lists, rate))
    return -(guesses * mx.nn.one_hot(np.sort(lists), NUMBERS)).sum(-1).mean()


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, prints losses and a list that is sorted; returns losses and the share of hits."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--batch", type=int, default=64)
    arguments.add_argument("--length", type=int, default=8)
    arguments.add_argument("--dropout", type=float, default=0.1)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    optimizer = optax.adam(
        optax.warmup_cosine_decay_schedule(0, 3e-3, options.steps // 8, options.steps)
    )
    update, apply_updates = map(mx.from_jax, (optimizer.update, optax.apply_updates))

    def drawn(key: Any) -> Any:
        return mx.random.randint(key, (options.batch, options.length), 0, NUMBERS)

    @mx.jit
    def train_step(parameters: Parameters, state: Any, key: Any) -> Any:
        keys = mx.random.split(key, 3)
        lists = drawn(keys[1])
        value, gradient = mx.value_and_grad(loss)(parameters, keys[2], lists, options.dropout)
        updates, state = update(gradient, state, parameters)
        return apply_updates(parameters, updates), state, keys[0], value

    key, own, last = mx.random.split(mx.random.key(options.seed), 3)
    parameters = initial_parameters(own, options.length)
    state, losses = optimizer.init(parameters), []
    for number in range(options.steps):
        parameters, state, key, value = train_step(parameters, state, key)
        losses.append(float(value))
        if number % max(options.steps // 8, 1) == 0 or number == options.steps - 1:
            print(f"step {number:4d}   loss {losses[-1]:.4f}")
    lists = drawn(last)
    guesses = mx.jit(lambda p: logits(p, key, lists, 0.0).argmax(-1))(parameters)
    hits = float((guesses == np.sort(lists)).mean())
    print(f"{100 * hits:.1f}% of the positions of new lists are right")
    print(" ".join(map(str, lists[0].tolist())), "->", " ".join(map(str, guesses[0].tolist())))
    drawing.curves("transformer", {"training": losses})
    return [*losses, hits]


if __name__ == "__main__":
    main()
