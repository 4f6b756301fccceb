"""Shardings of arrays: rules, specs of JAX's, and what one device has."""

from __future__ import annotations

import pytest
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla.core.errors import ShardingError
from minixla.core.shapes import Shape
from minixla.sharding import AxisRef, DimensionSharding, Mesh, TensorSharding, parse_sharding

MESH = Mesh(None, ("p", "q"), (2, 4))
NAMED = {"m": MESH}

REFUSED = {
    "a name": ('<@m, [{"z"}]>', 'axis "z" is unknown'),
    "twice": ('<@m, [{"p"}, {"p"}]>', "used twice"),
    "replicated too": ('<@m, [{"p"}], replicated={"p"}>', "used twice"),
    "unreduced too": ('<@m, [{"p"}], unreduced={"p"}>', "used twice"),
    "overlap": ('<@m, [{"q":(1)2}, {"q"}]>', "overlaps"),
    "one": ('<@m, [{"q":(1)2, "q":(2)2}]>', 'Write "q" in their place'),
    "the whole as a part": ('<@m, [{"q":(1)4}]>', "is not a part of its axis"),
    "no divisor": ('<@m, [{"q":(1)3}]>', "is not a part of its axis"),
    "size 1": ('<@m, [{"q":(2)1}]>', "is not a part of its axis"),
    "major 0": ('<@m, [{"q":(0)2}]>', "is not a part of its axis"),
    "priority of nothing": ("<@m, [{}p1]>", "dimension 0 has a priority, but is empty and closed"),
    "order": ('<@m, [{}], replicated={"q", "p"}>', "not in the mesh's order"),
    "empty mesh": ('<mesh<[]>, [{"p"}]>', "a mesh without axes"),
    "one device": ("<mesh<[], device_ids=[1]>, [{}]>", "on a mesh of one device"),
    "open in the middle": ('<@m, [{?, "p"}]>', "comes last"),
    "unknown mesh": ("<@n, []>", "mesh @n is unknown; there are: m"),
    "cut off": ('<@m, [{"p"}', ", is expected"),
    "no end": ("<@m, []", "> is expected"),
    "more": ("<@m, []> x", "nothing more is expected"),
    "no quotes": ("<@m, [{p}]>", "a name in quotes"),
    "no number": ('<@m, [{"q":(x)2}]>', "a number is expected"),
    "another word": ("<@m, [], sharded={}>", "sharded is not expected"),
    "no mesh": ("<[]>", "a mesh"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sharding_is_refused(name):
    text, problem = REFUSED[name]
    with pytest.raises(ShardingError) as caught:
        parse_sharding(text, NAMED)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "<@m, []>",
        '<@m, [{"p"}, {?}]>',
        '<@m, [{"p", ?}p2, {}, {"q":(1)2}p0], replicated={"q":(2)2}>',
        '<mesh<["p"=2, "x y"=3]>, [{"x y"}], unreduced={"p"}>',
        "<mesh<[], device_ids=[7]>, []>",
        "<mesh<[]>, [{}, {?}]>",
        '<mesh<["a"=4], device_ids=[3, 1, 2, 0]>, [{"a"}]>',
    ],
)
def test_texts_come_back(text):
    found = parse_sharding(text, NAMED)
    assert str(found) == text
    assert parse_sharding(found.attribute, NAMED) == found


SPECS = {
    "one": (P("p"), 2, '[{"p"}, {}]'),
    "several": (P(("q", "p"), None), 2, '[{"q", "p"}, {}]'),
    "open": (P(P.UNCONSTRAINED, "p"), 2, '[{?}, {"p"}]'),
    "empty": (P(), 3, "[{}, {}, {}]"),
    "scalar": (P(), 0, "[]"),
    "a list of JAX's forms": (["p", None], 2, '[{"p"}, {}]'),
    "unreduced": (P("p", unreduced={"q"}), 1, '[{"p"}], unreduced={"q"}'),
    "parts": ([(AxisRef("q", 2, 2),)], 1, '[{"q":(2)2}]'),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec(name):
    spec, rank, text = SPECS[name]
    found = TensorSharding.from_spec(MESH, spec, rank)
    assert str(found) == f'<mesh<["p"=2, "q"=4]>, {text}>'


def test_a_spec_and_back():
    spec = P(("p", "q"), None, "p")
    found = TensorSharding.from_spec(MESH, spec[:2], 2)
    assert found.spec() == (("p", "q"), None)
    assert TensorSharding.open(MESH, 1).spec() == (...,)
    with pytest.raises(ShardingError, match="a spec of 3 entries for an array of 2 dimensions"):
        TensorSharding.from_spec(MESH, spec, 2)


@pytest.mark.parametrize("spec", [[1], [("p", 2)], [1.5, "p"], ["p", {"q"}]])
def test_what_is_no_entry_of_a_spec(spec):
    with pytest.raises(ShardingError, match="is not an entry of a spec") as caught:
        TensorSharding.from_spec(MESH, spec, 2)
    assert "test_tensor_sharding.py" in str(caught.value)


@pytest.mark.parametrize("spec", [1, "pq", {"p"}])
def test_what_is_no_spec(spec):
    with pytest.raises(ShardingError, match="is not a spec"):
        TensorSharding.from_spec(MESH, spec, 2)


def test_an_array_has_as_many_dimensions():
    sharding = TensorSharding.from_spec(MESH, P("p"), 2)
    sharding.check_rank(Shape("f32", (3, 3)))
    with pytest.raises(
        ShardingError, match="a sharding of 2 dimensions for an array of 1"
    ) as caught:
        sharding.check_rank(Shape("f32", (3,)))
    assert "f32[3] with" in str(caught.value)


def test_a_device_has_a_piece_rounded_up():
    sharding = parse_sharding('<@m, [{"p"}, {"q":(2)2}, {}]>', NAMED)
    assert sharding.local_sizes((7, 8, 5)) == (4, 4, 5)
    assert sharding.local_sizes((0, 1, 5)) == (0, 1, 5)


def test_it_is_made_of_its_parts_too():
    made = TensorSharding(MESH, (DimensionSharding((AxisRef("p"),), False, 1),), mesh_name="m")
    assert str(made) == '<@m, [{"p", ?}p1]>'
    assert not made.is_closed and not made.is_replicated
    assert TensorSharding.closed(MESH, 2).is_replicated
    assert made.of(mesh_name=None) != made
    assert made == parse_sharding(str(made), NAMED)


def test_the_public_names():
    assert mx.sharding.PartitionSpec is P
    assert {"Mesh", "TensorSharding", "constrain", "run_pass"} <= set(dir(mx.sharding))
    with pytest.raises(AttributeError, match="has no attribute 'Messh'"):
        _ = mx.sharding.Messh  # pyright: ignore[reportAttributeAccessIssue]
