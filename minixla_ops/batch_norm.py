"""Batch normalisation: BatchNormTraining, BatchNormInference and BatchNormGrad.

Each runs as ordinary operations, not as StableHLO's batch_norm operations. XLA expands those into
sums in the operand's own type, which are far off for f16, and into the variance E[x^2] - E[x]^2,
which loses its digits where it is small against the mean; and StableHLO's interpreter lacks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from minixla.core.attributes import Float, Integer
from minixla.core.operation import register
from minixla.core.shapes import Shape
from minixla.core.tracing import bind
from minixla_ops.batching import (
    batch_by_loop,
    batch_size,
    merge_dimension,
    move_batch,
    split_dimension,
)
from minixla_ops.composed import Composed
from minixla_ops.elementwise import FLOATS
from minixla_ops.features import Features, NumpyFeatures
from minixla_ops.rules import add_cotangents
from minixla_ops.transcendental import rsqrt

__all__ = ["batch_norm_grad", "batch_norm_inference", "batch_norm_training"]


class Epsilon(Float):
    """A real number, rounded to f32."""

    description = "a real number (f32)"

    def canonical(self, value: Any) -> float:
        """The rounded value as a Python float."""
        return float(np.float32(super().canonical(value)))


class BatchNorm(Composed):
    """Base class of the three operations.

    Attributes:
        epsilon: added to the variance, so that it is not zero; f32.
        feature_index: which dimension of the operand numbers the features. Each feature is
            normalised by itself, over all other dimensions.

    Checks:
        (C1) operand has a floating-point type.
        (C2) feature_index is one of its dimensions.
        (C3) the vectors have one element for each feature, of operand's type.
        (C4) grad_output has the shape of operand.
    """

    attributes = {"epsilon": Epsilon(), "feature_index": Integer(minimum=0)}
    #: Which operands have the operand's shape; the others are vectors of one element a feature.
    whole: ClassVar[frozenset[int]] = frozenset({0})
    results: ClassVar[int] = 3

    def shape(self, *operands: Any, epsilon: float, feature_index: int) -> Any:
        shapes = self.array_shapes(operands)
        operand = shapes[0]
        given = [f"{n} {s}" for n, s in zip(self.operand_names, shapes, strict=True)]
        if operand.element_type not in FLOATS:
            self.reject("C1", f"{operand.element_type} is no floating-point type", given,
                        "Convert operand with convert_element_type.")  # fmt: skip
        if feature_index >= operand.rank:
            self.reject_attribute(
                "C2",
                f"operand has no dimension {feature_index}",
                [*given, f"feature_index {feature_index}"],
                f"feature_index must be in [0, {operand.rank}).",
            )
        vector = Shape(operand.element_type, operand.dimensions[feature_index : feature_index + 1])
        for index, shape in enumerate(shapes):
            wanted = operand if index in self.whole else vector
            if shape is not wanted:
                self.reject(
                    "C4" if index in self.whole else "C3",
                    f"{self.operand_names[index]} is not of shape {wanted}",
                    [*given, f"feature_index {feature_index}"],
                    "Arrays have the shape of operand, vectors one element for each feature.",
                )
        return operand if self.results == 1 else (operand, vector, vector)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> tuple[Any, Any]:
        # Features are normalised one by one, so the batch makes more of them.
        attributes = {"epsilon": epsilon, "feature_index": feature_index}
        size = batch_size(operands, dimensions)
        if size == 0:
            return batch_by_loop(self, operands, dimensions, attributes)
        folded = []
        for index, (operand, dimension) in enumerate(zip(operands, dimensions, strict=True)):
            at = feature_index if index in self.whole else 0
            folded.append(merge_dimension(move_batch(operand, dimension, at, size), at, at))
        results = bind(self, *folded, **attributes)
        if self.results == 1:
            return split_dimension(results, feature_index, size), feature_index
        positions = (feature_index, 0, 0)
        split = [split_dimension(r, at, size) for r, at in zip(results, positions, strict=True)]
        return tuple(split), positions


@register
class BatchNormTraining(BatchNorm):
    """An array normalised by its own mean and variance: (output, batch_mean, batch_var).

    mean = sum(x) / m, var = sum((x - mean)^2) / m, output = scale * (x - mean) / sqrt(var +
    epsilon) + offset, for each feature over its m elements. XLA: BatchNormTraining.

    Attributes, checks: see BatchNorm.
    """

    operand_names = ("operand", "scale", "offset")

    def reference(
        self,
        operand: np.ndarray,
        scale: np.ndarray,
        offset: np.ndarray,
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> tuple[np.ndarray, ...]:
        along = NumpyFeatures(operand, feature_index)
        x, gamma, beta = along.wide(operand, scale, offset)
        with np.errstate(all="ignore"):
            mean = along.mean(x)
            variance = along.mean((x - mean) ** 2)
            output = gamma * ((x - mean) / np.sqrt(variance + x.dtype.type(epsilon))) + beta
        return along.narrow(output), along.narrow(mean.ravel()), along.narrow(variance.ravel())

    def composition(
        self, operand: Any, scale: Any, offset: Any, *, epsilon: float, feature_index: int
    ) -> tuple[Any, ...]:
        along = Features(operand, feature_index)
        x, gamma, beta = along.wide(operand, scale, offset)
        mean = along.mean(x)
        centered = x - along.spread(mean)
        variance = along.mean(centered * centered)
        output = centered * along.spread(gamma * rsqrt(variance + epsilon)) + along.spread(beta)
        return tuple(along.narrow(output, mean, variance))

    def vjp(
        self,
        cotangents: Sequence[Any],
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> Sequence[Any]:
        operand, scale, _ = operands
        _, mean, variance = results
        of_output, of_mean, of_variance = cotangents
        found: list[Any] = [None, None, None]
        if of_output is not None:
            found[:] = batch_norm_grad(
                operand, scale, mean, variance, of_output, epsilon, feature_index
            )
        if active[0]:
            moments = _cotangent_of_moments(operand, mean, of_mean, of_variance, feature_index)
            found[0] = add_cotangents(found[0], moments)
        return [each if flag else None for each, flag in zip(found, active, strict=True)]


def _cotangent_of_moments(
    operand: Any, mean: Any, of_mean: Any, of_variance: Any, feature_index: int
) -> Any:
    """The cotangent of the operand for those of its mean and variance, None for zero."""
    along = Features(operand, feature_index)
    total = None
    if of_mean is not None:
        (vector,) = along.wide(of_mean)
        total = along.spread(vector / along.count)
    if of_variance is not None:
        x, center, vector = along.wide(operand, mean, of_variance)
        centered = x - along.spread(center)
        total = add_cotangents(total, centered * along.spread(2 * vector / along.count))
    return None if total is None else along.narrow(total)[0]


@register
class BatchNormInference(BatchNorm):
    """An array normalised by a given mean and variance.

    output = scale * (x - mean) / sqrt(variance + epsilon) + offset for each feature. XLA:
    BatchNormInference.

    Attributes, checks: see BatchNorm.
    """

    operand_names = ("operand", "scale", "offset", "mean", "variance")
    results = 1

    def reference(
        self,
        operand: np.ndarray,
        scale: np.ndarray,
        offset: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> np.ndarray:
        along = NumpyFeatures(operand, feature_index)
        x, gamma, beta, mu, sigma2 = along.wide(operand, scale, offset, mean, variance)
        with np.errstate(all="ignore"):
            output = gamma * ((x - mu) / np.sqrt(sigma2 + x.dtype.type(epsilon))) + beta
        return along.narrow(output)

    def composition(
        self,
        operand: Any,
        scale: Any,
        offset: Any,
        mean: Any,
        variance: Any,
        *,
        epsilon: float,
        feature_index: int,
    ) -> Any:
        along = Features(operand, feature_index)
        x, gamma, beta, mu, sigma2 = along.wide(operand, scale, offset, mean, variance)
        factor = gamma * rsqrt(sigma2 + epsilon)
        output = (x - along.spread(mu)) * along.spread(factor) + along.spread(beta)
        return along.narrow(output)[0]

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> Sequence[Any]:
        along = Features(operands[0], feature_index)
        given, x, gamma, _, mu, sigma2 = along.wide(cotangents, *operands)
        inverse = rsqrt(sigma2 + epsilon)
        factor = gamma * inverse
        found: list[Any] = [None] * len(operands)
        if active[0]:
            found[0] = given * along.spread(factor)
        if active[2] or active[3]:
            total = along.total(given)
            found[2], found[3] = total, -factor * total
        if active[1] or active[4]:
            product = along.total(given * (x - along.spread(mu)))
            found[1], found[4] = product * inverse, -0.5 * factor * inverse * inverse * product
        return [along.narrow(f)[0] if flag else None for f, flag in zip(found, active, strict=True)]

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> tuple[Any, Any]:
        attributes = {"epsilon": epsilon, "feature_index": feature_index}
        at = dimensions[0]
        if at is None or any(dimension is not None for dimension in dimensions[1:]):
            return super().batch(operands, dimensions, **attributes)
        attributes["feature_index"] = feature_index + (at <= feature_index)
        return bind(self, *operands, **attributes), at


@register
class BatchNormGrad(BatchNorm):
    """The gradient of BatchNormTraining: (grad_operand, grad_scale, grad_offset).

    With mean and variance those of operand x, g = grad_output, and sums over the m elements of a
    feature: c = sum(g * (x - mean)) / (var + epsilon) / m, d = sum(g) / m,
    grad_operand = scale / sqrt(var + epsilon) * (g - d - c * (x - mean)),
    grad_scale = sum(g * (x - mean)) / sqrt(var + epsilon), grad_offset = sum(g).
    XLA: BatchNormGrad.

    Attributes, checks: see BatchNorm.
    """

    operand_names = ("operand", "scale", "batch_mean", "batch_var", "grad_output")
    whole = frozenset({0, 4})

    def reference(
        self,
        operand: np.ndarray,
        scale: np.ndarray,
        batch_mean: np.ndarray,
        batch_var: np.ndarray,
        grad_output: np.ndarray,
        /,
        *,
        epsilon: float,
        feature_index: int,
    ) -> tuple[np.ndarray, ...]:
        along = NumpyFeatures(operand, feature_index)
        x, gamma, mu, sigma2, gradient = along.wide(
            operand, scale, batch_mean, batch_var, grad_output
        )
        with np.errstate(all="ignore"):
            shifted = sigma2 + x.dtype.type(epsilon)
            c = along.mean(gradient * (x - mu) / shifted)
            d = along.mean(gradient)
            grad_operand = gamma / np.sqrt(shifted) * (gradient - d - c * (x - mu))
            grad_scale = along.total(gradient * ((x - mu) / np.sqrt(shifted)))
            grad_offset = along.total(gradient)
        vectors = grad_scale.ravel(), grad_offset.ravel()
        return along.narrow(grad_operand), *map(along.narrow, vectors)

    def composition(
        self,
        operand: Any,
        scale: Any,
        batch_mean: Any,
        batch_var: Any,
        grad_output: Any,
        *,
        epsilon: float,
        feature_index: int,
    ) -> tuple[Any, ...]:
        along = Features(operand, feature_index)
        x, gamma, mu, sigma2, gradient = along.wide(
            operand, scale, batch_mean, batch_var, grad_output
        )
        inverse = rsqrt(sigma2 + epsilon)
        centered = x - along.spread(mu)
        grad_offset = along.total(gradient)
        product = along.total(gradient * centered)
        factor = gamma * inverse
        # The sums' parts are put together while they are vectors: three products an element.
        grad_operand = (
            gradient * along.spread(factor)
            - centered * along.spread(factor * inverse * inverse * product / along.count)
            - along.spread(factor * grad_offset / along.count)
        )
        return tuple(along.narrow(grad_operand, product * inverse, grad_offset))


def batch_norm_training(
    operand: Any, scale: Any, offset: Any, epsilon: float, feature_index: int
) -> tuple[Any, Any, Any]:
    """An array normalised by its own mean and variance, feature by feature.

    Args:
        operand: an array of a floating-point type.
        scale: a vector of that type, one element for each feature; what is normalised is
            multiplied by it.
        offset: such a vector, which is added.
        epsilon: added to the variance; rounded to f32.
        feature_index: which dimension of operand numbers the features.

    Returns:
        The normalised array, and the mean and variance (the mean square deviation) of each feature.

    Raises:
        AttributeValueError, ShapeError: see BatchNorm.
    """
    return bind(
        BatchNormTraining.instance,
        operand,
        scale,
        offset,
        epsilon=epsilon,
        feature_index=feature_index,
    )


def batch_norm_inference(
    operand: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    feature_index: int,
) -> Any:
    """An array normalised by a given mean and variance, feature by feature.

    Args:
        operand: an array of a floating-point type.
        scale: a vector of that type, one element for each feature.
        offset: such a vector.
        mean: such a vector.
        variance: such a vector.
        epsilon: added to the variance; rounded to f32.
        feature_index: which dimension of operand numbers the features.

    Returns:
        scale * (operand - mean) / sqrt(variance + epsilon) + offset.

    Raises:
        AttributeValueError, ShapeError: see BatchNorm.
    """
    return bind(
        BatchNormInference.instance,
        operand,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        feature_index=feature_index,
    )


def batch_norm_grad(
    operand: Any,
    scale: Any,
    batch_mean: Any,
    batch_var: Any,
    grad_output: Any,
    epsilon: float,
    feature_index: int,
) -> tuple[Any, Any, Any]:
    """The gradient of `batch_norm_training` for a gradient of its first result.

    Args:
        operand: the array that was normalised.
        scale: what it was multiplied by.
        batch_mean: the mean that `batch_norm_training` gave for it.
        batch_var: the variance that it gave.
        grad_output: the gradient of the normalised array.
        epsilon: what was added to the variance.
        feature_index: which dimension of operand numbers the features.

    Returns:
        The gradients of operand, scale and offset.

    Raises:
        AttributeValueError, ShapeError: see BatchNorm.
    """
    return bind(
        BatchNormGrad.instance,
        operand,
        scale,
        batch_mean,
        batch_var,
        grad_output,
        epsilon=epsilon,
        feature_index=feature_index,
    )
