"""import_hlo: HLO text as functions of ours."""

from __future__ import annotations

from typing import Any, NoReturn

from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import TOKEN
from minixla.core.tracebacks import api_boundary
from minixla.interop.files import content, is_path
from minixla.interop.hlo.module import Module
from minixla.interop.hlo.shardings import refuse_shardings
from minixla.interop.hlo.syntax import parse_module
from minixla.interop.hlo.text import SUBJECT
from minixla.interop.importing import ImportedProgram
from minixla.interop.shardings import Shardings, check_shardings
from minixla_ops import create_token

__all__ = ["import_hlo"]

# Transformations and XLA recurse over calls within each other.
_DEEPEST = 100
_ADVICE = "Give HLO text, or the path of a file that holds it."


@api_boundary
def import_hlo(source: Any, *, shardings: Shardings = "refuse") -> ImportedProgram:
    """An HLO program as a function of ours.

    Args:
        source: HLO text as XLA prints it, optimised or not (`lowered.as_text("hlo")`,
            `compiled.as_text()`, files of `--xla_dump_to`), as a string or bytes; or a path (a
            string that ends in .hlo or .txt is one).
        shardings: what to do with `sharding=` attributes by which devices hold different parts of
            values: `refuse` raises ImportError_, `drop` leaves them out.

    Returns:
        A callable with `graph`, the Graph of the entry computation, and `functions`, every
        computation of the module by name. They take and give arrays one by one: the members of
        tuples among parameters and results stand in their place, and tokens are left out.

    Raises:
        ImportError_: `source` is no such program; the message names the line and column, what was
            found and what to do.
    """
    check_shardings(SUBJECT, shardings)
    module = parse_module(_text(source))
    if shardings == "refuse":
        refuse_shardings(module)
    translated = Module(module)
    translated.translate()
    assert module.entry is not None, "the parser chooses one"
    graphs = translated.graphs
    kinds = {name: _kind(graphs[name], depth) for name, depth in translated.depths.items()}
    name = module.entry.name
    made = kinds[name](graphs[name], graphs)
    special = {each: kind for each, kind in kinds.items() if kind is not ImportedProgram}
    made.functions.update({each: kind(graphs[each], {}) for each, kind in special.items()})
    return made


def _kind(graph: Graph, depth: int) -> type[ImportedProgram]:
    """How a computation is called."""
    if depth > _DEEPEST:
        return _DeepProgram
    has_tokens = TOKEN in (*graph.input_shapes, *graph.output_shapes)
    return _OrderedProgram if has_tokens else ImportedProgram


class _OrderedProgram(ImportedProgram):
    """A program that takes or gives tokens: they are no arguments and no results of a call."""

    def __call__(self, *operands: Any) -> Any:
        """The result, or the tuple of results, tokens left out."""
        count = sum([shape is not TOKEN for shape in self.graph.input_shapes])
        # Too many or too few are refused with the count of all inputs.
        given, remaining = list(operands), iter(operands)
        if len(operands) == count:
            shapes = self.graph.input_shapes
            given = [create_token() if each is TOKEN else next(remaining) for each in shapes]
        pairs = zip(self._flat(given), self.graph.output_shapes, strict=True)
        results = tuple([value for value, shape in pairs if shape is not TOKEN])
        return results[0] if len(results) == 1 else results


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
    if is_path(source, (".hlo", ".txt")):
        source = content(source, SUBJECT)
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
