"""The position of an operation's call in the user's program, and the calling expression."""

import ast
import contextlib
import functools
import inspect
import linecache
import os
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

#: The file name of instructions of imported programs without source information; their lines are
#: those of the program text.
PROGRAM_TEXT = "<stablehlo>"
#: The name in all code objects that represent source lines of imported programs.
IMPORTED = "__minixla_imported__"
# Longer expressions do not help in a message.
_LONGEST = 60


def printable(text: str) -> str:
    """Escape the control characters of a text for terminals, except newlines and tabs."""
    if text.isprintable():
        return text
    return "".join([x if x.isprintable() or x in "\n\t" else repr(x)[1:-1] for x in text])


class Source(NamedTuple):
    """A position in the user's program, resolved to a line only when it is printed.

    Attributes:
        code: the code object of the running function.
        instruction: the offset of the running instruction in it.
        scope: the names of the open scopes (JAX: `jax.named_scope`), outermost first, joined by
            slashes.
        caller: the innermost position in the user's own files if `code` belongs to a library.
    """

    code: CodeType
    instruction: int
    scope: str = ""
    caller: "Source | None" = None

    @property
    def file(self) -> str:
        """The path of the file in the code object."""
        return self.code.co_filename

    @property
    def function(self) -> str:
        """The qualified name of the function that contains the line."""
        return self.code.co_qualname

    @property
    def line(self) -> int:
        """The line number, counted from 1; 0 if it is unknown."""
        cached = _LINES.get(id(self.code))
        if cached is None:
            if len(_LINES) >= _MOST_LISTS:
                _LINES.clear()
            lines = [place[0] or 0 for place in self.code.co_positions()]
            cached = _LINES[id(self.code)] = self.code, lines
        return cached[1][self.instruction // 2]

    @property
    def key(self) -> Hashable:
        """Equal for equal positions: code objects, which are equal across files, by identity."""
        code, instruction, scope, caller = self
        return id(code), instruction, scope, None if caller is None else caller.key

    @property
    def is_imported(self) -> bool:
        """True if an imported program states it, rather than code that this process ran."""
        return self.code.co_names == (IMPORTED,)

    def __str__(self) -> str:
        position = printable(self._shown())
        return position if self.caller is None else f"{position}, from {self.caller}"

    def _shown(self) -> str:
        cell = notebook_cell(self.file)
        if cell is not None:
            return f"{cell}:{self.line} ({self.function})"
        file = self.file  # relative to the current folder, if it is below it
        if os.path.isabs(file):
            with contextlib.suppress(
                OSError, ValueError
            ):  # the folder is gone, or on another drive
                path = os.path.relpath(file)
                file = file if path.startswith("..") else path
        return f"{file}:{self.line} ({self.function})"


def is_imported(source: Source | None) -> bool:
    """Return whether a position belongs to an instruction of an imported program."""
    return source is not None and source.is_imported


#: The position of instructions of imported programs without a known position.
SOME_IMPORTED = Source(compile(IMPORTED, PROGRAM_TEXT, "exec"), 0)


def notebook_cell(file: str) -> str | None:
    """Return the name of an IPython cell, as in `In[3]`, by its file; None for other files."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell_name = None if shell is None else shell.compile.format_code_name(file)
    return None if cell_name is None else cell_name[1]


# The line of each instruction (two bytes), by the id of the code object, which is kept alive:
# hashing code objects is slow.
_LINES: dict[int, tuple[CodeType, list[int]]] = {}
_MOST_LISTS = 1024


class ReverseSource(Source):
    """A position where the reverse derivative of an operation is being computed."""

    operation: object = None


def within_scope(source: Source | None, scope: str) -> Source | None:
    """Return a position with the names of the open scopes, joined by slashes."""
    if source is None or not scope:
        return source
    return Source(source.code, source.instruction, scope, source.caller)


# Decorators of the standard library appear between the user's frames and ours.
_SKIPPED: list[str] = [contextlib.__file__, functools.__file__]
# Callers of the code in such a file are not a user's program.
_ENTRANCE = "entrance"
# The user's code (`python -c`), except for code that dataclasses generate.
_TEXT = "text"
# Neither the framework nor the user's code: its caller is also reported.
_LIBRARY = "library"
_FOLDERS_OF_LIBRARIES = [f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages")]
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_IS_USER_FILE: dict[str, bool | str] = {"<string>": _TEXT}


def skip_package(folder: str) -> None:
    """Treat the code in `folder` as part of the framework."""
    _SKIPPED.append(os.path.join(os.path.abspath(folder), ""))
    for file in [path for path, kind in _IS_USER_FILE.items() if kind in (True, _LIBRARY)]:
        del _IS_USER_FILE[file]


def skip_callers(file: str) -> None:
    """Treat callers of the code in `file` as not part of a user's program."""
    _IS_USER_FILE[file] = _ENTRANCE


def is_user_file(file: str) -> bool:
    """Return whether the code in a file is the user's or a library's, not the framework's."""
    return _kind_of_file(file) in (True, _TEXT, _LIBRARY)


def _kind_of_file(file: str) -> bool | str:
    file_kind = _IS_USER_FILE.get(file)
    if file_kind is None:
        file_kind = not file.startswith(("<frozen", *_SKIPPED))
        if file_kind and (
            file.startswith(_STANDARD_LIBRARY) or any(f in file for f in _FOLDERS_OF_LIBRARIES)
        ):
            file_kind = _LIBRARY
        _IS_USER_FILE[file] = file_kind
    return file_kind


def find_source(depth: int = 1) -> Source | None:
    """Return the innermost frame of the stack outside the framework, beyond `depth` frames.

    If that frame belongs to a library, the user's innermost frame is the source's `caller`.
    """
    # It is None if no such frame exists, or if an entry point (the command line) precedes it.
    frame, kind_of = sys._getframe(depth), _IS_USER_FILE.get
    while frame is not None:
        kind = kind_of(frame.f_code.co_filename)
        if kind is not False:  # most frames are the framework's
            if kind is None:
                kind = _kind_of_file(frame.f_code.co_filename)
            if kind is True:
                return Source(frame.f_code, frame.f_lasti)
            if kind:
                return innermost_source(_positions(frame))
        frame = frame.f_back
    return None


def _positions(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def innermost_source(
    positions: Iterable[tuple[CodeType, int]], around: Source | None = None
) -> Source | None:
    """Return the result of `find_source` for a stack.

    Args:
        positions: the code object and instruction offset of each frame, the innermost first.
        around: the source of the frames that enclose the stack.
    """
    library, kind_of = None, _IS_USER_FILE.get
    for code, instruction in positions:
        kind = kind_of(code.co_filename)
        if kind is False:  # most frames are the framework's
            continue
        if kind is None:
            kind = _kind_of_file(code.co_filename)
        if kind is _ENTRANCE:
            return library
        if kind is _LIBRARY:
            library = library or Source(code, instruction)
        elif kind is True or (kind and not code.co_qualname.startswith("__create_fn__")):
            source = Source(code, instruction)
            return source if library is None else library._replace(caller=source)
    if library is None:
        return around
    return library if around is None else library._replace(caller=around.caller or around)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the user's line, wherever in the framework it is raised.

    Args:
        message: the text, or a warning with its text.
        category: the class of the warning if `message` is a text.
    """
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, names.get("__name__") or "<unknown>"
    message = printable(message) if isinstance(message, str) else message
    warnings.warn_explicit(message, category, *place, registry)


# The names of public functions, by package.
_LIBRARIES: dict[str, set[str]] = {}


def offer_functions(package: str, names: Iterable[str]) -> None:
    """Make messages name these functions of a package if the user called them."""
    _LIBRARIES.setdefault(package, set()).update(names)


def public_name() -> str | None:
    """Return the name of the running public function that the user called, if there is one.

    Packages declare their functions with `offer_functions`.
    """
    name, frame = None, sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        held = frame.f_locals.get("function"), frame.f_locals.get("self")
        # A wrapper refers to its function; otherwise, look up the name in the defining module.
        for candidate in (*held, frame.f_globals.get(frame.f_code.co_name)):
            name = _offered_name(candidate) or name
        frame = frame.f_back
    return name


def _offered_name(function: object) -> str | None:
    name, module = (getattr(function, attribute, None) for attribute in ("__name__", "__module__"))
    if not (isinstance(name, str) and isinstance(module, str)):
        return None
    for package, names in _LIBRARIES.items():
        if name in names and f"{module}.".startswith(f"{package}."):
            return name
    return None


def given_as(value: object) -> tuple[str | None, str] | None:
    """Return the running public function, if it has a name, and the argument path of a value."""
    # The path is `x` or `arrays[1]`, for example; the result is None if the value is not found.
    frames, frame = [], sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frames.append(frame)
        frame = frame.f_back
    for each in reversed(frames):  # start with the function that the user called
        code = each.f_code
        if code.co_flags & inspect.CO_VARARGS and (public := each.f_locals.get("called")):
            place = _place_among(public, each.f_locals, value)
            if place is not None:
                return public.__name__, place
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            place = _place_in(each.f_locals.get(name), value, name)
            if place is not None and name[0] != "_":
                has_own_name = "<locals>" not in code.co_qualname and code.co_name[0] != "_"
                return code.co_name if has_own_name else None, place
    return None


def _place_among(
    public: Callable[..., object], frame_locals: Mapping[str, Any], value: object
) -> str | None:
    """Return the path of a value among the `args` and `kwargs` of a public function's wrapper."""
    args, named = frame_locals.get("args", ()), dict(frame_locals.get("kwargs", {}))
    for position, parameter in enumerate(inspect.signature(public).parameters.values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            named[parameter.name] = args[position:]
        elif parameter.kind < parameter.KEYWORD_ONLY and position < len(args):
            named[parameter.name] = args[position]
    places = (_place_in(held, value, name) for name, held in named.items())
    return next((place for place in places if place is not None), None)


def _place_in(held: Any, value: object, name: str, depth: int = 4) -> str | None:  # noqa: ANN401  # containers
    """Return the path of a value in `held`, called `name`, including lists, tuples and dicts."""
    if held is value:
        return name
    if not depth:  # a list may contain itself
        return None
    is_list = type(held) in (list, tuple)
    members = enumerate(held) if is_list else held.items() if type(held) is dict else ()
    places = (_place_in(member, value, f"{name}[{key!r}]", depth - 1) for key, member in members)
    return next((place for place in places if place is not None), None)


class Expression(NamedTuple):
    """A part of the user's program, and the nodes that contain it, the innermost first."""

    node: ast.AST
    parents: tuple[ast.AST, ...]


def running_expression(source: Source | None) -> Expression | None:
    """Return the expression that the instruction of a source evaluates; None if unknown."""
    if source is None or source.is_imported:
        return None
    place = next(islice(source.code.co_positions(), source.instruction // 2, None), (None,))
    if None in place:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(source.file)))
    except (SyntaxError, ValueError, RecursionError):  # the file has changed, or is not Python
        return None
    names, expression = ("lineno", "end_lineno", "col_offset", "end_col_offset"), None
    expressions = [Expression(tree, ())]
    for each in expressions:  # outer before inner: the innermost match is the last
        node, parents = each
        expressions += [Expression(c, (node, *parents)) for c in ast.iter_child_nodes(node)]
        if tuple([getattr(node, name, None) for name in names]) == place:
            expression = each
            if isinstance(node, ast.JoinedStr):  # in Python 3.11 its parts have the same position
                break
    if expression is not None and isinstance(expression.node, ast.FormattedValue):
        return Expression(expression.parents[0], expression.parents[1:])
    return expression


def text_of(node: ast.AST) -> str:
    """Return the source text of a node, shortened if it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_SITE, _SITE_OF_NUMPY = Path(__file__).absolute().parents[2], Path(np.__file__).parents[1]
_FOLDERS = [_SITE / "minixla", _SITE / "minixla_ops"]
for _folder in (*_FOLDERS, _SITE_OF_NUMPY / "numpy", _SITE_OF_NUMPY / "scipy"):
    skip_package(str(_folder))
