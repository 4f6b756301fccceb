// ZeroOut: all elements are zero but one, which stays.

#include <cstring>

#include "minixla/op_library.h"

namespace ffi = xla::ffi;

template <ffi::DataType T>
ffi::Error ZeroOut(ffi::Buffer<T> to_zero, ffi::ResultBuffer<T> zeroed, int64_t preserve_index) {
  const int64_t size = to_zero.element_count();
  OP_REQUIRES(preserve_index < size || size == 0, "preserve_index out of range");
  std::memset(zeroed->untyped_data(), 0, zeroed->size_bytes());
  if (size > 0) zeroed->typed_data()[preserve_index] = to_zero.typed_data()[preserve_index];
  return ffi::Error::Success();
}

#define ZERO_OUT(name, type)                            \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, ZeroOut<type>,    \
                                ffi::Ffi::Bind()        \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Attr<int64_t>("preserve_index"))
ZERO_OUT(ZeroOutF32, ffi::F32);
ZERO_OUT(ZeroOutF64, ffi::F64);
ZERO_OUT(ZeroOutS32, ffi::S32);
#undef ZERO_OUT

MINIXLA_OP("ZooZeroOut")
    .Attr("T: {float, double, int32}")
    .Attr("preserve_index: int >= 0 = 0")
    .Input("to_zero: T")
    .Output("zeroed: T")
    .Doc(R"(Zeros, but for one element, which stays.

preserve_index: its index in the flattened array.
)")
    .ShapeFn(minixla::UnchangedShape)
    .Kernel("cpu", "ZeroOutF32", {{"T", "float"}})
    .Kernel("cpu", "ZeroOutF64", {{"T", "double"}})
    .Kernel("cpu", "ZeroOutS32", {{"T", "int32"}});
