#include "device/cuda/cuda_weight.h"

#include <algorithm>
#include <vector>

#include "base/bf16.h"

namespace ashlar::cuda {
namespace {

constexpr int32_t kHalfTile = 8;  // gates that lie together

int32_t padded(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

// Decodes and arranges rows of tiles in parallel, some megabytes at a time, and sends them off.
void pack(Memory& memory, ThreadPool& pool, const WeightSource& source, const Layout& layout, std::byte* to) {
  const int32_t rows_at_once = layout.is_f32 ? 1 : kTile;
  const size_t row_bytes = static_cast<size_t>(layout.packed_k) * (layout.is_f32 ? 4 : 2);
  const size_t strip_bytes = rows_at_once * row_bytes;
  const auto strips = static_cast<int32_t>(layout.bytes / strip_bytes);
  const int32_t together = std::clamp(static_cast<int32_t>((size_t{32} << 20) / strip_bytes), 1, std::max(strips, 1));
  std::vector<std::byte> packed(strip_bytes * static_cast<size_t>(together));
  std::vector<float> rows(static_cast<size_t>(pool.size()) * static_cast<size_t>(layout.k));
  for (int32_t first = 0; first < strips; first += together) {
    const int32_t count = std::min(together, strips - first);
    std::fill(packed.begin(), packed.end(), std::byte{0});
    pool.run(count, [&](int32_t i, int32_t worker) {
      float* const row = rows.data() + static_cast<size_t>(worker) * static_cast<size_t>(layout.k);
      std::byte* const strip = packed.data() + static_cast<size_t>(i) * strip_bytes;
      for (int32_t r = 0; r < rows_at_once; ++r) {
        const int32_t from = layout.source_row((first + i) * rows_at_once + r);
        if (from < 0) continue;
        if (layout.is_f32) {
          decode_row(source, from, reinterpret_cast<float*>(strip));
          continue;
        }
        decode_row(source, from, row);
        auto* const halves = reinterpret_cast<BFloat16*>(strip);
        for (int32_t c = 0; c < layout.k; ++c) {
          const int32_t piece = (c % kTile / 8) ^ (r % 8);
          halves[c / kTile * kTile * kTile + r * kTile + piece * 8 + c % 8] = to_bf16(row[c]);
        }
      }
    });
    memory.upload(packed.data(), to + static_cast<size_t>(first) * strip_bytes,
                  static_cast<size_t>(count) * strip_bytes);
  }
}

Layout layout_of(const WeightSource& source, bool is_f32, bool is_gated) {
  return {static_cast<int32_t>(source.rows()), static_cast<int32_t>(source.cols()), is_f32, is_gated};
}

bool any_is_f32(std::span<const ExpertSource> experts, WeightSource ExpertSource::*part) {
  return std::any_of(experts.begin(), experts.end(),
                     [&](const ExpertSource& expert) { return (expert.*part).precision() == DType::kF32; });
}

}  // namespace

int32_t splits_of(int32_t n, int32_t k) {
  const int32_t tiles = (n + kTile - 1) / kTile;
  int32_t splits = 1;
  while (tiles * splits < 48 && splits < 4 && k / (2 * splits) >= 256) splits *= 2;
  return splits;
}

Layout::Layout(int32_t outputs, int32_t inputs, bool f32, bool gated)
    : n(outputs),
      k(inputs),
      is_f32(f32),
      is_gated(gated),
      packed_n(gated && !f32 ? 2 * padded(outputs / 2, kHalfTile) : outputs),
      packed_k(f32 ? inputs : padded(inputs, kInputPad)),
      bytes(f32 ? sizeof(float) * static_cast<size_t>(n) * static_cast<size_t>(k)
                : 2 * static_cast<size_t>(padded(packed_n, kTile)) * static_cast<size_t>(packed_k)) {}

int32_t Layout::source_row(int32_t row) const {
  if (!is_gated || is_f32) return row < n ? row : -1;
  const int32_t width = n / 2, i = row / (2 * kHalfTile) * kHalfTile + row % kHalfTile;
  if (i >= width) return -1;
  return row % (2 * kHalfTile) < kHalfTile ? i : width + i;
}

ProductCall Layout::call(const void* weight, const float* bias) const {
  ProductCall call;
  call.weight = weight;
  call.expert_stride = static_cast<int64_t>(bytes);
  call.bias = bias;
  call.n = packed_n;
  call.width = is_gated ? n / 2 : n;
  call.k = k;
  call.splits = is_f32 ? 1 : splits_of(packed_n, packed_k);
  if (is_gated) call.finish = Finish::kGated;
  return call;
}

CudaWeight::CudaWeight(Memory& memory, ThreadPool& pool, const WeightSource& source, WeightUse use)
    : layout_(layout_of(source, source.precision() == DType::kF32 || use.products == Products::kRoute, use.gated)),
      values_(memory.allocate(layout_.bytes)) {
  pack(memory, pool, source, layout_, values_->data());
  if (source.bias.empty()) return;
  std::vector<float> bias(static_cast<size_t>(layout_.packed_n));
  for (int32_t row = 0; row < layout_.packed_n; ++row) {
    const int32_t from = layout_.source_row(row);
    if (from >= 0) bias[static_cast<size_t>(row)] = source.bias[static_cast<size_t>(from)];
  }
  bias_ = memory.allocate(sizeof(float) * bias.size());
  memory.upload(bias.data(), bias_->data(), sizeof(float) * bias.size());
}

size_t CudaWeight::bytes() const { return layout_.bytes + (bias_ != nullptr ? bias_->size() : 0); }

ProductCall CudaWeight::call() const {
  return layout_.call(values_->data(), bias_ != nullptr ? reinterpret_cast<const float*>(bias_->data()) : nullptr);
}

CudaExperts::CudaExperts(Memory& memory, ThreadPool& pool, std::span<const ExpertSource> experts)
    : n_(static_cast<int32_t>(experts.size())),
      gate_up_(layout_of(experts.front().gate_up, any_is_f32(experts, &ExpertSource::gate_up), true)),
      down_(layout_of(experts.front().down, any_is_f32(experts, &ExpertSource::down), false)),
      gate_up_values_(memory.allocate(gate_up_.bytes * experts.size())),
      down_values_(memory.allocate(down_.bytes * experts.size())) {
  ASHLAR_CHECK(gate_up_.n == 2 * width() && gate_up_.k == hidden());
  for (size_t e = 0; e < experts.size(); ++e) {
    ASHLAR_CHECK(experts[e].gate_up.rows() == gate_up_.n && experts[e].gate_up.cols() == gate_up_.k);
    ASHLAR_CHECK(experts[e].down.rows() == down_.n && experts[e].down.cols() == down_.k);
    pack(memory, pool, experts[e].gate_up, gate_up_, gate_up_values_->data() + e * gate_up_.bytes);
    pack(memory, pool, experts[e].down, down_, down_values_->data() + e * down_.bytes);
  }
}

ProductCall CudaExperts::gate_up() const { return gate_up_.call(gate_up_values_->data(), nullptr); }
ProductCall CudaExperts::down() const { return down_.call(down_values_->data(), nullptr); }

}  // namespace ashlar::cuda
