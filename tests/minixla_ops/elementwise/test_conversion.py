"""ConvertElementType, BitcastConvertType and ReducePrecision."""

import bisect
import functools
from fractions import Fraction

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape, TupleShape
from minixla.core.tracing import trace_to_graph
from minixla_ops.elementwise.conversion import ReducePrecision
from minixla_ops.helpers.casting import cast
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import (
    Together,
    check_batching,
    check_derivatives,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.oracles.compare import assert_same, flush_denormals, ulp_distance
from tests.oracles.interpreter import run_stablehlo
from tests.oracles.values import all_values, bit_width, edge_values, random_values
from tests.oracles.xla import run_xla

# NumPy warns of NaNs and infinities, which are among the operands.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FLOATS = [n for n, kind in ELEMENT_TYPES.items() if kind.is_float]
NARROW = [n for n in FLOATS if ELEMENT_TYPES[n].bits <= 16]
INTEGERS = [n for n, kind in ELEMENT_TYPES.items() if kind.is_integer]
COMPLEX = ["c64", "c128"]
# XLA:CPU has no types of 6 bits.
WITHOUT_XLA = {"f6e2m3fn", "f6e3m2fn"}
WITHOUT_NAN = ["f4e2m1fn", "f6e2m3fn", "f6e3m2fn"]


def values_of(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    if kind not in COMPLEX and bit_width(dtype) <= 8:
        return all_values(dtype)
    parts = [edge_values(dtype), random_values(dtype, (200,), 1)]
    if kind not in ("c64", "c128"):
        parts.append(random_values(dtype, (100,), 2, -300 if dtype.kind not in "u" else 0, 300))
    return np.concatenate(parts)


# ConvertElementType.


def comparable(source, target, operand, backend):
    """Which values of `source` a backend converts to `target` as the specification has it."""
    if ELEMENT_TYPES[source].kind not in ("float", "complex"):
        # The interpreter takes f8e8m0fnu for a type with a sign and a zero.
        signed = backend == "interpreter" and target == "f8e8m0fnu"
        return operand.astype(np.float64) > 0 if signed else np.ones(operand.shape, bool)
    number = np.real(operand).astype(np.float64)
    if backend == "XLA":
        # Denormal f32 and f64 are zeros to XLA:CPU, and the least f8e8m0fnu is a denormal f32.
        denormal = np.where(flush_denormals(operand) == operand, False, ~np.isnan(operand))
        if source in COMPLEX:
            parts = np.stack([operand.real, operand.imag])
            denormal = np.any((flush_denormals(parts) != parts) & ~np.isnan(parts), axis=0)
        if source == "f8e8m0fnu":
            denormal = number < 2.0**-126
        if target == "f8e8m0fnu":
            denormal = denormal | ((number > 0) & (number < 2.0**-126))
        # The largest f4e2m1fn counts as overflow.
        overflow = (source == "f4e2m1fn") & (target in INTEGERS) & (np.abs(number) == 6)
        return ~denormal & ~overflow
    if target == "f8e8m0fnu":
        return number > 2.0**-126
    if target in WITHOUT_NAN:
        return np.isfinite(number)  # The interpreter makes 0 of infinities; NaNs keep their sign.
    # The interpreter reads the NaN of f8e8m0fnu as an infinity.
    return ~np.isnan(number) if source == "f8e8m0fnu" else np.ones(operand.shape, bool)


# Each pair costs a compilation: types that differ in their width alone meet one type of a kind.
ALL_PAIRS = {"pred", "s4", "s32", "u64", "f4e2m1fn", "f8e4m3fn", "bf16", "f32", "f64", "c64"}
SOME_TARGETS = ["pred", "s4", "u8", "s64", "f8e5m2fnuz", "f8e8m0fnu", "bf16", "f32", "c128"]


@pytest.mark.parametrize("source", ELEMENT_TYPES)
def test_convert_pairs_of_types(source):
    check_pairs(source, SOME_TARGETS)


@pytest.mark.full
@pytest.mark.parametrize("source", sorted(ALL_PAIRS))
def test_convert_to_every_type(source):
    check_pairs(source, ELEMENT_TYPES)


def check_pairs(source, targets):
    operand = values_of(source)
    targets = [n for n in targets if n != source]
    for backend, run in (("XLA", run_xla), ("interpreter", run_stablehlo)):
        if backend == "XLA" and source in WITHOUT_XLA:
            continue
        wanted = [n for n in targets if backend != "XLA" or n not in WITHOUT_XLA]
        graph = graph_of(lambda x, w=wanted: [ops.convert_element_type(x, n) for n in w], [operand])
        for target, actual in zip(wanted, run(graph.stablehlo(), [operand]), strict=True):
            expected = cast(operand, ELEMENT_TYPES[target])
            good = comparable(source, target, operand, backend)
            assert_same(
                expected[good],
                actual[good],
                # XLA rounds twice on the way to types of 16 bits, the interpreter once.
                ulp=int(backend == "XLA" and target in ("bf16", "f16")),
                inputs=[operand[good]],
                name=f"{source} to {target} by {backend}",
            )


def neighbours(kind):
    """The finite values of a narrow type as fractions, in order, and whether each is even."""
    values = all_values(ELEMENT_TYPES[kind].dtype)
    pairs = {}
    for bits, value in enumerate(values):
        number = float(value)
        if np.isfinite(number):
            pairs[Fraction(number)] = bits % 2 == 0
    return sorted(pairs.items())


def nearest(number, grid):
    """The value of the grid nearest to a fraction, ties to the even one."""
    index = bisect.bisect_left(grid, (number,))
    below, above = grid[max(index - 1, 0)], grid[min(index, len(grid) - 1)]
    left, right = number - below[0], above[0] - number
    if left == right:
        return below[0] if below[1] else above[0]
    return below[0] if left < right else above[0]


@pytest.mark.parametrize("source", ["f64", "s64", "u64", "s32"])
@pytest.mark.parametrize("target", [n for n in NARROW if n != "f8e8m0fnu"])
def test_convert_rounds_once(source, target):
    # Ties and what is next to them in the wide type, against exact arithmetic.
    grid = neighbours(target)
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(grid) - 1, 100)
    ties = [(grid[i][0] + grid[i + 1][0]) / 2 for i in chosen]
    dtype = ELEMENT_TYPES[source].dtype
    if source == "f64":
        middle = np.array([float(tie) for tie in ties])
        above, below = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
        operand = np.concatenate([middle, above, below])
    else:
        info = np.iinfo(dtype)
        numbers = [int(tie) + step for tie in ties for step in (-1, 0, 1)]
        low, high = max(info.min, grid[0][0]), min(info.max, grid[-1][0])
        operand = np.array([n for n in numbers if low <= n <= high], dtype)
    result = cast(operand, ELEMENT_TYPES[target])
    for given, actual in zip(operand.tolist(), result.tolist(), strict=True):
        assert Fraction(float(actual)) == nearest(Fraction(given), grid), f"{given} became {actual}"


@pytest.mark.parametrize(("source", "target"), [("f64", "f16"), ("f64", "bf16"), ("s64", "bf16")])
def test_where_xla_rounds_twice(source, target):
    # 1 + 2**-8 and 1 + 2**-11 are ties of bf16 and f16; 2**-40 decides them, unless f32 loses it.
    tie = 1 + 2.0 ** (-8 if target == "bf16" else -11)
    number = tie * 2**48 + 256 if source == "s64" else tie + 2.0**-40
    operand = np.array([number], ELEMENT_TYPES[source].dtype)
    graph = graph_of(lambda x: ops.convert_element_type(x, target), [operand])
    expected = cast(operand, ELEMENT_TYPES[target])
    assert_same(run_stablehlo(graph.stablehlo(), [operand])[0], expected)
    # Processors with f16 arithmetic convert f64 to f16 at once.
    possible = (0, 1) if target == "f16" else (1,)
    assert ulp_distance(run_xla(graph.stablehlo(), [operand])[0], expected) in possible


CONVERT_FACTS = [
    # From, to, operand, result.
    ("s32", "f32", [0, 1, 2], [0.0, 1.0, 2.0]),
    ("s32", "f32", [2**24 + 1, 2**24 + 3], [2.0**24, 2.0**24 + 4]),
    ("f32", "s8", [1.9, -1.9, 300.0, -np.inf, np.nan], [1, -1, 127, -128, 0]),
    ("f32", "u8", [-0.5, -7.0, 255.5, np.inf], [0, 0, 255, 255]),
    ("f64", "s64", [2.0**63, -(2.0**63), 2.0**53 + 2], [2**63 - 1, -(2**63), 2**53 + 2]),
    ("f32", "u64", [2.0**64, 2.0**63], [2**64 - 1, 2**63]),
    ("f32", "s4", [7.9, 8.0, -9.0], [7, 7, -8]),
    ("s32", "s8", [200, -200, 256], [-56, 56, 0]),
    ("s8", "u32", [-1], [2**32 - 1]),
    ("s4", "u2", [-1, 6], [3, 2]),
    ("f32", "pred", [0.0, -0.0, 0.3, np.nan], [False, False, True, True]),
    ("pred", "f32", [True, False], [1.0, 0.0]),
    ("s32", "pred", [0, 2, -1], [False, True, True]),
    ("c64", "f32", [1 - 2j, 3j], [1.0, 0.0]),
    ("c64", "pred", [3j, 1 + 0j], [False, True]),
    ("f32", "c64", [1.5], [1.5 + 0j]),
    ("f32", "f8e4m3fn", [448.0, 464.0, 465.0, -1e9], [448.0, 448.0, np.nan, np.nan]),
    ("f32", "f8e5m2", [57344.0, 61440.0], [57344.0, np.inf]),
    ("f32", "f4e2m1fn", [100.0, 0.25, 0.75], [6.0, 0.0, 1.0]),
]


def rows_of(builder, facts):
    """Rows of `Together`, by number, of facts: from, to, operand, result."""
    return {
        row: (
            lambda x, target=target: builder(x, target),
            [np.array(operand).astype(ELEMENT_TYPES[source].dtype)],
            {},
        )
        for row, (source, target, operand, _) in enumerate(facts)
    }


CONVERTED = Together(rows_of(ops.convert_element_type, CONVERT_FACTS))


@pytest.mark.parametrize("row", CONVERTED.rows, ids=lambda row: "-".join(CONVERT_FACTS[row][:2]))
def test_convert_facts(row):
    _, target, _, expected = CONVERT_FACTS[row]
    (result,) = CONVERTED.check(row)
    assert_same(result, np.array(expected).astype(ELEMENT_TYPES[target].dtype))


RANKS = Together(
    {
        sizes: (
            lambda x: [ops.convert_element_type(x, n) for n in ("s8", "bf16")],
            [random_values(np.float32, sizes, 3)],
            {},
        )
        for sizes in [(), (0,), (2, 3), (2, 0, 1, 3)]
    }
)


@pytest.mark.parametrize("sizes", RANKS.rows, ids=str)
def test_convert_ranks(sizes):
    RANKS.check(sizes)


def test_convert_views():
    splat = np.broadcast_to(np.float64(1 + 2.0**-40), (2, 3))
    for target in ("f16", "s8", "pred", "c64"):
        assert cast(splat, ELEMENT_TYPES[target]).shape == (2, 3)
    assert cast(np.float64(2.5), ELEMENT_TYPES["s32"]).shape == ()


DERIVATIVE_PAIRS = [("f64", "f64"), ("f64", "c128"), ("c128", "f64"), ("c128", "c128")]


@pytest.mark.parametrize(("source", "target"), DERIVATIVE_PAIRS)
def test_convert_derivatives(source, target):
    operand = random_values(ELEMENT_TYPES[source].dtype, (3,), 4)
    dtype = ELEMENT_TYPES[target].dtype
    check_derivatives(
        lambda x: ops.convert_element_type(x, target),
        [operand],
        lambda x: lax.convert_element_type(x, dtype),
    )


def test_convert_derivatives_between_precisions():
    operand = np.array([1.5, 2.0], np.float32)
    pulled = mx.reference(
        lambda x: mx.vjp(lambda y: ops.convert_element_type(y, "bf16"), x)[1](
            np.array([0.25, 3.0], ml_dtypes.bfloat16)
        )[0]
    )(operand)
    assert_same(pulled, np.array([0.25, 3.0], np.float32))


def test_convert_to_integers_has_no_tangent():
    slope = mx.reference(
        lambda x: mx.jvp(
            lambda y: ops.convert_element_type(ops.convert_element_type(y, "s32"), "f32"),
            (x,),
            (x,),
        )[1]
    )(np.array([1.5], np.float32))
    assert slope.tolist() == [0.0]


def test_convert_batching():
    check_batching(
        lambda x: ops.convert_element_type(x, "s8"), [random_values(np.float32, (2, 3), 5)]
    )


def test_convert_rejects_tuples_and_unknown_types():
    with pytest.raises(ShapeError, match="convert_element_type: operand operand must be an array"):
        trace_to_graph(
            lambda x: [ops.convert_element_type(x, "f32")], [TupleShape([Shape("f32", ())])]
        )
    with pytest.raises(AttributeValueError, match="'f31' is not an element type of XLA"):
        ops.convert_element_type(np.zeros(3, np.float32), "f31")


# BitcastConvertType.

BITCAST_TYPES = [n for n, kind in ELEMENT_TYPES.items() if kind.kind not in ("pred", "complex")]


def random_bits(kind, sizes, seed):
    """Elements with random bits."""
    dtype = ELEMENT_TYPES[kind].dtype
    bits = np.random.default_rng(seed).integers(0, 2**64, sizes, np.uint64, endpoint=False)
    if dtype.kind == "c":
        return random_values(dtype, sizes, seed)
    width = ELEMENT_TYPES[kind].bits
    whole = (bits & np.uint64((1 << width) - 1)).astype(f"u{dtype.itemsize}")
    return cast(whole, ELEMENT_TYPES[kind]) if ELEMENT_TYPES[kind].is_integer else whole.view(dtype)


def bits_agree(actual, expected):
    """Whether two arrays hold the same bits, NaNs' payloads too."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    width = bit_width(actual.dtype)
    mask = np.array(2**width - 1, f"u{actual.dtype.itemsize}")
    return np.array_equal(actual.view(mask.dtype) & mask, expected.view(mask.dtype) & mask)


# One of each kind and width; each meets every type that is not wider, both ways.
BITCAST_SOURCES = [
    "s2",
    "u2",
    "s4",
    "u4",
    "f4e2m1fn",
    "f6e2m3fn",
    "s8",
    "f8e5m2",
    "f8e8m0fnu",
    "u16",
    "bf16",
    "f32",
    "s64",
    "f64",
]


@functools.cache
def bitcasts(run):
    """For each source an operand, its partners, and what a backend makes of it forth and back."""
    sources = [n for n in BITCAST_SOURCES if run is not run_xla or n not in WITHOUT_XLA]
    partners, forth, back = {}, {}, {}
    for source in sources:
        width, bits = ELEMENT_TYPES[source].bits, {n: ELEMENT_TYPES[n].bits for n in BITCAST_TYPES}
        wanted = [n for n in BITCAST_TYPES if bits[n] <= width and width % bits[n] == 0]
        wanted = [n for n in wanted if run is not run_xla or n not in WITHOUT_XLA]
        operand = random_bits(source, (2, 3), 1)
        partners[source] = wanted
        forth[source] = (
            lambda x, w=wanted: [ops.bitcast_convert_type(x, n) for n in w],
            [operand],
        )
        pieces = reference_graph(graph_of(*forth[source]), [operand])
        back[source] = (
            lambda *xs, source=source: [ops.bitcast_convert_type(x, source) for x in xs],
            pieces,
        )
    return partners, forth, results_together(run, forth), back, results_together(run, back)


@pytest.mark.parametrize("source", BITCAST_SOURCES)
def test_bitcast_to_every_type(source):
    for backend, run in (("XLA", run_xla), ("interpreter", run_stablehlo)):
        if backend == "XLA" and source in WITHOUT_XLA:
            continue
        partners, forth, made, back, made_back = bitcasts(run)
        (operand,), pieces = forth[source][1], back[source][1]
        for target, one, other in zip(
            partners[source], pieces, unwrapped(made[source]), strict=True
        ):
            assert bits_agree(one, other), f"{source} to {target} by {backend}"
        again = reference_graph(graph_of(*back[source]), pieces)
        for target, one, other in zip(
            partners[source], again, unwrapped(made_back[source]), strict=True
        ):
            assert bits_agree(one, operand), f"{target} to {source}"
            assert bits_agree(one, other), f"{target} to {source} by {backend}"


BITCAST_FACTS = [
    # From, to, operand, result: index 0 has the least significant bits.
    ("s32", "s8", [0x01020304], [[4, 3, 2, 1]]),
    ("u8", "u32", [[4, 3, 2, 1]], [0x01020304]),
    ("f32", "u32", [1.0, -0.0], [0x3F800000, 0x80000000]),
    ("u8", "u4", [0xAB], [[0xB, 0xA]]),
    ("u2", "u8", [[3, 0, 2, 1]], [0b01100011]),
    ("s8", "s4", [0x7F], [[-1, 7]]),
    ("f64", "s32", [1.0], [[0, 0x3FF00000]]),
]


BITCAST = Together(rows_of(ops.bitcast_convert_type, BITCAST_FACTS))


@pytest.mark.parametrize("row", BITCAST.rows, ids=lambda row: "-".join(BITCAST_FACTS[row][:2]))
def test_bitcast_facts(row):
    _, target, _, expected = BITCAST_FACTS[row]
    (result,) = BITCAST.check(row)
    assert_same(result, np.array(expected).astype(ELEMENT_TYPES[target].dtype))


BITCAST_SHAPES = [
    # The specification's own examples.
    (Shape("f32", (10,)), "f16", Shape("f16", (10, 2))),
    (Shape("f32", ()), "f16", Shape("f16", (2,))),
    (Shape("f16", (10, 2)), "f32", Shape("f32", (10,))),
    (Shape("s32", ()), "s8", Shape("s8", (4,))),
    (Shape("s32", (3, 5)), "f32", Shape("f32", (3, 5))),
    (Shape("f64", (0,)), "u8", Shape("u8", (0, 8))),
    (Shape("u8", (0, 8)), "f64", Shape("f64", (0,))),
    (Shape("c64", (2,)), "c64", Shape("c64", (2,))),
    (Shape("pred", (2,)), "pred", Shape("pred", (2,))),
]


@pytest.mark.parametrize(("operand", "target", "expected"), BITCAST_SHAPES)
def test_bitcast_shapes(operand, target, expected):
    graph, _ = trace_to_graph(lambda x: [ops.bitcast_convert_type(x, target)], [operand])
    assert graph.output_shapes == (expected,)


BITCAST_REJECTED = [
    (np.zeros(2, np.complex64), "f32", "(C1) c64 cannot be read as f32", "real and imag"),
    (np.zeros((2, 2), np.float32), "c64", "(C1) f32 cannot be read as c64", "operand f32[2,2]"),
    (np.zeros(8, np.bool_), "u8", "(C1) pred cannot be read as u8", "convert_element_type"),
    (np.zeros(4, np.uint8), "pred", "(C1) u8 cannot be read as pred", "operand u8[4]"),
    (
        np.zeros(4, np.uint8),
        "f6e2m3fn",
        "got 8 and 6 bits",
        "new_element_type f6e2m3fn",
    ),
    (
        np.zeros(3, np.float16),
        "f32",
        "(C3) the last dimension must hold the 2 elements of one f32",
        "last dimension has size 2",
    ),
    (
        np.zeros((), np.float16),
        "f32",
        "(C3) the last dimension must hold the 2 elements of one f32",
        "operand f16[]",
    ),
    (
        np.zeros((2, 1), np.float16),
        "f32",
        "(C3) the last dimension must hold the 2 elements of one f32",
        "operand f16[2,1]",
    ),
]


@pytest.mark.parametrize(("operand", "target", "problem", "phrase"), BITCAST_REJECTED)
def test_bitcast_rejected(operand, target, problem, phrase):
    check_rejected(
        lambda x: ops.bitcast_convert_type(x, target), [operand], ShapeError, problem, phrase
    )


@pytest.mark.parametrize(("source", "target"), [("f32", "s32"), ("f32", "u8"), ("u8", "u32")])
def test_bitcast_batching(source, target):
    operand = random_bits(source, (3, 4), 6)
    operand = np.where(np.isnan(operand), 1, operand).astype(operand.dtype)
    check_batching(lambda x: ops.bitcast_convert_type(x, target), [operand], size=4)


def test_bitcast_reads_the_bits_of_the_declared_type_in_double_precision_too():
    operand = np.array([1.0, -2.5], np.float32)

    def there_and_back(x):
        return ops.bitcast_convert_type(ops.bitcast_convert_type(x, "u16"), "f32")

    bits = mx.reference(lambda x: ops.bitcast_convert_type(x, "u32"), precision="float64")(operand)
    assert_same(bits, operand.view(np.uint32))
    again = mx.reference(there_and_back, precision="float64")(operand)
    assert_same(again, operand.astype(np.float64))


def test_bitcast_derivative_is_zero_as_in_jax():
    assert REGISTRY["BitcastConvertType"].zero_derivative
    operand = np.array([1.5, 2.0], np.float64)

    def there_and_back(x):
        return ops.bitcast_convert_type(ops.bitcast_convert_type(x, "s64"), "f64")

    def in_jax(x):
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, np.int64), np.float64)

    with jax.enable_x64(True):
        slope = mx.reference(lambda x: mx.jvp(there_and_back, (x,), (x,))[1])(operand)
        np.testing.assert_array_equal(slope, jax.jvp(in_jax, (operand,), (operand,))[1])


# ReducePrecision.

FORMATS = [
    (5, 10),
    (8, 7),
    (4, 3),
    (2, 1),
    (1, 0),
    (3, 0),
    (8, 2),
    (5, 23),
    (1, 10),
    (11, 3),
    (30, 60),
]
# The interpreter computes 8-bit floats in their own format, where the widened exponent is lost.
INTERPRETED = ["bf16", "f16", "f32", "f64"]


def reduced(operand):
    return [ops.reduce_precision(operand, exponent_bits=e, mantissa_bits=m) for e, m in FORMATS]


@pytest.mark.parametrize("kind", FLOATS)
def test_reduce_precision_to_the_last_bit(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    operand = values_of(kind)
    if bit_width(dtype) >= 16:
        operand = np.concatenate([operand, random_bits(kind, (3000,), 7)])
    graph = graph_of(reduced, [operand])
    expected = [ReducePrecision(e, m).reference(operand) for e, m in FORMATS]
    if kind not in WITHOUT_XLA:
        for one, other in zip(expected, run_xla(graph.stablehlo(), [operand]), strict=True):
            assert_same(one, other, inputs=[operand], name="XLA")
    if kind in INTERPRETED:
        for pair, one, other in zip(
            FORMATS, expected, run_stablehlo(graph.stablehlo(), [operand]), strict=True
        ):
            assert_same(one, other, inputs=[operand], name=f"interpreter {pair}")


REDUCE_FACTS = [
    # Exponent and mantissa bits, operand, result.
    (5, 10, [1 + 2.0**-11, 1 + 3 * 2.0**-11], [1.0, 1 + 2.0**-9]),  # ties to even
    (5, 10, [65504.0, 65519.0, 65520.0, -1e30], [65504.0, 65504.0, np.inf, -np.inf]),
    (5, 10, [2.0**-14, 2.0**-15, -(2.0**-15)], [2.0**-14, 0.0, -0.0]),  # denormals vanish
    (5, 10, [np.nan, np.inf, -0.0], [np.nan, np.inf, -0.0]),
    (8, 23, [1.1, 1e-30], [1.1, 1e-30]),  # as many bits as f32 has
    (11, 52, [3.3], [3.3]),  # more than it has
    (1, 0, [1.0, 1.5, 0.5], [0.0, np.inf, 0.0]),
]


REDUCED = Together(
    {
        row: (
            lambda x, bits=(exponent_bits, mantissa_bits): ops.reduce_precision(x, *bits),
            [np.array(operand, np.float32)],
            {},
        )
        for row, (exponent_bits, mantissa_bits, operand, _) in enumerate(REDUCE_FACTS)
    }
)


@pytest.mark.parametrize("row", REDUCED.rows)
def test_reduce_precision_facts(row):
    (result,) = REDUCED.check(row)
    assert_same(result, np.array(REDUCE_FACTS[row][-1], np.float32))


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn", "f8e3m4"])
def test_reduce_precision_of_constants_is_that_of_values(kind):
    # XLA computes with constants while it compiles, by other rules where there is no mantissa.
    operand = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1.5, 1e-9]).astype(
        ELEMENT_TYPES[kind].dtype
    )
    counts = [(8, 0), (5, 0), (1, 0), (11, 0), (4, 1)]

    def function(x):
        return [ops.reduce_precision(x, *each) for each in counts]

    with jax.enable_x64(True):
        wanted = mx.reference(function)(operand)
        for found in (mx.jit(function)(operand), mx.jit(lambda: function(operand))()):
            for one, other in zip(wanted, found, strict=True):
                assert_same(one, np.asarray(other), name="XLA")


@pytest.mark.full
@pytest.mark.parametrize("mantissa_bits", range(11))
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_reduce_precision_of_all_values_to_all_formats(kind, mantissa_bits):
    operand = all_values(ELEMENT_TYPES[kind].dtype)
    counts = [(exponent_bits, mantissa_bits) for exponent_bits in range(1, 9)]

    def function(x):
        return [ops.reduce_precision(x, *each) for each in counts]

    def in_jax(x):
        return [lax.reduce_precision(x, *each) for each in counts]

    wanted = mx.reference(function)(operand)
    for found in (mx.jit(function)(operand), jax.jit(in_jax)(operand)):
        for one, other in zip(wanted, map(np.asarray, found), strict=True):
            # What XLA's own makes of NaN without mantissa depends on which code it writes.
            same = ~np.isnan(operand) | (mantissa_bits > 0)
            assert_same(one[same], other[same], inputs=[operand[same]], name="XLA")
            # NaNs of bf16 become quiet ones on XLA:CPU; those of f16 keep their bits.
            if kind == "f16":
                np.testing.assert_array_equal(one.view("u2")[same], other.view("u2")[same])


def test_reduce_precision_is_a_round_trip_through_the_format():
    operand = random_values(np.float32, (1000,), 8, -1e4, 1e4)
    operand = operand[np.abs(operand) >= 2.0**-14]
    result = ReducePrecision(5, 10).reference(operand)
    assert_same(result, operand.astype(np.float16).astype(np.float32))
    result = ReducePrecision(8, 7).reference(operand)
    assert_same(result, operand.astype(ml_dtypes.bfloat16).astype(np.float32))


REDUCE_REJECTED = [
    (0, 10, AttributeValueError, "exponent_bits", "must be >= 1, not 0"),
    (5, -1, AttributeValueError, "mantissa_bits", "must be >= 0, not -1"),
    (5.5, 10, AttributeValueError, "exponent_bits", "5.5"),
]


@pytest.mark.parametrize(("exponent", "mantissa", "error", "name", "phrase"), REDUCE_REJECTED)
def test_reduce_precision_rejected(exponent, mantissa, error, name, phrase):
    check_rejected(
        lambda x: ops.reduce_precision(x, exponent, mantissa),
        [np.zeros(2, np.float32)],
        error,
        f"reduce_precision: attribute {name}",
        phrase,
    )


@pytest.mark.parametrize("kind", [n for n in ELEMENT_TYPES if n not in FLOATS])
def test_reduce_precision_takes_floats_only(kind):
    with pytest.raises(ShapeError, match=rf"reduce_precision: \(C2\) element type {kind} is not"):
        trace_to_graph(lambda x: [ops.reduce_precision(x, 5, 10)], [Shape(kind, (2,))])


def test_reduce_precision_derivatives_lose_precision_as_in_jax():
    operand = random_values(np.float64, (4,), 9)
    tangent = random_values(np.float64, (4,), 10)

    def function(x):
        return ops.reduce_precision(x, 5, 10)

    def in_jax(x):
        return lax.reduce_precision(x, 5, 10)

    with jax.enable_x64(True):
        slope = mx.reference(lambda x: mx.jvp(function, (x,), (tangent,))[1])(operand)
        np.testing.assert_array_equal(slope, jax.jvp(in_jax, (operand,), (tangent,))[1])
        pulled = mx.reference(lambda x: mx.vjp(function, x)[1](tangent)[0])(operand)
        np.testing.assert_array_equal(pulled, jax.vjp(in_jax, operand)[1](tangent)[0])
    assert np.any(slope != tangent)


def test_reduce_precision_batching():
    operand = random_values(np.float32, (2, 3), 11)
    check_batching(lambda x: ops.reduce_precision(x, 4, 3), [operand])


def test_texts():
    operand = np.zeros((2, 2), np.float16)

    def function(x):
        return [
            ops.convert_element_type(x, "s8"),
            ops.bitcast_convert_type(x, "f32"),
            ops.reduce_precision(x, exponent_bits=4, mantissa_bits=3),
        ]

    text = str(graph_of(function, [operand]))
    assert "s8[2,2] convert(" in text
    assert "f32[2] bitcast-convert(" in text
    assert "f16[2,2] reduce-precision(" in text
    assert "exponent_bits=4, mantissa_bits=3" in text
    assert "new_element_type" not in text
