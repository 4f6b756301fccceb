"""`mx.numpy.fft`: discrete Fourier transforms over any axes, and their frequencies."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.numpy.fft import fftshift as fftshift
from jax.numpy.fft import ifftshift as ifftshift

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32, ElementType
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import axes_of, axis_of, kind_of, lifted, operand_shape
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.operators import convert
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers.shorthand import splat

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn"]
__all__ += ["ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Which way the whole transform is divided by the number of elements: forward, back, or by its root.
_NORMS = {None: "backward", "backward": "backward", "ortho": "ortho", "forward": "forward"}
_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
#: How many dimensions XLA transforms at once.
_AT_ONCE = 3


def _transformed(
    subject: str, form: str, a: Any, axes: Sequence[int], sizes: Sequence[int], norm: Any
) -> Any:
    """`a` transformed along axes, which have been counted from the front, to `sizes`."""
    operands.refuse_others(norm, _NORMS, subject, "norm")
    if any(size < 1 for size in sizes):
        problem, details = "a transform has no elements", f"the lengths are {tuple(sizes)}"
        raise operands.value_error(subject, problem, "Lengths must be positive.", details)
    is_forward = form in ("FFT", "RFFT")
    x = lifted(convert(a, _type_of(subject, a, form)))
    x = _resized(x, axes, [*sizes[:-1], sizes[-1] // 2 + 1] if form == "IRFFT" else sizes)
    groups = [slice(max(0, end - _AT_ONCE), end) for end in range(len(axes), 0, -_AT_ONCE)]
    # The last axis is transformed first by RFFT and last by IRFFT: the others are complex.
    for group in groups if is_forward else reversed(groups):
        plain = "FFT" if is_forward else "IFFT"
        moved = tuple(range(x.ndim - len(axes[group]), x.ndim))
        x = mnp.moveaxis(x, axes[group], moved)
        x = ops.fft(x, form if group.stop == len(axes) else plain, sizes[group])
        x = mnp.moveaxis(x, moved, axes[group])
    # XLA divides by the number of elements on the way back.
    power = {"backward": 0, "ortho": 0.5, "forward": 1}[_NORMS[norm]]
    factor = math.prod(sizes) ** (-power if is_forward else power)
    return x if factor == 1 else x * factor


def _type_of(subject: str, a: Any, form: str) -> ElementType:
    """The type of what is transformed: at least f32, complex but for RFFT."""
    kind = kind_of(a, subject)
    if form == "RFFT" and kind.is_complex:
        advice = "Give its real part, or use the transform of complex numbers."
        raise operands.shape_error(subject, "it takes real numbers", advice, f"given {kind}")
    kind = inexact_type(kind).real if kind.is_complex else inexact_type(kind)
    kind = kind if kind.bits >= 32 else F32
    return kind if form == "RFFT" else kind.complex


def _resized(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """`x` cut off, or with zeros after its elements, along axes."""
    wanted = dict(zip(axes, sizes, strict=True))
    edges = [(0, wanted.get(axis, size) - size, 0) for axis, size in enumerate(x.shape)]
    if not any(after for _, after, _ in edges):
        return x
    return ops.pad(x, splat(0, Shape(kind_of(x))), edges)


_SHARED = """
Args:
    a: an array.
    n: the length of the transformed axis, or of the result for an inverse of real numbers. The
        axis is truncated or padded with zeros. Default: its size, or 2 * (size - 1) if `a` is one
        half of a transform.
    s: these lengths, one for each axis; -1 stands for the default.
    axis: the axis.
    axes: the axes; default of functions of n axes: the last axes, one for each length in `s`, or
        all.
    norm: "backward" (or None) divides the inverse by the number of elements, "forward" divides the
        transform, "ortho" divides both by the root.

Returns:
    A complex array like `a`, whose transformed axes have the given lengths.

Raises:
    AttributeValueError: an axis is out of range or repeated, a length is not positive, or `norm`
        is unknown.
"""
_TO_REAL = """
Returns:
    A real array like `a`, whose transformed axes have the given lengths. The default length of
    the last axis is 2 * (size - 1).
"""
_OF_REAL = """
Returns:
    A complex array like `a`, but of size n // 2 + 1 along the last axis, of length n.

Raises:
    AttributeValueError: an axis is out of range or repeated, a length is not positive, or
        `norm` is unknown.
    ShapeError: `a` is complex.
"""


def _whole_length(size: int, form: str) -> int:
    return 2 * (size - 1) if form == "IRFFT" else size


def _along_one(
    subject: str, form: str, is_hermitian: bool, a: Any, n: int | None, axis: int, norm: Any
) -> Any:
    sizes = operand_shape(a, subject).dimensions
    place = axis_of(axis, len(sizes), subject)
    length = (
        _whole_length(sizes[place], form) if n is None else operands.static_int(n, subject, "n")
    )
    if not is_hermitian:
        return _transformed(subject, form, a, [place], [length], norm)
    # The transform of a symmetric vector is the inverse of its conjugate, and divided there.
    norm = _OTHER_WAY.get(norm or "backward", norm)
    if form == "IRFFT":
        return _transformed(subject, form, mnp.conjugate(a), [place], [length], norm)
    return mnp.conjugate(_transformed(subject, form, a, [place], [length], norm))


@one_program("a")
@documented(_SHARED)
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Transform along an axis.

    Example:
        >>> np.fft.fft(np.array([1.0, 2.0, 3.0, 4.0]))
        Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _along_one("fft", "FFT", False, a, n, axis, norm)


@one_program("a")
@documented(_SHARED)
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `fft`.

    Example:
        >>> np.fft.ifft(np.array([10, -2 + 2j, -2, -2 - 2j]))
        Array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j], dtype=complex64)
    """
    return _along_one("ifft", "IFFT", False, a, n, axis, norm)


@one_program("a")
@documented(_SHARED, _OF_REAL)
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the first n // 2 + 1 elements of the `fft` of real numbers.

    Example:
        >>> np.fft.rfft(np.array([1.0, 2.0, 3.0, 4.0]))
        Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _along_one("rfft", "RFFT", False, a, n, axis, norm)


@one_program("a")
@documented(_SHARED, _TO_REAL)
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `rfft`.

    Example:
        >>> np.fft.irfft(np.array([10, -2 + 2j, -2]))
        Array([1., 2., 3., 4.], dtype=float32)
    """
    return _along_one("irfft", "IRFFT", False, a, n, axis, norm)


@one_program("a")
@documented(_SHARED, _TO_REAL)
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real `fft` of the first half of a symmetric vector.

    Example:
        >>> np.fft.hfft(np.array([1.0, 2.0, 3.0]))
        Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    return _along_one("hfft", "IRFFT", True, a, n, axis, norm)


@one_program("a")
@documented(_SHARED, _OF_REAL)
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `hfft`.

    Example:
        >>> np.fft.ihfft(np.array([8.0, -2.0, 0.0, -2.0]))
        Array([1.-0.j, 2.-0.j, 3.-0.j], dtype=complex64)
    """
    return _along_one("ihfft", "RFFT", True, a, n, axis, norm)


def _along_several(
    subject: str, form: str, a: Any, s: Sequence[int] | None, axes: Any, norm: Any
) -> Any:
    sizes = operand_shape(a, subject).dimensions
    if axes is None and s is not None:
        axes = range(-len(operands.listed(s)), 0)
    places = axes_of(axes, len(sizes), subject)
    lengths = [-1] * len(places) if s is None else operands.listed(s)
    lengths = [operands.static_int(length, subject, "s") for length in lengths]
    if len(lengths) != len(places):
        problem, advice = "s and axes differ in length", "Give one length for each axis."
        raise operands.value_error(subject, problem, advice, s=s, axes=axes)
    if not places and form in ("RFFT", "IRFFT"):
        raise operands.index_error(subject, "there is no axis to transform", "Give one or more.")
    whole = [sizes[at] if n == -1 else n for at, n in zip(places, lengths, strict=True)]
    if whole and lengths[-1] == -1:
        whole[-1] = _whole_length(whole[-1], form)
    return _transformed(subject, form, a, places, whole, norm)


def _along_two(
    subject: str, form: str, a: Any, s: Sequence[int] | None, axes: Any, norm: Any
) -> Any:
    if axes is not None and len(operands.listed(axes)) != 2:
        problem, advice = "it transforms two axes", "Give two, or use the function of n axes."
        raise operands.value_error(subject, problem, advice, axes=axes)
    return _along_several(subject, form, a, s, axes, norm)


@one_program("a")
@documented(_SHARED)
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Transform along two axes.

    Example:
        >>> np.fft.fft2(np.array([[1.0, 2.0], [3.0, 4.0]]))
        Array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]], dtype=complex64)
    """
    return _along_two("fft2", "FFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED)
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Invert `fft2`.

    Example:
        >>> np.fft.ifft2(np.array([[10, -2], [-4, 0]]))
        Array([[1.+0.j, 2.+0.j],
               [3.+0.j, 4.+0.j]], dtype=complex64)
    """
    return _along_two("ifft2", "IFFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED, _OF_REAL)
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Apply `rfft` along the last of two axes, then `fft` along the first.

    Example:
        >>> np.fft.rfft2(np.ones((2, 4)))
        Array([[8.+0.j, 0.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _along_two("rfft2", "RFFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED, _TO_REAL)
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Invert `rfft2`.

    Example:
        >>> np.fft.irfft2(np.array([[10, -2], [-4, 0]]))
        Array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    return _along_two("irfft2", "IRFFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED)
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Transform along axes.

    Example:
        >>> np.fft.fftn(np.ones((2, 2, 2))).real.ravel()
        Array([8., 0., 0., 0., 0., 0., 0., 0.], dtype=float32)
    """
    return _along_several("fftn", "FFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED)
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Invert `fftn`.

    Example:
        >>> np.fft.ifftn(np.ones((2, 2, 2))).real.ravel()
        Array([1., 0., 0., 0., 0., 0., 0., 0.], dtype=float32)
    """
    return _along_several("ifftn", "IFFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED, _OF_REAL)
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Apply `rfft` along the last of the axes, then `fft` along the others.

    Example:
        >>> np.fft.rfftn(np.ones((2, 2, 4))).shape
        (2, 2, 3)
    """
    return _along_several("rfftn", "RFFT", a, s, axes, norm)


@one_program("a")
@documented(_SHARED, _TO_REAL)
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Invert `rfftn`.

    Example:
        >>> np.fft.irfftn(np.ones((2, 3))).shape
        (2, 4)
    """
    return _along_several("irfftn", "IRFFT", a, s, axes, norm)


def _frequencies(subject: str, of_count: Any, n: int, d: Any, dtype: Any) -> Array:
    kind = operands.requested_type(dtype, subject, operands.default_float())
    count = operands.static_int(n, subject, "n")
    if count < 1:
        raise operands.value_error(subject, "n is not positive", "Give a length.", n=n)
    # In units of 1 / n they are integers.
    return lifted(of_count(count, 1 / count).astype(kind.dtype)) / convert(d * count, kind)


_OF_FREQUENCIES = """
Args:
    n: the length of the transform.
    d: the distance between samples.
    dtype: the element type of the result; default: float.
    device: a device or a sharding for the result.

Raises:
    AttributeValueError: `n` is not positive.
"""


@placeable("device")
@documented(_OF_FREQUENCIES)
def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """Return the frequencies of a transform: 0 to the largest, then the negative ones.

    Returns:
        A vector of `n` frequencies.

    Example:
        >>> np.fft.fftfreq(4)
        Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype)


@placeable("device")
@documented(_OF_FREQUENCIES)
def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """Return the frequencies of a transform of real numbers; see `fftfreq`.

    Returns:
        A vector of n // 2 + 1 frequencies.

    Example:
        >>> np.fft.rfftfreq(4)
        Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype)
