"""Models in PyTorch and autograd compute what they do in JAX."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import peers
from benchmarks.measure import Effort
from benchmarks.models import JAX, Model, models

TINY = Effort(0, small=True, least=1)
SMALL = {model.name: model for model in models(small=True)}


def _same(found: Any, model: Model) -> None:
    expected = jax.jit(JAX.value_and_grad(model.loss(JAX)))(model.parameters, *model.batch)
    for each, own in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(np.asarray(each), own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_pytorch(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not here: it comes with minixla[peers]")
    framework, model = peers.torch_framework(), SMALL[name]
    given = peers.torch_arguments(framework.library, model)
    _same(framework.value_and_grad(model.loss(framework))(*given), model)


@pytest.mark.parametrize("name", [name for name in SMALL if "CNN" not in name])
def test_autograd(name: str) -> None:
    pytest.importorskip("autograd", reason="autograd is not here: it comes with minixla[peers]")
    framework, model = peers.autograd_framework(), SMALL[name]
    _same(framework.value_and_grad(model.loss(framework))(model.parameters, *model.batch), model)


def test_parts_of_what_the_machine_can_do() -> None:
    found = list(peers.limits(TINY))
    assert [each.unit for each in found] == ["GFLOP/s"] * len(SMALL) + ["GB/s"] * 3
    for each in found:
        ours, best = each.medians.values()
        assert each.ratio == ours / best > 0


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found: Iterator[Any] = peers.peers(TINY)
    with pytest.raises(SystemExit, match=r"torch.*: pip install 'minixla\[peers\]'"):
        next(found)
