"""Who evaluates graphs for cross-checks and for the command line.

The command line lists them before anything is loaded: this file loads neither NumPy nor JAX.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minixla.core.graph import Instruction

#: What reports call difference quotients, and the function given as `against=`.
DIFFERENCES, JAX = "finite differences", "JAX"
#: Those who stand for something besides their own answers.
REFERENCE, INTERPRETER = "reference", "interpreter"


class NotEvaluated(NotImplementedError):
    """An evaluator cannot be asked about a program; the message says why."""


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

    Raises:
        TransformError: the name is no text or belongs to another, or something is no function.
    """
    evaluator = _checked("register_evaluator", name, function, known_gap)._replace(
        reads_stablehlo=bool(reads_stablehlo)
    )
    before = EVALUATORS.get(name)
    if before is None or _origin(before) != _origin(evaluator):
        _refuse_taken("register_evaluator", name)
    EVALUATORS[name] = evaluator


def _origin(evaluator: Evaluator) -> Any:
    """Where the function comes from."""
    function = evaluator.function
    name = getattr(function, "__qualname__", None)
    return function if name is None else (getattr(function, "__module__", None), name)


def all_evaluators(more: Mapping[str, Callable[..., Any]] | None) -> list[Evaluator]:
    """Those that are registered, and those given to one `cross_check` by name.

    Raises:
        TransformError: a name is taken, or something is no function.
    """
    found = [_checked("cross_check", *each) for each in (more or {}).items()]
    for each in found:
        _refuse_taken("cross_check", each.name)
    return [*EVALUATORS.values(), *found]


def backend(name: str) -> str:
    """What the command line calls an evaluator."""
    return name.lower()


def loaded(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """The function, or that which the text names."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


# Names in reports that are no registered evaluator's.
_RESERVED = (DIFFERENCES, JAX, "HLO form", "all")
_NAMED = re.compile(r"[\w.]+:\w+")


def _checked(subject: str, name: Any, function: Any, known_gap: Any = None) -> Evaluator:
    if not isinstance(name, str) or not name.strip():
        raise _refused(subject, f"an evaluator's name is a text, and not {name!r}")
    for what, each in (("evaluator", function), ("known_gap of", known_gap or function)):
        if not (_NAMED.fullmatch(each) if isinstance(each, str) else callable(each)):
            raise _refused(subject, f"{what} {name!r} is no function: {each!r}")
    return Evaluator(name, function, known_gap=known_gap)


def _refuse_taken(subject: str, name: str) -> None:
    if backend(name) in map(backend, (*EVALUATORS, *_RESERVED)):
        problem = f"an evaluator cannot be called {name!r}, which reports call another"
        raise _refused(subject, problem)


def _refused(subject: str, problem: str) -> Exception:
    from minixla.core.errors import TransformError, explain  # it loads NumPy

    advice = "Give another name, and a function of a graph and a list of arrays."
    return explain(TransformError, subject, problem, [], advice)


_BUILT_IN = "minixla.tools.built_in_evaluators"
_GAP = f"{_BUILT_IN}:interpreter_gap"
register_evaluator(REFERENCE, f"{_BUILT_IN}:by_reference")
register_evaluator(INTERPRETER, f"{_BUILT_IN}:by_interpreter", reads_stablehlo=True, known_gap=_GAP)
register_evaluator("XLA", f"{_BUILT_IN}:by_xla", reads_stablehlo=True)
#: The graph's HLO text, as XLA translates it, in the interpreter: it passes the `stablehlo` rules
#: by, and tells a wrong one from a wrong reference.
HLO_FORM = Evaluator("HLO form", f"{_BUILT_IN}:by_hlo", known_gap=_GAP)
