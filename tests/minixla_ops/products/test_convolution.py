"""Convolutions: against the oracles, and the facts of XLA's operation semantics."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.legalize import Target, legalized
from minixla_ops import ConvolutionDimensionNumbers
from tests.harness import (
    Together,
    calls_of,
    check_operation,
    check_rejected,
    compiled_rows,
    graph_of,
)
from tests.minixla_ops.convolutions import CASES, GROUPED, LAST, convolution, reference
from tests.minixla_ops.product_tables import (
    NarrowProducts,
    exact_values,
    rounding_bound,
    rows_of_element_types,
)
from tests.oracles import run_xla

# "Incompatible index and shape found while flattening index", and the interpreter aborts.
ABORTS = ["any order", "any order, feature groups", "input features size 0"]


def row_of(function, operands, **options):
    # The sign of a zero is not fixed: some of XLA's kernels begin with the first product.
    return function, operands, {"signed_zeros": False, **options}


AGAINST_ORACLES = Together(
    {
        case: row_of(
            convolution(**given),
            [exact_values(lhs, np.float32), exact_values(rhs, np.float32, 1)],
            interpreter=case not in ABORTS,
        )
        for case, (lhs, rhs, given) in CASES.items()
    }
)


@pytest.mark.parametrize("case", CASES)
def test_against_oracles(case):
    AGAINST_ORACLES.check(case)


@functools.cache
def grouped_by_the_engine():
    """Grouped convolutions of several types, and their results by the engine."""
    rows = {
        (case, kind): (
            convolution(**given, preferred_element_type="s32" if kind == "s8" else None),
            [exact_values(lhs, dtype), exact_values(rhs, dtype, 1)],
        )
        for case in GROUPED
        for lhs, rhs, given in [CASES[case]]
        for kind, dtype in (("c64", np.complex64), ("s8", np.int8), ("bf16", ml_dtypes.bfloat16))
    }
    return rows, compiled_rows(rows, jit=mx.jit)


@pytest.mark.parametrize("case", GROUPED)
@pytest.mark.parametrize("kind", ["c64", "s8", "bf16"])
def test_as_the_engine_runs_it(case, kind):
    # On CPU grouped convolutions are lowered to other operations.
    rows, results = grouped_by_the_engine()
    function, operands = rows[case, kind]
    found = [results((case, kind))]
    if case == "feature groups":  # one is enough: eager evaluation lowers it in the same way
        found.append(function(*map(jnp.asarray, operands)))
    expected = reference(function, *operands)
    for result in found:
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("case", GROUPED)
def test_grouped_convolutions_are_lowered_otherwise_on_cpu(case):
    lhs, rhs, given = CASES[case]
    graph = graph_of(convolution(**given), [np.zeros(lhs, np.float32), np.zeros(rhs, np.float32)])
    program = legalized(graph, Target("cpu"))
    assert program is not graph
    for each in program.instructions:
        assert each.op.name != "ConvGeneralDilated" or (each.op.batch_group_count == 1)
    assert "stablehlo.convolution" in graph.stablehlo()


def operands_of(kind):
    dtype = mx.element_type(kind).dtype
    return [exact_values((1, 2, 4), dtype), exact_values((2, 2, 2), dtype, 1)]


ELEMENT_TYPES = Together(
    rows_of_element_types(
        # f8E8M0FNU has no zero to pad with.
        lambda name: convolution(padding=[(0, 0)] if name == "f8E8M0FNU" else [(1, 0)]),
        operands_of,
    )
)


@pytest.mark.parametrize("name", ELEMENT_TYPES.rows)
def test_element_types(name):
    ELEMENT_TYPES.check(name)


PREFERRED = [
    ("s8", "s32"), ("pred", "s32"), ("s8", "f32"), ("bf16", "f32"), ("f32", "f64"),
    ("f32", "bf16"), ("f64", "f32"), ("f32", "c64"), ("c64", "c128"),
]  # fmt: skip
PREFERRED_TYPES = Together(
    {
        (own, preferred): row_of(
            convolution(padding="SAME", preferred_element_type=mx.element_type(preferred)),
            operands_of(own),
            # The interpreter aborts where the kinds differ, and gives garbage where floats do.
            interpreter=(own, preferred) == ("s8", "s32"),
        )
        for own, preferred in PREFERRED
    }
)


@pytest.mark.parametrize("own, preferred", PREFERRED)
def test_preferred_element_type(own, preferred):
    (result,) = PREFERRED_TYPES.check((own, preferred))
    assert result.dtype == mx.element_type(preferred).dtype


NARROW = NarrowProducts(functools.partial(convolution, padding=[(1, 0)]), operands_of)


@pytest.mark.parametrize("own, preferred", NARROW.rows)
def test_types_that_xla_cpu_has_no_convolutions_of(own, preferred):
    NARROW.check((own, preferred))


def test_sums_are_rounded_once():
    ones = np.ones((1, 1, 1000), np.int8)
    function = convolution(preferred_element_type="s32")
    assert reference(function, ones, ones).tolist() == [[[1000]]]
    halves = np.full((1, 1, 2000), 0.5, ml_dtypes.bfloat16)
    assert reference(convolution(), halves, halves).tolist() == [[[500]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("groups", [1, 4])
def test_rounding_errors_are_bounded(dtype, groups):
    generator = np.random.default_rng(0)
    operands = [
        (generator.standard_normal(sizes) * 2.0 ** generator.integers(-4, 4, sizes)).astype(dtype)
        for sizes in ((2, 8, 9, 8), (8, 8 // groups, 3, 3))
    ]
    function = convolution(padding="SAME", groups=groups)
    truth = reference(function, *(each.astype(np.float64) for each in operands))
    magnitudes = reference(function, *(np.abs(each.astype(np.float64)) for each in operands))
    bound = rounding_bound(magnitudes, np.abs(truth), 72, dtype)
    results = [
        reference(function, *operands),
        *run_xla(graph_of(function, operands).stablehlo(), operands),
    ]
    with jax.enable_x64(True):
        results.append(function(*map(jnp.asarray, operands)))
    for result in results:
        assert (np.abs(np.asarray(result).astype(np.float64) - truth) <= bound).all()


def test_padding_is_zeros_that_are_multiplied():
    # As StableHLO has it: 0 * inf is NaN at the border.
    kernel = np.array([[[np.inf, 1]]], np.float32)
    result = reference(convolution(padding=[(1, 0)]), np.ones((1, 1, 2), np.float32), kernel)
    np.testing.assert_array_equal(result, [[[np.nan, np.inf]]])


def test_large_inputs_are_convolved_in_blocks(monkeypatch):
    for case in (
        "two dimensions",
        "strides",
        "channels last",
        "batch groups",
        "no spatial dimensions",
    ):
        lhs, rhs, given = CASES[case]
        operands = [exact_values(lhs, np.float32), exact_values(rhs, np.float32, 1)]
        whole = reference(convolution(**given), *operands)
        for size in (1, 10, 40):
            with monkeypatch.context() as patch:
                patch.setattr("minixla_ops.products.convolution._BLOCK", size)
                np.testing.assert_array_equal(reference(convolution(**given), *operands), whole)


def test_reference_is_vectorised():
    operands = [np.ones((8, 32, 32, 16), np.float32), np.ones((3, 3, 16, 32), np.float32)]
    function = convolution(padding="SAME", numbers=LAST)
    result = reference(function, *operands)
    assert calls_of(lambda: reference(function, *operands)) < 1_000
    assert result[0, 1, 1, 0] == 144


def test_the_five_builders_make_one_operation():
    x, w = exact_values((1, 2, 6), np.float32), exact_values((2, 2, 3), np.float32, 1)
    labels = "bf0_oi0->bf0"
    calls = {
        "Conv": lambda x, w: ops.conv(x, w, (2,), "SAME"),
        "ConvWithGeneralPadding": lambda x, w: ops.conv_with_general_padding(x, w, (2,), [(0, 1)]),
        "ConvWithGeneralDimensions": lambda x, w: ops.conv_with_general_dimensions(
            x, w, (2,), "SAME", labels
        ),
        "ConvGeneral": lambda x, w: ops.conv_general(x, w, (2,), [(0, 1)], labels),
        "ConvGeneralDilated": lambda x, w: ops.conv_general_dilated(
            x, w, (2,), [(0, 1)], (1,), (1,), labels
        ),
    }
    graphs = {name: graph_of(call, [x, w]) for name, call in calls.items()}
    assert all(graph == graphs["Conv"] for graph in graphs.values())
    operation = mx.core.operation_named("ConvGeneralDilated")
    assert set(operation.spec_names) == set(calls)


def test_builders_pass_all_attributes_on():
    x, w = np.zeros((2, 2, 6), np.int8), np.zeros((2, 2, 3), np.int8)
    wanted = {"batch_group_count": 2, "precision_config": ("HIGH", "HIGH")}
    for builder, numbers in (
        (ops.conv, ()),
        (ops.conv_with_general_padding, ()),
        (ops.conv_with_general_dimensions, (None,)),
        (ops.conv_general, (None,)),
        (ops.conv_general_dilated, (None, None, None)),
    ):

        def call(x, w, b=builder, n=numbers):
            return b(x, w, (1,), "VALID", *n, 1, 2, "HIGH", "s32")

        (instruction,) = graph_of(call, [x, w]).instructions
        assert wanted.items() <= instruction.op.values.items()
        assert str(instruction.shapes[0]) == "s32[1,2,4]"


def test_dimension_numbers_in_all_forms():
    x, w = np.zeros((2, 4, 5, 3), np.float32), np.zeros((2, 2, 3, 4), np.float32)
    whole = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    forms = [
        LAST,
        "b01f_01io->b01f",
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)),
        lax.conv_dimension_numbers(x.shape, w.shape, LAST),
        ConvolutionDimensionNumbers(0, 3, [1, 2], 2, 3, np.array([0, 1]), 0, 3, (1, 2)),
    ]
    for form in forms:
        (instruction,) = graph_of(convolution(numbers=form), [x, w]).instructions
        assert instruction.op.dimension_numbers == whole
    assert str(whole) == "b01f_01io->b01f"
    # JAX's spatial letters are matched by name, in the kernel's order.
    swapped = ConvolutionDimensionNumbers.from_letters("NWHC", "HWIO", "NHWC")
    assert swapped.input_spatial_dimensions == (2, 1)


def test_text():
    x, w = np.zeros((1, 4, 5, 2), np.float32), np.zeros((2, 3, 1, 4), np.float32)
    given = {"strides": (2, 1), "padding": [(1, 0), (-1, 2)], "rhs_dilation": (1, 2), "groups": 2,
             "numbers": LAST, "reversal": (False, True), "precision_config": "HIGHEST"}  # fmt: skip
    graph = graph_of(convolution(**given), [x, w])
    assert (
        "window={size=2x3 stride=2x1 pad=1_0x-1_2 rhs_dilate=1x2 rhs_reversal=0x1}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=2, operand_precision={highest,highest}"
    ) in str(graph)
    assert (
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], "
        "pad = [[1, 0], [-1, 2]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], "
        "reverse = [false, true]}"
    ) in graph.stablehlo()
    check_operation(
        convolution(**given),
        [exact_values(x.shape, np.float32), exact_values(w.shape, np.float32)],
        signed_zeros=False,
    )


def test_kernels_are_reversed_before_xla_gpu_sees_them():
    # Windows that cuDNN has not are loops there, which read a reversed kernel forwards.
    x, w = np.zeros((1, 5, 4, 2), np.float32), np.zeros((2, 3, 2, 4), np.float32)
    graph = graph_of(convolution(numbers=LAST, reversal=(True, False)), [x, w])
    text = graph.stablehlo("cuda")
    assert '"stablehlo.reverse"(%arg1) <{dimensions = array<i64: 0>}>' in text
    assert "reverse = [false, false]" in text


def test_fact_output_z_is_as_many_filters():
    x, w = exact_values((1, 2, 4, 4), np.float32), exact_values((5, 2, 2, 2), np.float32, 1)
    whole = reference(convolution(), x, w)
    assert whole.shape[1] == 5
    for index in range(5):
        np.testing.assert_array_equal(
            whole[:, index : index + 1], reference(convolution(), x, w[index : index + 1])
        )


def test_fact_stride_3_keeps_indices_divisible_by_3():
    x, w = exact_values((1, 1, 10), np.float32), exact_values((1, 1, 3), np.float32, 1)
    every = reference(convolution(), x, w)
    np.testing.assert_array_equal(reference(convolution(strides=(3,)), x, w), every[..., ::3])


def test_fact_padding_2_3_adds_2_zeros_low_and_3_high():
    x, w = exact_values((1, 1, 3, 4), np.float32), exact_values((1, 1, 2, 2), np.float32, 1)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (2, 3)))
    np.testing.assert_array_equal(
        reference(convolution(padding=[(0, 0), (2, 3)]), x, w), reference(convolution(), padded, w)
    )


def test_fact_same_padding_keeps_the_shape_at_stride_1():
    x, w = np.zeros((1, 1, 5, 6), np.float32), np.zeros((1, 1, 4, 3), np.float32)
    assert reference(convolution(padding="SAME"), x, w).shape == (1, 1, 5, 6)
    assert reference(convolution(padding="VALID"), x, w).shape == (1, 1, 2, 4)


def test_fact_depthwise_filters_are_reshaped():
    height, width, channels, multiplier = 2, 3, 3, 2
    x = exact_values((1, 4, 5, channels), np.float32)
    filters = exact_values((height, width, channels, multiplier), np.float32, 1)
    kernel = filters.reshape(height, width, 1, channels * multiplier)
    result = reference(convolution(numbers=LAST, groups=channels), x, kernel)
    for channel in range(channels):
        alone = reference(
            convolution(numbers=LAST),
            x[..., channel : channel + 1],
            filters[:, :, channel, None, :],
        )
        first = channel * multiplier
        np.testing.assert_array_equal(result[..., first : first + multiplier], alone)


def test_fact_batch_groups_pair_batch_and_output_features():
    x, w = exact_values((4, 2, 5), np.float32), exact_values((6, 2, 2), np.float32, 1)
    parts = [reference(convolution(), x[2 * i : 2 * i + 2], w[3 * i : 3 * i + 3]) for i in range(2)]
    whole = reference(convolution(batch_groups=2), x, w)
    np.testing.assert_array_equal(whole, np.concatenate(parts, 1))


def test_fact_dilation_puts_holes_between_elements():
    x, w = exact_values((1, 1, 3), np.float32), exact_values((1, 1, 2), np.float32, 1)
    spread = np.zeros((1, 1, 7), np.float32)
    spread[..., ::3] = x
    np.testing.assert_array_equal(
        reference(convolution(lhs_dilation=(3,)), x, w), reference(convolution(), spread, w)
    )
    long = exact_values((1, 1, 7), np.float32, 2)
    holes = np.zeros((1, 1, 4), np.float32)
    holes[..., ::3] = w
    np.testing.assert_array_equal(
        reference(convolution(rhs_dilation=(3,)), long, w), reference(convolution(), long, holes)
    )


def test_fact_formula_of_the_2d_case():
    x, w = exact_values((2, 2, 4, 5), np.float32), exact_values((3, 2, 2, 3), np.float32, 1)
    (stride_y, stride_x), (low_y, low_x) = (2, 1), (1, 2)
    result = reference(convolution(strides=(2, 1), padding=[(1, 0), (2, 1)]), x, w)
    for b, oz, oy, ox in np.ndindex(result.shape):
        total = 0.0
        for iz, ky, kx in np.ndindex(w.shape[1:]):
            y, across = oy * stride_y + ky - low_y, ox * stride_x + kx - low_x
            if 0 <= y < 4 and 0 <= across < 5:
                total += x[b, iz, y, across] * w[oz, iz, ky, kx]
        assert result[b, oz, oy, ox] == total


REJECTED = {
    "C1": ((1, 1, 4), (1, 1, 2), {}, ShapeError, "element types"),
    "C2": ((1, 1, 4), (1, 1, 2), {"preferred_element_type": "s32"}, AttributeValueError, "s32"),
    "C3": ((1, 1, 4), (1, 1, 2, 2), {}, ShapeError, "equal ranks, at least 2"),
    "C3 rank 1": ((1,), (1,), {}, ShapeError, "lhs f32[1]"),
    "C4": ((1, 1, 4), (1, 1, 2), {"numbers": ((0, 1, 1), (0, 1, 2), (0, 1, 2))},
           AttributeValueError, "one role to each dimension of lhs, not (0, 1, 1)"),
    "C4 range": ((1, 1, 4), (1, 1, 2), {"numbers": ((0, 1, 2), (0, 1, 2), (0, 1, 3))},
                 AttributeValueError, "one role to each dimension of output"),
    "C4 rank": ((1, 1, 4), (1, 1, 2), {"numbers": LAST, "strides": (1, 1)}, AttributeValueError,
                "List each of the dimensions 0 to 2 once"),
    "C5 strides": ((1, 1, 4), (1, 1, 2), {"strides": (1, 1)}, AttributeValueError,
                   "window_strides has 2 entries, but there are 1 spatial"),
    "C5 padding": ((1, 1, 4), (1, 1, 2), {"padding": [(0, 0)] * 2}, AttributeValueError,
                   "padding has 2 entries"),
    "C5 dilation": ((1, 1, 4), (1, 1, 2), {"rhs_dilation": ()}, AttributeValueError,
                    "rhs_dilation has 0 entries"),
    "C5 reversal": ((1, 1, 4), (1, 1, 2), {"reversal": (True, True)}, AttributeValueError,
                    "window_reversal has 2 entries"),
    "C6 stride": ((1, 1, 4), (1, 1, 2), {"strides": (0,), "padding": "SAME"}, AttributeValueError,
                  "Entries of window_strides must be at least 1"),
    "C6 dilation": ((1, 1, 4), (1, 1, 2), {"lhs_dilation": (0,)}, AttributeValueError,
                    "Entries of lhs_dilation must be at least 1"),
    "C6 kernel": ((1, 1, 4), (1, 1, 0), {}, AttributeValueError, "the kernel's size"),
    "C7": ((2, 2, 4), (2, 1, 2), {"groups": 2, "batch_groups": 2}, AttributeValueError,
           "must not both exceed 1"),
    "C8": ((1, 3, 4), (1, 2, 2), {}, ShapeError, "lhs has 3 features, but the kernel takes 2"),
    "C8 groups": ((1, 4, 4), (2, 1, 2), {"groups": 2}, ShapeError, "the kernel takes 2"),
    "C9": ((1, 4, 4), (3, 2, 2), {"groups": 2}, ShapeError, "2 must divide the 3"),
    "C10 batch": ((3, 1, 4), (2, 1, 2), {"batch_groups": 2}, ShapeError, "the batch of 3"),
    "C10 features": ((2, 1, 4), (3, 1, 2), {"batch_groups": 2}, ShapeError,
                     "the 3 output features"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    lhs, rhs, given, error, phrase = REJECTED[case]
    operands = [np.zeros(lhs, np.float32), np.zeros(rhs, np.int32 if case == "C1" else np.float32)]
    function = convolution(**given)
    check_rejected(
        function, operands, error, "conv_general_dilated", f"({case.split()[0]})", phrase
    )


@pytest.mark.parametrize(
    "given, phrase",
    [
        ({"numbers": ("NHC", "HIO", "NWC")}, "letters"),
        ({"numbers": "b0f-0io->b0f"}, "b01f_01io->b01f"),
        ({"numbers": 3}, "dimension_numbers"),
        ({"padding": "EQUAL"}, "SAME"),
        ({"groups": 0}, ">= 1"),
        ({"precision_config": "LOW"}, "precision_config"),
    ],
)
def test_malformed_attributes(given, phrase):
    operands = [np.zeros((1, 4, 1), np.float32), np.zeros((2, 1, 1), np.float32)]
    check_rejected(convolution(**given), operands, AttributeValueError, phrase)
