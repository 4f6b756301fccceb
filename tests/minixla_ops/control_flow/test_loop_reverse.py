"""The reverse derivative of While: iterations known and unknown, nested, repeated, in batches."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core import Shape
from minixla.core.errors import DerivativeError
from minixla_ops.control_flow import loop_blocks, loop_reverse
from tests.harness import by_jax, check_derivatives, check_operation
from tests.minixla_ops.side_effects import marked

ZERO, ONE = np.int32(0), np.int32(1)
W = np.array([[0.5, -0.3, 0.1], [0.2, 0.7, -0.4], [0.6, 0.1, 0.3]])
X = np.array([0.5, -1.5, 2.0])


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def known(i, n):
    return ops.lt(i, n)


def hidden(i, n):
    """The same, where tracing does not see it."""
    return ops.lt(ops.add(i, i), ops.add(n, n))


def chain(holds, n, w, x):
    """x after n steps, w a constant of the loop, and the sum of all steps."""

    def body(i, n, w, x, total):
        return [i + ONE, n, w, ops.sin(ops.dot(w, x)), total + x * x]

    def condition(i, n, *_):
        return holds(i, n)

    return ops.while_(condition, body, [ZERO, n, w, x, ops.sub(x, x)])[3:]


def unrolled(n, w, x):
    total = x - x
    for _ in range(n):
        x, total = jnp.sin(w @ x), total + x * x
    return x, total


@pytest.mark.parametrize("holds", [known, hidden])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_against_an_unrolled_loop(holds, n):
    check_derivatives(
        lambda w, x: chain(holds, np.int32(n), w, x),
        [W, X],
        lambda w, x: unrolled(n, w, x),
        order=2 if n == 2 else 1,
        modes=["rev"] if holds is known else ["fwd", "rev"],
    )


def test_which_way_is_taken():
    def shapes_of_loops(holds):
        graph = mx.make_graph(lambda w: mx.vjp(lambda w: chain(holds, np.int32(5), w, X), w)[0])(W)
        parts = [part for step in graph.instructions for part in step.op.computations]
        names = "While", "Scan"
        loops = [step for part in parts for step in part.instructions if step.op.name in names]
        return [str(shape) for loop in loops for shape in loop.shapes]

    assert any(shape.startswith("f64[5,") for shape in shapes_of_loops(known))
    values = ["s32[]", "s32[]", "f64[3,3]", "f64[3]", "f64[3]"]
    assert shapes_of_loops(hidden) == ["s32[]", *values]  # the number of iterations, no stacks


# With few slots the stack of states is used in every way by few iterations.


@pytest.mark.parametrize("size", [4, 6])
def test_schedule_with_few_slots(size, monkeypatch):
    monkeypatch.setattr(loop_blocks, "_MOST_STATES", size)
    monkeypatch.setattr(loop_blocks, "_FEWEST_STATES", size)

    def function(x, n):
        def body(i, n, x):
            return [i + ONE, n, x + 0.3 * ops.sin(x)]

        return ops.while_(lambda i, n, x: ops.lt(i, n), body, [ZERO, n, x])[2]

    slope = mx.jit(mx.value_and_grad(function))
    for n in [*range(10), 13, 16, 17, 29, 40, 61, 97, 140, 199, 500]:
        x, expected = 0.01, 1.0
        for _ in range(n):
            x, expected = x + 0.3 * np.sin(x), expected * (1 + 0.3 * np.cos(x))
        np.testing.assert_allclose(slope(0.01, np.int32(n)), (x, expected), rtol=1e-11, err_msg=n)


def test_states_are_computed_again_three_times_at_most_up_to_a_million():
    capacities = loop_blocks._capacities(128)
    assert capacities[1, 127] * 128 == 16_384
    assert capacities[2, 127] * 128 == 1_056_768
    assert (capacities[:, 0] == 1).all()  # without a free slot only one block
    assert loop_blocks._number_of_states([Shape("f32", (1 << 18,))]) == 128
    assert loop_blocks._number_of_states([Shape("f32", (1 << 30,))]) == 16


def test_memory_does_not_grow_with_the_iterations():
    # The number of iterations is an input of the program, and no array has more than 128 states.
    slope = mx.grad(lambda x, n: mx.numpy.sum(chain(known, n, W, x)[0]))
    pending, sizes = [mx.make_graph(slope)(X, ONE)], []
    while pending:
        for step in pending.pop().instructions:
            pending.extend(step.op.computations)
            shapes = [shape for shape in step.shapes if isinstance(shape, Shape)]
            sizes += [shape.size for shape in shapes if shape.element_type.name == "f64"]
    assert max(sizes) == 128 * 3


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 10_000, 16_385, 100_003])
def test_many_iterations(n):
    def iterate(a):
        return lax.fori_loop(0, n, lambda i, x: x + a / (1.0 + x), 2.0)

    expected = jax.jvp(iterate, (1e-3,), (1.0,))[1]
    actual = compiled_slope_of_many()(1e-3, 2.0, np.int32(n))
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def many(a, x, n):
    # A slope that stays away from 0 and infinity.
    def body(i, n, a, x):
        return [i + ONE, n, a, x + a / (1.0 + x)]

    return ops.while_(lambda i, n, *_: ops.lt(i, n), body, [ZERO, n, a, x])[3]


@functools.cache
def compiled_slope_of_many():
    return mx.jit(mx.grad(many))


def nested(w, x, n):
    """A while in a while, and a conditional that has a while in a branch."""

    def inner(holds, i, w, x):
        def condition(j, m, *_):
            return holds(j, m)

        return ops.while_(
            condition, lambda j, m, w, x: [j + ONE, m, w, ops.sin(ops.dot(w, x))], [ZERO, i, w, x]
        )[3]

    def outer(i, n, w, x):
        x = inner(known, i, w, x)
        x = ops.conditional(
            ops.gt(i, ONE), [w, x], lambda w, x: inner(known, np.int32(2), w, x), [x], ops.cos
        )
        return [i + ONE, n, w, x]

    return ops.while_(lambda i, n, w, x: ops.lt(i, n), outer, [ZERO, n, w, x])[3]


def jax_nested(w, x, n):
    for i in range(n):
        for _ in range(i):
            x = jnp.sin(w @ x)
        x = jnp.sin(w @ jnp.sin(w @ x)) if i > 1 else jnp.cos(x)
    return x


def total(function):
    return lambda *xs: mx.numpy.sum(function(*xs))


def jax_total(function):
    return lambda *xs: jnp.sum(function(*xs))


def test_nested_loops():
    slope = mx.jit(mx.grad(total(nested), argnums=(0, 1)))
    for n in (0, 1, 2, 4):
        expected = jax.grad(jax_total(jax_nested), argnums=(0, 1))(W, X, n)
        for one, other in zip(slope(W, X, np.int32(n)), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    known_count = mx.reference(mx.grad(total(nested)))(W, X, np.int32(3))
    np.testing.assert_allclose(known_count, jax.grad(jax_total(jax_nested))(W, X, 3), rtol=1e-10)


def test_second_derivative_of_nested_loops():
    def twice(grad, total, function):
        return grad(lambda w, x, n: total(lambda w: grad(total(function))(w, x, n) ** 2)(w))

    actual = mx.jit(twice(mx.grad, total, nested))(W, X, np.int32(3))
    expected = by_jax(lambda w, x: twice(jax.grad, jax_total, jax_nested)(w, x, 3), W, X)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_batches_of_loops_that_stop_at_different_times():
    counts, rows = np.array([0, 3, 1, 4], np.int32), np.stack([X, X + 1, X - 1, X * 2])
    each = [jax.grad(jax_total(jax_nested))(W, x, n) for x, n in zip(rows, counts, strict=True)]
    slope = mx.jit(mx.vmap(mx.grad(total(nested)), in_axes=(None, 0, 0)))
    np.testing.assert_allclose(slope(W, rows, counts), each, rtol=1e-9, atol=1e-12)
    whole = mx.jit(mx.grad(lambda w: total(mx.vmap(nested, in_axes=(None, 0, 0)))(w, rows, counts)))
    np.testing.assert_allclose(whole(W), sum(each), rtol=1e-9, atol=1e-12)


def test_members_that_are_done_add_nothing_to_the_cotangents():
    # The body has no derivative where a member stops: 1 / 0 and the root of 0.
    def function(x):
        def body(x):
            return ops.sqrt(x - 1.0)

        return ops.while_(lambda x: ops.gt(x, np.float64(1)), body, x)

    xs = np.array([1.0, 5.0, 0.0, 2.0])
    slope = mx.grad(total(mx.vmap(function)))(xs)
    np.testing.assert_allclose(slope, [1, 1 / (2 * 2) / 2, 1, 1 / 2])


def scan(xs, h):
    """Reads a row of xs and writes one of the result in each iteration."""

    def body(i, xs, h, ys):
        h = ops.tanh(h + ops.reshape(ops.dynamic_slice(xs, [i, 0], (1, 3)), (3,)))
        return [i + ONE, xs, h, ops.dynamic_update_slice(ys, ops.reshape(h, (1, 3)), [i, 0])]

    def condition(i, *_):
        return ops.lt(i, np.int32(4))

    return ops.while_(condition, body, [ZERO, xs, h, np.zeros((4, 3))])[3]


def test_slices_of_arrays_and_stacks_of_results():
    xs = np.arange(12.0).reshape(4, 3) / 10
    check_derivatives(
        scan, [xs, X], lambda xs, h: lax.scan(lambda h, x: (jnp.tanh(h + x),) * 2, h, xs)[1]
    )


def test_the_cotangent_of_a_stack_that_is_written_once_stays_as_it_is():
    graph = mx.make_graph(mx.grad(total(scan)))(np.ones((4, 3)), X)
    backward = graph.instructions[-1].op.computations[0]
    (loop,) = [each for each in backward.instructions if each.op.name == "Scan"]
    step, carries = loop.op.to_apply, loop.op.carries
    pairs = zip(step.inputs[-carries:], step.outputs[-carries:], strict=True)
    same = [str(taken.shape) for taken, given in pairs if taken is given]
    assert "f64[4,3]" in same


def test_the_first_value_of_a_stack_has_its_derivative():
    def function(ys):
        def body(i, ys):
            return [i + ONE, ops.dynamic_update_slice(ys, np.ones(1), [i])]

        return ops.while_(lambda i, ys: ops.lt(i, np.int32(2)), body, [ZERO, ys])[1]

    np.testing.assert_array_equal(mx.grad(total(function))(X), [0, 0, 1])


def test_a_value_of_dynamic_size_of_which_nothing_is_kept():
    def function(x):
        y = ops.set_dimension_size(x, np.int32(2), 0)

        def body(i, y):
            return [i + ONE, y + y]

        return ops.while_(lambda i, y: ops.lt(i, np.int32(3)), body, [ZERO, y])[1]

    slope = mx.reference(mx.grad(total(function)))(np.ones(3))
    np.testing.assert_array_equal(slope, [8, 8, 0])


def test_transposition_of_loops_in_jvp_rules():
    def loop(x):
        return chain(hidden, np.int32(2), W, x)[0]

    @mx.custom_jvp
    def scaled(x, n):
        return loop(x)

    @scaled.defjvp
    def _(primals, tangents):  # a loop over the tangent
        def body(i, n, c, t):
            return [i + ONE, n, c, t * c]

        def condition(i, n, *_):
            return ops.lt(i, n)

        x, n = primals
        return loop(x), ops.while_(condition, body, [ZERO, n, ops.cos(x), tangents[0]])[3]

    slope = mx.jit(mx.grad(lambda x, n: total(scaled)(x, n)))
    np.testing.assert_allclose(slope(X, np.int32(2)), np.cos(X) ** 2)
    again = mx.grad(total(mx.grad(total(scaled))))(X, np.int32(2))
    np.testing.assert_allclose(again, -2 * np.cos(X) * np.sin(X))

    @mx.custom_jvp
    def mixed(x):
        return ops.sin(loop(x))

    @mixed.defjvp
    def _(primals, tangents):  # a loop over values and tangents, whose values are used
        return mx.jvp(lambda x: ops.sin(loop(x)), primals, tangents)

    expected = jax.grad(lambda x: jnp.sum(jnp.sin(unrolled(2, W, x)[0])))(X)
    np.testing.assert_allclose(mx.grad(total(mixed))(X), expected, rtol=1e-12)


def test_inside_jax():
    program = mx.jit(nested)
    expected = jax.grad(jax_total(jax_nested))(W, X, 3)
    actual = jax.jit(jax.grad(jax_total(program)))(W, X, np.int32(3))
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_side_effects_are_not_repeated():
    def function(holds, x):
        def body(i, n, x):
            marked(i)
            return [i + ONE, n, x * x]

        init = [ZERO, np.int32(2), x]
        return ops.while_(lambda i, n, x: holds(i, n), body, init)[2]

    assert mx.grad(lambda x: function(known, x))(2.0) == 32
    with pytest.raises(DerivativeError, match="would repeat the loop's side effects"):
        mx.grad(lambda x: function(hidden, x))(2.0)


def test_large_residuals_are_computed_again(monkeypatch):
    monkeypatch.setattr(loop_reverse, "_KEPT_BYTES", 0)
    expected = jax.grad(lambda w: jnp.sum(unrolled(5, w, X)[0]))(W)
    actual = mx.grad(lambda w: mx.numpy.sum(chain(known, np.int32(5), w, X)[0]))(W)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("holds", [known, hidden])
def test_the_derivative_runs_everywhere(holds):
    check_operation(
        lambda w, x: mx.grad(lambda w, x: mx.numpy.sum(chain(holds, np.int32(3), w, x)[0]))(w, x),
        [W.astype(np.float32), X.astype(np.float32)],
        ulp=16,
    )


def test_what_is_the_same_in_all_iterations_and_kept_is_computed_once():
    def price(framework, kernel):
        def step(state, _):
            right = 1 / (kernel.T @ state)
            return 1 / (kernel @ right), right.sum()

        start = framework.numpy.ones(3)
        last, sums = framework.lax.scan(step, start, None, length=4)
        return (last * sums.sum()).sum()

    frameworks = SimpleNamespace(numpy=mx.numpy, lax=mx), SimpleNamespace(numpy=jnp, lax=lax)
    ours, theirs = (functools.partial(price, each) for each in frameworks)
    kernel = np.abs(W) + 1
    found = mx.jit(lambda x: (mx.grad(ours)(x), mx.hessian(ours)(x)))(kernel)
    expected = by_jax(lambda x: (jax.grad(theirs)(x), jax.hessian(theirs)(x)), kernel)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-12)
    scans = [
        step.op.to_apply
        for step in _instructions(mx.make_graph(mx.grad(ours))(kernel))
        if step.op.name == "Scan"
    ]
    forward = scans[0]
    assert "DotGeneral" in {step.op.name for step in forward.instructions}
    assert "Transpose" not in {step.op.name for step in forward.instructions}


def _instructions(graph):
    for step in graph.instructions:
        yield step
        if step.op.name == "Call":
            yield from _instructions(step.op.computation)
