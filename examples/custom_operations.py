"""Define and check three custom operations: median pooling, a Pallas softmax, and a gather.

Median pooling is like max pooling, with the median. As a composition it extracts and sorts every
window. A C++ kernel does not need that array. The composition remains the meaning of the operation
and defines its derivative; the kernel only replaces how it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import drawing
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas

import minixla as mx

MEDIANS = """
#include <algorithm>
#include <cmath>
#include <vector>
#include "minixla/op_library.h"
namespace ffi = xla::ffi;

// As in the composition: -0 before 0, NaN last.
bool Before(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

ffi::Error MedianPool(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> images,
                      ffi::ResultBuffer<ffi::F32> medians, int64_t size) {
  const auto in = images.dimensions(), out = medians->dimensions();
  const float* given = images.typed_data();
  float* found = medians->typed_data();
  minixla::Shard(pool, medians->element_count(), 1024, [&](int64_t start, int64_t limit) {
    std::vector<float> window(size * size);
    for (int64_t at = start; at < limit; ++at) {
      const int64_t column = at % out[2], row = at / out[2] % out[1], image = at / out[2] / out[1];
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j)
          window[i * size + j] = given[(image * in[1] + row + i) * in[2] + column + j];
      auto middle = window.begin() + window.size() / 2;
      std::nth_element(window.begin(), middle, window.end(), Before);
      found[at] = *middle;
    }
  });
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(MedianPoolF32, MedianPool, ffi::Ffi::Bind()
    .Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>()
    .Attr<int64_t>("size"));
"""

median_pool = mx.register_op(
    "ExampleMedianPool",
    attrs=["size: int >= 1 = 3"],
    inputs=["images: float"],
    outputs=["medians: float"],
    doc="""Medians of windows that slide over images.

    images: f32[batch, height, width].
    size: the height and width of windows, odd.
    """,
)


@median_pool.composition
def _(ctx: Any, images: Any) -> Any:
    size = ctx.attr("size")
    ctx.require(size % 2 == 1, "the size of windows must be odd, so that there is a median")
    rows, columns = (each - size + 1 for each in images.shape[1:])
    places = [(i, j) for i in range(size) for j in range(size)]
    shifted = [images[:, i : i + rows, j : j + columns] for i, j in places]
    ordered = mx.ops.sort(
        mx.numpy.stack(shifted, -1), comparator=mx.ops.lt_total_order, dimension=3
    )
    return ordered[..., size * size // 2]


def use_compiled_medians() -> None:
    """From here on programs for CPUs run the C++ kernel."""
    library = mx.build_op_library([MEDIANS], name="median_pool")
    median_pool.kernel("cpu", ffi="MedianPoolF32", library=library)


softmax = mx.register_op(
    "ExampleSoftmax", inputs=["x: float"], outputs=["y: float"], shape_fn=mx.unchanged_shape
)


@softmax.kernel("reference")
def _(ctx: Any, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(-1, keepdims=True)


def _softmax_kernel(x: Any, y: Any) -> None:
    powers = jnp.exp(x[...] - x[...].max(-1, keepdims=True))
    y[...] = powers / powers.sum(-1, keepdims=True)


def _softmax_by_pallas(x: Any, interpret: bool) -> Any:
    made = jax.ShapeDtypeStruct(x.shape, x.dtype)
    if x.size == 0:
        return x
    return pallas.pallas_call(_softmax_kernel, out_shape=made, interpret=interpret)(x)


@softmax.kernel("cpu")
def _(ctx: Any, x: Any) -> Any:
    return _softmax_by_pallas(x, interpret=True)


@softmax.kernel("tpu")
def _(ctx: Any, x: Any) -> Any:
    return _softmax_by_pallas(x, interpret=False)


@softmax.gradient
def _(ctx: Any, grad: Any) -> list[Any]:
    (y,) = ctx.outputs
    return [y * (grad - (y * grad).sum(-1, keepdims=True))]


picked = mx.register_op(
    "ExamplePicked",
    attrs=["T: {float, double}"],
    inputs=["values: T", "index: int32"],
    outputs=["chosen: T", "rest: T"],
    shape_fn=lambda ctx, values, index: [[], values.with_rank(1)],
    doc="""One element, and the others with zero in its place.""",
)


@picked.kernel("reference")
def _(ctx: Any, values: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    is_chosen = np.arange(values.size) == index
    return [np.asarray(values[is_chosen].sum()), np.where(is_chosen, 0, values)]


@picked.kernel("cpu")
def _(ctx: Any, values: Any, index: Any) -> list[Any]:
    is_chosen = mx.numpy.arange(values.size, dtype=np.int32) == index
    nothing = np.zeros((), values.dtype)
    chosen = mx.numpy.where(is_chosen, values, nothing).sum()
    return [chosen, mx.numpy.where(is_chosen, nothing, values)]


@picked.gradient
def _(ctx: Any, grads: list[Any]) -> list[Any]:
    """No gradient for the index: it is an integer."""
    _, index = ctx.inputs
    chosen, rest = grads
    is_chosen = mx.numpy.arange(rest.size, dtype=np.int32) == index
    return [mx.numpy.where(is_chosen, chosen, rest), None]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return a function's result, and its least time of ten calls in milliseconds."""
    times, result = [], None
    for _ in range(10):
        start = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return result, min(times) * 1e3


def main(size: int = 128) -> None:
    """Check the operations, and time both kernels of median pooling."""
    random = np.random.default_rng(0)
    small, images = (random.standard_normal((2, n, n), np.float32) for n in (6, size))
    composed, before = timed(mx.jit(lambda x: median_pool(x, size=5)), images)
    use_compiled_medians()
    compiled, after = timed(mx.jit(lambda x: median_pool(x, size=5)), images)
    np.testing.assert_array_equal(composed, compiled)
    print(f"medians of 5x5, {size}x{size}: composed {before:.2f} ms, in C++ {after:.2f} ms")
    row = random.standard_normal((3, 4), np.float32)
    for operation, case in (
        (median_pool, (small,)),
        (softmax, (row,)),
        (picked, (row[0], np.int32(2))),
    ):
        report = mx.check_op(operation, [case])
        assert report.ok, report
        print(f"{operation.name}: {len(report.checks)} checks, all well")
    noisy = np.where(random.random((3, 48, 48)) < 0.2, random.random((3, 48, 48)), 0.5)
    noisy[:, 12:36, 12:36] += 0.4
    pooled = median_pool(noisy.astype(np.float32), size=5)
    drawing.images("custom_operations", {"noisy": noisy, "medians of 5 x 5": pooled})


if __name__ == "__main__":
    main()
