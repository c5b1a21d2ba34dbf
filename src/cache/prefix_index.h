// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trie of published pages: which page holds the KV of a given prefix.

#include <cstdint>
#include <span>
#include <vector>

#include "cache/integrity.h"
#include "device/rows.h"

namespace ashlar {

/// The tokens that determine what a full page holds, given everything before it: the page's own, and where K and V
/// depend on tokens to the right (models that fill blocks) those up to the end of the block that the page ends in.
using PageTokens = std::span<const int32_t>;

/// How far the tokens of one sequence were found in the index. Holds until its node is erased, which
/// PrefixIndex::has() says: a node's ancestors outlive it, so that the node alone stands for all pages before it.
struct PrefixCursor {
  int32_t pages = 0;  ///< whole pages from the sequence's start
  int32_t node = -1;  ///< the page of the index that holds the last of them; -1 (PrefixIndex::kNone) if pages is 0
  uint64_t time = 0;  ///< PrefixIndex::time() when the node was there
};

/// A trie whose node is one full page and is named by the page's id. A node stands for the tokens from the sequence's
/// start to the end of its key, which is (parent, tokens), at the top level (salt, tokens). Bookkeeping only: who may
/// be erased is the caller's business, except that a node with children may not be. No allocation after construction.
class PrefixIndex {
 public:
  static constexpr int32_t kNone = -1;  ///< no page; as a parent: the top level

  /// Spreads keys over buckets. Keys are compared in full on a hit, so a weak hash costs time, never correctness.
  using Hash = uint64_t (*)(int32_t parent, uint64_t salt, PageTokens tokens);
  static uint64_t mix(int32_t parent, uint64_t salt, PageTokens tokens);

  /// `max_tokens`: the longest key.
  explicit PrefixIndex(int32_t pages, Hash hash = mix, int32_t max_tokens = kPageTokens);

  /// The page under `parent` that holds `tokens`, or kNone.
  int32_t find(int32_t parent, uint64_t salt, PageTokens tokens) const;
  /// `page` is no node yet, `parent` is one of the same salt (or kNone), and no node has that key.
  void insert(int32_t page, int32_t parent, uint64_t salt, PageTokens tokens);
  /// `page` is a node without children.
  void erase(int32_t page);

  bool contains(int32_t page) const { return nodes_[page].published; }
  int32_t parent(int32_t page) const { return nodes_[page].parent; }
  int32_t children(int32_t page) const { return nodes_[page].children; }
  PageTokens tokens(int32_t page) const {
    return PageTokens(keys_).subspan(static_cast<size_t>(page) * max_tokens_, nodes_[page].n_tokens);
  }
  uint64_t salt(int32_t page) const { return nodes_[page].salt; }
  int32_t size() const { return size_; }
  uint64_t time() const { return time_; }  ///< insertions so far
  /// Whether the cursor's node is still the one that it was.
  bool has(const PrefixCursor& cursor) const {
    if (cursor.pages == 0) return true;
    const Node& node = nodes_[cursor.node];
    return node.published && node.inserted <= cursor.time;
  }

  /// Aborts unless every node is found in its bucket exactly once and by its key, every parent is a node of the same
  /// salt, every path ends at the top level, and children are counted right. False if it was interrupted.
  bool check_integrity(Interruption& interruption) const;

 private:
  struct Node {
    int32_t n_tokens = 0;
    uint64_t salt = 0;
    int32_t parent = kNone;
    int32_t children = 0;
    int32_t bucket_next = kNone;
    uint64_t inserted = 0;  // time() with this insertion
    bool published = false;
  };
  size_t bucket_of(int32_t parent, uint64_t salt, PageTokens tokens) const;
  bool check_buckets(Interruption& interruption) const;

  Hash hash_;
  size_t max_tokens_;
  std::vector<int32_t> keys_;     // [pages, max_tokens]
  std::vector<Node> nodes_;       // by page id
  std::vector<int32_t> buckets_;  // first page of each chain; a power of two of them
  int32_t size_ = 0;
  uint64_t time_ = 0;
};

}  // namespace ashlar
