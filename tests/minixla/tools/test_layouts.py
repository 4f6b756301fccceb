"""Layouts of every value, and the collectives that follow from them, against what XLA compiled."""

from __future__ import annotations

import functools
import re
from collections import Counter

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShardingError
from minixla.engine.cross_compile import compile_for, exported_for, platform_named
from minixla.engine.meshes import jax_mesh
from minixla.sharding import PartitionSpec as P
from minixla.tools.layouts import layouts, visualize_sharding
from tests.minixla.tools.pod_programs import pod_programs
from tests.minixla.tools.sharded_programs import DIFFERENCES, GRID, LINE, ROWS, f32
from tests.oracles.collectives import Found, collectives_of, totals

HERE = "test_layouts.py"


PODS = {2: pod_programs(2), 16: pod_programs(16)}
#: What XLA:TPU sends as bf16, since nothing but products reads it, which take bf16.
SENT_AS_BF16 = {"pipeline by scan": {"collective-permute"}, "sequence parallel": {"all-gather"}}


def as_found(collectives):
    return [Found(x.kind, frozenset(map(frozenset, x.groups)), x.bytes) for x in collectives]


@functools.cache
def predicted(name):
    row = ROWS[name]
    return row.jitted.shardings(*row.arguments).collectives()


@functools.cache
def compiled(name):
    row = ROWS[name]
    text = row.jitted.lower(*row.arguments).compile().as_text()
    return collectives_of(text, row.mesh.size)


def by_kind(found):
    bytes_of = Counter()
    for each in found:
        bytes_of[each.kind] += each.bytes
    return dict(bytes_of)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in DIFFERENCES])
def test_kinds_groups_and_bytes_are_those_of_xla(name):
    found = as_found(predicted(name))
    assert totals(found) == totals(compiled(name))
    # A permutation stays within the devices that meet.
    ours = [each.groups for each in found if each.kind == "collective-permute"]
    for each in compiled(name):
        if each.kind == "collective-permute":
            assert any(all(any(p <= g for g in groups) for p in each.groups) for groups in ours)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences_from_xla(name):
    """Those that are known; a row that is mended moves up."""
    _, by_xla, ours = DIFFERENCES[name]
    assert by_kind(compiled(name)) == by_xla
    assert by_kind(predicted(name)) == ours


@pytest.mark.parametrize("name", PODS[2])
def test_kinds_groups_and_bytes_of_training_on_a_square_of_devices(name):
    row = PODS[2][name]
    found = as_found(row.jitted.shardings(*row.arguments).collectives())
    text = row.jitted.lower(*row.arguments).compile().as_text()
    assert totals(found) == totals(collectives_of(text, 4))


@pytest.mark.far
@pytest.mark.parametrize("name", PODS[16])
def test_collectives_and_bytes_of_each_of_256_chips_that_are_not_here(name):
    row, platform = PODS[16][name], platform_named("tpu v5e:16x16")
    found = row.jitted.shardings(*row.arguments)
    made = compile_for(platform, exported_for(platform, row.jitted, row.arguments))
    theirs = collectives_of(made.text.replace("bf16[", "f32["), 256)
    assert totals(as_found(found.collectives())) == totals(theirs)
    lines = [line for line in made.text.splitlines() if re.search(r"= bf16\S+ [a-z-]+\(", line)]
    sent = {each.kind for each in collectives_of("\n".join(lines), 256)}
    assert sent == SENT_AS_BF16.get(name, set())
    held = [sum(row.bytes for row in found.rows if row.label.startswith("%arg"))]
    held += [sum(row.bytes for row in found.rows if row.label.startswith("result"))]
    assert held[0] == made.numbers["arguments"]
    # The results are a tuple, and a number takes a tile.
    assert 0 <= made.numbers["results"] - held[1] <= 2048


def test_what_is_laid_out_for_devices_that_are_not_here_runs_nowhere():
    row = PODS[16]["data parallel"]
    x = np.zeros((4096, 2048), np.float32)
    weights = np.zeros((2048, 4096), np.float32), np.zeros((4096, 2048), np.float32)
    for call in (row.jitted, row.jitted.lower, mx.jit(lambda *given: row.jitted(*given))):
        with pytest.raises(
            ShardingError, match="a mesh needs 256 devices, but there are"
        ) as caught:
            call(weights, x)
        assert 'jax.config.update("jax_num_cpu_devices", 256)' in str(caught.value)
        assert HERE in str(caught.value)


@pytest.mark.parametrize("name", ROWS)
def test_shardys_own_passes_find_the_same_layouts(name):
    row = ROWS[name]
    graph = row.jitted.graph(*row.arguments).pruned()
    ours, theirs = layouts(graph), layouts(graph, engine="shardy")
    assert ours.arguments == theirs.arguments
    assert ours.results == theirs.results
    if name == "factorisation":  # of which a text's half that is not used is masked when it is read
        return
    rows = [[each[:4] for each in x.rows if each.shape.rank] for x in (ours, theirs)]
    assert rows[0] == rows[1]
    assert by_kind(ours.collectives()) == by_kind(theirs.collectives())


def test_a_collective_says_for_what_it_is_and_where():
    (found,) = predicted("loop with a carry in pieces")
    assert (found.kind, found.axes, found.devices) == ("all-gather", ("model",), 2)
    assert found.groups == ((0, 1), (2, 3))
    assert (str(found.shape), found.bytes) == ("f32[4,16]", 256)
    assert (found.step, found.in_loop) == ("dot_general", True)
    assert "sharded_programs.py" in str(found.source)
    text = str(predicted("loop with a carry in pieces"))
    assert "all-gather" in text
    assert "dot_general, in a loop" in text
    assert "to match the result's sharding" in text
    assert "<table" in predicted("gather")._repr_html_()


def test_collectives_of_a_program_have_the_axes_of_their_manual_computation():
    (found,) = predicted("shard_map")
    assert (found.kind, found.axes, found.why) == ("all-reduce", ("model",), "written so")
    kinds = ["all-gather", "collective-permute", "reduce-scatter", "all-to-all"]
    assert sorted(each.kind for each in predicted("collectives of a program")) == sorted(kinds)
    assert {each.axes for each in predicted("collectives of a program")} == {("x",)}


def test_none():
    assert str(predicted("nothing needed")) == "no collectives"
    assert predicted("nothing needed").bytes == 0


def test_the_table_has_every_value_with_its_piece():
    row = ROWS["tensor parallel mlp"]
    found = row.jitted.shardings(*row.arguments)
    lines = [line.split("  ") for line in str(found).splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0] == ['@mesh = <["data"=2, "model"=2]>']
    assert cells[1] == ["value", "shape", "layout", "on each device", "bytes", "line"]
    without_lines = [[x for x in each if ".py" not in x] for each in cells[2:]]
    assert without_lines == [
        ["%arg0 args[0]", "f32[8,16]", "[{}, {model}]", "f32[8,8]", "256"],
        ["%arg1 args[1]", "f32[16,8]", "[{model}, {}]", "f32[8,8]", "256"],
        ["%arg2 args[2]", "f32[4,8]", "[{}, {}]", "f32[4,8]", "128"],
        ["%3 dot_general", "f32[4,16]", "[{?}, {model, ?}]", "f32[4,8]", "128"],
        ["%4 tanh", "f32[4,16]", "[{?}, {model, ?}]", "f32[4,8]", "128"],
        ["%5 dot_general", "f32[4,8]", "f32[4,8]", "128"],
        ["result = %5", "f32[4,8]", "[{}, {}]", "f32[4,8]", "128"],
    ]
    assert cells[5][5].endswith("(layer)")
    assert "sharded_programs.py" in cells[5][5]
    assert "<table" in found._repr_html_()
    assert repr(found) == "<Layouts of 7 values>"


def test_leaves_have_the_paths_of_their_arguments():
    def function(tree, scale, *, flag, **more):
        return {"y": tree["w"][0] @ tree["w"][1] * scale, "z": [more["x"]]}

    x = np.ones((4, 4), np.float32)
    jitted = mx.jit(function, static_argnames=["flag"])
    found = jitted.shardings({"w": [x, x]}, np.float32(2), flag=True, x=x)
    labels = [row.label for row in found.rows]
    assert labels[:2] == ["%arg0 args[0]['w'][0]", "%arg1 args[0]['w'][1]"]
    assert labels[2:4] == ["%arg2 args[1]", "%arg3 kwargs['x']"]
    assert [label.partition(" = ")[0] for label in labels[-2:]] == ["result['y']", "result['z'][0]"]


def test_values_in_loops_and_manual_computations_are_rows():
    row = ROWS["loop with a carry in pieces"]
    inside = [each for each in row.jitted.shardings(*row.arguments).rows if each.depth]
    (made,) = [each for each in inside if each.label.endswith("dot_general")]
    assert (str(made.local), made.bytes) == ("f32[4,8]", 128)
    row = ROWS["shard_map"]
    rows = row.jitted.shardings(*row.arguments).rows
    pieces = {each.label.split(" ", 1)[1]: str(each.shape) for each in rows if each.depth}
    assert pieces["input 0"] == "f32[4,8]"
    assert pieces["dot_general"] == "f32[4,4]"
    assert [str(each.local) for each in rows if each.label.endswith("manual_computation")] == [
        "f32[4,4]"
    ]


def test_a_function_that_is_called_lies_at_each_call_as_there():
    inner = mx.jit(lambda x: mx.numpy.tanh(x))
    specs = (P("x"), P(None, "x"))
    both = mx.jit(lambda x, y: (inner(x), inner(y)), mesh=LINE, in_shardings=specs)
    found = both.shardings(f32(8, 8), f32(8, 8))
    made = [each.sharding.spec() for each in found.rows if each.label.endswith("tanh")]
    assert made == [("x", ...), (..., "x")]
    assert not found.collectives()


def test_the_graph_is_what_shardy_prints():
    row = ROWS["sum"]
    text = row.jitted.shardings(*row.arguments).graph.stablehlo()
    assert 'sdy.mesh @mesh = <["x"=4]>' in text
    assert '%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}' in text


@pytest.mark.parametrize("form", [".svg", ".dot", ".txt"])
def test_pictures(form, tmp_path):
    row = ROWS["sum"]
    found, path = row.jitted.shardings(*row.arguments), tmp_path / f"layouts{form}"
    found.draw(path)
    data = path.read_bytes()
    marks = {".svg": b"<svg", ".dot": b"digraph", ".txt": b"[{x}, {}]"}
    assert marks[form] in data and b"reduce" in data
    assert form == ".txt" or b"@mesh" in data


def test_errors():
    row = ROWS["sum"]
    found = row.jitted.shardings(*row.arguments)
    with pytest.raises(AttributeValueError, match=r"ends in '\.gif'") as caught:
        found.draw("layouts.gif")
    assert ".svg, .dot, .txt" in str(caught.value)
    with pytest.raises(AttributeValueError, match="engine 'magic' is unknown") as caught:
        layouts(row.jitted.graph(*row.arguments), engine="magic")
    assert "native or shardy" in str(caught.value)
    assert HERE in str(caught.value)


@pytest.mark.parametrize(
    ("mesh", "spec", "sizes"),
    [
        (LINE, P("x"), (8, 2)),
        (GRID, P("model", "data"), (4, 6)),
        (GRID, P(None, ("model", "data")), (3, 8)),
        (GRID, P("data"), (6,)),
        (GRID, P(), (2, 2)),
        (mx.sharding.Mesh(None, ("a", "b"), (2, 2), device_ids=[2, 0, 3, 1]), P("b"), (4,)),
    ],
)
def test_pieces_are_those_of_jax(mesh, spec, sizes):
    named = jax.sharding.NamedSharding(jax_mesh(mesh), spec)
    array = jax.device_put(np.zeros(sizes, np.float32), named)
    pieces = {}
    for shard in array.addressable_shards:
        bounds = [each.indices(size) for each, size in zip(shard.index, sizes, strict=True)]
        index = ", ".join([f"{start}:{end}" for start, end, _ in bounds])
        pieces.setdefault(f"[{index}]", []).append(shard.device.id)
    text = visualize_sharding(sizes, mx.sharding.TensorSharding.from_spec(mesh, spec, len(sizes)))
    header, *rows = [line.split("  ") for line in text.splitlines()]
    assert [header[0].strip(), header[-1].strip()] == ["piece", "devices"]
    found = {row[0].strip(): [int(x) for x in row[-1].split(",")] for row in rows}
    assert found == {index: sorted(devices) for index, devices in pieces.items()}


def test_pieces_of_an_array_on_one_device_alone():
    alone = mx.sharding.TensorSharding(mx.sharding.Mesh.maximal(3))
    assert visualize_sharding((4, 2), alone).split() == ["piece", "devices", "[0:4,", "0:2]", "3"]
    assert visualize_sharding((), alone).split() == ["piece", "devices", "[]", "3"]


def test_pieces_of_an_array_of_other_dimensions():
    sharding = mx.sharding.parse_sharding('<mesh<["x"=2]>, [{"x"}, {}]>')
    with pytest.raises(mx.ShardingError, match="of 2 dimensions for an array of 1"):
        visualize_sharding((4,), sharding)
