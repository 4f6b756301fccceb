"""Passes leave of programs what Shardy's leave, or refuse what Shardy refuses."""

from __future__ import annotations

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass
from minixla.interop.sharding_passes import read_program
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
NATIVE = frozenset(_BY_PASS) | {"sdy-import-pipeline", "sdy-remove-size-one-axes"}
#: What is said of programs that are refused.
REFUSALS = {
    "a priority of a dimension with manual axes": "dim 0 is empty and closed but has a priority",
    "edges that are there": "expected input of sdy.data_flow_edge to not be defined by an SdyD",
    "neither operands nor results, and operations": "manual_axes when there are no in/out shard",
    "a body and the body around it": "cannot cross ManualComputationOp boundaries for groupId: 1",
    "two bodies": "cannot cross ManualComputationOp boundaries for groupId: 1",
    "a priority": "dim 0 is empty and closed but has a priority",
}
#: Programs that are not read: what XLA has not.
UNREAD = {
    "tokens and dynamic sizes have none": "has a dimension without a bound",
    "private functions and declarations": "function other has no body",
}
#: What our passes say of them.
OWN_REFUSALS = {
    "a priority of a dimension with manual axes": "dimension 0 has a priority, but is empty and",
    "edges that are there": "expected input of sdy.data_flow_edge to not be defined by an SdyD",
    "neither operands nor results, and operations": "there are manual axes, and no shardings of op",
    "a body and the body around it": "values of a group cannot cross ManualComputationOp bound",
    "two bodies": "values of a group cannot cross ManualComputationOp boundaries",
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
    if passes not in NATIVE:
        return
    own, own_refusal = _outcome(natively, text, passes)
    if name in UNREAD:
        assert UNREAD[name] in own_refusal
        return
    assert bool(own_refusal) == bool(refusal)
    assert OWN_REFUSALS.get(name, "") in own_refusal
    if not refusal:
        # What our loops read from outside goes round, so that they have more results.
        assert own == normal_form(shardy_pass(str(read_program(text)), passes))
