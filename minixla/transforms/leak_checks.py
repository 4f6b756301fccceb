"""checking_leaks: tracers that outlive their transformation, and what holds them."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import CellType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from minixla.core.errors import LeakedTracerError, explain
from minixla.core.operation import Operation
from minixla.core.source import Source, find_source, is_user_file
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import GraphTracer, Trace, Tracer, _state, default_trace, under
from minixla.transforms.number_watch import NumberWatch

__all__ = ["checking_leaks"]

# More leaks are not described, nor holders of one, nor steps on the way to a holder.
_MOST_LEAKS, _MOST_HOLDERS, _MOST_STEPS = 5, 3, 1000


class RecordTrace(Trace):
    """Its parent, but that it remembers the lines that make values."""

    __slots__ = ("lines",)

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        # By identity: arrays cannot be hashed.
        self.lines: dict[int, tuple[Any, str, Source | None]] = {}

    @property
    def transformation(self) -> str:  # type: ignore[override]  # the parent's
        """What the parent is called."""
        return self.parent.transformation

    @property
    def evaluator(self) -> Trace:
        """The trace that does the work."""
        return self.parent.evaluator

    def process(
        self, operation: Operation, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Any:
        """The parent's results."""
        results = self.parent.process(operation, operands, attributes)
        source = _state.source or find_source(2)
        for each in results if type(results) is tuple else (results,):
            try:
                reference = weakref.ref(each)
            except TypeError:  # a NumPy scalar
                continue
            self.lines[id(each)] = reference, operation.builder_name, source
        return results

    def line_of(self, value: Any) -> tuple[str, Source | None] | None:
        """The operation and the line that made a value."""
        found = self.lines.get(id(value))
        return found[1:] if found is not None and found[0]() is value else None


@contextmanager
def checking_leaks() -> Iterator[None]:
    """Raises an error where a tracer outlives its transformation (JAX: checking_leaks).

        with mx.checking_leaks():
            step(parameters, batch)

    A tracer that is used after its transformation has ended is an error anyway, where it is used.
    Here the block ends in an error that says where the tracer was made and what holds it: a
    global, an attribute, a closure, a list. Compiled functions are traced anew inside. As a
    decorator, `@mx.checking_leaks()`, it looks after every call of a function.

    Raises:
        LeakedTracerError: at the end of the block.
    """
    default_trace()  # loads the evaluator
    before = {id(each): weakref.ref(each) for each in _dead_tracers()}
    previous = _state.watch
    _state.watch = replace(previous or NumberWatch(), token=object())
    trace = RecordTrace(_state.trace)
    try:
        with under(trace):
            yield
    finally:
        _state.watch = previous
    leaks = [x for x in _dead_tracers() if id(x) not in before or before[id(x)]() is not x]
    held = [(each, _holders(each, leaks)) for each in leaks]
    # What a pullback holds is no leak.
    described = [_described(each, holders, trace) for each, holders in held if holders]
    if described:
        raise _error(described)


def _dead_tracers() -> list[Tracer]:
    """The tracers whose trace has ended."""
    gc.collect()
    return [x for x in gc.get_objects() if isinstance(x, Tracer) and not x._trace.alive]


def _error(described: Sequence[Sequence[str]]) -> LeakedTracerError:
    count = len(described)
    lines = [line for each in described[:_MOST_LEAKS] for line in each]
    if count > _MOST_LEAKS:
        lines.append(f"and {count - _MOST_LEAKS} more")
    return explain(
        LeakedTracerError,
        "checking_leaks",
        "a tracer outlives its transformation"
        if count == 1
        else f"{count} tracers outlive their transformations",
        lines,
        "Return the value from the transformed function instead of storing it where it lives "
        "longer than the call.",
    )


def _described(tracer: Tracer, holders: Sequence[str], trace: RecordTrace) -> list[str]:
    kind = type(tracer._trace).transformation
    lines = [f"{tracer!r} of {kind if isinstance(kind, str) else 'a transformation'}"]
    lines.append(f"  {_origin(tracer, trace)}")
    return [*lines, *[f"  held by {each}" for each in holders]]


def _origin(tracer: Any, trace: RecordTrace) -> str:
    """Where a tracer was made, as far as it is known."""
    node = getattr(tracer, "node", None)
    if node is not None and node.source is not None:
        name = getattr(node.operation, "builder_name", "an operation")
        return f"made by {name} at {node.source}"
    while isinstance(tracer, WrappingTracer):
        tracer = tracer.value
    if isinstance(tracer, GraphTracer) and tracer._value.instruction is not None:
        step = tracer._value.instruction
        return f"made by {step.op.builder_name} at {step.source}"
    found = trace.line_of(tracer)
    if found is not None:
        return f"made by {found[0]} at {found[1]}"
    return "it is an argument of the transformed function"


# What holds an object.


def _holders(tracer: Tracer, leaks: Sequence[Tracer]) -> list[str]:
    """What of the user's holds a tracer; nothing where only the framework does."""
    own = {id(leaks), id(sys._getframe()), id(sys._getframe(1))}
    found: dict[str, None] = {}
    pending: list[tuple[Any, str]] = [(tracer, "")]
    seen = {id(tracer)} | own
    while pending and len(seen) < _MOST_STEPS and len(found) < _MOST_HOLDERS:
        value, path = pending.pop(0)
        local = _variable_of_a_frame(value)
        if local is not None:
            found[local + path] = None
        own.add(id(pending))
        for holder in gc.get_referrers(value):
            if id(holder) in seen or holder is pending or isinstance(holder, (FrameType, Tracer)):
                continue
            seen.add(id(holder))
            name = _root(holder, value)
            if name is not None:
                if name:
                    found[name + path] = None
            else:
                pending.append((holder, _step(holder, value) + path))
    return list(found)


def _root(holder: Any, value: Any) -> str | None:
    """What an object is called with which a search ends; "" where it is the framework's."""
    if isinstance(holder, dict):
        module = sys.modules.get(holder.get("__name__", ""))
        if module is not None and module.__dict__ is holder:
            return f"the global {_key(holder, value)} of {module.__name__}"
        return None
    if isinstance(holder, (list, tuple, set, frozenset, CellType, MethodType)):
        return None
    if isinstance(holder, FunctionType):
        if not is_user_file(holder.__code__.co_filename):
            return ""
        return f"the function {holder.__qualname__}{_closed_over(holder, value)}"
    if isinstance(holder, ModuleType):
        return f"the module {holder.__name__}"
    if isinstance(holder, GeneratorType):
        return f"the generator {holder.__qualname__}"
    if isinstance(holder, type):
        return f"the class {holder.__qualname__}"
    module = type(holder).__module__ or ""
    if module.partition(".")[0] in ("minixla", "minixla_ops"):
        return ""
    return f"an object of class {type(holder).__qualname__}{_attribute(holder, value)}"


def _step(holder: Any, value: Any) -> str:
    """How a container leads to what it holds."""
    if isinstance(holder, dict):
        return f"[{_key(holder, value)!r}]"
    if isinstance(holder, (list, tuple)):
        index = next((i for i, each in enumerate(holder) if each is value), None)
        return f"[{index}]"
    return ""


def _key(holder: dict[Any, Any], value: Any) -> Any:
    return next((key for key, each in holder.items() if each is value), "?")


def _closed_over(function: FunctionType, value: Any) -> str:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    name = next((name for name, cell in cells if cell is value), None)
    return ", which refers to it" if name is None else f", by its variable {name}"


def _attribute(holder: Any, value: Any) -> str:
    names = getattr(holder, "__dict__", {})
    name = _key(names, value) if isinstance(names, dict) else "?"
    return "" if name == "?" else f", by its attribute {name}"


def _variable_of_a_frame(value: Any) -> str | None:
    """The variable of a function of the user's, running in this thread, that is bound to a value."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_user_file(frame.f_code.co_filename) and frame.f_code.co_name != "<module>":
            for name, each in frame.f_locals.items():
                if each is value:
                    return f"the variable {name} of {frame.f_code.co_qualname}"
        frame = frame.f_back
    return None
