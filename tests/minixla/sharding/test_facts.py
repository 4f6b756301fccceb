"""Facts about passes and propagation hold, in each engine."""

from __future__ import annotations

import re

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass
from tests.minixla.sharding.constant_facts import CONSTANT_FACTS
from tests.minixla.sharding.edge_facts import EDGE_FACTS
from tests.minixla.sharding.engines import natively, natively_by_specification
from tests.minixla.sharding.propagation_facts import PROPAGATION_FACTS
from tests.oracles.shardy_text import normal_form, written

FACTS = EDGE_FACTS + CONSTANT_FACTS + PROPAGATION_FACTS
#: Beginnings of the names of facts that hold natively.
NATIVE: tuple[str, ...] = ("P", "G")


RUNS = {
    "shardy": shardy_pass,
    "native": natively,
    "native, by the specification": natively_by_specification,
}


def _rows():
    for fact in FACTS:
        yield pytest.param(fact, "shardy", id=f"{fact.name}, shardy")
        if fact.name.startswith(NATIVE):
            yield pytest.param(fact, "native", id=f"{fact.name}, native")
            if fact.specification is not None:
                how = "native, by the specification"
                yield pytest.param(fact, how, id=f"{fact.name}, {how}")


@pytest.mark.parametrize(("fact", "engine"), list(_rows()))
def test_a_fact(fact, engine):
    before = written(fact.before)
    if fact.refusal:
        with pytest.raises(MinixlaError, match=fact.refusal):
            RUNS[engine](before, fact.passes)
        return
    left = fact.left(engine == "native, by the specification")
    assert normal_form(RUNS[engine](before, fact.passes)) == normal_form(written(left))


def test_every_fact_is_there():
    numbers = {"P1": 7, "P2": 16, "P3": 10, "P4": 7, "P5": 4, "P6": 7}
    wanted = {f"{key}.{number + 1}" for key, many in numbers.items() for number in range(many)}
    wanted |= {f"G{number + 1}" for number in range(17)}
    assert {fact.name.partition(":")[0] for fact in FACTS} == wanted
    assert len({fact.name for fact in FACTS}) == len(FACTS)
    changed = {fact.name.partition(":")[0] for fact in FACTS if fact.specification is not None}
    assert changed == {"P2.13", "P3.8", "P3.9", "P3.10"}


@pytest.mark.parametrize(
    "fact", [fact for fact in FACTS if fact.specification is not None], ids=lambda fact: fact.name
)
def test_what_the_specification_says_is_another_program(fact):
    assert normal_form(written(fact.left(True))) != normal_form(written(fact.left()))


def test_a_program_is_compared_but_for_what_says_nothing():
    text = """(%x: t8x4) -> t8x4 {
  sdy.sharding_group %x group_id=NUMBER : t8x4
  %n = stablehlo.negate %x : t8x4
  sdy.sharding_group %n group_id=OTHER : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  return %c : t8x4
}"""

    def grouped(number, other):
        return written(text.replace("NUMBER", str(number)).replace("OTHER", str(other)))

    assert normal_form(grouped(1, 0)) == normal_form(grouped(0, 1))
    assert normal_form(grouped(2, 0)) != normal_form(grouped(0, 1))
    assert normal_form(grouped(0, 0)) != normal_form(grouped(0, 1))
    left = shardy_pass(grouped(0, 1), "sdy-lift-inlined-meshes,sdy-apply-sharding-constraints")
    assert "stablehlo.mesh" in left
    assert "sdy.sharding_rule" in left
    assert not re.search("stablehlo.mesh|sdy.sharding_rule", normal_form(left))
    renamed = left.replace("%arg0", "%other").replace("%0", "%name")
    assert normal_form(renamed) == normal_form(left)
    assert normal_form(left.replace("{}]", "{?}]")) != normal_form(left)
