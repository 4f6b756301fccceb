"""debug_nans and debug_infs: the operation and the line that make the first NaN or infinity."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minixla.core.errors import MinixlaError, explain
from minixla.core.operation import Operation
from minixla.core.source import ReverseSource, Source, find_source, is_user_file
from minixla.core.tracing import _state, default_trace, under
from minixla.transforms.number_search import CONSTANT, Maker, maker_in
from minixla.transforms.number_watch import (
    INFS,
    NANS,
    Kind,
    NumberWatch,
    numbers,
    shown,
    without_jax_checks,
)
from minixla.transforms.watching import WatchTrace, enclosing


class CheckTrace(WatchTrace):
    """Raises an error where a result is the first that holds a NaN."""

    __slots__ = ()

    def lift(self, value: Any, subject: str = "trace") -> Any:
        """A value of the parent."""
        with without_jax_checks():  # an array may hold NaNs that are meant
            return self.parent.lift(value, subject)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """The parent's results.

        Raises:
            NaNError, InfinityError: they hold what is looked for, and no operand does.
        """
        with without_jax_checks():
            results = self.parent.process(operation, operands)
        kinds = _state.watch.kinds if _state.watch is not None else ()
        if kinds:
            values = list(map(numbers, results if type(results) is tuple else (results,)))
            for kind in kinds:
                if kind.is_in(values):
                    self._check(kind, operation, list(map(numbers, operands)), values)
        return results

    def _check(
        self, kind: Kind, operation: Operation, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        if kind.is_in(operands):
            return
        found = maker_in(kind, operation, operands)
        if found is CONSTANT:
            return
        source, within = _state.source or find_source(3), ()
        if found is None:
            found = Maker(operation, operands, results, source, ())
        else:
            within = (*found.within[:-1], f"{found.within[-1]}, called at {source}")
            source = found.source or source
        where = "the forward computation"
        if isinstance(source, ReverseSource):
            name = getattr(source.operation, "builder_name", "the line below")
            where = f"the reverse derivative of {name}"
        raise explain(
            kind.error,
            found.operation.builder_name,
            f"it makes {kind.noun} of operands that have none, in {where}",
            [*shown(kind, found.operation, found.operands, found.results), *within],
            kind.advice(isinstance(source, ReverseSource)),
            source,
        )


@contextmanager
def _watching(kind: Kind, enabled: bool) -> Iterator[None]:
    default_trace()  # loads the evaluator
    previous = _state.watch
    _state.watch = (previous or NumberWatch()).with_kind(kind, enabled)
    is_checked = any(isinstance(each, CheckTrace) for each in enclosing(_state.trace))
    trace = _state.trace if is_checked else CheckTrace(_state.trace)
    try:
        with under(trace, is_level=False), kind.jax_check(enabled):
            yield
    except FloatingPointError as error:
        if isinstance(error, MinixlaError):
            raise
        raise _of_jax(kind, error) from error
    finally:
        _state.watch = previous


def _of_jax(kind: Kind, error: FloatingPointError) -> MinixlaError:
    """The error for what JAX has found in an operation of its own."""
    frames = [each for each, _ in traceback.walk_tb(error.__traceback__)]
    user = [each for each in frames if is_user_file(each.f_code.co_filename)]
    source = Source(user[-1].f_code, user[-1].f_lasti) if user else None
    # "invalid value (nan) encountered in div"
    message = str(error).splitlines()[0]
    return explain(
        kind.error,
        message.rpartition(" ")[2].rstrip("."),
        f"an operation of JAX's makes {kind.noun}",
        [message],
        kind.advice(False),
        source,
    )


@contextmanager
def debug_nans(enabled: bool = True) -> Iterator[None]:
    """Raises an error where a NaN is made (JAX: debug_nans).

        with mx.debug_nans():
            loss, gradient = mx.value_and_grad(loss_of)(parameters)

    Computations inside are watched in this thread: single operations, derivatives, batches,
    `mx.reference`, and compiled functions, whose results are looked at: where they have a NaN the
    program is computed again step by step, branches and loops too. An operation that has a NaN
    among its operands is not to blame, nor is a constant. NaNs that do not reach the results of a
    compiled function or of a derivative rule do not count. Arguments are not donated.

    What JAX computes itself (`x * y` of two arrays outside of transformations, `jax.jit`) is
    watched by JAX's check of the same name, which blames any operation that gives a NaN.

    It costs a look at every result, and nothing outside. As a decorator, `@mx.debug_nans()`, it
    watches every call of a function.

    Args:
        enabled: False stops watching, inside the block of another.

    Raises:
        NaNError: from the computation. It names the operation, the user's line, the operands'
            values, and whether it was in a reverse derivative.
    """
    with _watching(NANS, enabled):
        yield


@contextmanager
def debug_infs(enabled: bool = True) -> Iterator[None]:
    """Raises an error where an infinity is made of finite operands (JAX: debug_infs).

    What is watched, and `enabled`, are as in `debug_nans`.

    Raises:
        InfinityError: from the computation.
    """
    with _watching(INFS, enabled):
        yield
