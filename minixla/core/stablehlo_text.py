"""StableHLO text of a graph."""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, SupportsFloat

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.element_types import ElementType
from minixla.core.graph import Annotations, Graph, Value
from minixla.core.operation import Operation
from minixla.core.shapes import TOKEN, AnyShape, TupleShape
from minixla.core.source import Source
from minixla.core.tracing import nested

# Constants up to this size are printed as a readable list; larger ones as hexadecimal bytes.
_READABLE = 32
_CONSTANT = re.compile(r"\s*\S+ = (stablehlo|sdy)\.constant")

#: For each value, its dimensions from the fastest to the slowest in memory.
Layouts = Sequence[Sequence[int]]


class Emitter:
    """Write functions, operations and regions; called by the `stablehlo` rules of operations."""

    #: True if the program will run in this process, so that `host_call` may be used.
    calls_host = False
    #: `host_call(function, operands, shapes, results, has_side_effect)`: call a function of NumPy
    #: arrays that returns one array for each of `results`; with a side effect, once and in order.
    host_call: Callable[..., list[str]]
    #: True if `main` also takes and returns a token if the program has side effects.
    threads_main = False
    #: True if shardings contain their meshes, for text that becomes part of another module.
    inlines_meshes = False
    #: The number of devices over which the program may be sharded.
    device_count = 1
    #: The ids of programs whose calls must not be inlined for compilers.
    apart: Collection[int] = ()

    def __init__(
        self, locations: bool = False, prefix: str = "", platform: str | None = None
    ) -> None:
        """Start a module, with the user's lines (`locations`) and a `prefix` for function names."""
        #: The platform (`cpu`), whose slow paths operations may avoid; None for any.
        self.platform = platform
        #: The user's line of the current operation, if locations are written.
        self.source: Source | None = None
        self._prefix = prefix
        self._lines: list[str] = []
        self._count = 0
        self._location = ""
        # The location after an instruction, by its position.
        self._locations: dict[Hashable, tuple[str, Source]] | None = {} if locations else None
        # Symbols by id. An operation may create a graph while it is written. Keep the graph alive,
        # as another graph could get its id otherwise.
        self._symbols: dict[int, tuple[str, Graph]] = {}
        self._pending: list[Graph] = []
        self._names = {f"{prefix}main"}
        self._token: str | None = None
        # The named meshes by name.
        self._meshes: dict[str, Any] = {}

    def module(
        self,
        graph: Graph,
        functions: Mapping[str, tuple[Graph, bool]] | None = None,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return the whole module, whose function `main` computes `graph`.

        `functions` are all functions of the module, in order, by name, and whether they are public;
        default: `main` and the functions that it calls. `attributes` are attributes of functions.
        """
        header = f"module @{identifier(graph.name)} {{"
        functions = functions or {f"{self._prefix}main": (graph, True)}
        self._names.update(functions)
        self._symbols.update({id(each): (name, each) for name, (each, _) in functions.items()})
        if not self.inlines_meshes:
            for function_graph, _ in functions.values():
                self._meshes.update(getattr(function_graph.annotations, "meshes", ()))
        texts = [
            self._function(function_graph, name, is_public, attributes.get(name, ""))
            for name, (function_graph, is_public) in functions.items()
        ]
        while self._pending:
            callee = self._pending.pop()
            texts.append(self._function(callee, self._symbols[id(callee)][0]))
        meshes = [f"  sdy.mesh {symbol_text(name)} = {mesh}" for name, mesh in self._meshes.items()]
        places = enumerate((self._locations or {}).values())
        aliases = [f"#loc{number} = {_location(source)}" for number, (_, source) in places]
        # The parser would return to lines that it only finds at the end.
        return "\n".join([*aliases, header, *meshes, *texts, "}"]) + "\n"

    def function(self, graph: Graph) -> str:
        """Return the symbol of a private function that computes `graph`; one for each graph."""
        symbol, _ = self._symbols.get(id(graph), (None, None))
        if symbol is None:
            stem = symbol = self._prefix + identifier(graph.name)
            numbers = count()
            while symbol in self._names:
                symbol = f"{stem}_{next(numbers)}"
            self._names.add(symbol)
            self._symbols[id(graph)] = symbol, graph
            self._pending.append(graph)
        return symbol_text(symbol)

    def sharding(self, sharding: Any) -> str:  # noqa: ANN401  # see Annotations
        """Write a sharding for Shardy's operations; a named mesh is referenced by name."""
        name = sharding.mesh_name
        if name is None or self.inlines_meshes:
            return sharding.text(None)
        mesh, numbers = sharding.mesh, count()
        while self._meshes.setdefault(name, mesh) != mesh:
            name = f"{sharding.mesh_name}_{next(numbers)}"
        return sharding.text(name)

    def shardings(self, shardings: Sequence[Any]) -> str:
        """Write the attribute with the shardings of several values."""
        return f"#sdy.sharding_per_value<[{', '.join(map(self.sharding, shardings))}]>"

    def _placed(self, type_: str, sharding: Any) -> str:  # noqa: ANN401  # see Annotations
        """Write the type of a function's argument or result, with its sharding if it has one."""
        if sharding is None:
            return type_
        return f"{type_} {{sdy.sharding = #sdy.sharding{self.sharding(sharding)}}}"

    def _annotate(self, results: Sequence[Value], notes: Annotations) -> None:
        """Add annotations of its results to the last operation."""
        shardings, texts = [notes.values.get(value) for value in results], []
        first = next((sharding for sharding in shardings if sharding is not None), None)
        if first is not None:
            for index, (value, sharding) in enumerate(zip(results, shardings, strict=True)):
                shardings[index] = sharding or first.saying_nothing(value.shape)
            # If side effects are in order, a token precedes the results.
            is_threaded = self._lines[-1].partition(" = ")[0].count("%") > len(results)
            shardings = [first.saying_nothing(TOKEN)] * is_threaded + shardings
            texts.append(f"sdy.sharding = {self.shardings(shardings)}")
        if results[0] in notes.rules:
            texts.append(notes.rules[results[0]].attribute)
        text = ", ".join(texts)
        line = self._lines[-1]
        constant = _CONSTANT.match(line)
        place = line.rindex(" : ") if constant is None else constant.end()
        before, after = line[:place], line[place:]
        has_attributes = before.endswith("}")
        text = f"{before[:-1]}, {text}}}" if has_attributes else f"{before} {{{text}}}"
        self._lines[-1] = text + after

    def name(self, prefix: str = "") -> str:
        """Return a fresh SSA name."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def line(self, text: str) -> None:
        """Append the text of one operation, with the current location."""
        self._lines.append(f"    {text}{self._location}")

    def same_shape(self, operation: str, operands: Sequence[str], shape: AnyShape) -> list[str]:
        """Append an operation in short form whose operands and result all have `shape`."""
        name = self.name()
        self.line(f"{name} = {operation} {', '.join(operands)} : {shape.stablehlo}")
        return [name]

    def operation(
        self,
        operation: str,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        regions: Sequence[str] = (),
        hints: str = "",
        **attributes: str | float | Sequence[Any] | None,
    ) -> list[str]:
        """Append an operation in generic form, by its full name; return the names of its results.

        `operands` are SSA names of values with `shapes`, and `results` the results' shapes.
        `regions` are texts from `region`. `hints` are additional attributes (`{mhlo.sharding =
        "..."}`). Other attributes are values for `attribute_text`; None omits one.
        """
        names = [self.name() for _ in results]
        pairs = [f"{k} = {attribute_text(v)}" for k, v in attributes.items() if v is not None]
        properties = f" <{{{', '.join(pairs)}}}>" if pairs else ""
        bodies = f" ({', '.join(regions)})" if regions else ""
        types = ", ".join([shape.stablehlo for shape in shapes])
        outcome = ", ".join([shape.stablehlo for shape in results])
        target = f"{', '.join(names)} = " if names else ""
        self.line(
            f'{target}"{operation}"({", ".join(operands)}){properties}{bodies}'
            f"{hints} : ({types}) -> ({outcome})"
        )
        return names

    def constant(self, literal: Literal, operation: str = "stablehlo.constant") -> str:
        """Append a constant."""
        name = self.name()
        self.line(f"{name} = {operation} {literal_text(literal)}")
        return name

    def custom_call(
        self,
        target: str,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        config: str,
        layouts: Sequence[Layouts | None] = (None, None),
        *,
        operation: Operation | None = None,
        has_side_effect: bool = False,
        api_version: int = 4,
        hints: str = "",
        aliases: Mapping[int, int] | None = None,
    ) -> list[str]:
        """Append a call of the compiled code named `target`; see `operation`.

        `config` is its configuration in MLIR's notation. `layouts` are those of operands and of
        results; None is row-major. Errors name `operation` if it is not only the call. `aliases`
        map operands to results that overwrite their memory.
        """
        self.foreign_call(target, operation)
        texts: Iterable[str | None] = map(_layouts_text, (shapes, results), layouts)
        if any(isinstance(shape, TupleShape) for shape in (*shapes, *results)):
            texts = None, None  # tuples have no layouts; all values must have one, or no value
        taken, made = texts
        return self.operation(
            "stablehlo.custom_call",
            operands,
            shapes,
            results,
            hints=hints,
            call_target_name=quoted(target),
            has_side_effect=has_side_effect,
            api_version=f"{api_version} : i32",
            backend_config=config,
            operand_layouts=taken,
            result_layouts=made,
            output_operand_aliases=_aliases_text(aliases or {}, len(results)),
        )

    def foreign_call(self, target: str, operation: Operation | None = None) -> None:
        """Record that the next operation calls compiled code; see `custom_call`."""

    def take_token(self) -> str:
        """Return the token of the last side effect; operations take it and give the next one."""
        if self._token is None:
            self._token = self.name()
            self.line(f"{self._token} = stablehlo.create_token : !stablehlo.token")
        return self._token

    def give_token(self, names: Sequence[str]) -> Sequence[str]:
        """Record the first of `names` as the token of the last side effect; return the others."""
        self._token = names[0]
        return names[1:]

    def region(
        self,
        graph: Graph,
        terminator: str = "stablehlo.return",
        token: str | None = None,
        operands: Sequence[str] | None = None,
    ) -> str:
        """Return the text of a region with one block that computes `graph`, ended by `terminator`.

        `token` orders side effects with those outside, unless it is None. With `parameter`, the
        first parameter and the first result are tokens. With `captured`, the block reads the
        previous token, and its first result is a token. With `read`, only a parameter is a token.
        `operands` are names of outside values for its inputs; default: the block's parameters.
        """
        outer, self._lines, before = self._lines, [], self._token
        parameters = operands or [self.name("r") for _ in graph.inputs]
        name = self.name("r") if token in ("parameter", "read") else None
        self._token = before if token == "captured" else name
        header = _parameters(() if operands else parameters, _types(graph.inputs), name)
        with nested():
            self._block(graph, parameters, terminator, token in ("parameter", "captured"))
        body = "\n".join(self._lines)
        self._lines, self._token = outer, before
        return f"{{\n    ^bb0({header}):\n{body}\n    }}"

    def expand(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write `graph` in place of one operation, at its location; return the results' names."""
        location, locations = self._location, self._locations
        self._locations = None
        try:
            return self._body(graph, operands)
        finally:
            self._location, self._locations = location, locations

    def _function(
        self, graph: Graph, symbol: str, is_public: bool = False, attributes: str = ""
    ) -> str:
        self._lines, self._count, notes = [], -1, graph.annotations
        parameters = [f"%arg{index}" for index in range(len(graph.inputs))]
        is_threaded = graph.has_side_effect and (self.threads_main or not is_public)
        self._token = "%token" if is_threaded else None
        types_in = _types(graph.inputs)
        if notes is not None:
            types_in = map(self._placed, types_in, map(notes.values.get, graph.inputs))
        types_in = _parameters(parameters, types_in, self._token)
        types = self._block(graph, parameters, "return", is_threaded)
        if notes is not None and any(output is not None for output in notes.outputs):
            listed = list(map(self._placed, _types(graph.outputs), notes.outputs))
            types = ", ".join([TOKEN.stablehlo, *listed] if is_threaded else listed)
        written = f" attributes {{{attributes}}}" if attributes else ""
        visibility = "public" if is_public else "private"
        start = f"  func.func {visibility} {symbol_text(symbol)}({types_in})"
        header = f"{start} -> ({types}){written} {{"
        return "\n".join([header, *self._lines, "  }"])

    def _block(
        self, graph: Graph, parameters: Sequence[str], terminator: str, gives_token: bool
    ) -> str:
        """Write the instructions of a block and its end; return the types of its results."""
        results, types = self._body(graph, parameters), list(graph.output_shapes)
        if gives_token:
            results, types = [self.take_token(), *results], [TOKEN, *types]
        listed = ", ".join([shape.stablehlo for shape in types])
        self.line(f"{terminator} {', '.join(results)} : {listed}" if results else terminator)
        return listed

    def _body(self, graph: Graph, parameters: Sequence[str]) -> list[str]:
        outer, notes = self._location, graph.annotations
        placed = {*notes.values, *notes.rules} if notes else frozenset()
        names = dict(zip(graph.inputs, parameters, strict=True))
        locations = self._locations
        for instruction in graph.instructions:
            operands: list[str] = []
            shapes: list[AnyShape] = []
            for value in instruction.operands:  # faster than list comprehensions
                operands.append(names[value])
                shapes.append(value.shape)
            if locations is not None:
                self.source, self._location = (source := instruction.source), ""
                if source is not None:
                    if (place := locations.get(key := source.key)) is None:
                        place = locations[key] = f" loc(#loc{len(locations)})", source
                    self._location = place[0]
            results = instruction.op.stablehlo(self, operands, shapes, instruction.shapes)
            made = instruction.results
            if notes is not None and not placed.isdisjoint(made):
                self._annotate(made, notes)
            if len(results) == len(made) == 1:  # faster than the general form
                names[made[0]] = results[0]
            else:
                names.update(zip(made, results, strict=True))
        self._location = outer
        return [names[value] for value in graph.outputs]


def _location(source: Source) -> str:
    """Return the MLIR location of a source position, inside the names of its scopes."""
    # The parser does not accept an alias inside a named location.
    place, caller = f"{quoted(source.file)}:{source.line}:0", source.caller
    if caller is not None:  # XLA drops positions of calls without function names
        user = f"{quoted(caller.function)}({_location(caller._replace(scope=''))[4:-1]})"
        place = f"callsite({quoted(source.function)}({place}) at {user})"
    return f"loc({quoted(source.scope)}({place}))" if source.scope else f"loc({place})"


def quoted(text: str, escape: str = "02X") -> str:
    """Quote a string for MLIR; `escape` formats a byte after a backslash."""
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    if safe.isprintable():
        return f'"{safe}"'
    return f'"{"".join([_escaped(character, escape) for character in safe])}"'


def _escaped(character: str, escape: str) -> str:
    if character.isprintable():
        return character
    return "".join([f"\\{byte:{escape}}" for byte in character.encode(errors="replace")])


def bytes_text(value: bytes) -> str:
    """Quote bytes as a string for MLIR."""
    characters = [chr(x) if 32 <= x < 127 and x not in b'"\\' else f"\\{x:02X}" for x in value]
    return f'"{"".join(characters)}"'


def unquoted(text: str) -> str:
    """Unescape an MLIR string without its quotes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_character, text.encode()).decode(errors="replace")


def _character(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes.fromhex(escape.decode()) if len(escape) == 2 else _LETTERS.get(escape, escape)


_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t"}
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def symbol_text(name: str) -> str:
    """Write a reference to, or the declaration of, a function or mesh: `@name`, `@"a name"`."""
    return f"@{name if _BARE.fullmatch(name) else quoted(name)}"


def identifier(name: str, others: str = "") -> str:
    """Return a name of letters, `_`, digits and `others`; it begins with a letter or `_`."""
    cleaned = re.sub(rf"[^\w{others}]", "_", name, flags=re.ASCII)
    return cleaned if re.match("[A-Za-z_]", cleaned) else f"_{cleaned}"


def _types(values: Iterable[Value]) -> list[str]:
    return [value.shape.stablehlo for value in values]


def _parameters(names: Sequence[str], types: Iterable[str], token: str | None) -> str:
    listed = [f"{name}: {type_}" for name, type_ in zip(names, types, strict=False)]
    return ", ".join([f"{token}: {TOKEN.stablehlo}", *listed] if token else listed)


def attribute_text(value: str | float | Sequence[Any]) -> str:
    """Write an attribute in MLIR's notation.

    Strings are MLIR text already. Integers become `i64` and floats `f32`. Sequences of integers or
    booleans become dense arrays, and sequences of pairs dense 2-D `i64` elements.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{_float_text(value)} : f32"
    if all(isinstance(element, bool) for element in value) and value:
        return f"array<i1: {', '.join('true' if element else 'false' for element in value)}>"
    if all(isinstance(element, int) for element in value):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    rows = ", ".join(f"[{', '.join(map(str, row))}]" for row in value)
    return f"dense<[{rows}]> : tensor<{len(value)}x{len(value[0])}xi64>"


def _layouts_text(shapes: Sequence[AnyShape], orders: Layouts | None) -> str:
    """Write layouts of arrays and tokens, row-major by default."""
    if orders is None:
        orders = [range(getattr(shape, "rank", 0))[::-1] for shape in shapes]
    texts = [f"dense<{list(x) if x else ''}> : tensor<{len(x)}xindex>" for x in orders]
    return f"[{', '.join(texts)}]"


def _aliases_text(aliases: Mapping[int, int], results: int) -> str | None:
    places = [(operand, f"[{at}]" if results > 1 else "[]") for operand, at in aliases.items()]
    texts = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = {place}, "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for operand, place in places
    ]
    return f"[{', '.join(texts)}]" if texts else None


def real_text(value: SupportsFloat) -> str:
    """Write a real number of a NumPy or ml_dtypes type in MLIR's notation."""
    number = float(value)
    if number - number == 0:  # finite: the shortest form in f64 is exact for narrower types, too
        return _float_text(number)
    raw = np.asarray(value)
    return f"0x{int.from_bytes(raw.tobytes(), 'little'):0{2 * raw.itemsize}X}"


def _float_text(number: float) -> str:
    text = repr(number)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"


def literal_text(literal: Literal) -> str:
    """Write a constant as MLIR elements with its type: `dense<1.0> : tensor<4xf32>`."""
    shape, text = literal.shape, ""
    if literal.is_splat:
        text = nested_text(literal.scalar, shape.element_type)
    elif 0 < shape.size <= _READABLE:
        text = nested_text(literal.array, shape.element_type)
    elif shape.size:
        text = f'"0x{literal.array.tobytes().hex().upper()}"'
    return f"dense<{text}> : {shape.stablehlo}"


def nested_text(
    array: np.ndarray, kind: ElementType, real: Callable[..., str] = real_text, brackets: str = "[]"
) -> str:
    """Write a scalar or an array, with rows in brackets and real numbers formatted by `real`."""
    if array.ndim > 0:
        rows = ", ".join([nested_text(row, kind, real, brackets) for row in array])
        return f"{brackets[0]}{rows}{brackets[1]}"
    if kind.kind == "pred":
        return "true" if array else "false"
    if kind.is_integer:
        return str(int(array))
    return f"({real(np.real(array))}, {real(np.imag(array))})" if kind.is_complex else real(array)
