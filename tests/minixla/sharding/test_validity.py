"""What is right of meshes, shardings and operations, and what is not: in Shardy, and in ours."""

from __future__ import annotations

import re

import pytest

from minixla.core.errors import ImportError_, MinixlaError, ShardingError
from minixla.core.shapes import Shape
from minixla.engine.shardy import shardy_pass
from minixla.sharding import parse_mesh, parse_sharding, run_pass
from tests.minixla.sharding.validity import LOCAL_SHAPES, PROGRAMS, RELATIONS, SHARDINGS
from tests.oracles.shardy_text import normal_form, written


def _argument(mesh, shape, sharding):
    """A program with an argument of a sharding."""
    type_ = f"tensor<{shape}xf32>".replace("<x", "<")
    attribute = f"sdy.sharding = #sdy.sharding<@mesh, {sharding}>"
    return f"sdy.mesh @mesh = <{mesh}>\nfunc.func @main(%x: {type_} {{{attribute}}}) {{ return }}"


_LOCAL = "sdy-convert-global-to-local"


def _check(text, refusal, passes=""):
    if not refusal:
        shardy_pass(text, passes)
        return
    with pytest.raises(ImportError_, match=re.escape(refusal)):
        shardy_pass(text, passes)


def _parsed(mesh, sharding):
    return parse_sharding(f"<@mesh, {sharding}>", {"mesh": parse_mesh(f"<{mesh}>")})


def _sizes(shape):
    return tuple(map(int, filter(None, shape.split("x"))))


@pytest.mark.parametrize("row", SHARDINGS, ids=lambda row: f"{row.mesh} {row.sharding}")
def test_a_sharding(row):
    _check(_argument(row.mesh, row.shape, row.sharding), row.refusal)
    shape = Shape("f32", _sizes(row.shape))
    if row.refusal:
        with pytest.raises(ShardingError):
            _parsed(row.mesh, row.sharding).check_rank(shape)
        return
    sharding = _parsed(row.mesh, row.sharding)
    sharding.check_rank(shape)
    again = parse_sharding(str(sharding), {"mesh": sharding.mesh})
    assert again == sharding
    assert normal_form(_argument(str(sharding.mesh)[1:-1], row.shape, row.sharding)) == normal_form(
        _argument(row.mesh, row.shape, row.sharding)
    )


#: What Shardy reads, and we do not.
_UNREAD = {
    "a dynamic dimension": "has a dimension without a bound",
    "a group of any number": "must be >= 0, not -1",
}


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_a_program(row):
    text = written(row.text)
    _check(text, row.refusal)
    if row.refusal or row.name in _UNREAD:
        with pytest.raises(MinixlaError, match=_UNREAD.get(row.name)):
            run_pass("symbol-dce", text)
    else:
        assert normal_form(run_pass("symbol-dce", text)) == normal_form(text)


@pytest.mark.parametrize("row", RELATIONS, ids=lambda row: f"{row.first} {row.second}")
def test_parts_of_axes_are_refused_where_they_overlap_or_could_be_one(row):
    is_whole = '"a"' in (row.first, row.second)
    overlap = "both sub-axis and full-axis" if is_whole else "overlapping sub-axes"
    refusals = [overlap, overlap] if "overlap" in row.holds else ["", ""]
    if "merge" in row.holds:
        refusals[1] = "two consecutive sub-axes can be merged"
    dimensions = f"[{{{row.first}}}, {{{row.second}}}]", f"[{{{row.first}, {row.second}}}, {{}}]"
    for sharding, refusal in zip(dimensions, refusals, strict=True):
        _check(_argument(f'["a"={row.size}]', "96x96", sharding), refusal)


@pytest.mark.parametrize("row", RELATIONS, ids=lambda row: f"{row.first} {row.second}")
def test_relations_of_parts_of_axes(row):
    mesh = f'["a"={row.size}]'
    first, second = (_parsed(mesh, f"[{{{each}}}]").parts[0][0] for each in (row.first, row.second))
    found = {
        "contains": first.contains(second),
        "prefix": first.is_prefix_of(second),
        "overlap": first.overlaps(second),
        "coexist": first.can_coexist(second),
        "merge": first.can_merge(second),
    }
    assert {word for word, holds in found.items() if holds} == row.holds
    assert first.overlaps(second) == second.overlaps(first)
    assert first.can_coexist(second) == second.can_coexist(first)
    assert second.is_prefix_of(first) == (first.contains(second) and first.start == second.start)


@pytest.mark.parametrize("row", LOCAL_SHAPES, ids=lambda row: f"{row.shape} {row.sharding}")
def test_what_one_device_has(row):
    text = _argument(row.mesh, row.shape, row.sharding)
    if not row.is_divided:
        _check(text, "Failed to compute local type due to non-divisible sharding", _LOCAL)
    else:
        assert f"%arg0: tensor<{row.local}xf32>" in shardy_pass(text, _LOCAL)
    local = _parsed(row.mesh, row.sharding).local_sizes(_sizes(row.shape))
    assert local == _sizes(row.local)
