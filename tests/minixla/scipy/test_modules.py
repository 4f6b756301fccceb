"""mx.scipy has what jax.scipy has, with its keywords; values, derivatives and batches."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from tests.harness import compiled_rows

MODULES = ["cluster.vq", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize"]
MODULES += ["signal", "sparse.linalg", "spatial.transform", "special", "stats"]
DRAWN = np.random.default_rng(0)
X = DRAWN.uniform(0.2, 0.8, 6).astype(np.float32)
K = np.array([0, 1, 2, 3, 1, 2], np.int32)


def _pairs(module: str) -> Any:
    """Names with what JAX and we have, those of submodules too."""
    theirs = importlib.import_module(f"jax.scipy.{module}")
    ours = importlib.import_module(f"minixla.scipy.{module}")
    for name, value in vars(theirs).items():
        if isinstance(value, ModuleType) and not name.startswith("_"):
            yield from _pairs(f"{module}.{name}")
        elif not name.startswith("_"):
            yield f"{module}.{name}", value, getattr(ours, name, None)


def _parameters(function: Any) -> list[tuple[Any, ...]]:
    # Defaults as text: a NaN does not equal itself.
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, str(each.default)) for each in found]


@pytest.mark.parametrize("module", MODULES)
def test_names_and_signatures_are_jaxs(module: str) -> None:
    for name, theirs, ours in _pairs(module):
        assert ours is not None, name
        assert ours.__doc__, name
        parameters = [
            [
                (each.name, each.kind, each.default)
                for each in inspect.signature(x).parameters.values()
            ]
            for x in (ours, theirs)
        ]
        # That fill_value is NaN, which does not equal itself.
        assert str(parameters[0]) == str(parameters[1]), name


def test_submodules_are_imported_by_their_names() -> None:
    import minixla.scipy.stats.norm  # pyright: ignore[reportMissingImports]
    from minixla.scipy.cluster.vq import vq  # pyright: ignore[reportMissingImports]

    assert minixla.scipy.stats.norm is mx.scipy.stats.norm
    assert minixla.scipy.stats.norm is jax.scipy.stats.norm
    assert vq is mx.scipy.cluster.vq.vq
    with pytest.raises(AttributeError, match=r"module 'minixla.scipy' has no attribute 'nothing'"):
        _ = mx.scipy.nothing
    assert "stats" in dir(mx.scipy)


# Arguments of each distribution, by what its functions are of.
SHAPES: dict[str, list[Any]] = {
    "beta": [1.5, 2.5],
    "betabinom": [5, 1.5, 2.5],
    "bernoulli": [0.3],
    "binom": [5, 0.3],
    "chi2": [3.0],
    "gamma": [2.5],
    "gennorm": [1.7],
    "geom": [0.3],
    "nbinom": [4, 0.4],
    "pareto": [2.5],
    "poisson": [1.7],
    "t": [3.5],
    "truncnorm": [-1.0, 2.0],
    "vonmises": [1.3],
    "wrapcauchy": [0.4],
}
_WHOLE = {"bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"}
_OTHERS = {"dirichlet", "multinomial", "multivariate_normal"}
P = np.array([0.2, 0.3, 0.5], np.float32)
A = DRAWN.normal(size=(3, 3)).astype(np.float32)
_MATRICES = ("stats.dirichlet.logpdf", "stats.multivariate_normal.logpdf")
COVARIANCE = A @ A.T + np.eye(3, dtype=np.float32)

#: The other functions: arguments, and how many of the first are differentiated.
ROWS: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "stats.dirichlet.logpdf": ([P, np.array([1.5, 2, 3], np.float32)], {}, 2),
    "stats.dirichlet.pdf": ([P, np.array([1.5, 2, 3], np.float32)], {}, 2),
    "stats.multinomial.logpmf": ([K[:3], 3, P], {}, 0),
    "stats.multinomial.pmf": ([K[:3], 3, P], {}, 0),
    "stats.multivariate_normal.logpdf": ([P, X[:3], COVARIANCE], {}, 3),
    "stats.multivariate_normal.pdf": ([P, X[:3], COVARIANCE], {}, 3),
    "stats.mode": ([K], {}, 0),
    "stats.rankdata": ([X], {"method": "min"}, 0),
    "stats.sem": ([A], {"axis": 1}, 1),
    "signal.convolve": ([X, P], {"mode": "same"}, 2),
    "signal.convolve2d": ([A, A], {}, 2),
    "signal.correlate": ([X, P], {}, 2),
    "signal.correlate2d": ([A, A], {}, 2),
    "signal.fftconvolve": ([X, P], {}, 2),
    "signal.detrend": ([X], {"type": "linear"}, 1),
    "signal.csd": ([X, X + 1], {"nperseg": 4}, 1),
    "signal.welch": ([X], {"nperseg": 4}, 1),
    "signal.stft": ([X], {"nperseg": 4}, 1),
    "signal.istft": ([A[:, :3].astype(np.complex64)], {"nperseg": 4}, 0),
    "integrate.trapezoid": ([X, np.sort(X)], {}, 2),
    "ndimage.map_coordinates": ([A, [2 * X, X]], {"order": 1}, 1),
    "fft.dct": ([X], {"norm": "ortho"}, 1),
    "fft.dctn": ([A], {}, 1),
    "fft.idct": ([X], {}, 1),
    "fft.idctn": ([A], {}, 1),
    "cluster.vq.vq": ([A, A[:2]], {}, 0),
    "special.bernoulli": ([4], {}, 0),
    "special.bessel_jn": ([X], {"v": 2}, 1),
    "special.boxcox": ([X, X], {}, 1),
    "special.boxcox1p": ([X, X], {}, 1),
    "special.comb": ([7, X], {}, 1),
    "special.dawsn": ([X], {}, 1),
    "special.digamma": ([X], {}, 1),
    "special.entr": ([X], {}, 1),
    "special.erf": ([X], {}, 1),
    "special.erfc": ([X], {}, 1),
    "special.erfcx": ([X], {}, 1),
    "special.expi": ([X], {}, 1),
    "special.expit": ([X], {}, 1),
    "special.fresnel": ([X], {}, 1),
    "special.gammasgn": ([-X], {}, 0),
    "special.hyp1f1": ([X, X + 1, X], {}, 3),
    "special.hyp2f1": ([X, X + 1, X + 2, X], {}, 0),
    "special.i0": ([X], {}, 1),
    "special.i0e": ([X], {}, 1),
    "special.i1": ([X], {}, 1),
    "special.i1e": ([X], {}, 1),
    "special.log_softmax": ([X], {"axis": 0}, 1),
    "special.loggamma": ([X], {}, 1),
    "special.logsumexp": ([A], {"axis": 1, "return_sign": True}, 1),
    "special.multigammaln": ([X + 2, 3], {}, 1),
    "special.ndtr": ([X], {}, 1),
    "special.ndtri": ([X], {}, 1),
    "special.owens_t": ([X, X], {}, 2),
    "special.poch": ([X, X], {}, 1),
    "special.polygamma": ([1, X], {}, 0),
    "special.sici": ([X], {}, 1),
    "special.softmax": ([A], {"axis": 0}, 1),
    "special.spence": ([X], {}, 1),
    "special.wofz": ([X.astype(np.complex64)], {}, 0),
    "special.xlog1py": ([X, X], {}, 2),
    "special.xlogy": ([X, X], {}, 2),
    "special.zeta": ([X + 2, X], {}, 0),
}


def _distributions() -> None:
    for name, ours in vars(mx.scipy.stats).items():
        if isinstance(ours, ModuleType) and name not in _OTHERS and not name.startswith("_"):
            for each in [key for key in vars(ours) if not key.startswith("_")]:
                first = K if name in _WHOLE and each.endswith("pmf") else X
                shapes = SHAPES.get(name, [])
                arguments = shapes if each == "entropy" else [first, *shapes]
                ROWS[f"stats.{name}.{each}"] = arguments, {}, int(first is X and each != "entropy")


_distributions()


def _function(root: Any, name: str) -> Any:
    """A function by its dotted name, of its arrays; the other arguments are fixed."""
    for part in name.split("."):
        root = getattr(root, part)
    arguments, options, _ = ROWS[name]

    def of_arrays(*arrays: Any) -> Any:
        rest = iter(arrays)
        given = jax.tree.map(lambda x: next(rest) if isinstance(x, np.ndarray) else x, arguments)
        return jax.tree.leaves(root(*given, **options))

    return of_arrays


def _arrays(name: str) -> list[Any]:
    return [x for x in jax.tree.leaves(ROWS[name][0]) if isinstance(x, np.ndarray)]


def _slopes(name: str, root: Any, library: Any) -> Any:
    function, arrays = _function(root, name), _arrays(name)
    count = ROWS[name][2]

    def total(*first: Any) -> Any:
        found = function(*first, *arrays[count:])
        return sum((x * x).sum() for x in found if jnp.issubdtype(x.dtype, jnp.floating))

    def both(*first: Any) -> Any:
        numbers = tuple(range(count))
        tangents = tuple(0 * x + 1 for x in first)
        return library.grad(total, numbers)(*first), library.jvp(total, first, tangents)[1]

    return both, arrays[:count]


def _named(name: str) -> Any:
    return _function(jax.scipy, name)


for _module in MODULES:
    importlib.import_module(f"jax.scipy.{_module}")


@cache
def _ours() -> Any:
    return compiled_rows({name: (_function(mx.scipy, name), _arrays(name)) for name in ROWS})


@cache
def _theirs() -> Any:
    return compiled_rows({name: (_named(name), _arrays(name)) for name in ROWS}, jax.jit)


def _close(found: Any, expected: Any, factor: float = 1) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5 * factor, atol=1e-6 * factor)


@pytest.mark.full
@pytest.mark.parametrize("name", ROWS)
def test_values_are_jaxs(name: str) -> None:
    _close(_ours()(name), _theirs()(name))


@pytest.mark.full
@pytest.mark.parametrize("name", ROWS)
def test_the_reference_agrees(name: str) -> None:
    _close(mx.reference(_function(mx.scipy, name))(*_arrays(name)), _theirs()(name), 10)


# The density of a distribution stands for its other functions.
_OTHER_PARTS = (".pdf", ".logsf", ".logcdf", ".sf", ".isf")
# JAX itself cannot differentiate these: their rule multiplies a float0.
_WITHOUT = {"stats.gumbel_l.ppf", "stats.gumbel_r.ppf"}
_SMOOTH = [
    name
    for name, row in ROWS.items()
    if row[2]
    and name not in _WITHOUT
    and not (name.startswith("stats") and name.endswith(tuple(f".{x}" for x in _OTHER_PARTS)))
]


@cache
def _derivatives(ours: bool) -> Any:
    root, library = (mx.scipy, mx) if ours else (jax.scipy, jax)
    return compiled_rows({name: _slopes(name, root, library) for name in _SMOOTH}, library.jit)


@pytest.mark.full
@pytest.mark.parametrize("name", _SMOOTH)
def test_derivatives_are_jaxs(name: str) -> None:
    _close(_derivatives(True)(name), _derivatives(False)(name), 20)


@pytest.mark.parametrize(
    "name", ["stats.norm.logpdf", "stats.gamma.cdf", "stats.mode", "signal.convolve", "fft.dct"]
)
def test_values_of_some_are_jaxs(name: str) -> None:
    expected = _named(name)(*_arrays(name))
    for function in (_function(mx.scipy, name), mx.jit(_function(mx.scipy, name))):
        _close(function(*_arrays(name)), expected)


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in ROWS if n.endswith(".logpdf") and n not in _MATRICES])
def test_batches_are_loops(name: str) -> None:
    function, arrays = _function(mx.scipy, name), _arrays(name)
    mapped = mx.jit(mx.vmap(function, (0, *[None] * (len(arrays) - 1))))(*arrays)
    _close(mapped, _ours()(name))
