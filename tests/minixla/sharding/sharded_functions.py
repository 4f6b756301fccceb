"""Functions whose values may be laid out at many places, and ways to transform them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import minixla as mx
from minixla import numpy as mnp
from minixla import ops
from minixla.sharding import PartitionSpec as P

MESH = mx.sharding.Mesh(None, ("a", "b"), (2, 2))
_layouts: list[int | None] = [None]


@contextlib.contextmanager
def laid_out(seed: int | None) -> Iterator[None]:
    """Inside, `here` lays values out as a number says; None leaves all as they are."""
    _layouts.append(seed)
    try:
        yield
    finally:
        _layouts.pop()


def here(name: str, x: Any) -> Any:
    """A value, laid out in a way that follows from the number, the name and the shape alone."""
    if _layouts[-1] is None:
        return x
    draw = random.Random(f"{_layouts[-1]} {name} {x.shape}")
    return (
        x if draw.random() < 0.4 else mx.sharding.constrain(x, spec(draw, x.shape, open_ones=True))
    )


def spec(draw: random.Random, sizes: tuple[int, ...], open_ones: bool = False) -> P:
    """Any axes on any dimensions; where none may be open, such that they divide the sizes."""
    entries: list[Any] = [
        P.UNCONSTRAINED if open_ones and draw.random() < 0.3 else () for _ in sizes
    ]
    names = list(MESH.axis_names)
    draw.shuffle(names)
    for name in names:
        at = draw.randrange(len(sizes)) if sizes and draw.random() < 0.7 else None
        if at is None or entries[at] is P.UNCONSTRAINED:
            continue
        if open_ones or sizes[at] % (2 * 2 ** len(entries[at])) == 0:
            entries[at] = (*entries[at], name)
    return P(*[entry or None for entry in entries])


def network(x, up, down):
    hidden = here("hidden", mnp.tanh(here("x", x) @ up))
    return here("made", hidden @ here("down", down))


def attention(q, k, v):
    scores = here("scores", mnp.einsum("bqhd,bkhd->bhqk", here("q", q), here("k", k)))
    weights = here("weights", mx.nn.softmax(scores / 2))
    return here("mixed", mnp.einsum("bhqk,bkhd->bqhd", weights, here("v", v)))


def normalised(x, scale):
    centred = here("centred", x - x.mean(-1, keepdims=True))
    deviation = here("deviation", mnp.sqrt((centred * centred).mean(-1, keepdims=True) + 0.1))
    return here("made", centred / deviation * scale)


def convolved(x, kernel):
    # Along the batch alone: where images and kernels are both in pieces, XLA:CPU (jaxlib 0.10.2)
    # gives a multiple of the result, of JAX's programs too.
    numbers = ("NHWC", "HWIO", "NHWC")
    made = ops.conv_general_dilated(x, kernel, (1, 1), ((1, 1), (1, 1)), dimension_numbers=numbers)
    return here("made", mnp.maximum(made, 0.1).reshape(x.shape[0], -1))


def looked_up(table, x):
    rows = here("rows", mnp.take(here("table", table), np.array([1, 5, 5, 0, 7, 2]), axis=0))
    return here("made", rows @ x)


def moved(x, y):
    flat = here("flat", x.reshape(x.shape[0] * 4, 6))
    turned = here("turned", mnp.swapaxes(flat, 0, 1)[::-1])
    joined = here("joined", mnp.concatenate([turned, here("y", y)], 1))
    return here("cut", mnp.pad(joined[1:5, 3:], ((1, 2), (0, 1))))


def reduced(x):
    return (
        here("sum", (x * x).sum(1))
        + here("greatest", x.max(1))
        + here("before", mnp.cumsum(here("x", x), 0)).mean(1)
    )


def repeated(x, w):
    def body(_: Any, carry: Any) -> Any:
        return here("carry", mnp.tanh(here("read", carry) @ w))

    return mx.fori_loop(0, 3, body, here("start", x))


def layered(x, weights):
    def layer(carry: Any, w: Any) -> Any:
        made = here("layer", mnp.sin(carry @ here("w", w)))
        return made, here("kept", made.sum(0))

    last, kept = mx.scan(layer, x, weights)
    return here("last", last) + kept.sum()


def chosen(x, y):
    # XLA refuses branches whose last instructions are two different constraints, JAX's too.
    branches = (
        lambda z: here("one", mnp.sin(z) @ y) * 2,
        lambda z: here("other", z @ y * 2) * 3,
    )
    return mx.cond(x.sum() > 0, *branches, here("z", x)) + mx.cond(x.sum() < 0, *branches, x)


def updated(x, y):
    piece = here("piece", ops.dynamic_slice(x, [1, 2], [4, 4]))
    return here("made", ops.dynamic_update_slice(here("x", x), piece * y, [3, 1]))


def solved(x, y):
    positive = here("positive", x @ x.T + 8 * np.eye(8))
    factor = here("factor", ops.cholesky(positive))
    return here("made", ops.triangular_solve(factor, y, left_side=True, lower=True))


def batched(x, y):
    return here("made", mnp.einsum("bij,bjk->bki", here("x", x), here("y", y)))


def called_twice(x, w):
    inner = mx.checkpoint(mx.jit(lambda x: here("inner", mnp.exp(-((x @ w) ** 2)))))
    return here("made", inner(here("first", x)) + inner(2 * x))


@mx.shard_map(mesh=MESH, in_specs=(P("a", "b"), P("b")), out_specs=P("a"))
def _by_hand(x, w):
    return mx.psum(mnp.tanh(x) @ w, "b")


def by_hand(x, w):
    return here("made", mnp.sin(_by_hand(here("x", x), here("w", w))))


#: Functions and the sizes of their arguments.
FUNCTIONS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "network": (network, [(8, 12), (12, 16), (16, 6)]),
    "attention": (attention, [(2, 8, 2, 4)] * 3),
    "normalised": (normalised, [(8, 12), (12,)]),
    "convolved": (convolved, [(4, 5, 5, 3), (3, 3, 3, 5)]),
    "looked up": (looked_up, [(8, 4), (4, 6)]),
    "moved": (moved, [(8, 4, 6), (6, 5)]),
    "reduced": (reduced, [(8, 12)]),
    "repeated": (repeated, [(8, 4), (4, 4)]),
    "layered": (layered, [(8, 4), (4, 4, 4)]),
    "chosen": (chosen, [(8, 4), (4, 6)]),
    "updated": (updated, [(8, 12), (4, 4)]),
    "solved": (solved, [(8, 12), (8, 4)]),
    "batched": (batched, [(4, 6, 8), (4, 8, 2)]),
    "called twice": (called_twice, [(8, 12), (12, 4)]),
    "by hand": (by_hand, [(8, 12), (12, 4)]),
}


def _gradient(function: Any, count: int) -> Any:
    def total(*xs: Any) -> Any:
        made = function(*xs)
        return (made * np.cos(np.arange(made.size)).reshape(made.shape)).sum()

    return mx.value_and_grad(total, tuple(range(count)))


def _scanned(function: Any) -> Any:
    def step(carry: Any, xs: Any) -> Any:
        made = function(*xs)
        return carry + (made * made).sum(), made

    return lambda *stacked: mx.scan(step, 0.0, stacked)


#: What is made of a function of so many arrays, and whether it takes several of each.
FORMS: dict[str, tuple[Any, bool]] = {
    "value": (lambda f, count: f, False),
    "gradient": (_gradient, False),
    "tangent": (lambda f, count: lambda *xs: mx.jvp(f, xs, xs), False),
    "batch": (lambda f, count: mx.vmap(f), True),
    "gradient of batch": (lambda f, count: _gradient(mx.vmap(f), count), True),
    "batch of gradient": (lambda f, count: mx.vmap(_gradient(f, count)), True),
    "scan": (lambda f, count: _scanned(f), True),
    "gradient of scan": (
        lambda f, count: _gradient(lambda *xs: _scanned(f)(*xs)[1], count),
        True,
    ),
}
