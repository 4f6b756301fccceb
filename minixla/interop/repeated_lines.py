"""Lines of a program that say of other values what an earlier line says.

Long programs say few different things. MLIR reads the first line of each form; for a run of others
it gets one operation, which takes and gives what they do, and they become what the first ones
became. Whatever does not fit raises an error, upon which MLIR reads the whole text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
_LONG, _LEAST = 1 << 12, 3
# How often lines that name values are to be of one form, on average.
_REPEATED = 4
# Of values; a "#" is that of one of several results.
_NAME = re.compile(r"(?a)%[\w.$#-]+")
_TYPE = r"tensor<(?:[^<>\n]|<[^<>\n]*>)*>"
_TYPES = re.compile(_TYPE)
_ARGUMENT = re.compile(rf"(?a)(%[\w.$-]+): ({_TYPE})")
_RESULT = re.compile(rf".*(?::|->|,) ({_TYPE})( loc\(.*\))?\s*")
#: Forms of lines, which have % in place of each name.
_DEFINES = re.compile(r'\s*%(?::\d+)? = "?((?:stablehlo|func)\.\w+|call)\b')
_BLOCK = re.compile(r"\s*\}|.*\{\s*$")


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
        start: the number of the first line.
        forms: the forms that no run before has.
        given: by name the types of what the operation takes: values that the lines read, and the
            results and operands of each form's first line.
        results: by name the types of the values that others read.
    """

    lines: list[_Line]
    start: int
    forms: list[_Form]
    given: dict[str, str]
    results: dict[str, str]

    def written(self, number: int) -> str:
        """The operation."""
        (taken, types), (made, kinds) = [
            (", ".join(pairs), ", ".join(pairs.values())) for pairs in (self.given, self.results)
        ]
        attribute = f"{{{_NUMBER} = {number} : i64}}"
        return f'{made} = "{STAND_IN}"({taken}) {attribute} : ({types}) -> ({kinds})'


class _Function:
    """The runs of a function, and the names that its other lines hold."""

    def __init__(self, lines: list[str], counts: Mapping[str, int], simple: frozenset[str]) -> None:
        self.runs: list[Run] = []
        #: Forms of the block, by the line but for names.
        self.forms: dict[str, _Form] = {}
        self._lines, self._counts, self._simple = lines, counts, simple
        self._named: set[str] = set()
        self._types: dict[str, str] = {}
        # Where names are defined whose types nobody asked for.
        self._places: dict[str, int] = {}
        self._has: set[_Form] = set()

    def read(self, at: int, written: str) -> None:
        """Notes what a line says that is of no known form."""
        line = self._lines[at]
        names, kind = _NAME.findall(line), _DEFINES.match(written)
        self._named.update(names)
        if kind is None:
            self._types.update(_ARGUMENT.findall(line))
        else:
            name, *operands = names
            self._places[name] = at
            self._types.pop(name, None)
            if self._counts[written] > 1 and kind[1] in self._simple and "sdy." not in written:
                result = _RESULT.fullmatch(written)
                if result is not None:
                    self.forms[written] = _Form(name, operands, result[1], bool(result[2]))
        if _BLOCK.match(written):
            self.forms.clear()  # a block does not see what others define

    def _type(self, name: str) -> str | None:
        """The type of a value; None where its line does not end with it."""
        whole, _, number = name.partition("#")
        if name not in self._types and whole in self._places:
            line = self._lines[self._places[whole]]
            if number:
                types = _TYPES.findall(line.rpartition("->")[2])
                self._types |= {f"{whole}#{index}": each for index, each in enumerate(types)}
            elif result := _RESULT.fullmatch(line):
                self._types[name] = result[1]
        return self._types.get(name)

    def end(self, lines: list[_Line], start: int) -> None:
        """Makes a run of lines, for now as if all that they define were read by others."""
        made = {name: form.type for form, name, _ in lines}
        self._types.update(made)
        read = dict.fromkeys([name for _, _, operands in lines for name in operands])
        if len(made) >= max(_LEAST, len(lines)):
            forms = [form for form in {line[0]: None for line in lines} if form not in self._has]
            names = [name for name in read if name not in made]
            names += [name for form in forms for name in (form.name, *form.operands)]
            given = {name: kind for name in names if (kind := self._type(name)) is not None}
            if len(given) == len({*names}):
                self._has.update(forms)
                self.runs.append(Run(lines, start, forms, given, made))
                return
        self._named.update(made, read)

    def settled(self) -> list[Run]:
        """The runs, of whose results each gives those that others read, and one at least."""
        counts = Counter(name for run in self.runs for name in (*run.given, *run.results))
        named = {name.partition("#")[0] for name in self._named}
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
        lines, forms = text.split("\n"), _NAME.sub("%", text).split("\n")
        counts = Counter([form for form in forms if "%" in form])  # of others, places are many
        if counts.total() < _REPEATED * len(counts):
            return text, []
        runs = [
            run
            for function in _functions(lines, forms, counts, simple)
            for run in function.settled()
        ]
        for number, run in enumerate(runs):
            end = run.start + len(run.lines)
            lines[run.start : end] = [run.written(number), *[""] * (len(run.lines) - 1)]
    return "\n".join(lines), runs


def _functions(
    lines: list[str], forms: list[str], counts: Mapping[str, int], simple: frozenset[str]
) -> Iterator[_Function]:
    function, run = _Function(lines, counts, simple), list[_Line]()
    for at, written in enumerate(forms):
        form = function.forms.get(written)
        if form is not None:
            name, *operands = _NAME.findall(lines[at])
            run.append((form, name, operands))
            continue
        if run:
            function.end(run, at - len(run))
            run = []
        if "func.func" in written:
            yield function
            function = _Function(lines, counts, simple)
        function.read(at, written)
    yield function


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
