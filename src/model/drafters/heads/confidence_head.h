// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a drafter thinks of its drafts: of each, how likely it is to be accepted if those before it are. Source: DSpark
// (arXiv 2607.05147; DeepSpec, speculators).

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"

namespace ashlar {

/// With h a position's final hidden state and e the code of the token before it: sigmoid(w [h; e] + b), or of h alone.
class ConfidenceHead {
 public:
  /// Binds PREFIX.weight [1, hidden + code] and, where it is there, PREFIX.bias. code: width of the codes; 0: none.
  ConfidenceHead(WeightBinder& binder, const std::string& prefix, int32_t hidden, int32_t code);

  /// For calls of at most `rows` rows.
  void reserve(Ops& ops, int32_t rows);
  /// hidden: [n, hidden] of n positions, before: the token before each, codes: [vocab, code]. On the host, until the
  /// next call.
  std::span<const float> chances(Ops& ops, Tensor hidden, std::span<const int32_t> before, const Weight& codes);

 private:
  int32_t code_;
  std::unique_ptr<Weight> of_hidden_, of_code_;  // of_code_: null where only the hidden state counts
  DeviceArray<int32_t> ids_;
  DeviceArray<float> logits_;  // of hidden states, then of codes
  std::unique_ptr<Buffer> storage_;
  Tensor code_rows_;  // [rows, code]
  std::vector<float> chances_;
};

}  // namespace ashlar
