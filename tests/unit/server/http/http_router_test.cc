// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/json.h"
#include "server/http/connection/exchange_core.h"

namespace ashlar::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class HttpRouter : public testing::Test {
 protected:
  HttpRouter() {
    for (const auto& [method, pattern] :
         std::vector<std::pair<const char*, const char*>>{{"GET", "/"},
                                                          {"GET", "/v1/models"},
                                                          {"GET", "/v1/models/{id...}"},
                                                          {"DELETE", "/v1/models/{id}"},
                                                          {"GET", "/v1/responses/{id}"},
                                                          {"POST", "/v1/responses/{id}/cancel"},
                                                          {"POST", "/v1/responses/count"}}) {
      const std::string name = std::string(method) + " " + pattern;
      router_.add(method, pattern,
                  [this, name, pattern = std::string(pattern)](const auto& exchange, const PathParameters& p) {
                    called_ = name + (pattern.find('{') == std::string::npos ? "" : " " + p["id"]);
                    exchange->respond({});
                  });
    }
  }

  /// Which handler a request reaches, or the head of the answer it gets instead.
  std::string ask(std::string method, std::string path) {
    called_.clear();
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    const auto core = std::make_shared<ExchangeCore>(request, 1000, [] {});
    router_.handle(std::make_shared<Exchange>(core));
    const std::string answer = core->take(true).bytes;
    return called_.empty() ? answer : called_;
  }

  Router router_;
  std::string called_;
};

TEST_F(HttpRouter, ListsRoutes) {
  EXPECT_THAT(router_.routes(), UnorderedElementsAre("GET /", "GET /v1/models", "GET /v1/models/{id...}",
                                                     "DELETE /v1/models/{id}", "GET /v1/responses/{id}",
                                                     "POST /v1/responses/{id}/cancel", "POST /v1/responses/count"));
}

TEST_F(HttpRouter, FindsRoutes) {
  EXPECT_EQ(ask("GET", "/"), "GET /");
  EXPECT_EQ(ask("GET", "/v1/models"), "GET /v1/models");
  EXPECT_EQ(ask("HEAD", "/v1/models"), "GET /v1/models");
  EXPECT_EQ(ask("GET", "/v1/models/a"), "GET /v1/models/{id...} a");
  EXPECT_EQ(ask("GET", "/v1/models/org/name"), "GET /v1/models/{id...} org/name");
  EXPECT_EQ(ask("DELETE", "/v1/models/a"), "DELETE /v1/models/{id} a");
  EXPECT_EQ(ask("POST", "/v1/responses/count"), "POST /v1/responses/count");
  EXPECT_EQ(ask("GET", "/v1/responses/count"), "GET /v1/responses/{id} count");
  EXPECT_EQ(ask("POST", "/v1/responses/7/cancel"), "POST /v1/responses/{id}/cancel 7");
}

TEST_F(HttpRouter, KnowsNoOtherPaths) {
  for (const char* path : {"/v1", "/v1/", "/v1/models/", "/v1/Models", "//v1/models", "/v1/responses/",
                           "/v1/responses//cancel", "/v1/responses/7/cancel/", "*", "/x\"y"}) {
    EXPECT_THAT(ask("GET", path), HasSubstr("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(HttpRouter, ErrorsHaveTheShapeOfTheApiThatWasAsked) {
  EXPECT_THAT(ask("GET", "/v1/messages/nothing"),
              HasSubstr(R"({"type":"error","error":{"type":"not_found_error","message":)"));
  EXPECT_THAT(ask("GET", "/v1/messages2"), HasSubstr(R"({"error":{"message":)"));
}

TEST_F(HttpRouter, NamesTheMethodsOfAPath) {
  const std::string answer = ask("PUT", "/v1/models/a");
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 405 "));
  EXPECT_THAT(answer, HasSubstr("\r\nAllow: DELETE, GET, HEAD, OPTIONS\r\n"));
  const Json body = parse_json(answer.substr(answer.find("\r\n\r\n") + 4), "answer");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_EQ(body["error"]["code"], "method_not_allowed");
  EXPECT_THAT(ask("get", "/v1/models"), HasSubstr("HTTP/1.1 405 "));
  EXPECT_THAT(ask("OPTIONS", "/v1/models"), HasSubstr("HTTP/1.1 204 "));
  EXPECT_THAT(ask("OPTIONS", "/v1/models"), HasSubstr("\r\nAllow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_THAT(ask("OPTIONS", "*"), HasSubstr("HTTP/1.1 204 "));
  EXPECT_THAT(ask("OPTIONS", "/nothing"), HasSubstr("HTTP/1.1 404 "));
  EXPECT_THAT(router_.find("PATCH", "/").allowed, ElementsAre("GET", "HEAD", "OPTIONS"));
}

}  // namespace
}  // namespace ashlar::server
