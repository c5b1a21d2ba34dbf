// SPDX-License-Identifier: Apache-2.0
// What clients share: memory and places. No client takes all of it.

#include <gtest/gtest.h>

#include "http_test_client.h"
#include "http_test_server.h"

namespace ashlar::server {
namespace {

using std::chrono::milliseconds;

TEST(HttpSharing, BodiesOfAllClientsTogether) {  // and what /echo answers
  HttpOptions options;
  options.memory = std::make_shared<MemoryBudget>(20'000);
  TestServer server(options);
  TestClient first(server.port());
  first.send(post("/keep", std::string(16'000, 'x')));
  auto exchange = server.kept();
  ASSERT_TRUE(exchange);
  {
    TestClient second(server.port());
    EXPECT_EQ(second.ask(post("/echo", std::string(5000, 'x'))).status, 503);
    TestClient small(server.port());
    EXPECT_EQ(small.ask(post("/echo", std::string(1000, 'x'))).status, 200);
  }
  exchange->respond({});
  EXPECT_EQ(first.read().status, 200);
  for (int i = 0; i < 5; ++i) {  // what was taken is given back
    EXPECT_EQ(first.ask(post("/echo", std::string(9000, 'x'))).status, 200);
    TestClient broken(server.port());
    broken.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nhalf");
    broken.reset();
    ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 1; }));
  }
}

// However many large bodies are on their way and for whatever reason they do not end.
TEST(HttpSharing, UnfinishedLargeBodiesLeaveRoomForSmallOnes) {
  constexpr size_t kTotal = 8u << 20, kLarge = 1u << 20;
  HttpOptions options;
  options.memory = std::make_shared<MemoryBudget>(kTotal);
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> unfinished;
  for (size_t i = 0; i < 2 * kTotal / kLarge; ++i) {
    unfinished.push_back(std::make_unique<TestClient>(server.port()));
    unfinished.back()->send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kLarge) + "\r\n\r\n" +
                            std::string(kLarge - 1, 'x'));
  }
  // The last that was refused gave back what it had.
  ASSERT_TRUE(eventually([&] { return server->counters().memory_used > kTotal * 7 / 8 - kLarge - 100; }));
  TestClient large(server.port());
  EXPECT_EQ(large.ask(post("/echo", std::string(3 * kLarge, 'x'))).status, 503);
  std::vector<std::unique_ptr<TestClient>> small;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (size_t i = 0; i < kTotal / 8 / MemoryBudget::kSmall; ++i) {
    small.push_back(std::make_unique<TestClient>(server.port()));
    small.back()->send(post("/keep", std::string(MemoryBudget::kSmall, 'x')));
    exchanges.push_back(server.kept());
    ASSERT_TRUE(exchanges.back()) << i;
  }
  for (size_t i = 0; i < small.size(); ++i) {
    exchanges[i]->respond({});
    EXPECT_EQ(small[i]->read().status, 200);
  }
  unfinished.clear();
  EXPECT_TRUE(eventually([&] { return server->counters().memory_used == 0; }));
  TestClient again(server.port());
  EXPECT_EQ(again.ask(post("/echo", std::string(kLarge, 'x'))).status, 200);
}

// An announced length takes nothing.
TEST(HttpSharing, OnlyBytesThatCameCount) {
  HttpOptions options;
  options.memory = std::make_shared<MemoryBudget>(1u << 20);
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\nx");
  }
  EXPECT_EQ(TestClient(server.port()).ask(post("/echo", std::string(200'000, 'x'))).status, 200);
}

TEST(HttpSharing, AnswersThatNobodyReadsCount) {
  constexpr size_t kAnswer = 16u << 20;  // more than the sockets hold
  HttpOptions options;
  options.memory = std::make_shared<MemoryBudget>(4 * kAnswer);
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto ask = [&](const char* path) {
    clients.push_back(std::make_unique<TestClient>(server.port(), 4096));
    clients.back()->send(get(path));
    return server.kept();
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask("/keep")->respond({200, "text/plain", std::string(kAnswer, 'x'), {}}));
  EXPECT_GE(server->counters().memory_used, 3 * kAnswer);
  ask("/keep")->respond({200, "text/plain", std::string(kAnswer, 'x'), {}});
  EXPECT_EQ(clients.back()->read().status, 503);
  const auto stream = ask("/open");
  EXPECT_TRUE(stream->send(std::string(1000, 'x'))) << "small ones have a share of their own";
  EXPECT_FALSE(stream->send(std::string(kAnswer, 'x')));
  EXPECT_TRUE(stream->gone());
  const ClientResponse whole = clients.front()->read();
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.body, std::string(kAnswer, 'x'));
  EXPECT_TRUE(eventually([&] { return server->counters().memory_used < 3 * kAnswer; }));
  clients.clear();
  EXPECT_TRUE(eventually([&] { return server->counters().memory_used == 0; }));
}

TEST(HttpSharing, Connections) {
  HttpOptions options;
  options.max_connections = 3;
  options.linger = milliseconds(100);
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send(get("/keep"));
    exchanges.push_back(server.kept());
  }
  TestClient extra(server.port());
  const ClientResponse response = extra.ask(get("/echo"));
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.headers.contains("retry-after"));
  EXPECT_EQ(server->counters().refused, 1u);
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 2; }));
  EXPECT_EQ(TestClient(server.port()).ask(get("/echo")).status, 200);
}

TEST(HttpSharing, ConnectionsWithoutARequestGiveWay) {
  HttpOptions options;
  options.max_connections = 4;
  TestServer server(options);
  TestClient busy(server.port());
  busy.send(get("/keep"));
  const auto exchange = server.kept();
  TestClient used(server.port()), unused(server.port()), begun(server.port());
  begun.send("GET /echo HTT");
  ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 4; }));
  EXPECT_EQ(used.ask(get("/echo")).status, 200);  // from here on it has waited for less time than the two others
  TestClient first(server.port());
  EXPECT_EQ(first.ask(get("/echo")).status, 200);
  TestClient second(server.port());
  EXPECT_EQ(second.ask(get("/echo")).status, 200);
  EXPECT_TRUE(unused.sees_close());
  EXPECT_TRUE(begun.sees_close());
  EXPECT_EQ(used.ask(get("/echo")).status, 200);
  EXPECT_TRUE(exchange->respond({}));
  EXPECT_EQ(busy.read().status, 200);
  EXPECT_EQ(server->counters().yielded, 2u);
  EXPECT_EQ(server->counters().refused, 0u);
}

// Each is let in, with far more of them than there are places.
TEST(HttpSharing, IdleConnectionsKeepNobodyOut) {
  HttpOptions options;
  options.max_connections = 8;
  options.io_threads = 2;
  TestServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_EQ(clients.back()->ask(get("/echo")).status, 200) << i;
  }
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections <= 8; }));
}

}  // namespace
}  // namespace ashlar::server
