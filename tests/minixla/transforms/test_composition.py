"""All pairs of transformations, and a sample of triples, on programs of all kinds, against JAX.

JAX computes the derivatives of each program once; what each composition must return follows from
them by the rules of `expected`. Pairs of our own are evaluated in NumPy, which needs no compiler;
`jit`, and JAX's transformations of our functions, in one compiled program for many compositions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import ConcretizationError, DerivativeError, ForeignCallError
from tests.minixla.transforms.composed import (
    INNER,
    OUTER,
    TRANSFORMATIONS,
    Names,
    composed,
    expected,
)
from tests.minixla.transforms.composition_flow import FLOW
from tests.minixla.transforms.composition_programs import OPERATIONS
from tests.minixla.transforms.expected import POINT, QUICKLY, Derivatives, derivatives

PROGRAMS = OPERATIONS | FLOW
DERIVATIVES = ("grad", "jvp", "vjp", "linearize", "jacfwd", "jacrev", "jax.grad")
PAIRS = list(itertools.product(INNER, repeat=2))
TRIPLES = list(itertools.product(INNER, repeat=3))
INSIDE_JAX = list(itertools.product([name for name in OUTER if name.startswith("jax.")], INNER))
#: JAX sees a jitted function as one operation, another one operation by operation.
JITTED_INSIDE_JAX = [(outer, "jit", inner) for outer, inner in INSIDE_JAX]
#: Of how many compositions each program takes its turn.
TRIPLES_IN_NUMPY, TRIPLES_COMPILED, PAIRS_INSIDE_JAX, JITTED_PAIRS = 10, 2, 2, 4


@functools.cache
def known(program: str) -> Derivatives:
    """JAX's derivatives of a program."""
    return derivatives(PROGRAMS[program].jax, PROGRAMS[program].has_forward)


def is_defined(program: str, names: Names) -> bool:
    """Whether a program has the derivatives that a composition needs."""
    if PROGRAMS[program].has_forward:
        return True
    derived = [TRANSFORMATIONS[name] for name in reversed(names) if name in DERIVATIVES]
    return not (derived and derived[0].is_forward)


def share(program: str, choices: Sequence[Names], count: int) -> list[Names]:
    """Some of the choices, shuffled; the programs take turns."""
    shuffled = np.random.default_rng(0).permutation(len(choices))
    first = list(PROGRAMS).index(program) * count
    return [choices[shuffled[(first + k) % len(choices)]] for k in range(count)]


def name_of(names: Names) -> str:
    """How a composition is called in the names of tests."""
    return " of ".join(names)


def assert_expected(program: str, names: Names, actual: Any) -> None:
    """Asserts that a composition returned what follows from JAX's derivatives."""
    tolerance = PROGRAMS[program].tolerance
    np.testing.assert_allclose(
        actual,
        expected(names, known(program)),
        rtol=tolerance,
        atol=tolerance,
        err_msg=f"{name_of(names)} of {program!r}",
    )


def compiled(
    jit: Callable[..., Any], program: str, compositions: Iterable[Names]
) -> None:
    """Asserts the same of several compositions in one program that `jit` compiles."""
    wanted = [names for names in compositions if is_defined(program, names)]

    def together(x: Any) -> list[Any]:
        found = []
        for names in wanted:
            try:
                found.append(composed(names, PROGRAMS[program].ours)(x))
            except Exception as error:
                error.add_note(f"in {name_of(names)} of {program!r}")
                raise
        return found

    with jax.enable_x64(True):
        results = jit(together, compiler_options=QUICKLY)(POINT)
    for names, result in zip(wanted, results, strict=True):
        assert_expected(program, names, result)


def in_numpy(program: str, names: Names) -> None:
    """Asserts the same of one composition, evaluated in NumPy."""
    with jax.enable_x64(True):
        evaluated = mx.reference(composed(names, PROGRAMS[program].ours))
        if is_defined(program, names):
            assert_expected(program, names, evaluated(POINT))
        else:
            with pytest.raises(DerivativeError, match="custom_vjp"):
                evaluated(POINT)


@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
@pytest.mark.parametrize("program", PROGRAMS)
def test_pairs(program: str, pair: Names) -> None:
    in_numpy(program, pair)


@pytest.mark.parametrize("program", PROGRAMS)
def test_triples(program: str) -> None:
    for names in share(program, TRIPLES, TRIPLES_IN_NUMPY):
        in_numpy(program, names)


@pytest.mark.parametrize("program", PROGRAMS)
def test_jit(program: str) -> None:
    singles = [("jit", name) for name in INNER]
    triples = [("jit", *pair) for pair in share(program, PAIRS, TRIPLES_COMPILED)]
    compiled(mx.jit, program, singles + triples)


@pytest.mark.parametrize("program", PROGRAMS)
def test_inside_jax(program: str) -> None:
    pairs = share(program, INSIDE_JAX, PAIRS_INSIDE_JAX)
    compiled(jax.jit, program, pairs + share(program, JITTED_INSIDE_JAX, JITTED_PAIRS))


@pytest.mark.parametrize("inner", OUTER)
@pytest.mark.parametrize("outer", INNER)
def test_what_must_be_outermost(outer: str, inner: str) -> None:
    error = ConcretizationError if inner == "reference" else ForeignCallError
    with jax.enable_x64(True), pytest.raises(error, match="outer"):
        composed((outer, inner), PROGRAMS["unary"].ours)(POINT)


def test_number_of_programs() -> None:
    # The rules of `expected` are linear, so that a program of which all is zero would show nothing.
    assert len(PROGRAMS) >= 30
    for name in PROGRAMS:
        assert np.abs(known(name).slopes[:, 0]).min(initial=1) < np.abs(known(name).slopes).max()
