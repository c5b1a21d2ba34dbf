// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/block_batch.h"

#include <algorithm>

#include "base/check.h"
#include "base/philox.h"

namespace ashlar {

DrafterTrainer::Anchors draw_anchors(const TrainDocument& document, int32_t max_anchors, uint64_t seed, uint64_t step,
                                     uint32_t index, int32_t first) {
  DrafterTrainer::Anchors all;
  for (auto p = static_cast<size_t>(first); p + 1 < document.ids.size(); ++p) {
    if (document.supervised[p] != 0 && document.supervised[p + 1] != 0) all.push_back(static_cast<int32_t>(p));
  }
  const size_t n = std::min(all.size(), static_cast<size_t>(max_anchors));
  if (n == all.size()) return all;
  for (size_t i = 0; i < n; ++i) {
    const PhiloxBlock words =
        philox4x32({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), index, static_cast<uint32_t>(i)},
                   static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    const uint64_t rest = all.size() - i;
    std::swap(all[i], all[i + static_cast<size_t>(words[0] * rest >> 32)]);
  }
  all.resize(n);
  std::sort(all.begin(), all.end());
  return all;
}

void BlockBatch::add(const TrainDocument& document, std::span<const int32_t> anchors, const TrainShape& shape) {
  const auto size = static_cast<int32_t>(document.ids.size());
  ASHLAR_CHECK_EQ(document.supervised.size(), document.ids.size());
  ASHLAR_CHECK_EQ(document.aux_hidden.rows, size);
  ASHLAR_CHECK_EQ(document.aux_hidden.cols, shape.aux_width);
  if (anchors.empty()) return;
  const int32_t first = context_rows;
  const int32_t first_row = block_rows();
  const int32_t context = anchors.back();
  // Positions of context rows stand before those of block rows.
  std::vector<int32_t> of_context(static_cast<size_t>(context));
  for (int32_t t = 0; t < context; ++t) of_context[static_cast<size_t>(t)] = t;
  positions.insert(positions.begin() + first, of_context.begin(), of_context.end());
  next.insert(next.end(), document.ids.begin() + 1, document.ids.begin() + 1 + context);
  context_rows += context;
  aux_hidden.push_back(document.aux_hidden.narrow(context));
  for (size_t b = 0; b < anchors.size(); ++b) {
    const int32_t anchor = anchors[b];
    ASHLAR_CHECK(anchor >= 0 && anchor < size && (b == 0 || anchors[b - 1] < anchor));
    blocks.push_back({first, anchor});
    for (int32_t slot = 0; slot < shape.block; ++slot) {
      ids.push_back(slot == 0 ? document.ids[static_cast<size_t>(anchor)] : shape.mask_token_id);
      texts.push_back(document.ids[static_cast<size_t>(std::min(anchor + slot, size - 1))]);
      positions.push_back(anchor + slot);
    }
    max_position = std::max(max_position, anchor + shape.block - 1);
  }
  for_labels(document, anchors, shape.block, [&](int32_t b, int32_t slot) {
    const int32_t row = first_row + b * shape.block + slot;
    const int32_t position = anchors[static_cast<size_t>(b)] + slot;
    const std::optional<int32_t> entry = shape.draft_entry(document.ids[static_cast<size_t>(position)]);
    if (!entry) return lost_rows.push_back(row);
    label_rows.push_back(row);
    labels.push_back(*entry);
    before.push_back(document.ids[static_cast<size_t>(position - 1)]);
    if (document.final_hidden.rows > 0) target_rows.push_back(n_target_rows + position - 1);
  });
  if (document.final_hidden.rows == 0) return;
  ASHLAR_CHECK_EQ(document.final_hidden.rows, size);
  ASHLAR_CHECK_EQ(document.final_hidden.cols, shape.hidden);
  final_hidden.push_back(document.final_hidden);
  n_target_rows += size;
}

}  // namespace ashlar
