// SPDX-License-Identifier: Apache-2.0
// The real engine on a fake decoder: tight memory, cancellation, failures.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "scenario/checking_sink.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

std::unique_ptr<Engine> small_engine(Ops& ops, std::unique_ptr<FakeDecoder> decoder, int32_t depth,
                                     int32_t queue = 100) {
  EngineOptions options;
  options.depth = depth;
  options.max_sequences = 2;
  options.kv_pages = 64;
  options.max_queue = queue;
  return std::make_unique<Engine>(ops, std::move(decoder), options);
}

Request simple_request(int32_t max_tokens) {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = max_tokens;
  request.sink = std::make_shared<CheckingSink>();
  return request;
}

TEST(Submit, RefusesInWords) {
  const auto ops = make_device("ref", {});
  const auto engine = small_engine(*ops, std::make_unique<FakeDecoder>(4, 100), 2);
  const auto refusal = [&](auto change) {
    Request request = simple_request(4);
    change(request);
    const Result<RequestId> result = engine->submit(std::move(request));
    return result.ok() ? std::string("accepted") : result.error();
  };
  EXPECT_EQ(refusal([](Request&) {}), "accepted");
  EXPECT_NE(refusal([](Request& r) { r.prompt.clear(); }).find("empty"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt.resize(130); }).find("31 too many"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt[1] = 1000; }).find("1000"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt[1] = -1; }).find("-1"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.stop_ids = {5000}; }).find("stop id"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.max_tokens = -3; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.width = 5; }).find("width"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.temperature = -1; }).find("temperature"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.temperature = std::nan(""); }).find("temperature"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.logit_bias = {{2000, 1.0F}}; }).find("2000"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.top_logprobs = 21; }).find("top_logprobs"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sink = nullptr; }).find("sink"), std::string::npos);
  engine->wait_idle();
}

TEST(Submit, BoundsTheQueue) {
  const auto ops = make_device("ref", {});
  auto decoder = std::make_unique<FakeDecoder>(1, 100);
  decoder->delay(2000);
  const auto engine = small_engine(*ops, std::move(decoder), 2, 3);
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    const Result<RequestId> result = engine->submit(simple_request(20));
    if (!result.ok()) {
      ++refused;
      EXPECT_NE(result.error().find("queue is full"), std::string::npos);
    }
  }
  EXPECT_GE(refused, 10);
  engine->wait_idle();
}

class Depths : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loop, Depths, ::testing::Values(1, 2));

TEST_P(Depths, CancelEndsARunningRequestSoon) {
  const auto ops = make_device("ref", {});
  auto decoder = std::make_unique<FakeDecoder>(1, 1000);
  decoder->delay(500);
  const auto engine = small_engine(*ops, std::move(decoder), GetParam());
  Request request = simple_request(900);
  const auto sink = std::static_pointer_cast<CheckingSink>(request.sink);
  const RequestId id = engine->submit(std::move(request)).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  engine->cancel(id);
  engine->cancel(id);
  engine->cancel(12345);
  engine->wait_idle();
  EXPECT_EQ(sink->ends, 1);
  EXPECT_EQ(sink->end.reason, FinishReason::kCancelled);
  EXPECT_LT(sink->tokens.size(), 890U);
  EXPECT_EQ(engine->counters().pages_held, 0);
}

TEST_P(Depths, AFailingStepEndsItsRequestsAndTheEngineLivesOn) {
  for (int32_t fail_at = 0; fail_at < 8; ++fail_at) {
    const auto ops = make_device("ref", {});
    auto decoder = std::make_unique<FakeDecoder>(2, 200);
    FakeDecoder& fake = *decoder;
    const auto engine = small_engine(*ops, std::move(decoder), GetParam());
    fake.fail_launch(fail_at);
    std::vector<std::shared_ptr<CheckingSink>> sinks;
    for (int i = 0; i < 4; ++i) {
      Request request = simple_request(10);
      sinks.push_back(std::static_pointer_cast<CheckingSink>(request.sink));
      ASSERT_TRUE(engine->submit(std::move(request)).ok());
    }
    engine->wait_idle();
    int failed = 0;
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->ends, 1);
      if (sink->end.reason != FinishReason::kError) continue;
      ++failed;
      EXPECT_FALSE(sink->end.error.empty());
    }
    EXPECT_GT(failed, 0);
    Request again = simple_request(10);
    const auto sink = std::static_pointer_cast<CheckingSink>(again.sink);
    ASSERT_TRUE(engine->submit(std::move(again)).ok());
    engine->wait_idle();
    EXPECT_EQ(sink->end.reason, FinishReason::kLength);
    EXPECT_EQ(engine->counters().pages_held, 0);
  }
}

TEST_P(Depths, ASinkThatThrowsEndsItsOwnRequestAlone) {
  class Throwing final : public EventSink {
   public:
    void on_tokens(const TokensEvent&) override { throw std::runtime_error("no room for these tokens"); }
    void on_end(EndEvent event) noexcept override {
      ++ends;
      end = std::move(event);
    }
    int ends = 0;
    EndEvent end;
  };
  const auto ops = make_device("ref", {});
  const auto engine = small_engine(*ops, std::make_unique<FakeDecoder>(2, 200), GetParam());
  std::vector<std::shared_ptr<CheckingSink>> others;
  const auto throwing = std::make_shared<Throwing>();
  for (int i = 0; i < 5; ++i) {
    Request request = simple_request(10);
    if (i == 2) {
      request.sink = throwing;
    } else {
      others.push_back(std::static_pointer_cast<CheckingSink>(request.sink));
    }
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
  }
  engine->wait_idle();
  EXPECT_EQ(throwing->ends, 1);
  EXPECT_EQ(throwing->end.reason, FinishReason::kError);
  EXPECT_EQ(throwing->end.error, "no room for these tokens");
  for (const auto& other : others) EXPECT_EQ(other->end.reason, FinishReason::kLength) << other->end.error;
  EXPECT_EQ(engine->counters().pages_held, 0);
}

// A prompt's chunk fails while its next chunk, or the first step of its answer, is planned already.
TEST_P(Depths, AFailingChunkOfAPromptEndsItsRequestToo) {
  for (int32_t fail_at = 0; fail_at < 6; ++fail_at) {
    const auto ops = make_device("ref", {});
    auto decoder = std::make_unique<FakeDecoder>(2, 200);
    FakeDecoder& fake = *decoder;
    EngineOptions options;
    options.depth = GetParam();
    options.kv_pages = 64;
    options.prefill_chunk = 16;
    const auto engine = std::make_unique<Engine>(*ops, std::move(decoder), options);
    fake.fail_launch(fail_at);
    Request request = simple_request(10);
    for (int32_t i = 0; i < 60; ++i) request.prompt.push_back(i);
    const auto sink = std::static_pointer_cast<CheckingSink>(request.sink);
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
    engine->wait_idle();
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->end.reason, FinishReason::kError) << fail_at;
    EXPECT_EQ(engine->counters().pages_held, 0);
  }
}

// Where rows take long, prompts are cut into smaller pieces, more so while others wait for tokens.
TEST_P(Depths, ALongPromptLeavesOthersTheirPace) {
  const auto ops = make_device("ref", {});
  struct Pace {
    int32_t row_ms, with_others, alone;
  };
  for (const auto& [row_ms, rows, alone_rows] : {Pace{2, 99, 256}, {10, 64, 100}, {1000, 16, 16}, {0, 256, 256}}) {
    SCOPED_TRACE(row_ms);
    auto decoder = std::make_unique<FakeDecoder>(1, 2000);
    FakeDecoder& fake = *decoder;
    EngineOptions options;
    options.depth = GetParam();
    options.prefill_chunk = 256;
    options.kv_pages = 512;
    Engine engine(*ops, std::move(decoder), options);
    fake.claim(int64_t{row_ms} * 1'000'000);
    fake.delay(100);
    Request first = simple_request(1900);
    first.prompt.resize(64, 7);
    const auto sink = std::static_pointer_cast<CheckingSink>(first.sink);
    const Result<RequestId> id = engine.submit(std::move(first));
    ASSERT_TRUE(id.ok());
    while (engine.counters().generated_tokens == 0) std::this_thread::yield();
    Request second = simple_request(1);
    second.prompt.resize(1000, 8);
    const auto end = std::static_pointer_cast<CheckingSink>(second.sink);
    ASSERT_TRUE(engine.submit(std::move(second)).ok());
    end->await();
    EXPECT_EQ(fake.max_with_others(), rows);
    engine.cancel(id.value());
    engine.wait_idle();
    Request alone = simple_request(1);
    alone.prompt.resize(1000, 9);
    ASSERT_TRUE(engine.submit(std::move(alone)).ok());
    engine.wait_idle();
    EXPECT_EQ(fake.max_alone(), alone_rows);
  }
}

// A step in which every sequence drafts needs more rows than answers are to wait for.
TEST_P(Depths, RoomForManyDraftsDoesNotMakePromptsLonger) {
  const auto ops = make_device("ref", {});
  auto decoder = std::make_unique<FakeDecoder>(16, 2000);
  FakeDecoder& fake = *decoder;
  fake.use_rows(1);
  fake.delay(1000);
  EngineOptions options;
  options.depth = GetParam();
  options.max_sequences = 64;
  options.kv_pages = 1000;
  Engine engine(*ops, std::move(decoder), options);
  const RequestId first = engine.submit(simple_request(1900)).value();
  while (engine.counters().generated_tokens == 0) std::this_thread::yield();
  for (int32_t i = 0; i < 6; ++i) {
    Request request = simple_request(1);
    request.prompt.resize(400, i);
    const auto end = std::static_pointer_cast<CheckingSink>(request.sink);
    ASSERT_TRUE(engine.submit(std::move(request)).ok());
    if (i == 5) end->await();
  }
  EXPECT_GT(fake.max_with_others(), 400);  // prompts share steps
  EXPECT_LE(fake.max_with_others(), options.max_step_rows);
  engine.cancel(first);
}

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Also into one that was planned before it came.
TEST_P(Depths, ARequestThatComesDuringAStepIsInTheNext) {
  const auto ops = make_device("ref", {});
  for (int32_t running = 1; running < 4; ++running) {
    auto decoder = std::make_unique<FakeDecoder>(1, 1000);
    FakeDecoder& fake = *decoder;
    fake.allow(0);
    EngineOptions options;
    options.depth = GetParam();
    options.max_sequences = 4;
    options.kv_pages = 128;
    Engine engine(*ops, std::move(decoder), options);
    std::vector<RequestId> ids;
    for (int32_t i = 0; i < running; ++i) ids.push_back(engine.submit(simple_request(500)).value());
    fake.allow(3);
    EXPECT_TRUE(comes_true([&] { return fake.begun() == 4; }));
    ids.push_back(engine.submit(simple_request(500)).value());
    if (GetParam() > 1) {
      EXPECT_TRUE(comes_true([&] { return static_cast<int32_t>(fake.seeds().size()) == running + 1; }));
    }
    fake.allow(5);
    EXPECT_TRUE(comes_true([&] { return fake.launches() == 5; }));
    EXPECT_EQ(fake.spans(3), running);
    EXPECT_EQ(fake.spans(4), running + 1);
    fake.allow(INT32_MAX);
    for (const RequestId id : ids) engine.cancel(id);
    engine.wait_idle();
    EXPECT_EQ(engine.counters().pages_held, 0);
  }
}

TEST_P(Depths, ADecodeSpanJoinsTheLastChunkOfItsPrompt) {
  const auto ops = make_device("ref", {});
  for (const bool joins : {false, true}) {
    auto decoder = std::make_unique<FakeDecoder>(1, 1000);
    FakeDecoder& fake = joins ? decoder->join() : *decoder;
    EngineOptions options;
    options.depth = GetParam();
    options.prefill_chunk = 4;
    Engine engine(*ops, std::move(decoder), options);
    Request request = simple_request(2);
    request.prompt = {1, 2, 3, 4, 5, 6};
    engine.submit(std::move(request)).value();
    engine.wait_idle();
    // 4 tokens of the prompt, the other 2 and the first of the answer, the second of the answer.
    EXPECT_EQ(fake.launches(), 3);
    EXPECT_EQ(fake.spans(0), 1);
    EXPECT_EQ(fake.spans(1), joins ? 2 : 1);
    EXPECT_EQ(fake.spans(2), 1);
  }
}

// Twins hold duplicates of each other's published pages, which keep those pages' parents from eviction.
// Invariant: forward-progress.
TEST_P(Depths, TwinsInTightMemoryBothFinish) {
  for (int32_t length = 3; length < 40; ++length) {
    const auto ops = make_device("ref", {});
    EngineOptions options;
    options.depth = GetParam();
    options.max_sequences = 2;
    options.kv_pages = 8;  // 128 tokens: one full sequence
    Engine engine(*ops, std::make_unique<FakeDecoder>(4, 120), options);
    std::vector<std::shared_ptr<CheckingSink>> sinks;
    for (int i = 0; i < 2; ++i) {
      Request request = simple_request(110);
      request.prompt.resize(length, 7);
      sinks.push_back(std::static_pointer_cast<CheckingSink>(request.sink));
      ASSERT_TRUE(engine.submit(std::move(request)).ok());
    }
    engine.wait_idle();
    for (const auto& sink : sinks) ASSERT_EQ(sink->end.reason, FinishReason::kLength) << sink->end.error;
    ASSERT_EQ(sinks[0]->tokens, sinks[1]->tokens);
  }
}

// A step may take minutes; who waits for it wants to know whether it is getting on.
TEST_P(Depths, ProgressWithinAStepShows) {
  const auto ops = make_device("ref", {});
  auto decoder = std::make_unique<FakeDecoder>(1, 1000);
  FakeDecoder& fake = *decoder;
  fake.allow(1);
  const auto engine = small_engine(*ops, std::move(decoder), GetParam());
  ASSERT_TRUE(engine->submit(simple_request(5)).ok());
  ASSERT_TRUE(comes_true([&] { return fake.begun() == 2 && engine->counters().steps == 1; }));
  const int64_t before = engine->counters().last_progress_ns;
  fake.show_progress(before + 1000);
  EXPECT_EQ(engine->counters().last_progress_ns, before + 1000);
  fake.allow(INT32_MAX);
  engine->wait_idle();
  EXPECT_GE(engine->counters().last_progress_ns, before);
}

TEST(IntegrityDeath, IsCheckedSoonAfterTheEngineFellIdle) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto ops = make_device("ref", {});
        auto decoder = std::make_unique<FakeDecoder>(1, 100);
        FakeDecoder& fake = *decoder;
        const auto engine = small_engine(*ops, std::move(decoder), 2);
        static_cast<void>(engine->submit(simple_request(5)));
        engine->wait_idle();
        fake.break_integrity();
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      "check failed: !broken_");
}

TEST_P(Depths, DestructionCancelsWhatRuns) {
  const auto ops = make_device("ref", {});
  std::vector<std::shared_ptr<CheckingSink>> sinks;
  {
    auto decoder = std::make_unique<FakeDecoder>(1, 1000);
    decoder->delay(300);
    const auto engine = small_engine(*ops, std::move(decoder), GetParam());
    for (int i = 0; i < 5; ++i) {
      Request request = simple_request(900);
      sinks.push_back(std::static_pointer_cast<CheckingSink>(request.sink));
      ASSERT_TRUE(engine->submit(std::move(request)).ok());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->end.reason, FinishReason::kCancelled);
  }
}

}  // namespace
}  // namespace ashlar::testing
