"""The tables of JAX's names: each has a name of ours that is there, or one reason."""

from __future__ import annotations

import re
from operator import attrgetter
from pkgutil import resolve_name

import pytest

import minixla as mx
from minixla.tools.names_of_jax import IMPORTED_LATER, MODULES, elsewhere, lacking, names_of_jax


def public(module: str) -> list[str]:
    names = {name for name in dir(resolve_name(module)) if not name.startswith("_")}
    return sorted(names - IMPORTED_LATER.get(module, set()))


@pytest.mark.parametrize("module", MODULES)
def test_each_name_has_ours_or_a_reason(module: str) -> None:
    rows = names_of_jax(module)
    assert [row.name for row in rows] == public(module)
    for row in rows:
        assert bool(row.ours) != bool(row.reason), row
        value = mx
        for part in row.ours.split(".") if row.ours else ():
            assert part in dir(value), row
            value = getattr(value, part)


@pytest.mark.parametrize("module", MODULES)
def test_tables_name_nothing_that_jax_has_not_or_that_is_here(module: str) -> None:
    reasons, others = lacking(module), elsewhere(module)
    # Modules that are there once somebody has imported them.
    assert {*reasons, *others} <= {*public(module)}
    assert not {*reasons} & {*others}
    if module not in ("jax.lax", "jax.sharding"):  # whose names have several homes
        home = mx
        for part in MODULES[module][0].split(".") if MODULES[module][0] else ():
            home = getattr(home, part)
        assert not {*reasons} & {*dir(home)}


def test_a_new_name_of_jax_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.random.brand_new", 1, raising=False)
    with pytest.raises(LookupError, match=r"jax.random.brand_new: nothing of ours"):
        names_of_jax("jax.random")


@pytest.mark.parametrize("module", MODULES)
def test_what_a_reason_names_is_there(module: str) -> None:
    for reason in lacking(module).values():
        for name in re.findall(r"\bmx((?:\.[a-zA-Z]\w*)+)", reason):
            attrgetter(name[1:])(mx)
