"""Functions whose tracers outlive their transformation, and what holds these."""

from __future__ import annotations

from typing import Any

import minixla.numpy as mnp

STORE: list[Any] = []
KEPT: Any = None


class Box:
    """Something with attributes."""


BOX: Any = Box()


def in_list(x):
    STORE.append({"a": (mnp.sin(x),)})
    return x.sum()


def in_global(x):
    global KEPT
    KEPT = mnp.sin(x)
    return x.sum()


def in_attribute(x):
    BOX.value = [mnp.sin(x)]
    return x.sum()


def in_closure(x):
    held = mnp.sin(x)

    def inner():
        return held

    BOX.function = inner
    return x.sum()


def in_default(x):
    held = mnp.sin(x)

    def inner(y=held):
        return y

    BOX.function = inner
    return x.sum()
