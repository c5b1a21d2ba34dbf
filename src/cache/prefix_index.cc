// SPDX-License-Identifier: Apache-2.0
#include "cache/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ashlar {

uint64_t PrefixIndex::mix(int32_t parent, uint64_t salt, PageTokens tokens) {
  // Multiply and fold each word (the finaliser of splitmix64); the parent stands for everything before the page.
  uint64_t state = salt ^ (static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32);
  for (size_t i = 0; i < tokens.size(); i += 2) {
    const uint32_t second = i + 1 < tokens.size() ? static_cast<uint32_t>(tokens[i + 1]) : 0;
    const uint64_t word = static_cast<uint32_t>(tokens[i]) | static_cast<uint64_t>(second) << 32;
    state = (state ^ word) + 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    state ^= state >> 31;
  }
  return state;
}

PrefixIndex::PrefixIndex(int32_t pages, Hash hash, int32_t max_tokens)
    : hash_(hash),
      max_tokens_(static_cast<size_t>(max_tokens)),
      keys_(static_cast<size_t>(pages) * max_tokens_),
      nodes_(static_cast<size_t>(pages)),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(pages, 1))), kNone) {}

size_t PrefixIndex::bucket_of(int32_t parent, uint64_t salt, PageTokens tokens) const {
  return hash_(parent, salt, tokens) & (buckets_.size() - 1);
}

int32_t PrefixIndex::find(int32_t parent, uint64_t salt, PageTokens tokens) const {
  int32_t page = buckets_[bucket_of(parent, salt, tokens)];
  for (; page != kNone; page = nodes_[page].bucket_next) {
    const Node& node = nodes_[page];
    if (node.parent == parent && node.salt == salt && std::ranges::equal(this->tokens(page), tokens)) return page;
  }
  return kNone;
}

void PrefixIndex::insert(int32_t page, int32_t parent, uint64_t salt, PageTokens tokens) {
  Node& node = nodes_[page];
  ASHLAR_CHECK(!node.published);
  if (parent != kNone) {
    ASHLAR_CHECK(nodes_[parent].published);
    ASHLAR_CHECK_EQ(nodes_[parent].salt, salt);
    ++nodes_[parent].children;
  }
  ASHLAR_CHECK_LE(tokens.size(), max_tokens_);
  node.n_tokens = static_cast<int32_t>(tokens.size());
  std::ranges::copy(tokens, keys_.begin() + static_cast<int64_t>(page * max_tokens_));
  node.salt = salt;
  node.parent = parent;
  node.published = true;
  node.inserted = ++time_;
  int32_t& head = buckets_[bucket_of(parent, salt, tokens)];
  node.bucket_next = head;
  head = page;
  ++size_;
}

void PrefixIndex::erase(int32_t page) {
  Node& node = nodes_[page];
  ASHLAR_CHECK(node.published);
  ASHLAR_CHECK_EQ(node.children, 0);
  int32_t* link = &buckets_[bucket_of(node.parent, node.salt, tokens(page))];
  while (*link != page) link = &nodes_[*link].bucket_next;
  *link = node.bucket_next;
  if (node.parent != kNone) --nodes_[node.parent].children;
  node.parent = node.bucket_next = kNone;
  node.published = false;
  --size_;
}

bool PrefixIndex::check_buckets(Interruption& interruption) const {
  std::vector<int32_t> seen(nodes_.size(), 0);
  int32_t listed = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (interruption.requested()) return false;
    for (int32_t page = buckets_[bucket]; page != kNone; page = nodes_[page].bucket_next) {
      ASHLAR_CHECK_EQ(++seen[page], 1);
      ASHLAR_CHECK(nodes_[page].published);
      ASHLAR_CHECK_EQ(bucket_of(nodes_[page].parent, nodes_[page].salt, tokens(page)), bucket);
      ASHLAR_CHECK_EQ(find(nodes_[page].parent, nodes_[page].salt, tokens(page)), page);
      ++listed;
    }
  }
  ASHLAR_CHECK_EQ(listed, size_);
  return true;
}

bool PrefixIndex::check_integrity(Interruption& interruption) const {
  if (!check_buckets(interruption)) return false;
  const auto pages = static_cast<int32_t>(nodes_.size());
  std::vector<int32_t> children(nodes_.size(), 0);
  // 0: not walked, 1: on the path being walked, 2: known to reach the top level.
  std::vector<uint8_t> state(nodes_.size(), 0);
  int32_t published = 0;
  for (int32_t page = 0; page < pages; ++page) {
    if (interruption.requested()) return false;
    if (!nodes_[page].published) continue;
    ++published;
    int32_t at = page;
    for (; at != kNone && state[at] == 0; at = nodes_[at].parent) {
      state[at] = 1;
      const int32_t parent = nodes_[at].parent;
      if (parent == kNone) continue;
      ASHLAR_CHECK(parent >= 0 && parent < pages);
      ASHLAR_CHECK(nodes_[parent].published);
      ASHLAR_CHECK_EQ(nodes_[parent].salt, nodes_[at].salt);
      ++children[parent];
    }
    ASHLAR_CHECK(at == kNone || state[at] == 2);  // else the parents form a ring
    for (at = page; at != kNone && state[at] == 1; at = nodes_[at].parent) state[at] = 2;
  }
  ASHLAR_CHECK_EQ(published, size_);
  for (int32_t page = 0; page < pages; ++page) {
    ASHLAR_CHECK_EQ(nodes_[page].children, children[page]);
  }
  return true;
}

}  // namespace ashlar
