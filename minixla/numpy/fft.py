"""`mx.numpy.fft`: discrete Fourier transforms over any axes, and their frequencies."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.numpy.fft import fftshift as fftshift
from jax.numpy.fft import ifftshift as ifftshift

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import F32, ElementType
from minixla.core.shapes import Shape
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, family, named, placeable
from minixla.numpy.operands import axes_of, axis_of, kind_of, lifted, operand_shape
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
        problem, given = "a transform has no elements", f"the lengths are {tuple(sizes)}"
        raise operands.value_error(subject, problem, "Lengths must be positive.", given)
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


_of_axes = partial(family, "a", module=__name__)


def _whole_length(size: int, form: str) -> int:
    return 2 * (size - 1) if form == "IRFFT" else size


@_of_axes()
def _along_one(row: Row, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    subject, form, is_hermitian = row
    sizes = operand_shape(a, subject).dimensions
    place = axis_of(axis, len(sizes), subject)
    given = _whole_length(sizes[place], form) if n is None else operands.static_int(n, subject, "n")
    if not is_hermitian:
        return _transformed(subject, form, a, [place], [given], norm)
    # The transform of a symmetric vector is the inverse of its conjugate, and divided there.
    norm = _OTHER_WAY.get(norm or "backward", norm)
    if form == "IRFFT":
        return _transformed(subject, form, mnp.conjugate(a), [place], [given], norm)
    return mnp.conjugate(_transformed(subject, form, a, [place], [given], norm))


fft = _along_one("fft", "The transform along an axis.", "FFT")
ifft = _along_one("ifft", "The inverse of `fft`.", "IFFT")
rfft = _along_one("rfft", "The first n // 2 + 1 elements of `fft` of real numbers.", "RFFT")
irfft = _along_one("irfft", "The inverse of `rfft`.", "IRFFT")
hfft = _along_one("hfft", "The real `fft` of the first half of symmetric numbers.", "IRFFT", 1)
ihfft = _along_one("ihfft", "The inverse of `hfft`.", "RFFT", 1)


def _along_several(
    row: Row, a: Any, s: Sequence[int] | None = None, axes: Any = None, norm: Any = None
) -> Any:
    subject, form, _ = row
    sizes = operand_shape(a, subject).dimensions
    if axes is None and s is not None:
        axes = range(-len(operands.listed(s)), 0)
    places = axes_of(axes, len(sizes), subject)
    lengths = [-1] * len(places) if s is None else operands.listed(s)
    lengths = [operands.static_int(each, subject, "s") for each in lengths]
    if len(lengths) != len(places):
        problem, advice = "s and axes differ in length", "Give one length for each axis."
        raise operands.value_error(subject, problem, advice, s=s, axes=axes)
    if not places and form in ("RFFT", "IRFFT"):
        raise operands.index_error(subject, "there is no axis to transform", "Give one or more.")
    found = [sizes[at] if n == -1 else n for at, n in zip(places, lengths, strict=True)]
    if found and lengths[-1] == -1:
        found[-1] = _whole_length(found[-1], form)
    return _transformed(subject, form, a, places, found, norm)


@_of_axes()
def _along_two(
    row: Row, a: Any, s: Sequence[int] | None = None, axes: Any = (-2, -1), norm: Any = None
) -> Any:
    if axes is not None and len(operands.listed(axes)) != 2:
        problem, advice = "it transforms two axes", "Give two, or use the function of n axes."
        raise operands.value_error(row.name, problem, advice, axes=axes)
    return _along_several(row, a, s, axes, norm)


_along_all = _of_axes()(_along_several)
fft2 = _along_two("fft2", "The transform along two axes.", "FFT")
ifft2 = _along_two("ifft2", "The inverse of `fft2`.", "IFFT")
rfft2 = _along_two("rfft2", "`rfft` along the last axis of two, then `fft`.", "RFFT")
irfft2 = _along_two("irfft2", "The inverse of `rfft2`.", "IRFFT")
fftn = _along_all("fftn", "The transform along axes.", "FFT")
ifftn = _along_all("ifftn", "The inverse of `fftn`.", "IFFT")
rfftn = _along_all("rfftn", "`rfft` along the last of the axes, then `fft`.", "RFFT")
irfftn = _along_all("irfftn", "The inverse of `rfftn`.", "IRFFT")


def _frequencies(name: str, of_count: Any, text: str) -> Any:
    def made(n: int, d: Any = 1.0, *, dtype: Any = None) -> Any:
        kind = operands.requested_type(dtype, name, operands.default_float())
        count = operands.static_int(n, name, "n")
        if count < 1:
            raise operands.value_error(name, "n is not positive", "Give a length.", n=n)
        # In units of 1 / n they are integers.
        return lifted(of_count(count, 1 / count).astype(kind.dtype)) / convert(d * count, kind)

    return placeable("device")(named(made, name, f"The frequencies of {text}.", __name__))


_ORDER = "the elements of a transform: 0 to the greatest, then the negative ones"
fftfreq = _frequencies("fftfreq", np.fft.fftfreq, _ORDER)
rfftfreq = _frequencies("rfftfreq", np.fft.rfftfreq, "a transform of real numbers; see `fftfreq`")
