"""Difference quotients: where steps go, what is compared, and what elements are called."""

from __future__ import annotations

import numpy as np
import pytest

from minixla.core.shapes import Shape
from minixla.tools.differences import Leaf, Point, Space

STEP = 1e-6


def point(function, *values, is_smooth=False, **options):
    """A function of f64 and c128 arrays at some values, with a tolerance of 1e-9."""
    values = [np.asarray(each, complex if np.iscomplexobj(each) else float) for each in values]
    results = function(*values)
    inputs, outputs = (
        Space([Leaf(f"{name}[{i}]", Shape(x.dtype, x.shape)) for i, x in enumerate(arrays)])
        for name, arrays in (("args", values), ("result", results))
    )
    scale = np.maximum(1, np.abs(inputs.vector(values)) * 2.0**-20)
    return Point(
        inputs,
        outputs,
        inputs.vector(values),
        outputs.vector(results),
        function,
        STEP,
        scale,
        lambda quotients: np.full(len(quotients), 1e-9),
        4,
        is_smooth,
    )


# A function, the element where it is looked at, its derivative there.
SMOOTH = {
    "beside one": (np.sin, 0.5, np.cos(0.5)),
    "at a large number": (lambda x: x - 1e12, 1e12, 1.0),
    "at a number of no whole steps": (lambda x: 3 * x - 1e9, 1e9 / 3, 3.0),
    "at zero": (lambda x: x + x**2, 0.0, 1.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_quotients_are_over_the_way_that_rounding_leaves(name):
    function, value, derivative = SMOOTH[name]
    found = point(lambda x: [function(x)], [value]).along(np.array([0.7]))
    assert found.tangent[0] > 0.6
    np.testing.assert_allclose(found.middle / found.tangent, derivative, rtol=1e-8)
    assert found.forward(derivative * found.tangent).excess <= 1
    assert found.forward((derivative + 0.01) * found.tangent).excess > 1


# Where no derivative equals the quotients: it is no error, unless the function is to be smooth.
@pytest.mark.parametrize(
    ("function", "value"), [(np.abs, 0.0), (np.floor, 2.0), (np.log, 0.0), (np.sqrt, -1.0)]
)
def test_corners_jumps_and_infinities(function, value):
    with np.errstate(all="ignore"):
        for is_smooth in (False, True):
            here = point(lambda x: [function(x)], [value], is_smooth=is_smooth)
            found = here.along(np.array([1.0]))
            for derivative in (0.4, np.nan):
                is_excused = not is_smooth and (derivative == 0.4 or not np.isfinite(here.results))
                ours, one = np.array([derivative]), np.ones(1)
                assert (found.forward(ours).excess <= 1) == is_excused
                assert (found.reverse(one, ours).excess <= 1) == is_excused


def test_a_pullback_is_compared_by_products_over_real_and_complex_arrays():
    def function(x, z):
        return [x.sum() * z, x * x]

    x, z = np.array([1.0, -2.0]), np.array([0.5 + 2j])
    here = point(function, x, z)
    generator = np.random.default_rng(0)
    direction, cotangent = here.inputs.random(generator), here.outputs.random(generator)
    assert not here.inputs.arrays(direction)[0].imag.any()
    of_product, of_square = here.outputs.arrays(cotangent)
    pulled = [np.real(of_product * z) + 2 * x * of_square, of_product * x.sum()]
    right = here.inputs.vector(pulled)
    found = here.along(direction)
    assert found.reverse(cotangent, right).excess <= 1
    for coordinate in here.inputs.coordinates:
        wrong = right + 1e-5 * here.inputs.only([coordinate], right)
        assert found.reverse(cotangent, wrong).excess > 1, here.inputs.name(coordinate)


def test_the_errors_of_many_elements_are_taken_to_be_independent():
    here = point(lambda x: [np.sin(x)], np.linspace(0, 1, 10_000), is_smooth=True)
    found = here.along(np.ones(10_000))
    agreement = found.reverse(np.ones(10_000), np.cos(here.values))
    assert agreement.allowed * np.sqrt(10_000) == pytest.approx(
        np.linalg.norm(found.allowed), rel=1e-6
    )


def test_coordinates_have_names():
    space = Space([Leaf("a", Shape("f32", (2, 1))), Leaf("b", Shape("c64", ())), Leaf("c", EMPTY)])
    assert [space.name(each) for each in space.coordinates] == [
        "a[0, 0]",
        "a[1, 0]",
        "b",
        "b along 1j",
    ]
    vector = space.only(space.coordinates[1:], np.array([1.0, 2.0, 3 + 4j]))
    assert vector.tolist() == [0, 2, 3 + 4j]
    assert [each.dtype for each in space.arrays(vector)] == [np.float32, np.complex64, np.float32]


EMPTY = Shape("f32", (0, 3))
