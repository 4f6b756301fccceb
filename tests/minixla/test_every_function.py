"""Each function of arrays at its own example: evaluators, batches and derivatives agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from tests.docstrings import functions_of
from tests.minixla.examples import EXAMPLES, first_call

PARTS = 8
# What takes over memory, which traced values have not.
NOT_TRACED = {"from_dlpack"}
#: Functions without a derivative: Schur forms are not unique.
WITHOUT = {"scipy.linalg.schur"}
# Those that JAX has no derivatives of, or others.
OTHERS = {
    "numpy.linalg.eig": "only of eigenvalues",
    "numpy.nextafter": "none",
    "numpy.polyfit": "NaN where the values lie on the polynomial",
    "nn.scaled_matmul": "none",
    "scipy.linalg.cholesky": "what is not symmetric of a gradient is of no meaning",
    "scipy.linalg.eigh_tridiagonal": "none in reverse mode",
    "scipy.linalg.polar": "none in reverse mode",
    "scipy.special.betainc": "none by a and b",
    "scipy.special.xlog1py": "NaN where x is 0 and y is -1",
    "scipy.special.xlogy": "NaN where both are 0",
}


def _is_array(leaf: Any) -> bool:
    is_any = isinstance(leaf, (np.ndarray, np.generic, jax.Array))
    return is_any and isinstance(leaf.dtype, np.dtype) and leaf.dtype.kind in "biufcV"


def _is_inexact(leaf: Any) -> bool:
    return _is_array(leaf) and np.issubdtype(jax.numpy.result_type(leaf), np.inexact)


def _places(leaves: list[Any]) -> list[int]:
    """Where arrays are; where there is none, floats."""
    found = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]
    return found or [place for place, leaf in enumerate(leaves) if isinstance(leaf, float)]


def _calls(path: str, part: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any, Any]]:
    """Functions whose example's first call has arrays, and gives arrays alone: its arguments."""
    for name in [*functions_of(EXAMPLES[path])][part::PARTS]:
        function = getattr(EXAMPLES[path], name)
        given = first_call(EXAMPLES[path], name, monkeypatch)
        if given is None or name in NOT_TRACED or not _places(jax.tree.leaves(given)):
            continue
        try:
            result = function(*given[0], **given[1])
        except (OSError, EOFError):  # of a file that is no longer there
            continue
        if all(map(_is_array, jax.tree.leaves(result))):
            yield name, function, given


def _of_arrays(function: Any, given: Any) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """The function of the arrays in a nest of arguments, and these."""
    leaves, tree = jax.tree.flatten(given, is_leaf=lambda leaf: leaf is None)
    places = _places(leaves)

    def call(*arrays: Any) -> Any:
        filled = dict(enumerate(leaves)) | dict(zip(places, arrays, strict=True))
        args, options = jax.tree.unflatten(tree, [filled[place] for place in range(len(leaves))])
        return function(*args, **options)

    arrays = [leaves[place] for place in places]
    kinds = [np.float32 if isinstance(x, float) else None for x in arrays]
    return call, [np.asarray(x, kind) for x, kind in zip(arrays, kinds, strict=True)]


def _compared(found: Any, expected: Any, tolerance: float = 1e-3) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        wide = np.complex128 if one.dtype.kind == "c" else np.float64
        one, other = one.astype(wide), other.astype(wide)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def _members(array: np.ndarray) -> np.ndarray:
    """Two arrays of the kind, stacked."""
    return np.stack([array, (array * 0.9).astype(array.dtype) if _is_inexact(array) else array])


def _check_values(call: Callable[..., Any], arrays: list[np.ndarray]) -> bool:
    """The reference gives what the engine gives, a program the same, and a batch a loop's.

    Returns whether it can be traced: it cannot where a result's shape depends on values.
    """
    expected = call(*arrays)
    _compared(mx.reference(call)(*arrays), expected)
    place = next((at for at, each in enumerate(arrays) if _is_inexact(each)), 0)

    def of_one(array: Any) -> Any:
        return call(*[array if at == place else each for at, each in enumerate(arrays)])

    stacked = _members(arrays[place])
    try:
        alone, batch = mx.jit(lambda *xs: (call(*xs), mx.vmap(of_one)(stacked)))(*arrays)
    except mx.ConcretizationError:
        return False
    _compared(alone, expected)
    members = [of_one(each) for each in stacked]
    _compared(batch, jax.tree.map(lambda *rows: np.stack(rows), *members))
    return True


def _loss(call: Callable[..., Any], arrays: list[np.ndarray], np_: Any) -> tuple[Any, Any]:
    """The sum of squares of results as a function of the arrays of floats, and these."""
    places = [at for at, each in enumerate(arrays) if _is_inexact(each)]

    def loss(*floats: Any) -> Any:
        filled = dict(enumerate(arrays)) | dict(zip(places, floats, strict=True))
        results = jax.tree.leaves(call(*[filled[at] for at in range(len(arrays))]))
        inexact = [x for x in results if np.issubdtype(jax.numpy.result_type(x), np.inexact)]
        return sum((np_.sum(np_.real(x * np_.conj(x))) for x in inexact), start=np.float32(0))

    return loss, [arrays[at] for at in places]


def _check_derivatives(call: Any, arrays: list[np.ndarray], theirs: Any) -> None:
    """Reverse mode gives what JAX's does, and forward mode what reverse mode gives."""
    loss, floats = _loss(call, arrays, mx.numpy)
    if not floats:
        return
    every, ones = tuple(range(len(floats))), [np.ones_like(each) for each in floats]

    def both(*floats: Any) -> Any:
        return mx.grad(loss, every)(*floats), mx.jvp(loss, floats, tuple(ones))[1]

    slopes, along = mx.jit(both)(*floats)
    sums = [np.sum(np.real(np.asarray(each).astype(np.complex128))) for each in slopes]
    np.testing.assert_allclose(np.float64(along), np.sum(sums), rtol=5e-3, atol=5e-3)
    if theirs is not None:
        their_loss, _ = _loss(theirs, arrays, jax.numpy)
        _compared(slopes, jax.jit(jax.grad(their_loss, every))(*floats), 5e-3)


def _in_jax(path: str, name: str) -> Any:
    """JAX's function of the name; None where JAX has none."""
    found: Any = jax
    for part in [*path.split("."), name]:
        found = getattr(found, part, None)
    return found if callable(found) else None


CASES = [(path, part) for path in EXAMPLES for part in range(PARTS)]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("path", "part"), CASES)
def test_evaluators_batches_and_derivatives_agree(
    path: str, part: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for name, function, given in _calls(path, part, monkeypatch):
        call, arrays = _of_arrays(function, given)
        theirs = _in_jax(path, name)
        try:
            if _check_values(call, arrays) and f"{path}.{name}" not in WITHOUT:
                has_other = theirs is None or f"{path}.{name}" in OTHERS
                of_jax = None if has_other else _of_arrays(theirs, given)[0]
                _check_derivatives(call, arrays, of_jax)
        except Exception as error:
            wrong.append(f"{path}.{name}: {error!r}")
    assert not wrong, "\n".join(wrong)
