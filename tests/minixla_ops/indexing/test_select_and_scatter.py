"""SelectAndScatter: the gradient of pooling, and its relatives with other computations."""

import functools

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
from minixla_ops.folds.sliding_windows import resolve_window
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.minixla_ops.folds.test_sliding_windows import elements
from tests.minixla_ops.operand_pairs import ALL, COMPLEX, WITHOUT_XLA
from tests.oracles import run_stablehlo, run_xla
from tests.oracles.compare import assert_same
from tests.oracles.values import random_values

generator = np.random.default_rng(0)

# Sizes of the operand, window, strides, padding.
TILES = {
    "tiles": ((6, 4), (2, 2), (2, 2), "VALID"),
    "partial": ((7, 5), (2, 2), (2, 2), "VALID"),
    "same": ((7, 5), (2, 2), (2, 2), "SAME"),
    "gaps and padding": ((7, 5), (2, 2), (3, 3), [(1, 2), (0, 1)]),
    "cut": ((7, 6), (2, 2), (2, 2), [(-1, 0), (-2, -1)]),
    "padding only": ((4,), (2,), (2,), [(4, 5)]),
    "three dimensions": ((2, 5, 4), (1, 2, 2), (1, 2, 2), "SAME"),
}
OVERLAPPING = {
    "overlapping": ((6, 7), (3, 3), (2, 2), "VALID"),
    "overlapping, padded": ((5, 5), (3, 2), (1, 1), [(2, 1), (1, -1)]),
    "overlapping padding": ((5,), (3,), (1,), [(4, 4)]),
}
WINDOWS = TILES | OVERLAPPING
#: Where XLA:CPU's reduce_window, of which its select_and_scatter is made, goes in row-major order.
UNPADDED = ("tiles", "partial", "overlapping")


def overwrite(old, new):
    return new


def scattered(name, select=ops.ge, scatter=ops.add):
    _, *window = WINDOWS[name]
    return lambda x, source, start: ops.select_and_scatter(
        x, select, *window, source, start, scatter
    )


def positions_of(name):
    sizes, *window = WINDOWS[name]
    return resolve_window(sizes, *window).positions(sizes)


def operands_of(name, values="distinct", start=0.0):
    sizes = WINDOWS[name][0]
    count = int(np.prod(sizes))
    if values == "distinct":
        operand = generator.permutation(count).reshape(sizes).astype(np.float32)
    else:
        operand = generator.choice(np.array(SPECIAL[values], np.float32), sizes)
    source = generator.normal(size=positions_of(name)).astype(np.float32)
    source[generator.random(source.shape) < 0.2] = -0.0
    return [operand, source, np.float32(start)]


SPECIAL = {
    "ties": [-1, 0, 1],
    "zeros": [0.0, -0.0],
    "NaN": [np.nan, 1, 2, 3, np.nan, -1],
    "infinities": [np.inf, -np.inf, -np.inf, np.nan],
}


def run_operation(text, operands):
    """XLA's operation itself: the oracle gets the program as it is."""
    return run_xla(text, operands)


# Facts of the specification.


def test_fact_an_element_chosen_by_two_windows_gets_both_values():
    operand = np.array([[1, 9, 2], [0, 3, 4]], np.float32)
    source = np.array([[2, 6]], np.float32)
    (result,) = check_operation(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (2, 2), (1, 1), "VALID", s, 0.0, ops.add),
        [operand, source],
    )
    assert result[0, 1] == 2 + 6
    assert result.sum() == 8


@pytest.mark.parametrize(
    ("keeps", "expected"), [(True, [[1, 0, 2, 0], [0] * 4]), (False, [[0] * 4, [0, 1, 0, 2]])]
)
def test_fact_select_meets_the_first_element_first(keeps, expected):
    """Where `select` is always True, the first element of each window stays, else the last."""
    operand, source = np.zeros((2, 4), np.float32), np.array([[1, 2]], np.float32)

    def select(first, second):
        return ops.constant(keeps)

    (result,) = check_operation(
        lambda x, s: ops.select_and_scatter(x, select, (2, 2), (2, 2), "VALID", s, 0.0, ops.add),
        [operand, source],
    )
    assert result.tolist() == expected


def test_padding_is_never_selected():
    operand = np.full((3,), -np.inf, np.float32)
    source = np.array([1, 2], np.float32)
    (result,) = check_operation(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (2,), (2,), [(1, 0)], s, 0.0, ops.add),
        [operand, source],
    )
    assert result.tolist() == [1, 2, 0]


def test_windows_that_meet_nothing_scatter_nothing():
    operand, source = np.ones((2,), np.float32), np.arange(1, 5, dtype=np.float32)
    (result,) = check_operation(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (2,), (2,), [(3, 3)], s, 0.0, ops.add),
        [operand, source],
    )
    assert result.tolist() == [2, 3]


# Values.


def brute_force(name, operand, source, start, keeps, scatter):
    sizes, *arguments = WINDOWS[name]
    window = resolve_window(sizes, *arguments)
    numbers = np.arange(operand.size).reshape(sizes)
    result = np.full(operand.size, start, operand.dtype)
    for position in np.ndindex(*source.shape):
        found = [k for k in elements(numbers, sizes, window, position) if k is not None]
        if found:
            chosen = found[0]
            for number in found[1:]:
                if not keeps(operand.flat[chosen], operand.flat[number]):
                    chosen = number
            result[chosen] = scatter(result[chosen], source[position])
    return result.reshape(sizes)


#: Initial value, computation, and the computation in Python.
SCATTERS = [
    (0.0, ops.add, lambda x, y: x + y),
    (-0.0, ops.add, lambda x, y: x + y),
    (1.5, overwrite, lambda x, y: y),
]


@functools.cache
def lowered(values):
    """Programs of all windows and scatter computations with operands, and what XLA gives.

    The module is the same for all values, and compiled once.
    """
    rows = {
        (name, number): (scattered(name, ops.ge, scatter), operands_of(name, values, start))
        for name in WINDOWS
        for number, (start, scatter, _) in enumerate(SCATTERS)
    }
    for_xla = {(name, number): row for (name, number), row in rows.items() if name in TILES}
    return rows, results_together(run_xla, for_xla)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("values", ["distinct", *SPECIAL])
def test_reference_and_lowered_program_follow_the_definition(name, values):
    rows, results = lowered(values)
    for number, (_, _, by_hand) in enumerate(SCATTERS):
        function, operands = rows[name, number]
        graph = graph_of(function, operands)
        (reference,) = reference_graph(graph, operands)
        expected = brute_force(name, *operands, lambda x, y: x >= y, by_hand)
        assert_same(reference, expected)
        if name in TILES:
            assert "stablehlo.select_and_scatter" not in graph.stablehlo("cpu")
            (by_xla,) = unwrapped(results[name, number])
            assert_same(by_xla, expected)


SELECTS = {"ge": ops.ge, "gt": ops.gt, "le": ops.le, "lt": ops.lt}


@functools.cache
def native_results(values):
    """Programs of all windows and selections with operands, and what either oracle gives.

    The module is the same for all values, and compiled once.
    """
    rows = {
        (name, select): (scattered(name, SELECTS[select]), operands_of(name, values))
        for name in WINDOWS
        for select in SELECTS
    }
    return rows, results_together(run_stablehlo, rows), results_together(run_operation, rows)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("select", SELECTS)
def test_native_operation_is_the_same_bit_for_bit(name, select):
    """Against StableHLO's interpreter for all values, and XLA's operation.

    XLA's goes through padded windows in another order than it says, which changes what it makes of
    ties and NaN there: those are compared where nothing is padded.
    """
    for values in ["distinct", *SPECIAL]:
        rows, interpreted, by_xla = native_results(values)
        function, operands = rows[name, select]
        graph = graph_of(function, operands)
        assert '"stablehlo.select_and_scatter"' in graph.stablehlo()
        (reference,) = reference_graph(graph, operands)
        assert_same(reference, unwrapped(interpreted[name, select])[0], name=values)
        if values == "distinct" or name in UNPADDED:
            assert_same(reference, unwrapped(by_xla[name, select])[0], name=values)


SUMMED = {
    "sums": (-0.0, ops.add),
    "sums from 0": (0.0, ops.add),
    "products": (1.0, ops.mul),
    "extremes": (-1.0, ops.max),
}


@functools.cache
def in_two_steps(values):
    """Programs of overlapping windows with operands, and what XLA:CPU gives for their two steps."""
    rows = {
        (name, select, kind): (
            scattered(name, SELECTS[select], scatter),
            operands_of(name, values, start),
        )
        for name in OVERLAPPING
        for select in SELECTS
        for kind, (start, scatter) in SUMMED.items()
    }
    return rows, results_together(run_xla, rows)


@pytest.mark.parametrize("name", OVERLAPPING)
@pytest.mark.parametrize("values", ["distinct", *SPECIAL])
def test_two_steps_for_overlapping_windows_follow_the_definition(name, values):
    rows, by_xla = in_two_steps(values)
    for select in SELECTS:
        for kind in SUMMED:
            function, operands = rows[name, select, kind]
            graph = graph_of(function, operands)
            text = graph.stablehlo("cpu")
            assert '"stablehlo.select_and_scatter"' not in text and text.count("inlineable") == 2
            (reference,) = reference_graph(graph, operands)
            (found,) = unwrapped(by_xla[name, select, kind])
            # A place sums at most nine values.
            np.testing.assert_allclose(found, reference, rtol=1e-6, atol=1e-6)
            assert np.array_equal(np.signbit(found), np.signbit(reference))


KINDS = [kind for kind in ALL if kind not in COMPLEX]


@functools.cache
def results_of_kinds():
    """A program of each element type and its operands, and what either oracle gives."""
    rows = {}
    for kind in KINDS:
        dtype = ELEMENT_TYPES[kind].dtype
        operand, source = random_values(dtype, (4, 6), 1), random_values(dtype, (2, 3), 2)
        scatter = ops.or_ if kind == "pred" else ops.max if kind == "f8e8m0fnu" else ops.add
        rows[kind] = (
            lambda x, s, i, scatter=scatter: ops.select_and_scatter(
                x, ops.ge, (2, 2), (2, 2), "VALID", s, i, scatter
            ),
            [operand, source, np.zeros((), dtype)],
        )
    for_xla = {kind: row for kind, row in rows.items() if kind not in WITHOUT_XLA}
    return rows, [results_together(run_stablehlo, rows), results_together(run_xla, for_xla)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_element_type(kind):
    rows, by_oracles = results_of_kinds()
    function, operands = rows[kind]
    (result,) = reference_graph(graph_of(function, operands), operands)
    assert result.dtype == ELEMENT_TYPES[kind].dtype
    for results in by_oracles:
        if kind in results:
            assert_same(result, unwrapped(results[kind])[0])


def test_complex_values_with_a_select_of_their_own():
    operands = [
        random_values(np.complex64, (4, 6), 1),
        random_values(np.complex64, (2, 3), 2),
        np.complex64(0),
    ]
    check_operation(
        lambda x, s, i: ops.select_and_scatter(
            x, lambda a, b: ops.ge(ops.abs(a), ops.abs(b)), (2, 2), (2, 2), "VALID", s, i, ops.add
        ),
        operands,
    )


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (1, 1)])
def test_sizes(sizes):
    window = resolve_window(sizes, (2, 2), (2, 2), "SAME")
    operands = [np.ones(sizes, np.float32), np.ones(window.positions(sizes), np.float32)]
    check_operation(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (2, 2), (2, 2), "SAME", s, 0.0, ops.add),
        operands,
    )


def test_a_base_of_size_zero_under_padded_windows():
    check_operation(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (2,), (2,), [(2, 2)], s, 0.0, ops.add),
        [np.ones(0, np.float32), np.ones(2, np.float32)],
    )


@pytest.mark.parametrize("padding", [(-1, -1), (-3, 0), (-4, -4)])
def test_padding_that_takes_away_more_than_there_is(padding):
    # XLA's own operation ends the process there, where windows overlap.
    def function(x, s):
        return ops.select_and_scatter(x, ops.ge, (2,), (1,), [padding], s, 5.0, ops.add)

    (result,) = check_operation(function, [np.ones(1, np.float32), np.ones(0, np.float32)])
    assert result.tolist() == [5]


@pytest.mark.parametrize("size", [32, 100])
def test_large_windows_keep_the_operation(size):
    operands = [generator.normal(size=(2 * size,)).astype(np.float32), np.ones(2, np.float32)]

    def function(x, s):
        return ops.select_and_scatter(x, ops.ge, (size,), (size,), "VALID", s, 0.0, ops.add)

    assert '"stablehlo.select_and_scatter"' in graph_of(function, operands).stablehlo("cpu")
    check_operation(function, operands)


@pytest.mark.parametrize(
    ("platform", "dtype", "rank", "is_native"),
    [
        *[(platform, np.float32, 4, False) for platform in ("cpu", "cuda")],
        (None, np.float32, 4, True),
        ("tpu", np.float32, 4, True),
        ("tpu", np.int8, 4, False),
        ("tpu", np.float64, 4, False),
        ("tpu", np.float32, 2, False),
    ],
)
def test_the_operation_itself_is_for_tpus_that_have_code(platform, dtype, rank, is_native):
    ones, last = (1,) * (rank // 4), (5,) * (rank // 4)
    window = (*ones, 2, 2, *ones)
    operands = [np.zeros((*ones, 4, 6, *last), dtype), np.ones((*ones, 2, 3, *last), dtype)]

    def function(x, s):
        return ops.select_and_scatter(x, ops.ge, window, window, "VALID", s, dtype(0), ops.add)

    with jax.enable_x64(True):
        text = graph_of(function, operands).stablehlo(platform)
    assert ("stablehlo.select_and_scatter" in text) == is_native


# Programs.


def test_text():
    operands = operands_of("cut")
    graph = graph_of(scattered("cut"), operands)
    text = graph.stablehlo()
    assert '"stablehlo.select_and_scatter"(%arg0, %arg1, %arg2)' in text
    assert "padding = dense<[[-1, 0], [-2, -1]]> : tensor<2x2xi64>" in text
    assert "window={size=2x2 stride=2x2 pad=-1_0x-2_-1}, select=%ge" in str(graph)


def test_the_program_holds_no_large_constants():
    window = ((1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    sizes = (8, 31, 31, 16)
    source = np.ones(resolve_window(sizes, *window).positions(sizes), np.float32)
    graph = graph_of(
        lambda x, s: ops.select_and_scatter(x, ops.ge, *window, s, 0.0, ops.add),
        [np.ones(sizes, np.float32), source],
    )
    assert len(graph.stablehlo()) < 10_000


def test_builder_converts_python_numbers():
    operand = np.ones((2,), ml_dtypes.bfloat16)
    graph = graph_of(
        lambda x: ops.select_and_scatter(x, ops.ge, (1,), (1,), "SAME", x, 0, ops.add), [operand]
    )
    assert str(graph.output_shapes) == "(bf16[2],)"


# Errors.

X, S = np.ones((4, 6), np.float32), np.ones((2, 3), np.float32)
WINDOW = ((2, 2), (2, 2), "VALID")


@pytest.mark.parametrize(
    ("label", "error", "call", "phrases"),
    [
        (
            "C1",
            ShapeError,
            lambda x, s: ops.select_and_scatter(
                x, ops.ge, *WINDOW, ops.convert_element_type(s, "s32"), 0.0, ops.add
            ),
            ["source s32[2,3]", "f32[4,6]"],
        ),
        (
            "C2",
            AttributeValueError,
            lambda x, s: ops.select_and_scatter(x, ops.ge, (2,), (2, 2), "VALID", s, 0.0, ops.add),
            ["window_dimensions has 1 entries"],
        ),
        (
            "C3",
            AttributeValueError,
            lambda x, s: ops.select_and_scatter(
                x, ops.ge, (2, 2), (2, 0), "VALID", s, 0.0, ops.add
            ),
            ["window_strides has an entry below 1"],
        ),
        (
            "C4",
            ShapeError,
            lambda x, s: ops.select_and_scatter(
                x, ops.ge, (2, 2), (1, 2), "VALID", s, 0.0, ops.add
            ),
            ["(2, 3)", "(3, 3)", "window_strides (1, 2)"],
        ),
        (
            "C5",
            ShapeError,
            lambda x, s: ops.select_and_scatter(x, ops.ge, *WINDOW, s, np.int32(0), ops.add),
            ["init_value must be f32[], not s32[]"],
        ),
        (
            "C6",
            ShapeError,
            lambda x, s: ops.select_and_scatter(x, ops.add, *WINDOW, s, 0.0, ops.add),
            ["select has the wrong signature", "(f32[], f32[]) -> (f32[])", "-> (pred[])"],
        ),
        (
            "C7",
            ShapeError,
            lambda x, s: ops.select_and_scatter(x, ops.ge, *WINDOW, s, 0.0, ops.ge),
            ["scatter has the wrong signature", "(f32[], f32[]) -> (pred[])"],
        ),
    ],
)
def test_rejected(label, error, call, phrases):
    check_rejected(call, [X, S], error, "select_and_scatter", f"({label})", *phrases)


# Derivatives.


def doubles(name):
    operand, source, _ = operands_of(name)
    return [operand.astype(np.float64), source.astype(np.float64), np.array(0.25)]


def gradient_in_jax(name):
    """SelectAndScatter as JAX has it: the pullback of a maximum over windows."""
    _, *window = WINDOWS[name]

    def function(x, source, start):
        def pooled(x):
            return lax.reduce_window(x, -jnp.inf, lax.max, *window)

        return jax.vjp(pooled, x)[1](source)[0] + start

    return function


@pytest.mark.parametrize("name", WINDOWS)
def test_derivatives(name):
    # JAX's rule for negative padding fails.
    in_jax = None if "-" in str(WINDOWS[name]) else gradient_in_jax(name)
    check_derivatives(scattered(name), doubles(name), in_jax, order=2)


@pytest.mark.parametrize("name", ["same", "overlapping, padded"])
@pytest.mark.parametrize(
    "scatter",
    [ops.mul, ops.max, overwrite, lambda x, y: x * 0.5 + ops.tanh(y)],
    ids=["mul", "max", "overwrite", "general"],
)
def test_derivatives_with_other_scatter_computations(name, scatter):
    operand, source, start = doubles(name)
    # No two are equal: a maximum has a kink where they are.
    source = 0.5 + generator.permutation(source.size).reshape(source.shape) / source.size
    check_derivatives(scattered(name, ops.ge, scatter), [operand, source, start], order=2)


def test_the_selection_has_no_derivative():
    operand, source, start = operands_of("tiles")
    graph = mx.make_graph(
        lambda x: mx.jvp(lambda x: scattered("tiles")(x, source, start), (x,), (x,))[1]
    )(operand)
    assert [i.op.name for i in graph.pruned().instructions] == ["Constant"]


@pytest.mark.parametrize("window", [((2, 2), (2, 2), "SAME"), ((3, 3), (2, 2), "SAME")])
def test_second_derivatives_of_max_pooling(window):
    operand = generator.normal(size=(5, 6))

    def ours(x):
        return ops.exp(ops.reduce_window(x, -np.inf, ops.max, *window) * 0.3)

    def theirs(x):
        return jnp.exp(lax.reduce_window(x, -jnp.inf, lax.max, *window) * 0.3)

    check_derivatives(ours, [operand], theirs, order=2)


def test_only_sums_are_linear():
    operand, source, start = operands_of("tiles")

    @mx.custom_jvp
    def function(x):
        return x

    @function.defjvp
    def _(primals, tangents):
        largest = scattered("tiles", ops.ge, ops.max)(operand, tangents[0], start)
        return primals[0], ops.slice(largest, (0, 0), (3, 2))

    with pytest.raises(DerivativeError, match="select_and_scatter: a jvp rule applies the"):
        mx.grad(lambda x: ops.reduce(function(x), 0.0, ops.add, [0, 1]))(source)


# Batches.


@pytest.mark.parametrize("name", ["same", "overlapping, padded"])
@pytest.mark.parametrize("scatter", [ops.add, ops.max], ids=["add", "max"])
def test_batches(name, scatter):
    check_batching(scattered(name, ops.ge, scatter), operands_of(name), size=2)


def test_agrees_with_jax():
    operand, source, start = operands_of("same")
    np.testing.assert_array_equal(
        scattered("same")(operand, source, start), gradient_in_jax("same")(operand, source, start)
    )
