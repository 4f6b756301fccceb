"""DotGeneral and Dot: against the oracles and JAX, and the facts of XLA's operation semantics."""

from __future__ import annotations

import functools

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.errors import AttributeValueError, ShapeError
from minixla_ops import DotDimensionNumbers
from minixla_ops.products.dot import DotGeneral
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.product_tables import (
    NarrowProducts,
    exact_values,
    rounding_bound,
    rows_of_element_types,
)
from tests.oracles import run_stablehlo, run_xla

# Shapes of lhs and rhs, ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).
CASES = {
    "matrix matrix": ((2, 3), (3, 4), (((1,), (0,)), ((), ()))),
    "matrix vector": ((2, 3), (3,), (((1,), (0,)), ((), ()))),
    "vector vector": ((3,), (3,), (((0,), (0,)), ((), ()))),
    "outer product": ((2,), (3,), (((), ()), ((), ()))),
    "scalars": ((), (), (((), ()), ((), ()))),
    "both transposed": ((3, 2), (4, 3), (((0,), (1,)), ((), ()))),
    "batch": ((2, 2, 3), (2, 3, 4), (((2,), (1,)), ((0,), (0,)))),
    "two batch dimensions": ((2, 3, 2, 4), (3, 4, 2, 5), (((3,), (1,)), ((1, 0), (0, 2)))),
    "batch last": ((3, 2, 4), (4, 3, 2), (((0,), (1,)), ((1, 2), (2, 0)))),
    "two contracting, crossed": ((2, 3, 4), (4, 5, 3), (((2, 1), (0, 2)), ((), ()))),
    "all contracted, crossed": ((2, 3, 4), (4, 2, 3), (((0, 2, 1), (1, 0, 2)), ((), ()))),
    "everything is batch": ((2, 3), (3, 2), (((), ()), ((0, 1), (1, 0)))),
    "nothing contracted, batch": ((2, 3), (4, 2), (((), ()), ((0,), (1,)))),
    "rank 4": ((2, 1, 3, 2), (3, 1, 2, 2), (((2,), (0,)), ((3,), (2,)))),
    "contracted size 0": ((2, 0), (0, 3), (((1,), (0,)), ((), ()))),
    "free size 0": ((0, 2), (2, 3), (((1,), (0,)), ((), ()))),
    "batch size 0": ((0, 2, 3), (0, 3, 2), (((2,), (1,)), ((0,), (0,)))),
    "size 1": ((1, 1), (1, 1), (((1,), (0,)), ((), ()))),
}
MATRICES = (((1,), (0,)), ((), ()))


def product(numbers, **attributes):
    return lambda x, y: ops.dot_general(x, y, numbers, **attributes)


def jax_product(numbers):
    return lambda x, y: lax.dot_general(x, y, numbers)


def reference(function, *operands):
    with jax.enable_x64(True):
        (result,) = mx.reference(lambda *xs: (function(*xs),))(*operands)
    return result


# The sign of a zero is not fixed: XLA gives a single product's own, the interpreter adds it to
# +0. The interpreter also aborts where there is nothing to add.
AGAINST_ORACLES = Together(
    {
        case: (
            product(numbers),
            [exact_values(lhs, np.float32), exact_values(rhs, np.float32, 1)],
            {"signed_zeros": False, "interpreter": 0 not in lhs + rhs},
        )
        for case, (lhs, rhs, numbers) in CASES.items()
    }
)


@pytest.mark.parametrize("case", CASES)
def test_against_oracles(case):
    AGAINST_ORACLES.check(case)


ELEMENT_TYPES = Together(
    rows_of_element_types(
        lambda _: product((((2,), (1,)), ((0,), (0,)))),
        lambda dtype: [exact_values((2, 2, 3), dtype), exact_values((2, 3, 2), dtype, 1)],
    )
)


@pytest.mark.parametrize("name", ELEMENT_TYPES.rows)
def test_element_types(name):
    ELEMENT_TYPES.check(name)


PREFERRED = [
    ("s8", "s32"), ("s8", "s8"), ("pred", "s32"), ("s8", "f32"), ("s32", "u32"),
    ("bf16", "f32"), ("f16", "f32"), ("f16", "bf16"), ("f32", "f64"), ("f32", "bf16"),
    ("f64", "f32"), ("f32", "c64"), ("c64", "c128"), ("f8e4m3fn", "f32"),
]  # fmt: skip


def matrices_of(kind):
    dtype = mx.element_type(kind).dtype
    return [exact_values((2, 3), dtype), exact_values((3, 2), dtype, 1)]


PREFERRED_TYPES = Together(
    {
        (own, preferred): (
            product(MATRICES, preferred_element_type=mx.element_type(preferred)),
            matrices_of(own),
            {"signed_zeros": False},
        )
        for own, preferred in PREFERRED
    }
)


@pytest.mark.parametrize("own, preferred", PREFERRED)
def test_preferred_element_type(own, preferred):
    (result,) = PREFERRED_TYPES.check((own, preferred))
    assert result.dtype == mx.element_type(preferred).dtype


NARROW = NarrowProducts(functools.partial(product, MATRICES), matrices_of)


@pytest.mark.parametrize("own, preferred", NARROW.rows)
def test_types_that_xla_cpu_has_no_products_of(own, preferred):
    NARROW.check((own, preferred))


def test_preferred_element_type_is_that_of_the_sum():
    ones = np.ones((1, 1000), np.int8)
    wide = reference(product(MATRICES, preferred_element_type="s32"), ones, ones.T)
    assert wide.tolist() == [[1000]]
    assert reference(product(MATRICES), ones, ones.T).tolist() == [[1000 - 4 * 256]]
    halves = np.full((1, 2000), 0.5, ml_dtypes.bfloat16)
    # 0.25 added 2000 times in bf16 itself would stay at 64.
    assert reference(product(MATRICES), halves, halves.T).tolist() == [[500]]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.int8])
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    generator = np.random.default_rng(0)
    operands = [
        generator.integers(info.min, info.max, sizes, dtype, endpoint=True)
        for sizes in ((3, 5), (5, 4))
    ]
    check_operation(product(MATRICES), operands)


def test_integer_products_by_blas_are_exact():
    # Just below and just above what f64 holds exactly.
    for largest in (2**25, 2**27):
        lhs = np.array([[largest - 1, 1]], np.int64)
        rhs = np.array([[largest - 1], [1]], np.int64)
        assert reference(product(MATRICES), lhs, rhs).tolist() == [[(largest - 1) ** 2 + 1]]


def test_products_of_doubles_are_rounded_once():
    # In f32 the sum is a tie of two numbers of bf16, and would go to the lower one.
    parts, ones = np.array([[1, 2.0**-8, 2.0**-40]]), np.ones((3, 1))
    function = product(MATRICES, preferred_element_type="bf16")
    assert float(reference(function, parts, ones).item()) == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_rounding_errors_are_bounded(dtype):
    generator = np.random.default_rng(0)
    operands = [
        (generator.standard_normal(sizes) * 2.0 ** generator.integers(-4, 4, sizes)).astype(dtype)
        for sizes in ((4, 300), (300, 5))
    ]
    graph = graph_of(product(MATRICES), operands)
    lhs, rhs = (each.astype(np.longdouble) for each in operands)
    bound = rounding_bound(np.abs(lhs) @ np.abs(rhs), np.abs(lhs @ rhs), 300, dtype)
    results = [reference(product(MATRICES), *operands), *run_xla(graph.stablehlo(), operands)]
    for result in results:
        assert (np.abs(result.astype(np.longdouble) - lhs @ rhs) <= bound).all()


def test_infinities_and_nans():
    lhs = np.array([[np.inf, 1, 0], [np.nan, 0, 0], [np.inf, 1, -np.inf]], np.float32)
    rhs = np.array([[1, 0], [2, 1], [3, 1]], np.float32)
    check_operation(product(MATRICES), [lhs, rhs])


def test_dimension_numbers_in_all_forms():
    operands = [exact_values((2, 3, 4), np.float32), exact_values((3, 4, 2), np.float32, 1)]
    forms = [
        (((2,), (1,)), ((0,), (2,))),
        [([2], [1]), ([0], [2])],
        ((np.int64(2),), (1,), (0,), (2,)),
        DotDimensionNumbers((2,), (1,), (0,), (2,)),
        DotDimensionNumbers([2], [1], [0], [2]),
    ]
    graphs = [graph_of(product(form), operands) for form in forms]
    assert all(graph == graphs[0] for graph in graphs)
    (instruction,) = graphs[0].instructions
    assert instruction.op.dimension_numbers == DotDimensionNumbers((2,), (1,), (0,), (2,))


@pytest.mark.parametrize("name", ["s8", "u8", "s32", "bf16"])
def test_products_of_bytes_sum_over_fours_on_gpus(name):
    # XLA:GPU's are wrong otherwise: where cuBLAS has none, tiles of Triton's count products twice.
    dtype = element_type(name).dtype
    operands = [np.zeros((2, 3, 5, 7), dtype), np.zeros((2, 3, 7, 4), dtype)]
    numbers = (((1, 3), (1, 2)), ((0,), (0,)))
    text = graph_of(lambda x, y: ops.dot_general(x, y, numbers), operands).stablehlo("cuda")
    product = next(line for line in text.splitlines() if "dot_general" in line)
    is_padded = name in ("s8", "u8")
    assert ("2x3x5x8x" in product and "2x3x8x4x" in product) == is_padded
    assert text.count("stablehlo.pad") == 2 * is_padded


def test_text():
    operands = [exact_values((2, 3, 4), np.float32), exact_values((2, 4), np.float32)]
    numbers = (((2,), (1,)), ((0,), (0,)))
    graph = graph_of(
        product(numbers, precision_config=("highest", lax.Precision.DEFAULT)), operands
    )
    text = str(graph)
    assert "dot(%arg0.1, %arg1.2), lhs_batch_dims={0}, lhs_contracting_dims={2}" in text
    assert "operand_precision={highest,default}" in text
    assert (
        "stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], "
        "contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : " in graph.stablehlo()
    )
    check_operation(product(numbers, precision_config="HIGH"), operands)


def test_dot_makes_dot_general():
    for ranks in ((1, 1), (2, 1), (2, 2)):
        operands = [exact_values((3,) * rank, np.float32) for rank in ranks]
        (instruction,) = graph_of(ops.dot, operands).instructions
        assert instruction.op.name == "DotGeneral"
    assert set(mx.core.operation_named("DotGeneral").spec_names) == {"Dot", "DotGeneral"}


def test_fact_dot_results_by_rank():
    matrix, vector = exact_values((2, 3), np.float32), exact_values((3,), np.float32)
    for lhs, rhs in ((vector, vector), (matrix, vector), (matrix, matrix.T)):
        (result,) = check_operation(ops.dot, [lhs, rhs])
        np.testing.assert_array_equal(result, lhs @ rhs)


def test_fact_dot_general_contracting_1_and_1():
    lhs = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    rhs = np.array([[1, 1, 1], [2, 2, 2]], np.float32)
    (result,) = check_operation(product((((1,), (1,)), ((), ()))), [lhs, rhs])
    assert result.tolist() == [[6, 12], [15, 30]]


def test_fact_dot_general_with_batch_of_identities():
    lhs = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)
    rhs = np.stack([np.eye(2, dtype=np.float32)] * 2)
    (result,) = check_operation(product((((2,), (1,)), ((0,), (0,)))), [lhs, rhs])
    np.testing.assert_array_equal(result, lhs)


def test_fact_batched_matrix_products():
    lhs, rhs = exact_values((5, 2, 3), np.float32), exact_values((5, 3, 4), np.float32)
    assert reference(product((((2,), (1,)), ((0,), (0,)))), lhs, rhs).shape == (5, 2, 4)
    lhs, rhs = exact_values((5, 6, 2, 3), np.float32), exact_values((5, 6, 3, 4), np.float32)
    numbers = (((3,), (2,)), ((0, 1), (0, 1)))
    np.testing.assert_array_equal(reference(product(numbers), lhs, rhs), lhs @ rhs)


REJECTED = {
    "C1": ((2, 3), (3, 4), np.int32, MATRICES, {}, ShapeError, "element types"),
    "C2": ((2, 3), (3, 4), np.float32, MATRICES, {"preferred_element_type": "s32"},
           AttributeValueError, "cannot be accumulated in s32"),
    "C2 narrower": ((2, 3), (3, 4), np.int16, MATRICES, {"preferred_element_type": "s8"},
                    AttributeValueError, "cannot be accumulated in s8"),
    "C3": ((2, 3), (3, 4), np.float32, (((1,), ()), ((), ())), {}, AttributeValueError,
           "numbers of contracting dimensions"),
    "C3 batch": ((2, 3), (3, 4), np.float32, (((), ()), ((), (0,))), {}, AttributeValueError,
                 "numbers of batch dimensions"),
    "C4": ((2, 3), (3, 4), np.float32, (((1,), (2,)), ((), ())), {}, AttributeValueError,
           "rhs has no dimension 2"),
    "C4 negative": ((2, 3), (3, 4), np.float32, (((-1,), (0,)), ((), ())), {},
                    AttributeValueError, "lhs has no dimension -1"),
    "C5": ((2, 3), (3, 4), np.float32, (((1,), (0,)), ((1,), (0,))), {}, AttributeValueError,
           "dimension 1 of lhs must not be repeated"),
    "C6": ((2, 3), (3, 4), np.float32, (((), ()), ((0,), (0,))), {}, ShapeError,
           "lhs dimension 0 has size 2"),
    "C7": ((2, 3), (4, 3), np.float32, MATRICES, {}, ShapeError,
           "rhs dimension 0 has size 4"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    lhs, rhs, dtype, numbers, attributes, error, phrase = REJECTED[case]
    operands = [np.zeros(lhs, dtype), np.zeros(rhs, np.float32 if case == "C1" else dtype)]
    check_rejected(
        lambda x, y: ops.dot_general(x, y, numbers, **attributes),
        operands,
        error,
        "dot_general",
        f"({case[:2]})",
        phrase,
    )


@pytest.mark.parametrize("shapes", [((3,), (3, 2)), ((), (3,)), ((2, 3, 4), (4, 2))])
def test_dot_rejects_other_ranks(shapes):
    operands = [np.zeros(sizes, np.float32) for sizes in shapes]
    check_rejected(lambda x, y: ops.dot(x, y), operands, ShapeError, "dot: (D1)", "dot_general")


@pytest.mark.parametrize("numbers", [3, ((1,), (0,)), ((1,), (0,), ())])
def test_malformed_dimension_numbers(numbers):
    check_rejected(
        lambda x, y: ops.dot_general(x, y, numbers),
        [np.zeros((2, 3)), np.zeros((3, 4))],
        AttributeValueError,
        "dimension_numbers",
    )


def test_unknown_precision():
    check_rejected(
        lambda x, y: ops.dot(x, y, "LOW"),
        [np.zeros((2, 3)), np.zeros((3, 4))],
        AttributeValueError,
        "precision_config",
        "HIGHEST",
    )


def normal_values(*shapes):
    generator = np.random.default_rng(0)
    return [generator.standard_normal(sizes) for sizes in shapes]


DERIVATIVES = DerivativesTogether(
    {
        case: (
            product(numbers),
            normal_values(lhs, rhs),
            jax_product(numbers),
            {"order": 2 if case in ("two batch dimensions", "two contracting, crossed") else 1},
        )
        for case, (lhs, rhs, numbers) in CASES.items()
    }
)


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    DERIVATIVES.check(case)


def test_complex_derivatives():
    generator = np.random.default_rng(0)
    operands = [
        generator.standard_normal(sizes) + 1j * generator.standard_normal(sizes)
        for sizes in ((2, 3), (3, 4))
    ]
    check_derivatives(product(MATRICES), operands, jax_product(MATRICES))


@pytest.mark.parametrize(
    "own, preferred", [("bf16", "f32"), ("f32", "f64"), ("f64", "f32"), ("f32", "c64")]
)
def test_derivatives_with_preferred_element_type(own, preferred):
    own, preferred = mx.element_type(own), mx.element_type(preferred)
    operands = [exact_values((2, 3), own.dtype), exact_values((3, 4), own.dtype, 1)]
    cotangent = exact_values((2, 4), preferred.dtype, 2)
    function = product(MATRICES, preferred_element_type=preferred)

    def pulled(x, y, g):
        return mx.vjp(function, x, y)[1](g)

    with jax.enable_x64(True):
        found = mx.reference(pulled)(*operands, cotangent)
        run = mx.jit(pulled)(*operands, cotangent)
    lhs, rhs, g = (each.astype(np.complex128) for each in (*operands, cotangent))
    for results in (found, run):
        for result, expected in zip(results, (g @ rhs.T, lhs.T @ g), strict=True):
            assert result.dtype == own.dtype
            np.testing.assert_array_equal(np.asarray(result).astype(np.float64), expected.real)


#: Where neither order of the operands brings the dimensions into the order of the operand, or the
#: one that does would have XLA:CPU copy the larger.
NEEDED_TRANSPOSES = {
    "both transposed": 1,
    "two batch dimensions": 2,
    "batch last": 2,
    "two contracting, crossed": 2,
    "all contracted, crossed": 2,
    "everything is batch": 1,
    "nothing contracted, batch": 1,
    "rank 4": 2,
}


def names_of(graph):
    return [each.op.name for each in graph.pruned().instructions]


@pytest.mark.parametrize("case", [case for case in CASES if "size 0" not in case])
def test_a_gradient_costs_two_products_and_the_transposes_that_are_needed(case):
    lhs, rhs, numbers = CASES[case]

    def pulled(x, y):
        result, pullback = mx.vjp(product(numbers), x, y)
        return pullback(result)

    names = names_of(graph_of(pulled, [np.zeros(lhs, np.float32), np.zeros(rhs, np.float32)]))
    assert names.count("DotGeneral") == 3
    others = [name for name in names if name != "DotGeneral"]
    assert others == ["Transpose"] * NEEDED_TRANSPOSES.get(case, 0)


@pytest.mark.parametrize(
    "sizes, contracting, transposes",
    [
        ((5, 2), 1, []),  # the cotangent has 5 * 3 elements, more than lhs
        ((5, 4), 1, ["Transpose"]),
        ((4, 5), 0, []),  # lhs is summed over its last dimension
    ],
)
def test_what_comes_first_in_the_cotangent_of_rhs_is_the_smaller(sizes, contracting, transposes):
    lhs, rhs = np.zeros(sizes, np.float32), np.zeros((sizes[contracting], 3), np.float32)
    numbers = (((contracting,), (0,)), ((), ()))

    def pulled(y):
        result, pullback = mx.vjp(lambda y: product(numbers)(lhs, y), y)
        return pullback(result)

    names = names_of(graph_of(pulled, [rhs]))
    assert [name for name in names if name not in ("Constant", "DotGeneral")] == transposes


def test_only_the_active_operand_gets_a_product():
    def function(x, y):
        return mx.vjp(lambda v: ops.dot(v, y), x)[1](np.ones((2, 4), np.float32))

    graph = graph_of(function, [np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)])
    assert names_of(graph).count("DotGeneral") == 1


def test_precision_follows_the_operands():
    def pulled(x, y):
        result, pullback = mx.vjp(product(MATRICES, precision_config=("HIGH", "HIGHEST")), x, y)
        return pullback(result)

    graph = graph_of(pulled, [np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)])
    _, for_lhs, for_rhs = graph.pruned().instructions
    # g @ rhs.T, where g stands for lhs; lhs.T @ g, where g stands for rhs.
    assert for_lhs.op.precision_config == ("HIGH", "HIGHEST")
    assert for_rhs.op.precision_config == ("HIGH", "HIGHEST")


@pytest.mark.parametrize("case", CASES)
def test_batching(case):
    lhs, rhs, numbers = CASES[case]
    operands = [exact_values(lhs, np.float64), exact_values(rhs, np.float64, 1)]
    check_batching(product(numbers), operands)


def test_a_batch_makes_one_product():
    mapped = mx.vmap(product((((1,), (2,)), ((0,), (0,)))), in_axes=(1, None), out_axes=2)
    graph = graph_of(mapped, [np.zeros((2, 5, 3), np.float32), np.zeros((2, 4, 3), np.float32)])
    assert names_of(graph).count("DotGeneral") == 1


def test_dynamic_sizes_are_kept():
    numbers = (((2,), (1,)), ((0,), (0,)))
    shapes = [mx.parse_shape("f32[<=5,2,3]"), mx.parse_shape("f32[<=5,3,4]")]
    shape = DotGeneral(numbers).infer(tuple(shapes))
    assert str(shape) == "f32[<=5,2,4]"


def test_interpreter_and_xla_agree_on_a_program_of_products():
    operands = [exact_values((2, 3), np.float32), exact_values((3, 2), np.float32, 1)]
    text = graph_of(lambda x, y: ops.dot(ops.dot(x, y), ops.dot(x, y)), operands).stablehlo()
    np.testing.assert_array_equal(run_xla(text, operands)[0], run_stablehlo(text, operands)[0])
