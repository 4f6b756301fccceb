"""Sizes known at run time: against XLA:CPU (StableHLO's interpreter has no bounded dimensions)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla import AttributeValueError, DerivativeError, Shape, ShapeError, TransformError, ops
from minixla.core.tracing import trace_to_graph
from minixla_ops.dynamic_sizes.dimension_sizes import static
from minixla_ops.helpers.shorthand import array_shape
from tests.harness import check_derivatives, check_operation, check_rejected, graph_of

V = np.arange(1, 11, dtype="f4")
GENERATOR = np.random.default_rng(0)
# Sums of products of these are exact, in any order.
X, W = np.round(16 * GENERATOR.standard_normal((2, 4, 3))).astype("f4") / 16
M = np.round(16 * GENERATOR.standard_normal((3, 5))).astype("f4") / 16
ROWS = np.array([[2], [0], [1], [2]], "i4")
ROW_NUMBERS = ops.GatherDimensionNumbers((1,), (0,), (0,), 1)
COLUMNS = ((0,), (0,)), ((), ())


def sized(x, n, dimension=0):
    return ops.set_dimension_size(x, n, dimension)


def filled(value):
    for dimension in range(array_shape(value).rank):
        value = static(value, dimension)
    return value


def total(value):
    return ops.reduce(value, 0.0, ops.add, range(array_shape(value).rank))


# Facts of the specification.


@pytest.mark.parametrize("run", [mx.reference, mx.jit], ids=["reference", "xla"])
def test_fact_85_86_later_reductions_ignore_what_is_beyond_the_size(run):
    assert str(graph_of(sized, [V, np.int32(5)]).output_shapes[0]) == "f32[<=10]"
    assert run(lambda x, n: total(sized(x, n)))(V, np.int32(5)) == 15
    product = run(lambda x, n: ops.reduce(sized(x, n), 1.0, ops.mul, [0]))
    assert product(V, np.int32(5)) == 120
    assert run(lambda x, n: total(sized(x, n)))(V, np.int32(6)) == 21
    size: Any = run(lambda x, n: ops.get_dimension_size(sized(x, n), 0))(V, np.int32(5))
    assert size.dtype == np.int32 and size == 5


def test_fact_86_the_bound_stays_10():
    graph = graph_of(lambda x: total(sized(x, 5)), [V])
    bound = Shape("f32", (10,), (True,))
    assert graph.instructions[1].shapes == (bound,) and bound.dimensions == (10,)


# What takes dynamic operands, over sizes 0, 1, 2 and the bound.

CASES = {
    "unary": lambda x, n: ops.cos(sized(x, n)),
    "static beside dynamic": lambda x, n: ops.add(sized(x, n), x),
    "operators": lambda x, n: 1 - x * sized(x, n) / 2,
    "row": lambda x, n: ops.add(sized(x, n), W[0], (1,)),
    "compare": lambda x, n: ops.lt(sized(x, n), W),
    "select": lambda x, n: ops.select(ops.lt(sized(x, n), W), x, W),
    "clamp": lambda x, n: ops.clamp(np.float32(-1), sized(x, n), W),
    "convert": lambda x, n: ops.convert_element_type(sized(x, n), "s32"),
    "transpose": lambda x, n: ops.transpose(sized(x, n), (1, 0)),
    "rev": lambda x, n: ops.rev(sized(x, n), (0,)),
    "broadcast": lambda x, n: ops.broadcast(sized(x, n), (2,)),
    "broadcast_in_dim": lambda x, n: ops.broadcast_in_dim(sized(x, n), (3, 2, 4), (2, 0)),
    "reshape": lambda x, n: ops.reshape(sized(x, n), (4, 1, 3)),
    "reshape merging what is before": lambda x, n: ops.reshape(
        ops.transpose(ops.broadcast(sized(x, n), (2,)), (0, 2, 1)), (6, 4)
    ),
    "reshape merging what is after": lambda x, n: ops.reshape(
        ops.transpose(ops.broadcast(sized(x, n), (2,)), (1, 0, 2)), (4, 6)
    ),
    "slice of others": lambda x, n: ops.slice(sized(x, n), (0, 1), (4, 3)),
    "concat beside": lambda x, n: ops.concat_in_dim([sized(x, n), W], 1),
    "concat along": lambda x, n: ops.concat_in_dim([sized(x, n), W, sized(W, n)], 0),
    "pad": lambda x, n: ops.pad(sized(x, n), np.float32(7), [(1, 1, 2), (0, 1, 1)]),
    "sum": lambda x, n: ops.reduce(sized(x, n), 0.0, ops.add, [0]),
    "sum of others": lambda x, n: ops.reduce(sized(x, n), 0.0, ops.add, [1]),
    "max": lambda x, n: ops.reduce(sized(x, n), -np.inf, ops.max, [0, 1]),
    "any reducer": lambda x, n: ops.reduce(sized(x, n), 0.0, lambda a, b: a + b * 1.0, [0]),
    "dot contracting": lambda x, n: ops.dot_general(sized(x, n), W, COLUMNS),
    "dot contracting rhs": lambda x, n: ops.dot_general(W, sized(x, n), COLUMNS),
    "dot of rows": lambda x, n: ops.dot(sized(x, n), M),
    "dot of a batch": lambda x, n: ops.dot_general(W, sized(x, n), (((1,), (1,)), ((0,), (0,)))),
    "gather": lambda x, n: ops.gather(M, sized(ROWS, n), ROW_NUMBERS, (1, 5)),
    "call": lambda x, n: ops.call(ops.sin, sized(x, n))[0],
    "sort": lambda x, n: ops.sort([sized(x, n)], ops.lt, 0),
    "sort others": lambda x, n: ops.sort([sized(x, n)], ops.gt, 1),
    "conditional": lambda x, n: ops.conditional(
        ops.lt(n, np.int32(2)), sized(x, n), ops.sin, sized(x, n), ops.cos
    ),
    "while": lambda x, n: ops.while_(
        lambda i, _: i < 3, lambda i, y: (i + 1, ops.sin(y)), (np.int32(0), sized(x, n))
    )[1],
    "tuple": lambda x, n: ops.get_tuple_element(ops.tuple([sized(x, n), x]), 0),
    "size": lambda x, n: ops.get_dimension_size(sized(x, n), 0),
    "size of another": lambda x, n: ops.get_dimension_size(sized(x, n), 1),
    "size of a static": lambda x, n: ops.get_dimension_size(x, 0),
    "larger again": lambda x, n: sized(sized(x, n), np.int32(3)),
    "two dimensions": lambda x, n: sized(sized(x, n), np.int32(2), 1) * x,
    "dynamic_reshape": lambda x, n: ops.dynamic_reshape(sized(x, n), [3, n], (3, 4), (False, True)),
    "flattened": lambda x, n: ops.dynamic_reshape(sized(x, n), [n * 3], (12,), (True,)),
    "static reshape": lambda x, n: ops.dynamic_reshape(x, [6, 2], (6, 2), (True, False)),
}
# Those with sines and cosines.
ROUNDED = ("unary", "call", "conditional", "while")


@pytest.mark.parametrize("name", CASES)
def test_as_on_xla(name):
    def function(x, *sizes):
        return [filled(CASES[name](x, n)) for n in sizes]

    sizes = [np.int32(n) for n in (0, 1, 2, 4)]
    check_operation(function, [X, *sizes], interpreter=False, ulp=4 if name in ROUNDED else 0)


@pytest.mark.parametrize("kind", ["pred", "s8", "u64", "bf16", "f64", "c64"])
def test_types(kind):
    x = ops.convert_element_type
    operand = mx.reference(lambda v: x(v, kind))(V)
    check_operation(
        lambda v, n: [filled(sized(v, n)), ops.get_dimension_size(sized(v, n), 0)],
        [operand, np.int32(7)],
        interpreter=False,
    )


def test_the_reference_has_true_sizes():
    assert mx.reference(sized)(V, np.int32(3)).tolist() == [1, 2, 3]
    assert mx.reference(sized)(V, np.int32(0)).shape == (0,)
    assert mx.reference(sized, "float64")(V, np.int32(3)).dtype == np.float64
    whole = mx.reference(lambda x, n: sized(sized(x, n), 10))(V, np.int32(3))
    assert whole.tolist() == [1, 2, 3, 0, 0, 0, 0, 0, 0, 0]


def test_a_python_integer_equal_to_the_bound_is_static():
    graph = graph_of(lambda x, n: [sized(x, 10), sized(sized(x, n), 10)], [V, np.int32(5)])
    assert graph.output_shapes == (Shape("f32", (10,)),) * 2
    assert graph.outputs[0] is graph.inputs[0]


# Derivatives.

DIFFERENTIABLE = {
    "sum": lambda x: total(sized(x, 2)),
    "static beside dynamic": lambda x: total(sized(x, 2) + x),
    "product": lambda x: total(sized(x, 2) * x * 2.0),
    "functions": lambda x: total(ops.sin(sized(x, 2)) * ops.exp(x)),
    "max": lambda x: ops.reduce(sized(x, 2), -np.inf, ops.max, [0, 1]),
    "row": lambda x: total(ops.broadcast_in_dim(x, (4, 4, 3), (1, 2)) * sized(x, 2, 1)[None]),
    "dot": lambda x: total(ops.dot_general(sized(x, 2), x * x, COLUMNS)),
    "filled": lambda x: ops.sin(sized(sized(x, 2), 4)) * x,
    "concat": lambda x: total(ops.concat_in_dim([sized(x, 2), x * x], 0) ** 2),
    "transpose": lambda x: total(ops.transpose(sized(x, 2), (1, 0)) * x.T),
    "larger": lambda x: total(sized(sized(x, 2), 3) * x),
    "dynamic_reshape": lambda x: total(
        ops.dynamic_reshape(sized(x, 2), [2 * 3], (12,), (True,)) * ops.reshape(x, (12,))
    ),
    "static dynamic_reshape": lambda x: total(
        ops.dynamic_reshape(x, [12], (12,), (True,)) * ops.reshape(x, (12,))
    ),
    "call": lambda x: total(ops.call(lambda y: y * y, sized(x, 2))[0] * x),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    function, x = DIFFERENTIABLE[name], X.astype("f8")
    check_derivatives(function, [x])
    with jax.enable_x64(True):

        def slope(x):
            return mx.grad(lambda x: mx.numpy.sum(function(x)))(x)

        np.testing.assert_allclose(mx.jit(slope)(x), mx.reference(slope)(x), rtol=1e-12)


def test_fact_86_positions_beyond_the_size_get_no_cotangent():
    for run in (mx.reference, mx.jit):
        slope = run(mx.grad(lambda x, n: total(sized(x, n) * 3.0)))
        assert slope(V, np.int32(4)).tolist() == [3] * 4 + [0] * 6


def test_sizes_have_no_derivative():
    def function(x, y):
        return total(sized(x, ops.convert_element_type(y, "s32")))

    assert mx.reference(mx.grad(function, 1))(V, np.float32(3)) == 0


def test_a_tangent_of_unknown_size():
    @mx.custom_jvp
    def cut(x):
        return sized(x, 3)

    @cut.defjvp
    def _(primals, tangents):
        return cut(primals[0]), total(sized(tangents[0], 3)) * sized(V, 3)

    with pytest.raises(
        DerivativeError, match="the size of a dynamic dimension of a tangent is unknown"
    ):
        mx.reference(mx.grad(lambda x: total(cut(x))))(V)


# Batches.


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(
    "name", ["unary", "sum", "static beside dynamic", "size", "dynamic_reshape", "flattened"]
)
def test_batching(name, position):
    stack = GENERATOR.standard_normal((3, 4, 3)).astype("f4")
    rows = np.moveaxis(stack, 0, position)

    def function(x):
        return filled(CASES[name](x, np.int32(2)))

    one_by_one = [mx.reference(function)(x) for x in stack]
    for run in (mx.reference, mx.jit):
        found = run(mx.vmap(function, in_axes=position))(rows)
        np.testing.assert_allclose(found, one_by_one, rtol=1e-6)


def test_sizes_do_not_differ_over_a_batch():
    sizes = np.array([2, 3], "i4")
    with pytest.raises(
        TransformError,
        match="set_dimension_size: a dynamic size cannot differ between batch elements",
    ):
        mx.reference(mx.vmap(lambda n: total(sized(V, n))))(sizes)
    with pytest.raises(
        TransformError, match="dynamic_reshape: a dynamic size cannot differ between batch elements"
    ):
        mx.reference(
            mx.vmap(lambda n: total(ops.dynamic_reshape(V, [n, 5], (2, 5), (True, False))))
        )(sizes)


# Checks.


@pytest.mark.parametrize(
    ("function", "operands", "error", "phrases"),
    [
        (lambda x: ops.get_dimension_size(x, 1), [V], AttributeValueError, ["(C1)", "[0, 1)"]),
        (lambda x: ops.get_dimension_size(x, -1), [V], AttributeValueError, ["(C1)"]),
        (lambda x: sized(x, 3, 1), [V], AttributeValueError, ["(C1)", "no dimension 1"]),
        (sized, [V, np.int64(3)], ShapeError, ["(C2)", "s32[]"]),
        (sized, [V, np.ones(1, "i4")], ShapeError, ["(C2)", "val s32[1]"]),
        (lambda x: sized(x, 11), [V], AttributeValueError, ["size 11 is out of range", "[0, 10]"]),
        (lambda x: sized(x, -1), [V], AttributeValueError, ["size -1 is out of range"]),
        (lambda x: sized(ops.tuple([x]), 1), [V], ShapeError, ["must be an array"]),
        (
            lambda x: ops.dynamic_reshape(x, [5, 2], (10,), (True,)),
            [V],
            AttributeValueError,
            ["(C1) sizes, bounds and flags must have equal lengths"],
        ),
        (
            lambda x: ops.dynamic_reshape(x, [x[0]], (10,), (True,)),
            [V],
            ShapeError,
            ["(C2) sizes must be s32 scalars"],
        ),
        (
            lambda x: ops.dynamic_reshape(x, [4], (12,), (True,)),
            [V],
            ShapeError,
            ["(C3) the bounds must hold as many elements as the operand; got 12 and 10"],
        ),
    ],
)  # fmt: skip
def test_checks(function, operands, error, phrases):
    check_rejected(function, operands, error, *phrases)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, n, pair: ops.select(x < n, sized(x, n), pair), ("select", "(f32[10], f32[10])")),
        (lambda x, n, pair: ops.clamp(x, sized(x, n), pair), ("clamp", "(f32[10], f32[10])")),
        (
            lambda x, n, pair: ops.select(True, sized(x, n), ()),
            ("select", "operand on_false", "()"),
        ),
    ],
)
def test_rejected_tuples_beside_dynamic_sizes(function, words):
    check_rejected(
        lambda x, n: function(x, n, ops.tuple([x, x])), [V, np.int32(3)], ShapeError, *words
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.bitcast_convert_type(x, "s32"),
        lambda x: ops.dynamic_slice(x, [0], [1]),
        lambda x: ops.reduce_window(x, 0.0, ops.add, (2,), (1,), "VALID"),
        lambda x: ops.gather(x, ROWS, ops.GatherDimensionNumbers((), (0,), (0,), 1), (1,)),
    ],
)
def test_others_refuse_dynamic_operands(function):
    check_rejected(
        lambda x, n: function(sized(x, n)),
        [V, np.int32(3)],
        ShapeError,
        "operand operand",
        "has a dynamic dimension",
        "f32[<=10]",
        "set_dimension_size(operand, bound, dimension)",
    )


@pytest.mark.parametrize("size", [-1, 12])
def test_the_reference_refuses_a_size_out_of_range(size):
    with pytest.raises(AttributeValueError, match=rf"size {size} is out of range"):
        mx.reference(sized)(V, np.int32(size))
    with pytest.raises(AttributeValueError, match=rf"sizes \[{size}\] do not fit"):
        mx.reference(lambda x, n: ops.dynamic_reshape(x, [n], (10,), (True,)))(V, np.int32(size))


@pytest.mark.parametrize(
    ("sizes", "flags"),
    [
        ([1, 5], (False, True)),
        ([5, 1], (True, True)),
        ([-1, -5], (True, True)),
        ([2, 5], (True, True)),
        ([0, 5], (True, True)),
    ],
)
def test_the_reference_refuses_sizes_that_do_not_fit(sizes, flags):
    def function(x):  # of 5 elements
        return ops.dynamic_reshape(sized(x, 5), sizes, (2, 5), flags)

    with pytest.raises(AttributeValueError, match="do not fit") as caught:
        mx.reference(function)(V)
    assert str(sizes) in str(caught.value)


def test_cotangents_of_dynamic_reshape_have_the_operands_dynamic_dimensions():
    operand = Shape("f32", (4, 3), (True, False))

    def pulled(x):
        result, pull = mx.vjp(lambda y: ops.dynamic_reshape(y, [6], (12,), (True,)), x)
        return pull(result)

    graph, _ = trace_to_graph(pulled, [operand])
    assert graph.output_shapes == (operand,)


def test_a_dynamic_array_cannot_leave_a_compiled_program():
    for function in (sized, mx.jit(sized)):
        with pytest.raises(ShapeError, match=r"f32\[<=10\].*cannot be passed to JAX"):
            function(V, np.int32(3))


def test_text():
    graph, _ = trace_to_graph(lambda x, n: [sized(x, n)], [Shape("f32", (10,)), Shape("s32")])
    assert "f32[<=10] set-dimension-size(%arg0.1, %arg1.2), dimensions={0}" in str(graph)
    assert (
        '"stablehlo.set_dimension_size"(%arg0, %arg1) <{dimension = 0 : i64}> : '
        "(tensor<10xf32>, tensor<i32>) -> (tensor<?xf32, #stablehlo.bounds<10>>)"
    ) in graph.stablehlo()
