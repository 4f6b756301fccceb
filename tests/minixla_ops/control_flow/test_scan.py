"""Scan (spec 90): steps along a dimension, each with its elements and a carry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla_ops.control_flow.scan import scan_all
from tests.harness import check_batching, check_derivatives, check_operation, check_rejected

generator = np.random.default_rng(0)
X = np.arange(1, 13, dtype=np.int32).reshape(3, 4)


def test_fact_three_steps():
    """m = n = k = 1, N = 3: f(a, i) -> (y0, c0); f(b, c0) -> (y1, c1); f(c, c1) -> (y2, c2)."""

    def step(element, carry):
        return element * 10 + carry, carry + element

    def function(x, c):
        return ops.scan(x, c, step)

    operands = [np.array([1, 2, 3], np.int32), np.int32(5)]
    check_operation(function, operands)
    outputs, carry = mx.reference(function)(*operands)
    np.testing.assert_array_equal(outputs, [15, 26, 38])
    assert carry == 11


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("dimension", [0, 1])
def test_dimensions_and_directions(dimension, is_reverse):
    """Outputs have the dimension where inputs do, and stand where their elements stand."""

    def function(x, y, c):
        def step(a, b, c):
            return a + c, a > b, c * 2 + a

        return ops.scan([x, y], [c], step, dimension, is_reverse)

    carry = np.ones(X.shape[1 - dimension], np.int32)
    operands = [X, X[::-1].copy(), carry]
    check_operation(function, operands)
    rows = np.moveaxis(X, dimension, 0)
    order = range(len(rows))[:: -1 if is_reverse else 1]
    expected = np.empty_like(rows)
    for index in order:
        expected[index] = rows[index] + carry
        carry = carry * 2 + rows[index]
    outputs, _, last = mx.reference(function)(*operands)
    np.testing.assert_array_equal(outputs, np.moveaxis(expected, 0, dimension))
    np.testing.assert_array_equal(last, carry)


@pytest.mark.parametrize("promise", [None, True, False])
def test_a_promise_changes_nothing(promise):
    def function(x):
        return ops.scan(
            x, np.zeros(4, np.int32), lambda a, c: (a + c, a + c), is_associative=promise
        )

    check_operation(function, [X])
    np.testing.assert_array_equal(mx.reference(function)(X)[0], np.cumsum(X, 0))


@pytest.mark.parametrize("sizes", [(0,), (1,), (0, 3), (2, 0)], ids=str)
def test_small_sizes(sizes):
    x = np.ones(sizes, np.float32)
    carry = np.zeros(sizes[1:], np.float32)
    check_operation(lambda x, c: ops.scan(x, c, lambda a, c: (a * 2, a + c)), [x, carry])


def test_element_types():
    def function(*xs):
        return [ops.scan(x, x[0], lambda a, c: (ops.max(a, c), ops.min(a, c))) for x in xs]

    types = ["int8", "uint4", "bfloat16", "float16", "float64", "float8_e4m3fn"]
    with jax.enable_x64(True):
        values = np.array([1, 3, 2, 0])
        check_operation(function, [values.astype(mx.element_type(name).dtype) for name in types])


def test_no_inputs():
    step = mx.make_graph(lambda c: (c * 2, c + 1))(np.float32(0))

    def function(c):
        outputs, carried = scan_all(step, [], [c], 3, False)
        return [*outputs, *carried]

    check_operation(function, [np.float32(1)])
    np.testing.assert_array_equal(mx.reference(function)(np.float32(1))[0], [2, 4, 6])


def step_of_floats(np_like):
    def step(w, h, x):
        return np_like.sin(w * h) * x, (np_like.tanh(h + x), (h * x).sum())

    return step


def ours(dimension, is_reverse):
    step = step_of_floats(mx.numpy)

    def function(w, h, x):
        def to_apply(x, h, w):
            h, (a, b) = step(w, h, x)
            return a, mx.numpy.reshape(b, (1,)), h, w

        return ops.scan(x, [h, w], to_apply, dimension, is_reverse)[:3]

    return function


def theirs(dimension, is_reverse):
    step = step_of_floats(jnp)

    def function(w, h, x):
        rows = jnp.moveaxis(x, dimension, 0)
        h, (a, b) = lax.scan(lambda h, x: step(w, h, x), h, rows, reverse=is_reverse)
        b = b[:, None]
        return jnp.moveaxis(a, 0, dimension), jnp.moveaxis(b, 0, dimension), h

    return function


CASES = [(0, False), (0, True), (1, False)]


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    sizes = [3, 3]
    sizes[case[0]] = 4
    operands = [generator.normal(size=n) for n in (3, 3, sizes)]
    check_derivatives(ours(*case), operands, theirs(*case), order=2)


@pytest.mark.parametrize("case", CASES)
def test_batching(case):
    sizes = [3, 3]
    sizes[case[0]] = 4
    operands = [generator.normal(size=n).astype(np.float32) for n in (3, 3, sizes)]
    check_batching(ours(*case), operands)


def test_a_carry_that_only_gets_a_tangent_later():
    def function(x, a, b):
        return ops.scan(x, [a, b], lambda x, a, b: (b, a + x, a * b))

    check_derivatives(function, [generator.normal(size=n) for n in (3, (), ())], order=2)


def test_the_reverse_derivative_keeps_no_constants():
    """A carry that comes back as it was is no residual of each step."""

    def function(w, x):
        return ops.scan(x, [x[0], w], lambda x, h, w: (h, ops.tanh(w * h + x), w))[1].sum()

    graph = mx.make_graph(mx.grad(function))(np.ones(3, np.float32), np.ones((7, 3), np.float32))
    (forward,) = next(each for each in graph.instructions if each.op.name == "Call").op.computations
    step = next(each for each in forward.instructions if each.op.name == "Scan")
    # Of each step: the elements' own stack, the carry before it and the tangent.
    assert [str(shape) for shape in step.shapes].count("f32[7,3]") <= 3


def test_the_reverse_derivative_keeps_what_follows_from_constants_once():
    def function(w, x):
        return ops.scan(x, [x[0], w], lambda x, h, w: (h, h * ops.tanh(w) + x, w))[1].sum()

    operands = np.ones(3, np.float32), np.ones((7, 3), np.float32)
    graph = mx.make_graph(mx.grad(function, argnums=1))(*operands)
    (forward,) = next(each for each in graph.instructions if each.op.name == "Call").op.computations
    step = next(each for each in forward.instructions if each.op.name == "Scan")
    # The outputs alone: tanh(w) is the same in all steps.
    assert [str(shape) for shape in step.shapes].count("f32[7,3]") == 1


def test_hlo_text():
    text = str(
        mx.make_graph(lambda x: ops.scan(x, x[0], lambda a, c: (a, c + a), is_reverse=True))(X)
    )
    assert "scan(%arg0.1, %" in text
    read = _hlo.hlo_module_from_text(text).to_string()
    assert "dimensions={0}, num_carries=1, is_reverse=true" in read


def element(shape):
    return Shape("s32", shape)


REJECTED = {
    "C1, no dimension": (
        lambda x: ops.scan(x, np.int32(0), lambda a, c: (a, c), 2),
        ["(C1)", "inputs must have dimension 2"],
    ),
    "C1, sizes": (
        lambda x: ops.scan([x, x[:2]], np.int32(0), lambda a, b, c: (a, c)),
        ["(C1)", "input 1 must have 3 elements along dimension 0", "inputs and inits[1] s32[2,4]"],
    ),
    "C2": (
        lambda x: ops.scan(x, np.int32(0), mx.make_graph(lambda a, c: (a, c))(X, X)),
        [
            "(C2)",
            "to_apply must take the elements",
            "elements and carries; it takes s32[3,4], s32[3,4], not s32[4], s32[]",
        ],
    ),
    "C3": (
        lambda x: ops.scan(x, np.int32(0), lambda a, c: (c, a)),
        ["(C3)", "must return the carries that it takes", "the carries are s32[]"],
    ),
    "C4": (
        lambda x: ops.scan(x, np.int32(0), lambda a, c: (c, c), 1),
        ["(C4)", "output 0, with elements s32[], has too few dimensions"],
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name):
    function, phrases = REJECTED[name]
    check_rejected(function, [X], mx.ShapeError, *phrases)
