// SPDX-License-Identifier: Apache-2.0
// Answers of the target in a file that survives a kill at any byte: what comes out is what an unbroken run writes.

#include "train/data/answer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "temp_folder.h"
#include "train/data/example.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

class Answering : public ::testing::Test {
 protected:
  Answering() {
    for (int32_t i = 0; i < 5; ++i) wishes_.push_back({"m", {100 + i, 7}, 0.1 * i, static_cast<uint64_t>(i) << 60, 9});
  }
  /// The answer to wish i: i + 1 tokens, the text with a character that was cut.
  void add(AnswerFile& file, size_t i) const {
    file.add(i, std::vector<int32_t>(i + 1, static_cast<int32_t>(i)), i == 3 ? "length" : "stop", "a\xC3");
  }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string refusal() const {
    try {
      AnswerFile(path_, wishes_);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "answers.jsonl";
  std::vector<AnswerWish> wishes_;
};

TEST_F(Answering, LinesAreTrainingDataInTheOrderOfPrompts) {
  {
    AnswerFile file(path_, wishes_);
    for (const size_t i : {2, 1}) add(file, i);
    EXPECT_EQ(file.done(), 0U);
    EXPECT_EQ(content(), "");
    for (const size_t i : {0, 4, 3}) add(file, i);
    EXPECT_EQ(file.done(), 5U);
  }
  size_t i = 0;
  read_examples(path_, [&](const TrainingExample& example) {
    std::vector<int32_t> ids = wishes_[i].prompt;
    ids.resize(3 + i, static_cast<int32_t>(i));
    std::vector<uint8_t> supervised(ids.size(), 1);
    supervised[0] = supervised[1] = 0;
    EXPECT_EQ(example.ids, ids);
    EXPECT_EQ(example.supervised, supervised);
    ++i;
  });
  EXPECT_EQ(i, 5U);
}

TEST_F(Answering, GoesOnWhereverItWasCut) {
  {
    AnswerFile file(path_, wishes_);
    for (size_t i = 0; i < 5; ++i) add(file, i);
  }
  const std::string whole = content();
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    std::ofstream(path_, std::ios::binary) << whole.substr(0, bytes);
    AnswerFile file(path_, wishes_);
    EXPECT_EQ(file.done(),
              static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes), '\n')));
    for (size_t i = file.done(); i < 5; ++i) add(file, i);
    ASSERT_EQ(content(), whole) << "cut at " << bytes;
  }
}

TEST_F(Answering, RefusesAnswersToOtherWishes) {
  {
    AnswerFile file(path_, wishes_);
    for (size_t i = 0; i < 3; ++i) add(file, i);
  }
  EXPECT_EQ(refusal(), "taken");
  const std::vector<AnswerWish> asked = wishes_;
  wishes_[1].prompt[1] = 8;
  EXPECT_THAT(refusal(),
              HasSubstr("answers.jsonl:2: answers another prompt than the data have there; remove the file"));
  wishes_ = asked;
  wishes_[2].temperature = 0.3;
  EXPECT_THAT(refusal(), HasSubstr("answers.jsonl:3: was made with another temperature, seed or limit"));
  wishes_ = asked;
  wishes_[1].prompt.pop_back();  // what is left of it begins the old one
  EXPECT_THAT(refusal(), HasSubstr("answers.jsonl:2: answers another prompt"));
  wishes_ = asked;
  wishes_[0].model = "n";
  EXPECT_THAT(refusal(), HasSubstr("answers.jsonl:1: was written by another model"));
  wishes_ = asked;
  wishes_[4].seed = 1;  // has no answer yet
  EXPECT_EQ(refusal(), "taken");
  wishes_.resize(2);
  EXPECT_THAT(refusal(), HasSubstr("answers.jsonl:3: is an answer too many: there are 2 prompts"));
  wishes_ = asked;
  std::ofstream(path_, std::ios::binary) << "{\"ids\": [1\n";
  EXPECT_THAT(refusal(), HasSubstr("answers.jsonl:1: "));
}

}  // namespace
}  // namespace ashlar
