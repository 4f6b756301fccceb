"""checking_leaks: detect tracers that outlive their transformation, and their holders."""

import gc
import sys
import traceback
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import CellType, FrameType, FunctionType, GeneratorType
from typing import Any

from minixla.core.errors import LeakedTracerError, explain
from minixla.core.operation import Operation
from minixla.core.source import Source, find_source, is_user_file
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import GraphTracer, Trace, Tracer, _state, default_trace
from minixla.core.value_types import Results
from minixla.transforms.watching import NumberWatch, WatchTrace, enclosing, looking_for

# The maximum numbers of leaks in a message, of holders of one leak, and of steps to a holder.
_MOST_LEAKS, _MOST_HOLDERS, _MOST_STEPS = 5, 3, 1000


class RecordTrace(WatchTrace):
    """Record the lines that create values."""

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        #: The operation and the line that created a value, by id: arrays are not hashable.
        self.lines: dict[int, tuple[weakref.ref[object], str, Source | None]] = {}

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        """Return the parent's results."""
        results = self.parent.process(operation, operands)
        source = _state.source or find_source(2)
        for result in results if type(results) is tuple else (results,):
            with suppress(TypeError):  # a NumPy scalar
                self.lines[id(result)] = weakref.ref(result), operation.builder_name, source
        return results


@contextmanager
def checking_leaks() -> Iterator[None]:
    """Raise an error if a tracer outlives its transformation (JAX: `jax.checking_leaks`).

        with mx.checking_leaks():
            step(parameters, batch)

    Using a tracer after its transformation has ended always raises an error at the use. This block
    raises an error at its end that says where the tracer was created and what holds it: a global,
    an attribute, a closure, a list. Compiled functions are traced again inside the block. The
    decorator `@mx.checking_leaks()` checks after every call of a function.

    Returns:
        A context manager, which is also a decorator.

    Raises:
        LeakedTracerError: at the end of the block.

    Example:
        >>> with mx.checking_leaks():
        ...     mx.jit(lambda x: x + 1)(1)
        Array(2, dtype=int32, weak_type=True)
    """
    default_trace()  # load the evaluator
    trace = RecordTrace(_state.trace)
    with looking_for(trace, (_state.watch or NumberWatch())._replace(token=object())):
        yield
    _raise_leaks(trace)


def _raise_leaks(trace: RecordTrace) -> None:
    gc.collect()
    # Do not use isinstance, which evaluates proxy objects.
    tracers = [x for x in gc.get_objects() if issubclass(type(x), Tracer)]
    leaks = [x for x in tracers if not x._trace.alive and trace in enclosing(x._trace)]
    held = [(leak, _holders(leak, tracers, leaks)) for leak in leaks]
    # A tracer that is held only by a pullback or similar objects is not a leak.
    held, lines = [(tracer, holders) for tracer, holders in held if holders], []
    for tracer, holders in held[:_MOST_LEAKS]:
        kind = type(tracer._trace).transformation
        lines.append(f"{tracer!r} of {kind if isinstance(kind, str) else 'a transformation'}")
        lines += [f"  {_origin(tracer, trace)}", *[f"  held by {holder}" for holder in holders]]
    if not held:
        return
    count = len(held)
    lines += [f"and {count - _MOST_LEAKS} more"] if count > _MOST_LEAKS else []
    many = f"{count} tracers outlive their transformations"
    problem = many if count > 1 else "a tracer outlives its transformation"
    advice = "Return the value from the transformed function; do not keep it beyond the call."
    raise explain(LeakedTracerError, "checking_leaks", problem, lines, advice)


def _origin(tracer: Tracer, trace: RecordTrace) -> str:
    node = getattr(tracer, "node", None)
    if node is not None and node.source is not None:
        name = getattr(node.operation, "builder_name", "an operation")
        return f"made by {name} at {node.source}"
    while isinstance(tracer, WrappingTracer):
        tracer = tracer.value
    if isinstance(tracer, GraphTracer):
        step = tracer._value.instruction
        if step is None:
            return f"argument {tracer._value.index} of the traced function"
        return f"made by {step.op.builder_name} at {step.source}"
    reference, name, source = trace.lines.get(id(tracer), (lambda: None, "", None))
    is_known = reference() is tracer
    return f"made by {name} at {source}" if is_known else "an argument of the transformed function"


def _holders(tracer: Tracer, *lists: list[Tracer]) -> list[str]:
    """Return the user's objects that hold a tracer; empty if only the framework does."""
    holders: dict[str, None] = {}
    pending: list[tuple[object, str]] = [(tracer, "")]
    seen = {id(tracer), id(pending), *map(id, lists)}
    while pending and len(seen) < _MOST_STEPS and len(holders) < _MOST_HOLDERS:
        value, path = pending.pop(0)
        holders.update(dict.fromkeys(_running(value, path)))
        for holder in gc.get_referrers(value):
            if id(holder) in seen or isinstance(holder, Tracer):
                continue
            seen.add(id(holder))
            for end in _ends(holder, value, path):
                if isinstance(end, str):
                    holders[end] = None
                else:
                    pending.append(end)
    return list(holders)[:_MOST_HOLDERS]


def _ends(holder: object, value: object, path: str) -> Iterator[str | tuple[object, str]]:
    """Describe a holder, or yield a container with the path from it, `[0]['a']`."""
    if isinstance(holder, dict):
        yield from _of_dictionary(holder, str(_key(holder, value)), path)
    elif isinstance(holder, (list, tuple)):
        yield holder, f"[{_key(dict(enumerate(holder)), value)}]{path}"
    elif isinstance(holder, (set, frozenset)):
        yield holder, path
    elif isinstance(holder, CellType):
        yield from _of_closures(holder, path)
    elif isinstance(holder, FrameType):
        if is_user_file(holder.f_code.co_filename):
            yield f"a frame of {holder.f_code.co_qualname} that a traceback keeps"
    elif isinstance(holder, (FunctionType, GeneratorType)):
        code = holder.__code__ if isinstance(holder, FunctionType) else holder.gi_code
        if is_user_file(code.co_filename):
            yield f"the {type(holder).__name__} {holder.__qualname__}"
    elif isinstance(holder, type):
        yield f"{_key(holder.__dict__, value)}{path}, of the class {holder.__qualname__}"
    else:
        yield from _of_object(holder, _key(getattr(holder, "__dict__", {}), value), path)


def _of_dictionary(
    holder: dict[object, Any], key: str, path: str
) -> Iterator[str | tuple[object, str]]:
    """Describe a dictionary of a module or an object, or any other dictionary."""
    module = sys.modules.get(str(holder.get("__name__", "")))
    if module is not None and module.__dict__ is holder:
        yield f"{key}{path}, a global of {module.__name__}"
        return
    owners = [x for x in gc.get_referrers(holder) if getattr(x, "__dict__", None) is holder]
    if not owners:
        yield holder, f"[{key!r}]{path}"
    for owner in owners:
        yield from _of_object(owner, key, path)


def _of_object(holder: object, key: object, path: str) -> Iterator[str]:
    """Describe an object, unless it belongs to the framework."""
    if (type(holder).__module__ or "").partition(".")[0] not in ("minixla", "minixla_ops"):
        yield f"{key}{path}, an attribute of an object of class {type(holder).__qualname__}"


def _key(holder: Mapping[Any, object], value: object) -> object:
    return next((key for key, item in holder.items() if item is value), "?")


def _of_closures(cell: CellType, path: str) -> Iterator[str]:
    """Describe the user's functions that share a variable, with its name in each."""
    for closure in gc.get_referrers(cell):
        for function in gc.get_referrers(closure) if isinstance(closure, tuple) else ():
            if not isinstance(function, FunctionType) or function.__closure__ is not closure:
                continue
            code = function.__code__
            if is_user_file(code.co_filename):
                name = _key(dict(zip(code.co_freevars, closure, strict=True)), cell)
                yield f"{name}{path}, a variable of the function {function.__qualname__}"


def _running(value: object, path: str) -> list[str]:
    """Return the variables of running user functions in this thread that are bound to a value."""
    frames = []
    for frame, _ in traceback.walk_stack(sys._getframe()):
        code = frame.f_code
        if is_user_file(code.co_filename) and code.co_name != "<module>":
            names = [name for name, local in frame.f_locals.items() if local is value]
            frames += [f"{name}{path}, a variable of {code.co_qualname}" for name in names]
    return frames
