"""Arrays by indexing, what comes from outside of programs, and the long tail."""

from __future__ import annotations

import io

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import assert_close, values

F32 = np.float32
X = values(F32, 3)
KEYS = [
    (slice(0, 4), 0, [5, 6]),
    ("0,2,0", [1, 2, 3], [4, 5, 6]),
    ("0,2", [1, 2, 3], [4, 5, 6]),
    ("r", [1, 2]),
    ("c", [1, 2]),
    ("1,3,1", [1, 2]),
    ("1,3,-2", [1, 2]),
    (slice(0, 1, 5j), 2.0),
    (slice(2, 8, 3),),
]


@pytest.mark.parametrize("key", KEYS)
def test_joined_by_indexing(key) -> None:
    with jax.enable_x64(True):
        assert_close(mnp.r_[key], np.asarray(np.r_[key]))
        if not isinstance(key[0], str):
            assert_close(mnp.c_[key[:1]], np.c_[key[:1]])


def test_joined_by_indexing_of_traced_values() -> None:
    found = mx.jit(lambda x: (mnp.r_[x, 0.0, x], mnp.c_[x, x]))(X)
    assert_close(found, (np.r_[X, F32(0), X], np.c_[X, X]))
    assert_close(mx.grad(lambda x: (mnp.r_[x, x] ** 2).sum())(X), 4 * X)


def test_grids() -> None:
    with jax.enable_x64(True):
        assert_close(mnp.mgrid[0:3, 0:1:3j], np.mgrid[0:3, 0:1:3j])
        assert_close(mnp.ogrid[0:3, 1:2], np.ogrid[0:3, 1:2])
    assert mnp.s_[1:2, ...] == np.s_[1:2, ...]
    assert mnp.index_exp[1] == (1,)


def test_files_and_buffers(tmp_path) -> None:
    for kind in (F32, ml_dtypes.bfloat16):
        file = io.BytesIO()
        mnp.save(file, X.astype(kind))
        file.seek(0)
        assert_close(mnp.load(file), X.astype(kind))
    file = tmp_path / "several.npz"
    mnp.savez(file, x=X)
    assert_close(mnp.load(file)["x"], X)
    X.tofile(tmp_path / "raw")
    assert_close(mnp.fromfile(tmp_path / "raw", F32), X)
    assert_close(mnp.frombuffer(X.tobytes(), F32), X)
    assert_close(mnp.frombuffer(X.tobytes(), F32, 1, 4), X[1:2])
    assert_close(mnp.fromiter(range(3), np.int32), np.arange(3, dtype=np.int32))
    assert_close(mnp.fromstring("1 2", F32, sep=" "), np.array([1, 2], F32))


def test_arrays_of_other_libraries() -> None:
    x = np.arange(3.0, dtype=F32)
    found = mnp.from_dlpack(x)
    assert isinstance(found, jax.Array)
    assert_close(found, x)
    assert_close(mnp.from_dlpack(x, device=jax.devices()[0], copy=True), x)
    with pytest.raises(TypeError, match="from_dlpack: it has no __dlpack__"):
        mnp.from_dlpack([1, 2])


def test_printing() -> None:
    with mnp.printoptions(precision=2):
        assert mnp.array_str(X) == np.array_str(X)
        assert mnp.get_printoptions()["precision"] == 2
    assert mnp.array_repr(X) == np.array_repr(X)
    assert mnp.iterable(X)


def test_arrays_are_instances_of_ndarray() -> None:
    seen = []

    @mx.jit
    def function(x):
        seen.append(isinstance(x, mnp.ndarray))
        return x

    assert isinstance(function(X), mnp.ndarray)
    assert seen == [True]
    assert not isinstance(1.0, mnp.ndarray)
    with pytest.raises(TypeError, match="arrays are created by functions such as mx"):
        mnp.ndarray(3)


TAIL = [
    ("frexp", (F32([1, -3.7, 0, np.inf, 1024]),)),
    ("ldexp", (F32([1, -3, 0.5]), np.int32([3, -2, 0]))),
    ("packbits", (F32([[1, 0, -3], [7, 5, 4]]) > 4, 1)),
    ("unpackbits", (np.uint8([3, 200]),)),
    ("spacing", (X,)),
    ("i0", (X,)),
]


@pytest.mark.parametrize(("name", "args"), TAIL)
def test_the_long_tail(name: str, args) -> None:
    expected = jax.tree.map(np.asarray, getattr(jnp, name)(*args))
    for evaluate in (mx.reference, mx.jit, lambda f: f):
        found = evaluate(lambda *xs: getattr(mnp, name)(*xs, *args[len(xs) :]))(args[0])
        assert_close(found, expected)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning", "kaiser"])
def test_windows(name: str) -> None:
    for count in (1, 2, 7):
        given = (count, 3.0) if name == "kaiser" else (count,)
        assert_close(getattr(mnp, name)(*given), getattr(np, name)(*given).astype(F32), 64)


def test_updated_copies() -> None:
    expected = X.copy()
    np.put(expected, [0, -1], [5, 6])
    assert_close(mnp.put(X, np.array([0, -1]), F32([5, 6]), inplace=False), expected)
    np.place(expected, X > 0, [7, 8])
    found = mx.jit(lambda x: mnp.place(x, x > 0, F32([7, 8]), inplace=False))(X)
    np.testing.assert_array_equal(found[X > 0], expected[X > 0])
    with pytest.raises(ValueError, match="in-place"):
        mnp.put(X, 0, 1)
