"""What dot products and convolutions share: types, precision, and matrix products in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core import Operation, Shape
from minixla.core.attributes import Attribute, Enumeration, TypeAttribute, attribute
from minixla.core.element_types import F32, ElementType, element_type
from minixla.core.operation import EACH_OPERAND
from minixla.typing import Array
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.shorthand import array_shape

_KINDS = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}


#: JAX's other names.
_PRECISIONS = {"FLOAT32": "HIGHEST", "BFLOAT16_3X": "HIGH", "TENSORFLOAT32": "HIGH"}
_PRECISIONS |= {"BFLOAT16": "DEFAULT", "FASTEST": "DEFAULT"}


class Precisions(Attribute):
    """DEFAULT, HIGH or HIGHEST for both operands, or a pair of them (rule P).

    It says how exactly hardware that multiplies in a narrower type (a TPU, TF32 on a GPU) shall
    imitate the operands' type; it does not change what the operation means.
    """

    is_ambiguous = False
    description = "DEFAULT, HIGH or HIGHEST, or a pair of them, one for each operand"
    _of_one = Enumeration("DEFAULT", "HIGH", "HIGHEST", mnemonic="precision")

    def canonical(self, value: object) -> tuple[str, str]:
        names = value if isinstance(value, (tuple, list)) else (value, value)
        texts = [str(getattr(name, "name", name)).upper() for name in names]  # of an enumeration
        first, second = [self._of_one.canonical(_PRECISIONS.get(x, x)) for x in texts]
        return first, second

    def stablehlo(self, value: Sequence[str]) -> str:
        return f"[{', '.join(map(self._of_one.stablehlo, value))}]"

    def read(self, written: Sequence[str]) -> list[str] | None:
        """The names; None where there is not one for each operand."""
        return [*map(self._of_one.read, written)] if len(written) == 2 else None

    def hlo(self, value: Sequence[str]) -> str | None:
        return None if set(value) == {"DEFAULT"} else f"{{{','.join(value).lower()}}}"


# Attributes of all products.
PRECISION: Any = attribute(Precisions(), default=None, hlo="operand_precision")
PREFERRED_TYPE: Any = attribute(TypeAttribute(), default=None, stablehlo=None, hlo=None)


class SumOfProducts(Operation):
    """Base class of the operations that sum products of elements of lhs and rhs.

    Integers wrap; pred is an or of ands. Types narrower than f32 are accumulated in f32 and
    rounded once.

    Checks:
        (C1) lhs and rhs have one element type; in a class that `mixes_types` they may differ if
            preferred_element_type is given.
        (C2) preferred_element_type goes neither from complex to real nor from float to integer or
            pred, and makes integers no narrower.
    """

    #: Whether lhs and rhs may have different element types.
    mixes_types = False

    def result_type(self, lhs: Shape, rhs: Shape) -> ElementType:
        """The result's element type, for operands that pass the checks above."""
        preferred: ElementType | None = self.preferred_element_type  # type: ignore[attr-defined]  # members'
        if lhs.element_type is not rhs.element_type and not (self.mixes_types and preferred):
            advice = "Convert one side with convert_element_type"
            advice = f"{advice}; preferred_element_type sets the type of the result."
            self.refuse("C1", "the element types of lhs and rhs differ", advice)
        result = preferred or lhs.element_type
        for kind in (lhs.element_type, rhs.element_type):
            is_narrower = _KINDS[result.kind] < 2 and result.bits < kind.bits
            if _KINDS[result.kind] < _KINDS[kind.kind] or is_narrower:
                problem = f"a product of {kind} cannot be accumulated in {preferred}"
                advice = "Leave preferred_element_type out and convert the result."
                self.refuse_attribute("C2", problem, advice)
        return result


class Product(SumOfProducts):
    """Base class of those that are linear in lhs and in rhs, and have no other operands."""

    operands = "lhs", "rhs"
    linear_operands = EACH_OPERAND
    #: `cotangent(index, cotangent, operands)`: that of operand `index`, of which only the shape
    #: counts, or None for zero.
    cotangent = GIVEN

    def transpose(self, cotangents, operands, linear):
        arrays = cotangents, operands
        return [self.cotangent(i, *arrays) if flag else None for i, flag in enumerate(linear)]

    def vjp(self, cotangents, operands, results, active):
        return self.transpose(cotangents, operands, active)


def in_common_type(first: Array, second: Array) -> tuple[Array, Array]:
    """Two values of inexact types, converted to a type that holds both where they differ."""
    one, other = array_shape(first).element_type, array_shape(second).element_type
    if one is other:
        return first, second
    wide = _inexact_type(one, other)
    return convert(first, wide), convert(second, wide)


def summing_type(result: ElementType, *operands: ElementType) -> ElementType:
    """Return the type in which products of `operands` are summed for a result of type `result`."""
    return _inexact_type(result, *operands) if result.is_inexact else result


def _inexact_type(*kinds: ElementType) -> ElementType:
    """Return the type, f32 or wider, that holds all values of the inexact types.

    Integers that a float type accumulates are rounded to it first.
    """
    wide = [F32 if kind.bits < 32 else kind for kind in kinds if kind.is_inexact]
    return element_type(np.result_type(*(array.dtype for array in wide)))


def matrix_product(lhs: np.ndarray, rhs: np.ndarray, preferred: ElementType | None) -> np.ndarray:
    """The product of stacks of matrices [..., m, k] and [..., k, n], as SumOfProducts has it."""
    kind = element_type(lhs.dtype)
    result = preferred or kind
    with np.errstate(all="ignore"):
        if result.is_inexact:
            wide = summing_type(result, kind, element_type(rhs.dtype)).dtype
            product = _contiguous(lhs, wide) @ _contiguous(rhs, wide)
            return cast(product, result)
        if result.kind == "pred":
            return _contiguous(lhs, np.float32) @ _contiguous(rhs, np.float32) > 0
        return _integer_product(lhs, rhs).astype(result.dtype)


def _contiguous(array: np.ndarray, dtype: np.dtype | type[np.generic]) -> np.ndarray:
    # BLAS takes no zero-stride views; NumPy's own loops are slow.
    return np.ascontiguousarray(array.astype(dtype, copy=False))


def _integer_product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The product modulo 2**64; by BLAS in f64 where every sum is exact there."""
    if _magnitude(lhs) * _magnitude(rhs) * lhs.shape[-1] < 2.0**53:
        return (_contiguous(lhs, np.float64) @ _contiguous(rhs, np.float64)).astype(np.int64)
    return np.matmul(_contiguous(lhs, np.int64), _contiguous(rhs, np.int64))


def _magnitude(array: np.ndarray) -> float:
    wide = array if array.dtype.kind in "iub" else array.astype(np.int8)
    return max(float(wide.max(initial=0)), -float(wide.min(initial=0)))
