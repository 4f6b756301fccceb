"""Fft: discrete Fourier transforms over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from minixla.core.attributes import Enumeration, Integers
from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.graph import Graph
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph
from minixla_ops.batching import move_dimension
from minixla_ops.bitwise import or_
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import eq
from minixla_ops.composed import without_lines
from minixla_ops.creation import iota
from minixla_ops.rules import array_shape, listed, splat, zeros
from minixla_ops.selection import select
from minixla_ops.unary import conjugate

__all__ = ["fft"]

_FORMS = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
_REALS = [ELEMENT_TYPES[name] for name in ("f32", "f64")]
_COMPLEX = [each.complex for each in _REALS]


@register
class Fft(Operation):
    """The discrete Fourier transform over the last one to three dimensions. XLA: Fft.

    Along one dimension of length N, FFT gives y[k] = sum over n of x[n] exp(-2 pi i k n / N), and
    IFFT its inverse, x[n] = 1/N sum over k of y[k] exp(2 pi i k n / N). RFFT is FFT of real
    numbers without the elements above N / 2, which are the conjugates of those below; IRFFT, its
    inverse, takes that symmetry for granted and does not read the imaginary parts of elements 0
    and N / 2. Several dimensions are transformed one after the other, the last one first by RFFT
    and last by IRFFT: the others are complex.

    Attributes:
        fft_type: FFT, IFFT, RFFT or IRFFT.
        fft_length: the length N of each transformed dimension, before RFFT and after IRFFT. If it
            is 0, so is the size of the result.

    Checks:
        (C1) one to three lengths, not more than operand has dimensions.
        (C2) operand is of f32 or f64 for RFFT, of c64 or c128 for the others.
        (C3) its last dimensions have the sizes fft_length, the very last one N // 2 + 1 for IRFFT
            (or 0 where N is).
    """

    stablehlo_name = "fft"
    operand_names = ("operand",)
    attributes = {"fft_type": Enumeration(*_FORMS), "fft_length": Integers(minimum=0)}
    linear_operands = (0,)

    def shape(self, operand: Any, /, *, fft_type: str, fft_length: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [f"operand {operand}", f"fft_type {fft_type}, fft_length {fft_length}"]
        if not 1 <= len(fft_length) <= min(3, operand.rank):
            self.reject_attribute(
                "C1",
                f"{len(fft_length)} dimensions cannot be transformed",
                given,
                "Give one to three lengths, those of the operand's last dimensions.",
            )
        kind, allowed = operand.element_type, _REALS if fft_type == "RFFT" else _COMPLEX
        if kind not in allowed:
            names = " or ".join(each.name for each in allowed)
            self.reject("C2", f"{fft_type} does not take {kind}", given, f"It takes {names}.")
        *outer, last = fft_length
        sizes = operand.dimensions[-len(fft_length) :]
        wanted = (*outer, last // 2 + 1) if fft_type == "IRFFT" else fft_length
        if sizes != wanted and not (last == 0 and sizes == fft_length):
            self.reject(
                "C3",
                f"the last dimensions have sizes {sizes}, not {wanted}",
                given,
                "Pad or slice the operand, or give other lengths.",
            )
        if fft_type == "RFFT":
            last = last // 2 + 1 if last else 0
            return Shape(kind.complex, (*operand.dimensions[:-1], last))
        if fft_type == "IRFFT":
            return Shape(kind.real, (*operand.dimensions[:-1], last))
        return operand

    def reference(
        self, operand: np.ndarray, /, *, fft_type: str, fft_length: tuple[int, ...]
    ) -> np.ndarray:
        kind = element_type(operand.dtype)
        if fft_type in ("RFFT", "IRFFT"):
            kind = kind.complex if fft_type == "RFFT" else kind.real
        if 0 in fft_length:
            last = fft_length[-1]
            last = last // 2 + 1 if fft_type == "RFFT" and last else last
            return np.zeros((*operand.shape[:-1], last), kind.dtype)
        wide = operand.astype(np.float64 if fft_type == "RFFT" else np.complex128)
        result = _FORMS[fft_type](wide, fft_length, range(-len(fft_length), 0))
        return result.astype(kind.dtype)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        fft_type: str,
        fft_length: tuple[int, ...],
    ) -> Sequence[str]:
        if fft_type == "IRFFT" and len(fft_length) > 1 and emit.platform != "cpu":
            (shape,) = self.array_shapes(shapes)
            return emit.expand(_one_after_the_other(shape, fft_length), operands)
        kind = f"#stablehlo<fft_type {fft_type}>"
        given = {"fft_type": kind, "fft_length": fft_length}
        return emit.operation("stablehlo.fft", operands, shapes, results, **given)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        fft_type: str,
        fft_length: tuple[int, ...],
    ) -> Sequence[Any]:
        # FFT and IFFT are symmetric. Where one element stands for two, it counts twice.
        if fft_type in ("FFT", "IFFT"):
            return (fft(cotangents, fft_type, fft_length),)
        shape = array_shape(operands[0])
        if not array_shape(cotangents).size:
            return (zeros(shape),)
        if fft_type == "RFFT":
            weights = _multiplicities(array_shape(cotangents), fft_length[-1])
            halved = conjugate(cotangents) / weights
            return (fft(halved, "IRFFT", fft_length) * prod(fft_length),)
        found = fft(cotangents, "RFFT", fft_length)
        return (conjugate(found) * _multiplicities(shape, fft_length[-1]) / prod(fft_length),)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int]:
        return bind(self, move_dimension(operands[0], dimensions[0] or 0, 0), **attributes), 0


def _multiplicities(shape: Shape, length: int) -> Any:
    """How many elements of a whole transform each element of a half one stands for."""
    count = shape.dimensions[-1]
    half, row = Shape("s32", (count,)), Shape(shape.element_type, (count,))
    position = iota(half, 0)
    is_alone = or_(eq(position, splat(0, half)), eq(position * 2, splat(length, half)))
    weights = select(is_alone, splat(1, row), splat(2, row))
    return broadcast_in_dim(weights, shape.dimensions, (shape.rank - 1,))


@lru_cache(maxsize=1024)
def _one_after_the_other(shape: Shape, fft_length: tuple[int, ...]) -> Graph:
    """IRFFT of several dimensions as IFFT of the outer ones, then IRFFT of the last.

    XLA's GPU library takes the symmetry for granted along all of the dimensions.
    """
    last = shape.rank - 1
    first = shape.rank - len(fft_length)

    def function(operand: Any) -> Any:
        moved = fft(move_dimension(operand, last, first), "IFFT", fft_length[:-1])
        return fft(move_dimension(moved, first, last), "IRFFT", fft_length[-1:])

    return without_lines(closed_graph(function, [shape], "fft", "fft"))


def fft(operand: Any, fft_type: str, fft_length: Sequence[int]) -> Any:
    """The discrete Fourier transform over the last dimensions, or its inverse.

    Args:
        operand: an array of c64 or c128, for RFFT of f32 or f64.
        fft_type: FFT, IFFT, RFFT or IRFFT.
        fft_length: the lengths of the transformed dimensions, one to three; for IRFFT those of
            the result.

    Returns:
        An array like operand; the last dimension has N // 2 + 1 elements after RFFT, N after
        IRFFT, where N is the last length.

    Raises:
        ShapeError, AttributeValueError: see Fft.
    """
    return bind(Fft.instance, operand, fft_type=fft_type, fft_length=listed(fft_length))
