"""Jacobians by rules and by differences."""

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import DerivativeError, TransformError


@pytest.fixture(autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype, most", [("float64", 1e-9), ("float32", 1e-4)])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_c66_right_rules_have_small_errors(dtype, most, size):
    x = np.linspace(-1, 1, size, dtype=dtype)
    assert mx.test_util.compute_gradient_error(mx.numpy.sin, [x]) < most
    assert mx.test_util.compute_gradient_error(lambda a, b: a * b, [x, x]) < most


def test_c66_a_wrong_rule_has_a_large_error():
    wrong = mx.custom_vjp(lambda x: x * x)
    wrong.defvjp(lambda x: (x * x, x), lambda x, cotangent: (3 * x * cotangent,))
    assert mx.test_util.compute_gradient_error(wrong, [np.ones(3)]) == pytest.approx(1, 1e-6)


def test_jacobians_have_a_row_for_each_result():
    matrix = np.arange(6.0).reshape(2, 3)
    both = mx.test_util.compute_gradient(lambda x, i: (matrix @ x)[i], [np.ones(3), np.array([1])])
    for (found,) in both:
        np.testing.assert_allclose(found, matrix[1:], 1e-9)


def test_what_has_no_jacobian_is_refused():
    with pytest.raises(TransformError, match="one array of floats"):
        mx.test_util.compute_gradient(lambda x: (x, x), [np.ones(3)])
    with pytest.raises(TransformError, match="complex"):
        mx.test_util.compute_gradient(lambda x: x.real, [np.ones(3, complex)])
    mx.ops.register_custom_call("tests.unknown_derivative", lambda x: x)
    with pytest.raises(DerivativeError, match="the derivative of user code is unknown"):
        mx.test_util.compute_gradient(
            lambda x: mx.ops.custom_call("tests.unknown_derivative", [x], mx.shape_of(x)),
            [np.ones(3)],
        )
