// SPDX-License-Identifier: Apache-2.0
// Another engine takes the place of the one that answers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "unit/server/service_harness.h"

namespace ashlar::server::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPath = "/v1/completions";
constexpr const char* kBody = R"({"prompt":[1,2,3],"max_tokens":8,"return_token_ids":true})";

std::string tokens_of(const Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return Json::parse(reply.body)["choices"][0]["token_ids"].dump();
}

TEST(ServiceChange, RequestsThatComeMeanwhileAreAnsweredByTheNewEngine) {
  ServiceHarness harness;
  Service& service = harness.service();
  const std::string expected = tokens_of(harness.ask(kPath, kBody));
  EXPECT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  ASSERT_TRUE(service.begin_change());
  const EngineCounters before = service.engine().counters();
  EXPECT_FALSE(service.begin_change());
  std::vector<std::unique_ptr<Asked>> asked;  // more than there are workers
  for (int i = 0; i < 5; ++i) {
    asked.push_back(std::make_unique<Asked>(kPath, kBody));
    asked.back()->begin(harness.router());
  }
  EXPECT_TRUE(service.wait_busy(std::chrono::steady_clock::now()));
  EXPECT_EQ(harness.ask("/health", "", "GET").body, "{\"status\":\"ok\"}\n");
  EXPECT_EQ(Json::parse(harness.ask("/stats", "", "GET").body)["generated_tokens"], before.generated_tokens);
  Engine& engine = harness.make_engine();
  EXPECT_EQ(engine.counters().generated_tokens, 0U);
  service.end_change(engine, "with another drafter");
  for (const auto& one : asked) EXPECT_EQ(tokens_of(one->end()), expected);
  engine.wait_idle();
  EXPECT_EQ(engine.counters().generated_tokens, 5U * 8);
  EXPECT_EQ(Json::parse(harness.ask("/stats", "", "GET").body)["description"], "with another drafter");
  EXPECT_EQ(service.engine().counters().generated_tokens, before.generated_tokens + 5 * 8);
  EXPECT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  const int64_t progress = service.engine().counters().last_progress_ns;
  ASSERT_TRUE(service.begin_change());
  EXPECT_GE(service.engine().counters().last_progress_ns, progress);
  service.end_change(harness.make_engine(), "");
  EXPECT_GE(service.engine().counters().last_progress_ns, progress);
}

// Clients come at any moment of it, and none is refused, lost or answered otherwise.
TEST(ServiceChange, IsNoticedByNoClient) {
  constexpr int kChanges = 30;
  ServiceHarness harness;
  Service& service = harness.service();
  const std::string expected = tokens_of(harness.ask(kPath, kBody));
  std::atomic<bool> over{false};
  std::atomic<int> answers{0};
  std::vector<std::thread> clients;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      while (!over) {
        EXPECT_EQ(tokens_of(harness.ask(kPath, kBody)), expected);
        ++answers;
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      }
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int changes = 0;
  while (changes < kChanges && std::chrono::steady_clock::now() < deadline) {
    service.wait_idle(deadline);
    if (!service.begin_change()) continue;
    service.end_change(harness.make_engine(), "");
    ++changes;
    const int before = answers;
    while (answers == before && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(changes, kChanges);
  service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  ASSERT_TRUE(service.begin_change());  // after which all is counted
  EXPECT_EQ(service.engine().counters().generated_tokens, 8U * (1 + static_cast<uint64_t>(answers)));
  service.end_change(harness.make_engine(), "");
}

TEST(ServiceChange, WaitsForWhatRuns) {
  ServiceHarness harness;
  Service& service = harness.service();
  harness.decoder().allow(0);
  Asked asked(kPath, kBody);
  asked.begin(harness.router());
  EXPECT_TRUE(service.wait_busy(std::chrono::steady_clock::now()));  // from the moment that it came
  EXPECT_FALSE(service.begin_change());
  harness.decoder().allow(INT32_MAX);
  EXPECT_EQ(asked.end().status, 200);
  EXPECT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  ASSERT_TRUE(service.begin_change());
  service.end_change(harness.make_engine(), "");
}

// Those who wait, and those who come, until there is one after all.
TEST(ServiceChange, SaysSoWhereNoEngineCanBeMade) {
  ServiceHarness harness;
  Service& service = harness.service();
  ASSERT_TRUE(service.begin_change());
  Asked asked(kPath, kBody);
  asked.begin(harness.router());
  service.report_change("no engine can be made: out of memory");
  for (const Reply& reply : {asked.end(), harness.ask(kPath, kBody)}) {
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(reply.body, HasSubstr("out of memory"));
  }
  EXPECT_THAT(harness.ask("/health", "", "GET").body, HasSubstr("out of memory"));
  service.end_change(harness.make_engine(), "");
  EXPECT_EQ(harness.ask(kPath, kBody).status, 200);
}

TEST(ServiceChange, TakesNoLongerThanARequestMay) {
  ServiceOptions options;
  options.timeout = std::chrono::milliseconds(50);
  ServiceHarness harness(options);
  ASSERT_TRUE(harness.service().begin_change());
  const Reply reply = harness.ask(kPath, kBody);
  EXPECT_EQ(reply.status, 504);
  EXPECT_THAT(reply.body, HasSubstr("longer than this server allows"));
  harness.service().end_change(harness.make_engine(), "");
}

TEST(ServiceChange, LetsGoOfThoseWhoWaitWhereTheServerEnds) {
  ServiceHarness harness;
  Service& service = harness.service();
  ASSERT_TRUE(service.begin_change());
  Asked asked(kPath, kBody);
  asked.begin(harness.router());
  service.begin_drain();
  EXPECT_FALSE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  service.cancel_all();
  const Reply reply = asked.end();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("shutting_down"));
  EXPECT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  EXPECT_FALSE(service.begin_change());
}

// Requests that run and requests that wait end with the reason, and the health reports it.
TEST(ServiceDevice, WhenItIsLostEveryAnswerSaysSoAndSoDoesTheHealth) {
  ServiceHarness harness;
  harness.decoder().lose_device(3);
  std::vector<std::unique_ptr<Asked>> asked;  // more than run at once
  for (int i = 0; i < 6; ++i) {
    asked.push_back(std::make_unique<Asked>(kPath, kBody));
    asked.back()->begin(harness.router());
  }
  for (const auto& one : asked) {
    const Reply reply = one->end();
    EXPECT_TRUE(reply.status == 500 || reply.status == 503) << reply.status;
    EXPECT_NE(reply.body.find("the device is gone"), std::string::npos) << reply.body;
  }
  const Reply later = harness.ask(kPath, kBody);
  EXPECT_EQ(later.status, 503);
  EXPECT_EQ(Json::parse(later.body)["error"]["code"], "device_lost") << later.body;
  const Reply health = harness.ask("/health", "", "GET");
  EXPECT_EQ(health.status, 503);
  EXPECT_NE(health.body.find("the device is gone"), std::string::npos) << health.body;
  EXPECT_EQ(harness.service().engine().lost(), "[fake] the device is gone");
  EXPECT_TRUE(harness.service().wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  ASSERT_TRUE(harness.service().begin_change());  // as when it is lost just before
  EXPECT_EQ(harness.service().engine().lost(), "[fake] the device is gone");
}

// With no engine to ask: who waits for one is refused, and the server ends as it does when one fails.
TEST(ServiceDevice, WhenItIsLostDuringAChangeNothingWaitsForAnEngine) {
  ServiceHarness harness;
  Service& service = harness.service();
  ASSERT_TRUE(service.begin_change());
  Asked waits(kPath, kBody);
  waits.begin(harness.router());
  service.lose_device("[fake] the device is gone");
  EXPECT_EQ(service.engine().lost(), "[fake] the device is gone");
  for (const Reply& reply : {waits.end(), harness.ask(kPath, kBody)}) {
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(Json::parse(reply.body)["error"]["code"], "device_lost") << reply.body;
  }
  EXPECT_EQ(harness.ask("/health", "", "GET").status, 503);
  EXPECT_TRUE(service.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  EXPECT_FALSE(service.begin_change());
}

}  // namespace
}  // namespace ashlar::server::test
