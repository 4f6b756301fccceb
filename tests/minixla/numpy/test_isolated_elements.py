"""NaN, infinity and overflow in one element change only results that depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp

_DRAW = np.random.default_rng(0)
TABLE = _DRAW.normal(size=(4, 6)).astype(np.float32)
ROW = _DRAW.normal(size=12).astype(np.float32)
nn, special = mx.nn, mx.scipy.special

#: Functions of an array in which each result depends on some of the elements.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "diff": (mnp.diff, ROW),
    "diff, twice": (lambda x: mnp.diff(x, 2), ROW),
    "diff, columns": (lambda x: mnp.diff(x, axis=0), TABLE),
    "ediff1d": (lambda x: mnp.ediff1d(x, 1.0, 2.0), ROW),
    "gradient": (mnp.gradient, ROW),
    "gradient, distance": (lambda x: mnp.gradient(x, 0.5), ROW),
    "gradient, order 2": (lambda x: mnp.gradient(x, edge_order=2), ROW),
    "gradient, axes": (mnp.gradient, TABLE),
    "gradient, places": (lambda x: mnp.gradient(x, np.arange(12) ** 2.0), ROW),
    "var": (lambda x: mnp.var(x, axis=1), TABLE),
    "std": (lambda x: mnp.std(x, axis=0, ddof=1), TABLE),
    "nanvar": (lambda x: mnp.nanvar(x, axis=1), TABLE),
    "nanstd": (lambda x: mnp.nanstd(x, axis=1), TABLE),
    "mean": (lambda x: mnp.mean(x, axis=1), TABLE),
    "cov": (mnp.cov, TABLE),
    "average": (lambda x: mnp.average(x, axis=1, weights=np.arange(1, 7)), TABLE),
    "median": (lambda x: mnp.median(x, axis=1), TABLE),
    "quantile": (lambda x: mnp.quantile(x, 0.3, axis=1), TABLE),
    "ptp": (lambda x: mnp.ptp(x, axis=1), TABLE),
    "trapezoid": (lambda x: mnp.trapezoid(x, axis=1), TABLE),
    "interp": (lambda x: mnp.interp(np.linspace(0, 11, 34), np.arange(12), x), ROW),
    "interp at points": (lambda x: mnp.interp(np.arange(12), np.arange(12), x), ROW),
    "interp of places": (lambda x: mnp.interp(x, np.arange(-3, 4), np.arange(7) ** 2), ROW),
    "cumsum": (lambda x: mnp.cumsum(x, axis=1), TABLE),
    "cumulative_sum": (lambda x: mnp.cumulative_sum(x, include_initial=True), ROW),
    "convolve": (lambda x: mnp.convolve(x, np.float32([1, -1])), ROW),
    "cross": (lambda x: mnp.cross(x[:, :3], x[:, 3:]), TABLE),
    "norm": (lambda x: mnp.linalg.norm(x, axis=1), TABLE),
    "matmul": (lambda x: x @ np.ones((6, 2), np.float32), TABLE),
    "softplus": (nn.softplus, ROW),
    "log_sigmoid": (nn.log_sigmoid, ROW),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=1), TABLE),
    "logmeanexp": (lambda x: nn.logmeanexp(x, axis=1), TABLE),
    "softmax": (lambda x: nn.softmax(x, axis=1), TABLE),
    "log_softmax": (lambda x: nn.log_softmax(x, axis=1), TABLE),
    "standardize": (lambda x: nn.standardize(x, axis=1), TABLE),
    "layer_norm": (lambda x: nn.layer_norm(x, np.ones(6, "f4"), np.zeros(6, "f4")), TABLE),
    "cross_entropy": (lambda x: nn.log_softmax(x)[np.arange(4), np.arange(4)], TABLE),
    "logaddexp": (lambda x: mnp.logaddexp(x, 1), ROW),
    "hypot": (lambda x: mnp.hypot(x, 1), ROW),
    "gelu": (lambda x: nn.gelu(x, approximate=False), ROW),
    "mish": (nn.mish, ROW),
    "squareplus": (nn.squareplus, ROW),
    "sinc": (mnp.sinc, ROW),
    "i0": (special.i0, ROW),
    "ndtr": (special.ndtr, ROW),
    "log_ndtr": (special.log_ndtr, ROW),
    "erfcx": (special.erfcx, ROW),
    "expi": (special.expi, ROW),
    "gammaln": (special.gammaln, ROW),
    "spence": (lambda x: special.spence(abs(x)), ROW),
    "gammainc": (lambda x: special.gammainc(2.0, abs(x)), ROW),
    "polygamma": (lambda x: special.polygamma(1, x), ROW),
    "rel_entr": (lambda x: special.rel_entr(abs(x), 2.0), ROW),
}
STEPS = (1e-2, 0.37, -2, 5)
BAD = (np.nan, np.inf, -np.inf, 3e38, -3e38)


def changed(array: np.ndarray, values: Any, adds: bool) -> np.ndarray:
    """Return copies of an array, each with one element replaced, or increased, by another value."""
    copies = np.repeat(array[None], array.size * len(values), axis=0)
    flat = copies.reshape(array.size, len(values), array.size)
    for index in range(array.size):
        flat[index, :, index] = values + flat[index, :, index] * adds
    return copies


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_does_not_depend_on_an_element_stays(name: str) -> None:
    function, array = FUNCTIONS[name]

    def flat(x: Any) -> Any:
        return mnp.concatenate([mnp.ravel(each) for each in jax.tree.leaves(function(x))])

    given = [array[None], changed(array, STEPS, True), changed(array, BAD, False)]
    run = mx.jit(lambda stacked: mx.map(flat, stacked))
    found = np.asarray(run(np.concatenate(given)))
    first, count = found[0], array.size * len(STEPS)
    moved = abs(found[1 : 1 + count] - first).reshape(array.size, len(STEPS), -1)
    depends = (moved > 1e-4).any(axis=1)
    assert depends.any()
    others = found[1 + count :].reshape(array.size, len(BAD), -1)
    differs = (others != first) & ~depends[:, None]
    assert not differs.any(), np.argwhere(differs)[:5]


def test_interp_at_a_point_is_the_points_value() -> None:
    fp = np.float32([5, -np.inf, 3, np.nan, 2])
    np.testing.assert_array_equal(mnp.interp(np.arange(5), np.arange(5), fp), fp)
    np.testing.assert_array_equal(np.interp(np.arange(5), np.arange(5), fp), fp)
    # The derivative there is the slope of the line.
    slopes = mx.vmap(mx.grad(lambda x: mnp.interp(x, np.arange(3), np.float32([1, 3, 4]))))
    np.testing.assert_array_equal(slopes(np.float32([0, 0.5, 1])), [2, 2, 1])
