// What the service makes of requests as a whole: their seeds, and what becomes of those it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "unit/server/service_harness.h"

namespace ashlar::server::test {
namespace {

TEST(ServiceRequests, PromptsWithoutASeedDrawTheirOwn) {
  ServiceHarness harness;
  ASSERT_EQ(harness.ask("/v1/completions", R"({"prompt":[[1,2],[1,2],[1,2]],"n":2,"max_tokens":1})").status, 200);
  ASSERT_EQ(harness.ask("/generate", R"({"input_ids":[[1,2],[1,2]],"sampling_params":{"max_new_tokens":1}})").status,
            200);
  const std::vector<uint64_t> seeds = harness.decoder().seeds();
  ASSERT_EQ(seeds.size(), 8U);
  EXPECT_EQ(std::set<uint64_t>(seeds.begin(), seeds.end()).size(), 8U);
}

// The tokens of an answer do not depend on what else its request asks.
TEST(ServiceRequests, AGivenSeedIsThatOfEachPrompt) {
  ServiceHarness harness;
  ASSERT_EQ(harness.ask("/v1/completions", R"({"prompt":[[1,2],[3]],"seed":5,"n":2,"max_tokens":1})").status, 200);
  std::vector<uint64_t> seeds = harness.decoder().seeds();
  const std::vector<uint64_t> expected = {choice_seed(5, 0), choice_seed(5, 1), choice_seed(5, 0), choice_seed(5, 1)};
  EXPECT_THAT(seeds, ::testing::UnorderedElementsAreArray(expected));
}

struct Refused {
  const char* path;
  const char* body;
  int status;
  const char* param;
};

TEST(ServiceRequests, WhatIsRefusedIsCountedAndToldOf) {
  std::vector<std::pair<int, std::string>> told;
  ServiceOptions options;
  options.on_refusal = [&told](const Refusal& refusal) { told.emplace_back(refusal.status, refusal.param); };
  ServiceHarness harness(std::move(options));
  int count = 0;
  for (const auto& [path, body, status, param] :
       {Refused{"/v1/completions", R"({"prompt":"Hi","n":"x"})", 400, "n"},
        Refused{"/tokenize", R"({"prompt":"Hi","add_special_tokens":7})", 400, "add_special_tokens"},
        Refused{"/tokenize", R"({"prompt":"Hi","model":"other"})", 404, "model"}, Refused{"/tokenize", "{", 400, ""},
        Refused{"/detokenize", R"({"tokens":["a"]})", 400, "tokens[0]"},
        Refused{"/apply-template", R"({"messages":[{"role":"nobody"}]})", 400, "messages[0].role"},
        Refused{"/v1/messages/count_tokens", R"({"messages":7})", 400, "messages"}}) {
    EXPECT_EQ(harness.ask(path, body).status, status) << path;
    ASSERT_EQ(told.size(), static_cast<size_t>(++count)) << path << body;
    EXPECT_EQ(told.back(), std::pair(status, std::string(param))) << path;
    const std::string metrics = harness.service().metrics().write("m", {}, {}, 0);
    const std::string name = "ashlar:requests_refused_total{model_name=\"m\",why=\"wrong\"} ";
    EXPECT_EQ(std::stoi(metrics.substr(metrics.find(name) + name.size())), count) << path << body;
  }
}

}  // namespace
}  // namespace ashlar::server::test
