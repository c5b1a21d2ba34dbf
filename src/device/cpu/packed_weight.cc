#include "device/cpu/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bf16.h"

namespace ashlar::cpu {
namespace {

int64_t total_rows(std::span<const HostTensor> parts) {
  ASHLAR_CHECK(!parts.empty());
  int64_t n = 0;
  for (const HostTensor& part : parts) {
    ASHLAR_CHECK_EQ(part.cols, parts[0].cols);
    ASHLAR_CHECK(part.dtype == parts[0].dtype);
    n += part.rows;
  }
  return n;
}

template <class T>
void widen_row(const T* from, int64_t k, float* column) {
  for (int64_t i = 0; i < k; ++i) column[i * kBlockColumns] = to_float(from[i]);
}

}  // namespace

PackedWeight::PackedWeight(std::span<const HostTensor> parts, std::span<const float> bias, Arena& arena)
    : n_(static_cast<int32_t>(total_rows(parts))),
      k_(static_cast<int32_t>(parts[0].cols)),
      dtype_(parts[0].dtype == DType::kBF16 ? DType::kBF16 : DType::kF32),
      memory_(arena.take(static_cast<size_t>(panels() * panel_bytes()))),
      bias_(bias.begin(), bias.end()) {
  ASHLAR_CHECK(bias.empty() || static_cast<int64_t>(bias.size()) == n_);
  int64_t row = 0;
  for (const HostTensor& part : parts) {
    for (int64_t r = 0; r < part.rows; ++r) pack_row(part, r, row++);
  }
}

PackedWeight::PackedWeight(const HostTensor& gate, const HostTensor& up, std::span<const float> bias, Arena& arena)
    : n_(static_cast<int32_t>(gate.rows + up.rows)),
      k_(static_cast<int32_t>(gate.cols)),
      gated_(true),
      dtype_(gate.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32),
      memory_(arena.take(static_cast<size_t>(panels() * panel_bytes()))) {
  ASHLAR_CHECK(up.rows == gate.rows && up.cols == gate.cols && up.dtype == gate.dtype);
  ASHLAR_CHECK(bias.empty() || static_cast<int64_t>(bias.size()) == n_);
  if (!bias.empty()) bias_.resize(static_cast<size_t>(panels()) * kPanelColumns);
  for (int64_t r = 0; r < gate.rows; ++r) {
    const int64_t row = r / kGateColumns * kPanelColumns + r % kGateColumns;
    pack_row(gate, r, row);
    pack_row(up, r, row + kGateColumns);
    if (bias.empty()) continue;
    bias_[static_cast<size_t>(row)] = bias[static_cast<size_t>(r)];
    bias_[static_cast<size_t>(row + kGateColumns)] = bias[static_cast<size_t>(gate.rows + r)];
  }
}

PackedWeight::PackedWeight(const PackedWeight& from, Arena& arena)
    : n_(from.n_),
      k_(from.k_),
      gated_(from.gated_),
      quantised_(true),
      dtype_(from.dtype_),
      memory_(arena.take(static_cast<size_t>(panels() * panel_bytes()))),
      bias_(from.bias_) {
  ASHLAR_CHECK(!from.quantised_);
}

void PackedWeight::quantise_panel(const PackedWeight& from, int32_t index, float* scratch) {
  constexpr float kLevels = 127;
  constexpr float kWhole = 3 << 22;  // what is added to a small float and taken off again has no fraction
  std::byte* base = memory_.get() + index * panel_bytes();
  const int64_t stream = (panel_bytes() - kPanelColumns * static_cast<int64_t>(sizeof(float))) / 4;
  auto* scales = reinterpret_cast<float*>(base + 4 * stream);
  for (int32_t block = 0; block < 4; ++block, base += stream, scales += kBlockColumns) {
    from.read_block(index * 4 + block, scratch);
    float inverse[kBlockColumns] = {};
    for (int64_t i = 0; i < int64_t{k_} * kBlockColumns; i += kBlockColumns) {
      for (int c = 0; c < kBlockColumns; ++c) {
        float& value = scratch[i + c];
        value = std::abs(value) <= std::numeric_limits<float>::max() ? value : 0;
        inverse[c] = std::max(inverse[c], std::abs(value));
      }
    }
    for (int c = 0; c < kBlockColumns; ++c) {
      const float top = inverse[c];
      scales[c] = top < 1e-30F ? 0 : top / kLevels;
      inverse[c] = top < 1e-30F ? 0 : kLevels / top;
    }
    auto* to = reinterpret_cast<int8_t*>(base);
    for (int32_t i = 0; i < k_; ++i) {
      int8_t* quads = to + i / 4 * (4 * kBlockColumns) + i % 4;
      const float* values = scratch + int64_t{i} * kBlockColumns;
      for (int c = 0; c < kBlockColumns; ++c) {
        quads[c * 4] = static_cast<int8_t>(values[c] * inverse[c] + kWhole - kWhole);
      }
    }
  }
}

void PackedWeight::pack_row(const HostTensor& part, int64_t from, int64_t row) {
  std::byte* base = memory_.get() + row / kBlockColumns * block_bytes();
  const int64_t column = row % kBlockColumns;
  switch (part.dtype) {
    case DType::kBF16: {
      const uint16_t* values = static_cast<const uint16_t*>(part.data) + from * part.cols;
      uint16_t* to = reinterpret_cast<uint16_t*>(base) + column * 2;
      for (int64_t i = 0; i < part.cols; ++i) to[i / 2 * (2 * kBlockColumns) + i % 2] = values[i];
      break;
    }
    case DType::kF16:
      widen_row(static_cast<const Float16*>(part.data) + from * part.cols, part.cols,
                reinterpret_cast<float*>(base) + column);
      break;
    case DType::kF32:
      widen_row(static_cast<const float*>(part.data) + from * part.cols, part.cols,
                reinterpret_cast<float*>(base) + column);
      break;
  }
}

void PackedWeight::read_row(int32_t index, float scale, float* to) const {
  ASHLAR_CHECK(!gated_ && !quantised_);
  const std::byte* base = memory_.get() + index / kBlockColumns * block_bytes();
  const int64_t column = index % kBlockColumns;
  if (dtype_ == DType::kF32) {
    const float* from = reinterpret_cast<const float*>(base) + column;
    for (int64_t i = 0; i < k_; ++i) to[i] = scale * from[i * kBlockColumns];
    return;
  }
  const std::byte* pair = base + column * 2 * static_cast<int64_t>(sizeof(uint16_t));
  for (int64_t i = 0; i + 1 < k_; i += 2, pair += kBlockColumns * 2 * sizeof(uint16_t)) {
    uint16_t both[2];
    std::memcpy(both, pair, sizeof(both));
    to[i] = scale * to_float(BFloat16{both[0]});
    to[i + 1] = scale * to_float(BFloat16{both[1]});
  }
  if (k_ % 2 == 0) return;
  uint16_t last = 0;
  std::memcpy(&last, pair, sizeof(last));
  to[k_ - 1] = scale * to_float(BFloat16{last});
}

void PackedWeight::read_block(int32_t index, float* to) const {
  const std::byte* base = memory_.get() + index * block_bytes();
  if (dtype_ == DType::kF32) {
    std::memcpy(to, base, static_cast<size_t>(k_) * kBlockColumns * sizeof(float));
    return;
  }
  const auto* from = reinterpret_cast<const uint16_t*>(base);
  for (int64_t i = 0; i < k_; ++i, to += kBlockColumns) {
    const uint16_t* pairs = from + i / 2 * (2 * kBlockColumns) + i % 2;
    for (int c = 0; c < kBlockColumns; ++c) to[c] = to_float(BFloat16{pairs[2 * c]});
  }
}

}  // namespace ashlar::cpu
