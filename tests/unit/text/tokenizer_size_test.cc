// SPDX-License-Identifier: Apache-2.0
// Model folders that say much: each is read and used in time near-linear in its size (a square of these sizes would
// take from minutes to days), or refused with what was found and what may be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "temp_folder.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_config.h"
#include "unit/text/colliding_texts.h"
#include "unit/text/text_comparisons.h"

namespace ashlar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Json small_file() {
  return parse_json(R"({"normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})",
                    "small");
}

Tokenizer load(const Json& file) { return Tokenizer::from_json(file.dump(), "/secret/t.json"); }

Json added(int32_t id, const std::string& content, bool special = true) {
  return {{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
}

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string load_error(const Json& file) {
  return error_of([&file] { load(file); });
}

constexpr int32_t kMany = 150'000;

TEST(TokenizerSize, ManyAddedTokensWithOneFirstByte) {
  Json file = small_file();
  for (int32_t i = 0; i < kMany; ++i) file["added_tokens"].push_back(added(10 + i, "<" + std::to_string(i) + ">"));
  file["added_tokens"].push_back(added(9, "<"));
  const Tokenizer made = load(file);
  EXPECT_EQ(made.encode("a<77>b<149999><150000>"),
            (std::vector<int32_t>{0, 10 + 77, 1, 10 + 149'999, 9}));  // what no token spells is no text of this model
  EXPECT_EQ(made.encode(std::string(1'000'000, '<')), std::vector<int32_t>(1'000'000, 9));
  EXPECT_EQ(made.encode(std::string(1'000'000, '<'), {.parse_special = false}), std::vector<int32_t>{});
}

TEST(TokenizerSize, AddedTokensHaveALimitOfBytes) {
  Json file = small_file();
  for (int32_t i = 0; i < 9; ++i)
    file["added_tokens"].push_back(added(10 + i, std::string(1'000'000, 'x' + i % 2) + std::to_string(i)));
  EXPECT_THAT(load_error(file), HasSubstr("t.json.added_tokens: the tokens take more than 8388608 bytes in all"));
}

TEST(TokenizerSize, ManyVocabularyEntriesAndMerges) {
  Json file = small_file();
  // "a", "aa", ...: no longer than 700, so that the file stays small; and numbers.
  Json& vocabulary = file["model"]["vocab"] = Json::object();
  Json::object_t& members = vocabulary.get_ref<Json::object_t&>();
  for (int32_t i = 0; i < kMany; ++i) members.emplace_back("t" + std::to_string(i), i);
  for (char c : std::string("t0123456789")) members.emplace_back(std::string(1, c), kMany + c);
  for (int32_t i = 0; i < 10; ++i) {
    file["model"]["merges"].push_back({"t", std::to_string(i)});
    for (int32_t j = 0; i > 0 && j < 10; ++j) {
      file["model"]["merges"].push_back({"t" + std::to_string(i), std::to_string(j)});
    }
  }
  file["model"]["merges"].erase(0);
  for (int32_t i = 100; i < kMany; ++i) {
    file["model"]["merges"].push_back({"t" + std::to_string(i / 10), std::to_string(i % 10)});
  }
  const Tokenizer made = load(file);
  EXPECT_EQ(made.encode("t149999t42t7"), (std::vector<int32_t>{149'999, 42, 7}));
}

// A square of the words would be eight million comparisons. What is made of each is counted: reading the file sorts its
// members, and words are looked for in sets of what there was before.
TEST(TokenizerSize, WordsThatOneHashTakesForOneAreReadInNearlyLinearTime) {
  const std::vector<std::string> words = test::colliding_texts(13);
#if defined(__GLIBCXX__) && defined(__x86_64__)
  ASSERT_EQ(std::hash<std::string>()(words.front()), std::hash<std::string>()(words.back()));
#endif
  Json file = small_file();
  Json::object_t& members = file["model"]["vocab"].get_ref<Json::object_t&>();
  for (size_t i = 0; i < words.size() / 2; ++i) {
    static_cast<Json::object_t::Container&>(members).emplace_back(words[i], 10 + i);
    file["added_tokens"].push_back(added(static_cast<int32_t>(10'000 + i), words[words.size() / 2 + i]));
  }
  const std::string text = file.dump();
  const uint64_t before = test::text_comparisons();
  const Tokenizer made = Tokenizer::from_json(text, "words");
  EXPECT_EQ(made.token_id(words[1]), 11);
  EXPECT_EQ(made.token_id(words.back()), 10'000 + 4095);
  const uint64_t comparisons = test::text_comparisons() - before;
  EXPECT_GT(comparisons, words.size());  // or nothing was counted
  EXPECT_LT(comparisons, 200 * words.size());
}

// Of ids that a known factor brings to one place.
TEST(TokenizerSize, MergesLieApartWhateverTheirIdsAre) {
  constexpr uint64_t kKnown = 0x9E3779B97F4A7C15;
  constexpr int32_t kMerges = 4096, kPlaces = 2 * kMerges;
  text::MergeTable table;
  table.reserve(kMerges);
  for (int32_t left = 0; left < kMerges; ++left) {
    int32_t right = 0;
    while (((uint64_t{static_cast<uint32_t>(left)} << 32 | right) * kKnown) >= ~uint64_t{0} / kPlaces) ++right;
    table.add(left, right, {static_cast<uint32_t>(left), right});
    ASSERT_EQ(table.find(left, right)->merged, right);
  }
  EXPECT_LT(table.longest_search(), 512U);
}

TEST(TokenizerSize, StepsAreCounted) {
  const Json step = {{"type", "Digits"}};
  const auto of = [](const char* section, const char* list, const Json& one, int count) {
    Json file = small_file();
    file[section] = {{"type", "Sequence"}, {list, Json(Json::array_t(count, one))}};
    return file;
  };
  const auto refusal = [](const std::string& place, int found) {
    return HasSubstr("t.json." + place + ": found " + std::to_string(found) + " entries, expected at most 256");
  };
  EXPECT_THAT(load_error(of("pre_tokenizer", "pretokenizers", step, 100'000)),
              refusal("pre_tokenizer.pretokenizers", 100'000));
  EXPECT_THAT(load_error(of("normalizer", "normalizers", {{"type", "NFC"}}, 257)),
              refusal("normalizer.normalizers", 257));
  EXPECT_THAT(load_error(of("decoder", "decoders", replace("x", "y"), 257)), refusal("decoder.decoders", 257));
  EXPECT_THAT(load_error(of("post_processor", "processors", {{"type", "ByteLevel"}}, 257)),
              refusal("post_processor.processors", 257));
  EXPECT_EQ(load_error(of("normalizer", "normalizers", {{"type", "NFC"}}, 256)), "no error");
  EXPECT_EQ(load_error(of("pre_tokenizer", "pretokenizers", step, 256)), "no error");
  // Sequences within sequences are counted as a whole.
  const Json inner = {{"type", "Sequence"}, {"pretokenizers", Json(Json::array_t(200, step))}};
  EXPECT_THAT(load_error(of("pre_tokenizer", "pretokenizers", inner, 2)),
              HasSubstr("pretokenizers[1].pretokenizers[56]: expected at most 256 steps in all"));
  const Json forms = {{"type", "Sequence"}, {"normalizers", Json(Json::array_t(200, Json{{"type", "NFC"}}))}};
  EXPECT_THAT(load_error(of("normalizer", "normalizers", forms, 2)),
              HasSubstr("normalizers[1].normalizers[56]: expected at most 256 steps in all"));
  const Json around = {{"type", "BertProcessing"}, {"cls", {"a", 0}}, {"sep", {"b", 1}}};
  EXPECT_THAT(load_error(of("post_processor", "processors", around, 129)),
              HasSubstr("found 258 tokens around a text, expected at most 256"));
}

/// Each step of such a chain makes a thousand bytes of one; five of them would fill any memory.
TEST(TokenizerSize, ChainsOfReplaceDoNotGrowWithoutEnd) {
  Json steps = Json::array();
  for (int i = 0; i < 5; ++i) steps.push_back(replace("a", std::string(1000, 'a')));
  Json file = small_file();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const Tokenizer made = load(file);
  EXPECT_EQ(made.encode("b"), std::vector<int32_t>{1});
  const std::string error = error_of([&made] { made.encode("xxaxx"); });
  EXPECT_THAT(error, HasSubstr("the tokenizer's normalizer.normalizers[1] lets a text of 5 bytes grow beyond 65616"));
  EXPECT_THAT(error, testing::Not(HasSubstr("/secret"))) << "a client that sends text does not get the server's paths";
  file["added_tokens"] = {{{"id", 5}, {"content", "<a>"}, {"normalized", true}}};
  EXPECT_THAT(load_error(file),
              HasSubstr("t.json: the tokenizer's normalizer.normalizers[1] lets a text of 3 bytes grow"));

  file = small_file();
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(70'000, 'b')}};
  EXPECT_THAT(error_of([&file] { load(file).encode("a"); }), HasSubstr("normalizer lets a text of 1 bytes grow"));

  file = small_file();
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  EXPECT_THAT(load_error(file),
              HasSubstr("t.json: the tokenizer's decoder.decoders[1] lets the token 'a' grow beyond 65552 bytes"));

  // Little for each token, much in all.
  file = small_file();
  file["decoder"] = replace("t", std::string(60'000, 't'));
  for (int32_t i = 0; i < 5000; ++i) file["model"]["vocab"]["t" + std::to_string(i)] = 10 + i;
  EXPECT_THAT(load_error(file), HasSubstr("the decoder makes more than 268435456 bytes of the vocabulary"));
}

TEST(TokenizerSize, RefusalsOfPatternsNameNoPath) {
  Json file = small_file();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(?:a+)+$"}}}, {"behavior", "Isolated"}};
  const std::string error = error_of([&file] { load(file).encode(std::string(64, 'a') + "b"); });
  EXPECT_THAT(error, AllOf(HasSubstr("'(?:a+)+$' failed on a text of 65 bytes"), testing::Not(HasSubstr("/secret"))));
}

TEST(TokenizerConfigSize, ManyMembersTokensAndTemplates) {
  const TempFolder folder;
  std::string text = R"({"bos_token": "<s>", "eos_token": "no", "added_tokens_decoder": {)";
  for (int i = 0; i < kMany; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(": {"content": "t", "special": true})";
  }
  text += "}, \"additional_special_tokens\": [\"x\"";
  for (int i = 0; i < kMany; ++i) text += ",\"<" + std::to_string(i) + ">\"";
  text += "], \"chat_template\": [{\"name\": \"default\", \"template\": \"{{ bos_token }}{{ eos_token }}\"}";
  for (int i = 0; i < 10'000; ++i) text += R"(,{"name": "n)" + std::to_string(i) + R"(", "template": "x"})";
  text += "]";
  for (int i = 0; i < kMany; ++i) text += ",\"k" + std::to_string(i) + "\": {}";
  folder.write("tokenizer_config.json", text + R"(, "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(read_tokenizer_config(folder.path()).special_tokens["additional_special_tokens"].size(), kMany + 1U);
  const auto made = ChatTemplate::from_model(folder.path());
  EXPECT_EQ(made.value().render(Json::array(), nullptr, false).bytes,
            "<s></s>");  // of keys that come twice the last holds
}

}  // namespace
}  // namespace ashlar
