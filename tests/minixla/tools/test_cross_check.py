"""cross_check: agreement of correct programs, and planted errors found and named."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from minixla.tools import evaluators

generator = np.random.default_rng(0)


def random(*sizes, dtype="f4"):
    return generator.normal(size=sizes).astype(dtype)


def network(parameters, x, labels):
    hidden = mnp.tanh(x @ parameters["w"] + parameters["b"])
    return -(mx.nn.log_softmax(hidden) * labels).sum(axis=1).mean()


def jax_network(parameters, x, labels):
    hidden = jnp.tanh(x @ parameters["w"] + parameters["b"])
    return -(jax.nn.log_softmax(hidden) * labels).sum(axis=1).mean()


def loop(x):
    return mx.fori_loop(0, 5, lambda i, y: mnp.sin(y) * 1.5, x)


def branch(x):
    return mx.cond(x.sum() > 0, lambda y: mnp.exp(y), lambda y: y * y, x)


def several(x):
    return {"order": ops.top_k(x, 3), "large": x > 0, "total": mnp.cumsum(x), "best": x.max()}


def complex_numbers(z):
    return mnp.exp(z) * z.conj()


AGREEING = {
    "network": (network, [{"w": random(6, 4), "b": random(4)}, random(5, 6), np.eye(5, 4)]),
    "loop": (loop, [random(3)]),
    "branch": (branch, [random(3)]),
    "several results": (several, [random(9)]),
    "complex": (complex_numbers, [random(3, dtype="c8") + np.complex64(1j)]),
    "integers alone": (lambda n: n * n + 1, [np.arange(4, dtype=np.int32)]),
    "bfloat16": (lambda x: mnp.tanh(x).sum(), [jnp.asarray(random(8), jnp.bfloat16)]),
    "half": (lambda x: mnp.exp(x) / x.size, [random(8, dtype="f2")]),
    "a sum of many": (lambda x: x.sum(), [np.ones(50_000, "f4") * np.float32(0.1)]),
    "a Python number": (lambda x: x * x, [1.5]),
    "no elements": (lambda x: mnp.sin(x), [np.zeros((0, 3), "f4")]),
    "infinities": (lambda x: mnp.exp(x), [np.array([np.inf, -np.inf, np.nan, 1000], "f4")]),
    "zero but for rounding": (lambda x: mx.nn.softmax(x).sum(), [random(8)]),
    "a corner": (mx.nn.relu, [np.array([0.0, 1, -1], "f4")]),
    "a maximum attained twice": (lambda x: x.max(), [np.array([2.0, 1, 2], "f4")]),
    "no derivative here": (lambda x: mx.stop_gradient(x) * x, [random(3)]),
    "inside jit": (mx.jit(lambda x: mx.jit(mnp.tanh)(x) * 2), [random(3)]),
}


@pytest.mark.parametrize("name", AGREEING)
def test_evaluators_agree(name):
    report = mx.cross_check(AGREEING[name][0], *AGREEING[name][1])
    assert report.ok, report
    asked = {row.evaluator for row in report.rows if row.verdict != "not evaluated"}
    assert {"reference", "interpreter", "XLA"} <= asked


def test_64_bits():
    with jax.enable_x64(True):
        report = mx.cross_check(network, *AGREEING["network"][1][:1], random(5, 6), np.eye(5, 4))
        assert report.ok, report
        doubles = mx.cross_check(lambda x: mnp.log(x @ x), random(7, dtype="f8"))
    assert doubles.ok and doubles.rows[0].shape == "f64[]"


def test_against_a_jax_function():
    report = mx.cross_check(network, *AGREEING["network"][1], against=jax_network)
    assert report.ok, report
    rows = [row for row in report.rows if row.evaluator == "JAX"]
    assert [row.value for row in rows] == [
        "result",
        "tangent of result",
        "gradient of args[0]['b']",
        "gradient of args[0]['w']",
        "gradient of args[1]",
        "gradient of args[2]",
    ]


def test_another_jax_function_is_found():
    report = mx.cross_check(mnp.sin, random(3), against=jnp.cos)
    assert not report.ok
    bad = {row.evaluator for row in report.rows if row.verdict == "parts"}
    assert bad == {"JAX"}
    assert "the JAX function gives other values of result" in str(report)


def test_no_gradients():
    report = mx.cross_check(mnp.sin, random(3), gradients=False)
    assert {row.value for row in report.rows} == {"result"}


def line_of(function, text):
    """`file:line` of the line of a function that has the text."""
    lines, start = inspect.getsourcelines(function)
    number = next(start + index for index, line in enumerate(lines) if text in line)
    return f"test_cross_check.py:{number} ({function.__name__})"


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
def test_a_wrong_reference_rule(monkeypatch, function):
    monkeypatch.setattr(
        type(REGISTRY["Tanh"]), "reference", lambda self, x, **_: np.tanh(x) * x.dtype.type(1.01)
    )
    check_planted(function, ("reference rule",), gradients=False)


def test_a_reference_rule_that_is_wrong_in_one_precision(monkeypatch):
    def wrong(self, x, **_):
        return np.tanh(x) if x.dtype == np.float64 else np.tanh(x) + x.dtype.type(1e-3)

    monkeypatch.setattr(type(REGISTRY["Tanh"]), "reference", wrong)
    check_planted(planted, ("reference rule",), gradients=False)


@pytest.mark.parametrize("function", [planted, in_a_loop, in_a_branch], ids=lambda f: f.__name__)
def test_a_wrong_lowering(monkeypatch, function):
    def wrong(self, emit, operands, shapes, results, **_):
        return emit.operation("stablehlo.sine", operands, shapes, results)

    monkeypatch.setattr(type(REGISTRY["Tanh"]), "stablehlo", wrong)
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


@pytest.mark.parametrize("kind", ["reference", "lowering"])
@pytest.mark.parametrize("name", PLANTED)
def test_errors_of_many_operations_are_found(monkeypatch, name, kind):
    cls = type(REGISTRY[name])
    if kind == "reference":
        right = cls.reference
        wrong = lambda self, *x, **given: right(self, *x, **given) * np.float32(1.01)  # noqa: E731
        monkeypatch.setattr(cls, "reference", wrong)
    else:
        rule = cls.stablehlo

        def doubled(self, emit, operands, shapes, results, **given):
            (result,) = rule(self, emit, operands, shapes, results, **given)
            return emit.operation("stablehlo.add", [result] * 2, list(results) * 2, results)

        monkeypatch.setattr(cls, "stablehlo", doubled)
    report = mx.cross_check(PLANTED[name], random(3, 4), random(3, 4), gradients=False)
    assert not report.ok
    suspects = ("reference rule",) if kind == "reference" else ("StableHLO form",)
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == (cls.builder_name, suspects), report


def test_a_wrong_lowering_of_integers(monkeypatch):
    monkeypatch.setattr(type(REGISTRY["Max"]), "stablehlo_name", "minimum")
    report = mx.cross_check(lambda x, y: ops.max(x, y), np.arange(3), np.ones(3, int))
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == ("max", ("StableHLO form",))


def test_an_error_in_the_reverse_derivative_alone(monkeypatch):
    # Only the gradient of a slice pads.
    monkeypatch.setattr(
        type(REGISTRY["Pad"]),
        "reference",
        lambda self, x, value, *, padding_config: np.zeros(
            [
                size + sum(p)
                for size, p in zip(x.shape, [q[:2] for q in padding_config], strict=True)
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
    "jvp": ("jvp", lambda self, primals, tangents, result, **_: tangents[0] * 0.5),
    "vjp": ("vjp", lambda self, cotangent, operands, result, active, **_: [cotangent * 0.5]),
}


@pytest.mark.parametrize("rule", DERIVATIVES)
@pytest.mark.parametrize("against", [None, lambda x, y: jax_planted(x, y)], ids=["alone", "jax"])
def test_a_wrong_derivative(monkeypatch, rule, against):
    monkeypatch.setattr(type(REGISTRY["Tanh"]), *DERIVATIVES[rule])
    report = mx.cross_check(planted, random(3, 4), random(3, 4), against=against)
    assert not report.ok
    finding = next(each for each in report.findings if each.kind == "derivative")
    assert (finding.operation, finding.suspects) == ("tanh", ("derivative rule",))
    assert line_of(planted, "mnp.tanh") in str(finding.source)
    start = "tangent" if rule == "jvp" else "gradient"
    bad = {row.evaluator for row in report.rows if row.verdict == "parts"}
    assert bad == ({"finite differences"} if against is None else {"finite differences", "JAX"})
    assert all(row.value.startswith(start) for row in report.rows if row.verdict == "parts")


def jax_planted(x, y):
    return (jnp.tanh(jnp.exp(x * 0.25) + y) ** 2).sum(axis=1)


def test_a_wrong_rule_of_the_users():
    @mx.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 2 * primals[0] ** 2 * tangents[0]))
    report = mx.cross_check(lambda x: cube(x).sum(), random(3))
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.suspects) == ("derivative", ("custom rule",))


def cancelling(x):
    small = mnp.cos(x)
    difference = 1 - small
    return difference / x**2


def test_a_catastrophic_cancellation():
    report = mx.cross_check(cancelling, np.array([1e-3, 2e-3], "f4"), gradients=False)
    assert not report.ok
    assert {row.verdict for row in report.rows} == {"inaccurate"}
    (finding,) = report.findings
    assert (finding.kind, finding.operation) == ("cancellation", "sub")
    assert line_of(cancelling, "1 - small") in str(finding.source)
    assert "each instruction is right" in str(report)


def test_a_cancellation_in_double():
    with jax.enable_x64(True):
        report = mx.cross_check(cancelling, np.array([1e-6, 2e-6]), gradients=False)
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.operation) == ("cancellation", "sub")


def test_an_error_of_the_whole_program_alone(monkeypatch):
    right = evaluators.run_graph

    def wrong(graph, operands):
        results = right(graph, operands)
        is_whole = len(graph.outputs) == 1 and len(graph.instructions) == 2
        return [each * 1.5 for each in results] if is_whole else results

    monkeypatch.setattr(evaluators, "run_graph", wrong)
    report = mx.cross_check(lambda x: mnp.sin(mnp.exp(x)), random(3), gradients=False)
    assert [row.evaluator for row in report.rows if row.verdict == "parts"] == ["XLA"]
    (finding,) = report.findings
    assert (finding.kind, finding.suspects) == ("whole", ("XLA",))


def test_a_scan_is_followed_inside(monkeypatch):
    def wrong(self, emit, operands, shapes, results, **_):
        return emit.operation("stablehlo.sine", operands, shapes, results)

    def scanned(x):
        return ops.scan([x], [x[0]], lambda each, carry: [mnp.tanh(each), each + carry])

    monkeypatch.setattr(type(REGISTRY["Tanh"]), "stablehlo", wrong)
    report = mx.cross_check(scanned, random(4), gradients=False)
    assert report.findings[0].operation == "tanh"


def test_rounding_decides_an_integer():
    def decided(x):
        return mnp.floor(mnp.exp(mnp.log(x))).astype(np.int32)

    report = mx.cross_check(decided, np.arange(1, 200, dtype="f4"), gradients=False)
    assert not report.ok
    assert {each.kind for each in report.findings} == {"decision"}


def test_what_the_interpreter_cannot_do_is_no_failure():
    report = mx.cross_check(lambda x: ops.cholesky(x @ x.T + 5 * mnp.eye(3)), random(3, 3))
    assert report.ok, report
    notes = {row.note for row in report.rows if row.verdict == "not evaluated"}
    assert notes == {"StableHLO's interpreter does not know cholesky"}


ZEROS = np.array([0.0, -0.0], "f4")
GAPS = {
    "TOTALORDER": (ops.lt_total_order, [ZEROS, ZEROS[::-1].copy()]),
    "IRFFT of odd lengths": (lambda x: ops.fft(x, "IRFFT", (5,)), [random(3, dtype="c16")]),
    "fft of single precision": (lambda x: ops.fft(x, "FFT", (4,)), [random(4, dtype="c8")]),
    "adds the initial value twice": (
        lambda x, s: ops.select_and_scatter(x, ops.ge, (3,), (1,), [(0, 0)], s, 1.0, ops.add),
        [random(4), random(2)],
    ),
    "rounds after every addition": (
        lambda x: ops.reduce(x, jnp.bfloat16(0), ops.add, (0,)),
        [jnp.ones(600, jnp.bfloat16)],
    ),
}


@pytest.mark.parametrize("reason", GAPS)
def test_known_errors_of_the_interpreter_are_no_failures(reason):
    function, operands = GAPS[reason]
    with jax.enable_x64("IRFFT" in reason):
        report = mx.cross_check(function, *operands)
    assert report.ok, report
    (row,) = [r for r in report.rows if r.evaluator == "interpreter" and r.value == "result"]
    assert row.verdict == "not evaluated" and reason in row.note


def test_what_cannot_be_checked():
    with pytest.raises(mx.TransformError, match="side effects"):
        mx.cross_check(lambda x: x + ops.infeed(mx.Shape("f32", (3,))), random(3))
    with pytest.raises(mx.TransformError, match="instead of a function"):
        mx.cross_check(3, random(3))
    with pytest.raises(mx.TransformError, match="other results"):
        mx.cross_check(mnp.sin, random(3), against=lambda x: (x, x))
    report = mx.cross_check(lambda x: (mx.debug_print("x {x}", x=x), x * 2)[1], random(3))
    assert report.ok


def test_the_report_is_shown_in_every_form():
    report = mx.cross_check(cancelling, np.array([1e-3], "f4"), gradients=False)
    text, page, data = str(report), report._repr_html_(), report.as_dict()
    assert text == repr(report) and text.startswith("cross_check of cancelling: 3 of 3")
    assert page.startswith("<div>") and "inaccurate" in page and "#b00020" in page
    assert data["ok"] is False and len(data["rows"]) == 3
    assert data["findings"][0]["operation"] == "sub"


def test_progress_names_the_steps():
    steps = []
    mx.cross_check(mnp.sin, random(2), progress=steps.append)
    assert steps[0] == "tracing" and steps[-1] == "finite differences" and len(steps) == 5
