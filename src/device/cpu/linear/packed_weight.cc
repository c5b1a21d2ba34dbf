// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/linear/packed_weight.h"

#include "base/check.h"

namespace ashlar::cpu {

PackedWeight::PackedWeight(const WeightFormat& format, const WeightSource& source, bool gated, Arena& arena)
    : format_(&format),
      n_(static_cast<int32_t>(source.rows())),
      k_(static_cast<int32_t>(source.cols())),
      gated_(gated),
      panel_bytes_(format.panel_bytes(k_)),
      memory_(arena.take(static_cast<size_t>(panels() * panel_bytes_))),
      bias_(source.bias) {
  if (!gated) return;
  ASHLAR_CHECK_EQ(n_ % 2, 0);
  if (bias_.empty()) return;
  bias_.assign(static_cast<size_t>(panels()) * kPanelColumns, 0);
  for (int32_t i = 0; i < panels() * kPanelColumns; ++i) {
    const int32_t row = row_of(i / kPanelColumns, i % kPanelColumns);
    if (row >= 0) bias_[static_cast<size_t>(i)] = source.bias[static_cast<size_t>(row)];
  }
}

PackedWeight::PackedWeight(const WeightFormat& format, const PackedWeight& from, Arena& arena)
    : format_(&format),
      n_(from.n_),
      k_(from.k_),
      gated_(from.gated_),
      panel_bytes_(format.panel_bytes(k_)),
      memory_(arena.take(static_cast<size_t>(panels() * panel_bytes_))),
      bias_(from.bias_) {}

void PackedWeight::read_row(int32_t index, float scale, float* to) const {
  int32_t panel = index / kPanelColumns;
  int32_t column = index % kPanelColumns;
  if (gated_) {
    const int32_t row = index % (n_ / 2);
    panel = row / kGateColumns;
    column = row % kGateColumns + (index < n_ / 2 ? 0 : kGateColumns);
  }
  format_->read_column(this->panel(panel), column, k_, scale, to);
}

PackedExperts::PackedExperts(std::vector<PackedWeight> gate_up, std::vector<PackedWeight> down, const ExpertGate& gate)
    : gate_up_(std::move(gate_up)), down_(std::move(down)), gate_(gate) {
  ASHLAR_CHECK_EQ(gate_up_.size(), down_.size());
  for (size_t e = 0; e < down_.size(); ++e) {
    ASHLAR_CHECK(down_[e].n() == hidden() && down_[e].k() == width());
    ASHLAR_CHECK(gate_up_[e].n() == 2 * width() && gate_up_[e].k() == hidden());
  }
}

}  // namespace ashlar::cpu
