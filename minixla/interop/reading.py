"""MLIR modules from text, bytecode, portable artifacts and results of jax.export."""

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager

from minixla.core.errors import ImportError_, MinixlaError, explain
from minixla.core.shared_contexts import SharedContexts
from minixla.engine.jax_private import make_ir_context
from minixla.engine.readers import Refusal, Sent, sent
from minixla.engine.readers.written_constants import without_constants
from minixla.engine.text_positions import check_characters
from minixla.interop import refusals
from minixla.interop.refusals import ADVICE, SUBJECT, located, refused_at

#: The first bytes of MLIR's bytecode.
_BYTECODE = b"ML\xefR"
# Nested brackets. MLIR's parser recurses, and overflows the stack at some thousands.
_MOST_NESTED = 192
# An unterminated string ends with its line, so that every character is scanned once.
_TEXT = r'"(?:[^"\\\n]|\\[^\n])*+"?'
_QUIET = re.compile(rf"{_TEXT}|//[^\n]*|->|>=|<=")
_COMMENT = re.compile(r"//[^\n]*")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"{}()[]<>")))
#: A program, or the path of a file that contains one.
ProgramText: TypeAlias = str | bytes | bytearray | memoryview | os.PathLike[str]
_SUFFIXES = (".mlir", ".mlirbc", ".bc", ".bin", ".stablehlo", ".vhlo")
_STRING = re.compile(_TEXT)
_HIGH = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
# jaxlib's parser divides by the number of groups.
_NO_GROUPS = re.compile(
    r"\n|(all_to_all)|(replica_groups)\s*=\s*dense<[^<>]*>\s*:\s*tensor<(?:\d+x0|0x\d+)x"
)
_GROUPS = "MLIR's parser divides by their number: list the groups, as in dense<[[0, 1]]>."
_UTF8 = "Python's interface to MLIR ends the process for other strings: write it as UTF-8."
_DEADLY = (
    "No program should crash MLIR: correct it; if it is legal StableHLO, report it to the "
    "StableHLO project, and write it in another way until then."
)
_NESTED = "MLIR's parser recurses over them: write nested calls and regions one after the other."
#: For each character: 1 opens a bracket, -1 closes one.
_STEPS = np.array([(c in b"{([<") - (c in b"})]>") for c in range(256)], np.int8)
_NO_PROGRAM = re.compile(r"[^\0\n{}()%]{1,4096}")
_register = cache(stablehlo.register_stablehlo_passes)


def content(source: Any, suffixes: tuple[str, ...], subject: str, advice: str) -> str | bytes:
    """Return a program's text or bytes: `source` itself, or the content of the file it names."""
    is_path = isinstance(source, os.PathLike)
    if isinstance(source, str) and _NO_PROGRAM.fullmatch(source):
        is_path = source.endswith(suffixes) or (os.sep in source and os.path.exists(source))
    if is_path:
        try:
            with open(source, "rb") as file:
                return file.read()
        except (OSError, ValueError) as error:
            advice = "Pass the path of a file that contains a program, or the program itself."
            problem = f"cannot read {source}: {error}"
            raise explain(ImportError_, subject, problem, (), advice) from None
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if not isinstance(source, (str, bytes)):
        details = [f"source: {type(source).__name__}"]
        raise explain(ImportError_, subject, "the source is not a program", details, advice)
    return source


def require_flatbuffers(kind: type[MinixlaError], subject: str) -> None:
    """Raise an error of class `kind` if the package that jax.export's files need is missing."""
    if find_spec("flatbuffers") is None:
        problem = "files of jax.export need the package flatbuffers, which is not installed"
        raise explain(kind, subject, problem, advice="Run: pip install 'minixla[export]'.")


class Opened(NamedTuple):
    """The source of `import_stablehlo` after reading."""

    program: Sent
    exported: jax.export.Exported | None  # jax.export's description, without its program


def opened(source: Any) -> Opened:
    """Read the source of `import_stablehlo`."""
    constants: dict[str, np.ndarray] = {}
    exported, is_exported = None, False
    if isinstance(source, jax.export.Exported):
        exported, source = source, bytes(source.mlir_module_serialized)
    else:
        source = content(source, _SUFFIXES, SUBJECT, ADVICE)
        if not source.strip():
            details = ["blanks" if source else "nothing"]
            raise explain(ImportError_, SUBJECT, "the source is empty", details, ADVICE)
        if isinstance(source, str) or not source.startswith(_BYTECODE):
            source, constants = without_constants(source)
            try:
                source = source if isinstance(source, str) else source.decode()
            except UnicodeDecodeError:
                require_flatbuffers(ImportError_, SUBJECT)
                is_exported = True
    if isinstance(source, str):
        _check_text(source)
    try:
        text = sent(source)
    except Refusal as refusal:
        raise _refused(source, refusal) from None
    if isinstance(source, bytes):
        _check_strings(text.text)
    if is_exported:
        exported = jax.export.deserialize(source)  # type: ignore[arg-type]  # reads any buffer
    if exported is not None and not exported.uses_global_constants:  # without symbolic sizes
        exported = replace(exported, mlir_module_serialized=b"")
    return Opened(text._replace(constants=constants | text.constants), exported)


def _refused(source: str | bytes, refusal: Refusal) -> ImportError_:
    """Return the error for a program that MLIR rejects; it names the line that crashes the parser.

    The parser reads a prefix of the text until the rest is missing, unless it crashes before.
    """
    problem = refusal.problem
    if isinstance(source, bytes):
        says = "MLIR's reader crashes: " * refusal.died + problem.strip()[:500]
        details = [f"{len(source)} bytes that begin with {source[:16]!r}", says]
        problem = "the bytes are neither text, MLIR's bytecode nor what jax.export serialized"
        return explain(ImportError_, SUBJECT, problem, details, ADVICE)
    if not refusal.died:
        words = refusals.in_words(problem)
        return located(refusal.place, words, (), refusals.advice_for(problem), source)

    def dies(part: str) -> bool:
        refusal = refusal_of(part)
        return refusal is not None and refusal.died

    # If the parser does not end, each try takes seconds.
    at, is_whole = (0, True) if refusal.is_slow else refusals.first_failing(source, dies)
    if is_whole:
        problem = f"MLIR's parser or verifier crashes on the program: {problem}"
        return explain(ImportError_, SUBJECT, problem, (), _DEADLY)
    return refused_at(source, at, f"MLIR's parser crashes on this line: {problem}", _DEADLY)


def refusal_of(text: str, stand_ins: Mapping[str, str] | None = None) -> Refusal | None:
    """Return the reason why a text is not a program; None if it is one."""
    try:
        sent(text, stand_ins)
    except Refusal as refusal:
        return refusal
    return None


def read_module(source: str | bytes, passes: str = "") -> Any:
    """Return the MLIR module of a text that was written here, or of bytecode that MLIR wrote.

    `passes` names StableHLO's passes that run on its functions.
    """
    try:
        with _of_thread.contexts.context_for(len(source)):
            module = ir.Module.parse(source)
            if passes:
                _register()
                PassManager.parse(f"builtin.module(func.func({passes}))").run(module.operation)
            return module
    except ir.MLIRError as error:
        said = [(diagnostic.location, diagnostic.message) for diagnostic in error.error_diagnostics]
        place, problem = said[0] if said else ("", f"MLIR cannot read it: {error}")
        raise located(place, problem, (), refusals.advice_for(problem)) from None


class _OfThread(threading.local):
    """The MLIR contexts of a thread."""

    def __init__(self) -> None:
        self.contexts = SharedContexts(make_ir_context)


_of_thread = _OfThread()


def _check_text(text: str) -> None:
    check_characters(text, partial(refused_at, text, advice=refusals.SYNTAX))
    _check_strings(text)
    _check_nesting(text)
    start = -1  # the start of the last all_to_all in the line
    for match in _NO_GROUPS.finditer(text) if "all_to_all" in text else ():
        if match[2] and start >= 0:
            raise refused_at(text, start, "an all_to_all without replica groups", _GROUPS)
        start = match.start() if match[1] else start if match[2] else -1


def _check_nesting(text: str) -> None:
    """Reject nested brackets at which the parser's recursion would end the process."""
    # Neither strings nor comments span lines; comparisons are rare, and checked below.
    quiet = text
    for mark, pattern in (('"', _STRING), ("/", _COMMENT)):
        quiet = pattern.sub("", quiet) if mark in quiet else quiet
    brackets = quiet.encode().replace(b"->", b"").translate(None, _NO_BRACKETS)
    if _depths(brackets).max(initial=0) <= _MOST_NESTED:
        return
    quiet = _QUIET.sub(lambda match: " " * len(match[0]), text)
    deep = _depths(quiet.encode("latin-1", "replace")) > _MOST_NESTED
    if deep.any():
        problem = f"more than {_MOST_NESTED} nested brackets"
        raise refused_at(text, int(np.argmax(deep)), problem, _NESTED)


def _depths(text: bytes) -> np.ndarray:
    """Return how many brackets are open after each character."""
    return np.cumsum(_STEPS[np.frombuffer(text, np.uint8)], dtype=np.int32)


def _check_strings(text: str) -> None:
    """Reject strings that are not UTF-8: Python's interface to MLIR ends the process for them."""
    if "\\" not in text or _HIGH.search(text) is None:
        return

    def unescaped(match: re.Match[bytes]) -> bytes:
        return match[0] if match[1] == b"\\" else bytes.fromhex(match[1].decode())

    for match in _STRING.finditer(text):
        try:
            _ESCAPE.sub(unescaped, match[0].encode()).decode()
        except UnicodeDecodeError:
            raise refused_at(text, match.start(), "a string that is not UTF-8", _UTF8) from None
