"""Evaluation of single operations on JAX's arrays: cached programs of one instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.core import Tracer as JaxTracer

from minixla.core.attributes import spelling
from minixla.core.operation import Operation
from minixla.core.shapes import DeclaredArray, shape_of_data
from minixla.core.tracing import (
    Trace,
    Tracer,
    current_trace,
    host_array,
    leaked,
    not_a_value,
    set_default_trace,
)
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
            compiled = _program_of(operation, attributes)
        except TypeError:  # an unhashable attribute
            compiled = _program_of(operation, operation.canonical_attributes(attributes))
        try:
            return compiled(*[_on_device(x) if type(x) is DeclaredArray else x for x in operands])
        except (TypeError, ValueError, OverflowError):
            for operand in operands:
                _check(operand, operation.builder_name)
            raise

    def lift(self, value: Any, subject: str = "evaluation") -> Any:
        """`value` as a JAX array; Python numbers stay weakly typed."""
        if isinstance(value, (jax.Array, Tracer, TupleValue)):
            return value
        if isinstance(value, np.ndarray) and value.ndim and value.size and not any(value.strides):
            return _device_splat(value)
        _check(value, subject)
        return jax.numpy.asarray(value)


def _check(operand: Any, subject: str) -> None:
    """Raises our error for an operand that JAX does not take."""
    if isinstance(operand, Tracer):
        raise leaked(operand, subject) from None
    shape = shape_of_data(operand)
    if shape is None:
        raise not_a_value(operand, subject) from None
    if isinstance(operand, int):
        host_array(operand, shape, subject)


# Repeated values on the device, which derivative rules ask for again and again.
_SPLATS: dict[Any, jax.Array] = {}
_MOST_SPLATS = 1024
_SPLAT_BYTES = 1 << 16


# The same by identity, since `rules.splat` gives one array for one value, with what has that identity.
_PLACED: dict[int, tuple[np.ndarray, jax.Array]] = {}


def _on_device(value: DeclaredArray) -> Any:
    """A constant of a rule as a JAX array where it repeats one value: XLA would copy it each time."""
    found = _PLACED.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    if not value.ndim or not value.size or any(value.strides) or value.dtype.itemsize > 4:
        return value
    placed = _device_splat(value)
    if placed.nbytes <= _SPLAT_BYTES and not isinstance(placed, JaxTracer):
        if len(_PLACED) >= _MOST_SPLATS:
            _PLACED.clear()
        _PLACED[id(value)] = value, placed
    return placed


def _device_splat(value: np.ndarray) -> jax.Array:
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    scalar = value[(0,) * value.ndim]
    key = (scalar.tobytes(), value.dtype, dtype, value.shape)
    found = _SPLATS.get(key)
    if found is None:
        found = jax.numpy.full(value.shape, scalar, dtype)
        # Where JAX is tracing, the array belongs to that trace.
        if found.nbytes <= _SPLAT_BYTES and not isinstance(found, JaxTracer):
            if len(_SPLATS) >= _MOST_SPLATS:
                _SPLATS.clear()
            _SPLATS[key] = found
    return found


def _program_of(operation: Operation, attributes: dict[str, Any]) -> Callable[..., Any]:
    items = tuple(attributes.items())
    return _compiled(operation, items, spelling(items) if operation.is_ambiguous else None)


@lru_cache(maxsize=8192)
def _compiled(operation: Operation, attributes: tuple[Any, ...], _: Any) -> Callable[..., Any]:
    given = dict(attributes)

    def one_operation(*operands: Any) -> Any:
        return current_trace().process(operation, operands, given)

    one_operation.__name__ = operation.builder_name
    return jax.jit(stage_for_jax(one_operation))


ENGINE = EngineTrace(None)
set_default_trace(ENGINE)
