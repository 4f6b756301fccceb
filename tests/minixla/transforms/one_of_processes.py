"""What each process of `test_processes.py` runs: python one_of_processes.py ADDRESS COUNT NUMBER.

It prints its results as JSON, by the names of `RESULTS`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

DEVICES = 2
#: The data of all processes, a member for each device, and parameters that all have.
X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)


def collectives(m: Any, x: Any) -> Any:
    """A member's results of each kind of collective; `m` is minixla or jax.lax."""
    return {
        "psum": m.psum(x, "i"),
        "pmean": m.pmean(x, "i"),
        "pmax": m.pmax(x, "i"),
        "all_gather": m.all_gather(x, "i"),
        "ppermute": m.ppermute(x, "i", [(0, 2), (2, 1), (1, 3), (3, 0)]),
        "psum_scatter": m.psum_scatter(x[:4], "i"),
        "all_to_all": m.all_to_all(x[:4], "i", 0, 0),
        "index": m.axis_index("i"),
        "size": m.psum(1, "i"),
    }


def loss(m: Any, w: Any, x: Any) -> Any:
    """A loss of all members' data, the same for all."""
    return m.pmean(((x @ w) ** 3).mean(), "i")


def own_results() -> dict[str, Any]:
    """This process's results."""
    import jax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    import minixla as mx
    from minixla import ops

    first = DEVICES * jax.process_index()
    own = X[first : first + DEVICES]

    mapped = mx.pmap(lambda x: collectives(mx, x), "i")
    mean = mx.pmap(lambda w, x: loss(mx, w, x), "i", in_axes=(None, 0), out_axes=None)
    local = mx.pmap(lambda x: mx.psum(x, "i"), "i", devices=jax.local_devices())
    counted = mx.pmap(lambda: mx.axis_index("i"), "i", axis_size=4)

    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    whole = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), own)

    def total(x: Any) -> Any:
        groups = {"replica_groups": [[0, 1, 2, 3]], "channel_id": 1}
        return ops.all_reduce(ops.tanh(x), ops.add, **groups, use_global_device_ids=True)

    in_jax = jax.shard_map(
        mx.jit(total), mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False
    )
    value, gradients = mx.value_and_grad(mean, (0, 1))(W, own)
    return {
        "devices": len(jax.devices()),
        "collectives": mapped(own),
        "again": mapped(2 * own)["psum"],
        "value": value,
        "gradients": gradients,
        "tangent": mx.jvp(lambda x: mapped(x)["psum"], (own,), (own * own,))[1],
        "batch": mx.vmap(lambda x: mapped(x)["psum"], 2, 2)(np.stack([own, -own], 2)),
        "local": local(own),
        "counted": counted(),
        "in_jax": jax.jit(in_jax)(whole).addressable_data(0),
        "errors": [
            error_of(lambda: mx.jit(mapped)(own)),
            error_of(lambda: mx.reference(mapped)(own)),
            error_of(lambda: mx.pmap(lambda x: x, devices=jax.devices()[:3])(own)),
            error_of(lambda: mx.pmap(lambda x: x, devices=jax.devices()[::2] * 2)(own)),
        ],
    }


def error_of(function: Callable[[], Any]) -> str:
    """The message of the error that a call raises."""
    from minixla.core.errors import TransformError

    try:
        function()
    except TransformError as error:
        return str(error)
    return "none"


def main(address: str, count: str, number: str) -> None:
    """Meets the other processes and prints the results."""
    # Both are read when JAX is first imported.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, int(count), int(number), initialization_timeout=60)
    listed = jax.tree.map(lambda x: np.asarray(x).tolist(), own_results())
    print(json.dumps(listed))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
