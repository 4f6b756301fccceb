// Convolutions of two spatial dimensions on a CPU, for XLA's foreign function interface.
//
// Features stand last in all arrays. A band of an image is copied, with its padding, to where the
// cache holds it; windows are read there in place, so that no matrix of windows is made. A tile of
// the result stays in registers while its sums are taken.

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// Registers wider than this are not used, for tests.
#ifndef MINIXLA_WIDEST_BITS
#define MINIXLA_WIDEST_BITS 512
#endif

constexpr int64_t kBandBytes = 384 << 10;
// Of a result of at most this size each part of the images has its own sums.
constexpr int64_t kSumsBytes = 512 << 10;
constexpr int64_t kParts = 8;
// With fewer panels it takes longer to bring a tile's left factors together than to read them.
constexpr int64_t kFewPanels = 3;
constexpr int kMostRows = 16;
constexpr int64_t kHere = 0;

int64_t Quotient(int64_t all, int64_t part) { return (all + part - 1) / part; }

// A tile of a product of matrices: results[r][:] = sum over k of left[r][k] * right[k, :].
template <typename T>
struct Tile {
  const T* left[kMostRows];
  T* results[kMostRows];
  const int64_t* offsets;  // from left[r] to each run of its elements
  int64_t runs;
  int64_t length;          // of a run
  int64_t step;            // from an element of a run to the next
  const T* right;          // one row after the other, each as wide as the kernel
  int64_t height, width;   // of what is wanted of the tile
  bool adds;               // to what is in the results
};

template <typename T, int kRows, int kBytes, int kVectors>
inline __attribute__((always_inline)) void Multiply(const Tile<T>& tile) {
  constexpr int64_t kSize = kBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef T Stored __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  Vector sums[kRows][kVectors] = {};
  const T* right = tile.right;
  const T* left[kRows];
  const int64_t step = tile.step, end = tile.length * step;
  for (int64_t run = 0; run < tile.runs; ++run) {
    for (int row = 0; row < kRows; ++row) left[row] = tile.left[row] + tile.offsets[run];
    for (int64_t k = 0; k < end; k += step, right += kVectors * kSize) {
      Vector columns[kVectors];
      for (int part = 0; part < kVectors; ++part)
        columns[part] = *reinterpret_cast<const Stored*>(right + part * kSize);
      for (int row = 0; row < kRows; ++row) {
        const T factor = left[row][k];
        for (int part = 0; part < kVectors; ++part) sums[row][part] += factor * columns[part];
      }
    }
  }
  for (int row = 0; row < tile.height; ++row)
    for (int64_t part = 0; part < kVectors; ++part) {
      T* result = tile.results[row] + part * kSize;
      const int64_t wanted = std::min(tile.width - part * kSize, kSize);
      if (wanted == kSize) {
        auto* whole = reinterpret_cast<Stored*>(result);
        *whole = tile.adds ? *whole + sums[row][part] : sums[row][part];
      }
      for (int64_t column = 0; wanted < kSize && column < wanted; ++column)
        result[column] = (tile.adds ? result[column] : T(0)) + sums[row][part][column];
    }
}

// How a machine multiplies tiles of one width.
template <typename T>
struct Kernel {
  void (*run)(const Tile<T>&);
  int64_t height, width;
};

// What the registers of a machine hold: with AVX-512 there are 32, with AVX 16 of half the size.
#define KERNEL(run, rows, bytes, vectors) \
  Kernel<T> { run<T, rows, bytes, vectors>, rows, vectors * bytes / static_cast<int64_t>(sizeof(T)) }
#define DEFINE_MULTIPLY(name, target)                \
  template <typename T, int kRows, int kBytes, int kVectors> \
  target void name(const Tile<T>& tile) {            \
    Multiply<T, kRows, kBytes, kVectors>(tile);      \
  }

DEFINE_MULTIPLY(MultiplyAnywhere, )
#if defined(__x86_64__)
DEFINE_MULTIPLY(MultiplyAvx2, __attribute__((target("avx2,fma"))))
DEFINE_MULTIPLY(MultiplyAvx512, __attribute__((target("avx512f,avx512vl,prefer-vector-width=512"))))
#endif

// The kernels of this machine, from the widest to the narrowest.
template <typename T>
std::vector<Kernel<T>> KernelsOfMachine() {
#if defined(__x86_64__)
  if (MINIXLA_WIDEST_BITS >= 512 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512vl"))
    return {KERNEL(MultiplyAvx512, 8, 64, 2), KERNEL(MultiplyAvx512, 14, 64, 1),
            KERNEL(MultiplyAvx512, 14, 32, 1), KERNEL(MultiplyAvx512, 14, 16, 1)};
  if (MINIXLA_WIDEST_BITS >= 256 && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma"))
    return {KERNEL(MultiplyAvx2, 6, 32, 2), KERNEL(MultiplyAvx2, 12, 32, 1),
            KERNEL(MultiplyAvx2, 12, 16, 1)};
#endif
  return {KERNEL(MultiplyAnywhere, 6, 16, 2), KERNEL(MultiplyAnywhere, 12, 16, 1)};
}

// The kernel whose panels have the fewest columns beyond those that are wanted, the widest of such.
template <typename T>
const Kernel<T>& KernelFor(int64_t columns) {
  static const auto kernels = KernelsOfMachine<T>();
  const auto size = [&](const Kernel<T>& each) { return Quotient(columns, each.width) * each.width; };
  return *std::min_element(kernels.begin(), kernels.end(),
                           [&](const auto& a, const auto& b) { return size(a) < size(b); });
}

// Runs task(index) for each index below `count`, on this thread and on those of a pool. Whoever is
// free takes the next one, so that a pool without a free thread does not stop it.
void ForEach(ffi::ThreadPool& pool, int64_t count, const std::function<void(int64_t)>& task) {
  struct Shared {
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::condition_variable changed;
    int64_t done = 0;
  };
  const auto shared = std::make_shared<Shared>();
  // A thread that comes late finds no index, and does not touch the task, which is gone.
  const std::function<void()> work = [shared, count, &task] {
    int64_t done = 0;
    for (int64_t index; (index = shared->next++) < count; ++done) task(index);
    if (!done) return;
    const std::lock_guard<std::mutex> lock(shared->mutex);
    shared->done += done;
    shared->changed.notify_one();
  };
  for (int64_t thread = 1; thread < std::min(count, pool.num_threads()); ++thread)
    pool.Schedule(std::function<void()>(work));
  work();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->changed.wait(lock, [&] { return shared->done == count; });
}

struct Range {
  int64_t first, count;
};

// Images [number, height, width, features], one after the other.
template <typename T>
struct Images {
  const T* data;
  int64_t number, height, width, features;
};

// Some rows and columns of some images, with zeros where an image has none.
template <typename T>
struct Part {
  const T* data;
  int64_t image, row, column;  // from one to the next
};

template <typename T>
Part<T> Cut(const Images<T>& of, Range images, Range rows, Range columns, std::vector<T>& buffer) {
  const int64_t row_size = of.width * of.features, size = of.height * row_size;
  const T* source = of.data + images.first * size;
  if (rows.first >= 0 && rows.first + rows.count <= of.height && columns.first >= 0 &&
      columns.first + columns.count <= of.width)
    return {source + rows.first * row_size + columns.first * of.features, size, row_size, of.features};
  const int64_t line = columns.count * of.features;
  const int64_t begin = std::clamp<int64_t>(columns.first, 0, of.width);
  const int64_t end = std::clamp<int64_t>(columns.first + columns.count, begin, of.width);
  const int64_t before = std::min(columns.count, begin - columns.first) * of.features;
  const int64_t filled = (end - begin) * of.features;
  buffer.resize(images.count * rows.count * line);
  T* target = buffer.data();
  for (int64_t image = 0; image < images.count; ++image, source += size)
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row, target += line) {
      if (row < 0 || row >= of.height) {
        std::fill_n(target, line, T(0));
        continue;
      }
      std::fill_n(target, before, T(0));
      std::copy_n(source + row * row_size + begin * of.features, filled, target + before);
      std::fill(target + before + filled, target + line, T(0));
    }
  return {buffer.data(), rows.count * line, line, of.features};
}

// Columns of a matrix from `first` on, `width` in a row, with zeros beyond the last.
template <typename T>
void Pack(const T* matrix, int64_t rows, int64_t columns, int64_t first, int64_t width, T* packed) {
  const int64_t count = std::min(width, columns - first);
  for (int64_t row = 0; row < rows; ++row, packed += width) {
    std::copy_n(matrix + row * columns + first, count, packed);
    std::fill(packed + count, packed + width, T(0));
  }
}

// Images in bands of at most so many lines of windows, or several at once where they have fewer.
struct Bands {
  Bands(int64_t most, int64_t lines, int64_t images) : lines(lines), images(images) {
    height = std::clamp<int64_t>(most, 1, lines);
    of_image = Quotient(lines, height);
    together = of_image > 1 ? 1 : std::clamp<int64_t>(most / lines, 1, images);
    count = Quotient(images, together) * of_image;
  }
  // The images of a band, and the lines of each.
  std::pair<Range, Range> operator[](int64_t index) const {
    const int64_t image = index / of_image * together, top = index % of_image * height;
    return {{image, std::min(together, images - image)}, {top, std::min(height, lines - top)}};
  }
  int64_t lines, images, height, of_image, together, count;
};

// Along one dimension: window y reads at y * step + i * inner - low of an array that has
// `dilation` - 1 zeros between its elements.
struct Along {
  int64_t low, dilation, step, inner;
};

// Every `dilation`-th window from a first one on, and what it reads: elements of the kernel, and
// how far from place y * step of the array without holes.
struct Phase {
  int64_t first, windows;
  std::vector<int64_t> elements, places;

  // From the first place that some windows read to the last.
  Range Reach(int64_t step, Range some) const {
    if (places.empty()) return {0, 0};
    const int64_t extent = places.back() - places.front();
    return {some.first * step + places.front(), (some.count - 1) * step + extent + 1};
  }
};

std::vector<Phase> Phases(const Along& along, int64_t size, int64_t windows) {
  std::vector<Phase> phases;
  for (int64_t first = 0; first < std::min(along.dilation, windows); ++first) {
    Phase phase{first, Quotient(windows - first, along.dilation), {}, {}};
    for (int64_t element = 0; element < size; ++element) {
      const int64_t at = first * along.step + element * along.inner - along.low;
      if (at % along.dilation) continue;
      phase.elements.push_back(element);
      phase.places.push_back(at / along.dilation);
    }
    phases.push_back(phase);
  }
  return phases;
}

// result[n, y, x, :] = sum over i, j, c of images[n, y + i, x + j, c] * weights[i, j, c, :], for
// the windows of two phases.
template <typename T>
void Convolve(const Images<T>& images, const T* weights, int64_t size, const Phase& down,
              const Phase& across, const std::array<Along, 2>& along, T* result,
              std::array<int64_t, 2> windows, int64_t outputs, ffi::ThreadPool& pool) {
  const Kernel<T>& kernel = KernelFor<T>(outputs);
  const int64_t width = kernel.width, panels = Quotient(outputs, width);
  const int64_t features = images.features, step = along[0].step;
  // What a window reads side by side is one run.
  const int64_t count = across.places.size();
  const bool is_dense = count && across.places.back() - across.places[0] == count - 1;
  const int64_t elements = down.places.size() * count * features;
  std::vector<T> packed(panels * elements * width);
  ForEach(pool, panels, [&](int64_t panel) {
    T* target = packed.data() + panel * elements * width;
    for (const int64_t i : down.elements)
      for (const int64_t j : across.elements) {
        const T* of_element = weights + (i * size + j) * features * outputs;
        Pack(of_element, features, outputs, panel * width, width, target);
        target += features * width;
      }
  });
  const Range columns = across.Reach(along[1].step, {0, across.windows});
  const int64_t row_bytes = std::max<int64_t>(columns.count, 1) * features * sizeof(T) * step;
  const int64_t threads = std::max<int64_t>(pool.num_threads(), 1);
  const int64_t share = Quotient(images.number * down.windows, 4 * threads);
  const Bands bands(std::min(share, kBandBytes / row_bytes), down.windows, images.number);
  ForEach(pool, bands.count, [&](int64_t index) {
    thread_local std::vector<T> buffer;
    const auto [chosen, lines] = bands[index];
    const Part<T> part = Cut(images, chosen, down.Reach(step, lines), columns, buffer);
    std::vector<int64_t> offsets;
    for (const int64_t i : down.places)
      for (int64_t j = 0; j < (is_dense ? 1 : count); ++j)
        offsets.push_back((i - down.places[0]) * part.row +
                          (across.places[j] - across.places[0]) * part.column);
    Tile<T> tile{};
    tile.offsets = offsets.data(), tile.runs = offsets.size(), tile.step = 1;
    tile.length = is_dense ? count * features : features;
    const int64_t positions = chosen.count * lines.count * across.windows;
    for (int64_t panel = 0; panel < panels; ++panel) {
      tile.right = packed.data() + panel * elements * width, tile.width = outputs - panel * width;
      for (int64_t first = 0; first < positions; first += kernel.height) {
        tile.height = std::min(kernel.height, positions - first);
        for (int64_t row = 0; row < kernel.height; ++row) {
          const int64_t at = first + std::min(row, tile.height - 1), line = at / across.windows;
          const int64_t x = at % across.windows, y = line % lines.count, n = line / lines.count;
          tile.left[row] = part.data + n * part.image + y * step * part.row +
                           x * along[1].step * part.column;
          const int64_t to_y = down.first + (lines.first + y) * along[0].dilation;
          const int64_t to_x = across.first + x * along[1].dilation;
          const int64_t to = ((chosen.first + n) * windows[0] + to_y) * windows[1] + to_x;
          tile.results[row] = result + to * outputs + panel * width;
        }
        kernel.run(tile);
      }
    }
  });
}

// result[i, j, c, :] = sum over n, y, x of images[n, y + i, x + j, c] * gradient[n, y, x, :].
template <typename T>
void Correlate(const Images<T>& images, const T* gradient, std::array<int64_t, 2> size,
               const std::array<Along, 2>& along, T* result, std::array<int64_t, 2> windows,
               int64_t outputs, ffi::ThreadPool& pool) {
  const Kernel<T>& kernel = KernelFor<T>(outputs);
  const int64_t width = kernel.width, panels = Quotient(outputs, width);
  const int64_t features = images.features, all = windows[0] * windows[1] * features;
  const int64_t reach = (windows[1] - 1) * along[1].step + (size[1] - 1) * along[1].inner + 1;
  const int64_t extent = (windows[0] - 1) * along[0].step + 1, inner = along[0].inner;
  const int64_t row_bytes = (reach * features * inner + size[1] * outputs) * sizeof(T);
  const Bands bands(kBandBytes / row_bytes, size[0], images.number);
  // Small results are summed in parts; of large ones each task makes some rows. Neither depends on
  // how many threads there are, so that the sums do not.
  const bool is_small = all * outputs * static_cast<int64_t>(sizeof(T)) <= kSumsBytes;
  const int64_t parts = is_small ? std::min(bands.count, kParts) : 1;
  const int64_t rows = is_small ? all : Quotient(Quotient(all, kParts), kMostRows) * kMostRows;
  const int64_t cuts = Quotient(all, rows);
  std::vector<T> sums((parts - 1) * all * outputs);
  ForEach(pool, parts * cuts, [&](int64_t index) {
    thread_local std::vector<T> buffer, packed, gathered;
    const int64_t part = index / cuts, begin = index % cuts * rows;
    T* target = part ? sums.data() + (part - 1) * all * outputs : result;
    const int64_t start = bands.count * part / parts, end = bands.count * (part + 1) / parts;
    for (int64_t band = start; band < end; ++band) {
      const auto [chosen, lines] = bands[band];
      const Range read{lines.first * inner - along[0].low, (lines.count - 1) * inner + extent};
      const Part<T> cut = Cut(images, chosen, read, {-along[1].low, reach}, buffer);
      std::vector<int64_t> offsets;
      for (int64_t image = 0; image < chosen.count; ++image)
        for (int64_t line = 0; line < lines.count; ++line)
          offsets.push_back(image * cut.image + line * inner * cut.row);
      // Bands of several images are of whole ones, whose gradients follow one another.
      const T* right = gradient + (chosen.first * size[0] + lines.first) * size[1] * outputs;
      const int64_t summed = chosen.count * lines.count * size[1];
      packed.resize(panels * summed * width);
      for (int64_t panel = 0; panel < panels; ++panel)
        Pack(right, summed, outputs, panel * width, width, packed.data() + panel * summed * width);
      for (int64_t first = begin; first < std::min(begin + rows, all); first += kernel.height) {
        Tile<T> tile{};
        tile.height = std::min(kernel.height, std::min(begin + rows, all) - first);
        for (int64_t row = 0; row < kernel.height; ++row) {
          const int64_t at = first + std::min(row, tile.height - 1), window = at / features;
          tile.left[row] = cut.data + window / windows[1] * along[0].step * cut.row +
                           window % windows[1] * along[1].step * cut.column + at % features;
          tile.results[row] = target + at * outputs;
        }
        tile.offsets = offsets.data(), tile.runs = offsets.size(), tile.length = size[1];
        tile.step = along[1].inner * cut.column, tile.adds = band > start;
        if (panels >= kFewPanels) {
          gathered.resize(summed * kernel.height);
          T* to = gathered.data();
          for (const int64_t offset : offsets)
            for (int64_t k = 0; k < size[1]; ++k, to += kernel.height)
              for (int64_t row = 0; row < kernel.height; ++row)
                to[row] = tile.left[row][offset + k * tile.step];
          for (int64_t row = 0; row < kernel.height; ++row) tile.left[row] = gathered.data() + row;
          tile.offsets = &kHere, tile.runs = 1, tile.length = summed, tile.step = kernel.height;
        }
        for (int64_t panel = 0; panel < panels; ++panel) {
          tile.right = packed.data() + panel * summed * width;
          tile.width = outputs - panel * width;
          kernel.run(tile);
          for (int64_t row = 0; row < kernel.height; ++row) tile.results[row] += width;
        }
      }
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t each = 0; each < all * outputs; ++each)
      result[each] += sums[(part - 1) * all * outputs + each];
}

// `sizes` are those of the images (4), the kernel (2), how many windows there are (2), and outputs.
// The labels say what dimensions the program knows; here features stand last.
template <ffi::DataType kType>
ffi::Error Run(ffi::ThreadPool pool, ffi::Buffer<kType> lhs, ffi::Buffer<kType> rhs,
               ffi::ResultBuffer<kType> out, ffi::Span<const int64_t> sizes,
               ffi::Span<const int64_t> padding, ffi::Span<const int64_t> dilation,
               ffi::Span<const int64_t> step, ffi::Span<const int64_t> inner, bool is_correlation,
               std::string_view) {
  using T = ffi::NativeType<kType>;
  const Images<T> images{lhs.typed_data(), sizes[0], sizes[1], sizes[2], sizes[3]};
  const std::array<int64_t, 2> size{sizes[4], sizes[5]}, windows{sizes[6], sizes[7]};
  const std::array<Along, 2> along{Along{padding[0], dilation[0], step[0], inner[0]},
                                   Along{padding[2], dilation[1], step[1], inner[1]}};
  const T* by = rhs.typed_data();
  T* result = out->typed_data();
  if (is_correlation) {
    Correlate<T>(images, by, size, along, result, windows, sizes[8], pool);
    return ffi::Error::Success();
  }
  for (const Phase& down : Phases(along[0], size[0], windows[0]))
    for (const Phase& across : Phases(along[1], size[1], windows[1]))
      Convolve<T>(images, by, size[1], down, across, along, result, windows, sizes[8], pool);
  return ffi::Error::Success();
}

template <ffi::DataType kType>
auto Bound() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .template Arg<ffi::Buffer<kType>>()
      .template Arg<ffi::Buffer<kType>>()
      .template Ret<ffi::Buffer<kType>>()
      .template Attr<ffi::Span<const int64_t>>("sizes")
      .template Attr<ffi::Span<const int64_t>>("padding")
      .template Attr<ffi::Span<const int64_t>>("lhs_dilation")
      .template Attr<ffi::Span<const int64_t>>("window_strides")
      .template Attr<ffi::Span<const int64_t>>("rhs_dilation")
      .template Attr<bool>("is_correlation")
      .template Attr<std::string_view>("dim_labels");
}

}  // namespace

#define DEFINE_HANDLER(name, type)                                                             \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame*);   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Run<type>, Bound<type>())

DEFINE_HANDLER(minixla_convolution_f32, ffi::F32);
DEFINE_HANDLER(minixla_convolution_f64, ffi::F64);
