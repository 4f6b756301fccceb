"""Cholesky and TriangularSolve: against XLA, NumPy and JAX."""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    DerivativesTogether,
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)

generator = np.random.default_rng(0)
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.complex128, np.complex64]
OPERATIONS = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
VARIANTS = list(itertools.product((True, False), (True, False), (True, False), OPERATIONS))


def normal(sizes, dtype=np.float64):
    values = generator.standard_normal(sizes)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(sizes)
    return values.astype(dtype)


def positive_definite(sizes, dtype=np.float64):
    root = normal(sizes, np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    return (root @ adjoint(root) + 2 * np.eye(sizes[-1])).astype(dtype)


def triangular(sizes, dtype=np.float64):
    """Matrices whose triangles are both far from singular."""
    return (normal(sizes, dtype) / 4 + 2 * np.eye(sizes[-1])).astype(dtype)


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


def reference(function, *operands, **options):
    with jax.enable_x64(True):
        return mx.reference(function, **options)(*operands)


# Cholesky. StableHLO's interpreter aborts on it, so that XLA and products are the oracles.


@pytest.mark.parametrize("lower", [True, False])
def test_fact_products_of_the_factor_give_the_matrix(lower):
    for dtype in (np.float64, np.complex128):
        a = positive_definite((2, 4, 4), dtype)
        factor = reference(lambda a: ops.cholesky(a, lower), a)
        product = factor @ adjoint(factor) if lower else adjoint(factor) @ factor
        np.testing.assert_allclose(product, a, rtol=1e-12, atol=1e-12)
        triangle = np.tril(factor) if lower else np.triu(factor)
        np.testing.assert_array_equal(factor, triangle)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_element_types(lower):
    operands = [positive_definite((3, 3), dtype) for dtype in TYPES]
    check_operation(
        lambda *xs: [ops.cholesky(x, lower) for x in xs],
        operands,
        ulp=4,
        interpreter=False,
        normwise=True,
    )


@pytest.mark.parametrize("lower", [True, False])
def test_fact_only_the_chosen_triangle_is_read(lower):
    a = positive_definite((3, 3), np.complex128)
    expected = reference(lambda a: ops.cholesky(a, lower), a)
    other = np.triu(np.ones((3, 3), bool), 1) if lower else np.tril(np.ones((3, 3), bool), -1)

    def function(a):
        return ops.cholesky(a, lower)

    (result,) = check_operation(
        function, [np.where(other, np.nan, a)], ulp=4, interpreter=False, normwise=True
    )
    np.testing.assert_array_equal(result, expected)
    imaginary = a + 1j * np.eye(3)
    np.testing.assert_array_equal(reference(function, imaginary), expected)


def test_what_is_not_positive_definite_gives_nan_alone():
    a = np.stack([np.eye(2), -np.eye(2), [[1, 2], [2, 1]], [[0, 0], [0, 1]], [[np.nan, 0], [0, 1]]])
    (result,) = check_operation(lambda a: ops.cholesky(a), [a], interpreter=False)
    np.testing.assert_array_equal(result[0], np.eye(2))
    np.testing.assert_array_equal(result[1:, [0, 1, 1], [0, 0, 1]], np.nan)
    np.testing.assert_array_equal(result[1:, 0, 1], 0)
    singular = np.array([[1.0, 2], [2, 4]])
    for found in (mx.jit(ops.cholesky)(singular), reference(ops.cholesky, singular)):
        assert np.isnan(found[1, 1])


@pytest.mark.parametrize("sizes", [(0, 0), (2, 0, 0), (0, 2, 2), (1, 1), (2, 1, 2, 2)])
def test_cholesky_sizes(sizes):
    operand = np.broadcast_to(4 * np.eye(sizes[-1]), sizes).astype(np.float32)
    check_operation(lambda x: ops.cholesky(x), [operand], interpreter=False)


def test_cholesky_in_double():
    a = positive_definite((3, 3), np.float32)
    wide = reference(ops.cholesky, a, precision="float64")
    np.testing.assert_array_equal(wide, np.linalg.cholesky(a.astype(np.float64)))


def symmetric_cholesky(lower):
    """JAX's, of the matrix that a triangle stands for."""

    def function(a):
        half = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
        diagonal = jnp.real(a) * jnp.eye(a.shape[-1])
        whole = half + half.swapaxes(-1, -2).conj() + diagonal
        factor = lax.linalg.cholesky(whole, symmetrize_input=False)
        return factor if lower else factor.swapaxes(-1, -2).conj()

    return function


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_derivatives(lower, dtype):
    def function(a):
        return ops.cholesky(a, lower)

    operands = [positive_definite((2, 2), dtype)]
    check_derivatives(function, operands, symmetric_cholesky(lower), order=1)
    check_derivatives(function, operands)
    check_derivatives(function, [positive_definite((2, 3, 3), dtype)], order=1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_derivative_reads_one_triangle(lower, dtype):
    """NaN in the other triangle of a tangent, and imaginary parts on its diagonal, do nothing."""
    a, tangent = positive_definite((3, 3), dtype), positive_definite((3, 3), dtype)
    other = (np.triu if lower else np.tril)(np.ones((3, 3)), 1 if lower else -1)
    dirty = np.where(other, np.nan, tangent)
    if dtype is np.complex128:
        dirty = dirty + 1j * np.eye(3)

    def derivative(tangent):
        return reference(
            lambda a, t: mx.jvp(lambda a: ops.cholesky(a, lower), (a,), (t,))[1], a, tangent
        )

    np.testing.assert_array_equal(derivative(dirty), derivative(tangent))


def test_cholesky_batching():
    for lower in (True, False):
        function = mx.vmap(lambda a: ops.cholesky(a, lower), in_axes=2, out_axes=1)  # noqa: B023
        a = positive_definite((3, 2, 2))
        result = reference(function, np.moveaxis(a, 0, 2))
        np.testing.assert_allclose(
            np.moveaxis(result, 1, 0), reference(lambda a: ops.cholesky(a, lower), a)  # noqa: B023
        )  # fmt: skip


def test_cholesky_text():
    graph = graph_of(lambda a: ops.cholesky(a, False), [np.eye(2, dtype=np.float32)])
    assert "f32[2,2] cholesky(%arg0.1), lower=false" in str(graph)
    assert '"stablehlo.cholesky"(%arg0) <{lower = false}>' in graph.stablehlo()


def test_cholesky_rejected():
    expected = ShapeError, "cholesky: (C1)"
    for operand, phrase in (
        (np.eye(2, dtype=np.int32), "a float or complex type, not s32"),
        (np.zeros(3), "f64[3]"),
        (np.zeros((2, 3)), "must have equal sizes"),
    ):
        check_rejected(lambda a: ops.cholesky(a), [operand], *expected, phrase)
    check_rejected(lambda a: ops.cholesky(a, "no"), [np.eye(2)], AttributeValueError, "lower")


# TriangularSolve.


def operands_of(left_side, dtype=np.float64, batch=(2,)):
    return [
        triangular((*batch, 3, 3), dtype),
        normal((*batch, *((3, 2) if left_side else (2, 3))), dtype),
    ]


def residual(a, b, x, left_side, lower, unit_diagonal, transpose_a):
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a * (1 - np.eye(3)) + np.eye(3)
    a = {"NO_TRANSPOSE": a, "TRANSPOSE": a.swapaxes(-1, -2), "ADJOINT": adjoint(a)}[transpose_a]
    return (a @ x if left_side else x @ a) - b


def all_variants(left_side):
    chosen = [variant for variant in VARIANTS if variant[0] == left_side]
    return chosen, lambda a, b: [ops.triangular_solve(a, b, *variant) for variant in chosen]


@pytest.mark.parametrize("left_side", [True, False])
def test_fact_the_solutions_solve_the_equations(left_side):
    chosen, function = all_variants(left_side)
    a, b = operands_of(left_side, np.complex128)
    # The interpreter aborts on batches without unit diagonal.
    results = check_operation(function, [a, b], ulp=64, interpreter=False, normwise=True)
    for variant, x in zip(chosen, results, strict=True):
        np.testing.assert_allclose(residual(a, b, x, *variant), 0, atol=1e-13)


@pytest.mark.parametrize("left_side", [True, False])
def test_solutions_in_the_interpreter(left_side):
    # It aborts on ADJOINT of real numbers.
    operands = operands_of(left_side, batch=())
    check_operation(
        lambda a, b: [
            ops.triangular_solve(a, b, *variant)
            for variant in VARIANTS
            if variant[0] == left_side and variant[-1] != "ADJOINT"
        ],
        operands,
        ulp=64,
        xla=False,
    )


def test_triangular_solve_element_types():
    operands = [each for dtype in TYPES for each in operands_of(True, dtype)]
    check_operation(
        lambda *xs: [
            ops.triangular_solve(a, b, True, True, False, "ADJOINT")
            for a, b in zip(xs[::2], xs[1::2], strict=True)
        ],
        operands,
        ulp=8,
        interpreter=False,
        normwise=True,
    )


@pytest.mark.parametrize("lower", [True, False])
def test_fact_the_other_triangle_is_ignored_and_a_unit_diagonal(lower):
    a, b = operands_of(True)
    unread = np.triu(np.ones((3, 3), bool)) if lower else np.tril(np.ones((3, 3), bool))

    def function(a, b):
        return ops.triangular_solve(a, b, True, lower, True)

    (result,) = check_operation(
        function, [np.where(unread, np.nan, a), b], ulp=64, interpreter=False
    )
    np.testing.assert_array_equal(result, reference(function, a, b))


@pytest.mark.parametrize(
    ("a", "b"), [((0, 0), (0, 2)), ((2, 2), (2, 0)), ((0, 2, 2), (0, 2, 1)), ((1, 1), (1, 1))]
)
def test_triangular_solve_sizes(a, b):
    operands = [np.full(a, 2, np.float32), np.ones(b, np.float32)]
    check_operation(
        lambda a, b: ops.triangular_solve(a, b, True, True), operands, interpreter=False
    )


def test_triangular_solve_in_double():
    a, b = operands_of(True, np.float32)

    def function(a, b):
        return ops.triangular_solve(a, b, True, False)

    wide = reference(function, a, b, precision="float64")
    np.testing.assert_allclose(np.triu(a).astype(float) @ wide, b, rtol=1e-14, atol=1e-14)


def triangular_solve(variant):
    return lambda a, b: ops.triangular_solve(a, b, *variant)


def triangular_solve_of_jax(left_side, lower, unit_diagonal, transpose_a):
    return lambda a, b: lax.linalg.triangular_solve(
        a,
        b,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=transpose_a != "NO_TRANSPOSE",
        conjugate_a=transpose_a == "ADJOINT",
    )


DERIVATIVES = DerivativesTogether(
    {
        (*variant, np.dtype(dtype).name): (
            triangular_solve(variant),
            operands_of(variant[0], dtype, ()),
            triangular_solve_of_jax(*variant),
            {"order": 1},
        )
        for variant in VARIANTS
        for dtype in (np.float64, np.complex128)
        # Of real numbers it is TRANSPOSE.
        if dtype is np.complex128 or variant[3] != "ADJOINT"
        # Which part of a is read is no matter of its type.
        if dtype is np.float64 or not variant[2]
    }
)


@pytest.mark.parametrize("row", DERIVATIVES.rows, ids=lambda row: "-".join(map(str, row)))
def test_triangular_solve_derivatives(row):
    DERIVATIVES.check(row)
    _, lower, unit_diagonal, _, _ = row
    if lower == unit_diagonal:
        function, operands, *_ = DERIVATIVES.rows[row]
        check_derivatives(function, operands)


def test_derivatives_of_a_stack():
    check_derivatives(
        lambda a, b: ops.triangular_solve(a, b, False, True),
        operands_of(False),
        lambda a, b: lax.linalg.triangular_solve(a, b, lower=True),
    )


@pytest.mark.parametrize("left_side", [True, False])
def test_triangular_solve_batching(left_side):
    a, b = operands_of(left_side, batch=())

    # Members of the batch are permuted: the diagonal stays away from zero.
    def solve(a, b):
        return ops.triangular_solve(a * 0.1 + np.eye(3), b, left_side, True)

    check_batching(solve, [a, b])
    shared = mx.vmap(lambda a, b: ops.triangular_solve(a, b, left_side, True), in_axes=(None, 1))
    graph = graph_of(shared, [a, np.stack([b, b], 1)])
    (step,) = (each for each in graph.instructions if each.op.name == "TriangularSolve")
    assert str(step.operands[1].shape) in ("f64[3,4]", "f64[4,3]")
    nobody = np.zeros((b.shape[0], 0, b.shape[1]))
    assert reference(shared, a, nobody).shape == (0, *b.shape)


def test_triangular_solve_text():
    operands = [np.eye(2, dtype=np.float32), np.ones((2, 3), np.float32)]
    graph = graph_of(
        lambda a, b: ops.triangular_solve(a, b, True, True, False, "TRANSPOSE"), operands
    )
    assert (
        "f32[2,3] triangular-solve(%arg0.1, %arg1.2), left_side=true, lower=true, "
        "unit_diagonal=false, transpose_a=TRANSPOSE" in str(graph)
    )


def test_triangular_solve_rejected():
    def solve(a, b):
        return ops.triangular_solve(a, b, True, True)

    for label, a, b, phrase in (
        (
            "C1",
            np.eye(2, dtype=np.int32),
            np.zeros((2, 1), np.int32),
            "a float or complex type, not s32",
        ),
        ("C1", np.zeros((2, 3)), np.zeros((2, 3)), "square"),
        ("C2", np.eye(2), np.zeros((2, 1), np.float32), "must have equal types"),
        ("C2", np.zeros((2, 2, 2)), np.zeros((2, 1)), "b f64[2,1]"),
        ("C2", np.zeros((2, 2, 2)), np.zeros((3, 2, 1)), "batch dimensions"),
        ("C3", np.eye(2), np.zeros((3, 2)), "as many rows"),
    ):
        check_rejected(solve, [a, b], ShapeError, f"triangular_solve: ({label})", phrase)

    def right(a, b):
        return ops.triangular_solve(a, b, False, True)

    check_rejected(right, [np.eye(2), np.zeros((2, 3))], ShapeError, "(C3)", "left_side False")

    def other(a, b):
        return ops.triangular_solve(a, b, True, True, transpose_a="T")

    check_rejected(
        other, [np.eye(2), np.eye(2)], AttributeValueError, "transpose_a", "NO_TRANSPOSE, TRANSPOSE"
    )


# Compiled for the CPU they are LAPACK's potrf and BLAS's trsm, as in JAX.


def test_compiled_factors_are_those_of_the_reference():
    """For either triangle of every type, with what is not to be read, and where there is none."""
    operands = [positive_definite((3, 4, 4), dtype) for dtype in TYPES]
    for a in operands:
        a[1] = -a[1]
        if a.dtype.kind == "c":
            a[..., range(4), range(4)] += 1j  # imaginary parts of diagonals are not read

    def function(*xs):
        return [ops.cholesky(x, lower) for x in xs for lower in (True, False)]

    with jax.enable_x64(True):
        compiled = mx.jit(function)
        assert "lapack_zpotrf_ffi" in compiled.lower(*operands).as_text()
        found, expected = compiled(*operands), mx.reference(function)(*operands)
    assert np.isnan(np.asarray(found[0][1])).sum() == 10
    for one, other in zip(found, expected, strict=True):
        bound = 40 * float(ml_dtypes.finfo(other.dtype).eps)
        np.testing.assert_allclose(np.asarray(one), other, rtol=bound, atol=bound)


@pytest.mark.parametrize("sizes", [(4, 4), (2, 1, 4, 4), (2, 0, 0)])
def test_compiled_solutions_are_those_of_the_reference(sizes):
    operands = [(triangular(sizes, dtype), normal(sizes, dtype)) for dtype in TYPES]

    def function(*pairs):
        return [ops.triangular_solve(a, b, *each) for a, b in pairs for each in VARIANTS]

    with jax.enable_x64(True):
        compiled = mx.jit(function)
        assert ("lapack_ctrsm_ffi" in compiled.lower(*operands).as_text()) is (0 not in sizes)
        found, expected = compiled(*operands), mx.reference(function)(*operands)
    for one, other in zip(found, expected, strict=True):
        bound = 40 * float(ml_dtypes.finfo(other.dtype).eps)
        np.testing.assert_allclose(np.asarray(one), other, rtol=bound, atol=bound)


def test_programs_for_other_platforms_hold_operations_of_xla():
    def function(a):
        return ops.triangular_solve(ops.cholesky(a), a, True, True)

    text = graph_of(function, [np.eye(3)]).stablehlo()
    assert "stablehlo.cholesky" in text
    assert "custom_call" not in text


def test_exported_factors_are_read_where_minixla_is_not():
    a, b = positive_definite((2, 3, 3), np.float32), normal((2, 3, 3), np.float32)

    def function(a, b):
        return ops.triangular_solve(ops.cholesky(a), b, True, True)

    data = mx.export(function, a, b, vjp_order=1)
    expected = mx.reference(function)(a, b)
    for read in (jax.export.deserialize(bytearray(data)).call, mx.import_stablehlo(data)):
        np.testing.assert_allclose(read(a, b), expected, rtol=1e-4, atol=1e-5)


def test_a_stack_that_is_split_over_devices_stays_split():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    a = positive_definite((8, 3, 3), np.float32)

    def function(a):
        return ops.triangular_solve(ops.cholesky(a), a, True, True)

    found = mx.jit(function)(jax.device_put(a, split))
    assert found.sharding.is_equivalent_to(split, 3)
    np.testing.assert_allclose(found, mx.reference(function)(a), rtol=1e-4, atol=1e-5)
