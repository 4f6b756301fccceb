"""The order in which functions that call each other are translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter


def callees_first(
    callees: Mapping[str, Iterable[str]], recursive: Callable[[str], Exception]
) -> list[str]:
    """The names of functions, each after those that it calls.

    Args:
        callees: for each name those that it calls, of which others are left out; chains may be of
            any length.
        recursive: the error for one that calls itself.
    """
    try:
        order = [*TopologicalSorter(callees).static_order()]
    except CycleError as error:
        raise recursive(error.args[1][0]) from None
    return [name for name in order if name in callees]
