"""Public JAX functions through from_jax: values, derivatives and batches agree with JAX's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax.tree_util import tree_leaves, tree_map

import minixla as mx
from tests.minixla.interop.jax_rows import GROUPS, Row

ROWS = [(group, row) for group, rows in GROUPS.items() for row in rows]


def of_floats(function: Callable[..., Any], row: Row) -> tuple[Callable[..., Any], list[Any]]:
    """The function of its float arguments alone, and those."""
    flags = [each.dtype.kind == "f" for each in row.arguments]

    def restricted(*floats: Any) -> Any:
        given = iter(floats)
        pairs = zip(row.arguments, flags, strict=True)
        return function(*[next(given) if flag else argument for argument, flag in pairs])

    return restricted, [x for x, flag in zip(row.arguments, flags, strict=True) if flag]


def program(api: Any, functions: Sequence[Callable[..., Any]], rows: Sequence[Row]) -> Any:
    """All that is compared of some functions, as one function: `api` is jax or minixla."""

    def everything(arguments: Sequence[Any], shift: Any) -> list[dict[str, Any]]:
        found = []
        for function, row, given in zip(functions, rows, arguments, strict=True):
            each = {"value": function(*given)}
            stacked = [np.stack([x, x[::-1]]) if x.ndim else np.stack([x, x]) for x in row.arguments]
            each["vmap"] = api.vmap(function)(*stacked)
            if not row.zero and not row.differs:
                restricted, floats = of_floats(function, row)
                primals = [x + shift for x in floats]
                tangents = [x * 0.5 + 1 for x in floats]
                each["forward"] = api.jvp(restricted, tuple(primals), tuple(tangents))[1]
                value, pull = api.vjp(restricted, *primals)
                each["reverse"] = pull(tree_map(lambda x: x * 0.5 + 1, value))
            found.append(each)
        return found

    return everything


@functools.cache
def outcomes(group: str) -> dict[str, dict[str, Any]]:
    """For each row of a group its results by JAX, by our program compiled, and in NumPy."""
    rows = GROUPS[group]
    arguments = [row.arguments for row in rows]
    shift = np.float32(0)
    by_jax = jax.jit(program(jax, [row.function for row in rows], rows))(arguments, shift)
    ours = [mx.from_jax(row.function, derivatives="program") for row in rows]
    compiled = mx.jit(program(mx, ours, rows))(arguments, shift)
    pure = [k for k, row in enumerate(rows) if not row.backend]
    some = [rows[k] for k in pure]
    evaluate = mx.reference(program(mx, [ours[k] for k in pure], some))
    in_numpy = dict(zip(pure, evaluate([arguments[k] for k in pure], shift), strict=True))
    return {
        row.name: {"jax": by_jax[k], "jit": compiled[k], "reference": in_numpy.get(k)}
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


@pytest.mark.parametrize(("group", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_a_function_of_jax(group, row):
    found = outcomes(group)[row.name]
    for evaluator in ("jit", "reference"):
        if evaluator == "reference" and row.backend:
            continue
        for what, wanted in found["jax"].items():
            check(found[evaluator][what], wanted, row.tolerance)


def test_the_table_is_long_enough():
    names = [row.name for _, row in ROWS]
    assert len(set(names)) == len(names)
    assert len(names) >= 120
    plain = [row for _, row in ROWS if not (row.zero or row.differs or row.backend)]
    assert len(plain) >= 120
