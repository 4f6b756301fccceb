"""Fft: against XLA, StableHLO's interpreter, NumPy and JAX."""

import jax
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
from tests.oracles import run_xla

generator = np.random.default_rng(0)
LENGTHS = [(1,), (2,), (5,), (6,), (3, 4), (2, 3, 5)]


def operand_of(fft_type, fft_length, batch=(2,), double=True):
    *outer, last = fft_length
    sizes = (*batch, *outer, last // 2 + 1 if fft_type == "IRFFT" else last)
    values = generator.standard_normal(sizes)
    if fft_type == "RFFT":
        return values.astype(np.float64 if double else np.float32)
    values = values + 1j * generator.standard_normal(sizes)
    return values.astype(np.complex128 if double else np.complex64)


def transform(fft_type, fft_length):
    return lambda x: ops.fft(x, fft_type, fft_length)


def reference(function, *operands):
    with jax.enable_x64(True):
        return mx.reference(function)(*operands)


def check(function, operands, **options):
    """Asserts that XLA agrees, but for rounding errors of sums whose terms are of order one."""
    graph = graph_of(function, operands)
    with jax.enable_x64(True):
        expected = mx.reference(function)(*operands)
    found = run_xla(graph.stablehlo(), operands)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        tolerance = 1e-14 if one.dtype in (np.float64, np.complex128) else 1e-5
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=10 * tolerance)
    return expected


@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_against_xla(fft_type):
    operands = [operand_of(fft_type, n, double=d) for d in (True, False) for n in LENGTHS]
    lengths = LENGTHS * 2
    results = check(
        lambda *xs: [ops.fft(x, fft_type, n) for x, n in zip(xs, lengths, strict=True)], operands
    )
    names = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}
    for result, operand, n in zip(results, operands, lengths, strict=True):
        expected = getattr(np.fft, names[fft_type])(operand, n, range(1, operand.ndim))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_against_the_interpreter():
    # It aborts on f32 and IRFFT of one element, and gives noise for IRFFT of odd lengths.
    for fft_type in ("FFT", "IFFT", "RFFT", "IRFFT"):
        for length in ((4,), (2, 3), (2, 2, 2)):
            if fft_type != "IRFFT" or length[-1] % 2 == 0:
                exact = np.round(operand_of(fft_type, length) * 2)
                check_operation(
                    lambda x: ops.fft(x, fft_type, length) + 20,  # noqa: B023 - away from zero
                    [exact],
                    ulp=64,
                    xla=False,
                    normwise=True,
                )


def test_fact_the_sum_formula():
    x = operand_of("FFT", (5,), ())
    k = np.arange(5)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / 5)
    np.testing.assert_allclose(reference(transform("FFT", [5]), x), matrix @ x)
    np.testing.assert_allclose(reference(transform("IFFT", [5]), x), np.linalg.solve(matrix, x))


def test_fact_rfft_of_16_and_17_have_equal_sizes():
    for length in (16, 17):
        x = operand_of("RFFT", (length,), ())
        half = reference(transform("RFFT", [length]), x)
        assert half.shape == (9,)
        np.testing.assert_allclose(half, np.fft.fft(x)[:9], rtol=1e-12)
        np.testing.assert_allclose(reference(transform("IRFFT", [length]), half), x, rtol=1e-12)


def test_fact_several_lengths_are_a_cascade():
    x = operand_of("RFFT", (2, 3, 4))
    for dimensions in (2, 3):
        lengths = x.shape[-dimensions:]
        half = np.fft.rfft(x)
        expected = np.fft.fftn(half, axes=range(4 - dimensions, 3))
        found = reference(transform("RFFT", lengths), x)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        back = reference(transform("IRFFT", lengths), found)
        np.testing.assert_allclose(back, x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [4, 5])
def test_imaginary_parts_of_elements_without_a_partner_are_not_read(length):
    x = operand_of("IRFFT", (length,), ())
    changed = x.copy()
    changed[0] += 3j
    if length % 2 == 0:
        changed[-1] += 3j
    results = check(
        lambda x, y: [ops.fft(x, "IRFFT", [length]), ops.fft(y, "IRFFT", [length])], [x, changed]
    )
    np.testing.assert_array_equal(*results)


EMPTY = [
    ("FFT", (0,), [0], (0,)),
    ("IFFT", (2, 0), [0], (2, 0)),
    ("FFT", (0, 3), [3], (0, 3)),
    ("FFT", (0, 3), [0, 3], (0, 3)),
    ("RFFT", (0,), [0], (0,)),
    ("RFFT", (3, 0), [3, 0], (3, 0)),
    ("RFFT", (0, 4), [4], (0, 3)),
    ("RFFT", (0, 4), [0, 4], (0, 3)),
    ("RFFT", (0, 5), [0, 5], (0, 3)),
    ("IRFFT", (0,), [0], (0,)),
    ("IRFFT", (2, 1), [0], (2, 0)),
    ("IRFFT", (0, 3), [0, 4], (0, 4)),
    ("IRFFT", (0, 3), [4], (0, 4)),
]


def test_length_zero_gives_size_zero():
    operands = [
        np.zeros(sizes, np.float32 if t == "RFFT" else np.complex64) for t, sizes, *_ in EMPTY
    ]
    results = check(
        lambda *xs: [ops.fft(x, t, n) for x, (t, _, n, _) in zip(xs, EMPTY, strict=True)], operands
    )
    assert [result.shape for result in results] == [sizes for *_, sizes in EMPTY]
    for operand, (fft_type, _, lengths, _) in zip(operands, EMPTY, strict=True):
        wide = operand.astype(np.float64 if fft_type == "RFFT" else np.complex128)
        check_derivatives(transform(fft_type, lengths), [wide], order=1)


@pytest.mark.parametrize(("fft_type", "sizes", "lengths", "result"), EMPTY)
def test_derivatives_of_size_zero_have_the_shapes_of_values(fft_type, sizes, lengths, result):
    x = np.ones(sizes, np.float32 if fft_type == "RFFT" else np.complex64)
    for evaluate in (mx.reference, mx.jit):
        value, pulled = evaluate(lambda x: pull_back(transform(fft_type, lengths), x))(x)
        assert value.shape == result
        np.testing.assert_array_equal(pulled, np.zeros_like(x))


def pull_back(function, x):
    value, pull = mx.vjp(function, x)
    return value, pull(value)[0]


def test_double_precision():
    x = operand_of("RFFT", (6,), double=False)
    wide = mx.reference(transform("RFFT", [6]), precision="float64")(x)
    np.testing.assert_array_equal(wide, np.fft.rfft(x.astype(np.float64)))


def transform_of_jax(fft_type, lengths):
    return lambda x: lax.fft(x, fft_type, lengths)


DERIVATIVES = DerivativesTogether(
    {
        (fft_type, lengths): (
            transform(fft_type, lengths),
            [operand_of(fft_type, lengths, (2,) if len(lengths) == 1 else ())],
            transform_of_jax(fft_type, lengths),
            {"order": 2 if lengths == (5,) else 1},
        )
        for fft_type in ("FFT", "IFFT", "RFFT", "IRFFT")
        for lengths in ((1,), (4,), (5,), (2, 3), (3, 2, 4))
    }
)


@pytest.mark.parametrize("row", DERIVATIVES.rows, ids=str)
def test_derivatives(row):
    DERIVATIVES.check(row)


@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_batching(fft_type):
    check_batching(transform(fft_type, (2, 3)), [operand_of(fft_type, (2, 3), ())])


def test_the_form_for_one_platform_gives_the_same():
    # XLA:CPU transforms all dimensions at once; for others they are transformed one by one.
    x = operand_of("IRFFT", (2, 3, 4))
    graph = graph_of(transform("IRFFT", (2, 3, 4)), [x])
    for_cpu, for_gpu = graph.stablehlo("cpu"), graph.stablehlo("cuda")
    assert (for_cpu.count('stablehlo.fft"'), for_gpu.count('stablehlo.fft"')) == (1, 2)
    (one,), (other,) = run_xla(for_cpu, [x]), run_xla(for_gpu, [x])
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_text():
    graph = graph_of(transform("RFFT", (3, 4)), [operand_of("RFFT", (3, 4))])
    assert "c128[2,3,3] fft(%arg0.1), fft_type=RFFT, fft_length={3,4}" in str(graph)


def test_rejected():
    x = operand_of("FFT", (3, 4))
    for lengths in ([], [2, 3, 4, 1], [1, 2, 3, 4]):
        check_rejected(
            lambda x: ops.fft(x, "FFT", lengths),  # noqa: B023
            [x],
            AttributeValueError,
            "fft: (C1)",
            "one to three",
        )
    for fft_type, dtype, phrase in (
        ("RFFT", np.complex64, "f32 or f64"),
        ("RFFT", np.float16, "RFFT does not support f16"),
        ("RFFT", np.int32, "s32"),
        ("FFT", np.float32, "c64 or c128"),
        ("IRFFT", np.float64, "f64"),
    ):
        check_rejected(
            transform(fft_type, [4]), [np.zeros(4, dtype)], ShapeError, "fft: (C2)", phrase
        )
    for fft_type, size, length in (("FFT", 4, 5), ("IRFFT", 4, 4), ("IRFFT", 2, 0)):
        check_rejected(
            transform(fft_type, [length]),
            [np.zeros(size, np.complex64)],
            ShapeError,
            "fft: (C3)",
            f"c64[{size}]",
        )
    check_rejected(transform("DCT", [4]), [x], AttributeValueError, "fft_type", "FFT, IFFT, RFFT")
    check_rejected(transform("FFT", [-4]), [x], AttributeValueError, "fft_length")
