"""A browser for the tests of pages, and a server for their files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.harness import Page, served, started, what_is_missing


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests of a process; where there is none they are skipped, and say so."""
    if missing := what_is_missing():
        pytest.skip(missing)
    with started(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """A function that serves a folder until the test ends, and returns its address."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(served(folder))
