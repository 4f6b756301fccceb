"""Evaluate single operations on JAX arrays by cached programs of one instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.core
import numpy as np
from jax.core import Tracer as JaxTracer
from jax.errors import JaxRuntimeError
from jax.sharding import SingleDeviceSharding

from minixla.core import tracing
from minixla.core.attributes import spelling
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import DeclaredArray, TupleValue
from minixla.core.tracing import Trace, Tracer, current_trace, weak_type_of
from minixla.core.value_types import Results
from minixla.engine.compiled_functions import CompiledFunctions
from minixla.engine.foreign_code import raise_ours
from minixla.engine.jax_private import eval_trace, fill_hook, jax_trace_in_force, trace_ctx
from minixla.engine.meshes import OnMesh, spec_of
from minixla.engine.program import jit_staged, stage_for_jax
from minixla.typing import Array, ArrayLike
from minixla_ops.programs.call import without_user_rule
from minixla_ops.programs.runs_programs import RunsPrograms

_NUMBERS = {bool, int, float, complex, type(None)}
# JAX narrows constants of rules, and accepts containers of several arrays.
_NOT_ONE_ARRAY = {DeclaredArray, list, tuple, dict}


class EngineTrace(Trace):
    """A trace that evaluates operations immediately on JAX arrays, under a JAX trace.

    `ENGINE` uses JAX's evaluation trace. In every thread it is the trace outside all
    transformations.
    """

    transformation = "evaluation"
    evaluates = compiles = True
    compiled_functions = CompiledFunctions
    __slots__ = ("_for_jax",)

    def __init__(self, for_jax: jax.core.Trace) -> None:
        super().__init__(None)
        self._for_jax = for_jax

    @property
    def for_jax(self) -> jax.core.Trace:
        """The JAX trace under which this trace computes."""
        return self._for_jax

    def __reduce__(self) -> str:
        return "ENGINE"

    def reaches(self, tracer: Tracer) -> bool:
        """Return whether a tracer may be read: it may unless it was made above this trace.

        JAX's graph traces do not say which traces enclose them.
        """
        if self._for_jax is eval_trace or not tracer._trace.is_valid():
            return False
        trace: Trace = tracer._trace
        while not trace.evaluates:
            trace = trace.parent
        return trace.for_jax is not self._for_jax

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        """Return the operation's results as JAX arrays or JAX tracers."""
        if operation.run is not None:
            return operation.run(*operands)
        if trace_ctx.trace is not self._for_jax:
            with jax_trace_in_force(self._for_jax):
                return self.process(operation, operands)
        if operation.computations and not any(
            isinstance(operand, JaxTracer) for operand in operands
        ):
            operation = _evaluated(operation)
        if operation.keeps_identity or operation.is_unique:
            # Each call traces its programs anew, so compare them by equality.
            values = tuple(operation.values.values())
            cache = _running_programs if operation.computations else _compiled
            compiled = cache(type(operation), values, spelling(values))
        else:
            compiled = _compiled(operation)
        return self.run(compiled, operation, operands)

    def run(
        self, compiled: Callable[..., Results], operation: Operation, operands: Sequence[Any]
    ) -> Results:
        """Run the compiled function of an operation."""
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

    def lift(self, value: ArrayLike, subject: str = "evaluation") -> Array:
        """Convert `value` to a JAX array; Python numbers stay weakly typed."""
        if isinstance(value, (jax.Array, TupleValue)):
            return value
        if (
            trace_ctx.trace is not self._for_jax
        ):  # otherwise the array would become a value of that trace
            with jax_trace_in_force(self._for_jax):
                return self.lift(value, subject)
        if isinstance(value, np.ndarray) and value.ndim and _is_splat(value):
            placed = _device_splat(value)
            if not _is_kept(placed):
                return placed
            with jax_trace_in_force(eval_trace):
                return _copy(placed)
        _check(value, subject)
        return jax.numpy.asarray(value)

    def weakly(self, value: Any) -> Any:
        """Return `value` as weakly typed; JAX decides this when it creates an array."""
        if isinstance(value, (Tracer, TupleValue)):
            return super().weakly(value) if isinstance(value, Tracer) else value
        if weak_type_of(value) or value.dtype == bool:
            return value
        with jax_trace_in_force(self.for_jax):
            return _weak_copy(value)


def _weak(value: ArrayLike) -> Array:
    tracer: Any = current_trace().lift(value)
    tracer._mark_weak()
    return tracer


_weak_copy = jit_staged(stage_for_jax(_weak))


def _check(operand: object, subject: str) -> None:
    if isinstance(operand, Tracer):
        raise tracing.leaked(operand, subject) from None
    if isinstance(operand, TupleValue):
        raise tracing.not_a_value(operand, subject) from None
    try:
        tracing.check_value(operand, subject)
    except MinixlaError as error:
        raise error from None


# Device arrays that repeat one value, which derivative rules use often. They are never returned to
# users, because donating one to a jitted function would delete it.
_SPLATS: dict[object, jax.Array] = {}
_MOST_SPLATS = 64
_SPLAT_BYTES = 1 << 16
_copy = jax.jit(jax.numpy.copy)


def _is_splat(value: np.ndarray) -> bool:
    return value.size > 0 and not any(value.strides)


def _is_kept(placed: jax.Array) -> bool:
    # While JAX is tracing, the array belongs to that trace; under a mesh, to the mesh's devices.
    if placed.nbytes > _SPLAT_BYTES or isinstance(placed, JaxTracer):
        return False
    return isinstance(placed.sharding, SingleDeviceSharding)


def _device_splat(value: np.ndarray) -> jax.Array:
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    scalar = value[(0,) * value.ndim]
    key = (scalar.tobytes(), value.dtype, dtype, value.shape)
    cached = _SPLATS.get(key)
    if cached is None:
        try:
            cached = jax.numpy.full(value.shape, scalar, dtype)
        except JaxRuntimeError as error:
            raise_ours(error, "constant")
            raise
        if _is_kept(cached):
            if len(_SPLATS) >= _MOST_SPLATS:
                _SPLATS.clear()
            _SPLATS[key] = cached
    return cached


def _on_device(value: DeclaredArray) -> ArrayLike:
    """Convert a rule's constant; one that repeats a value becomes a cached JAX array."""
    # JAX's mode decides whether 64-bit types stay.
    if value.dtype.itemsize > 4 or not _is_splat(value):
        return value
    return _device_splat(value)


def compiled_operation(operation: Operation) -> Callable[..., Results]:
    """Compile an operation as a function of its operands."""

    def one_operation(*operands: Array) -> Results:
        return current_trace().process(operation, operands)

    one_operation.__name__ = operation.builder_name
    staged = stage_for_jax(one_operation)
    shardings = operation.operand_shardings if isinstance(operation, RunsPrograms) else ()
    mesh = next((sharding.mesh for sharding in shardings if sharding.mesh.axis_names), None)
    if mesh is None:
        return jit_staged(staged)
    return OnMesh(staged, mesh, list(map(spec_of, shardings)))


def _evaluated(operation: Operation) -> Operation:
    """Return the operation without users' rules, also in its programs."""
    if (call := without_user_rule(operation)) is not None:
        return call
    if all(computation.evaluated() is computation for computation in operation.computations):
        return operation
    return operation.changed(_evaluated_programs)


def _evaluated_programs(value: object) -> object:
    if type(value) is tuple:
        return tuple(map(_evaluated_programs, value))
    return value.evaluated() if isinstance(value, Graph) else value


def _of_attributes(
    kind: Operation | type[Operation], attributes: tuple[object, ...] = (), _: object = None
) -> Callable[..., Results]:
    return compiled_operation(kind(*attributes) if isinstance(kind, type) else kind)


_compiled = lru_cache(maxsize=8192)(_of_attributes)
# Users write these programs, and each call may have a new one.
_running_programs = lru_cache(maxsize=64)(_of_attributes)


ENGINE = EngineTrace(eval_trace)
fill_hook(ENGINE, EngineTrace)
