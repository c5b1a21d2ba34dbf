// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/choose/cuda_adjust.h"

#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {

void Adjuster::clear() {
  for (const Adjustment& adjustment : adjustments_) places_[static_cast<size_t>(adjustment.column)] = -1;
  copies_.clear();
  masks_.clear();
  adjustments_.clear();
}

Adjustment& Adjuster::of_column(int32_t column) {
  int32_t& place = places_[static_cast<size_t>(column)];
  if (place < first_) {
    place = static_cast<int32_t>(adjustments_.size());
    adjustments_.push_back({static_cast<int32_t>(copies_.size()) - 1, column, 0, 1, 0, 0});
  }
  return adjustments_[static_cast<size_t>(place)];
}

int32_t Adjuster::add(const RowRequest& request, int32_t vocab) {
  if (places_.size() != static_cast<size_t>(vocab)) places_.assign(static_cast<size_t>(vocab), -1);
  first_ = static_cast<int32_t>(adjustments_.size());
  const auto row = static_cast<int32_t>(copies_.size());
  copies_.push_back({request.row, -1});
  if (!request.allowed.empty()) {
    const auto words = static_cast<size_t>(vocab + 31) / 32;
    copies_.back().mask = static_cast<int32_t>(masks_.size() / words);
    masks_.insert(masks_.end(), request.allowed.begin(), request.allowed.begin() + static_cast<int64_t>(words));
  }
  const SamplingParams& params = *request.params;
  for (const auto& [id, bias] : params.logit_bias) of_column(id).bias += bias;
  if (params.has_penalties()) {
    const auto penalise = [&](int32_t id) {
      Adjustment& adjustment = of_column(id);
      const int32_t in_answer = request.seen.in_answer(id);
      if (request.seen.in_prompt(id) || in_answer > 0) {
        adjustment.repetition = static_cast<float>(params.repetition_penalty);
      }
      if (in_answer > 0) {
        adjustment.penalty = static_cast<float>(params.presence_penalty + params.frequency_penalty * in_answer);
      }
    };
    for (const int32_t id : request.seen.counts->seen()) penalise(id);
    for (const int32_t id : request.seen.after) penalise(id);
  }
  if (request.repeated >= 0) of_column(request.repeated).repeat_penalty = request.repeat_penalty;
  return row;
}

Matrix Adjuster::run(const Matrix& logits) {
  const size_t n = copies_.size();
  if (n == 0) return {};
  Matrix rows = logits;
  rows.rows = static_cast<int32_t>(n);
  rows.stride = rows.cols;
  rows.data = rows_memory_.reserve(sizeof(float) * n * static_cast<size_t>(rows.cols));
  // Their elements are words of four bytes.
  const size_t of_copies = sizeof(MaskedCopy) * n, of_masks = sizeof(uint32_t) * masks_.size();
  auto* const copies =
      static_cast<std::byte*>(inputs_.reserve(of_copies + of_masks + sizeof(Adjustment) * adjustments_.size()));
  std::byte* const masks = copies + of_copies;
  std::byte* const all = masks + of_masks;
  memory_.upload(copies_.data(), copies, of_copies);
  memory_.upload(masks_.data(), masks, of_masks);
  memory_.upload(adjustments_.data(), all, sizeof(Adjustment) * adjustments_.size());
  copy_masked(memory_.stream(), logits, reinterpret_cast<const MaskedCopy*>(copies),
              reinterpret_cast<const uint32_t*>(masks), (rows.cols + 31) / 32, rows);
  check_launch("copy_masked");
  if (!adjustments_.empty()) {
    adjust(memory_.stream(), rows, reinterpret_cast<const Adjustment*>(all), static_cast<int32_t>(adjustments_.size()));
    check_launch("adjust");
  }
  return rows;
}

}  // namespace ashlar::cuda
