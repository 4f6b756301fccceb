"""Passes leave of programs what Shardy's leave, or refuse what Shardy refuses."""

from __future__ import annotations

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass
from tests.minixla.sharding import constant_programs, edge_programs, pipeline_programs
from tests.minixla.sharding.engines import natively
from tests.oracles.shardy_text import normal_form, written

_BY_PASS = {
    "sdy-add-data-flow-edges": edge_programs.EDGES,
    "sdy-apply-sharding-constraints": edge_programs.CONSTRAINTS,
    "sdy-constant-or-scalar-splitter": constant_programs.SPLITTER,
    "sdy-lift-inlined-meshes": constant_programs.MESHES,
    "sdy-manual-axes-cleanup": constant_programs.MANUAL_AXES,
    "sdy-sharding-group-import": edge_programs.GROUPS,
}
PROGRAMS = [
    *((passes, name, text) for passes, rows in _BY_PASS.items() for name, text in rows.items()),
    *pipeline_programs.PROGRAMS,
]
#: Passes that there are natively.
NATIVE: frozenset[str] = frozenset()
#: What is said of programs that are refused.
REFUSALS = {
    "a priority of a dimension with manual axes": "dim 0 is empty and closed but has a priority",
    "edges that are there": "expected input of sdy.data_flow_edge to not be defined by an SdyD",
    "neither operands nor results, and operations": "manual_axes when there are no in/out shard",
    "a body and the body around it": "cannot cross ManualComputationOp boundaries for groupId: 1",
    "two bodies": "cannot cross ManualComputationOp boundaries for groupId: 1",
    "a priority": "dim 0 is empty and closed but has a priority",
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
    "no mesh",
    "no manual axes",
    "the empty mesh alone",
    "neither operands nor results, nor operations",
    "edges come and go",
    "a product, of which not all is resharded",
}


def _outcome(run, text, passes):
    try:
        return normal_form(run(text, passes)), ""
    except MinixlaError as error:
        return "", str(error)


@pytest.mark.parametrize(
    ("passes", "name", "text"), PROGRAMS, ids=[f"{passes}, {name}" for passes, name, _ in PROGRAMS]
)
def test_a_program(passes, name, text):
    text = written(text)
    left, refusal = _outcome(shardy_pass, text, passes)
    assert REFUSALS.get(name, "") in refusal
    assert bool(refusal) == (name in REFUSALS)
    assert (left == normal_form(text)) == (name in UNCHANGED)
    if passes in NATIVE:
        own, own_refusal = _outcome(natively, text, passes)
        assert own == left
        assert bool(own_refusal) == bool(refusal)
        assert REFUSALS.get(name, "") in own_refusal
