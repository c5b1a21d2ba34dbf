// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/bandwidth.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "measure/statistics.h"

namespace ashlar {
namespace {

// Two words a load: the widest that plain x86-64 has. The prefetch keeps more lines on their way than the loads would.
using Words = uint64_t __attribute__((vector_size(16)));

constexpr int64_t kLine = 64;
constexpr int64_t kPiece = int64_t{1} << 20;  // what a worker takes at a time
constexpr int64_t kAhead = 1024;

uint64_t read_piece(const std::byte* begin, int64_t bytes) {
  const auto* words = reinterpret_cast<const Words*>(begin);
  Words a{}, b{}, c{}, d{};
  for (int64_t at = 0; at < bytes; at += kLine, words += 4) {
    __builtin_prefetch(begin + at + kAhead);
    a ^= words[0];
    b ^= words[1];
    c ^= words[2];
    d ^= words[3];
  }
  const Words sum = a ^ b ^ c ^ d;
  return sum[0] ^ sum[1];
}

// Passes over `bytes` that say how many seconds they took, after a first one that does not count.
template <class Pass>
Bandwidth measure(int64_t bytes, int32_t threads, double seconds, const Pass& pass) {
  std::vector<double> rates;
  const int64_t start = now_ns();
  for (int i = 0; i < 4 || static_cast<double>(now_ns() - start) < seconds * 1e9; ++i) {
    const double took = pass();
    if (i > 0) rates.push_back(static_cast<double>(bytes) / took);
  }
  return {quantile(rates, 1.0), median(rates), bytes, threads};
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

int64_t last_level_cache_bytes() {
  return std::max({sysconf(_SC_LEVEL4_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0L});
}

int64_t bandwidth_buffer_bytes(int64_t available) {
  const int64_t wanted = std::max(int64_t{1} << 30, 4 * last_level_cache_bytes());
  return available > 0 ? std::min(wanted, available / 4) : wanted;
}

Bandwidth measure_read_bandwidth(int32_t threads, int64_t bytes, double seconds) {
  const auto pieces = static_cast<int32_t>(std::clamp<int64_t>(bytes / kPiece, 1, 60000));
  const int64_t size = pieces * kPiece;
  // Room after the end, so that the prefetch stays inside the allocation.
  const std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(
      size_t{2} << 20, static_cast<size_t>((size + 2 * kPiece - 1) / (2 * kPiece) * 2 * kPiece + 2 * kPiece))));
  if (!memory) throw std::bad_alloc();
  madvise(memory.get(), static_cast<size_t>(size), MADV_HUGEPAGE);
  ThreadPool pool(threads);
  std::vector<uint64_t> sums(static_cast<size_t>(pool.size()) * 8);  // a line each
  // Written by the workers, so that the pages lie where they are read.
  pool.run(pieces, [&](int32_t piece, int32_t) {
    std::fill_n(memory.get() + piece * kPiece, kPiece, static_cast<std::byte>(piece + 1));
  });
  const Bandwidth result = measure(size, pool.size(), seconds, [&] {
    const int64_t begin = now_ns();
    pool.run(pieces, [&](int32_t piece, int32_t worker) {
      sums[worker * 8] += read_piece(memory.get() + piece * kPiece, kPiece);
    });
    return static_cast<double>(now_ns() - begin) * 1e-9;
  });
  static volatile uint64_t sink;
  for (const uint64_t sum : sums) sink = sink ^ sum;
  return result;
}

Bandwidth measure_read_bandwidth(Ops& ops, int64_t bytes, double seconds) {
  const std::unique_ptr<DeviceProbe> probe = ops.device_probe(bytes);
  if (!probe) return measure_read_bandwidth(ops.threads(), bytes, seconds);
  return measure(probe->bytes(), 0, seconds, [&] { return probe->read(); });
}

Bandwidth measure_copy_bandwidth(Ops& ops, int64_t bytes, double seconds) {
  const std::unique_ptr<DeviceProbe> probe = ops.device_probe(bytes);
  if (!probe) return {};
  return measure(probe->bytes(), 0, seconds, [&] { return probe->copy(); });
}

double measure_products(Ops& ops, double seconds) {
  const std::unique_ptr<DeviceProbe> probe = ops.device_probe(1);
  if (!probe) return 0;
  std::vector<double> rates;
  const int64_t start = now_ns();
  do {
    rates.push_back(probe->multiply());
  } while (static_cast<double>(now_ns() - start) < seconds * 1e9);
  return median(rates);
}

}  // namespace ashlar
