"""cross_check: agreement of correct programs, lost digits, and reports."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from tests.minixla.tools.planting import line_of, random_arrays, sine_form

random = random_arrays()


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
    "denormal numbers": (lambda x: x * 0.5, [np.full(3, 2e-38, "f4")]),
    "overflow": (lambda x: mnp.exp(x).sum(), [np.full(3, 88.7, "f4")]),
    # Where a step of difference quotients is a few units in the last place.
    "large arguments": (lambda x: (mnp.sin(x), x - 1e10), [np.array([1e4, 1e7, 1e10], "f4")]),
    "a large argument beside small ones": (lambda x: x * x, [np.array([1e10, 1, -1e-3], "f4")]),
    "real and complex": (lambda x, z: (x * z, mnp.sin(x)), [random(3), random(3) * (1 + 2j)]),
    "a collective": (mx.vmap(lambda x: mx.psum(x, "i"), axis_name="i"), [random(2, 3)]),
    "inside jit": (mx.jit(lambda x: mx.jit(mnp.tanh)(x) * 2), [random(3)]),
}


@pytest.mark.parametrize("name", AGREEING)
def test_evaluators_agree(name):
    report = mx.cross_check(AGREEING[name][0], *AGREEING[name][1])
    assert report.ok, report
    asked = {row.evaluator for row in report.rows if row.verdict != "not run"}
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
    assert "the JAX function returns other values of result" in str(report)


def test_no_gradients():
    report = mx.cross_check(mnp.sin, random(3), gradients=False)
    assert {row.value for row in report.rows} == {"result"}


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


def test_rounding_decides_an_integer():
    def decided(x):
        return mnp.floor(mnp.exp(mnp.log(x))).astype(np.int32)

    report = mx.cross_check(decided, np.arange(1, 200, dtype="f4"), gradients=False)
    assert not report.ok
    assert {each.kind for each in report.findings} == {"decision"}


def test_what_the_interpreter_cannot_do_is_no_failure():
    report = mx.cross_check(lambda x: ops.cholesky(x @ x.T + 5 * mnp.eye(3)), random(3, 3))
    assert report.ok, report
    notes = {row.note for row in report.rows if row.verdict == "not run"}
    assert notes == {"StableHLO's interpreter does not support cholesky"}


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
    assert row.verdict == "not run" and reason in row.note


def test_what_cannot_be_checked():
    with pytest.raises(mx.TransformError, match="side effects"):
        mx.cross_check(lambda x: x + ops.infeed(mx.Shape("f32", (3,))), random(3))
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    placed = mx.jit(lambda x: x * 2, in_shardings=place)
    with pytest.raises(mx.TransformError, match="device_placement runs on several devices"):
        mx.cross_check(lambda x: placed(x), random(1, 3))
    with pytest.raises(mx.TransformError, match="expected a function"):
        mx.cross_check(3, random(3))
    with pytest.raises(mx.TransformError, match="differ in number, type or shape"):
        mx.cross_check(mnp.sin, random(3), against=lambda x: (x, x))
    report = mx.cross_check(lambda x: (mx.debug_print("x {x}", x=x), x * 2)[1], random(3))
    assert report.ok


@pytest.mark.parametrize("options", [{"against": 3}, {"progress": "dots"}])
def test_what_is_no_function_is_refused(options):
    with pytest.raises(mx.TransformError, match="cross_check: expected a function"):
        mx.cross_check(mnp.sin, np.float32([1, 2]), **options)


def test_a_function_mapped_over_devices():
    mapped = mx.pmap(lambda x: mx.psum(mnp.sin(x), "i") * x, "i")
    assert mx.cross_check(mapped, np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)).ok


def test_the_report_is_shown_in_every_form():
    report = mx.cross_check(cancelling, np.array([1e-3], "f4"), gradients=False)
    text, page, data = str(report), report._repr_html_(), report.as_dict()
    assert text == repr(report) and text.startswith("cross_check of cancelling: 3 of 3")
    assert page.startswith("<div>") and "inaccurate" in page and "#b00020" in page
    assert data["ok"] is False and len(data["rows"]) == 3
    assert data["findings"][0]["operation"] == "sub"


@mx.custom_vjp
def clipped(x):
    return mnp.tanh(x)


clipped.defvjp(
    lambda x: (clipped(x), clipped(x)),
    lambda y, cotangent: (cotangent * (1 - y * y),),
)


@jax.custom_vjp
def jax_clipped(x):
    return jnp.tanh(x)


jax_clipped.defvjp(
    lambda x: (jnp.tanh(x), jnp.tanh(x)),
    lambda y, cotangent: (cotangent * (1 - y * y),),
)


@pytest.mark.parametrize("against", [None, lambda x: jax_clipped(x).sum()], ids=["alone", "JAX"])
def test_what_has_a_reverse_derivative_alone_is_checked_in_reverse(against):
    report = mx.cross_check(lambda x: clipped(x).sum(), random(3), against=against)
    assert report.ok and not report.findings, report
    verdicts = {(row.value, row.evaluator): row.verdict for row in report.rows}
    others = [] if against is None else ["JAX"]
    for evaluator in ["reference", "interpreter", "XLA", "finite differences", *others]:
        assert verdicts["gradient of args[0]", evaluator] == "ok"
    (row,) = [row for row in report.rows if row.value.startswith("tangent")]
    assert (row.evaluator, row.verdict, row.shape) == ("all", "not run", "f32[]")
    assert "can't apply forward-mode autodiff" in row.note
    assert row.note in str(report)


def test_a_jax_function_without_a_forward_derivative():
    report = mx.cross_check(mnp.tanh, random(3), against=jax_clipped)
    assert report.ok, report
    rows = {row.value: row for row in report.rows if row.evaluator == "JAX"}
    assert rows["gradient of args[0]"].verdict == "ok"
    assert rows["tangent of result"].verdict == "not run"
    assert "forward-mode" in rows["tangent of result"].note


def test_what_has_no_derivative_at_all():
    ops.register_custom_call("tests.doubled", lambda x: np.float32(x * 2))

    def doubled(x):
        return ops.custom_call("tests.doubled", [x], mx.shape_of(x))

    report = mx.cross_check(doubled, random(3))
    assert report.ok and {row.value for row in report.rows if row.verdict == "ok"} == {"result"}
    missing = {row.value: row.note for row in report.rows if row.evaluator == "all"}
    assert missing.keys() == {"tangent of result", "gradient of args[0]"}
    assert "custom_call: the operation has no derivative" in missing["gradient of args[0]"]


def by_numpy(graph, operands):
    """An evaluator of elementary programs that owes nothing to the rules that are checked."""
    values = dict(zip(map(id, graph.inputs), operands, strict=True))
    functions = {"tanh": np.tanh, "mul": np.multiply, "add": np.add}
    for step in graph.instructions:
        if step.op.builder_name not in functions:
            raise NotImplementedError(f"{step.op.builder_name} is not known")
        given = [values[id(value)] for value in step.operands]
        values[id(step.results[0])] = functions[step.op.builder_name](*given)
    return [values[id(value)] for value in graph.outputs]


def test_an_evaluator_of_the_users():
    def function(x):
        return mnp.tanh(x) * x

    report = mx.cross_check(function, random(3), evaluators={"NumPy": by_numpy})
    assert report.ok, report
    verdicts = {
        row.value: (row.verdict, row.note) for row in report.rows if row.evaluator == "NumPy"
    }
    assert verdicts["result"] == ("ok", "")
    assert verdicts["gradient of args[0]"] == ("not run", "constant is not known")


BAD_EVALUATORS = {
    "a taken name": ({"XLA": by_numpy}, "the name 'XLA' of an evaluator is reserved or in use"),
    "no function": ({"mine": 3}, "evaluator 'mine' is not a function: 3"),
    "another type": (
        {"mine": lambda graph, operands: [np.zeros(3, "f8")]},
        r"the results of evaluator 'mine' do not match the graph\.\n"
        r"  evaluator: f64\[3\]\n  graph: f32\[3\]",
    ),
    "another number": ({"mine": lambda graph, operands: []}, r"evaluator: \n  graph: f32\[3\]"),
}


@pytest.mark.parametrize("name", BAD_EVALUATORS)
def test_bad_evaluators_of_the_users(name):
    evaluators, message = BAD_EVALUATORS[name]
    with pytest.raises(mx.TransformError, match=message):
        mx.cross_check(mnp.sin, random(3), evaluators=evaluators)


def test_the_users_own_errors_are_the_users():
    def failing(graph, operands):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        mx.cross_check(mnp.sin, random(3), evaluators={"mine": failing})


def compiled_by(function):
    """How many programs XLA compiles while a function runs."""
    event, count = "/jax/core/compile/backend_compile_duration", 0

    def listen(name, duration, **_):
        nonlocal count
        count += name == event

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        function()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return count


# Small ones of their own: where rounding adds up, a check compiles more to find out where.
FEW_LAYERS = [0.3 * each for each in (random_arrays()(3, 5), random_arrays()(5, 5))]


def layers(x, w):
    for _ in range(4):
        x = mnp.tanh(x @ w)
    return x


def loop_of_layers(x, w):
    return mx.fori_loop(0, 5, lambda i, x: mnp.tanh(x @ w), x)


@pytest.mark.parametrize("function", [layers, loop_of_layers], ids=lambda f: f.__name__)
def test_a_check_compiles_each_program_once(function):
    # The function, its two derivatives, and nothing for arguments.
    assert compiled_by(lambda: mx.cross_check(function, *FEW_LAYERS)) == 3


# Three programs as above, the function with all its values, and tanh alone; of the loop also its
# condition and its body with all their values.
PROGRAMS_OF_A_SEARCH = {"layers": 5, "loop_of_layers": 7}


@pytest.mark.parametrize("function", [layers, loop_of_layers], ids=lambda f: f.__name__)
def test_a_search_compiles_each_program_once(monkeypatch, function):
    monkeypatch.setattr(REGISTRY["Tanh"], "stablehlo", sine_form)
    reports = []

    def check():
        return reports.append(mx.cross_check(function, *FEW_LAYERS))

    count = compiled_by(check)
    assert [finding.operation for finding in reports[0].findings] == ["tanh"]
    assert count == PROGRAMS_OF_A_SEARCH[function.__name__]


def test_progress_names_the_steps():
    steps = []
    mx.cross_check(mnp.sin, random(2), progress=steps.append)
    assert [step for step in steps if ":" not in step] == [
        "tracing",
        "the function",
        "the forward derivative",
        "the reverse derivative",
        "finite differences",
    ]
    assert "the reverse derivative: XLA" in steps


MESH = mx.sharding.Mesh(jax.devices()[:4], ("a", "b"), shape=(2, 2))
SPEC = jax.sharding.PartitionSpec


def test_a_program_for_a_mesh_is_compared_with_one_device():
    rows, columns = SPEC("a", "b"), SPEC(None, "b")
    product = mx.jit(
        lambda x, w: mx.numpy.tanh(mx.sharding.constrain(x @ w, rows)),
        mesh=MESH,
        in_shardings=(rows, columns),
    )
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    report = mx.cross_check(product, x, x.T)
    assert report.ok, report
    asked = {row.evaluator for row in report.rows if row.verdict == "ok"}
    assert {"reference", "interpreter", "XLA", "XLA, one device"} <= asked


def test_a_manual_computation_is_compared_on_devices_and_in_numpy():
    product = mx.shard_map(
        lambda x, w: mx.psum(x @ w, "b"),
        mesh=MESH,
        in_specs=(SPEC("a", "b"), SPEC("b")),
        out_specs=SPEC("a"),
    )
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    report = mx.cross_check(product, x, x.T)
    assert report.ok, report
    asked = {row.evaluator for row in report.rows if row.verdict == "ok"}
    assert {"reference", "XLA"} <= asked
    notes = {row.evaluator: row.note for row in report.rows if row.verdict != "ok"}
    assert "manual_computation" in notes["interpreter"]
    assert notes["XLA, one device"] == "one device cannot run a manual computation"


def test_a_mesh_of_more_devices_than_there_are_is_not_asked():
    large = mx.sharding.Mesh(None, ("a",), (1000,))
    report = mx.cross_check(
        lambda x: mx.sharding.constrain(x * 2, SPEC("a"), mesh=large), np.ones(4), gradients=False
    )
    (note,) = [row.note for row in report.rows if row.evaluator == "XLA"]
    assert "the mesh has 1000 devices" in note


@pytest.mark.parametrize(
    ("function", "is_asked"),
    [
        (lambda x: jax.numpy.sin(x).sum(), True),
        (lambda x: jax.lax.scan(lambda c, y: (c * y, c), 1.0, x)[0], True),
        (lambda x: mx.numpy.sin(x).sum(), False),
        (lambda x: jax.numpy.sum(mx.numpy.sin(x)), False),
        (lambda x: jax.jit(lambda y: jax.numpy.sum(mx.numpy.cos(y)))(x), False),
    ],
    ids=["jnp", "scan", "ours", "mixed", "mixed within jit"],
)
def test_jax_is_asked_about_functions_written_in_jax(function, is_asked):
    report = mx.cross_check(function, np.linspace(0.5, 1, 4, dtype=np.float32))
    assert report.ok
    assert ("JAX" in {row.evaluator for row in report.rows}) == is_asked
