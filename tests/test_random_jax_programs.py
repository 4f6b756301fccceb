"""Random programs that mix JAX with minixla: they agree with the same programs in JAX only."""

from __future__ import annotations

import random
from itertools import islice

import pytest

import minixla.numpy as mnp
from tests.programs.jax_programs import Body, Step, program_of
from tests.programs.jax_steps import LIBRARY, TEMPLATES
from tests.soak.jax_code import Case, case_of, cases

#: The number of programs, and how many of them `make test` runs.
COUNT, FEW = 200, 6


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.full] if n >= FEW else []) for n in range(COUNT)]
)
def test_programs_agree_with_jax(number: int) -> None:
    found = case_of(0, number).run()
    assert found is None, found


@pytest.mark.full
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_step_agrees_with_jax(name: str) -> None:
    """Each template in both libraries, with one step in each body."""
    template = TEMPLATES[name]
    inner = Step("sin", (0,), True)
    bodies = tuple([Body(count, (inner,)) for count in template.bodies])
    for is_ours in (True, False):
        step = Step(name, tuple(range(template.arity)), is_ours, bodies)
        for is_compiled in (True, False):
            found = Case(0, 0, Body(2, (step,)), is_compiled, False).run()
            assert found is None, found


def test_cases_are_the_same_for_a_seed() -> None:
    assert list(islice(cases(3), 4)) == list(islice(cases(3), 4))
    assert next(cases(3)) != next(cases(4))


def test_sources_differ_in_the_library_only() -> None:
    body = program_of(random.Random(5))
    mixed, in_jax = body.source(), body.source(is_mixed=False)
    assert "mx." not in in_jax
    for ours, theirs in LIBRARY.values():
        mixed = mixed.replace(f"{ours}.", f"{theirs}.")
    normalized = in_jax.replace("lax.", "jax.")
    assert mixed.replace("lax.", "jax.").replace("mx.", "jax.") == normalized


def test_every_step_is_drawn() -> None:
    drawn = {step.template for n in range(1200) for step in case_of(0, n).body.all_steps()}
    assert drawn == TEMPLATES.keys()


def test_a_planted_fault_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    sin = mnp.sin
    inner = Body(
        1, (Step("cos", (0,), False), Step("sin", (0,), True), Step("plus", (0, 1), False))
    )
    steps = Step("times", (0, 1), False), Step("vmap", (0, 1), True, (inner,))
    case = Case(0, 0, Body(2, steps), True, True)
    assert case.run() is None
    monkeypatch.setattr(mnp, "sin", lambda x: 1.5 * sin(x))
    assert "value: " in str(case.run())
    smallest = case.smallest()
    assert [(step.template, step.is_ours) for step in smallest.body.all_steps()] == [("sin", True)]


def test_an_error_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(x: object) -> object:
        raise NotImplementedError("planted")

    monkeypatch.setattr(mnp, "tanh", raises)
    steps = Step("sin", (0,), False), Step("tanh", (0,), True), Step("plus", (0, 1), False)
    case = Case(0, 0, Body(2, steps), False, False)
    assert "value raises NotImplementedError" in str(case.run())
    assert "planted" in case.shrunk()
    assert case.smallest().body.size == 1
