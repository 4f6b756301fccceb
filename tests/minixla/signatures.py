"""Whether a function of ours may be called as one of JAX's is."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def parameters(function: Any) -> dict[str, Parameter] | None:
    """The parameters of a function; None of what has none that are known, and of any keywords."""
    try:
        found = signature(function).parameters
    except (TypeError, ValueError):
        return None
    return None if any(each.kind is each.VAR_KEYWORD for each in found.values()) else {**found}


def differences(ours: Any, theirs: Any, is_method: bool = False) -> list[str]:
    """What of a call of theirs means something else for ours, parameter by parameter.

    Names that ours has not are left out: other tests list them. Ours may take more.
    """
    own, wanted = parameters(ours), parameters(theirs)
    if own is None or wanted is None:
        return []
    if is_method:  # whatever its object is called
        own, wanted = ({**dict([*each.items()][1:])} for each in (own, wanted))
    places = [each for each in own.values() if each.kind in _BY_PLACE]
    found = []
    for index, each in enumerate(wanted.values()):
        by_name = own.get(each.name)
        by_place = places[index] if each.kind in _BY_PLACE and index < len(places) else None
        if each.kind in _BY_PLACE and by_place is None:
            found.append(f"{each.name} is not taken by place")
        if each.kind is each.POSITIONAL_OR_KEYWORD and by_place and by_place.name != each.name:
            found.append(f"{each.name} has the place of {by_place.name}")
        if each.kind in _BY_NAME and by_name is not None and by_name.kind not in _BY_NAME:
            found.append(f"{each.name} is not taken by name")
        same = by_place if each.kind is each.POSITIONAL_ONLY else by_name
        # What theirs must be given, ours need not.
        is_needed = each.default is each.empty
        if same is not None and not is_needed and repr(same.default) != repr(each.default):
            found.append(f"{each.name} is {same.default!r}, not {each.default!r}")
    return found
