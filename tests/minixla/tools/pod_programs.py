"""Sharded programs for a square of chips: a handful on this machine, or a pod that is not here."""

from __future__ import annotations

import numpy as np

import minixla as mx
from minixla import numpy as mnp
from minixla.sharding import PartitionSpec as P
from tests.minixla.tools.sharded_programs import Row, attention, f32, mlp_loss


def descended(parameters, x):
    """One step of gradient descent, and the loss."""
    loss, gradients = mx.value_and_grad(mlp_loss, (0, 1))(*parameters, x)
    return tuple(p - 0.1 * g for p, g in zip(parameters, gradients, strict=True)), loss


def pipeline(mesh, stages):
    """Layers that are on a device each; parts of the batch go from one to the next in a scan."""

    @mx.shard_map(mesh=mesh, in_specs=(P("model"), P(None, "data")), out_specs=P(None, "data"))
    def piped(weights, parts):
        stage, count = mx.axis_index("model"), parts.shape[0]

        def tick(carry, time):
            given, made = carry
            first = mnp.take(parts, mnp.minimum(time, count - 1), axis=0)
            result = mnp.tanh(mnp.where(stage == 0, first, given) @ weights[0])
            is_mine = (np.arange(count) == time - (stages - 1))[:, None, None]
            made = mnp.where(is_mine & (stage == stages - 1), result, made)
            return (mx.ppermute(result, "model", [(i, i + 1) for i in range(stages - 1)]), made), 0

        start = mnp.zeros_like(parts[0]), mnp.zeros_like(parts)
        (_, made), _ = mx.scan(tick, start, np.arange(count + stages - 1, dtype=np.int32))
        return mx.psum(made, "model")

    return piped


def pod_programs(side: int) -> dict[str, Row]:
    """The programs for `side` times `side` chips; arrays grow with it."""
    mesh = mx.sharding.Mesh(None, ("data", "model"), (side, side))
    width, batch = 128 * side, 16 * side * side
    weights, x = (f32(width, 2 * width), f32(2 * width, width)), f32(batch, width)
    halves = (P(None, "model"), P("model"))
    sequence = P("data", "model")
    pipe, layers, parts = pipeline(mesh, side), f32(side, 128, 128), f32(4, 8 * side, 128)
    return {
        "data parallel": Row(
            descended, mesh, ((P(), P()), P(("data", "model"))), ((P(), P()), P()), (weights, x)
        ),
        "tensor parallel": Row(descended, mesh, (halves, P("data")), (halves, P()), (weights, x)),
        "pipeline by scan": Row(
            mx.value_and_grad(lambda w, x: (pipe(w, x) ** 2).mean()),
            mesh,
            (P("model"), P(None, "data")),
            (P(), P("model")),
            (layers, parts),
        ),
        "sequence parallel": Row(
            attention, mesh, (sequence,) * 3, sequence, (f32(side, 64 * side, 2, 128),) * 3
        ),
    }
