"""Train a small transformer to write this repository's documentation, letter by letter.

All layers have the same structure, so their parameters are stacked and one `mx.scan` runs over
them. The program contains a layer once, for any number of layers. `--checkpoint` recomputes values
inside a layer in the reverse pass, instead of storing them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import drawing
import jax
import numpy as np
from tqdm import tqdm

import minixla as mx

Parameters = dict[str, Any]
ROOT = Path(__file__).parents[1]
HEADS = 4
RATE = 3e-3
#: The steps in which the rate rises to RATE; then it falls along a cosine.
WARM_UP = 30
#: Below 1 likely characters are written more often than they are read.
TEMPERATURE = 0.6


class Text:
    """The documentation as numbers of characters.

    Attributes:
        characters: those that occur, sorted; a number is a place in it.
        learnt: the numbers of the text to learn from.
        held_out: those of the last tenth of each file.
    """

    def __init__(self) -> None:
        files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        texts = [file.read_text(encoding="utf-8") for file in files]
        self.characters = sorted(set("".join(texts)))
        cuts = [len(text) * 9 // 10 for text in texts]
        self.learnt, self.held_out = (
            self.numbers("\n".join(parts))
            for parts in (
                [text[:cut] for text, cut in zip(texts, cuts, strict=True)],
                [text[cut:] for text, cut in zip(texts, cuts, strict=True)],
            )
        )

    def numbers(self, text: str) -> np.ndarray:
        """Characters as numbers, s32."""
        table = {character: number for number, character in enumerate(self.characters)}
        return np.array([table[character] for character in text], np.int32)

    def text(self, numbers: Sequence[int]) -> str:
        """Numbers as characters."""
        return "".join([self.characters[number] for number in numbers])


def windows(numbers: np.ndarray, batch: int, length: int, seed: int) -> Iterator[np.ndarray]:
    """Random pieces of a text, s32[batch,length], without end."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(0, len(numbers) - length + 1, batch)
        yield numbers[starts[:, None] + np.arange(length)]


def initial_parameters(
    seed: int, characters: int, layers: int, size: int, context: int
) -> Parameters:
    """Random weights, and normalizations at the identity; those of the layers stacked."""
    random = np.random.default_rng(seed)

    def weights(*sizes: int, scale: float) -> np.ndarray:
        return (random.standard_normal(sizes) * scale).astype(np.float32)

    width = size**-0.5
    # Each layer adds little at first: there are two sums in each.
    out = width * (2 * layers) ** -0.5
    return {
        "characters": weights(characters, size, scale=0.02),
        "positions": weights(context, size, scale=0.02),
        "layers": {
            "norm1": np.ones((layers, size), np.float32),
            "attention": weights(layers, size, 3 * size, scale=width),
            "mixed": weights(layers, size, size, scale=out),
            "norm2": np.ones((layers, size), np.float32),
            "expanded": weights(layers, size, 4 * size, scale=width),
            "contracted": weights(layers, 4 * size, size, scale=out / 2),
        },
        "norm": np.ones(size, np.float32),
        "scores": weights(size, characters, scale=0.02),
    }


def layer(x: Any, parameters: Parameters) -> Any:
    """Attention to what came before, then a dense network of each position; f32[batch,length,size].

    Source: the pre-norm layer of A. Radford and others, Language Models are Unsupervised Multitask
    Learners (2019).
    """
    batch, length, size = x.shape
    projected = mx.nn.layer_norm(x, parameters["norm1"]) @ parameters["attention"]
    heads = projected.reshape(batch, length, 3, HEADS, size // HEADS)
    query, key, value = (heads[:, :, number] for number in range(3))
    seen = mx.nn.dot_product_attention(query, key, value, is_causal=True)
    x = x + seen.reshape(x.shape) @ parameters["mixed"]
    hidden = mx.nn.gelu(mx.nn.layer_norm(x, parameters["norm2"]) @ parameters["expanded"])
    return x + hidden @ parameters["contracted"]


def logits(parameters: Parameters, numbers: Any, checkpoint: bool = False) -> Any:
    """Scores of the next character at each place, f32[batch,length,characters]."""
    one_layer = mx.checkpoint(layer) if checkpoint else layer
    positions = parameters["positions"][: numbers.shape[1]]
    x = parameters["characters"][numbers] + positions
    x, _ = mx.scan(lambda x, each: (one_layer(x, each), None), x, parameters["layers"])
    return mx.nn.layer_norm(x, parameters["norm"]) @ parameters["scores"]


def loss(parameters: Parameters, window: Any, checkpoint: bool = False) -> Any:
    """Mean cross-entropy of each next character, in nats; window is s32[batch,length + 1]."""
    scores = logits(parameters, window[:, :-1], checkpoint)
    return mx.nn.cross_entropy(scores, window[:, 1:]).mean()


@mx.jit(static_argnums=4)
def train_step(
    parameters: Parameters, adam: Any, window: Any, rate: Any, checkpoint: bool
) -> tuple[Parameters, Any, Any]:
    """One step of Adam (D. Kingma and J. Ba, 2015)."""
    value, gradient = mx.value_and_grad(loss)(parameters, window, checkpoint)
    step, first, second = adam
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradient)

    def update(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m / (1 - 0.9**step)) / (mx.numpy.sqrt(v / (1 - 0.99**step)) + 1e-8)

    return jax.tree.map(update, parameters, first, second), (step, first, second), value


evaluate = mx.jit(loss)
predict = mx.jit(lambda parameters, numbers, place: logits(parameters, numbers[None])[0, place])


def sample(
    parameters: Parameters, start: Sequence[int], count: int, context: int, seed: int
) -> list[int]:
    """Numbers that continue `start`, drawn one by one."""
    random = np.random.default_rng(seed)
    written = list(start)
    for _ in range(count):
        seen = written[-context:]
        # Always of one length, so that there is one program; what follows is not looked at.
        padded = np.array(seen + [0] * (context - len(seen)), np.int32)
        scores = np.asarray(predict(parameters, padded, np.int32(len(seen) - 1)))
        # The largest of scores with Gumbel noise is a draw from their softmax.
        written.append(int(np.argmax(scores / TEMPERATURE + random.gumbel(size=scores.shape))))
    return written


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, tests and writes."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=600)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--context", type=int, default=64)
    arguments.add_argument("--layers", type=int, default=3)
    arguments.add_argument("--size", type=int, default=64, help="a multiple of 4")
    arguments.add_argument("--sample", type=int, default=400, help="characters to write")
    arguments.add_argument("--checkpoint", action="store_true")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    text = Text()
    count = len(text.characters)
    parameters = initial_parameters(
        options.seed, count, options.layers, options.size, options.context
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    print(f"{len(text.learnt)} characters to learn from, {count} different ones", flush=True)
    print(f"{size} parameters in {options.layers} layers", flush=True)
    tests = next(windows(text.held_out, 64, options.context + 1, seed=0))
    print(f"by chance            loss {np.log(count):.3f}")
    print(f"before training      loss {float(evaluate(parameters, tests)):.3f}", flush=True)
    started = time.perf_counter()
    parameters, losses = train(parameters, text, options)
    print(f"{options.steps} steps in {time.perf_counter() - started:.1f} s")
    last = np.mean(losses[-20:])
    print(f"text learnt from     loss {last:.3f}")
    print(f"held-out text        loss {float(evaluate(parameters, tests)):.3f}")
    start = text.numbers("## ")
    written = sample(parameters, start.tolist(), options.sample, options.context, options.seed)
    print(f"\n{text.text(written)}")
    drawing.curves("char_transformer", {"training": losses})


def train(parameters: Parameters, text: Text, options: Any) -> tuple[Parameters, list[float]]:
    """Train; return parameters and the loss of each step."""
    zeros = jax.tree.map(np.zeros_like, parameters)
    adam = (np.float32(0), zeros, zeros)
    losses: list[float] = []
    pieces = windows(text.learnt, options.batch, options.context + 1, options.seed)
    # A line a second, so that logs stay short.
    with tqdm(total=options.steps, unit="step", mininterval=1) as bar:
        for step in range(options.steps):
            falling = 0.5 * (1 + np.cos(np.pi * step / options.steps))
            rate = np.float32(RATE * min((step + 1) / WARM_UP, falling))
            parameters, adam, value = train_step(
                parameters, adam, next(pieces), rate, options.checkpoint
            )
            losses.append(float(value))
            bar.set_postfix({"loss": f"{losses[-1]:.3f}"}, refresh=False)
            bar.update()
    return parameters, losses


if __name__ == "__main__":
    main()
