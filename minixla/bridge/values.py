"""Convert between JAX values and operands of our operations."""

from typing import Any

import jax
import jax.core
import numpy as np

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.core.tracing import Trace, Tracer, weak_type_of
from minixla.engine import jax_private
from minixla.engine.random_keys import KeyNumbers, KeyTracer, numbers_of_key

_ARRAYS = (jax.Array, np.ndarray)
_FLOAT0 = jax.dtypes.float0


def is_key(aval: Any) -> bool:
    """Return whether an abstract value describes typed random keys."""
    return jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended)


def operand(value: Any) -> Any:
    """Convert a JAX value to an operand; a key becomes its numbers."""
    if isinstance(value, Tracer):
        return value
    if type(value) is KeyTracer:
        return value.data
    aval = jax.typeof(value)
    if is_key(aval):
        return numbers_of_key(value)
    if isinstance(value, jax.core.Tracer):
        return value
    return value if isinstance(value, _ARRAYS) else np.asarray(value, aval.dtype)


def result(ours: Trace, value: Any, aval: Any) -> Any:
    """Convert a result to the type of a JAX abstract value."""
    if is_key(aval):
        return KeyNumbers.tree_unflatten(aval.dtype, (value,))
    if aval.weak_type == weak_type_of(value):
        return value
    if aval.weak_type:
        return ours.weakly(value)
    return ops.reshape(value, value.shape)  # results of operations are not weak


def staged(ours: Trace, value: Any) -> Any:
    """Convert a constant to a value of the trace, or of its parent if the trace forwards constants.

    A trace that records every operation returns a tracer, like `jax.jit`.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    if jax_private.eager_constant_folding.value:
        return jax_private.eval_trace.stage_value(value)
    if ours.forwards:
        return ours.parent.for_jax.stage_value(value)
    aval = jax.typeof(value)
    return value if aval.dtype == _FLOAT0 else result(ours, ours.lift(operand(value)), aval)


def results(ours: Trace, values: Any, avals: Any) -> list[Any]:
    """Apply `result` to each value."""
    return [result(ours, x, aval) for x, aval in zip(values, avals, strict=True)]


def numbers_of(aval: Any) -> Any:
    """Return the abstract value of an operand; for a key, that of its numbers."""
    if not is_key(aval):
        return aval
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))


def shape_of_aval(aval: Any) -> Shape:
    """Return the shape of an operand that has an abstract value."""
    numbers = numbers_of(aval)
    return Shape(numbers.dtype.name, numbers.shape)


def is_own(ours: Trace, value: Any) -> bool:
    """Return whether a value, or the tracer of a key's numbers, belongs to the trace."""
    if type(value) is KeyTracer:
        value = value.data
    return isinstance(value, Tracer) and ours.owns(value)
