// SPDX-License-Identifier: Apache-2.0
#pragma once
// Heads that draft one token at a time: a layer with K and V of its own that reads the embedding of a token next to a
// feature of what came before it, which is the target's at first and then what the head itself left. Some draft all
// positions in one pass instead, with a mask in place of what is not known. What each head makes of them is a file in
// this folder; the loop over them is decode/propose/autoregressive.h.

#include <span>

#include "cache/layout.h"
#include "model/layer_stack.h"
#include "model/row_batch.h"

namespace ashlar {

class DraftHead {
 public:
  virtual ~DraftHead() = default;

  /// Auxiliary hidden states to ask of the target's forward, ascending by layer, and their columns together.
  virtual std::span<const AuxLayer> aux_layers() const = 0;
  virtual int32_t aux_width() const = 0;
  /// Columns of a feature.
  virtual int32_t feature_width() const = 0;
  virtual int32_t vocab() const = 0;  ///< of the target
  /// Columns of the head's logits, and the target id of each, or null if they are the same.
  virtual int32_t draft_vocab() const = 0;
  virtual const int32_t* id_map() const = 0;

  virtual void register_state(KvLayout& layout) = 0;
  /// Activations for up to `max_rows` rows a call.
  virtual void reserve(int32_t max_rows) = 0;

  /// What stands for tokens that are not drafted yet where the head drafts all positions in one pass; -1: it drafts one
  /// after the other.
  virtual int32_t mask_id() const { return -1; }
  /// [1, feature_width]: what stands for features that are not there yet, next to mask_id().
  virtual Tensor mask_feature() const { return {}; }

  /// Features of the target's hidden states: [n, aux_width] to [n, feature_width], valid until the next call.
  virtual Tensor features(Tensor aux_hidden) = 0;

  struct Output {
    Tensor hidden;    ///< [n_outputs, hidden], for head()
    Tensor features;  ///< [n_outputs, feature_width]: of these rows, for the rows after them
  };
  /// Runs rows whose ids and positions the batch has: row r with the feature of the position before its own,
  /// features [batch.n(), feature_width]. Writes K and V of all rows; a batch without outputs computes nothing else.
  /// What it returns is valid until the next call.
  virtual Output forward(Tensor features, const RowBatch& batch, const KvMemory& kv) = 0;

  /// Logits over the draft vocabulary: [rows, draft_vocab].
  virtual void head(Tensor hidden, Tensor out) const = 0;
  /// The entry of the draft vocabulary with the highest logit, for each row.
  virtual void head_argmax(Tensor hidden, int32_t* entries) const = 0;
  virtual size_t bytes_read() const = 0;  ///< weights that a pass and its logits read
};

}  // namespace ashlar
