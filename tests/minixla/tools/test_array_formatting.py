"""Results for people: a few words, rows of numbers, files, pictures."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from minixla.tools.array_formatting import check_file, in_full, in_short, write_file
from minixla.tools.command_line import BadInput

NAN, INF, LARGEST = np.nan, np.inf, np.finfo("f8").max


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.arange(8.0), ""),
        (np.float32(2), ""),
        (np.arange(12, dtype="f4").reshape(3, 4), " from 0 to 11, mean 5.5; 1 of 12 0"),
        (np.array([NAN, INF, -INF] * 3), " 3 of 9 NaN; 3 of 9 inf; 3 of 9 -inf"),
        (np.array([NAN] + [2.0] * 8), " from 2 to 2, mean 2; 1 of 9 NaN"),
        (np.full(9, LARGEST), " from 1.8e+308 to 1.8e+308, mean 1.8e+308"),
        (np.arange(1, 20).astype(ml_dtypes.bfloat16), " from 1 to 19, mean 10"),
        (np.arange(-4, 4).repeat(2).astype(ml_dtypes.int4), " from -4 to 3, mean -0.5; 2 of 16 0"),
        (np.arange(10) > 3, " 6 of 10 true"),
        (np.arange(1, 10) * (3 + 4j), " magnitudes from 5 to 45, mean 25"),
        (np.zeros((0, 30)), ""),
    ],
    ids=lambda each: getattr(each, "dtype", each) and "",
)
def test_in_short(array, text):
    assert in_short(np.asarray(array)) == text


def test_in_full():
    assert in_full(np.arange(3)) == "[0 1 2]"
    lines = in_full(np.arange(1000.0).reshape(20, 50), 40).splitlines()
    assert max(map(len, lines)) < 40
    assert "..." in "".join(lines)
    assert "..." not in in_full(np.arange(400))


PICTURES = [
    (np.array([[0.0, 1.0, 0.5]]), [[0, 255, 128]]),
    (np.array([[-INF, NAN, 1.0, 3.0, INF]]), [[0, 0, 0, 255, 255]]),
    (np.full((1, 2), NAN), [[0, 0]]),
    (np.full((1, 2), 7), [[0, 0]]),
    (np.array([[-LARGEST, LARGEST]]), [[0, 255]]),
    (np.array([[True, False]]), [[255, 0]]),
    (np.array([[3, 250]], "u1"), [[3, 250]]),
    (np.array([[[3], [250]]], "u1"), [[3, 250]]),
    (np.array([[[1, 2, 3]]], "u1"), [[[1, 2, 3]]]),
    (np.array([[[1, 2, 3, 4]]], "u1"), [[[1, 2, 3, 4]]]),
    (np.array([[0, 1]]).astype(ml_dtypes.bfloat16), [[0, 255]]),
]


@pytest.mark.parametrize(("array", "expected"), PICTURES)
def test_pictures(tmp_path, array, expected):
    image = pytest.importorskip("PIL.Image", reason="Pillow, of the extra examples, is missing")
    path = tmp_path / "picture.png"
    check_file(str(path), [mx.Shape(array.dtype, array.shape)])
    write_file(str(path), {"result": array})
    with image.open(path) as read:
        assert read.format == "PNG"
        assert np.asarray(read).tolist() == expected


def test_files_of_arrays(tmp_path):
    array, name = np.array([1, NAN, -0.0], "f4"), str(tmp_path / "x.npy")
    write_file(name, {"result": array})
    assert np.load(name).tobytes() == array.tobytes()
    name = str(tmp_path / "x.any")
    write_file(name, {"result0": array, "result1": np.arange(2)})
    with np.load(name) as found:
        assert found.files == ["result0", "result1"]


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("x.npy", ["f32[2]", "f32[2]"], "x.npy holds one array, and there are 2"),
        ("x.PNG", ["f32[2,2]", "f32[]"], "x.PNG holds one array, and there are 2"),
        ("x.npy", [], "x.npy holds one array, and there are 0"),
        ("x.png", ["f32[4]"], "x.png: a picture is .*, and the result is f32.4."),
        ("x.png", ["f32[4,4,2]"], "a picture is"),
        ("x.png", ["f32[0,4]"], "a picture is"),
        ("x.png", ["c64[4,4]"], "a picture is"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(name, shapes, message):
    with pytest.raises(BadInput, match=message):
        check_file(name, [mx.parse_shape(each) for each in shapes])


def test_pictures_need_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match=r"pip install pillow, or use a \.npy"):
        check_file("x.png", [mx.parse_shape("f32[2,2]")])
