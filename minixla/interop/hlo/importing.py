"""import_hlo: HLO text as functions of ours."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from minixla.core.errors import ImportError_, TransformError, explain
from minixla.interop.hlo.module import Module
from minixla.interop.hlo.syntax import parse_module
from minixla.interop.hlo.text import SUBJECT
from minixla.interop.importing import ImportedProgram

__all__ = ["import_hlo"]

# Transformations and XLA recurse over calls within each other.
_DEEPEST = 100
_ADVICE = "Give HLO text, or the path of a file that holds it."


def import_hlo(source: Any) -> ImportedProgram:
    """An HLO program as a function of ours.

    Args:
        source: HLO text as XLA prints it, optimised or not (`lowered.as_text("hlo")`,
            `compiled.as_text()`, files of `--xla_dump_to`), as a string or bytes; or a path.

    Returns:
        A callable with `graph`, the Graph of the entry computation, and `functions`, every
        computation of the module by name. They take and give arrays one by one: the members of
        tuples among parameters and results stand in their place.

    Raises:
        ImportError_: `source` is no such program; the message names the line and column, what was
            found and what to do.
    """
    module = parse_module(_text(source))
    translated = Module(module)
    translated.translate()
    assert module.entry is not None, "the parser chooses one"
    name, graphs = module.entry.name, translated.graphs
    deep = {each for each, depth in translated.depths.items() if depth > _DEEPEST}
    made = (_DeepProgram if name in deep else ImportedProgram)(graphs[name], graphs)
    made.functions.update({each: _DeepProgram(graphs[each], {}) for each in deep})
    return made


class _DeepProgram(ImportedProgram):
    """A program that can be looked at, but not run."""

    def __call__(self, *operands: Any) -> NoReturn:
        """Refuses: what evaluates and transforms programs, XLA too, recurses over calls."""
        raise explain(
            TransformError,
            self.graph.name,
            f"more than {_DEEPEST} computations call each other in a row",
            (),
            "Inline those that are called once (XLA's pass call-inliner), or write the repetition "
            "as a while.",
        )


def _text(source: Any) -> str:
    if isinstance(source, os.PathLike):
        with open(source, "rb") as file:
            source = file.read()
    if isinstance(source, (bytes, bytearray, memoryview)):
        try:
            return bytes(source).decode()
        except UnicodeDecodeError as error:
            given = [f"{len(source)} bytes that begin with {bytes(source[:16])!r}", str(error)]
            problem = "the bytes are no text"
            raise explain(ImportError_, SUBJECT, problem, given, _ADVICE) from None
    if not isinstance(source, str):
        given = [f"source: {type(source).__name__}"]
        raise explain(ImportError_, SUBJECT, "the source is no program", given, _ADVICE)
    return source
