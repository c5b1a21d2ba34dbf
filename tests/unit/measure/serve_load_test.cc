// SPDX-License-Identifier: Apache-2.0
// Load on a server of sockets whose delays are known: counts are exact, times at least the delays.

#include "measure/serve/serve_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "base/error.h"
#include "measure/serve/serve_summary.h"
#include "unit/hub/socket_server.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using testing_support::ServedConnection;
using testing_support::ServedRequest;
using testing_support::SocketServer;

constexpr int kFirstMs = 30, kGapMs = 10, kChunks = 4, kTokens = 7;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string in_chunk(const std::string& text) {  // of HTTP's chunked coding
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + text + "\r\n";
}

/// Streams kChunks chunks that are kTokens tokens, 2 of 3 drafts accepted.
void stream_answer(ServedConnection& client) {
  client.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send(in_chunk("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"));
  for (int i = 0; i < kChunks; ++i) {
    sleep_ms(i == 0 ? kFirstMs : kGapMs);
    const std::string event = "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n";
    client.send(in_chunk(event.substr(0, 20)) + in_chunk(event.substr(20)));  // cut anywhere
  }
  client.send(
      in_chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":" + std::to_string(kTokens) +
               "},\"metrics\":{\"speculative_decoding\":{\"drafted\":3,\"accepted\":2}}}\n\n") +
      in_chunk("data: [DONE]\n\n") + "0\r\n\r\n");
}

class ServeLoadTest : public testing::Test {
 protected:
  ServeLoadTest()
      : server_([this](const ServedRequest& request, ServedConnection& client) {
          if (request.target == "/v1/models") {
            client.answer("200 OK", "", R"({"data":[{"id":"tiny"},{"id":"other"}]})");
            return;
          }
          const int now = ++at_once_;
          for (int most = max_; now > most && !max_.compare_exchange_weak(most, now);) {
          }
          const int nth = count_++;
          {
            const std::lock_guard lock(mutex_);
            bodies_.push_back(request.body);
          }
          if (!mischief_ || !mischief_(nth, client)) stream_answer(client);
          --at_once_;
        }) {
    options_.url = server_.url() + "/v1/";
    options_.requests = 12;
    options_.max_tokens = 9;
  }

  LevelSummary run(const LoadLevel& level, const LatencyGoals& goals = {}) {
    ServeLoad load(options_, builtin_prompts());
    return summarize(load.run(level), goals);
  }

  std::function<bool(int nth, ServedConnection& client)> mischief_;
  std::atomic<int> count_{0}, at_once_{0}, max_{0};
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  ServeLoadOptions options_;
  SocketServer server_;  // last: its threads use the rest
};

TEST_F(ServeLoadTest, AClosedLoopCountsExactlyAndTimesAtLeastTheDelays) {
  const LevelSummary level = run({3, 0}, {10'000, 10'000});
  EXPECT_EQ(level.requests, 12);
  EXPECT_EQ(level.completed, 12);
  EXPECT_TRUE(level.errors.empty());
  EXPECT_EQ(count_, 12);
  EXPECT_EQ(max_, 3);
  EXPECT_EQ(level.tokens, 12 * kTokens);
  EXPECT_EQ(level.chunks, 12 * kChunks);
  EXPECT_EQ(level.prompt_tokens, 60);
  EXPECT_EQ(level.drafted, 36);
  EXPECT_EQ(level.accepted, 24);
  EXPECT_EQ(level.good, 12);
  EXPECT_EQ(level.ttft.count, 12);
  EXPECT_EQ(level.gap.count, 12 * (kChunks - 1));
  EXPECT_GE(level.ttft.p50, kFirstMs);
  EXPECT_GE(level.whole.p50, kFirstMs + (kChunks - 1) * kGapMs);
  // A delayed first chunk may shorten what lies between it and the last; the median of 12 is not so unlucky.
  EXPECT_GE(level.itl.p50, 0.8 * (kChunks - 1) * kGapMs / (kTokens - 1));
  EXPECT_GE(level.gap.p50, 0.8 * kGapMs);
  EXPECT_LT(level.ttft.p50, 100 * kFirstMs);
  EXPECT_LE(level.ttft.p50, level.ttft.p90);
  EXPECT_LE(level.ttft.p90, level.ttft.p99);
  const double min_s = 4 * (kFirstMs + (kChunks - 1) * kGapMs) * 1e-3;  // 12 requests, 3 at a time
  EXPECT_GE(level.seconds, min_s);
  EXPECT_LE(level.requests_per_s, 12 / min_s);
  EXPECT_NEAR(level.tokens_per_s, level.requests_per_s * kTokens, 1e-6 * level.tokens_per_s);
}

TEST_F(ServeLoadTest, AsksForWhatIsMeasured) {
  run({1, 0});
  const Json body = parse_json(bodies_.front(), "body");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["messages"], builtin_prompts()[0].messages);
  EXPECT_NE(bodies_[0], bodies_[1]);
}

TEST_F(ServeLoadTest, AnOpenLoopDoesNotWaitForAnswers) {
  options_.requests = 40;
  const LevelSummary level = run({0, 200});
  EXPECT_EQ(level.completed, 40);
  EXPECT_GT(max_, 3);  // 60 ms an answer at 200 a second: about 12 at once
  EXPECT_GE(level.ttft.p50, kFirstMs);
}

TEST_F(ServeLoadTest, ADurationEndsTheSending) {
  options_.requests = 0;
  options_.duration_s = 0.3;
  const LevelSummary level = run({2, 0});
  EXPECT_GE(level.completed, 2);
  EXPECT_LE(level.completed, 2 * (300 / (kFirstMs + (kChunks - 1) * kGapMs) + 1));
  EXPECT_EQ(level.completed, count_);
  EXPECT_GE(level.seconds, 0.3);
}

TEST_F(ServeLoadTest, GoodputCountsWhatKeepsTheGoals) {
  mischief_ = [](int nth, ServedConnection&) {
    if (nth % 2 == 0) sleep_ms(200);
    return false;
  };
  const LevelSummary level = run({1, 0}, {kFirstMs + 150.0, 0});
  EXPECT_EQ(level.completed, 12);
  EXPECT_LE(level.good, 6);
  EXPECT_GE(level.good, 1);
  EXPECT_NEAR(level.good_per_s, static_cast<double>(level.good) / level.seconds, 1e-9);
  options_.requests = 2;
  EXPECT_EQ(run({1, 0}, {0, 1e-6}).good, 0);
}

TEST_F(ServeLoadTest, ErrorsAreCountedByKindAndKeepOutOfTheFigures) {
  mischief_ = [](int nth, ServedConnection& client) {
    const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string word = in_chunk("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    switch (nth) {
      case 0:
      case 1:
        return client.answer("429 Too Many Requests", "Retry-After: 1\r\n", R"({"error":{"message":"queue is full"}})");
      case 2:
        client.send(head + word);
        client.drop();
        return true;
      case 3:
        return client.send(head + in_chunk("data: {broken\n\n") + "0\r\n\r\n");
      case 4:
        return client.send(head + word + "0\r\n\r\n");
      case 5:
        client.drop();
        return true;
      default:
        return false;
    }
  };
  const LevelSummary level = run({1, 0});
  EXPECT_EQ(level.requests, 12);
  EXPECT_EQ(level.errors.at("HTTP 429"), 2);
  EXPECT_EQ(level.examples.at("HTTP 429"), "queue is full");
  EXPECT_EQ(level.errors.at("malformed stream"), 1);
  EXPECT_EQ(level.errors.at("ended early"), 1);
  EXPECT_GE(level.errors.at("connection lost"), 1);
  int64_t failed = 0;
  for (const auto& [kind, count] : level.errors) failed += count;
  EXPECT_EQ(level.completed, 12 - failed);
  EXPECT_EQ(level.tokens, level.completed * kTokens);
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(ServeLoadTest, AServerThatIsNotThereIsSaidAtOnce) {
  {
    SocketServer gone([](const ServedRequest&, ServedConnection&) {});
    options_.url = gone.url();
  }
  EXPECT_THAT(error_of([&] { ServeLoad load(options_, builtin_prompts()); }), HasSubstr("is the server running"));
  options_.model = "named";
  ServeLoad load(options_, builtin_prompts());
  EXPECT_THAT(error_of([&] { load.warm_up(); }), HasSubstr("connection refused"));
  EXPECT_EQ(summarize(load.run({4, 0}), {}).errors.at("connection refused"), 12);
}

TEST_F(ServeLoadTest, AWarmUpThatIsRefusedEndsIt) {
  mischief_ = [](int, ServedConnection& client) { return client.answer("429 Too Many Requests", "", "{}"); };
  ServeLoad load(options_, builtin_prompts());
  EXPECT_THAT(error_of([&] { load.warm_up(); }), HasSubstr("HTTP 429"));
  mischief_ = {};
  load.warm_up();
  EXPECT_EQ(load.options().requests, 12);
}

TEST_F(ServeLoadTest, SilenceIsATimeout) {
  mischief_ = [](int nth, ServedConnection& client) {
    if (nth > 0) return false;
    sleep_ms(800);
    client.drop();
    return true;
  };
  options_.timeout_s = 0.4;
  EXPECT_EQ(run({2, 0}).errors.at("timeout"), 1);
}

TEST(ServeLoadBody, CompletionsTakeTextAndIds) {
  ServeLoadOptions options;
  options.api = LoadApi::kCompletions;
  EvalPrompt ids;
  ids.ids = {1, 2, 3};
  EXPECT_EQ(parse_json(load_request_body(options, ids), "x")["prompt"], Json::array({1, 2, 3}));
  EvalPrompt text;
  text.messages = Json::array({{{"role", "user"}, {"content", "hello"}}});
  EXPECT_EQ(parse_json(load_request_body(options, text), "x")["prompt"], "hello");
  options.api = LoadApi::kChat;
  EXPECT_THROW(load_request_body(options, ids), Error);
}

}  // namespace
}  // namespace ashlar
