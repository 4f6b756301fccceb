"""Window arithmetic (rule W): sizes, padding, dilation, and views in NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla_ops as ops
from minixla.core.errors import AttributeValueError
from minixla_ops.folds.sliding_windows import (
    PaddingPairs,
    Window,
    dilated_size,
    padded_base,
    resolve_window,
    same_padding,
    window_positions,
    window_view,
)


@pytest.mark.parametrize(
    ("size", "dilation", "expected"), [(0, 3, 0), (1, 3, 1), (2, 3, 4), (5, 1, 5), (3, 2, 5)]
)
def test_dilated_size(size, dilation, expected):
    assert dilated_size(size, dilation) == expected


@pytest.mark.parametrize(
    ("extent", "window", "stride", "expected"),
    [
        (5, 3, 1, 3),
        (5, 3, 2, 2),
        (6, 3, 2, 2),
        (3, 3, 5, 1),
        (2, 3, 1, 0),
        (0, 1, 1, 0),
        (0, 0, 1, 1),
    ],
)
def test_window_positions(extent, window, stride, expected):
    assert window_positions(extent, window, stride) == expected


def test_same_padding_uses_the_strided_formula_and_puts_the_odd_element_high():
    assert same_padding(5, 3, 2) == (1, 1)  # as if the stride were 1: the same
    assert same_padding(6, 3, 2) == (0, 1)  # as if the stride were 1: (1, 1)
    assert same_padding(7, 4, 1) == (1, 2)
    assert same_padding(4, 1, 3) == (0, 0)
    assert same_padding(0, 3, 1) == (1, 1)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "same", "Valid"])
def test_padding_strings_are_those_of_jax(padding):
    for base, size, stride in itertools.product(range(1, 9), range(1, 5), range(1, 4)):
        expected = lax.padtype_to_pads((base,), (size,), (stride,), padding)
        assert list(resolve_window((base,), (size,), (stride,), padding).padding) == expected


def test_same_takes_dilated_sizes():
    # A base of 3 and 2 holes (extent 5), a window of 2 and 1 hole (extent 3).
    assert resolve_window((3,), (2,), (1,), "SAME", (2,), (2,)).padding == ((1, 1),)


@pytest.mark.parametrize(
    ("padding", "phrase"),
    [
        ("FULL", "not 'FULL'"),
        ([(1,)], "padding = [(1,)]"),
        (3, "pairs"),
        ([(0, 0.5)], "0.5"),
    ],
)
def test_bad_padding_is_rejected(padding, phrase):
    with pytest.raises(AttributeValueError, match="reduce_window: attribute padding") as caught:
        ops.reduce_window(np.zeros(4, np.float32), 0, ops.add, (2,), (1,), padding)
    assert phrase in str(caught.value)
    assert '"SAME", "VALID" or a pair' in str(caught.value)


def test_padding_pairs_are_made_canonical():
    assert PaddingPairs().canonical([[np.int64(1), -2], (0, 3)]) == ((1, -2), (0, 3))
    with pytest.raises(TypeError, match="boolean"):
        PaddingPairs().canonical([(True, 1)])


WINDOWS = {
    "plain": ((5,), Window((2,), (1,), ((0, 0),), (1,), (1,))),
    "padded": ((5,), Window((3,), (2,), ((1, 2),), (1,), (1,))),
    "cut": ((7,), Window((2,), (2,), ((-2, -1),), (1,), (1,))),
    "cut to nothing": ((3,), Window((1,), (1,), ((-2, -2),), (1,), (1,))),
    "cut low, padded high": ((4,), Window((2,), (1,), ((-6, 5),), (1,), (1,))),
    "cut high, padded low": ((4,), Window((2,), (1,), ((5, -6),), (1,), (1,))),
    "base dilated": ((4,), Window((3,), (2,), ((2, 1),), (3,), (1,))),
    "base dilated and cut in a hole": ((4,), Window((2,), (1,), ((-1, -2),), (3,), (1,))),
    "window dilated": ((9,), Window((3,), (2,), ((1, 0),), (1,), (2,))),
    "empty base": ((0,), Window((2,), (1,), ((2, 1),), (2,), (1,))),
    "window too large": ((3,), Window((5,), (1,), ((0, 1),), (1,), (1,))),
    "two dimensions": ((4, 5), Window((2, 3), (2, 1), ((0, 1), (-1, 2)), (1, 2), (2, 1))),
    "none": ((), Window((), (), (), (), ())),
}


def elements(array, base, window, position):
    """Rule W, element by element: window element -> base element, or None for padding and holes."""
    found = []
    for offset in itertools.product(*map(range, window.sizes)):
        index = []
        for at, k, size, stride, (low, _), hole, gap in zip(
            position,
            offset,
            base,
            window.strides,
            window.padding,
            window.base_dilations,
            window.window_dilations,
            strict=True,
        ):
            place = at * stride + k * gap - low
            inside = place % hole == 0 and 0 <= place // hole < size
            index.append(place // hole if inside else None)
        found.append(None if None in index else array[tuple(index)])
    return found


@pytest.mark.parametrize("name", WINDOWS)
def test_view_and_presence_are_what_rule_w_says(name):
    base, window = WINDOWS[name]
    array = np.arange(1, 1 + np.prod(base, dtype=int), dtype=np.float32).reshape(base)
    padded = padded_base(array, np.float32(-1), window)
    assert padded.shape == window.padded(base)
    view = window_view(padded, window)
    positions = window.positions(base)
    assert view.shape == (*positions, *window.sizes)
    present = np.broadcast_to(window.present(base), (np.prod(window.sizes, dtype=int), *positions))
    for position in np.ndindex(*positions):
        expected = elements(array, base, window, position)
        assert [-1 if each is None else each for each in expected] == view[
            position
        ].ravel().tolist()
        assert [each is not None for each in expected] == present[(slice(None), *position)].tolist()


def test_presence_is_small_where_nothing_is_padded():
    window = Window((1, 2, 1), (1, 2, 1), ((0, 0), (0, 1), (0, 0)), (1, 1, 1), (1, 1, 1))
    assert window.present((100, 5, 100)).shape == (2, 1, 3, 1)


def test_a_window_of_the_last_dimensions_keeps_the_others():
    array = np.arange(24.0).reshape(2, 3, 4)
    window = Window((2,), (2,), ((1, 1),), (1,), (1,))
    padded = padded_base(array, 0.0, window)
    assert padded.shape == (2, 3, 6)
    assert np.array_equal(window_view(padded, window), padded.reshape(2, 3, 3, 2))


def test_no_copy_is_made_where_the_base_does_not_change():
    array = np.arange(6.0)
    window = Window((2,), (1,), ((0, 0),), (1,), (1,))
    assert padded_base(array, 0.0, window) is array
    assert np.shares_memory(window_view(array, window), array)
    assert not window_view(array, window).flags.writeable


def test_padded_base_takes_small_types():
    window = Window((2,), (1,), ((1, 1),), (2,), (1,))
    array = np.array([1, 2], ml_dtypes.int4)
    assert padded_base(array, np.array(-3, ml_dtypes.int4), window).tolist() == [-3, 1, -3, 2, -3]


@pytest.mark.parametrize("kind", ["int2", "float4_e2m1fn", "float8_e5m2", "bfloat16"])
def test_views_of_small_types(kind):
    array = np.array([1, 0, 1], getattr(ml_dtypes, kind))
    view = window_view(array, Window((2,), (1,), ((0, 0),), (1,), (1,)))
    assert view.dtype == array.dtype
    assert view.astype(int).tolist() == [[1, 0], [0, 1]]


def test_offsets_are_in_row_major_order():
    window = Window((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (3, 1))
    assert list(window.offsets()) == [(0, 0), (0, 1), (3, 0), (3, 1)]


def test_overlap():
    def overlaps(size, stride, gap=1):
        return Window((size,), (stride,), ((0, 0),), (1,), (gap,)).overlaps

    assert not overlaps(2, 2)
    assert not overlaps(1, 1)
    assert overlaps(3, 2)
    assert overlaps(2, 2, gap=2)


def test_a_dimension_can_be_inserted():
    window = Window((2, 3), (2, 1), ((0, 1), (-1, 2)), (1, 2), (2, 1)).inserted(1)
    assert window == Window((2, 1, 3), (2, 1, 1), ((0, 1), (0, 0), (-1, 2)), (1, 1, 2), (2, 1, 1))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((2, 2), (1, 1), ((0, 0), (0, 0))), "{size=2x2}"),
        (((2, 2), (2, 1), ((0, 1), (-1, 0))), "{size=2x2 stride=2x1 pad=0_1x-1_0}"),
        (((2,), (1,), ((0, 0),), (2,), (3,)), "{size=2 lhs_dilate=2 rhs_dilate=3}"),
    ],
)
def test_hlo_notation(arguments, text):
    window = resolve_window((4,) * len(arguments[0]), *arguments)
    assert window.hlo == text


def test_a_wrong_argument_beside_same_is_left_for_the_operation_to_reject():
    assert resolve_window((4,), (2,), (0,), "SAME").strides == (0,)
    assert resolve_window((4, 4), (2,), (1,), "SAME").sizes == (2,)
