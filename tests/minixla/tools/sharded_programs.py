"""Programs whose arguments and results lie over four devices, and what XLA exchanges otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

import minixla as mx
from minixla import numpy as mnp
from minixla import ops
from minixla.sharding import PartitionSpec as P

LINE = mx.sharding.Mesh(None, ("x",), (4,))
GRID = mx.sharding.Mesh(None, ("data", "model"), (2, 2))


def f32(*sizes: int) -> Any:
    return jax.ShapeDtypeStruct(sizes, np.float32)


def s32(*sizes: int) -> Any:
    return jax.ShapeDtypeStruct(sizes, np.int32)


class Row(NamedTuple):
    """A function, how its arguments and results lie, and the arguments."""

    function: Any
    mesh: Any
    given: Any
    made: Any
    arguments: tuple[Any, ...]

    @property
    def jitted(self) -> Any:
        return mx.jit(
            self.function, mesh=self.mesh, in_shardings=self.given, out_shardings=self.made
        )


def layer(x, w):
    return mnp.tanh(x @ w)


def loss(w, x):
    return (layer(x, w) ** 2).mean()


def mlp(up, down, x):
    return layer(x, up) @ down


def mlp_loss(up, down, x):
    return (mlp(up, down, x) ** 2).mean()


def attention(q, k, v):
    scores = mnp.einsum("bqhd,bkhd->bhqk", q, k)
    return mnp.einsum("bhqk,bkhd->bqhd", mx.nn.softmax(scores), v)


def embedding(table, indices):
    return mnp.take(table, indices, axis=0)


def convolution_loss(kernel, x):
    dimensions = ("NHWC", "HWIO", "NHWC")
    made = ops.conv_general_dilated(
        x, kernel, (1, 1), ((1, 1), (1, 1)), dimension_numbers=dimensions
    )
    return (made * made).mean()


def loop(x, w):
    return mx.fori_loop(0, 3, lambda _, carry: layer(carry, w), x)


def scan(x, weights):
    return mx.scan(lambda carry, w: (layer(carry, w), None), x, weights)[0]


@mx.shard_map(mesh=GRID, in_specs=(P("data", "model"), P("model")), out_specs=P("data"))
def mapped(a, b):
    return mx.psum(a @ b, "model")


@mx.shard_map(mesh=LINE, in_specs=P("x"), out_specs=P("x"))
def every_collective(x):
    gathered = mx.all_gather(x, "x")
    moved = mx.ppermute(x, "x", [(0, 1), (1, 2), (2, 3), (3, 0)])
    return moved + mx.psum_scatter(gathered, "x") + mx.all_to_all(x, "x", 0, 0, tiled=True)


def product(a, b):
    return a @ b


def doubled(x):
    return x * 2


def moved(mesh, before, after, sizes=(8, 16, 8)):
    """An array that is to lie otherwise."""
    return Row(doubled, mesh, (before,), after, (f32(*sizes),))


BATCH, HALVES = P("x"), P(None, "x")
ROWS: dict[str, Row] = {
    "data parallel gradient": Row(
        mx.grad(loss), GRID, (P(), P("data")), P(), (f32(8, 6), f32(16, 8))
    ),
    "tensor parallel mlp": Row(
        mlp,
        GRID,
        (P(None, "model"), P("model"), P()),
        P(),
        (f32(8, 16), f32(16, 8), f32(4, 8)),
    ),
    "data and tensor parallel gradient": Row(
        mx.grad(mlp_loss, (0, 1)),
        GRID,
        (P(None, "model"), P("model"), P("data")),
        (P(None, "model"), P("model")),
        (f32(8, 16), f32(16, 8), f32(4, 8)),
    ),
    "sequence parallel attention": Row(
        attention, LINE, (HALVES, HALVES, HALVES), HALVES, (f32(2, 8, 2, 4),) * 3
    ),
    "gradient with weights in pieces": Row(
        mx.grad(mlp_loss, (0, 1)),
        LINE,
        (BATCH, BATCH, BATCH),
        (BATCH, BATCH),
        (f32(8, 16), f32(16, 8), f32(4, 8)),
    ),
    "embedding, rows": Row(embedding, LINE, (BATCH, P()), P(), (f32(16, 8), s32(6))),
    "embedding, gradient of rows": Row(
        mx.grad(lambda t, i: (embedding(t, i) ** 2).sum()),
        LINE,
        (BATCH, P()),
        BATCH,
        (f32(16, 8), s32(6)),
    ),
    "embedding, data parallel gradient": Row(
        mx.grad(lambda t, i: (embedding(t, i) ** 2).sum()),
        LINE,
        (P(), BATCH),
        P(),
        (f32(16, 8), s32(8)),
    ),
    "convolution, data parallel gradient": Row(
        mx.grad(convolution_loss), LINE, (P(), BATCH), P(), (f32(3, 3, 2, 4), f32(8, 8, 8, 2))
    ),
    "loop with a carry in pieces": Row(
        loop,
        GRID,
        (P("data", "model"), P(None, "model")),
        P("data", "model"),
        (f32(8, 16), f32(16, 16)),
    ),
    "scan over layers": Row(
        scan, GRID, (P("data"), P(None, None, "model")), P("data"), (f32(8, 16), f32(3, 16, 16))
    ),
    "shard_map": Row(
        mapped, GRID, (P("data", "model"), P("model")), P("data"), (f32(8, 16), f32(16, 4))
    ),
    "collectives of a program": Row(every_collective, LINE, (BATCH,), BATCH, (f32(16, 3),)),
    "softmax": Row(mx.nn.softmax, LINE, (HALVES,), HALVES, (f32(16, 8),)),
    "normalisation": Row(
        lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
        LINE,
        (HALVES,),
        HALVES,
        (f32(16, 8),),
    ),
    "sum": Row(lambda x: x.sum(0), LINE, (BATCH,), P(), (f32(8, 16),)),
    "sum in pieces": Row(lambda x: x.sum(0), LINE, (BATCH,), BATCH, (f32(8, 16),)),
    "maximum over two dimensions": Row(
        lambda x: x.max(), GRID, (P("data", "model"),), P(), (f32(8, 16),)
    ),
    "sum over a dimension with two axes": Row(
        lambda x: x.sum(), GRID, (P(("data", "model")),), P(), (f32(8, 16),)
    ),
    "product": Row(product, LINE, (HALVES, BATCH), P(), (f32(8, 16), f32(16, 4))),
    "product, one operand in pieces": Row(
        product, LINE, (HALVES, P()), P(), (f32(8, 16), f32(16, 4))
    ),
    "product, result in pieces": Row(
        product, LINE, (HALVES, BATCH), BATCH, (f32(8, 16), f32(16, 4))
    ),
    "product, rows and columns": Row(
        product, LINE, (BATCH, HALVES), BATCH, (f32(8, 16), f32(16, 4))
    ),
    "product, rows to rows": Row(product, LINE, (BATCH, BATCH), P(), (f32(8, 16), f32(16, 4))),
    "product, rows to columns": Row(
        product, LINE, (BATCH, BATCH), HALVES, (f32(8, 16), f32(16, 4))
    ),
    "product, terms to rows": Row(product, LINE, (HALVES, P()), BATCH, (f32(8, 16), f32(16, 4))),
    "product, terms to columns": Row(
        product, LINE, (HALVES, P()), HALVES, (f32(8, 16), f32(16, 4))
    ),
    "operands that lie otherwise": Row(
        lambda a, b: a + b, LINE, (BATCH, HALVES), P(), (f32(8, 16), f32(8, 16))
    ),
    "transpose to rows": Row(lambda x: x.T * 2, LINE, (BATCH,), BATCH, (f32(8, 16),)),
    "transpose": Row(lambda x: x.T * 2, LINE, (BATCH,), HALVES, (f32(8, 16),)),
    "reshape": Row(lambda x: doubled(x).reshape(4, 4, 4), LINE, (BATCH,), BATCH, (f32(16, 4),)),
    "concatenate along another dimension": Row(
        lambda a, b: mnp.concatenate([a, b], 1), LINE, (BATCH,) * 2, BATCH, (f32(8, 16),) * 2
    ),
    "reverse": Row(lambda x: x[::-1], LINE, (BATCH,), BATCH, (f32(16, 8),)),
    "transform along a dimension in pieces": Row(
        lambda x: ops.fft(x, "RFFT", (8,)), LINE, (HALVES,), P(), (f32(16, 8),)
    ),
    "factorisation": Row(ops.cholesky, LINE, (HALVES,), HALVES, (f32(16, 16),)),
    "constraint inside": Row(
        lambda x: mx.sharding.constrain(doubled(x), HALVES), LINE, (BATCH,), HALVES, (f32(8, 16),)
    ),
    "gather": moved(GRID, P("data", "model"), P()),
    "gather of one of two": moved(GRID, P("data", "model"), P("data")),
    "gather over two axes": moved(GRID, P(("data", "model")), P()),
    "gather over the minor axis": moved(GRID, P(("data", "model")), P("data")),
    "gather over the major axis": moved(GRID, P(("data", "model")), P("model")),
    "one axis to another dimension": moved(GRID, P(("data", "model")), P("data", "model")),
    "the major axis to another dimension": moved(GRID, P(("data", "model")), P("model", "data")),
    "axes change places": moved(GRID, P("data", "model"), P("model", "data")),
    "axes in another order": moved(GRID, P(("data", "model")), P(("model", "data"))),
    "gather, and an axis to that place": moved(GRID, P("data", "model"), P(None, "data")),
    "smaller pieces": moved(GRID, P("data"), P("data", "model")),
    "smaller pieces, elsewhere": moved(GRID, P("model"), P("data", "model")),
    "two axes to another dimension": moved(GRID, P(("data", "model")), P(None, ("data", "model"))),
    "two axes to another dimension, in another order": moved(
        GRID, P(("data", "model")), P(None, ("model", "data"))
    ),
    "nothing needed": Row(
        lambda x, y: mnp.tanh(x) * y,
        GRID,
        (P("data", "model"),) * 2,
        P("data", "model"),
        (f32(8, 16),) * 2,
    ),
    # What XLA does otherwise.
    "concatenate": Row(
        lambda a, b: mnp.concatenate([a, b]), LINE, (BATCH,) * 2, BATCH, (f32(8, 16),) * 2
    ),
    "slice": Row(lambda x: x[:4] * 2, LINE, (BATCH,), BATCH, (f32(16, 4),)),
    "sum of those before": Row(lambda x: mnp.cumsum(x, 0), LINE, (BATCH,), BATCH, (f32(16, 4),)),
    "pad": Row(lambda x: mnp.pad(x, ((1, 1), (0, 0))), LINE, (BATCH,), P(), (f32(16, 8),)),
}

#: Where prediction and XLA:CPU differ: why, and bytes by kind, XLA's and predicted.
DIFFERENCES: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "concatenate": (
        "XLA moves the pieces to another dimension and back: a rule says of the dimension only "
        "that all of it is needed, for which most operations gather",
        {"all-to-all": 512},
        {"all-gather": 1024},
    ),
    "slice": (
        "XLA sends from each device to each that needs something: a rule does not say how far "
        "neighbours are",
        {"collective-permute": 48},
        {"collective-permute": 16},
    ),
    "sum of those before": (
        "a window over everything: XLA gathers where neighbours do not suffice; a rule does not "
        "say how far the window goes",
        {"all-gather": 256},
        {"collective-permute": 64},
    ),
    "pad": (
        "XLA sends the rows of neighbours that are needed alone: a rule does not say how many",
        {"collective-permute": 64, "all-gather": 640},
        {"collective-permute": 160, "all-gather": 640},
    ),
}
