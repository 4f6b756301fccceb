"""Programs that lie over devices anyhow give what they give on one, and so do their derivatives."""

from __future__ import annotations

import functools
import random

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minixla as mx
from tests.minixla.sharding.sharded_functions import FORMS, FUNCTIONS, MESH, laid_out, spec
from tests.oracles.collectives import collectives_of


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


def arguments(name, is_stacked):
    draw = np.random.default_rng(0)
    return [draw.normal(size=(2, *each) if is_stacked else each) for each in FUNCTIONS[name][1]]


@functools.cache
def on_one_device(name, form):
    transform, is_stacked = FORMS[form]
    function, sizes = FUNCTIONS[name]
    return mx.jit(transform(function, len(sizes)))(*arguments(name, is_stacked))


def check(name, form, seed):
    transform, is_stacked = FORMS[form]
    function, sizes = FUNCTIONS[name]
    given, draw = arguments(name, is_stacked), random.Random(seed)
    specs = tuple([spec(draw, each.shape) for each in given])
    jitted = mx.jit(transform(function, len(sizes)), mesh=MESH, in_shardings=specs)
    with laid_out(seed):
        predicted = jitted.shardings(*given).collectives()
        compiled = jitted.lower(*given).compile()
    found = compiled(*given)
    expected = on_one_device(name, form)
    for ours, alone in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(alone).max()
        np.testing.assert_allclose(ours, alone, rtol=1e-11, atol=1e-11 * scale)
    if not predicted:
        assert collectives_of(compiled.as_text(), MESH.size) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name):
    check(name, "gradient", seed=1)


@given(st.sampled_from(list(FUNCTIONS)), st.sampled_from(list(FORMS)), st.integers(0, 2**32))
def test_random_layouts(name, form, seed):
    check(name, form, seed)
