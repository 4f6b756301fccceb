"""Roles: the few operations that transformations need, filled in by the operation set.

Derivatives add cotangents, batching falls back on a loop, nested programs are called. The core
does not know which operations do that; the set that is imported says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_ROLES: dict[str, Callable[..., Any]] = {}
_OPERATION_SET = "minixla_ops"


def fill_role(name: str, function: Callable[..., Any]) -> None:
    """Makes `function` the one that plays `name`.

    Roles: `add(x, y)`, `zeros(shape)`, `constant` and `tuple` (classes of operations: of a
    Literal, and of no attribute), `call(graph, *operands)`,
    `batch_by_loop(operation, operands, dimensions)`,
    `move_batch(value, from, to, size)`, `resize(value, like)` (see `linear.with_sizes_of`).
    """
    _ROLES[name] = function


def role(name: str) -> Callable[..., Any]:
    """The function that plays `name`."""
    found = _ROLES.get(name)
    if found is None:
        importlib.import_module(_OPERATION_SET)
        found = _ROLES[name]
    return found
