"""Each rule for XLA:CPU: XLA is wrong without the rule, and right with it.

If a row fails because XLA is right, XLA was fixed: delete the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.legalize import disabled, rules_of
from tests.minixla.legalize.cpu import speed_rows
from tests.minixla.legalize.cpu.fault_rows import ROWS, Row
from tests.oracles import OracleCrash, OracleError, run_xla_optimized
from tests.selection import unless


def _same(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return len(found) == len(expected) and all(map(_equal, found, expected))


def _equal(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays are equal, including signs of zeros; all NaN are equal."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype.kind in "biu" or found.dtype.name.startswith(("int", "uint")):
        return bool((found == expected).all())
    if found.dtype.kind == "c":
        part = f"f{found.dtype.itemsize // 2}"
        return _equal(found.view(part), expected.view(part))
    left, right = found.astype(np.float64), expected.astype(np.float64)
    same = (left == right) & (np.signbit(left) == np.signbit(right))
    return bool((same | (np.isnan(left) & np.isnan(right))).all())


def _expected(row: Row) -> list[np.ndarray]:
    return list(map(np.asarray, mx.tree.leaves(mx.reference(row.program)(*row.arguments))))


def _rows() -> Iterator[Any]:
    """`make test` runs two rows for each rule, and one of those that end a process."""
    counts: Counter[tuple[str, bool]] = Counter()
    for row in ROWS:
        counts[row.rule, row.dies] += 1
        is_quick = counts[row.rule, row.dies] <= (1 if row.dies else 2)
        yield pytest.param(row, id=f"{row.rule}: {row.name}", marks=unless(is_quick))


@pytest.mark.parametrize("row", list(_rows()))
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


#: Programs of scalars, for rules that read the numbers of constants.
SCALARS = {
    "power": (lambda x: ops.pow(x, ops.constant(np.int8(100))), np.int8(3)),
    "small power": (lambda x: ops.pow(x, ops.constant(np.int8(3))), np.int8(3)),
    "quotient": (lambda x: ops.div(x, ops.constant(np.int8(0))), np.int8(3)),
    "large divisor": (lambda x: ops.div(x, ops.constant(np.float32(2e38))), np.float32(3e38)),
    "factors": (
        lambda x: ops.mul(ops.mul(x, np.float32(1e30)), np.float32(1e30)),
        np.float32(1e-30),
    ),
    "terms": (lambda x: ops.sub(ops.add(x, np.float32(1e8)), np.float32(1e8)), np.float32(3)),
    "clz": (lambda x: ops.add(ops.clz(ops.constant(np.int32(-1))), x), np.int32(1)),
    "start": (
        lambda x: ops.dynamic_slice(np.arange(7), [ops.constant(np.uint32(2**32 - 1))], (3,)) + x,
        np.int32(0),
    ),
}


@pytest.mark.parametrize("program, operand", SCALARS.values(), ids=SCALARS)
def test_scalars(program: Any, operand: Any) -> None:
    text = mx.make_graph(program)(operand).stablehlo("cpu")
    expected = np.asarray(mx.reference(program)(operand))
    assert _same(run_xla_optimized(text, [operand]), [expected])


@pytest.mark.parametrize("rule", speed_rows.ROWS)
def test_rules_for_speed_change_the_program_and_not_the_results(rule: str) -> None:
    program, operands = speed_rows.ROWS[rule]
    graph = mx.make_graph(program)(*operands)
    text = graph.stablehlo("cpu")
    with disabled("cpu", rule):
        alone = graph.stablehlo("cpu")
    assert text != alone
    pairs = zip(run_xla_optimized(text, operands), run_xla_optimized(alone, operands), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-5)


#: Rules that no row shows, and the reason.
NOT_SHOWN = {
    "windows_of_crops": "no known program shows the reported fault on jaxlib 0.10.2",
    "sorts_by_any_order": "XLA:CPU reads outside of the array, with any result",
    "convolutions_by_kernel": "test_convolution_kernel.py",
    "broadcasts_by_permutations": "it takes several devices: tests/minixla_ops/collectives",
    "reductions_by_gathers": "it takes several devices: tests/minixla_ops/collectives",
    "collectives_of_two_bits": "it takes several devices: tests/minixla_ops/collectives",
}


def test_every_rule_has_a_row() -> None:
    rows = {*(row.rule for row in ROWS), *speed_rows.ROWS}
    assert set(rules_of("cpu")) - set(NOT_SHOWN) == rows


def test_every_rule_names_its_fault() -> None:
    for rule in rules_of("cpu").values():
        assert "XLA" in (rule.replace.__doc__ or ""), rule.name
