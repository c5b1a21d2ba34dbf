// SPDX-License-Identifier: Apache-2.0
// The real scheduler, step by step: what it looks at, reserves and plans. Times are those that the decoder claims.

#include <gtest/gtest.h>

#include "device/device.h"
#include "scenario/fake_decoder.h"
#include "scenario/scheduler_loop.h"

namespace ashlar::testing {
namespace {

class Collected final : public EventSink {
 public:
  void on_tokens(const TokensEvent& event) override {
    tokens.insert(tokens.end(), event.tokens, event.tokens + event.n);
  }
  void on_end(EndEvent event) noexcept override {
    ended = true;
    end = std::move(event);
  }
  std::vector<int32_t> tokens;
  bool ended = false;
  EndEvent end;
};

std::shared_ptr<Collected> add(SchedulerLoop& loop, int32_t prompt, int32_t max_tokens, int32_t first = 0) {
  Request request;
  for (int32_t i = 0; i < prompt; ++i) request.prompt.push_back((first + i) % kFakeVocab);
  request.max_tokens = max_tokens;
  auto sink = std::make_shared<Collected>();
  request.sink = sink;
  loop.add(std::move(request));
  return sink;
}

std::vector<int32_t> answer(int32_t prompt, int32_t max_tokens, int32_t first = 0) {
  std::vector<int32_t> all;
  for (int32_t i = 0; i < prompt; ++i) all.push_back((first + i) % kFakeVocab);
  for (int32_t i = 0; i < max_tokens; ++i) all.push_back(fake_next(all));
  return {all.begin() + prompt, all.end()};
}

EngineOptions options_of(int32_t sequences, int32_t pages) {
  EngineOptions options;
  options.max_sequences = sequences;
  options.kv_pages = pages;
  return options;
}

TEST(SchedulerSteps, PublishNewPagesOnly) {
  const auto ops = make_device("ref", {});
  FakeDecoder decoder(1, 1000);
  SchedulerLoop loop(*ops, decoder, options_of(4, 400));
  for (int32_t i = 0; i < 4; ++i) add(loop, 500, 300, 10 * (i / 2));  // two pairs of twins
  const PageCache::Counters& counters = loop.scheduler().cache().counters();
  bool decodes = false;
  for (uint64_t before = 0; loop.step(); before = counters.lookups) {
    if (decodes) {
      ASSERT_LE(counters.lookups - before, 4U);
    }
    decodes = loop.last_step().plan.n_rows <= 4;
  }
  EXPECT_LE(counters.lookups, 4U * (800 / kPageTokens + 1));
  loop.scheduler().cache().check_integrity();
}

// Two requests, of which the second one lacks pages until the first has ended, and must not search the cache for its
// prompt in every step. `first`: where its prompt begins; at 0 it continues the prompt that is being computed.
TEST(SchedulerSteps, AnAdmissionThatLacksPagesIsTriedAgainWhenSomethingChanged) {
  for (const int32_t first : {0, 500}) {
    SCOPED_TRACE(first);
    const auto ops = make_device("ref", {});
    FakeDecoder decoder(1, 512);
    SchedulerLoop loop(*ops, decoder, options_of(4, 32));
    const auto running = add(loop, 160, 300);
    const auto waiting = add(loop, 500, 8, first);
    const PageCache::Counters& counters = loop.scheduler().cache().counters();
    while (!running->ended) ASSERT_TRUE(loop.step());
    EXPECT_LE(counters.matches, 4U);  // one each, and one for each of the two chunks of the first prompt
    while (loop.step()) {
    }
    EXPECT_LE(counters.matches, 5U);
    EXPECT_EQ(running->tokens, answer(160, 300));
    EXPECT_EQ(waiting->tokens, answer(500, 8, first));
    Interruption never;
    EXPECT_TRUE(loop.scheduler().check_idle(never));
  }
}

// It comes in as soon as what is published makes it fit, though no page came back.
TEST(SchedulerSteps, ARefusedAdmissionSeesWhatIsPublishedMeanwhile) {
  const auto ops = make_device("ref", {});
  FakeDecoder decoder(1, 512);
  EngineOptions options = options_of(4, 33);
  options.prefill_chunk = 64;
  SchedulerLoop loop(*ops, decoder, options);
  const auto running = add(loop, 320, 3);
  const auto waiting = add(loop, 500, 3);
  bool together = false;
  while (loop.step()) together = together || loop.last_step().members.size() == 2;
  EXPECT_TRUE(together);
  EXPECT_EQ(running->tokens, answer(320, 3));
  EXPECT_EQ(waiting->tokens, answer(500, 3));
}

TEST(SchedulerSteps, SequencesThatDoNotDraftLeavePromptsTheirRows) {
  const auto ops = make_device("ref", {});
  constexpr int32_t kWidth = 16;
  constexpr int32_t kSequences = 8;
  for (const int32_t used : {1, 3, kWidth}) {
    SCOPED_TRACE(used);
    FakeDecoder decoder(kWidth, 2000);
    decoder.use_rows(used);
    EngineOptions options = options_of(kSequences + 1, 1500);
    options.max_step_rows = kWidth * (kSequences + 1) + 64;
    SchedulerLoop loop(*ops, decoder, options, {options.max_step_rows, options.max_step_rows, 512, 512});
    for (int32_t i = 0; i < kSequences; ++i) add(loop, 20, 1500, i);
    for (int32_t i = 0; i < 12; ++i) ASSERT_TRUE(loop.step());
    EXPECT_EQ(loop.last_step().plan.n_rows, kSequences * kWidth);  // no other sequence wants them
    add(loop, 1000, 1, 500);
    int32_t most = 0;
    for (int32_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(loop.step());
      most = std::max(most, loop.last_step().prompt_rows());
    }
    EXPECT_EQ(most, options.max_step_rows - kSequences * std::min(2 * used, kWidth));
  }
}

// Answers wait for as few prompt rows with a drafter as without one, and prompts for no more steps.
TEST(SchedulerSteps, RowsOfDraftsLeavePromptsTheirOwn) {
  const auto ops = make_device("ref", {});
  constexpr int32_t kWidth = 16, kSequences = 8, kShared = 100;
  for (const int32_t used : {1, 5, kWidth}) {
    SCOPED_TRACE(used);
    FakeDecoder decoder(kWidth, 2000);
    decoder.use_rows(used);
    EngineOptions options = options_of(kSequences + 1, 1500);
    SchedulerLoop loop(*ops, decoder, options, {kShared, 2000, 1000, 20});
    for (int32_t i = 0; i < kSequences; ++i) add(loop, 20, 1500, i);
    for (int32_t i = 0; i < 12; ++i) ASSERT_TRUE(loop.step());
    const auto last = add(loop, 1000, 5, 500);
    int32_t most = 0;
    for (int32_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(loop.step());
      most = std::max(most, loop.last_step().prompt_rows());
    }
    EXPECT_EQ(most, kShared - kSequences);
    while (loop.step()) {
    }
    EXPECT_EQ(last->tokens, answer(1000, 5, 500));
  }
}

// A device that likes long chunks gets them where no answer waits for a token.
TEST(SchedulerSteps, PromptsAloneMayHaveLongerChunksThanNextToAnswers) {
  constexpr int32_t kShared = 800, kChunk = 500, kAlone = 1000, kPrompt = 2500;
  const auto ops = make_device("ref", {});
  for (const bool answers : {false, true}) {
    for (const int32_t chosen : {0, 100}) {
      SCOPED_TRACE(answers);
      SCOPED_TRACE(chosen);
      FakeDecoder decoder(1, 4000);
      EngineOptions options = options_of(3, 1500);
      options.prefill_chunk = chosen;
      SchedulerLoop loop(
          *ops, decoder, options,
          chosen != 0 ? PromptRows{kShared, kAlone, chosen, chosen} : PromptRows{kShared, kAlone, kChunk, kAlone});
      if (answers) {
        add(loop, 20, 1500);
        for (int32_t i = 0; i < 3; ++i) ASSERT_TRUE(loop.step());
      }
      const auto first = add(loop, kPrompt, 2, 7), second = add(loop, kPrompt, 2, 9);
      int32_t most = 0, shared = 0;
      while (first->tokens.empty() || second->tokens.empty()) {
        ASSERT_TRUE(loop.step());
        const Step& step = loop.last_step();
        for (const Span& span : step.plan.spans) most = std::max(most, span.prompt != nullptr ? span.n_rows : 0);
        if (step.prompt_rows() < step.plan.n_rows) shared = std::max(shared, step.plan.n_rows);
      }
      EXPECT_EQ(most, chosen != 0 ? chosen : answers ? kChunk : kAlone);
      EXPECT_LE(shared, kShared);
      while (loop.step()) {
      }
      EXPECT_EQ(first->tokens, answer(kPrompt, 2, 7));
      EXPECT_EQ(second->tokens, answer(kPrompt, 2, 9));
    }
  }
}

// A step that is full of the first prompt admits no other, which may find what the first publishes.
TEST(SchedulerSteps, TwinsNextToAnAnswerShareTheirPrompt) {
  const auto ops = make_device("ref", {});
  FakeDecoder decoder(1, 4000);
  SchedulerLoop loop(*ops, decoder, options_of(4, 1500), {512, 2048, 512, 2048});
  add(loop, 20, 1000);
  for (int32_t i = 0; i < 3; ++i) ASSERT_TRUE(loop.step());
  const auto first = add(loop, 2500, 2, 7), second = add(loop, 2500, 2, 7);
  while (loop.step()) {
  }
  EXPECT_EQ(first->tokens, answer(2500, 2, 7));
  EXPECT_EQ(second->tokens, first->tokens);
  EXPECT_EQ(first->end.stats.cached_tokens, 0);
  EXPECT_GT(second->end.stats.cached_tokens, 0);
}

// A sequence that finds a use for more rows gets them, prompts or not.
TEST(SchedulerSteps, RowsComeBackToWhoUsesThem) {
  const auto ops = make_device("ref", {});
  FakeDecoder decoder(16, 4000);
  decoder.use_rows(1);
  EngineOptions options = options_of(4, 1500);
  options.prefill_chunk = 16;
  SchedulerLoop loop(*ops, decoder, options);
  add(loop, 20, 3000);
  for (int32_t i = 0; i < 4; ++i) ASSERT_TRUE(loop.step());
  add(loop, 3000, 1, 7);
  const auto decode_rows = [&] {
    EXPECT_TRUE(loop.step());
    return loop.last_step().plan.n_rows - loop.last_step().prompt_rows();
  };
  EXPECT_EQ(decode_rows(), 2);
  EXPECT_EQ(decode_rows(), 2);
  decoder.use_rows(16);
  EXPECT_EQ(decode_rows(), 2);
  EXPECT_EQ(decode_rows(), 4);
  EXPECT_EQ(decode_rows(), 8);
  EXPECT_EQ(decode_rows(), 16);
}

// A prompt of 3000 tokens, alone, on decoders that take so long for a step's weights and for each row: a step of more
// than the fewest rows stays near a second, and a fast decoder is hardly slower than with the largest chunks.
TEST(SchedulerSteps, APromptAloneIsCutSoThatStepsStayShort) {
  struct Speed {
    const char* name;
    int64_t step_us, row_us;
  };
  constexpr int32_t kPrompt = 3000;
  constexpr int32_t kChunk = 256;
  for (const auto& [name, step_us, row_us] : {Speed{"tiny", 100, 3},
                                              {"small", 10'000, 300},
                                              {"medium", 100'000, 3000},
                                              {"large", 700'000, 15'000},
                                              {"larger", 900'000, 70'000},
                                              {"largest", 8'000'000, 1'400'000}}) {
    SCOPED_TRACE(name);
    const auto ops = make_device("ref", {});
    FakeDecoder decoder(1, 4000);
    decoder.claim(row_us * 1000, step_us * 1000);
    SchedulerLoop loop(*ops, decoder, options_of(2, 400));
    add(loop, kPrompt, 1);
    int64_t total_us = 0;
    int64_t longest_us = 0;
    bool is_first = true;
    while (loop.step()) {
      const int32_t rows = loop.last_step().plan.n_rows;
      const int64_t us = loop.last_step().result.times.total_ns() / 1000;
      if (is_first) {
        EXPECT_LE(rows, PrefillPace::kMinRows);
      }
      is_first = false;
      total_us += us;
      longest_us = std::max(longest_us, rows > PrefillPace::kMinRows ? us : 0);
    }
    EXPECT_LE(longest_us, 1'200'000);
    const int64_t best_us = (kPrompt + kChunk - 1) / kChunk * step_us + kPrompt * row_us;
    if (step_us + kChunk * row_us < 900'000) {
      EXPECT_LE(total_us, best_us + best_us / 10 + step_us);
    }
  }
}

TEST(SchedulerDeath, SomethingThatWasNotGivenBackEndsTheProcess) {
  const auto ops = make_device("ref", {});
  FakeDecoder decoder(1, 100);
  SchedulerLoop loop(*ops, decoder, options_of(2, 20));
  add(loop, 30, 5);
  while (loop.step()) {
  }
  Interruption never;
  EXPECT_TRUE(loop.scheduler().check_idle(never));
  std::vector<int32_t> pages;
  ASSERT_TRUE(loop.scheduler().cache().allocate(1, pages));
  EXPECT_DEATH(loop.scheduler().check_idle(never), "check failed: cache_.held_pages\\(\\) == 0 \\(1 against 0\\)");
  loop.scheduler().cache().release(pages);
  EXPECT_TRUE(loop.scheduler().check_idle(never));
  add(loop, 30, 5);
  EXPECT_DEATH(loop.scheduler().check_idle(never), "check failed: empty");
}

}  // namespace
}  // namespace ashlar::testing
