// SPDX-License-Identifier: Apache-2.0
#include "train/replicas/replica.h"

#include "base/check.h"

namespace ashlar {

Replica::Replica(const TrainPlace& place, const DflashConfig& drafter, const TrainOptions& options, int32_t max_tokens)
    : capture_(*place.model, drafter.aux_layers, max_tokens, HiddenCapture::kRows, options.distribution.has_value()),
      learns_distributions_(options.distribution.has_value()),
      trainer_(place.make_trainer(drafter, options)),
      all_reduce_(place.all_reduce) {}

std::span<const TrainDocument> Replica::capture(std::span<const EncodedView> documents, std::span<const int32_t> shares,
                                                int32_t share) {
  ASHLAR_CHECK(shares.empty() || shares.size() == documents.size());
  const auto is_here = [&](size_t i) { return shares.empty() || shares[i] == share; };
  std::vector<std::span<const int32_t>> ids;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (is_here(i)) ids.push_back(documents[i].ids);
  }
  const std::span<const Tensor> hidden = capture_.capture(ids);
  batch_.clear();
  size_t next = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    batch_.push_back({documents[i].ids, documents[i].supervised, Tensor{}});
    if (!is_here(i)) continue;
    batch_.back().aux_hidden = hidden[next];
    if (learns_distributions_) batch_.back().final_hidden = capture_.final_hidden()[next];
    ++next;
  }
  return batch_;
}

}  // namespace ashlar
