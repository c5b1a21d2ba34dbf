// SPDX-License-Identifier: Apache-2.0
// Constraints whose masks are found elsewhere: their sequences sit steps out, no other waits with them, and their
// tokens stay what they are.

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

// Allows everything, but every `each`-th mask waits for release().
class SlowConstraint final : public TokenConstraint {
 public:
  explicit SlowConstraint(int32_t each = 1) : each_(each) {}

  bool prepare() override {
    if (stage_ == kNew) stage_ = heard_ % each_ == 0 ? kAway : kFound;
    return stage_ == kFound;
  }
  bool waits() const override { return stage_ == kAway; }
  void wake_with(std::shared_ptr<WakeSignal> signal) override { signal_ = std::move(signal); }
  bool mask(std::span<uint32_t>) override {
    EXPECT_EQ(stage_, kFound);
    return false;
  }
  void advance(int32_t) override {
    EXPECT_EQ(stage_, kFound);
    ++heard_;
    stage_ = kNew;
  }
  void release() {
    if (stage_ != kAway) return;
    stage_ = kFound;
    signal_->raise();
  }

 private:
  enum Stage : uint8_t { kNew, kAway, kFound };
  const int32_t each_;
  int32_t heard_ = 0;
  std::atomic<Stage> stage_ = kNew;
  std::shared_ptr<WakeSignal> signal_;
};

struct MaskOutcome {
  std::vector<int32_t> tokens;
  EndEvent end;
};

// Releases `slow`, if it is not null, until the answer has ended.
MaskOutcome drain(EventQueue& queue, SlowConstraint* slow = nullptr) {
  MaskOutcome outcome;
  for (;;) {
    std::optional<Event> event = queue.poll();
    if (!event) {
      if (slow != nullptr) slow->release();
      std::this_thread::yield();
    } else if (auto* chunk = std::get_if<TokenChunk>(&*event)) {
      outcome.tokens.insert(outcome.tokens.end(), chunk->tokens.begin(), chunk->tokens.end());
    } else {
      outcome.end = std::get<EndEvent>(std::move(*event));
      return outcome;
    }
  }
}

std::vector<int32_t> expected(std::vector<int32_t> tokens, int32_t n) {
  const size_t prompt = tokens.size();
  for (int32_t i = 0; i < n; ++i) tokens.push_back(fake_next(tokens));
  return {tokens.begin() + static_cast<int64_t>(prompt), tokens.end()};
}

template <class Condition>
bool comes_true_in_time(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Loop {
  int32_t depth;
  bool joins;  // prefill yields no token
  int32_t width;
};

class SlowMasks : public ::testing::TestWithParam<Loop> {
 protected:
  void open(int32_t sequences, int32_t pages = 64) {
    EngineOptions options;
    options.depth = GetParam().depth;
    options.max_sequences = sequences;
    options.kv_pages = pages;
    options.prefill_chunk = 7;
    auto decoder = std::make_unique<FakeDecoder>(GetParam().width, 120);
    if (GetParam().joins) decoder->join();
    engine_ = std::make_unique<Engine>(*ops_, std::move(decoder), options);
  }
  std::shared_ptr<EventQueue> submit(std::vector<int32_t> prompt, int32_t tokens,
                                     std::shared_ptr<TokenConstraint> constraint = nullptr) {
    auto queue = std::make_shared<EventQueue>();
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = tokens;
    request.sink = queue;
    request.constraint = std::move(constraint);
    id_ = engine_->submit(std::move(request)).value();
    return queue;
  }
  bool waits() const {
    return comes_true_in_time([&] { return engine_->counters().waits_for_masks; });
  }

  const std::vector<int32_t> prompt_ = std::vector<int32_t>(20, 3);
  const std::vector<int32_t> other_ = std::vector<int32_t>(9, 5);
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  std::unique_ptr<Engine> engine_;
  RequestId id_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Loop, SlowMasks,
                         ::testing::Values(Loop{1, false, 1}, Loop{2, false, 1}, Loop{1, false, 4}, Loop{2, false, 4},
                                           Loop{1, true, 4}, Loop{2, true, 4}));

TEST_P(SlowMasks, OthersGoOnMeanwhile) {
  for (const bool early : {false, true}) {  // the mask is looked for before the prompt is read
    for (const int32_t each : {1, 3}) {
      open(4);
      const auto slow = std::make_shared<SlowConstraint>(each);
      if (early) slow->prepare();
      const auto queue = submit(prompt_, 30, slow);
      EXPECT_TRUE(waits());
      EXPECT_EQ(drain(*submit(other_, 50)).tokens, expected(other_, 50));
      EXPECT_FALSE(queue->poll());
      const MaskOutcome outcome = drain(*queue, slow.get());
      EXPECT_EQ(outcome.tokens, expected(prompt_, 30));
      EXPECT_EQ(outcome.end.reason, FinishReason::kLength);
      engine_->wait_idle();
      EXPECT_EQ(engine_->counters().pages_held, 0);
    }
  }
}

TEST_P(SlowMasks, ItsSlotIsForThoseWhoCanUseIt) {
  open(1);
  const auto slow = std::make_shared<SlowConstraint>();
  const auto queue = submit(prompt_, 30, slow);
  EXPECT_TRUE(waits());
  slow->release();
  EXPECT_TRUE(waits());  // for the second token
  EXPECT_EQ(drain(*submit(other_, 50)).tokens, expected(other_, 50));
  EXPECT_EQ(engine_->counters().preemptions, 1U);
  const MaskOutcome outcome = drain(*queue, slow.get());
  EXPECT_EQ(outcome.tokens, expected(prompt_, 30));
}

TEST_P(SlowMasks, CancelEndsTheWait) {
  for (const bool early : {false, true}) {
    open(2);
    const auto slow = std::make_shared<SlowConstraint>();
    if (early) slow->prepare();
    const auto queue = submit(prompt_, 30, slow);
    EXPECT_TRUE(waits());
    engine_->cancel(id_);
    EXPECT_EQ(drain(*queue).end.reason, FinishReason::kCancelled);
    engine_->wait_idle();
    EXPECT_EQ(engine_->counters().pages_held, 0);
  }
}

TEST_P(SlowMasks, DestructionEndsTheWait) {
  std::vector<std::shared_ptr<EventQueue>> queues;
  open(2);
  for (int i = 0; i < 4; ++i) queues.push_back(submit(prompt_, 30, std::make_shared<SlowConstraint>()));
  EXPECT_TRUE(waits());
  engine_.reset();
  for (const auto& queue : queues) EXPECT_EQ(drain(*queue).end.reason, FinishReason::kCancelled);
}

// Masks come at any time, in memory so tight that sequences give way while they wait.
TEST_P(SlowMasks, WheneverTheyComeTheTokensAreRight) {
  open(3, 12);
  std::mt19937 random(5);
  std::vector<std::shared_ptr<SlowConstraint>> slow;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::shared_ptr<EventQueue>> queues;
  for (int32_t i = 0; i < 40; ++i) {
    prompts.emplace_back(1 + random() % 50, i % 3);
    slow.push_back(i % 4 == 0 ? nullptr : std::make_shared<SlowConstraint>(1 + random() % 4));
    if (slow.back() && random() % 2 == 0) slow.back()->prepare();
    queues.push_back(submit(prompts.back(), 40, slow.back()));
  }
  std::atomic<bool> done = false;
  std::thread releases([&] {
    while (!done) {
      const auto& one = slow[random() % slow.size()];
      if (one) one->release();
    }
  });
  for (size_t i = 0; i < queues.size(); ++i) EXPECT_EQ(drain(*queues[i]).tokens, expected(prompts[i], 40)) << i;
  done = true;
  releases.join();
  engine_->wait_idle();
  EXPECT_EQ(engine_->counters().pages_held, 0);
  EXPECT_GT(engine_->counters().preemptions, 0U);
}

}  // namespace
}  // namespace ashlar::testing
