// SPDX-License-Identifier: Apache-2.0
// Broken files give a clear Error; hostile text is encoded in bounded time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json small() {
  return json::parse(R"({
    "version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}, "merges": [["a", "b"], "ab c"]}
  })");
}

std::string error_of(const std::string& text) {
  try {
    Tokenizer::from_json(text, "broken.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The error after one change to a good file.
template <class Change>
std::string error_after(Change change) {
  json file = small();
  change(file);
  return error_of(file.dump());
}

TEST(TokenizerFile, TheGoodOneLoads) {
  const Tokenizer made = Tokenizer::from_json(small().dump(), "small");
  EXPECT_EQ(made.encode("abcab<s>c"), (std::vector<int32_t>{4, 2, 5, 3}));
  EXPECT_EQ(made.vocab_size(), 6);
  EXPECT_EQ(made.token_id("<s>"), 5);
  EXPECT_EQ(made.token_id("ab"), 2);
  EXPECT_EQ(made.token_id("zz"), std::nullopt);
  EXPECT_TRUE(made.is_special(5));
  EXPECT_FALSE(made.is_special(2));
  EXPECT_FALSE(made.is_special(-1));
  EXPECT_FALSE(made.is_special(1000));
  EXPECT_EQ(made.piece_bytes(4), "abc");
  EXPECT_EQ(made.piece_bytes(6), "");
  EXPECT_EQ(made.piece_bytes(-5), "");
  EXPECT_EQ(made.token_content(5), "<s>");
}

TEST(TokenizerFile, PiecesOfByteLevelAreBytes) {
  const Tokenizer made = Tokenizer::from_file(tokenizer_path("qwen"));
  EXPECT_EQ(made.piece_bytes(*made.token_id("Ġ")), " ");
  EXPECT_EQ(made.piece_bytes(*made.token_id("Ċ")), "\n");
  EXPECT_EQ(made.piece_bytes(*made.token_id("é")), "\xE9");
  EXPECT_EQ(made.piece_bytes(*made.token_id("<|im_start|>")), "<|im_start|>");
  EXPECT_TRUE(made.is_special(*made.token_id("<|im_start|>")));
  EXPECT_FALSE(made.is_special(*made.token_id("<think>")));
}

TEST(TokenizerFile, MissingFileAndFolder) {
  try {
    Tokenizer::from_file("no/such/tokenizer.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("[tokenizer] no/such/tokenizer.json"));
  }
  EXPECT_THROW(Tokenizer::from_file(std::filesystem::temp_directory_path()), Error);
}

TEST(TokenizerFile, EveryTruncationIsAnError) {
  const std::string text = small().dump();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THAT(error_of(text.substr(0, length)), HasSubstr("[tokenizer] broken.json")) << length;
  }
}

TEST(TokenizerFile, NotJsonAndNotUtf8) {
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("an object was expected, found array"));
  EXPECT_THAT(error_of("{\"model\": \"\xFF\xFE\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string("\0\0\0", 3)), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested deeper than 64"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"a\":";
  EXPECT_THAT(error_of(nested), HasSubstr("nested deeper than 64"));
}

TEST(TokenizerFile, Model) {
  EXPECT_THAT(error_after([](json& f) { f.erase("model"); }), HasSubstr("'model' is missing"));
  EXPECT_THAT(error_after([](json& f) { f["model"].erase("vocab"); }),
              HasSubstr("model: the field 'vocab' is missing"));
  EXPECT_THAT(error_after([](json& f) { f["model"].erase("merges"); }), HasSubstr("'merges' is missing"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["type"] = "WordPiece"; }),
              HasSubstr("'WordPiece' is not supported"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["dropout"] = 0.1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["ignore_merges"] = 1; }), HasSubstr("true or false was expected"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["unk_token"] = 1; }), HasSubstr("a string was expected"));
  EXPECT_THAT(error_after([](json& f) { f["model"]["vocab"] = json::array({"a"}); }),
              HasSubstr("an object was expected"));
}

TEST(TokenizerFile, Vocabulary) {
  const auto with_id = [](const json& id) { return error_after([&](json& f) { f["model"]["vocab"]["c"] = id; }); };
  EXPECT_THAT(with_id(0), HasSubstr("the id 0 belongs to both 'a' and 'c'"));
  EXPECT_THAT(with_id(2147483648), HasSubstr("the id of 'c' must be a whole number below 1048576, found 2147483648"));
  EXPECT_THAT(with_id(18446744073709551615ULL), HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(with_id(-1), HasSubstr("found -1"));
  EXPECT_THAT(with_id(1.5), HasSubstr("found 1.5"));
  EXPECT_THAT(with_id("3"), HasSubstr("found \"3\""));
  EXPECT_EQ(with_id(9), "no error");
}

TEST(TokenizerFile, Merges) {
  const auto with = [](const json& merge) {
    return error_after([&](json& f) { f["model"]["merges"].push_back(merge); });
  };
  EXPECT_THAT(with({"a", "x"}), HasSubstr("model.merges: entry 2 needs the token 'x', which the vocabulary lacks"));
  EXPECT_THAT(with({"b", "a"}), HasSubstr("needs the token 'ba'"));
  EXPECT_THAT(with({"a", "b", "c"}), HasSubstr("entry 2 is neither"));
  EXPECT_THAT(with({"a"}), HasSubstr("entry 2 is neither"));
  EXPECT_THAT(with("ab"), HasSubstr("entry 2 is neither"));
  EXPECT_THAT(with("a b c"), HasSubstr("entry 2 is neither"));
  EXPECT_THAT(with(7), HasSubstr("entry 2 is neither"));
  EXPECT_EQ(with("#version: 0.2"), "no error");
  EXPECT_THAT(error_after([](json& f) { f["model"]["merges"] = "a b"; }), HasSubstr("an array was expected"));
}

TEST(TokenizerFile, AddedTokens) {
  const auto with = [](const json& token) { return error_after([&](json& f) { f["added_tokens"].push_back(token); }); };
  EXPECT_THAT(with({{"id", 0}, {"content", "x"}}), HasSubstr("the id 0 of 'x' belongs to 'a'"));
  EXPECT_THAT(with({{"id", 9}, {"content", "a"}}), HasSubstr("'a' has the id 9 here and 0 in model.vocab"));
  EXPECT_THAT(with({{"id", 5}, {"content", "x"}}), HasSubstr("listed twice"));
  EXPECT_THAT(with({{"id", 6}, {"content", "<s>"}}), HasSubstr("listed twice"));
  EXPECT_THAT(with({{"id", 2147483648}, {"content", "x"}}), HasSubstr("added_tokens[1].id: a whole number"));
  EXPECT_THAT(with({{"id", -1}, {"content", "x"}}), HasSubstr("added_tokens[1].id"));
  EXPECT_THAT(with({{"content", "x"}}), HasSubstr("'id' is missing"));
  EXPECT_THAT(with({{"id", 6}}), HasSubstr("'content' is missing"));
  EXPECT_THAT(with(6), HasSubstr("an object was expected"));
  EXPECT_EQ(with({{"id", 6}, {"content", ""}}), "no error");
}

TEST(TokenizerFile, UnknownTypesAreNamed) {
  for (const char* section : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const std::string error = error_after([&](json& f) { f[section] = {{"type", "Mystery"}}; });
    EXPECT_THAT(error, HasSubstr(std::string("[tokenizer] broken.json.") + section + ":"));
    EXPECT_THAT(error, HasSubstr("'Mystery' is not supported"));
    EXPECT_THAT(error_after([&](json& f) { f[section] = json::object(); }), HasSubstr("'type' is missing"));
    EXPECT_THAT(error_after([&](json& f) { f[section] = 5; }), HasSubstr("an object was expected"));
  }
}

TEST(TokenizerFile, PreTokenizersAndPatterns) {
  const auto with = [](const json& pattern, const std::string& behavior) {
    return error_after([&](json& f) {
      f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}};
    });
  };
  EXPECT_THAT(with({{"Regex", "("}}, "Isolated"), HasSubstr("pre_tokenizer.pattern.Regex"));
  EXPECT_THAT(with({{"Regex", "[a&&b]"}}, "Isolated"), HasSubstr("intersection"));
  EXPECT_THAT(with({{"Regex", ""}}, "Isolated"), HasSubstr("empty"));
  EXPECT_THAT(with({{"String", ""}}, "Isolated"), HasSubstr("empty"));
  EXPECT_THAT(with({{"Other", "a"}}, "Isolated"), HasSubstr("a pattern must be"));
  EXPECT_THAT(with({{"Regex", "a"}}, "Sideways"), HasSubstr("'Sideways' is not known"));
  EXPECT_THAT(with({{"Regex", std::string(70'000, 'a')}}, "Isolated"), HasSubstr("limit"));
  EXPECT_EQ(with({{"Regex", "a"}}, "Isolated"), "no error");
  EXPECT_THAT(
      error_after([](json& f) {
        f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
      }),
      HasSubstr("a step after ByteLevel"));
}

/// Text of the file in an error is for a terminal and a log: no controls, no more than is needed to find it.
TEST(TokenizerFile, QuotedTextIsShortAndPlain) {
  std::string wild;
  for (int i = 0; i < 30'000; ++i) wild += "\x1b[2J";
  const auto section = [&](const char* name) { return error_after([&](json& f) { f[name] = {{"type", wild}}; }); };
  const auto split = [&](const json& pattern, const std::string& behavior) {
    return error_after([&](json& f) {
      f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}};
    });
  };
  const auto added = [&](const json& token) {
    return error_after([&](json& f) { f["added_tokens"] = {token, token}; });
  };
  const std::string deep = std::string(1000, '(') + "\x1b[2J";
  const std::vector<std::string> errors = {
      section("normalizer"),
      section("pre_tokenizer"),
      section("post_processor"),
      section("decoder"),
      split({{"Regex", "a"}}, wild),
      split({{"Regex", deep}}, "Isolated"),
      split({{"Regex", deep + std::string(1000, ')')}}, "Isolated"),
      split({{"Regex", "\\\x1b"}}, "Isolated"),
      split({{"Regex", "\\p{\x1b}"}}, "Isolated"),
      added({{"id", 7}, {"content", wild}}),
      error_after([&](json& f) {
        f["added_tokens"] = {{{"id", 7}, {"content", wild}}, {{"id", 7}, {"content", wild + "x"}}};
      }),
      added({{"id", 0}, {"content", wild}}),
      error_after([&](json& f) {
        f["model"]["vocab"][wild] = 9;
        f["added_tokens"] = {{{"id", 10}, {"content", wild}}};
      }),
      error_after([&](json& f) { f["model"]["type"] = wild; }),
      error_after([&](json& f) { f["model"]["vocab"][wild] = -1; }),
      error_after([&](json& f) { f["model"]["vocab"]["d"] = json::array({wild}); }),
      error_after([&](json& f) { f["model"]["vocab"][wild] = 0; }),
      error_after([&](json& f) {
        f["model"]["merges"].push_back({"a", wild});
      }),
      error_after([&](json& f) { f["added_tokens"][0]["id"] = json::array({wild}); }),
      error_after([&](json& f) {
        f["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", {{{"SpecialToken", {{"id", wild}}}}}},
                               {"special_tokens", json::object()}};
      }),
      error_after([&](json& f) {
        f["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", {{{"SpecialToken", {{"id", wild}}}}}},
                               {"special_tokens", {{wild, {{"ids", {wild}}}}}}};
      }),
      error_of("{\"a\": 1e" + std::string(50'000, '9') + "}"),
  };
  for (size_t i = 0; i < errors.size(); ++i) {
    const std::string& error = errors[i];
    EXPECT_NE(error, "no error") << i;
    EXPECT_LT(error.size(), 600U) << i << ": " << error.substr(0, 200);
    EXPECT_TRUE(std::none_of(error.begin(), error.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
        << i << ": " << error.substr(0, 200);
  }
}

TEST(TokenizerFile, TemplatesAndDecoders) {
  const auto with = [](const std::string& section, const char* value) {
    return error_after([&](json& f) { f[section] = json::parse(value); });
  };
  EXPECT_THAT(with("post_processor", R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},
                {"Sequence":{"id":"A"}}],"special_tokens":{}})"),
              HasSubstr("special_tokens: the field 'x' is missing"));
  EXPECT_THAT(with("post_processor", R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},
                {"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[77]}}})"),
              HasSubstr("uses the id 77"));
  EXPECT_THAT(with("post_processor", R"({"type":"TemplateProcessing","single":[],"special_tokens":{}})"),
              HasSubstr("does not hold the sequence A"));
  EXPECT_THAT(with("decoder", R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})"),
              HasSubstr("decoder.decoders[1]"));
  EXPECT_THAT(with("decoder", R"({"type":"Sequence","decoders":[{"type":"Fuse"},
                {"type":"Strip","content":" ","start":0,"stop":1}]})"),
              HasSubstr("'stop' must be 0"));
}

TEST(TokenizerText, UnknownCharactersWithoutAnUnknownTokenVanish) {
  const Tokenizer made = Tokenizer::from_json(small().dump(), "small");
  EXPECT_EQ(made.encode("azbé"), (std::vector<int32_t>{2}));
  json file = small();
  file["model"]["unk_token"] = "<unk>";
  const Tokenizer without = Tokenizer::from_json(file.dump(), "small");
  EXPECT_EQ(without.encode("ab"), (std::vector<int32_t>{2}));
  EXPECT_THROW(without.encode("z"), Error);
}

TEST(TokenizerText, BrokenUtf8IsReplacedAsPythonDoes) {
  const Tokenizer made = Tokenizer::from_file(tokenizer_path("gpt2"));
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(made.encode("a\xFF"), made.encode("a" + replacement));
  EXPECT_EQ(made.encode("\xE4\xBD"), made.encode(replacement));
  EXPECT_EQ(made.encode("\xED\xA0\x80"), made.encode(replacement + replacement + replacement));
  EXPECT_EQ(made.decode(made.encode("x\xF0\x9F\x99y"), false), "x" + replacement + "y");
}

/// A hostile quarter of a megabyte each: bounded by n log n, not by n squared (which would take many minutes).
TEST(TokenizerText, LongRunsAreFast) {
  const std::vector<std::string> units = {"a",   " ", "\n", "ab",       "1",       "\xE4\xBD\xA0",
                                          " \n", "'", "<|", "\xCC\x81", "\xCC\xA3"};
  for (const char* name : {"gpt2", "qwen", "ling", "byte_fallback", "words"}) {
    const Tokenizer made = Tokenizer::from_file(tokenizer_path(name));
    for (const std::string& unit : units) {
      std::string text;
      while (text.size() < 250'000) text += unit;
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<int32_t> ids = made.encode(text + "x");
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      EXPECT_FALSE(ids.empty());
      EXPECT_LT(seconds.count(), 5) << name << " " << hex(unit);
    }
    // Descending combining classes: the worst case of canonical ordering.
    std::string marks = "a";
    for (int i = 0; i < 60'000; ++i) marks += "\xCC\x81";
    for (int i = 0; i < 60'000; ++i) marks += "\xCC\xA3";
    EXPECT_FALSE(made.encode(marks).empty());
  }
}

TEST(TokenizerText, ExponentialPatternIsAnErrorNotAHang) {
  json file = small();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(?:a+)+$"}}}, {"behavior", "Isolated"}};
  const Tokenizer made = Tokenizer::from_json(file.dump(), "small");
  EXPECT_EQ(made.encode("aab"), (std::vector<int32_t>{0, 2}));
  EXPECT_THROW(made.encode(std::string(64, 'a') + "b"), Error);
}

}  // namespace
}  // namespace ashlar::test
