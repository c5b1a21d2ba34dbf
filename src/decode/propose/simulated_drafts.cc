// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/simulated_drafts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/error.h"

namespace ashlar {
namespace {

// Expected tokens of a step whose drafts are right with chance `p` each: the target's own and a geometric sum.
double expected_tokens(double p, int32_t width) {
  double sum = 0, chance = 1;
  for (int32_t k = 0; k < width; ++k, chance *= p) sum += chance;
  return sum;
}

class SimulatingProposer final : public Proposer {
 public:
  SimulatingProposer(std::unique_ptr<Proposer> proposer, std::shared_ptr<const SimulatedDrafts> simulated)
      : proposer_(std::move(proposer)), simulated_(std::move(simulated)) {}

  // Branches and scratch slots for them stay at none: drafts of a wished quality are a chain.
  std::string name() const override { return proposer_->name(); }
  int32_t max_width() const override { return proposer_->max_width(); }
  bool adapts_width() const override { return proposer_->adapts_width(); }
  std::span<const AuxLayer> aux_layers() const override { return proposer_->aux_layers(); }
  int32_t aux_width() const override { return proposer_->aux_width(); }
  bool reads_before() const override { return proposer_->reads_before(); }
  bool reads_newest() const override { return proposer_->reads_newest(); }
  bool fills_whole_blocks() const override { return proposer_->fills_whole_blocks(); }
  bool drafts_in_turn() const override { return proposer_->drafts_in_turn(); }
  int32_t window() const override { return proposer_->window(); }
  KeysSeen keys_seen() const override { return proposer_->keys_seen(); }
  void register_state(KvLayout& layout) override { proposer_->register_state(layout); }
  void start(const StepLimits& limits, const KvMemory& kv) override {
    sequences_.resize(static_cast<size_t>(limits.max_slots));
    proposer_->start(limits, kv);
  }
  void set_newest(Tensor newest) override { proposer_->set_newest(newest); }
  void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) override {
    sequences_[static_cast<size_t>(slot)] = {simulated_->answer_to(tokens, state.prompt_length), state.prompt_length,
                                             0};
    proposer_->admit(slot, state, tokens);
  }
  void propose(std::span<ChainSpan> spans, SlotTable& slots) override {
    proposer_->propose(spans, slots);
    for (ChainSpan& span : spans) {
      if (span.proposes) replace_drafts(span);
    }
  }
  // They are certain: the one who makes them knows.
  const float* draft_distribution(int32_t /*slot*/, int32_t /*index*/) const override { return nullptr; }
  void write_context(const CommittedRows& committed) override { proposer_->write_context(committed); }

 private:
  struct Sequence {
    const std::vector<int32_t>* answer = nullptr;
    int32_t prompt_length = 0;
    int64_t steps = 0;
  };

  void replace_drafts(ChainSpan& span) {
    Sequence& sequence = sequences_[static_cast<size_t>(span.slot)];
    if (sequence.answer == nullptr) return;
    span.make_chain();
    const int32_t right = simulated_->right_drafts(sequence.steps++);
    const int32_t first = span.start + 1 - sequence.prompt_length;  // of the answer's tokens, to draft
    for (int32_t k = 1; k < span.width; ++k) {
      const auto at = static_cast<size_t>(first + k - 1);
      if (at >= sequence.answer->size()) return;
      const int32_t token = (*sequence.answer)[at];
      span.ids[k] = k <= right ? token : token > 0 ? token - 1 : token + 1;
    }
  }

  std::unique_ptr<Proposer> proposer_;
  std::shared_ptr<const SimulatedDrafts> simulated_;
  std::vector<Sequence> sequences_;
};

}  // namespace

SimulatedDrafts::SimulatedDrafts(double accept_length, int32_t width) {
  if (width <= 1 || !(accept_length >= 1) || accept_length > width) {
    char wanted[32];
    std::snprintf(wanted, sizeof(wanted), "%.4g", accept_length);
    throw Error("bench", std::string("an accept length of ") + wanted + " was asked for; " +
                             (width > 1 ? "this drafter's blocks give 1 to " + std::to_string(width)
                                        : "there is no drafter whose drafts could be better (--drafter FOLDER)"));
  }
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (expected_tokens(middle, width) < accept_length ? low : high) = middle;
  }
  double chance = 1;
  for (int32_t k = 1; k < width; ++k) chances_.push_back(chance *= high);
}

void SimulatedDrafts::add(std::vector<int32_t> prompt, std::vector<int32_t> answer) {
  const std::lock_guard lock(mutex_);
  answers_.try_emplace(std::move(prompt), std::move(answer));
}

const std::vector<int32_t>* SimulatedDrafts::answer_to(std::span<const int32_t> tokens, int32_t prompt_length) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find({tokens.begin(), tokens.begin() + prompt_length});
  return found == answers_.end() ? nullptr : &found->second;
}

int32_t SimulatedDrafts::right_drafts(int64_t step) const {
  constexpr double kGoldenRatio = 0.6180339887498949;
  const double turns = (static_cast<double>(step) + 0.5) * kGoldenRatio;
  const double u = turns - std::floor(turns);
  return static_cast<int32_t>(
      std::count_if(chances_.begin(), chances_.end(), [u](double chance) { return u < chance; }));
}

std::unique_ptr<Proposer> simulate_drafts(std::unique_ptr<Proposer> proposer,
                                          std::shared_ptr<const SimulatedDrafts> simulated) {
  return std::make_unique<SimulatingProposer>(std::move(proposer), std::move(simulated));
}

}  // namespace ashlar
