"""Valid programs with changed attributes and types are read, or raise our errors."""

from __future__ import annotations

import pytest

import minixla as mx
from tests.soak import readers


def _check(first: int, count: int) -> None:
    wrong = {}
    for seed in range(first, first + count):
        case = readers.case(seed)
        found = case.run()
        if found is not None:
            wrong[seed] = found, case.changes
    assert not wrong


def test_the_corpus_is_read():
    for text in readers.corpus():
        assert readers.Case(text, ()).run() is None


def test_some_mutated_programs():
    _check(0, 400)


@pytest.mark.full
def test_mutated_programs():
    _check(400, 8000)


def test_cases_are_shrunk(monkeypatch):
    """Shrinking keeps only the changes that cause the error."""

    def read(text):
        if "f64" in text:
            raise KeyError("f64")
        raise mx.ImportError_("refused")

    monkeypatch.setattr(readers.mx, "import_stablehlo", read)
    case = readers.Case("abc", ((0, 1, "f32"), (1, 2, "f64"), (2, 3, "i1")))
    assert case.run() == "KeyError: 'f64'"
    assert case.shrunk().changes == ((1, 2, "f64"),)


def test_cases_go_on():
    found = readers.cases(5)
    assert [next(found), next(found)] == [readers.case(5 << 20), readers.case((5 << 20) + 1)]
