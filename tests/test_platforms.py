"""Programs compile for TPU v5e and H100, or are refused in our words before XLA is asked.

`make far` runs these: they need the packages of the extra `far`. Nothing runs on such a device.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from benchmarks.far import FRAMEWORKS, Program, programs
from minixla.core.errors import TransformError
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla.engine.cross_compile import Refused
from minixla.tools.cost_reports import device_rows
from tests.oracles.far import PLATFORMS, compile_on, refusals, require
from tests.programs import draft
from tests.programs.domains import KINDS as ALL_KINDS
from tests.programs.examples import ROWS, example

pytestmark = pytest.mark.far

#: Element types of each width and kind; `--full` takes the others besides.
KINDS = ("f32", "bf16", "f64", "s32", "u8", "s64", "s4", "c64", "c128", "pred", "f8e4m3fn")
OTHER_KINDS = (*[each for each in ALL_KINDS if each not in KINDS], "s2", "u2")
EACH_KINDS = pytest.mark.parametrize(
    "kinds", [KINDS, pytest.param(OTHER_KINDS, marks=pytest.mark.full)], ids=["usual", "others"]
)
X = jax.ShapeDtypeStruct((8, 8), np.float32)


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=PLATFORMS)
def platform(request):
    require(request.param)
    return request.param


def function_of(program: draft.Program) -> tuple[Callable[..., Any], list[Any]]:
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.inputs]
    return lambda *xs: evaluate_graph(program.graph, xs), shapes


def examples_of(name: str, kinds: Iterable[str]) -> dict[tuple[str, str], draft.Program]:
    """By element type and text a row's programs, each once: not every row has all types."""
    found: dict[str, tuple[str, draft.Program]] = {}
    for kind in kinds:
        program = example(name, kind)
        if program is not None:
            found.setdefault(str(program.graph), (kind, program))
    return {(kind, text): program for text, (kind, program) in found.items()}


def is_joined(name: str) -> bool:
    """Whether a row's programs are compiled as one: not loops and factors of matrices."""
    return not name.startswith("inexact ")


@EACH_KINDS
@pytest.mark.parametrize("name", ROWS)
def test_operations(name, kinds, platform):
    wanted = {}
    for key, program in examples_of(name, kinds).items():
        function, shapes = function_of(program)
        wanted[key] = mx.jit(function), shapes
    assert refusals(platform, wanted, together=is_joined(name)) == {}


def derived(function: Callable[..., Any], shapes: list[Any]) -> Callable[..., Any]:
    """A function's batch, and its derivatives in both modes at the first member of it."""
    inexact = [n for n, each in enumerate(shapes) if jnp.issubdtype(each.dtype, jnp.inexact)]

    def everything(*batches: Any) -> Any:
        found = [mx.vmap(function)(*batches)]
        members = [each[0] for each in batches]
        variables = tuple([members[n] for n in inexact])

        def of_variables(*given: Any) -> Any:
            known = dict(zip(inexact, given, strict=True))
            return function(*[known.get(n, each) for n, each in enumerate(members)])

        if variables:
            results, pull = mx.vjp(of_variables, *variables)
            found += [pull(jax.tree.map(cotangent, results))]
            found += [mx.jvp(of_variables, variables, variables)]
        # Tangents of integers hold nothing, and cannot leave a program that is exported.
        leaves = jax.tree.leaves(found)
        return [each for each in leaves if getattr(each, "dtype", None) != jax.dtypes.float0]

    return everything


def cotangent(result: Any) -> Any:
    if jnp.issubdtype(result.dtype, jnp.inexact):
        return result
    return np.zeros(result.shape, jax.dtypes.float0)


# Defects of XLA's compilers (of jaxlib 0.10.2 and its libtpu), by platform and row: what they say.
DEFECTS = {
    # Slices of slices of a batch, whose indices are bytes.
    ("tpu", "dynamic_slice"): "subshape().element_type() == scalar.shape().element_type()",
    # Two small products of doubles that share an operand.
    ("gpu", "inexact dot_general"): "Couldn't find output tile sizes that satisfy",
}


@EACH_KINDS
@pytest.mark.parametrize("name", ROWS)
def test_derivatives_and_batches(name, kinds, platform):
    wanted = {}
    for key, program in examples_of(name, kinds).items():
        function, shapes = function_of(program)
        batched = [jax.ShapeDtypeStruct((2, *each.shape), each.dtype) for each in shapes]
        wanted[key] = mx.jit(derived(function, shapes)), batched
    known = DEFECTS.get((platform, name)) if kinds is KINDS else None
    refused = refusals(platform, wanted, together=is_joined(name) and known is None)
    assert {key: said for key, said in refused.items() if known is None or known not in said} == {}
    assert known is None or refused, "XLA's defect is mended: take it out of the table"


@pytest.mark.parametrize("program", programs(small=True), ids=lambda each: each.name)
def test_models_and_layers(program: Program, platform):
    ours = FRAMEWORKS[0]
    found = compile_on(platform, ours.jit(program.function(ours)), *program.shapes)
    assert found.text.startswith("HloModule")
    assert found.numbers["arguments"] > 0
    assert (found.numbers.get("flops", 0) > 0) == (platform == "tpu")


# Of what is in no table of random programs; of one array each.
_SPECIAL = """acos acosh asin asinh atan atanh digamma erf erf_inv erfc lgamma sinh cosh cbrt"""
OTHERS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(ops, name) for name in _SPECIAL.split()},
    "zeta": lambda x: ops.zeta(x, x),
    "polygamma": lambda x: ops.polygamma(x, x),
    "next_after": lambda x: ops.next_after(x, x),
    "rng_uniform": lambda x: ops.rng_uniform(x[0, 0], x[0, 1], Shape("f32", (4,))),
    "rng_normal": lambda x: ops.rng_normal(x[0, 0], x[0, 1], Shape("f32", (4,))),
    "set_dimension_size": lambda x: ops.reduce(
        ops.set_dimension_size(x, x[0, 0].astype(np.int32), 0), np.float32(0), ops.add, (0, 1)
    ),
    "schur": ops.schur,
    "optimization_barrier": ops.optimization_barrier,
    "all_reduce": lambda x: ops.all_reduce(x, ops.add, [[0]]),
    "all_gather": lambda x: ops.all_gather(x, 0, 1, [[0]]),
    "reduce_scatter": lambda x: ops.reduce_scatter(x, ops.add, 0, 1, [[0]]),
    "all_to_all": lambda x: ops.all_to_all(x, 0, 1, 1, [[0]]),
    "collective_permute": lambda x: ops.collective_permute(x, [(0, 0)]),
    "collective_broadcast": lambda x: ops.collective_broadcast(x, [[0]]),
    "replica_id": lambda x: x + ops.replica_id().astype(np.float32),
    "infeed": lambda x: x + ops.infeed(Shape("f32", (8, 8))),
    "outfeed": lambda x: (ops.outfeed(x, Shape("f32", (8, 8))), x)[1],
    "send": lambda x: (ops.send(x, 1), x)[1],
    "recv": lambda x: x + ops.recv(Shape("f32", (8, 8)), 1),
}


# What has neither a derivative nor a batch, in words of ours.
_FORWARD_ALONE = ("schur", "send", "set_dimension_size")


@pytest.mark.parametrize("name", OTHERS)
def test_other_operations(name, platform):
    wanted = {name: (mx.jit(OTHERS[name]), [X])}
    if name not in _FORWARD_ALONE:
        batch = jax.ShapeDtypeStruct((2, *X.shape), X.dtype)
        wanted["derived", name] = mx.jit(derived(OTHERS[name], [X])), [batch]
    assert refusals(platform, wanted) == {}


CONTROL_FLOW: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: mx.scan(lambda c, row: (c + row, c * row), x[0], x),
    "while": lambda x: mx.while_loop(lambda y: y.sum() < 100, lambda y: y * 2, x),
    "cond": lambda x: mx.cond(x.sum() > 0, mx.numpy.sin, mx.numpy.cos, x),
    "switch": lambda x: mx.switch(3, [mx.numpy.sin, mx.numpy.cos], x),
    "checkpoint": mx.grad(lambda x: mx.checkpoint(lambda y: mx.numpy.sin(y))(x).sum()),
    "grad of scan": mx.grad(lambda x: mx.scan(lambda c, r: (c * r, c), x[0], x)[0].sum()),
    "hessian": mx.hessian(lambda x: mx.numpy.tanh(x).sum()),
    "random bits": lambda x: ops.rng_bit_generator(
        "rng_three_fry", x[0, :2].astype(np.uint64), Shape("f32", (8,))
    )[1],
    "random numbers": lambda x: jax.random.normal(jax.random.key(0), (3,)),
}


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow_and_random_numbers(name, platform):
    assert compile_on(platform, mx.jit(CONTROL_FLOW[name]), X).text


REFUSED = {
    "tpu": {
        "a convolution of 64-bit integers": ("conv_general_dilated of s64", np.int64),
    },
    "gpu": {
        "a convolution of integers": ("conv_general_dilated of s32", np.int32),
    },
}


@pytest.mark.parametrize(
    ("where", "message", "kind"),
    [(where, *row) for where, rows in REFUSED.items() for row in rows.values()],
)
def test_what_a_platform_lacks_is_refused_in_our_words(where, message, kind):
    require(where)
    images, kernel = (jax.ShapeDtypeStruct(s, kind) for s in ((1, 8, 8, 4), (3, 3, 4, 4)))
    with pytest.raises(TransformError, match=message) as caught:
        compile_on(where, mx.jit(lambda x, k: mx.nn.conv(x, k)), images, kernel)
    assert "convert to another type" in str(caught.value)
    assert "test_platforms.py" in str(caught.value)


@pytest.mark.parametrize("kind", ["c128", "s2", "u2"])
def test_element_types_that_tpus_lack_are_refused(kind):
    require("tpu")
    program = mx.jit(lambda x: ops.eq(*[ops.convert_element_type(x, kind)] * 2))
    with pytest.raises(TransformError, match=f"of {kind} on tpu"):
        compile_on("tpu", program, X)


def test_calls_of_python_are_refused(platform):
    """XLA runs them where the program runs; no compiler for TPUs knows them."""

    def noted(x: Any) -> Any:
        mx.debug_print("{}", x)
        return x * 2

    with pytest.raises(TransformError, match="Python"):
        compile_on(platform, mx.jit(noted), X)


class Widened(mx.core.Operation):
    """An operation whose lowering works on CPUs alone: by way of an element type, or of Python."""

    operands = ("x",)
    way = ""

    def shape(self, x):
        return x

    def stablehlo(self, emit, operands, shapes, results):
        text = shapes[0].stablehlo
        narrow = text.replace("f32", "ui2")
        first, second, third = emit.name(), emit.name(), emit.name()
        emit.line(f"{first} = stablehlo.convert {operands[0]} : ({text}) -> {narrow}")
        emit.line(f"{second} = stablehlo.add {first}, {first} : {narrow}")
        emit.line(f"{third} = stablehlo.convert {second} : ({narrow}) -> {text}")
        return [third]


class Callback(Widened):
    """One that calls Python as programs for CPUs do."""

    def stablehlo(self, emit, operands, shapes, results):
        target = '"xla_ffi_python_cpu_callback"'
        version = "4 : i32"
        return emit.operation(
            "stablehlo.custom_call",
            operands,
            shapes,
            results,
            call_target_name=target,
            api_version=version,
            backend_config="{index = 0 : ui64}",
        )


@pytest.mark.parametrize(
    ("kind", "where"), [(Widened, "tpu"), (Callback, "tpu"), (Callback, "gpu")]
)
def test_a_lowering_for_cpus_alone_is_found(kind, where):
    require(where)
    with pytest.raises(Refused):
        compile_on(where, mx.jit(lambda x: kind()(x)), X)
    programs = {"planted": (mx.jit(lambda x: kind()(x)), [X]), "sound": (mx.jit(mx.numpy.sin), [X])}
    for together in (False, True):
        assert {*refusals(where, programs, together=together)} == {"planted"}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5, 5), (2, 0, 0)], ids=str)
def test_cholesky_factors_of_gpus_are_cusolvers_as_in_jax(sizes, lower):
    require("gpu")
    matrices = jax.ShapeDtypeStruct(sizes, np.float32)
    ours = compile_on("gpu", mx.jit(lambda x: ops.cholesky(x, lower)), matrices)
    assert ("cusolver_potrf" in ours.text) == (0 not in sizes)
    if lower and 0 not in sizes:
        factor = functools.partial(jax.lax.linalg.cholesky, symmetrize_input=False)
        theirs = compile_on("gpu", jax.jit(factor), matrices)
        kernels = [[row.opcode for row in device_rows(each.text)] for each in (ours, theirs)]
        assert kernels[0] == kernels[1]


#: What each platform has a native form of: ours and JAX's.
NATIVE: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "sort": (lambda x: ops.sort([x], ops.lt, 1), lambda x: jax.lax.sort(x), (64, 128)),
    "top_k": (lambda x: ops.top_k(x, 8), lambda x: jax.lax.top_k(x, 8), (64, 128)),
    "reduce_window": (
        lambda x: mx.nn.max_pool(x, (2, 2), (2, 2)),
        lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, _WINDOW, _WINDOW, "VALID"),
        (8, 16, 16, 32),
    ),
    "factors of a product": (
        mx.grad(lambda x: (mx.numpy.einsum("ij,kj->ik", x, x) ** 2).sum()),
        jax.grad(lambda x: (jnp.einsum("ij,kj->ik", x, x) ** 2).sum()),
        (64, 128),
    ),
}
_WINDOW = (1, 2, 2, 1)


@pytest.mark.parametrize("name", NATIVE)
def test_native_forms_compile_to_what_jaxs_do(name, platform):
    ours, theirs, sizes = NATIVE[name]
    x = jax.ShapeDtypeStruct(sizes, np.float32)
    found = [compile_on(platform, each, x) for each in (mx.jit(ours), jax.jit(theirs))]
    opcodes = [sorted(row.opcode for row in device_rows(each.text)) for each in found]
    assert opcodes[0] == opcodes[1]


def test_the_gradient_of_max_pooling_on_tpus_is_jaxs():
    require("tpu")

    def gradient(numeric: Any, pool: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return numeric.jit(lambda x: numeric.vjp(pool, x)[1](pool(x)))

    ours, theirs, sizes = NATIVE["reduce_window"]
    x = jax.ShapeDtypeStruct(sizes, np.float32)
    pairs = ((mx, ours), (jax, theirs))
    found = [compile_on("tpu", gradient(*each), x) for each in pairs]
    assert all("select-and-scatter" in each.text for each in found)
    assert found[0].numbers["bytes"] <= found[1].numbers["bytes"]


def softmax_by_pallas(context: Any, x: Any, platform: str) -> Any:
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    def kernel(given: Any, found: Any) -> None:
        powers = jnp.exp(given[...] - given[...].max(-1, keepdims=True))
        found[...] = powers / powers.sum(-1, keepdims=True)

    def function(x: Any) -> Any:
        made = jax.ShapeDtypeStruct(x.shape, x.dtype)
        how: Any = {"compiler_params": triton.CompilerParams()} if platform == "cuda" else {}
        return pallas.pallas_call(kernel, out_shape=made, **how)(x)

    return function(x)


def test_pallas_kernels(platform):
    op = mx.register_op(
        "FarSoftmax",
        inputs=["x: float"],
        outputs=["y: float"],
        shape_fn=mx.unchanged_shape,
        replace=True,
    )
    for each in ("tpu", "cuda"):
        op.kernel(each, functools.partial(softmax_by_pallas, platform=each))
    x = jax.ShapeDtypeStruct((16, 128), np.float32)
    with jax.enable_x64(False):
        found = compile_on(platform, mx.jit(lambda x: op(x) * 2), x).text
    assert {"tpu": "tpu_custom_call", "gpu": "__gpu$xla.gpu.triton"}[platform] in found


CUDA = """
#include <cuda_runtime.h>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
template <typename T> __global__ void Doubled(const T* x, T* y, int64_t n) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * gridDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < n; i += step) y[i] = 2 * x[i];
}
ffi::Error Run(cudaStream_t stream, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  Doubled<float><<<1024, 20, 0, stream>>>(x.typed_data(), y->typed_data(), x.element_count());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleF32, Run, ffi::Ffi::Bind()
    .Ctx<ffi::PlatformStream<cudaStream_t>>().Arg<ffi::Buffer<ffi::F32>>()
    .Ret<ffi::Buffer<ffi::F32>>());
"""


def test_c44_programs_with_cuda_kernels():
    require("gpu")
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc, which compiles CUDA sources")
    op = mx.register_op(
        "FarExample",
        inputs=["input: float"],
        outputs=["input_times_two: float"],
        shape_fn=mx.unchanged_shape,
    )
    op.kernel("cuda", ffi="ExampleF32", library=mx.build_op_library([], cuda_sources=[CUDA]))
    found = compile_on("gpu", mx.jit(lambda x: op(x) * 2), X).text
    assert 'custom_call_target="custom.FarExample.ExampleF32' in found
