// SPDX-License-Identifier: Apache-2.0
// The real engine on a fake decoder: random traffic, in much and in little memory.

#include <gtest/gtest.h>

#include <random>

#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "scenario/checking_sink.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

struct Expected {
  std::vector<int32_t> tokens;
  FinishReason reason = FinishReason::kLength;
};

Expected expect(const Request& request, int32_t longest) {
  Expected expected;
  std::vector<int32_t> all = request.prompt;
  const int64_t limit = request.max_tokens > 0
                            ? std::min<int64_t>(longest, static_cast<int64_t>(all.size()) + request.max_tokens)
                            : longest;
  while (static_cast<int64_t>(all.size()) < limit) {
    all.push_back(fake_next(all));
    expected.tokens.push_back(all.back());
    if (std::count(request.stop_ids.begin(), request.stop_ids.end(), all.back()) > 0) {
      expected.reason = FinishReason::kStop;
      break;
    }
  }
  return expected;
}

Request make_request(std::mt19937& random, const std::vector<std::vector<int32_t>>& stems, int32_t longest) {
  Request request;
  request.prompt = stems[random() % stems.size()];  // shared beginnings, so that prefixes hit
  const auto more = static_cast<int32_t>(random() % 40);
  for (int32_t i = 0; i < more; ++i) request.prompt.push_back(static_cast<int32_t>(random() % kFakeVocab));
  if (static_cast<int32_t>(request.prompt.size()) >= longest) request.prompt.resize(longest - 1);
  request.max_tokens = static_cast<int32_t>(random() % 50);
  if (random() % 3 == 0)
    request.stop_ids = {static_cast<int32_t>(random() % kFakeVocab), static_cast<int32_t>(random() % kFakeVocab)};
  request.sink = std::make_shared<CheckingSink>();
  return request;
}

struct Shape {
  const char* name;
  int32_t depth, width, sequences, pages, chunk, step_rows;
  bool joins = false;
};

class RandomTraffic : public ::testing::TestWithParam<Shape> {};

// Invariants: one-terminal-event, release-when-not-in-flight, plan-by-upper-bound.
TEST_P(RandomTraffic, EveryAnswerIsRightAndEveryRequestEndsOnce) {
  const Shape shape = GetParam();
  constexpr int32_t kLongest = 120;
  const auto ops = make_device("ref", {});
  EngineOptions options;
  options.depth = shape.depth;
  options.max_sequences = shape.sequences;
  options.kv_pages = shape.pages;
  options.prefill_chunk = shape.chunk;
  options.max_step_rows = shape.step_rows;
  std::mt19937 random(static_cast<uint32_t>(shape.depth * 1000 + shape.pages));
  std::vector<std::vector<int32_t>> stems(3);
  for (auto& stem : stems) {
    for (size_t i = 0; i < 20 + random() % 40; ++i) stem.push_back(static_cast<int32_t>(random() % kFakeVocab));
  }
  auto decoder = std::make_unique<FakeDecoder>(shape.width, kLongest);
  if (shape.joins) decoder->join();
  Engine engine(*ops, std::move(decoder), options);
  std::vector<std::shared_ptr<CheckingSink>> sinks;
  std::vector<Expected> expected;
  std::vector<bool> cancelled;
  for (int32_t i = 0; i < 300; ++i) {
    Request request = make_request(random, stems, kLongest);
    expected.push_back(expect(request, kLongest));
    sinks.push_back(std::static_pointer_cast<CheckingSink>(request.sink));
    const Result<RequestId> id = engine.submit(std::move(request));
    ASSERT_TRUE(id.ok()) << id.error();
    cancelled.push_back(random() % 5 == 0);
    if (cancelled.back()) engine.cancel(id.value());
    if (random() % 20 == 0) engine.wait_idle();
    if (random() % 30 == 0) engine.drop_prefix_cache();
  }
  engine.wait_idle();
  for (size_t i = 0; i < sinks.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    ASSERT_EQ(sinks[i]->ends, 1);
    if (cancelled[i] && sinks[i]->end.reason == FinishReason::kCancelled) {
      ASSERT_LE(sinks[i]->tokens.size(), expected[i].tokens.size());
      ASSERT_TRUE(std::equal(sinks[i]->tokens.begin(), sinks[i]->tokens.end(), expected[i].tokens.begin()));
      continue;
    }
    ASSERT_EQ(sinks[i]->tokens, expected[i].tokens);
    ASSERT_EQ(sinks[i]->end.reason, expected[i].reason);
  }
  const EngineCounters counters = engine.counters();
  EXPECT_EQ(counters.pages_held, 0);
  EXPECT_EQ(counters.pages_free + counters.pages_cached, counters.pages_total);
  EXPECT_EQ(counters.requests_finished + counters.requests_cancelled, sinks.size());
  EXPECT_EQ(counters.requests_failed, 0U);
  if (shape.pages < 20 && shape.sequences > 1) {
    EXPECT_GT(counters.preemptions, 0U);
  }
  EXPECT_GT(counters.cached_tokens, 0U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomTraffic,
                         ::testing::Values(Shape{"plain", 1, 1, 4, 64, 512, 512},
                                           Shape{"overlap", 2, 1, 4, 64, 512, 512}, Shape{"wide", 2, 8, 8, 200, 32, 96},
                                           Shape{"tight", 1, 4, 6, 10, 16, 64},
                                           Shape{"tight_overlap", 2, 4, 6, 10, 16, 64},
                                           Shape{"tightest", 2, 16, 8, 8, 7, 32}, Shape{"one", 2, 16, 1, 8, 512, 16},
                                           Shape{"joined", 2, 8, 8, 200, 32, 96, true},
                                           Shape{"joined_tight", 1, 4, 6, 10, 16, 64, true},
                                           Shape{"joined_tightest", 2, 16, 8, 8, 7, 32, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ashlar::testing
