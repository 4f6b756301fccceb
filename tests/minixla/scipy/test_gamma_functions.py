"""Functions of the gamma family: element types."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx

X = np.array([1.5, 3.0], np.float32)


@pytest.mark.parametrize("name", ["gammaln", "gamma", "gammaincc", "gammainc", "betaln"])
def test_results_have_the_type_of_the_operands_with_64_bits_too(name):
    function = getattr(mx.scipy.special, name)
    operands = [X] * (1 if name in ("gammaln", "gamma") else 2)
    with jax.enable_x64(True):
        assert mx.eval_shape(function, *operands).dtype == np.float32
