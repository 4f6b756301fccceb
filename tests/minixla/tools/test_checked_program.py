"""cross_check: verdicts and `ok` for NaN, custom rules, and backends that do not run."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.tools.evaluators import EVALUATORS
from tests.minixla.tools.planting import line_of

bf16 = ml_dtypes.bfloat16
f32, f16, f64 = np.float32, np.float16, np.float64


def where_sqrt(x):
    return mnp.where(x > 0, mnp.sqrt(x), 0.0).sum()


SPECIAL = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf}


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e5m2, bf16, f16, f32, f64, np.complex64], ids=str
)
@pytest.mark.parametrize("sizes", [(), (3,)], ids=["scalar", "vector"])
@pytest.mark.parametrize("special", SPECIAL)
def test_a_number_is_never_an_infinity_or_nan(special, sizes, dtype):
    def wrong(graph, operands):
        result = np.array(operands[0])
        result[(0,) * len(sizes)] = SPECIAL[special]
        return [result] * len(graph.outputs)

    with jax.enable_x64(dtype is f64):
        for value in (1.0, np.inf if special == "-inf" else -np.inf):
            x = np.full(sizes, value, dtype)
            options = {"evaluators": {"wrong": wrong}, "gradients": False}
            report = mx.cross_check(lambda x: ops.neg(ops.neg(x)), x, **options)
            verdicts = {row.evaluator: row.verdict for row in report.rows}
            assert not report.ok and verdicts.pop("wrong") in ("parts", "not finite"), report
            assert set(verdicts.values()) <= {"ok", "not run"}


def test_one_backend_is_not_enough(monkeypatch):
    def gap(graph, operands):
        raise NotImplementedError("a gap")  # how an evaluator refuses a program

    monkeypatch.setitem(EVALUATORS, "XLA", EVALUATORS["XLA"]._replace(function=gap))
    assert mx.cross_check(ops.tanh, f32([1])).ok
    monkeypatch.setitem(EVALUATORS, "interpreter", EVALUATORS["interpreter"]._replace(function=gap))
    report = mx.cross_check(ops.tanh, f32([1]))
    assert not report.ok and "fewer than two backends evaluated result" in str(report)


@mx.custom_vjp
def cube(x):
    return x**3


def cube_backward(x, cotangent):
    return (2 * x * x * cotangent,)


cube.defvjp(lambda x: (x**3, x), cube_backward)


def test_a_custom_rule_is_named_with_its_line():
    report = mx.cross_check(lambda x: cube(x).sum(), f32([1, 2]))
    (finding,) = report.findings
    assert finding.suspects == ("custom rule",)
    place = line_of(cube_backward, "def").split(" (")[0]
    assert "and cube_backward at" in finding.explanation and place in finding.explanation
    assert "cube at" in finding.explanation


def test_a_rule_that_raises_fails_the_check():
    @mx.custom_vjp
    def function(x):
        return x**3

    def backward(x, cotangent):
        raise ValueError("not written yet")

    function.defvjp(lambda x: (x**3, x), backward)
    report = mx.cross_check(lambda x: function(x).sum(), f32([1, 2]))
    assert not report.ok
    (row,) = [row for row in report.rows if row.verdict == "fails"]
    assert row.note == "ValueError: not written yet"
    (finding,) = report.findings
    assert finding.kind == "derivative" and "(test_a_rule" in str(finding.source)


def test_a_jax_function_has_the_dtypes_of_the_user():
    x = np.ones((2, 2), f32)
    ours, theirs = lambda x: (x * mnp.ones(2)).sum(), lambda x: (x * jax.numpy.ones(2)).sum()
    assert mx.cross_check(ours, x, against=theirs).ok
    with jax.enable_x64(True):
        assert mx.cross_check(ours, x.astype(f64), against=theirs).ok


def test_the_advice_names_the_arm_of_where():
    report = mx.cross_check(where_sqrt, f32([0, 4]))
    (finding,) = report.findings
    assert "on_true of the select" in finding.advice and "sqrt(where(c, x, 1))" in finding.advice
    assert line_of(where_sqrt, "mnp.where").split(" (")[0] in finding.advice
    assert finding.advice in str(report)
