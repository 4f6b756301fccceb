"""Select the rows of a table that `make test` runs; `make test-full` runs the other ones."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["IS_LONG", "diagonal", "examples_of", "quick_rows", "unless"]

#: True with `--full` and in long searches, where tests draw more.
IS_LONG = settings().max_examples > 100


def unless(is_quick: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a row: `full` unless it is quick."""
    return [] if is_quick else [pytest.mark.full]


def quick_rows(rows: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return the rows as parameters, where all except the quick ones are marked `full`."""
    found = [*rows]
    missing = [row for row in quick if row not in found]
    assert not missing, f"these are not rows: {missing}"
    return [pytest.param(row, marks=unless(row in quick)) for row in found]


def examples_of(names: Iterable[Any]) -> list[Any]:
    """Return the rows of docstrings as parameters; three of four are marked `docs`."""
    return [
        pytest.param(name, marks=[pytest.mark.docs] if at % 4 else [])
        for at, name in enumerate(names)
    ]


def diagonal(*columns: Sequence[Any]) -> list[Any]:
    """Return the product of columns as parameters; all except a diagonal are marked `full`.

    The diagonal contains each value of each column at least once.
    """
    longest = max(len(column) for column in columns)
    quick = {tuple([at % len(column) for column in columns]) for at in range(longest)}
    return [
        pytest.param(
            *[column[at] for column, at in zip(columns, places, strict=True)],
            marks=unless(places in quick),
        )
        for places in itertools.product(*[range(len(column)) for column in columns])
    ]
