"""A tree of arrays as one vector (JAX: jax.flatten_util)."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import minixla.numpy as mnp
from minixla.core.errors import ShapeError, explain
from minixla.core.tracing import shape_of

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the elements of a tree of arrays as one vector, and the function that undoes it.

    Arrays of several element types are converted to their common one.

    Args:
        pytree: a tree of arrays.

    Returns:
        The vector, and a function from such a vector to a tree of the same structure, shapes and
        element types.

    Raises:
        ShapeError: when the function is called: the vector has another size.

    Example:
        >>> vector, unravel = mx.flatten_util.ravel_pytree({"a": np.float32([1, 2]), "b": 3.0})
        >>> vector, unravel(2 * vector)["b"]
        (Array([1., 2., 3.], dtype=float32), Array(6., dtype=float32))
    """
    leaves, structure = jax.tree.flatten(pytree)
    arrays = [mnp.asarray(leaf) for leaf in leaves]
    vector = mnp.concatenate([mnp.ravel(x) for x in arrays]) if arrays else mnp.zeros(0)
    ends = [int(each) for each in np.cumsum([each.size for each in arrays])]
    shapes = [(each.shape, each.dtype) for each in arrays]

    def unravel(vector: Any) -> Any:
        if shape_of(vector).dimensions != (ends[-1] if ends else 0,):  # type: ignore[union-attr]
            problem, shown = "the vector has another size", [f"vector {shape_of(vector)}"]
            advice = f"Give a vector of {ends[-1] if ends else 0} elements."
            raise explain(ShapeError, "ravel_pytree", problem, shown, advice)
        starts = [0, *ends]
        found = [
            mnp.reshape(vector[start:end], shape).astype(dtype)
            for start, end, (shape, dtype) in zip(starts, ends, shapes, strict=False)
        ]
        return jax.tree.unflatten(structure, found)

    return vector, unravel


def __dir__() -> list[str]:
    return __all__
