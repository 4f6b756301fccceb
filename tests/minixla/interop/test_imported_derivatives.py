"""Derivatives of functions of JAX that are imported from StableHLO and HLO, against JAX's own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.registry import REGISTRY
from tests.minixla.interop.imported_functions import HEAVY, ROWS
from tests.selection import quick_rows

# JAX differentiates the functions; imported programs are approximations of them in f32, whose
# derivatives lose up to 12 of 24 bits, as hypergeometric series do.
RELATIVE, ABSOLUTE = 3e-4, 2e-6
QUICK = """lax.sinh, lax.erfc, lax.erf_inv, lax.logistic far, special.ndtri,
stats.norm.logcdf, nn.softplus"""


def imported(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """A function by the way in which it is imported."""
    lowered = jax.jit(function).lower(*arguments)
    return {
        "StableHLO": mx.import_stablehlo(lowered.as_text()),
        "HLO": mx.import_hlo(lowered.as_text("hlo")),
        "optimized HLO": mx.import_hlo(lowered.compile().as_text()),
    }


def ones_like(array: Any) -> np.ndarray:
    """Ones for an array or a tracer."""
    return np.ones(array.shape, array.dtype)


def all_three(library: Any, function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """Value, tangents and cotangents, by one compiled function."""

    @library.jit
    def compute(*arguments: Any) -> Any:
        moved = library.jvp(function, arguments, jax.tree.map(ones_like, arguments))
        results, pull = library.vjp(function, *arguments)
        return moved, pull(jax.tree.map(ones_like, results))

    return list(map(np.asarray, jax.tree.leaves(compute(*arguments))))


@pytest.mark.parametrize("name", quick_rows(ROWS, QUICK.replace("\n", " ").split(", ")))
def test_derivatives_are_those_of_jax(name):
    function, arguments = ROWS[name]
    expected = all_three(jax, function, arguments)
    forms = imported(function, *arguments)
    if name not in QUICK:  # to save time
        at = [*ROWS].index(name)
        left_out = [*forms][at % 2 :: 2] if name in HEAVY else [[*forms][at % 2]]
        forms = {form: program for form, program in forms.items() if form not in left_out}
    for form, program in forms.items():
        for found, truth in zip(all_three(mx, program, arguments), expected, strict=True):
            # Where JAX's derivative overflows, or is NaN at a corner, nothing is asked.
            is_asked = np.isfinite(truth)
            np.testing.assert_allclose(
                found[is_asked], truth[is_asked], RELATIVE, ABSOLUTE, err_msg=form
            )


def chosen(x: Any) -> Any:
    """x * x where x is below 0; else a root, which has no derivative there."""
    return jax.lax.select(x < 0, x * x, jax.lax.sqrt(x) / x)


@pytest.mark.parametrize("form", ["StableHLO", "HLO", "optimized HLO"])
def test_derivatives_of_higher_order_and_of_batches(form):
    x = np.float32([-3, 0.5])
    program = imported(chosen, x)[form]
    gradient = mx.grad(lambda x: program(x).sum())
    second, third = [2, 0.75 * 0.5**-2.5], [0, -1.875 * 0.5**-3.5]
    ones = np.ones_like(x)

    def tangent(x: Any) -> Any:
        return mx.jvp(program, (x,), (ones,))[1]

    derivatives = {
        "forward over reverse": mx.jvp(gradient, (x,), (ones,))[1],
        "reverse over reverse": mx.grad(lambda x: gradient(x).sum())(x),
        "reverse over forward": mx.grad(lambda x: tangent(x).sum())(x),
        "forward over forward": mx.jvp(tangent, (x,), (ones,))[1],
        "jvp of vjp": mx.jvp(lambda x: mx.vjp(program, x)[1](ones)[0], (x,), (ones,))[1],
        "hessian": np.diag(mx.jit(mx.hessian(lambda x: program(x).sum()))(x)),
        "batches": mx.vmap(gradient)(np.stack([x, x]))[1] - gradient(x) + np.float32(second),
    }
    for name, found in derivatives.items():
        np.testing.assert_allclose(found, second, 1e-5, err_msg=name)
    again = mx.grad(lambda x: mx.grad(lambda x: gradient(x).sum())(x).sum())
    np.testing.assert_allclose(again(x), third, 1e-5)


def test_a_change_that_is_0_only_here_has_a_derivative():
    """At 0 the cotangent of the sine is 0, and its derivative 2 cos(x)**2 is not."""
    program = mx.import_stablehlo(jax.jit(lambda x: jax.lax.sin(x) ** 2).lower(0.0).as_text())
    for second in (
        mx.grad(mx.grad(program))(0.0),
        mx.jvp(mx.grad(program), (0.0,), (1.0,))[1],
        mx.grad(lambda x: mx.jvp(program, (x,), (1.0,))[1])(0.0),
    ):
        assert second == 2


def test_nan_of_a_change_that_is_not_0_stays():
    program = mx.import_stablehlo(jax.jit(lambda x: jax.lax.sqrt(x - 1)).lower(0.5).as_text())
    assert np.isnan(mx.grad(program)(0.5))
    assert mx.grad(program)(1.0) == np.inf
    assert mx.grad(lambda x: 0 * program(x))(1.0) == 0


def test_pickled_programs_keep_the_rule():
    x = np.float32(-3)
    program = imported(chosen, x)["HLO"]
    again = pickle.loads(pickle.dumps(program.graph))
    assert mx.grad(lambda x: ops.call(again, x)[0])(x) == -6


def test_programs_from_python_keep_their_products():
    graph = mx.make_graph(mx.grad(lambda x: (mx.numpy.sinh(x) / x).sum()))(np.ones(3, np.float32))
    assert not {"MulNoNan", "DivNoNan"} & {step.op.name for step in graph.instructions}


@pytest.mark.parametrize("either", [False, True])
def test_products_without_nan(either):
    product = REGISTRY["MulNoNan"](either=either)
    lhs, rhs = np.float32([0, 0, 2, np.inf, 2]), np.float32([np.inf, np.nan, 3, 0, np.nan])
    expected = [0, 0, 6, 0 if either else np.nan, np.nan]
    for found in (product(lhs, rhs), mx.reference(product)(lhs, rhs)):
        np.testing.assert_array_equal(found, expected)


def test_quotients_without_nan():
    quotient = REGISTRY["DivNoNan"]()
    lhs, rhs = np.float32([0, 0, 6, 1]), np.float32([0, np.nan, 3, 0])
    for found in (quotient(lhs, rhs), mx.reference(quotient)(lhs, rhs)):
        np.testing.assert_array_equal(found, [0, 0, 2, np.inf])
