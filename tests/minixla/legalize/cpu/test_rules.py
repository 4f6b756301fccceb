"""Each rule for XLA:CPU: XLA is wrong without the rule, and right with it.

Where a row says that XLA is right by now, XLA was fixed: delete the rule.
"""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
from minixla.legalize import disabled, rules_of
from tests.minixla.legalize.cpu.fault_rows import ROWS, Row
from tests.oracles import OracleCrash, OracleError, run_xla_optimized


def _same(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return len(found) == len(expected) and all(map(_equal, found, expected))


def _equal(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays are equal, with the signs of zeros; all NaN are one."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype.kind in "biu" or found.dtype.name.startswith(("int", "uint")):
        return bool((found == expected).all())
    left, right = found.astype(np.float64), expected.astype(np.float64)
    same = (left == right) & (np.signbit(left) == np.signbit(right))
    return bool((same | (np.isnan(left) & np.isnan(right))).all())


def _expected(row: Row) -> list[np.ndarray]:
    return list(map(np.asarray, mx.tree.leaves(mx.reference(row.program)(*row.arguments))))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.rule}: {row.name}")
def test_xla_is_wrong_without_the_rule(row: Row) -> None:
    with mx.enable_x64(True):
        graph, expected = mx.make_graph(row.program)(*row.arguments), _expected(row)
        assert _same(run_xla_optimized(graph.stablehlo("cpu"), row.arguments), expected)
        with disabled("cpu", row.rule):
            alone = graph.stablehlo("cpu")
        if row.dies:
            with pytest.raises((OracleCrash, OracleError)):
                run_xla_optimized(alone, row.arguments)
        else:
            found = run_xla_optimized(alone, row.arguments)
            assert not _same(found, expected), "XLA is right without the rule"


#: Crops were seen in windows after them; no program on record shows it on jaxlib 0.10.2.
NOT_SHOWN = {"windows_of_crops"}


def test_every_rule_has_a_row() -> None:
    assert set(rules_of("cpu")) - NOT_SHOWN == {row.rule for row in ROWS}


def test_every_rule_names_its_fault() -> None:
    for rule in rules_of("cpu").values():
        assert "XLA" in (rule.replace.__doc__ or ""), rule.name
