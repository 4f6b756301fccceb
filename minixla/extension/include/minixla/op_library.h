// Operations of one's own in C++: a library that says what it holds.
//
//   #include "minixla/op_library.h"
//   namespace ffi = xla::ffi;
//
//   ffi::Error ZeroOut(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y) { ... }
//   XLA_FFI_DEFINE_HANDLER_SYMBOL(ZeroOutS32, ZeroOut,
//       ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::S32>>().Ret<ffi::Buffer<ffi::S32>>());
//
//   MINIXLA_OP("MyZeroOut")
//       .Attr("T: {int32}").Input("to_zero: T").Output("zeroed: T")
//       .ShapeFn(minixla::UnchangedShape)
//       .Kernel("cpu", "ZeroOutS32", {{"T", "int32"}});
//
// `minixla.load_op_library` reads the descriptions and registers the operations. A library is one
// shared object; its descriptions are text (JSON), so that it needs nothing of Python's to build.

#ifndef MINIXLA_OP_LIBRARY_H_
#define MINIXLA_OP_LIBRARY_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

// Checks, in kernels: `OP_REQUIRES(n > 0, "Need n > 0, got ", n)` ends the kernel with an
// INVALID_ARGUMENT error that says so. `OP_REQUIRES_OK(error)` hands another call's error on.
#define OP_REQUIRES(condition, ...)                                             \
  do {                                                                          \
    if (!(condition))                                                           \
      return ::xla::ffi::Error::InvalidArgument(::minixla::Joined(__VA_ARGS__)); \
  } while (false)

// For kernels whose indices have 32 bits.
#define OP_REQUIRES_INT32_SIZE(buffer)                                   \
  OP_REQUIRES(static_cast<int64_t>((buffer).element_count()) <= INT32_MAX, \
              "Too many elements in tensor")

#define OP_REQUIRES_OK(...)                                                     \
  do {                                                                          \
    if (::xla::ffi::Error minixla_error_ = (__VA_ARGS__); minixla_error_.failure()) \
      return minixla_error_;                                                    \
  } while (false)

#define MINIXLA_CONCATENATED_(a, b) a##b
#define MINIXLA_NAME_(counter) MINIXLA_CONCATENATED_(minixla_op_, counter)
#define MINIXLA_OP(name) \
  static ::minixla::Description& MINIXLA_NAME_(__COUNTER__) = ::minixla::Library::Add(name)

// Hidden: what one library holds is not another's.
namespace __attribute__((visibility("hidden"))) minixla {

// The layout of what a library exports; another one cannot be loaded.
inline constexpr int kVersion = 1;
// Ends the records of a question for shapes.
inline constexpr char kRecord = '\x1e';

template <typename... Parts>
std::string Joined(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// Calls work(start, limit) for parts of [0, total) on XLA's threads and the caller's, and waits.
// A part has at least `least` units. See work_sharder.h of TensorFlow.
inline void Shard(xla::ffi::ThreadPool& pool, int64_t total, int64_t least,
                  const std::function<void(int64_t, int64_t)>& work) {
  if (total <= 0) return;
  const int64_t threads = pool.num_threads() > 0 ? pool.num_threads() : 1;
  const int64_t parts = std::max<int64_t>(1, std::min(threads, total / std::max<int64_t>(1, least)));
  const int64_t size = (total + parts - 1) / parts;
  std::mutex mutex;
  std::condition_variable done;
  int64_t running = 0;
  for (int64_t start = size; start < total; start += size) {
    { std::lock_guard<std::mutex> lock(mutex); ++running; }
    pool.Schedule([&, start] {
      work(start, std::min(total, start + size));
      std::lock_guard<std::mutex> lock(mutex);
      if (--running == 0) done.notify_one();
    });
  }
  work(0, std::min(total, size));
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return running == 0; });
}

inline constexpr int64_t kUnknown = -1;

// A size, a list of sizes, or neither known: what shape functions compute with.
struct Shape {
  bool has_rank = false;
  std::vector<int64_t> sizes;  // kUnknown for a size that is not known

  Shape() = default;
  Shape(std::initializer_list<int64_t> given) : has_rank(true), sizes(given) {}
  explicit Shape(std::vector<int64_t> given) : has_rank(true), sizes(std::move(given)) {}

  std::string text() const {
    if (!has_rank) return "?";
    std::string found = "[";
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i) found += ",";
      found += sizes[i] == kUnknown ? "?" : std::to_string(sizes[i]);
    }
    return found + "]";
  }
};

// What a shape function is given, and gives; TensorFlow's InferenceContext. Members throw
// std::invalid_argument where shapes do not fit, which becomes the call's error.
class InferenceContext {
 public:
  InferenceContext(std::vector<Shape> inputs, std::vector<std::pair<std::string, std::string>> attrs,
                   size_t outputs)
      : inputs_(std::move(inputs)), attrs_(std::move(attrs)), outputs_(outputs) {}

  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  const Shape& input(size_t i) const {
    Require(i < inputs_.size(), "there is no input ", i);
    return inputs_[i];
  }
  const Shape& output(size_t i) const { return outputs_.at(i); }
  void set_output(size_t i, Shape shape) {
    Require(i < outputs_.size(), "there is no output ", i);
    outputs_[i] = std::move(shape);
  }

  // The value of an attribute as text: 3, 0.5, true, float, [2,3]; of a string its characters.
  const std::string& attr(const std::string& name) const {
    for (const auto& each : attrs_)
      if (each.first == name) return each.second;
    throw std::invalid_argument("there is no attribute " + name);
  }
  int64_t int_attr(const std::string& name) const { return std::stoll(attr(name)); }

  // The shape with this rank; an unknown one becomes so many unknown sizes.
  Shape WithRank(const Shape& shape, size_t rank) const {
    if (!shape.has_rank) return Shape(std::vector<int64_t>(rank, kUnknown));
    Require(shape.sizes.size() == rank, "Shape must be rank ", rank, " but is rank ",
            shape.sizes.size());
    return shape;
  }
  // What both say together.
  Shape Merge(const Shape& a, const Shape& b) const {
    if (!a.has_rank) return b;
    if (!b.has_rank) return a;
    Require(a.sizes.size() == b.sizes.size(), "Shapes must be equal rank, but are ",
            a.sizes.size(), " and ", b.sizes.size());
    Shape found = a;
    for (size_t i = 0; i < a.sizes.size(); ++i) {
      const int64_t other = b.sizes[i];
      if (found.sizes[i] == kUnknown) found.sizes[i] = other;
      Require(other == kUnknown || found.sizes[i] == other, "Dimension ", i,
              " in both shapes must be equal, but are ", found.sizes[i], " and ", other,
              ". Shapes are ", a.text(), " and ", b.text(), ".");
    }
    return found;
  }
  int64_t Dim(const Shape& shape, int64_t i) const {
    if (!shape.has_rank) return kUnknown;
    const int64_t rank = static_cast<int64_t>(shape.sizes.size());
    Require(-rank <= i && i < rank, "there is no dimension ", i, " in ", shape.text());
    return shape.sizes[i < 0 ? i + rank : i];
  }
  int64_t WithValue(int64_t size, int64_t wanted) const {
    Require(size == kUnknown || size == wanted, "Dimension must be ", wanted, " but is ", size);
    return wanted;
  }
  int64_t Add(int64_t a, int64_t b) const {
    return a == kUnknown || b == kUnknown ? kUnknown : a + b;
  }
  int64_t Multiply(int64_t a, int64_t b) const {
    if (a == 0 || b == 0) return 0;
    return a == kUnknown || b == kUnknown ? kUnknown : a * b;
  }
  Shape Matrix(int64_t rows, int64_t columns) const { return {rows, columns}; }

  template <typename... Parts>
  void Require(bool condition, const Parts&... parts) const {
    if (!condition) throw std::invalid_argument(Joined(parts...));
  }

 private:
  std::vector<Shape> inputs_;
  std::vector<std::pair<std::string, std::string>> attrs_;
  std::vector<Shape> outputs_;
};

using ShapeFunction = std::function<void(InferenceContext&)>;

// Output 0 is like input 0.
inline void UnchangedShape(InferenceContext& c) { c.set_output(0, c.input(0)); }

inline std::string Quoted(const std::string& text) {
  std::string found = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (found += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      const char* digits = "0123456789abcdef";
      ((found += "\\u00") += digits[(c >> 4) & 15]) += digits[c & 15];
    } else {
      found += c;
    }
  }
  return found + "\"";
}

// What a library says of one operation; see `minixla.register_op` for the grammar.
class Description {
 public:
  explicit Description(std::string name) : name_(std::move(name)) {}

  Description& Attr(const std::string& text) { return Listed(attrs_, text); }
  Description& Input(const std::string& text) { return Listed(inputs_, text); }
  Description& Output(const std::string& text) { return Listed(outputs_, text); }
  Description& Doc(std::string text) { doc_ = std::move(text); return *this; }
  Description& ShapeFn(ShapeFunction function) { shape_ = std::move(function); return *this; }

  // Code for a platform (cpu, cuda): the name of an XLA_FFI_DEFINE_HANDLER_SYMBOL of the library,
  // the attributes for which it is, such as {{"T", "float"}}, and which attributes that follow from
  // inputs it gets besides the others, such as {"N"}.
  Description& Kernel(const std::string& platform, const std::string& symbol,
                      std::vector<std::pair<std::string, std::string>> where = {},
                      int priority = 0, const std::vector<std::string>& inferred = {}) {
    std::string text = Joined("{\"platform\": ", Quoted(platform), ", \"symbol\": ",
                              Quoted(symbol), ", \"priority\": ", priority, ", \"where\": {");
    for (size_t i = 0; i < where.size(); ++i)
      text += Joined(i ? ", " : "", Quoted(where[i].first), ": ", Quoted(where[i].second));
    std::vector<std::string> names;
    for (const auto& each : inferred) names.push_back(Quoted(each));
    kernels_.push_back(Joined(text, "}, \"inferred\": ", List(names), "}"));
    return *this;
  }

  const std::string& name() const { return name_; }
  const ShapeFunction& shape() const { return shape_; }
  std::string json() const {
    return Joined("{\"name\": ", Quoted(name_), ", \"attrs\": ", List(attrs_), ", \"inputs\": ",
                  List(inputs_), ", \"outputs\": ", List(outputs_), ", \"doc\": ", Quoted(doc_),
                  ", \"has_shape\": ", shape_ ? "true" : "false", ", \"kernels\": ",
                  List(kernels_), "}");
  }

  static std::string List(const std::vector<std::string>& parts) {
    std::string found = "[";
    for (size_t i = 0; i < parts.size(); ++i) found += (i ? ", " : "") + parts[i];
    return found + "]";
  }

 private:
  Description& Listed(std::vector<std::string>& list, const std::string& text) {
    list.push_back(Quoted(text));
    return *this;
  }

  std::string name_, doc_;
  std::vector<std::string> attrs_, inputs_, outputs_, kernels_;
  ShapeFunction shape_;
};

// All that this shared object holds; each has its own.
class Library {
 public:
  static Description& Add(const std::string& name) {
    All().emplace_back(name);
    return All().back();
  }
  static std::string json() {
    std::vector<std::string> found;
    for (const Description& each : All()) found.push_back(each.json());
    return Joined("{\"version\": ", kVersion, ", \"ffi\": [", XLA_FFI_API_MAJOR, ", ",
                  XLA_FFI_API_MINOR, "], \"operations\": ", Description::List(found), "}");
  }
  // The outputs' shapes, one a line, or "!" and what is wrong. The records of the request are the
  // number of outputs ("o 1"), inputs' shapes ("i [2,?]") and attributes ("a N 3").
  static std::string Infer(const std::string& name, const std::string& request) {
    try {
      for (const Description& each : All())
        if (each.name() == name && each.shape()) return Infer(each.shape(), request);
      return "!there is no shape function of " + name;
    } catch (const std::exception& error) {
      return Joined("!", error.what());
    }
  }

 private:
  static std::deque<Description>& All() {
    static std::deque<Description> all;
    return all;
  }
  static Shape Parsed(const std::string& text) {
    if (text == "?") return Shape();
    std::vector<int64_t> sizes;
    std::string size;
    for (const char c : text.substr(1)) {
      if (c != ',' && c != ']') {
        size += c;
      } else if (!size.empty()) {
        sizes.push_back(size == "?" ? kUnknown : std::stoll(size));
        size.clear();
      }
    }
    return Shape(std::move(sizes));
  }
  static std::string Infer(const ShapeFunction& function, const std::string& request) {
    std::istringstream lines(request);
    std::string line;
    size_t outputs = 0;
    std::vector<Shape> inputs;
    std::vector<std::pair<std::string, std::string>> attrs;
    while (std::getline(lines, line, kRecord)) {
      const std::string rest = line.size() > 2 ? line.substr(2) : "";
      if (line[0] == 'o') outputs = std::stoul(rest);
      if (line[0] == 'i') inputs.push_back(Parsed(rest));
      if (line[0] == 'a') {
        const size_t space = rest.find(' ');
        attrs.emplace_back(rest.substr(0, space), rest.substr(space + 1));
      }
    }
    InferenceContext context(std::move(inputs), std::move(attrs), outputs);
    function(context);
    std::string found;
    for (size_t i = 0; i < context.num_outputs(); ++i) found += context.output(i).text() + "\n";
    return found;
  }
};

}  // namespace minixla

// What `minixla.load_op_library` looks for. They are weak, so that a library may have several
// source files.
#define MINIXLA_EXPORTED_ extern "C" __attribute__((weak, visibility("default")))

MINIXLA_EXPORTED_ const char* minixla_op_library() {
  static const std::string text = minixla::Library::json();
  return text.c_str();
}

// The answer is kept until the thread asks again.
MINIXLA_EXPORTED_ const char* minixla_op_shapes(const char* name, const char* request) {
  thread_local std::string answer;
  answer = minixla::Library::Infer(name, request);
  return answer.c_str();
}

#endif  // MINIXLA_OP_LIBRARY_H_
