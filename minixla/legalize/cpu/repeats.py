"""Programs that are called many times, as functions that XLA:CPU does not inline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from minixla.core.graph import Graph, Instruction, Value, inner_first, remembered
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.products.convolution import ConvGeneralDilated
from minixla_ops.products.convolution_kernel import TARGETS
from minixla_ops.programs.runs_programs import CallsProgram

# XLA inlines calls of functions, and copies the rest before it generates machine code. This saves
# most of XLA's optimization, and code that fusions across calls would repeat. With fewer
# instructions the calls themselves take longer.
_CALLS, _INSTRUCTIONS = 4, 32


def repeated(graph: Graph) -> set[int]:
    """Return the ids of large programs that are called often enough to stay functions.

    This excludes programs with a call that uses only some results or passes constants: XLA
    can simplify such a call if the program is inlined.
    """
    calls = [
        (current, step)
        for current in _programs(graph)
        for step in current.instructions
        if isinstance(step.op, CallsProgram)
    ]
    counts = Counter([id(step.op.computations[0]) for _, step in calls])
    programs = {id(step.op.computations[0]): step.op.computations[0] for _, step in calls}
    many = [programs[each] for each, count in counts.items() if count >= _CALLS]
    apart = {id(program) for program in many if _may_be_apart(program)}
    for current, step in calls if apart else ():
        if id(step.op.computations[0]) in apart:
            has_constants = any(value.literal is not None for value in step.operands)
            if has_constants or not _values_read(current).issuperset(step.results):
                apart.discard(id(step.op.computations[0]))
    return apart


@remembered
def _values_read(graph: Graph) -> set[Value]:
    """Return the values that instructions or results of a program read."""
    return {*graph.outputs, *[value for step in graph.instructions for value in step.operands]}


def _programs(graph: Graph) -> Iterator[Graph]:
    """Yield a program and, recursively, the programs that it runs, each once."""
    seen, waiting = {id(graph)}, [graph]
    while waiting:
        yield (current := waiting.pop())
        inner = [computation for computation in current.computations if id(computation) not in seen]
        seen.update(map(id, inner))
        waiting.extend({id(program): program for program in inner}.values())


def _may_be_apart(graph: Graph) -> bool:
    is_plain = not graph.has_side_effect and not graph.is_inlined
    return is_plain and instruction_count(graph) >= _INSTRUCTIONS and not _needs_main(graph)


@inner_first
def instruction_count(graph: Graph) -> int:
    """Return how many instructions a program has, with the programs that it runs."""
    return len(graph.instructions) + sum(map(instruction_count, graph.computations))


@inner_first
def _needs_main(graph: Graph) -> bool:
    """Return whether it contains convolutions, which are fast only in main functions."""
    is_own = any(map(_is_convolution, graph.instructions))
    return is_own or any(map(_needs_main, graph.computations))


def _is_convolution(step: Instruction) -> bool:
    is_call = type(step.op) is CustomCall and step.op.target_name in TARGETS.values()
    return is_call or type(step.op) is ConvGeneralDilated
