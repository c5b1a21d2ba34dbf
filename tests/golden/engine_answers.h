// SPDX-License-Identifier: Apache-2.0
#pragma once
// The answers of the bundled model and drafter, by the engine on any device, against float32 answers of PyTorch. Tokens
// may differ only where the two best logits of the golden lie close together.

#include <gtest/gtest.h>

#include <numeric>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {

// True if the tokens agree up to a place where the golden itself was undecided.
inline bool agrees(const std::vector<int32_t>& found, const Json& golden, double near_tie) {
  const auto expected = golden["greedy_ids"].get<std::vector<int32_t>>();
  const auto margins = golden["top1_top2_margin"].get<std::vector<double>>();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i < found.size() && found[i] == expected[i]) continue;
    return margins[i] < near_tie;
  }
  return found.size() == expected.size();
}

/// What a device may make of the goldens.
struct AnswerBounds {
  double near_tie;         ///< logits that lie closer together may change places
  int32_t most_near_ties;  ///< answers that may differ there
  double chain_error;      ///< of accepted tokens a step in a chain, in parts of PyTorch's
  double tree_gain;        ///< accepted tokens a step with branches, in those of a chain, at least
};

inline void expect_answers_of_pytorch(Ops& ops, const AnswerBounds& bounds) {
  constexpr int32_t kAnswerTokens = 160;
  const auto model = Model::load(ops, models_folder() / "pebble-11m", 320);
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  const auto drafter = models_folder() / "pebble-11m-dflash";
  for (const auto& [width, branches] : {std::pair{1, 0}, {16, 0}, {16, 3}}) {
    Configuration configuration;
    if (width > 1) configuration.decoder = {"dflash", drafter, {width, 0, 1, DenoiseSchedule::kCosine, branches}};
    const auto engine = open_engine(ops, *model, configuration, 320);
    int64_t steps = 0;
    int64_t accepted = 0;
    int64_t expected_steps = 0;
    int64_t expected_accepted = 0;
    int32_t near_ties = 0;
    for (const Json& golden : json["cases"]) {
      const auto expected = golden["greedy_ids"].get<std::vector<int32_t>>();
      Request request;
      request.prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
      request.max_tokens = kAnswerTokens;  // as the goldens were made: blocks are not cut short before the end
      request.stop_ids = model->config().stop_ids;
      const Answer answer = run_together(*engine, {request})[0];
      EXPECT_TRUE(agrees(answer.tokens, golden, bounds.near_tie))
          << golden["prompt_text"] << ::testing::PrintToString(answer.tokens);
      if (answer.tokens != expected) {  // another text, whose accept lengths say nothing about the golden's
        ++near_ties;
        continue;
      }
      steps += answer.end.stats.verify_steps;
      accepted += static_cast<int64_t>(answer.tokens.size()) - 1;
      const auto lengths = golden["accept_lengths"].get<std::vector<int64_t>>();
      expected_steps += static_cast<int64_t>(lengths.size());
      expected_accepted += static_cast<int64_t>(expected.size()) - 1;
    }
    EXPECT_LE(near_ties, bounds.most_near_ties);
    std::printf("width %d, branches %d: %d of %zu answers part at near ties\n", width, branches, near_ties,
                json["cases"].size());
    if (width == 1) continue;
    const double mean = static_cast<double>(accepted) / static_cast<double>(steps);
    const double expected_mean = static_cast<double>(expected_accepted) / static_cast<double>(expected_steps);
    std::printf("width %d, branches %d: %.3f times the tokens accepted a step by PyTorch in a chain\n", width, branches,
                mean / expected_mean);
    if (branches == 0) {
      EXPECT_NEAR(mean / expected_mean, 1.0, bounds.chain_error);
    } else {
      EXPECT_GT(mean / expected_mean, bounds.tree_gain);  // the goldens are chains; of a tree more is accepted
    }
  }
}

}  // namespace ashlar::testing
