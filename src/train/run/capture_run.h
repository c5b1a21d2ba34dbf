// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hidden states of all documents that are trained on, into a folder, before training.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "train/capture/hidden_capture.h"
#include "train/capture/hidden_store.h"
#include "train/data/document_set.h"
#include "train/run/train_options.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

/// What a drafter needs of a target's hidden states with these options.
HiddenLayout hidden_layout(const TrainedDrafter& drafter, const ModelConfig& target, const TrainOptions& options);

/// Bytes of the files of all training documents, about.
int64_t capture_bytes(const Model& model, const DocumentSet& documents, const HiddenLayout& layout);

/// Computes hidden states of documents and keeps them in a store.
class HiddenWriter {
 public:
  struct Document {
    size_t number;  ///< in the data
    std::span<const int32_t> ids;
    std::span<const uint8_t> supervised;
  };
  /// `max_tokens`: of a document. All outlive this.
  HiddenWriter(Model& model, const HiddenStore& store, int32_t max_tokens);
  /// Of documents whose states are no numbers nothing is written: they are computed anew in training, which skips them.
  /// No engine of the model may run meanwhile. Throws Error("file", ...) if the disk is full.
  void write(std::span<const Document> documents);

 private:
  std::vector<float> values_of(Tensor rows);

  Ops& ops_;
  const HiddenStore& store_;
  HiddenCapture capture_;
  std::vector<std::byte> staging_;
};

/// Writes what the store lacks of the documents that are trained on, and what was damaged there, of which
/// `on_damaged` hears.
/// `go_on` is called with how many are there, now and then; false ends it, and the same call goes on. Returns how many
/// are there. The numbers are those that training computes otherwise, to the bit, in the model's type of activations.
/// No engine of the model may run meanwhile. Throws Error("file", ...) if the disk is full, and as HiddenFile does.
int64_t capture_documents(Model& model, const DocumentSet& documents, const HiddenStore& store, int32_t max_tokens,
                          const std::function<bool(int64_t done)>& go_on,
                          const std::function<void(const std::string& what)>& on_damaged = {});

}  // namespace ashlar
