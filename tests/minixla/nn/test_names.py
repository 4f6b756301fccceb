"""Names and signatures of mx.nn against those of jax.nn."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import jax
import pytest

import minixla as mx

MODULES = {"nn": (mx.nn, jax.nn), "nn.initializers": (mx.nn.initializers, jax.nn.initializers)}


def public(module: Any) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_jax_is_there(module: str) -> None:
    ours, theirs = MODULES[module]
    assert not {*public(theirs)} - {*public(ours)}


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [
        (each.name, each.default, each.kind) for each in signature(function).parameters.values()
    ]


NAMES = [
    (module, name)
    for module, (_, theirs) in MODULES.items()
    for name in public(theirs)
    if callable(getattr(theirs, name)) and name != "Initializer"
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_parameters_and_defaults_are_those_of_jax(module: str, name: str) -> None:
    ours, theirs = (parameters(getattr(each, name)) for each in MODULES[module])
    assert ours == theirs
