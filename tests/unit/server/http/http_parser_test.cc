// SPDX-License-Identifier: Apache-2.0
// Bytes of a request, in any pieces.

#include <gtest/gtest.h>

#include <cctype>
#include <utility>
#include <vector>

#include "server/http/request_parser.h"
#include "server/http/target.h"

namespace ashlar::server {
namespace {

using State = RequestParser::State;

/// Feeds `bytes` in pieces of `step`, as a connection does. Returns the status of a failure, 200 when done, 0 if it
/// wants more.
int parse(std::string_view bytes, size_t step, HttpRequest* request = nullptr) {
  RequestParser parser({2000, 5000});
  std::string input;
  while (parser.state() != State::kDone && parser.state() != State::kFailed) {
    if (bytes.empty()) return 0;
    input += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    size_t taken = 0;
    do {
      taken = parser.feed(input);
      input.erase(0, taken);
    } while (taken > 0 && !input.empty());
  }
  if (parser.state() == State::kFailed) return parser.failure().status;
  if (request) *request = parser.take_request();
  return 200;
}

struct Case {
  const char* what;
  std::string bytes;
  int status;
};

const std::string kHost = "Host: localhost\r\n";

std::vector<Case> cases() {
  const std::string chunked = "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n";
  return {
      {"plain", "GET / HTTP/1.1\r\n" + kHost + "\r\n", 200},
      {"blank line before", "\r\nGET / HTTP/1.1\r\n" + kHost + "\r\n", 200},
      {"1.0 without host", "GET / HTTP/1.0\r\n\r\n", 200},
      {"unknown method", "BREW / HTTP/1.1\r\n" + kHost + "\r\n", 200},
      {"unfinished", "GET / HTTP/1.1\r\n" + kHost, 0},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n", 400},
      {"odd host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"user in host", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00", 7), 400},
      {"both lengths", chunked + "Content-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {"both, other order",
       "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 400},
      {"two lengths", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
      {"equal lengths", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"list of lengths", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {"signed length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: +3\r\n\r\nabc", 400},
      {"negative length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: -3\r\n\r\nabc", 400},
      {"hex length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 0x3\r\n\r\nabc", 400},
      {"empty length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length:\r\n\r\nabc", 400},
      {"overflowing length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 18446744073709551619\r\n\r\nabc", 400},
      {"large length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 5001\r\n\r\n", 413},
      {"huge length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 999999999999999999\r\n\r\n", 413},
      {"largest length", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 5000\r\n\r\n" + std::string(5000, 'x'), 200},
      {"unknown coding", "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {"two codings", "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked twice", chunked + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked as identity", "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
       400},
      {"odd chunked",
       "POST / HTTP/1.1\r\n" + kHost +
           "Transfer-Encoding: \x0b"
           "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"blank before colon", "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
      {"1.0 chunked", "POST / HTTP/1.0\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked", chunked + "\r\n3\r\nabc\r\n0\r\n\r\n", 200},
      {"chunk size of no hex", chunked + "\r\nxyz\r\nabc\r\n0\r\n\r\n", 400},
      {"negative chunk", chunked + "\r\n-3\r\nabc\r\n0\r\n\r\n", 400},
      {"0x chunk", chunked + "\r\n0x3\r\nabc\r\n0\r\n\r\n", 400},
      {"overflowing chunk", chunked + "\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n", 400},
      {"large chunk", chunked + "\r\nffffffffffffffff\r\n", 413},
      {"chunk longer than said", chunked + "\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
      {"folded header", "GET / HTTP/1.1\r\n" + kHost + "A: b\r\n c\r\n\r\n", 400},
      {"folded with tab", "GET / HTTP/1.1\r\n" + kHost + "A: b\r\n\tc\r\n\r\n", 400},
      {"blank before first header", "GET / HTTP/1.1\r\n " + kHost + "\r\n", 400},
      {"bare line feed", "GET / HTTP/1.1\n" + kHost + "\r\n", 400},
      {"bare line feeds", "GET / HTTP/1.1\nHost: x\n\n", 400},
      {"bare carriage return", "GET / HTTP/1.1\r\n" + kHost + "A: b\rC: d\r\n\r\n", 400},
      {"NUL in a value", "GET / HTTP/1.1\r\n" + kHost + std::string("A: b\0c\r\n\r\n", 10), 400},
      {"DEL in a value", "GET / HTTP/1.1\r\n" + kHost + "A: b\x7f\r\n\r\n", 400},
      {"bytes in a name", "GET / HTTP/1.1\r\n" + kHost + "A\xc3\xa9: b\r\n\r\n", 400},
      {"no colon", "GET / HTTP/1.1\r\n" + kHost + "nothing\r\n\r\n", 400},
      {"empty name", "GET / HTTP/1.1\r\n" + kHost + ": b\r\n\r\n", 400},
      {"bytes in the target", "GET /\xc3\xa9 HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"encoded NUL", "GET /a%00b HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"traversal", "GET /../etc HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"encoded traversal", "GET /v1/%2e%2E/etc HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"tunnel", "CONNECT localhost:443 HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"absolute", "GET http://localhost/x HTTP/1.1\r\n" + kHost + "\r\n", 200},
      {"absolute, other host", "GET http://other/x HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"expects 100", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\nExpect: 100-Continue\r\n\r\nx", 200},
      {"compressed", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\nx", 415},
      {"not compressed", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\nContent-Encoding: Identity\r\n\r\nx",
       200},
      {"expects more", "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\nExpect: coffee\r\n\r\nx", 417},
      {"long header", "GET / HTTP/1.1\r\n" + kHost + "A: " + std::string(2000, 'x') + "\r\n\r\n", 431},
      {"many headers",
       "GET / HTTP/1.1\r\n" + kHost +
           [] {
             std::string all;
             for (int i = 0; i < 200; ++i) all += "A: b\r\n";
             return all;
           }() +
           "\r\n",
       431},
  };
}

TEST(HttpParser, AcceptsAndRefusesInAnyPieces) {
  for (const Case& test : cases()) {
    for (const size_t step : {size_t{100'000}, size_t{1}, size_t{7}}) {
      EXPECT_EQ(parse(test.bytes, step), test.status) << test.what << ", in pieces of " << step;
    }
  }
}

TEST(HttpParser, ReadsWhatWasSent) {
  HttpRequest request;
  ASSERT_EQ(parse("POST /v1/a%20b%2Fc?x=1&name=a%20b+c&flag HTTP/1.1\r\nHOST: Example:80\r\ncontent-length: 3\r\n"
                  "X-Api-Key:  k e y \t\r\n\r\nabcGET",
                  3, &request),
            200);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/a b/c");
  EXPECT_EQ(request.query, "x=1&name=a%20b+c&flag");
  EXPECT_EQ(request.query_value("name"), "a b c");
  EXPECT_EQ(request.query_value("flag"), "");
  EXPECT_EQ(request.query_value("other"), std::nullopt);
  EXPECT_EQ(request.host, "Example:80");
  EXPECT_EQ(request.header("x-api-key"), "k e y");
  EXPECT_EQ(request.body, "abc");
  EXPECT_FALSE(request.http_1_0);
}

// Who reads the first and who reads the last would take such a request for two different ones.
TEST(HttpParser, HeadersThatDecideComeOnce) {
  const std::pair<std::string, std::string> once[] = {{"Content-Length", "0"},
                                                      {"Transfer-Encoding", "chunked"},
                                                      {"Host", "localhost"},
                                                      {"Authorization", "Bearer a"},
                                                      {"X-Api-Key", "a"},
                                                      {"Content-Type", "application/json"},
                                                      {"Origin", "https://chat.example"},
                                                      {"Expect", "100-continue"},
                                                      {"Access-Control-Request-Method", "POST"},
                                                      {"Access-Control-Request-Private-Network", "true"}};
  for (const auto& [name, value] : once) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    const auto with = [&, name = name](const std::string& lines) {
      return parse("POST / HTTP/1.1\r\n" + (name == "Host" ? "" : kHost) + lines + "\r\n" +
                       (name == "Transfer-Encoding" ? "0\r\n\r\n" : ""),
                   1000);
    };
    const std::string line = name + ": " + value + "\r\n";
    EXPECT_EQ(with(line), 200) << name;
    EXPECT_EQ(with(line + line), 400) << name;
    EXPECT_EQ(with(line + "A: b\r\n" + lower + ": " + value + "\r\n"), 400) << name;
    EXPECT_EQ(with(line + name + ":\r\n"), 400) << name;
  }
}

// RFC 9110, 5.3 and 8.4: a list, whose elements may stand in several lines.
TEST(HttpParser, ContentEncodingIsAList) {
  const auto with = [](const std::vector<std::string>& values) {
    std::string lines;
    for (const std::string& value : values) lines += "Content-Encoding: " + value + "\r\n";
    return parse("POST / HTTP/1.1\r\n" + kHost + lines + "Content-Length: 1\r\n\r\nx", 1000);
  };
  using Values = std::vector<std::string>;
  for (const Values& values :
       {Values{""}, {"identity"}, {"identity", "Identity"}, {"identity , identity"}, {"", ","}}) {
    EXPECT_EQ(with(values), 200) << values.back();
  }
  for (const Values& values : {Values{"gzip"},
                               {"identity", "gzip"},
                               {"", "gzip"},
                               {"gzip", "identity"},
                               {"identity, gzip"},
                               {"identity", "identity,\tbr"}}) {
    EXPECT_EQ(with(values), 415) << values.back();
  }
}

TEST(HttpParser, TrailersAreNoHeaders) {
  HttpRequest request;
  ASSERT_EQ(parse("POST / HTTP/1.1\r\n" + kHost +
                      "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nAuthorization: Bearer k\r\n\r\n",
                  1000, &request),
            200);
  EXPECT_EQ(request.body, "a");
  EXPECT_EQ(request.header("authorization"), "");
}

TEST(HttpParser, RefusalsQuoteNothingAndAreJson) {
  RequestParser parser({2000, 5000});
  parser.feed("GET /%zz<script> HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_EQ(parser.state(), State::kFailed);
  EXPECT_EQ(parser.failure().body.find("script"), std::string::npos);
  EXPECT_EQ(parser.failure().body.rfind("{\"error\":{\"message\":", 0), 0u);
}

TEST(HttpParser, RefusalsHaveTheShapeOfTheApiThatWasAsked) {
  for (const std::string framing : {"Content-Length: 5001\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nffff\r\n"}) {
    for (const std::string path : {"/v1/messages", "/v1/messages/count_tokens?beta=true", "/v1/chat/completions"}) {
      RequestParser parser({2000, 5000});
      std::string bytes = "POST " + path + " HTTP/1.1\r\n" + kHost + framing;
      for (size_t taken = 1; taken > 0 && !bytes.empty(); bytes.erase(0, taken)) taken = parser.feed(bytes);
      ASSERT_EQ(parser.state(), State::kFailed) << path << framing;
      EXPECT_EQ(parser.failure().status, 413);
      const bool messages = path.starts_with("/v1/messages");
      const char* beginning =
          messages ? R"({"type":"error","error":{"type":"request_too_large","message":)" : R"({"error":{"message":)";
      EXPECT_EQ(parser.failure().body.rfind(beginning, 0), 0u) << parser.failure().body;
    }
  }
}

TEST(HttpTarget, Forms) {
  const auto path = [](std::string_view method, std::string_view target) {
    const Result<Target> result = parse_target(method, target);
    return result ? result.value().path : "refused";
  };
  EXPECT_EQ(path("GET", "/"), "/");
  EXPECT_EQ(path("GET", "//a"), "//a");
  EXPECT_EQ(path("GET", "/a/..b/.c./..."), "/a/..b/.c./...");
  EXPECT_EQ(path("GET", "/%E2%82%AC"), "/\xE2\x82\xAC");
  EXPECT_EQ(path("GET", "/%252e%252e"), "/%2e%2e");
  EXPECT_EQ(path("OPTIONS", "*"), "*");
  EXPECT_EQ(path("GET", "http://h:80"), "/");
  EXPECT_EQ(path("GET", "HTTPS://h?q"), "/");
  EXPECT_EQ(path("GET", "http://[::1]:80/x"), "/x");
  for (const char* bad : {"",          "*",           "a",        "/%",      "/%1",        "/%zz",          "/%0a",
                          "/%7f",      "/%5c",        "/\\",      "/a/..",   "/./a",       "/a#b",          "http://",
                          "http:///x", "http://u@h/", "ftp://h/", "/%C0%AF", "/%ED%A0%80", "/%F4%90%80%80", "/%80",
                          "/%E2%82"}) {
    EXPECT_EQ(path("GET", bad), "refused") << bad;
  }
}

}  // namespace
}  // namespace ashlar::server
