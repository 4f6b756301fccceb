"""What several evaluators make of one program, and which of them a majority finds wrong.

Whoever is near the program in double is of one camp; the others are of one camp where they agree.
The largest camp is right, and what only the others use is suspected. StableHLO's interpreter and
XLA read the same StableHLO text: off together, they are one voice, and XLA's translation of the HLO
text is asked too, which the StableHLO text has no part in.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.graph import Graph, Instruction
from minixla.core.shapes import Shape
from minixla.tools import evaluators
from minixla.tools.check_report import Finding
from minixla.tools.comparison import Comparison, compared, shown_element, wide
from minixla.tools.evaluators import REFERENCE, Evaluator, NotEvaluated
from minixla.tools.graph_parts import alone_at, is_array
from minixla.tools.rounding import Measured


def evaluate(
    evaluator: Evaluator, graph: Graph, operands: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What an evaluator gives: an array for each output, of its type and shape.

    Raises:
        NotEvaluated: it cannot be asked.
        TransformError: it gives something else.
    """
    try:
        found = evaluators.loaded(evaluator.function)(graph, list(operands))
    except (MinixlaError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NotEvaluated(lines[0][:160]) from error
    except Exception as error:
        error.add_note(f"The evaluator {evaluator.name!r} of cross_check raised it.")
        raise
    is_list = isinstance(found, Iterable)
    results = list(map(np.asarray, found)) if is_list else []
    given = list(map(_in_words, results)) if is_list else [repr(found)]
    # What is no array of fixed size is not looked at.
    wanted = [str(value.shape) if is_array(value) else None for value in graph.outputs]
    if len(given) == len(wanted) and all(
        w in (None, g) for g, w in zip(given, wanted, strict=True)
    ):
        return results
    problem = f"evaluator {evaluator.name!r} gives other results than the graph has"
    shapes = ", ".join(map(str, graph.output_shapes))
    advice = (
        "It returns an array for each output, of its type and shape; where it cannot, it raises "
        "NotImplementedError."
    )
    given = [f"evaluator: {', '.join(given)}", f"graph: {shapes}"]
    raise explain(TransformError, "cross_check", problem, given, advice)


def _in_words(array: np.ndarray) -> str:
    try:
        return str(Shape(array.dtype, array.shape))
    except (MinixlaError, TypeError):  # of another type than arrays have
        return f"{array.dtype}{list(array.shape)}"


class Opinions:
    """Evaluators, who read equal programs once and judge equal instructions once.

    `readers` are the names of those who read the StableHLO form; `say` tells what is under way.
    """

    def __init__(self, asked: Sequence[Evaluator], say: Callable[[str], None]) -> None:
        self.say = say
        self.evaluators = tuple(asked)
        self.readers = frozenset(each.name for each in asked if each.reads_stablehlo)
        self._graphs: dict[Graph, Graph] = {}
        self._judged: dict[Any, Finding | None] = {}

    def ask(
        self, evaluator: Evaluator, graph: Graph, operands: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """What an evaluator gives; NotEvaluated where it cannot be asked."""
        # Of equal programs the first: XLA has compiled it.
        return evaluate(evaluator, self._graphs.setdefault(graph, graph), operands)

    def judged(
        self, step: Instruction, operands: Sequence[Any], is_new: bool = True
    ) -> Finding | None:
        """Who is wrong about an instruction on some operands; None: nobody, or nothing to compare.

        Unless it may be new, evaluators are not asked where it has not been judged before.
        """
        program = alone_at(step, operands)
        if program is None:
            return None
        key = program[0], *map(_digest, program[1])
        if is_new and key not in self._judged:
            self._judged[key] = self._judge(Measured(*program), step)
        return self._judged.get(key)

    @property
    def knows_errors(self) -> bool:
        """Whether an instruction has been found wrong."""
        return any(self._judged.values())

    def _judge(self, measured: Measured, step: Instruction) -> Finding | None:
        asked: dict[str, _Opinion] = {}

        def ask(evaluator: Evaluator) -> None:
            if evaluator.gap(step) is None:
                with contextlib.suppress(NotEvaluated):
                    results = self.ask(evaluator, measured.graph, measured.operands)
                    asked[evaluator.name] = _Opinion.of(results, measured)

        for evaluator in self.evaluators:
            ask(evaluator)
        off = [name for name, each in asked.items() if each.is_off]
        if not off:
            return None
        others = self.readers - {evaluators.INTERPRETER}
        if REFERENCE not in off and others.intersection(off):
            ask(evaluators.HLO_FORM)
        suspects = _suspects(asked, self.readers)
        _, output, found = max((asked[name] for name in off), key=_excess)
        truth = measured.truth[measured.graph.outputs[output]]
        values = {"in double": shown_element(truth, found.worst)}
        for name, each in asked.items():
            values[name] = shown_element(each.results[output], found.worst)
        text = (
            f"on the same operands {' and '.join(off)} {'is' if len(off) == 1 else 'are'} off the "
            f"reference in double by up to {found.ulp:.3g} ulp, {found.bound:.3g} allowed; "
            f"suspected: {' or '.join(suspects)}"
        )
        place = {"element": found.worst, "values": values}
        return Finding("rule", suspects=suspects, **place, explanation=text)


def _digest(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(_digest, operand))
    return hashlib.blake2b(np.asarray(operand).tobytes()).digest()


class _Opinion(NamedTuple):
    """What an evaluator makes of one instruction, and how far the worst result is off."""

    results: list[np.ndarray]
    output: int
    comparison: Comparison

    @classmethod
    def of(cls, results: list[np.ndarray], measured: Measured) -> _Opinion:
        pairs = zip(measured.graph.outputs, results, strict=True)
        found = [cls(results, i, measured.compared(*pair)) for i, pair in enumerate(pairs)]
        return max(found, key=_excess)

    @property
    def is_off(self) -> bool:
        return self.comparison.excess > 1

    def agrees(self, other: _Opinion) -> bool:
        """Whether two that are off are much nearer to each other than to the truth."""
        ours, theirs = self.results[self.output], other.results[self.output]
        apart = compared(ours, wide(theirs), np.ones(ours.shape)).error
        return apart <= self.comparison.error / 8


def _excess(opinion: _Opinion) -> float:
    return opinion.comparison.excess


def _suspects(asked: dict[str, _Opinion], readers: frozenset[str]) -> tuple[str, ...]:
    """What is wrong, by majority; all who may be where there is none."""
    camps = _camps(asked, readers)
    # Those who read one text have one voice.
    votes = [len(camp) - max(len(readers.intersection(camp)) - 1, 0) for camp in camps]
    votes[0] += REFERENCE not in camps[0]  # the reference's rules in double are of this camp
    winners = [camp for camp, each in zip(camps, votes, strict=True) if each == max(votes)]
    wrong = [camp for camp in camps if len(winners) > 1 or camp is not winners[0]]
    found = [suspect for camp in wrong for suspect in _blamed(camp, readers.intersection(asked))]
    if camps[0] in wrong:  # near the program in double, which the reference's rules compute
        found = ["reference rule", *found]
    return tuple(dict.fromkeys(found))


def _camps(asked: dict[str, _Opinion], readers: frozenset[str]) -> list[list[str]]:
    """Who agrees with whom; the first are those who are near the truth."""
    camps = [[name for name, each in asked.items() if not each.is_off]]
    for name, each in asked.items():
        if each.is_off:
            friends = [
                camp
                for camp in camps[1:]
                if each.agrees(asked[camp[0]]) or (name in readers and readers.intersection(camp))
            ]
            friends[0].append(name) if friends else camps.append([name])
    return camps


def _blamed(camp: Sequence[str], readers: frozenset[str]) -> list[str]:
    """What those of a camp may have wrong in common, or each by itself.

    `readers` are all who were asked and read the StableHLO form.
    """
    names = {REFERENCE: "reference rule"}
    wrong = readers.intersection(camp)
    if len(wrong) > 1:
        names |= dict.fromkeys(wrong, "StableHLO form")
    found = [names.get(name, name) for name in camp]
    return ["StableHLO form", *found] if wrong and len(readers) == 1 else found
