// SPDX-License-Identifier: Apache-2.0
// Ids against the Python package `tokenizers`: every string, style and variant, and a sweep over all code points.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "text/tokenizer/utf8.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

constexpr size_t kShownFailures = 8;

const Tokenizer& tokenizer(const std::string& name) {
  static std::map<std::string, Tokenizer> loaded;
  const auto found = loaded.find(name);
  if (found != loaded.end()) return found->second;
  return loaded.emplace(name, Tokenizer::from_file(tokenizer_path(name))).first->second;
}

/// A base file with other sections.
Tokenizer variant(const std::string& name) {
  for (const auto& entry : goldens()["variants"]) {
    if (entry["name"] != name) continue;
    nlohmann::json file = read_json(tokenizer_path(entry["base"]));
    file.update(entry["sections"]);
    return Tokenizer::from_json(file.dump(), name);
  }
  throw std::runtime_error("no variant " + name);
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, FirstStringsInFull) {
  const auto& golden = goldens()["tokenizers"][GetParam()];
  const size_t count = goldens()["full"];
  ASSERT_GE(count, 50U);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(tokenizer(GetParam()).encode(golden_strings()[i]), golden["ids"][i].get<std::vector<int32_t>>())
        << "string " << i << ": " << golden_strings()[i];
  }
}

TEST_P(TokenizerGolden, EveryString) {
  const GoldenSums sums(goldens()["tokenizers"][GetParam()]["crc"]);
  ASSERT_GE(golden_strings().size(), 2000U);
  ASSERT_EQ(sums.size(), golden_strings().size());
  size_t failures = 0;
  Crc all, all_framed;
  for (size_t i = 0; i < golden_strings().size(); ++i) {
    const std::string& text = golden_strings()[i];
    const std::vector<int32_t> ids = tokenizer(GetParam()).encode(text);
    all.add(ids);
    if (!sums.matches(i, ids) && ++failures <= kShownFailures) {
      ADD_FAILURE() << "string " << i << " " << hex(text.substr(0, 60)) << " got " << shown(ids);
    }
    all_framed.add(tokenizer(GetParam()).encode(text, {.add_special_tokens = true}));
  }
  EXPECT_EQ(failures, 0U);
  EXPECT_EQ(all.value(), sums.of_all());
  EXPECT_EQ(all_framed.value(), GoldenSums(goldens()["tokenizers"][GetParam()]["crc_framed"]).of_all());
}

TEST_P(TokenizerGolden, SpecialTokensAsText) {
  const GoldenSums sums(goldens()["tokenizers"][GetParam()]["crc_special_as_text"]);
  const auto chosen = goldens()["strings_with_special"].get<std::vector<size_t>>();
  ASSERT_GE(chosen.size(), 500U);
  ASSERT_EQ(sums.size(), chosen.size());
  size_t failures = 0;
  Crc all;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string& text = golden_strings()[chosen[i]];
    const std::vector<int32_t> ids = tokenizer(GetParam()).encode(text, {.parse_special = false});
    all.add(ids);
    if (!sums.matches(i, ids) && ++failures <= kShownFailures) {
      ADD_FAILURE() << "string " << chosen[i] << " " << text << " got " << shown(ids);
    }
  }
  EXPECT_EQ(failures, 0U);
  EXPECT_EQ(all.value(), sums.of_all());
}

TEST_P(TokenizerGolden, Decode) {
  const auto& cases = goldens()["tokenizers"][GetParam()]["decode"];
  ASSERT_EQ(cases.size(), 45U);
  for (const auto& entry : cases) {
    const auto ids = entry[0].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer(GetParam()).decode(ids, false), entry[1].get<std::string>()) << shown(ids);
    // The text without special tokens is left out where it is the same.
    EXPECT_EQ(tokenizer(GetParam()).decode(ids, true), entry.back().get<std::string>()) << shown(ids);
  }
}

TEST_P(TokenizerGolden, SeveralThreads) {
  const GoldenSums sums(goldens()["tokenizers"][GetParam()]["crc"]);
  std::vector<size_t> failures(4);
  std::vector<std::thread> threads;
  const Tokenizer& shared = tokenizer(GetParam());
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < golden_strings().size(); i += 3) {
        failures[t] += sums.matches(i, shared.encode(golden_strings()[i])) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<size_t>(4));
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerGolden,
                         testing::Values("gpt2", "gpt2_prefix", "llama3", "qwen", "ling", "byte_fallback", "words",
                                         "plain", "bounds", "pebble"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TokenizerVariants, EverySection) {
  const auto chosen = goldens()["variant_strings"].get<std::vector<size_t>>();
  ASSERT_GE(goldens()["variants"].size(), 60U);
  for (const auto& entry : goldens()["variants"]) {
    const std::string name = entry["name"];
    const Tokenizer made = variant(name);
    Crc all;
    for (const size_t i : chosen) all.add(made.encode(golden_strings()[i]));
    EXPECT_EQ(all.value(), GoldenSums(entry["crc"]).of_all()) << name;
  }
}

/// The text of make_tokenizer_goldens.py: each code point of a block in a frame, '%' standing for it.
std::string sweep_text(char32_t block, const std::string& frame) {
  std::string text;
  for (char32_t c = block * 4096; c < block * 4096 + 4096; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    for (const char f : c == '%' ? std::string("%") : frame) f == '%' ? text::append_utf8(c, text) : text.push_back(f);
  }
  return text;
}

TEST(TokenizerSweep, EveryCodePoint) {
  const auto blocks = goldens()["sweep_blocks"].get<std::vector<uint32_t>>();
  ASSERT_GE(blocks.size(), 50U);
  ASSERT_GE(goldens()["sweeps"].size(), 25U);
  for (const auto& sweep : goldens()["sweeps"]) {
    const std::string name = sweep["tokenizer"];
    const GoldenSums sums(sweep["crc"]);
    const bool whole = goldens()["tokenizers"].contains(name);
    const Tokenizer made = whole ? Tokenizer::from_file(tokenizer_path(name)) : variant(name);
    ASSERT_EQ(sums.size(), blocks.size());
    Crc all;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto ids = made.encode(sweep_text(blocks[i], sweep["frame"]));
      all.add(ids);
      EXPECT_TRUE(sums.matches(i, ids)) << name << " " << sweep["frame"] << " block " << blocks[i];
    }
    EXPECT_EQ(all.value(), sums.of_all()) << name << " " << sweep["frame"];
  }
}

}  // namespace
}  // namespace ashlar::test
