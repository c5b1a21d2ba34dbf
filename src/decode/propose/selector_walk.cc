// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/selector_walk.h"

#include <algorithm>

#include "device/sampling/choose_row.h"

namespace ashlar {

SelectorWalk::SelectorWalk(Ops& ops, int32_t candidates, int32_t vocab)
    : ops_(ops),
      scores_(static_cast<size_t>(candidates)),
      distribution_(static_cast<size_t>(vocab)),
      likeliest_(static_cast<size_t>(kMaxWidth) * scores_.size()),
      known_(likeliest_.size()) {
  scratch_.reserve(candidates);
}

void SelectorWalk::begin(const SelectedEdges& edges, int32_t first_row, const ChainSpan& span, const Slot& slot) {
  edges_ = edges;
  first_row_ = first_row;
  span_ = &span;
  slot_ = &slot;
  std::fill(known_.begin(), known_.end(), uint8_t{0});
}

RowRequest SelectorWalk::request(int32_t depth, Pick pick) const {
  RowRequest request;
  request.pick = pick;
  request.position = span_->start + depth;
  request.params = &slot_->params;
  request.seen.counts = &slot_->counts;
  request.id_map = edges_.candidates(first_row_ + depth - 1);
  return request;
}

RowChoice SelectorWalk::choose(const RowRequest& request, int32_t depth, int32_t before) {
  const float* const scores = edges_.after(first_row_ + depth - 1, before);
  std::copy_n(scores, edges_.n, scores_.data());
  return choose_row(scores_.data(), edges_.n, request, scratch_);
}

int32_t SelectorWalk::index_of(int32_t depth, int32_t token) const {
  if (depth == 0) return 0;  // the last token is the only one there
  const int32_t* const ids = edges_.candidates(first_row_ + depth - 1);
  const auto index = static_cast<int32_t>(std::find(ids, ids + edges_.n, token) - ids);
  return index < edges_.n ? index : 0;
}

void SelectorWalk::fill_chain(ChainSpan& span, float* distributions) {
  const auto vocab = static_cast<int32_t>(distribution_.size());
  int32_t before = 0;
  for (int32_t k = 1; k < span.width; ++k) {
    RowRequest asked = request(k, distributions != nullptr ? Pick::kDraft : Pick::kToken);
    if (slot_->params.has_penalties()) asked.seen.after = {span.ids + 1, static_cast<size_t>(k) - 1};
    if (distributions != nullptr) {
      asked.distribution = distribution_.data();
      asked.distribution_size = vocab;
    }
    span.ids[k] = std::max(choose(asked, k, before).token, 0);  // without numbers any draft will do
    before = index_of(k, span.ids[k]);
    if (distributions == nullptr) continue;
    auto* const to = reinterpret_cast<std::byte*>(distributions + int64_t{k} * vocab);
    ops_.upload(distribution_.data(), to, sizeof(float) * distribution_.size());
  }
}

const LikeliestTokens& SelectorWalk::at(int32_t depth, int32_t before) {
  const int32_t index = index_of(depth - 1, before);
  const auto place = static_cast<size_t>(depth - 1) * static_cast<size_t>(edges_.n) + static_cast<size_t>(index);
  if (known_[place] == 0) {
    known_[place] = 1;
    likeliest_[place] = choose(request(depth, Pick::kLikeliest), depth, index).likeliest;
  }
  return likeliest_[place];
}

}  // namespace ashlar
