"""Where a program makes its first NaN or infinity: it is computed again, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.source import Source
from minixla.core.tracing import default_trace
from minixla.transforms.number_watch import Kind


class Maker(NamedTuple):
    """An operation that gave what is looked for, of operands without it.

    Attributes:
        operation: the Operation.
        operands: NumPy arrays, Python tuples of them for tuples.
        results: the same.
        source: the user's line, where it is known.
        within: clauses that say where in which programs it is, innermost first.
    """

    operation: Operation
    operands: Sequence[Any]
    results: Sequence[Any]
    source: Source | None
    within: tuple[str, ...]


#: What stands for a maker where constants of the program hold what is looked for: it is meant.
CONSTANT: Any = object()

_ITERATION = "in iteration {} of the loop"


def maker_in(kind: Kind, operation: Operation, operands: Sequence[Any]) -> Any:
    """The Maker in a program that an operation runs, or CONSTANT.

    It is looked for in NumPy, and where nothing shows there, on the engine. None where the
    operation runs no program that can be looked into, or where computed step by step its results
    do not hold it.
    """
    programs = operation.computations
    if not programs or any(program.silent().has_side_effect for program in programs):
        return None  # a side effect must not come twice
    for apply in (lambda op, given: op.reference(*given), _on_the_engine):
        # What needs other processes, or tuples on the engine, is not computed there.
        with suppress(MinixlaError):
            found = _Search(kind, apply).inside(operation, operands)
            if found is not None:
                return found
    return None


def _on_the_engine(operation: Operation, operands: Sequence[Any]) -> Any:
    results = default_trace().process(operation, tuple(operands))
    return tuple(map(np.asarray, results)) if type(results) is tuple else np.asarray(results)


class _Search:
    """Computes programs step by step with `apply` and follows the values that hold `kind`.

    Methods return a Maker, CONSTANT, or None where nothing shows.
    """

    def __init__(self, kind: Kind, apply: Callable[[Operation, Sequence[Any]], Any]) -> None:
        self.kind = kind
        self.apply = apply

    def inside(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """The maker in the programs that an operation runs."""
        look = _LOOKS.get(operation.name)
        if look is not None:
            return look(self, operation, operands)
        program = operation.values.get("computation")
        if type(program) is not Graph or len(program.inputs) != len(operands):
            return None
        sizes = [getattr(shape, "dimensions", None) for shape in program.input_shapes]
        if sizes != [np.shape(each) for each in operands]:
            return None  # a part of the operands, as on each of several devices
        return self.program(program, operands, f"in {program.name}")[0]

    def program(self, program: Graph, operands: Sequence[Any], where: str) -> tuple[Any, list[Any]]:
        """The maker in a program, if an output shows what it made; and the outputs."""
        program = program.silent()
        values = self.values(program, operands)
        outputs = [values[id(value)] for value in program.outputs]
        if not self.kind.is_in(outputs):
            return None, outputs
        for step in self.makers(program, values):
            given = [values[id(value)] for value in step.operands]
            found = self.inside(step.op, given)
            if found is None:
                results = [values[id(value)] for value in step.results]
                return Maker(step.op, given, results, step.source, (where,)), outputs
            if found is not CONSTANT:
                within = (*found.within[:-1], f"{found.within[-1]}, called at {step.source}", where)
                return found._replace(source=found.source or step.source, within=within), outputs
        return CONSTANT, outputs

    def values(self, program: Graph, operands: Sequence[Any]) -> dict[int, Any]:
        """Every value of a program, by its identity."""
        values = dict(zip(map(id, program.inputs), operands, strict=True))
        for step in program.instructions:
            given = [values[id(value)] for value in step.operands]
            outcome = self.apply(step.op, given)
            outcomes = (outcome,) if step.single else outcome
            values.update(zip(map(id, step.results), outcomes, strict=True))
        return values

    def makers(self, program: Graph, values: dict[int, Any]) -> list[Instruction]:
        """The steps that made what outputs show, of operands that do not hold it, in order."""

        def is_bad(value: Value) -> bool:
            return self.kind.is_in(values[id(value)])

        pending = list(filter(is_bad, program.outputs))
        found: set[int] = set()
        seen: set[int] = set()
        while pending:
            step = pending.pop().instruction
            if step is None or id(step) in seen:
                continue
            seen.add(id(step))
            bad = list(filter(is_bad, step.operands))
            pending.extend(bad)
            if not bad and step.op.name != "Constant":
                found.add(id(step))
        return [step for step in program.instructions if id(step) in found]

    def loop(self, op: Any, operands: Sequence[Any]) -> Any:
        """The maker in an iteration of a While."""
        values, number = list(operands), 0
        while self.program(op.condition, values, "")[1][0]:
            found, values = self.program(op.body, values, _ITERATION.format(number))
            if found is not None:
                return found
            number += 1
        return None

    def branch(self, op: Any, operands: Sequence[Any]) -> Any:
        """The maker in the branch that a Conditional takes."""
        index, last = np.asarray(operands[0]), len(op.branches) - 1
        if index.dtype == np.bool_:
            number = 1 - int(index)
        else:
            number = int(index) if 0 <= index <= last else last
        return self.program(op.branches[number], operands[1:], f"in branch {number}")[0]

    def scan(self, op: Any, operands: Sequence[Any]) -> Any:
        """The maker in a step of a Scan."""
        count = len(operands) - op.carries
        carried = list(operands[count:])
        for number in reversed(range(op.length)) if op.is_reverse else range(op.length):
            rows = [np.take(each, number, op.scan_dimension) for each in operands[:count]]
            # Without inputs it is a loop that is differentiated, or as good as one.
            where = f"in step {number} of the scan" if count else _ITERATION.format(number)
            found, outputs = self.program(op.to_apply, [*rows, *carried], where)
            if found is not None:
                return found
            carried = outputs[len(outputs) - op.carries :]
        return None


_LOOKS: dict[str, Callable[..., Any]] = {
    "While": _Search.loop,
    "Conditional": _Search.branch,
    "Scan": _Search.scan,
}
