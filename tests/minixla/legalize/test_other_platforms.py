"""Rules for GPUs and TPUs change the program; `make far` compiles such programs for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.legalize import disabled, rules_of

_MATRIX = np.array([[4, 1], [1, 3]], np.float32)
_X = np.arange(16, dtype=np.float32)
_IMAGES = np.ones((1, 1, 4, 4), np.float32)


def _convolution(**options: Any) -> Callable[..., Any]:
    return lambda x: ops.conv_general_dilated(x, x[..., :2, :2], (1, 1), "VALID", **options)


def _pooled(x: Any) -> Any:
    return ops.select_and_scatter(x, ops.ge, (2,), (2,), "VALID", x[:8], 0.0, ops.add)


def _mixed(x: Any) -> Any:
    return ops.dot(x.astype("int8"), x, preferred_element_type="f32")


def _drawn(x: Any) -> Any:
    return ops.rng_uniform(x, x + 1, mx.Shape("f32", (2,)))


def _inverse(x: Any) -> Any:
    return ops.fft(ops.complex(x, x), "IRFFT", (2, 2))


#: By rule, platforms, a program and its operand.
ROWS: dict[str, tuple[str, Callable[[Any], Any], np.ndarray]] = {
    "complex_convolutions": ("cuda tpu", _convolution(), _IMAGES * np.complex64(1j)),
    "inverse_by_dimension": ("cuda tpu", _inverse, np.ones((2, 2), np.float32)),
    "sorts_of_short_types": ("cuda tpu", lambda x: ops.sort(x, ops.lt), _X.astype("float8_e5m2")),
    "sorts_by_any_order": ("cuda tpu", lambda x: ops.sort(x, ops.le), _X),
    "broadcasts_by_permutations": (
        "tpu",
        lambda x: ops.collective_broadcast(x, [[0]]),
        _X,
    ),
    "reductions_by_gathers": (
        "cuda rocm tpu",
        lambda x: ops.all_reduce(x, ops.sub, [[0]]),
        _X,
    ),
    "reversed_windows": ("cuda", _convolution(window_reversal=(True, True)), _IMAGES),
    "doubling": ("tpu", lambda x: x + x, _X),
    "separate_windows": ("cuda", _pooled, _X),
    "windows_by_slices": ("tpu", _pooled, _X),
    "products_of_bytes": ("cuda", lambda x: ops.dot(x, x), np.ones((3, 3), np.int8)),
    "products_of_mixed_types": ("cuda", _mixed, _MATRIX),
    "cholesky_by_cusolver": ("cuda", ops.cholesky, _MATRIX),
    "reflections_by_cusolver": ("cuda", ops.geqrf, _MATRIX),
    "lu_by_cusolver": ("cuda", ops.lu, _MATRIX),
    "svd_by_cusolver": ("cuda", ops.svd, _MATRIX),
    "svd_of_adjoint": ("cuda", ops.svd, np.ones((2, 1025), np.float32)),
    "eigh_by_cusolver": ("cuda", ops.eigh, _MATRIX),
    "eig_by_cusolver": ("cuda", ops.eig, _MATRIX),
    "hidden_parameters": (
        "tpu",
        lambda x: ops.rng_uniform(x, x + 1, mx.Shape("f32", (2,))),
        _X[:1].reshape(()),
    ),
}


@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_changes_the_program(rule: str) -> None:
    platforms, program, operand = ROWS[rule]
    for platform in platforms.split():
        graph = mx.make_graph(program)(operand)
        text = graph.stablehlo(platform)
        with disabled(platform, rule):
            assert graph.stablehlo(platform) != text


def test_the_derivative_of_a_square_is_doubled() -> None:
    gradient = mx.make_graph(mx.grad(lambda x: (x * x).sum()))(_X)
    assert "stablehlo.add" in gradient.stablehlo("cpu")
    assert "stablehlo.add" not in gradient.stablehlo("tpu")


def test_every_rule_has_a_row() -> None:
    for platform in ("cuda", "tpu"):
        rows = {rule for rule, (platforms, *_) in ROWS.items() if platform in platforms.split()}
        assert rows == set(rules_of(platform))


def test_every_rule_names_its_fault() -> None:
    for platform in ("cuda", "tpu"):
        for rule in rules_of(platform).values():
            assert "XLA" in (rule.replace.__doc__ or ""), rule.name
