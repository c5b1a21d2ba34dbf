// SPDX-License-Identifier: Apache-2.0
// Tokenizers out of whole GGUF vocabularies against the ids that llama.cpp's own tests expect (tools/get-vocabularies).
// In long runs, where the files are there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/tokenizer/tokenizer.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

namespace fs = std::filesystem;

// A kind that no model here has: WordPiece.
constexpr const char* kUnsupported[] = {"bert-bge"};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Texts, each with a line of its own after it.
std::vector<std::string> texts_of(const fs::path& path) {
  constexpr std::string_view kAfter = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  const std::string all = read(path);
  size_t at = 0;
  for (size_t end = all.find(kAfter); end != std::string::npos; end = all.find(kAfter, at)) {
    texts.push_back(all.substr(at, end - at));
    at = end + kAfter.size();
  }
  return texts;
}

TEST(GgufVocabularies, GiveTheIdsOfLlamaCpp) {
  const fs::path folder = fs::path(ASHLAR_SOURCE_DIR) / "build/models/vocabularies";
  if (std::getenv("ASHLAR_LONG_TESTS") == nullptr) GTEST_SKIP() << "only in long runs";
  if (!fs::exists(folder)) GTEST_SKIP() << "tools/get-vocabularies fetches the files";
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".inp") continue;
    const fs::path model = fs::path(entry.path()).replace_extension();  // NAME.gguf
    const std::string name = model.stem().string();
    const auto is_unsupported = [&name](const char* other) { return name.ends_with(other); };
    if (std::any_of(std::begin(kUnsupported), std::end(kUnsupported), is_unsupported)) continue;
    const Tokenizer tokenizer = Tokenizer::from_model(model);
    std::istringstream lines(read(model.string() + ".out"));
    for (const std::string& text : texts_of(entry.path())) {
      std::string line;
      ASSERT_TRUE(std::getline(lines, line)) << name;
      // Qwen's own tokenizer composes characters first, llama.cpp does not.
      const bool is_decomposed =
          text.find("\xCC\x80") != std::string::npos || text.find("\xCC\x81") != std::string::npos;
      if (name.ends_with("qwen35") && is_decomposed) continue;
      std::istringstream numbers(line);
      const std::vector<int32_t> want(std::istream_iterator<int32_t>(numbers), {});
      EXPECT_EQ(tokenizer.encode(text, {.parse_special = false}), want) << name << ": " << text;
    }
    ++compared;
  }
  EXPECT_GE(compared, 14);
}

}  // namespace
}  // namespace ashlar::test
