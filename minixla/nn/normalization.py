"""Normalisation over the batch, or of each example."""

from __future__ import annotations

from typing import Any

import minixla.numpy as np
import minixla_ops as ops
from minixla.core.errors import ShapeError, explain
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import Axis, axes_of, axis_of, convert_all, operand_shape, spread
from minixla_ops.elementwise.operators import convert


@one_program("inputs", "scale", "offset")
def batch_norm(
    inputs: Any, scale: Any, offset: Any, epsilon: float = 1e-5, axis: int = -1
) -> tuple[Any, Any, Any]:
    """Normalisation over the batch, for training (XLA: BatchNormTraining).

    Args:
        inputs: an array with features along `axis`.
        scale: a vector, one number a feature, to multiply by.
        offset: a vector to add. All three are converted to their common type.
        epsilon: added to the variance.
        axis: the dimension of the features; the moments are taken over all others.

    Returns:
        The normalised inputs, and the mean and (biased) variance of each feature.

    Raises:
        AttributeValueError: the axis is out of range.
        ShapeError: see `minixla_ops.batch_norm_training`.
    """
    feature = axis_of(axis, operand_shape(inputs, "batch_norm").rank, "batch_norm")
    given = convert_all("batch_norm", [inputs, scale, offset])
    return ops.batch_norm_training(*given, epsilon=epsilon, feature_index=feature)


@one_program("inputs", "scale", "offset", "mean", "variance")
def batch_norm_inference(
    inputs: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> Any:
    """Normalisation with given moments (XLA: BatchNormInference); see `batch_norm`."""
    subject = "batch_norm_inference"
    feature = axis_of(axis, operand_shape(inputs, subject).rank, subject)
    given = convert_all(subject, [inputs, scale, offset, mean, variance])
    return ops.batch_norm_inference(*given, epsilon=epsilon, feature_index=feature)


@one_program("inputs", "scale", "offset")
def layer_norm(
    inputs: Any, scale: Any = None, offset: Any = None, epsilon: float = 1e-5, axis: Axis = -1
) -> Any:
    """Normalisation of each example, then scaled and shifted.

    Args:
        inputs: an array; f16 and bf16 are computed in f32.
        scale: an array of the sizes of the normalised dimensions, in ascending order, to multiply
            by; or None.
        offset: such an array to add, or None.
        epsilon: added to the variance.
        axis: the dimension or dimensions to normalise over.

    Returns:
        An array of the shape of `inputs`, of the common type of all three.

    Raises:
        AttributeValueError: an axis is out of range or named twice.
        ShapeError: scale or offset has other sizes.

    Source: J. L. Ba, J. R. Kiros, G. E. Hinton, Layer Normalization (2016).
    """
    inputs = operands.inexact_operand(inputs, "layer_norm")
    shape = operand_shape(inputs, "layer_norm")
    axes = tuple(sorted(axes_of(axis, shape.rank, "layer_norm")))
    given = [each for each in (inputs, scale, offset) if each is not None]
    wide = convert(inputs, operands.widened(shape.element_type))
    centred = wide - spread(np.mean(wide, axes), axes, wide)
    variance = np.mean(centred * centred, axes)
    result = centred * spread(ops.rsqrt(variance + epsilon), axes, wide)
    if scale is not None:
        result *= _along(axes, scale, shape.dimensions, "scale")
    if offset is not None:
        result += _along(axes, offset, shape.dimensions, "offset")
    return convert(result, operands.common_type("layer_norm", *given))


def _along(axes: tuple[int, ...], parameter: Any, sizes: tuple[int, ...], name: str) -> Any:
    """A parameter of the normalised dimensions, repeated along all others."""
    own = operand_shape(parameter, "layer_norm").dimensions
    if own != tuple([sizes[axis] for axis in axes]):
        problem = f"{name} does not fit the normalised dimensions"
        given = [f"{name} has dimensions {own}", f"inputs have dimensions {sizes}"]
        advice = f"Give {name} the sizes of the dimensions that are normalised over."
        raise explain(ShapeError, "layer_norm", problem, [*given, f"axis = {axes}"], advice)
    return operands.keep_weak(ops.broadcast_in_dim(parameter, sizes, axes), parameter)
