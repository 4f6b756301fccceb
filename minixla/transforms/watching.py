"""Traces that watch others, and the checks of debug_nans and debug_infs."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax.core
import numpy as np

from minixla.core.element_types import element_type
from minixla.core.errors import InfinityError, MinixlaError, NaNError, explain
from minixla.core.operation import Operation
from minixla.core.reverse import Cotangents, Gradients, LinearTracer, Node
from minixla.core.shapes import TupleValue, shape_of_data
from minixla.core.source import ReverseSource
from minixla.core.state import held
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import Trace, Tracer, _state, under
from minixla.core.value_types import Results
from minixla.reference_evaluator.trace import ReferenceTracer
from minixla.typing import Array

#: A NumPy array, a sequence of them, or None for a value that is not yet known.
Numbers: TypeAlias = "np.ndarray | tuple[Numbers, ...] | list[Numbers] | None"
#: A dictionary of a function's traces.
Cached = TypeVar("Cached", bound=dict[Any, Any])
# The maximum number of operands in a message.
_MOST_SHOWN = 6


class WatchTrace(Trace):
    """Base class of traces that forward everything to their parent and observe it."""

    @property
    def transformation(self) -> str:  # type: ignore[override]  # the parent's
        """The name of the parent."""
        return self.parent.transformation

    def over(self, parent: Trace) -> "WatchTrace":
        """Return a trace that watches another one in the same way, with the same memory."""
        watch = copy.copy(self)
        watch.parent = parent
        return watch


def enclosing(trace: Trace | None) -> Iterator[Trace]:
    """Yield a trace and the enclosing ones, the innermost first."""
    while trace is not None:
        yield trace
        trace = trace.parent


def watched(evaluator: Trace) -> Trace:
    """Watch an evaluator as the current trace is watched."""
    watching = [trace for trace in enclosing(_state.trace) if isinstance(trace, WatchTrace)]
    for watcher in reversed(watching):
        evaluator = watcher.over(evaluator)
    return evaluator


class Kind(NamedTuple):
    """The searched kind of value: its noun, a test of elements, and JAX's check for it."""

    subject: str
    noun: str
    test: Callable[[np.ndarray], np.ndarray]
    error: type[MinixlaError]
    jax_check: Callable[[bool], AbstractContextManager[object]]
    #: A test of elements that may result from it: an infinity may become a NaN.
    trail: Callable[[np.ndarray], np.ndarray]

    def leads_to(self, value: Numbers) -> bool:
        """Return whether an array, or an element of a sequence, may result from it."""
        return self._replace(test=self.trail).is_in(value)

    def is_in(self, value: Numbers) -> bool:
        """Return whether an array, or an element of a sequence, contains it; unknown: False."""
        if isinstance(value, (tuple, list)):
            return any(map(self.is_in, value))
        if value is None or not element_type(value.dtype).is_inexact:
            return False
        return bool(np.any(self.test(value)))

    def advice(self, is_reverse: bool) -> str:
        """Return the advice."""
        advice = "Pass operands for which its value is finite."
        if is_reverse:
            advice = "The derivative is not finite there, whether or not it is used. Choose the "
            advice += "operand before the operation, sqrt(where(x > 0, x, 1)): a where around the "
            advice += "result only multiplies the derivative by 0."
        return f"{advice} If it is intended, disable the check with mx.{self.subject}(False)."


NANS = Kind("debug_nans", "a NaN", np.isnan, NaNError, jax.debug_nans, np.isnan)
INFS = Kind(
    "debug_infs",
    "an infinity",
    np.isinf,
    InfinityError,
    jax.debug_infs,
    lambda array: ~np.isfinite(array),
)


@contextmanager
def without_jax_checks() -> Iterator[None]:
    """Disable JAX's checks for NaNs and infinities in a `with` block."""
    with jax.debug_nans(False), jax.debug_infs(False):
        yield


class NumberWatch(NamedTuple):
    """The active checks; see `ThreadState.watch`. A new `token` forces new traces of functions."""

    kinds: tuple[Kind, ...] = ()
    token: object = None

    def differentiates(
        self, operation: Operation, operands: Sequence[Array], active: Sequence[bool]
    ) -> None:
        """Observe that an operation will be differentiated with respect to active operands."""

    def batches(
        self,
        operation: Operation,
        operands: Sequence[Array],
        dimensions: Sequence[int | None],
        size: int,
    ) -> None:
        """Observe that the batching rule of an operation will run."""

    def cached(self, cache: Cached) -> Cached:
        """Return the cache of the traces of a function."""
        return cache

    def pull(self, node: Node, cotangents: Cotangents) -> Gradients:
        """Run a node's pullback, and check that it does not produce the first searched value."""
        operation = node.operation
        pullback: Any = node.pullback  # None only for inputs
        if node.source is not None:
            _state.source = source = ReverseSource(*node.source)
            source.operation = operation
        # Programs of operations are checked inside.
        runs_programs = operation and (operation.linearize is not None or operation.forward)
        if not self.kinds or operation is None or runs_programs:
            return pullback(cotangents)
        with self._resting():
            gradients = pullback(cotangents)
        self._check_rule(
            "reverse", operation, [*cotangents.values()], gradients, lambda: _read(node)
        )
        return gradients

    def jvp(self, operation: Operation) -> Callable[..., Any]:
        """Return the jvp rule of an operation, checked for producing the first searched value."""
        if not self.kinds:
            return operation.jvp

        def rule(
            primals: Sequence[Array], tangents: Sequence[Any], results: Results
        ) -> Results | None:
            recorder = next((t._trace.recorder for t in tangents if type(t) is LinearTracer), None)
            start = len(recorder.nodes) if recorder is not None else 0
            with self._resting():
                tangents_out = operation.jvp(primals, tangents, results)
            read = [*primals, *(results if type(results) is tuple else [results])]
            if recorder is not None and any(kind.is_in(numbers(read)) for kind in self.kinds):
                for node in recorder.nodes[start:]:
                    node.operation = None  # its results are not blamed on it
            before = [tangent for tangent in tangents if tangent is not None]
            after = tangents_out if type(tangents_out) is tuple else [tangents_out]
            self._check_rule("forward", operation, before, after, lambda: read)
            return tangents_out

        return rule

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """Ignore intermediate values of a rule, which it may discard; only check its results."""
        with held("watch", self._replace(kinds=())), without_jax_checks():
            yield

    def _check_rule(
        self,
        way: str,
        op: Operation,
        before: Sequence[object],
        after: Sequence[object],
        read: Callable[[], Sequence[object]],
    ) -> None:
        """Raise an error if a rule produces a searched value from inputs that contain none."""
        what = "tangent" if way == "forward" else "cotangent"
        for kind in self.kinds:
            results, before_numbers = numbers(after), numbers(before)
            if kind.is_in(results) and not kind.is_in([*before_numbers, *numbers(read())]):
                problem = f"its {way} derivative produces {kind.noun} from a {what} without any"
                lines = [
                    f"{what} {summary}" for summary in map(_summary, before_numbers) if summary
                ]
                lines += [f"result {_summary(x, kind)}" for x in results if _summary(x, kind)]
                advice = kind.advice(way == "reverse")
                raise explain(kind.error, op.builder_name, problem, lines, advice)


@contextmanager
def looking_for(trace: Trace, watch: NumberWatch) -> Iterator[None]:
    """Make a trace current and enable the checks in a `with` block."""
    with held("watch", watch), under(trace, 0):
        yield


def _read(node: Node) -> list[object]:
    """Return the operands and results that a node's pullback uses."""
    operands, results = node.known or ((), ())
    return [*operands, *(results if type(results) is tuple else [results])]


def numbers(value: object) -> Any:  # noqa: ANN401  # as nested as the value
    """Convert a value to a NumPy array, or several to a tuple; None if not yet known."""
    while isinstance(value, WrappingTracer):
        value = value.value
    members = value.elements if isinstance(value, TupleValue) else value
    if isinstance(members, (tuple, list)):
        return tuple(map(numbers, members))
    if isinstance(value, ReferenceTracer):
        return value.data if isinstance(value.data, np.ndarray) else None
    if isinstance(value, (Tracer, jax.core.Tracer)) or shape_of_data(value) is None:
        return None
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return tuple([np.asarray(shard.data) for shard in value.addressable_shards])
    return np.asarray(value)


def shown(
    kind: Kind, operation: Operation, operands: Sequence[Numbers], results: Sequence[Numbers]
) -> list[str]:
    """Return lines with operands and results, and the elements at the first occurrence."""
    named = zip(operation.operand_labels(len(operands)), operands, strict=True)
    pairs = [(name, x) for name, x in named if isinstance(x, np.ndarray)][:_MOST_SHOWN]
    lines = [f"{name} {_summary(x)}" for name, x in pairs]
    bad = next((x for x in results if isinstance(x, np.ndarray) and kind.is_in(x)), None)
    if bad is None:
        return lines
    lines.append(f"result {_summary(bad, kind)}")
    at = tuple(np.argwhere(kind.test(bad))[0])
    alike = [f"{name} = {x[at]}" for name, x in pairs if x.shape == bad.shape]
    return [*lines, f"there {', '.join(alike)}"] if alike and bad.size > 1 else lines


def _summary(array: Numbers, kind: Kind | None = None) -> str:
    """Summarize an array: its shape, and the range of its elements or the positions of a kind."""
    if not isinstance(array, np.ndarray) or (kind is not None and not kind.is_in(array)):
        return ""
    shape = str(shape_of_data(array))
    if kind is None and (not array.size or array.dtype.kind == "c"):
        return shape
    if array.size == 1:
        return f"{shape}: {array.reshape(())[()]}"
    if kind is None:
        return f"{shape}: from {array.min()} to {array.max()}"
    marked = kind.test(array)
    at = list(map(int, np.argwhere(marked)[0]))
    count = f"{int(marked.sum())} of {array.size} elements"
    return f"{shape}: {kind.noun} in {count}, first at {at}"
