"""CustomCall: user code by name, in the reference, through the host, and compiled."""

import ctypes
import shutil
import subprocess

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.shapes import Shape, TupleShape
from tests.harness import check_batching

X = np.array([1, 2], np.float32)
X_SHAPE = Shape("f32", (2,))
Y = np.array([[10, 20, 30], [40, 50, 60]], np.float32)


def my_function(x, y):
    out = np.zeros((3, 3), np.float32)
    out[0, 0] = x[1] + y[1, 0]
    return out


def scaled(x, factor, shift=0.0, flags=(), name=""):
    return x * np.asarray(factor).astype(x.dtype) + x.dtype.type(shift + len(flags) + len(name))


def split(x):
    return x[:1], x[1:]


for function in (my_function, scaled, split):
    ops.register_custom_call(f"tests.{function.__name__}", function)


def evaluations(function):
    return [mx.reference(function), function, mx.jit(function), jax.jit(function)]


@pytest.mark.parametrize("way", range(4), ids=["reference", "eager", "jit", "in jax.jit"])
def test_fact_the_function_sees_its_arguments(way):
    """Spec 110: out[0][0] = x[1] + y[1][0], i.e. 42."""

    def function(x, y):
        return ops.custom_call("tests.my_function", [x, y], Shape("f32", (3, 3)))

    result = np.asarray(evaluations(function)[way](X, Y))
    assert result[0, 0] == 42
    assert result.sum() == 42


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "uint32", "complex64"])
def test_element_types(dtype):
    with jax.enable_x64(True):
        x = np.array([1, 2, 3]).astype(mx.element_type(dtype).dtype)

        def function(x):
            return ops.custom_call("tests.scaled", [x], Shape(dtype, (3,)), {"factor": 2})

        for evaluate in evaluations(function):
            np.testing.assert_array_equal(np.asarray(evaluate(x)), x * x.dtype.type(2))


def test_attributes_reach_the_function():
    attributes = {"factor": np.float32(0.5), "shift": 1.5, "flags": np.arange(2), "name": 'a "b"'}

    def function(x):
        return ops.custom_call("tests.scaled", [x], Shape("f32", (2,)), attributes)

    for evaluate in evaluations(function):
        np.testing.assert_array_equal(np.asarray(evaluate(X)), X * 0.5 + 8.5)
    text = mx.make_graph(function)(X).stablehlo()
    assert (
        "backend_config = {factor = 0.5 : f32, flags = array<i64: 0, 1>, "
        'name = "a \\"b\\"", shift = 1.5 : f64}'
    ) in text


@pytest.mark.parametrize(
    ("arguments", "layouts"),
    [(lambda x: [x, ops.create_token()], 3), (lambda x: [ops.tuple([x, x])], 0)],
    ids=["a token", "a tuple"],
)
def test_operands_and_results_have_layouts_all_or_none(arguments, layouts):
    """StableHLO's verifier, which reads the text, wants that."""

    def function(x):
        return ops.custom_call("tests.unknown", arguments(x), X_SHAPE)

    text = mx.make_graph(function)(X).stablehlo()
    assert text.count("xindex>") == layouts
    assert mx.import_stablehlo(text).graph.output_shapes == (X_SHAPE,)


def test_several_results():
    def function(x):
        return ops.custom_call("tests.split", [x], [Shape("f32", (1,)), Shape("f32", (1,))])

    def first(x):
        shape = TupleShape([Shape("f32", (1,))] * 2)
        return ops.get_tuple_element(ops.custom_call("tests.split", [x], shape), 0)

    for evaluate in evaluations(function):
        assert [float(each[0]) for each in evaluate(X)] == [1, 2]
    for evaluate in evaluations(first):
        assert float(evaluate(X)[0]) == 1


def test_side_effects_happen_once_and_in_order():
    seen = []

    def note(x, tag):
        seen.append((tag, float(x[0])))
        return ()

    ops.register_custom_call("tests.note", note)

    def function(x):
        ops.custom_call("tests.note", [x], [], {"tag": "first"}, has_side_effect=True)
        double = ops.call(noting, x)[0]
        ops.custom_call("tests.note", [double], [], {"tag": "last"}, has_side_effect=True)
        return x

    def noting(x):
        ops.custom_call("tests.note", [x * 3], [], {"tag": "inner"}, has_side_effect=True)
        return x * 2

    for evaluate in [*evaluations(function), jax.jit(lambda x: function(function(x)))]:
        seen.clear()
        evaluate(X)
        jax.effects_barrier()
        assert seen[:3] == [("first", 1), ("inner", 3), ("last", 2)]
        assert len(seen) in (3, 6)


def test_batching():
    def function(x):
        return ops.custom_call("tests.scaled", [x], Shape("f32", (2,)), {"factor": 3})

    check_batching(function, [X])


def test_a_custom_rule_gives_the_derivative():
    @mx.custom_jvp
    def triple(x):
        return ops.custom_call("tests.scaled", [x], Shape("f32", (2,)), {"factor": 3})

    triple.defjvp(lambda primals, tangents: (triple(*primals), 3 * tangents[0]))
    np.testing.assert_array_equal(mx.grad(lambda x: triple(x).sum())(X), [3, 3])


def test_hlo_text():
    graph = mx.make_graph(
        lambda x: ops.custom_call("target", [x], Shape("f32", (2,)), has_side_effect=True)
    )(X)
    assert (
        'custom-call(%arg0.1), custom_call_target="target", custom_call_has_side_effect=true, '
        "api_version=API_VERSION_TYPED_FFI"
    ) in str(graph)


REJECTED = [
    (
        lambda x: ops.custom_call("", [x], Shape("f32", (2,))),
        mx.AttributeValueError,
        ["(C1)", "target_name must not be empty"],
    ),
    (
        lambda x: ops.custom_call("tests.unknown", [x], Shape("f32", (2,))),
        mx.TransformError,
        ["'tests.unknown' has no Python function", "register_custom_call"],
    ),
    (
        lambda x: ops.custom_call("tests.split", [x], Shape("f32", (2,))),
        mx.ShapeError,
        ["other shapes than declared", "declared: f32[2]", "returned: float32[1], float32[1]"],
    ),
    (
        lambda x: ops.custom_call("tests.scaled", [x], Shape("f32", (2,)), {"no name": 1}),
        mx.AttributeValueError,
        ["options must be attributes", "'no name' is not a valid attribute name"],
    ),
    (
        lambda x: mx.grad(
            lambda x: ops.custom_call("tests.scaled", [x], Shape("f32", (2,)), {"factor": 1}).sum()
        )(x),
        mx.DerivativeError,
        ["the derivative of user code is unknown"],
    ),
]


@pytest.mark.parametrize(("function", "kind", "phrases"), REJECTED, ids=lambda each: "")
def test_rejected(function, kind, phrases):
    with pytest.raises(kind) as caught:
        mx.reference(function)(X)
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_target_has_one_function():
    with pytest.raises(mx.AttributeValueError, match="already has a function"):
        ops.register_custom_call("tests.split", lambda x: x)


KERNEL = r"""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Shifted(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, int64_t by) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + by;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(shifted, Shifted, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<int64_t>("by"));
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test with")
def test_compiled_code_is_called(tmp_path):
    source, library = tmp_path / "shifted.cc", tmp_path / "shifted.so"
    source.write_text(KERNEL)
    flags = ["-std=c++17", "-fPIC", "-shared", "-I", jax.ffi.include_dir()]
    subprocess.run(["g++", *flags, "-o", library, source], check=True, timeout=300)
    symbol = ctypes.CDLL(str(library)).shifted
    jax.ffi.register_ffi_target("tests.shifted", jax.ffi.pycapsule(symbol), platform="cpu")

    def function(x):
        return ops.custom_call("tests.shifted", [x], Shape("f32", (2,)), {"by": 5})

    np.testing.assert_array_equal(mx.jit(function)(X), X + 5)
    np.testing.assert_array_equal(mx.vmap(function)(np.stack([X, X + 1])), [X + 5, X + 6])


def test_a_callback_of_another_process_is_refused():
    def call(target):
        return lambda x: ops.custom_call(target, [x], Shape("f32", (2,)))

    x = np.ones(2, np.float32)
    for evaluate in (mx.reference, mx.jit):
        with pytest.raises(mx.TransformError, match="Python function of another process"):
            evaluate(call("xla_ffi_python_cpu_callback"))(x)
    with pytest.raises(mx.TransformError, match="has no Python function"):
        mx.reference(call("users_python_callback"))(x)
