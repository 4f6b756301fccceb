"""Reshape, Collapse, Transpose, Rev, Slice, ConcatInDim and Pad: against the oracles and JAX."""

from __future__ import annotations

import functools

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    compiled_rows,
    graph_of,
)
from tests.oracles import ALL_TYPES, random_values, run_xla

# What XLA:CPU of jaxlib 0.10.2 cannot hold: "Invalid XLA PrimitiveType".
NOT_ON_XLA_CPU = ("f6E2M3FN", "f6E3M2FN")


def counted(*sizes, dtype=np.float32):
    return np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)


# The operation, shapes of its operands, and the same in JAX, for ranks 0-4 and sizes 0 and 1.
UNARY = {
    "reshape to scalar": (lambda x: ops.reshape(x, ()), (1, 1), lambda x: x.reshape(())),
    "reshape a scalar": (lambda x: ops.reshape(x, (1, 1)), (), lambda x: x.reshape(1, 1)),
    "reshape rank 4": (lambda x: ops.reshape(x, (4, 6)), (2, 1, 3, 4), lambda x: x.reshape(4, 6)),
    "reshape empty": (lambda x: ops.reshape(x, (3, 0)), (0, 2), lambda x: x.reshape(3, 0)),
    "reshape explicit": (
        lambda x: ops.reshape_explicit(Shape(x.dtype, (3, 2)), x),
        (2, 3),
        lambda x: x.reshape(3, 2),
    ),
    "collapse all": (lambda x: ops.collapse(x, (0, 1, 2)), (2, 3, 4), lambda x: x.reshape(24)),
    "collapse one": (lambda x: ops.collapse(x, (1,)), (2, 3), lambda x: x),
    "collapse none": (lambda x: ops.collapse(x, ()), (2, 3), lambda x: x),
    "collapse empty": (lambda x: ops.collapse(x, (1, 2)), (2, 0, 3), lambda x: x.reshape(2, 0)),
    "transpose scalar": (lambda x: ops.transpose(x, ()), (), lambda x: x),
    "transpose matrix": (lambda x: ops.transpose(x, (1, 0)), (2, 3), lambda x: x.T),
    "transpose cycle": (
        lambda x: ops.transpose(x, (2, 0, 1)),
        (2, 3, 4),
        lambda x: x.transpose(2, 0, 1),
    ),
    "transpose rank 4": (
        lambda x: ops.transpose(x, (3, 1, 0, 2)),
        (2, 3, 1, 4),
        lambda x: x.transpose(3, 1, 0, 2),
    ),
    "transpose empty": (
        lambda x: ops.transpose(x, (1, 2, 0)),
        (2, 0, 3),
        lambda x: x.transpose(1, 2, 0),
    ),
    "rev vector": (lambda x: ops.rev(x, (0,)), (5,), lambda x: x[::-1]),
    "rev several": (lambda x: ops.rev(x, (2, 0)), (2, 3, 4), lambda x: lax.rev(x, (0, 2))),
    "rev nothing": (lambda x: ops.rev(x, ()), (), lambda x: x),
    "rev size 0 and 1": (lambda x: ops.rev(x, (0, 1)), (0, 1), lambda x: x),
    "slice scalar": (lambda x: ops.slice(x, (), ()), (), lambda x: x),
    "slice vector": (lambda x: ops.slice(x, (1,), (4,)), (5,), lambda x: x[1:4]),
    "slice strided": (
        lambda x: ops.slice(x, (0, 1), (5, 7), (2, 3)),
        (5, 8),
        lambda x: x[0:5:2, 1:7:3],
    ),
    "slice past the end": (lambda x: ops.slice(x, (3,), (5,), (9,)), (5,), lambda x: x[3:5:9]),
    "slice to nothing": (lambda x: ops.slice(x, (2, 0), (2, 3)), (4, 3), lambda x: x[2:2]),
    "slice rank 4": (
        lambda x: ops.slice(x, (0, 1, 0, 2), (1, 2, 3, 4), (1, 1, 2, 1)),
        (1, 2, 3, 4),
        lambda x: x[0:1, 1:2, 0:3:2, 2:4],
    ),
    "slice in dim": (lambda x: ops.slice_in_dim(x, 1, 4, 1, 2), (2, 5), lambda x: x[:, 1:4:2]),
}

PAD_CONFIGS = {
    "of a scalar": ((), ()),
    "by nothing": ((2, 3), ((0, 0, 0), (0, 0, 0))),
    "low, high and interior": ((2, 3), ((1, 2, 0), (0, 3, 2))),
    "negative edges": ((5, 4), ((-1, -2, 0), (2, -1, 0))),
    "negative edges after interior": ((3, 2), ((-2, 0, 1), (-1, -1, 3))),
    "to nothing": ((3,), ((-1, -2, 0),)),
    "across an edge": ((3,), ((-2, 2, 0),)),
    "only padding is left": ((3,), ((-4, 5, 0),)),
    "of nothing": ((0, 2), ((2, 1, 4), (0, 0, 1))),
    "of one": ((1,), ((1, 1, 5),)),
    "rank 4": ((2, 1, 2, 3), ((0, 1, 0), (1, 0, 2), (-1, 0, 1), (0, -1, 1))),
}


def jax_pad(config):
    return lambda x, v: lax.pad(x, v, config)


CONCAT = {
    "one": (0, [(3,)]),
    "vectors": (0, [(2,), (0,), (3,)]),
    "matrices": (1, [(2, 3), (2, 1), (2, 2)]),
    "rank 3": (2, [(2, 1, 3), (2, 1, 1)]),
    "rank 4, empty": (1, [(2, 2, 0, 3), (2, 1, 0, 3)]),
}


def pad(config):
    return lambda x, v: ops.pad(x, v, config)


def concat(dimension):
    return lambda *xs: ops.concat_in_dim(xs, dimension)


def jax_concat(dimension):
    return lambda *xs: lax.concatenate(xs, dimension)


# Functions of ours and of JAX, operands.
CASES = {
    **{
        case: (function, jax_function, [counted(*sizes)])
        for case, (function, sizes, jax_function) in UNARY.items()
    },
    **{
        f"pad {case}": (pad(config), jax_pad(config), [counted(*sizes), np.float32(-9)])
        for case, (sizes, config) in PAD_CONFIGS.items()
    },
    **{
        f"concat {case}": (
            concat(dimension),
            jax_concat(dimension),
            [counted(*sizes) + 100 * i for i, sizes in enumerate(shapes)],
        )
        for case, (dimension, shapes) in CONCAT.items()
    },
}
OPERATIONS = Together({case: (ours, operands, {}) for case, (ours, _, operands) in CASES.items()})


@functools.cache
def by_jax_for_all():
    """From a case to JAX's result, all of them in one program."""
    rows = {case: (theirs, xs) for case, (_, theirs, xs) in CASES.items()}
    return compiled_rows(rows, jit=jax.jit)


@pytest.mark.parametrize("case", CASES)
def test_operation(case):
    (result,) = OPERATIONS.check(case)
    np.testing.assert_array_equal(result, by_jax_for_all()(case))


def every_operation(x, v):
    """One result of each operation here, of operands f[2,3] and f[]."""
    return [
        ops.reshape(x, (3, 2)),
        ops.transpose(x, (1, 0)),
        ops.rev(x, (1,)),
        ops.concat_in_dim([x, ops.rev(x, (0,)), x], 0),
        ops.pad(x, v, [(1, -1, 0), (0, 2, 1)]),
        ops.slice(x, (0, 0), (2, 3), (1, 2)),
        ops.collapse(x, (0, 1)),
        ops.broadcast(x, (2,)),
        ops.broadcast_in_dim(x, (3, 4, 2), (2, 0)),
        ops.dynamic_slice(x, [np.int32(1), np.int32(5)], (1, 2)),
        ops.dynamic_update_slice(x, ops.slice(x, (0, 0), (1, 2)), [np.int32(1), np.int32(5)]),
        ops.get_tuple_element(ops.tuple([v, x]), 1),
        *ops.call(lambda y: [ops.rev(y, (0,))], x),
    ]


ELEMENT_TYPES = Together(
    {
        name: (
            every_operation,
            [random_values(dtype, (2, 3), 0), random_values(dtype, (), 1)],
            {"xla": name not in NOT_ON_XLA_CPU},
        )
        for name, dtype in ALL_TYPES
    }
)


@pytest.mark.parametrize("name", ELEMENT_TYPES.rows)
def test_every_element_type(name):
    ELEMENT_TYPES.check(name)


@pytest.mark.parametrize("dtype", [ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4])
def test_joined_integers_of_few_bits(dtype):
    # XLA:CPU ends the process where it joins arrays of 2-bit integers.
    operands = [
        counted(2, 3, dtype=np.int32).astype(dtype),
        np.ones((1, 3), np.int32).astype(dtype),
    ]
    graph = graph_of(lambda x, y: ops.concat_in_dim([x, y], 0), operands)
    (result,) = run_xla(graph.stablehlo("cpu"), operands)
    np.testing.assert_array_equal(result, np.concatenate(operands))
    assert graph.stablehlo().count("stablehlo.") == 1


# What the specification says.

V = np.array(
    [[[10 * i + j + 5 * k for j in range(3)] for k in range(2)] for i in range(1, 5)], np.float32
)


def reference(function, *operands):
    return mx.reference(function)(*operands)


def test_fact_collapse_of_three():
    result = reference(lambda x: ops.collapse(x, (0, 1, 2)), V)
    assert result.tolist() == [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27,
                               30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]  # fmt: skip


def test_fact_x1_collapse_keeps_the_place_of_the_dimensions():
    # The pages print these two results the other way round; the rule decides.
    rows = [[10, 11, 12], [15, 16, 17], [20, 21, 22], [25, 26, 27],
            [30, 31, 32], [35, 36, 37], [40, 41, 42], [45, 46, 47]]  # fmt: skip
    assert reference(lambda x: ops.collapse(x, (0, 1)), V).tolist() == rows
    wide = [rows[i] + rows[i + 1] for i in (0, 2, 4, 6)]
    assert reference(lambda x: ops.collapse(x, (1, 2)), V).tolist() == wide


def test_fact_reshape():
    assert reference(lambda x: ops.reshape(x, (24,)), V).tolist() == V.ravel().tolist()
    assert reference(lambda x: ops.reshape(x, (8, 3)), V).tolist() == V.reshape(8, 3).tolist()
    five = np.full((1, 1), 5, np.float32)
    assert reference(lambda x: ops.reshape(x, ()), five) == 5
    assert reference(lambda x: ops.reshape(x, (1, 1)), np.float32(5)).tolist() == [[5]]


def test_fact_concatenate():
    vectors = [np.array(v) for v in ([2, 3], [4, 5], [6, 7])]
    assert reference(lambda *v: ops.concat_in_dim(v, 0), *vectors).tolist() == [2, 3, 4, 5, 6, 7]
    matrices = [np.array([[1, 2], [3, 4], [5, 6]]), np.array([[7, 8]])]
    joined = reference(lambda *v: ops.concat_in_dim(v, 0), *matrices)
    assert joined.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_fact_slice():
    assert reference(lambda a: ops.slice(a, (2,), (4,)), counted(5)).tolist() == [2, 3]
    matrix = reference(lambda b: ops.slice(b, (2, 1), (4, 3)), counted(4, 3))
    assert matrix.tolist() == [[7, 8], [10, 11]]


def test_fact_transpose_is_out_dimension_d_is_operand_dimension_permutation_d():
    result = reference(lambda x: ops.transpose(x, (2, 0, 1)), counted(2, 3, 4))
    assert result.shape == (4, 2, 3)
    assert result[3, 1, 2] == counted(2, 3, 4)[1, 2, 3]


def test_fact_negative_padding_counts_after_interior_padding():
    # 1 0 0 2 0 0 3 without its first two and its last entry.
    result = reference(lambda x: ops.pad(x, np.float32(0), [(-2, -1, 2)]), counted(3) + 1)
    assert result.tolist() == [0, 2, 0, 0]


def test_collapse_and_explicit_reshape_make_graphs_of_reshape():
    graph = graph_of(
        lambda x: [ops.collapse(x, (0, 1)), ops.reshape_explicit(Shape("f32", (3, 2)), x)],
        [counted(2, 3)],
    )
    assert [each.op.name for each in graph.instructions] == ["Reshape", "Reshape"]


@pytest.mark.parametrize(
    "function",
    [lambda x: ops.collapse(x, (0, 1)), lambda x: ops.reshape_explicit(Shape("f64", (6,)), x)],
)
def test_rules_of_the_builders_over_reshape(function):
    check_operation(function, [counted(2, 3, dtype=np.float64)])
    check_derivatives(function, [counted(2, 3, dtype=np.float64)], lambda x: x.reshape(6))
    check_batching(function, [counted(2, 3, dtype=np.float64)])


DERIVATIVES = DerivativesTogether(
    {
        # Linear: the second derivative is zero, and the transpose of the transpose is order 2.
        case: (ours, [np.asarray(x, np.float64) for x in operands], theirs, {"order": 1})
        for case, (ours, theirs, operands) in CASES.items()
        if "explicit" not in case
    }
)


@pytest.mark.parametrize("case", DERIVATIVES.rows)
def test_derivatives(case):
    DERIVATIVES.check(case)


def test_derivatives_of_derivatives():
    def function(x, v, multiply, functions):
        padded = functions.pad(multiply(x, x), multiply(v, v), ((1, -1, 1), (0, 1, 0)))
        turned = functions.rev(functions.transpose(padded, (1, 0)), (1,))
        cut = functions.slice(turned, (1, 0), (4, 3), (2, 1))
        return (
            multiply(cut, functions.reshape(turned, cut.shape)) if cut.size == turned.size else cut
        )

    operands = [counted(2, 3, dtype=np.float64) + 1, np.float64(2)]
    check_derivatives(
        lambda x, v: function(x, v, ops.mul, ops),
        operands,
        lambda x, v: function(x, v, lax.mul, lax),
    )


def test_concat_with_some_operands_active():
    def function(x):
        constant = counted(2, 1, dtype=np.float64)
        return ops.concat_in_dim([constant, ops.mul(x, x), constant, x], 1)

    def jax_function(x):
        constant = counted(2, 1, dtype=np.float64)
        return lax.concatenate([constant, x * x, constant, x], 1)

    check_derivatives(function, [counted(2, 2, dtype=np.float64)], jax_function)


def test_inactive_concat_operands_get_no_cotangent():
    with jax.enable_x64(True):
        graph = mx.make_graph(
            mx.grad(
                lambda x: ops.reshape(
                    ops.slice(ops.concat_in_dim([np.ones(4), x], 0), (5,), (6,)), ()
                )
            )
        )(np.ones(3))
    names = [each.op.name for each in graph.pruned().instructions]
    assert names.count("Slice") == 1, names


def test_gradient_of_padding_value_with_infinite_cotangents_elsewhere():
    # As the difference of two sums it would be inf - inf.
    weights = np.array([np.inf, 2, 3], np.float32)

    def loss(v):
        padded = ops.pad(np.zeros(1, np.float32), v, [(0, 2, 0)])
        return mx.vjp(lambda x: ops.pad(np.zeros(1, np.float32), x, [(0, 2, 0)]), v)[1](
            weights
        ), padded

    ((slope,), _) = mx.reference(loss)(np.float32(1))
    assert slope == 5


@pytest.mark.parametrize("case", DERIVATIVES.rows)
def test_batching(case):
    function, _, operands = CASES[case]
    check_batching(function, operands)


def test_empty_batch():
    empty = np.zeros((0, 2, 3), np.float32)
    results = mx.reference(mx.vmap(lambda x: every_operation(x, np.float32(1))))(empty)
    assert {result.shape[0] for result in results} == {0}


A = counted(2, 3)
S = np.float32(0)
REJECTED = {
    "Reshape C1": (lambda x: ops.reshape(x, (5,)), [A], ShapeError, "6 elements"),
    "ReshapeExplicit C1 size": (
        lambda x: ops.reshape_explicit(Shape("f32", (7,)), x),
        [A],
        ShapeError,
        "f32[7]",
    ),
    "ReshapeExplicit C1 type": (
        lambda x: ops.reshape_explicit(Shape("f64", (6,)), x),
        [A],
        ShapeError,
        "f64[6]",
    ),
    "Collapse C1 decreasing": (
        lambda x: ops.collapse(x, (1, 0)),
        [A],
        AttributeValueError,
        "consecutive",
    ),
    "Collapse C1 gap": (
        lambda x: ops.collapse(x, (0, 2)),
        [counted(1, 2, 3)],
        AttributeValueError,
        "consecutive",
    ),
    "Collapse C1 range": (
        lambda x: ops.collapse(x, (1, 2)),
        [A],
        AttributeValueError,
        "consecutive",
    ),
    "Collapse C1 negative": (
        lambda x: ops.collapse(x, (-1, 0)),
        [A],
        AttributeValueError,
        "consecutive",
    ),
    "Transpose C1 repeat": (
        lambda x: ops.transpose(x, (0, 0)),
        [A],
        AttributeValueError,
        "permutation (0, 0)",
    ),
    "Transpose C1 length": (
        lambda x: ops.transpose(x, (0,)),
        [A],
        AttributeValueError,
        "f32[2,3]",
    ),
    "Rev C1 range": (lambda x: ops.rev(x, (2,)), [A], AttributeValueError, "[0, 2)"),
    "Slice C1": (lambda x: ops.slice(x, (0,), (1, 1)), [A], AttributeValueError, "2 entries"),
    "Slice C1 strides": (
        lambda x: ops.slice(x, (0, 0), (1, 1), (1,)),
        [A],
        AttributeValueError,
        "2 entries",
    ),
    "Slice C2 limit": (
        lambda x: ops.slice(x, (0, 0), (2, 4)),
        [A],
        AttributeValueError,
        "dimension 1 of size 3",
    ),
    "Slice C2 order": (
        lambda x: ops.slice(x, (1, 0), (0, 3)),
        [A],
        AttributeValueError,
        "[1, 0)",
    ),
    "Slice C2 negative": (
        lambda x: ops.slice(x, (-1, 0), (2, 3)),
        [A],
        AttributeValueError,
        "[-1, 2)",
    ),
    "Slice C3": (
        lambda x: ops.slice(x, (0, 0), (2, 3), (1, 0)),
        [A],
        AttributeValueError,
        "stride",
    ),
    "ConcatInDim C1": (lambda: ops.concat_in_dim([], 0), [], ShapeError, "at least one operand"),
    "ConcatInDim C2 range": (
        lambda x: ops.concat_in_dim([x], 2),
        [A],
        AttributeValueError,
        "dimension 2",
    ),
    "ConcatInDim C2 scalar": (
        lambda x: ops.concat_in_dim([x, x], 0),
        [S],
        AttributeValueError,
        "Scalars",
    ),
    "ConcatInDim C3 size": (
        lambda x, y: ops.concat_in_dim([x, y], 0),
        [A, counted(2, 2)],
        ShapeError,
        "operands 1 and 0",
    ),
    "ConcatInDim C3 rank": (
        lambda x, y: ops.concat_in_dim([x, y], 0),
        [A, counted(2)],
        ShapeError,
        "operands 1 and 0",
    ),
    "ConcatInDim C3 type": (
        lambda x, y: ops.concat_in_dim([x, x, y], 0),
        [A, A.astype(np.int32)],
        ShapeError,
        "operands 2 and 0",
    ),
    "Pad C1 type": (
        lambda x, v: ops.pad(x, v, [(0, 0, 0)] * 2),
        [A, np.int32(0)],
        ShapeError,
        "s32[]",
    ),
    "Pad C1 rank": (
        lambda x, v: ops.pad(x, v, [(0, 0, 0)] * 2),
        [A, counted(1)],
        ShapeError,
        "scalar",
    ),
    "Pad C2 length": (
        lambda x, v: ops.pad(x, v, [(0, 0, 0)]),
        [A, S],
        AttributeValueError,
        "2 triples",
    ),
    "Pad C2 triple": (
        lambda x, v: ops.pad(x, v, [(0, 0), (0, 0)]),
        [A, S],
        AttributeValueError,
        "triples",
    ),
    "Pad C3": (
        lambda x, v: ops.pad(x, v, [(0, 0, -1), (0, 0, 0)]),
        [A, S],
        AttributeValueError,
        "interior",
    ),
    "Pad C4": (
        lambda x, v: ops.pad(x, v, [(-2, -1, 0), (0, 0, 0)]),
        [A, S],
        AttributeValueError,
        "size -1",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, operands, error, phrase = REJECTED[case]
    check_rejected(function, operands, error, f"({case.split()[1]})", phrase)


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (lambda x: ops.reshape(x, (-1, 2)), "must be >= 0, not -1"),
        (lambda x: ops.rev(x, (-1,)), "must be >= 0, not -1"),
        (lambda x: ops.rev(x, (0, 0)), "repeat"),
        (lambda x: ops.transpose(x, (0.5, 0)), "float"),
        (lambda x: ops.concat_in_dim([x], True), "boolean"),
    ],
)
def test_attribute_of_wrong_kind(function, phrase):
    check_rejected(function, [A], AttributeValueError, phrase)


# Dynamic dimensions: which of the result's are.

D = Shape("f32", (4, 1, 3), (True, False, False))
DYNAMIC = {
    "transpose": (lambda x: ops.transpose(x, (2, 0, 1)), "f32[3,<=4,1]"),
    "rev": (lambda x: ops.rev(x, (0,)), "f32[<=4,1,3]"),
    "slice": (lambda x: ops.slice(x, (0, 0, 1), (4, 1, 3)), "f32[<=4,1,2]"),
    "concat": (lambda x: ops.concat_in_dim([x, x], 0), "f32[<=8,1,3]"),
    "pad": (lambda x: ops.pad(x, np.float32(0), [(1, 1, 0)] * 3), "f32[<=6,3,5]"),
    "reshape": (lambda x: ops.reshape(x, (1, 4, 3)), "f32[1,<=4,3]"),
    "reshape after": (lambda x: ops.reshape(x, (4, 3, 1, 1)), "f32[<=4,3,1,1]"),
    "broadcast": (lambda x: ops.broadcast(x, (2,)), "f32[2,<=4,1,3]"),
    "broadcast_in_dim": (lambda x: ops.broadcast_in_dim(x, (5, 3, 4), (2, 0, 1)), "f32[5,3,<=4]"),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic_dimensions(case):
    function, expected = DYNAMIC[case]
    graph, _ = trace_to_graph(lambda x: [function(x)], [D])
    assert str(graph.output_shapes[0]) == expected


@pytest.mark.parametrize(
    ("sizes", "dynamic", "dimensions", "expected"),
    [
        ((4, 2, 3), 0, (4, 6), "f32[<=4,6]"),
        ((2, 3, 4), 2, (6, 4), "f32[6,<=4]"),
        ((2, 4, 3, 5), 1, (2, 4, 15), "f32[2,<=4,15]"),
        ((2, 3, 4, 5), 2, (6, 4, 5), "f32[6,<=4,5]"),
        ((4, 4), 0, (4, 1, 4), "f32[<=4,1,4]"),
        ((4, 4), 1, (4, 1, 4), "f32[4,1,<=4]"),
        ((1, 4, 1, 3), 1, (4, 3), "f32[<=4,3]"),
        ((4, 3), 0, (1, 4, 1, 3), "f32[1,<=4,1,3]"),
    ],
)
def test_reshape_keeps_the_dynamic_dimension(sizes, dynamic, dimensions, expected):
    operand = Shape("f32", sizes, [at == dynamic for at in range(len(sizes))])
    graph, _ = trace_to_graph(lambda x: [ops.reshape(x, dimensions)], [operand])
    assert str(graph.output_shapes[0]) == expected


def test_reshape_explicit_c2_changes_no_dynamic_dimension():
    with pytest.raises(ShapeError, match=r"\(C2\) the result is f32\[<=4,3\]"):
        trace_to_graph(lambda x: [ops.reshape_explicit(Shape("f32", (4, 3)), x)], [D])


@pytest.mark.parametrize("limits", [(3, 1, 3), (1, 1, 3)])
def test_slice_c4_takes_a_dynamic_dimension_whole(limits):
    with pytest.raises(ShapeError, match=r"\(C4\) dynamic dimension 0 must be taken whole"):
        trace_to_graph(lambda x: [ops.slice(x, (0, 0, 0), limits)], [D])


def test_reshape_d1_splits_no_dynamic_dimension():
    with pytest.raises(
        ShapeError, match=r"\(D1\) a dynamic dimension of operand .* is split or merged"
    ):
        trace_to_graph(lambda x: [ops.reshape(x, (2, 2, 3))], [D])
