"""checking_leaks: tracers that outlive their transformation, and what holds them."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import CellType, CodeType, FrameType, FunctionType, GeneratorType
from typing import Any

from minixla.core.errors import LeakedTracerError, explain
from minixla.core.operation import Operation
from minixla.core.source import Source, find_source, is_user_file
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import GraphTracer, Trace, Tracer, _state, default_trace
from minixla.transforms.watching import NumberWatch, WatchTrace, enclosing, looking_for

# More leaks are not described, nor holders of one, nor steps on the way to a holder.
_MOST_LEAKS, _MOST_HOLDERS, _MOST_STEPS = 5, 3, 1000


class RecordTrace(WatchTrace):
    """Remembers the lines that make values."""

    __slots__ = ("lines",)

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        # By identity: arrays cannot be hashed.
        self.lines: dict[int, tuple[Any, str, Source | None]] = {}

    def over(self, parent: Trace) -> WatchTrace:
        """A trace that remembers for this one."""
        found = RecordTrace(parent)
        found.lines = self.lines
        return found

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """The parent's results."""
        results = self.parent.process(operation, operands)
        source = _state.source or find_source(2)
        for each in results if type(results) is tuple else (results,):
            try:
                reference = weakref.ref(each)
            except TypeError:  # a NumPy scalar
                continue
            self.lines[id(each)] = reference, operation.builder_name, source
        return results

    def line_of(self, value: Any) -> str:
        """The operation and the line that made a value, as far as they are known."""
        reference, name, source = self.lines.get(id(value), (lambda: None, "", None))
        if reference() is not value:
            return "an argument of the transformed function"
        return f"made by {name} at {source}"


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
    trace = RecordTrace(_state.trace)
    with looking_for(trace, replace(_state.watch or NumberWatch(), token=object())):
        yield
    _raise_leaks(trace)


def _raise_leaks(trace: RecordTrace) -> None:
    """Raises an error where tracers made under a trace have outlived their own."""
    gc.collect()
    # Not isinstance, which asks objects that stand for others.
    tracers = [x for x in gc.get_objects() if issubclass(type(x), Tracer)]
    leaks = [x for x in tracers if not x._trace.alive and trace in enclosing(x._trace)]
    held = [(each, _holders(each, tracers, leaks)) for each in leaks]
    # What only a pullback or the like holds is no leak.
    described = [_described(each, holders, trace) for each, holders in held if holders]
    if not described:
        return
    count = len(described)
    lines = [line for each in described[:_MOST_LEAKS] for line in each]
    if count > _MOST_LEAKS:
        lines.append(f"and {count - _MOST_LEAKS} more")
    problem = "a tracer outlives its transformation"
    if count > 1:
        problem = f"{count} tracers outlive their transformations"
    advice = "Return the value from the transformed function instead of storing it where it lives "
    advice += "longer than the call."
    raise explain(LeakedTracerError, "checking_leaks", problem, lines, advice)


def _described(tracer: Tracer, holders: Sequence[str], trace: RecordTrace) -> list[str]:
    kind = type(tracer._trace).transformation
    named = f"{tracer!r} of {kind if isinstance(kind, str) else 'a transformation'}"
    return [named, f"  {_origin(tracer, trace)}", *[f"  held by {each}" for each in holders]]


def _origin(tracer: Any, trace: RecordTrace) -> str:
    """Where a tracer was made, as far as it is known."""
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
    return trace.line_of(tracer)


def _holders(tracer: Tracer, *own: list[Tracer]) -> list[str]:
    """What of the user's, beside `own`, holds a tracer; nothing where only the framework does."""
    found: dict[str, None] = {}
    pending: list[tuple[Any, str]] = [(tracer, "")]
    seen = {id(tracer), id(pending), *map(id, own)}
    while pending and len(seen) < _MOST_STEPS and len(found) < _MOST_HOLDERS:
        value, path = pending.pop(0)
        found.update(dict.fromkeys(_running(value, path)))
        for holder in gc.get_referrers(value):
            if id(holder) in seen or isinstance(holder, Tracer):
                continue
            seen.add(id(holder))
            ends, further = _ends(holder, value, path)
            found.update(dict.fromkeys(ends))
            pending += further
    return list(found)[:_MOST_HOLDERS]


#: What ends a search, described; and the containers in which it goes on, with the way from there.
Found = tuple[list[str], list[tuple[Any, str]]]


def _ends(holder: Any, value: Any, path: str) -> Found:
    """What a holder of a value is; `path` leads from the value to the tracer, `[0]['a']`."""
    if isinstance(holder, dict):
        return _of_dictionary(holder, f"{_key(holder, value)}", path)
    if isinstance(holder, (list, tuple)):
        index = next((i for i, each in enumerate(holder) if each is value), "?")
        return [], [(holder, f"[{index}]{path}")]
    if isinstance(holder, (set, frozenset)):
        return [], [(holder, path)]
    if isinstance(holder, CellType):
        return [f"{n}{path}, a variable of the function {f}" for f, n in _closures(holder)], []
    if isinstance(holder, FrameType):
        name = f"a frame of {holder.f_code.co_qualname} that a traceback keeps"
        return _if_users(holder.f_code, name), []
    if isinstance(holder, (FunctionType, GeneratorType)):
        code = holder.__code__ if isinstance(holder, FunctionType) else holder.gi_code
        return _if_users(code, f"the {type(holder).__name__} {holder.__qualname__}"), []
    if isinstance(holder, type):
        return [f"{_key(holder.__dict__, value)}{path}, of the class {holder.__qualname__}"], []
    if _is_ours(holder):
        return [], []
    return _of_object(holder, str(_key(getattr(holder, "__dict__", {}), value)), path), []


def _if_users(code: CodeType, description: str) -> list[str]:
    return [description] if is_user_file(code.co_filename) else []


def _of_dictionary(holder: dict[Any, Any], key: str, path: str) -> Found:
    """A module's or an object's dictionary, or any other."""
    module = sys.modules.get(str(holder.get("__name__", "")))
    if module is not None and module.__dict__ is holder:
        return [f"{key}{path}, a global of {module.__name__}"], []
    owners = [x for x in gc.get_referrers(holder) if getattr(x, "__dict__", None) is holder]
    if not owners:
        return [], [(holder, f"[{key!r}]{path}")]
    return [line for x in owners if not _is_ours(x) for line in _of_object(x, key, path)], []


def _of_object(holder: Any, key: str, path: str) -> list[str]:
    return [f"{key}{path}, an attribute of an object of class {type(holder).__qualname__}"]


def _is_ours(value: Any) -> bool:
    return (type(value).__module__ or "").partition(".")[0] in ("minixla", "minixla_ops")


def _key(holder: Any, value: Any) -> Any:
    return next((key for key, each in holder.items() if each is value), "?")


def _closures(cell: CellType) -> list[tuple[str, str]]:
    """The user's functions that a variable is shared by, and its name in each."""
    found = []
    for closure in gc.get_referrers(cell):
        for function in gc.get_referrers(closure) if isinstance(closure, tuple) else ():
            if not isinstance(function, FunctionType) or function.__closure__ is not closure:
                continue
            if is_user_file(function.__code__.co_filename):
                index = next(i for i, each in enumerate(closure) if each is cell)
                found.append((function.__qualname__, function.__code__.co_freevars[index]))
    return found


def _running(value: Any, path: str) -> list[str]:
    """The variables bound to a value of the user's functions that are running in this thread."""
    found = []
    for frame, _ in traceback.walk_stack(sys._getframe()):
        code = frame.f_code
        if is_user_file(code.co_filename) and code.co_name != "<module>":
            names = [name for name, each in frame.f_locals.items() if each is value]
            found += [f"{name}{path}, a variable of {code.co_qualname}" for name in names]
    return found
