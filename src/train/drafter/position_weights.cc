// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/position_weights.h"

#include <cmath>

namespace ashlar {

double decay_weight(int32_t slot, double gamma) { return std::exp(-(slot - 1) / gamma); }

std::vector<float> dpace_weights(std::span<const int32_t> label_rows, std::span<const TokenLoss> losses, int32_t block,
                                 double alpha, std::span<const int32_t> lost_rows) {
  std::vector<float> weights(label_rows.size());
  struct Factor {
    double product;
    float* weight;  // null: of a lost row
  };
  std::vector<Factor> factors;  // of a block's rows, ascending
  for (size_t i = 0; i < label_rows.size() || !lost_rows.empty();) {
    factors.clear();
    const bool starts_lost = !lost_rows.empty() && (i == label_rows.size() || lost_rows.front() < label_rows[i]);
    const int32_t of_block = (starts_lost ? lost_rows.front() : label_rows[i]) / block;
    double product = 1;
    while (true) {
      const bool labelled = i < label_rows.size() && label_rows[i] / block == of_block;
      const bool lost = !lost_rows.empty() && lost_rows.front() / block == of_block;
      if (!labelled && !lost) break;
      if (lost && (!labelled || lost_rows.front() < label_rows[i])) {
        factors.push_back({product *= alpha, nullptr});
        lost_rows = lost_rows.subspan(1);
        continue;
      }
      product *= (1 - alpha) * losses[i].probability + alpha;
      factors.push_back({product, &weights[i++]});
    }
    double sum = 0;
    for (size_t k = factors.size(); k-- > 0;) {
      sum += factors[k].product;
      if (factors[k].weight != nullptr) *factors[k].weight = static_cast<float>(sum);
    }
  }
  return weights;
}

void DraftCounts::add(std::span<const int32_t> label_rows, std::span<const int32_t> labels,
                      std::span<const TokenLoss> losses, std::span<const int32_t> lost_rows) {
  const auto block = static_cast<int32_t>(slots_.size());
  int32_t next = 0;  // the row that continues a block whose slots were all right
  const auto count = [&](int32_t row, bool right) {
    Slot& slot = slots_[static_cast<size_t>(row % block)];
    ++slot.labels;
    slot.right += right ? 1 : 0;
    if (row % block != 1 && row != next) return;
    ++slot.reached;
    slot.accepted += right ? 1 : 0;
    if (right) next = row + 1;
  };
  for (size_t i = 0; i <= label_rows.size(); ++i) {
    while (!lost_rows.empty() && (i == label_rows.size() || lost_rows.front() < label_rows[i])) {
      count(lost_rows.front(), false);
      lost_rows = lost_rows.subspan(1);
    }
    if (i < label_rows.size()) count(label_rows[i], losses[i].best == labels[i]);
  }
}

// A block that ends early says nothing about the slots after its end, so the chance to get past each slot is estimated
// from the blocks that reached it (Kaplan and Meier, 1958).
void DraftCounts::write(TrainReport& report) const {
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  report.position_accuracy.clear();
  report.expected_acceptance = 1;
  double product = 1;
  for (size_t i = 1; i < slots_.size(); ++i) {
    report.position_accuracy.push_back(share(slots_[i].right, slots_[i].labels));
    product *= share(slots_[i].accepted, slots_[i].reached);
    report.expected_acceptance += product;
    report.labels += slots_[i].labels;
  }
}

void DraftCounts::append_to(std::vector<double>& figures) const {
  for (const Slot& slot : slots_) {
    for (const int64_t count : {slot.labels, slot.right, slot.reached, slot.accepted}) {
      figures.push_back(static_cast<double>(count));
    }
  }
}

void DraftCounts::take(std::span<const double> figures) {
  size_t next = 0;
  for (Slot& slot : slots_) {
    for (int64_t* const count : {&slot.labels, &slot.right, &slot.reached, &slot.accepted}) {
      *count = static_cast<int64_t>(figures[next++]);
    }
  }
}

}  // namespace ashlar
