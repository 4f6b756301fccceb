"""Random programs with shardings, as MLIR's text: every family of operations, loops, branches,
manual computations, groups, constraints, barriers, priorities."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable

from minixla.sharding.axes import Part, merged
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding

Sizes = tuple[int, ...]
_MESHES = [
    {"a": 2, "b": 2, "c": 2},
    {"a": 4, "b": 2},
    {"a": 2, "b": 3, "c": 4},
    {"a": 8},
    {"a": 4, "b": 4, "c": 2},
]
_WITH_SIZE_ONE = [
    {"a": 1, "b": 2, "c": 1},
    {"a": 2, "b": 1, "c": 4},
    {"a": 1, "b": 1, "c": 2},
    {"a": 4, "b": 1, "c": 1, "d": 2},
]
_SIZES = (1, 2, 3, 4, 4, 6, 8, 8, 12, 16)


def type_of(sizes: Sizes, element: str = "f32") -> str:
    """`tensor<4x8xf32>`."""
    return f"tensor<{'x'.join(map(str, (*sizes, element)))}>"


class Body:
    """The text of a block, while it is made: lines, and the values that may be read.

    Args:
        program: what it is in.
        values: the names and sizes of the arrays of f32 that can be read.
    """

    def __init__(self, program: RandomProgram, values: dict[str, Sizes]) -> None:
        self.program, self.draw = program, program.draw
        self.values = dict(values)
        self.steps = list[tuple[str, tuple[str, ...], tuple[str, ...]]]()
        self.unread: dict[str, Sizes] = {}
        self.depth = 0

    def operand(self, rank: int | None = None, *, least: int = 0) -> tuple[str, Sizes]:
        """A value of a rank, of any from `least` up by default; a constant where there is none."""
        fitting = [
            (name, sizes)
            for name, sizes in self.values.items()
            if (len(sizes) >= least if rank is None else len(sizes) == rank)
        ]
        if fitting and self.draw.random() < 0.95:
            # Late values more often, so that programs get deep.
            name, sizes = fitting[max(self.draw.randrange(len(fitting)) for _ in range(2))]
            return name, sizes
        sizes = self.program.sizes(max(rank if rank is not None else 2, least))
        return self.of_sizes(sizes), sizes

    def of_sizes(self, sizes: Sizes) -> str:
        """A value of some sizes, a constant where there is none."""
        fitting = [name for name, each in self.values.items() if each == sizes]
        if fitting:
            return self.draw.choice(fitting)
        return self.add("stablehlo.constant dense<1.0>", (), sizes, annotated=False)

    def add(
        self, text: str, read: tuple[str, ...], sizes: Sizes, tail: str = "", annotated: bool = True
    ) -> str:
        """A line that makes one array: `%v1 = TEXT {attributes} : TAIL`."""
        name = self.program.name()
        shown = ""
        if annotated and self.draw.random() < self.program.placed:
            sharding = self.program.sharding(sizes)
            shown = f" {{sdy.sharding = #sdy.sharding_per_value<[{sharding}]>}}"
        self.line(f"{name} = {text}{shown} : {tail or type_of(sizes)}", read, {name: sizes})
        return name

    def line(self, text: str, read: tuple[str, ...], made: dict[str, Sizes]) -> None:
        """A line that reads some values and makes others."""
        self.steps.append((text, read, tuple(made)))
        for each in read:
            self.unread.pop(each, None)
        self.values |= made
        self.unread |= made

    def used(self, names: Iterable[str]) -> tuple[list[str], set[str]]:
        """The lines on which values depend, or that make none, and all that these read."""
        live, kept = set(names), list[str]()
        for text, read, made in reversed(self.steps):
            if not made or live.intersection(made):
                live.update(read)
                kept.append(text)
        return kept[::-1], live

    def grow(self, count: int) -> None:
        """Adds so many random operations."""
        for _ in range(count):
            self.draw.choice(self.program.makers)(self)


class RandomProgram:
    """A random module with shardings.

    Args:
        seed: which.
        steps: about how many operations its function has.
        has_named: whether it may have named computations.
        placed: how often an operation has a sharding; if often no dimension has a priority.
        features: `size one` for axes of that size, `unreduced` for such axes.
        makers: functions that add other operations.
    """

    def __init__(
        self,
        seed: int,
        steps: int = 12,
        has_named: bool = True,
        placed: float = 0.12,
        features: Collection[str] = (),
        makers: Collection[Callable[[Body], None]] = (),
    ) -> None:
        self.draw = random.Random(seed)
        self.features = features
        #: Functions that add operations; those of the features are drawn as often as all others.
        self.makers = [*_MAKERS.values(), *[each for each in makers for _ in range(6)]]
        self.has_named, self.placed = has_named, placed
        self.counter = 0
        axes = self.draw.choice(_WITH_SIZE_ONE if "size one" in features else _MESHES)
        self.mesh = Mesh(None, list(axes), list(axes.values()))
        self.groups: dict[Sizes, list[int]] = {}
        self.has_priorities = self.draw.random() < 0.4 and placed < 0.5
        self.manual: list[str] = []
        arguments = {self.name(): self.sizes(self.draw.randint(0, 3)) for _ in range(4)}
        body = Body(self, arguments)
        body.grow(steps)
        index = {"%index": type_of((), "i32"), "%flag": type_of((), "i1")}
        shown = [f"{name}: {type_of(each)}{self.said(each)}" for name, each in arguments.items()]
        shown += [f"{name}: {each}" for name, each in index.items()]
        results = list(body.unread.items()) or list(arguments.items())[:1]
        types = ", ".join(type_of(each) for _, each in results)
        given = ", ".join(f"{type_of(each)}{self.said(each)}" for _, each in results)
        lines = "\n  ".join(body.used(body.unread)[0])
        names = ", ".join(name for name, _ in results)
        self.text = f"""sdy.mesh @mesh = {self.mesh}
func.func @main({", ".join(shown)}) -> ({given}) {{
  {lines}
  return {names} : {types}
}}
"""

    def name(self) -> str:
        """A new name of a value."""
        self.counter += 1
        return f"%v{self.counter}"

    def sizes(self, rank: int) -> Sizes:
        """Sizes of an array."""
        return tuple(self.draw.choice(_SIZES) for _ in range(rank))

    def said(self, sizes: Sizes) -> str:
        """The attribute of an argument or result, half of the time."""
        if self.draw.random() < 0.5:
            return ""
        return f" {{sdy.sharding = {self.sharding(sizes).attribute}}}"

    def sharding(self, sizes: Sizes, closed: float = 0.4) -> TensorSharding:
        """A random sharding over axes that are not manual here."""
        draw, mesh = self.draw, self.mesh
        dimensions: list[list[Part]] = [[] for _ in sizes]
        replicated: list[Part] = []
        unreduced: list[Part] = []
        parts = [
            each for name in mesh.shape if name not in self.manual for each in self.parts(name)
        ]
        draw.shuffle(parts)
        for part in parts:
            kind = draw.random()
            if kind < 0.5 and sizes:
                draw.choice(dimensions).append(part)
            elif kind < 0.56:
                replicated.append(part)
            elif kind < 0.66 and "unreduced" in self.features and not self.manual:
                unreduced.append(part)
        given = [
            DimensionSharding(
                tuple(map(mesh.axis, merged(each))),
                is_closed := draw.random() < closed,
                draw.randint(0, 2)
                if self.has_priorities and draw.random() < 0.4 and (each or not is_closed)
                else None,
            )
            for each in dimensions
        ]
        axes, summed = (
            tuple(map(mesh.axis, merged(mesh.sorted_parts(each))))
            for each in (replicated, unreduced)
        )
        return TensorSharding(mesh, tuple(given), axes, summed, "mesh")

    def parts(self, name: str) -> list[Part]:
        """An axis, now and then cut in two."""
        size = self.mesh.shape[name]
        cuts = [each for each in range(2, size) if size % each == 0]
        if cuts and self.draw.random() < 0.15:
            cut = self.draw.choice(cuts)
            return [Part(name, 1, cut), Part(name, cut, size)]
        return [Part(name, 1, size)]


def _unary(body: Body) -> None:
    x, sizes = body.operand()
    body.add(f"stablehlo.{body.draw.choice(('tanh', 'negate', 'abs'))} {x}", (x,), sizes)


def _binary(body: Body) -> None:
    x, sizes = body.operand()
    y = body.of_sizes(sizes)
    name = body.draw.choice(("add", "multiply", "maximum", "subtract"))
    body.add(f"stablehlo.{name} {x}, {y}", (x, y), sizes)


def _select(body: Body) -> None:
    x, sizes = body.operand()
    y, flag = body.of_sizes(sizes), body.program.name()
    shape, boolean = type_of(sizes), type_of(sizes, "i1")
    text = f"stablehlo.compare LT, {x}, {y} : ({shape}, {shape}) -> {boolean}"
    body.line(f"{flag} = {text}", (x, y), {flag: ()})
    del body.values[flag]
    body.add(f"stablehlo.select {flag}, {x}, {y}", (flag, x, y), sizes, f"{boolean}, {shape}")


def _clamp(body: Body) -> None:
    x, sizes = body.operand()
    low = body.of_sizes(())
    shape, scalar = type_of(sizes), type_of(())
    tail = f"({scalar}, {shape}, {scalar}) -> {shape}"
    body.add(f"stablehlo.clamp {low}, {x}, {low}", (x, low), sizes, tail)


def _dot(body: Body) -> None:
    x, sizes = body.operand(least=1)
    at = list(range(len(sizes)))
    body.draw.shuffle(at)
    batch, summed = at[: len(at) // 3], at[len(at) // 3 : len(at) // 3 + 1]
    free = body.program.sizes(body.draw.randint(0, 1))
    others: Sizes = (*[sizes[each] for each in (*batch, *summed)], *free)
    y = body.of_sizes(others)
    kept = [each for each in range(len(sizes)) if each not in (*batch, *summed)]
    result: Sizes = (*[sizes[each] for each in (*batch, *kept)], *free)
    numbers = list(range(len(batch)))
    batching = f"batching_dims = {batch} x {numbers}, " if batch else ""
    text = f"stablehlo.dot_general {x}, {y}, {batching}contracting_dims = {summed} x [{len(batch)}]"
    body.add(text, (x, y), result, f"({type_of(sizes)}, {type_of(others)}) -> {type_of(result)}")


def _reshape(body: Body) -> None:
    x, sizes = body.operand(least=1)
    left, result = math.prod(sizes), []
    for _ in range(body.draw.randint(0, 2)):
        result.append(body.draw.choice([n for n in range(1, left + 1) if left % n == 0]))
        left //= result[-1]
    result.append(left)
    if body.draw.random() < 0.6:
        at = body.draw.randrange(len(sizes))
        merged_ = (*sizes[:at], math.prod(sizes[at : at + 2]), *sizes[at + 2 :])
        split = [n for n in range(1, sizes[at] + 1) if sizes[at] % n == 0]
        cut = body.draw.choice(split)
        result = list(
            body.draw.choice((merged_, (*sizes[:at], cut, sizes[at] // cut, *sizes[at + 1 :])))
        )
    shape = tuple(result)
    body.add(f"stablehlo.reshape {x}", (x,), shape, f"({type_of(sizes)}) -> {type_of(shape)}")


def _transpose(body: Body) -> None:
    x, sizes = body.operand(least=1)
    at = list(range(len(sizes)))
    body.draw.shuffle(at)
    shape = tuple(sizes[each] for each in at)
    tail = f"({type_of(sizes)}) -> {type_of(shape)}"
    body.add(f"stablehlo.transpose {x}, dims = {at}", (x,), shape, tail)


def _reduce(body: Body) -> None:
    x, sizes = body.operand(least=1)
    at = body.draw.randrange(len(sizes))
    zero = body.of_sizes(())
    shape = (*sizes[:at], *sizes[at + 1 :])
    text = f"stablehlo.reduce({x} init: {zero}) applies stablehlo.add across dimensions = [{at}]"
    tail = f"({type_of(sizes)}, {type_of(())}) -> {type_of(shape)}"
    body.add(text, (x, zero), shape, tail)


def _broadcast(body: Body) -> None:
    x, sizes = body.operand()
    new = body.draw.randint(0, 1)
    at = sorted(body.draw.sample(range(len(sizes) + new), len(sizes)))
    shape = list(body.program.sizes(len(sizes) + new))
    for here, size in zip(at, sizes, strict=True):
        shape[here] = shape[here] if size == 1 else size
    made = tuple(shape)
    text = f"stablehlo.broadcast_in_dim {x}, dims = {at}"
    body.add(text, (x,), made, f"({type_of(sizes)}) -> {type_of(made)}")


def _concatenate(body: Body) -> None:
    x, sizes = body.operand(least=1)
    y = body.of_sizes(sizes)
    at = body.draw.randrange(len(sizes))
    shape = (*sizes[:at], 2 * sizes[at], *sizes[at + 1 :])
    tail = f"({type_of(sizes)}, {type_of(sizes)}) -> {type_of(shape)}"
    body.add(f"stablehlo.concatenate {x}, {y}, dim = {at}", (x, y), shape, tail)


def _slice(body: Body) -> None:
    x, sizes = body.operand(least=1)
    shape = tuple(max(1, body.draw.choice((size, size, size // 2))) for size in sizes)
    window = ", ".join(f"0:{size}" for size in shape)
    tail = f"({type_of(sizes)}) -> {type_of(shape)}"
    body.add(f"stablehlo.slice {x} [{window}]", (x,), shape, tail)


def _pad(body: Body) -> None:
    x, sizes = body.operand(least=1)
    zero = body.of_sizes(())
    low = [body.draw.randint(0, 1) for _ in sizes]
    shape = tuple(size + more for size, more in zip(sizes, low, strict=True))
    none = [0] * len(sizes)
    text = f"stablehlo.pad {x}, {zero}, low = {low}, high = {none}, interior = {none}"
    tail = f"({type_of(sizes)}, {type_of(())}) -> {type_of(shape)}"
    body.add(text, (x, zero), shape, tail)


def _reverse(body: Body) -> None:
    x, sizes = body.operand(least=1)
    body.add(f"stablehlo.reverse {x}, dims = [{body.draw.randrange(len(sizes))}]", (x,), sizes)


def _dynamic_slice(body: Body) -> None:
    x, sizes = body.operand(least=1)
    if body.depth:
        return
    shape = tuple(body.draw.choice((size, max(1, size // 2))) for size in sizes)
    index, types = ", ".join(["%index"] * len(sizes)), ", ".join(["tensor<i32>"] * len(sizes))
    text = f"stablehlo.dynamic_slice {x}, {index}, sizes = {list(shape)}"
    body.add(text, (x,), shape, f"({type_of(sizes)}, {types}) -> {type_of(shape)}")


def _dynamic_update_slice(body: Body) -> None:
    x, sizes = body.operand(least=1)
    if body.depth:
        return
    shape = tuple(body.draw.choice((size, max(1, size // 2))) for size in sizes)
    y = body.of_sizes(shape)
    index, types = ", ".join(["%index"] * len(sizes)), ", ".join(["tensor<i32>"] * len(sizes))
    text = f"stablehlo.dynamic_update_slice {x}, {y}, {index}"
    tail = f"({type_of(sizes)}, {type_of(shape)}, {types}) -> {type_of(sizes)}"
    body.add(text, (x, y), sizes, tail)


def _indices(body: Body, count: int) -> str:
    name = body.program.name()
    text = f"{name} = stablehlo.constant dense<0> : {type_of((count, 1), 'i32')}"
    body.line(text, (), {name: (count, 1)})
    del body.values[name]
    return name


def _gather(body: Body) -> None:
    x, sizes = body.operand(2)
    count = body.draw.choice((2, 4, 8))
    at = _indices(body, count)
    shape = (count, sizes[1])
    numbers = (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
    )
    text = (
        f'"stablehlo.gather"({x}, {at}) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
        f"slice_sizes = array<i64: 1, {sizes[1]}>}}>"
    )
    tail = f"({type_of(sizes)}, {type_of((count, 1), 'i32')}) -> {type_of(shape)}"
    body.add(text, (x, at), shape, tail)


def _region(body: Body, name: str, word: str) -> str:
    one, two, made = (body.program.name() for _ in range(3))
    scalar = type_of(())
    return f"""({{
    ^bb0({one}: {scalar}, {two}: {scalar}):
      {made} = {word.format(one, two)}
      stablehlo.return {made} : {name}
  }})"""


def _scatter(body: Body) -> None:
    x, sizes = body.operand(2)
    count = body.draw.choice((2, 4))
    updates = (count, sizes[1])
    y, at = body.of_sizes(updates), _indices(body, count)
    region = _region(body, type_of(()), f"stablehlo.add {{}}, {{}} : {type_of(())}")
    text = f"""\"stablehlo.scatter\"({x}, {at}, {y}) <{{scatter_dimension_numbers = \
#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], \
scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {region}"""
    tail = f"({type_of(sizes)}, {type_of((count, 1), 'i32')}, {type_of(updates)}) -> "
    body.add(text, (x, at, y), sizes, tail + type_of(sizes))


def _sort(body: Body) -> None:
    x, sizes = body.operand(least=1)
    scalar = type_of(())
    word = f"stablehlo.compare LT, {{}}, {{}} : ({scalar}, {scalar}) -> tensor<i1>"
    region = _region(body, "tensor<i1>", word)
    at = body.draw.randrange(len(sizes))
    text = f'"stablehlo.sort"({x}) <{{dimension = {at} : i64}}> {region}'
    body.add(text, (x,), sizes, f"({type_of(sizes)}) -> {type_of(sizes)}")


def _convolution(body: Body) -> None:
    draw = body.draw
    sizes = (draw.choice((2, 4)), draw.choice((4, 8)), draw.choice((4, 8)), draw.choice((2, 4)))
    kernel = (3, 3, sizes[3], draw.choice((2, 4, 8)))
    x, w = body.of_sizes(sizes), body.of_sizes(kernel)
    shape = (*sizes[:3], kernel[3])
    text = (
        f"stablehlo.convolution({x}, {w}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {pad = [[1, 1], [1, 1]]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    )
    tail = f"({type_of(sizes)}, {type_of(kernel)}) -> {type_of(shape)}"
    body.add(text, (x, w), shape, tail, annotated=False)


def _constraint(body: Body) -> None:
    x, sizes = body.operand()
    sharding = body.program.sharding(sizes, closed=0.7)
    body.add(f"sdy.sharding_constraint {x} {sharding}", (x,), sizes, annotated=False)


def _barrier(body: Body) -> None:
    x, sizes = body.operand()
    way = body.draw.choice(("FORWARD", "BACKWARD", "NONE"))
    text = f"sdy.propagation_barrier {x} allowed_direction={way}"
    body.add(text, (x,), sizes, annotated=False)


def _group(body: Body) -> None:
    x, sizes = body.operand()
    if body.program.manual:
        return
    groups = body.program.groups.setdefault(sizes, [])
    if not groups or body.draw.random() < 0.3:
        groups.append(sum(map(len, body.program.groups.values())))
    number = body.draw.choice(groups)
    body.line(f"sdy.sharding_group {x} group_id={number} : {type_of(sizes)}", (x,), {})


def _optimization_barrier(body: Body) -> None:
    (x, sizes), (y, others) = body.operand(), body.operand()
    name, types = body.program.name(), f"{type_of(sizes)}, {type_of(others)}"
    text = f"{name}:2 = stablehlo.optimization_barrier {x}, {y} : {types}"
    body.line(text, (x, y), {f"{name}#0": sizes, f"{name}#1": others})


def _inner(
    body: Body, values: dict[str, Sizes], wanted: list[Sizes]
) -> tuple[str, str, tuple[str, ...]]:
    """Lines of a block within, what it gives, of the sizes wanted, and what it reads outside."""
    inner = Body(body.program, values)
    inner.depth = body.depth + 1
    inner.grow(body.draw.randint(1, 4))
    names = [inner.of_sizes(sizes) for sizes in wanted]
    lines, read = inner.used(names)
    return "\n    ".join(lines), ", ".join(names), tuple(read.intersection(body.values))


def _while(body: Body) -> None:
    if body.depth > 1:
        return
    (x, sizes), (y, others) = body.operand(), body.operand()
    one, two, count = (body.program.name() for _ in range(3))
    lines, given, _ = _inner(body, {one: sizes, two: others}, [sizes, others])
    name, limit, flag, step, sum_ = (body.program.name() for _ in range(5))
    types = f"{type_of(sizes)}, {type_of(others)}, tensor<i32>"
    zero = body.program.name()
    body.line(f"{zero} = stablehlo.constant dense<0> : tensor<i32>", (), {zero: ()})
    del body.values[zero]
    body.line(
        f"""{name}:3 = stablehlo.while({one} = {x}, {two} = {y}, {count} = {zero}) : {types}
  cond {{
    {limit} = stablehlo.constant dense<3> : tensor<i32>
    {flag} = stablehlo.compare LT, {count}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return {flag} : tensor<i1>
  }} do {{
    {lines}
    {step} = stablehlo.constant dense<1> : tensor<i32>
    {sum_} = stablehlo.add {count}, {step} : tensor<i32>
    stablehlo.return {given}, {sum_} : {types}
  }}""",
        (x, y, zero),
        {f"{name}#0": sizes, f"{name}#1": others},
    )


def _case(body: Body) -> None:
    if body.depth:
        return
    _, sizes = body.operand()
    regions, outer = [], set[str]()
    for _ in range(2):
        lines, given, read = _inner(body, body.values, [sizes])
        outer |= {*read}
        regions.append(f"{{\n    {lines}\n    stablehlo.return {given} : {type_of(sizes)}\n  }}")
    text = f'"stablehlo.case"(%index) ({", ".join(regions)})'
    body.add(text, tuple(outer), sizes, f"(tensor<i32>) -> {type_of(sizes)}")


def _manual(body: Body) -> None:
    program = body.program
    free = [name for name in program.mesh.shape if name not in program.manual]
    if body.depth or not free:
        return
    x, sizes = body.operand()
    manual = sorted(body.draw.sample(free, body.draw.randint(1, len(free))), key=free.index)
    names, wholes = [x, x], [sizes, sizes]
    bounds, pieces = [], []
    for whole in wholes:
        piece = list(whole)
        dimensions: list[list[str]] = [[] for _ in whole]
        rest = []
        for axis in manual:
            size = program.mesh.shape[axis]
            fits = [n for n, each in enumerate(piece) if each % size == 0]
            if fits and body.draw.random() < 0.7:
                at = body.draw.choice(fits)
                piece[at] //= size
                dimensions[at].append(axis)
            else:
                rest.append(axis)
        shown = ", ".join(
            "{"
            + ", ".join([*(f'"{axis}"' for axis in each), *(["?"] * (body.draw.random() < 0.6))])
            + "}"
            for each in dimensions
        )
        replicated = f", replicated={{{', '.join(f'{chr(34)}{axis}{chr(34)}' for axis in rest)}}}"
        bounds.append(f"<@mesh, [{shown}]{replicated if rest else ''}>")
        pieces.append(tuple(piece))
    inside = program.name()
    program.manual = [*program.manual, *manual]
    lines, given, _ = _inner(body, {inside: pieces[0]}, [pieces[1]])
    program.manual = program.manual[: -len(manual)]
    axes = ", ".join(f'"{axis}"' for axis in manual)
    name = program.name()
    body.line(
        f"""{name} = sdy.manual_computation({names[0]}) in_shardings=[{bounds[0]}] \
out_shardings=[{bounds[1]}] manual_axes={{{axes}}} ({inside}: {type_of(pieces[0])}) {{
    {lines}
    sdy.return {given} : {type_of(pieces[1])}
  }} : ({type_of(wholes[0])}) -> {type_of(wholes[1])}""",
        (x,),
        {name: wholes[1]},
    )


def _named(body: Body) -> None:
    if body.depth or not body.program.has_named:
        return
    x, sizes = body.operand()
    inside, name = body.program.name(), body.program.name()
    lines, given, _ = _inner(body, {inside: sizes}, [sizes])
    shown = ""
    if body.draw.random() < 0.4:
        shown = f" in_shardings=[{body.program.sharding(sizes)}]"
    if body.draw.random() < 0.4:
        shown += f" out_shardings=[{body.program.sharding(sizes)}]"
    body.line(
        f"""{name} = sdy.named_computation<"f">({x}){shown} ({inside}: {type_of(sizes)}) {{
    {lines}
    sdy.return {given} : {type_of(sizes)}
  }} : ({type_of(sizes)}) -> {type_of(sizes)}""",
        (x,),
        {name: sizes},
    )


_MAKERS: dict[str, Callable[[Body], None]] = {
    name.strip("_"): maker
    for name, maker in list(globals().items())
    if name
    in [
        "_unary",
        "_binary",
        "_select",
        "_clamp",
        "_dot",
        "_reshape",
        "_transpose",
        "_reduce",
        "_broadcast",
        "_concatenate",
        "_slice",
        "_pad",
        "_reverse",
        "_dynamic_slice",
        "_dynamic_update_slice",
        "_gather",
        "_scatter",
        "_sort",
        "_convolution",
        "_constraint",
        "_barrier",
        "_group",
        "_optimization_barrier",
        "_while",
        "_case",
        "_manual",
        "_named",
    ]
}
