// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "text/grammar/grammar.h"

namespace ashlar::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(tokenizer.vocab_size());
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) pieces[id] = tokenizer.piece_bytes(id);
  }
  build(pieces);
}

TokenTrie::TokenTrie(std::span<const std::string> pieces) { build(pieces); }

void TokenTrie::build(std::span<const std::string> pieces) {
  constexpr char kNoText[] = {TagTokens::kBegins, TagTokens::kEnds};
  first_byte_.push_back(0);
  for (size_t id = 0; id < pieces.size(); ++id) {
    const bool text = pieces[id].find_first_of(std::string_view(kNoText, sizeof(kNoText))) == std::string::npos;
    if (text && pieces[id].size() <= kLongestToken) bytes_ += pieces[id];
    first_byte_.push_back(bytes_.size());
    if (first_byte_[id] < bytes_.size()) tokens_.push_back(static_cast<int32_t>(id));
  }
  std::sort(tokens_.begin(), tokens_.end(), [this](int32_t a, int32_t b) {
    const std::string_view left = bytes_of(a);
    const std::string_view right = bytes_of(b);
    return left != right ? left < right : a < b;
  });
  std::vector<uint32_t> path;  // node of each byte of the token before
  std::string_view before;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view bytes = bytes_of(tokens_[i]);
    size_t same = 0;
    while (same < before.size() && same < bytes.size() && before[same] == bytes[same]) ++same;
    for (size_t depth = same; depth < path.size(); ++depth)
      nodes_[path[depth]].end = static_cast<uint32_t>(nodes_.size());
    path.resize(same);
    for (size_t depth = same; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, 0, static_cast<uint16_t>(depth + 1), static_cast<uint8_t>(bytes[depth]), false});
    }
    Node& last = nodes_[path.back()];
    if (last.n_tokens++ == 0) last.first_token = i;
    max_depth_ = std::max(max_depth_, last.depth);
    before = bytes;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  find_plain();
}

void TokenTrie::find_plain() {
  for (size_t i = nodes_.size(); i-- > 0;) {  // children before their parents
    Node& node = nodes_[i];
    node.all_plain = is_plain(node.byte);
    for (uint32_t child = static_cast<uint32_t>(i) + 1; child < node.end && node.all_plain; child = nodes_[child].end)
      node.all_plain = nodes_[child].all_plain;
  }
  plain_tokens_.assign((static_cast<size_t>(vocab()) + 31) / 32, 0);
  for (const int32_t id : tokens_) {
    const std::string_view bytes = bytes_of(id);
    if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return is_plain(static_cast<uint8_t>(c)); }))
      plain_tokens_[id / 32] |= 1U << (id % 32);
  }
}

std::string_view TokenTrie::bytes_of(int32_t id) const {
  if (id < 0 || id >= vocab()) return {};
  return std::string_view(bytes_).substr(first_byte_[id], first_byte_[id + 1] - first_byte_[id]);
}

void TokenTrie::tokens_along(std::string_view text, bool beyond, std::vector<int32_t>& out) const {
  uint32_t at = 0;
  uint32_t end = static_cast<uint32_t>(nodes_.size());
  for (size_t i = 0; i < text.size(); ++i) {
    while (at < end && nodes_[at].byte != static_cast<uint8_t>(text[i])) at = nodes_[at].end;
    if (at >= end) return;
    const Node& node = nodes_[at];
    const bool whole = beyond && i + 1 == text.size();
    const size_t last = !whole                     ? node.first_token + node.n_tokens
                        : node.end < nodes_.size() ? nodes_[node.end].first_token
                                                   : tokens_.size();
    out.insert(out.end(), tokens_.begin() + node.first_token, tokens_.begin() + static_cast<int64_t>(last));
    end = node.end;
    ++at;
  }
}

int32_t TokenTrie::longest_prefix(std::string_view text) const {
  int32_t best = -1;
  uint32_t at = 0;
  uint32_t end = static_cast<uint32_t>(nodes_.size());
  for (const char c : text) {
    while (at < end && nodes_[at].byte != static_cast<uint8_t>(c)) at = nodes_[at].end;
    if (at >= end) break;
    if (nodes_[at].n_tokens > 0) best = tokens_[nodes_[at].first_token];
    end = nodes_[at].end;
    ++at;
  }
  return best;
}

}  // namespace ashlar::grammar
