"""On random programs the import passes leave what Shardy's leave."""

from __future__ import annotations

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import passes_of
from minixla.sharding import run_pass
from tests.minixla.sharding.passes.annotated_programs import annotated_program
from tests.oracles.shardy_text import normal_form

_PIPELINE = "sdy-import-pipeline{dedup-functions-fully=true}"
#: Shardy's end of programs whose constraints stand on what loops carry, where there are no edges.
ALONE = [
    "sdy-lift-inlined-meshes",
    "sdy-constant-or-scalar-splitter",
    "sdy-manual-axes-cleanup",
    "sdy-add-data-flow-edges",
    "sdy-sharding-group-import",
    _PIPELINE,
]


def _outcome(name, text, engine):
    try:
        return run_pass(name, text, engine=engine)
    except MinixlaError:
        return None


def _check(name, text):
    """Runs a pass in both engines; returns what Shardy's leaves, None where it refuses."""
    left, own = (_outcome(name, text, engine) for engine in ("shardy", "native"))
    assert (left is None) == (own is None), name
    if left is not None:
        assert normal_form(own) == normal_form(left), name
    return left


@pytest.mark.parametrize("seed", range(30))
def test_each_pass(seed):
    text = annotated_program(seed)
    for name in ALONE:
        _check(name, text)


@pytest.mark.full
def test_each_step_of_the_pipeline():
    inner = passes_of(_PIPELINE).removeprefix("builtin.module(").removesuffix(")")
    steps = [each.partition("{")[0] for each in inner.split(",") if each != "sdy-save-module"]
    assert len(steps) == 10
    for seed in range(30, 500):
        text = annotated_program(seed)
        for name in steps:
            if (left := _check(name, text)) is None:
                break
            text = left


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
