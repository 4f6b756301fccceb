"""What the docstrings of a namespace lack: parts that every public function has, true examples."""

from __future__ import annotations

import ast
import doctest
import inspect
import math
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

#: The modules whose functions name what they raise; JAX's functions say it in JAX's words.
_OURS = ("minixla", "tests")
_SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example|Examples):$", re.MULTILINE)
_ARGUMENT = re.compile(
    r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:(?= |\n|$)", re.MULTILINE
)
#: The library whose function ours is: a paragraph "NumPy: `numpy.median`.", or in parentheses.
_SOURCE = re.compile(r"(?:^|\()(NumPy|SciPy|JAX|XLA|minixla): \S", re.MULTILINE)


class Parts(NamedTuple):
    """A docstring, by its parts."""

    summary: str  # the first line
    text: str  # all outside of sections
    sections: dict[str, str]  # by heading, without the indentation of the docstring


def parts_of(text: str) -> Parts:
    """The parts of a docstring in Google's style. A section ends where its indentation does."""
    lines = inspect.cleandoc(text).splitlines()
    sections: dict[str, list[str]] = {}
    outside: list[str] = []
    current: list[str] | None = None
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            current = sections.setdefault(heading[1], [])
        elif current is not None and (not line or line.startswith(" ")):
            current.append(line)
        else:
            current = None
            outside.append(line)
    joined = {name: "\n".join(body).rstrip() for name, body in sections.items()}
    return Parts(lines[0] if lines else "", "\n".join(outside), joined)


def functions_of(namespace: ModuleType) -> dict[str, Any]:
    """The public functions of a namespace by name: what can be called and is no class or object.

    JAX's functions are left out, because their docstrings are JAX's. A callable object, such as a
    ufunc, counts if it has its own signature and name.
    """
    names = getattr(namespace, "__all__", None) or dir(namespace)
    found = {name: getattr(namespace, name) for name in names if not name.startswith("_")}
    return {name: value for name, value in found.items() if _is_function(value)}


def _is_function(value: Any) -> bool:
    is_jaxs = str(getattr(value, "__module__", "")).partition(".")[0] == "jax"
    is_plain = callable(value) and not inspect.isclass(value) and not is_jaxs
    return is_plain and hasattr(value, "__name__")


def missing_parts(
    namespace: ModuleType, *, needs_source: bool = True, needs_example: bool = True
) -> Iterator[tuple[str, list[str]]]:
    """For every public function whose docstring lacks parts its name and what they are.

    Args:
        namespace: a module; `__all__` or `dir` says what is public.
        needs_source: whether a function must say which library's it is.
        needs_example: whether a function must have an example.
    """
    for name, function in functions_of(namespace).items():
        lacking = list(lacking_of(function, needs_source, needs_example))
        if lacking:
            yield name, lacking


def lacking_of(
    function: Any, needs_source: bool = True, needs_example: bool = True
) -> Iterator[str]:
    """What one function's docstring lacks, or says of parameters that are not there."""
    if not function.__doc__:
        yield "a docstring"
        return
    parts = parts_of(function.__doc__)
    if not parts.summary.rstrip().endswith((".", "?", "!")):
        yield f"a first line that is a sentence: {parts.summary!r}"
    declared = inspect.signature(function)
    expected = {name for name in declared.parameters if not name.startswith("_")}
    described = arguments_of(parts)
    if expected - described:
        yield f"Args: {', '.join(sorted(expected - described))}"
    if described - expected:
        yield f"no such parameter: {', '.join(sorted(described - expected))}"
    returns_none = declared.return_annotation in (None, "None")
    if not returns_none and not parts.sections.keys() & {"Returns", "Yields"}:
        yield "Returns"
    if "Raises" not in parts.sections and _raises(function):
        yield "Raises"
    for heading, body in parts.sections.items():
        if not body.strip():
            yield f"text under {heading}"
    if needs_source and not _SOURCE.search(parts.text):
        yield "the source"
    if needs_example and ">>> " not in parts.sections.get("Example", ""):
        yield "Example"


def _raises(function: Any) -> bool:
    """Whether the code of a function of ours raises errors itself."""
    own = inspect.unwrap(function)
    if not inspect.isfunction(own) or not own.__module__.startswith(_OURS):
        return False
    tree = ast.parse(textwrap.dedent(inspect.getsource(own)))
    # What a program has made has the source of that.
    is_its = getattr(tree.body[0], "name", None) == own.__code__.co_name
    return is_its and any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def arguments_of(parts: Parts) -> set[str]:
    """The parameters that section Args describes, without stars."""
    rows = _ARGUMENT.findall(parts.sections.get("Args", ""))
    return {name.lstrip("*") for row in rows for name in row.split(", ")}


def failures_of(function: Any, names: dict[str, Any]) -> str:
    """What doctest says of the function's examples, run with these names; nothing where all hold.

    Blanks and the last digits of floats may differ, `...` stands for anything.
    """
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(Checker(), optionflags=flags, verbose=False)
    text = inspect.cleandoc(function.__doc__ or "")
    test = doctest.DocTestParser().get_doctest(text, dict(names), function.__name__, None, 0)
    said: list[str] = []
    runner.run(test, out=said.append)
    return "".join(said)


class Checker(doctest.OutputChecker):
    """Takes floats that differ in what processors and versions of XLA round otherwise, too."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether doctest, or the numbers alone, say that an output is the wanted one."""
        if super().check_output(want, got, optionflags):
            return True
        texts = [_FLOAT.sub("#", each).split() for each in (want, got)]
        if "".join(texts[0]) != "".join(texts[1]):
            return False
        found = [[float(each) for each in _FLOAT.findall(text)] for text in (want, got)]
        return all(
            math.isclose(*each, rel_tol=1e-5, abs_tol=1e-6) for each in zip(*found, strict=True)
        )


_FLOAT = re.compile(r"-?\d+\.\d*(?:e[+-]\d+)?")
