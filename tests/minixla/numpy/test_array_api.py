"""The array API standard: what `mx.numpy` fails of it, with reasons, beside jax.numpy."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.compilation import QUICKLY
from tests.minixla.numpy import array_api
from tests.minixla.numpy.array_api import Case
from tests.minixla.numpy.array_api_functions import functions, inspection

# What is another than the standard's, by patterns of its rows, with the reason.
DIFFERENT = {
    r"floor_divide\((-?inf),[tn]\)": "NaN, as in Python and NumPy",
    r"cumulative_prod of u?int(8|16|32)$": "jax.numpy's type",
    r"searchsorted": "jax.numpy's type: positions are s32",
    r"abs\((inf,nan|nan,inf)": "XLA's absolute value",
    r"finfo of (float32|complex64)": "limits are NumPy scalars, as in jax.numpy",
    r"namespace of an array": "arrays outside of programs are JAX's, whose namespace is "
    "`jax.numpy`",
}
#: How many rows jax.numpy 0.10.2 fails, jitted.
OF_JAX = 239


def failing(cases: Iterable[Case], xp: object, jit: object) -> dict[str, str]:
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jit and functools.partial(jit, compiler_options=QUICKLY)
        return array_api.failures([*cases], xp, compiled)


def unexpected(found: dict[str, str]) -> dict[str, str]:
    return {key: why for key, why in found.items() if not any(re.match(p, key) for p in DIFFERENT)}


def everything() -> list[Case]:
    parts = array_api.namespace, array_api.promotions, array_api.elements, functions
    return [case for part in parts for case in part()]


def test_page_tells_what_is_different() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "numpy.md").read_text()
    assert not [why for why in DIFFERENT.values() if why not in page]
    assert f"jax.numpy 0.10.2 fail {OF_JAX} of them" in page


def test_names_and_parameters() -> None:
    assert not unexpected(failing([*array_api.namespace(), *inspection()], mnp, None))


def test_special_values_of_elements() -> None:
    found = failing(array_api.elements(), mnp, mx.jit)
    assert not unexpected(found)
    # The list above holds no more than is so.
    for pattern in ("floor_divide", "abs"):
        assert any(key.startswith(pattern) for key in found)


@pytest.mark.full
def test_special_values_outside_of_programs() -> None:
    assert not unexpected(failing(array_api.elements(), mnp, None))


@pytest.mark.full
def test_everything_in_programs_better_than_jax() -> None:
    cases = everything()
    found = failing(cases, mnp, mx.jit)
    assert not unexpected(found)
    for pattern in DIFFERENT:
        assert any(re.match(pattern, key) for key in found), pattern
    theirs = failing(cases, jnp, jax.jit)
    assert len(theirs) == OF_JAX
    assert len(found) == 37
