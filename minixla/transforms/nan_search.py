"""Where a program makes its first NaN or infinity: it is computed again, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.source import Source
from minixla.core.tracing import default_trace

__all__ = ["Maker", "maker_in", "reaches"]

Test = Callable[[np.ndarray], np.ndarray]
Apply = Callable[[Operation, Sequence[Any], dict[str, Any]], Any]


class Maker(NamedTuple):
    """An operation that gave a value which is looked for, of operands without one.

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


def reaches(test: Test, value: Any) -> bool:
    """Whether `test` holds of an element of an array, or of a member of a tuple."""
    if isinstance(value, tuple):
        return any(reaches(test, each) for each in value)
    if value is None or not element_type(value.dtype).is_inexact:
        return False
    return bool(np.any(test(value)))


def maker_in(
    test: Test, operation: Operation, operands: Sequence[Any], attributes: dict[str, Any]
) -> Maker | None:
    """The step that makes the first value of which `test` holds, in a program that an operation runs.

    It is looked for in NumPy, and where nothing shows there, on the engine.

    Args:
        test: elementwise, of arrays.
        operation: what runs the program.
        operands: NumPy arrays, of which `test` holds nowhere.
        attributes: its attributes.

    Returns:
        None where the operation runs no program that can be looked into, or where computed step by
        step it gives no such value.
    """
    programs = _programs_of(attributes)
    if not programs or any(program.silent().has_side_effect for program in programs):
        return None  # a side effect must not come twice
    for apply in (_in_numpy, _on_the_engine):
        # What needs other processes, or tuples on the engine, is not computed there.
        with suppress(MinixlaError):
            found = _Search(test, apply).inside(operation, operands, attributes)
            if found is not None:
                return found
    return None


def _programs_of(attributes: dict[str, Any]) -> list[Graph]:
    listed = [each if type(each) is tuple else (each,) for each in attributes.values()]
    return [program for each in listed for program in each if type(program) is Graph]


def _in_numpy(operation: Operation, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    return operation.reference(*operands, **attributes)


def _on_the_engine(
    operation: Operation, operands: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    results = default_trace().process(operation, tuple(operands), attributes)
    return tuple(map(np.asarray, results)) if type(results) is tuple else np.asarray(results)


class _Search:
    """Computes programs step by step with `apply` and follows the values of which `test` holds."""

    def __init__(self, test: Test, apply: Apply) -> None:
        self.test = test
        self.apply = apply

    def inside(
        self, operation: Operation, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> Maker | None:
        """The maker in the programs that an operation runs."""
        look = _LOOKS.get(operation.name)
        if look is not None:
            return look(self, operands, **attributes)
        program = attributes.get("computation")
        if type(program) is not Graph or len(program.inputs) != len(operands):
            return None
        shapes = [getattr(each, "dimensions", None) for each in program.input_shapes]
        if shapes != [np.shape(each) for each in operands]:
            return None  # a part of the operands, as on each of several devices
        return self.program(program, operands, f"in {program.name}")[0]

    def program(
        self, program: Graph, operands: Sequence[Any], where: str
    ) -> tuple[Maker | None, list[Any]]:
        """The maker in a program, if an output shows it, and the outputs."""
        program = program.silent()
        values = self.values(program, operands)
        outputs = [values[id(value)] for value in program.outputs]
        step = self.first(program, values)
        if step is None:
            return None, outputs
        given = [values[id(value)] for value in step.operands]
        found = self.inside(step.op, given, step.attributes)
        if found is None:
            results = [values[id(value)] for value in step.results]
            return Maker(step.op, given, results, step.source, (where,)), outputs
        within = (*found.within, _at(where, step))
        return found._replace(source=found.source or step.source, within=within), outputs

    def values(self, program: Graph, operands: Sequence[Any]) -> dict[int, Any]:
        """Every value of a program, by its identity."""
        values = dict(zip(map(id, program.inputs), operands, strict=True))
        for step in program.instructions:
            given = [values[id(value)] for value in step.operands]
            outcome = self.apply(step.op, given, step.attributes)
            outcomes = (outcome,) if step.single else outcome
            values.update(zip(map(id, step.results), outcomes, strict=True))
        return values

    def first(self, program: Graph, values: dict[int, Any]) -> Instruction | None:
        """The first step that made what an output shows, of operands that do not."""

        def is_bad(value: Value) -> bool:
            return reaches(self.test, values[id(value)])

        pending = [value for value in program.outputs if is_bad(value)]
        makers: set[int] = set()
        seen: set[int] = set()
        while pending:
            step = pending.pop().instruction
            if step is None or id(step) in seen:
                continue
            seen.add(id(step))
            bad = list(filter(is_bad, step.operands))
            pending.extend(bad)
            if not bad and step.op.name != "Constant":  # a constant is there on purpose
                makers.add(id(step))
        return next((step for step in program.instructions if id(step) in makers), None)

    def loop(self, operands: Sequence[Any], *, condition: Graph, body: Graph) -> Maker | None:
        """The maker in an iteration of a While."""
        values, number = list(operands), 0
        while self.program(condition, values, "")[1][0]:
            found, values = self.program(body, values, f"in iteration {number} of {body.name}")
            if found is not None:
                return found
            number += 1
        return None

    def branch(self, operands: Sequence[Any], *, computations: tuple[Graph, ...]) -> Maker | None:
        """The maker in the branch that a Conditional takes."""
        index, last = np.asarray(operands[0]), len(computations) - 1
        if index.dtype == np.bool_:
            number = 1 - int(index)
        else:
            number = int(index) if 0 <= index <= last else last
        chosen = computations[number]
        return self.program(chosen, operands[1:], f"in {chosen.name}, branch {number}")[0]

    def scan(
        self,
        operands: Sequence[Any],
        *,
        to_apply: Graph,
        carries: int,
        length: int,
        scan_dimension: int,
        is_reverse: bool,
        **_: Any,
    ) -> Maker | None:
        """The maker in a step of a Scan."""
        count = len(operands) - carries
        carried = list(operands[count:])
        for number in reversed(range(length)) if is_reverse else range(length):
            rows = [np.take(each, number, scan_dimension) for each in operands[:count]]
            where = f"in step {number} of {to_apply.name}"
            found, outputs = self.program(to_apply, [*rows, *carried], where)
            if found is not None:
                return found
            carried = outputs[len(outputs) - carries :]
        return None


def _at(where: str, step: Instruction) -> str:
    return where if step.source is None else f"{where}, called at {step.source}"


_LOOKS = {"While": _Search.loop, "Conditional": _Search.branch, "Scan": _Search.scan}
