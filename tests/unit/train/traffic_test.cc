// SPDX-License-Identifier: Apache-2.0
#include "train/data/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ashlar {
namespace {

TEST(Traffic, KnowsItsFiles) {
  EXPECT_EQ(traffic_file_name(12), "traffic-000012.jsonl");
  EXPECT_EQ(traffic_file_number("traffic-000012.jsonl"), 12);
  EXPECT_EQ(traffic_file_number(traffic_file_name(12345678)), 12345678);
  for (const char* other : {"traffic-12.jsonl", "traffic-000000.jsonl", "traffic-00001x.jsonl", "x", "answers.jsonl"}) {
    EXPECT_EQ(traffic_file_number(other), 0) << other;
  }
}

// Answers to a prompt are held out together, and those to others that come later change nothing of that.
TEST(Traffic, HoldsOutByPromptAlone) {
  DocumentSet documents(64);
  const auto add = [&](int32_t prompt, int32_t answer) {
    documents.add({{7, 100 + prompt, 9, answer, answer}, {0, 0, 0, 1, 1}, 0});
  };
  for (int32_t answer = 0; answer < 2; ++answer) {
    for (int32_t prompt = 0; prompt < 400; ++prompt) add(prompt, answer);
  }
  const std::vector<size_t> chosen = chosen_prompts(documents, 5, 8);
  EXPECT_NEAR(static_cast<double>(chosen.size()), 100, 30);
  for (const size_t document : chosen) {
    EXPECT_TRUE(std::ranges::binary_search(chosen, (document + 400) % 800)) << document;
  }
  EXPECT_NE(chosen, chosen_prompts(documents, 6, 8));
  const std::vector<size_t> three = newest_of_each_prompt(documents, chosen, 3);
  EXPECT_EQ(three, std::vector<size_t>(chosen.end() - 3, chosen.end()));
  const std::vector<size_t> all = newest_of_each_prompt(documents, chosen, 800);
  EXPECT_EQ(all, std::vector<size_t>(chosen.begin() + chosen.size() / 2, chosen.end()));
  documents.hold_out(chosen);
  EXPECT_EQ(documents.held_out(), chosen);
  EXPECT_EQ(documents.training().size(), 800 - chosen.size());
  add(1000, 1);
  std::vector<size_t> later = chosen_prompts(documents, 5, 8);
  std::erase(later, size_t{800});
  EXPECT_EQ(later, chosen);
}

}  // namespace
}  // namespace ashlar
