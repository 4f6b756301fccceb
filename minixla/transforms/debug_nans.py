"""debug_nans and debug_infs: find the operation and line that produce the first NaN or infinity."""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import MinixlaError, explain
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.source import ReverseSource, Source, find_source, innermost_source
from minixla.core.tracing import _state, default_trace
from minixla.core.value_types import Results
from minixla.transforms import watching
from minixla.transforms.watching import (
    Kind,
    Numbers,
    NumberWatch,
    WatchTrace,
    numbers,
    without_jax_checks,
)
from minixla.typing import Array, ArrayLike
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.control_flow.loops import While
from minixla_ops.control_flow.scan import Scan


class Maker(NamedTuple):
    """The operation that produced a `kind` from operands without it, as NumPy arrays or tuples.

    `within` are clauses that state its position in nested programs, innermost first.
    """

    operation: Operation
    operands: Sequence[Numbers]
    results: Sequence[Numbers]
    source: Source | None
    within: tuple[str, ...] = ()

    def called_at(self, source: Source | None, *around: str) -> "Maker":
        """Return the same for an operation that runs the program at a line, within others."""
        *inner, last = self.within
        within = *inner, f"{last}, called at {source}", *around
        return self._replace(source=self.source or source, within=within)


#: Replaces a maker if constants of the program contain the value, which is then intended.
CONSTANT: Any = object()
_ITERATION = "in iteration {} of the loop"


def _maker_in(kind: Kind, operation: Operation, operands: Sequence[Numbers]) -> Maker | None:
    """Return the Maker in a program that an operation runs, CONSTANT, or None if not found."""
    programs = operation.computations
    if not programs or any(program.silent().has_side_effect for program in programs):
        return None  # side effects must not be repeated
    # NumPy may produce no NaN although the engine does.
    for apply in (lambda op, operands: op.reference(*operands), _on_the_engine):
        # Skip operations that need other processes, and tuples on the engine.
        with suppress(MinixlaError):
            maker = _Search(kind, apply).inside(operation, operands)
            if maker is not None:
                return maker
    return None


def _on_the_engine(operation: Operation, operands: Sequence[Numbers]) -> Numbers:
    return numbers(default_trace().process(operation, tuple(operands)))


class _Search:
    """Evaluate programs step by step with `apply`, and follow values that contain `kind`."""

    def __init__(self, kind: Kind, apply: Callable[[Operation, Sequence[Any]], Any]) -> None:
        self.kind, self.apply = kind, apply

    def inside(self, operation: Operation, operands: Sequence[Any]) -> Maker | None:
        look = _LOOKS.get(operation.name)
        if look is not None:
            return look(self, operation, operands)
        program = operation.values.get("computation")
        if type(program) is not Graph or len(program.inputs) != len(operands):
            return None
        sizes = [getattr(shape, "dimensions", None) for shape in program.input_shapes]
        # Otherwise, the program gets a part of the operands, as on each of several devices.
        is_whole = sizes == [np.shape(operand) for operand in operands]
        return self.program(program, operands, f"in {program.name}")[0] if is_whole else None

    def program(
        self, program: Graph, operands: Sequence[Numbers], where: str
    ) -> tuple[Maker | None, list[Any]]:
        """Return the maker in a program, if an output shows its value, and the outputs."""
        program = program.silent()
        values = dict(zip(map(id, program.inputs), operands, strict=True))
        for step in program.instructions:
            outcome = self.apply(step.op, [values[id(value)] for value in step.operands])
            outcomes = (outcome,) if step.single else outcome
            values.update(zip(map(id, step.results), outcomes, strict=True))
        outputs = [values[id(value)] for value in program.outputs]
        if not self.kind.leads_to(outputs):
            return None, outputs
        for step in self.makers(program, values):
            arguments = [values[id(value)] for value in step.operands]
            results = [values[id(value)] for value in step.results]
            maker = self.inside(step.op, arguments)
            if maker is None and not self.kind.is_in(results):
                continue  # a NaN that does not come from an infinity
            if maker is None:
                return Maker(step.op, arguments, results, step.source, (where,)), outputs
            if maker is not CONSTANT:
                return maker.called_at(step.source, where), outputs
        return CONSTANT, outputs

    def makers(self, program: Graph, values: Mapping[int, Numbers]) -> list[Instruction]:
        """Return the steps that produced values of outputs from operands without them, in order."""

        def led_to(some: Sequence[Value]) -> list[Value]:
            return [value for value in some if self.kind.leads_to(values[id(value)])]

        def holds(some: Sequence[Value]) -> bool:
            return self.kind.is_in([values[id(value)] for value in some])

        bad_ids, steps = set(map(id, led_to(program.outputs))), []
        for step in reversed(program.instructions):
            if not bad_ids.isdisjoint(map(id, step.results)):
                bad_ids.update(map(id, led_to(step.operands)))
                is_maker = holds(step.results) or bool(step.op.computations)
                if is_maker and not holds(step.operands) and step.op.name != "Constant":
                    steps.append(step)
        return steps[::-1]

    def loop(self, op: While, operands: Sequence[Numbers]) -> Maker | None:
        values, maker, number = list(operands), None, 0
        while maker is None and self.program(op.condition, values, "")[1][0]:
            maker, values = self.program(op.body, values, _ITERATION.format(number))
            number += 1
        return maker

    def branch(self, op: Conditional, operands: Sequence[Numbers]) -> Maker | None:
        number = op.chosen(operands[0])
        return self.program(op.branches[number], operands[1:], f"in branch {number}")[0]

    def scan(self, op: Scan, operands: Sequence[Any]) -> Maker | None:
        count = len(operands) - op.carries
        carried = list(operands[count:])
        for number in reversed(range(op.length)) if op.is_reverse else range(op.length):
            rows = [np.take(operand, number, op.scan_dimension) for operand in operands[:count]]
            # A loop without inputs is a differentiated while_loop or fori_loop.
            where = f"in step {number} of the scan" if count else _ITERATION.format(number)
            maker, outputs = self.program(op.to_apply, [*rows, *carried], where)
            if maker is not None:
                return maker
            carried = outputs[len(outputs) - op.carries :]
        return None


_LOOKS = {"While": _Search.loop, "Conditional": _Search.branch, "Scan": _Search.scan}


class CheckTrace(WatchTrace):
    """Raise an error at the first result that contains a NaN or infinity."""

    def lift(self, value: ArrayLike, subject: str = "trace") -> Array:
        """Return a value of the parent."""
        with without_jax_checks():  # an array may contain intended NaNs
            return self.parent.lift(value, subject)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        """Return the parent's results; raise if they contain a `kind` that the operands do not."""
        with without_jax_checks():
            results = self.parent.process(operation, operands)
        kinds = _state.watch.kinds if _state.watch is not None else ()
        values = numbers(results if type(results) is tuple else (results,)) if kinds else ()
        for kind in kinds:
            if kind.leads_to(values) and not kind.is_in(read := numbers(operands)):
                self._check(kind, operation, read, values)
        return results

    def _check(
        self,
        kind: Kind,
        operation: Operation,
        operands: Sequence[Numbers],
        results: Sequence[Numbers],
    ) -> None:
        maker = _maker_in(kind, operation, operands)
        if maker is CONSTANT or (maker is None and not kind.is_in(list(results))):
            return
        source = _state.source or find_source(3)
        maker = maker.called_at(source) if maker else Maker(operation, operands, results, source)
        where, line = "the forward computation", maker.source
        if is_reverse := isinstance(line, ReverseSource):
            name = getattr(line.operation, "builder_name", "the line below")
            where = f"the reverse derivative of {name}"
        problem = f"it produces {kind.noun} from operands without any, in {where}"
        description = watching.shown(kind, maker.operation, maker.operands, maker.results)
        name, lines = maker.operation.builder_name, [*description, *maker.within]
        raise explain(kind.error, name, problem, lines, kind.advice(is_reverse), line)


@contextmanager
def _watching(kind: Kind, enabled: bool) -> Iterator[None]:
    default_trace()  # load the evaluator
    watch = _state.watch or NumberWatch()
    others = tuple([other for other in watch.kinds if other is not kind])
    watch = watch._replace(kinds=(*others, kind) if enabled else others)
    try:
        with watching.looking_for(CheckTrace(_state.trace), watch), kind.jax_check(enabled):
            yield
    except FloatingPointError as error:
        if isinstance(error, MinixlaError):
            raise
        raise _of_jax(kind, error) from error


def _of_jax(kind: Kind, error: FloatingPointError) -> MinixlaError:
    """Build the error for a value that JAX found in one of its operations."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    source = innermost_source([(frame.f_code, frame.f_lasti) for frame in reversed(frames)])
    # "invalid value (nan) encountered in div"
    message, problem = str(error).splitlines()[0], f"a JAX operation produces {kind.noun}"
    name = message.rpartition(" ")[2].rstrip(".")
    return explain(kind.error, name, problem, [message], kind.advice(False), source)


@contextmanager
@checks_kinds
def debug_nans(enabled: bool = True) -> Iterator[None]:
    """Raise an error at the operation that produces a NaN (JAX: `jax.debug_nans`).

        with mx.debug_nans():
            loss, gradient = mx.value_and_grad(loss_of)(parameters)

    Computations inside the block are watched in this thread: single operations, derivatives,
    batches, `mx.reference` and compiled functions. If a result of a compiled function contains a
    NaN, the program is computed again step by step, including branches and loops. The error never
    names an operation with a NaN among its operands, or a constant. NaNs that do not reach the
    results of a compiled function or of a derivative rule do not count. Arguments are not donated.

    JAX's check of the same name watches everything that JAX computes itself (`x * y` of two arrays
    outside of transformations, `jax.jit`). It reports any operation whose result contains a NaN.

    The cost is a check of every result inside the block. `@mx.debug_nans()` watches a function.

    Args:
        enabled: False stops watching inside an outer block.

    Returns:
        A context manager, which is also a decorator.

    Raises:
        NaNError: from the computation. It names the operation, the user's line, the operands'
            values, and whether the operation was in a reverse derivative.

    Example:
        >>> with mx.debug_nans():
        ...     mx.jit(mx.numpy.log)(np.float32(-1))
        Traceback (most recent call last):
            ...
        minixla.core.errors.NaNError: log: it produces a NaN from operands ...
    """
    with _watching(watching.NANS, enabled):
        yield


@contextmanager
@checks_kinds
def debug_infs(enabled: bool = True) -> Iterator[None]:
    """Raise an error at the operation that produces an infinity (JAX: `jax.debug_infs`).

    An operation with finite operands counts. Computations are watched as in `debug_nans`. A
    compiled function is also computed again if its results contain a NaN, which an infinity may
    have become.

    Args:
        enabled: False stops watching inside an outer block.

    Returns:
        A context manager, which is also a decorator.

    Raises:
        InfinityError: from the computation.

    Example:
        >>> with mx.debug_infs():
        ...     mx.numpy.log(np.float32(0))
        Traceback (most recent call last):
            ...
        minixla.core.errors.InfinityError: log: it produces an infinity from operan...
    """
    with _watching(watching.INFS, enabled):
        yield
