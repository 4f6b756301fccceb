"""cross_check on programs with planted errors: each is found, and named with the user's line."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from minixla.tools import built_in_evaluators
from minixla.tools.evaluators import EVALUATORS
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.minixla.tools.planting import line_of, random_arrays, sine_form, wrong_tanh
from tests.selection import diagonal, quick_rows

random = random_arrays()


def planted(x, y):
    first = mnp.exp(x * 0.25)
    second = mnp.tanh(first + y)
    return (second * second).sum(axis=1)


def in_a_loop(x, y):
    def step(i, state):
        return mnp.tanh(state) + y

    return mx.fori_loop(0, 3, step, x)


def in_a_branch(x, y):
    return mx.cond(x.sum() < 1e6, lambda z: mnp.tanh(z) + y, lambda z: z, x)


@pytest.fixture
def plant(monkeypatch):
    """A function that changes rules of an operation."""

    def change(name, **rules):
        for rule, wrong in rules.items():
            monkeypatch.setattr(REGISTRY[name], rule, wrong)

    return change


def check_planted(function, suspects, text="mnp.tanh", operation="tanh", **options):
    report = mx.cross_check(function, random(3, 4), random(3, 4), **options)
    assert not report.ok
    finding = next(each for each in report.findings if each.kind == "rule")
    assert finding.operation == operation
    assert finding.suspects == suspects, report
    where = line_of(function, text)
    assert where.split(" (")[0] in (finding.source or ""), finding
    assert where.split(" (")[0] in str(report) and operation in str(report)
    assert finding.element is not None and {"in double", "reference"} <= set(finding.values)
    return report


@pytest.mark.parametrize("function", [planted, in_a_loop, in_a_branch], ids=lambda f: f.__name__)
def test_a_wrong_reference_rule(plant, function):
    plant("Tanh", reference=wrong_tanh)
    check_planted(function, ("reference rule",), gradients=False)


def test_a_reference_rule_that_is_wrong_in_one_precision(plant):
    def wrong(self, x):
        return np.tanh(x) if x.dtype == np.float64 else np.tanh(x) + x.dtype.type(1e-3)

    plant("Tanh", reference=wrong)
    check_planted(planted, ("reference rule",), gradients=False)


@pytest.mark.parametrize("function", [planted, in_a_loop, in_a_branch], ids=lambda f: f.__name__)
def test_a_wrong_lowering(plant, function):
    plant("Tanh", stablehlo=sine_form)
    check_planted(function, ("StableHLO form",), gradients=False)


# An operation's name, a function of two [3, 4] arrays that uses it, and how its results change.
PLANTED = {
    "Add": lambda x, y: x + y,
    "DotGeneral": lambda x, y: x @ y.T,
    "Reduce": lambda x, y: (x + y).sum(axis=0),
    "Exp": lambda x, y: mnp.exp(x) * y,
    "BroadcastInDim": lambda x, y: x + y[:, :1],
    "Transpose": lambda x, y: x.T @ y,
    "ConcatInDim": lambda x, y: mnp.concatenate([x, y]) * 2,
    "Select": lambda x, y: mnp.where(x > y, x, y) + 1,
    "Slice": lambda x, y: x[1:] * y[:2],
    "ReduceWindow": lambda x, y: mnp.cumsum(x * y, axis=1),
}


@pytest.mark.parametrize(("name", "rule"), diagonal([*PLANTED], ["reference", "stablehlo"]))
def test_errors_of_many_operations_are_found(plant, name, rule):
    suspect = {"reference": "reference rule", "stablehlo": "StableHLO form"}[rule]
    cls = REGISTRY[name]
    reference, form = cls.reference, cls.stablehlo

    def doubled(self, emit, operands, shapes, results, **given):
        (result,) = form(self, emit, operands, shapes, results, **given)
        return emit.operation("stablehlo.add", [result] * 2, list(results) * 2, results)

    wrong = {
        "reference": lambda self, *x, **given: reference(self, *x, **given) * np.float32(1.01),
        "stablehlo": doubled,
    }
    plant(name, **{rule: wrong[rule]})
    report = mx.cross_check(PLANTED[name], random(3, 4), random(3, 4), gradients=False)
    assert not report.ok
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == (cls.builder_name, (suspect,)), report


def test_a_wrong_lowering_of_integers(plant):
    plant("Max", stablehlo_name="minimum")
    report = mx.cross_check(lambda x, y: ops.max(x, y), np.arange(3), np.ones(3, int))
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == ("max", ("StableHLO form",))


def test_an_error_in_the_reverse_derivative_alone(monkeypatch):
    # Only the gradient of a slice pads.
    monkeypatch.setattr(
        REGISTRY["Pad"],
        "reference",
        lambda self, x, value: np.zeros(
            [
                size + sum(p)
                for size, p in zip(x.shape, [q[:2] for q in self.padding_config], strict=True)
            ],
            x.dtype,
        ),
    )

    def sliced(x):
        return mnp.sin(ops.slice(x, (1,), (3,)))

    report = mx.cross_check(sliced, random(5))
    assert all(row.verdict == "ok" for row in report.rows if row.value == "result")
    finding = next(each for each in report.findings if each.kind == "rule")
    assert (finding.program, finding.operation) == ("vjp", "pad")
    assert line_of(sliced, "ops.slice").split(" (")[0] in (finding.source or "")


DERIVATIVES = {
    "jvp": lambda self, primals, tangents, result: tangents[0] * 0.5,
    "vjp": lambda self, cotangent, operands, result, active: [cotangent * 0.5],
}


@pytest.mark.parametrize("rule", DERIVATIVES)
@pytest.mark.parametrize("against", [None, lambda x, y: jax_planted(x, y)], ids=["alone", "jax"])
def test_a_wrong_derivative(plant, rule, against):
    plant("Tanh", **{rule: DERIVATIVES[rule]})
    report = mx.cross_check(planted, random(3, 4), random(3, 4), against=against)
    assert not report.ok
    finding = next(each for each in report.findings if each.kind == "derivative")
    assert (finding.operation, finding.suspects) == ("tanh", ("derivative rule",))
    assert line_of(planted, "mnp.tanh") in str(finding.source)
    start = "tangent" if rule == "jvp" else "gradient"
    bad = {row.evaluator for row in report.rows if row.verdict == "parts"}
    assert bad == ({"finite differences"} if against is None else {"finite differences", "JAX"})
    assert all(row.value.startswith(start) for row in report.rows if row.verdict == "parts")


@pytest.mark.parametrize("function", [in_a_loop, in_a_branch], ids=lambda f: f.__name__)
def test_a_wrong_derivative_inside(plant, function):
    plant("Tanh", jvp=DERIVATIVES["jvp"])
    report = mx.cross_check(function, random(3, 4), random(3, 4))
    finding = next(each for each in report.findings if each.kind == "derivative")
    assert (finding.operation, finding.suspects) == ("tanh", ("derivative rule",))
    assert line_of(function, "mnp.tanh").split(" (")[0] in str(finding.source)


def jax_planted(x, y):
    return (jnp.tanh(jnp.exp(x * 0.25) + y) ** 2).sum(axis=1)


def test_a_wrong_reference_rule_is_listed_once(plant):
    # Wrong in the function, in both derivatives and in difference quotients.
    plant("Tanh", reference=wrong_tanh)
    report = mx.cross_check(lambda x, y: planted(x, mnp.tanh(y)), random(3, 4), random(3, 4))
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == ("tanh", ("reference rule",)), report
    assert "; also at " in finding.explanation
    assert {row.value.split()[0] for row in report.rows if row.verdict == "parts"} == {
        "result",
        "tangent",
        "gradient",
    }


def test_different_errors_are_listed_each(plant):
    plant("Tanh", jvp=DERIVATIVES["jvp"])
    plant("Exp", jvp=DERIVATIVES["jvp"])
    report = mx.cross_check(planted, random(3, 4), random(3, 4))
    found = [(each.operation, each.suspects) for each in report.findings]
    assert found == [("exp", ("derivative rule",)), ("tanh", ("derivative rule",))]


def test_a_wrong_reference_rule_is_no_wrong_derivative(plant):
    plant("Tanh", reference=wrong_tanh)
    plant("Exp", reference=lambda self, x: np.exp(x) * x.dtype.type(1.01))
    report = mx.cross_check(planted, random(3, 4), random(3, 4))
    found = [(each.operation, each.suspects) for each in report.findings]
    assert found == [("exp", ("reference rule",)), ("tanh", ("reference rule",))]


def with_tanh(rule):
    """An evaluator that has a tanh of its own."""

    def run(graph, operands):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(REGISTRY["Tanh"], "reference", rule)
            return list(map(np.asarray, reference_graph(graph, operands)))

    return run


def right_rule(self, x):
    return np.tanh(x)


# Who has another tanh, and who is named: one out of line, or what the others have in common.
OUT_OF_LINE = {
    "the reference": ({"reference"}, ("reference rule",)),
    "the interpreter": ({"interpreter"}, ("interpreter",)),
    "XLA": ({"XLA"}, ("XLA",)),
    "the user's": ({"mine"}, ("mine",)),
    "both who read StableHLO": ({"StableHLO form"}, ("StableHLO form",)),
    "XLA and the user's": ({"XLA", "mine"}, ("XLA", "mine")),
    "two against two": (
        {"interpreter", "mine"},
        ("reference rule", "XLA", "interpreter", "mine"),
    ),
    "the StableHLO form and the user's": ({"StableHLO form", "mine"}, ("StableHLO form", "mine")),
}


@pytest.mark.parametrize("who", OUT_OF_LINE)
def test_who_is_out_of_line_is_named(monkeypatch, plant, who):
    wrong, suspects = OUT_OF_LINE[who]
    if "reference" in wrong:
        plant("Tanh", reference=wrong_tanh)
    if "StableHLO form" in wrong:
        plant("Tanh", stablehlo=sine_form)
    for name, each in EVALUATORS.items():
        if name in wrong:
            monkeypatch.setitem(EVALUATORS, name, each._replace(function=with_tanh(wrong_tanh)))
    mine = with_tanh(wrong_tanh if "mine" in wrong else right_rule)
    check_planted(planted, suspects, gradients=False, evaluators={"mine": mine})


def test_a_wrong_tanh_of_the_users():
    @mx.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 2 * primals[0] ** 2 * tangents[0]))
    report = mx.cross_check(lambda x: cube(x).sum(), random(3))
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.suspects) == ("derivative", ("custom rule",))


def test_a_wrong_reverse_rule_of_the_users():
    @mx.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, cotangent: (2 * x * x * cotangent,))
    report = mx.cross_check(lambda x: (cube(x) + cube(2 * x)).sum(), random(3))
    assert not report.ok
    bad = {(row.value, row.evaluator) for row in report.rows if row.verdict == "parts"}
    assert bad == {("gradient of args[0]", "finite differences")}
    (finding,) = report.findings
    assert (finding.kind, finding.suspects) == ("derivative", ("custom rule",))
    assert "reverse derivative" in finding.explanation


def test_an_error_of_the_whole_program_alone(monkeypatch):
    right = built_in_evaluators.run_graph

    def wrong(graph, operands):
        results = right(graph, operands)
        is_whole = len(graph.outputs) == 1 and len(graph.instructions) == 2
        return [each * 1.5 for each in results] if is_whole else results

    monkeypatch.setattr(built_in_evaluators, "run_graph", wrong)
    report = mx.cross_check(lambda x: mnp.sin(mnp.exp(x)), random(3), gradients=False)
    assert [row.evaluator for row in report.rows if row.verdict == "parts"] == ["XLA"]
    (finding,) = report.findings
    assert (finding.kind, finding.suspects) == ("compiler", ("XLA",))


def test_a_scan_is_followed_inside(plant):
    def scanned(x):
        return ops.scan([x], [x[0]], lambda each, carry: [mnp.tanh(each), each + carry])

    plant("Tanh", stablehlo=sine_form)
    report = mx.cross_check(scanned, random(4), gradients=False)
    assert report.findings[0].operation == "tanh"


@pytest.fixture
def xla_is_wrong_as_a_whole(monkeypatch):
    """Plant an error in programs of several instructions: XLA rolls each array."""
    right = built_in_evaluators.run_graph

    def wrong(graph, operands):
        results = right(graph, operands)
        is_alone = len([step for step in graph.instructions if step.operands]) <= 1
        return results if is_alone else [np.roll(each, 1) for each in results]

    monkeypatch.setattr(built_in_evaluators, "run_graph", wrong)


INTEGERS, FLOATS = np.int8([12, -7, 20, 15, 11]), np.float32([0.1, -2.5, 1e30, 3.25, 7])
# Programs in which nothing is rounded.
EXACT = {
    "integers": (lambda i: i * i + i // 3, INTEGERS),
    "64 bits": (lambda i: (i * 3) ^ i, INTEGERS.astype("i8") * 10**17),
    "booleans": (lambda i: (i > 3) & (i % 2 == 0), INTEGERS),
    "bits of floats": (
        lambda x: ops.bitcast_convert_type(x, "s32") >> ops.constant(np.full(5, 3)),
        FLOATS,
    ),
    "floats that are moved": (lambda x: mnp.concatenate([x[::-1][1:], x[:1]]), FLOATS),
    "moved in double": (lambda x: x[::-1][mnp.array([0, 2, 1, 3, 4])], FLOATS.astype("f8")),
    "moved complex": (lambda x: mnp.stack([x, -x])[:, ::-1][0], FLOATS + 1j * FLOATS[::-1]),
    "selected floats": (lambda x: mnp.where(x > 1, -x, mnp.abs(x)), FLOATS),
    "narrow floats": (lambda x: mnp.maximum(x, -x)[::-1], FLOATS.astype(mx.numpy.bfloat16)),
    "an order": (lambda x: mnp.argsort(-x), FLOATS),
    "a sort": (lambda x: mnp.sort(x)[::-1], FLOATS),
    "the largest": (lambda x: mnp.argmax(x) + mnp.argmin(x) + mnp.arange(3), FLOATS),
    "whole numbers as floats": (lambda i: mnp.cumsum(i.astype(np.float32)) - 3, INTEGERS),
    "floats compared": (lambda x: (x > 1).astype(np.int32) * mnp.arange(5), FLOATS),
    "floats truncated": (lambda x: mnp.floor(x).astype(np.int32)[::-1], FLOATS[[0, 1, 3, 4]]),
    "a loop": (
        lambda i: mx.fori_loop(0, 3, lambda k, x: x[::-1] + k.astype(x.dtype), i)[::-1],
        INTEGERS,
    ),
    "a loop of floats": (lambda x: mx.fori_loop(0, 3, lambda k, x: mnp.roll(x, 1), -x), FLOATS),
    "a branch": (lambda x: mx.cond(x[0] > 0, lambda x: x[::-1], lambda x: -x, x) * 1, FLOATS),
}


@pytest.mark.parametrize("name", quick_rows(EXACT, [*EXACT][::3]))
def test_rounding_is_not_blamed_where_nothing_is_rounded(name, xla_is_wrong_as_a_whole):
    function, argument = EXACT[name]
    with jax.enable_x64(argument.dtype.itemsize > 4):
        report = mx.cross_check(function, argument, gradients=False)
    bad = [row for row in report.rows if row.verdict == "parts"]
    assert {row.evaluator for row in bad} == {"XLA"}, report
    assert not any("rounding" in row.note for row in report.rows)
    assert {each for finding in report.findings for each in finding.suspects} == {"XLA"}, report
    assert {finding.kind for finding in report.findings} == {"compiler"}


def partly_rounded(i, x):
    is_small = i * i < 100
    return mnp.where(is_small, mnp.exp(x), 0.5 * mnp.exp(x))


def test_the_first_operation_without_rounding_is_named(xla_is_wrong_as_a_whole):
    report = mx.cross_check(partly_rounded, INTEGERS, np.float32([1, 2, 3, 4, 5]), gradients=False)
    (finding,) = report.findings
    assert not report.ok and finding.suspects == ("XLA",)
    assert finding.operation == "mul" and line_of(partly_rounded, "i * i") in str(finding.source)
