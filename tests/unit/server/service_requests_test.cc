// What the service makes of requests as a whole: their seeds.

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

}  // namespace
}  // namespace ashlar::server::test
