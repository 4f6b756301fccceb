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
from minixla.core.errors import ConcretizationError, ForeignCallError, TransformError
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
PAIRS = list(itertools.product(INNER, repeat=2))
FROM_JAX = [name for name in OUTER if name.startswith("jax.")]
#: What is compiled for one program: how many triples, and how many pairs with each of JAX's.
TRIPLES_COMPILED, PAIRS_INSIDE_JAX, TRIPLES_IN_NUMPY = 2, 3, 12

_shuffled = np.random.default_rng(0).permutation(list(itertools.product(INNER, repeat=3)))


@functools.cache
def known(program: str) -> Derivatives:
    """JAX's derivatives of a program."""
    return derivatives(PROGRAMS[program].jax, PROGRAMS[program].has_forward)


def is_defined(program: str, names: Iterable[str]) -> bool:
    """Whether a program has the derivatives that a composition needs."""
    return PROGRAMS[program].has_forward or not any(TRANSFORMATIONS[n].is_forward for n in names)


def sample(program: str, choices: Sequence[Any], count: int) -> list[Any]:
    """This program's share of the choices; the programs take turns."""
    first = list(PROGRAMS).index(program) * count
    return [choices[(first + k) % len(choices)] for k in range(count)]


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
            with pytest.raises(TransformError, match="custom_vjp"):
                evaluated(POINT)


@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
@pytest.mark.parametrize("program", PROGRAMS)
def test_pairs(program: str, pair: Names) -> None:
    in_numpy(program, pair)


@pytest.mark.parametrize("program", PROGRAMS)
def test_triples(program: str) -> None:
    for names in sample(program, _shuffled, TRIPLES_IN_NUMPY):
        in_numpy(program, tuple(names))


@pytest.mark.parametrize("program", PROGRAMS)
def test_jit(program: str) -> None:
    triples = [("jit", *pair) for pair in sample(program, PAIRS, TRIPLES_COMPILED)]
    compiled(mx.jit, program, [*((name,) for name in INNER), *triples])


@pytest.mark.parametrize("program", PROGRAMS)
def test_inside_jax(program: str) -> None:
    pairs = list(itertools.product(FROM_JAX, INNER))
    # The programs take turns with the inner ones, each with all of JAX's.
    chosen = sample(program, list(INNER), PAIRS_INSIDE_JAX)
    compiled(jax.jit, program, [pair for pair in pairs if pair[1] in chosen])
