"""Evaluation of single operations on JAX's arrays: cached programs of one instruction."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.core import Tracer as JaxTracer
from jax.errors import JaxRuntimeError
from jax.sharding import SingleDeviceSharding

from minixla.core import tracing
from minixla.core.attributes import spelling
from minixla.core.errors import MinixlaError
from minixla.core.operation import Operation
from minixla.core.shapes import DeclaredArray, TupleValue
from minixla.core.state import ThreadState
from minixla.core.tracing import Trace, Tracer, current_trace, weak_type_of
from minixla.engine.compiled_functions import CompiledFunctions
from minixla.engine.foreign_code import raise_ours
from minixla.engine.meshes import OnMesh, spec_of
from minixla.engine.program import stage_for_jax

_NUMBERS = {bool, int, float, complex, type(None)}
# JAX narrows constants of rules, and takes containers for several arrays.
_NOT_ONE_ARRAY = {DeclaredArray, list, tuple, dict}


class EngineTrace(Trace):
    """Evaluates at once, on JAX's arrays. Current in every thread outside all transformations."""

    transformation = "evaluation"
    sees_all = False
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ENGINE"

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """The operation's results as JAX arrays."""
        if operation.run is not None:
            return operation.run(*operands)
        if operation.keeps_identity or operation.is_unique:
            # Each call traces the programs among them anew: what counts is whether they are equal.
            values = tuple(operation.values.values())
            cache = _running_programs if operation.computations else _compiled
            compiled = cache(type(operation), values, spelling(values))
        else:
            compiled = _compiled(operation)
        return self.run(compiled, operation, operands)

    def run(
        self, compiled: Callable[..., Any], operation: Operation, operands: Sequence[Any]
    ) -> Any:
        """The results of an operation by its compiled function."""
        try:
            return compiled(*[_on_device(x) if type(x) is DeclaredArray else x for x in operands])
        except (TypeError, ValueError, OverflowError) as error:
            for operand in operands:
                _check(operand, operation.builder_name)
            raise_ours(error, operation.builder_name, operation)
            raise
        except RuntimeError as error:
            raise_ours(error, operation.builder_name, operation)
            raise

    compiles = True
    compiled_functions = CompiledFunctions

    def lift(self, value: Any, subject: str = "evaluation") -> Any:
        """`value` as a JAX array; Python numbers stay weakly typed."""
        if isinstance(value, (jax.Array, Tracer, TupleValue)):
            return value
        if isinstance(value, np.ndarray) and value.ndim and _is_splat(value):
            placed = _device_splat(value)
            return _copy(placed) if _is_kept(placed) else placed
        _check(value, subject)
        return jax.numpy.asarray(value)

    def weakly(self, value: Any) -> Any:
        """`value` as a weakly typed one: JAX decides that when it makes an array."""
        if isinstance(value, (Tracer, TupleValue)):
            return super().weakly(value) if isinstance(value, Tracer) else value
        return value if weak_type_of(value) or value.dtype == bool else _weak_copy(value)


def _weak(value: Any) -> Any:
    tracer = current_trace().lift(value)
    tracer._mark_weak()
    return tracer


_weak_copy = jax.jit(stage_for_jax(_weak))


def _check(operand: Any, subject: str) -> None:
    if isinstance(operand, Tracer):
        raise tracing.leaked(operand, subject) from None
    if isinstance(operand, TupleValue):
        raise tracing.not_a_value(operand, subject) from None
    try:
        tracing.check_value(operand, subject)
    except MinixlaError as error:
        raise error from None


# Repeated values on the device, which derivative rules ask for again and again: by content, and,
# since `rules.splat` makes one array for one value, by identity together with what has it. Nobody
# outside may get hold of them: a jitted function to which they are donated would delete them.
_SPLATS: dict[Any, jax.Array] = {}
_PLACED: dict[int, tuple[np.ndarray, jax.Array]] = {}
_MOST_SPLATS = 1024
_SPLAT_BYTES = 1 << 16
_copy = jax.jit(jax.numpy.copy)


def _is_splat(value: np.ndarray) -> bool:
    return value.size > 0 and not any(value.strides)


def _is_kept(placed: jax.Array) -> bool:
    # Where JAX is tracing, the array belongs to that trace; under a mesh, to its devices.
    if placed.nbytes > _SPLAT_BYTES or isinstance(placed, JaxTracer):
        return False
    return isinstance(placed.sharding, SingleDeviceSharding)


def _device_splat(value: np.ndarray) -> jax.Array:
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    scalar = value[(0,) * value.ndim]
    key = (scalar.tobytes(), value.dtype, dtype, value.shape)
    found = _SPLATS.get(key)
    if found is None:
        try:
            found = jax.numpy.full(value.shape, scalar, dtype)
        except JaxRuntimeError as error:
            raise_ours(error, "constant")
            raise
        if _is_kept(found):
            _keep(_SPLATS, key, found)
    return found


def _on_device(value: DeclaredArray) -> Any:
    """A rule's constant: a JAX array where it repeats one value, as NumPy's is copied each time."""
    found = _PLACED.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    # Whether 64-bit types stay depends on JAX's mode.
    if value.dtype.itemsize > 4 or not _is_splat(value):
        return value
    placed = _device_splat(value)
    if _is_kept(placed):
        _keep(_PLACED, id(value), (value, placed))
    return placed


def _keep(cache: dict[Any, Any], key: Any, found: Any) -> None:
    if len(cache) >= _MOST_SPLATS:
        cache.clear()
    cache[key] = found


def compiled_operation(operation: Operation) -> Callable[..., Any]:
    """An operation as a compiled function of its operands."""

    def one_operation(*operands: Any) -> Any:
        return current_trace().process(operation, operands)

    one_operation.__name__ = operation.builder_name
    staged, shardings = stage_for_jax(one_operation), operation.operand_shardings
    mesh = next((each.mesh for each in shardings if each.mesh.axis_names), None)
    if mesh is None:
        return jax.jit(staged)
    return OnMesh(staged, mesh, list(map(spec_of, shardings)))


def _of_attributes(
    kind: Operation | type[Operation], attributes: tuple[Any, ...] = (), _: Any = None
) -> Callable[..., Any]:
    return compiled_operation(kind(*attributes) if isinstance(kind, type) else kind)


_compiled = lru_cache(maxsize=8192)(_of_attributes)
# Programs are written by users, and may be others in each call.
_running_programs = lru_cache(maxsize=64)(_of_attributes)


ENGINE = EngineTrace(None)
ThreadState.trace = ENGINE  # the current one in every thread outside all transformations
