"""ReduceWindow: pooling by monoids and by any other computation."""

import functools
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla.engine.platform_text import PlatformEmitter
from minixla.legalize import Target
from minixla_ops.folds.reduce_window import ReduceWindow
from minixla_ops.folds.sliding_windows import Window, resolve_window
from minixla_ops.programs.computations import computation_of, identity_of, monoid_of
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    Together,
    by_jax,
    calls_of,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.minixla_ops.folds.test_sliding_windows import elements
from tests.minixla_ops.operand_pairs import FLOATS, INTEGERS, WITHOUT_XLA
from tests.oracles import run_stablehlo, run_xla
from tests.oracles.compare import assert_same
from tests.oracles.values import random_values
from tests.selection import IS_LONG, quick_rows

generator = np.random.default_rng(0)

# window, strides, padding, base dilations, window dilations; for operands of 5 x 6.
WINDOWS = {
    "tiles": ((2, 3), (2, 3), "VALID", None, None),
    "overlapping": ((3, 2), (1, 1), "VALID", None, None),
    "same": ((2, 3), (2, 2), "SAME", None, None),
    "padded": ((3, 3), (2, 1), [(2, 1), (0, 2)], None, None),
    "cut": ((2, 2), (1, 2), [(-1, 1), (-2, -1)], None, None),
    "gaps": ((1, 2), (2, 4), "VALID", None, None),
    "base dilated": ((3, 2), (1, 2), [(1, 0), (0, 1)], (2, 3), None),
    "window dilated": ((2, 3), (1, 1), [(0, 1), (1, 1)], None, (3, 2)),
    "all": ((2, 3), (2, 3), [(1, -1), (2, 1)], (2, 1), (1, 2)),
    "padding only": ((1, 2), (1, 1), [(0, 3), (3, 0)], None, None),
}
OPERAND = generator.normal(size=(5, 6))


def pooled(function, start, arguments):
    return lambda x: ops.reduce_window(x, start, function, *arguments)


def in_jax(function, start, arguments):
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), function, *arguments)


def square(x):
    return x * x


def log_add_exp(x, y):
    larger = ops.max(x, y)
    return larger + ops.log(ops.exp(x - larger) + ops.exp(y - larger))


# Facts of the specification.


def test_fact_maximum_over_tiles():
    operand = generator.normal(size=(4, 6)).astype(np.float32)
    least = np.finfo(np.float32).min
    (result,) = check_operation(pooled(ops.max, least, ((2, 3), (2, 3), "VALID")), [operand])
    assert np.array_equal(result, operand.reshape(2, 2, 2, 3).max((1, 3)))


@pytest.mark.parametrize(("padding", "expected"), [("VALID", [100, 1]), ("SAME", [1000, 10, 1])])
def test_fact_minimum_with_stride_two(padding, expected):
    operand = np.array([10000, 1000, 100, 10, 1], np.float32)
    largest = np.finfo(np.float32).max
    (result,) = check_operation(pooled(ops.min, largest, ((3,), (2,), padding)), [operand])
    assert result.tolist() == expected


def test_fact_stablehlo_example():
    operand = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    arguments = ((2, 1), (4, 1), [(2, 1), (0, 0)], (2, 1), (3, 1))
    (result,) = check_operation(pooled(ops.add, 0, arguments), [operand])
    assert result.tolist() == [[0, 0], [3, 4]]


def test_fact_the_initial_value_is_on_the_left():
    operand = np.array([2, 3], np.int32)
    (result,) = check_operation(pooled(ops.sub, 10, ((2,), (1,), "VALID")), [operand])
    assert result.tolist() == [(10 - 2) - 3]


# Values.


def brute_force(operand, window: Window, function, start):
    positions = window.positions(operand.shape)
    result = np.empty(positions, operand.dtype)
    for position in np.ndindex(*positions):
        running = start
        for element in elements(operand, operand.shape, window, position):
            running = running if element is None else function(running, element)
        result[position] = running
    return result


LEAST = np.iinfo(np.int32).min


@functools.cache
def windows():
    """Monoids and a computation that is not associative, which shows the order of evaluation."""
    rows, ordered = {}, {}
    for name, arguments in WINDOWS.items():
        operand = np.random.default_rng(0).integers(-9, 9, OPERAND.shape).astype(np.int32)
        monoids = [(ops.add, 0), (ops.max, LEAST), (ops.xor, 0)]

        def function(x, arguments=arguments, monoids=monoids):
            return [pooled(monoid, start, arguments)(x) for monoid, start in monoids]

        rows[name] = function, [operand], {}
        ordered[name] = pooled(lambda a, b: a * 3 - b, 1, arguments), [operand]
    # The interpreter fills padding and holes with the initial value.
    return Together(rows), ordered, results_together(run_xla, ordered)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    together, ordered, by_xla = windows()
    total, largest, _ = together.check(name)
    function, (operand,) = ordered[name]
    (result,) = reference_graph(graph_of(function, [operand]), [operand])
    (lowered,) = unwrapped(by_xla[name])
    window = resolve_window(operand.shape, *WINDOWS[name])
    assert np.array_equal(total, brute_force(operand, window, lambda a, b: a + b, 0))
    assert np.array_equal(largest, brute_force(operand, window, max, LEAST))
    assert np.array_equal(result, brute_force(operand, window, lambda a, b: a * 3 - b, 1))
    assert np.array_equal(lowered, result)


@pytest.mark.parametrize("name", ["same", "all", "padding only"])
def test_agrees_with_lax(name):
    operand, arguments = OPERAND.astype(np.float32), WINDOWS[name]
    for ours, theirs, start in [(ops.max, lax.max, -np.inf), (ops.add, lax.add, 0.0)]:
        np.testing.assert_allclose(
            pooled(ours, start, arguments)(operand),
            by_jax(in_jax(theirs, start, arguments), operand),
            rtol=1e-6,
            atol=1e-6,
        )


def start(name, kind):
    """The identity of a monoid, as a Python number where it is an integer's."""
    scalar = Shape(kind)
    monoid = monoid_of(computation_of(getattr(ops, name), (scalar, scalar), "test"))
    return identity_of(monoid, scalar.dtype)


def exact_row(kind):
    """All exact computations of an element type as a row of `Together`."""
    names = ["add", "mul", "max", "min", "and_", "or_", "xor"]
    if kind in FLOATS:
        names = ["max", "min"]

    def function(x):
        return [pooled(getattr(ops, name), start(name, kind), WINDOWS["same"])(x) for name in names]

    operand = random_values(ELEMENT_TYPES[kind].dtype, (3, 5), seed=1)
    return function, [operand], {"xla": kind not in WITHOUT_XLA}


EXACT = Together({kind: exact_row(kind) for kind in ["pred", *INTEGERS, *FLOATS]})


@pytest.mark.parametrize("kind", EXACT.rows)
def test_exact_element_types(kind):
    with jax.enable_x64(True):
        EXACT.check(kind)


SUMMED = ["f8e5m2", "bf16", "f16", "f32", "f64", "c64", "c128"]


@functools.cache
def sums():
    """A program of each type with its operand, and what either oracle gives."""
    function = pooled(ops.add, 0, ((3, 3), (2, 2), "SAME"))
    rows = {
        kind: (function, [random_values(ELEMENT_TYPES[kind].dtype, (5, 6), seed=1)])
        for kind in SUMMED
    }
    return rows, results_together(run_xla, rows), results_together(run_stablehlo, rows)


@pytest.mark.parametrize("kind", SUMMED)
def test_sums_of_floats(kind):
    """The reference rounds once (but f64 and c128), the oracles after each of nine additions."""
    dtype = ELEMENT_TYPES[kind].dtype
    rows, by_xla, interpreted = sums()
    function, (operand,) = rows[kind]
    wide = np.complex128 if dtype.kind == "c" else np.float64
    window = resolve_window(operand.shape, (3, 3), (2, 2), "SAME")
    truth = brute_force(operand.astype(wide), window, lambda a, b: a + b, 0)
    scale = brute_force(np.abs(operand.astype(wide)), window, lambda a, b: a + b, 0)
    eps = float(ml_dtypes.finfo(dtype).eps)
    reference = reference_graph(graph_of(function, [operand]), [operand])
    for (result,), steps in [
        (reference, 9 if kind in ("f64", "c128") else 1),
        (unwrapped(by_xla[kind]), 9),
        (unwrapped(interpreted[kind]), 9),
    ]:
        assert np.all(np.abs(result.astype(wide) - truth) <= steps * eps * np.abs(scale))


@pytest.mark.parametrize(("name", "least"), [("max", -np.inf), ("min", np.inf)])
def test_extremes_order_zeros_and_keep_nan(name, least):
    special = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf], np.float32)
    operand = np.array([*itertools.product(special, repeat=3)])
    check_operation(pooled(getattr(ops, name), least, ((1, 2), (1, 1), "SAME")), [operand])


def test_long_windows():
    operand = generator.integers(0, 9, (3, 70)).astype(np.float32)
    arguments = ((1, 70), (1, 1), [(0, 0), (69, 0)])
    (result,) = check_operation(pooled(ops.add, 0.0, arguments), [operand])
    assert np.array_equal(result, operand.cumsum(1))
    (result,) = check_operation(pooled(ops.max, -np.inf, arguments), [operand])
    assert np.array_equal(result, np.maximum.accumulate(operand, 1))


def test_long_windows_of_general_computations():
    """XLA:CPU takes these for scans and reorders them: the computation must commute, too."""
    operand = generator.integers(0, 9, 70).astype(np.int32)
    function = pooled(lambda x, y: x + y + x * y, 0, ((70,), (1,), [(69, 0)]))
    assert "stablehlo.reduce_window" in graph_of(function, [operand]).stablehlo()
    check_operation(function, [operand])


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1)])
def test_sizes(sizes):
    operand = generator.normal(size=sizes).astype(np.float32)
    computations = {-np.inf: ops.max, 0.0: lambda a, b: a * 0.5 + b}
    together = Together(
        {
            (least, arguments[0]): (pooled(computation, least, arguments), [operand], {})
            for arguments in (((2, 2), (1, 1), "SAME"), ((1, 1), (1, 1), [(1, 2), (0, 1)]))
            for least, computation in computations.items()
        }
    )
    for row in together.rows:
        together.check(row)


def test_a_scalar():
    (result,) = check_operation(pooled(ops.add, 0.0, ((), (), "SAME")), [np.float32(2)])
    assert result == 2


def test_several_operands_of_different_types():
    def argmax(value, index, other, at):
        wins = ops.gt(other, value)
        return ops.select(wins, other, value), ops.select(wins, at, index)

    values = generator.integers(0, 3, (4, 6)).astype(np.float32)
    indices = np.arange(24, dtype=np.int32).reshape(4, 6)

    def function(v, k):
        return ops.reduce_window([v, k], [-np.inf, -1], argmax, *WINDOWS["tiles"])

    largest, where = check_operation(function, [values, indices])
    assert np.array_equal(largest, values.ravel()[where])


def test_a_two_by_two_maximum_is_vectorised_in_the_reference():
    operand = np.zeros((32, 28, 28, 32), np.float32)
    graph = graph_of(pooled(ops.max, -np.inf, ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")), [operand])
    assert calls_of(lambda: reference_graph(graph, [operand])) < 1_000


# Programs.


def test_text():
    graph = graph_of(pooled(ops.max, -np.inf, WINDOWS["all"]), [OPERAND.astype(np.float32)])
    text = graph.stablehlo()
    assert '"stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 2, 3>' in text
    assert "padding = dense<[[1, -1], [2, 1]]> : tensor<2x2xi64>" in text
    window = "window={size=2x3 stride=2x3 pad=1_-1x2_1 lhs_dilate=2x1 rhs_dilate=1x2}"
    assert window in str(graph)


def test_general_computations_over_small_windows_become_slices():
    """XLA:CPU's reduce_window goes another way through padded windows, which changes ties."""
    text = graph_of(pooled(log_add_exp, -np.inf, WINDOWS["same"]), [OPERAND]).stablehlo()
    assert "stablehlo.reduce_window" not in text
    assert "stablehlo.slice" in text


MONOIDS = ["add", "mul", "max", "min", "and_", "or_", "xor"]


def sliced_row(name, kind):
    """A window's folds by all monoids as programs of slices, and as operations."""
    dtype = ELEMENT_TYPES[kind].dtype
    operand = random_values(dtype, OPERAND.shape, seed=1)
    if kind in FLOATS:
        # Sums and products of these are exact in any order.
        special = [0.0, -0.0, 1, -1, 1, -1, np.nan]
        operand = np.random.default_rng(1).choice(np.array(special), OPERAND.shape).astype(dtype)
    names = MONOIDS[:4] if kind in FLOATS else MONOIDS
    folds = [(each, start(each, kind)) for each in names]
    folds += [("add", np.array(-0.0, dtype))] * (kind in FLOATS)

    def operations(x):
        return [pooled(getattr(ops, each), first, WINDOWS[name])(x) for each, first in folds]

    def slices(x):
        results = []
        for step in graph_of(operations, [operand]).instructions:
            if type(step.op) is ReduceWindow:
                program = step.op.program(tuple([value.shape for value in step.operands]))
                results += evaluate_graph(program, [x, folds[len(results)][1].astype(dtype)])
        return results

    return operations, slices, operand


SLICED_KINDS = ("pred", "s8", "u32", "f32", "bf16")
SLICED = [(name, kind) for name in WINDOWS for kind in SLICED_KINDS]
#: Each window with one element type in turn.
QUICK_SLICED = [(name, SLICED_KINDS[at % 5]) for at, name in enumerate(WINDOWS)]


@functools.cache
def sliced_by_xla():
    made = {row: sliced_row(*row) for row in (SLICED if IS_LONG else QUICK_SLICED)}
    rows = {row: (slices, [operand]) for row, (_, slices, operand) in made.items()}
    return results_together(run_xla, rows)


@pytest.mark.parametrize("row", quick_rows(SLICED, QUICK_SLICED), ids="-".join)
def test_slices_give_what_the_operation_does(row):
    operations, slices, operand = sliced_row(*row)
    expected = reference_graph(graph_of(operations, [operand]), [operand])
    found = unwrapped(sliced_by_xla()[row])
    evaluated = reference_graph(graph_of(slices, [operand]), [operand])
    for each, by_slices, wanted in zip(found, evaluated, expected, strict=True):
        assert_same(each, wanted)
        assert_same(by_slices, wanted)


@pytest.mark.parametrize(
    ("platform", "devices", "sizes", "window", "is_sliced"),
    [
        ("cpu", 1, (4, 32, 32), (1, 3, 3), True),
        ("cpu", 1, (4, 32, 32), (1, 6, 6), False),
        ("cpu", 1, (4, 8, 8), (1, 3, 3), False),
        ("cpu", 2, (4, 32, 32), (1, 3, 3), False),
        ("cuda", 1, (4, 32, 32), (1, 3, 3), False),
        (None, 1, (4, 32, 32), (1, 3, 3), False),
    ],
)
def test_sums_over_small_windows_become_slices_on_one_cpu(
    platform, devices, sizes, window, is_sliced
):
    target = None if platform is None else Target(platform, devices)
    graph = graph_of(pooled(ops.add, 0.0, (window, (1, 1, 1), "SAME")), [np.ones(sizes, "f")])
    text = PlatformEmitter(target).module(graph)
    assert ("stablehlo.reduce_window" not in text) == is_sliced


# Errors.

F = np.ones((4, 6), np.float32)


@pytest.mark.parametrize(
    ("label", "error", "call", "phrases"),
    [
        (
            "C1",
            ShapeError,
            lambda x: ops.reduce_window(x, [0.0, 0.0], ops.add, (1, 1), (1, 1), "SAME"),
            ["one initial value"],
        ),
        (
            "C2",
            ShapeError,
            lambda x: ops.reduce_window(
                [x, ops.reshape(x, [6, 4])],
                [0.0, 0.0],
                lambda a, b, c, d: (a, b),
                (1, 1),
                (1, 1),
                "SAME",
            ),
            ["operands[1]"],
        ),
        (
            "C3",
            ShapeError,
            lambda x: ops.reduce_window(x, np.int32(0), ops.add, (1, 1), (1, 1), "SAME"),
            ["init_values[0] must be f32[], not s32[]"],
        ),
        (
            "C4",
            ShapeError,
            lambda x: ops.reduce_window(x, 0.0, ops.ge, (1, 1), (1, 1), "SAME"),
            ["pred[]"],
        ),
        (
            "C5",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1,), (1, 1), "SAME"),
            ["window_dimensions has 1 entries, but there are 2 dimensions"],
        ),
        (
            "C5",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (1,), "VALID"),
            ["window_strides"],
        ),
        (
            "C5",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (1, 1), [(0, 0)]),
            ["padding has 1"],
        ),
        (
            "C5",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (1, 1), "SAME", (1,)),
            ["base_dilations"],
        ),
        (
            "C6",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 0), (1, 1), "SAME"),
            ["window_dimensions", "at least 1"],
        ),
        (
            "C6",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (0, 1), "SAME"),
            ["window_strides"],
        ),
        (
            "C6",
            AttributeValueError,
            lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (1, 1), "SAME", None, (1, -1)),
            ["window_dilations"],
        ),
    ],
)
def test_rejected(label, error, call, phrases):
    check_rejected(call, [F], error, "reduce_window", f"({label})", *phrases)


@pytest.mark.parametrize("padding", ["FULL", [(0, 0), (1,)], 3])
def test_padding_that_is_none_is_rejected(padding):
    check_rejected(
        lambda x: ops.reduce_window(x, 0.0, ops.add, (1, 1), (1, 1), padding),
        [F],
        AttributeValueError,
        "reduce_window: attribute padding",
        '"SAME", "VALID"',
    )


# Derivatives.

# JAX's rules for extremes take neither dilations nor negative padding.
IN_JAX = ["tiles", "overlapping", "same", "padded", "gaps", "padding only"]


@pytest.mark.parametrize("name", WINDOWS)
def test_derivatives_of_sums(name):
    arguments = WINDOWS[name]
    check_derivatives(
        lambda x, i: pooled(ops.add, i, arguments)(x),
        [OPERAND, np.array(0.5)],
        lambda x, i: in_jax(lax.add, 0.0, arguments)(x) + i,
    )


# Windows that meet only padding have infinite results: no squares, no differences there.
MEETING_ALWAYS = ["tiles", "overlapping", "same", "cut", "gaps"]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(("ours", "theirs"), [(ops.max, lax.max), (ops.min, lax.min)])
def test_derivatives_of_extremes(name, ours, theirs):
    arguments = WINDOWS[name]
    start = -np.inf if ours is ops.max else np.inf
    first, second = pooled(ours, start, arguments), in_jax(theirs, start, arguments)
    finite = name in MEETING_ALWAYS
    check_derivatives(
        (lambda x: square(first(x))) if finite else first,
        [OPERAND],
        None if name not in IN_JAX else (lambda x: square(second(x))) if finite else second,
        order=2 if finite else 1,
        differences=finite,
    )


def test_the_first_of_equal_maxima_has_the_derivative_as_in_jax():
    operand = np.array([[1.0, 1, 0, 2], [1, 1, 2, 2]])
    check_derivatives(
        pooled(ops.max, -np.inf, ((2, 2), (2, 2), "VALID")),
        [operand],
        in_jax(lax.max, -np.inf, ((2, 2), (2, 2), "VALID")),
        order=1,
        differences=False,  # a kink
    )


@pytest.mark.parametrize("evaluated", [lambda f: f, mx.reference], ids=["engine", "reference"])
def test_both_modes_agree_at_ties_in_padded_windows(evaluated):
    operand = generator.integers(0, 2, (7, 5)).astype(np.float32)
    function = pooled(ops.max, -np.inf, ((2, 2), (2, 2), "SAME"))
    tangent = generator.normal(size=(7, 5)).astype(np.float32)
    cotangent = generator.normal(size=(4, 3)).astype(np.float32)
    slope = evaluated(lambda x: mx.jvp(function, (x,), (tangent,))[1])(operand)
    (pulled,) = evaluated(lambda x: mx.vjp(function, x)[1](cotangent))(operand)
    np.testing.assert_allclose(np.sum(slope * cotangent), np.sum(pulled * tangent), rtol=1e-5)


@pytest.mark.parametrize("name", ["same", "all"])
def test_the_derivative_of_an_extreme_goes_to_the_initial_value_where_it_wins(name):
    check_derivatives(
        lambda x, i: pooled(ops.max, i, WINDOWS[name])(x), [OPERAND, np.array(0.6)], order=2
    )


@pytest.mark.parametrize("name", WINDOWS)
def test_derivatives_of_general_computations(name):
    arguments = WINDOWS[name]
    check_derivatives(
        pooled(log_add_exp, -1e30, arguments),
        [OPERAND],
        lambda x: pooled_in_jax(x, arguments),
        order=2 if name in MEETING_ALWAYS else 1,
    )


def pooled_in_jax(x, arguments):
    """The sum of exponentials, and the initial value where there are none."""
    total = in_jax(lax.add, 0.0, arguments)(jnp.exp(x))
    return jnp.where(total > 0, jnp.log(jnp.where(total > 0, total, 1.0)), -1e30)


def test_derivatives_with_respect_to_general_initial_values():
    """Padding and holes do not use the initial value: it counts once."""

    def step(x, y):
        return x * 0.5 + y * y

    def function(x, i):
        return ops.reduce_window(x, i, step, *WINDOWS["all"])

    check_derivatives(function, [OPERAND, np.array(0.3)])


@pytest.mark.parametrize("name", ["tiles", "same"])
def test_derivatives_of_products_are_right_with_zeros(name):
    operand = OPERAND.copy()
    operand[1, 2] = operand[0, 0] = operand[4, 4] = 0
    check_derivatives(
        lambda x, i: pooled(ops.mul, i, WINDOWS[name])(x), [operand, np.array(1.5)], order=2
    )


def test_derivatives_of_maxima_with_their_places():
    places = np.arange(30).reshape(5, 6)

    def argmax(value, index, other, at):
        wins = ops.gt(other, value)
        return ops.select(wins, other, value), ops.select(wins, at, index)

    def function(v):
        return square(ops.reduce_window([v, places], [-np.inf, -1], argmax, *WINDOWS["same"])[0])

    check_derivatives(
        function, [OPERAND], lambda v: square(in_jax(lax.max, -np.inf, WINDOWS["same"])(v))
    )


def names_in(graph: Graph):
    return [instruction.op.name for instruction in graph.pruned().instructions]


def test_the_gradient_of_max_pooling_is_select_and_scatter():
    function = pooled(ops.max, -np.inf, ((2, 2), (2, 2), "VALID"))
    graph = mx.make_graph(mx.grad(lambda x: ops.reduce(function(x), 0.0, ops.add, [0, 1])))(F)
    assert names_in(graph).count("SelectAndScatter") == 1
    assert "ReduceWindow" not in names_in(graph)
    assert "select-and-scatter(" in str(graph)


def test_the_gradient_of_sum_pooling_is_a_sum_over_windows():
    function = pooled(ops.add, 0.0, WINDOWS["same"])
    graph = mx.make_graph(mx.grad(lambda x: ops.reduce(function(x), 0.0, ops.add, [0, 1])))(F)
    assert set(names_in(graph)) <= {"Constant", "Pad", "ReduceWindow", "BroadcastInDim"}


# Batches.


@pytest.mark.parametrize("name", ["same", "all"])
@pytest.mark.parametrize(
    "function",
    [ops.add, ops.max, log_add_exp, lambda a, b: a * 0.5 - b],
    ids=["add", "max", "general", "not associative"],
)
def test_batches(name, function):
    check_batching(
        lambda x, i: pooled(function, i, WINDOWS[name])(x), [OPERAND[:3, :4], np.array(0.5)], size=2
    )


def test_batches_of_several_operands():
    def affine(a, b, c, d):
        return a * c, b * c + d

    operands = [*generator.normal(size=(2, 3, 4)), np.array(1.5), np.array(-0.5)]
    check_batching(
        lambda a, b, i, j: ops.reduce_window([a, b], [i, j], affine, *WINDOWS["same"]),
        operands,
        size=2,
    )


def test_batches_under_derivatives():
    operand = generator.normal(size=(3, 4, 6)).astype(np.float32)

    def ours(x):
        return ops.reduce(
            square(pooled(ops.max, -np.inf, WINDOWS["same"])(x)), 0.0, ops.add, [0, 1]
        )

    def theirs(x):
        return jnp.sum(in_jax(lax.max, -np.inf, WINDOWS["same"])(x) ** 2)

    expected = by_jax(jax.vmap(jax.grad(theirs)), operand)
    np.testing.assert_allclose(mx.vmap(mx.grad(ours))(operand), expected, rtol=1e-6)
    whole = mx.grad(lambda x: ops.reduce(mx.vmap(ours)(x), 0.0, ops.add, [0]))(operand)
    np.testing.assert_allclose(whole, expected, rtol=1e-6)


def test_the_gradient_of_a_running_sum_pads_within_its_own_window():
    """XLA makes a tree of it so; after a Pad each sum would take all of its terms."""
    x, weights = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    gradient = mx.grad(lambda x: (mx.numpy.cumsum(x) * weights).sum())
    *_, fold = [s for s in mx.make_graph(gradient)(x).instructions if s.op.name == "ReduceWindow"]
    assert fold.op.padding == ((0, 7),)
    assert fold.operands[0].instruction.op.name != "Pad"
    for way in (gradient, mx.jit(gradient), mx.reference(gradient)):
        np.testing.assert_array_equal(way(x), weights[::-1].cumsum()[::-1])
