// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_weight.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bf16.h"
#include "device/cuda/quantised_layout.h"
#include "device/weights/e4m3_rows.h"
#include "device/weights/group_rounding.h"

namespace ashlar::cuda {
namespace {

constexpr int32_t kHalfTile = 8;  // gates that lie together

int32_t padded(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

void put_row(const float* row, int32_t r, const Layout& layout, BFloat16* strip) {
  for (int32_t c = 0; c < layout.k; ++c) {
    const int32_t piece = (c % kTile / 8) ^ (r % 8);
    strip[c / kTile * kTile * kTile + r * kTile + piece * 8 + c % 8] = to_bf16(row[c]);
  }
}

void add_bits(std::byte* word_at, uint32_t bits) {
  uint32_t word;
  std::memcpy(&word, word_at, sizeof word);
  word |= bits;
  std::memcpy(word_at, &word, sizeof word);
}

/// `strip` is zeroed.
void put_rounded_row(const float* row, int32_t r, const Layout& layout, std::byte* strip) {
  const Packed format = layout.format;
  const int32_t bits = format == Packed::kInt4 ? 4 : 8;
  for (int32_t first = 0; first < layout.k; first += kRoundedTogether) {
    const int32_t n = std::min(kRoundedTogether, layout.k - first);
    const RoundedGroup group = round_group(row + first, n, bits);
    std::byte* const scale = strip + quantised_place(format, r, first, layout.packed_k).scale;
    if (bits == 8) {
      std::memcpy(scale, &group.scale, sizeof group.scale);
    } else {
      const float step = to_float(group.scale);
      const BFloat16 both[] = {to_bf16(step), to_bf16(to_float(group.lowest) + 8 * step)};
      std::memcpy(scale, both, sizeof both);
    }
    for (int32_t i = 0; i < n; ++i) {
      const QuantisedPlace place = quantised_place(format, r, first + i, layout.packed_k);
      if (bits == 8) {
        strip[place.whole] = static_cast<std::byte>(group.wholes[i] + 128);
        continue;
      }
      add_bits(strip + place.whole, static_cast<uint32_t>(group.wholes[i]) << place.shift);
    }
  }
}

/// codes: [k]; scales: one for each 128 of them. `strip` is zeroed.
void put_e4m3_row(const uint8_t* codes, const float* scales, int32_t r, const Layout& layout, std::byte* strip) {
  static_assert(kE4M3Together == kInputPad);
  for (int32_t c = 0; c < layout.k; ++c) {
    const QuantisedPlace place = quantised_place(layout.format, r, c, layout.packed_k);
    add_bits(strip + place.whole, e4m3_bits(codes[c], place.shift));
    if (c % kE4M3Together == 0) std::memcpy(strip + place.scale, &scales[c / kE4M3Together], sizeof(float));
  }
}

/// One row of tiles of `format`; scratch: [k + 1].
void put_source_row(const WeightSource& source, int32_t from, int32_t r, const Layout& layout, float* scratch,
                    std::byte* strip) {
  if (layout.format == Packed::kE4M3) {
    auto* const codes = reinterpret_cast<uint8_t*>(scratch + e4m3_groups(layout.k));
    read_e4m3_row(source, from, codes, scratch);
    return put_e4m3_row(codes, scratch, r, layout, strip);
  }
  decode_row(source, from, scratch);
  if (layout.format == Packed::kBf16) {
    put_row(scratch, r, layout, reinterpret_cast<BFloat16*>(strip));
  } else {
    put_rounded_row(scratch, r, layout, strip);
  }
}

// Decodes and arranges rows of tiles in parallel, some megabytes at a time, and sends them off.
void pack(Memory& memory, ThreadPool& pool, const WeightSource& source, const Layout& layout, std::byte* to) {
  const int32_t rows_at_once = layout.is_f32() ? 1 : kTile;
  const auto strip_bytes = static_cast<size_t>(packed_bytes(layout.format, int64_t{rows_at_once} * layout.packed_k));
  const auto strips = static_cast<int32_t>(layout.bytes / strip_bytes);
  const int32_t together = std::clamp(static_cast<int32_t>((size_t{32} << 20) / strip_bytes), 1, std::max(strips, 1));
  std::vector<std::byte> packed(strip_bytes * static_cast<size_t>(together));
  const size_t scratch = static_cast<size_t>(layout.k) + 1;
  std::vector<float> rows(static_cast<size_t>(pool.size()) * scratch);
  for (int32_t first = 0; first < strips; first += together) {
    const int32_t count = std::min(together, strips - first);
    std::fill(packed.begin(), packed.end(), std::byte{0});
    pool.run(count, [&](int32_t i, int32_t worker) {
      float* const row = rows.data() + static_cast<size_t>(worker) * scratch;
      std::byte* const strip = packed.data() + static_cast<size_t>(i) * strip_bytes;
      for (int32_t r = 0; r < rows_at_once; ++r) {
        const int32_t from = layout.source_row((first + i) * rows_at_once + r);
        if (from < 0) continue;
        if (layout.is_f32()) {
          decode_row(source, from, reinterpret_cast<float*>(strip));
        } else {
          put_source_row(source, from, r, layout, row, strip);
        }
      }
    });
    memory.upload(packed.data(), to + static_cast<size_t>(first) * strip_bytes,
                  static_cast<size_t>(count) * strip_bytes);
  }
}

Layout layout_of(const WeightSource& source, Packed format, bool is_gated) {
  return {static_cast<int32_t>(source.rows()), static_cast<int32_t>(source.cols()), format, is_gated};
}

/// Grouped products take weights of one format: one that is enough for all experts.
Packed format_of(std::span<const ExpertSource> experts, WeightSource ExpertSource::*part, KeptWeights kept) {
  DType precision = DType::kBF16;
  Numbers numbers = (experts.front().*part).numbers();
  for (const ExpertSource& expert : experts) {
    if ((expert.*part).precision() == DType::kF32) precision = DType::kF32;
    numbers = common(numbers, (expert.*part).numbers());
  }
  return format_for(precision, kept_numbers(kept, numbers, Products::kDecide));
}

/// Expert by expert; null where they have none.
std::unique_ptr<Buffer> upload_biases(Memory& memory, std::span<const ExpertSource> experts,
                                      WeightSource ExpertSource::*part) {
  const size_t n = (experts.front().*part).bias.size();
  for (const ExpertSource& expert : experts) ASHLAR_CHECK_EQ((expert.*part).bias.size(), n);
  if (n == 0) return nullptr;
  auto biases = memory.allocate(sizeof(float) * n * experts.size());
  for (size_t e = 0; e < experts.size(); ++e) {
    const std::vector<float>& bias = (experts[e].*part).bias;
    memory.upload(bias.data(), biases->data() + sizeof(float) * n * e, sizeof(float) * n);
  }
  return biases;
}

}  // namespace

int32_t splits_of(Packed format, int32_t n, int32_t k) {
  int32_t splits = 1;
  if (format == Packed::kF32) return splits;
  if (format != Packed::kBf16) {
    while (splits < kMaxSegments && k / (2 * splits) >= 256) splits *= 2;
    return splits;
  }
  const int32_t tiles = (n + kTile - 1) / kTile;
  while (tiles * splits < 48 && splits < 4 && k / (2 * splits) >= 256) splits *= 2;
  return splits;
}

Packed format_for(DType precision, Numbers numbers) {
  if (numbers == Numbers::kInt4) return Packed::kInt4;
  if (numbers == Numbers::kInt8) return Packed::kInt8;
  if (numbers == Numbers::kE4M3) return Packed::kE4M3;
  return precision == DType::kF32 ? Packed::kF32 : Packed::kBf16;
}

std::string_view name_of(Packed format) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "int8 groups", "int4 groups", "e4m3"};
  return kNames[static_cast<size_t>(format)];
}

int64_t packed_bytes(Packed format, int64_t count) {
  if (!is_quantised(format)) return count * (format == Packed::kF32 ? 4 : 2);
  return count * unit_bytes(format) / (kUnitRows * kTile);
}

Layout::Layout(int32_t outputs, int32_t inputs, Packed packed, bool gated)
    : n(outputs),
      k(inputs),
      format(packed),
      is_gated(gated),
      packed_n(gated && !is_f32() ? 2 * padded(outputs / 2, kHalfTile) : outputs),
      packed_k(is_f32() ? inputs : padded(inputs, kInputPad)),
      bytes(static_cast<size_t>(
          packed_bytes(packed, int64_t{is_f32() ? packed_n : padded(packed_n, kTile)} * packed_k))) {}

int32_t Layout::source_row(int32_t row) const {
  if (!is_gated || is_f32()) return row < n ? row : -1;
  const int32_t width = n / 2, i = row / (2 * kHalfTile) * kHalfTile + row % kHalfTile;
  if (i >= width) return -1;
  return row % (2 * kHalfTile) < kHalfTile ? i : width + i;
}

ProductCall Layout::call(const void* weight, const float* bias) const {
  ProductCall call;
  call.format = format;
  call.weight = weight;
  call.expert_stride = static_cast<int64_t>(bytes);
  call.bias = bias;
  call.n = packed_n;
  call.width = is_gated ? n / 2 : n;
  call.k = k;
  call.splits = splits_of(format, packed_n, packed_k);
  if (is_gated) call.finish = Finish::kGated;
  return call;
}

CudaWeight::CudaWeight(Memory& memory, ThreadPool& pool, const WeightSource& source, Packed format, bool is_gated)
    : layout_(layout_of(source, format, is_gated)), values_(memory.allocate(layout_.bytes)) {
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

CudaExperts::CudaExperts(Memory& memory, ThreadPool& pool, std::span<const ExpertSource> experts, KeptWeights kept)
    : n_(static_cast<int32_t>(experts.size())),
      gate_(experts.front().gate),
      gate_up_(layout_of(experts.front().gate_up, format_of(experts, &ExpertSource::gate_up, kept),
                         gate_.limit == 0 && !gate_.gelu && experts.front().gate_up.bias.empty())),
      down_(layout_of(experts.front().down, format_of(experts, &ExpertSource::down, kept), false)),
      gate_up_values_(memory.allocate(gate_up_.bytes * experts.size())),
      down_values_(memory.allocate(down_.bytes * experts.size())) {
  ASHLAR_CHECK(gate_up_.n == 2 * width() && gate_up_.k == hidden());
  for (size_t e = 0; e < experts.size(); ++e) {
    ASHLAR_CHECK(experts[e].gate_up.rows() == gate_up_.n && experts[e].gate_up.cols() == gate_up_.k);
    ASHLAR_CHECK(experts[e].down.rows() == down_.n && experts[e].down.cols() == down_.k);
    pack(memory, pool, experts[e].gate_up, gate_up_, gate_up_values_->data() + e * gate_up_.bytes);
    pack(memory, pool, experts[e].down, down_, down_values_->data() + e * down_.bytes);
    ASHLAR_CHECK(experts[e].gate == gate_);
  }
  gate_up_bias_ = upload_biases(memory, experts, &ExpertSource::gate_up);
  down_bias_ = upload_biases(memory, experts, &ExpertSource::down);
}

ProductCall CudaExperts::gate_up() const { return gate_up_.call(gate_up_values_->data(), nullptr); }
ProductCall CudaExperts::down() const { return down_.call(down_values_->data(), nullptr); }

}  // namespace ashlar::cuda
