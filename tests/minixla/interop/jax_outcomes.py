"""Rows of jax_rows evaluated by JAX, by our programs compiled, and in NumPy, a group at a time."""

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
from tests.minixla.interop.jax_rows import GROUPS, Row


def of_floats(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """The function of its float arguments alone, and those."""
    flags = [each.dtype.kind == "f" for each in arguments]

    def restricted(*floats: Any) -> Any:
        given = iter(floats)
        pairs = zip(arguments, flags, strict=True)
        return function(*[next(given) if flag else argument for argument, flag in pairs])

    return restricted, [x for x, flag in zip(arguments, flags, strict=True) if flag]


def program(
    api: Any, functions: Sequence[Callable[..., Any]], rows: Sequence[Row]
) -> Callable[..., Any]:
    """All that is compared of some functions, as one function: `api` is jax or minixla."""

    def everything(arguments: Sequence[Any]) -> list[dict[str, Any]]:
        found = []
        for function, row, given in zip(functions, rows, arguments, strict=True):
            each = {"value": function(*given[0]), "vmap": api.vmap(function)(*given[1])}
            if not row.zero:
                # Of the same values: XLA computes what these have in common once.
                restricted, primals = of_floats(function, given[0])
                tangents = [weights(x) for x in primals]
                each["forward"] = api.jvp(restricted, tuple(primals), tuple(tangents))[1]
                value, pull = api.vjp(restricted, *primals)
                each["reverse"] = pull(tree_map(weights, value))
            found.append(each)
        return found

    return everything


def weights(x: Any) -> np.ndarray:
    """A tangent or cotangent for x, in the null space of no derivative here."""
    numbers = np.cos(np.arange(math.prod(x.shape)) * 1.7 + 0.3)
    return numbers.astype(x.dtype).reshape(x.shape)


def single_and_batch(row: Row) -> tuple[Any, Any]:
    return row.arguments, tuple([np.stack([x, x[::-1]]) for x in row.arguments])


# Compiling takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@functools.cache
def outcomes(group: str) -> dict[str, dict[str, Any]]:
    """For each row of a group its results by JAX, by our program compiled, and in NumPy."""
    rows = GROUPS[group]
    arguments = [single_and_batch(row) for row in rows]
    theirs = program(jax, [row.function for row in rows], rows)
    by_jax = jax.jit(theirs, compiler_options=QUICK)(arguments)
    ours = [
        mx.from_jax(row.function, derivatives="jax" if row.differs else "program") for row in rows
    ]
    compiled = mx.jit(program(mx, ours, rows), compiler_options=QUICK)(arguments)
    in_numpy = mx.reference(program(mx, ours, rows))(arguments)
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
    """Parametrises a test over the rows of some groups."""
    pairs = [(group, row) for group in groups for row in GROUPS[group]]
    return pytest.mark.parametrize(("group", "row"), pairs, ids=[row.name for _, row in pairs])


def check_row(group: str, row: Row) -> None:
    """What our program gives, compiled and in NumPy, is what JAX gives."""
    found = outcomes(group)[row.name]
    for evaluator in ("jit", "reference"):
        for what, value in found[evaluator].items():
            check(value, found["jax"][what], row.tolerance)
