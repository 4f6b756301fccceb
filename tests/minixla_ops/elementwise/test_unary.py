"""Exact element-wise operations of one operand: signs, parts, bits, rounding to integers."""

import functools

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.errors import ShapeError
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape, TupleShape
from minixla.core.tracing import trace_to_graph
from minixla_ops.helpers.casting import cast
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import Together, check_batching, check_operation, check_rejected, graph_of
from tests.oracles.compare import assert_same, flush_denormals
from tests.oracles.values import all_values, bit_width, edge_values, random_values

# NumPy warns of NaNs and infinities, which are among the operands.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

BUILDERS = {
    "abs": ops.abs,
    "ceil": ops.ceil,
    "clz": ops.clz,
    "floor": ops.floor,
    "imag": ops.imag,
    "is_finite": ops.is_finite,
    "neg": ops.neg,
    "not_": ops.not_,
    "population_count": ops.population_count,
    "real": ops.real,
    "round": ops.round,
    "round_nearest_afz": ops.round_nearest_afz,
    "round_nearest_even": ops.round_nearest_even,
    "sign": ops.sign,
}
NAMES = {
    "round": "RoundNearestAfz",
    "not_": "Not",
    "is_finite": "IsFinite",
    "population_count": "PopulationCount",
    "round_nearest_afz": "RoundNearestAfz",
    "round_nearest_even": "RoundNearestEven",
}

FLOATS = [n for n, kind in ELEMENT_TYPES.items() if kind.is_float]
SIGNED = [n for n, kind in ELEMENT_TYPES.items() if kind.kind == "signed"]
UNSIGNED = [n for n, kind in ELEMENT_TYPES.items() if kind.kind == "unsigned"]
COMPLEX = ["c64", "c128"]
INTEGERS = [*SIGNED, *UNSIGNED]
ROUNDINGS = ("ceil", "floor", "round", "round_nearest_afz", "round_nearest_even")
TAKES = {
    "abs": [*SIGNED, *FLOATS, *COMPLEX],
    "clz": INTEGERS,
    "imag": [*FLOATS, *COMPLEX],
    "is_finite": FLOATS,
    "neg": [*INTEGERS, *FLOATS, *COMPLEX],
    "not_": ["pred", *INTEGERS],
    "population_count": INTEGERS,
    "real": [*FLOATS, *COMPLEX],
    "sign": [*SIGNED, *FLOATS, *COMPLEX],
    **dict.fromkeys(ROUNDINGS, FLOATS),
}
# XLA:CPU has no types of 6 bits.
WITHOUT_XLA = {"f6e2m3fn", "f6e3m2fn"}
# StableHLO's interpreter takes f8e8m0fnu for a type with a sign, and its roundings overflow where
# 2**mantissa is beyond the largest value.
WITHOUT_INTERPRETER = {"f8e8m0fnu"}
WITHOUT_INTERPRETED_ROUNDING = {"f6e2m3fn", "f8e3m4", *WITHOUT_INTERPRETER}


def values_of(kind):
    """Every value of types up to 8 bits; edges and random ones of others."""
    dtype = ELEMENT_TYPES[kind].dtype
    if kind not in COMPLEX and bit_width(dtype) <= 8:
        return all_values(dtype)
    return np.concatenate([edge_values(dtype), random_values(dtype, (200,), 1)])


def builders_of(kind):
    return [name for name, kinds in TAKES.items() if kind in kinds]


def row_of(names, operand, kind, xla=True):
    """The named operations on one operand as a row of `Together`."""
    without = WITHOUT_INTERPRETED_ROUNDING if names[0] in ROUNDINGS else WITHOUT_INTERPRETER
    options = {"xla": xla and kind not in WITHOUT_XLA, "interpreter": kind not in without}
    return lambda x: [BUILDERS[name](x) for name in names], [operand], options


def exact_operations(kind):
    """The roundings that take a type, and the other operations; a modulus has its own test."""
    names = [n for n in builders_of(kind) if not (kind in COMPLEX and n in ("abs", "sign"))]
    return [n for n in names if n in ROUNDINGS], [n for n in names if n not in ROUNDINGS]


@functools.cache
def rows_to_the_last_bit():
    rows = {}
    for kind in ELEMENT_TYPES:
        operand = values_of(kind)
        # XLA:CPU takes denormal f32 and f64 for zeros where it computes with them.
        if kind in ("f32", "f64", "bf16", *COMPLEX):
            operand = flush_denormals(operand)
        for number, names in enumerate(exact_operations(kind)):
            if names:
                rows[kind, number] = row_of(names, operand, kind)
    return Together(rows)


@pytest.mark.parametrize("kind", ELEMENT_TYPES)
def test_to_the_last_bit(kind):
    together = rows_to_the_last_bit()
    for row in together.rows:
        if row[0] == kind:
            together.check(row)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", *COMPLEX])
def test_denormals(kind):
    operand = edge_values(ELEMENT_TYPES[kind].dtype)
    rows = {
        number: row_of(names, operand, kind, xla=False)
        for number, names in enumerate(exact_operations(kind))
        if names
    }
    together = Together(rows)
    for row in rows:
        together.check(row)


@pytest.mark.parametrize("kind", FLOATS)
def test_rounding_against_double_precision(kind):
    operand = values_of(kind)
    wide = operand.astype(np.float64)
    away = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    # Where adding 0.5 is not exact, the number is integral, or the one before 0.5.
    away = np.where(np.abs(wide) >= 2.0**52, wide, np.where(np.abs(wide) < 0.5, 0 * wide, away))
    truth = [np.ceil(wide), np.floor(wide), away, away, np.rint(wide)]
    graph = graph_of(lambda x: [BUILDERS[name](x) for name in ROUNDINGS], [operand])
    for result, expected in zip(reference_graph(graph, [operand]), truth, strict=True):
        assert_same(result, cast(expected, ELEMENT_TYPES[kind]))


@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize("name", ["abs", "sign"])
def test_modulus_of_complex_numbers(name, kind):
    dtype = ELEMENT_TYPES[kind].dtype
    edges = edge_values(dtype)
    # XLA takes denormal parts for zeros and both oracles let the modulus of extremes overflow.
    sane = np.isfinite(edges) & (np.abs(np.real(edges)) < 1e30) & (np.abs(np.imag(edges)) < 1e30)
    tiny = np.finfo(dtype).smallest_normal
    sane &= ~((np.abs(edges) < tiny) & (edges != 0))
    operand = np.concatenate([edges[sane], random_values(dtype, (500,), 2, -50, 50)])
    check_operation(BUILDERS[name], [operand], ulp=4, normwise=name == "sign")


FACTS = [
    # Op, type, operand, result.
    ("abs", "s8", [-128, -127, 0, 5], [-128, 127, 0, 5]),
    ("abs", "s4", [-8, -7, 7], [-8, 7, 7]),
    ("abs", "s2", [-2, -1, 1], [-2, 1, 1]),
    ("abs", "f32", [-0.0, -np.inf, -2.5], [0.0, np.inf, 2.5]),
    ("neg", "u8", [0, 1, 255], [0, 255, 1]),
    ("neg", "s32", [-(2**31), 7], [-(2**31), -7]),
    ("neg", "f32", [0.0, -0.0, np.inf], [-0.0, 0.0, -np.inf]),
    ("sign", "f32", [-3.0, -0.0, np.nan, 0.0, 2.0], [-1.0, -0.0, np.nan, 0.0, 1.0]),
    ("sign", "s32", [-(2**31), 0, 9], [-1, 0, 1]),
    ("is_finite", "f32", [1.0, np.inf, -np.inf, np.nan, 3e38], [True, False, False, False, True]),
    ("not_", "pred", [True, False], [False, True]),
    ("not_", "s8", [0, -1, 5], [-1, 0, -6]),
    ("not_", "u4", [0, 15, 5], [15, 0, 10]),
    ("clz", "s32", [0, 1, -1, 2**30], [32, 31, 0, 1]),
    ("clz", "u64", [0, 1, 2**63], [64, 63, 0]),
    ("clz", "s4", [0, 1, -1], [4, 3, 0]),
    # The count 2 does not fit in s2.
    ("clz", "s2", [0, 1, -1], [-2, 1, 0]),
    ("population_count", "s8", [0, -1, 5], [0, 8, 2]),
    ("population_count", "u64", [2**64 - 1], [64]),
    ("round", "f32", [0.5, -0.5, 2.5, -2.5], [1.0, -1.0, 3.0, -3.0]),
    ("round_nearest_afz", "f32", [0.49999997, -0.2, 8388609.0], [0.0, -0.0, 8388609.0]),
    ("round_nearest_even", "f32", [0.5, 1.5, 2.5, -1.5, -0.5], [0.0, 2.0, 2.0, -2.0, -0.0]),
    ("ceil", "f32", [-0.5, 0.5, -np.inf], [-0.0, 1.0, -np.inf]),
    ("floor", "f32", [-0.5, 0.5, np.inf], [-1.0, 0.0, np.inf]),
    ("real", "c64", [1 - 2j], [1.0]),
    ("imag", "c64", [1 - 2j], [-2.0]),
    # "For a floating-point operand the result is 0"; "is returned unchanged".
    ("imag", "f32", [1.5, np.nan], [0.0, 0.0]),
    ("real", "f16", [1.5, -0.0], [1.5, -0.0]),
]


GIVEN = Together(
    {
        row: (BUILDERS[name], [np.array(operand).astype(ELEMENT_TYPES[kind].dtype)], {})
        for row, (name, kind, operand, _) in enumerate(FACTS)
    }
)


@pytest.mark.parametrize("row", GIVEN.rows, ids=lambda row: "-".join(FACTS[row][:2]))
def test_facts(row):
    (result,) = GIVEN.check(row)
    assert_same(result, np.array(FACTS[row][-1]).astype(result.dtype))


@pytest.mark.parametrize("name", BUILDERS)
def test_rejected_element_types(name):
    taken = TAKES[name]
    for kind in ELEMENT_TYPES:
        shape = Shape(kind, (2,))
        if kind in taken:
            trace_to_graph(lambda x: [BUILDERS[name](x)], [shape])
        else:
            with pytest.raises(
                ShapeError, match=rf"{BUILDERS[name].__name__}.*: \(C2\) element type {kind} "
            ):
                trace_to_graph(lambda x: [BUILDERS[name](x)], [shape])


def test_rejected_tuple():
    shape = TupleShape([Shape("f32", ())])
    with pytest.raises(ShapeError, match="operand operand must be an array"):
        trace_to_graph(lambda x: [ops.abs(x)], [shape])


def test_message_of_a_rejected_type():
    check_rejected(
        lambda x: ops.is_finite(x),
        [np.zeros(3, np.int32)],
        ShapeError,
        "is_finite: (C2) element type s32 is not supported",
        "operand s32[3]",
        "convert_element_type",
    )


@pytest.mark.parametrize("name", BUILDERS)
def test_result_types(name):
    for kind in TAKES[name]:
        graph, _ = trace_to_graph(lambda x: [BUILDERS[name](x)], [Shape(kind, (2, 0))])
        expected = element_type(kind)
        if name in ("abs", "real", "imag"):
            expected = expected.real
        if name == "is_finite":
            expected = element_type("pred")
        assert graph.output_shapes == (Shape(expected, (2, 0)),)


def of_both(x, n):
    return [ops.sign(x), ops.abs(x), ops.round(x), ops.is_finite(x), ops.clz(n), ops.not_(n)]


RANKS = Together(
    {
        sizes: (
            of_both,
            [random_values(np.float32, sizes, 3), random_values(np.int32, sizes, 4)],
            {},
        )
        for sizes in [(), (0,), (1,), (2, 3), (2, 0, 3), (2, 1, 2, 1)]
    }
)


@pytest.mark.parametrize("sizes", RANKS.rows, ids=str)
def test_ranks(sizes):
    RANKS.check(sizes)


def test_views_as_operands():
    scalar = np.float32(-1.5)
    splat = np.broadcast_to(scalar, (2, 3))
    strided = np.arange(12, dtype=np.uint8).reshape(3, 4).T[::2]
    graph = graph_of(lambda x, n: [ops.floor(x), ops.clz(n)], [splat, strided])
    floor, zeros = reference_graph(graph, [splat, strided])
    np.testing.assert_array_equal(floor, np.full((2, 3), -2.0, np.float32))
    assert zeros.tolist() == [[8 - int(n).bit_length() for n in row] for row in strided.tolist()]


@pytest.mark.parametrize("name", ["sign", "is_finite", "clz", "imag"])
def test_batching(name):
    dtype = {"clz": np.int32, "imag": np.complex64}.get(name, np.float32)
    check_batching(BUILDERS[name], [random_values(dtype, (2, 3), 5)])


@pytest.mark.parametrize("name", BUILDERS)
def test_registered_once_under_its_own_name(name):
    operation = REGISTRY[NAMES.get(name, name.capitalize())]
    builder = BUILDERS[name]
    assert operation.builder_name == (builder.__name__ if name != "round" else "round_nearest_afz")
    assert operation.__doc__
    assert builder.__doc__
    words = name.split("_")
    assert "".join(word.capitalize() for word in words) in operation.spec_names
