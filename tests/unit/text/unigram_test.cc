// SPDX-License-Identifier: Apache-2.0
// Tokenizers of SentencePiece in tokenizer.json against the Python package `tokenizers`
// (tools/goldens/make_unigram_goldens.py), and files that are wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/utf8.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json& unigram_goldens() {
  static const json instance = read_json(data_path("unigram.json"));
  return instance;
}

/// The file of that name: sections of its own, the rest another's.
json unigram_file_of(const std::string& name) {
  const json& entry = unigram_goldens()["files"][name];
  json file = entry["base"].is_null() ? json::object() : unigram_file_of(entry["base"]);
  if (name == "bpe") file = read_json(tokenizer_path("byte_fallback"));
  file.update(entry["sections"]);
  if (name == "bpe words") file["model"].update({{"ignore_merges", true}, {"byte_fallback", false}});
  return file;
}

Tokenizer load_unigram(const json& file) { return Tokenizer::from_json(file.dump(), "unigram.json"); }

class Unigram : public ::testing::TestWithParam<const char*> {
 protected:
  const json& golden_ = unigram_goldens()["tokenizers"][GetParam()];
  const Tokenizer tokenizer_ = load_unigram(unigram_file_of(GetParam()));
};

TEST_P(Unigram, EncodesAsTheReferenceDoes) {
  const auto chosen = unigram_goldens()["strings"].get<std::vector<size_t>>();
  const GoldenSums sums(golden_["crc"]);
  ASSERT_GE(chosen.size(), 300U);
  ASSERT_EQ(sums.size(), chosen.size());
  size_t failures = 0;
  Crc all, framed;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string& text = golden_strings()[chosen[i]];
    const std::vector<int32_t> ids = tokenizer_.encode(text);
    if (i < golden_["ids"].size()) {
      EXPECT_EQ(ids, golden_["ids"][i].get<std::vector<int32_t>>()) << text;
    }
    all.add(ids);
    framed.add(tokenizer_.encode(text, {.add_special_tokens = true}));
    if (!sums.matches(i, ids) && ++failures <= 8) {
      ADD_FAILURE() << "string " << chosen[i] << " " << hex(text.substr(0, 60)) << " got " << shown(ids);
    }
    EXPECT_EQ(tokenizer_.encode(text), ids);  // words that were seen before
  }
  EXPECT_EQ(failures, 0U);
  EXPECT_EQ(all.value(), sums.of_all());
  EXPECT_EQ(framed.value(), GoldenSums(golden_["crc_framed"]).of_all());
}

TEST_P(Unigram, DecodesAsTheReferenceDoes) {
  ASSERT_GE(golden_["decode"].size(), 8U);
  for (const json& entry : golden_["decode"]) {
    const auto ids = entry[0].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_.decode(ids, false), entry[1].get<std::string>()) << shown(ids);
    EXPECT_EQ(tokenizer_.decode(ids, true), entry[2].get<std::string>()) << shown(ids);
    Detokenizer parts(tokenizer_, false);
    std::string text;
    for (const int32_t id : ids) text += parts.push(id);
    EXPECT_EQ(text + parts.flush(), entry[1].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Unigram,
                         ::testing::Values("mapped", "bytes", "words", "never", "first split", "old prefix", "bpe",
                                           "bpe words"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

json tiny() {
  return json::parse(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁", -2.0], ["a", -1.0],
    ["ab", -1.5], ["b", -1.0], ["▁ab", -1.25]]}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"},
    "decoder": {"type": "Metaspace", "replacement": "▁"}})");
}

TEST(UnigramModel, TakesTheBestSum) {
  const Tokenizer tokenizer = load_unigram(tiny());
  EXPECT_EQ(tokenizer.encode("ab ab"), (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(tokenizer.encode("aab"), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(tokenizer.encode("xyza"), (std::vector<int32_t>{1, 0, 2}));  // unknown neighbours are one
  EXPECT_EQ(tokenizer.encode("\xFF"
                             "a"),
            (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(tokenizer.piece_bytes(5), " ab");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{5, 5}, true), "ab ab");
  json equal = tiny();  // of equal sums that with the longer first token, which is found first at its end
  equal["model"]["vocab"] = json::parse(R"([["<unk>", 0.0], ["▁", 0.0], ["a", -1.0], ["b", -1.0], ["ab", -2.0]])");
  EXPECT_EQ(load_unigram(equal).encode("ab"), (std::vector<int32_t>{1, 4}));
}

TEST(UnigramModel, IsRefusedWhereItIsWrong) {
  const auto error_after = [](auto change) -> std::string {
    json file = tiny();
    change(file);
    try {
      load_unigram(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto with = [&](const json& entry) {
    return error_after([&](json& f) { f["model"]["vocab"].push_back(entry); });
  };
  EXPECT_THAT(with("x"), HasSubstr("unigram.json.model.vocab: entry 6 is not [spelling, score]"));
  EXPECT_THAT(with({"x"}), HasSubstr("entry 6 is not [spelling, score]"));
  EXPECT_THAT(with({"x", "y"}), HasSubstr("entry 6 is not [spelling, score]"));
  EXPECT_THAT(with({"", 1}), HasSubstr("entry 6 has 0 bytes; expected 1 to 256"));
  EXPECT_THAT(with({std::string(257, 'x'), 1}), HasSubstr("entry 6 has 257 bytes"));
  EXPECT_THAT(with({"ab", 1}), HasSubstr("entry 6 is 'ab', as entry 3 is"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["unk_id"] = 6; }), HasSubstr("unk_id"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["vocab"] = json::array(); }), HasSubstr("is empty"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["vocab"] = json::object(); }), HasSubstr("an array was expected"));
  const auto metaspace = [&](const char* part, const char* key, const json& value) {
    return error_after([&](json& f) { f[part][key] = value; });
  };
  for (const char* part : {"pre_tokenizer", "decoder"}) {
    EXPECT_THAT(metaspace(part, "prepend_scheme", "last"), HasSubstr("(known: always, first, never)"));
    EXPECT_THAT(metaspace(part, "replacement", "ab"), HasSubstr("one character"));
    EXPECT_THAT(metaspace(part, "replacement", ""), HasSubstr("one character"));
  }
  EXPECT_THAT(error_after([](json& f) {
                f["pre_tokenizer"].update({{"prepend_scheme", "always"}, {"add_prefix_space", false}});
              }),
              HasSubstr("add_prefix_space"));
  json bare = tiny();
  bare["model"].erase("unk_id");
  EXPECT_EQ(load_unigram(bare).encode("ab"), (std::vector<int32_t>{5}));
  EXPECT_THROW(load_unigram(bare).encode("xyz"), Error);
}

// Bytes of a map from outside: whatever they are, what comes out is an error or valid UTF-8.
TEST(CharacterMap, IsBounded) {
  const auto file = [](const std::string& base64) {
    json made = tiny();
    made["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base64}};
    return made;
  };
  for (const char* bad : {"", "AAA", "AAAAAA==", "!!!!", "BAAAAA==", "AwAAAAAA", "/////wAAAAA="}) {
    EXPECT_THROW(load_unigram(file(bad)), Error) << bad;
  }
  const std::string good =
      unigram_goldens()["files"]["mapped"]["sections"]["normalizer"]["normalizers"][0]["precompiled_charsmap"];
  const char* const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t random = 7;
  for (int round = 0; round < 400; ++round) {
    std::string base64 = good;
    for (int change = 0; change < 8; ++change) {
      random = random * 1664525 + 1013904223;
      base64[8 + (random >> 8) % (base64.size() - 10)] = alphabet[random >> 26];
    }
    try {
      const Tokenizer tokenizer = load_unigram(file(base64));
      const auto ids = tokenizer.encode("ｆｕｌｌ e\u0301\u200b a\u0308\u0301 가 ﷺ \U0001f600\t x");
      EXPECT_TRUE(text::is_valid_utf8(tokenizer.decode(ids, false)));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace ashlar::test
