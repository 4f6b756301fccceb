"""Primitives with a corresponding operation; JAX lowers the others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax
from jax.extend.core import primitives

import minixla_ops as ops
from minixla.bridge.values import is_key, shape_of_aval
from minixla.core.element_types import element_type
from minixla.core.errors import UnsupportedError
from minixla.core.graph import Graph
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.computations import sum_over


class NotDirect(Exception):
    """Error of a rule of `TABLE` for parameters or operands that only JAX's lowering supports."""


def direct(
    primitive: Any, avals: Sequence[Any], params: dict[str, Any], wanted: Sequence[Any]
) -> Graph | None:
    """Return the program of a primitive from `TABLE`, or None if the table does not cover it."""
    rule = TABLE.get(primitive)
    if rule is None or any(map(is_key, avals)):
        return None
    shapes = list(map(shape_of_aval, avals))
    try:
        graph, read = trace_to_graph(lambda *x: [rule(*x, **params)], shapes, primitive.name)
    except (NotDirect, UnsupportedError):
        return None
    is_alike = graph.output_shapes == tuple(map(shape_of_aval, wanted)) and not read
    return graph.pruned() if is_alike else None


def _exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule for a unary function; JAX lowers calls with an `accuracy`."""

    def rule(x: Any, accuracy: Any = None) -> Any:
        if accuracy is not None:
            raise NotDirect
        return function(x)

    return rule


def _same_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule for a binary function that broadcasts scalars and dimensions of size 1."""

    def rule(x: Any, y: Any, **_: Any) -> Any:
        if x.dtype != y.dtype or (x.shape and y.shape and len(x.shape) != len(y.shape)):
            raise NotDirect
        shape = np.broadcast_shapes(x.shape, y.shape)
        return function(_of_shape(x, shape), _of_shape(y, shape))

    return rule


def _of_shape(x: Any, shape: Sequence[int]) -> Any:
    return x if x.shape == shape else ops.broadcast_in_dim(x, shape, range(len(x.shape)))


def _convert(x: Any, new_dtype: Any, weak_type: bool, sharding: Any) -> Any:
    if new_dtype == np.bool_ or np.dtype(x.dtype).kind == "c" or sharding is not None:
        raise NotDirect
    return ops.convert_element_type(x, np.dtype(new_dtype).name) if x.dtype != new_dtype else x


def _broadcast(x: Any, *sizes: Any, shape: Any, broadcast_dimensions: Any, sharding: Any) -> Any:
    if sizes:
        raise NotDirect
    return ops.broadcast_in_dim(x, shape, broadcast_dimensions)


def _reshape(x: Any, *sizes: Any, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
    if dimensions is not None or sizes:
        raise NotDirect
    return ops.reshape(x, new_sizes)


def _squeeze(x: Any, dimensions: Any) -> Any:
    return ops.reshape(x, [size for i, size in enumerate(x.shape) if i not in dimensions])


def _dot(
    x: Any,
    y: Any,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    if precision is not None or x.dtype != y.dtype:
        raise NotDirect
    kind = None if preferred_element_type is None else np.dtype(preferred_element_type).name
    return ops.dot_general(x, y, dimension_numbers, preferred_element_type=kind)


def _select(which: Any, *cases: Any) -> Any:
    if len(cases) != 2 or which.dtype != bool:
        raise NotDirect
    return ops.select(_of_shape(which, cases[0].shape), cases[1], cases[0])


def _iota(dtype: Any, shape: Any, dimension: int, sharding: Any) -> Any:
    if sharding is not None:
        raise NotDirect
    return ops.iota(Shape(element_type(dtype), shape), dimension)


def _integer_pow(x: Any, y: int) -> Any:
    if y != 2:
        raise NotDirect
    return ops.mul(x, x)


def _sum(x: Any, axes: Any, out_sharding: Any = None) -> Any:
    return sum_over(x, axes)


def _lowest(dtype: Any) -> np.ndarray:
    """Return the identity element of max, for floats and integers."""
    kind = element_type(dtype)
    if kind.is_complex or not (kind.is_inexact or kind.is_integer):
        raise NotDirect
    lowest = -np.inf if kind.is_inexact else np.iinfo(dtype).min
    return np.asarray(lowest, dtype).view(DeclaredArray)


def _max(x: Any, axes: Any, out_sharding: Any = None) -> Any:
    return ops.reduce(x, _lowest(x.dtype), ops.max, axes)


def _window_max(
    x: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Any:
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    return ops.reduce_window(x, _lowest(x.dtype), ops.max, *window)


def _convolution(
    x: Any,
    kernel: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any = None,
) -> Any:
    # JAX expands complex convolutions into several real ones.
    if precision is not None or x.dtype != kernel.dtype or np.dtype(x.dtype).kind == "c":
        raise NotDirect
    kind = None if preferred_element_type is None else np.dtype(preferred_element_type).name
    counts = feature_group_count, batch_group_count
    window = window_strides, padding, lhs_dilation, rhs_dilation
    return ops.conv_general_dilated(x, kernel, *window, dimension_numbers, *counts, None, kind)


_UNARY = ("neg", "floor", "ceil", "is_finite", "abs", "sign")
_ACCURATE = ("exp", "log", "tanh", "sin", "cos", "sqrt", "rsqrt", "logistic")
_BINARY = ("add", "sub", "mul", "div", "max", "min", "pow", "eq", "ne", "lt", "le", "gt", "ge")

TABLE: dict[Any, Callable[..., Any]] = {
    **{getattr(lax, f"{name}_p"): getattr(ops, name) for name in _UNARY},
    **{getattr(lax, f"{name}_p"): _exactly(getattr(ops, name)) for name in _ACCURATE},
    **{getattr(lax, f"{name}_p"): _same_types(getattr(ops, name)) for name in _BINARY},
    lax.convert_element_type_p: _convert,
    lax.broadcast_in_dim_p: _broadcast,
    lax.reshape_p: _reshape,
    lax.squeeze_p: _squeeze,
    lax.transpose_p: lambda x, permutation: ops.transpose(x, permutation),
    lax.dot_general_p: _dot,
    lax.select_n_p: _select,
    lax.iota_p: _iota,
    lax.integer_pow_p: _integer_pow,
    primitives.square_p: lambda x: ops.mul(x, x),
    lax.reduce_sum_p: _sum,
    lax.reduce_max_p: _max,
    lax.reduce_window_max_p: _window_max,
    lax.conv_general_dilated_p: _convolution,
}
