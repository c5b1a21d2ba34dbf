// SPDX-License-Identifier: Apache-2.0
// Bytes as a JSON schema, a regular expression or a grammar. What must hold: Error or a grammar; and from every state
// that a text leads to, the end can be reached.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/grammar/compile.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer/utf8.h"

namespace {

using namespace ashlar::grammar;

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr size_t kLongest = 64 << 10;  // as the server reads them

CompileOptions small() {
  CompileOptions options;
  options.limits.nodes = 5000;
  options.limits.repeat = 200;
  options.limits.steps = 50000;
  return options;
}

// With limits that end soon, or with those of the server, which are what a stack and a second must suffice for.
Grammar compile(uint8_t kind, std::string_view text) {
  const CompileOptions options = kind < 128 ? small() : CompileOptions();
  switch (kind % 3) {
    case 0:
      return compile_json_schema(ashlar::parse_json(text, "fuzz"), options);
    case 1:
      return compile_regex(text, options);
    default:
      return compile_ebnf(text, options);
  }
}

std::shared_ptr<const TokenTrie> vocabulary() {
  std::vector<std::string> pieces;
  for (int32_t byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"{\"", "\":", "ab", "  ", "\n  ", "null", "\xC3\xA9", "12", "\"}"})
    pieces.emplace_back(more);
  return std::make_shared<const TokenTrie>(pieces);
}

void walk(const std::shared_ptr<TokenGrammar>& grammar, uint64_t seed) {
  std::mt19937_64 random(seed);
  GrammarMatcher matcher(grammar);
  std::vector<uint32_t> mask((grammar->trie().vocab() + 1 + 31) / 32);
  std::string text;
  for (int32_t step = 0; step < 40 && !matcher.finished(); ++step) {
    matcher.allowed(mask);
    if (!matcher.problem().empty()) return;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id <= grammar->trie().vocab(); ++id) {
      if ((mask[id / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
    }
    require(!ids.empty());
    const int32_t id = ids[random() % ids.size()];
    require(matcher.accept(id));
    text += grammar->trie().bytes_of(id);
  }
  if (matcher.finished()) require(ashlar::text::is_valid_utf8(text));
  matcher.forced(64);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const TokenTrie> trie = vocabulary();
  if (size == 0 || size > kLongest) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto grammar =
        std::make_shared<TokenGrammar>(compile(data[0], input), trie, std::vector<int32_t>{trie->vocab()});
    for (uint64_t seed = 0; seed < 3; ++seed) walk(grammar, seed);
  } catch (const ashlar::Error&) {
  }
  return 0;
}
