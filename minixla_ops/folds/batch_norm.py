"""Batch normalization: BatchNormTraining, BatchNormInference and BatchNormGrad.

Each is lowered to ordinary operations, not to StableHLO's batch_norm operations, which StableHLO's
interpreter lacks. XLA expands them into sums in the operand's type, which are inaccurate for f16.
It computes the variance as E[x^2] - E[x]^2, which cancels if it is small compared with the mean.
"""

from math import prod
from typing import Any, ClassVar, SupportsFloat

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, register, shape_of
from minixla.core.attributes import Float, Integer, attribute
from minixla.core.element_types import F32
from minixla.core.sharding_rule import ABSENT
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.families import FLOATS
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers import GIVEN, batch_dimensions
from minixla_ops.helpers.checks import check_dimensions
from minixla_ops.helpers.shorthand import add_cotangents, array_shape, as_results, as_tuple
from minixla_ops.programs.computations import pulled_program, sum_over
from minixla_ops.programs.lowering import Lowered, lowered_program


class Features:
    """The features of an array, indexed by one dimension: their sums, and vectors along them.

    Computations use f32 if the array's type is narrower.
    """

    def __init__(self, operand: object, feature_index: int) -> None:
        shape = array_shape(operand)
        self.own_type = shape.element_type
        self.wide_type = F32 if shape.element_type.bits < 32 else shape.element_type
        self.sizes = shape.dimensions
        self.feature_index = feature_index
        self.others = [index for index in range(shape.rank) if index != feature_index]
        #: The number of elements of each feature.
        self.count = prod([self.sizes[other] for other in self.others])

    def wide(self, *values: ArrayLike) -> list[Array]:
        """Convert values to the type used for computation."""
        return [convert(value, self.wide_type) for value in values]

    def narrow(self, *values: ArrayLike) -> list[Array]:
        """Convert values to the array's type."""
        return [convert(value, self.own_type) for value in values]

    def total(self, array: Array) -> Array:
        return sum_over(array, self.others)

    def mean(self, array: Array) -> Array:
        return self.total(array) / self.count

    def spread(self, vector: Array) -> Array:
        """Broadcast `vector`, which has one entry for each feature, to the array's sizes."""
        return ops.broadcast_in_dim(vector, self.sizes, [self.feature_index])


def _total(array: np.ndarray, count: int = 1) -> np.ndarray:
    """Sum each feature (the last dimension) and divide by `count` in NumPy; round once."""
    total = array.sum(tuple(range(array.ndim - 1)), dtype=np.float64)
    return np.divide(total, count).astype(array.dtype)


class Epsilon(Float):
    """A real attribute, rounded to f32."""

    description = "a real number (f32)"

    def canonical(self, value: SupportsFloat) -> float:
        return float(np.float32(super().canonical(value)))


class BatchNorm(Lowered):
    """Base class of the three batch normalization operations.

    Each feature is normalized separately, over all dimensions except feature_index.

    Checks:
        (C1) operand has a floating-point type.
        (C2) feature_index is a dimension of operand.
        (C3) the vectors have one element for each feature, with operand's element type.
        (C4) grad_output has the shape of operand.

    Subclasses define `program(along, *operands)` and `formula(*operands)`. The first returns the
    results as values of operations, for Features and operands in the computation's type. The
    second returns them in NumPy, for operands in this type whose last dimension indexes features.
    """

    epsilon: float = attribute(Epsilon())
    feature_index: int = attribute(Integer(minimum=0))
    #: Operands with the operand's shape; the others are vectors with one element for each feature.
    whole: ClassVar[frozenset[int]] = frozenset({0})
    results: ClassVar[int] = 3
    program = formula = GIVEN

    def shape(self, *shapes):
        operand, at = shapes[0], self.feature_index
        if operand.element_type not in FLOATS:
            problem = f"operand must have a floating-point type, not {operand.element_type}"
            self.refuse("C1", problem, "Convert operand with convert_element_type.")
        check_dimensions(self, "C2", operand, at)
        vector = Shape(operand.element_type, [operand.dimensions[at]])
        for index, shape in enumerate(shapes):
            wanted = operand if index in self.whole else vector
            if shape is not wanted:
                problem = f"{self.operands[index]} must have shape {wanted}"
                self.refuse("C4" if index in self.whole else "C3", problem)
        return as_results((operand, vector, vector)[: self.results])

    def reference(self, *operands):
        # Do not reuse the program: if both shared a formula, neither would check the other.
        dtype, at = operands[0].dtype, self.feature_index
        wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
        pairs = enumerate(operands)
        moved = [np.moveaxis(x, at, -1) if index in self.whole else x for index, x in pairs]
        with np.errstate(all="ignore"):
            whole, *vectors = self.formula(*[array.astype(wide) for array in moved])
            results = [np.moveaxis(whole, -1, at), *vectors]
            return as_results([result.astype(dtype) for result in results])

    def lowered(self, *operands):
        along = Features(operands[0], self.feature_index)
        return as_results(along.narrow(*self.program(along, *along.wide(*operands))))

    def batch(self, operands, dimensions):
        # Features are normalized separately, so a batch dimension adds features.
        size, feature = batch_dimensions.batch_size(operands, dimensions), self.feature_index
        if size == 0:
            return batch_dimensions.batch_by_loop(self, operands, dimensions)
        folded = []
        for index, (operand, dimension) in enumerate(zip(operands, dimensions, strict=True)):
            at = feature if index in self.whole else 0
            moved = batch_dimensions.move_batch(operand, dimension, at, size)
            folded.append(batch_dimensions.merge_dimension(moved, at, at))
        places = (feature, 0, 0)[: self.results]
        results = zip(as_tuple(self(*folded)), places, strict=True)
        split = [batch_dimensions.split_dimension(result, at, size) for result, at in results]
        return as_results(split), as_results(places)


@register
class BatchNormTraining(BatchNorm):
    """Normalize an array by its mean and variance. XLA: BatchNormTraining.

    For each feature over its m elements: mean = sum(x) / m, var = sum((x - mean)^2) / m,
    output = scale * (x - mean) / sqrt(var + epsilon) + offset.

    Args:
        operand: an array with a floating-point type.
        scale: a vector with this type and one element for each feature, the factor of the
            normalized elements.
        offset: a vector like scale, which is added.
        epsilon: added to the variance, so that it is not zero; rounded to f32.
        feature_index: the dimension of operand that indexes the features.

    Returns:
        The normalized array, and the mean and variance (the mean square deviation) of each feature.

    Checks: see BatchNorm.

    Example:
        >>> one, x = np.float32([1]), np.float32([[1], [3]])
        >>> output, mean, var = ops.batch_norm_training(x, one, 0 * one, 0.0, 1)
        >>> output, mean, var
        (Array([[-1.],
               [ 1.]], dtype=float32), Array([2.], dtype=float32), Array([1.], dtype=float32))
    """

    operands = "operand", "scale", "offset"

    def formula(self, x, gamma, beta):
        mean = _total(x, count := prod(x.shape[:-1]))
        variance = _total((x - mean) ** 2, count)
        return gamma * ((x - mean) / np.sqrt(variance + self.epsilon)) + beta, mean, variance

    def program(self, along, x, gamma, beta):
        mean = along.mean(x)
        centered = x - along.spread(mean)
        variance = along.mean(centered * centered)
        factor = gamma * ops.rsqrt(variance + self.epsilon)
        return centered * along.spread(factor) + along.spread(beta), mean, variance

    def vjp(self, cotangents, operands, results, active):
        of_output, *of_moments = cotangents
        gradients: list[Any] = [None, None, None]
        if of_output is not None:
            gradient = BatchNormGrad(self.epsilon, self.feature_index)
            gradients[:] = gradient(operands[0], operands[1], *results[1:], of_output)
        if active[0] and any(moment is not None for moment in of_moments):
            program = lowered_program(self, tuple(map(shape_of, operands)))
            halves = program, operands, [None, *of_moments], (True, False, False)
            gradients[0] = add_cotangents(gradients[0], pulled_program(*halves)[0])
        return [
            gradient if flag else None for gradient, flag in zip(gradients, active, strict=True)
        ]


@register
class BatchNormInference(BatchNorm):
    """Normalize an array by a given mean and variance. XLA: BatchNormInference.

    For each feature: output = scale * (x - mean) / sqrt(variance + epsilon) + offset.

    Args:
        operand: an array with a floating-point type.
        scale: a vector with this type and one element for each feature.
        offset: a vector like scale.
        mean: a vector like scale.
        variance: a vector like scale.
        epsilon: added to the variance; rounded to f32.
        feature_index: the dimension of operand that indexes the features.

    Returns:
        scale * (operand - mean) / sqrt(variance + epsilon) + offset.

    Checks: see BatchNorm.

    Example:
        >>> one, x = np.float32([1]), np.float32([[1], [3]])
        >>> ops.batch_norm_inference(x, one, 0 * one, 2 * one, one, 0.0, 1)
        Array([[-1.],
               [ 1.]], dtype=float32)
    """

    operands = "operand", "scale", "offset", "mean", "variance"
    results = 1

    def formula(self, x, gamma, beta, mu, sigma2):
        return (gamma * ((x - mu) / np.sqrt(sigma2 + self.epsilon)) + beta,)

    def program(self, along, x, gamma, beta, mu, sigma2):
        factor = gamma * ops.rsqrt(sigma2 + self.epsilon)
        return ((x - along.spread(mu)) * along.spread(factor) + along.spread(beta),)

    def batch(self, operands, dimensions):
        at = dimensions[0]
        if at is None or any(dimension is not None for dimension in dimensions[1:]):
            return super().batch(operands, dimensions)
        return self(*operands, feature_index=self.feature_index + (at <= self.feature_index)), at

    def sharding_rule(self, operand, *vectors):
        rule = self.sharding_factors((operand, *vectors))
        for index, size in enumerate(operand.dimensions):
            at = 0 if index == self.feature_index else ABSENT
            rule.add([index, *[at] * len(vectors)], [index], size)
        return rule.build()


@register
class BatchNormGrad(BatchNorm):
    """Compute the gradient of BatchNormTraining: (grad_operand, grad_scale, grad_offset).

    Let mean and var be those of operand x, g = grad_output, and sums be over the m elements of a
    feature. Then c = sum(g * (x - mean)) / (var + epsilon) / m; d = sum(g) / m;
    grad_operand = scale / sqrt(var + epsilon) * (g - d - c * (x - mean));
    grad_scale = sum(g * (x - mean)) / sqrt(var + epsilon); grad_offset = sum(g).
    XLA: BatchNormGrad.

    Args:
        operand: the array that was normalized.
        scale: the scale that was applied.
        batch_mean: the mean that `batch_norm_training` returned.
        batch_var: the variance that it returned.
        grad_output: the gradient with respect to the normalized array.
        epsilon: the epsilon that was applied.
        feature_index: the dimension of operand that indexes the features.

    Returns:
        The gradients of operand, scale and offset.

    Checks: see BatchNorm.

    Example:
        >>> one, x = np.float32([1]), np.float32([[1], [3]])
        >>> mean, var, change = np.float32([2]), one, np.float32([[1], [0]])
        >>> grad_x, grad_scale, grad_offset = ops.batch_norm_grad(x, one, mean, var, change, 0.0, 1)
        >>> grad_scale, grad_offset
        (Array([-1.], dtype=float32), Array([1.], dtype=float32))
    """

    operands = "operand", "scale", "batch_mean", "batch_var", "grad_output"
    whole = frozenset({0, 4})

    def formula(self, x, gamma, mu, sigma2, gradient):
        shifted, count = sigma2 + self.epsilon, prod(x.shape[:-1])
        c = _total(gradient * (x - mu) / shifted, count)
        d = _total(gradient, count)
        grad_operand = gamma / np.sqrt(shifted) * (gradient - d - c * (x - mu))
        grad_scale = _total(gradient * ((x - mu) / np.sqrt(shifted)))
        return grad_operand, grad_scale, _total(gradient)

    def program(self, along, x, gamma, mu, sigma2, gradient):
        inverse = ops.rsqrt(sigma2 + self.epsilon)
        centered = x - along.spread(mu)
        grad_offset = along.total(gradient)
        product = along.total(gradient * centered)
        factor = gamma * inverse
        # Combine the factors as vectors, so that each element needs only three products.
        grad_operand = (
            gradient * along.spread(factor)
            - centered * along.spread(factor * inverse * inverse * product / along.count)
            - along.spread(factor * grad_offset / along.count)
        )
        return grad_operand, product * inverse, grad_offset
