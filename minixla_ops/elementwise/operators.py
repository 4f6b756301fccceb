"""Python's operators on tracers: strict operations with NumPy's broadcasting and JAX's promotion.

Derivative and batching rules use them; `minixla.numpy` exports the same functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

import minixla_ops as ops
from minixla.core import hooks
from minixla.core.element_types import F32, S64, ElementType, canonical_element_type
from minixla.core.errors import IntegerRangeError, ShapeError, explain
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape, shape_of_data
from minixla.core.tracer import named_operand
from minixla.core.tracing import Tracer, current_trace, not_a_value, one_program, weak_type_of
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import common_sizes
from minixla_ops.elementwise import binary, comparisons, unary
from minixla_ops.elementwise.promotion import inexact_type, numeric_type, result_type
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.shorthand import full_like, ones_like, repeated, splat

Adjustment = Callable[[ElementType], ElementType]


def _is_number(value: object) -> TypeGuard[complex]:
    return isinstance(value, (int, float, complex)) and not isinstance(value, np.generic)


def convert(value: Any, kind: ElementType) -> Any:
    """Convert `value` to an array of element type `kind`; constants are converted immediately."""
    if _is_number(value):
        return _filled(value, Shape(kind))
    if operand_shape(value).element_type is kind:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.ndim and array.size and not any(array.strides):
            one = cast(np.asarray(array[(0,) * array.ndim]), kind)
            return np.broadcast_to(one, array.shape)
        return cast(array, kind)
    return ops.convert_element_type(value, kind)


def _filled(number: complex, shape: Shape) -> np.ndarray:
    """Return an array of `shape` filled with a Python scalar."""
    if type(number) is int and not -0x80000000 <= number <= 0x7FFFFFFF:
        number = _fitting(number, shape.element_type)
    return splat(number, shape)


def _fitting(number: int, kind: ElementType) -> complex:
    """Return a large Python int if `kind` can hold it, else raise; default integers wrap."""
    if kind.is_inexact:
        try:
            return float(number)
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
    signed, unsigned = (1 << (canonical_element_type(S64).bits - 1)), 1 << kind.bits
    if not -signed <= number < (unsigned if kind.kind == "unsigned" else signed):
        subject, what = named_operand(number, "promotion", "an operand")
        problem = f"{what}, a Python int, does not fit {kind}"
        advice = "Pass an array with a wider type, or a float."
        raise explain(IntegerRangeError, subject, problem, [str(number)], advice)
    return number


def broadcast_to(value: ArrayLike, sizes: Sequence[int]) -> Any:
    """Broadcast `value` to `sizes` by NumPy's rule, which aligns trailing dimensions."""
    dimensions = operand_shape(value).dimensions
    if dimensions == tuple(sizes):
        return value
    first = len(sizes) - len(dimensions)
    return ops.broadcast_in_dim(value, sizes, range(first, len(sizes)))


def broadcast_shapes(sizes: Sequence[Sequence[int]], subject: str) -> tuple[int, ...]:
    """Broadcast dimensions by NumPy's rule; raise ShapeError if they do not match."""
    rank = max(map(len, sizes), default=0)
    aligned = [(1,) * (rank - len(size)) + tuple(size) for size in sizes]
    common = [{*column} - {1} or {1} for column in zip(*aligned, strict=True)]
    if any(len(column_sizes) > 1 for column_sizes in common):
        problem = "the operands' dimensions do not broadcast together"
        details = [f"operand {i} has dimensions {tuple(size)}" for i, size in enumerate(sizes)]
        advice = (
            "Aligned from the right, sizes must be equal, or one of them 1. Insert "
            "dimensions of size 1 with reshape or x[:, None]."
        )
        raise explain(ShapeError, subject, problem, details, advice)
    return tuple(map(min, common))


def promote(
    subject: str, *operands: ArrayLike, adjust: Adjustment | None = None
) -> tuple[list[Array], bool]:
    """Convert operands to one element type and shape; also return whether the type is weak."""
    shapes = tuple([operand_shape(operand, subject) for operand in operands])
    weak = tuple([weak_type_of(operand) for operand in operands])
    wide = canonical_element_type(S64) is S64
    common, stays_weak = _common_shape(subject, shapes, weak, adjust, wide)
    kind, sizes = common.element_type, common.dimensions
    fitted = [
        _filled(operand, common)
        if _is_number(operand)
        else broadcast_to(convert(operand, kind), sizes)
        for operand in operands
    ]
    return list(common_sizes(*fitted)), stays_weak


@lru_cache(maxsize=4096)
def _common_shape(
    subject: str,
    shapes: tuple[Shape, ...],
    weak: tuple[bool, ...],
    adjust: Adjustment | None,
    wide: bool,
) -> tuple[Shape, bool]:
    """Return the common shape, and whether it is weak; `wide` is true in 64-bit mode."""
    types = zip([shape.element_type for shape in shapes], weak, strict=True)
    kind, stays_weak = result_type(types)
    sizes = broadcast_shapes([shape.dimensions for shape in shapes], subject)
    return Shape(kind if adjust is None else adjust(kind), sizes), stays_weak


def operand_shape(value: object, subject: str = "operator") -> Shape:
    """Return the shape of a user's array or scalar; raise ShapeError for other values."""
    if isinstance(value, Tracer):
        return value._array_shape()
    shape = shape_of_data(value)
    if shape is None:
        raise not_a_value(value, subject)
    return shape


def weakly_typed(result: ArrayLike, weak: bool = True) -> Any:
    """Mark a new result as weakly typed if `weak`; no other code may hold it yet."""
    if not weak:
        return result
    if isinstance(result, Tracer):
        result._mark_weak()
        return result
    return current_trace().weakly(result)


# Functions of two operands.

_KINDS: dict[type, frozenset[str]] = {
    Tracer: frozenset(("pred", "signed", "unsigned", "float", "complex")),
    int: frozenset(("signed", "unsigned", "float", "complex")),
    float: frozenset(("float", "complex")),
    complex: frozenset(("complex",)),
}
_INEXACT_KINDS = {kind: names & {"float", "complex"} for kind, names in _KINDS.items()}
_NUMERIC_KINDS = {kind: names - {"pred"} for kind, names in _KINDS.items()}


def promoting(
    operation: Callable[[Any, Any], Array],
    name: str,
    adjust: Adjustment | None = None,
    direct: dict[type, frozenset[str]] = _KINDS,
) -> Callable[[ArrayLike, ArrayLike], Array]:
    """Return a function called `name` that promotes and broadcasts its two operands.

    `direct` lists the kinds of element types that need no promotion, by the other operand's type:
    Tracer for a tracer with the same shape, or the type of a Python scalar.
    """
    taken = direct[Tracer]

    def function(lhs: Any, rhs: Any, /) -> Array:
        # Equal shapes and Python scalars, the most common calls, need no promotion.
        tracer, other = (lhs, rhs) if isinstance(lhs, Tracer) else (rhs, lhs)
        shape = tracer._shape if isinstance(tracer, Tracer) else None
        if type(shape) is Shape and not shape.is_dynamic:
            kind = shape.element_type.kind
            if isinstance(other, Tracer):
                if shape is other._shape and kind in taken:
                    result = operation(lhs, rhs)
                    return weakly_typed(result) if lhs.weak_type and rhs.weak_type else result
            elif kind in direct.get(other.__class__, ()):
                number = _filled(other, shape)
                result = operation(lhs, number) if tracer is lhs else operation(number, rhs)
                return weakly_typed(result) if tracer.weak_type else result
        return whole(lhs, rhs)

    def promoted(lhs: ArrayLike, rhs: ArrayLike, /) -> Array:
        operands, weak = promote(name, lhs, rhs, adjust=adjust)
        return weakly_typed(operation(*operands), weak)

    for variant in (promoted, function):
        variant.__name__ = variant.__qualname__ = name
    whole = one_program()(promoted)
    return function


add = promoting(REGISTRY["Add"](), "add")
subtract = promoting(REGISTRY["Sub"](), "subtract")
multiply = promoting(REGISTRY["Mul"](), "multiply")
bitwise_and = promoting(REGISTRY["And"](), "bitwise_and")
bitwise_or = promoting(REGISTRY["Or"](), "bitwise_or")
bitwise_xor = promoting(REGISTRY["Xor"](), "bitwise_xor")
equal = promoting(comparisons.MEMBERS["EQ", False](), "equal")
not_equal = promoting(comparisons.MEMBERS["NE", False](), "not_equal")
greater = promoting(comparisons.MEMBERS["GT", False](), "greater")
greater_equal = promoting(comparisons.MEMBERS["GE", False](), "greater_equal")
less = promoting(comparisons.MEMBERS["LT", False](), "less")
less_equal = promoting(comparisons.MEMBERS["LE", False](), "less_equal")
divide = promoting(binary.Div(), "divide", inexact_type, _INEXACT_KINDS)
left_shift = promoting(REGISTRY["ShiftLeft"](), "left_shift", numeric_type, _NUMERIC_KINDS)


def _pow(lhs: Array, rhs: Array) -> Array:
    """Compute the power of equal-shaped operands; 0 for even integers with large exponents."""
    result, kind = ops.pow(lhs, rhs), operand_shape(lhs).element_type
    if not kind.is_integer or kind.bits < 8:
        return result
    # XLA may reduce exponents modulo 64: a multiple of 64 would give 1.
    is_zero = (rhs > 63) & ((lhs & 1) == 0)
    return ops.select(is_zero, full_like(result, 0), result)


_power = promoting(_pow, "power", numeric_type, _NUMERIC_KINDS)


@one_program()
def right_shift(lhs: ArrayLike, rhs: ArrayLike, /) -> Array:
    """Compute lhs >> rhs: arithmetic for signed types, logical for unsigned ones."""
    (lhs, rhs), weak = promote("right_shift", lhs, rhs, adjust=numeric_type)
    unsigned = operand_shape(lhs).element_type.kind == "unsigned"
    shift = ops.shift_right_logical if unsigned else ops.shift_right_arithmetic
    return weakly_typed(shift(lhs, rhs), weak)


@one_program()
def floor_divide(lhs: ArrayLike, rhs: ArrayLike, /) -> Array:
    """Compute lhs / rhs rounded down; complex numbers raise ShapeError."""
    (lhs, rhs), weak = promote("floor_divide", lhs, rhs, adjust=numeric_type)
    kind = operand_shape(lhs).element_type
    if kind.kind == "unsigned":
        return weakly_typed(ops.div(lhs, rhs), weak)
    if kind.is_float and kind.bits < 32:
        lhs, rhs = convert(lhs, F32), convert(rhs, F32)
    rest = ops.rem(lhs, rhs)  # raises for complex numbers
    # Like CPython's float_floor_div: exact multiples divide without error.
    exact = ops.select(rhs == 0, lhs, lhs - rest) if kind.is_float else lhs
    whole = ops.div(exact, rhs)
    is_above = (rest != 0) & (ops.sign(lhs) != ops.sign(rhs))
    whole = ops.select(is_above, whole - 1, whole)
    if kind.is_float:
        below = ops.floor(whole)
        nearest = ops.select(whole - below > 0.5, below + 1, below)
        zero = ops.sign(lhs) * ops.sign(rhs) * 0
        whole = convert(ops.select(nearest == 0, zero, nearest), kind)
    return weakly_typed(whole, weak)


@one_program()
def remainder(lhs: ArrayLike, rhs: ArrayLike, /) -> Array:
    """Compute the remainder of `floor_divide`, with the sign of rhs; 0 for an integer and 0."""
    (lhs, rhs), weak = promote("remainder", lhs, rhs, adjust=numeric_type)
    is_integer = operand_shape(lhs).element_type.is_integer
    if is_integer:
        rhs = ops.select(rhs == 0, ones_like(rhs), rhs)
    rest = ops.rem(lhs, rhs)
    has_other_sign = ((rest < 0) != (rhs < 0)) & (rest != 0)
    result = ops.select(has_other_sign, rest + rhs, rest)
    if not is_integer:
        # 0 with the sign of rhs; its derivative is that of the remainder.
        zero = ops.select(rhs < 0, -(lhs - (lhs + rest)), (lhs + rest) - lhs)
        result = ops.select(rest == 0, zero, result)
    return weakly_typed(result, weak)


def divmod(lhs: ArrayLike, rhs: ArrayLike, /) -> tuple[Array, Array]:
    """Return the pair of `floor_divide` and `remainder`."""
    return floor_divide(lhs, rhs), remainder(lhs, rhs)


def _whole_numbers(subject: str, lhs: ArrayLike, rhs: ArrayLike) -> tuple[list[Array], bool]:
    """Promote the operands; raise ShapeError if they are not integers."""
    pair, weak = promote(subject, lhs, rhs)
    if not (shape := operand_shape(pair[0])).element_type.is_integer:
        advice = "Convert both to integers."
        raise explain(ShapeError, subject, "the operands must be integers", [str(shape)], advice)
    return pair, weak


@one_program("x1", "x2")
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Compute the non-negative greatest common divisor; 0 for two zeros."""
    pair, weak = _whole_numbers("gcd", x1, x2)

    def goes_on(lhs: Array, rhs: Array) -> Array:
        return ops.reduce(rhs != 0, False, ops.or_, range(rhs.ndim))

    def step(lhs: Array, rhs: Array) -> tuple[Array, Array]:
        # Do not take absolute values, as the smallest integer has no negation: the divisor shrinks.
        is_found = rhs == 0
        divisor = ops.select(is_found, ones_like(rhs), rhs)
        return ops.select(is_found, lhs, rhs), ops.rem(lhs, divisor)

    found, _ = ops.while_(goes_on, step, pair)
    return weakly_typed(absolute(found), weak)


@one_program("x1", "x2")
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Compute the non-negative least common multiple; 0 if an operand is 0."""
    (lhs, rhs), weak = _whole_numbers("lcm", x1, x2)
    quotient = floor_divide(lhs, gcd(lhs, rhs))
    return weakly_typed(absolute(quotient) * absolute(rhs), weak)


def power(lhs: ArrayLike, rhs: Any) -> Array:
    """Compute lhs ** rhs; use repeated products for a Python int or concrete integer scalar."""
    if isinstance(rhs, (Tracer, float)):
        return _power(lhs, rhs)
    try:
        exponent = operator.index(rhs)
    except TypeError:
        return _power(lhs, rhs)
    return _integer_power(lhs, exponent)


def _integer_power(base: ArrayLike, exponent: int) -> Array:
    kind = operand_shape(base, "power").element_type
    base = convert(base, numeric_type(kind))
    if exponent < 0:
        if not kind.is_inexact:
            problem = f"an integer cannot be raised to the negative power {exponent}"
            advice = "Convert it to a float: x ** -1.0, or 1 / x."
            raise explain(ShapeError, "power", problem, [f"lhs {operand_shape(base)}"], advice)
        return divide(1, _integer_power(base, -exponent))
    if exponent == 0:
        return weakly_typed(current_trace().lift(ones_like(base)), weak_type_of(base))
    return repeated(base, exponent, multiply)


def matmul(lhs: ArrayLike, rhs: ArrayLike) -> Array:
    """Compute the matrix product lhs @ rhs; see `minixla.numpy.matmul`."""
    return hooks.arrays().matmul(lhs, rhs)


# Functions of one operand.


def _of_one(operation: Operation) -> Callable[[ArrayLike], Array]:
    return lambda operand: weakly_typed(operation(operand), weak_type_of(operand))


negative = _of_one(unary.Neg())
bitwise_not = _of_one(unary.Not())
_magnitude = _of_one(unary.Abs())


def positive(operand: Array) -> Array:
    """Return the operand."""
    return operand


def absolute(operand: Array) -> Array:
    """Compute the absolute value; unsigned integers and pred are unchanged."""
    kind = operand_shape(operand, "absolute").element_type.kind
    return operand if kind in ("unsigned", "pred") else _magnitude(operand)


_OPERANDS = (Tracer, int, float, complex, np.ndarray, np.generic)


def _method(
    function: Callable[..., Array | tuple[Array, Array]], is_reflected: bool = False
) -> Callable[[Tracer, object], object]:
    def method(self: Tracer, other: object) -> object:
        if isinstance(other, _OPERANDS) or (hasattr(other, "dtype") and hasattr(other, "shape")):
            return function(other, self) if is_reflected else function(self, other)
        return NotImplemented

    return method


_TWO_SIDED = dict(add=add, sub=subtract, mul=multiply, matmul=matmul, truediv=divide, pow=power)
_TWO_SIDED |= dict(floordiv=floor_divide, mod=remainder, divmod=divmod, lshift=left_shift)
_TWO_SIDED |= {"rshift": right_shift, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor}
# Python finds the reflected form of a comparison.
_COMPARISONS = dict(eq=equal, ne=not_equal, lt=less, le=less_equal, gt=greater, ge=greater_equal)
_ONE_SIDED = {"neg": negative, "pos": positive, "abs": absolute, "invert": bitwise_not}

for _name, _function in (_TWO_SIDED | _COMPARISONS).items():
    setattr(Tracer, f"__{_name}__", _method(_function))
for _name, _function in _TWO_SIDED.items():
    setattr(Tracer, f"__r{_name}__", _method(_function, is_reflected=True))
for _name, _function in _ONE_SIDED.items():
    setattr(Tracer, f"__{_name}__", _function)
if "__array_ufunc__" not in Tracer.__dict__:
    # NumPy's arrays then leave operators to tracers.
    Tracer.__array_ufunc__ = None  # type: ignore[attr-defined]  # NumPy's protocol
