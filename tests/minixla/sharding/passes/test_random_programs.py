"""On random programs the import passes leave what Shardy's leave."""

from __future__ import annotations

from itertools import takewhile

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import passes_of
from minixla.sharding import run_pass
from tests.minixla.sharding.passes.annotated_programs import annotated_program
from tests.minixla.sharding.random_programs import RandomProgram
from tests.oracles.shardy_text import normal_form
from tests.selection import quick_rows

_PIPELINE = "sdy-import-pipeline{dedup-functions-fully=true}"
#: Passes that can run alone. Shardy dies of constraints on what loops carry where there are no
#: edges, and of functions that are called twice where calls become computations.
_ALONE = [
    "sdy-constant-or-scalar-splitter",
    "sdy-manual-axes-cleanup",
    "sdy-add-data-flow-edges",
    "sdy-sharding-group-import",
    "sdy-flatten-call-graph,symbol-dce,sdy-import-func-calls",
    "sdy-pre-order-funcs",
    _PIPELINE,
]


def _steps():
    """The passes before propagation, in order, without those that write files."""
    whole = passes_of("sdy-propagation-pipeline").removeprefix("builtin.module(").split(",")
    before = takewhile(lambda each: not each.startswith("sdy-user-priority"), whole)
    return [each.partition("{")[0] for each in before if each != "sdy-save-module"]


def _outcome(name, text, engine):
    try:
        return run_pass(name, text, engine=engine)
    except MinixlaError:
        return None


def _check(name, text):
    """Compares what a pass leaves in both engines."""
    left, own = (_outcome(name, text, engine) for engine in ("shardy", "native"))
    assert (left is None) == (own is None), name
    if left is not None:
        assert normal_form(own) == normal_form(left), name


def _of_operations(seed):
    """A random program of all families of operations, as it is written here."""
    return run_pass("symbol-dce", RandomProgram(seed).text)


@pytest.mark.parametrize("seed", quick_rows(range(30), range(10)))
def test_each_pass(seed):
    text = annotated_program(seed)
    for name in _ALONE:
        _check(name, text)
    _check(_PIPELINE, _of_operations(seed))


@pytest.mark.full
@pytest.mark.parametrize("make", [annotated_program, _of_operations])
def test_all_that_comes_before_propagation(make):
    steps = _steps()
    assert len(steps) == 15
    for seed in range(30, 500):
        _check(",".join(steps), make(seed))


@pytest.mark.full
@pytest.mark.parametrize("specification", [False, True])
def test_what_is_split_is_not_split_again(specification):
    changed = 0
    for seed in range(60):
        text = annotated_program(seed)
        once = run_pass("sdy-constant-splitter", text, specification=specification)
        again = run_pass("sdy-constant-splitter", once, specification=specification)
        assert normal_form(again) == normal_form(once), seed
        changed += normal_form(once) != normal_form(text)
    assert changed > 50
