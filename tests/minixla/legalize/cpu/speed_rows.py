"""Programs that XLA:CPU runs slowly: for each rule one, and its operands."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla as mx
import minixla_ops as ops


def _grouped(groups: int, by_batch: bool = False) -> Callable[..., Any]:
    counts = {"batch_group_count" if by_batch else "feature_group_count": groups}
    return lambda x, w: ops.conv_general_dilated(x, w, (1,), "VALID", **counts)


def _pooled(stride: int) -> Callable[..., Any]:
    return lambda x, source: ops.select_and_scatter(
        x, ops.ge, (2,), (stride,), "VALID", source, 0.0, ops.add
    )


def _window_sums(x: Any) -> Any:
    return ops.reduce_window(x, 0.0, ops.add, (2,), (1,), "VALID")


def _two_pads(x: Any, y: Any) -> Any:
    zero = np.float32(0)
    return ops.add(ops.pad(x, zero, [(0, 128, 0)]), ops.pad(y, zero, [(128, 0, 0)]))


def _keys(*words: Any) -> Any:
    return ops.threefry2x32(*words, of_keys=True)


def _recomputed(x: Any) -> Any:
    return mx.grad(lambda y: mx.checkpoint(lambda z: ops.sin(ops.sin(z)))(y).sum())(x)


def _triangular(a: Any, b: Any) -> Any:
    return ops.triangular_solve(a, b, left_side=True, lower=True)


_X = np.arange(1, 17, dtype=np.float32)
_MATRIX = np.array([[4, 1], [1, 3]], np.float32)
_WORDS = np.arange(4, dtype=np.uint32)

#: By rule, a program and its operands.
ROWS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "complex_convolutions": (
        lambda x, w: ops.conv_general_dilated(x, w, (1, 1, 1), "VALID"),
        [
            _X.reshape(1, 1, 4, 2, 2) * np.complex64(1j),
            _X[:4].reshape(1, 1, 2, 2, 1) * np.complex64(1),
        ],
    ),
    "grouped_convolutions": (_grouped(2), [_X.reshape(1, 2, 8), _X[:4].reshape(2, 1, 2)]),
    "batch_groups": (
        _grouped(40, True),
        [np.ones((80, 2, 40), np.float32), np.ones((40, 2, 2), np.float32)],
    ),
    "windows_by_slices": (_window_sums, [np.arange(5000, dtype=np.float32)]),
    "separate_windows": (_pooled(2), [_X, _X[:8]]),
    "overlapping_windows": (_pooled(1), [_X, _X[:15]]),
    "joined_pads": (_two_pads, [np.ones(128, np.float32), np.ones(128, np.float32)]),
    "index_in_two_passes": (lambda x: mx.numpy.argmax(x, axis=1), [_X.reshape(1, 16).repeat(2, 1)]),
    "index_in_order": (lambda x: mx.numpy.argmin(x, axis=1), [_X.reshape(1, 16)]),
    "keys_apart": (_keys, [_WORDS] * 4),
    "recomputation": (_recomputed, [_X]),
    "reflections_by_lapack": (ops.geqrf, [_MATRIX]),
    "cholesky_by_lapack": (ops.cholesky, [_MATRIX]),
    "triangular_solve_by_blas": (_triangular, [_MATRIX, _MATRIX]),
}
