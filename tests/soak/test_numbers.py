"""The random search for wrong numbers finds planted faults, and shrinks what it finds."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import minixla.numpy as mnp
from tests.minixla.derivative_rows import FUNCTIONS
from tests.minixla.numpy import test_isolated_elements as isolated
from tests.soak.numbers import Derivatives, Isolated, cases


def test_cases_are_the_same_for_a_seed() -> None:
    assert list(islice(cases(3), 6)) == list(islice(cases(3), 6))
    assert next(cases(3)) != next(cases(4))


def test_a_wrong_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Derivatives("exp", "f32", (0.5, 9.0, -0.25))
    assert case.run() is None
    # Both types use the same function, so the planted fault must depend on rounding.
    monkeypatch.setitem(FUNCTIONS, "exp", lambda x: (mnp.exp(x) + 1e8 * (x > 5)) - 1e8 * (x > 5))
    assert "exp in f32: derivative 0 at 9.0" in str(case.run())
    assert case.shrunk().operands == (9.0,)


def test_an_element_that_spoils_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Isolated("diff", 0, float("nan"), 3)
    assert case.run() is None
    _, like = isolated.FUNCTIONS["diff"]
    spoiled = (lambda x: mnp.cumsum(mnp.diff(x)) - mnp.cumsum(mnp.diff(x)) + x[1:], like)
    monkeypatch.setitem(isolated.FUNCTIONS, "diff", spoiled)
    assert "diff: element 3 = nan" in str(case.run())
    assert case.shrunk() == case


@pytest.mark.full
def test_a_small_sample_agrees() -> None:
    assert not [found for case in islice(cases(0), 8) if (found := case.run())]
    assert np.isnan(isolated.BAD[0])
