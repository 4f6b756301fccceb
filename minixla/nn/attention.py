"""Attention."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

import minixla.numpy as np
from minixla.core.errors import ShapeError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.nn.soft_functions import softmax
from minixla.numpy.operands import convert_all, operand_shape, widened
from minixla_ops.elementwise.operators import convert


@one_program("query", "key", "value", "bias", "mask")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Any:
    """Values, averaged with softmax(query * key) as weights (JAX: nn.dot_product_attention).

    Args:
        query: `[batch..., length, heads, size]`.
        key: `[batch..., positions, key heads, size]`; the key heads divide the heads, and each
            serves as many neighbouring ones.
        value: `[batch..., positions, key heads, value size]`. All three are converted to their
            common type.
        bias: added to the scaled products; broadcasts with `[batch..., heads, length, positions]`.
        mask: booleans that broadcast likewise: which positions each query sees.
        scale: of the products; default: 1 / sqrt(size).
        is_causal: whether a query sees no positions after its own.

    Returns:
        `[batch..., length, heads, value size]`. Weights of f16 and bf16 are computed in f32.

    Raises:
        ShapeError: query, key and value do not fit each other.

    Source: A. Vaswani and others, Attention Is All You Need (2017).
    """
    query, key, value = convert_all("dot_product_attention", [query, key, value])
    shapes = [operand_shape(each, "dot_product_attention") for each in (query, key, value)]
    _check(shapes)
    *batch, length, heads, size = shapes[0].dimensions
    positions, key_heads = shapes[1].dimensions[-3:-1]
    kind = shapes[0].element_type
    wide = widened(kind)
    grouped = (*batch, length, key_heads, heads // key_heads, size)
    pairs = "...tkgh,...skh->...kgts"
    query = np.reshape(query, grouped)
    products = np.einsum(pairs, query, key, preferred_element_type=wide.dtype)
    scores = np.reshape(products, (*batch, heads, length, positions))
    scores = scores * (1 / math.sqrt(size) if scale is None else scale)
    if bias is not None:
        scores = convert(scores + bias, wide)
    # Not -inf: a query that sees nothing gets the mean of all values, not NaN.
    lowest = -0.7 * float(ml_dtypes.finfo(wide.dtype).max)
    if mask is not None:
        scores = np.where(mask, scores, lowest)
    if is_causal:
        scores = np.where(np.tri(length, positions, dtype=bool), scores, lowest)
    weights = np.reshape(convert(softmax(scores), kind), products.shape)
    averages = np.einsum("...kgts,...skh->...tkgh", weights, value)
    return np.reshape(averages, (*batch, length, heads, shapes[2].dimensions[-1]))


def _check(shapes: list[Shape]) -> None:
    """Raises ShapeError where query, key and value do not fit each other."""
    query, key, value = [shape.dimensions for shape in shapes]
    if (
        min(map(len, (query, key, value))) < 3
        or not query[:-3] == key[:-3] == value[:-3]
        or key[-3:-1] != value[-3:-1]
        or query[-1] != key[-1]
        or key[-2] == 0
        or query[-2] % key[-2]
    ):
        names = ("query", "key", "value")
        problem = "query, key and value do not fit each other"
        given = [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)]
        advice = (
            "Give query [batch..., length, heads, size], key [batch..., positions, key heads, "
            "size] and value [batch..., positions, key heads, value size], where the key heads "
            "divide the heads."
        )
        raise explain(ShapeError, "dot_product_attention", problem, given, advice)
