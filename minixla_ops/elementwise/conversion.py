"""Operations that change the representation of values: element type, bits, precision."""

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register
from minixla.core.attributes import Int32, TypeAttribute, attribute
from minixla.core.element_types import ELEMENT_TYPES, F32, ElementType, element_type
from minixla.core.sharding_rule import NEED_REPLICATION
from minixla.typing import Array
from minixla_ops.elementwise.families import FLOATS, Unary
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.shorthand import array_shape, full_like
from minixla_ops.programs.lowering import kept_program


@register
class ConvertElementType(Unary):
    """Convert elements to another element type, like C++'s static_cast. XLA: ConvertElementType.

    Integers wrap. Floats round once, to nearest and ties to even. In integer types they saturate,
    and NaN becomes 0. pred is true if the element differs from 0. Complex numbers lose their
    imaginary part. `casting.cast` has the details.

    Args:
        operand: an array with any element type.
        new_element_type: an ElementType, its name, or a dtype.

    Returns:
        An array with the same dimensions.

    Example:
        >>> ops.convert_element_type(np.float32([1.7, -1.7, 300]), "s8")
        Array([  1,  -1, 127], dtype=int8)
    """

    stablehlo_name = "convert"
    is_cheap = True
    new_element_type: ElementType = attribute(TypeAttribute(), stablehlo=None, hlo=None)
    linear_operands = (0,)

    def result_shape(self, operand):
        return operand.with_element_type(self.new_element_type)

    def reference(self, operand):
        return cast(operand, self.new_element_type)

    def transpose(self, cotangents, operands, linear):
        return (ops.convert_element_type(cotangents, array_shape(operands[0]).element_type),)


@register
class BitcastConvertType(Operation):
    """Reinterpret bits as another element type. XLA: BitcastConvertType.

    A wider element becomes a new last dimension of narrower elements, with the least significant
    bits at index 0. Conversely, the last dimension becomes one wider element. Types of 2, 4 and 6
    bits count as that many bits.

    Args:
        operand: an array with any element type.
        new_element_type: the type to read the bits as: an ElementType, its name, or a dtype.

    Returns:
        An array with the same dimensions. A narrower type adds a dimension at the end, and a wider
        type removes the last one.

    Checks:
        (C1) pred and complex types convert only to themselves; XLA does not define their bits.
        (C2) the width of the wider type is a multiple of the narrower one's.
        (C3) if elements become wider, the last dimension has exactly the elements of one result.

    Example:
        >>> ops.bitcast_convert_type(np.float32(1), "u32")
        Array(1065353216, dtype=uint32)
        >>> ops.bitcast_convert_type(np.uint32(0x01020304), "u8")
        Array([4, 3, 2, 1], dtype=uint8)
    """

    hlo_name = "bitcast-convert"
    stablehlo_name = "bitcast_convert"
    operands = ("operand",)
    new_element_type: ElementType = attribute(TypeAttribute(), stablehlo=None, hlo=None)
    zero_derivative = "it reinterprets bits"

    def shape(self, array):
        old, new = array.element_type, self.new_element_type
        if old is not new and not {old.kind, new.kind}.isdisjoint(("pred", "complex")):
            advice = "Use convert_element_type, or real and imag."
            self.refuse("C1", f"{old} cannot be read as {new}", advice)
        if max(old.bits, new.bits) % min(old.bits, new.bits):
            self.refuse(
                "C2",
                f"one width must be a multiple of the other; got {old.bits} and {new.bits} bits",
            )
        if old.bits == new.bits:
            return array.with_element_type(new)
        if old.bits > new.bits:
            return Shape(new, (*array.dimensions, old.bits // new.bits))
        count = new.bits // old.bits
        if array.dimensions[-1:] != (count,):
            advice = f"Reshape it so that the last dimension has size {count}."
            self.refuse(
                "C3", f"the last dimension must hold the {count} elements of one {new}", advice
            )
        return Shape(new, array.dimensions[:-1])

    def reference(self, operand):
        old, new = element_type(operand.dtype), self.new_element_type
        if old is new:
            return operand
        # The bits of each element, as u64.
        whole = cast(operand, widened(old)) if old.is_integer else operand
        bits = whole.view(f"u{whole.dtype.itemsize}").astype(np.uint64)
        bits &= np.uint64((1 << old.bits) - 1)
        if old.bits > new.bits:
            shifts = np.arange(0, old.bits, new.bits, dtype=np.uint64)
            bits = (bits[..., np.newaxis] >> shifts) & np.uint64((1 << new.bits) - 1)
        elif old.bits < new.bits:
            shifts = np.arange(0, new.bits, old.bits, dtype=np.uint64)
            bits = np.bitwise_or.reduce(bits << shifts, axis=-1)
        whole = np.asarray(bits).astype(f"u{new.dtype.itemsize}")
        return cast(whole, new) if new.is_integer else whole.view(new.dtype)

    def batch(self, operands, dimensions):
        operand, dimension = operands[0], dimensions[0] or 0
        # The last dimension is the one whose elements are combined, so it must not be the batch.
        if dimension == array_shape(operand).rank - 1:
            operand, dimension = move_dimension(operand, dimension, 0), 0
        return self(operand), dimension

    def sharding_rule(self, operand):
        rule = self.sharding_factors((operand,))
        (factor,), (new,) = rule.operand_sizes, rule.result_sizes
        kinds = {min(len(factor), len(new)): NEED_REPLICATION}
        return rule.pointwise(max(factor, new, key=len), kinds).build()


@register
class ReducePrecision(Unary):
    """Round values to a narrower float format. XLA: ReducePrecision.

    The format has a sign, `exponent_bits` and `mantissa_bits`. Values round to nearest, ties to
    even. Values that are too large become infinities, and values below the smallest normal number
    become zeros. NaN stays NaN. A count that is not below that of the operand's type leaves that
    part unchanged. Types of at most 8 bits are computed in f16 (f8e8m0fnu in f32) and rounded back.
    As in JAX, derivatives lose precision too.

    XLA's older interface had the counts in the other order: pass them by name.

    Args:
        operand: an array of floats.
        exponent_bits: the width of the exponent, >= 1 so that zero and infinity differ.
        mantissa_bits: the width of the mantissa, >= 0.

    Returns:
        An array with the operand's shape.

    Example:
        >>> ops.reduce_precision(np.float32([1.01, 1e30]), exponent_bits=5, mantissa_bits=2)
        Array([ 1., inf], dtype=float32)
    """

    stablehlo_name = "reduce_precision"
    element_types = FLOATS
    exponent_bits: int = attribute(Int32(1))
    mantissa_bits: int = attribute(Int32(0))
    linear_operands = (0,)

    def reference(self, operand):
        kind = element_type(operand.dtype)
        wide = F32 if kind.name == "f8e8m0fnu" else ELEMENT_TYPES["f16"] if kind.bits <= 8 else kind
        return cast(_with_format(cast(operand, wide), self.exponent_bits, self.mantissa_bits), kind)

    def stablehlo(self, emit, operands, shapes, results):
        reduced = super().stablehlo(emit, operands, shapes, results)
        if self.mantissa_bits:
            return reduced
        # With no mantissa bits, XLA's programs usually keep NaN. NaN becomes infinity when XLA
        # folds constants, in other generated code, and in StableHLO's interpreter.
        return emit.expand(kept_program(_with_nan, (*shapes, *shapes)), [*operands, *reduced])

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)


def _with_nan(operand: Array, reduced: Array) -> Array:
    return ops.select(ops.ne(operand, operand), operand, reduced)


def _with_format(array: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Compute ReducePrecision of bf16, f16, f32 or f64 on their bits, as XLA does."""
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    own_mantissa = ml_dtypes.finfo(array.dtype).nmant
    own_exponent = 8 * unsigned.itemsize - 1 - own_mantissa

    def mask(low: int, count: int) -> np.ndarray:
        return np.array(((1 << count) - 1) << low, unsigned)

    given = array.view(unsigned)
    bits = given
    dropped = own_mantissa - mantissa_bits
    if dropped > 0:
        # Add half a step less one unit, and that unit if the last kept bit is odd: ties to even.
        # A carry correctly moves into the exponent.
        odd = (bits >> dropped) & mask(0, 1)
        bits = (bits + mask(0, dropped - 1) + odd) & ~mask(0, dropped)
    if exponent_bits < own_exponent:
        sign = given & mask(own_mantissa + own_exponent, 1)
        exponent = (bits >> own_mantissa) & mask(0, own_exponent)
        own_bias, bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        infinite = sign | mask(own_mantissa, own_exponent)
        bits = np.where(exponent <= own_bias - bias, sign, bits)
        bits = np.where(exponent > own_bias + bias, infinite, bits)
    return np.asarray(np.where(np.isnan(array), given, bits)).view(array.dtype)


def sign_bit(x: Array) -> Array:
    """Return whether the sign bit of floats is set, including -0.0."""
    bits = ops.bitcast_convert_type(x, f"s{array_shape(x).element_type.bits}")
    return ops.lt(bits, full_like(bits, 0))
