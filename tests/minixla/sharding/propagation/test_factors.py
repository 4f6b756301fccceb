"""Dimensions' axes are handed to their factors, and put together again, as Shardy does."""

from __future__ import annotations

import pytest

from minixla.sharding.mesh import Mesh
from minixla.sharding.propagation.factors import Tensor
from minixla.sharding.text import parse_sharding

MESH = Mesh(None, list("pqrst"), [2, 4, 6, 8, 3])


def _sharding(text):
    return parse_sharding(f"<@m, {text}>", {"m": MESH})


def _shown(parts):
    return " ".join(str(MESH.axis(part)).replace('"', "") for part in parts)


@pytest.mark.parametrize(
    ("sizes", "dimension", "wanted"),
    [
        # Each factor takes what it can hold, and the last what is left.
        ((2, 4, 4), '"s", "p"', ["s:(1)2", "s:(2)4", "p"]),
        ((4, 8), '"p", "r", "t"', ["p r:(1)2", "r:(2)3 t"]),
        ((1,), '"p", "q"', ["p q"]),
        # What does not divide a factor is taken as far as it does; nothing is taken after it.
        ((4, 8), '"r", "s"', ["r:(1)2 | r:(2)3 s", " | r:(2)3 s"]),
        ((4, 8, 4), '"r", "s"', ["r:(1)2 | r:(2)3 s", " | r:(2)3 s"]),
        ((3, 8), '"p", "s"', [" | p s", " | p s"]),
        ((4, 6, 4), '"s", "p", "t"', ["s:(1)4", "s:(4)2 | p t", " | p t"]),
    ],
)
def test_axes_of_a_dimension_go_to_its_factors(sizes, dimension, wanted):
    tensor = Tensor([tuple(range(len(sizes)))], _sharding(f"[{{{dimension}}}]"), sizes)
    found = [
        _shown(each.parts) + (f" | {_shown(each.overflow)}" if each.overflow else "")
        for each in tensor.factors.values()
    ]
    assert found == wanted
    assert tensor.sharding_of(MESH, "m") is tensor.sharding


def test_factors_without_a_sharding_are_open():
    tensor = Tensor([(0, 1)], None, (4, 4))
    assert [(each.parts, each.is_closed, each.is_minor) for each in tensor.factors.values()] == [
        ((), False, False),
        ((), False, True),
    ]
    assert tensor.sharding_of(MESH, "m") is None


def test_axes_of_a_minor_factor_need_all_of_the_major_one():
    tensor = Tensor([(0, 1)], None, (4, 4))
    tensor.factors[1].parts = (MESH.whole_axes["p"],)
    assert tensor.sharding_of(MESH, "m") is None
    tensor.factors[0].parts = (MESH.whole_axes["q"],)
    assert tensor.sharding_of(MESH, "m") == _sharding('[{"q", "p", ?}]')


def test_parts_of_an_axis_in_neighbouring_factors_are_one_again():
    tensor = Tensor([(0, 1)], None, (2, 4))
    whole = Tensor([(0, 1)], _sharding('[{"s"}]'), (2, 4))
    for factor in tensor.factors:
        tensor.factors[factor].parts = whole.factors[factor].parts
    assert tensor.sharding_of(MESH, "m") == _sharding('[{"s", ?}]')


def test_a_priority_goes_when_a_dimension_changes():
    given = _sharding('[{?}p1, {"p", ?}p2]')
    tensor = Tensor([(0,), (1,)], given, (4, 4))
    tensor.factors[0].parts = (MESH.whole_axes["q"],)
    assert tensor.sharding_of(MESH, "m") == _sharding('[{"q", ?}, {"p", ?}]')
