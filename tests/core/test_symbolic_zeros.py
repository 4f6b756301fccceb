"""An unused result has no cotangent, so that zero is never multiplied by an infinite slope."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from tests.harness import compiled_together
from tests.selection import diagonal

X = np.zeros(3, np.float32)
ZERO = np.float32(0)


def both(x):
    """Two results, the second with a gradient of NaN at 0."""
    return (x**2).sum(), mnp.sqrt((x**2).sum())


def elementwise(x):
    """Like `both`, element by element; the second slope is infinite."""
    return x * x, mnp.sqrt(mnp.abs(x)) + mnp.log(x)


def loop(x, limit):
    def body(carry):
        i, y, total = carry
        return i + 1, y * 2, total + both(y)[1]

    return mx.while_loop(lambda carry: carry[0] < limit, body, (0, x, ZERO))


def argument_of_loop(x):
    return loop(x, mnp.asarray(3) + mx.stop_gradient(x[0]).astype(np.int32))[1].sum() - 8 * x.sum()


def custom_vjp(has_symbolic_zeros):
    function = mx.custom_vjp(both)

    def backward(x, cotangents):
        first, second = cotangents
        if has_symbolic_zeros:
            assert second is None
            return (first * 2 * x,)
        return (first * 2 * x + second * x / mnp.sqrt((x**2).sum()),)

    def forward(x):
        x = x.value if has_symbolic_zeros else x
        return both(x), x

    function.defvjp(forward, backward, symbolic_zeros=has_symbolic_zeros)
    return function


custom_jvp = mx.custom_jvp(both)
custom_jvp.defjvp(
    lambda x, t: (
        both(*x),
        (2 * (x[0] * t[0]).sum(), (x[0] * t[0]).sum() / mnp.sqrt((x[0] ** 2).sum())),
    )
)

custom_operation = mx.register_op(
    "test.TwoSlopes", inputs=["x: float"], outputs=["y: float", "z: float"],
    shape_fn=lambda ctx, x: [x, x],
)  # fmt: skip
custom_operation.kernel("any")(lambda ctx, x: (x * x, mnp.sqrt(x * x)))


@custom_operation.gradient
def _gradient(ctx, cotangents):
    first, second = cotangents
    (x,) = ctx.inputs
    return first * 2 * x + second * x / mnp.sqrt(x * x)


imported = mx.import_stablehlo(mx.export(both, X))
foreign = jax.jit(lambda x: ((x**2).sum(), jnp.sqrt((x**2).sum())))


def norms(a, b, c, d):
    """A reducer of pairs: a sum, and a norm without a slope at 0."""
    return a + c, mnp.sqrt(b * b + d * d)


def scattered(x):
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,), index_vector_dim=1)
    return ops.scatter([x, x], np.int32([[1]]), [x[:1], x[:1]], norms, numbers)[0].sum()


#: Each reads one result of a function like `both` at 0, where the other one's gradient is NaN.
PROGRAMS = {
    "jit": lambda x: mx.jit(both)(x)[0],
    "jit in jit": lambda x: mx.jit(lambda x: mx.jit(both)(x))(x)[0],
    "aux": lambda x: mx.grad(mx.jit(both), has_aux=True)(x)[0].sum() - 2 * x.sum(),
    "checkpoint": lambda x: mx.checkpoint(both)(x)[0],
    "checkpoint in jit": lambda x: mx.jit(mx.checkpoint(both))(x)[0],
    "cond": lambda x: mx.cond(x.sum() < 1, both, both, x)[0],
    "switch": lambda x: mx.switch(1, [both, both, both], x)[0],
    "cond over a batch": lambda x: mx.vmap(
        lambda x: mx.cond(x.sum() < 1, both, lambda x: (x.sum(), ZERO), x)
    )(mnp.stack([x, x]))[0].sum(),
    "carry of a scan": lambda x: mx.scan(
        lambda carry, _: (carry * 2, both(carry)[1]), x, None, length=2
    )[0].sum() - 4 * x.sum(),
    "output of a scan": lambda x: mx.scan(
        lambda carry, _: ((carry[0] * 2, carry[1] + both(carry[0])[1]), both(carry[0])[0]),
        (x, 0.0), None, length=2,
    )[1].sum(),
    "elements of a scan": lambda x: mx.scan(
        lambda carry, y: (carry + y * y, mnp.sqrt(y * y)), ZERO, x
    )[0],
    "loop of constant length": lambda x: loop(x, 3)[1].sum() - 8 * x.sum(),
    "loop of unknown length": argument_of_loop,
    "fori_loop": lambda x: mx.fori_loop(
        0, 3, lambda i, carry: (carry[0] * 2, carry[1] + both(carry[0])[1]), (x, ZERO)
    )[0].sum() - 8 * x.sum(),
    "map": lambda x: mx.map(both, mnp.stack([x, x]))[0].sum(),
    "custom_vjp with symbolic zeros": lambda x: custom_vjp(True)(x)[0],
    "custom_vjp in jit": lambda x: mx.jit(custom_vjp(False))(x)[0],
    "custom_jvp": lambda x: custom_jvp(x)[0],
    "custom_jvp in jit": lambda x: mx.jit(custom_jvp)(x)[0],
    "imported": lambda x: imported(x)[0],
    "from_jax": lambda x: foreign(x)[0],
    "custom operation": lambda x: custom_operation.wrapper(x)[0].sum(),
    "custom operation in jit": lambda x: mx.jit(custom_operation.wrapper)(x)[0].sum(),
    "reduce": lambda x: ops.reduce([x, x], [ZERO, ZERO], norms, (0,))[0] - x.sum(),
    "reduce_window": lambda x: ops.reduce_window(
        [x, x], [ZERO, ZERO], norms, (2,), (2,), ((0, 1),)
    )[0].sum() - x.sum(),
    "scatter": lambda x: scattered(x) - x.sum() - x[0],
    "composite call": lambda x: ops.composite_call(elementwise, x, name="my.two")[0].sum(),
    "pmap": lambda x: mx.pmap(elementwise)(x[None])[0].sum(),
}  # fmt: skip
FORWARD = [name for name in PROGRAMS if "custom_vjp" not in name and name != "custom operation"]


@functools.cache
def compiled_gradients():
    return compiled_together({name: mx.grad(each) for name, each in PROGRAMS.items()}, X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unused_output_has_no_cotangent(name):
    np.testing.assert_array_equal(compiled_gradients()(name), X)


#: Each program takes one of these in turn.
EAGER = {"grad": mx.grad, "grad of jit": lambda function: mx.grad(mx.jit(function))}


@pytest.mark.parametrize(("name", "way"), diagonal([*PROGRAMS], [*EAGER]))
def test_an_unused_output_has_no_cotangent_outside_of_jit(name, way):
    np.testing.assert_array_equal(EAGER[way](PROGRAMS[name])(X), X)


@pytest.mark.parametrize("name", ["jit", "cond", "carry of a scan", "loop of unknown length"])
def test_transformations_of_it(name):
    function = PROGRAMS[name]
    np.testing.assert_array_equal(mx.vmap(mx.grad(function))(np.stack([X, X])), [X, X])
    np.testing.assert_array_equal(jax.grad(function)(X), X)
    assert np.isfinite(mx.hessian(function)(X)).all()
    pullback = mx.vjp(lambda x: function(x), X)[1]
    np.testing.assert_array_equal(pullback(np.float32(1))[0], X)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name in FORWARD])
def test_an_unused_output_has_no_tangent(name):
    assert mx.jvp(PROGRAMS[name], (X,), (X + 1,))[1] == 0


def test_a_tangent_that_is_absent_stays_absent():
    # y does not move; its slope at 0 is infinite.
    programs = {
        "jit": lambda x: mx.jit(lambda x, y: (x, mnp.sqrt(y)))(x, ZERO),
        "cond": lambda x: mx.cond(
            True, lambda x, y: (x, mnp.sqrt(y)), lambda x, y: (x, y), x, ZERO
        ),
        "scan": lambda x: mx.scan(lambda c, y: (c, (c, mnp.sqrt(y))), x, np.zeros(2, np.float32)),
        "checkpoint": lambda x: mx.checkpoint(lambda x, y: (x, mnp.sqrt(y)))(x, ZERO),
    }
    for name, function in programs.items():
        moved = jax.tree.leaves(mx.jvp(function, (np.float32(2),), (np.float32(1),))[1])
        assert np.isfinite(np.concatenate(list(map(np.ravel, moved)))).all(), name


def test_both_outputs_read_is_nan():
    """If the other result is used, its slope counts."""
    for name in ("jit", "checkpoint", "imported"):
        function = {"jit": mx.jit(both), "checkpoint": mx.checkpoint(both), "imported": imported}
        assert np.isnan(mx.grad(lambda x, f=function[name]: sum(f(x)))(X)).all(), name


def test_a_rule_that_is_not_linear_gets_zeros():
    """A rule may read the numbers of an absent cotangent, which are zeros."""
    function = mx.custom_vjp(lambda x: (x, x))

    def backward(_, cotangents):
        first, second = cotangents
        return (first + mnp.where(second == 0, 3, second) + mnp.exp(second) + mnp.max(second),)

    function.defvjp(lambda x: (function(x), None), backward)
    for one in (function, mx.jit(function)):
        np.testing.assert_array_equal(mx.grad(lambda x, f=one: f(x)[0].sum())(X), X + 5)


def test_a_program_for_fewer_cotangents_is_made_once():
    traced = []

    @mx.jit
    def function(x):
        return x * 2, mnp.sin(x)

    function_of = mx.custom_vjp(function)

    def backward(x, cotangents):
        traced.append(cotangents)
        return (cotangents[0] * 2,)

    function_of.defvjp(lambda x: (function(x), x), backward)
    inner = mx.jit(function_of)
    for _ in range(3):
        np.testing.assert_array_equal(mx.grad(lambda x: inner(x)[0].sum())(X), X + 2)
    assert len(traced) == 1
