// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vocabulary as a tree of bytes, so that a whole subtree of tokens falls when its first byte is not allowed.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace ashlar::grammar {

/// Built once per model; immutable.
class TokenTrie {
 public:
  /// In depth-first order: the children of node i start at i + 1, its subtree ends before `end`.
  struct Node {
    uint32_t end;
    uint32_t first_token, n_tokens;  ///< of tokens(): the first at or below this node; how many end here
    uint16_t depth;                  ///< bytes from the root to here
    uint8_t byte;                    ///< the last of them
    bool all_plain;                  ///< this byte and all below are plain
  };
  /// Bytes that mean nothing special within a string of JSON.
  static bool is_plain(uint8_t byte) { return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\'; }
  static constexpr size_t kLongestToken = 65535;

  /// Special tokens and those that add nothing to a text, or a byte of TagTokens, are left out: a grammar never allows
  /// them.
  explicit TokenTrie(const Tokenizer& tokenizer);
  /// pieces[id]: the bytes of a token, empty for one that stays out.
  explicit TokenTrie(std::span<const std::string> pieces);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  /// As a mask: the tokens of plain bytes alone.
  std::span<const uint32_t> plain_tokens() const { return plain_tokens_; }
  uint16_t max_depth() const { return max_depth_; }
  /// Highest id + 1.
  int32_t vocab() const { return static_cast<int32_t>(first_byte_.size()) - 1; }
  /// The token's bytes; empty if it is left out.
  std::string_view bytes_of(int32_t id) const;
  /// Tokens that `text` begins with, and if `beyond` those that begin with the whole of it. Appended to `out`.
  void tokens_along(std::string_view text, bool beyond, std::vector<int32_t>& out) const;
  /// The longest token that `text` begins with, or -1.
  int32_t longest_prefix(std::string_view text) const;

 private:
  void build(std::span<const std::string> pieces);
  void find_plain();

  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;  // in the order of their bytes
  std::vector<uint32_t> plain_tokens_;
  std::string bytes_;  // of all tokens, by id
  std::vector<size_t> first_byte_;
  uint16_t max_depth_ = 0;
};

}  // namespace ashlar::grammar
