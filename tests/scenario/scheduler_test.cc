// The real engine on a fake decoder: random traffic, tight memory, cancellation, failures.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

// Counts events and checks their order.
class CheckingSink final : public EventSink {
 public:
  void on_tokens(const TokensEvent& event) override {
    EXPECT_EQ(ends, 0) << "tokens after the end";
    tokens.insert(tokens.end(), event.tokens, event.tokens + event.n);
    EXPECT_LT(event.n_drafted, event.n);
  }
  void on_end(EndEvent event) noexcept override {
    ++ends;
    end = std::move(event);
    done.store(true);
    done.notify_all();
  }
  void await() const { done.wait(false); }
  std::vector<int32_t> tokens;
  int ends = 0;
  EndEvent end;
  std::atomic<bool> done = false;
};

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

TEST(Start, SaysWhenPagesCannotHoldOneSequence) {
  const auto ops = make_device("ref", {});
  EngineOptions options;
  options.kv_pages = 3;
  try {
    Engine engine(*ops, std::make_unique<FakeDecoder>(1, 100), options);
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs 7"), std::string::npos) << error.what();
  }
}

TEST(Start, TakesTooLittleMemoryAtItsWord) {
  const auto ops = make_device("ref", {});
  EngineOptions options;
  options.kv_bytes = 1;  // less than a page
  EXPECT_THROW(Engine(*ops, std::make_unique<FakeDecoder>(1, 100), options), Error);
}

}  // namespace
}  // namespace ashlar::testing
