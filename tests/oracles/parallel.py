"""Programs of many processes in StableHLO's interpreter and on several devices of XLA:CPU."""

from collections.abc import Sequence

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Graph
from minixla.core.stablehlo_text import Emitter, literal_text
from minixla.tools.worker import Worker

from .interpreter import run_stablehlo

_worker = Worker("XLA:CPU", "tests.oracles._run_xla_parallel")


def interpret_parallel(
    graphs: Sequence[Sequence[Graph]],
    arguments: Sequence[Sequence[np.ndarray]],
    infeed: Sequence[np.ndarray] = (),
) -> list[list[np.ndarray]]:
    """Results of programs that run together in StableHLO's interpreter.

    It runs as many at once as the machine has cores, so that more of them wait for each other in
    vain. It aborts on collectives without groups, and takes one collective for the next on the same
    channel: give each a channel of its own.

    Args:
        graphs: for each replica and partition a program; one may be there several times.
        arguments: the arguments of each process, partitions innermost.
        infeed: items that the processes share: each is read once.

    Returns:
        The results of each process.
    """
    functions, symbols = [], {}
    for index, graph in enumerate({id(each): each for row in graphs for each in row}.values()):
        text = Emitter(prefix=f"process_{index}_").module(graph).rstrip()
        functions.append(text[text.index("\n") + 1 : -1])
        symbols[id(graph)] = f"@process_{index}_main"
    for index, item in enumerate(infeed):
        kind = literal_text(Literal(item))
        type_ = kind.rpartition(" : ")[2]
        functions.append(f"  func.func @infeed_{index}() -> {type_} {{")
        functions.append(f"    %0 = stablehlo.constant {kind}\n    return %0 : {type_}\n  }}")
    flat = [graph for row in graphs for graph in row]
    inputs = [shape.stablehlo for graph in flat for shape in graph.input_shapes]
    outputs = [shape.stablehlo for graph in flat for shape in graph.output_shapes]
    names = [f"%arg{index}" for index in range(len(inputs))]
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, inputs, strict=True))
    grid = ", ".join(f"[{', '.join(symbols[id(graph)] for graph in row)}]" for row in graphs)
    given = f"programs = [{grid}]"
    if infeed:
        given += f", infeed = [{', '.join(f'@infeed_{i}' for i in range(len(infeed)))}]"
    everything = ", ".join(outputs)
    body = "\n".join(functions)
    text = f"""module @processes {{
{body}
  func.func public @main({parameters}) -> ({everything}) {{
    %r:{len(outputs)} = "interpreter.run_parallel"({", ".join(names)}) {{{given}}}
      : ({", ".join(inputs)}) -> ({everything})
    return {", ".join(f"%r#{i}" for i in range(len(outputs)))} : {everything}
  }}
}}"""
    found = iter(run_stablehlo(text, [each for given in arguments for each in given]))
    return [[next(found) for _ in graph.outputs] for graph in flat]


def run_xla_parallel(
    graph: Graph, arguments: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Results of a program in several replicas, by XLA:CPU; for partitions use `jax.shard_map`.

    Args:
        graph: the program.
        arguments: those of each replica, of rank 1 or more; tests make four devices at most.

    Returns:
        The results of each replica.
    """
    module = graph.stablehlo("cpu")
    counts = f"mhlo.num_replicas = {len(arguments)} : i32, mhlo.num_partitions = 1 : i32"
    text = module.replace(" {", f" attributes {{{counts}}} {{", 1)
    stacked = [np.stack(each) for each in zip(*arguments, strict=True)]
    results = _worker.evaluate(text, stacked, 120.0)
    return [list(each) for each in zip(*results, strict=True)]
