"""Functions of whole arrays and how their errors are measured: for `array_accuracy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.minixla.numpy.accuracy_rows import TYPES, WIDE, WIDE_COMPLEX, Array

_LAPACK = ("f32", "f64", "c64", "c128")
_REAL = ("f16", "bf16", "f32", "f64")


class Row(NamedTuple):
    """A function of arrays and how its error is measured."""

    call: Callable[..., Any]  # of jax.numpy or ours, and the operands
    shapes: tuple[tuple[int, ...], ...]
    #: The absolute errors and what they are relative to; of the results and wide operands.
    error: Callable[..., tuple[Any, Any]]
    measure: str  # its key in MEASURES
    kinds: tuple[str, ...] = tuple(TYPES)
    draw: str = "mixed"


#: What errors are relative to, in words.
MEASURES = {
    "terms": "the sum of the absolute values of the terms",
    "result": "the result",
    "largest": "the largest absolute value of the array",
    "deviations": "the standard deviations of the two rows, multiplied",
    "one": "1",
    "mean square": "the root mean square of the result",
    "residual": "the norm of the operand; the error is the norm of operand - product of factors",
    "solution": "norm of a times norm of x; the error is the norm of b - a @ x",
    "inverse": "norm of a times norm of its inverse; the error is the norm of 1 - a @ inverse",
    "spectral": "the largest value; the error is that of sums of powers of the values",
}


def _against(truth: Callable[..., Any], scale: Callable[..., Any]) -> Callable[..., Any]:
    """The error of a result whose truth, and what it is relative to, operands say."""

    def error(result: Any, *operands: Array) -> tuple[Any, Any]:
        exact = truth(*operands)
        return np.abs(result - exact), scale(exact, *operands)

    return error


def _of_result(exact: Array, *_: Array) -> Array:
    return np.abs(exact)


def _of_terms(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of absolute values, of which the terms of the result are made."""
    return lambda exact, *operands: function(*map(np.abs, operands))


def _largest(exact: Array, x: Array) -> Array:
    return np.abs(x).max(-1)


def _mean_square(exact: Array, *_: Array) -> Array:
    return np.sqrt(np.mean(np.abs(exact) ** 2, -1, keepdims=True))


def _deviations(exact: Array, x: Array) -> Array:
    spread = np.sqrt(np.abs(np.diagonal(exact)))
    return spread[:, None] * spread[None, :]


def _matrix_norm(a: Array) -> Array:
    return np.sqrt(np.sum(np.abs(a) ** 2, (-2, -1), keepdims=True))


def _transform(size: int, sign: int) -> Array:
    # Angles are reduced as whole numbers.
    turns = np.outer(np.arange(size), np.arange(size)) % size
    angle = (WIDE(sign * 2) * np.arctan2(WIDE(0), WIDE(-1)) / size) * turns.astype(WIDE)
    return np.cos(angle) + WIDE_COMPLEX(1j) * np.sin(angle)


def _fft(x: Array) -> Array:
    return x @ _transform(x.shape[-1], -1)


def _ifft(x: Array) -> Array:
    return x @ _transform(x.shape[-1], 1) / x.shape[-1]


def _rfft(x: Array) -> Array:
    return _fft(x)[..., : x.shape[-1] // 2 + 1]


def _fft2(x: Array) -> Array:
    return _fft(np.swapaxes(_fft(x), -1, -2)).swapaxes(-1, -2)


def adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def _factored(product: Callable[..., Any]) -> Callable[..., Any]:
    """The error of factors, whose product shall be the operand."""

    def error(results: Any, a: Array) -> tuple[Any, Any]:
        return _matrix_norm(product(*results) - a), _matrix_norm(a)

    return error


def _solved(x: Array, a: Array, b: Array) -> tuple[Any, Any]:
    return _matrix_norm(b - a @ x), _matrix_norm(a) * _matrix_norm(x)


def _inverted(inverse: Array, a: Array) -> tuple[Any, Any]:
    rest = np.eye(a.shape[-1]) - a @ inverse
    return _matrix_norm(rest), _matrix_norm(a) * _matrix_norm(inverse)


def _of_moments(values: Array, a: Array) -> tuple[Any, Any]:
    """Traces of the square of the matrix, and of it times its adjoint, beside sums of squares."""
    return np.abs(_matrix_norm(a)[..., 0, 0] - np.sqrt(np.sum(values**2, -1))), values.max(-1)


def _determinant(a: Array) -> Array:
    """The determinant by elimination with pivots."""
    a, result = a.copy(), np.ones(a.shape[:-2], a.dtype)
    for place in np.ndindex(a.shape[:-2]):
        rows = a[place]
        for at in range(len(rows)):
            pivot = at + int(np.abs(rows[at:, at]).argmax())
            if pivot != at:
                rows[[at, pivot]] = rows[[pivot, at]]
                result[place] *= -1
            result[place] *= rows[at, at]
            rows[at + 1 :] -= rows[at + 1 :, at : at + 1] / rows[at, at] * rows[at]
    return result


_LONG, _MATRIX = ((40, 1000),), ((6, 20, 20),)
_SQUARE = ((6, 20, 20), (6, 20, 3))


def _along_rows(name: str, **options: Any) -> Callable[..., Any]:
    return lambda m, x: getattr(m, name)(x, axis=-1, **options)


ROWS: dict[str, Row] = {
    "sum": Row(
        _along_rows("sum"),
        _LONG,
        _against(lambda x: x.sum(-1), _of_terms(lambda x: x.sum(-1))),
        "terms",
    ),
    "mean": Row(
        _along_rows("mean"),
        _LONG,
        _against(lambda x: x.mean(-1), _of_terms(lambda x: x.mean(-1))),
        "terms",
    ),
    "prod": Row(
        _along_rows("prod"),
        ((200, 40),),
        _against(lambda x: x.prod(-1), _of_result),
        "result",
        draw="near one",
    ),
    "cumsum": Row(
        _along_rows("cumsum"),
        _LONG,
        _against(lambda x: x.cumsum(-1), _of_terms(lambda x: x.cumsum(-1))),
        "terms",
    ),
    "cumprod": Row(
        _along_rows("cumprod"),
        ((200, 40),),
        _against(lambda x: x.cumprod(-1), _of_result),
        "result",
        draw="near one",
    ),
    "var": Row(
        _along_rows("var"),
        _LONG,
        _against(lambda x: x.var(-1), _of_result),
        "result",
        draw="normal",
    ),
    "std": Row(
        _along_rows("std"),
        _LONG,
        _against(lambda x: x.std(-1), _of_result),
        "result",
        draw="normal",
    ),
    "median": Row(
        _along_rows("median"),
        _LONG,
        _against(lambda x: np.median(x, -1), _largest),
        "largest",
        _REAL,
        "normal",
    ),
    "percentile": Row(
        lambda m, x: m.percentile(x, 37.5, axis=-1),
        _LONG,
        _against(lambda x: np.percentile(x, WIDE(37.5), -1), _largest),
        "largest",
        _REAL,
        "normal",
    ),
    "cov": Row(
        lambda m, x: m.cov(x),
        ((8, 300),),
        _against(np.cov, _deviations),
        "deviations",
        draw="normal",
    ),
    "corrcoef": Row(
        lambda m, x: m.corrcoef(x),
        ((8, 300),),
        _against(np.corrcoef, lambda *_: 1),
        "one",
        draw="normal",
    ),
    "matmul": Row(
        lambda m, a, b: m.matmul(a, b),
        ((30, 300), (300, 20)),
        _against(np.matmul, _of_terms(np.matmul)),
        "terms",
    ),
    "convolve": Row(
        lambda m, a, b: m.convolve(a, b),
        ((300,), (40,)),
        _against(np.convolve, _of_terms(np.convolve)),
        "terms",
    ),
    "fft.fft": Row(
        lambda m, x: m.fft.fft(x),
        ((20, 240),),
        _against(_fft, _mean_square),
        "mean square",
        _LAPACK,
    ),
    "fft.ifft": Row(
        lambda m, x: m.fft.ifft(x),
        ((20, 240),),
        _against(_ifft, _mean_square),
        "mean square",
        _LAPACK,
    ),
    "fft.rfft": Row(
        lambda m, x: m.fft.rfft(x),
        ((20, 240),),
        _against(_rfft, _mean_square),
        "mean square",
        ("f32", "f64"),
    ),
    "fft.fft2": Row(
        lambda m, x: m.fft.fft2(x),
        ((4, 30, 24),),
        _against(_fft2, _mean_square),
        "mean square",
        _LAPACK,
    ),
    "linalg.norm": Row(
        lambda m, x: m.linalg.norm(x, axis=-1),
        _LONG,
        _against(lambda x: np.sqrt(np.sum(np.abs(x) ** 2, -1)), _of_result),
        "result",
    ),
    "linalg.solve": Row(
        lambda m, a, b: m.linalg.solve(a, b), _SQUARE, _solved, "solution", _LAPACK, "normal"
    ),
    "linalg.inv": Row(
        lambda m, a: m.linalg.inv(a), _MATRIX, _inverted, "inverse", _LAPACK, "normal"
    ),
    "linalg.det": Row(
        lambda m, a: m.linalg.det(a),
        _MATRIX,
        _against(_determinant, _of_result),
        "result",
        _LAPACK,
        "dominant",
    ),
    "linalg.qr": Row(
        lambda m, a: tuple(m.linalg.qr(a)),
        _MATRIX,
        _factored(np.matmul),
        "residual",
        _LAPACK,
        "normal",
    ),
    "linalg.svd": Row(
        lambda m, a: tuple(m.linalg.svd(a)),
        _MATRIX,
        _factored(lambda u, s, v: (u * s[..., None, :]) @ v),
        "residual",
        _LAPACK,
        "normal",
    ),
    "linalg.svdvals": Row(
        lambda m, a: m.linalg.svdvals(a), _MATRIX, _of_moments, "spectral", _LAPACK, "normal"
    ),
    "linalg.eigh": Row(
        lambda m, a: tuple(m.linalg.eigh(a)),
        _MATRIX,
        _factored(lambda w, v: (v * w[..., None, :]) @ adjoint(v)),
        "residual",
        _LAPACK,
        "hermitian",
    ),
    "linalg.cholesky": Row(
        lambda m, a: (m.linalg.cholesky(a),),
        _MATRIX,
        _factored(lambda factor: factor @ adjoint(factor)),
        "residual",
        _LAPACK,
        "definite",
    ),
}
