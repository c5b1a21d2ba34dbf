// SPDX-License-Identifier: Apache-2.0
#include "server/service/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace ashlar::server {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, HistogramsCountCumulatively) {
  const double bounds[] = {0.1, 1};
  Histogram histogram(bounds);
  histogram.observe(0.05);
  histogram.observe(0.1);
  histogram.observe(0.5, 3);
  histogram.observe(7);
  std::string out;
  histogram.write("x", "help", "a=\"b\"", out);
  EXPECT_EQ(out,
            "# HELP x help\n# TYPE x histogram\nx_bucket{a=\"b\",le=\"0.1\"} 2\nx_bucket{a=\"b\",le=\"1\"} 5\n"
            "x_bucket{a=\"b\",le=\"+Inf\"} 6\nx_sum{a=\"b\"} 8.65\nx_count{a=\"b\"} 6\n");
}

TEST(Metrics, PageIsWellFormed) {
  ServiceMetrics metrics;
  RequestStats stats;
  stats.drafted_at = {3, 2};
  stats.accepted_at = {2, 1};
  stats.lengths = {0, 1, 0, 0, 0, 2};
  stats.unmasked_in_pass = {7, 4};
  metrics.answer_ended(stats, "stop");
  const std::string page = metrics.write("a \"b\"\n\\", {}, {}, 0);
  EXPECT_THAT(page, HasSubstr("vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"a \\\"b\\\"\\n\\\\\","
                              "position=\"1\"} 1\n"));
  EXPECT_THAT(page,
              HasSubstr("ashlar:decode_unmasked_in_pass_total{model_name=\"a \\\"b\\\"\\n\\\\\",pass=\"1\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("ashlar:decode_decided_per_forward_tokens_sum{model_name=\"a \\\"b\\\"\\n\\\\\"} 11\n"));
  // Names of the version before.
  EXPECT_THAT(page, HasSubstr("ashlar:decode_settled_in_pass_total{model_name=\"a \\\"b\\\"\\n\\\\\",pass=\"1\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("ashlar:decode_settled_per_forward_tokens_sum{model_name=\"a \\\"b\\\"\\n\\\\\"} 11\n"));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("# HELP ") || line.starts_with("# TYPE ") || line.find("} ") != std::string::npos)
        << line;
  }
}

}  // namespace
}  // namespace ashlar::server
