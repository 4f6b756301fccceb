"""Jacobians from derivative rules and from differences, element by element, for tests.

`mx.check_grads` compares along directions, which takes fewer evaluations, and raises an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.tree_util import tree_leaves

from minixla.core.element_types import element_type
from minixla.core.errors import TransformError, explain
from minixla.core.tracing import shape_of
from minixla.tools.graph_parts import is_inexact
from minixla.tools.rounding import precision_of
from minixla.transforms.gradients import vjp

__all__ = ["compute_gradient", "compute_gradient_error"]


def __dir__() -> list[str]:
    return __all__


def compute_gradient(
    fun: Callable[..., Any], args: Sequence[Any], eps: float | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Compute the Jacobians of a function by its derivative rules and by central differences.

    Args:
        fun: a function of arrays that returns one array of floats.
        args: its arguments, arrays; arrays of integers and booleans are passed unchanged.
        eps: the step; default: the cube root of the type's precision.

    Returns:
        Two lists of float64 matrices, one for each argument of floats: `matrix[i, j]` is the
        derivative of element i of the result with respect to element j of the argument. The first
        list is by reverse mode, the second by differences.

    Raises:
        TransformError: the function returns something else, or takes complex numbers.
        DerivativeError: it has no derivative.

    Source: TensorFlow's `tf.test.compute_gradient`.

    Example:
        >>> rules, differences = mx.test_util.compute_gradient(mx.numpy.square, [np.ones(2)])
        >>> rules[0].tolist(), np.allclose(rules[0], differences[0], atol=1e-2)
        ([[2.0, 0.0], [0.0, 2.0]], True)
    """
    arrays = [np.asarray(argument) for argument in args]
    found = [np.asarray(leaf) for leaf in tree_leaves(fun(*arrays))]
    is_float = len(found) == 1 and is_inexact(shape_of(found[0]))
    if not is_float or any(array.dtype.kind == "c" for array in (*arrays, *found)):
        problem = "the function must return one array of floats, and take no complex arrays"
        details = [f"{array.dtype}{list(array.shape)}" for array in found]
        advice = "Choose one of its results; take real and imaginary parts as two arguments."
        raise explain(TransformError, "compute_gradient", problem, details, advice)
    theoretical, numerical = [], []
    for place, array in enumerate(arrays):
        if is_inexact(shape_of(array)):

            def of_one(value: Any, place: int = place) -> Any:
                return tree_leaves(fun(*arrays[:place], value, *arrays[place + 1 :]))[0]

            theoretical.append(_by_rules(of_one, array, found[0]))
            numerical.append(_by_differences(of_one, array, found[0], eps))
    return theoretical, numerical


def compute_gradient_error(
    fun: Callable[..., Any], args: Sequence[Any], eps: float | None = None
) -> float:
    """Return the largest absolute difference between the two Jacobians of `compute_gradient`.

    If the rule is right, it is some 1e-9 for float64 and some 1e-3 for float32, times the size of
    results and derivatives.

    Args:
        fun: a function of arrays that returns one array of floats.
        args: its arguments.
        eps: the step of the differences.

    Returns:
        A number; NaN if one of the Jacobians contains NaN.

    Source: TensorFlow's `compute_gradient_error`.

    Example:
        >>> mx.test_util.compute_gradient_error(mx.numpy.sin, [np.ones(2, np.float32)]) < 1e-2
        True
    """
    pairs = zip(*compute_gradient(fun, args, eps), strict=True)
    errors = [np.abs(one - other).max(initial=0.0) for one, other in pairs]
    return float(np.max(errors, initial=0.0))


def _by_rules(function: Callable[[Any], Any], array: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Return rows by reverse mode, one for each element of the result."""
    pull = vjp(function, array)[1]
    rows = []
    for element in range(result.size):
        cotangent = np.zeros(result.size, result.dtype)
        cotangent[element] = 1
        rows.append(np.asarray(pull(cotangent.reshape(result.shape))[0], np.float64).ravel())
    return np.stack(rows) if rows else np.zeros((0, array.size))


def _by_differences(
    function: Callable[[Any], Any], array: np.ndarray, result: np.ndarray, eps: float | None
) -> np.ndarray:
    step = precision_of(element_type(array.dtype)) ** (1 / 3) if eps is None else eps
    columns = []
    for element in range(array.size):
        values = []
        for sign in (1, -1):
            moved = array.copy()
            moved.reshape(-1)[element] += sign * step
            at = np.float64(moved.reshape(-1)[element])
            values.append((at, np.asarray(function(moved), np.float64).ravel()))
        (high, after), (low, before) = values
        columns.append((after - before) / (high - low))
    return np.stack(columns, 1) if columns else np.zeros((result.size, 0))
