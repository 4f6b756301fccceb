"""The order in which functions that call each other are translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def callees_first(
    callees: Mapping[str, Iterable[str]],
    recursive: Callable[[str], Exception],
) -> list[str]:
    """The names of functions, each after those that it calls.

    Args:
        callees: for each name those that it calls, of which others are left out; chains may be of
            any length.
        recursive: the error for one that calls itself.
    """
    order: dict[str, None] = {}
    for start in callees:
        stack, on_path = [(start, iter(callees[start]))], {start}
        while stack and start not in order:
            name, rest = stack[-1]
            callee = next((each for each in rest if each not in order), None)
            if callee is None:
                stack.pop()
                on_path.discard(name)
                order[name] = None
            elif callee in on_path:
                raise recursive(callee)
            elif callee in callees:
                on_path.add(callee)
                stack.append((callee, iter(callees[callee])))
    return list(order)
