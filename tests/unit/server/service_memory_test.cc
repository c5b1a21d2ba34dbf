// SPDX-License-Identifier: Apache-2.0
// Memory that runs out anywhere between a request's arrival and its end: that request may fail, the server must not.

#include <gtest/gtest.h>

#include <atomic>

#include "scenario/replaced_new.h"
#include "server/api/parse/parse.h"
#include "unit/server/service_harness.h"

// Where memory ends while the JSON library fills a value from a list in braces, that value's container is left over:
// its constructor throws, so that no destructor runs.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" const char* __lsan_default_suppressions() { return "leak:basic_json(std::initializer_list\n"; }

namespace {

std::atomic<int64_t> made{0};  // allocations of the server's threads
std::atomic<int64_t> first_failing{INT64_MAX}, end_of_failing{INT64_MAX};
thread_local bool is_client = false;

}  // namespace

bool ashlar::testing::next_allocation_fails() {
  if (is_client) return false;
  const int64_t number = made.fetch_add(1);
  return number >= first_failing.load() && number < end_of_failing.load();
}

namespace ashlar::server::test {
namespace {

/// For its life `count` allocations fail, from number `from` on, counted from now.
class Shortage {
 public:
  Shortage(int64_t from, int64_t count) {
    const int64_t now = made.load();
    end_of_failing = count == INT64_MAX ? INT64_MAX : now + from + count;
    first_failing = now + from;
  }
  ~Shortage() { first_failing = INT64_MAX; }
};

class AsClient {
 public:
  AsClient() { is_client = true; }
  ~AsClient() { is_client = false; }
};

constexpr const char* kDocument =
    R"({"a":[1,[2.5,{"b":"a text that is longer than what a string has room for","c":[]}],null],"d":{"e":{"f":[true]}},)"
    R"("g":[[[{}]]],"h":{"i":1,"j":2,"k":{"l":"another text that is longer than that room"}}})";

TEST(JsonMemory, ADocumentGoesWithoutAllocating) {
  Json document = parse_json(kDocument, "it");
  Json copy = document;
  const int64_t before = made;
  document = nullptr;
  { const Json gone = std::move(copy); }
  EXPECT_EQ(made - before, 0);
}

TEST(JsonMemory, AParserThatRunsOutOfItThrows) {
  for (const int64_t count : {int64_t{1}, INT64_MAX}) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      const Shortage shortage(n, count);
      try {
        EXPECT_EQ(parse_json(kDocument, "it").size(), 4U);
        failed = false;
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_GT(n, 20);
  }
}

struct Sent {
  const char* name;
  const char* path;
  const char* body;
  friend std::ostream& operator<<(std::ostream& out, const Sent& sent) { return out << sent.name; }
};
class ServiceMemory : public ::testing::TestWithParam<Sent> {};
INSTANTIATE_TEST_SUITE_P(
    Requests, ServiceMemory,
    ::testing::Values(
        Sent{"chat", "/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"","tool_calls":[{"id":"c",)"
             R"("type":"function","function":{"name":"f","arguments":"{\"a\":[1,{\"b\":null}]}"}}]},{"role":"tool",)"
             R"("content":[{"type":"text","text":"ok"}]}],"tools":[{"type":"function","function":{"name":"f",)"
             R"("parameters":{"type":"object","properties":{"a":{"type":"array"}}}}}],"max_tokens":2})"},
        Sent{"constrained", "/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hi"}],"guided_regex":"[0-9]+","max_tokens":2})"},
        Sent{"completions", "/v1/completions",
             R"({"prompt":[[1,2,3],[4,5]],"n":2,"max_tokens":2,"logprobs":1,"stream":true,"stop":["a b c"]})"},
        Sent{"responses", "/v1/responses", R"({"input":[{"role":"user","content":"Hi"}],"max_output_tokens":2})"},
        Sent{"messages", "/v1/messages",
             R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"stream":true})"},
        Sent{"generate", "/generate", R"({"text":["Hi","Ho"],"sampling_params":{"max_new_tokens":2}})"},
        Sent{"tokenize", "/tokenize", R"({"prompt":"Hi","with_pieces":true})"},
        Sent{"refused", "/v1/completions", R"({"prompt":"Hi","max_tokens":[{"a":"b"}]})"}),
    [](const auto& info) { return std::string(info.param.name); });

// Each allocation in turn, alone and with all that follow, from the I/O thread's first to the end of the answer.
TEST_P(ServiceMemory, OneRequestFailsAtMost) {
  const AsClient client;
  ServiceHarness harness;
  Service& service = harness.service();
  const Reply whole = harness.ask(GetParam().path, GetParam().body);
  ASSERT_NE(whole.status, 500) << whole.body;
  for (const int64_t count : {int64_t{1}, INT64_MAX}) {
    int64_t n = 0;
    for (bool reached = true; reached && !HasFailure(); ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n) + (count == 1 ? " alone" : " and all after it"));
      Asked asked(GetParam().path, GetParam().body);
      Reply reply;
      {
        const Shortage shortage(n, count);
        is_client = false;
        asked.begin(harness.router());
        is_client = true;
        reply = asked.end();
        reached = made >= first_failing;
      }
      EXPECT_TRUE(reply.cut || reply.status == 500 || reply.status == whole.status)
          << reply.status << " " << reply.body;
      ASSERT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(20)));
      const Reply next = harness.ask(GetParam().path, GetParam().body);
      EXPECT_EQ(next.status, whole.status) << next.body;
      EXPECT_FALSE(next.cut);
    }
    EXPECT_GT(n, 50);
  }
}

// Tokens and log-probabilities of one event belong together, whatever else is lost.
TEST(DeliveryMemory, AnEventKeepsALogprobForEachToken) {
  class Receiver final : public EventReceiver {
   public:
    void on_tokens(int32_t, const TokenChunk& chunk) override {
      if (chunk.tokens.size() != chunk.logprobs.size()) uneven = true;
    }
    void on_end(int32_t, const EndEvent&) override {
      ended = true;
      ended.notify_all();
    }
    std::atomic<bool> uneven = false, ended = false;
  };
  int thrown = 0;
  for (int64_t n = 0; n < 100; ++n) {
    const auto receiver = std::make_shared<Receiver>();
    const auto delivery = std::make_shared<Delivery>([] {});
    const auto sink = delivery->sink(receiver, 0);
    const std::vector<int32_t> tokens(7);
    const std::vector<TokenLogprobs> logprobs(tokens.size());
    TokensEvent event;
    event.tokens = tokens.data();
    event.n = static_cast<int32_t>(tokens.size());
    event.logprobs = logprobs.data();
    try {
      const Shortage shortage(n, 1);
      for (int i = 0; i < 9; ++i) sink->on_tokens(event);
    } catch (const std::bad_alloc&) {
      ++thrown;
    }
    sink->on_end({});
    delivery->start();
    receiver->ended.wait(false);
    delivery->stop();
    ASSERT_FALSE(receiver->uneven) << "allocation " << n;
  }
  EXPECT_GT(thrown, 10);
}

}  // namespace
}  // namespace ashlar::server::test
