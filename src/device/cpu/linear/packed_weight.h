// SPDX-License-Identifier: Apache-2.0
#pragma once
// A weight in panels (layout: kernels.h), in one of the device's formats.

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/cpu_memory.h"
#include "device/cpu/isa/kernels.h"
#include "device/cpu/linear/weight_format.h"
#include "device/ops.h"

namespace ashlar::cpu {

class PackedWeight final : public Weight {
 public:
  /// Room in `arena` for the values of `source` or `from`, which pack_panel() brings. Of a gated weight every panel has
  /// kGateColumns gates and after them the same columns of up, the last one padded with zeros: they are read in one
  /// stream, and a thread that computes one computes the other.
  PackedWeight(const WeightFormat& format, const WeightSource& source, bool gated, Arena& arena);
  PackedWeight(const WeightFormat& format, const PackedWeight& from, Arena& arena);

  /// Packs panel `index`; read_row(row, to) puts the k values of a row of the weight at `to`. Panels may be packed by
  /// several threads, with scratch_floats() of scratch each.
  template <class ReadRow>
  void pack_panel(int32_t index, float* scratch, const ReadRow& read_row);
  /// A panel that was packed before: panel_bytes() bytes.
  void fill_panel(int32_t index, const std::byte* from) {
    std::memcpy(memory_.get() + index * panel_bytes_, from, static_cast<size_t>(panel_bytes_));
  }
  /// Panels as they are before they are packed.
  void clear() { std::memset(memory_.get(), 0, values().size()); }
  /// All panels, one after the other.
  std::span<const std::byte> values() const { return {memory_.get(), static_cast<size_t>(panels() * panel_bytes_)}; }
  int64_t scratch_floats() const { return kBlockColumns * scratch_stride(); }

  int32_t n() const override { return n_; }
  int32_t k() const override { return k_; }
  size_t bytes() const override { return static_cast<size_t>(panels() * panel_bytes_) + bias_.size() * sizeof(float); }
  std::string_view format() const override { return format_->name; }
  int32_t bits() const { return format_->bits; }  ///< of a value

  bool gated() const { return gated_; }
  DType precision() const { return format_->precision.value_or(DType::kF32); }
  const LinearKernels& kernels_of(const Kernels& kernels) const { return kernels.*format_->kernels; }
  int32_t panels() const {
    if (gated_) return static_cast<int32_t>(round_up(n_ / 2, kGateColumns) / kGateColumns);
    return static_cast<int32_t>(round_up(n_, kPanelColumns) / kPanelColumns);
  }
  const std::byte* panel(int32_t index) const { return memory_.get() + index * panel_bytes_; }
  int64_t panel_bytes() const { return panel_bytes_; }
  /// One for every column of the panels, or null.
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

  /// to[0..k) = scale * row `index`, out of the panels.
  void read_row(int32_t index, float scale, float* to) const;

 private:
  /// The row that a column of a panel holds, or -1 for padding.
  int32_t row_of(int32_t panel, int32_t column) const {
    if (!gated_) return panel * kPanelColumns + column < n_ ? panel * kPanelColumns + column : -1;
    const int32_t row = panel * kGateColumns + column % kGateColumns;
    if (row >= n_ / 2) return -1;
    return column < kGateColumns ? row : n_ / 2 + row;
  }
  // Off a power of two, so that the rows do not share cache sets.
  int64_t scratch_stride() const { return round_up(k_, kBlockColumns) + kBlockColumns; }

  const WeightFormat* format_;
  int32_t n_;
  int32_t k_;
  bool gated_;
  int64_t panel_bytes_;
  std::shared_ptr<std::byte> memory_;
  std::vector<float> bias_;
};

template <class ReadRow>
void PackedWeight::pack_panel(int32_t index, float* scratch, const ReadRow& read_row) {
  for (int32_t column = 0; column < kPanelColumns; ++column) {
    float* to = scratch + column % kBlockColumns * scratch_stride();
    const int32_t row = row_of(index, column);
    row < 0 ? static_cast<void>(std::fill_n(to, k_, 0.0F)) : read_row(row, to);
    if (column % kBlockColumns < kBlockColumns - 1) continue;
    format_->pack_block(scratch, scratch_stride(), k_, column / kBlockColumns, memory_.get() + index * panel_bytes_);
  }
}

/// The experts of a mixture: all gate_up of one format, all down of one.
class PackedExperts final : public ExpertWeights {
 public:
  PackedExperts(std::vector<PackedWeight> gate_up, std::vector<PackedWeight> down, const ExpertGate& gate);
  int32_t n() const override { return static_cast<int32_t>(down_.size()); }
  int32_t hidden() const override { return down_.front().n(); }
  int32_t width() const override { return down_.front().k(); }
  size_t bytes() const override {
    return static_cast<size_t>(n()) * (gate_up_.front().bytes() + down_.front().bytes());
  }

  const std::vector<PackedWeight>& gate_up() const { return gate_up_; }
  const std::vector<PackedWeight>& down() const { return down_; }
  const ExpertGate& gate() const { return gate_; }

 private:
  std::vector<PackedWeight> gate_up_, down_;
  ExpertGate gate_;
};

}  // namespace ashlar::cpu
