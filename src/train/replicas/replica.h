// SPDX-License-Identifier: Apache-2.0
#pragma once
// One device's part of a training run: the target, which says hidden states there, and a trainer.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/replicas/all_reduce.h"
#include "train/capture/hidden_capture.h"
#include "train/capture/hidden_server.h"
#include "train/capture/hidden_store.h"
#include "train/run/capture_run.h"
#include "train/run/trainer.h"

namespace ashlar {

/// Tokens of a document, and which of them are learnt.
struct EncodedView {
  std::span<const int32_t> ids;
  std::span<const uint8_t> supervised;
  std::optional<size_t> number = {};  ///< in the data; none: it is not of them
};

/// A device that trains: the target there, and what makes a trainer there.
struct TrainPlace {
  Model* model;
  MakeTrainer make_trainer;
  AllReduce* all_reduce = nullptr;  ///< to the trainers at other places, which make_trainer knows; null: there are none
};

class Replica {
 public:
  /// `max_tokens`: of a document. Hidden states that options.hidden_states has are read there, and with
  /// options.hidden_server those of the data's documents are asked for there. What is missing of the data's documents
  /// in options.hidden_states is computed and kept there, as long as it can be written and leaves 2 GiB
  /// free. No engine of the model may run
  /// while this computes.
  Replica(const TrainPlace& place, const TrainedDrafter& drafter, const TrainOptions& options, int32_t max_tokens);

  /// Documents with their hidden states on the device, which stay until the next call. Those whose share is another
  /// one come without: another replica has them. No shares: all are here.
  std::span<const TrainDocument> capture(std::span<const EncodedView> documents, std::span<const int32_t> shares = {},
                                         int32_t share = 0);

  /// Why hidden states are no longer kept in options.hidden_states, once; empty: they are, or it was said.
  std::string take_not_kept();

  Trainer& trainer() const { return *trainer_; }
  /// Bytes of a token's hidden states in a batch: what is read and what is computed have room of their own.
  int64_t hidden_token_bytes() const { return capture_.token_bytes() * (stored_ == nullptr ? 1 : 2); }
  /// Of the captures' pages and rows.
  int64_t capture_bytes() const { return capture_.bytes() * (store_ != nullptr && keeps_ ? 2 : 1); }
  /// The others need not wait for this one any more.
  void abandon() const {
    if (all_reduce_ != nullptr) all_reduce_->abandon();
  }

 private:
  bool is_missing(const EncodedView& document) const {
    return store_ != nullptr && document.number && !store_->has(*document.number);
  }
  bool is_stored(const EncodedView& document) const {
    return store_ != nullptr && document.number && store_->has(*document.number);
  }

  void keep(std::span<const EncodedView> documents, const std::function<bool(size_t)>& is_here);

  Model& model_;
  int32_t max_tokens_;
  HiddenCapture capture_;
  std::unique_ptr<HiddenStore> store_;    // null: no folder
  std::unique_ptr<HiddenWriter> writer_;  // once something is missing there
  std::string not_kept_;
  bool keeps_;                            // what is missing there, as long as there is room
  std::unique_ptr<HiddenServer> server_;  // null: no server
  std::unique_ptr<StoredHidden> stored_;  // of either
  bool learns_distributions_;
  std::unique_ptr<Trainer> trainer_;
  AllReduce* all_reduce_;
  std::vector<TrainDocument> batch_;
};

}  // namespace ashlar
