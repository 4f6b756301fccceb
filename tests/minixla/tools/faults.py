"""Ways to plant one fault: in a rule of an operation, in a backend, in a user's own rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from minixla.core.operation import REGISTRY
from minixla.tools import built_in_evaluators

#: A function that plants a fault until the patch is undone.
Plant = Callable[[pytest.MonkeyPatch], None]
#: A function that changes a right result.
Change = Callable[[Any], Any]


class Fault(NamedTuple):
    """A right program with one planted fault, and what the first finding must name."""

    plant: Plant
    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    operation: str | None  # None: the finding is about a user's function, which has a line only
    line: str  # a part of the line of the program; empty for imported programs
    options: dict[str, Any] = {}


def nothing(patch: pytest.MonkeyPatch) -> None:
    """Plant nothing: the program has the fault."""


# Changes of NumPy arrays.


def scaled(x: np.ndarray) -> np.ndarray:
    """Return an array that is off by a thousandth."""
    return np.asarray(x * np.asarray(1.001, x.dtype))


def thirds(x: np.ndarray) -> np.ndarray:
    """Return an array that is off by a third, for element types of few digits."""
    return np.asarray(x * np.asarray(1.34, x.dtype))


def negated(x: np.ndarray) -> np.ndarray:
    """Return an array of the wrong sign."""
    return np.asarray(-x)


def rolled(x: np.ndarray) -> np.ndarray:
    """Return an array whose elements are off by one position."""
    return np.roll(x, 1, axis=-1) if x.ndim else x


def turned(x: np.ndarray) -> np.ndarray:
    """Return a transposed square array."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2))


def off_by_one(x: np.ndarray) -> np.ndarray:
    """Return an array with 1 added."""
    return np.asarray(x + np.asarray(1, x.dtype))


def without_last(x: np.ndarray) -> np.ndarray:
    """Return an array whose last element is dropped: it is 0."""
    return on_last(lambda last: np.zeros_like(last))(x)


def on_last(change: Change) -> Change:
    """Return a change of the last element only."""

    def changed(x: np.ndarray) -> np.ndarray:
        result = np.array(x)
        result.ravel()[-1:] = change(result.ravel()[-1:])
        return result

    return changed


def where_negative(x: np.ndarray) -> np.ndarray:
    """Return an array that is off where it is negative."""
    return np.where(x < 0, scaled(x), x).astype(x.dtype)


def with_last(value: float) -> Change:
    """Return a change of the last element to a value."""
    return on_last(lambda last: np.full_like(last, value))


def in_bf16(x: np.ndarray) -> np.ndarray:
    """Return an array that is rounded to bf16."""
    return x.astype(ml_dtypes.bfloat16).astype(x.dtype)


def conjugated(x: np.ndarray) -> np.ndarray:
    """Return the complex conjugate."""
    return np.asarray(np.conj(x))


# Places of faults.


def rule(name: str, kind: str, change: Change) -> Plant:
    """Plant a fault in a rule of an operation: `reference`, `jvp`, `vjp`, `transpose`."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(REGISTRY[name], kind)

        def wrong(self: Any, *arguments: Any, **options: Any) -> Any:
            return jax.tree.map(change, right(self, *arguments, **options))

        patch.setattr(REGISTRY[name], kind, wrong)

    return plant


def replaced(name: str, kind: str, wrong: Any) -> Plant:
    """Plant another rule."""
    return lambda patch: patch.setattr(REGISTRY[name], kind, wrong)


def batching(name: str, change: Change) -> Plant:
    """Plant a fault in a batching rule: `change` of the batched result."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = REGISTRY[name].batch

        def wrong(self: Any, operands: Any, dimensions: Any) -> Any:
            results, batched = right(self, operands, dimensions)
            return jax.tree.map(change, results), batched

        patch.setattr(REGISTRY[name], "batch", wrong)

    return plant


def in_text(old: str, new: str, backend: str = "XLA", *, least: int = 0) -> Plant:
    """Replace an operation in the StableHLO text that one backend reads.

    Args:
        old: a regular expression.
        new: its replacement.
        backend: `XLA` or `interpreter`.
        least: the number of instructions from which on a program is changed.
    """

    def edited(text: str) -> str:
        is_small = len(re.findall(r"(?m)^ *%.* = ", text)) < least
        return text if is_small else re.sub(old, new, text)

    def plant(patch: pytest.MonkeyPatch) -> None:
        by_xla, by_interpreter = built_in_evaluators.run_graph, built_in_evaluators.run_stablehlo

        def xla(graph: Any, operands: Any, *more: Any) -> Any:
            text = graph.stablehlo()
            changed = edited(text)
            if changed == text:
                return by_xla(graph, operands, *more)
            return by_xla(mx.import_stablehlo(changed).graph, operands, *more)

        def interpreter(text: str, operands: Any, **options: Any) -> Any:
            return by_interpreter(edited(text), operands, **options)

        if backend == "XLA":
            patch.setattr(built_in_evaluators, "run_graph", xla)
        else:
            patch.setattr(built_in_evaluators, "run_stablehlo", interpreter)

    return plant


def of_results(change: Change, *, least: int) -> Plant:
    """Change what XLA returns for programs of at least so many instructions."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = built_in_evaluators.run_graph

        def wrong(graph: Any, operands: Any, *more: Any) -> Any:
            results = right(graph, operands, *more)
            is_small = len([step for step in graph.instructions if step.operands]) < least
            return results if is_small else [change(np.asarray(x)) for x in results]

        patch.setattr(built_in_evaluators, "run_graph", wrong)

    return plant


def pullback(name: str, change: Change) -> Plant:
    """Plant a fault in the pullback of an operation that runs programs."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = REGISTRY[name].linearize

        def wrong(self: Any, operands: Any, active: Any) -> Any:
            results, pull = right(self, operands, active)
            return results, lambda cotangents: jax.tree.map(change, pull(cotangents))

        patch.setattr(REGISTRY[name], "linearize", wrong)

    return plant


def batching_within(name: str, change: Change) -> Plant:
    """Plant a fault in the batching rule of an operation that runs programs."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = REGISTRY[name].batch_within

        def wrong(self: Any, trace: Any, operands: Any, dimensions: Any) -> Any:
            results, batched = right(self, trace, operands, dimensions)
            return jax.tree.map(change, results), batched

        patch.setattr(REGISTRY[name], "batch_within", wrong)

    return plant
