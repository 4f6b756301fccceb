"""Convolutions that compiled code of our own computes on a CPU."""

import ctypes
import functools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minixla as mx
from minixla.engine import kernels
from minixla.extension.building import build_op_library
from minixla_ops.products.convolution_kernel import TARGETS
from tests.harness import compiled_rows, graph_of
from tests.minixla_ops.convolutions import CASES, GROUPED, LAST, convolution, reference
from tests.minixla_ops.product_tables import exact_values

# Packages without the library are whole: XLA's own convolutions are tested beside this file.
pytestmark = pytest.mark.skipif(
    kernels.library() is None,
    reason="the kernels were not built: setup.py found no C++ compiler, or no headers of jaxlib's",
)

OF_KERNEL = "f01b_i01o->01bf"
# Beside the cases that all convolutions are tried on: shapes of lhs and rhs, and the attributes.
OWN = {
    "one pixel": ((1, 5, 6, 1), (1, 1, 1, 1), {"numbers": LAST}),
    "a window as large as the image": ((3, 4, 4, 2), (4, 4, 2, 40), {"numbers": LAST}),
    "wide tiles, and a rest": ((2, 5, 4, 3), (3, 3, 3, 49), {"numbers": LAST, "padding": "SAME"}),
    "holes": ((2, 5, 4, 3), (3, 3, 3, 33), {"numbers": LAST, "lhs_dilation": (2, 3)}),
    "windows in between": ((2, 5, 4, 3), (2, 1, 3, 6), {"numbers": LAST, "lhs_dilation": (3, 4)}),
    "many bands": ((1, 70, 80, 40), (3, 3, 40, 7), {"numbers": LAST, "padding": "SAME"}),
    "far out": ((2, 2, 2, 3), (2, 2, 3, 9), {"numbers": LAST, "padding": [(7, 6), (5, 9)]}),
    "far in": ((2, 9, 9, 3), (2, 2, 3, 9), {"numbers": LAST, "padding": [(-4, 6), (9, -6)]}),
    "gradient of a kernel": (
        (4, 7, 8, 3), (4, 7, 8, 9), {"numbers": OF_KERNEL, "padding": [(1, 1), (1, 1)]},
    ),
    "gradient of a kernel with strides": (
        (4, 9, 8, 3),
        (4, 4, 3, 70),
        {"numbers": OF_KERNEL, "padding": [(1, 0), (0, -1)], "rhs_dilation": (2, 3)},
    ),
    "gradient of a kernel with holes": (
        (3, 5, 6, 4),
        (3, 9, 9, 5),
        {"numbers": OF_KERNEL, "padding": [(1, 1), (0, 1)], "lhs_dilation": (2, 2),
         "strides": (2, 1)},
    ),
    "gradient in many bands": (
        (2, 70, 40, 30), (2, 70, 40, 5), {"numbers": OF_KERNEL, "padding": [(1, 1), (1, 1)]},
    ),
    "gradient of a large kernel": (
        (2, 6, 6, 130), (2, 6, 6, 120), {"numbers": OF_KERNEL, "padding": [(1, 1), (1, 1)]},
    ),
}  # fmt: skip
# Of no group, dimension or size too many: those that the kernel does not compute.
LEFT_TO_XLA = {
    "no spatial dimensions", "three dimensions", "reversal", "reversal, dilated",
    "padding takes all away", "kernel larger than input",
}  # fmt: skip
LEFT_TO_XLA |= {*GROUPED, *[case for case in CASES if "size 0" in case]}


def text_of(function, *args):
    return mx.jit(function).lower(*args).as_text()


@functools.cache
def results_of(kind):
    """Cases, and the engine's results, all of one program."""
    dtype = mx.element_type(kind).dtype
    rows = {
        case: (convolution(**given), [exact_values(lhs, dtype), exact_values(rhs, dtype, 1)])
        for case, (lhs, rhs, given) in {**CASES, **OWN}.items()
        if case not in LEFT_TO_XLA
    }
    with jax.enable_x64(kind == "f64"):
        return rows, compiled_rows(rows, jit=mx.jit)


@pytest.mark.parametrize("case", [case for case in {**CASES, **OWN} if case not in LEFT_TO_XLA])
@pytest.mark.parametrize("kind", [*TARGETS, "bf16", "f16"])
def test_results_are_exact_where_sums_are(case, kind):
    rows, results = results_of(kind)
    function, operands = rows[case]
    expected = reference(function, *operands)
    found = np.asarray(results(case))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", [case for case in {**CASES, **OWN} if case not in GROUPED])
def test_the_text_calls_the_kernel_where_it_computes_that(case):
    lhs, rhs, given = {**CASES, **OWN}[case]
    function, operands = convolution(**given), (np.zeros(lhs, "f"), np.zeros(rhs, "f"))
    is_called = case not in LEFT_TO_XLA
    assert (TARGETS["f32"] in text_of(function, *operands)) is is_called


@st.composite
def convolutions(draw):
    """Shapes and attributes of a convolution whose features stand last, or first and last."""
    count = draw(st.integers(1, 2))

    def sizes(low, high):
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    batch, features = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    outputs = draw(st.sampled_from([1, 2, 4, 5, 8, 15, 16, 17, 32, 50, 70, 100]))
    base, kernel = sizes(1, 9), sizes(1, 5)
    attributes = {
        "strides": tuple(sizes(1, 3)),
        "lhs_dilation": tuple(sizes(1, 3)),
        "rhs_dilation": tuple(sizes(1, 3)),
        "padding": list(zip(sizes(-3, 6), sizes(-3, 6), strict=True)),
    }
    spatial = "01"[:count]
    if draw(st.booleans()):
        numbers = f"b{spatial}f_{spatial}io->b{spatial}f"
        return (batch, *base, features), (*kernel, features, outputs), attributes, numbers
    numbers = f"f{spatial}b_i{spatial}o->{spatial}bf"
    return (batch, *base, features), (batch, *kernel, outputs), attributes, numbers


@given(convolutions())
def test_any_convolution(drawn):
    lhs, rhs, attributes, numbers = drawn
    function = convolution(numbers=numbers, **attributes)
    operands = exact_values(lhs, np.float32), exact_values(rhs, np.float32, 1)
    expected = reference(function, *operands)
    np.testing.assert_array_equal(np.asarray(mx.jit(function)(*operands)), expected)


def test_padding_is_zeros_which_infinities_make_nan():
    x, w = np.ones((1, 3, 3, 1), "f"), np.full((2, 2, 1, 2), np.inf, "f")
    x[0, 1, 1] = np.nan
    function = convolution(padding="SAME", numbers=LAST)
    found = np.asarray(mx.jit(function)(x, w))
    np.testing.assert_array_equal(found, reference(function, x, w))
    assert np.isnan(found[0, 2, 2]).all()  # zero times infinity
    with kernels.left_out():
        function = mx.jit(convolution(padding="SAME", numbers=LAST))
        np.testing.assert_array_equal(found, np.asarray(function(x, w)))


def test_a_sum_is_the_same_on_however_many_threads_and_each_time():
    rng = np.random.default_rng(0)
    operands = [rng.normal(size=(8, 20, 20, 16)).astype("f") for _ in range(2)]
    function = mx.jit(convolution(padding=[(1, 1), (1, 1)], numbers=OF_KERNEL))
    results = {np.asarray(function(*operands)).tobytes() for _ in range(20)}
    assert len(results) == 1


@pytest.mark.parametrize("case", [case for case in OWN if "bands" not in case])
def test_a_program_that_calls_it_is_read_as_a_convolution(case):
    lhs, rhs, given = OWN[case]
    function, operands = convolution(**given), (np.zeros(lhs, "f"), np.zeros(rhs, "f"))
    lowered = mx.jit(function).lower(*operands)
    for read in mx.import_stablehlo(lowered.as_text()), mx.import_hlo(lowered.compile().as_text()):
        x, w = exact_values(lhs, np.float32), exact_values(rhs, np.float32, 1)
        np.testing.assert_array_equal(np.asarray(read(x, w)), reference(function, x, w))


def test_a_call_with_other_attributes_is_not():
    call = mx.ops.custom_call
    given = {"padding": ("int64", (0, 0))}
    x, shape = np.zeros((1, 2, 1), "f"), mx.Shape("f32", (1, 2, 1))
    text = graph_of(lambda x: call(TARGETS["f32"], [x, x], shape, given), [x]).stablehlo()
    assert "custom_call" in mx.import_stablehlo(text).graph.stablehlo()


def test_programs_for_other_places_do_without():
    function, x, w = convolution(), np.zeros((8, 2, 5), "f"), np.zeros((4, 2, 3), "f")
    mesh = jax.make_mesh((4,), ("i",))
    cut = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
    assert TARGETS["f32"] not in text_of(function, cut, w)
    exported = jax.export.export(mx.jit(function))(x, w)
    assert "stablehlo.convolution" in exported.mlir_module()
    with kernels.left_out():
        assert "stablehlo.convolution" in text_of(function, x, w)


def test_a_networks_arrays_are_not_copied_for_it():
    def loss(w, x):
        return (convolution(padding="SAME", numbers=LAST)(x, w) ** 2).sum()

    text = mx.jit(mx.grad(loss)).lower(np.zeros((3, 3, 4, 8), "f"), np.zeros((2, 9, 9, 4), "f"))
    compiled = text.compile().as_text()
    assert compiled.count(TARGETS["f32"]) >= 2
    assert " copy(" not in compiled and " transpose(" not in compiled


@pytest.mark.full
@pytest.mark.parametrize("bits", [128, 256])
def test_other_machines_compute_the_same(bits, monkeypatch):
    folder = kernels.__path__[0]
    flags = "-O3", f"-DMINIXLA_WIDEST_BITS={bits}", "-Wno-psabi"
    built = build_op_library(f"{folder}/convolutions.cc", name=f"kernels_{bits}", flags=flags)
    targets = {kind: f"tests.{target}_{bits}" for kind, target in TARGETS.items()}
    for kind, target in targets.items():
        symbol = getattr(ctypes.CDLL(str(built.path)), TARGETS[kind])
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(symbol), platform="cpu")
        monkeypatch.setitem(TARGETS, kind, target)
    results_of.cache_clear()
    try:
        for kind in TARGETS:
            rows, results = results_of(kind)
            for case, (function, operands) in rows.items():
                found = np.asarray(results(case))
                np.testing.assert_array_equal(found, reference(function, *operands), case)
    finally:
        results_of.cache_clear()
