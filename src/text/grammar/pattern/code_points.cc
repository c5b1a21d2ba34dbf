// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/code_points.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/tokenizer/utf8.h"

namespace ashlar::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

void split(uint32_t first, uint32_t last, std::vector<ByteRanges>& out) {
  for (const uint32_t top : {0x7FU, 0x7FFU, 0xFFFFU}) {
    if (first > top || last <= top) continue;
    split(first, top, out);
    split(top + 1, last, out);
    return;
  }
  // Cut until the last i bytes of the sequence run through all their values, or both ends agree before them.
  if (last > 0x7F) {
    for (uint32_t i = 1; i <= 3; ++i) {
      const uint32_t low_bits = (1U << (6 * i)) - 1;
      if ((first & ~low_bits) == (last & ~low_bits)) break;
      const uint32_t middle = (first & low_bits) != 0 ? (first | low_bits) + 1 : last & ~low_bits;
      if ((first & low_bits) == 0 && (last & low_bits) == low_bits) continue;
      split(first, middle - 1, out);
      split(middle, last, out);
      return;
    }
  }
  std::string low;
  std::string high;
  text::append_utf8(first, low);
  text::append_utf8(last, high);
  ByteRanges& sequence = out.emplace_back();
  sequence.n = static_cast<int32_t>(low.size());
  std::copy(low.begin(), low.end(), sequence.low);
  std::copy(high.begin(), high.end(), sequence.high);
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<Range> ranges) : ranges_(ranges) { normalise(); }

CodePointSet::CodePointSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { normalise(); }

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

void CodePointSet::normalise() {
  std::vector<Range> pieces;
  for (const auto& [first, last] : ranges_) {
    if (first < kFirstSurrogate) pieces.emplace_back(first, std::min(last, kFirstSurrogate - 1));
    if (last > kLastSurrogate) pieces.emplace_back(std::max(first, kLastSurrogate + 1), std::min(last, kMax));
  }
  std::sort(pieces.begin(), pieces.end());
  ranges_.clear();
  for (const auto& [first, last] : pieces) {
    if (first > last) continue;
    if (!ranges_.empty() && first <= ranges_.back().second + 1) {
      ranges_.back().second = std::max(ranges_.back().second, last);
    } else {
      ranges_.emplace_back(first, last);
    }
  }
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) result.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kMax) result.ranges_.emplace_back(next, kMax);
  result.normalise();
  return result;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
  CodePointSet result = complement();
  result.add(other);
  return result.complement();
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const { return without(other.complement()); }

bool CodePointSet::contains(uint32_t code_point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [code_point](const Range& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

std::vector<ByteRanges> utf8_ranges(const CodePointSet& set) {
  std::vector<ByteRanges> out;
  for (const auto& [first, last] : set.ranges()) split(first, last, out);
  return out;
}

}  // namespace ashlar::grammar
