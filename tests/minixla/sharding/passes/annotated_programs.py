"""Random annotated programs as texts: what the import passes look at, in every nesting."""

from __future__ import annotations

from random import Random

_ARRAY, _PIECE, _SCALAR = "tensor<8x4xf32>", "tensor<4x4xf32>", "tensor<f32>"
_MESHES = {
    "mesh": '<["p"=2, "q"=4]>',
    "again": '<["p"=2, "q"=4]>',
    "ones": '<["p"=2, "one"=1, "q"=4]>',
}
_SHARDINGS = {
    2: ("{}, {}", '{"p"}, {}', '{"q"}, {}', '{}, {"p"}', '{"p"}, {?}', '{?}, {"q", ?}', "{?}, {?}"),
    0: ("",),
}
_UNARY = "abs", "negate", "tanh", "cosine"
_BINARY = "add", "multiply", "maximum"


class _Program:
    """A module as it is written."""

    def __init__(self, random: Random, has_named: bool) -> None:
        self.random, self.has_named = random, has_named
        self.count = 0
        #: Whether a manual computation is being written, in which its axis cannot be used.
        self.is_manual = False
        self.functions: list[str] = []
        self.callees: list[str] = []

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def sharding(self, type_: str, is_closed: bool = False) -> str:
        """A sharding of a value of a type, with a mesh by name or in place."""
        choice = self.random.choice
        listed = _SHARDINGS[0 if type_ == _SCALAR else 2]
        unwanted = ("?" if is_closed else "!", '"p"' if self.is_manual else "!")
        dimensions = choice([each for each in listed if not any(x in each for x in unwanted)])
        if self.is_manual:
            return f"<@mesh, [{dimensions}]>"
        mesh = "@mesh" if self.random.random() < 0.7 else choice(["@again", "@ones"])
        if self.random.random() < 0.1:
            mesh = f"mesh{_MESHES['mesh']}" if choice([True, False]) else 'mesh<["p"=8, "q"=8]>'
        extra = ', replicated={"one"}' if mesh == "@ones" and choice([True, False]) else ""
        return f"<{mesh}, [{dimensions}]{extra}>"

    def placed(self, type_: str, count: int = 1) -> str:
        """Nothing, or the shardings of an operation's results."""
        if self.random.random() < 0.75:
            return ""
        listed = ", ".join([self.sharding(type_) for _ in range(count)])
        return f" {{sdy.sharding = #sdy.sharding_per_value<[{listed}]>}}"

    def function(self, name: str, size: int) -> str:
        """The text of a function of two arrays and a number, which gives two arrays."""
        arguments, values = [], []
        for type_ in (_ARRAY, _ARRAY, _SCALAR):
            given = self.new()
            values.append((given, type_))
            is_placed = self.random.random() < 0.3
            placed = f" {{sdy.sharding = #sdy.sharding{self.sharding(type_)}}}"
            arguments.append(f"{given}: {type_}{placed * is_placed}")
        lines = _Block(self, values, size, 2).lines
        last = [self.random.choice([x for x, t in values if t == _ARRAY]) for _ in range(2)]
        results = []
        for _ in range(2):
            placed = f" {{sdy.sharding = #sdy.sharding{self.sharding(_ARRAY)}}}"
            results.append(f"{_ARRAY}{placed * (self.random.random() < 0.2)}")
        kind = "" if name == "main" else "private "
        head = f"func.func {kind}@{name}({', '.join(arguments)}) -> ({', '.join(results)}) {{"
        end = f"return {', '.join(last)} : {_ARRAY}, {_ARRAY}"
        return "\n".join([head, *lines, end, "}"])


class _Block:
    """Operations in a block whose values may be read from `values`, which grow."""

    def __init__(
        self,
        program: _Program,
        values: list[tuple[str, str]],
        size: int,
        depth: int,
        scope: int = 0,
    ) -> None:
        self.program, self.random = program, program.random
        self.values, self.depth, self.scope = values, depth, scope
        self.lines: list[str] = []
        kinds = {
            self.constant: 4,
            self.unary: 4,
            self.binary: 4,
            self.scalar: 2,
            self.broadcast: 2,
            self.constraint: 6,
            self.group: 2,
            self.barrier: 2,
            self.moved: 1,
            self.call: 2 if program.callees else 0,
        }
        if depth:
            manual = 0 if program.is_manual else 2
            kinds |= {self.loop: 1, self.case: 1, self.manual: manual}
            kinds |= {self.named: 2 if program.has_named else 0}
        for _ in range(size):
            self.random.choices(list(kinds), list(kinds.values()))[0]()

    def of(self, type_: str = _ARRAY) -> str:
        """A value of a type, one of the last more often."""
        found = [name for name, each in self.values if each == type_]
        if not found:
            self.add(type_, f"stablehlo.constant dense<{self.random.randrange(3)}.0> : {type_}")
            return self.values[-1][0]
        return self.random.choice([*found[-3:], *found])

    def add(self, type_: str, *lines: str) -> None:
        name = self.program.new()
        self.lines += [f"{name} = {lines[0]}", *lines[1:]]
        self.values.append((name, type_))

    def constant(self) -> None:
        type_ = self.random.choice([_ARRAY, _ARRAY, _SCALAR])
        if self.random.random() < 0.3 and type_ == _ARRAY:
            self.add(type_, f"stablehlo.iota dim = {self.random.randrange(2)} : {type_}")
        else:
            self.add(type_, f"stablehlo.constant dense<{self.random.randrange(3)}.0> : {type_}")

    def unary(self) -> None:
        name = self.random.choice(_UNARY)
        placed = self.program.placed(_ARRAY)
        self.add(_ARRAY, f"stablehlo.{name} {self.of()}{placed} : {_ARRAY}")

    def binary(self) -> None:
        name = self.random.choice(_BINARY)
        placed = self.program.placed(_ARRAY)
        self.add(_ARRAY, f"stablehlo.{name} {self.of()}, {self.of()}{placed} : {_ARRAY}")

    def scalar(self) -> None:
        self.add(_SCALAR, f"stablehlo.add {self.of(_SCALAR)}, {self.of(_SCALAR)} : {_SCALAR}")

    def broadcast(self) -> None:
        type_ = f"({_SCALAR}) -> {_ARRAY}"
        self.add(_ARRAY, f"stablehlo.broadcast_in_dim {self.of(_SCALAR)}, dims = [] : {type_}")

    def moved(self) -> None:
        self.add(_ARRAY, f"stablehlo.reverse {self.of()}, dims = [0] : {_ARRAY}")

    def constraint(self) -> None:
        for _ in range(self.random.choice([1, 1, 2])):
            value = self.values[-1][0] if self.values[-1:] and self.values[-1][1] == _ARRAY else ""
            value = value if value and self.random.random() < 0.6 else self.of()
            sharding = self.program.sharding(_ARRAY, self.random.random() < 0.7)
            self.add(_ARRAY, f"sdy.sharding_constraint {value} {sharding} : {_ARRAY}")

    def group(self) -> None:
        number = self.random.choice([0, 2, 3, 7, 11]) + 20 * self.scope
        self.lines.append(f"sdy.sharding_group {self.of()} group_id={number} : {_ARRAY}")

    def barrier(self) -> None:
        name = self.program.new()
        placed = self.program.placed(_ARRAY, 2)
        given = f"{self.of()}, {self.of()}"
        types = f"{_ARRAY}, {_ARRAY}"
        self.lines.append(f"{name}:2 = stablehlo.optimization_barrier{placed} {given} : {types}")
        self.values += [(f"{name}#0", _ARRAY), (f"{name}#1", _ARRAY)]

    def call(self) -> None:
        name, callee = self.program.new(), self.random.choice(self.program.callees)
        types = f"({_ARRAY}, {_ARRAY}, {_SCALAR}) -> ({_ARRAY}, {_ARRAY})"
        given = f"{self.of()}, {self.of()}, {self.of(_SCALAR)}"
        placed = self.program.placed(_ARRAY, 2)
        self.lines.append(f"{name}:2 = func.call @{callee}({given}){placed} : {types}")
        self.values += [(f"{name}#0", _ARRAY), (f"{name}#1", _ARRAY)]

    def inner(self, values: list[tuple[str, str]], scope: int | None = None) -> _Block:
        scope = self.scope if scope is None else scope
        return _Block(self.program, values, self.random.randrange(1, 6), self.depth - 1, scope)

    def loop(self) -> None:
        first, second = self.program.new(), self.program.new()
        result, flag = self.program.new(), self.program.new()
        values = [(first, _ARRAY), (second, _ARRAY)]
        condition, body = self.inner(list(values)), self.inner(list(values))
        head = f"{result}:2 = stablehlo.while({first} = {self.of()}, {second} = {self.of()}) : "
        placed = self.program.placed(_ARRAY, 2)
        self.lines += [
            f"{head}{_ARRAY}, {_ARRAY}{' attributes' * bool(placed)}{placed}",
            "cond {",
            *condition.lines,
            f"{flag} = stablehlo.constant dense<true> : tensor<i1>",
            f"stablehlo.return {flag} : tensor<i1>",
            "} do {",
            *body.lines,
            f"stablehlo.return {body.of()}, {body.of()} : {_ARRAY}, {_ARRAY}",
            "}",
        ]
        self.values += [(f"{result}#0", _ARRAY), (f"{result}#1", _ARRAY)]

    def case(self) -> None:
        index, result = self.program.new(), self.program.new()
        self.lines.append(f"{index} = stablehlo.constant dense<1> : tensor<i32>")
        branches = []
        for _ in range(2):
            block = self.inner(list(self.values))
            last = block.of()
            lines = [*block.lines, f"stablehlo.return {last} : {_ARRAY}"]
            branches.append("\n".join(["{", *lines, "}"]))
        head = f'{result} = "stablehlo.case"({index}) ({", ".join(branches)})'
        self.lines.append(f"{head}{self.program.placed(_ARRAY)} : (tensor<i32>) -> {_ARRAY}")
        self.values.append((result, _ARRAY))

    def manual(self) -> None:
        first, second, result = self.program.new(), self.program.new(), self.program.new()
        choice = self.random.choice
        free = ['{"p", "q"}, {}', '{"p"}, {"q", ?}', '{"p"}, {}', '{"p", ?}, {?}']
        sides = [f"<@mesh, [{choice(free)}]>" for _ in range(2)]
        whole = (
            '<@mesh, [{}, {"q"}], replicated={"p"}>',
            '<@mesh, [{}, {"q"}]>',
            "<@mesh, [{}, {}]>",
        )
        sides.append(choice(whole))
        self.program.count += 1
        self.program.is_manual = True
        block = self.inner([(second, _ARRAY)], self.program.count)
        self.program.is_manual = False
        head = f"{result} = sdy.manual_computation({self.of()}, {self.of()})"
        self.lines += [
            f"{head} in_shardings=[{sides[0]}, {sides[2]}] out_shardings=[{sides[1]}]"
            f' manual_axes={{"p"}} ({first}: {_PIECE}, {second}: {_ARRAY}) {{',
            *block.lines,
            f"{first}a = stablehlo.abs {first} : {_PIECE}",
            f"sdy.return {first}a : {_PIECE}",
            f"}} : ({_ARRAY}, {_ARRAY}) -> {_ARRAY}",
        ]
        self.values.append((result, _ARRAY))

    def named(self) -> None:
        first, second, result = self.program.new(), self.program.new(), self.program.new()
        is_placed = self.random.random() < 0.3
        given = ", ".join([self.program.sharding(_ARRAY) for _ in range(2)])
        placed = f" in_shardings=[{given}]" * is_placed
        made = f" out_shardings=[{self.program.sharding(_ARRAY)}]"
        placed += made * (self.random.random() < 0.3)
        block = self.inner([(first, _ARRAY), (second, _ARRAY)])
        last = block.of()
        label = self.random.choice("nmk")
        head = f'{result} = sdy.named_computation<"{label}">({self.of()}, {self.of()}){placed}'
        self.lines += [
            f"{head} ({first}: {_ARRAY}, {second}: {_ARRAY}) {{",
            *block.lines,
            f"sdy.return {last} : {_ARRAY}",
            f"}} : ({_ARRAY}, {_ARRAY}) -> {_ARRAY}",
        ]
        self.values.append((result, _ARRAY))


def annotated_program(seed: int, has_named: bool = True) -> str:
    """A module with meshes, functions that call each other, and all operations of SDY's import."""
    program = _Program(Random(seed), has_named)
    functions = []
    for name in ("f", "g")[: program.random.randrange(3)]:
        functions.append(program.function(name, program.random.randrange(1, 8)))
        program.callees.append(name)
    functions.append(program.function("main", program.random.randrange(5, 25)))
    program.random.shuffle(functions)
    meshes = [f"sdy.mesh @{name} = {mesh}" for name, mesh in _MESHES.items()]
    return "\n".join([*meshes, *functions]) + "\n"
