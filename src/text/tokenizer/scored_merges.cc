// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/scored_merges.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "io/json.h"

namespace ashlar::text {
namespace {

// Every cut of a token is looked up, which costs its length squared. Tokens in use have 93 bytes (31 spaces of three
// bytes each) at most, and whole vocabularies 3 MB.
constexpr size_t kMaxScoredToken = 256;
constexpr size_t kMaxScoredBytes = 16U << 20;

struct Scored {
  std::string_view spelling;
  int32_t id;
  double score;
};

// Tokens that take part, of the highest score first.
std::vector<Scored> scored_tokens(const JsonNode& node, const TokenTable& vocabulary) {
  const Json& scores = node.raw();
  if (!scores.is_array()) node.fail(std::string("an array was expected, found ") + scores.type_name());
  std::vector<Scored> tokens;
  size_t bytes = 0;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto [spelling, id] = vocabulary[i];
    if (static_cast<size_t>(id) >= scores.size()) {
      node.fail("a score for the token " + std::to_string(id) + " was expected, found " +
                std::to_string(scores.size()) + " in all");
    }
    const Json& score = scores[static_cast<size_t>(id)];
    if (score.is_null()) continue;
    if (!score.is_number()) node.fail("entry " + std::to_string(id) + " is neither a number nor null");
    if (spelling.size() > kMaxScoredToken) {
      node.fail("the token " + std::to_string(id) + " has " + std::to_string(spelling.size()) +
                " bytes; a vocabulary with scores may have tokens of " + std::to_string(kMaxScoredToken));
    }
    bytes += spelling.size();
    if (bytes > kMaxScoredBytes) {
      node.fail("the tokens with scores have more than " + std::to_string(kMaxScoredBytes) +
                " bytes in all, which is the limit");
    }
    tokens.push_back({spelling, id, score.get<double>()});
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; });
  return tokens;
}

}  // namespace

MergeTable merges_of_scores(const JsonNode& scores, const TokenTable& vocabulary) {
  const std::vector<Scored> tokens = scored_tokens(scores, vocabulary);
  const auto find = [&](std::string_view spelling) {
    const auto found = vocabulary.find(spelling);
    const bool takes_part = found && !scores.raw()[static_cast<size_t>(*found)].is_null();
    return takes_part ? *found : -1;
  };
  struct Pair {
    int32_t left, right;
    MergeTable::Merge merge;
  };
  std::vector<Pair> pairs;
  uint32_t rank = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Scored& token = tokens[i];
    if (i > 0 && token.score != tokens[i - 1].score) ++rank;
    for (size_t cut = 1; cut < token.spelling.size(); ++cut) {
      const int32_t left = find(token.spelling.substr(0, cut));
      const int32_t right = left < 0 ? -1 : find(token.spelling.substr(cut));
      if (right >= 0) pairs.push_back({left, right, {rank, token.id}});
    }
  }
  MergeTable merges;
  merges.reserve(pairs.size());
  for (const Pair& pair : pairs) merges.add(pair.left, pair.right, pair.merge);
  return merges;
}

}  // namespace ashlar::text
