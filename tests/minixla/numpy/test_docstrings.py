"""Docstrings of `mx.numpy`, `linalg` and `fft` have every part, and their examples are true."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy
import pytest

import minixla.numpy as np
from tests.docstrings import failures_of, functions_of, lacking_of, parts_of
from tests.selection import examples_of


def _is_element_type(value: Any) -> bool:
    return hasattr(type(value), "dtype")


#: By their public names; NumPy's own functions have NumPy's docstrings.
FUNCTIONS = {
    f"{namespace.__name__}.{name}".removeprefix("minixla.numpy."): function
    for namespace in (np, np.linalg, np.fft)
    for name, function in functions_of(namespace).items()
    if function.__module__.startswith("minixla") and not _is_element_type(function)
}
#: Not under its other names.
ONCE = {id(function): (name, function) for name, function in reversed(FUNCTIONS.items())}


def test_all_are_there() -> None:
    taken = {n for n, f in functions_of(np).items() if f.__module__ == "numpy"}
    names = (
        "array_repr array_str get_printoptions iterable printoptions save savez set_printoptions"
    )
    assert taken == {*names.split()}
    assert len(FUNCTIONS) > 250


def test_what_the_checker_finds() -> None:
    def lacking(x: Any, y: Any) -> Any:
        """A line that is no sentence

        Args:
            z: there is no such parameter.

        Example:
            >>> 1.0
            1.001
        """
        raise ValueError

    found = [*lacking_of(lacking)]
    assert [each.partition(":")[0] for each in found] == [
        *(
            "a first line that is a sentence",
            "Args",
            "no such parameter",
            "Returns",
            "Raises",
            "the source",
        )
    ]
    assert "1.001" in failures_of(lacking, {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts(name: str) -> None:
    assert [*lacking_of(FUNCTIONS[name], needs_source=False)] == []
    assert name == "isscalar" or "Raises" in parts_of(FUNCTIONS[name].__doc__).sections


def test_numpy_has_functions_of_these_names() -> None:
    for name, _ in ONCE.values():
        assert name in ("cummax", "cummin") or callable(reduce(getattr, name.split("."), numpy))


@pytest.mark.parametrize("name", examples_of(name for name, _ in ONCE.values()))
def test_examples(name: str) -> None:
    assert failures_of(FUNCTIONS[name], {"np": np}) == ""
