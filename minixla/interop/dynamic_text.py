"""Dynamic operations of StableHLO for a text whose sizes are polynomials of symbols."""

import re
from collections.abc import Callable, Sequence

from minixla.interop.symbolic_text import MarkedText, operation_in, unsupported

_MARK = re.compile(r"⟨(\d+)⟩")
_T = r"tensor<((?:[^<>]|complex<f(?:32|64)>)*)>"
_TYPE = re.compile(_T)
_SIZE = re.compile(r"(\d+|⟨\d+⟩)x")
_LOCATION = re.compile(r"^(.*?)( loc\(#loc\d+\))?$")
_HEADER = re.compile(r"  func\.func (?:public|private) @(\w+)\((.*?)\) -> ")
_CONSTANT = re.compile(rf"(\s*)(%\w+) = stablehlo\.constant dense<(.*)> : {_T}")
_BROADCAST = re.compile(
    rf"(\s*)(%\w+) = stablehlo\.broadcast_in_dim (%\w+), dims = \[(.*)\] : \({_T}\) -> {_T}"
)
_RESHAPE = re.compile(rf"(\s*)(%\w+) = stablehlo\.reshape (%\w+) : \({_T}\) -> {_T}")
_IOTA = re.compile(rf'(\s*)(%\w+) = "stablehlo\.iota"\(\) <{{(.*)}}> : \(\) -> \({_T}\)')
_SLICE = re.compile(rf"(\s*)(%\w+) = stablehlo\.slice (%\w+) \[(.*)\] : \({_T}\) -> {_T}")
_PAD = re.compile(
    r"(\s*)(%\w+) = stablehlo\.pad (%\w+), (%\w+), low = \[(.*)\], high = \[(.*)\], "
    rf"interior = \[(.*)\] : \({_T}, {_T}\) -> {_T}"
)
_GATHER = re.compile(
    r'(\s*)(%\w+) = "stablehlo\.gather"\((%\w+), (%\w+)\) <{(.*), slice_sizes = array<i64: (.*?)>'
    rf"(.*)}}> : \({_T}, {_T}\) -> \({_T}\)"
)
#: Operations whose result types do not follow from operands and attributes.
_OPAQUE = ("custom_call", "rng", "rng_bit_generator", "infeed", "recv")
_COMPOSITE = re.compile(
    r'(\s*)(%\w+(?::\d+)?) = "stablehlo\.composite"\((.*?)\) '
    r"<{.*, decomposition = (@\w+), version = .*}> : (\(.*)"
)


def dynamic_text(name: str, marked: MarkedText) -> str:
    """Return a module with dynamic sizes; `name` is what errors call the program.

    Raises:
        TransformError: an operation does not allow symbolic sizes; the error names its line.
    """
    lines: list[str] = []
    function: _Function | None = None
    for line in marked.text.splitlines():
        header = _HEADER.match(line)
        if header is not None:
            function = _Function(name, marked, header[2])
            lines.append(_dynamic(line))
        elif function is None or line in ("  }", "}"):
            if function is not None:
                lines += [*function.sizes(), *function.lines]
            function = None
            lines.append(line)
        else:
            function.add(line)
    return "\n".join(lines) + "\n"


def _dynamic(line: str) -> str:
    """Return a line with `?` for the marks in its types."""
    return _TYPE.sub(lambda type_: _MARK.sub("?", type_[0]), line)


def _sizes_in(type_: str) -> list[str]:
    """Return the sizes in a tensor type, numbers or marks."""
    return _SIZE.findall(type_)


class _Function:
    """A function of the module that is written with dynamic operations."""

    def __init__(self, name: str, marked: MarkedText, arguments: str) -> None:
        self._name, self._marked = name, marked
        self._arguments = re.findall(rf"(%\w+): {_T}", arguments)
        self._used: dict[int, None] = {}
        self._count = 0
        self._line = ""  # the first that reads a size
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a line of its body."""
        match = _LOCATION.match(line)
        assert match is not None
        body, location = match[1], match[2] or ""
        is_sized = _MARK.search(body) is not None
        written = self._written(body) if is_sized else [body]
        self._line = self._line or line if self._used else ""
        if written is None or _MARK.search("".join(written)):
            problem = f"{operation_in(line)} does not allow symbolic sizes here"
            # The location of an operation with regions follows them.
            rest = self._marked.text.partition(line)[2]
            place = re.search(r" loc\(#loc\d+\)", line + rest)
            sample = _MARK.sub("?", body) + (place[0] if place is not None else "")
            raise unsupported(self._name, problem, sample, self._marked.text)
        self.lines += [each + location for each in written]

    def sizes(self) -> list[str]:
        """Return the lines that compute the sizes that its body reads."""
        symbols: dict[str, str] = {}
        lines: list[str] = []
        wanted = {n for index in self._used for names, _ in self._terms(index) for n in names}
        for symbol in sorted(wanted):
            lines += self._symbol(symbol, symbols)
        for index in self._used:
            terms = []
            for position, (names, coefficient) in enumerate(self._terms(index)):
                term = f"%size{index}_{position}"
                lines.append(_scalar(term, coefficient))
                for number, symbol in enumerate(names):
                    lines.append(_binary(f"{term}_{number}", "multiply", term, symbols[symbol]))
                    term = f"{term}_{number}"
                terms.append(term)
            for position, term in enumerate(terms[1:]):
                lines.append(_binary(f"{terms[0]}s{position}", "add", terms[0], term))
                terms[0] = f"{terms[0]}s{position}"
            lines += [
                f"    %value{index} = stablehlo.reshape {terms[0]} : (tensor<i64>) -> tensor<i64>",
                f"    %narrow{index} = stablehlo.convert {terms[0]} : (tensor<i64>) -> tensor<i32>",
                f"    %size{index} = stablehlo.reshape %narrow{index} : "
                "(tensor<i32>) -> tensor<1xi32>",
            ]
        return lines

    def _terms(self, index: int) -> tuple[tuple[tuple[str, ...], int], ...]:
        return self._marked.polynomials[index].terms

    def _symbol(self, symbol: str, symbols: dict[str, str]) -> list[str]:
        """Return the lines that compute a symbol from the size of an argument."""
        for argument, type_ in self._arguments:
            for dimension, size in enumerate(_sizes_in(type_)):
                mark = _MARK.fullmatch(size)
                terms = dict(self._terms(int(mark[1]))) if mark else {}
                offset = terms.pop((), 0)
                if set(terms) != {(symbol,)}:
                    continue
                value, symbols[symbol] = f"%of_{symbol}", f"%symbol_{symbol}"
                types = f"({_dynamic(f'tensor<{type_}>')}) -> tensor<i32>"
                return [
                    f"    {value}_narrow = stablehlo.get_dimension_size {argument}, "
                    f"dim = {dimension} : {types}",
                    f"    {value} = stablehlo.convert {value}_narrow : "
                    "(tensor<i32>) -> tensor<i64>",
                    _scalar(f"{value}_offset", offset),
                    _scalar(f"{value}_factor", terms[symbol,]),
                    _binary(f"{value}_rest", "subtract", value, f"{value}_offset"),
                    _binary(symbols[symbol], "divide", f"{value}_rest", f"{value}_factor"),
                ]
        operation = operation_in(self._line)
        problem = f"{operation} reads the symbolic size {symbol}, which is not the size of an "
        problem += "argument of the function that it is in"
        raise unsupported(self._name, problem, _MARK.sub("?", self._line), self._marked.text)

    def _fresh(self) -> str:
        self._count += 1
        return f"%shape{self._count}"

    def _vector(self, sizes: Sequence[str], indent: str) -> tuple[list[str], str]:
        """Return the lines that make a vector of sizes, and its name."""
        lines, names = [], []
        for size in sizes:
            mark = _MARK.fullmatch(size)
            if mark is not None:
                self._used[int(mark[1])] = None
                names.append(f"%size{mark[1]}")
            else:
                names.append(self._fresh())
                lines.append(
                    f"{indent}{names[-1]} = stablehlo.constant dense<{size}> : tensor<1xi32>"
                )
        vector = self._fresh()
        types = ", ".join(["tensor<1xi32>"] * len(names))
        lines.append(
            f'{indent}{vector} = "stablehlo.concatenate"({", ".join(names)}) '
            f"<{{dimension = 0 : i64}}> : ({types}) -> tensor<{len(names)}xi32>"
        )
        return lines, vector

    def _written(self, line: str) -> list[str] | None:
        """Return the lines in place of one with marks; None if they cannot be written."""
        rules: list[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str] | None]]]
        rules = [(_CONSTANT, self._constant), (_BROADCAST, self._broadcast)]
        rules += [(_RESHAPE, self._reshape), (_IOTA, self._iota), (_SLICE, self._slice)]
        rules += [(_PAD, self._pad), (_GATHER, self._gather), (_COMPOSITE, self._composite)]
        for pattern, rule in rules:
            match = pattern.fullmatch(line)
            if match is not None:
                return rule(match)
        operation = operation_in(line).rpartition(".")[2]
        return None if operation in _OPAQUE else [_dynamic(line)]

    def _composite(self, match: re.Match[str]) -> list[str]:
        # The types of a composite must equal those of its decomposition, also while sizes are
        # refined one by one. Those of a call need not.
        indent, results, operands, function, types = match.groups()
        return [_dynamic(f"{indent}{results} = func.call {function}({operands}) : {types}")]

    def _constant(self, match: re.Match[str]) -> list[str] | None:
        indent, result, value, type_ = match.groups()
        sizes, element = _sizes_in(type_), _SIZE.sub("", type_)
        scalar, lines = self._fresh(), []
        mark = re.fullmatch(r"⟨(\d+)⟩(?:\.0)?", value)
        if mark is not None:
            self._used[int(mark[1])] = None
            lines.append(
                f"{indent}{scalar} = stablehlo.convert %value{mark[1]} : (tensor<i64>) -> "
                f"tensor<{element}>"
            )
        elif re.fullmatch(r"[^\[\]\"⟨]*", value):
            lines.append(
                f"{indent}{scalar} = stablehlo.constant dense<{value}> : tensor<{element}>"
            )
        else:
            return None
        more, vector = self._vector(sizes, indent) if sizes else ([], "")
        if not sizes:
            return [*lines, f"{indent}{result} = stablehlo.reshape {scalar} : "
                    f"(tensor<{element}>) -> tensor<{element}>"]  # fmt: skip
        return [*lines, *more, _broadcast(indent, result, scalar, vector, "", element, type_)]

    def _broadcast(self, match: re.Match[str]) -> list[str]:
        indent, result, operand, dimensions, before, after = match.groups()
        lines, vector = self._vector(_sizes_in(after), indent)
        return [*lines, _broadcast(indent, result, operand, vector, dimensions, before, after)]

    def _reshape(self, match: re.Match[str]) -> list[str]:
        indent, result, operand, before, after = match.groups()
        if not _MARK.search(after):
            return [_dynamic(match[0])]
        sizes = _sizes_in(after)
        lines, vector = self._vector(sizes, indent)
        types = f"(tensor<{before}>, tensor<{len(sizes)}xi32>) -> tensor<{after}>"
        line = f"{indent}{result} = stablehlo.dynamic_reshape {operand}, {vector} : {types}"
        return [*lines, _dynamic(line)]

    def _iota(self, match: re.Match[str]) -> list[str]:
        indent, result, attributes, type_ = match.groups()
        sizes = _sizes_in(type_)
        lines, vector = self._vector(sizes, indent)
        line = f'{indent}{result} = "stablehlo.dynamic_iota"({vector}) <{{{attributes}}}> : '
        return [*lines, _dynamic(f"{line}(tensor<{len(sizes)}xi32>) -> tensor<{type_}>")]

    def _slice(self, match: re.Match[str]) -> list[str]:
        indent, result, operand, ranges, before, after = match.groups()
        columns = zip(*[part.strip().split(":") for part in ranges.split(",")], strict=True)
        lines, vectors, rank = [], [operand], len(_sizes_in(before))
        for column in columns:
            more, vector = self._vector(column, indent)
            lines += more
            vectors.append(vector)
        types = ", ".join([f"tensor<{before}>", *[f"tensor<{rank}xi32>"] * 3])
        line = f'{indent}{result} = "stablehlo.real_dynamic_slice"({", ".join(vectors)}) : '
        return [*lines, _dynamic(f"{line}({types}) -> tensor<{after}>")]

    def _pad(self, match: re.Match[str]) -> list[str]:
        indent, result, operand, value, *lists, before, scalar, after = match.groups()
        lines, vectors, rank = [], [operand, value], len(_sizes_in(before))
        for numbers in lists:
            more, vector = self._vector([each.strip() for each in numbers.split(",")], indent)
            lines += more
            vectors.append(vector)
        types = f"tensor<{before}>, tensor<{scalar}>" + f", tensor<{rank}xi32>" * 3
        line = f'{indent}{result} = "stablehlo.dynamic_pad"({", ".join(vectors)}) : '
        return [*lines, _dynamic(f"{line}({types}) -> tensor<{after}>")]

    def _gather(self, match: re.Match[str]) -> list[str]:
        indent, result, operand, indices, first, sizes, rest, *types = match.groups()
        if not _MARK.search(sizes):
            return [_dynamic(match[0])]
        listed = [each.strip() for each in sizes.split(",")]
        lines, vector = self._vector(listed, indent)
        line = f'{indent}{result} = "stablehlo.dynamic_gather"({operand}, {indices}, {vector}) '
        line += f"<{{{first}{rest}}}> : (tensor<{types[0]}>, tensor<{types[1]}>, "
        return [*lines, _dynamic(f"{line}tensor<{len(listed)}xi32>) -> tensor<{types[2]}>")]


def _broadcast(
    indent: str, result: str, operand: str, vector: str, dimensions: str, before: str, after: str
) -> str:
    listed = f": {dimensions}" if dimensions else ""
    types = f"(tensor<{before}>, tensor<{len(_sizes_in(after))}xi32>) -> tensor<{after}>"
    return _dynamic(
        f'{indent}{result} = "stablehlo.dynamic_broadcast_in_dim"({operand}, {vector}) '
        f"<{{broadcast_dimensions = array<i64{listed}>}}> : {types}"
    )


def _scalar(name: str, value: int) -> str:
    # A product of sizes, such as the number of elements, may not fit i32.
    return f"    {name} = stablehlo.constant dense<{value}> : tensor<i64>"


def _binary(name: str, operation: str, left: str, right: str) -> str:
    return f"    {name} = stablehlo.{operation} {left}, {right} : tensor<i64>"
