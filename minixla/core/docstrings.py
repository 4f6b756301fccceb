"""Docstrings completed from a text file: what many parameters mean, results, sources, examples.

The file has a block for each function, under its name:

    # median
    q: what this parameter means here; longer texts
        go on in indented lines.
    Returns: what comes back.
    Raises: ShapeError: when.
    Source: SciPy: `scipy.stats.median`.
    >>> np.median(np.array([3.0, 1.0, 2.0]))
    Array(2., dtype=float32)

Block `parameters` says what parameters mean wherever neither block nor docstring does, and what
functions raise that have some of them, `Raises axis axes: AxisError: when`, and say nothing of it
themselves. A block may be of several functions, `# sin cos`; of several blocks of one function the
later ones count.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, cleandoc, signature
from pathlib import Path
from textwrap import dedent, indent
from types import FunctionType, ModuleType
from typing import TypeVar

from minixla.core.operation_docstrings import joined, sections
from minixla.core.source import offer_functions

_Function = TypeVar("_Function", bound=Callable[..., object])
_ROW = re.compile(r"^(?=\S)", re.MULTILINE)


def complete(package: str, modules: Sequence[ModuleType], file: Path, source: str = "") -> None:
    """Puts together the docstrings of functions from their own ones and their blocks of a file.

    Args:
        package: the name of a package, which need not be loaded; its functions' blocks are named
            as they are.
        modules: the package, and parts of it, the name of whose blocks is `part.function`.
        file: the file.
        source: where functions come from unless a block says so: `{}` stands for the name. From
            then on messages name them; those without a source say all that themselves.
    """
    if source:
        offer_functions(package, itertools.chain.from_iterable(each.__all__ for each in modules))
    blocks = _blocks_of(file)
    shared = blocks.pop("parameters", {})
    for name, function in _functions_of(package, modules):
        rows = blocks.get(name, {})
        origin = rows.get("Source") or source.format(name)
        if function.__doc__:  # Python may have left them out
            names = parameter_names(function)
            function.__doc__ = _completed(function.__doc__, names, rows, shared, origin)


def _functions_of(
    package: str, modules: Iterable[ModuleType]
) -> Iterator[tuple[str, Callable[..., object]]]:
    """The public functions of modules by the names of their blocks, each once."""
    met = set()
    for module in modules:
        prefix = module.__name__.removeprefix(package).lstrip(".")
        for value in map(module.__dict__.__getitem__, module.__all__):
            own = getattr(value, "__dict__", {})
            has_text = isinstance(value, FunctionType) or "__doc__" in own
            if not callable(value) or isinstance(value, type) or not has_text or id(value) in met:
                continue
            if value.__module__.startswith(package):
                met.add(id(value))
                yield ".".join(filter(None, (prefix, value.__name__))), value


def parameter_names(function: Callable[..., object]) -> list[str]:
    """The names of a function's parameters, with stars, as docstrings have them.

    Packages ask for hundreds when they are loaded: `signature` takes ten times as long.
    """
    own = getattr(function, "__dict__", {})
    if "__signature__" not in own and "__wrapped__" in own:
        return parameter_names(own["__wrapped__"])
    if "__signature__" in own or not isinstance(function, FunctionType):
        parameters = signature(function).parameters.values()
        return [_STARS.get(each.kind, "") + each.name for each in parameters]
    code = function.__code__
    places, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, rest = [*code.co_varnames[:count]], [*code.co_varnames[count:]]
    if code.co_flags & CO_VARARGS:
        names.insert(places, f"*{rest.pop(0)}")
    return [*names, f"**{rest[0]}"] if code.co_flags & CO_VARKEYWORDS else names


_STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def _blocks_of(file: Path) -> dict[str, dict[str, str]]:
    """The rows of each block by their names; those of its example are one, named `>>>`."""
    blocks: dict[str, dict[str, str]] = {}
    for block in f"\n{file.read_text(encoding='utf-8')}".split("\n#")[1:]:
        names, *rest = _ROW.split(block, maxsplit=1)
        body, _, example = "".join(rest).partition(">>> ")
        rows = _rows_of(body)
        if example:
            rows[">>>"] = f">>> {example.rstrip()}"
        for name in names.split():
            blocks.setdefault(name, {}).update(rows)
    return blocks


def _rows_of(body: str) -> dict[str, str]:
    """The rows `name: text` of a text by their names, further lines as they are."""
    rows: dict[str, str] = {}
    last = ""
    for line in body.splitlines():
        name, colon, text = line.partition(":")
        if colon and name[:1] not in (" ", ""):
            last = name.lstrip("*")
            rows[last] = text.strip()
        elif last and line:  # JAX's are not always indented
            rows[last] += f"\n{line}" if line[0] == " " else f"\n    {line}"
    return rows


def _completed(
    text: str,
    names: Collection[str],
    rows: Mapping[str, str],
    shared: Mapping[str, str],
    source: str,
) -> str:
    """A docstring with all sections."""
    parts = {"": text}
    if "\n" in text:
        # JAX's examples, which are not indented, are of its own functions.
        own = cleandoc(text).partition("\n>>> ")[0].rstrip().removesuffix("Examples:")
        parts = dict(sections(own))
    known = {**shared, **_rows_of(dedent(parts.get("Args", ""))), **rows}
    pairs = [(name, known.get(name.lstrip("*"))) for name in names]
    given = {"Args": "\n".join([f"{name}: {meaning}" for name, meaning in pairs if meaning])}
    for name in ("Returns", "Raises"):
        if name in rows:  # lines that go on are indented
            given[name] = rows[name].replace("\n    ", "\n")
    if not any("Raises" in each for each in (parts, given)):
        refusals = (
            text for key, text in shared.items() if not {*key.split()[1:]}.isdisjoint(names)
        )
        given["Raises"] = "\n".join(refusals)
    if ">>>" in rows:
        given["Example"] = rows[">>>"]
    parts.update({title: indent(body, "    ") for title, body in given.items()})
    return joined({**parts, "": f"{parts['']}\n\n{source}".rstrip()})


_ARGUMENT = re.compile(r"^    \*{0,2}(\w+):.*(?:\n     .*)*", re.MULTILINE)


def documented(*texts: str) -> Callable[[_Function], _Function]:
    """Complete the docstring of a function by sections that its family shares.

    Args:
        *texts: sections of docstrings; later texts take precedence. A row of `Args` is for
            functions that have this parameter and do not describe it. Another section is for
            functions that lack it.

    Returns:
        A decorator.
    """

    def completed(function: _Function) -> _Function:
        if function.__doc__:  # `python -OO` removes docstrings
            parts = [sections(text) for text in (*texts, function.__doc__)]
            rows = {
                row[1]: row[0] for each in parts for row in _ARGUMENT.finditer(each.get("Args", ""))
            }
            described = [rows[name] for name in signature(function).parameters if name in rows]
            merged = {title: body for each in parts for title, body in each.items()}
            function.__doc__ = joined({**merged, "Args": "\n".join(described)})
        return function

    return completed
