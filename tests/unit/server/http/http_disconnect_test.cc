// SPDX-License-Identifier: Apache-2.0
// Clients that leave, stall or take nothing.

#include "http_test_client.h"
#include "http_test_server.h"

namespace ashlar::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Leaves in one of the ways a client can, and expects to be noticed exactly once.
void leave_in_every_way(const std::string& path) {
  using Way = void (*)(TestClient&);
  const Way ways[] = {[](TestClient& c) { c.close_now(); }, [](TestClient& c) { c.reset(); },
                      [](TestClient& c) {
                        c.shut_down_sending();
                        c.close_now();
                      }};
  TestServer server;
  int expected = 0;
  for (const Way way : ways) {
    TestClient client(server.port());
    client.send(get(path));
    const auto exchange = server.kept();
    ASSERT_TRUE(exchange);
    EXPECT_FALSE(exchange->gone());
    way(client);
    ++expected;
    ASSERT_TRUE(eventually([&] { return server.n_gone == expected; }));
    EXPECT_TRUE(exchange->gone());
    EXPECT_FALSE(exchange->send("x"));
    EXPECT_FALSE(exchange->respond({}));
    exchange->finish();
  }
  ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
  EXPECT_EQ(server.n_gone, expected);
}

TEST(HttpDisconnect, IsNoticedBeforeTheAnswer) { leave_in_every_way("/keep"); }
TEST(HttpDisconnect, IsNoticedInAStream) { leave_in_every_way("/open"); }

/// The final answer, past interim ones.
ClientResponse read_final(TestClient& client) {
  ClientResponse response = client.read();
  while (response.status / 100 == 1) response = client.read();
  return response;
}

TEST(HttpDisconnect, AClientThatOnlyEndsItsInputIsAnswered) {
  TestServer server;
  for (const std::string version : {"1.1", "1.0"}) {
    for (const std::string path : {"/keep", "/open"}) {
      for (const bool at_once : {true, false}) {  // with the request, or while its answer is made
        SCOPED_TRACE(path + " HTTP/" + version);
        TestClient client(server.port());
        client.send("POST " + path + " HTTP/" + version + "\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
        if (at_once) client.shut_down_sending();
        const auto exchange = server.kept();
        ASSERT_TRUE(exchange);
        client.shut_down_sending();
        if (path == "/open") {
          for (int i = 0; i < 3; ++i) {
            std::this_thread::sleep_for(milliseconds(5));
            EXPECT_TRUE(exchange->send("data: x\n\n"));
          }
          exchange->finish();
        } else {
          std::this_thread::sleep_for(milliseconds(15));
          EXPECT_TRUE(exchange->respond({200, "text/plain", "late", {}}));
        }
        const ClientResponse response = read_final(client);
        EXPECT_EQ(response.status, 200);
        EXPECT_TRUE(response.complete);
        EXPECT_EQ(response.body, path == "/open" ? "data: x\n\ndata: x\n\ndata: x\n\n" : "late");
        EXPECT_TRUE(client.sees_close());
      }
    }
  }
  EXPECT_EQ(server.n_gone, 0);
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

TEST(HttpDisconnect, AllThatWasSentBeforeTheEndOfTheInputIsAnswered) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/echo?1") + get("/three") + get("/echo?2"));
  client.shut_down_sending();
  EXPECT_EQ(read_final(client).body, "GET /echo?1 ");
  EXPECT_EQ(read_final(client).body, "one two three");
  EXPECT_EQ(read_final(client).body, "GET /echo?2 ");
  EXPECT_TRUE(client.sees_close());
}

TEST(HttpDisconnect, AClientThatLeavesAfterTheEndOfItsInputIsNoticedByTheNextBytes) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/open"));
  const auto exchange = server.kept();
  client.shut_down_sending();
  ASSERT_TRUE(client.more(10'000));  // the head, lest unread bytes reset the connection
  client.close_now();
  EXPECT_TRUE(eventually([&] { return !exchange->send(": x\n\n"); }));
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

TEST(HttpDisconnect, IsNoticedWithPipelinedBytesWaiting) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/keep") + get("/echo"));
  const auto exchange = server.kept();
  client.close_now();
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
}

TEST(HttpDisconnect, IsNoticedWhileAWriteIsStuck) {
  TestServer server;
  TestClient client(server.port(), 4096);
  client.send(get("/open"));
  const auto exchange = server.kept();
  exchange->send(std::string(8u << 20, 'x'));  // more than the sockets hold
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(server.n_gone, 0);
  client.close_now();
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
}

TEST(HttpDisconnect, BeforeARequestIsCompleteReachesNoHandler) {
  TestServer server;
  const std::string request = post("/keep", "0123456789");
  for (size_t length = 0; length < request.size(); length += 7) {
    TestClient client(server.port());
    client.send(request.substr(0, length));
    if (length % 2 == 0) client.reset();
  }
  ASSERT_TRUE(eventually([&] {
    const HttpCounters now = server->counters();
    return now.open_connections == 0 && now.accepted >= request.size() / 7;
  }));
  EXPECT_EQ(server.n_gone, 0);
}

TEST(HttpDisconnect, AfterTheEndIsNobodysBusiness) {
  TestServer server;
  for (int i = 0; i < 50; ++i) {
    TestClient client(server.port());
    client.send(get("/open"));
    const auto exchange = server.kept();
    exchange->send("x");
    exchange->finish();
    client.close_now();
  }
  ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
  EXPECT_EQ(server.n_gone, 0);
}

TEST(HttpDisconnect, ACallbackThatComesLateIsCalledAtOnce) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/keep"));
  const auto exchange = server.kept();
  client.close_now();
  ASSERT_TRUE(eventually([&] { return exchange->gone(); }));
  int calls = 0;
  exchange->on_gone([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(HttpDisconnect, ACallbackMayOwnItsExchange) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/keep"));
  auto exchange = server.kept();
  std::weak_ptr<Exchange> weak = exchange;
  exchange->on_gone([exchange] { exchange->finish(); });
  exchange.reset();
  EXPECT_FALSE(weak.expired());
  client.close_now();
  EXPECT_TRUE(eventually([&] { return weak.expired(); }));
}

TEST(HttpDisconnect, ASlowReaderStallsNobodyElse) {
  TestServer server;
  TestClient slow(server.port(), 4096);
  slow.send(get("/open"));
  const auto exchange = server.kept();
  exchange->send(std::string(8u << 20, 'x'));
  TestClient quick(server.port());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(quick.ask(get("/echo")).status, 200);
  exchange->finish();
  const ClientResponse response = slow.read();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body.size(), 8u << 20);
}

TEST(HttpDisconnect, ABacklogBeyondTheLimitCutsTheClient) {
  HttpOptions options;
  options.max_backlog_bytes = 100'000;
  TestServer server(options);
  TestClient client(server.port(), 4096);
  client.send(get("/open"));
  const auto exchange = server.kept();
  const std::string chunk(10'000, 'x');
  size_t queued = 0;
  while (exchange->send(chunk) && queued < (64u << 20)) {
    queued += chunk.size();
    std::this_thread::yield();
  }
  EXPECT_LT(queued, 64u << 20) << "an unread stream must not grow for ever";
  EXPECT_TRUE(exchange->gone());
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

TEST(HttpDisconnect, AReaderThatTakesNothingTimesOut) {
  HttpOptions options;
  options.write_timeout = milliseconds(200);
  TestServer server(options);
  TestClient client(server.port(), 4096);
  client.send(get("/open"));
  const auto exchange = server.kept();
  exchange->send(std::string(8u << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

TEST(HttpDisconnect, DrainWaitsForOpenStreams) {
  TestServer server;
  TestClient idle(server.port());
  TestClient used(server.port());
  EXPECT_EQ(used.ask(get("/echo")).status, 200);
  TestClient streaming(server.port());
  streaming.send(get("/open"));
  const auto exchange = server.kept();
  EXPECT_FALSE(server->drain(Clock::now() + milliseconds(100)));
  EXPECT_TRUE(idle.sees_close());
  EXPECT_TRUE(used.sees_close());
  EXPECT_FALSE(TestClient(server.port()).connected());
  EXPECT_TRUE(exchange->send("data: last\n\n"));
  exchange->finish();
  const ClientResponse response = streaming.read();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "data: last\n\n");
  EXPECT_TRUE(streaming.sees_close());
  streaming.close_now();
  EXPECT_TRUE(server->drain(Clock::now() + std::chrono::seconds(5)));
  EXPECT_EQ(server.n_gone, 0);
}

TEST(HttpDisconnect, TheEndOfTheServerTellsWhoIsWaiting) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/open"));
  const auto exchange = server.kept();
  server.stop();
  EXPECT_EQ(server.n_gone, 1);
  EXPECT_TRUE(exchange->gone());
  EXPECT_FALSE(exchange->send("after the server's death"));
  EXPECT_EQ(exchange->request().path, "/open");
}

TEST(HttpDisconnect, ExchangesMayBeUsedFromManyThreadsWhileClientsLeave) {
  HttpOptions options;
  options.io_threads = 3;
  TestServer server(options);
  std::vector<std::thread> clients;
  std::vector<std::thread> producers;
  constexpr int kThreads = 4, kRounds = 40;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        TestClient client(server.port());
        client.send(get("/open"));
        if ((i + t) % 3 == 0) continue;  // leaves at once
        if ((i + t) % 3 == 1) client.more(1000);
        if ((i + t) % 3 == 2) {
          EXPECT_TRUE(client.read().complete);
        }
      }
    });
    producers.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto exchange = server.kept();
        ASSERT_TRUE(exchange);
        for (int k = 0; k < 20 && exchange->send("data: x\n\n"); ++k) std::this_thread::yield();
        exchange->finish();
      }
    });
  }
  for (std::thread& thread : clients) thread.join();
  for (std::thread& thread : producers) thread.join();
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

}  // namespace
}  // namespace ashlar::server
