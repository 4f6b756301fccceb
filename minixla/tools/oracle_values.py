"""What evaluators make of programs, and who is wrong about an instruction.

Whoever is near the program in double is of one camp; the others are of one camp where they agree.
The largest camp is right, and what only the others use is suspected. StableHLO's interpreter and
XLA read the same StableHLO text: off together, they are one voice, and XLA's translation of the HLO
text is asked too, which the StableHLO text has no part in.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.graph import Graph, Instruction
from minixla.core.shapes import Shape
from minixla.tools import comparison, evaluators, graph_parts, ranges
from minixla.tools.comparison import Comparison
from minixla.tools.evaluators import REFERENCE, Evaluator, EvaluatorDied, NotEvaluated
from minixla.tools.reports import Finding
from minixla.tools.rounding import Measured

#: What an evaluator makes of a program: its results, or why there are none.
Opinion = list[np.ndarray] | str


class Death(str):
    """The reason why there are no results: the program ended the process of an evaluator."""

    __slots__ = ()


def evaluate(evaluator: Evaluator, graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
    """What an evaluator gives for each output; NotEvaluated where it cannot be asked."""
    try:
        found = evaluators.loaded(evaluator.function)(graph, list(operands))
    except EvaluatorDied:
        raise
    except (MinixlaError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NotEvaluated(lines[0][:160]) from error
    except Exception as error:
        error.add_note(f"The evaluator {evaluator.name!r} of cross_check raised it.")
        raise
    is_list = isinstance(found, Iterable)
    results = list(map(np.asarray, found)) if is_list else []
    texts = list(map(_in_words, results)) if is_list else [repr(found)]
    # What is no array of fixed size is not looked at.
    wanted = [str(value.shape) if graph_parts.is_array(value) else None for value in graph.outputs]
    pairs = zip(texts, wanted, strict=False)
    if len(texts) == len(wanted) and all(w in (None, g) for g, w in pairs):
        return results
    problem = f"evaluator {evaluator.name!r} gives other results than the graph has"
    shapes = ", ".join(map(str, graph.output_shapes))
    advice = "It returns an array for each output, of its type and shape; where it cannot, it "
    advice += "raises NotImplementedError."
    texts = [f"evaluator: {', '.join(texts)}", f"graph: {shapes}"]
    raise explain(TransformError, "cross_check", problem, texts, advice)


def _in_words(array: np.ndarray) -> str:
    try:
        return str(Shape(array.dtype, array.shape))
    except (MinixlaError, TypeError):  # of another type than arrays have
        return f"{array.dtype}{list(array.shape)}"


class Opinions:
    """Evaluators, who read equal programs once and judge equal instructions once."""

    def __init__(self, asked: Sequence[Evaluator], say: Callable[[str], None]) -> None:
        self.say = say  # what is under way
        self.evaluators = tuple(asked)
        #: Who reads the StableHLO form.
        self.readers = frozenset(evaluator.name for evaluator in asked if evaluator.reads_stablehlo)
        self._graphs: dict[Graph, Graph] = {}
        #: What has been found of instructions.
        self.judgements: dict[Any, Finding | None] = {}

    def ask(self, evaluator: Evaluator, graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
        """What an evaluator gives; NotEvaluated where it cannot be asked."""
        # Of equal programs the first: XLA has compiled it.
        return evaluate(evaluator, self._graphs.setdefault(graph, graph), operands)

    def everywhere(self, graph: Graph, operands: Any, what: str) -> dict[str, Opinion]:
        """What each evaluator but the reference gives, or why there is nothing."""
        answers: dict[str, Opinion] = {}
        for evaluator in self.evaluators:
            if evaluator.name != REFERENCE:
                self.say(f"{what}: {evaluator.name}")
                try:
                    answers[evaluator.name] = self.ask(evaluator, graph, operands)
                except NotEvaluated as error:
                    is_dead = isinstance(error, EvaluatorDied)
                    answers[evaluator.name] = (Death if is_dead else str)(error)
        return answers

    def judged(self, step: Instruction, operands: Any, is_new: bool = True) -> Finding | None:
        """Who is wrong about an instruction on some operands; unless it may be new, as known."""
        program = graph_parts.alone_at(step, operands)
        if program is None:
            return None
        key = program[0], *map(_digest, program[1])
        if is_new and key not in self.judgements:
            self.judgements[key] = self._judge(Measured(*program), step)
        return self.judgements.get(key)

    def with_wrong_reference(self) -> set[str]:
        """The names of the operations whose reference rule is suspected so far."""
        found = ((key[0], finding) for key, finding in self.judgements.items() if finding)
        wrong = (graph for graph, finding in found if "reference rule" in finding.suspects)
        return {graph.instructions[-1].op.builder_name for graph in wrong}

    def _judge(self, measured: Measured, step: Instruction) -> Finding | None:
        asked: dict[str, _Opinion] = {}

        def ask(evaluator: Evaluator) -> None:
            if evaluator.gap(step) is None:
                with contextlib.suppress(NotEvaluated):
                    results = self.ask(evaluator, measured.graph, measured.operands)
                    comparisons = map(measured.compared, measured.graph.outputs, results)
                    worst = max(enumerate(comparisons), key=lambda pair: pair[1].excess)
                    asked[evaluator.name] = _Opinion(results, *worst)

        for evaluator in self.evaluators:
            ask(evaluator)
        off = [name for name, comparison in asked.items() if comparison.excess > 1]
        if not off:
            return None
        others = self.readers - {evaluators.INTERPRETER}
        if REFERENCE not in off and others.intersection(off):
            ask(evaluators.HLO_FORM)
        suspects = _suspects(asked, self.readers.intersection(asked))
        _, output, found = max((asked[name] for name in off), key=lambda entry: entry.excess)
        truth = measured.truth[measured.graph.outputs[output]]
        values = {"in double": comparison.shown_element(truth, found.worst)}
        for name, other in asked.items():
            values[name] = comparison.shown_element(other.results[output], found.worst)
        text = f"on the same operands {' and '.join(off)} {'is' if len(off) == 1 else 'are'} off "
        text += f"the reference in double by up to {found.ulp:.3g} ulp, {found.bound:.3g} allowed; "
        text += f"suspected: {' or '.join(suspects)}"
        place = {"element": found.worst, "values": values, "explanation": text, "ulp": found.ulp}
        if reason := _odd_operands(step, measured.operands, found.worst, suspects):
            kind, text = reason
            place["explanation"] += f"; {text}"
            return Finding(kind, suspects=() if kind == "cast out of range" else suspects, **place)
        return Finding("rule", suspects=suspects, **place)


def _odd_operands(
    step: Instruction, operands: Sequence[Any], index: tuple[int, ...], suspects: tuple[str, ...]
) -> tuple[str, str] | None:
    """The kind and the reason of a difference that the operands of an element explain."""
    arrays = [x for x in operands if isinstance(x, np.ndarray) and x.ndim in (0, len(index))]
    if not step.op.is_elementwise or not arrays:
        return None
    if len(arrays) == 1 and ranges.outside(step, arrays[0]).any():
        return "cast out of range", "the result of a cast out of range depends on the backend"
    for array in arrays if suspects == ("XLA",) else ():
        if array.dtype.kind == "f" and array.dtype.itemsize >= 4:
            number = abs(array[index if array.ndim else ()])
            if 0 < number < np.finfo(array.dtype).smallest_normal:
                return "underflow", "XLA:CPU takes subnormal numbers for zero"
    return None


def _digest(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(_digest, operand))
    return hashlib.blake2b(np.asarray(operand).tobytes()).digest()


class _Opinion(NamedTuple):
    """What an evaluator makes of one instruction, and how far the worst result is off."""

    results: list[np.ndarray]
    output: int
    comparison: Comparison

    @property
    def excess(self) -> float:
        return self.comparison.excess

    def agrees(self, other: "_Opinion") -> bool:
        """Whether two that are off are much nearer to each other than to the truth."""
        ours, theirs = self.results[self.output], other.results[self.output]
        apart = comparison.compared(ours, comparison.wide(theirs), np.ones(ours.shape)).error
        return apart <= self.comparison.error / 8 and apart < np.inf


def _suspects(asked: dict[str, _Opinion], readers: frozenset[str]) -> tuple[str, ...]:
    """What is wrong, by majority; all who may be where there is none."""
    camps = _camps(asked, readers)
    # Those who read one text have one voice.
    votes = [len(camp) - max(len(readers.intersection(camp)) - 1, 0) for camp in camps]
    votes[0] += REFERENCE not in camps[0]  # the reference's rules in double are of this camp
    winners = [camp for camp, vote in zip(camps, votes, strict=True) if vote == max(votes)]
    wrong = [camp for camp in camps if len(winners) > 1 or camp is not winners[0]]
    # Who is near the program in double is near what the reference's rules compute.
    suspects = ["reference rule"] * (camps[0] in wrong)
    for camp in wrong:
        # What its members may have wrong in common, or each alone.
        alike = readers.intersection(camp)
        names = dict.fromkeys(alike, "StableHLO form") if len(alike) > 1 else {}
        suspects += ["StableHLO form"] * (len(readers) == len(alike) == 1)
        suspects += [{REFERENCE: "reference rule", **names}.get(name, name) for name in camp]
    return tuple(dict.fromkeys(suspects))


def _camps(asked: dict[str, _Opinion], readers: frozenset[str]) -> list[list[str]]:
    """Who agrees with whom; the first are those who are near the truth."""
    camps = [[name for name, opinion in asked.items() if opinion.excess <= 1]]
    for name, opinion in asked.items():
        if opinion.excess > 1:
            group = readers if name in readers else frozenset()
            friends = (c for c in camps[1:] if opinion.agrees(asked[c[0]]) or group.intersection(c))
            camp = next(friends, None)
            camps.append([name]) if camp is None else camp.append(name)
    return camps
