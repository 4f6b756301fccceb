"""`minixla explain`."""

from __future__ import annotations

import pytest

import minixla as mx
from minixla.tools.command_line import main


@pytest.mark.parametrize("name", ["ShapeError", "shapeerror", "minixla.ShapeError"])
def test_a_class_is_explained(capsys, name):
    assert main(["explain", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ShapeError\n\nShapes, element types") and "\n## " not in out


def test_all_classes_are_listed(capsys):
    assert main(["explain"]) == 0
    assert {"ShapeError", "ImportError_", "NaNError"} < {*capsys.readouterr().out.split()}


def test_notes_of_errors_name_the_command(capsys):
    with pytest.raises(mx.ShapeError) as caught:
        mx.ops.add([1.0], [1.0, 2.0])
    *_, words = caught.value.__notes__[0].partition("python -m minixla ")
    assert main(words.split()) == 0
    assert capsys.readouterr().out.startswith("ShapeError\n")


def test_a_misspelt_class(capsys):
    assert main(["explain", "ShapError"]) == 2
    expected = "minixla explain: 'ShapError' is not an error class; did you mean ShapeError?\n"
    assert capsys.readouterr().err == expected
