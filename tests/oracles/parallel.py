"""Programs of many processes in StableHLO's interpreter and on several devices of XLA:CPU.

Both run one graph in every process. Differences between the two, as of jaxlib 0.10.2, are noted
where a test leaves one of them out.
"""

from collections.abc import Sequence

import numpy as np

from minixla.core.graph import Graph
from minixla.core.stablehlo_text import Emitter

from ._worker import Worker
from .interpreter import run_stablehlo

_worker = Worker("XLA:CPU", "tests.oracles._run_xla_parallel")


def interpret_parallel(
    graph: Graph, arguments: Sequence[np.ndarray], replicas: int, partitions: int = 1
) -> list[np.ndarray]:
    """Results of `graph` in each of replicas x partitions processes, by StableHLO's interpreter.

    Args:
        graph: the program.
        arguments: for each input an array whose rows are the processes', partitions innermost.
        replicas, partitions: the numbers of both.

    Returns:
        An array a result, with a row a process.
    """
    processes = replicas * partitions
    module = Emitter(prefix="process_").module(graph).rstrip().removesuffix("}")
    inputs = [shape.stablehlo for shape in graph.input_shapes] * processes
    outputs = ", ".join([shape.stablehlo for shape in graph.output_shapes] * processes)
    names = [f"%arg{index}" for index in range(len(inputs))]
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, inputs, strict=True))
    grid = ", ".join([f"[{', '.join(['@process_main'] * partitions)}]"] * replicas)
    count = len(graph.outputs) * processes
    text = f"""{module}
  func.func public @main({parameters}) -> ({outputs}) {{
    %r:{count} = "interpreter.run_parallel"({", ".join(names)}) {{programs = [{grid}]}}
      : ({", ".join(inputs)}) -> ({outputs})
    return {", ".join(f"%r#{i}" for i in range(count))} : {outputs}
  }}
}}"""
    rows = [argument[process] for process in range(processes) for argument in arguments]
    found = run_stablehlo(text, rows)
    return [np.stack(found[i :: len(graph.outputs)]) for i in range(len(graph.outputs))]


def run_xla_parallel(
    graph: Graph, arguments: Sequence[np.ndarray], replicas: int
) -> list[np.ndarray]:
    """Results of `graph` in each replica, by XLA:CPU; for partitions use `jax.shard_map`.

    Args:
        graph: the program.
        arguments: for each input an array whose rows are the replicas', of rank 1 or more each.
        replicas: their number, at most the four devices that the tests make.
    """
    module = Emitter(platform="cpu").module(graph)
    header = f"attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = 1 : i32}}"
    return _worker.evaluate(module.replace(" {", f" {header} {{", 1), arguments, 120.0)
