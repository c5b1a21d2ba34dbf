// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which documents a step trains on: a pure function of the documents' lengths, the seed and the step, so that a run
// that is resumed goes on with what it would have taken next.

#include <cstdint>
#include <vector>

namespace ashlar {

/// What the order needs of a document.
struct OrderedDocument {
  int32_t length = 0;  ///< in tokens
  double weight = 1;   ///< how often an epoch has it
};

class BatchOrder {
 public:
  /// A batch has as many documents as fit into `batch_tokens`, one at least.
  BatchOrder(std::vector<OrderedDocument> documents, int64_t batch_tokens, uint64_t seed);

  /// Indices of documents. Each epoch has every document as often as its weight says, in an order of its own; no batch
  /// reaches over its end. Of a weight with a fraction the first n epochs have the document n times the weight, up to
  /// one, and of many documents about their share is in each. Steps that come one after another are cheap; the first of
  /// an epoch sorts, and one far away sorts for each epoch before it.
  std::vector<int32_t> batch(int64_t step);
  /// The epoch, from 0, that the step belongs to.
  int64_t epoch_of(int64_t step);
  /// Steps of the first `epochs` epochs.
  int64_t steps_of(int64_t epochs);

  /// The order of an epoch: that which sorts Philox4x32-10's numbers of (seed, epoch, document, which time of it).
  std::vector<int32_t> permutation(int64_t epoch) const;

 private:
  void enter(int64_t epoch, int64_t first_step);
  void go_to(int64_t step);

  std::vector<OrderedDocument> documents_;
  int64_t batch_tokens_;
  uint64_t seed_;
  int64_t epoch_ = 0;
  int64_t first_step_ = 0;           // of the epoch
  std::vector<int32_t> order_;       // of the epoch
  std::vector<int32_t> batch_ends_;  // in order_, one for each batch of the epoch
};

}  // namespace ashlar
