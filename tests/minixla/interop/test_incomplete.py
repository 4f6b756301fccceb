"""The incomplete gamma and beta functions in programs that JAX wrote."""

import functools

import jax
import numpy as np
import pytest
import scipy.special
from jax import lax

import minixla as mx
from tests.harness import compiled_rows, through_stablehlo

INF = np.inf
# Points at the ends of the domain and far out, and the derivatives by each operand there. Those by
# parameters are 0, as all functions of a family agree there.
ENDS = {
    "igamma": (
        [(1, 0), (2, 0), (0.5, 0), (1, INF), (2, INF), (0.5, INF), (1, 200)],
        [1, 0, INF, 0, 0, 0, 0],
    ),
    "igammac": (
        [(1, 0), (2, 0), (0.5, 0), (1, INF), (2, INF), (0.5, INF), (1, 200)],
        [-1, 0, -INF, 0, 0, 0, 0],
    ),
    "betainc": (
        [(1, 2, 0), (2, 2, 0), (0.5, 2, 0), (2, 1, 1), (2, 2, 1), (2, 0.5, 1), (INF, 2, 0.5)],
        [2, 0, INF, 2, 0, INF, 0],
    ),
}
SCIPY = {
    "igamma": scipy.special.gammainc,
    "igammac": scipy.special.gammaincc,
    "betainc": scipy.special.betainc,
}
INSIDE = {
    "igamma": [(2.5, 0.7), (3, 1), (1, 1), (2, 9), (0.5, 0.01)],
    "igammac": [(2.5, 0.7), (3, 1), (1, 1), (2, 9), (0.5, 0.01)],
    "betainc": [(2.5, 1.5, 0.3), (1, 1, 0.5), (2, 3, 0.9), (0.5, 0.5, 0.1)],
}
STEP = 1e-4


def columns(rows, dtype):
    return [np.ascontiguousarray(each) for each in np.array(rows, dtype).T]


def slopes(name, order=1):
    """Derivatives by each operand, or by each twice, forwards and in reverse."""
    function = through_stablehlo(getattr(lax, name))

    def forward(call, number):
        def moved(*given):
            def rest(x):
                return call(*given[:number], x, *given[number + 1 :])

            return mx.jvp(rest, (given[number],), (np.ones_like(given[number]),))[1]

        return moved

    def backward(call, number):
        return lambda *given: mx.vjp(call, *given)[1](np.ones_like(given[0]))[number]

    def found(*given):
        results = []
        for mode in (forward, backward):
            for number in range(len(given)):
                derivative = function
                for _ in range(order):
                    derivative = mode(derivative, number)
                results.append(derivative(*given))
        return results

    return found


@functools.cache
def compiled():
    rows = {name: (slopes(name), columns(points, np.float32)) for name, (points, _) in ENDS.items()}
    return compiled_rows(rows)


@pytest.mark.parametrize("name", ENDS)
def test_derivatives_at_the_ends_of_the_domain_are_the_functions_in_both_modes(name):
    points, by_last = ENDS[name]
    operands = columns(points, np.float32)
    zeros = np.zeros(len(points))
    wanted = [*[zeros] * (len(operands) - 1), by_last] * 2
    for found in (mx.reference(slopes(name))(*operands), compiled()(name)):
        np.testing.assert_allclose(np.stack(found), np.stack(wanted), rtol=3e-6, atol=1e-30)


def quotients(name, operands, number, order):
    """Difference quotients of SciPy's function by one operand."""

    def moved(step):
        return SCIPY[name](*[each + step * (at == number) for at, each in enumerate(operands)])

    if order == 1:
        return (moved(STEP) - moved(-STEP)) / (2 * STEP)
    return (moved(STEP) - 2 * moved(0) + moved(-STEP)) / STEP**2


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", INSIDE)
def test_derivatives_inside_of_the_domain(name, order):
    with jax.enable_x64(True):
        operands = columns(INSIDE[name], np.float64)
        found = np.stack(mx.jit(slopes(name, order))(*operands))
    numbers = range(len(operands))
    wanted = [quotients(name, operands, number, order) for number in numbers]
    np.testing.assert_allclose(found, wanted * 2, rtol=1e-3, atol=2e-6)
    np.testing.assert_allclose(found[: len(operands)], found[len(operands) :], rtol=1e-12)


def lowered(function, *operands):
    return jax.jit(function).lower(*operands).as_text()


def names_in(graph):
    """The operations of a program and of those that it calls."""
    steps = graph.pruned().instructions
    inner = [names_in(each) for step in steps for each in step.op.computations]
    return {step.op.name for step in steps}.union(*inner)


@pytest.mark.parametrize("name", ENDS)
def test_programs_of_jax_and_of_ours_are_recognised(name):
    wanted = {"igamma": "Igamma", "igammac": "Igammac", "betainc": "Betainc"}[name]
    for wide, dtype in ((False, "f4"), (True, "f4"), (True, "f8")):
        with jax.enable_x64(wide):
            operands = columns(INSIDE[name], dtype)
            text = lowered(lambda *given: getattr(lax, name)(*given) * 2, *operands)
            imported = mx.import_stablehlo(text)
            again = mx.import_stablehlo(imported.graph.stablehlo())
            for each in (imported, again):
                assert names_in(each.graph) >= {wanted, "Mul"}
                assert "While" not in names_in(each.graph)
                found = mx.reference(each)(*operands)
                tolerance = 1e-12 if dtype == "f8" else 2e-6
                np.testing.assert_allclose(found, 2 * SCIPY[name](*operands), rtol=tolerance)


def test_a_program_that_differs_in_one_number_is_another():
    operands = columns(INSIDE["igamma"], np.float32)
    text = lowered(lax.igamma, *operands)
    assert text.count("dense<2.000000e+03>") == 1
    other = mx.import_stablehlo(text.replace("dense<2.000000e+03>", "dense<3.000000e+03>"))
    assert "Igamma" not in names_in(other.graph)
    np.testing.assert_allclose(mx.jit(other)(*operands), scipy.special.gammainc(*operands), 1e-5)


def test_batches():
    a, x = columns(INSIDE["igamma"], np.float32)
    function = through_stablehlo(lax.igamma)
    slope = mx.vmap(mx.vmap(mx.grad(function, 1), (None, 0)), (0, None))
    wanted = x ** (a[:, None] - 1) * np.exp(-x) / scipy.special.gamma(a[:, None])
    np.testing.assert_allclose(mx.jit(slope)(a, x), wanted, rtol=1e-5)
