"""Compare a custom operation in C++ with `jax.ffi`: calls, tracing, sharding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call

_SOURCE = """
#include "minixla/op_library.h"
namespace ffi = xla::ffi;
ffi::Error Scaled(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float factor) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ScaledF32, Scaled, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<float>("factor"));
MINIXLA_OP("BenchmarkScaled").Attr("factor: float").Input("x: float").Output("y: float")
    .ShapeFn(minixla::UnchangedShape).Kernel("cpu", "ScaledF32");
"""
_LENGTH = 1_000


_DEVICES = 8


def _both() -> tuple[Any, Any]:
    """Return a function of an array and a factor, by a custom operation and by `jax.ffi`."""
    library = mx.load_op_library(mx.build_op_library([_SOURCE], name="benchmark"))
    library.BenchmarkScaled.sharding_rule("... i -> ... i")
    (target,) = [kernel.target for kernel in library.BenchmarkScaled.kernels.listed]

    def theirs(x: Any, factor: Any) -> Any:
        made = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(target, made)(x, factor=np.float32(factor))

    return library.benchmark_scaled, theirs


def extending(effort: Effort) -> Iterator[Comparison]:
    """Measure calls of a C++ operation in `jit`, tracing of many, and calls on sharded arrays."""
    ours, theirs = _both()
    x = jax.device_put(np.ones(8, np.float32))
    jitted = {"minixla": mx.jit(lambda x: ours(x, 2.0)), "jax": jax.jit(lambda x: theirs(x, 2.0))}
    variants = {name: partial(function, x) for name, function in jitted.items()}
    yield per_call("jitted call of a C++ operation", variants, effort.rounds(50), 200)
    length = 10 if effort.small else _LENGTH

    def chain(step: Any) -> Any:
        def chained(x: Any) -> Any:
            for index in range(length):
                x = step(x, 1.0 + index % 7)
            return x

        return chained

    making = {
        "minixla": lambda: mx.make_graph(chain(ours))(x),
        "jax": lambda: jax.make_jaxpr(chain(theirs))(x),
    }
    name = f"trace of {length:,} calls of C++ operations, each"
    yield interleaved(name, making, effort.rounds(20), "us", per=length, collect=True)
    yield from _of_child(effort)


def _of_child(effort: Effort) -> Iterator[Comparison]:
    """Run `sharded` in a process with as many CPU devices."""
    flag = f"--xla_force_host_platform_device_count={_DEVICES}"
    program = f"from benchmarks.extending import *; print(json.dumps([*sharded({effort})]))"
    environment = {**os.environ, "XLA_FLAGS": flag}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True
    )
    for each in json.loads(run.stdout.splitlines()[-1]):
        yield Comparison(*each)


def sharded(effort: Effort) -> Iterator[Comparison]:
    """Measure an operation that XLA does not partition: on pieces, or on gathered arrays."""
    sharding = NamedSharding(jax.make_mesh((_DEVICES,), ("x",)), PartitionSpec("x"))
    ours, theirs = _both()
    length = 128 if effort.small else 1 << 15
    functions: list[tuple[str, Any, Any, tuple[int, int], Any]] = [
        (
            "C++ operation on an array",
            lambda x: ours(x, 2.0),
            lambda x: theirs(x, 2.0),
            (_DEVICES, 16 * length),
            np.float32,
        ),
        (
            "Fourier transform of rows",
            lambda x: mx.ops.fft(x, "FFT", (length,)),
            jax.numpy.fft.fft,
            (8 * _DEVICES, length),
            np.complex64,
        ),
    ]
    for name, first, second, sizes, dtype in functions:
        x = jax.device_put(np.ones(sizes, dtype), sharding)
        jitted = {"minixla": mx.jit(first), "jax": jax.jit(second)}
        variants = {each: blocking(function, x) for each, function in jitted.items()}
        yield interleaved(f"{name} over {_DEVICES} devices", variants, effort.rounds(20))
