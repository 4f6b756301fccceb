"""The surroundings of the tests: JAX on four CPU devices, bounds of hypothesis, random values."""

import ctypes
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from tests.compilation import LIGHTLY, QUICKLY, flags_of

DEVICE_COUNT_FLAG = "--xla_force_host_platform_device_count"

FIRST = ("test_leak_checks.py", "test_examples.py", "test_benchmarks.py", "test_deep_programs.py")

# JAX reads both when it is first imported, which is after this file.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Of each error JAX would take longer to shorten the traceback than for all else.
os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
# Processes that tests start would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if DEVICE_COUNT_FLAG not in (flags := os.environ.get("XLA_FLAGS", "")):
    os.environ["XLA_FLAGS"] = f"{flags} {DEVICE_COUNT_FLAG}=4".lstrip()

# Hypothesis would draw constants of the modules that are loaded: examples would depend on the tests
# that ran before in the same process, and a failure could not be repeated alone.
providers._get_local_constants = lambda: providers._local_constants

# No deadline in any: the first example of a shape pays for a compilation.
settings.register_profile("ci", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=200, derandomize=True, deadline=None)
settings.register_profile("soak", max_examples=40, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the choice of how XLA compiles the programs of the tests' own processes."""
    parser.addoption(
        "--optimized",
        action="store_true",
        help="compile every program as users' are",
    )
    parser.addoption(
        "--full",
        action="store_true",
        help="run what `make test` leaves out: tests marked `full`, and many more random inputs; "
        "with --far all that is marked `far`",
    )

    parser.addoption(
        "--far",
        action="store_true",
        help="run the tests marked `far` alone: programs compiled for platforms that are not here",
    )
    parser.addoption(
        "--docs",
        action="store_true",
        help="run the tests marked `docs` alone: the documentation is built, examples run, pages "
        "are opened",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Has XLA compile quickly here, and lightly in processes that tests start: in the oracles."""
    settings.load_profile("full" if config.getoption("full") else "ci")
    runs_others = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if config.getoption("optimized") or runs_others:
        return
    import jax

    before = os.environ["XLA_FLAGS"]
    os.environ["XLA_FLAGS"] = flags_of(QUICKLY, before)
    jax.devices()  # reads them
    os.environ["XLA_FLAGS"] = flags_of(LIGHTLY, before)


def is_run(item: pytest.Item, full: bool, far: bool, docs: bool) -> bool:
    """Whether a test belongs to the run: with `--full`, those which gain by its length."""
    if docs or item.get_closest_marker("docs"):
        return docs and item.get_closest_marker("docs") is not None
    if far or item.get_closest_marker("far"):
        is_quick = item.get_closest_marker("full") is None
        return far and item.get_closest_marker("far") is not None and (full or is_quick)
    if item.get_closest_marker("full"):
        return full
    drawn = item.get_closest_marker("drawn") or is_hypothesis_test(getattr(item, "obj", None))
    return not full or bool(drawn)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow files first, then those with many tests: small ones fill the gaps of parallel runs.

    Checks of leaks come before all: they walk over the heap, which grows as tests run.
    """
    options = [config.getoption(name) for name in ("full", "far", "docs")]
    config.hook.pytest_deselected(items=[item for item in items if not is_run(item, *options)])
    items[:] = [item for item in items if is_run(item, *options)]
    counts = Counter(item.path for item in items)
    ranks = {name: rank for rank, name in enumerate(reversed(FIRST), 1)}
    items.sort(key=lambda item: (-ranks.get(item.path.name, 0), -counts[item.path]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting tests leaves no garbage worth looking for."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spares the garbage collector what lives to the end, which it would look through each time."""
    gc.freeze()
    # Tests leave little garbage.
    gc.set_threshold(5_000, 10, 10)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A module's `generator` starts anew for every test: no values depend on which tests ran."""
    module = getattr(item, "module", None)
    if isinstance(getattr(module, "generator", None), np.random.Generator):
        module.generator = np.random.default_rng(0)


# XLA:CPU takes 1 to 3 MB for each compiled program, and a run compiles thousands, so that a worker
# would grow to 7 GB. glibc returns freed memory to the system only on request.
_MOST_RESIDENT = 2 << 30


def _resident() -> int:
    """Return the bytes of memory that this process uses; 0 if unknown."""
    with suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """After the last test of a file, free its garbage; if the process is large, its programs too.

    What is left is spared the garbage collector: tests that collect garbage would look through
    all that earlier files have left.
    """
    result = yield
    if nextitem is None or nextitem.path == item.path:
        return result
    is_large = "jax" in sys.modules and _resident() > _MOST_RESIDENT
    if is_large:
        sys.modules["jax"].clear_caches()
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    if is_large:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what this run left out that others are told of."""
    if not terminalreporter.config.getoption("far"):
        terminalreporter.write_line("not run: programs compiled for TPU and GPU (make far)")
    if not terminalreporter.config.getoption("docs"):
        terminalreporter.write_line(
            "not run: pages in a browser, most examples of docs (make docs-test)"
        )


def pytest_sessionfinish() -> None:
    """Spares the last collection, as nothing is to be freed."""
    gc.freeze()


@pytest.fixture
def standing_evaluators() -> Generator[None]:
    """What a test registers is gone after it: other tests do not meet it."""
    from minixla.tools.evaluators import EVALUATORS

    before = dict(EVALUATORS)
    yield
    EVALUATORS.clear()
    EVALUATORS.update(before)
