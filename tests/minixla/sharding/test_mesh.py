"""Meshes: axes, devices, errors, and those of JAX."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType

from minixla.core.errors import ShardingError
from minixla.sharding import Mesh, parse_mesh

REFUSED = {
    "names": (dict(axis_names=("a", "b"), shape=(2,)), "2 names for 1 axes"),
    "twice": (dict(axis_names=("a", "a"), shape=(2, 2)), "axis a is repeated"),
    "size 0": (dict(axis_names=("a",), shape=(0,)), "axis a has size 0"),
    "no text": (dict(axis_names=(1,), shape=(2,)), "axis name 1 is not a string"),
    "devices": (
        dict(devices=[0, 1, 2], axis_names=("a",), shape=(2,)),
        "3 devices for a grid of 2",
    ),
    "no permutation": (
        dict(axis_names=("a",), shape=(2,), device_ids=[1, 2]),
        "must be a permutation of 0 to 1",
    ),
    "maximal": (dict(device_ids=[1, 2]), "the device ids of a mesh without axes"),
    "a size that is no whole number": (
        dict(axis_names="a", shape=(2.5,)),
        r"shape cannot be \(2.5",
    ),
    "a size that is a text": (dict(axis_names="a", shape=("2",)), "shape cannot be"),
    "a size alone": (dict(axis_names="a", shape=2), "shape cannot be 2"),
    "more than 64 bits": (dict(axis_names="a", shape=(2**63,)), "has size 9223372036854775808"),
    "no names": (dict(axis_names=1, shape=(2,)), "axis_names cannot be 1"),
    "ids of text": (dict(axis_names="a", shape=(2,), device_ids="ab"), "device_ids cannot be 'ab'"),
    "an id alone": (dict(device_ids=3), "device_ids cannot be 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_mesh_is_refused(name):
    given, problem = REFUSED[name]
    with pytest.raises(ShardingError, match=problem) as caught:
        Mesh(**given)
    assert "test_mesh.py" in str(caught.value)


def test_it_has_axes_and_sizes():
    mesh = Mesh(None, ("data", "model"), (2, 4))
    assert mesh.shape == {"data": 2, "model": 4}
    assert mesh.size == 8
    assert str(mesh) == '<["data"=2, "model"=4]>'
    assert repr(mesh) == '<Mesh ["data"=2, "model"=4]>'
    assert not (mesh.is_empty or mesh.is_maximal)
    assert Mesh().is_empty
    assert Mesh.maximal(3).is_maximal
    assert str(Mesh.maximal(3)) == "<[], device_ids=[3]>"


def test_devices_in_order_have_no_ids():
    assert Mesh(None, "a", (4,), device_ids=range(4)).device_ids is None
    permuted = Mesh(None, "a", (4,), device_ids=[3, 1, 2, 0])
    assert permuted != Mesh(None, "a", (4,))
    assert parse_mesh(str(permuted)) == permuted
    assert pickle.loads(pickle.dumps(permuted)) == permuted


def test_groups_are_who_meets_over_axes():
    mesh = Mesh(None, ("a", "b"), (2, 3))
    assert mesh.groups(("b",)) == ((0, 1, 2), (3, 4, 5))
    assert mesh.groups(("a",)) == ((0, 3), (1, 4), (2, 5))
    assert mesh.groups(("b", "a")) == ((0, 3, 1, 4, 2, 5),)
    np.testing.assert_array_equal(mesh.places(("b", "a")), [0, 2, 4, 1, 3, 5])
    order = Mesh(None, ("a", "b"), (2, 2), device_ids=[2, 0, 3, 1])
    assert order.groups(("b",)) == ((2, 0), (3, 1))
    np.testing.assert_array_equal(order.places(("b",)), [1, 1, 0, 0])


def test_it_comes_from_jaxs_and_goes_there():
    theirs = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    ours = Mesh.of(theirs)
    assert ours.shape == {"a": 2, "b": 2}
    assert ours.to_jax() == theirs
    assert Mesh.of(ours) is ours
    abstract = Mesh.of(AbstractMesh((2, 2), ("a", "b")))
    assert abstract.devices is None
    assert abstract.to_jax() == theirs
    with pytest.raises(ShardingError, match="the value is not a mesh"):
        Mesh.of("mesh")
    with pytest.raises(ShardingError, match=r"a mesh needs 1000 devices, but there are \d"):
        Mesh(None, ("a",), (1000,)).to_jax()


def test_other_devices_are_another_mesh():
    devices = jax.devices()
    assert Mesh(devices[:2], "a") == Mesh(devices[:2], ("a",))
    assert Mesh(devices[:2], "a") != Mesh(devices[1::-1], "a")
