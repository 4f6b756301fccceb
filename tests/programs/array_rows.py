"""Rows of functions of the array library, each a program of several operations.

`EXACT` are those of whole numbers, in the programs that `TABLE` makes; `ROUNDING` those that round,
in the programs of `INEXACT`. Where signs, orders or bases are up to a backend, a row's results are
what does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import minixla as mx
import minixla.numpy as np
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import COMPLEX, ORDERED, Domain, small, summed
from tests.programs.draft import Draft
from tests.programs.inexact import REAL, USUAL, within
from tests.programs.rows import Call, Row

Function = Callable[..., Any]

#: Element types that users compute with.
_KINDS = ("s32", "f32", "s64", "f64", "u8", "bf16", "s16", "u32", "f16")
_SEEDS = ("u32", "s32")
# Where an algorithm depends on the type, by its bits or its digits, it is the same in double.
_DOUBLE = ("f64",)
_FEW = small(0, 3)


def _vector(kinds: Any, domain: Domain, d: Draft) -> Call:
    return (d.array(kinds, domain, ranks=(1, 2), least=1),), {}


def _two_vectors(kinds: Any, domain: Domain, d: Draft) -> Call:
    first = d.array(kinds, domain, ranks=(1,), least=1)
    kind = (str(array_shape(first).element_type),)
    return (first, d.array(kind, domain, ranks=(1,), least=1)), {}


def _two_alike(kinds: Any, domain: Domain, d: Draft) -> Call:
    first = d.array(kinds, domain, ranks=(1, 2), least=1)
    return (first, d.like(first, domain)), {}


def _square(kinds: Any, domain: Domain, d: Draft) -> Call:
    size = d.integer(1, 3)
    return (d.array(kinds, domain, sizes=(*d.sizes((0, 1), 1), size, size)),), {}


def _system(kinds: Any, domain: Domain, d: Draft) -> Call:
    (a,), _ = _square(kinds, domain, d)
    shape = array_shape(a)
    b = d.array((str(shape.element_type),), domain, sizes=(*shape.dimensions[:-1], d.size(1)))
    return (a, b), {}


def _matrix(kinds: Any, domain: Domain, d: Draft) -> Call:
    return (d.array(kinds, domain, ranks=(2, 3), least=1),), {}


def _seed(d: Draft) -> Call:
    return (d.array(_SEEDS, _FEW, sizes=()),), {}


def _seed_and_numbers(domain: Domain, d: Draft) -> Call:
    return (d.array(_SEEDS, _FEW, sizes=()), d.array(REAL, domain, ranks=(1, 2), least=1)), {}


def _rows(
    draw: Callable[[Draft], Call | None], functions: Mapping[str, Function], interpreted: bool
) -> dict[str, Row]:
    return {
        name: Row(name, draw, interpreted, is_basic=False, function=function)
        for name, function in functions.items()
    }


def _drawn(draw: Callable[[Any], Any]) -> Function:
    """A function of a seed, of one of a key."""
    return lambda seed: draw(mx.random.key(seed))


EXACT: dict[str, Row] = {
    **_rows(
        partial(_vector, _KINDS, ORDERED),
        {
            "numpy.sort": np.sort,
            "numpy.argsort": np.argsort,
            "numpy.searchsorted": lambda x: np.searchsorted(np.sort(x.ravel()), x, side="right"),
            "numpy.take_along_axis": lambda x: np.take_along_axis(x, np.argsort(-x, axis=0), 0),
            "numpy.argmax": lambda x: np.argmax(x, axis=-1),
            "numpy.partition": lambda x: np.sort(np.partition(x, 0), axis=-1),
            "lax.cummax": lambda x: np.maximum.accumulate(x, axis=-1),
        },
        interpreted=True,
    ),
    **_rows(
        partial(_vector, _KINDS, summed(16)),
        {
            "numpy.cumsum": lambda x: np.cumsum(x, axis=-1),
            "numpy.cumulative_sum": lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
            "numpy.diff": lambda x: np.diff(x, axis=-1),
        },
        interpreted=True,
    ),
    **_rows(
        partial(_vector, _KINDS, small(-1, 2)),
        {"numpy.cumprod": lambda x: np.cumprod(x, axis=0)},
        interpreted=True,
    ),
    **_rows(
        partial(_vector, ("s32", "u8", "s64"), small(0, 6)),
        {"numpy.bincount": lambda x: np.bincount(x.ravel(), length=5)},
        interpreted=False,  # it writes to constants, which other programs share
    ),
    **_rows(
        partial(_vector, _KINDS, ORDERED),
        {
            "numpy.unique": lambda x: np.unique(x, size=5, return_counts=True),
            "numpy.nonzero": lambda x: np.nonzero(x > x.ravel()[0], size=4, fill_value=-1),
        },
        interpreted=False,  # as bincount
    ),
    **_rows(partial(_two_vectors, _KINDS, ORDERED), {"numpy.isin": np.isin}, interpreted=True),
    **_rows(
        partial(_two_vectors, _KINDS, ORDERED),
        {
            "numpy.setdiff1d": lambda x, y: np.setdiff1d(x, y, size=4, fill_value=x[0]),
            "numpy.intersect1d": lambda x, y: np.intersect1d(x, y, size=3),
        },
        interpreted=False,  # as bincount
    ),
    **_rows(
        # XLA does not add a single product to 0, which would lose the sign of -0. Convolutions of
        # integers are computed in floats.
        partial(_two_vectors, ("s32", "f32", "f64", "s64"), small(1, 3)),
        {
            "numpy.convolve": np.convolve,
            "numpy.correlate": lambda x, y: np.correlate(x, y, mode="same"),
            "numpy.polymul": np.polymul,
            "numpy.polyval": lambda p, x: np.polyval(p[:3], x),
            "numpy.einsum": lambda x, y: np.einsum("i,j,i->j", x, y, x),
        },
        interpreted=True,
    ),
    **_rows(
        _seed,
        {
            "random.bits": _drawn(lambda key: mx.random.bits(key, (3,), "uint32")),
            "random.split": _drawn(lambda key: mx.random.key_data(mx.random.split(key, 2))),
            "random.uniform": _drawn(lambda key: mx.random.uniform(key, (3,), "float32")),
            "random.randint": _drawn(lambda key: mx.random.randint(key, (2, 2), 0, 10)),
            "random.permutation": _drawn(lambda key: mx.random.permutation(key, 5)),
            "random.bernoulli": _drawn(lambda key: mx.random.bernoulli(key, 0.25, (4,))),
        },
        interpreted=True,
    ),
}


def _definite(x: Any) -> Any:
    """Positive definite matrices of matrices of any numbers, of different eigenvalues."""
    root, size = np.tanh(x), x.shape[-1]
    return root @ np.matrix_transpose(root) + np.diag(np.arange(size, 2 * size).astype(x.dtype) + 1)


def _regular(x: Any) -> Any:
    """Regular matrices of matrices of any numbers, of different singular values."""
    rows, columns = x.shape[-2:]
    return np.tanh(x) / 2 + np.diag(np.arange(max(rows, columns)) * 2.0 + 2)[
        :rows, :columns
    ].astype(x.dtype)


def _root(x: Any) -> Any:
    """The square root of `_definite` by its eigenvectors, whatever their signs."""
    values, vectors = np.linalg.eigh(_definite(x))
    return (vectors * np.sqrt(values)[..., None, :]) @ np.matrix_transpose(vectors)


def _polar(x: Any) -> Any:
    """The nearest orthogonal matrix by singular vectors, whatever their signs."""
    u, _, vh = np.linalg.svd(_regular(x), full_matrices=False)
    return u @ vh


def _moments(x: Any) -> Any:
    """Sums over eigenvalues, whatever their order."""
    values = np.linalg.eigvals(_regular(x))
    return values.sum(-1), (values * values).sum(-1)


def _first(*stacks: Any) -> list[Any]:
    """The first matrices of stacks."""
    return [each.reshape(-1, *each.shape[-2:])[0] for each in stacks]


_KNOTS = (-8.3, -3.7, -1.1, 0.9, 4.3, 8.1)
_special: Any = mx.scipy.special

ROUNDING: dict[str, Row] = {
    **_rows(
        partial(_vector, _DOUBLE, USUAL),
        {
            "numpy.interp": lambda x: np.interp(x, np.array(_KNOTS), np.array(_KNOTS)[::-1] ** 2),
            "numpy.sort": np.sort,
            "numpy.median": np.median,
            "numpy.percentile": lambda x: np.percentile(x, 30.0, axis=-1),
            "special.expit": _special.expit,
            "special.ndtr": lambda x: _special.ndtr(x / 4),
            "special.logsumexp": lambda x: _special.logsumexp(x, axis=-1),
            "special.i0e": _special.i0e,
        },
        interpreted=False,
    ),
    **_rows(
        partial(_vector, REAL, USUAL),
        {
            "numpy.cumsum": lambda x: np.cumsum(x, axis=-1),
            "numpy.trapezoid": np.trapezoid,
            "numpy.gradient": lambda x: np.gradient(np.concatenate([x, x], axis=-1), axis=-1),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_vector, REAL, within(0.5, 8)),
        {
            "numpy.cumprod": lambda x: np.cumprod(x / 4, axis=-1),
            "linalg.norm": lambda x: np.linalg.norm(x, axis=-1),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_vector, _DOUBLE, within(0.5, 8)),
        {
            "special.gammaln": _special.gammaln,
            "special.digamma": _special.digamma,
            "special.polygamma": lambda x: _special.polygamma(1, x),
            "special.zeta": lambda x: _special.zeta(x + 1, x[..., ::-1]),
            "special.entr": _special.entr,
            "special.erfinv": lambda x: _special.erfinv(x / 10),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_vector, COMPLEX, USUAL),
        {
            "fft.fft": lambda x: np.fft.fft(x, norm="ortho"),
            "fft.ifft": lambda x: np.fft.ifft(x, n=3, axis=0),
            "fft.irfft": lambda x: np.fft.irfft(x, n=4),
            "fft.fftshift": np.fft.fftshift,
        },
        interpreted=False,
    ),
    **_rows(
        partial(_vector, REAL, within(-3, 3)),
        {
            "fft.rfft": lambda x: np.fft.rfft(x, n=5),
            "fft.ihfft": np.fft.ihfft,
            "fft.hfft": lambda x: np.fft.hfft(x, n=4),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_two_vectors, REAL, within(-3, 3)),
        {
            "numpy.convolve": np.convolve,
            "numpy.polyval": lambda p, x: np.polyval(p[:3], x / 3),
            "numpy.outer": np.outer,
        },
        interpreted=False,
    ),
    **_rows(
        partial(_two_alike, REAL, within(-3, 3)),
        {
            "numpy.einsum": lambda x, y: np.einsum("...i,...i->...", x, y),
            "numpy.hypot": lambda x, y: np.hypot(x, y + 4),
            "numpy.logaddexp": np.logaddexp,
        },
        interpreted=False,
    ),
    **_rows(
        partial(_matrix, REAL, within(-3, 3)),
        {
            "linalg.svdvals": lambda x: np.linalg.svdvals(_regular(x)),
            "linalg.svd": _polar,
            "linalg.pinv": lambda x: np.linalg.pinv(_regular(x)),
            "linalg.qr": lambda x: np.linalg.qr(_regular(x))[0],
            "fft.fft2": np.fft.fft2,
            "linalg.norm of matrices": lambda x: np.linalg.norm(_regular(x), 2, axis=(-2, -1)),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_square, REAL, USUAL),
        {
            "linalg.inv": lambda x: np.linalg.inv(_regular(x)),
            "linalg.det": lambda x: np.linalg.det(_regular(x)) / 16,
            "linalg.slogdet": lambda x: np.linalg.slogdet(_regular(x))[1],
            "linalg.cholesky": lambda x: np.linalg.cholesky(_definite(x)),
            "linalg.eigh": _root,
            "linalg.eigvalsh": lambda x: np.linalg.eigvalsh(_definite(x)),
            "linalg.eigvals": _moments,
            "linalg.matrix_power": lambda x: np.linalg.matrix_power(_regular(x) / 8, 3),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_system, REAL, within(-3, 3)),
        {
            "linalg.solve": lambda a, b: np.linalg.solve(_regular(a), b),
            "linalg.lstsq": lambda a, b: np.linalg.lstsq(*_first(_regular(a), b))[0],
            "scipy.linalg.solve": lambda a, b: mx.scipy.linalg.solve(
                _definite(a), b, assume_a="pos"
            ),
        },
        interpreted=False,
    ),
    **_rows(
        partial(_seed_and_numbers, within(0.5, 3)),
        {
            "random.normal": lambda seed, x: (
                x * mx.random.normal(mx.random.key(seed), x.shape, x.dtype)
            ),
            "random.gamma": lambda seed, x: (
                x * mx.random.gamma(mx.random.key(seed), 1.5, x.shape, x.dtype)
            ),
            "random.exponential": lambda seed, x: (
                mx.random.exponential(mx.random.fold_in(mx.random.key(0), seed), x.shape, x.dtype)
                / x
            ),
        },
        interpreted=False,
    ),
}

__all__ = ["EXACT", "ROUNDING"]
