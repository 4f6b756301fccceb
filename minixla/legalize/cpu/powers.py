"""Powers of integers, and roots of complex numbers."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.constants import classes, distinct
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.control_flow.loops import any_of
from minixla_ops.elementwise.conversion import sign_bit
from minixla_ops.elementwise.families import COMPLEX, INTEGERS
from minixla_ops.helpers.shorthand import array_shape, full_like


def _is_beyond(operation: Any, operands: Operands, target: Target) -> bool:
    exponents = target.array(operands[1])
    if exponents is None:
        return True
    numbers = distinct(exponents).astype(object)
    return any(not 0 <= int(number) < 64 for number in numbers.flat)


@legalize(classes("Pow"), "cpu", folds=True, element_types=INTEGERS, when=_is_beyond)
def integer_power(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU takes integer exponents modulo 64, and treats unsigned exponents as signed.

    Its folder returns 0 for (-1) ** -1. The replacement is a loop that squares the base and
    multiplies the squares selected by the bits of the exponent. With a negative exponent the
    result is 1 for the base 1, 1 or -1 for -1, and 0 for all others.
    """
    kind = array_shape(operands[0]).element_type
    # XLA:CPU stores 2 and 4 bits in bytes.
    wide = ELEMENT_TYPES[f"{kind.kind[0]}8"] if kind.bits < 8 else kind
    base, exponent = ops.optimization_barrier(
        [ops.convert_element_type(operand, wide) for operand in operands]
    )
    unsigned = ELEMENT_TYPES[f"u{wide.bits}"]
    bits = ops.bitcast_convert_type(exponent, unsigned)
    product = _products(base, bits)
    if wide.kind == "signed":
        zero, one = full_like(base, 0), full_like(base, 1)
        is_odd = ops.ne(ops.and_(exponent, one), zero)
        of_minus_one = ops.select(is_odd, full_like(base, -1), one)
        inverse = ops.select(ops.eq(base, full_like(base, -1)), of_minus_one, zero)
        inverse = ops.select(ops.eq(base, one), one, inverse)
        product = ops.select(ops.lt(exponent, zero), inverse, product)
    return ops.convert_element_type(product, kind)


def _products(base: Any, bits: Any) -> Any:
    """Compute powers of `base` by repeated squaring; `bits` has the exponents."""

    def goes_on(bits: Any, square: Any, product: Any) -> Any:
        return any_of(ops.ne(bits, full_like(bits, 0)))

    def step(bits: Any, square: Any, product: Any) -> tuple[Any, Any, Any]:
        one = full_like(bits, 1)
        is_set = ops.ne(ops.and_(bits, one), full_like(bits, 0))
        product = ops.select(is_set, ops.mul(product, square), product)
        return ops.shift_right_logical(bits, one), ops.mul(square, square), product

    return ops.while_(goes_on, step, [bits, base, full_like(base, 1)])[2]


@legalize(classes("Sqrt"), "cpu", element_types=COMPLEX)
def complex_roots(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU takes an imaginary part of -0 for +0, so that the root of -2 - 0j is 1.41j.

    The imaginary part of a root has the sign of its operand's.
    """
    root, part = operation(operands[0]), ops.imag(operands[0])
    size = ops.abs(ops.imag(root))
    return ops.complex(ops.real(root), ops.select(sign_bit(part), -size, size))
