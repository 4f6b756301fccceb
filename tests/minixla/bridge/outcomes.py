"""Evaluate the rows of function_rows by JAX, by minixla with XLA and in NumPy, group by group."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax.tree_util import tree_leaves, tree_map

import minixla as mx
from tests.minixla.bridge.function_rows import GROUPS, Row


def of_floats(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Restrict a function to its float arguments; return it and these arguments."""
    flags = [each.dtype.kind == "f" for each in arguments]

    def restricted(*floats: Any) -> Any:
        given = iter(floats)
        pairs = zip(arguments, flags, strict=True)
        return function(*[next(given) if flag else argument for argument, flag in pairs])

    return restricted, [x for x, flag in zip(arguments, flags, strict=True) if flag]


TRANSFORMATIONS = ("vmap", "forward", "reverse")


def program(
    api: Any, functions: Sequence[Callable[..., Any]], rows: Sequence[Row], everything: bool
) -> Callable[..., Any]:
    """Return one function that computes all compared values; `api` is jax or minixla.

    Each row has its value and, unless everything is wanted, one transformation in turn.
    """

    def computed(arguments: Sequence[Any]) -> list[dict[str, Any]]:
        found = []
        for at, (function, row, given) in enumerate(zip(functions, rows, arguments, strict=True)):
            names = TRANSFORMATIONS[:1] if row.zero else TRANSFORMATIONS
            wanted = names if everything else [names[at % len(names)]]
            each = {"value": function(*given[0])}
            if "vmap" in wanted:
                each["vmap"] = api.vmap(function)(*given[1])
            # Use the same values, so that XLA computes common parts once.
            restricted, primals = of_floats(function, given[0])
            if "forward" in wanted:
                tangents = [weights(x) for x in primals]
                each["forward"] = api.jvp(restricted, tuple(primals), tuple(tangents))[1]
            if "reverse" in wanted:
                value, pull = api.vjp(restricted, *primals)
                each["reverse"] = pull(tree_map(weights, value))
            found.append(each)
        return found

    return computed


def weights(x: Any) -> np.ndarray:
    """Return a tangent or cotangent for x, which is in the null space of no derivative here."""
    numbers = np.cos(np.arange(math.prod(x.shape)) * 1.7 + 0.3)
    return numbers.astype(x.dtype).reshape(x.shape)


def single_and_batch(row: Row) -> tuple[Any, Any]:
    return row.arguments, tuple([np.stack([x, x[::-1]]) for x in row.arguments])


# Compiling takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@functools.cache
def outcomes(group: str, everything: bool) -> dict[str, dict[str, Any]]:
    """Return the results of each row by JAX, by our compiled program and in NumPy."""
    rows = GROUPS[group]
    arguments = [single_and_batch(row) for row in rows]
    made = [row.function for row in rows], rows, everything
    by_jax = jax.jit(program(jax, *made), compiler_options=QUICK)(arguments)
    compiled = mx.jit(program(mx, *made), compiler_options=QUICK)(arguments)
    in_numpy = mx.reference(program(mx, *made))(arguments)
    return {
        row.name: {"jax": by_jax[k], "jit": compiled[k], "reference": in_numpy[k]}
        for k, row in enumerate(rows)
    }


def check(actual: Any, wanted: Any, tolerance: float) -> None:
    pairs = list(zip(tree_leaves(actual), tree_leaves(wanted), strict=True))
    assert pairs
    for one, other in pairs:
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if other.dtype.kind not in "fc":
            np.testing.assert_array_equal(one, other)
            continue
        finite = np.abs(other[np.isfinite(other)])
        scale = finite.max() if finite.size else 0
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(scale, 1e-3))


def rows_of(*groups: str) -> Any:
    """Parametrize a test over the rows of some groups."""
    pairs = [(group, row) for group in groups for row in GROUPS[group]]
    return pytest.mark.parametrize(("group", "row"), pairs, ids=[row.name for _, row in pairs])


def check_row(group: str, row: Row, everything: bool = False) -> None:
    """Check that our program, compiled and in NumPy, agrees with JAX."""
    found = outcomes(group, everything)[row.name]
    for evaluator in ("jit", "reference"):
        for what, value in found[evaluator].items():
            check(value, found["jax"][what], row.tolerance)
