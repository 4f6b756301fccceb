// Kernels of the tests: ZeroOut and its variants, and operations with lists and several outputs.

#include <cstring>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Keep(int64_t index, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (index < 0) {
    return ffi::Error::InvalidArgument("Need preserve_index >= 0, got " + std::to_string(index));
  }
  std::memset(y->untyped_data(), 0, y->size_bytes());
  const int64_t count = x.element_count();
  if (count == 0) return ffi::Error::Success();
  if (index >= count) return ffi::Error::InvalidArgument("preserve_index out of range");
  const size_t width = x.size_bytes() / count;
  std::memcpy(static_cast<char*>(y->untyped_data()) + index * width,
              static_cast<char*>(x.untyped_data()) + index * width, width);
  return ffi::Error::Success();
}

static ffi::Error ZeroOut(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) { return Keep(0, x, y); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(zero_out, ZeroOut,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(keep, Keep,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("preserve_index")
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

static ffi::Error Cube(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    const float v = x.typed_data()[i];
    y->typed_data()[i] = v * v * v;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    cube, Cube, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// x[i] times index[i], and the sum of the indices.
static ffi::Error Weigh(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::S32> index,
                        ffi::ResultBuffer<ffi::F32> y, ffi::ResultBuffer<ffi::S32> total) {
  total->typed_data()[0] = 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = x.typed_data()[i] * index.typed_data()[i];
    total->typed_data()[0] += index.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(weigh, Weigh,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

// The sum of all arrays.
static ffi::Error AddAll(ffi::RemainingArgs args, ffi::ResultBuffer<ffi::F32> y) {
  std::memset(y->untyped_data(), 0, y->size_bytes());
  for (size_t a = 0; a < args.size(); ++a) {
    auto x = args.get<ffi::Buffer<ffi::F32>>(a);
    for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] += x->typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    add_all, AddAll, ffi::Ffi::Bind().RemainingArgs().Ret<ffi::Buffer<ffi::F32>>());

// What of each attribute arrived: a number for each kind.
static ffi::Error Attributes(int64_t i, float f, bool b, std::string_view s, int32_t t,
                             ffi::Span<const int64_t> shape, ffi::Span<const int64_t> ints,
                             ffi::Span<const float> floats, ffi::Dictionary strings,
                             ffi::ResultBuffer<ffi::F32> y) {
  float* out = y->typed_data();
  out[0] = i;
  out[1] = f;
  out[2] = b;
  out[3] = s.size();
  out[4] = static_cast<unsigned char>(s[0]);
  out[5] = t;
  out[6] = shape.size() * 10 + shape[1];
  out[7] = ints.size();
  out[8] = floats[1];
  out[9] = strings.get<std::string_view>("1")->size();
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("i")
                                  .Attr<float>("f")
                                  .Attr<bool>("b")
                                  .Attr<std::string_view>("s")
                                  .Attr<int32_t>("t")
                                  .Attr<ffi::Span<const int64_t>>("sh")
                                  .Attr<ffi::Span<const int64_t>>("ints")
                                  .Attr<ffi::Span<const float>>("floats")
                                  .Attr<ffi::Dictionary>("strings")
                                  .Ret<ffi::Buffer<ffi::F32>>());
