// SPDX-License-Identifier: Apache-2.0
// SentencePiece vocabularies as GGUF files have them, against the Python package `sentencepiece` on the same models.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "gguf_writer.h"
#include "temp_folder.h"
#include "text/tokenizer/detokenizer.h"
#include "tokenizer_goldens.h"
#include "unit/io/outside_files.h"

namespace ashlar::test {
namespace {

using testing::expect_error;
using testing::GgufWriter;

std::string raw_floats(const std::vector<float>& values) {
  std::string bytes = GgufWriter::raw(uint32_t{6}) + GgufWriter::raw(uint64_t{values.size()});
  for (const float value : values) bytes += GgufWriter::raw(value);
  return bytes;
}

struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

GgufWriter file_of(const Vocabulary& vocabulary, bool prefix) {
  GgufWriter file;
  file.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", vocabulary.pieces)
      .integers("tokenizer.ggml.token_type", vocabulary.types)
      .key("tokenizer.ggml.scores", 9, raw_floats(vocabulary.scores))
      .number("tokenizer.ggml.bos_token_id", 1U)
      .number("tokenizer.ggml.unknown_token_id", 0U)
      .boolean("tokenizer.ggml.add_space_prefix", prefix);
  return file;
}

class SentencePiece : public ::testing::TestWithParam<const char*> {
 protected:
  SentencePiece() : golden_(read_json(data_path("sentencepiece.json"))[GetParam()]) {
    const Vocabulary vocabulary = {golden_["pieces"], golden_["types"], golden_["scores"]};
    path_ = folder_.write("m.gguf", file_of(vocabulary, golden_["prefix"]).bytes());
  }
  nlohmann::json golden_;
  TempFolder folder_;
  std::filesystem::path path_;
};

TEST_P(SentencePiece, EveryString) {
  const Tokenizer made = Tokenizer::from_model(path_);
  const GoldenSums sums(golden_["crc"]);
  const auto left_out = golden_["left_out"].get<std::vector<size_t>>();
  ASSERT_EQ(sums.size() + left_out.size(), golden_strings().size());
  ASSERT_GE(sums.size(), 1500U);
  size_t place = 0, failures = 0;
  Crc all;
  for (size_t i = 0; i < golden_strings().size(); ++i) {
    if (std::binary_search(left_out.begin(), left_out.end(), i)) continue;
    const std::string& text = golden_strings()[i];
    const std::vector<int32_t> ids = made.encode(text, {.parse_special = false});
    all.add(ids);
    if (!sums.matches(place++, ids) && ++failures <= 8) {
      ADD_FAILURE() << "string " << i << ": " << hex(text.substr(0, 60)) << " got " << shown(ids);
    }
  }
  EXPECT_EQ(failures, 0U);
  EXPECT_EQ(all.value(), sums.of_all());
}

TEST_P(SentencePiece, DecodesTokenByToken) {
  const Tokenizer made = Tokenizer::from_model(path_);
  const auto decoded = golden_["decoded"].get<std::vector<std::string>>();
  for (size_t i = 0; i < decoded.size(); ++i) {
    Detokenizer detokenizer(made, false);
    std::string text;
    for (const auto& id : golden_["ids"][i]) text += detokenizer.push(id.get<int32_t>());
    EXPECT_EQ(text + detokenizer.flush(), decoded[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, SentencePiece, ::testing::Values("prefix", "no_prefix"),
                         [](const auto& info) { return std::string(info.param); });

class ScoredVocabulary : public ::testing::Test {
 protected:
  static constexpr const char* kSpace = "\xE2\x96\x81";
  // Two ways to cut "abc", of one score, and a token of a user's.
  Vocabulary small_ = {{"<unk>", "<s>", "</s>", "<0x41>", "a", "b", "c", "ab", "bc", kSpace, "  ", "<0xC3>"},
                       {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 4, 6},
                       {0, 0, 0, 0, -9, -9, -9, -1, -1, -9, -1000, 0}};
  Tokenizer load(const GgufWriter& file) { return Tokenizer::from_model(folder_.write("m.gguf", file.bytes())); }
  void refuse(const Vocabulary& vocabulary, std::vector<std::string> parts) {
    parts.emplace_back("m.gguf");
    expect_error([&] { load(file_of(vocabulary, false)); }, parts);
  }
  TempFolder folder_;
};

TEST_F(ScoredVocabulary, MergesTheLeftmostOfEqualScores) {
  const Tokenizer made = load(file_of(small_, false));
  EXPECT_EQ(made.encode("abc"), (std::vector<int32_t>{7, 6}));
  small_.scores[8] = -0.5F;
  EXPECT_EQ(load(file_of(small_, false)).encode("abc"), (std::vector<int32_t>{4, 8}));
}

TEST_F(ScoredVocabulary, BytesSpacesAndRoles) {
  const Tokenizer made = load(file_of(small_, true));
  // Byte tokens where they are there, else the unknown token; a space in front of every part; spaces of a user's token.
  EXPECT_EQ(made.encode("A"), (std::vector<int32_t>{9, 3}));
  EXPECT_EQ(made.encode("D"), (std::vector<int32_t>{9, 0}));
  EXPECT_EQ(made.encode("a  b"), (std::vector<int32_t>{9, 4, 10, 9, 5}));
  EXPECT_EQ(made.encode("a", {.add_special_tokens = true}), (std::vector<int32_t>{1, 9, 4}));
  EXPECT_EQ(made.decode(made.encode("a b"), false), "a b");
  EXPECT_EQ(load(file_of(small_, false)).encode("a"), (std::vector<int32_t>{4}));
}

TEST_F(ScoredVocabulary, IsRefusedInWords) {
  Vocabulary bad = small_;
  bad.scores.pop_back();
  refuse(bad, {"tokenizer.ggml.scores", "12 tokens", "found 11"});
  bad = small_;
  bad.scores[4] = std::numeric_limits<float>::quiet_NaN();
  refuse(bad, {"tokenizer.ggml.scores", "finite", "the token 4"});
  bad = small_;
  bad.pieces[4] = std::string(257, 'a');
  refuse(bad, {"model.scores", "257 bytes", "256"});
  GgufWriter none = file_of(small_, false);
  std::erase_if(none.keys, [](const std::string& part) { return part.find("tokenizer.ggml.scores") == 8; });
  expect_error([&] { load(none); }, {"tokenizer.ggml.scores", "an array of F32 numbers", "found nothing"});
}

// Merging is O(n log n): half a minute and more where it were quadratic.
TEST_F(ScoredVocabulary, LongTextsTakeNoLonger) {
  const Tokenizer made = load(file_of(small_, false));
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += "abcab bc";
  const std::vector<int32_t> ids = made.encode(text);
  EXPECT_EQ(made.decode(ids, false), text);
}

}  // namespace
}  // namespace ashlar::test
