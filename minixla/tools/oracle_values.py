"""Results of evaluators for programs, and the search for what is wrong about an instruction.

Evaluators that are near the program in double form one camp. Others form a camp if they agree. The
largest camp is right, and rules that only the others use are suspected. StableHLO's interpreter and
XLA read the same StableHLO text, so if both are off they count as one vote. Then XLA's translation
of the HLO text, which does not use the StableHLO text, is evaluated as well.
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

#: An evaluator's results for a program, or the reason why they are missing.
Opinion = list[np.ndarray] | str


class Death(str):
    """The reason why results are missing: the program ended the process of an evaluator."""

    __slots__ = ()


def evaluate(evaluator: Evaluator, graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
    """Return an evaluator's outputs; raise NotEvaluated if it cannot run the graph."""
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
    # Only arrays of fixed size are compared.
    wanted = [str(value.shape) if graph_parts.is_array(value) else None for value in graph.outputs]
    pairs = zip(texts, wanted, strict=False)
    if len(texts) == len(wanted) and all(w in (None, g) for g, w in pairs):
        return results
    problem = f"the results of evaluator {evaluator.name!r} do not match the graph"
    shapes = ", ".join(map(str, graph.output_shapes))
    advice = "It must return an array for each output, of its type and shape, or raise "
    advice += "NotImplementedError."
    texts = [f"evaluator: {', '.join(texts)}", f"graph: {shapes}"]
    raise explain(TransformError, "cross_check", problem, texts, advice)


def _in_words(array: np.ndarray) -> str:
    try:
        return str(Shape(array.dtype, array.shape))
    except (MinixlaError, TypeError):  # of another type than arrays have
        return f"{array.dtype}{list(array.shape)}"


class Opinions:
    """Evaluators that compile equal programs once and judge equal instructions once."""

    def __init__(self, asked: Sequence[Evaluator], say: Callable[[str], None]) -> None:
        self.say = say  # reports the current step
        self.evaluators = tuple(asked)
        #: The evaluators that read the StableHLO form.
        self.readers = frozenset(evaluator.name for evaluator in asked if evaluator.reads_stablehlo)
        self._graphs: dict[Graph, Graph] = {}
        #: The findings about instructions.
        self.judgements: dict[Any, Finding | None] = {}

    def ask(self, evaluator: Evaluator, graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
        """Return an evaluator's results; raise NotEvaluated if it cannot run the graph."""
        # Among equal programs use the first, which XLA has compiled.
        return evaluate(evaluator, self._graphs.setdefault(graph, graph), operands)

    def everywhere(self, graph: Graph, operands: Any, what: str) -> dict[str, Opinion]:
        """Return the results of each evaluator except the reference, or why they are missing."""
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
        """Find what is wrong about an instruction on some operands; if not `is_new`, look it up."""
        program = graph_parts.alone_at(step, operands)
        if program is None:
            return None
        key = program[0], *map(_digest, program[1])
        if is_new and key not in self.judgements:
            self.judgements[key] = self._judge(Measured(*program), step)
        return self.judgements.get(key)

    def with_wrong_reference(self) -> set[str]:
        """Return the names of the operations whose reference rule is suspected so far."""
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
    """Return the kind and reason of a difference that an element's operands explain."""
    arrays = [x for x in operands if isinstance(x, np.ndarray) and x.ndim in (0, len(index))]
    if not step.op.is_elementwise or not arrays:
        return None
    if len(arrays) == 1 and ranges.outside(step, arrays[0]).any():
        return "cast out of range", "the result of a cast out of range depends on the backend"
    for array in arrays if suspects == ("XLA",) else ():
        if array.dtype.kind == "f" and array.dtype.itemsize >= 4:
            number = abs(array[index if array.ndim else ()])
            if 0 < number < np.finfo(array.dtype).smallest_normal:
                return "underflow", "XLA:CPU treats subnormal numbers as zero"
    return None


def _digest(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(_digest, operand))
    return hashlib.blake2b(np.asarray(operand).tobytes()).digest()


class _Opinion(NamedTuple):
    """An evaluator's results for one instruction, and the error of the worst one."""

    results: list[np.ndarray]
    output: int
    comparison: Comparison

    @property
    def excess(self) -> float:
        return self.comparison.excess

    def agrees(self, other: "_Opinion") -> bool:
        """Test whether two that are off are much nearer to each other than to the truth."""
        ours, theirs = self.results[self.output], other.results[self.output]
        apart = comparison.compared(ours, comparison.wide(theirs), np.ones(ours.shape)).error
        return apart <= self.comparison.error / 8 and apart < np.inf


def _suspects(asked: dict[str, _Opinion], readers: frozenset[str]) -> tuple[str, ...]:
    """Return what is wrong, by majority; without a majority, everything that may be."""
    camps = _camps(asked, readers)
    # Evaluators that read one text have one vote.
    votes = [len(camp) - max(len(readers.intersection(camp)) - 1, 0) for camp in camps]
    votes[0] += REFERENCE not in camps[0]  # the reference's rules in double are of this camp
    winners = [camp for camp, vote in zip(camps, votes, strict=True) if vote == max(votes)]
    wrong = [camp for camp in camps if len(winners) > 1 or camp is not winners[0]]
    # An evaluator near the program in double is near the result of the reference's rules.
    suspects = ["reference rule"] * (camps[0] in wrong)
    for camp in wrong:
        # A fault that its members may share, or that each may have.
        alike = readers.intersection(camp)
        names = dict.fromkeys(alike, "StableHLO form") if len(alike) > 1 else {}
        suspects += ["StableHLO form"] * (len(readers) == len(alike) == 1)
        suspects += [{REFERENCE: "reference rule", **names}.get(name, name) for name in camp]
    return tuple(dict.fromkeys(suspects))


def _camps(asked: dict[str, _Opinion], readers: frozenset[str]) -> list[list[str]]:
    """Return groups of evaluators that agree; the first group is near the truth."""
    camps = [[name for name, opinion in asked.items() if opinion.excess <= 1]]
    for name, opinion in asked.items():
        if opinion.excess > 1:
            group = readers if name in readers else frozenset()
            friends = (c for c in camps[1:] if opinion.agrees(asked[c[0]]) or group.intersection(c))
            camp = next(friends, None)
            camps.append([name]) if camp is None else camp.append(name)
    return camps
