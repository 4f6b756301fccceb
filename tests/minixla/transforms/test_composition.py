"""All pairs of transformations, and a sample of triples, on programs of all kinds, against JAX.

Each pair runs on three programs of four, which are more than 30; in `make test` on one of eight.

JAX computes the derivatives of each program once; what each composition must return follows from
them by the rules of `expected`. Pairs of our own are evaluated in NumPy, which needs no compiler;
`jit`, and JAX's transformations of our functions, in one compiled program for many compositions.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import ConcretizationError, DerivativeError
from tests.harness import QUICKLY
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
from tests.minixla.transforms.expected import (
    DIRECTION,
    POINT,
    Derivatives,
    Expected,
    derivatives,
    weights,
)
from tests.selection import IS_LONG, diagonal

PROGRAMS = OPERATIONS | FLOW
DERIVATIVES = ("grad", "jvp", "vjp", "linearize", "jacfwd", "jacrev", "jax.grad")
PAIRS = list(itertools.product(INNER, repeat=2))
TRIPLES = list(itertools.product(INNER, repeat=3))
INSIDE_JAX = list(itertools.product([name for name in OUTER if name.startswith("jax.")], INNER))
#: JAX sees a jitted function as one operation, another one operation by operation.
JITTED_INSIDE_JAX = [(outer, "jit", inner) for outer, inner in INSIDE_JAX]
#: Each pair passes over one program of so many.
PASSES = 4
#: Of how many compositions each program takes its turn.
TRIPLES_IN_NUMPY, TRIPLES_COMPILED = (10, 2) if IS_LONG else (4, 1)
PAIRS_INSIDE_JAX, JITTED_PAIRS = (2, 2) if IS_LONG else (1, 1)


@functools.cache
def known(program: str) -> Derivatives:
    """JAX's derivatives of a program."""
    return derivatives(PROGRAMS[program].jax, PROGRAMS[program].has_forward, program in FLOW)


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


def turn(program: str, choices: Sequence[Names], is_long: bool = IS_LONG) -> list[Names]:
    """The choices without those that pass over a program; in a short run one choice of eight."""
    first = list(PROGRAMS).index(program)
    turns = {names: first + PAIRS.index(names) for names in choices}
    return [names for names, at in turns.items() if (at % PASSES if is_long else at % 8 == 1)]


def described(names: Names, program: str) -> str:
    """How a composition is called in failures."""
    return f"{' of '.join(names)} of {program!r}"


def assert_expected(program: str, names: Names, actual: Any) -> None:
    """Asserts that a composition returned what follows from JAX's derivatives."""
    tolerance = PROGRAMS[program].tolerance
    wanted = expected(names, known(program))
    message = described(names, program)
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance, err_msg=message)


def assert_all(program: str, compositions: Iterable[Names], check: Callable[..., None]) -> None:
    """Checks all, and tells of all that fail."""
    failures = []
    for names in compositions:
        try:
            check(program, names)
        except Exception as error:
            error.add_note(described(names, program))
            failures.append(error)
    if failures:
        raise ExceptionGroup("compositions that are wrong", failures)


def assert_compiled(jit: Callable[..., Any], program: str, compositions: Iterable[Names]) -> None:
    """Asserts what several compositions return, in one program that `jit` compiles."""
    wanted = [names for names in compositions if is_defined(program, names)]

    def together(x: Any) -> list[Any]:
        return [traced(names, x) for names in wanted]

    def traced(names: Names, x: Any) -> Any:
        try:
            return composed(names, PROGRAMS[program].ours)(x)
        except Exception as error:
            error.add_note(described(names, program))
            raise

    with jax.enable_x64(True):
        results = dict(zip(wanted, jit(together, compiler_options=QUICKLY)(POINT), strict=True))
    assert_all(program, wanted, lambda _, names: assert_expected(program, names, results[names]))


def assert_in_numpy(program: str, names: Names) -> None:
    """Asserts what one composition returns, evaluated in NumPy."""
    with jax.enable_x64(True):
        evaluated = mx.reference(composed(names, PROGRAMS[program].ours))
        if is_defined(program, names):
            assert_expected(program, names, evaluated(POINT))
        else:
            with pytest.raises(DerivativeError, match="custom_vjp"):
                evaluated(POINT)


# Those of `jit` are compiled: see `test_jit`.
@pytest.mark.drawn
@pytest.mark.parametrize("outer", [name for name in INNER if name != "jit"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_pairs(program: str, outer: str) -> None:
    assert_all(program, turn(program, [(outer, inner) for inner in INNER]), assert_in_numpy)


@pytest.mark.drawn
@pytest.mark.parametrize("program", PROGRAMS)
def test_triples(program: str) -> None:
    assert_all(program, share(program, TRIPLES, TRIPLES_IN_NUMPY), assert_in_numpy)


@pytest.mark.drawn
@pytest.mark.parametrize("program", PROGRAMS)
def test_jit(program: str) -> None:
    singles = turn(program, [("jit", name) for name in INNER])
    triples = [("jit", *pair) for pair in share(program, PAIRS, TRIPLES_COMPILED)]
    assert_compiled(mx.jit, program, singles + triples)
    for names in singles:
        if not is_defined(program, names):
            with jax.enable_x64(True), pytest.raises(DerivativeError, match="custom_vjp"):
                composed(names, PROGRAMS[program].ours)(POINT)


@pytest.mark.drawn
@pytest.mark.parametrize("program", PROGRAMS)
def test_inside_jax(program: str) -> None:
    pairs = share(program, INSIDE_JAX, PAIRS_INSIDE_JAX)
    assert_compiled(jax.jit, program, pairs + share(program, JITTED_INSIDE_JAX, JITTED_PAIRS))


@pytest.mark.parametrize("outer", INNER)
def test_the_reference_must_be_outermost(outer: str) -> None:
    with jax.enable_x64(True), pytest.raises(ConcretizationError, match="outer"):
        composed((outer, "reference"), PROGRAMS["unary"].ours)(POINT)


@pytest.mark.parametrize(
    ("outer", "inner"), diagonal([*INNER], [name for name in OUTER if name.startswith("jax.")])
)
def test_jax_inside(outer: str, inner: str) -> None:
    names = outer, inner
    with jax.enable_x64(True):
        found = composed(names, PROGRAMS["unary"].ours)(POINT)
    np.testing.assert_allclose(found, expected(names, known("unary")), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", ["batch norm", "scan"])
def test_hessian_by_jax(program: str) -> None:
    size = known(program).values.shape[-1]
    cotangent = weights((size,), 0.0)
    with jax.enable_x64(True):
        fun = jax.hessian(mx.jit(lambda x: (PROGRAMS[program].ours(x) * cotangent).sum()))
        hessian = np.asarray(jax.jit(fun, compiler_options=QUICKLY)(POINT))
    slope = Expected.program(size).contracted(cotangent).derivative().jacobian(known(program))
    np.testing.assert_allclose(hessian @ DIRECTION, slope, rtol=1e-9, atol=1e-9)


def test_programs() -> None:
    for is_long, least in ((True, 30), (False, 4)):
        counts = Counter(pair for each in PROGRAMS for pair in turn(each, PAIRS, is_long))
        assert counts.keys() == {*PAIRS}
        assert min(counts.values()) >= least
    for name, program in PROGRAMS.items():
        # A vector, and no zeros: of them a linear function says nothing.
        assert np.abs(known(name).values[:, :2]).max((0, 2)).min() > 0.1, name
        assert program.tolerance == 1e-9 or name == "conversions"
