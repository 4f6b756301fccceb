"""Evaluators of graphs for cross-checks and for the command line.

The command line lists them before anything is loaded, so this file loads neither NumPy nor JAX.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minixla.core.graph import Instruction

#: The names of difference quotients, and of the function `against=`, in reports.
DIFFERENCES, JAX = "finite differences", "JAX"
#: Evaluators with a special role.
REFERENCE, INTERPRETER = "reference", "interpreter"


class NotEvaluated(NotImplementedError):
    """Error for a program that an evaluator cannot run; the message gives the reason."""


class EvaluatorDied(NotEvaluated):
    """Error for a program that ended the process of an evaluator, or did not terminate in it."""


class Evaluator(NamedTuple):
    """A backend or oracle that computes the results of a graph; see `register_evaluator`."""

    name: str
    function: Callable[..., Any] | str
    reads_stablehlo: bool = False
    known_gap: Callable[[Instruction], str | None] | str | None = None

    def gap(self, step: Instruction) -> str | None:
        """Return the reason why it may be wrong about an instruction, if one is known."""
        return None if self.known_gap is None else loaded(self.known_gap)(step)


#: All evaluators by name, the reference first.
EVALUATORS: dict[str, Evaluator] = {}


def register_evaluator(
    name: str,
    function: Callable[..., Any] | str,
    *,
    reads_stablehlo: bool = False,
    known_gap: Callable[[Instruction], str | None] | str | None = None,
) -> None:
    """Add an evaluator to every `cross_check`, and to the backends of the command line.

        mx.register_evaluator("NumPy", by_numpy)

    A function with the same name in the same module replaces one that was registered before, so a
    definition can run again.

    Args:
        name: its name in reports; the command line uses it in lower case.
        function: takes a Graph and a list of NumPy arrays, its operands, and returns an array of
            the right type and shape for each output. If it cannot evaluate a graph, it raises
            NotImplementedError, or the error of this library that `graph.stablehlo()` raised.
            Other errors are raised to the caller. `"module:function"` names a function that is
            loaded when it is first called.
        reads_stablehlo: whether it evaluates `graph.stablehlo()`. If all evaluators that do are
            wrong together, the text is suspected.
        known_gap: takes an Instruction, and returns the reason why the evaluator may be wrong
            about it, or None. A deviation there is not an error. It may also be given by name.

    Returns:
        None.

    Raises:
        TransformError: the name is not a string or is in use, or an argument is not a function.

    Example:
        >>> def exact(graph, operands):
        ...     raise NotImplementedError("it knows no operation")
        >>> mx.register_evaluator("Exact", exact)
    """
    evaluator = Evaluator(name, function, bool(reads_stablehlo), known_gap)
    registered = EVALUATORS.get(name) if isinstance(name, str) else None
    EVALUATORS[name] = checked("register_evaluator", evaluator, registered)


def loaded(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return the function, or the function that the string names."""
    return pkgutil.resolve_name(function) if isinstance(function, str) else function


# Names in reports that registered evaluators must not have.
_RESERVED = (DIFFERENCES, JAX, "HLO form", "all")


def checked(subject: str, evaluator: Evaluator, before: Evaluator | None = None) -> Evaluator:
    """Return a valid evaluator, which may replace `before`; raise TransformError otherwise."""
    name: Any = evaluator.name
    is_again = before is not None and _origin(before.function) == _origin(evaluator.function)
    others = [] if is_again else map(str.lower, (*EVALUATORS, *_RESERVED))
    function, gap = evaluator.function, evaluator.known_gap
    if not isinstance(name, str) or not name.strip():
        problem = f"an evaluator's name must be a string, not {name!r}"
    elif not _is_function(function):
        problem = f"evaluator {name!r} is not a function: {function!r}"
    elif gap is not None and not _is_function(gap):
        problem = f"known_gap of {name!r} is not a function: {gap!r}"
    elif name.lower() in others:
        problem = f"the name {name!r} of an evaluator is reserved or in use"
    else:
        return evaluator
    from minixla.core.errors import TransformError, explain  # late, because it loads NumPy

    advice = "Pass another name, and a function of a graph and a list of arrays."
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
#: XLA in a separate process, which replaces the XLA that may end this process.
ISOLATED = Evaluator("XLA", f"{_BUILT_IN}:by_isolated_xla", True)
#: Used if a program is for a mesh of devices.
ALONE = Evaluator("XLA, one device", f"{_BUILT_IN}:by_xla_alone", True)
#: The interpreter on the graph's HLO text, as XLA translates it. It does not use the `stablehlo`
#: rules, so it distinguishes a wrong rule from a wrong reference.
HLO_FORM = Evaluator("HLO form", f"{_BUILT_IN}:by_hlo", known_gap=_GAP)
