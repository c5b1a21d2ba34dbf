// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole decode steps of one sequence, launched one after the other on the caller's thread: what a step costs on the
// device, split into its parts, without the engine's own work.

#include <memory>
#include <vector>

#include "decode/decoder.h"

namespace ashlar {

class StepBench {
 public:
  /// Decodes from `prompt` on; after `max_tokens` tokens, or one step where that is more, it starts over after the
  /// prompt. `width` rows a step (1: plain decoding). `max_rows`: of one launch. `ops` outlives this.
  StepBench(Ops& ops, std::unique_ptr<Decoder> decoder, const std::vector<int32_t>& prompt, int32_t max_tokens,
            int32_t width, int32_t max_rows);

  /// From now on `width` rows a step, at most the width of the constructor.
  void narrow(int32_t width);

  /// One decode step. Greedy.
  void step();

  /// A few decode steps that are not recorded: caches then hold what steps of this kind leave there. One is not enough
  /// where a last-level cache keeps what comes back to it again and again (a drafter of 9 MB took 1.4 times as long).
  /// The next step then has room for its whole width, so that its time is that of a step alone.
  void warm_up();

  /// Forgets what was recorded so far.
  void reset() { times_.clear(), tokens_ = 0; }
  /// One entry a step since the last reset.
  const std::vector<StepTimes>& times() const { return times_; }
  /// Tokens of those steps.
  int64_t tokens() const { return tokens_; }

 private:
  void make_room();
  void prefill(int32_t known);  // from a position before which the prompt's K and V are there

  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<KvMemory> kv_;
  std::vector<int32_t> pages_;
  SlotTable slots_;
  Slot before_prompt_, after_prompt_;
  bool prompt_lasts_;  // all planes keep the prompt's pages while later ones are written
  StepPlan plan_;
  StepResult result_;
  std::vector<int32_t> prompt_;
  int32_t max_rows_;
  StepShape shape_;
  std::vector<StepTimes> times_;
  int64_t tokens_ = 0;
};

}  // namespace ashlar
