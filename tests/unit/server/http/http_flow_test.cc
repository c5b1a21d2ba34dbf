// SPDX-License-Identifier: Apache-2.0
// Requests and answers as they should go.

#include <gmock/gmock.h>

#include "base/error.h"
#include "http_test_client.h"
#include "http_test_server.h"

namespace ashlar::server {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(HttpFlow, KeepsAConnectionForManyRequests) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 100; ++i) {
    const std::string body(static_cast<size_t>(i * 37), 'x');
    const ClientResponse response = client.ask(post("/echo?i=" + std::to_string(i), body));
    ASSERT_EQ(response.status, 200);
    ASSERT_EQ(response.body, "POST /echo?i=" + std::to_string(i) + " " + body);
    ASSERT_FALSE(response.headers.contains("connection"));
  }
  EXPECT_EQ(server->counters().accepted, 1u);
  EXPECT_EQ(server->counters().requests, 100u);
}

TEST(HttpFlow, ClosesWhenAsked) {
  TestServer server;
  TestClient client(server.port());
  const ClientResponse response = client.ask(get("/echo", "Connection: close\r\n"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.sees_close());
}

TEST(HttpFlow, LimitsTheRequestsOfAConnection) {
  HttpOptions options;
  options.max_requests_per_connection = 3;
  TestServer server(options);
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    const ClientResponse response = client.ask(get("/echo"));
    EXPECT_EQ(response.headers.contains("connection"), i == 2);
  }
  EXPECT_TRUE(client.sees_close());
}

TEST(HttpFlow, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  TestClient client(server.port());
  std::string all;
  for (int i = 0; i < 3000; ++i)
    all += i % 3 == 0 ? post("/echo", std::to_string(i)) : get("/echo?" + std::to_string(i));
  std::thread sender([&] { client.send(all); });
  for (int i = 0; i < 3000; ++i) {
    const ClientResponse response = client.read();
    const std::string number = std::to_string(i);
    ASSERT_EQ(response.body, i % 3 == 0 ? "POST /echo? " + number : "GET /echo?" + number + " ");
  }
  sender.join();
}

TEST(HttpFlow, ASlowAnswerHoldsBackPipelinedOnes) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/keep") + get("/echo"));
  const auto exchange = server.kept();
  ASSERT_TRUE(exchange);
  EXPECT_FALSE(client.more(50));
  HttpResponse response;
  response.body = "first";
  EXPECT_TRUE(exchange->respond(response));
  EXPECT_FALSE(exchange->respond(response));
  EXPECT_EQ(client.read().body, "first");
  EXPECT_EQ(client.read().body, "GET /echo? ");
  EXPECT_EQ(server.n_gone, 0);
}

TEST(HttpFlow, TakesARequestByteByByte) {
  TestServer server;
  TestClient client(server.port());
  for (const char byte : post("/echo", "body") + get("/echo")) {
    ASSERT_TRUE(client.send(std::string_view(&byte, 1)));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(client.read().body, "POST /echo? body");
  EXPECT_EQ(client.read().body, "GET /echo? ");
}

TEST(HttpFlow, TakesChunkedBodies) {
  TestServer server;
  TestClient client(server.port());
  const ClientResponse response = client.ask(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(response.body, "POST /echo? hello world");
  EXPECT_EQ(client.ask(get("/echo")).status, 200);
}

TEST(HttpFlow, StreamsChunks) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/open"));
  const auto exchange = server.kept();
  ASSERT_TRUE(exchange);
  for (int i = 0; i < 3; ++i) {  // each arrives before the next is sent
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    ASSERT_TRUE(exchange->send(event));
    ASSERT_TRUE(eventually([&] { return client.more(10) && client.buffer().find(event) != std::string::npos; }));
  }
  exchange->finish();
  EXPECT_FALSE(exchange->send("late"));
  const ClientResponse response = client.read();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.headers.at("cache-control"), "no-store");
  EXPECT_EQ(response.headers.at("x-accel-buffering"), "no");
  EXPECT_EQ(client.ask(get("/echo")).status, 200);
  EXPECT_EQ(server.n_gone, 0);
}

TEST(HttpFlow, PutsQueuedChunksIntoOneWrite) {
  TestServer server;
  TestClient client(server.port());
  const ClientResponse response = client.ask(get("/three"));
  EXPECT_EQ(response.body, "one two three");
  EXPECT_EQ(response.chunks.size(), 1u);
}

TEST(HttpFlow, ServesHttp10) {
  TestServer server;
  {
    TestClient client(server.port());
    const ClientResponse response = client.ask("GET /three HTTP/1.0\r\n\r\n");
    EXPECT_EQ(response.body, "one two three");
    EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  }
  {
    TestClient client(server.port());
    EXPECT_EQ(client.ask("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").headers.at("connection"),
              "keep-alive");
    EXPECT_EQ(client.ask("GET /echo HTTP/1.0\r\n\r\n").headers.at("connection"), "close");
    EXPECT_TRUE(client.sees_close());
  }
}

TEST(HttpFlow, AnswersHeadWithoutABody) {
  TestServer server;
  TestClient client(server.port());
  const std::string request = "HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(client.ask(request, true).headers.at("content-length"), std::to_string(std::string("HEAD /echo? ").size()));
  EXPECT_EQ(client.ask("HEAD /three HTTP/1.1\r\nHost: x\r\n\r\n", true).status, 200);
  EXPECT_EQ(client.ask(get("/echo")).body, "GET /echo? ");  // nothing lay between
}

TEST(HttpFlow, InvitesABodyThatWaitsForIt) {
  TestServer server;
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  EXPECT_EQ(client.ask("body").body, "POST /echo? body");
}

TEST(HttpFlow, DoesNotInviteABodyThatIsTooLarge) {
  HttpOptions options;
  options.max_body_bytes = 10;
  TestServer server(options);
  TestClient client(server.port());
  const ClientResponse response =
      client.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(response.status, 413);
}

TEST(HttpFlow, NamesEveryAnswer) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/echo", "X-Request-Id: trace-1.a_B\r\n")).headers.at("x-request-id"), "trace-1.a_B");
  const std::string first = client.ask(get("/echo", "X-Request-Id: <script>\r\n")).headers.at("x-request-id");
  const std::string second =
      client.ask(get("/echo", "X-Request-Id: " + std::string(65, 'a') + "\r\n")).headers.at("x-request-id");
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, second);
  TestClient broken(server.port());
  EXPECT_EQ(broken.ask("bad\r\n\r\n").headers.at("x-request-id").size(), 32u);
}

TEST(HttpFlow, TurnsFailuresOfTheHandlerInto500) {
  TestServer server;
  TestClient client(server.port());
  for (const char* path : {"/throw", "/drop"}) {
    const ClientResponse response = client.ask(get(path));
    EXPECT_EQ(response.status, 500);
    EXPECT_THAT(response.body, HasSubstr("\"error\""));
    EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  }
  EXPECT_EQ(client.ask(get("/echo")).status, 200);
  const ClientResponse cut = client.ask(get("/cut"));
  EXPECT_EQ(cut.status, 0) << "a stream that was let go before its first write has nothing worth sending";
}

TEST(HttpFlow, CutsAStreamThatIsLetGo) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/open"));
  auto exchange = server.kept();
  exchange->send("data: half\n\n");
  ASSERT_TRUE(eventually([&] { return client.more(10) && client.buffer().find("half") != std::string::npos; }));
  exchange.reset();
  const ClientResponse response = client.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.complete);
}

TEST(HttpFlow, LetsTheHeadBeCheckedBeforeTheBody) {
  HttpOptions options;
  options.check_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/closed") return error_response(head.path, 401, "authentication_error", "No.");
    return std::nullopt;
  };
  TestServer server(options);
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/closed")).status, 401);
  EXPECT_EQ(client.ask(get("/echo")).status, 200);
  const ClientResponse response = client.ask("POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.headers.at("connection"), "close");
}

TEST(HttpFlow, HandlerHeadersCannotSplitTheAnswer) {
  HttpServer server({}, [](const std::shared_ptr<Exchange>& exchange) {
    HttpResponse response;
    response.headers = {{"X-Good", "yes"}, {"X-Bad", "a\r\nX-Injected: b"}, {"Content-Length", "0"}, {"X Y", "z"}};
    response.body = "whole";
    exchange->add_header("X-Also", "too");
    exchange->respond(response);
  });
  server.start();
  TestClient client(server.port());
  const ClientResponse response = client.ask(get("/"));
  EXPECT_EQ(response.body, "whole");
  EXPECT_EQ(response.headers.at("x-good"), "yes");
  EXPECT_EQ(response.headers.at("x-also"), "too");
  EXPECT_FALSE(response.headers.contains("x-injected"));
  EXPECT_FALSE(response.headers.contains("x-bad"));
}

std::string error_of(HttpOptions options) {
  HttpServer server(std::move(options), [](const std::shared_ptr<Exchange>&) {});
  try {
    server.start();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// What decides who may ask needs to know this before anyone asks.
TEST(HttpFlow, KnowsWhereItListensBeforeItServes) {
  const auto loopback = [](const char* host) {
    HttpOptions options;
    options.host = host;
    HttpServer server(options, [](const std::shared_ptr<Exchange>&) {});
    server.listen();
    EXPECT_NE(server.port(), 0);
    return server.loopback();
  };
  EXPECT_TRUE(loopback("127.0.0.1"));
  EXPECT_TRUE(loopback("127.8.9.10"));
  EXPECT_TRUE(loopback("localhost"));
  EXPECT_FALSE(loopback("0.0.0.0"));

  std::atomic<int> asked{0};
  HttpServer server({}, [&asked](const std::shared_ptr<Exchange>& exchange) {
    ++asked;
    exchange->respond({});
  });
  server.listen();
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked, 0);
  server.start();
  EXPECT_EQ(client.read().status, 200);
}

// A server that is ending asks now and then whether it should wait longer.
TEST(HttpFlow, DrainsUntilASlowReaderHasAll) {
  TestServer server;
  TestClient client(server.port());
  client.send("GET /open HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto exchange = server.kept();
  ASSERT_NE(exchange, nullptr);
  const std::string much(size_t{32} << 20, 'x');
  EXPECT_TRUE(exchange->send(much));
  exchange->finish();
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); };
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(server->drain(soon()));
  EXPECT_EQ(client.read().body.size(), much.size());
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
}

TEST(HttpFlow, SaysWhyItCannotListen) {
  TestServer first;
  HttpOptions taken;
  taken.port = first.port();
  EXPECT_THAT(error_of(taken),
              testing::AllOf(HasSubstr("[http]"), HasSubstr(std::to_string(first.port())), HasSubstr("in use")));
  HttpOptions unknown;
  unknown.host = "no such host";
  EXPECT_THAT(error_of(unknown), HasSubstr("no such host"));
  HttpOptions elsewhere;
  elsewhere.host = "192.0.2.1";  // reserved for documentation
  EXPECT_THAT(error_of(elsewhere), HasSubstr("192.0.2.1"));
  HttpOptions no_key;
  no_key.tls_cert_file = "cert.pem";
  EXPECT_THAT(error_of(no_key), HasSubstr("key"));
  HttpOptions no_file;
  no_file.tls_cert_file = "/nonexistent/cert.pem";
  no_file.tls_key_file = "/nonexistent/key.pem";
  EXPECT_THAT(error_of(no_file), HasSubstr("/nonexistent/cert.pem"));
}

}  // namespace
}  // namespace ashlar::server
