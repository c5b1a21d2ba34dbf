// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decode steps of several sequences that have read their prompts, run one after the other on the caller's thread.

#include <memory>
#include <span>
#include <vector>

#include "decode/decoder.h"

namespace ashlar {

class BatchBench {
 public:
  /// One sequence for each prompt; each has room for `max_tokens` more. `max_rows`: of one step of a prompt. `ops`
  /// outlives this.
  BatchBench(Ops& ops, std::unique_ptr<Decoder> decoder, std::vector<std::vector<int32_t>> prompts, int32_t max_tokens,
             int32_t max_rows);

  struct Turn {
    int64_t tokens = 0, ns = 0, spans = 0, rows = 0;
  };
  /// Greedy steps of the sequences [first, first + n), modulo their number, until they have decoded `tokens` tokens
  /// each, on average. `width`: rows of each span; 0: as the decoder plans.
  Turn run(int32_t first, int32_t n, int32_t tokens, int32_t width);

  /// What sequence `s` has decoded so far.
  std::span<const int32_t> decoded(int32_t s) const { return decoded_[static_cast<size_t>(s)]; }

 private:
  void prefill(int32_t s);
  Span span_of(int32_t s) const;

  std::unique_ptr<Decoder> decoder_;
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<KvMemory> kv_;
  int32_t max_rows_;
  StepShape shape_;
  int32_t pages_of_sequence_ = 0;
  std::vector<int32_t> pages_;  // [sequences, pages_of_sequence_]
  SlotTable slots_;
  StepPlan plan_;
  StepResult result_;
  std::vector<std::vector<int32_t>> decoded_;
};

}  // namespace ashlar
