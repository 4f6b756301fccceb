"""Map: results with and without static operands, checks, derivatives, batches, printing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.oracles import values

X, Y = np.array([[0.3, 1.2, 2.0], [1.0, 2.0, 3.0]]), np.array([[1.0, 0.5, 2.0], [3.0, 0.1, -1.0]])
S = np.array([2.0, 3.0])
ONE = np.int32(1)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def plain(x, y):
    return ops.map([x, y], lambda a, b: a * b - ops.sin(a), [0, 1])


def with_static(x, y, s):
    def computation(a, b, s):
        return a * b + ops.reduce([s], [np.float64(0)], ops.add, [0]) * a

    return ops.map([x, y], computation, [0, 1], [s])


def looping(x):
    """A computation with a loop in it, whose iterations depend on the element."""

    def computation(a):
        return ops.while_(lambda a: ops.lt(a, np.float64(1)), lambda a: a * 2.0, a)

    return ops.map([x], computation)


def test_results():
    (result,) = check_operation(plain, [X, Y], ulp=1)
    np.testing.assert_allclose(result, X * Y - np.sin(X))
    (result,) = check_operation(looping, [Y + 1.01])
    assert result.min() >= 1


def test_fact_extra_arguments_are_passed_whole_to_every_call():
    (result,) = check_operation(with_static, [X, Y, S], ulp=1)
    np.testing.assert_allclose(result, X * Y + 5 * X)


def test_types_and_special_values():
    operands = [values.edge_values(np.dtype(t))[:40] for t in ("int8", "float16", "float32")]
    operands += [np.array([True, False]), np.array([1 + 2j, -0.0j], np.complex64)]
    check_operation(lambda *xs: [ops.map([x, x], ops.max) for x in xs[:4]], operands)
    check_operation(lambda *xs: [ops.map([x], lambda a: ops.eq(a, a)) for x in xs], operands)
    check_operation(
        lambda x: [ops.map([x], ops.neg), ops.map([x], lambda a: np.int8(3))],
        [np.zeros((0, 2), np.float32)],
    )
    (scalar,) = check_operation(lambda x: ops.map([x], ops.neg, []), [np.float32(2)])
    assert scalar == -2


def test_operations_that_are_no_opcode_are_written_out():
    assert "stablehlo.map" in graph_of(plain, [X, Y]).stablehlo()
    assert "stablehlo.map" not in graph_of(lambda x: ops.map([x], ops.erf), [X]).stablehlo()
    check_operation(lambda x: ops.map([x], ops.erf), [X], ulp=2)


def test_derivatives():
    check_derivatives(plain, [X, Y], lambda x, y: x * y - jnp.sin(x))
    check_derivatives(with_static, [X, Y, S], lambda x, y, s: x * y + s.sum() * x, order=1)
    check_derivatives(looping, [np.array([0.3, 1.7])], lambda x: x * jnp.array([4, 1]))


def test_batching():
    check_batching(plain, [X, Y])
    check_batching(with_static, [X, Y, S])
    # Of a computation that reads nothing the batch is one result.
    check_batching(lambda x, s: ops.map([x], lambda x, s: np.True_, None, [s]), [X, S])


def test_printing():
    text = str(graph_of(plain, [X, Y]))
    assert "f64[2,3] map(%arg0.1, %arg1.2), dimensions={0,1}, to_apply=%_lambda_" in text
    assert "dimensions={0,1}" in _hlo.hlo_module_from_text(text).to_string()
    # HLO's map has no static operands.
    _hlo.hlo_module_from_text(str(graph_of(with_static, [X, Y, S])))


REJECTED = {
    "C1": (lambda x: ops.map([], lambda: ONE), ShapeError, "equal dimensions"),
    "C1 sizes": (lambda x: ops.map([x, x[:1]], ops.add), ShapeError, "s32[1]"),
    "C1 tuple": (lambda x: ops.map([ops.tuple([x])], lambda t: ONE), ShapeError, "must be arrays"),
    "C2": (lambda x: ops.map([x], ops.neg, []), AttributeValueError, "dimensions must be [0]"),
    "C2 order": (lambda x: ops.map([x], ops.neg, [1]), AttributeValueError, "dimensions (1,)"),
    "C3": (lambda x: ops.map([x], lambda a: [a, a]), ShapeError, "must return one scalar"),
    "C3 rank": (lambda x: ops.map([x], lambda a: np.ones(2)), ShapeError, "f64[2]"),
    "C3 inputs": (
        lambda x: ops.map([x], graph_of(ops.neg, [np.float32(1)])), ShapeError, "(s32[]) -> ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, error, phrase = REJECTED[case]
    check_rejected(function, [np.ones(3, np.int32)], error, f"map: ({case[:2]})", phrase)
