// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/pattern_set.h"

#include <algorithm>

namespace ashlar::text {
namespace {

// Matches of a part of the text are kept while it is read; the next part begins a pattern's length before this one's.
constexpr size_t kBlockBytes = 64 * 1024;

// Patterns [first, last) of the sorted list share their last `depth` bytes, which are this node.
struct Range {
  uint32_t first, last;
};

unsigned char byte_from_end(std::string_view text, size_t index) {
  return static_cast<unsigned char>(text[text.size() - 1 - index]);
}

// Sorts by the reversed text; of equal texts the first in the list comes first.
std::vector<uint32_t> reversed_order(const std::vector<std::string_view>& patterns) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < patterns.size(); ++i) {
    if (!patterns[i].empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&patterns](uint32_t a, uint32_t b) {
    const std::string_view left = patterns[a], right = patterns[b];
    const size_t shared = std::min(left.size(), right.size());
    for (size_t i = 0; i < shared; ++i) {
      const unsigned char l = byte_from_end(left, i), r = byte_from_end(right, i);
      if (l != r) return l < r;
    }
    return left.size() != right.size() ? left.size() < right.size() : a < b;
  });
  return order;
}

}  // namespace

PatternSet::PatternSet(const std::vector<std::string_view>& patterns) {
  for (const std::string_view pattern : patterns) {
    sizes_.push_back(pattern.size());
    shorter_.push_back(-1);
    longest_ = std::max(longest_, pattern.size());
  }
  build_nodes(patterns);
  link_failures();
}

void PatternSet::build_nodes(const std::vector<std::string_view>& patterns) {
  const std::vector<uint32_t> order = reversed_order(patterns);
  std::vector<Range> level = {{0, static_cast<uint32_t>(order.size())}};  // of the nodes of one depth
  nodes_.resize(1);
  size_t node = 0;
  for (size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> below;
    for (const Range range : level) {
      uint32_t at = range.first;
      // Patterns that end here come first.
      if (depth > 0 && patterns[order[at]].size() == depth) nodes_[node].longest = static_cast<int32_t>(order[at]);
      while (at < range.last && patterns[order[at]].size() == depth) ++at;
      nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
      while (at < range.last) {
        const unsigned char byte = byte_from_end(patterns[order[at]], depth);
        const uint32_t first = at;
        while (at < range.last && byte_from_end(patterns[order[at]], depth) == byte) ++at;
        below.push_back({first, at});
        nodes_.push_back({.byte = byte});
        ++nodes_[node].children;
      }
      ++node;
    }
    level = std::move(below);
  }
  for (uint32_t i = 0; i < nodes_[kRoot].children; ++i) {
    from_root_[nodes_[nodes_[kRoot].first_child + i].byte] = nodes_[kRoot].first_child + i;
  }
}

void PatternSet::link_failures() {
  for (uint32_t parent = 0; parent < nodes_.size(); ++parent) {
    for (uint32_t i = 0; i < nodes_[parent].children; ++i) {
      Node& node = nodes_[nodes_[parent].first_child + i];
      node.failure = parent == kRoot ? kRoot : next(nodes_[parent].failure, node.byte);
      const int32_t shorter = nodes_[node.failure].longest;
      (node.longest < 0 ? node.longest : shorter_[static_cast<size_t>(node.longest)]) = shorter;
    }
  }
}

uint32_t PatternSet::child_of(uint32_t node, unsigned char byte) const {
  if (node == kRoot) return from_root_[byte];
  const auto first = nodes_.begin() + nodes_[node].first_child;
  const auto last = first + nodes_[node].children;
  const auto child = std::lower_bound(first, last, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
  return child != last && child->byte == byte ? static_cast<uint32_t>(child - nodes_.begin()) : kRoot;
}

uint32_t PatternSet::next(uint32_t node, unsigned char byte) const {
  for (;; node = nodes_[node].failure) {
    const uint32_t child = child_of(node, byte);
    if (child != kRoot || node == kRoot) return child;
  }
}

void PatternSet::find_all(std::string_view text, const std::function<bool(Match)>& take) const {
  if (empty()) return;
  const size_t block = std::max(kBlockBytes, longest_);
  std::vector<Match> matches;  // of one block, last first
  size_t done = 0;             // where the newest match that was taken ends
  for (size_t begin = 0; begin < text.size(); begin += block) {
    const size_t end = std::min(text.size(), begin + block);
    matches.clear();
    uint32_t node = kRoot;
    for (size_t at = std::min(text.size(), end + longest_ - 1); at-- > begin;) {
      node = next(node, static_cast<unsigned char>(text[at]));
      if (nodes_[node].longest >= 0 && at < end) matches.push_back({at, static_cast<uint32_t>(nodes_[node].longest)});
    }
    for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
      if (match->begin < done) continue;
      auto pattern = static_cast<int32_t>(match->pattern);
      while (pattern >= 0 && !take({match->begin, static_cast<uint32_t>(pattern)})) {
        pattern = shorter_[static_cast<size_t>(pattern)];
      }
      if (pattern >= 0) done = match->begin + sizes_[static_cast<size_t>(pattern)];
    }
  }
}

}  // namespace ashlar::text
