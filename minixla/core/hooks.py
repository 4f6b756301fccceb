"""Functions that load higher packages on first use.

Imports point downward only. These functions are the exceptions: each returns a module of a higher
package. They are called while a program runs, not while a package is imported.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minixla.core.graph import Graph
    from minixla.core.shapes import AnyShape


@cache
def operations() -> ModuleType:
    """Return `minixla_ops`, whose operations fill the roles that `core` names (`fill_role`)."""
    return importlib.import_module("minixla_ops")


@cache
def engine() -> ModuleType:
    """Return `minixla.engine`, with the default evaluator and JAX's current trace."""
    return importlib.import_module("minixla.engine")


def platform_text(graph: Graph, platform: str) -> str:
    """Return the StableHLO text that XLA receives on one device of a platform."""
    return importlib.import_module("minixla.engine.platform_text").platform_text(graph, platform)


def jax_mesh(mesh: object) -> object:
    """Return JAX's mesh for one of `minixla.sharding`."""
    return importlib.import_module("minixla.engine.meshes").jax_mesh(mesh)


@cache
def bridge() -> ModuleType:
    """Return `minixla.bridge`, which turns JAX's primitives into operations."""
    return importlib.import_module("minixla.bridge")


@cache
def arrays() -> ModuleType:
    """Return `minixla.numpy`, for operators of tracers implemented by array functions."""
    return importlib.import_module("minixla.numpy")


@cache
def transforms() -> ModuleType:
    """Return `minixla.transforms`, for array functions with derivative rules and loops."""
    return importlib.import_module("minixla.transforms")


def incomplete_program(kind: type, shape: AnyShape, by: tuple[int, ...]) -> Graph:
    """Return JAX's program of an incomplete gamma or beta function, or of its derivative."""
    return importlib.import_module("minixla.interop.incomplete").program(kind, shape, by)


def html_of(graph: Graph) -> str:
    """Return the drawing of a graph for notebooks."""
    return importlib.import_module("minixla.tools.drawing").html_of(graph)


def layouts(graph: Graph) -> object:
    """Return the shardings of the values of a program, `minixla.tools.layouts.Layouts`."""
    module = importlib.import_module("minixla.tools.layouts")
    return module.layouts(graph)
