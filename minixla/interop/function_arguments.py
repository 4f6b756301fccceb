"""Functions given to functions of JAX's: they may read what is being traced around the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import tree_map

from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.core.tracing import Trace, Tracer, default_trace, shape_of, under
from minixla.interop.from_jax import from_jax


def is_function(value: Any) -> bool:
    """Whether an argument is a function, and no type of elements."""
    return callable(value) and not isinstance(value, (type, Tracer)) and not hasattr(value, "dtype")


def call_with_functions(
    function: Callable[..., Any], trace: Trace, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """What `from_jax(function)` gives for arguments some of which are functions.

    JAX calls these with its own tracers. What they read of `trace` and of those around it becomes
    an argument, so that derivatives by it are right.
    """
    reading = ReadingTrace(trace)

    def closed(value: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            with under(reading):
                return value(*args, **kwargs)

        return called if is_function(value) else value

    def of_read(values: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        reading.values = dict(zip(reading.read, values, strict=False))
        # New functions: JAX remembers what it has traced, with the values that were read.
        args, kwargs = tree_map(closed, (args, kwargs))
        return function(*args, **kwargs)

    of_read.__name__ = getattr(function, "__name__", "function")
    staged: Any = from_jax(of_read)
    known = -1
    while known < len(reading.read):
        known = len(reading.read)
        # What is read is known when the functions have run.
        staged.graph([*reading.read.values()], *args, **kwargs)
    return staged([*reading.read.values()], *args, **kwargs)


class ReadingTrace(Trace):
    """Runs operations while JAX traces, on JAX's values in place of tracers of enclosing traces."""

    transformation = "from_jax"
    __slots__ = ("read", "values")

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        #: The tracers that were read, by identity, and what JAX has for them.
        self.read: dict[int, Tracer] = {}
        self.values: dict[int, Any] = {}

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """The results that the evaluator gives for JAX's values."""
        return default_trace().process(operation, tuple(map(self._inside, operands)))

    def lift(self, value: Any, subject: str = "trace") -> Any:
        """JAX's value."""
        return default_trace().lift(self._inside(value), subject)

    def weakly(self, value: Any) -> Any:
        """JAX's value as a weakly typed one."""
        return default_trace().weakly(self._inside(value))

    def reaches(self, tracer: Tracer) -> bool:
        """Whether a tracer is of an enclosing trace, or was read."""
        # Derivatives are made later, when the trace around the call may have ended.
        return id(tracer) in self.read or super().reaches(tracer)

    def _inside(self, value: Any) -> Any:
        if not isinstance(value, Tracer):
            return value
        self.read.setdefault(id(value), value)
        found, shape = self.values.get(id(value)), shape_of(value)
        if found is None and isinstance(shape, Shape):
            # At first there are none: JAX traces, and computes nothing.
            return jax.numpy.zeros(shape.dimensions, shape.dtype)
        return found
