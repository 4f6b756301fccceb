"""Conditional over a batch whose members choose differently.

Each branch that a member takes runs on the whole batch, within a guard: a Conditional that runs it
where any member takes it, else gives zeros. Nobody reads what it gives for members that do not take
it. Over a further batch a guard is one guard of all members again. As a choice like any other it
would run its program for members of members, and have for every batch an operand more that says
whose; derivatives make such choices of guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla_ops.control_flow import conditional
from minixla_ops.control_flow.loops import any_of, choose, shadowed
from minixla_ops.programs.runs_programs import (
    Flags,
    batched_of,
    in_front,
    moved_batches,
    over_batch,
    program,
)
from minixla_ops.vocabulary.shorthand import array_shape, full_like, zeros


class Guarded(NamedTuple):
    """What the first program of a guard remembers of how it was made.

    Attributes:
        inner: the program over the batch.
        flags: which inputs of it are batched.
        zeros: the other program of the guard.
    """

    inner: Graph
    flags: Flags
    zeros: Graph

    def grows(self, dimensions: Sequence[int | None]) -> bool:
        """Whether a further batch stands in the same operands, so that both are one."""
        return batched_of(dimensions[2:]) == self.flags


def guarded_by(computations: tuple[Graph, ...]) -> Guarded | None:
    """What a Conditional with these branches guards, if it is a guard."""
    found = computations[0].memo.get("guarded")
    return None if found is None or found.zeros is not computations[-1] else found


def batch_of_choices(
    operands: Sequence[Any],
    dimensions: Sequence[int | None],
    computations: tuple[Graph, ...],
    size: int,
) -> tuple[Any, Any]:
    """Each branch that a member takes, and a selection of what its members get.

    Args:
        operands: the predicate or index, which is batched, and what the branches take.
        dimensions: where the batch is in each.
        computations: the branches.
        size: the number of members.

    Returns:
        The results and where the batch is in each.
    """
    flags = batched_of(dimensions[1:])
    places = in_front(flags)
    moved = moved_batches(operands[1:], dimensions[1:], places, size)
    takers = _takers(operands[0], len(computations))
    results: Sequence[Any] = ()
    for takes, branch in zip(takers, computations, strict=True):
        inner = over_batch(branch, places, size, (0,) * len(branch.outputs))
        if _computes(branch):
            found = _guard(inner, flags, takes, moved)
        else:
            found = evaluate_graph(inner, moved)
        rows = zip(found, results, strict=True) if results else ()
        results = [choose(takes, *row) for row in rows] or found
    return tuple(results), (0,) * len(results)


def batch_of_guard(
    operands: Sequence[Any],
    dimensions: Sequence[int | None],
    guarded: Guarded,
    size: int,
) -> tuple[Any, Any]:
    """The guard of a batch over a further batch: one guard of the members of all.

    Args:
        operands: its predicate, which members take it, and what its program takes.
        dimensions: where the further batch is in each.
        guarded: what it guards.
        size: the number of members of the further batch.

    Returns:
        The results and where the further batch is in each.
    """
    places = in_front(guarded.flags)
    takes, *moved = moved_batches(operands[1:], dimensions[1:], (0, *places), size)
    inner = over_batch(guarded.inner, places, size, (0,) * len(guarded.inner.outputs))
    results = _guard(inner, guarded.flags, takes, moved)
    return results, (0,) * len(results)


def _takers(index: Any, count: int) -> list[Any]:
    """For each branch the members of a batch that take it, pred[size]."""
    if array_shape(index).element_type.kind == "pred":
        return [index, ops.not_(index)]
    last = full_like(index, count - 1)
    outside = ops.or_(ops.lt(index, full_like(index, 0)), ops.gt(index, last))
    numbers = ops.select(outside, last, index)
    return [ops.eq(numbers, full_like(numbers, number)) for number in range(count)]


def _computes(branch: Graph) -> bool:
    """Whether a branch does more than to give operands and constants."""
    given = set(map(id, branch.inputs))
    return any(
        not step.op.is_plain or any(id(operand) in given for operand in step.operands)
        for step in branch.instructions
    )


def _guard(inner: Graph, flags: Flags, takes: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """The guard of a program over a batch.

    Args:
        inner: the program.
        flags: which of its inputs are batched.
        takes: which members take it.
        values: its operands.
    """
    sizes = array_shape(takes).dimensions
    programs = inner.remembered(("guard", sizes, flags), _guard_programs, inner, sizes, flags)
    return conditional.Conditional(programs)(any_of(takes), takes, *values)


def _guard_programs(inner: Graph, sizes: tuple[int, ...], flags: Flags) -> tuple[Graph, Graph]:
    """A program over a batch where the first input says who takes it, and zeros in its place."""

    def run(takes: Any, *values: Any) -> list[Any]:
        return evaluate_graph(inner, shadowed(takes, values, flags))

    def give_zeros(*_: Any) -> list[Any]:
        return list(map(zeros, inner.output_shapes))

    shapes = [Shape("pred", sizes), *inner.input_shapes]
    guarding, empty = program(run, shapes, inner.name), program(give_zeros, shapes, "zeros")
    guarding.memo["guarded"] = Guarded(inner, flags, empty)
    return guarding, empty
