"""Passes leave of programs what Shardy's leave, or refuse what Shardy refuses."""

from __future__ import annotations

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass, steps_of
from minixla.sharding.passes import PASSES
from tests.minixla.sharding import (
    constant_programs,
    edge_programs,
    pipeline_programs,
    propagation_programs,
)
from tests.minixla.sharding.engines import natively
from tests.oracles.shardy_text import normal_form, written

_BY_PASS = {
    "sdy-add-data-flow-edges": edge_programs.EDGES,
    "sdy-apply-sharding-constraints": edge_programs.CONSTRAINTS,
    "sdy-constant-or-scalar-splitter": constant_programs.SPLITTER,
    "sdy-lift-inlined-meshes": constant_programs.MESHES,
    "sdy-manual-axes-cleanup": constant_programs.MANUAL_AXES,
    "sdy-sharding-group-import": edge_programs.GROUPS,
    "sdy-user-priority-propagate": propagation_programs.PROGRAMS,
}
_CONSERVATIVE = "sdy-basic-propagate{conservative-propagation=true}"
#: Other ways to propagate.
_BY_STRATEGY = dict.fromkeys(
    (
        "sdy-basic-propagate",
        _CONSERVATIVE,
        "sdy-aggressive-propagate",
        "sdy-aggressive-propagate{propagation-strategy=basic-then-aggressive}",
        "sdy-op-priority-propagate",
        "sdy-op-priority-propagate{run-op-priority-propagation=false}",
        "sdy-user-priority-propagate{propagation-strategy=basic}",
    ),
    propagation_programs.PROGRAMS,
)


def _rows(by_pass):
    """Passes, a name and a program each, by that."""
    return {
        f"{passes}, {name}": (passes, name, written(text))
        for passes, rows in by_pass.items()
        for name, text in rows.items()
    }


PROGRAMS = _rows(_BY_PASS) | {
    f"{passes}, {name}": (passes, name, written(text))
    for passes, name, text in pipeline_programs.PROGRAMS
}
#: What is said of programs that are refused.
REFUSALS = {
    "a priority of a dimension with manual axes": "empty and closed",
    "edges that are there": "data_flow_edge",
    "neither operands nor results, and operations": "body is not empty",
    "a body and the body around it": "cannot cross ManualComputationOp boundaries",
    "two bodies": "cannot cross ManualComputationOp boundaries",
    "a priority": "empty and closed",
}
#: What is left as it was.
UNCHANGED = {
    "a chain behind what has a sharding",
    "two chains of one tensor",
    "an edge with a sharding",
    "a constraint and a manual computation that do not",
    "a manual computation with one operand twice",
    "an operation of two results with shardings",
    "what is computed of a broadcast scalar",
    "a broadcast of a vector is no expansion",
    "bounded sizes have none",
    "no mesh",
    "no manual axes",
    "the empty mesh alone",
    "neither operands nor results, nor operations",
    "edges come and go",
    "a product, of which not all is resharded",
    "an unknown call",
}


_CLOSED = "loops of ours read nothing from outside: it is carried, or copied if constant"
_BOUNDED = "arrays of ours have static or bounded sizes"
#: Why a pass of ours leaves another program, or refuses what Shardy's does not.
DIFFERENCES = {
    "a loop that reads what is outside": _CLOSED,
    "a constant that is used in a loop and outside": _CLOSED,
    "scalars that a loop reads": _CLOSED,
    "dynamic sizes have none": _BOUNDED,
    "declarations": "functions of ours have a body",
    "a constant with attributes of others": "operations of ours keep no attributes but their own",
    "numbers below 0": "numbers of groups of ours are 0 or more",
}


def _outcome(run, text, passes):
    try:
        return normal_form(run(text, passes)), ""
    except MinixlaError as error:
        return "", str(error)


@pytest.mark.parametrize("row", PROGRAMS)
def test_shardy(row):
    passes, name, text = PROGRAMS[row]
    left, refusal = _outcome(shardy_pass, text, passes)
    assert REFUSALS.get(name, "") in refusal
    assert bool(refusal) == (name in REFUSALS)
    assert (left == normal_form(text)) == (name in UNCHANGED)


def _native_rows():
    for row, (passes, name, text) in (PROGRAMS | _rows(_BY_STRATEGY)).items():
        if all(step in PASSES for step, _ in steps_of(passes)):
            yield pytest.param(passes, name, text, id=row)


@pytest.mark.parametrize(("passes", "name", "text"), list(_native_rows()))
def test_ours_as_shardys(passes, name, text):
    left, _ = _outcome(shardy_pass, text, passes)
    own, refusal = _outcome(natively, text, passes)
    assert (own == left) == (name not in DIFFERENCES)
    if name not in DIFFERENCES:
        assert REFUSALS.get(name, "") in refusal
