// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds many strings in a text at once, in time that depends on neither their number nor their length.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::text {

/// An Aho-Corasick automaton (Aho and Corasick 1975) of the reversed strings, which reads a text from its end: at each
/// position it knows the longest string that begins there. Reading forwards would know the longest that ends there, and
/// leftmost-longest matches would need steps back, which are quadratic on hostile sets. Immutable and thread-safe.
class PatternSet {
 public:
  struct Match {
    size_t begin;
    uint32_t pattern;  // index into the constructor's list
  };

  /// An empty set, which finds nothing.
  PatternSet() : PatternSet(std::vector<std::string_view>()) {}
  /// Of equal patterns the first is found; an empty one never is. Takes about 16 bytes of memory for each byte.
  explicit PatternSet(const std::vector<std::string_view>& patterns);

  bool empty() const { return nodes_.size() == 1; }

  /// Calls `take` for the matches that do not overlap, in order: the leftmost first, the longest of those. Where it
  /// says no, a shorter match of the same place is next, then one of a later place.
  void find_all(std::string_view text, const std::function<bool(Match)>& take) const;

 private:
  struct Node {                // a suffix of a pattern
    uint32_t first_child = 0;  // children are neighbours, in the order of their bytes
    uint32_t failure = 0;      // the longest other suffix that this one begins with
    int32_t longest = -1;      // the longest pattern that this suffix begins with
    uint16_t children = 0;
    unsigned char byte = 0;  // the first byte of the suffix
  };
  static constexpr uint32_t kRoot = 0;
  uint32_t child_of(uint32_t node, unsigned char byte) const;
  uint32_t next(uint32_t node, unsigned char byte) const;
  void build_nodes(const std::vector<std::string_view>& patterns);
  void link_failures();

  std::vector<Node> nodes_;                // breadth first
  std::array<uint32_t, 256> from_root_{};  // child of the root for a byte; the root itself: none
  std::vector<size_t> sizes_;              // of the patterns
  std::vector<int32_t> shorter_;           // of each pattern: the longest other that it begins with; -1: none
  size_t longest_ = 0;                     // of the sizes
};

}  // namespace ashlar::text
