"""Check the installed release of JAX before other modules use it."""

from __future__ import annotations

import re

import jax

#: The supported releases, as in pyproject.toml.
SUPPORTED = ">=0.10.2,<0.11"


def unsupported(problem: str) -> ImportError:
    """Return the error for an unsupported release of JAX.

    Args:
        problem: the problem with the release, as a clause.
    """
    return ImportError(
        f"minixla needs jax{SUPPORTED}, but {problem}. "
        f"Install a supported release: pip install 'jax{SUPPORTED}'. "
        'To support another one, see "A new release of JAX" in docs/architecture.md of the source '
        "archive."
    )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


_first, _next = map(_numbers, SUPPORTED.split(","))
if not _first <= _numbers(jax.__version__) < _next:
    raise unsupported(f"version {jax.__version__} is installed")
