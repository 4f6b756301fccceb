"""Lines of a program that say of other values what an earlier line says.

Long programs say few different things. MLIR reads the first line of each form; for a run of others
it gets one operation, which takes and gives what they do, and they become what the first ones
became. Whatever does not fit raises an error, upon which MLIR reads the whole text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jax.extend.mlir import ir

from minixla.core.collecting import collection_paused
from minixla.core.graph import Instruction
from minixla.core.shapes import AnyShape
from minixla.interop.building import Builder
from minixla.interop.refusals import located
from minixla.interop.values import BLOCK, sources_of

#: The operation that stands for a run, and the attribute that is its number.
STAND_IN = "builtin.unrealized_conversion_cast"
_NUMBER = "minixla_run"
# In characters and lines: what is shorter is not worth it.
_LONG, _LEAST = 1 << 14, 3
# Of values; a "#" is that of one of several results.
_NAMES = re.compile(r"(?a)(%[\w.$#-]+)")
_TYPE = r"tensor<(?:[^<>\n]|<[^<>\n]*>)*>"
_TYPES = re.compile(_TYPE)
_ARGUMENT = re.compile(rf": ({_TYPE})")
_OPERATION = re.compile(r'(:\d+)? = "?((?:stablehlo|func)\.\w+|call)\b')
# Behind the last name of a line, up to what the next one begins with.
_RESULT = re.compile(rf"[^\n]*?(?::|->|,) ({_TYPE})( loc\([^\n]*\))?\n\s*")
_BLOCK = re.compile(r"\{\s*\n|\n\s*\}")
# Characters: what is longer holds a constant's numbers.
_MOST = 1 << 12


@dataclass(slots=True, eq=False)
class _Form:
    """What lines say but for names.

    Attributes:
        name, operands: the names in the first such line.
        type: that of the result.
        is_placed: whether the line says where it comes from.
    """

    name: str
    operands: list[str]
    type: str
    is_placed: bool


#: A form, and the names of the result and the operands.
_Line = tuple[_Form, str, list[str]]


class Run(NamedTuple):
    """Lines one after the other, in whose place an operation stands.

    Attributes:
        lines: what each says.
        span: where they stand between the names of the text.
        forms: the forms that no run before has.
        given: by name the types of what the operation takes: values that the lines read, and the
            results and operands of each form's first line.
        results: by name the types of the values that others read.
    """

    lines: list[_Line]
    span: tuple[int, int]
    forms: list[_Form]
    given: dict[str, str]
    results: dict[str, str]

    def written(self, number: int) -> str:
        """The operation, on the first of as many lines."""
        (taken, types), (made, kinds) = [
            (", ".join(pairs), ", ".join(pairs.values())) for pairs in (self.given, self.results)
        ]
        attribute = f"{{{_NUMBER} = {number} : i64}}"
        operation = f'{made} = "{STAND_IN}"({taken}) {attribute} : ({types}) -> ({kinds})'
        return operation + "\n" * len(self.lines)


class _Function:
    """The runs of a function, and the names that its other lines hold."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.named: set[str] = set()
        self.types: dict[str, str] = {}
        #: Forms of the block; by what stands behind the first name, how many names lines have.
        self.forms: dict[tuple[str, ...], _Form] = {}
        self.widths: dict[str, tuple[int, ...]] = {}
        self._has: set[_Form] = set()

    def end(self, lines: list[_Line], span: tuple[int, int]) -> None:
        """Makes a run of lines, for now as if all that they define were read by others."""
        made = {name: form.type for form, name, _ in lines}
        read = dict.fromkeys([name for _, _, operands in lines for name in operands])
        self.types.update(made)
        forms = [form for form in {line[0]: None for line in lines} if form not in self._has]
        names = [name for name in read if name not in made]
        names += [name for form in forms for name in (form.name, *form.operands)]
        if len(made) < max(_LEAST, len(lines)) or not self.types.keys() >= {*names}:
            self.named.update(made, read)
            return
        self._has.update(forms)
        given = {name: self.types[name] for name in names}
        self.runs.append(Run(lines, span, forms, given, made))

    def settled(self) -> list[Run]:
        """The runs, of whose results each gives those that others read, and one at least."""
        counts = Counter(name for run in self.runs for name in (*run.given, *run.results))
        named = {name.partition("#")[0] for name in self.named}
        for run in self.runs:
            last = [*run.results][-1]
            for name in [*run.results]:
                if counts[name] == 1 and name not in named and name != last:
                    del run.results[name]
        return self.runs


def folded(text: str, simple: frozenset[str]) -> tuple[str, list[Run]]:
    """A text in which operations stand for runs of lines, other lines where they were; the runs.

    Args:
        text: a program in MLIR's notation.
        simple: the operations that become one instruction on the same operands, which depends on
            nothing but what the line says.
    """
    if len(text) < _LONG or _NUMBER in text:
        return text, []
    with collection_paused():
        parts = _NAMES.split(text)
        runs = [run for function in _functions(parts, simple) for run in function.settled()]
    pieces, done = [], 0
    for number, run in enumerate(runs):
        start, end = run.span
        pieces += [*parts[done:start], run.written(number)]
        done = end
    return "".join([*pieces, *parts[done:]]), runs


def _functions(parts: list[str], simple: frozenset[str]) -> Iterator[_Function]:
    function, lines = _Function(), list[_Line]()
    at = start = 1  # each name is followed by what stands between it and the next one
    while at < len(parts):
        for width in function.widths.get(parts[at + 1], ()):
            form = function.forms.get(tuple(parts[at + 1 : at + width : 2]))
            if form is not None and (lines or _is_first(parts, at)):
                lines.append((form, parts[at], parts[at + 2 : at + width : 2]))
                at += width
                break
        else:
            if lines:
                function.end(lines, (start, at))
                lines = []
            at = start = _read(function, parts, at, simple)
            if "func.func" in parts[at - 1]:
                yield function
                function = _Function()
    yield function


def _is_first(parts: list[str], at: int) -> bool:
    """Whether a line begins with a name."""
    return not parts[at - 1].rpartition("\n")[2].strip()


def _read(function: _Function, parts: list[str], at: int, simple: frozenset[str]) -> int:
    """Notes what a line of no known form says, or a name within one; where the next name is."""
    name, behind, end = parts[at], parts[at + 1], at + 2
    kind, argument = _OPERATION.match(behind), _ARGUMENT.match(behind)
    if argument is not None:
        function.types[name] = argument[1]
    elif kind is not None and _is_first(parts, at):
        while end < len(parts) and "\n" not in parts[end - 1]:
            end += 2
        last = parts[end - 1][:_MOST]
        result = _RESULT.match(last)
        if kind[1] is not None:
            types = _TYPES.findall(last.partition("\n")[0].rpartition("->")[2])
            function.types.update({f"{name}#{index}": each for index, each in enumerate(types)})
        elif result is not None:
            function.types[name] = result[1]
            key, operands = tuple(parts[at + 1 : end : 2]), parts[at + 2 : end : 2]
            is_whole = result.end() == len(last) and not any("sdy." in each for each in key)
            if kind[2] in simple and is_whole:
                function.forms[key] = _Form(name, operands, result[1], bool(result[2]))
                known = function.widths.get(behind, ())
                function.widths[behind] = (*{*known, end - at},)
    function.named.update(parts[at:end:2])
    if _BLOCK.search(parts[end - 1]):
        function.forms.clear()  # a block does not see what others define
    return end


class RunReader:
    """Makes instructions of runs, as the operations that stand for them come up."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        # Instruction of the first line, and its operands' shapes.
        self._meanings: dict[_Form, tuple[Instruction, tuple[AnyShape, ...]]] = {}

    def read(self, operation: Any, builder: Builder) -> None:
        """Adds the instructions of a run."""
        run = self._runs[ir.IntegerAttr(operation.attributes[_NUMBER]).value]
        location = operation.location
        values = dict(zip(run.given, builder.values_of(operation.operands), strict=True))
        for form in run.forms:
            first, operands = values[form.name].instruction, [values[x] for x in form.operands]
            if first is None or len(first.results) != 1 or [*first.operands] != operands:
                raise located(location, f"{form.name} is not one instruction", (), "")
            self._meanings[form] = first, tuple([value.shape for value in operands])
        add, meanings = builder.instructions.append, self._meanings
        start = location.start_line if isinstance(location, ir.FileLineColLoc) else 0
        for line, (form, name, names) in enumerate(run.lines, start):
            first, shapes = meanings[form]
            try:
                operands = tuple([values[each] for each in names])
            except KeyError:
                raise located(location, f"{name} reads what comes later", (), "") from None
            if tuple([each.shape for each in operands]) != shapes:
                raise located(location, f"{name} has operands of other types", (), "")
            source = first.source
            if not form.is_placed:
                source = sources_of(location.filename, line // BLOCK)[line % BLOCK]
            step = Instruction(first.op, operands, first.result_shapes, source)
            add(step)
            values[name] = step.results[0]
        for mlir_value, name in zip(operation.results, run.results, strict=True):
            builder.define(mlir_value, values[name])
