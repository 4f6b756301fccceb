"""Tables: as wide as they are, and as narrow as a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import Counter

import pytest

import minixla as mx
from minixla.core.tables import Table, terminal_width
from minixla.tools.layouts import Collectives
from minixla.tools.operations_table import operation_rows
from minixla.tools.reports import CrossCheckReport, Row

WORDS = Table(
    ("name", "count", "empty", "note"),
    [
        ("add", "12", "", "one two three four five six"),
        ("a_very_long_name_without_an_end", "1,234", "", ""),
    ],
)
WIDE = Table(
    tuple(f"column{n}" for n in range(6)), [[f"cell{m}{n}" for n in range(6)] for m in (1, 2)]
)


def test_a_table_without_a_width_is_as_wide_as_it_is():
    assert WORDS.text().splitlines() == [
        "name                             count  note",
        "add                                 12  one two three four five six",
        "a_very_long_name_without_an_end  1,234",
    ]
    assert WORDS.text(200) == WORDS.text()
    assert Table(("a",), []).text() == Table(("a",), []).text(10) == ""


def test_wide_columns_are_broken_at_words():
    assert WORDS.text(40).splitlines() == [
        "name             count  note",
        "add                 12  one two three",
        "                        four five six",
        "a_very_long_nam  1,234",
        "e_without_an_en",
        "d",
    ]


def test_more_columns_stand_below_beside_the_first():
    assert WIDE.text(40).splitlines() == [
        "column0  column1  column2  column3",
        "cell10   cell11   cell12   cell13",
        "cell20   cell21   cell22   cell23",
        "",
        "column0  column4  column5",
        "cell10   cell14   cell15",
        "cell20   cell24   cell25",
    ]


@pytest.mark.parametrize("width", [1, 30, 50, 80, 120, 300])
@pytest.mark.parametrize("table", [WORDS, WIDE, None], ids=["words", "wide", "operations"])
def test_nothing_is_left_out(table, width):
    rows = operation_rows()
    table = table or Table(rows[0]._fields, [list(map(str, row)) for row in rows[:20]])
    text = table.text(width)
    columns = [each for each in zip(table.header, *table.rows, strict=True) if any(each[1:])]
    letters = Counter("".join(map("".join, columns)).replace(" ", ""))
    # The first column may stand there several times.
    assert not letters - Counter(text)
    if width >= 50:
        assert max(map(len, text.splitlines())) <= width


def test_depth_is_kept_where_a_cell_is_broken():
    table = Table(("value", "x"), [("    one two three four", "1")])
    assert table.text(18).splitlines() == [
        "value            x",
        "    one two      1",
        "    three four",
    ]


class Stream(io.StringIO):
    def isatty(self):
        return True


#: Nothing was found in a program.
CHECKED = [], mx.make_graph(mx.numpy.sin)(1.0), [], []


def test_reports_are_as_wide_as_the_terminal(monkeypatch):
    note = "why it is so in quite a few words " * 4
    report = CrossCheckReport("f", [Row("result", "f32[2]", "XLA", note=note)], *CHECKED)
    wide = str(report)
    assert terminal_width() is None
    assert max(map(len, wide.splitlines())) > 100
    monkeypatch.setattr(sys, "stdout", Stream())
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((60, 20)))
    assert terminal_width() == 60
    narrow = str(report)
    monkeypatch.undo()
    assert max(map(len, narrow.splitlines())) <= 60
    assert "<td>" + note + "</td>" in report._repr_html_()
    assert str(Collectives([])) == "no collectives"


def test_html_is_escaped():
    text = Table(("<a>",), [("<script>x&y</script>",)]).html()
    assert "<script>" not in text
    assert "&lt;script&gt;x&amp;y&lt;/script&gt;" in text
    report = CrossCheckReport("<lambda>", [Row("<b>", "f32[]", "XLA")], *CHECKED)
    assert "<lambda>" not in report._repr_html_()
    assert "<td>&lt;b&gt;</td>" in report._repr_html_()
