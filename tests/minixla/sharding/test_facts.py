"""Facts about passes and propagation hold, in each engine."""

from __future__ import annotations

import pytest

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass
from tests.minixla.sharding.facts import FACTS
from tests.oracles.shardy_text import normal_form, written


def _by_shardy(text, passes):
    return shardy_pass(text, passes)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_a_fact(fact):
    before = written(fact.before)
    if fact.refusal:
        with pytest.raises(MinixlaError, match=fact.refusal):
            _by_shardy(before, fact.passes)
    else:
        assert normal_form(_by_shardy(before, fact.passes)) == normal_form(written(fact.left()))
