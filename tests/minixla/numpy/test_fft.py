"""Fourier transforms: values and derivatives against NumPy's and JAX's."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.harness import QUICKLY, by_jax
from tests.minixla.numpy.tables import Row, Table, assert_close, call, values

F32, C64 = np.float32, np.complex64
X, Z = values(F32, 4, 5, 6), values(C64, 4, 5, 6)
SMALL, SMALL_Z = values(F32, 3, 4), values(C64, 3, 4)
FOUR = values(F32, 2, 3, 4, 3)
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
ALONG_TWO = ("fft2", "ifft2", "rfft2", "irfft2")
ALONG_ALL = ("fftn", "ifftn", "rfftn", "irfftn")
OF_REALS = {"rfft", "ihfft", "rfft2", "rfftn"}


def operand(name: str) -> np.ndarray:
    return X if name in OF_REALS else Z


ROWS: dict[str, Row] = {}
for name in ALONG_ONE:
    for norm, n, axis in ((None, None, -1), ("ortho", 3, 0), ("forward", 8, 1)):
        ROWS[f"{name}, n={n}, axis={axis}, norm={norm}"] = call(
            f"fft.{name}", operand(name), n=n, axis=axis, norm=norm, units=64, jit=n == 3
        )
for name in (*ALONG_TWO, *ALONG_ALL):
    for s, axes in ((None, (0, 2)), ((3, 8), (1, 0))):
        ROWS[f"{name}, s={s}, axes={axes}"] = call(
            f"fft.{name}", operand(name), s=s, axes=axes, norm="ortho", units=64, jit=s == (3, 8)
        )
for name in ALONG_ALL:
    wide = FOUR if name in OF_REALS else FOUR.astype(C64) * (1 + 2j)
    ROWS[f"{name} of four axes"] = call(f"fft.{name}", wide, units=64, jit=True)
    ROWS[f"{name}, three lengths"] = call(f"fft.{name}", wide, s=(3, 2, 5), units=64)
for kind in (np.int32, np.uint8, np.bool_, np.float16):
    ROWS[f"fft of {kind.__name__}"] = call("fft.fft", values(kind, 6), units=64)
ROWS["rfft of integers"] = call("fft.rfft", values(np.int32, 6), units=64)
ROWS["an empty batch"] = call("fft.fft", np.zeros((0, 4), F32), batch=False)
ROWS["no axis"] = call("fft.fftn", X, axes=())
for axes in (None, 1, (0, -1)):
    ROWS[f"shift of {axes}"] = call("fft.fftshift", X, axes=axes)
    ROWS[f"back by {axes}"] = call("fft.ifftshift", X, axes=axes)
TABLE = Table(ROWS)


@pytest.mark.parametrize("key", ROWS)
def test_as_jax_has_it(key: str) -> None:
    TABLE.check(key)


def test_in_double_as_numpy_has_it() -> None:
    with jax.enable_x64(True):
        x, z = X.astype(np.float64), Z.astype(np.complex128)
        for name in (*ALONG_ONE, *ALONG_TWO, *ALONG_ALL):
            given = x if name in OF_REALS else z
            found = getattr(mnp.fft, name)(given)
            np.testing.assert_allclose(found, getattr(np.fft, name)(given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_frequencies(name: str, count: int) -> None:
    expected = getattr(np.fft, name)(count, 0.1)
    assert_close(getattr(mnp.fft, name)(count, 0.1), expected.astype(F32))
    found = mx.jit(lambda d: getattr(mnp.fft, name)(count, d, dtype=mnp.float16))(0.1)
    assert_close(found, expected.astype(np.float16))
    device = jax.devices()[0]
    assert getattr(mnp.fft, name)(count, device=device).device == device


def losses(namespace):
    """Real functions of transforms, which count elements differently, under their names."""

    def loss(name, options, x):
        found = getattr(namespace.fft, name)(x, **options)
        weights = namespace.arange(1.0, found.size + 1).reshape(found.shape)
        return namespace.sum(namespace.real(found * namespace.conj(found)) * weights)

    rows = [(name, {"n": 6, "axis": 0, "norm": "ortho"}) for name in ALONG_ONE]
    rows += [(name, {"norm": "forward"}) for name in (*ALONG_TWO, *ALONG_ALL)]
    return {name: functools.partial(loss, name, options) for name, options in rows}


def test_gradients_are_jaxs_and_agree_with_tangents() -> None:
    def all_of(namespace, grad, *, also=None):
        def program(x, z):
            found = {}
            for name, loss in losses(namespace).items():
                given = x if name in OF_REALS else z
                found[name] = grad(loss)(given)
                if also is not None:
                    found[f"{name} along"] = also(loss, (given,), (given * 0 + 1,))[1]
            return found

        return program

    ours = mx.jit(all_of(mnp, mx.grad, also=mx.jvp), compiler_options=QUICKLY)(SMALL, SMALL_Z)
    theirs = by_jax(all_of(jnp, jax.grad), SMALL, SMALL_Z)
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, rtol=1e-4, atol=1e-3)
        along = np.sum(np.real(expected))
        np.testing.assert_allclose(ours[f"{name} along"], along, rtol=1e-4, atol=1e-2)


def test_derivatives_twice() -> None:
    def loss(x):
        return mnp.sum(mnp.abs(mnp.fft.rfftn(x)) ** 2) + mnp.sum(mnp.fft.irfft(x[0] + 0j) ** 3)

    hessian = mx.jit(mx.hessian(loss), compiler_options=QUICKLY)(SMALL[:2, :3])
    with jax.enable_x64(True):
        wide = SMALL[:2, :3].astype(np.float64)
        gradient = mx.jit(mx.grad(loss))
        steps = np.eye(6).reshape(6, 2, 3) * 1e-5
        moved = [(gradient(wide + e) - gradient(wide - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(np.reshape(hessian, (6, 6)), np.reshape(moved, (6, 6)), atol=1e-3)


def test_numpys_functions_given_traced_values() -> None:
    found = mx.jit(lambda x: np.fft.rfftn(x, axes=(0, 1)))(X)
    np.testing.assert_allclose(found, np.fft.rfftn(X, axes=(0, 1)), atol=1e-4)


WRONG = [
    (lambda: mnp.fft.fft(X, n=0), ValueError, "Shape should be positive"),
    (lambda: mnp.fft.ifft(X, n=-3), ValueError, "Shape should be positive"),
    (lambda: mnp.fft.fft(X, axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: mnp.fft.fft(X, norm="all"), ValueError, "Invalid norm value all"),
    (lambda: mnp.fft.rfft(Z), ValueError, "only real valued inputs supported for rfft"),
    (lambda: mnp.fft.fftn(X, s=(2, 2), axes=(0,)), ValueError, "have different lengths"),
    (lambda: mnp.fft.fftn(X, axes=(0, 0)), ValueError, "does not support repeated axes"),
    (lambda: mnp.fft.fft2(X, axes=(0,)), ValueError, "only supports 2 axes"),
    (lambda: mnp.fft.fft(X, 2.5), TypeError, "cannot be interpreted as an integer"),
]


@pytest.mark.parametrize(("made", "kind", "message"), WRONG, ids=[row[2][:30] for row in WRONG])
def test_what_is_wrong_is_said(made, kind, message) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        made()
