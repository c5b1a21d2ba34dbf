// SPDX-License-Identifier: Apache-2.0
#include "server/http/guard.h"

#include <gtest/gtest.h>

namespace ashlar::server {
namespace {

HttpRequest request(std::string path, Headers headers = {}, std::string method = "GET",
                    std::string host = "localhost:8000") {
  HttpRequest result;
  result.method = std::move(method);
  result.path = std::move(path);
  result.host = std::move(host);
  result.headers = std::move(headers);
  return result;
}

int status(const Guard& guard, const HttpRequest& asked) {
  const Decision decision = guard.check(asked);
  return decision.answer ? decision.answer->status : 0;
}

std::string header(const Decision& decision, std::string_view name) {
  const Header* found = find_header(decision.headers, name);
  if (!found && decision.answer) found = find_header(decision.answer->headers, name);
  return found ? found->value : "";
}

TEST(HttpGuard, RefusalsHaveTheShapeOfTheApiThatWasAsked) {
  GuardOptions options;
  options.api_keys = {"first"};
  const Guard guard(options);
  const auto body = [&](const HttpRequest& asked) { return guard.check(asked).answer.value().body; };
  EXPECT_EQ(body(request("/v1/messages")).rfind(R"({"type":"error","error":{"type":"authentication_error",)", 0), 0U);
  EXPECT_EQ(body(request("/v1/messages/count_tokens", {}, "POST", "evil.example"))
                .rfind(R"({"type":"error","error":{"type":"permission_error",)", 0),
            0U);
  EXPECT_EQ(body(request("/v1/chat/completions")).rfind(R"({"error":{"message":)", 0), 0U);
}

TEST(HttpGuard, AsksForAKeyEverywhereButOnTheOpenPaths) {
  GuardOptions options;
  options.api_keys = {"first", "second"};
  const Guard guard(options);
  struct {
    const char* path;
    Headers headers;
    int expected;
  } const cases[] = {
      {"/health", {}, 0},
      {"/v1/models", {}, 401},
      {"/metrics", {}, 401},
      {"/unknown", {}, 401},
      {"/", {}, 401},
      {"/health/", {}, 401},
      {"/HEALTH", {}, 401},
      {"//health", {}, 401},
      {"/v1", {{"Authorization", "Bearer first"}}, 0},
      {"/v1", {{"authorization", "bearer second"}}, 0},
      {"/v1", {{"Authorization", "Bearer   first"}}, 0},
      {"/v1", {{"X-Api-Key", "first"}}, 0},
      {"/v1", {{"X-Api-Key", "second"}, {"Authorization", "Bearer placeholder"}}, 0},
      {"/v1", {{"Authorization", "Bearer third"}}, 401},
      {"/v1", {{"Authorization", "Bearer firs"}}, 401},
      {"/v1", {{"Authorization", "Bearer firstt"}}, 401},
      {"/v1", {{"Authorization", "Bearer First"}}, 401},
      {"/v1", {{"Authorization", "Bearer "}}, 401},
      {"/v1", {{"Authorization", "Bearer"}}, 401},
      {"/v1", {{"Authorization", "first"}}, 401},
      {"/v1", {{"Authorization", "Basic first"}}, 401},
      {"/v1", {{"X-Api-Key", ""}}, 401},
      {"/v1", {{"X-Api-Key", "Bearer first"}}, 401},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(status(guard, request(test.path, test.headers)), test.expected)
        << test.path << " " << (test.headers.empty() ? "" : test.headers[0].value);
  }
  const Decision decision = guard.check(request("/v1"));
  EXPECT_EQ(header(decision, "WWW-Authenticate"), "Bearer");
  EXPECT_NE(decision.answer->body.find("\"code\":\"invalid_api_key\""), std::string::npos);
  EXPECT_EQ(status(guard, request("/v1", {}, "OPTIONS")), 401);
}

TEST(HttpGuard, WithoutKeysNoneIsAskedFor) { EXPECT_EQ(status(Guard({}), request("/v1")), 0); }

TEST(HttpGuard, KnowsItsHosts) {
  GuardOptions options;
  options.host_names = {"box.example"};
  const auto decision = [&](bool loopback, std::string host) {
    options.loopback = loopback;
    return status(Guard(options), request("/health", {}, "GET", std::move(host)));
  };
  for (const char* host : {"localhost", "localhost:1", "LOCALHOST:8000", "localhost.", "127.0.0.1", "127.0.0.1:65535",
                           "[::1]", "[::1]:8000", "box.example", "Box.Example:8000", ""}) {
    EXPECT_EQ(decision(true, host), 0) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost", "[::2]", "[::1",
        "127.0.0.2", ":8000", "[::1].evil.example:80", "localhost:80.evil.example", "localhost:x"}) {
    EXPECT_EQ(decision(true, host), 403) << host;
  }
  EXPECT_EQ(decision(false, "box.example:80"), 0);
  EXPECT_EQ(decision(false, "localhost"), 403);
  options.host_names.clear();
  EXPECT_EQ(decision(false, "anything"), 0);
  EXPECT_EQ(decision(true, "anything"), 403);
  options.host_names = {"*"};
  EXPECT_EQ(decision(true, "anything"), 0);
}

TEST(HttpGuard, KnowsItsOrigins) {
  GuardOptions options;
  options.origins = {"https://chat.example"};
  const Guard guard(options);
  const auto of = [&](std::string origin) { return guard.check(request("/v1", {{"Origin", std::move(origin)}})); };
  const Decision allowed = of("https://chat.example");
  EXPECT_FALSE(allowed.answer);
  EXPECT_EQ(header(allowed, "Access-Control-Allow-Origin"), "https://chat.example");
  EXPECT_EQ(header(allowed, "Vary"), "Origin");
  const Decision own = of("http://localhost:8000");
  EXPECT_FALSE(own.answer);
  EXPECT_EQ(header(own, "Access-Control-Allow-Origin"), "");
  for (const char* origin :
       {"https://evil.example", "http://chat.example", "https://chat.example:444", "null", "",
        "https://chat.example.evil", "http://localhost:8001", "http://localhost", "localhost:8000"}) {
    const Decision refused = of(origin);
    ASSERT_TRUE(refused.answer) << origin;
    EXPECT_EQ(refused.answer->status, 403) << origin;
    EXPECT_EQ(header(refused, "Access-Control-Allow-Origin"), "");
  }
  EXPECT_FALSE(guard.check(request("/v1")).answer);
}

TEST(HttpGuard, AnswersPreflightsOfConfiguredOriginsWithoutAKey) {
  GuardOptions options;
  options.origins = {"https://chat.example"};
  options.api_keys = {"key"};
  const Guard guard(options);
  const auto preflight = [&](std::string origin, std::string wanted) {
    return guard.check(request("/v1/chat/completions",
                               {{"Origin", std::move(origin)},
                                {"Access-Control-Request-Method", "POST"},
                                {"Access-Control-Request-Headers", std::move(wanted)}},
                               "OPTIONS"));
  };
  const Decision allowed = preflight("https://chat.example", "authorization,content-type,x-stainless-lang");
  ASSERT_TRUE(allowed.answer);
  EXPECT_EQ(allowed.answer->status, 204);
  EXPECT_EQ(header(allowed, "Access-Control-Allow-Origin"), "https://chat.example");
  EXPECT_EQ(header(allowed, "Access-Control-Allow-Headers"), "authorization,content-type,x-stainless-lang");
  EXPECT_NE(header(allowed, "Access-Control-Allow-Methods").find("POST"), std::string::npos);
  EXPECT_EQ(header(preflight("https://chat.example", "a: b"), "Access-Control-Allow-Headers"), "");
  EXPECT_EQ(preflight("https://evil.example", "authorization").answer->status, 403);
  EXPECT_EQ(preflight("http://localhost:8000", "authorization").answer->status, 401);
  EXPECT_EQ(status(guard, request("/v1", {{"Origin", "https://chat.example"}})), 401);
}

// Browsers ask so when a page of the internet calls an address of a private network or of the machine itself.
TEST(HttpGuard, LetsConfiguredOriginsIntoPrivateNetworksIfTheyAsk) {
  GuardOptions options;
  options.origins = {"https://chat.example"};
  const Guard guard(options);
  const auto allowed = [&](const char* origin, const char* asked) {
    Headers headers{{"Origin", origin}, {"Access-Control-Request-Method", "POST"}};
    if (asked) headers.push_back({"Access-Control-Request-Private-Network", asked});
    return header(guard.check(request("/v1/models", std::move(headers), "OPTIONS")),
                  "Access-Control-Allow-Private-Network");
  };
  EXPECT_EQ(allowed("https://chat.example", "true"), "true");
  EXPECT_EQ(allowed("https://chat.example", nullptr), "");
  EXPECT_EQ(allowed("https://chat.example", "false"), "");
  EXPECT_EQ(allowed("https://evil.example", "true"), "");
}

}  // namespace
}  // namespace ashlar::server
