# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Sequence
from jax.numpy.fft import fftshift as fftshift
from jax.numpy.fft import ifftshift as ifftshift
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from typing import Any

__all__: list[str]

def fft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The transform along an axis."""

def fft2(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] = ..., norm: str | None = ...) -> Array:
    """The transform along two axes."""

def fftfreq(n: int, d: ArrayLike = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """The frequencies of the elements of a transform: 0 to the greatest, then the negative ones."""

def fftn(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array:
    """The transform along axes."""

def hfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The real `fft` of the first half of symmetric numbers."""

def ifft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The inverse of `fft`."""

def ifft2(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] = ..., norm: str | None = ...) -> Array:
    """The inverse of `fft2`."""

def ifftn(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array:
    """The inverse of `fftn`."""

def ihfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The inverse of `hfft`."""

def irfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The inverse of `rfft`."""

def irfft2(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] = ..., norm: str | None = ...) -> Array:
    """The inverse of `rfft2`."""

def irfftn(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array:
    """The inverse of `rfftn`."""

def rfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The first n // 2 + 1 elements of `fft` of real numbers."""

def rfft2(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] = ..., norm: str | None = ...) -> Array:
    """`rfft` along the last axis of two, then `fft`."""

def rfftfreq(n: int, d: ArrayLike = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """The frequencies of a transform of real numbers; see `fftfreq`."""

def rfftn(a: ArrayLike, s: Sequence[int] | None = ..., axes: Sequence[int] | None = ..., norm: str | None = ...) -> Array:
    """`rfft` along the last of the axes, then `fft`."""

