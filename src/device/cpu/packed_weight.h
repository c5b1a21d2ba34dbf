#pragma once
// A weight in panels (layout: kernels.h). bf16 checkpoints stay bf16; f32 and f16 ones become f32, exactly.

#include <span>
#include <vector>

#include "device/cpu/cpu_memory.h"
#include "device/cpu/kernels.h"
#include "device/ops.h"

namespace ashlar::cpu {

class PackedWeight final : public Weight {
 public:
  /// Parts and bias as for Ops::pack; the panels lie in `arena`.
  PackedWeight(std::span<const HostTensor> parts, std::span<const float> bias, Arena& arena);
  /// As for Ops::pack_gated: every panel has kGateColumns gates and behind them the same columns of up, the last one
  /// padded with zeros. They are read in one stream, and whoever computes one computes the other.
  PackedWeight(const HostTensor& gate, const HostTensor& up, std::span<const float> bias, Arena& arena);

  /// Room for a copy of `from` with 8 bits a value; fill it with quantise_panel().
  PackedWeight(const PackedWeight& from, Arena& arena);
  /// Rounds panel `index` of `from`, column by column: value = scale * integer, |integer| <= 127, the scale such that
  /// the column's largest value is 127. Values that are not finite become 0. Panels may be filled by several threads,
  /// with scratch [k, kBlockColumns] each.
  void quantise_panel(const PackedWeight& from, int32_t index, float* scratch);

  int32_t n() const override { return n_; }
  bool gated() const { return gated_; }
  bool quantised() const { return quantised_; }
  int32_t k() const override { return k_; }
  size_t bytes() const override { return static_cast<size_t>(panels() * panel_bytes()) + bias_.size() * sizeof(float); }

  DType dtype() const { return dtype_; }  ///< of the checkpoint's values as kept, before quantisation
  bool is(DType dtype) const { return dtype_ == dtype && !quantised_; }  ///< kept so
  int32_t panels() const {
    if (gated_) return static_cast<int32_t>(round_up(n_ / 2, kGateColumns) / kGateColumns);
    return static_cast<int32_t>(round_up(n_, kPanelColumns) / kPanelColumns);
  }
  const std::byte* panel(int32_t index) const { return memory_.get() + index * panel_bytes(); }
  int64_t panel_bytes() const {
    return quantised_ ? quantised_panel_bytes(k_) : kPanelColumns / kBlockColumns * block_bytes();
  }
  int64_t block_bytes() const {
    return round_up(k_, kDepthMultiple) * kBlockColumns * static_cast<int64_t>(bytes_of(dtype_));
  }
  /// One for every column of the panels, or null.
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

  /// to[0..k) = scale * row `index`, out of the panels; not of a gated or quantised weight.
  void read_row(int32_t index, float scale, float* to) const;

 private:
  void pack_row(const HostTensor& part, int64_t from, int64_t row);
  /// to[k, kBlockColumns]: block `index` of the panels.
  void read_block(int32_t index, float* to) const;

  int32_t n_;
  int32_t k_;
  bool gated_ = false;
  bool quantised_ = false;
  DType dtype_;
  std::shared_ptr<std::byte> memory_;
  std::vector<float> bias_;
};

}  // namespace ashlar::cpu
