"""Programs compile for TPU v5e and H100, or are refused in our words before XLA is asked.

`make far` runs these: they need the packages of the extra `far`. Nothing runs on such a device.
"""

from __future__ import annotations

import functools
import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import minixla as mx
import minixla_ops as ops
from benchmarks.far import FRAMEWORKS, Program, programs
from minixla.core.errors import TransformError
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla.engine.far import Refused
from minixla.tools.cost_reports import device_rows
from tests.oracles.far import PLATFORMS, compile_on, missing, refusals
from tests.programs import draft
from tests.programs.examples import ROWS, example

pytestmark = pytest.mark.far

ROOT = Path(__file__).parent.parent
KINDS = ("f32", "bf16", "f64", "s32", "u8", "s64", "s4", "c64", "c128", "pred", "f8e4m3fn")
X = jax.ShapeDtypeStruct((8, 8), np.float32)


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=PLATFORMS)
def platform(request):
    why = missing(request.param)
    if why:
        pytest.skip(f"nothing compiles for {request.param} here: {why}")
    return request.param


def function_of(program: draft.Program) -> tuple[Callable[..., Any], list[Any]]:
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.inputs]
    return lambda *xs: evaluate_graph(program.graph, xs), shapes


@pytest.mark.parametrize("name", ROWS)
def test_operations(name, platform):
    wanted = {}
    for kind in KINDS:
        program = example(name, kind)
        if program is not None:
            function, shapes = function_of(program)
            wanted[kind, str(program.graph)] = mx.jit(function), shapes
    assert refusals(platform, wanted) == {}


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


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_and_batches(name, platform):
    wanted = {}
    for kind in KINDS:
        program = example(name, kind)
        if program is not None:
            function, shapes = function_of(program)
            batched = [jax.ShapeDtypeStruct((2, *each.shape), each.dtype) for each in shapes]
            wanted[kind, str(program.graph)] = mx.jit(derived(function, shapes)), batched
    known = DEFECTS.get((platform, name))
    refused = refusals(platform, wanted)
    assert {key: said for key, said in refused.items() if known is None or known not in said} == {}
    assert known is None or refused, "XLA's defect is mended: take it out of the table"


@pytest.mark.parametrize("program", programs(small=True), ids=lambda each: each.name)
def test_models_and_layers(program: Program, platform):
    ours = FRAMEWORKS[0]
    found = compile_on(platform, ours.jit(program.function(ours)), *program.shapes)
    assert found.text.startswith("HloModule")
    assert found.numbers["arguments"] > 0
    assert (found.numbers.get("flops", 0) > 0) == (platform == "tpu")


def digits(module: Any) -> tuple[Any, tuple[Any, ...]]:
    images, labels = np.zeros((8, 8, 8, 1), np.float32), np.zeros(8, np.int32)
    return module.train_step, (*module.initial_state(0), images, labels, np.float32(0.1))


def characters(module: Any) -> tuple[Any, tuple[Any, ...]]:
    parameters = module.initial_parameters(0, 64, 2, 64, 32)
    adam = (np.float32(0), parameters, parameters)
    window, rate = np.zeros((8, 33), np.int32), np.float32(0.1)

    def step(parameters: Any, adam: Any, window: Any, rate: Any) -> Any:
        return module.train_step(parameters, adam, window, rate, True)

    return mx.jit(step), (parameters, adam, window, rate)


def strengths(module: Any) -> tuple[Any, tuple[Any, ...]]:
    data, other, _ = module.problem(4, 0)
    gradient = mx.grad(lambda s: module.error(module.solve(s, data)[0], other))
    return mx.jit(gradient), (np.zeros(4, np.float32),)


def orbit(module: Any) -> tuple[Any, tuple[Any, ...]]:
    gradient = mx.grad(lambda mean, e: module.anomaly(mean, e).sum(), argnums=(0, 1))
    return mx.jit(gradient), (np.ones(3, np.float32), np.float32(0.3))


EXAMPLES = {
    "train_digits": digits,
    "char_transformer": characters,
    "meta": strengths,
    "optax_orbit": orbit,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name, platform, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    jitted, arguments = EXAMPLES[name](importlib.import_module(name))
    with jax.enable_x64(False):
        assert compile_on(platform, jitted, *arguments).text.startswith("HloModule")


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


@pytest.mark.parametrize("name", OTHERS)
def test_other_operations(name, platform):
    found = refusals(platform, {name: (mx.jit(OTHERS[name]), [X])})
    assert found == {}


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
    "random numbers": lambda x: mx.from_jax(lambda: jax.random.normal(jax.random.key(0), (3,)))(),
}


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow_and_random_numbers(name, platform):
    assert compile_on(platform, mx.jit(CONTROL_FLOW[name]), X).text


@pytest.mark.parametrize(("topology", "sizes"), [("2x2", (2, 2)), ("16x16", (16, 16))])
def test_sharded_programs(topology, sizes):
    why = missing("tpu")
    if why:
        pytest.skip(f"nothing compiles for tpu here: {why}")
    mesh = AbstractMesh(sizes, ("data", "model"))
    columns, rows, whole = (
        NamedSharding(mesh, PartitionSpec(*each)) for each in ((None, "model"), ("data",), ())
    )
    step = mx.jit(
        mx.value_and_grad(lambda w, x: (mx.numpy.tanh(x @ w) ** 2).sum()),
        in_shardings=(columns, rows),
        out_shardings=(whole, columns),
    )
    found = compile_on(
        f"tpu v5e:{topology}", step, *[jax.ShapeDtypeStruct((512, 512), np.float32)] * 2
    )
    assert "all-reduce" in found.text
    assert found.numbers["arguments"] == 512 * 512 * 4 * (1 / sizes[1] + 1 / sizes[0])


FOUR = mx.sharding.Mesh(None, ("x", "y"), shape=(2, 2))
#: Functions of f32[8,16] on four chips, and a collective of theirs.
ON_CHIPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shard_map": (
        mx.shard_map(
            lambda x: mx.psum(mx.numpy.sin(x), "y"),
            mesh=FOUR,
            in_specs=PartitionSpec("x", "y"),
            out_specs=PartitionSpec("x"),
        ),
        "all-reduce",
    ),
    "pmap": (
        lambda x: mx.pmap(lambda x: mx.ppermute(x, "i", [(0, 1), (1, 0)]), "i")(x[:4]),
        "collective-permute",
    ),
    "pmap in a loop": (
        lambda x: mx.fori_loop(
            0, 3, lambda _, v: mx.pmap(lambda x: mx.pmean(x, "i") * x, "i")(v), x.reshape(4, 32)
        ),
        "all-reduce",
    ),
    "gradient of a shard_map": (
        mx.grad(
            lambda x: mx.shard_map(
                lambda x: mx.psum((x**3).sum(), ("x", "y")),
                mesh=FOUR,
                in_specs=PartitionSpec("x", "y"),
                out_specs=PartitionSpec(),
            )(x)
        ),
        "all-reduce",
    ),
}


@pytest.mark.parametrize("name", ON_CHIPS)
def test_programs_mapped_over_chips(name):
    why = missing("tpu")
    if why:
        pytest.skip(f"nothing compiles for tpu here: {why}")
    function, collective = ON_CHIPS[name]
    x = jax.ShapeDtypeStruct((8, 16), np.float32)
    report = mx.cost(function, x, platform="tpu v5e:2x2")
    opcodes = {row.opcode.removesuffix("-start") for row in report.device_rows}
    assert collective in opcodes
    assert report.xla["bytes"] > 0


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
    if missing(where):
        pytest.skip(f"nothing compiles for {where} here: {missing(where)}")
    images, kernel = (jax.ShapeDtypeStruct(s, kind) for s in ((1, 8, 8, 4), (3, 3, 4, 4)))
    with pytest.raises(TransformError, match=message) as caught:
        compile_on(where, mx.jit(lambda x, k: mx.nn.conv(x, k)), images, kernel)
    assert "convert to another type" in str(caught.value)
    assert "test_platforms.py" in str(caught.value)


@pytest.mark.parametrize("kind", ["c128", "s2", "u2"])
def test_element_types_that_tpus_lack_are_refused(kind):
    if missing("tpu"):
        pytest.skip(f"nothing compiles for tpu here: {missing('tpu')}")
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
    why = missing(where)
    if why:
        pytest.skip(f"nothing compiles for {where} here: {why}")
    with pytest.raises(Refused):
        compile_on(where, mx.jit(lambda x: kind()(x)), X)
    assert "planted" in refusals(where, {"planted": (mx.jit(lambda x: kind()(x)), [X])})


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5, 5), (2, 0, 0)], ids=str)
def test_cholesky_factors_of_gpus_are_cusolvers_as_in_jax(sizes, lower):
    if missing("gpu"):
        pytest.skip(f"nothing compiles for gpu here: {missing('gpu')}")
    matrices = jax.ShapeDtypeStruct(sizes, np.float32)
    ours = compile_on("gpu", mx.jit(lambda x: ops.cholesky(x, lower)), matrices)
    assert ("cusolver_potrf" in ours.text) == (0 not in sizes)
    if lower and 0 not in sizes:
        factor = functools.partial(jax.lax.linalg.cholesky, symmetrize_input=False)
        theirs = compile_on("gpu", jax.jit(factor), matrices)
        kernels = [[row.opcode for row in device_rows(each.text)] for each in (ours, theirs)]
        assert kernels[0] == kernels[1]


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

    return mx.from_jax(function, platform=platform)(x)


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
    if missing("gpu"):
        pytest.skip(f"nothing compiles for gpu here: {missing('gpu')}")
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
