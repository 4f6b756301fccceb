"""Evaluation of single operations on JAX's arrays: cached programs of one instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from minixla.core.errors import MinixlaError
from minixla.core.operation import Operation
from minixla.core.roles import role
from minixla.core.shapes import shape_of_data
from minixla.core.tracing import Trace, Tracer, leaked, not_a_value, set_default_trace
from minixla.core.tuples import TupleValue
from minixla.engine.program import stage_for_jax

__all__ = ["ENGINE", "EngineTrace"]


class EngineTrace(Trace):
    """Evaluates at once, on JAX's arrays. Current in every thread outside all transformations."""

    transformation = "evaluation"
    __slots__ = ()

    def process(
        self, operation: Operation, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Any:
        """The operation's results as JAX arrays."""
        if operation.run is not None:
            return operation.run(*operands, **attributes)
        try:
            compiled = _compiled(operation, tuple(attributes.items()))
        except TypeError:  # an unhashable attribute
            attributes = operation.canonical_attributes(attributes)
            compiled = _compiled(operation, tuple(attributes.items()))
        try:
            return compiled(*operands)
        except MinixlaError:
            raise
        except (TypeError, ValueError):
            _check(operation, operands)
            raise

    def lift(self, value: Any) -> Any:
        """`value` as a JAX array; Python numbers stay weakly typed."""
        if isinstance(value, (jax.Array, Tracer, TupleValue)):
            return value
        if isinstance(value, np.ndarray) and value.ndim and not any(value.strides):
            return _device_splat(value[(0,) * value.ndim].tobytes(), value.dtype, value.shape)
        return jax.numpy.asarray(value)


def _check(operation: Operation, operands: tuple[Any, ...]) -> None:
    for operand in operands:
        if isinstance(operand, Tracer):
            raise leaked(operand, operation.builder_name)
        if shape_of_data(operand) is None:
            raise not_a_value(operand, operation.builder_name)


@lru_cache(maxsize=1024)
def _device_splat(raw: bytes, dtype: np.dtype, sizes: tuple[int, ...]) -> jax.Array:
    return jax.numpy.full(sizes, np.frombuffer(raw, dtype)[0], dtype)


@lru_cache(maxsize=8192)
def _compiled(operation: Operation, attributes: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    given = dict(attributes)
    if operation is role("constant"):
        array = given["literal"].array
        return lambda: jax.numpy.asarray(array)

    def one_operation(*operands: Any) -> Any:
        from minixla.core.tracing import _state

        return _state.trace.process(operation, operands, given)

    one_operation.__name__ = operation.builder_name
    return jax.jit(stage_for_jax(one_operation))


ENGINE = EngineTrace(None)
set_default_trace(ENGINE)
