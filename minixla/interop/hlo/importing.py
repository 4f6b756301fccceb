"""`import_hlo`: HLO text and serialized HLO modules as functions."""

import re
from collections.abc import Iterator
from typing import Any

from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import TransformError, explain
from minixla.core.shapes import TOKEN
from minixla.core.tracebacks import api_boundary
from minixla.interop.hlo.module import HloModule
from minixla.interop.hlo.reading import opened
from minixla.interop.hlo.text import SUBJECT, HloText
from minixla.interop.imported import ImportedProgram
from minixla.interop.progress import shown_progress
from minixla.interop.reading import ProgramText, content
from minixla.interop.shardings import Shardings
from minixla_ops import create_token

# Transformations and XLA recurse over nested calls.
_DEEPEST = 100
_ADVICE = "Pass HLO text, a serialized HLO module, or the path of a file with one of these."
_LOST = (
    'Pass shardings="drop" to import the program without '
    "them. Before XLA's partitioner a program computes the same on one device; after it, it is the "
    "part of each device."
)
# HLO does not always state the number of devices; these shardings are equal on all devices.
_SAME_EVERYWHERE = re.compile(r"\{*(replicated|maximal device=0|manual)?\}*", re.ASCII)
_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)", re.ASCII)
_STRING = r'"(?:[^"\\]|\\.)*+"?'
# A longer sharding is neither read nor shown.
_LONGEST = 100
# The brace of a sharding's value follows its name.
_BRACE = re.compile(rf"{_STRING}|((?<=[\s,])sharding=)?\{{|\}}|\n", re.DOTALL)


@api_boundary
@checks_kinds
def import_hlo(source: ProgramText, *, shardings: Shardings = "refuse") -> ImportedProgram:
    """Import an HLO program as a function.

    Args:
        source: HLO text as XLA prints it, optimized or not (`lowered.as_text("hlo")`,
            `compiled.as_text()`, files of `--xla_dump_to`), as a string or bytes; the bytes of a
            serialized HloModuleProto or HloProto (`--xla_dump_hlo_as_proto`); or a path (a string
            that ends in .hlo, .txt or .pb is one).
        shardings: what to do with `sharding=` attributes that split values over devices: `refuse`
            raises ImportError_, `drop` removes them.

    Returns:
        A callable with `graph`, the Graph of the entry computation, and `functions`, every
        computation of the module by name. They take and return single arrays: tuples among
        parameters and results are replaced by their members, and tokens are omitted.

    Raises:
        ImportError_: `source` is not such a program; the message gives the line and column, the
            problem and a fix.

    Warns:
        UserWarning: the program has attributes that graphs do not hold, such as
            `frontend_attributes`; the message names them and their lines.

    Example:
        >>> text = jax.jit(lambda x: x + 1).lower(np.float32(0)).as_text("hlo")
        >>> mx.import_hlo(text)(np.float32(2))
        Array(3., dtype=float32)
    """
    source = content(source, (".hlo", ".txt", ".pb"), SUBJECT, _ADVICE)
    text = opened(source)
    if shardings != "drop":
        _refuse_shardings(text)
    with shown_progress(SUBJECT) as say:
        say("reading")
        module = HloModule(text)
        module.translated(say)
    module.lost.warn(SUBJECT)
    return _HloProgram(module.tables["computations"][module.tables["entry"]], module)


class _HloProgram(ImportedProgram):
    """A computation of a module; the entry also has all others.

    Tokens are neither arguments nor results of a call.
    """

    def __init__(self, name: str, module: HloModule, is_entry: bool = True) -> None:
        super().__init__(module.graphs[name], {})
        if is_entry:
            self.functions = {graph: _HloProgram(graph, module, False) for graph in module.graphs}

    def __call__(self, *operands: Any) -> Any:
        """Return the result, or the tuple of results."""
        if self.graph.depth >= _DEEPEST:
            problem = f"more than {_DEEPEST} nested calls of computations"
            advice = (
                "Inline those that are called once (XLA's pass call-inliner), or write the "
                "repetition as a while."
            )
            raise explain(TransformError, self.graph.name, problem, (), advice)
        shapes, arguments, remaining = self.graph.input_shapes, operands, iter(operands)
        # Too many or too few arguments raise an error with the count of all inputs.
        if len(operands) == sum([shape is not TOKEN for shape in shapes]):
            arguments = tuple([create_token() if x is TOKEN else next(remaining) for x in shapes])
        pairs = zip(self._flat(arguments), self.graph.output_shapes, strict=True)
        results = tuple([value for value, shape in pairs if shape is not TOKEN])
        return results[0] if len(results) == 1 else results


def _refuse_shardings(source: HloText) -> None:
    """Raise ImportError_ at the first sharding of a program that distinguishes devices."""
    if "sharding=" not in source.text:
        return
    start = max(source.text.find("HloModule"), 0)
    end = source.text.find("\n", start) % (len(source.text) + 1)
    match = _PARTITIONS.search(source.text, start, end)
    is_partitioned = match is not None and match[1] != "1"
    for position, sharding in sorted(_shardings(source.text)):
        if not (is_partitioned or not _SAME_EVERYWHERE.fullmatch(sharding)):
            continue
        problem = (
            f"{source.opcode(position)}: sharding={sharding[:80]} splits values over "
            "devices, which would be lost"
        )
        raise source.refused(position, problem, (), _LOST)


def _shardings(text: str) -> Iterator[tuple[int, str]]:
    """Return the braced values of attributes `sharding=`, each on one line, and their positions."""
    opened: list[re.Match[str]] = []
    for match in _BRACE.finditer(text):
        last = match[0][-1]
        if last == "{":
            opened.append(match)
        elif last != "}":
            opened.clear()
        elif opened and (begin := opened.pop())[1]:
            start = begin.end() - 1
            yield start, text[start : min(match.end(), start + _LONGEST)]
