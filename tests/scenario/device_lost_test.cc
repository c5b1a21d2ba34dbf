// SPDX-License-Identifier: Apache-2.0
// The real engine on a fake decoder whose device fails for good.

#include <gtest/gtest.h>

#include "base/error.h"
#include "decode/span_error.h"
#include "device/device.h"
#include "engine/engine.h"
#include "scenario/checking_sink.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

class DeviceLostTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Depths, DeviceLostTest, ::testing::Values(1, 2));

Request short_request(const std::shared_ptr<EventSink>& sink) {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 30;
  request.sink = sink;
  return request;
}

// Keeps what the engine says of its device when the request ends.
class AskingSink final : public EventSink {
 public:
  explicit AskingSink(const Engine& engine) : engine_(engine) {}
  void on_tokens(const TokensEvent& event) override { sink_.on_tokens(event); }
  void on_end(EndEvent event) noexcept override {
    lost_ = engine_.lost();
    sink_.on_end(std::move(event));
  }
  const CheckingSink& checked() const { return sink_; }
  const std::string& lost() const { return lost_; }

 private:
  const Engine& engine_;
  CheckingSink sink_;
  std::string lost_;
};

// Whenever it happens, in a prompt or among answers: whatever runs or waits ends with the reason, once, and the engine
// says so by then; nothing is asked of the device again, and further requests are refused.
TEST_P(DeviceLostTest, EndsEveryRequestWithItsReasonAndRefusesMore) {
  for (int32_t lose_at = 0; lose_at < 8; ++lose_at) {
    SCOPED_TRACE(lose_at);
    const auto ops = make_device("ref", {});
    auto decoder = std::make_unique<FakeDecoder>(2, 200);
    FakeDecoder& fake = *decoder;
    fake.lose_device(lose_at);
    fake.allow(0);  // until all are in
    EngineOptions options;
    options.depth = GetParam();
    options.max_sequences = 2;
    options.kv_pages = 64;
    Engine engine(*ops, std::move(decoder), options);
    EXPECT_EQ(engine.lost(), "");
    std::vector<std::shared_ptr<AskingSink>> sinks;
    for (int i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<AskingSink>(engine));
      const Result<RequestId> id = engine.submit(short_request(sinks.back()));
      if (!id.ok()) {  // the first launch was too early for it
        EXPECT_EQ(lose_at, 0);
        EXPECT_EQ(id.error(), "[fake] the device is gone");
        sinks.pop_back();
      }
    }
    ASSERT_FALSE(sinks.empty());
    fake.allow(INT32_MAX);
    engine.wait_idle();
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->checked().ends, 1);
      EXPECT_EQ(sink->checked().end.reason, FinishReason::kError);
      EXPECT_EQ(sink->checked().end.error, "[fake] the device is gone");
      EXPECT_EQ(sink->lost(), "[fake] the device is gone");
    }
    EXPECT_EQ(engine.lost(), "[fake] the device is gone");
    const Result<RequestId> refused = engine.submit(short_request(std::make_shared<CheckingSink>()));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error(), "[fake] the device is gone");
    EXPECT_EQ(fake.begun(), lose_at);
    EXPECT_EQ(engine.counters().pages_held, 0);
    engine.drop_prefix_cache();  // what needs no device still works
  }
}

TEST(DeviceLostOfASpan, IsNotTheSpansOwnError) {
  Slot slot;
  SpanResult span;
  EXPECT_FALSE(run_for_span(slot, span, [] { throw Error("test", "a constraint"); }));
  EXPECT_THROW(run_for_span(slot, span, [] { throw DeviceLost("test", "gone"); }), DeviceLost);
}

}  // namespace
}  // namespace ashlar::testing
