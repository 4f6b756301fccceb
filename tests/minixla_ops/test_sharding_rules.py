"""Sharding rules of operations, against Shardy's registry of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from tests.minixla_ops import sharding_rows
from tests.minixla_ops.sharding_rows import TEXTS, WITHOUT_RULE, Row, program
from tests.oracles.sharding_rules import shardy_rules

ROWS = sharding_rows.rows()
# What is written as programs of other operations that XLA runs better.
_EXPANDED = ("Fft", "ReduceWindow", "Scatter", "SelectAndScatter", "Cholesky", "TriangularSolve")
_EXPANDED += ("ConcatInDim",)


def own_rule(graph: Graph) -> str:
    """The text of the rule of a graph's last instruction, "" for none."""
    step = graph.instructions[-1]
    return str(step.op.sharding_rule(*[value.shape for value in step.operands]) or "")


def shardys_rule(name: str, text: str) -> str:
    """Shardy's for the last operation of that name in a program, or for a custom call."""
    names = f"stablehlo.{name}", f"sdy.{name}", "stablehlo.custom_call"
    return [rule for each, rule in shardy_rules(text) if each in names][-1]


@pytest.fixture(name="_plain_text")
def fixture_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every operation written as the one that it is."""
    for name in _EXPANDED:
        monkeypatch.setattr(REGISTRY[name], "stablehlo", Operation.stablehlo)
    monkeypatch.setattr(REGISTRY["CustomCall"], "_refuse_callback", lambda self: None)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.usefixtures("_plain_text")
def test_a_rule_is_that_of_shardys_registry(name: str):
    for row in ROWS[name]:
        graph = mx.make_graph(row.function)(*row.operands)
        assert own_rule(graph) == shardys_rule(name, graph.stablehlo()), row.shapes


@pytest.mark.parametrize("name", TEXTS)
def test_a_rule_of_what_is_read_is_that_of_shardys_registry(name: str):
    text = program(TEXTS[name])
    assert own_rule(mx.import_stablehlo(text).graph) == shardys_rule(name, text)


def test_a_call_keeps_the_rule_that_a_program_states():
    rule = "([i, j])->([j]) {i=4, j=8} reduction={i}, custom"
    text = f"""func.func public @main(%a: tensor<4x8xf32>) -> tensor<8xf32> {{
      %0 = stablehlo.custom_call @Unknown(%a)
        {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : (tensor<4x8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }}"""
    graph = mx.import_stablehlo(text).graph
    assert own_rule(graph) == rule == shardys_rule("custom_call", graph.stablehlo())


def test_every_entry_of_the_registry_is_in_the_table():
    shown = {*ROWS, *TEXTS}.difference(WITHOUT_RULE)
    assert shown == sharding_rows.REGISTRY
    assert len(shown) == 103


def test_what_the_registry_has_no_rule_for_has_none():
    graphs: list[Any] = [mx.make_graph(row.function)(*row.operands) for row in _without_rule()]
    graphs += [
        mx.make_graph(ROWS[target][0].function)(Shape("f32", (4, 8))) for target in WITHOUT_RULE
    ]
    assert [own_rule(graph) for graph in graphs] == [""] * len(graphs)


def _without_rule() -> list[Row]:
    """Operations that the registry knows to have none, or does not know."""
    pair = ("f32[4,8]",) * 2
    return [
        Row(lambda: ops.iota(Shape("s32", (4,)), 0), ()),
        Row(lambda: ops.constant(2.0), ()),
        Row(lambda x, y: ops.tuple([x, y]), pair),
        Row(lambda x, y: ops.optimization_barrier((x, y)), pair),
        Row(lambda x: ops.while_(lambda c: c.sum() < 1, lambda c: c + 1, x), pair[:1]),
    ]


def _sizes(random: np.random.Generator, product: int) -> tuple[int, ...]:
    """A factorisation of a number, with some ones."""
    sizes = []
    while product > 1:
        divisors = [each for each in range(2, product + 1) if product % each == 0]
        sizes.append(int(random.choice(divisors)))
        product //= sizes[-1]
        sizes += [1] * int(random.random() < 0.15)
    return tuple(sizes)


def _reshape(random: np.random.Generator) -> Row:
    product = int(random.choice([24, 36, 60, 72, 120, 180, 210, 360, 720, 840, 2520]))
    before, after = _sizes(random, product), _sizes(random, product)
    return Row(lambda x: ops.reshape(x, after), (f"f32[{','.join(map(str, before))}]",))


def _convolution(random: np.random.Generator) -> Row:
    size, kernel, stride, dilation, gap = map(int, random.integers(1, (13, 6, 4, 3, 3)))
    size = max(size, (kernel - 1) * gap + 1)
    groups, batches = ((1, 1), (2, 1), (1, 2))[random.integers(3)]
    window = {"window_strides": (stride,), "padding": (tuple(map(int, random.integers(0, 3, 2))),)}
    window |= {"lhs_dilation": (dilation,), "rhs_dilation": (gap,)}
    window |= {"feature_group_count": groups, "batch_group_count": batches}
    features, outputs = map(int, random.integers(1, 4, 2))
    return sharding_rows.convolution(
        f"{2 * batches},{size},{features * groups}",
        f"{kernel},{features},{outputs * groups * batches}",
        **window,
    )


def _dot_general(random: np.random.Generator) -> Row:
    sizes = [int(each) for each in random.integers(1, 5, 6)]
    roles = [int(each) for each in random.integers(0, 4, 6)]  # batch, contracting, lhs, rhs
    lhs, rhs = (
        [i for i in random.permutation(6) if roles[i] in kinds] for kinds in ((0, 1, 2), (0, 1, 3))
    )
    both = [[i for i in range(6) if roles[i] == kind] for kind in (1, 0)]
    numbers = tuple(tuple([x.index(i) for i in part] for x in (lhs, rhs)) for part in both)
    shapes = tuple(f"f32[{','.join(str(sizes[i]) for i in x)}]" for x in (lhs, rhs))
    return Row(lambda x, y: ops.dot_general(x, y, numbers), shapes)


def _reduce_window(random: np.random.Generator) -> Row:
    columns = random.integers(1, (9, 4, 3, 3, 3), (2, 5)).tolist()
    sizes, window, strides, base, gaps = zip(*columns, strict=True)
    padding = tuple(map(tuple, random.integers(0, 2, (2, 2)).tolist()))
    given = window, strides, padding, base, gaps
    shape = f"f32[{','.join(map(str, sizes))}]"
    return Row(lambda x, y: ops.reduce_window(x, y, ops.max, *given), (shape, "f32[]"))


def _gather(random: np.random.Generator) -> Row:
    """With all kinds of dimensions, each in random places."""
    operand = [int(each) for each in random.integers(1, 6, 4)]
    roles = random.integers(0, 3, 4).tolist()  # in windows, collapsed, of a batch
    windows, collapsed, batching = ([i for i in range(4) if roles[i] == kind] for kind in range(3))
    mapped = [int(i) for i in random.permutation([*windows, *collapsed])][: random.integers(5)]
    slices = [int(random.integers(1, operand[i] + 1)) if i in windows else 1 for i in range(4)]
    outer = [*[operand[i] for i in batching], *random.integers(1, 4, random.integers(3)).tolist()]
    order = [int(i) for i in random.permutation(len(outer))]
    indices, places = [outer[i] for i in order], [order.index(i) for i in range(len(batching))]
    at = int(random.integers(len(indices) + 1))
    places = [place + (place >= at) for place in places]
    offsets = sorted(random.permutation(len(indices) + len(windows))[: len(windows)].tolist())
    numbers = GatherDimensionNumbers(offsets, collapsed, mapped, at, batching, places)
    indices.insert(at, len(mapped))
    shapes = tuple(",".join(map(str, each)) for each in (operand, indices))

    def function(x, i):
        return ops.gather(x, i, numbers, slices)

    return Row(function, (f"f32[{shapes[0]}]", f"s32[{shapes[1]}]"))


def _shape(sizes: Any, kind: str = "f32") -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


def _any(random: np.random.Generator, least: int = 1, most: int = 4) -> list[int]:
    """Sizes of a random rank, many of them 0 and 1."""
    return random.choice([0, 1, 1, 2, 3, 4], random.integers(least, most + 1)).tolist()


def _below(random: np.random.Generator, sizes: list[int]) -> list[int]:
    """Sizes that are at most these, and half of them these."""
    return [n if random.random() < 0.5 else int(random.integers(0, n + 1)) for n in sizes]


def _sort(random: np.random.Generator) -> Row:
    sizes, count = _any(random), random.integers(1, 3)
    at = int(random.integers(len(sizes)))
    if count == 1:
        return Row(lambda x: ops.sort(x, ops.lt, at), (_shape(sizes),))

    def both(x, y):
        return ops.sort([x, y], lambda a, b, c, d: ops.lt(c, d), at)

    return Row(both, (_shape(sizes), _shape(sizes, "s32")))


def _slice(random: np.random.Generator) -> Row:
    sizes = _any(random)
    limits = _below(random, sizes)
    starts, strides = _below(random, limits), random.integers(1, 3, len(sizes)).tolist()
    return Row(lambda x: ops.slice(x, starts, limits, strides), (_shape(sizes),))


def _pad(random: np.random.Generator) -> Row:
    sizes = _any(random)
    config = random.integers(0, (2, 2, 2), (len(sizes), 3)).tolist()
    return Row(lambda x, y: ops.pad(x, y, config), (_shape(sizes), "f32[]"))


def _concatenate(random: np.random.Generator) -> Row:
    sizes = _any(random)
    at = int(random.integers(len(sizes)))
    parts = [_shape([*sizes[:at], int(n), *sizes[at + 1 :]]) for n in random.integers(0, 3, 3)]
    return Row(lambda *xs: ops.concat_in_dim(xs, at), (*parts[: random.integers(1, 4)],))


def _dynamic_slice(random: np.random.Generator) -> Row:
    sizes = _any(random)
    part, starts = _below(random, sizes), ("s32[]",) * len(sizes)
    return Row(lambda x, *s: ops.dynamic_slice(x, s, part), (_shape(sizes), *starts))


def _dynamic_update_slice(random: np.random.Generator) -> Row:
    sizes = _any(random)
    shapes = _shape(sizes), _shape(_below(random, sizes)), *["s32[]"] * len(sizes)
    return Row(lambda x, y, *s: ops.dynamic_update_slice(x, y, s), shapes)


def _reduce(random: np.random.Generator) -> Row:
    sizes = _any(random)
    along = random.permutation(len(sizes))[: random.integers(len(sizes) + 1)].tolist()
    return Row(lambda x, y: ops.reduce(x, y, ops.add, along), (_shape(sizes), "f32[]"))


def _broadcast_in_dim(random: np.random.Generator) -> Row:
    sizes = _any(random)
    places = random.permutation(len(sizes))[: random.integers(len(sizes) + 1)].tolist()
    own = [1 if random.random() < 0.4 else sizes[at] for at in places]
    return Row(lambda x: ops.broadcast_in_dim(x, sizes, places), (_shape(own),))


def _fft(random: np.random.Generator) -> Row:
    sizes, form = _not_empty(random), str(random.choice(["FFT", "IFFT", "RFFT", "IRFFT"]))
    lengths = sizes[-int(random.integers(1, min(len(sizes), 3) + 1)) :]
    if form == "IRFFT":
        lengths = [*lengths[:-1], 2 * (lengths[-1] - 1) or 1]
    kind = "f32" if form == "RFFT" else "c64"
    return Row(lambda x: ops.fft(x, form, lengths), (_shape(sizes, kind),))


def _cholesky(random: np.random.Generator) -> Row:
    sizes = [*_any(random, 0, 2), *[int(random.integers(1, 4))] * 2]
    return Row(ops.cholesky, (_shape(sizes),))


def _triangular_solve(random: np.random.Generator) -> Row:
    stack, size, other = _any(random, 0, 2), *map(int, random.integers(1, 4, 2))
    left, way = bool(random.integers(2)), str(random.choice(["NO_TRANSPOSE", "TRANSPOSE"]))
    shapes = (
        _shape([*stack, size, size]),
        _shape([*stack, *((size, other) if left else (other, size))]),
    )
    return Row(lambda a, b: ops.triangular_solve(a, b, left, True, False, way), shapes)


def _scatter(random: np.random.Generator) -> Row:
    row = _gather(random)
    graph = mx.make_graph(row.function)(*row.operands)
    numbers = ScatterDimensionNumbers(*graph.instructions[-1].op.dimension_numbers)

    def function(x, i, u):
        return ops.scatter(x, i, u, ops.add, numbers)

    return Row(function, (*row.shapes, str(graph.output_shapes[0])))


def _select_and_scatter(random: np.random.Generator) -> Row:
    row = _reduce_window(random)
    step = mx.make_graph(row.function)(*row.operands).instructions[-1]
    window = step.op.window[:3]

    def fold(x, y):
        return ops.reduce_window(x, y, ops.max, *window)

    (source,) = mx.make_graph(fold)(*row.operands).output_shapes

    def function(x, y, z):
        return ops.select_and_scatter(x, ops.ge, *window, y, z, ops.add)

    return Row(function, (row.shapes[0], str(source), "f32[]"))


def _not_empty(random: np.random.Generator) -> list[int]:
    # StableHLO refuses collectives of nothing.
    return [max(size, 1) for size in _any(random)]


def _all_to_all(random: np.random.Generator) -> Row:
    sizes = _not_empty(random)
    split, join = random.integers(len(sizes), size=2).tolist()
    sizes[split] *= 2
    return Row(lambda x: ops.all_to_all(x, split, join, 2, ((0, 1),)), (_shape(sizes),))


def _all_gather(random: np.random.Generator) -> Row:
    sizes = _not_empty(random)
    at = int(random.integers(len(sizes)))
    return Row(lambda x: ops.all_gather(x, at, 2, ((0, 1),)), (_shape(sizes),))


def _reduce_scatter(random: np.random.Generator) -> Row:
    sizes = _not_empty(random)
    at = int(random.integers(len(sizes)))
    sizes[at] *= 2
    return Row(lambda x: ops.reduce_scatter(x, ops.add, at, 2, ((0, 1),)), (_shape(sizes),))


def _clamp(random: np.random.Generator) -> Row:
    shape = _shape(_any(random, 0))
    low, high = (str(random.choice([shape, "f32[]"])) for _ in range(2))
    return Row(ops.clamp, (low, shape, high))


_RANDOM = {
    "reshape": _reshape,
    "convolution": _convolution,
    "dot_general": _dot_general,
    "reduce_window": _reduce_window,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reduce": _reduce,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "broadcast_in_dim": _broadcast_in_dim,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "select_and_scatter": _select_and_scatter,
    "all_to_all": _all_to_all,
    "all_gather": _all_gather,
    "clamp": _clamp,
    "reduce_scatter": _reduce_scatter,
}


@pytest.mark.full
@pytest.mark.parametrize("name", _RANDOM)
@pytest.mark.usefixtures("_plain_text")
def test_rules_of_random_operations_are_shardys(name: str):
    random = np.random.default_rng(0)
    for number in range(400):
        row = _RANDOM[name](random)
        graph = mx.make_graph(row.function)(*row.operands)
        shown = f"{number}: {row.shapes} {graph.instructions[-1].op}"
        assert own_rule(graph) == shardys_rule(name, graph.stablehlo()), shown
