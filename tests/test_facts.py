"""The worked examples of XLA's operation semantics and broadcasting rules: where each is tested.

A row names an entry, what its example says, and the test. Examples that belong to no test of one
operation's file are tested here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from minixla import ops
from minixla_ops.inventory import ENTRIES
from tests.harness import check_operation, graph_of

ROOT = Path(__file__).parent

# Rules and entries, the fact in short, and file::test somewhere in tests/minixla_ops/ ("": here).
FACTS = [
    ("rule C", "the total order of zeros, infinities and NaN",
     "comparisons::facts_of_the_total_order"),
    ("rule C", "ordinary comparisons obey IEEE 754",
     "comparisons::comparisons_of_floats_obey_ieee_754"),
    ("rule G", "{0,2},{1,3} pairs 0 with 2 and 1 with 3",
     "collective_reductions::fact_reduce_scatter"),
    ("rule G", "global ids number partitions innermost",
     "collective_joins::fact_global_device_ids"),
    ("Sign", "sgn(-0) = -0, sgn(+0) = +0, sgn(NaN) = NaN", "unary::facts"),
    ("Clamp", "{-1, 5, 9} between 0 and 6", "selection::clamp_fact"),
    ("Select", "by four pred, and by a scalar one", "selection::select_facts"),
    ("Map", "extra arguments are passed whole to every call", "::fact_60_map"),
    ("ConvertElementType", "s32 {0, 1, 2} to f32", "conversion::convert_facts"),
    ("BitcastConvertType", "f32[10] to f16[10,2] and back; s32 to s8", "conversion::bitcast_facts"),
    ("ReducePrecision", "rounding to fewer bits", "conversion::reduce_precision_facts"),
    ("Parameter", "number, shape and name", "parameters::usage_seen_in_examples"),
    ("Iota", "rows and columns of s32[4,8]", "constants::fact_iota"),
    ("RngNormal", "samples of N(mu, sigma)",
     "random_samples::fact_67_normal_of_mean_and_deviation"),
    ("RngUniform", "samples of [a, b)",
     "random_samples::fact_68_uniform_on_the_half_open_interval"),
    ("RngBitGenerator", "(state, data)",
     "random_bit_generator::fact_results_are_the_state_and_the_data"),
    ("Broadcast", "2.0 to {2,3}", "broadcasting::fact_broadcast_of_a_scalar"),
    ("BroadcastInDim", "F1 to F21 of the broadcasting rules", "broadcasting::fact"),
    ("Collapse", "{0,1,2} of f32[4,2,3]", "movement::fact_collapse_of_three"),
    ("Collapse", "{0,1} and {1,2} by the rule (X1)",
     "movement::fact_x1_collapse_keeps_the_place_of_the_dimensions"),
    ("Reshape", "{24}, {8,3}, to and from a scalar", "movement::fact_reshape"),
    ("ConcatInDim", "vectors and rows", "movement::fact_concatenate"),
    ("Slice", "a vector and a box", "movement::fact_slice"),
    ("DynamicSlice", "a vector, a box, and the clamp", "dynamic_slicing::fact_dynamic_slice"),
    ("DynamicSlice", "index 0 is clamped too (X5)",
     "dynamic_slicing::fact_x5_index_0_is_clamped_too"),
    ("DynamicUpdateSlice", "a vector and a box", "dynamic_slicing::fact_dynamic_update_slice"),
    ("Gather", "index_vector_dim of the rank",
     "gather::fact_index_vector_dim_of_the_rank_stands_for_a_dimension_of_size_one"),
    ("Gather", "remapped offsets", "gather::fact_four_offsets_go_to_operand_dimensions_1_3_4_5"),
    ("Gather", "[16,11] by s64[5,2]", "gather::fact_windows_of_8_by_6_out_of_16_by_11"),
    ("Gather", "by s64[4,5,2]", "gather::fact_windows_for_indices_of_two_batch_dimensions"),
    ("Gather", "gather_nd picks rows", "gather::fact_gather_nd_picks_rows"),
    ("Scatter", "remapped windows",
     "scatter::fact_four_window_dimensions_go_to_operand_dimensions_1_3_4_5"),
    ("Scatter", "StableHLO's index trace (X2)",
     "scatter::fact_index_trace_of_the_example_with_batching_dimensions"),
    ("SetDimensionSize", "sums 15 and 21, product 120 of {1 ... 10}",
     "dimension_sizes::fact_85_86_later_reductions_ignore_what_is_beyond_the_size"),
    ("SetDimensionSize", "the bound stays", "dimension_sizes::fact_86_the_bound_stays_10"),
    ("Reduce", "two legal nestings", "fold::fact_both_nestings_are_legal"),
    ("Reduce", "sums of f32[4,2,3]", "fold::fact_sums_of_a_repeated_matrix"),
    ("Reduce", "a matrix reduces to a vector", "fold::fact_a_matrix_reduces_to_a_vector"),
    ("Reduce", "maximum and argmax", "fold::fact_maximum_and_argmax_together"),
    ("ReduceWindow", "maximum of f32[4,6] by tiles", "reduce_window::fact_maximum_over_tiles"),
    ("ReduceWindow", "VALID and SAME, stride 2", "reduce_window::fact_minimum_with_stride_two"),
    ("ReduceWindow", "StableHLO's dilations", "reduce_window::fact_stablehlo_example"),
    ("SelectAndScatter", "9 chosen by two windows gets 8",
     "select_and_scatter::fact_an_element_chosen_by_two_windows_gets_both_values"),
    ("Scan", "three steps", "::fact_90_scan"),
    ("Sort", "three operands by the first", "sorting::fact_operands_are_permuted_together"),
    ("TopK", "shapes of values and indices", "sorting::fact_top_k_shapes"),
    ("Dot", "results by rank", "dot::fact_dot_results_by_rank"),
    ("DotGeneral", "contracting 1 and 1", "dot::fact_dot_general_contracting_1_and_1"),
    ("DotGeneral", "a batch of identities", "dot::fact_dot_general_with_batch_of_identities"),
    ("DotGeneral", "batched matrix products", "dot::fact_batched_matrix_products"),
    ("ConvWithGeneralPadding", "padding (2,3)",
     "convolution::fact_padding_2_3_adds_2_zeros_low_and_3_high"),
    ("ConvWithGeneralPadding", "output-z = 5", "convolution::fact_output_z_is_as_many_filters"),
    ("Cholesky", "a = l l^T", "triangular_systems::fact_products_of_the_factor_give_the_matrix"),
    ("TriangularSolve", "op(a) x = b",
     "triangular_systems::fact_the_solutions_solve_the_equations"),
    ("Fft", "RFFT of 16 and 17", "fft::fact_rfft_of_16_and_17_have_equal_sizes"),
    ("BatchNormTraining", "the variance is biased",
     "batch_norm::fact_variance_divides_by_the_number_of_elements"),
    ("CompositeCall", "foo.bar in HLO", "::fact_109_composite_call"),
    ("CustomCall", "42", "custom_call::fact_the_function_sees_its_arguments"),
    ("While", "1000 iterations", "::fact_112_while"),
    ("Tuple", "(f32[10], s32)", "tuple_operations::fact_tuple"),
    ("GetTupleElement", "member 1 is s32 5", "tuple_operations::fact_get_tuple_element"),
    ("AllGather", "two replicas", "collective_joins::fact_all_gather"),
    ("AllReduce", "two replicas", "collective_reductions::fact_all_reduce_adds_element_by_element"),
    ("AllToAll", "four cores, two replicas", "collective_joins::fact_all_to_all"),
    ("RaggedAllToAll", "elements of a ragged tensor",
     "ragged_all_to_all::fact_elements_of_a_ragged_tensor"),
    ("RaggedAllToAll", "two replicas", "ragged_all_to_all::fact_ragged_all_to_all"),
    ("ReduceScatter", "two replicas", "collective_reductions::fact_reduce_scatter"),
    ("Infeed", "two loops, one after the other", "infeed_outfeed::fact_two_loops_in_order"),
    ("AddDependency", "137 to 153 are internal to XLA",
     "operations::fact_137_to_153_users_do_not_build_it"),
]  # fmt: skip


@cache
def functions_in(path):
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", FACTS, ids=lambda row: f"{row[0]}: {row[1]}")
def test_every_fact_has_its_test(row):
    entry, _, place = row
    assert entry.startswith("rule ") or entry in {each.name for each in ENTRIES}
    file, _, name = place.partition("::")
    found = (ROOT / "minixla_ops").rglob(f"test_{file}.py")
    path = next(found) if file else Path(__file__)
    assert f"test_{name}" in functions_in(path)


def test_fact_60_map():
    # elem_out = computation(elem1, elem2, elem3, par1), par1 whole at each index
    operands = [np.arange(4, dtype="f4").reshape(2, 2) + i for i in range(3)]
    extra = np.array([10.0, 100.0], "f4")

    def computation(one, two, three, par):
        return one * two + three * ops.reduce(par, 0.0, ops.add, [0])

    (result,) = check_operation(
        lambda a, b, c, par: ops.map([a, b, c], computation, (0, 1), [par]), [*operands, extra]
    )
    np.testing.assert_array_equal(result, operands[0] * operands[1] + operands[2] * 110)


def test_fact_90_scan():
    # f(a, i) -> (y0, c0); f(b, c0) -> (y1, c1); f(c, c1) -> (y2, c2); result ([y0, y1, y2], c2)
    outputs, carry = check_operation(
        lambda x, i: ops.scan(x, i, lambda element, carry: (carry * element, carry + element)),
        [np.array([2.0, 3.0, 5.0], "f4"), np.float32(1)],
    )
    assert outputs.tolist() == [2, 9, 30] and carry == 11


def test_fact_109_composite_call():
    def computation(x):
        return x + 1

    attributes = "{n = 1 : i32, tensor = dense<1> : tensor<i32>}"
    graph = graph_of(
        lambda x: ops.composite_call(
            computation, x, name="foo.bar", attributes=attributes, version=1
        ),
        [np.float32(2)],
    )
    assert "f32[] call(" in str(graph)
    for text in ("is_composite=true", 'composite.name="foo.bar"', 'composite.version="1"'):
        assert text in str(graph)
    assert f"composite.attributes={attributes}" in str(graph)


def test_fact_112_while():
    # init = (0, zeros); while result(0) < 1000: (result(0) + 1, result(1) + constant_vector)
    vector = np.arange(10, dtype="f4")
    counter, total = check_operation(
        lambda count, values: ops.while_(
            lambda count, _: count < 1000,
            lambda count, values: (count + 1, values + vector),
            (count, values),
        ),
        [np.int32(0), np.zeros(10, "f4")],
    )
    assert counter == 1000
    np.testing.assert_array_equal(total, 1000 * vector)
