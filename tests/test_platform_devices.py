"""Programs over several devices compile for 4 and 256 TPU chips and GPUs that are not here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import minixla as mx
import minixla_ops as ops
from tests.oracles.far import compile_on, require

pytestmark = pytest.mark.far

#: How many devices a platform has along each of two axes.
DEVICES = {
    "tpu v5e:2x2": (2, 2),
    "tpu v5e:16x16": (16, 16),
    "gpu h100:4": (2, 2),
    "gpu h100:32x8": (32, 8),
}
FOUR = ("tpu v5e:2x2", "gpu h100:4")


@pytest.mark.parametrize("platform", DEVICES)
def test_sharded_programs(platform):
    require(platform)
    sizes = DEVICES[platform]
    mesh = AbstractMesh(sizes, ("data", "model"))
    columns, rows, whole = (
        NamedSharding(mesh, PartitionSpec(*each)) for each in ((None, "model"), ("data",), ())
    )
    step = mx.jit(
        mx.value_and_grad(lambda w, x: (mx.numpy.tanh(x @ w) ** 2).sum()),
        in_shardings=(columns, rows),
        out_shardings=(whole, columns),
    )
    found = compile_on(platform, step, *[jax.ShapeDtypeStruct((512, 512), np.float32)] * 2)
    assert "all-reduce" in found.text
    assert found.numbers["arguments"] == 512 * 512 * 4 * (1 / sizes[1] + 1 / sizes[0])


def reduced(mesh: Any) -> Callable[[Any], Any]:
    return mx.shard_map(
        lambda x: mx.psum(mx.numpy.sin(x), "y"),
        mesh=mesh,
        in_specs=PartitionSpec("x", "y"),
        out_specs=PartitionSpec("x"),
    )


def cubed(mesh: Any) -> Callable[[Any], Any]:
    return mx.shard_map(
        lambda x: mx.psum((x**3).sum(), ("x", "y")),
        mesh=mesh,
        in_specs=PartitionSpec("x", "y"),
        out_specs=PartitionSpec(),
    )


def scaled(x: Any) -> Any:
    return mx.pmap(lambda x: mx.pmean(x, "i") * x, "i")(x)


#: Functions made for a mesh, of an array with a row for each device, and a collective of theirs.
MAPPED: dict[str, tuple[Callable[[Any], Callable[[Any], Any]], str]] = {
    "shard_map": (reduced, "all-reduce"),
    "gradient of a shard_map": (lambda mesh: mx.grad(cubed(mesh)), "all-reduce"),
    "pmap": (
        lambda _: mx.pmap(lambda x: mx.ppermute(x, "i", [(0, 1), (1, 0)]), "i"),
        "collective-permute",
    ),
    "gradient of a pmap": (lambda _: mx.grad(lambda x: scaled(x).sum()), "all-reduce"),
    "pmap in a loop": (
        lambda _: lambda x: mx.fori_loop(0, 3, lambda _, v: scaled(v), x),
        "all-reduce",
    ),
}


def mapped_on(platform: str, function: Callable[[Any], Any], sizes: tuple[int, ...]) -> set[str]:
    """The opcodes of what XLA makes of a function of an array, for all devices of a platform."""
    report = mx.cost(function, jax.ShapeDtypeStruct(sizes, np.float32), platform=platform)
    assert report.xla["arguments"] > 0
    return {row.opcode.removesuffix("-start") for row in report.device_rows}


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("platform", DEVICES)
def test_programs_mapped_over_devices(platform, name):
    require(platform)
    sizes, (made, collective) = DEVICES[platform], MAPPED[name]
    function = made(mx.sharding.Mesh(None, ("x", "y"), shape=sizes))
    assert collective in mapped_on(platform, function, (math.prod(sizes), 16 * sizes[1]))


_GROUPS = [[0, 3], [1, 2]]
# By the numbers of devices, as all of them run one replica.
_ALL = {"replica_groups": _GROUPS, "channel_id": 1, "use_global_device_ids": True}
_ANY = {"channel_id": 1}
#: Functions of what each of four devices has, and the collectives that they become.
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "all_reduce": (lambda x: ops.all_reduce(x, ops.add, **_ALL), {"all-reduce"}),
    "all_gather": (lambda x: ops.all_gather(x, 0, 2, **_ALL), {"all-gather"}),
    "reduce_scatter": (
        lambda x: ops.reduce_scatter(x, ops.add, 0, 2, **_ALL),
        {"reduce-scatter", "all-reduce"},
    ),
    "all_to_all": (lambda x: ops.all_to_all(x, 0, 1, 2, _GROUPS, **_ANY), {"all-to-all"}),
    "collective_permute": (
        lambda x: ops.collective_permute(x, [(0, 1), (1, 3)], **_ANY),
        {"collective-permute"},
    ),
    "collective_broadcast": (
        lambda x: ops.collective_broadcast(x, _GROUPS, **_ANY),
        {"collective-permute", "collective-broadcast"},
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("platform", FOUR)
def test_collectives_of_groups_with_derivatives_and_batches(platform, name):
    require(platform)
    function, collectives = COLLECTIVES[name]

    def everything(x: Any) -> Any:
        made = function(mx.numpy.sin(x))
        _, tangent = mx.jvp(function, (x,), (x,))
        (cotangent,) = mx.vjp(function, x)[1](mx.numpy.cos(made))
        return made, tangent, cotangent, mx.vmap(function)(mx.numpy.stack([x, 2 * x]))

    assert collectives & mapped_on(platform, mx.pmap(everything), (4, 8, 8))
