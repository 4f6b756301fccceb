"""XLA in a separate process: errors, dead processes and infinite loops are outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.legalize import disabled
from minixla.tools import xla_process
from minixla.tools.evaluators import NotEvaluated
from minixla.tools.program_edits import Program
from minixla.tools.xla_differences import Settings, difference
from minixla.tools.xla_process import run_xla


def _doubled() -> None:
    x = np.float32([1, 2])
    outcome = run_xla(mx.make_graph(lambda x: x * 2)(x).stablehlo("cpu"), [x])
    assert outcome.ending is None
    np.testing.assert_array_equal(outcome.results, [[2, 4]])


def test_after_a_death_the_next_program_runs() -> None:
    def program() -> Any:
        return ops.div(ops.constant(np.int32([5])), ops.constant(np.int32([0])))

    with disabled("cpu", "integer_division_by_zero"):
        text = mx.make_graph(program)().stablehlo("cpu")
    for _ in range(2):
        outcome = run_xla(text, [])
        assert (outcome.ending, outcome.message) == ("died", "the process ended with SIGFPE")
        _doubled()


def test_after_an_infinite_loop_the_next_program_runs() -> None:
    text = mx.make_graph(lambda x: mx.while_loop(lambda y: y < 1, lambda y: mnp.sin(y), x))(
        np.float32(0)
    ).stablehlo("cpu")
    outcome = run_xla(text, [np.float32(0)], seconds=1)
    assert (outcome.ending, outcome.message) == ("hangs", "no result after 1 seconds")
    _doubled()


def test_an_error_is_an_outcome() -> None:
    assert run_xla("no module", []).ending == "error"
    _doubled()


def test_a_process_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_process, "_helper", xla_process.Helper("-m", "minixla.tools.missing"))
    with pytest.raises(NotEvaluated, match="the process that runs XLA ended with status 1"):
        run_xla("", [])


@pytest.mark.parametrize("exact", [False, True])
def test_bits_count_only_if_asked_for(exact: bool) -> None:
    program = Program(mx.make_graph(lambda: ops.sign(ops.constant(np.float32([-0.0]))))(), ())
    settings = Settings("cpu", frozenset({("cpu", "sign_of_zero")}), exact)
    found = difference(program, settings)
    assert (found and found.kind) == ("bits" if exact else None)


def test_functions_that_round_freely_have_no_exact_result() -> None:
    x = np.linspace(0, 9, 1000, dtype="f4")
    program = Program(mx.make_graph(lambda x: mnp.tanh(mnp.sin(x)) * x)(x), (x,))
    assert difference(program, Settings(exact=True)) is None


def test_casts_out_of_range_do_not_count() -> None:
    x = np.float32([3e9, np.nan])
    program = Program(mx.make_graph(lambda x: x.astype("int8"))(x), (x,))
    assert difference(program, Settings(exact=True)) is None
