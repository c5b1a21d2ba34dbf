// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoder that plans each step before it was given the results of the one before, as on a device that is still busy
// with it. It plans worse; no token may change. Invariant: enqueue-reads-no-result.

#include <memory>
#include <mutex>
#include <utility>

#include "decode/decoder.h"

namespace ashlar::testing {

class LateDecoder final : public Decoder {
 public:
  explicit LateDecoder(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}

  std::string name() const override { return decoder_->name(); }
  StepShape shape(int32_t width) const override { return decoder_->shape(width); }
  int32_t max_width() const override { return decoder_->max_width(); }
  int32_t block_size() const override { return decoder_->block_size(); }
  std::string check(const MethodChoice& choice) const override { return decoder_->check(choice); }
  bool scores_prompts() const override { return decoder_->scores_prompts(); }
  int32_t vocab() const override { return decoder_->vocab(); }
  int32_t max_positions() const override { return decoder_->max_positions(); }
  void register_state(KvLayout& layout, const StepLimits& limits) override { decoder_->register_state(layout, limits); }
  void start(const StepLimits& limits, const KvMemory& kv) override { decoder_->start(limits, kv); }
  void check_integrity() const override { decoder_->check_integrity(); }

  // A slot changes hands only when all steps with its last sequence were collected.
  void admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) override {
    const std::lock_guard lock(mutex_);
    pass_on();
    decoder_->admit(slot, state, tokens);
  }
  void plan(StepPlan& plan) override {
    const std::lock_guard lock(mutex_);
    decoder_->plan(plan);
    pass_on();
  }
  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override {
    decoder_->enqueue(plan, slots, result);
  }
  void collect(const StepPlan& plan, const StepResult& result) override {
    const std::lock_guard lock(mutex_);
    plan_ = plan;
    result_ = result;
    pending_ = true;
  }

 private:
  void pass_on() {
    if (std::exchange(pending_, false)) decoder_->collect(plan_, result_);
  }

  std::unique_ptr<Decoder> decoder_;
  std::mutex mutex_;
  StepPlan plan_;
  StepResult result_;
  bool pending_ = false;
};

}  // namespace ashlar::testing
