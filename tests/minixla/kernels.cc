// The compiled kernels that tests share.

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

// The sum of the first `n` arrays less that of the others, times XLA's number of their type.
static ffi::Error Difference(ffi::RemainingArgs args, ffi::ResultBuffer<ffi::F32> y, int64_t n,
                             int32_t type) {
  std::memset(y->untyped_data(), 0, y->size_bytes());
  for (size_t a = 0; a < args.size(); ++a) {
    auto x = args.get<ffi::Buffer<ffi::F32>>(a);
    const float factor = a < static_cast<size_t>(n) ? type : -type;
    for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] += factor * x->typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(difference, Difference,
                              ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("N")
                                  .Attr<int32_t>("T"));

// x times n; and what is wrong in one way each.
enum class Scaling { kRight, kOff, kByTwo, kBroken };

template <Scaling kind>
static ffi::Error Scaled(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, int64_t n) {
  if (kind == Scaling::kBroken) return ffi::Error::Internal("it is broken");
  const size_t size = x.element_count();
  for (size_t i = 0; i < size; ++i) {
    const float off = kind == Scaling::kOff && i == size - 1;
    y->typed_data()[i] = x.typed_data()[i] * (kind == Scaling::kByTwo ? 2 : n) + off;
  }
  return ffi::Error::Success();
}

#define SCALED(name, kind)                                                     \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Scaled<Scaling::kind>,                   \
                                ffi::Ffi::Bind()                               \
                                    .Arg<ffi::Buffer<ffi::F32>>()              \
                                    .Ret<ffi::Buffer<ffi::F32>>()              \
                                    .Attr<int64_t>("n"))
SCALED(scaled, kRight);
SCALED(scaled_off, kOff);
SCALED(scaled_by_two, kByTwo);
SCALED(broken, kBroken);

// Element 0 of x, read before or after y is cleared; the other result says whether both are in the
// same memory.
template <bool clears_first>
static ffi::Error First(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32>,
                        ffi::ResultBuffer<ffi::F32> same, ffi::ResultBuffer<ffi::F32> y) {
  const float first = x.element_count() && !clears_first ? x.typed_data()[0] : 0;
  for (size_t i = 0; i < same->element_count(); ++i)
    same->typed_data()[i] = x.untyped_data() == y->untyped_data();
  std::memset(y->untyped_data(), 0, y->size_bytes());
  if (x.element_count()) y->typed_data()[0] = clears_first ? x.typed_data()[0] : first;
  return ffi::Error::Success();
}

#define FIRST(name, clears_first)                                              \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, First<clears_first>,                     \
                                ffi::Ffi::Bind()                               \
                                    .Arg<ffi::Buffer<ffi::F32>>()              \
                                    .Arg<ffi::Buffer<ffi::F32>>()              \
                                    .Ret<ffi::Buffer<ffi::F32>>()              \
                                    .Ret<ffi::Buffer<ffi::F32>>())
FIRST(careful, false);
FIRST(careless, true);

static ffi::Error Positive(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    if (x.typed_data()[i] < 0)
      return ffi::Error(ffi::ErrorCode::kInvalidArgument, "negative number");
    y->typed_data()[i] = x.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    positive, Positive,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
