"""debug_nans and debug_infs: the operation and the line that make the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer as JaxTracer

from minixla.core.errors import InfinityError, MinixlaError, NaNError, explain
from minixla.core.operation import Operation
from minixla.core.shapes import shape_of_data
from minixla.core.source import ReverseSource, find_source
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import Trace, Tracer, _state, default_trace, under
from minixla.core.tuples import TupleValue
from minixla.reference.trace import ReferenceTracer
from minixla.transforms.nan_search import Maker, Test, maker_in, reaches

__all__ = ["debug_infs", "debug_nans", "watched"]


class Kind(NamedTuple):
    """What is looked for.

    Attributes:
        subject: the context manager.
        noun: what messages call it.
        test: elementwise, whether it is one.
        error: the class of the error.
    """

    subject: str
    noun: str
    test: Test
    error: type[MinixlaError]


_NANS = Kind("debug_nans", "NaN", np.isnan, NaNError)
_INFS = Kind("debug_infs", "infinity", np.isinf, InfinityError)


class CheckTrace(Trace):
    """Its parent, but that it raises an error where a result is the first that holds a NaN."""

    __slots__ = ("is_paused", "kind")

    def __init__(self, parent: Trace, kind: Kind) -> None:
        super().__init__(parent)
        self.kind = kind
        self.is_paused = False

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
        """The parent's results.

        Raises:
            NaNError, InfinityError: they hold what is looked for, and no operand does.
        """
        results = self.parent.process(operation, operands, attributes)
        if self.is_paused:
            return results
        listed = results if type(results) is tuple else (results,)
        values = list(map(_numbers, listed))
        test = self.kind.test
        if not any(reaches(test, value) for value in values):
            return results
        given = list(map(_numbers, operands))
        if any(reaches(test, value) for value in given):
            return results
        raise self._found(operation, given, attributes, values)

    def _found(
        self,
        operation: Operation,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        results: Sequence[Any],
    ) -> MinixlaError:
        found = maker_in(self.kind.test, operation, operands, attributes)
        source = _state.source or find_source(3)
        within: tuple[str, ...] = ()
        if found is None:
            found = Maker(operation, operands, results, source, ())
        else:
            within = (*found.within[:-1], f"{found.within[-1]}, called at {source}")
            source = found.source or source
        noun, is_reverse = self.kind.noun, isinstance(source, ReverseSource)
        where = "in the reverse derivative of the line below" if is_reverse else "going forward"
        return explain(
            self.kind.error,
            found.operation.builder_name,
            f"it makes {_article(noun)} of operands that have none, {where}",
            [*_shown(self.kind, found), *within],
            _ADVICE["reverse" if is_reverse else "forward"],
            source,
        )


_ADVICE = {
    "forward": "Keep the operands where the operation is defined, before it: a where after it "
    "does not help its derivative. Leave the check off with debug_nans(False) where it is meant.",
    "reverse": "The derivative is not finite there, whether or not the result is used: choose the "
    "operand before the operation, sqrt(where(x > 0, x, 1)), since a where around the result "
    "multiplies the derivative by 0.",
}


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "iI" else f"a {noun}"


def _numbers(value: Any) -> Any:
    """A value as a NumPy array, a tuple as one of such; None where it is not known yet."""
    while isinstance(value, WrappingTracer):
        value = value.value
    if isinstance(value, TupleValue):
        return tuple(map(_numbers, value.elements))
    if isinstance(value, ReferenceTracer):
        return value.data if isinstance(value.data, np.ndarray) else None
    if isinstance(value, (Tracer, JaxTracer)) or shape_of_data(value) is None:
        return None
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return tuple([np.asarray(shard.data) for shard in value.addressable_shards])
    return np.asarray(value)


def _shown(kind: Kind, maker: Maker) -> list[str]:
    """The operands and results, and the elements at the first place."""
    arrays = [each for each in maker.results if isinstance(each, np.ndarray)]
    bad = next((each for each in arrays if reaches(kind.test, each)), None)
    names = maker.operation.operand_labels(len(maker.operands))
    operands = [(n, x) for n, x in zip(names, maker.operands, strict=True) if _is_array(x)]
    lines = [f"{name} {_shape(x)}{_range(x)}" for name, x in operands[:_MOST_SHOWN]]
    if bad is None:
        return lines
    marked = kind.test(bad)
    first = tuple(map(int, np.argwhere(marked)[0]))
    count = f"{kind.noun} in {int(marked.sum())} of {bad.size} elements"
    at = f", the first at {list(first)}" if bad.ndim else ""
    lines.append(f"result {_shape(bad)}: {count if bad.size > 1 else bad[()]}{at}")
    alike = [(n, x) for n, x in operands[:_MOST_SHOWN] if x.shape == bad.shape and x.ndim]
    if alike:
        lines.append(f"there {', '.join(f'{name} = {x[first]}' for name, x in alike)}")
    return lines


_MOST_SHOWN = 6


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _shape(array: np.ndarray) -> str:
    return str(shape_of_data(array))


def _range(array: np.ndarray) -> str:
    if not array.size or array.dtype.kind == "c":
        return ""
    if array.size == 1:
        return f": {array.reshape(())[()]}"
    return f": from {array.min()} to {array.max()}"


def watched(trace: Trace) -> Trace:
    """A trace that evaluates, with the checks that are on."""
    each: Trace | None = _state.trace
    while each is not None:
        if isinstance(each, CheckTrace) and not each.is_paused:
            trace = CheckTrace(trace, each.kind)
        each = each.parent
    return trace


@contextmanager
def _checking(kind: Kind, enabled: bool) -> Iterator[None]:
    if not enabled:
        with _paused(kind):
            yield
        return
    default_trace()  # loads the evaluator
    previous, _state.watch = _state.watch, _state.watch or kind
    trace = CheckTrace(_state.trace, kind)
    try:
        with under(trace):
            yield
    finally:
        _state.watch = previous
        trace.alive = False


@contextmanager
def _paused(kind: Kind) -> Iterator[None]:
    paused = []
    trace: Trace | None = _state.trace
    while trace is not None:
        if isinstance(trace, CheckTrace) and trace.kind is kind and not trace.is_paused:
            trace.is_paused = True
            paused.append(trace)
        trace = trace.parent
    try:
        yield
    finally:
        for each in paused:
            each.is_paused = False


@contextmanager
def debug_nans(enabled: bool = True) -> Iterator[None]:
    """Raises an error where a NaN is made (JAX: debug_nans).

        with mx.debug_nans():
            loss, gradient = mx.value_and_grad(loss_of)(parameters)

    Computations inside are watched in this thread: single operations, the steps of derivatives, of
    batches and of `mx.reference`, and compiled functions, whose results are looked at: where they
    have a NaN the program is computed again step by step, branches and loops too. An operation
    that has a NaN among its operands is not to blame, nor is a constant. A compiled function may
    make NaNs that do not reach its results; arguments are not donated to it. Functions that JAX
    compiles (`jax.jit`) are not looked into.

    It costs a look at every result, and nothing outside. As a decorator, `@mx.debug_nans()`, it
    watches every call of a function.

    Args:
        enabled: False stops watching, inside the block of another.

    Raises:
        NaNError: from the computation. It names the operation, the user's line, the operands'
            values, and whether the NaN is in a reverse derivative.
    """
    with _checking(_NANS, enabled):
        yield


@contextmanager
def debug_infs(enabled: bool = True) -> Iterator[None]:
    """Raises an error where an infinity is made of finite operands (JAX: debug_infs).

    Args and what is watched are those of `debug_nans`.

    Raises:
        InfinityError: from the computation.
    """
    with _checking(_INFS, enabled):
        yield
