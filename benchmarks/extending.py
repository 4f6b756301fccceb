"""Operations of one's own: a kernel in C++, called and traced beside `jax.ffi`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, interleaved, per_call

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


def extending(effort: Effort) -> Iterator[Comparison]:
    """Calls of a C++ operation in a jitted function, and tracing of many, beside `jax.ffi`."""
    library = mx.load_op_library(mx.build_op_library([_SOURCE], name="benchmark"))
    ours = library.benchmark_scaled
    (target,) = [kernel.target for kernel in library.BenchmarkScaled.kernels.listed]

    def theirs(x: Any, factor: Any) -> Any:
        made = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(target, made)(x, factor=np.float32(factor))

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
