"""The base classes of dot products and convolutions: types, precision, and NumPy evaluation."""

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


#: JAX's aliases.
_PRECISIONS = {"FLOAT32": "HIGHEST", "BFLOAT16_3X": "HIGH", "TENSORFLOAT32": "HIGH"}
_PRECISIONS |= {"BFLOAT16": "DEFAULT", "FASTEST": "DEFAULT"}


class Precisions(Attribute):
    """DEFAULT, HIGH or HIGHEST for both operands, or a pair of them (rule P).

    It selects how exactly hardware with narrower multiplication (a TPU, or TF32 on a GPU)
    approximates the operands' type. It does not change the meaning of the operation.
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
        """Return the names; None unless there is one for each operand."""
        return [*map(self._of_one.read, written)] if len(written) == 2 else None

    def hlo(self, value: Sequence[str]) -> str | None:
        return None if set(value) == {"DEFAULT"} else f"{{{','.join(value).lower()}}}"


# Attributes of all products.
PRECISION: Any = attribute(Precisions(), default=None, hlo="operand_precision")
PREFERRED_TYPE: Any = attribute(TypeAttribute(), default=None, stablehlo=None, hlo=None)


class SumOfProducts(Operation):
    """Base class of operations that sum products of elements of lhs and rhs.

    Integers wrap; pred is a logical OR of ANDs. Types narrower than f32 are accumulated in f32 and
    rounded once.

    Checks:
        (C1) lhs and rhs have equal element types. If a class `mixes_types`, they may differ if
             preferred_element_type is given.
        (C2) preferred_element_type does not convert complex to real, or float to integer or pred,
             and does not make integers narrower.
    """

    #: True if lhs and rhs may have different element types.
    mixes_types = False

    def result_type(self, lhs: Shape, rhs: Shape) -> ElementType:
        """Return the result's element type after running these checks."""
        preferred: ElementType | None = self.preferred_element_type  # type: ignore[attr-defined]  # members'
        if lhs.element_type is not rhs.element_type and not (self.mixes_types and preferred):
            advice = "Convert one side with convert_element_type"
            advice = f"{advice}; preferred_element_type sets the type of the result."
            self.refuse("C1", "lhs and rhs must have equal element types", advice)
        result = preferred or lhs.element_type
        for kind in (lhs.element_type, rhs.element_type):
            is_narrower = _KINDS[result.kind] < 2 and result.bits < kind.bits
            if _KINDS[result.kind] < _KINDS[kind.kind] or is_narrower:
                problem = f"a product of {kind} cannot be accumulated in {preferred}"
                advice = "Omit preferred_element_type and convert the result."
                self.refuse_attribute("C2", problem, advice)
        return result


class Product(SumOfProducts):
    """Base class of products that are linear in lhs and rhs, their only operands."""

    operands = "lhs", "rhs"
    linear_operands = EACH_OPERAND
    #: `cotangent(index, cotangent, operands)`: the cotangent of operand `index`, or None for zero.
    #: Only this operand's shape is used.
    cotangent = GIVEN

    def transpose(self, cotangents, operands, linear):
        arrays = cotangents, operands
        return [self.cotangent(i, *arrays) if flag else None for i, flag in enumerate(linear)]

    def vjp(self, cotangents, operands, results, active):
        return self.transpose(cotangents, operands, active)


def in_common_type(first: Array, second: Array) -> tuple[Array, Array]:
    """Convert two values to a common inexact type that represents both."""
    one, other = array_shape(first).element_type, array_shape(second).element_type
    if one is other:
        return first, second
    wide = _inexact_type(one, other)
    return convert(first, wide), convert(second, wide)


def summing_type(result: ElementType, *operands: ElementType) -> ElementType:
    """Return the type in which products of `operands` are summed for the element type `result`."""
    return _inexact_type(result, *operands) if result.is_inexact else result


def _inexact_type(*kinds: ElementType) -> ElementType:
    """Return the type, f32 or wider, that represents all values of the inexact types.

    Integers that a float type accumulates are rounded to it first.
    """
    wide = [F32 if kind.bits < 32 else kind for kind in kinds if kind.is_inexact]
    return element_type(np.result_type(*(array.dtype for array in wide)))


def matrix_product(lhs: np.ndarray, rhs: np.ndarray, preferred: ElementType | None) -> np.ndarray:
    """Multiply stacks of matrices [..., m, k] and [..., k, n], as SumOfProducts does."""
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
    # BLAS does not support zero-stride views, and NumPy's own loops are slow.
    return np.ascontiguousarray(array.astype(dtype, copy=False))


def _integer_product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Multiply modulo 2**64; in f64 with BLAS if every sum is exact there."""
    if _magnitude(lhs) * _magnitude(rhs) * lhs.shape[-1] < 2.0**53:
        return (_contiguous(lhs, np.float64) @ _contiguous(rhs, np.float64)).astype(np.int64)
    return np.matmul(_contiguous(lhs, np.int64), _contiguous(rhs, np.int64))


def _magnitude(array: np.ndarray) -> float:
    wide = array if array.dtype.kind in "iub" else array.astype(np.int8)
    return max(float(wide.max(initial=0)), -float(wide.min(initial=0)))
