"""Reduce: folding along dimensions by monoids and by any other computation."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, DerivativeError, ShapeError
from minixla.core.shapes import Shape
from minixla.core.tracing import bind, trace_to_graph
from minixla_ops.folds.fold import Reduce
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    DerivativesTogether,
    Together,
    by_jax,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.minixla_ops.operand_pairs import COMPLEX, FLOATS, INTEGERS, WITHOUT_XLA
from tests.oracles import run_stablehlo, run_xla
from tests.oracles.values import edge_values, random_values

generator = np.random.default_rng(0)
X = generator.normal(size=(3, 4))
# Sum, shape [4,2,3]: {{1,2,3},{4,5,6}} repeated along dimension 0.
REPEATED = np.broadcast_to(np.arange(1, 7, dtype=np.float32).reshape(2, 3), (4, 2, 3)).copy()


def argmax(value, index, other, at):
    """The later of equal maxima, and where it is."""
    wins = ops.ge(other, value)
    return ops.select(wins, other, value), ops.select(wins, at, index)


def log_add_exp(x, y):
    larger = ops.max(x, y)
    return larger + ops.log(ops.exp(x - larger) + ops.exp(y - larger))


def affine(a, b, c, d):
    """The composition of x -> a x + b with x -> c x + d after it: associative, not commutative."""
    return a * c, b * c + d


# Facts of the specification.


SUMS_OF_REPEATED = {
    (0,): [[4, 8, 12], [16, 20, 24]],
    (2,): [[6, 15]] * 4,
    (0, 1): [20, 28, 36],
    (1, 0): [20, 28, 36],
    (0, 1, 2): 84,
}
MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)
SUMS = Together(
    {
        dimensions: (lambda x, d=dimensions: ops.reduce(x, 0.0, ops.add, d), [REPEATED], {})
        for dimensions in SUMS_OF_REPEATED
    }
    | {
        dimension: (lambda x, d=dimension: ops.reduce(x, 0, ops.add, [d]), [MATRIX], {})
        for dimension in (0, 1)
    }
)


@pytest.mark.parametrize("dimensions", SUMS_OF_REPEATED, ids=str)
def test_fact_sums_of_a_repeated_matrix(dimensions):
    (result,) = SUMS.check(dimensions)
    assert np.array_equal(result, np.array(SUMS_OF_REPEATED[dimensions], np.float32))


@pytest.mark.parametrize("dimension", [0, 1])
def test_fact_a_matrix_reduces_to_a_vector(dimension):
    (result,) = SUMS.check(dimension)
    assert np.array_equal(result, MATRIX.sum(dimension))


def test_fact_both_nestings_are_legal():
    # f(10, f(11, f(12, f(i, 13)))) and f(i, f(f(10, f(i, 11)), f(f(i, 12), f(i, 13))))
    operand = np.array([10, 11, 12, 13], np.int32)
    (result,) = check_operation(lambda x: ops.reduce(x, 0, ops.add, [0]), [operand])
    assert result == 10 + (11 + (12 + (0 + 13))) == 0 + ((10 + (0 + 11)) + ((0 + 12) + (0 + 13)))


@pytest.mark.parametrize("count", [1, 4, 9])
def test_fact_maximum_and_argmax_together(count):
    values = np.tile(np.array([3, 7, 1, 7], np.float32), count)[: 4 * count - 1]
    indices = np.arange(len(values), dtype=np.int32)
    start = np.float32(-np.inf)
    largest, where = check_operation(
        lambda v, k: ops.reduce([v, k], [start, np.int32(0)], argmax, [0]), [values, indices]
    )
    assert largest == 7
    assert where == np.flatnonzero(values == 7)[-1]  # with >=, the last of equal maxima wins


def test_variadic_order_is_running_values_then_elements():
    def last(a, b, x, y):
        return x, y

    first, second = check_operation(
        lambda x, y: ops.reduce([x, y], [np.float32(0), np.int32(0)], last, [0]),
        [np.array([1, 2], np.float32), np.array([3, 4], np.int32)],
    )
    assert (first, second) == (2, 4)


# Values.

EXACT = {
    "pred": ["add", "mul", "max", "min", "and_", "or_", "xor"],
    **{kind: ["add", "mul", "max", "min", "and_", "or_", "xor"] for kind in INTEGERS},
    **{kind: ["max", "min"] for kind in [*FLOATS, *COMPLEX]},
}
IDENTITIES = {"add": 0, "mul": 1, "or_": 0, "xor": 0}


def identity(name, kind):
    dtype = ELEMENT_TYPES[kind].dtype
    if name in IDENTITIES:
        return np.array(IDENTITIES[name]).astype(dtype)
    if name == "and_":
        return np.array(-1).astype(dtype) if kind != "pred" else np.array(True)
    if kind == "pred":
        return np.array(name == "min")
    sign = 1 if name == "min" else -1
    if kind in INTEGERS:
        info = ml_dtypes.iinfo(dtype)
        return np.array(info.max if sign > 0 else info.min).astype(dtype)
    if kind in COMPLEX:
        return np.array(complex(sign * np.inf, sign * np.inf), dtype)
    info = ml_dtypes.finfo(dtype)
    return np.array(info.max if sign > 0 else info.min).astype(dtype)


def exact_row(kind, names):
    """All folds of an element type as a row of `Together`."""
    starts = {name: identity(name, kind) for name in names}

    def function(x):
        return [
            ops.reduce(x, start, getattr(ops, name), dimensions)
            for name, start in starts.items()
            for dimensions in ([1], [2, 0], [])
        ]

    operand = random_values(ELEMENT_TYPES[kind].dtype, (3, 5, 2), seed=1)
    return function, [operand], {"xla": kind not in WITHOUT_XLA}


EXACT_ROWS = Together({kind: exact_row(kind, names) for kind, names in EXACT.items()})


@pytest.mark.parametrize("kind", EXACT)
def test_exact_monoids_of_every_element_type(kind):
    with jax.enable_x64(True):
        EXACT_ROWS.check(kind)


def folds_of(kind):
    """Folds of NumPy, each with its initial value and computation here."""
    folds = {np.prod: (1, ops.mul)}
    if kind != "f8e8m0fnu":  # it has no zero to start a sum from
        folds[np.sum] = (0, ops.add)
    return folds


@functools.cache
def sums_and_products():
    """A program of each float type with its operand, and what either oracle gives."""
    rows = {
        kind: (
            lambda x, kind=kind: [
                ops.reduce(x, start, function, [0]) for start, function in folds_of(kind).values()
            ],
            [random_values(ELEMENT_TYPES[kind].dtype, (6, 4), seed=2, low=0.5, high=1.5)],
        )
        for kind in [*FLOATS, *COMPLEX]
    }
    for_xla = {kind: row for kind, row in rows.items() if kind not in WITHOUT_XLA}
    return rows, results_together(run_stablehlo, rows), results_together(run_xla, for_xla)


@pytest.mark.parametrize("kind", [*FLOATS, *COMPLEX])
def test_sums_and_products_of_every_float_type(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    rows, interpreted, by_xla = sums_and_products()
    function, (operand,) = rows[kind]
    graph = graph_of(function, [operand])
    folds = folds_of(kind)
    wide = np.complex128 if kind in COMPLEX else np.float64
    exact, info = operand.astype(wide), ml_dtypes.finfo(dtype)
    eps, least = float(info.eps), float(info.smallest_subnormal)
    # The reference rounds once (but f64 and c128), the oracles after each of up to six steps.
    found = {1 if kind not in ("f64", "c128") else 5: reference_graph(graph, [operand])}
    found[6] = unwrapped(interpreted[kind])
    if kind not in WITHOUT_XLA:
        found[7] = unwrapped(by_xla[kind])
    for steps, results in found.items():
        for result, fold in zip(results, folds, strict=True):
            error = np.abs(np.asarray(result).astype(wide) - fold(exact, 0))
            assert np.all(error <= steps * (eps * fold(np.abs(exact), 0) + least)), (steps, fold)


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "c64"])
@pytest.mark.parametrize("count", [100, 10_000])
def test_long_sums_are_correctly_rounded(kind, count):
    """The bound that `fold_programs` states: the reference to half a step, XLA to eps sum(|x|)."""
    dtype = ELEMENT_TYPES[kind].dtype
    operand = random_values(dtype, (count, 4), seed=3)
    graph = graph_of(lambda x: [ops.reduce(x, 0, ops.add, [0])], [operand])
    truth = np.array([math.fsum(np.real(column).astype(float)) for column in operand.T])
    scale = np.abs(np.real(operand).astype(np.float64)).sum(0)
    (reference,), (xla,) = reference_graph(graph, [operand]), run_xla(graph.stablehlo(), [operand])
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert np.all(
        np.abs(np.real(reference).astype(np.float64) - truth) <= 0.5001 * eps * np.abs(truth)
    )
    assert np.all(np.abs(np.real(xla).astype(np.float64) - truth) <= eps * scale)


def test_sums_are_rounded_once():
    # In f32 the sum is a tie of two numbers of bf16, and would go to the lower one.
    parts = np.array([1, 2.0**-8, 2.0**-40]).astype(ml_dtypes.bfloat16)
    window = (3,), (1,), "VALID"
    whole = mx.reference(lambda x: ops.reduce(x, 0, ops.add, [0]))(parts)
    (sliding,) = mx.reference(lambda x: ops.reduce_window(x, 0, ops.add, *window))(parts)
    assert float(whole) == float(sliding) == 1 + 2.0**-7


def test_long_sums_of_doubles_are_pairwise():
    operand = np.full((1_000_000, 1), 0.1)
    graph = graph_of(lambda x: [ops.reduce(x, 0, ops.add, [0])], [operand])
    (result,) = reference_graph(graph, [operand])
    # 20 levels of rounding; added one by one the error is 1e-11 relative.
    assert abs(result.item() - math.fsum(operand.ravel())) <= 20 * 2.0**-53 * 1e5


def extreme_row(name, kind):
    special = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf]).astype(
        ELEMENT_TYPES[kind].dtype
    )
    start = -np.inf if name == "max" else np.inf
    operand = np.array([*itertools.product(special, repeat=3)])
    return lambda x: ops.reduce(x, start, getattr(ops, name), [1]), [operand], {}


EXTREMES = Together(
    {
        (name, kind): extreme_row(name, kind)
        for kind in ("f32", "f16", "bf16", "f64")
        for name in ("max", "min")
    }
)


@pytest.mark.parametrize(("name", "kind"), EXTREMES.rows)
def test_extremes_order_zeros_and_keep_nan(name, kind):
    EXTREMES.check((name, kind))


def test_edge_values_through_an_extreme():
    operand = edge_values(np.float32)
    operand = operand[~np.isnan(operand)]
    check_operation(
        lambda x: [ops.reduce(x, -np.inf, ops.max, [0]), ops.reduce(x, np.inf, ops.min, [0])],
        [operand],
    )


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (0, 3), (1, 1), (2, 1, 3, 2)])
def test_sizes(sizes):
    operand = generator.integers(-5, 5, sizes).astype(np.int32)
    for count in range(len(sizes) + 1):
        for dimensions in itertools.combinations(range(len(sizes)), count):
            graph = graph_of(lambda x: [ops.reduce(x, 7, ops.add, dimensions)], [operand])  # noqa: B023
            (result,) = reference_graph(graph, [operand])
            assert np.array_equal(result, operand.sum(dimensions) + 7)
    # XLA leaves an initial value out where there is at most one element.
    check_operation(
        lambda x: [ops.reduce(x, 0, ops.add, [d]) for d in range(len(sizes))], [operand]
    )


def test_a_scalar_reduced_over_nothing():
    def function(x):
        return ops.reduce(x, 1.0, ops.add, [])

    (result,) = check_operation(function, [np.float32(2)], xla=False)  # it leaves the 1 out
    assert result == 3


# Not associative: up to 32 elements XLA:CPU and the interpreter go one by one too.
IN_ORDER = Together(
    {
        dimensions: (
            lambda x, d=dimensions: ops.reduce(x, 1, lambda a, b: a * 3 - b, d),
            [np.random.default_rng(0).integers(-5, 5, (2, 3, 4)).astype(np.int32)],
            {},
        )
        for dimensions in [(0,), (1,), (2, 0), (0, 1, 2)]
    }
)


@pytest.mark.parametrize("dimensions", IN_ORDER.rows, ids=str)
def test_general_computations_go_in_row_major_order(dimensions):
    IN_ORDER.check(dimensions)


def test_general_computations_of_several_operands():
    a, b = generator.integers(-3, 4, (2, 2, 5)).astype(np.int64)
    check_operation(lambda a, b: ops.reduce([a, b], [1, 0], affine, [1]), [a, b])


def test_computations_with_operations_that_are_not_element_wise():
    def through_vectors(x, y):
        pair = ops.concat_in_dim([ops.reshape(x, [1]), ops.reshape(y, [1])], 0)
        return ops.reduce(pair, 0.0, ops.add, [0])

    operand = X.astype(np.float32)
    graph = graph_of(lambda x: [ops.reduce(x, 0.0, through_vectors, [1])], [operand])
    (result,) = reference_graph(graph, [operand])
    np.testing.assert_allclose(result, operand.sum(1), rtol=1e-6)


def test_more_than_32_elements_through_xla():
    # XLA:CPU regroups: associative computations give the same.
    operand = generator.integers(-3, 4, (2, 100)).astype(np.int64)
    check_operation(lambda a, b: ops.reduce([a, b], [1, 0], affine, [0]), list(operand))


def test_complex_extremes_are_lexicographic():
    operand = np.array([1 + 1j, 1 - 5j, 0 + 9j, 1 + 1j], np.complex64)
    low = np.complex64(complex(-np.inf, -np.inf))
    (result,) = check_operation(lambda x: ops.reduce(x, low, ops.max, [0]), [operand])
    assert result == 1 + 1j


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0.0, "bf16"), (0, "f64"), (1, "s4"), (True, "pred"), (0j, "c64"), (0, "c128")],
)
def test_python_numbers_as_initial_values(value, kind):
    shape = Shape(kind, (3,))
    graph, _ = trace_to_graph(lambda x: [ops.reduce(x, value, ops.add, [0])], [shape])
    assert graph.output_shapes == (Shape(kind),)


def test_dynamic_dimensions_are_kept():
    graph, _ = trace_to_graph(
        lambda x: [ops.reduce(x, 0.0, ops.add, [1])], [Shape("f32", (4, 3), (True, False))]
    )
    assert str(graph.output_shapes[0]) == "f32[<=4]"


def test_float64_mode_keeps_double():
    graph = graph_of(lambda x: [ops.reduce(x, 0.0, ops.add, [0])], [np.ones(3, np.float32)])
    (result,) = reference_graph(graph, [np.array([1, 1e-12, 1e-12])])
    assert result.dtype == np.float64
    assert abs(result - (1 + 2e-12)) < 1e-15


# Programs.


def test_text():
    graph = graph_of(lambda x: [ops.reduce(x, 0.0, ops.add, [1, 0])], [X.astype(np.float32)])
    text = graph.stablehlo()
    assert (
        "stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [1, 0]" in text
    )
    hlo = str(graph)
    assert "f32[] reduce(%arg0.1, %constant.2), dimensions={1,0}, to_apply=%add" in hlo


def test_text_of_a_general_computation():
    graph = graph_of(lambda x: [ops.reduce(x, 0.0, ops.sub, [0])], [X.astype(np.float32)])
    assert '"stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({' in graph.stablehlo()


def test_results_are_an_array_or_a_tuple():
    x = jnp.arange(3.0)
    assert isinstance(ops.reduce([x], [0.0], ops.add, [0]), jax.Array)
    assert type(ops.reduce([x, x], [1.0, 0.0], affine, [0])) is tuple


# Errors.

F = np.ones((2, 3), np.float32)
ADD = graph_of(ops.add, [F[0, 0]] * 2)


@pytest.mark.parametrize(
    ("label", "error", "call", "phrases"),
    [
        (
            "C1",
            ShapeError,
            lambda x: ops.reduce([x, x], [0.0], ops.add, [0]),
            ["one initial value"],
        ),
        ("C1", ShapeError, lambda x: ops.reduce([], [], ops.add, [0]), ["one or more"]),
        (
            "C1",
            ShapeError,
            lambda x: bind(Reduce(ADD, ()), x),
            ["one or more"],
        ),
        (
            "C2",
            ShapeError,
            lambda x: ops.reduce([x, ops.reshape(x, [3, 2])], [0.0, 0.0], affine, [0]),
            ["operands[1]", "f32[3,2]"],
        ),
        (
            "C3",
            ShapeError,
            lambda x: ops.reduce(x, np.int32(0), ops.add, [0]),
            ["init_values[0] must be f32[], not s32[]", "f32[]"],
        ),
        (
            "C3",
            ShapeError,
            lambda x: ops.reduce(x, np.zeros(1, np.float32), ops.add, [0]),
            ["f32[1]"],
        ),
        (
            "C3",
            ShapeError,
            lambda x: ops.reduce(ops.convert_element_type(x, "s32"), 0.5, ops.add, [0]),
            ["f32[]", "s32[]"],
        ),
        (
            "C4",
            ShapeError,
            lambda x: ops.reduce(x, 0.0, lambda a, b: (a, b), [0]),
            ["(f32[], f32[]) -> (f32[])"],
        ),
        (
            "C4",
            ShapeError,
            lambda x: ops.reduce(x, 0.0, lambda a, b: ops.lt(a, b), [0]),
            ["-> (pred[])"],
        ),
        (
            "C5",
            AttributeValueError,
            lambda x: ops.reduce(x, 0.0, ops.add, [2]),
            ["dimension 2", "[0, 2)"],
        ),
        ("C5", AttributeValueError, lambda x: ops.reduce(x, 0.0, ops.add, [-1]), ["dimension -1"]),
        ("C6", AttributeValueError, lambda x: ops.reduce(x, 0.0, ops.add, [1, 1]), ["repeat"]),
    ],
)
def test_rejected(label, error, call, phrases):
    check_rejected(call, [F], error, "reduce", f"({label})", *phrases)


def test_a_computation_of_another_number_of_arguments_is_rejected():
    check_rejected(
        lambda x: ops.reduce([x, x], [0.0, 0.0], ops.add, [0]),
        [F],
        ShapeError,
        "reduce: the computation add does not take 4 arguments",
    )


# Derivatives.


def square(x):
    return x * x


def row_of_sums(dimensions):
    return (
        lambda x, i: ops.reduce(x, i, ops.add, dimensions),
        [X, np.array(0.5)],
        lambda x, i: jnp.sum(x, dimensions) + i,
        {},
    )


TIES = np.array([[1.0, 2, 2, 1], [3, 3, 3, 3], [0, -0.0, -1, 1]])


def rows_of_extremes(name):
    ours, theirs, start = {"max": (ops.max, jnp.max, -np.inf), "min": (ops.min, jnp.min, np.inf)}[
        name
    ]

    def squared(dimensions):
        return (
            lambda x: square(ops.reduce(x, start, ours, dimensions)),
            [X],
            lambda x: theirs(x, dimensions) ** 2,
            {},
        )

    ties = (
        lambda x: ops.reduce(x, start, ours, [1]),
        [TIES],
        lambda x: theirs(x, 1),
        {"order": 1, "differences": False},  # a kink
    )
    return {name: squared((0,)), f"{name} of all": squared((0, 1)), f"{name} with ties": ties}


def row_of_products(*zeros):
    operand = X.copy()
    for index in zeros:
        operand[index] = 0
    return (
        lambda x, i: ops.reduce(x, i, ops.mul, [1]),
        [operand, np.array(1.5)],
        lambda x, i: jnp.prod(x, 1) * i,
        {},
    )


def row_of_general_computations(count):
    return (
        lambda x: ops.reduce(x, -1e30, log_add_exp, [0]),
        [np.random.default_rng(count).normal(size=(count, 3))],
        lambda x: jax.nn.logsumexp(x, 0),
        {},
    )


COMPLEX_X = X + 1j * X[::-1]
DERIVATIVES = DerivativesTogether(
    {
        **{
            f"sums along {dimensions}": row_of_sums(dimensions)
            for dimensions in [(0,), (1,), (0, 1), (1, 0), ()]
        },
        "complex sums": (
            lambda x: ops.reduce(x * x, 0, ops.add, [1]),
            [COMPLEX_X],
            lambda x: (x * x).sum(1),
            {},
        ),
        **rows_of_extremes("max"),
        **rows_of_extremes("min"),
        "products": row_of_products(),
        "products with a zero": row_of_products((0, 1)),
        "products with two zeros": row_of_products((0, 1), (0, 2)),
        "products with zeros in all rows": row_of_products((0, 1), (1, 1), (2, 3)),
        "complex products": (
            lambda x: ops.reduce(x, 1, ops.mul, [1]),
            [COMPLEX_X[:, :3]],
            lambda x: jnp.prod(x, 1),
            {},
        ),
        **{
            f"general computations of {count}": row_of_general_computations(count)
            for count in (1, 2, 5, 8)
        },
    }
)


@pytest.mark.parametrize("case", DERIVATIVES.rows)
def test_derivatives(case):
    DERIVATIVES.check(case)


def test_the_derivative_of_an_extreme_goes_to_the_initial_value_where_it_wins():
    operand = np.array([[-1.0, -2], [3, 0.5]])
    check_derivatives(
        lambda x, i: ops.reduce(x, i, ops.max, [1]), [operand, np.array(1.0)], order=2
    )
    with jax.enable_x64(True):
        of_operand, of_start = mx.grad(
            lambda x, i: ops.reduce(ops.reduce(x, i, ops.max, [1]), 0.0, ops.add, [0]),
            argnums=(0, 1),
        )(operand, 1.0)
        assert of_operand.tolist() == [[0, 0], [1, 0]]
        assert of_start == 1


def test_the_derivative_of_an_extreme_of_nothing_is_that_of_the_initial_value():
    gradient = mx.grad(lambda i: ops.reduce(np.zeros(0, np.float32), i, ops.max, [0]))
    assert mx.jit(gradient)(1.0) == 1


def test_the_derivative_at_nan_is_nan_as_in_jax():
    operand = np.array([1.0, np.nan, 2], np.float32)
    # Of one program XLA makes 0 of infinity times a pred, for JAX as well.
    ours = mx.grad(lambda x: ops.reduce(x, -np.inf, ops.max, [0]))(operand)
    assert np.isnan(ours).all() == np.isnan(jax.grad(jnp.max)(operand)).all() == True  # noqa: E712


def test_derivatives_of_several_operands_and_initial_values():
    a, b = generator.normal(size=(2, 3, 5))

    def in_jax(a, b, i, j):
        c, d = jnp.full(3, i), jnp.full(3, j)
        for k in range(5):
            c, d = affine(c, d, a[:, k], b[:, k])
        return c, d

    operands = [a, b, np.array(0.7), np.array(-0.2)]
    check_derivatives(lambda a, b, i, j: ops.reduce([a, b], [i, j], affine, [1]), operands, in_jax)


def test_derivatives_of_computations_that_are_not_associative():
    """Up to 32 elements are folded in order everywhere; the derivative is that of this order."""
    operand = generator.normal(size=(7, 2))

    def step(x, y):
        return x * 0.5 + y * y

    def in_jax(x, i):
        running = jnp.full(2, i)
        for row in x:
            running = step(running, row)
        return running

    check_derivatives(lambda x, i: ops.reduce(x, i, step, [0]), [operand, np.array(0.3)], in_jax)


def test_derivatives_of_maximum_with_argmax():
    values, indices = X, np.broadcast_to(np.arange(4), X.shape)

    def function(v):
        return ops.reduce([v, indices], [-np.inf, 0], argmax, [1])[0]

    with jax.enable_x64(True):
        check_derivatives(lambda v: square(function(v)), [values], lambda v: jnp.max(v, 1) ** 2)


def test_integers_have_no_tangents():
    primal, tangent = jax.tree.leaves(
        mx.jvp(
            lambda x: ops.reduce(ops.convert_element_type(x, "s32"), 0, ops.add, [0]),
            (np.ones(3, np.float32),),
            (np.ones(3, np.float32),),
        )
    )
    assert primal == 3
    assert tangent.dtype == jax.dtypes.float0


def test_pairs_in_a_jvp_rule_are_transposed():
    @mx.custom_jvp
    def product(x):
        return ops.reduce(x, 1.0, ops.mul, [0])

    @product.defjvp
    def _(primals, tangents):
        def step(a, ta, b, tb):
            return a * b, ta * b + a * tb

        pairs = ops.reduce([*primals, *tangents], [1.0, 0.0], step, [0])
        return ops.reduce(primals[0], 1.0, ops.mul, [0]), pairs[1]

    operand = X[:, 0].astype(np.float32)
    np.testing.assert_allclose(
        mx.grad(product)(operand), by_jax(jax.grad(jnp.prod), operand), rtol=1e-6
    )


def test_only_sums_are_linear():
    @mx.custom_jvp
    def function(x):
        return x

    @function.defjvp
    def _(primals, tangents):
        return primals[0], ops.reduce(tangents[0], -np.inf, ops.max, [0]) * primals[0]

    with pytest.raises(DerivativeError, match="reduce: a jvp rule applies the operation to"):
        mx.grad(lambda x: ops.reduce(function(x), 0.0, ops.add, [0]))(np.ones(3, np.float32))


def test_the_gradient_of_a_sum_is_a_broadcast():
    graph = mx.make_graph(mx.grad(lambda x: ops.reduce(x, 0.0, ops.add, [0, 1])))(F)
    names = [instruction.op.name for instruction in graph.pruned().instructions]
    assert "Reduce" not in names
    assert len(names) <= 2


def test_the_tree_of_a_long_fold_is_shallow():
    shape = Shape("f64", (1000,))
    graph, _ = trace_to_graph(
        lambda x: [mx.grad(lambda x: ops.reduce(x, 1.0, ops.mul, [0]))(x)], [shape]
    )
    text = graph.stablehlo()
    assert text.count("stablehlo.multiply") < 60


# Batches.


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x, i: ops.reduce(x, i, ops.add, [1]), [X, np.array(0.5)]),
        (lambda x, i: ops.reduce(x, i, ops.max, [0, 1]), [X, np.array(0.5)]),
        (lambda x, i: ops.reduce(x, i, ops.mul, []), [X, np.array(0.5)]),
        (lambda x, i: ops.reduce(x, i, log_add_exp, [1]), [X, np.array(0.5)]),
        (lambda x, i: ops.reduce(x, i, lambda a, b: a * 0.5 - b, [0]), [X, np.array(0.5)]),
        (lambda x, i: ops.reduce(x, i, ops.xor, [0]), [np.array([1, 2, 7]), np.array(3)]),
    ],
    ids=["add", "max", "mul over nothing", "general", "not associative", "integers"],
)
def test_batches(function, operands):
    check_batching(function, operands)


def test_batches_of_several_operands():
    operands = [*generator.normal(size=(2, 2, 3)), np.array(1.5), np.array(-0.5)]
    check_batching(lambda a, b, i, j: ops.reduce([a, b], [i, j], affine, [1]), operands)


def test_batches_under_derivatives():
    operand = generator.normal(size=(3, 4)).astype(np.float32)

    def ours(x):
        return ops.reduce(x, -1e30, log_add_exp, [0])

    batched = mx.vmap(mx.grad(ours))(operand)
    np.testing.assert_allclose(
        batched, by_jax(jax.vmap(jax.grad(jax.nn.logsumexp)), operand), rtol=1e-5
    )
    whole = mx.grad(lambda x: ops.reduce(mx.vmap(ours)(x), 0.0, ops.add, [0]))(operand)
    np.testing.assert_allclose(whole, batched, rtol=1e-6)


def test_sums_of_a_batch_stay_one_reduce():
    graph = mx.make_graph(mx.vmap(lambda x: ops.reduce(x, 0.0, ops.add, [1])))(np.ones((2, 3, 4)))
    names = [instruction.op.name for instruction in graph.pruned().instructions]
    assert names == ["Constant", "Reduce"]


def test_agrees_with_lax_reduce():
    operand = X.astype(np.float32)
    ours = ops.reduce(operand, 0.0, log_add_exp, [0])
    theirs = lax.reduce(operand, np.float32(0), lambda x, y: jnp.logaddexp(x, y), [0])
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("computation", [ops.max, ops.min], ids=["max", "min"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_extremes_of_many_elements_keep_nan(kind, computation):
    """XLA:CPU's library of reductions takes those of the numbers alone, from 4,096 elements on."""
    x = generator.normal(size=(70, 60)).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    x[3, 5] = math.nan
    start = -np.inf if computation is ops.max else np.inf

    def all_of(x):
        by_axes = [ops.reduce(x, start, computation, axes) for axes in ([0], [1], [0, 1])]
        sizes, none = (2, 3), ((0, 0), (0, 0))
        tiles = ops.reduce_window(x, start, computation, sizes, sizes, none)
        return [*by_axes, tiles, ops.reduce(x[:1], start, computation, [0, 1])]

    with jax.enable_x64(True):
        found = mx.jit(all_of)(x)
        expected = mx.reference(all_of)(x)
        for result, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(result, float), np.asarray(wanted, float))
        assert [int(np.isnan(np.asarray(each, float)).sum()) for each in found] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("computation", [ops.max, ops.min], ids=["max", "min"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
def test_nan_among_many_elements_is_kept_where_it_is(kind, computation, axes):
    """Whichever way XLA:CPU is asked for it: by pairs along rows, or by flags."""
    x = generator.normal(size=(7, 9, 130)).astype(
        ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    )
    x[3, 5, 100] = math.nan
    x[2, :, 4], x[1, 1, 1] = math.inf, -math.inf

    def extremes(x, start):
        return ops.reduce(x, start, computation, axes)

    with jax.enable_x64(True):
        for start in (x.dtype.type(0.5), x.dtype.type(-math.inf), x.dtype.type(math.inf)):
            found, expected = mx.jit(extremes)(x, start), mx.reference(extremes)(x, start)
            np.testing.assert_array_equal(np.asarray(found, float), np.asarray(expected, float))
            assert found.dtype == x.dtype and np.isnan(np.asarray(found, float)).sum() == 1


def test_an_initial_value_that_is_nan_is_the_extreme():
    x = np.ones(5000, np.float32)
    assert math.isnan(mx.jit(lambda x: ops.reduce(x, np.float32(math.nan), ops.max, [0]))(x))
