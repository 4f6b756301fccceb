"""A pytest plugin: `pytest --minixla-check` cross-checks the functions that tests jit.

Without the option, it imports neither minixla nor JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("minixla", "cross-check of the functions that tests jit")
    group.addoption(
        "--minixla-check",
        action="store_true",
        help="evaluate each program that tests run with jax.jit or minixla.jit in NumPy, "
        "StableHLO's interpreter and XLA, and list the differences",
    )
    group.addoption(
        "--minixla-check-fail",
        action="store_true",
        help="fail each test with findings",
    )
    group.addoption(
        "--minixla-check-seconds",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="no new check begins after this time in a test (default: 10)",
    )
    group.addoption(
        "--minixla-check-accepted",
        metavar="FILE",
        help="a file of findings to accept, one per line, as the summary prints them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Record the jitted functions if the option is given."""
    if config.getoption("--minixla-check"):
        import jax

        import minixla
        from minixla.tools.checks_in_tests import ChecksInTests

        config.pluginmanager.register(ChecksInTests(config, [jax, minixla]))
