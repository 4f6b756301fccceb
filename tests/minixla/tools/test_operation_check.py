"""check_op finds what is wrong with an operation, and nothing where nothing is."""

import itertools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla import ops
from minixla.core import operation_named
from minixla.core.errors import AttributeValueError
from tests.selection import quick_rows, unless

NAMES = itertools.count()
X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
CASES = [((X,), {"n": 3}), ((X[0],), {"n": 2})]


def scaled_by_pallas(x: Any, factor: float, offset: float = 0.0) -> Any:
    from jax.experimental import pallas

    def kernel(given: Any, found: Any) -> None:
        found[...] = given[...] * factor + offset

    if not x.size:
        return x  # Pallas divides by the number of blocks
    made = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(kernel, out_shape=made, interpret=True)(x)


def add_kernel(op: Any, kind: str, fault: str, library: Any) -> None:
    """A kernel of n * x, perhaps with a fault."""

    def factor(context: Any) -> int:
        return 2 if fault == "decoding" else context.attr("n")

    offset = 1.0 if fault == "kernel" else 0.0
    if kind == "ffi":
        symbols = {"kernel": "scaled_off", "broken": "broken", "decoding": "scaled_by_two"}
        op.kernel("cpu", ffi=symbols.get(fault, "scaled"), library=library)
    elif kind == "ours":
        op.kernel("cpu", lambda context, x: x * np.float32(factor(context)) + np.float32(offset))
    elif kind == "elsewhere":  # never run here but by check_op
        op.kernel("any", lambda context, x: x * np.float32(context.attr("n")))
        op.kernel("tpu", lambda context, x: x * np.float32(factor(context)) + np.float32(offset))
    elif kind == "jax":
        op.kernel("cpu", lambda context, x: jnp.add(x * factor(context), offset))
    else:
        op.kernel(
            "cpu",
            lambda context, x: scaled_by_pallas(x, float(factor(context)), offset),
        )


def scaled(kind: str, fault: str = "", library: Any = None) -> Any:
    op = mx.register_op(
        f"OcScaled{next(NAMES)}",
        attrs=["n: int"],
        inputs=["x: float"],
        outputs=["y: float"],
        shape_fn=(lambda context, x: [*x, 2]) if fault == "shape" else mx.unchanged_shape,
    )
    op.kernel("reference", lambda context, x: x * np.float32(context.attr("n")))
    add_kernel(op, kind, fault, library)
    wrong = 1 if fault == "gradient" else 0
    op.gradient(lambda context, grad: [grad * np.float32(context.attr("n") + wrong)])
    if fault == "batching":
        # The first member for all.
        def rule(context, inputs, dimensions):
            return (
                [ops.broadcast_in_dim(op(inputs[0][0], n=context.attr("n")), inputs[0].shape, [1])]
                if inputs[0].ndim == 2
                else [op(inputs[0], n=context.attr("n"))],
                [0],
            )

        op.batching(rule)
    return op


KINDS = ["ours", "elsewhere", "jax", "pallas", "ffi"]


@pytest.mark.parametrize("kind", quick_rows(KINDS, ["jax", "ffi"]))
def test_right_operations_pass(kind, library):
    report = mx.check_op(scaled(kind, "", library), CASES)
    assert report.ok, report
    ways = {check.check for check in report.checks if check.verdict == "ok"}
    assert ways >= {"XLA", "eager", "inside JAX", "scan", "pmap", "finite differences"}
    assert ways >= {"vmap, first", "vmap, last", "vmap, each operand", "second derivatives"}


#: Which checks find a fault.
FAULTS = {
    "kernel": {"XLA", "eager", "kernel 2 (tpu)"},
    "decoding": {"XLA", "eager", "kernel 2 (tpu)"},
    "gradient": {"finite differences"},
    "batching": {"vmap, last", "vmap, first"},
    "shape": {"reference"},
}


#: Each fault, and each kind of kernel with a fault of its own.
QUICK_FAULTS = {
    ("ours", "kernel"),
    ("elsewhere", "kernel"),
    ("ffi", "decoding"),
    ("jax", "gradient"),
    ("pallas", "batching"),
    ("ours", "shape"),
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(*each, marks=unless(each in QUICK_FAULTS))
        for each in itertools.product(KINDS, FAULTS)
    ],
)
def test_each_fault_is_found(kind, fault, library):
    op = scaled(kind, fault, library)
    report = mx.check_op(op, [CASES[1]] if fault == "batching" else CASES[:1], variants=False)
    assert not report.ok
    bad = {check.check for check in report.checks if check.verdict in ("parts", "fails")}
    assert bad & FAULTS[fault], report
    assert "checks fail" in str(report)
    assert json.loads(json.dumps(report.as_dict()))["ok"] is False


def test_a_kernel_that_raises_is_found(library):
    report = mx.check_op(scaled("ffi", "broken", library), CASES[:1], variants=False)
    assert not report.ok
    assert "it is broken" in str(report)


def test_faults_at_other_values_of_attributes_are_found(library):
    op = scaled("ffi", "decoding", library)
    right = [((X,), {"n": 2})]
    assert mx.check_op(op, right, variants=False).ok
    report = mx.check_op(op, right)
    bad = {check.case for check in report.checks if check.verdict == "parts"}
    assert bad == {"case 0, n = 3"}


@pytest.mark.parametrize(
    "op, cases",
    [
        pytest.param(ops.tanh, [(X,)], marks=pytest.mark.full),
        pytest.param(
            ops.dot_general,
            [((X, X.T.copy()), {"dimension_numbers": (((1,), (0,)), ((), ()))})],
            marks=pytest.mark.full,
        ),
        (ops.sort, [((X,), {"comparator": ops.lt, "dimension": 1})]),
        (operation_named("Sin"), [(X,)]),
    ],
    ids=["tanh", "dot_general", "sort", "Sin"],
)
def test_operations_of_xla_go_through_the_same(op, cases):
    report = mx.check_op(op, cases)
    assert report.ok, report


def test_what_takes_no_arrays_is_refused():
    with pytest.raises(AttributeValueError, match="the list of cases is empty"):
        mx.check_op(ops.tanh, [])
    with pytest.raises(AttributeValueError, match="a case is not a tuple of arguments: ndarray"):
        mx.check_op(ops.tanh, [X])
    for cases, order in ((3, 2), ([(X,)], 3), ([(X,)], "2")):
        with pytest.raises(AttributeValueError, match="an order of 0, 1 or 2"):
            mx.check_op(ops.tanh, cases, order=order)
    with pytest.raises(AttributeValueError, match="3 is not an operation"):
        mx.check_op(3, [(X,)])


def test_second_opinions_on_jax_functions():
    """A composition of JAX's functions has the rules that these have."""
    op = mx.register_op("OcSoftplus", inputs=["x: float"], outputs=["y: float"])
    op.composition(lambda context, x: jnp.logaddexp(x, 0.0))
    op.kernel("reference", lambda context, x: np.logaddexp(x, np.float32(0)))
    report = mx.check_op(op, [(X,)])
    assert report.ok, report


def reference_only(gradient: float | None, strings: bool = False) -> Any:
    """An operation that only the reference can run: square of its input."""
    op = mx.register_op(
        f"OcReference{next(NAMES)}",
        inputs=["x: string" if strings else "x: float"],
        outputs=["y: int32" if strings else "y: float"],
        shape_fn=mx.unchanged_shape,
    )
    lengths = np.vectorize(len, otypes=[np.int32])
    op.kernel("reference", lambda context, x: lengths(x) if strings else x * x)
    if gradient is not None:
        op.gradient(lambda context, grad: [grad * np.float32(gradient) * context.inputs[0]])
    return op


def test_an_operation_that_has_only_a_reference_is_checked_by_it():
    for gradient, verdicts in {2.0: ("ok", "ok"), None: ("not run",)}.items():
        report = mx.check_op(reference_only(gradient), [(X,)])
        assert report.ok, report
        found = {check.check: check.verdict for check in report.checks}
        assert found["reference"] == "ok" and found["XLA"] == "not run"
        names = ("second derivatives", "finite differences")[: len(verdicts)]
        assert tuple([found[name] for name in names]) == verdicts
    report = mx.check_op(reference_only(3.0), [(X,)], variants=False)
    bad = {check.check for check in report.checks if check.verdict == "parts"}
    assert bad == {"finite differences", "second derivatives"}, report


def in_double(x, grad):
    return np.float64(2) * x.astype("float64") * grad  # f64 where 64 bits are on


def raising(x, grad):
    raise KeyError("no such thing")


def of_a_number(x, grad):
    return 2 * float(x.sum()) * grad


@pytest.mark.parametrize("rule", [in_double, raising, of_a_number])
def test_a_gradient_rule_that_raises_is_a_fault(rule):
    op = reference_only(None)
    op.gradient(lambda context, grad: [rule(context.inputs[0], grad)])
    report = mx.check_op(op, [(X,)], variants=False)
    assert not report.ok, report


def test_an_operation_on_strings_is_called():
    op = reference_only(None, strings=True)
    report = mx.check_op(op, [(np.array(["a", "bc"]),)])
    assert report.ok and [check.check for check in report.checks] == ["reference"]
    assert not mx.check_op(op, [(np.float32([1]),), (np.array(["a"]),)]).ok
