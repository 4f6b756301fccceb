"""Programs in files."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Any

from minixla.core.errors import ImportError_, MinixlaError, explain

_NO_PROGRAM = re.compile(r"[^\n{}()%]{1,4096}")


def is_path(source: Any, suffixes: tuple[str, ...]) -> bool:
    """Whether a source names a file: a path, or a string that ends so or that a file has."""
    if not isinstance(source, str):
        return isinstance(source, os.PathLike)
    if _NO_PROGRAM.fullmatch(source) is None or "\0" in source:
        return False
    return source.endswith(suffixes) or (os.sep in source and os.path.exists(source))


def content(source: Any, suffixes: tuple[str, ...], subject: str, advice: str) -> str | bytes:
    """A program's text or bytes: `source` itself, or what is in the file that it names."""
    if is_path(source, suffixes):
        try:
            with open(source, "rb") as file:
                return file.read()
        except (OSError, ValueError) as error:
            advice = "Give a path of a file that holds a program, or the program itself."
            problem = f"cannot read {source}: {error}"
            raise explain(ImportError_, subject, problem, (), advice) from None
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if not isinstance(source, (str, bytes)):
        given = [f"source: {type(source).__name__}"]
        raise explain(ImportError_, subject, "the source is no program", given, advice)
    return source


def require_flatbuffers(kind: type[MinixlaError], subject: str) -> None:
    """Raises an error of class `kind` where the package that jax.export's files need is missing."""
    if find_spec("flatbuffers") is None:
        problem = "files of jax.export need the package flatbuffers, which is not installed"
        raise explain(kind, subject, problem, advice="Run: pip install 'minixla[export]'.")
