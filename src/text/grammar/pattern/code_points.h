// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets of Unicode scalar values, and how they read as bytes of UTF-8.

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace ashlar::grammar {

/// Ranges may be added in any order; every query sees them sorted, disjoint and without surrogates.
class CodePointSet {
 public:
  static constexpr uint32_t kMax = 0x10FFFF;
  using Range = std::pair<uint32_t, uint32_t>;  // both ends included

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges);
  explicit CodePointSet(std::vector<Range> ranges);
  static CodePointSet all() { return {{0, kMax}}; }

  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet without(const CodePointSet& other) const;
  CodePointSet intersection(const CodePointSet& other) const;

  bool contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator<(const CodePointSet& other) const { return ranges_ < other.ranges_; }

 private:
  void normalise();
  std::vector<Range> ranges_;
};

/// One form of UTF-8 sequence: bytes[i] may be anything in a range.
struct ByteRanges {
  int32_t n = 0;
  uint8_t low[4] = {}, high[4] = {};
};

/// Sequences that together match exactly the set's characters.
std::vector<ByteRanges> utf8_ranges(const CodePointSet& set);

}  // namespace ashlar::grammar
