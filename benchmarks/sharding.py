"""Compare sharding propagation with jaxlib's passes (Shardy)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context

from benchmarks.measure import Comparison, Effort, interleaved
from minixla.interop.sharding_passes import read_program
from minixla.sharding.passes import PASSES

_LAYER = """
  %h{n} = stablehlo.dot_general %v{n}, %w{n}, contracting_dims = [1] x [0] \
: ({outer}, tensor<128x256xf32>) -> {inner}
  %t{n} = stablehlo.tanh %h{n} : {inner}
  %m{n} = stablehlo.multiply %t{n}, %h{n} : {inner}
  %d{n} = stablehlo.dot_general %m{n}, %u{n}, contracting_dims = [1] x [0] \
: ({inner}, tensor<256x128xf32>) -> {outer}
  %r{n} = stablehlo.reshape %d{n} : ({outer}) -> tensor<64x8x16xf32>
  %q{n} = stablehlo.transpose %r{n}, dims = [1, 0, 2] \
: (tensor<64x8x16xf32>) -> tensor<8x64x16xf32>
  %e{n} = stablehlo.exponential %q{n} : tensor<8x64x16xf32>
  %p{n} = stablehlo.transpose %e{n}, dims = [1, 0, 2] \
: (tensor<8x64x16xf32>) -> tensor<64x8x16xf32>
  %s{n} = stablehlo.reshape %p{n} : (tensor<64x8x16xf32>) -> {outer}
  %v{next} = stablehlo.add %v{n}, %s{n} : {outer}"""


def network(layers: int) -> str:
    """Return a network of ten instructions per layer, sharded over data and model."""
    shapes = {"outer": "tensor<64x128xf32>", "inner": "tensor<64x256xf32>"}
    arguments = ['%v0: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}']
    for n in range(layers):
        model = ' {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}' if n % 2 == 0 else ""
        arguments.append(f"%w{n}: tensor<128x256xf32>{model}, %u{n}: tensor<256x128xf32>")
    lines = "".join(_LAYER.format(n=n, next=n + 1, **shapes) for n in range(layers))
    return f"""sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main({", ".join(arguments)}) -> {shapes["outer"]} {{{lines}
  return %v{layers} : {shapes["outer"]}
}}
"""


def sharding(effort: Effort) -> Iterator[Comparison]:
    """Measure the CPU time of passes over a program in memory, without parsing and printing."""
    context = make_ir_context()
    # jaxlib's passes process one function here, in one thread.
    context.enable_multithreading(False)
    for length in (10,) if effort.small else (1_000, 30_000):
        text = network(length // 10)
        for name in ("sdy-basic-propagate", "sdy-user-priority-propagate"):
            yield interleaved(
                f"{name}: {length:,} instructions",
                {"minixla": PASSES[name], "jax": partial(_shardys, name)},
                effort.rounds(40 if length < 10_000 else 3),
                prepare={
                    "minixla": partial(read_program, text),
                    "jax": partial(_parsed, context, text),
                },
                clock=time.process_time,
            )


def _parsed(context: Any, text: str) -> Any:
    with context:
        return ir.Module.parse(text)


def _shardys(name: str, module: Any) -> None:
    with module.context:
        PassManager.parse(f"builtin.module({name})").run(module.operation)
