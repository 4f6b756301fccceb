"""MLIR modules from text, bytecode, portable artifacts and what jax.export makes."""

from __future__ import annotations

import os
import re
import threading
from typing import Any

import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context

from minixla.core.errors import ImportError_, explain
from minixla.interop.exported_files import require_flatbuffers
from minixla.interop.reader import parse_error, text_of_binary

__all__ = ["SUBJECT", "legalised", "located", "opened", "read_module"]

SUBJECT = "import_stablehlo"
#: The first bytes of MLIR's bytecode.
_BYTECODE = b"ML\xefR"
# Brackets within brackets. MLIR's parser recurses, and overflows the stack at some thousands.
_MOST_NESTED = 192
_QUIET = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|>=|<=')
_PATH = re.compile(r"[^\n{}()%]+\.(mlir|mlirbc|bc|bin|stablehlo|vhlo)")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_HIGH = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
# jaxlib's parser divides by the number of groups.
_NO_GROUPS = re.compile(
    r"all_to_all[^\n]*?replica_groups\s*=\s*dense<[^>]*>\s*:\s*tensor<(\d+x0|0x\d+)x"
)
_LOCATION = re.compile(r'"([^"]*)":(\d+):(\d+)')
_ADVICE = (
    "Give a StableHLO module as MLIR text, bytecode or a portable artifact. Programs of other "
    "dialects must be converted to StableHLO first."
)
_registered = False


def opened(source: Any) -> tuple[str, jax.export.Exported | None]:
    """MLIR's text, and the jax.export.Exported where it comes from one.

    Args:
        source: text, bytes, a path of a file of either (strings must end as `.mlir` does), or a
            jax.export.Exported.

    Raises:
        ImportError_: bytes that hold no program, no file, or something else.
    """
    if isinstance(source, os.PathLike) or _is_path(source):
        source = _content(source)
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    if isinstance(source, jax.export.Exported):
        return _text(bytes(source.mlir_module_serialized)), source
    if isinstance(source, str):
        return source, None
    if not isinstance(source, bytes):
        given = [f"source: {type(source).__name__}"]
        raise explain(ImportError_, SUBJECT, "the source is no program", given, _ADVICE)
    if not source.startswith(_BYTECODE):
        try:
            return source.decode(), None
        except UnicodeDecodeError:
            require_flatbuffers(ImportError_, SUBJECT)
            return _text(source), jax.export.deserialize(bytearray(source))
    return _text(source), None


def _content(path: Any) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        advice = "Give a path of a file that holds a program, or the program itself."
        raise explain(ImportError_, SUBJECT, f"cannot read {path}: {error}", (), advice) from None


def _text(source: bytes) -> str:
    """MLIR's text of a program in binary form."""
    try:
        return text_of_binary(source)
    except ValueError as error:
        given = [f"{len(source)} bytes that begin with {source[:16]!r}", str(error)]
        problem = "the bytes are neither text, MLIR's bytecode nor what jax.export serialized"
        raise explain(ImportError_, SUBJECT, problem, given, _ADVICE) from None


def _is_path(source: Any) -> bool:
    """Whether a string names a file rather than being a program."""
    return isinstance(source, str) and bool(_PATH.fullmatch(source))


def read_module(text: str, is_ours: bool = False) -> Any:
    """The MLIR module that a text holds.

    Args:
        text: MLIR's.
        is_ours: whether it was written here, and needs no caution.

    Raises:
        ImportError_: it holds none.
    """
    if not is_ours:
        _check_text(text)
    try:
        with _shared.context_for(text):
            return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise _refused(error, text) from None
    except (ValueError, MemoryError) as error:  # a size that is none
        given = [str(error)[:300]]
        raise explain(ImportError_, SUBJECT, "MLIR cannot read it", given, _ADVICE) from None


class _SharedContext(threading.local):
    """A thread's MLIR context: one takes longer to make than most programs to read.

    It keeps every type, constant and line that it read, so each reads so many characters.
    """

    most = 1 << 20

    def __init__(self) -> None:
        self.context: Any = None
        self.left = 0

    def context_for(self, text: str) -> Any:
        """The context in which to read a text; a long text has one of its own."""
        if len(text) > self.most:
            return _new_context()
        if len(text) > self.left:
            self.context, self.left = _new_context(), self.most
        self.left -= len(text)
        return self.context


def _new_context() -> Any:
    context = make_ir_context()
    context.emit_error_diagnostics = False
    return context


_shared = _SharedContext()


def _check_text(text: str) -> None:
    """Refuses what MLIR's parser dies of, and what it refuses."""
    if "\0" in text:
        raise _at(text, text.index("\0"), "a null character")
    _check_strings(text)
    quiet = _QUIET.sub(lambda match: " " * len(match[0]), text)
    codes = np.frombuffer(quiet.encode("latin-1", "replace"), np.uint8)
    steps = np.isin(codes, list(b"{([<")).astype(np.int64) - np.isin(codes, list(b"})]>"))
    depth = np.cumsum(steps)
    if depth.size and depth.max() > _MOST_NESTED:
        where = int(np.argmax(depth > _MOST_NESTED))
        raise _at(text, where, f"more than {_MOST_NESTED} brackets within each other")
    match = _NO_GROUPS.search(text)
    if match is not None:
        raise _at(text, match.start(), "an all_to_all without replica groups")
    error = parse_error(text)
    if error is not None:
        raise located(error[0], error[1], (), _ADVICE, text)


def _check_strings(text: str) -> None:
    """Refuses strings that are no UTF-8: Python's interface to MLIR ends the process over them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _at(text, error.start, "half of a surrogate pair") from None
    if _HIGH.search(text) is None:
        return
    for match in _STRING.finditer(text):
        try:
            _ESCAPE.sub(_unescaped, match[0].encode()).decode()
        except UnicodeDecodeError:
            raise _at(text, match.start(), "a string that is no UTF-8") from None


def _unescaped(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] == b"\\" else bytes([int(match[1], 16)])


def _at(text: str, position: int, found: str) -> ImportError_:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    shown = _line(text, line)
    return explain(ImportError_, SUBJECT, f"line {line}, column {column}: {found}", shown, _ADVICE)


def _line(text: str, line: int, column: int = 0) -> list[str]:
    """The line of the text, cut to what a terminal shows."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return []
    end = text.find("\n", start)
    shown = text[start : len(text) if end < 0 else end].rstrip()
    left = max(0, column - 60)
    return [shown[left : left + 100]] if shown.strip() else []


def _refused(error: Any, source: str) -> ImportError_:
    """Our error for what MLIR's parser or verifier says."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return explain(ImportError_, SUBJECT, "MLIR cannot read it", [str(error)[:300]], _ADVICE)
    first = diagnostics[0]
    return located(first.location, first.message, (), _ADVICE, source)


def located(
    location: Any,
    problem: str,
    given: Any,
    advice: str,
    source: str | None = None,
) -> ImportError_:
    """An error that names the place in the program."""
    where, shown = "", []
    match = _LOCATION.search(str(location))
    if match is not None:
        file = "" if match[1] == "-" else f"{match[1]}, "
        where = f"{file}line {match[2]}, column {match[3]}: "
        if source is not None and not file:
            shown = _line(source, int(match[2]), int(match[3]))
    problem = f"{where}{problem.strip()[:500].rstrip('.')}"
    return explain(ImportError_, SUBJECT, problem, [*shown, *given], advice)


def legalised(module: Any, passes: str) -> None:
    """Runs passes of MLIR's on the functions of a module, in place.

    Raises:
        ImportError_: a pass fails.
    """
    global _registered
    if not _registered:
        stablehlo.register_stablehlo_passes()
        _registered = True
    try:
        with module.context:
            PassManager.parse(f"builtin.module(func.func({passes}))").run(module.operation)
    except ir.MLIRError as error:
        raise _refused(error, "") from None
