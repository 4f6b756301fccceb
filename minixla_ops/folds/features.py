"""Features: sums over all dimensions of an array but one, and vectors spread along them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import F32, element_type
from minixla_ops.elementwise.operators import convert
from minixla_ops.programs.computations import sum_over
from minixla_ops.vocabulary.shorthand import array_shape


class Features:
    """The features of an array, which one dimension numbers.

    What is computed with them is f32 where the array's type is narrower.
    """

    def __init__(self, operand: Any, feature_index: int) -> None:
        shape = array_shape(operand)
        self.own_type = shape.element_type
        self.wide_type = F32 if shape.element_type.bits < 32 else shape.element_type
        self.sizes = shape.dimensions
        self.feature_index = feature_index
        #: The number of elements of each feature.
        self.count = prod(self.sizes[:feature_index] + self.sizes[feature_index + 1 :])

    def wide(self, *values: Any) -> list[Any]:
        """The values in the type to compute in."""
        return [convert(value, self.wide_type) for value in values]

    def narrow(self, *values: Any) -> list[Any]:
        """The values in the array's type."""
        return [convert(value, self.own_type) for value in values]

    def total(self, array: Any) -> Any:
        """The sum of each feature's elements."""
        others = [each for each in range(len(self.sizes)) if each != self.feature_index]
        return sum_over(array, others)

    def mean(self, array: Any) -> Any:
        """The mean of each feature's elements."""
        return self.total(array) / self.count

    def spread(self, vector: Any) -> Any:
        """The array that holds everywhere the feature's entry of `vector`."""
        return ops.broadcast_in_dim(vector, self.sizes, [self.feature_index])


class NumpyFeatures:
    """What Features is, for NumPy arrays; vectors have dimensions of size 1 beside the feature."""

    def __init__(self, operand: np.ndarray, feature_index: int) -> None:
        kind = element_type(operand.dtype)
        self._own = operand.dtype
        self._wide = np.dtype(np.float32) if kind.bits < 32 else operand.dtype
        self._others = tuple([each for each in range(operand.ndim) if each != feature_index])
        self._count = prod([operand.shape[each] for each in self._others])
        self._vector = [-1 if each == feature_index else 1 for each in range(operand.ndim)]

    def wide(self, operand: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
        """The arrays in the type to compute in, vectors with dimensions of size 1."""
        whole = operand.ndim
        aligned = [each if each.ndim == whole else each.reshape(self._vector) for each in others]
        return [each.astype(self._wide) for each in (operand, *aligned)]

    def narrow(self, array: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
        """An array and vectors in the operand's type, vectors with one dimension again."""
        return [each.astype(self._own) for each in (array, *map(np.ravel, vectors))]

    def total(self, array: np.ndarray) -> np.ndarray:
        """The sum of each feature's elements, rounded once."""
        return array.sum(self._others, dtype=np.float64, keepdims=True).astype(self._wide)

    def mean(self, array: np.ndarray) -> np.ndarray:
        """The mean of each feature's elements, rounded once."""
        total = array.sum(self._others, dtype=np.float64, keepdims=True)
        return np.divide(total, self._count).astype(self._wide)
