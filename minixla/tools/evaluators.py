"""Who evaluates graphs for cross-checks and for the command line.

The command line lists them before anything is loaded: this file loads neither NumPy nor JAX.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minixla.core.graph import Instruction

#: What reports call difference quotients, and the function given as `against=`.
DIFFERENCES, JAX = "finite differences", "JAX"
#: Those who stand for something besides their own answers.
REFERENCE, INTERPRETER = "reference", "interpreter"


class NotEvaluated(NotImplementedError):
    """An evaluator cannot be asked about a program; the message says why."""


class EvaluatorDied(NotEvaluated):
    """A program ended the process of an evaluator, or did not end in it."""


class Evaluator(NamedTuple):
    """One opinion on what a graph computes; see `register_evaluator`."""

    name: str
    function: Callable[..., Any] | str
    reads_stablehlo: bool = False
    known_gap: Callable[[Instruction], str | None] | str | None = None

    def gap(self, step: Instruction) -> str | None:
        """Why it may be wrong about an instruction, where it is known to be."""
        return None if self.known_gap is None else loaded(self.known_gap)(step)


#: All by name, the reference first.
EVALUATORS: dict[str, Evaluator] = {}


def register_evaluator(
    name: str,
    function: Callable[..., Any] | str,
    *,
    reads_stablehlo: bool = False,
    known_gap: Callable[[Instruction], str | None] | str | None = None,
) -> None:
    """Adds an evaluator to every `cross_check`, and to the backends of the command line.

        mx.register_evaluator("NumPy", by_numpy)

    A function of the same name in the same module takes the place of one registered before: it has
    been defined again.

    Args:
        name: what reports call it; the command line calls it so in small letters.
        function: takes a Graph and a list of NumPy arrays, its operands, and returns an array of
            the right type and shape for each output. What it cannot evaluate it refuses by
            NotImplementedError, or by the error of this library that `graph.stablehlo()` gave;
            other errors are the caller's to see. `"module:function"` names one that is loaded when
            it is first asked.
        reads_stablehlo: whether it evaluates `graph.stablehlo()`: where all who do are wrong
            together, the text is suspected.
        known_gap: says of an Instruction why the evaluator may be wrong about it, or None; where
            it may be, its being off is no error. It may be named too.

    Returns:
        Nothing.

    Raises:
        TransformError: the name is no text or belongs to another, or something is no function.

    Example:
        >>> def exact(graph, operands):
        ...     raise NotImplementedError("it knows no operation")
        >>> mx.register_evaluator("Exact", exact)
    """
    evaluator = Evaluator(name, function, bool(reads_stablehlo), known_gap)
    registered = EVALUATORS.get(name) if isinstance(name, str) else None
    EVALUATORS[name] = checked("register_evaluator", evaluator, registered)


def loaded(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """The function, or that which the text names."""
    return pkgutil.resolve_name(function) if isinstance(function, str) else function


# Names in reports that are no registered evaluator's.
_RESERVED = (DIFFERENCES, JAX, "HLO form", "all")


def checked(subject: str, evaluator: Evaluator, before: Evaluator | None = None) -> Evaluator:
    """It; TransformError where one cannot be, unless it takes the place of one before."""
    name: Any = evaluator.name
    is_again = before is not None and _origin(before.function) == _origin(evaluator.function)
    others = [] if is_again else map(str.lower, (*EVALUATORS, *_RESERVED))
    function, gap = evaluator.function, evaluator.known_gap
    if not isinstance(name, str) or not name.strip():
        problem = f"an evaluator's name is a text, and not {name!r}"
    elif not _is_function(function):
        problem = f"evaluator {name!r} is no function: {function!r}"
    elif gap is not None and not _is_function(gap):
        problem = f"known_gap of {name!r} is no function: {gap!r}"
    elif name.lower() in others:
        problem = f"an evaluator cannot be called {name!r}, which reports call another"
    else:
        return evaluator
    from minixla.core.errors import TransformError, explain  # it loads NumPy

    advice = "Give another name, and a function of a graph and a list of arrays."
    raise explain(TransformError, subject, problem, [], advice)


def _is_function(function: Any) -> bool:
    is_name = isinstance(function, str) and re.fullmatch(r"[\w.]+:\w+", function) is not None
    return is_name or callable(function)


def _origin(function: Any) -> Any:
    name = getattr(function, "__qualname__", None)
    return function if name is None else (getattr(function, "__module__", None), name)


_BUILT_IN = "minixla.tools.built_in_evaluators"
_GAP = f"{_BUILT_IN}:interpreter_gap"
EVALUATORS |= {
    REFERENCE: Evaluator(REFERENCE, "minixla_ops.programs.reference_evaluation:reference_graph"),
    INTERPRETER: Evaluator(INTERPRETER, f"{_BUILT_IN}:by_interpreter", True, _GAP),
    "XLA": Evaluator("XLA", f"{_BUILT_IN}:by_xla", True),
}
#: XLA in a separate process, in place of the one that may end this process.
ISOLATED = Evaluator("XLA", f"{_BUILT_IN}:by_isolated_xla", True)
#: Asked where a program is for a mesh of devices.
ALONE = Evaluator("XLA, one device", f"{_BUILT_IN}:by_xla_alone", True)
#: The graph's HLO text, as XLA translates it, in the interpreter: it passes the `stablehlo` rules
#: by, and tells a wrong one from a wrong reference.
HLO_FORM = Evaluator("HLO form", f"{_BUILT_IN}:by_hlo", known_gap=_GAP)
