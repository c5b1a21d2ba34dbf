// SPDX-License-Identifier: Apache-2.0
// Every route is in the OpenAPI document, and nothing else is.

#include "server/service/routes/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/connection/exchange_core.h"
#include "server/http/guard.h"
#include "server/page/page.h"

namespace ashlar::server {
namespace {

/// The routes of a server that is asked only for its document.
class Routes : public ::testing::Test {
 protected:
  Routes() {
    add_routes(router_, context_);
    HttpRequest request;
    request.method = "GET";
    request.path = "/openapi.json";
    const auto core = std::make_shared<ExchangeCore>(request, size_t{1} << 20, [] {});
    router_.handle(std::make_shared<Exchange>(core));
    std::string answer;
    for (ExchangeCore::Output out; !out.last; answer += out.bytes) out = core->take(true);
    document_ = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }

  RouteContext context_;
  Router router_;
  Json document_;
};

TEST_F(Routes, AreDocumented) {
  std::vector<std::string> added = router_.routes(), documented;
  for (std::string& route : added) {
    if (route.ends_with("...}")) route.replace(route.size() - 4, 3, "");
  }
  for (const auto& [path, item] : document_["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      documented.push_back((method == "get" ? "GET " : "POST ") + path);
    }
  }
  EXPECT_THAT(documented, ::testing::UnorderedElementsAreArray(added));
  EXPECT_THAT(documented, ::testing::IsSupersetOf({"GET /", "GET /v1/models/{id}", "POST /generate", "GET /app.js"}));
}

TEST_F(Routes, NeedAKeyAsDocumented) {
  GuardOptions options;
  options.api_keys = {"key"};
  for (const PageFile& file : page_files()) options.open_paths.emplace_back(file.path);
  const Guard guard(options);
  for (const auto& [path, item] : document_["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      HttpRequest request;
      request.path = path;
      const bool refused = guard.check(request).answer.has_value();
      EXPECT_EQ(refused, !operation.contains("security")) << path;
      EXPECT_EQ(refused, operation["responses"].contains("401")) << path;
      request.headers = {{"x-api-key", "key"}};
      EXPECT_FALSE(guard.check(request).answer.has_value()) << path;
    }
  }
}

TEST_F(Routes, FilesHaveTheirTypes) {
  for (const PageFile& file : page_files()) {
    const Json& content = document_["paths"][std::string(file.path)]["get"]["responses"]["200"]["content"];
    ASSERT_EQ(content.size(), 1U) << file.path;
    EXPECT_TRUE(file.content_type.starts_with(content.begin().key() + ";")) << file.path;
  }
}

}  // namespace
}  // namespace ashlar::server
