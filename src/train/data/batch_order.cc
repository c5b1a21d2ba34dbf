// SPDX-License-Identifier: Apache-2.0
#include "train/data/batch_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/philox.h"

namespace ashlar {
namespace {

// Keeps these numbers apart from others of the same seed.
constexpr uint32_t kOrderPurpose = 0x6F726465;  // "orde"
constexpr int32_t kMaxInEpoch = 1 << 28;        // 16 bytes each while they are sorted

// How often an epoch has a document: what the share of all epochs up to its end has more than that of those before.
// Where each document's share begins is a multiple of the golden ratio's fraction, which spreads those with an extra
// time evenly over any run of documents (Weyl's sequence).
int64_t times_in(int64_t epoch, size_t document, double weight) {
  const double begin = static_cast<double>(uint64_t{document} * 0x9E3779B97F4A7C15u >> 32) * 0x1p-32;
  const auto before = [&](int64_t epochs) {
    return static_cast<int64_t>(std::floor(static_cast<double>(epochs) * weight + begin));
  };
  return before(epoch + 1) - before(epoch);
}

}  // namespace

BatchOrder::BatchOrder(std::vector<OrderedDocument> documents, int64_t batch_tokens, uint64_t seed)
    : documents_(std::move(documents)), batch_tokens_(batch_tokens), seed_(seed) {
  ASHLAR_CHECK(!documents_.empty());
  double most = 0;  // that an epoch has
  for (const OrderedDocument& document : documents_) {
    ASHLAR_CHECK(document.weight > 0);  // or no epoch would end
    most += std::ceil(document.weight);
  }
  if (most > kMaxInEpoch) {
    throw Error("train", "an epoch would have " + std::to_string(static_cast<int64_t>(most)) +
                             " documents by the weights of --data; expected at most " + std::to_string(kMaxInEpoch));
  }
  enter(0, 0);
}

std::vector<int32_t> BatchOrder::permutation(int64_t epoch) const {
  std::vector<std::pair<uint64_t, int32_t>> keys;
  keys.reserve(documents_.size());
  for (size_t i = 0; i < documents_.size(); ++i) {
    const int64_t times = times_in(epoch, i, documents_[i].weight);
    for (int64_t time = 0; time < times; ++time) {
      const PhiloxBlock words = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(epoch),
                                            static_cast<uint32_t>(epoch >> 32 | time << 16), kOrderPurpose},
                                           static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
      keys.emplace_back(uint64_t{words[0]} << 32 | words[1], static_cast<int32_t>(i));
    }
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int32_t> order;
  order.reserve(keys.size());
  for (const auto& key : keys) order.push_back(key.second);
  return order;
}

void BatchOrder::enter(int64_t epoch, int64_t first_step) {
  epoch_ = epoch;
  first_step_ = first_step;
  order_ = permutation(epoch);
  batch_ends_.clear();
  int64_t tokens = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    const int32_t length = documents_[static_cast<size_t>(order_[i])].length;
    if (tokens > 0 && tokens + length > batch_tokens_) {
      batch_ends_.push_back(static_cast<int32_t>(i));
      tokens = 0;
    }
    tokens += length;
  }
  // Small weights leave epochs of few documents empty.
  if (!order_.empty()) batch_ends_.push_back(static_cast<int32_t>(order_.size()));
}

void BatchOrder::go_to(int64_t step) {
  if (step < first_step_) enter(0, 0);
  while (step >= first_step_ + static_cast<int64_t>(batch_ends_.size())) {
    enter(epoch_ + 1, first_step_ + static_cast<int64_t>(batch_ends_.size()));
  }
}

std::vector<int32_t> BatchOrder::batch(int64_t step) {
  go_to(step);
  const auto at = static_cast<size_t>(step - first_step_);
  const int32_t begin = at == 0 ? 0 : batch_ends_[at - 1];
  return {order_.begin() + begin, order_.begin() + batch_ends_[at]};
}

int64_t BatchOrder::epoch_of(int64_t step) {
  go_to(step);
  return epoch_;
}

int64_t BatchOrder::steps_of(int64_t epochs) {
  enter(0, 0);
  int64_t steps = static_cast<int64_t>(batch_ends_.size());
  for (int64_t epoch = 1; epoch < epochs; ++epoch) {
    enter(epoch, steps);
    steps += static_cast<int64_t>(batch_ends_.size());
  }
  return steps;
}

}  // namespace ashlar
