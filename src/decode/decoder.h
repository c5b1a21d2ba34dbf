// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoding method as the engine sees it. The engine plans by upper bounds and knows nothing of what a method does
// inside a step.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cache/layout.h"
#include "decode/method_choice.h"
#include "decode/slot_table.h"
#include "decode/step.h"

namespace ashlar {

/// Sizes that are fixed when the engine starts; a decoder allocates for them once.
struct StepLimits {
  int32_t max_rows = 0;   ///< rows of one step, all spans together
  int32_t max_spans = 0;  ///< two of a sequence where a decode span joins the prefill
  int32_t max_slots = 0;
};

/// How a sequence moves, in the numbers that planning by upper bounds needs.
struct StepShape {
  /// Positions whose K and V become final together. Prefill chunks and reused prefixes consist of whole blocks.
  int32_t block = 1;
  /// Whether the last row of the prompt yields the first token. If not, only whole blocks of the prompt are prefilled,
  /// and its rest belongs to the first decode span.
  bool prefill_samples = true;
  /// Whether the first decode span needs nothing that prefill spans find out but K and V of the rows before its own, so
  /// that it may share a step with the last of them.
  bool joins_prefill = false;
  /// Every decode span computes the whole sequence up to its limit: nothing is prefilled, nothing is kept or reused.
  bool whole_sequence = false;
  int32_t rows = 1;            ///< most rows of a decode span
  int32_t min_rows = 0;        ///< a decode span may be given fewer, down to this many, and appends less; 0: it may not
  int32_t tokens = 1;          ///< most tokens it may append
  int32_t min_new_tokens = 1;  ///< tokens it appends for certain, unless the sequence ends or its constraint waits
  /// A decode span touches positions below floor(known / block) * block + lookahead, where `known` counts the tokens.
  int32_t lookahead = 0;
  int32_t answer = 0;  ///< tokens of an answer whose request names no length; 0: up to the end of the context

  int32_t whole_blocks(int32_t known) const { return known / block * block; }
  /// Tokens that prefill spans compute when `known` are known.
  int32_t prefill(int32_t known) const {
    if (whole_sequence) return 0;
    return prefill_samples ? known : whole_blocks(known);
  }
  /// Of them, those that may be taken from the cache: the row that samples is always computed.
  int32_t cacheable(int32_t known) const { return prefill(known) - (prefill_samples ? 1 : 0); }
  /// Most positions that a decode span touches, of a sequence with `known` tokens that ends at `limit`.
  int32_t max_positions(int32_t known, int32_t limit) const {
    if (whole_sequence) return limit;
    return std::min(whole_blocks(known) + lookahead, whole_blocks(limit + block - 1));
  }
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual std::string name() const = 0;
  /// Of a request with this width; 0: without a wish.
  virtual StepShape shape(int32_t width) const = 0;
  /// Largest width a request may have: most tokens that one pass decides for it.
  virtual int32_t max_width() const = 0;
  /// Positions of a block, whose tokens are unmasked in any order and come with the pass that unmasked each
  /// (SpanResult::unmask_pass); 0: tokens come one after another.
  virtual int32_t block_size() const { return 0; }
  /// What is wrong with a request's choice, for the person who made it, or empty. Any thread.
  virtual std::string check(const MethodChoice& choice) const {
    return choice.empty()
               ? ""
               : "this model writes its tokens one after another; an algorithm can be chosen only for models "
                 "that fill blocks";
  }
  /// Whether a prefill row says how likely the next token of the prompt is (Span::score_from): it sees none but the
  /// tokens before that.
  virtual bool scores_prompts() const { return false; }
  /// Has prefill rows report the residual stream after these layers, in this order, where a span asks for it
  /// (Span::hidden_from). Called before register_state(), or not at all. False: there is none that a row leaves for
  /// good.
  virtual bool report_hidden(std::span<const int32_t> /*layers*/) { return false; }
  virtual HiddenRow hidden_row() const { return {}; }
  virtual int32_t vocab() const = 0;
  /// Longest sequence in tokens.
  virtual int32_t max_positions() const = 0;

  /// `limits` are those of start().
  virtual void register_state(KvLayout& layout, const StepLimits& limits) = 0;
  /// Allocates everything a step needs. Called once, after register_state; `kv` outlives the decoder.
  virtual void start(const StepLimits& limits, const KvMemory& kv) = 0;

  /// Prepares a slot for a sequence whose known tokens are `tokens`; may allocate and correct the state. Called on the
  /// engine's thread while no step uses the slot. The tokens may move afterwards.
  virtual void admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) = 0;

  /// Completes a plan with what only costs or saves time, such as how many drafts are verified, from what collect() was
  /// given so far: all steps before this one, or all but the newest.
  virtual void plan(StepPlan& /*plan*/) {}
  /// Runs one step: reads the plan and the slots, advances the slots, writes result.spans[0..n). Reads no result of
  /// another step.
  virtual void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) = 0;
  /// Learns from the results of a step. Steps come in order.
  virtual void collect(const StepPlan& /*plan*/, const StepResult& /*result*/) {}
  /// The three in a row, where a step is over when enqueue() returns.
  void run(StepPlan& plan, SlotTable& slots, StepResult& result) {
    this->plan(plan);
    enqueue(plan, slots, result);
    collect(plan, result);
  }

  /// Monotonic time of the newest sign that a step is getting on, such as a layer that is done; 0: none yet. Any
  /// thread, after start().
  virtual int64_t last_progress_ns() const { return 0; }

  /// Aborts if what it keeps about pages contradicts itself. Called on the engine's thread while nothing runs.
  virtual void check_integrity() const {}
};

}  // namespace ashlar
