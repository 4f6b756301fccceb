"""Fft: discrete Fourier transforms over the last dimensions."""

from math import prod

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, ElementType, Operation, Shape, element_type, register
from minixla.core.attributes import Enumeration, Integers, attribute
from minixla.core.sharding_rule import NEED_REPLICATION
from minixla.typing import Array
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import array_shape, splat, zeros

# Functions of numpy.fft by form; NumPy loads numpy.fft on first use.
_FORMS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}
_REALS = [ELEMENT_TYPES[name] for name in ("f32", "f64")]
_COMPLEX = [kind.complex for kind in _REALS]


@register
class Fft(Operation):
    """Discrete Fourier transform over the last one to three dimensions. XLA: Fft.

    Along one dimension of length N, FFT is y[k] = sum over n of x[n] exp(-2 pi i k n / N). IFFT is
    its inverse, x[n] = 1/N sum over k of y[k] exp(2 pi i k n / N). RFFT is FFT of real numbers
    without the elements above N / 2, which are conjugates of the elements below. IRFFT, its
    inverse, assumes that symmetry and ignores the imaginary parts of elements 0 and N / 2. Several
    dimensions are transformed one after the other. RFFT and IRFFT apply to the last one, which
    RFFT transforms first and IRFFT last; the others use complex transforms.

    Args:
        operand: an array of c64 or c128, for RFFT of f32 or f64.
        fft_type: FFT, IFFT, RFFT or IRFFT.
        fft_length: one to three lengths N of the transformed dimensions, before RFFT and after
            IRFFT. If one is 0, so is the size of the result.

    Returns:
        An array like operand; the last dimension has N // 2 + 1 elements after RFFT, N after
        IRFFT, where N is the last length.

    Checks:
        (C1) there are one to three lengths, at most the rank of operand.
        (C2) operand has type f32 or f64 for RFFT, c64 or c128 for the others.
        (C3) its last dimensions have the sizes fft_length, the very last one N // 2 + 1 for IRFFT
            (or 0 if N is 0).

    Example:
        >>> ops.fft(np.float32([1, 2, 3, 4]), "RFFT", (4,))
        Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """

    stablehlo_name = "fft"
    operands = ("operand",)
    fft_type: str = attribute(Enumeration(*_FORMS, mnemonic="fft_type"))
    fft_length: tuple[int, ...] = attribute(Integers(minimum=0))
    linear_operands = (0,)

    def shape(self, operand):
        form, lengths = self.fft_type, self.fft_length
        if not 1 <= len(lengths) <= min(3, operand.rank):
            self.refuse_attribute(
                "C1",
                f"fft_length must have 1 to {min(3, operand.rank)} entries, not {len(lengths)}",
            )
        kind, allowed = operand.element_type, _REALS if form == "RFFT" else _COMPLEX
        if kind not in allowed:
            names = " or ".join(kind.name for kind in allowed)
            self.refuse("C2", f"{form} does not support {kind}", f"Convert to {names}.")
        sizes = operand.dimensions[-len(lengths) :]
        wanted = (*lengths[:-1], lengths[-1] // 2 + 1) if form == "IRFFT" else lengths
        if sizes != wanted and not (lengths[-1] == 0 and sizes == lengths):
            problem = f"the last dimensions must have sizes {wanted}, not {sizes}"
            self.refuse("C3", problem, "Pad or slice the operand, or pass other lengths.")
        return Shape(self._result_type(kind), self._result_sizes(operand.dimensions))

    def _result_type(self, kind: ElementType) -> ElementType:
        return {"RFFT": kind.complex, "IRFFT": kind.real}.get(self.fft_type, kind)

    def _result_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        last = self.fft_length[-1]
        kept = {"RFFT": last // 2 + 1 if last else 0, "IRFFT": last}
        return (*sizes[:-1], kept.get(self.fft_type, sizes[-1]))

    def reference(self, operand):
        dtype = self._result_type(element_type(operand.dtype)).dtype
        if 0 in self.fft_length:
            return np.zeros(self._result_sizes(operand.shape), dtype)
        wide = operand.astype(np.float64 if self.fft_type == "RFFT" else np.complex128)
        dimensions = range(-len(self.fft_length), 0)
        transform = getattr(np.fft, _FORMS[self.fft_type])
        return transform(wide, self.fft_length, dimensions).astype(dtype)

    def transpose(self, cotangents, operands, linear):
        # FFT and IFFT are symmetric. An element of RFFT that represents two counts twice.
        if self.fft_type in ("FFT", "IFFT"):
            return (self(cotangents),)
        shape, lengths = array_shape(operands[0]), self.fft_length
        if not array_shape(cotangents).size:
            return (zeros(shape),)
        if self.fft_type == "RFFT":
            weights = _multiplicities(array_shape(cotangents), lengths[-1])
            return (ops.fft(conjugate(cotangents) / weights, "IRFFT", lengths) * prod(lengths),)
        transformed = ops.fft(cotangents, "RFFT", lengths)
        return (conjugate(transformed) * _multiplicities(shape, lengths[-1]) / prod(lengths),)

    def batch(self, operands, dimensions):
        return self(move_dimension(operands[0], dimensions[0], 0)), 0

    @property
    def split_by(self):
        return "pieces"  # XLA's partitioner gathers batches

    def sharding_rule(self, operand):
        rule, sizes, rank = self.sharding_factors((operand,)), operand.dimensions, operand.rank
        blocked = [rank - 1] if rule.result_sizes[0] != sizes else []
        kinds = dict.fromkeys(range(rank - len(self.fft_length), rank), NEED_REPLICATION)
        return rule.pointwise(sizes, kinds, blocked).build()


def _multiplicities(shape: Shape, length: int) -> Array:
    """Return how many elements of a whole transform each element of a half one represents."""
    count = shape.dimensions[-1]
    position, row = ops.iota(Shape("s32", (count,)), 0), Shape(shape.element_type, (count,))
    is_alone = (position == 0) | (position * 2 == length)
    weights = ops.select(is_alone, splat(1, row), splat(2, row))
    return ops.broadcast_in_dim(weights, shape.dimensions, (shape.rank - 1,))
