// SPDX-License-Identifier: Apache-2.0
#pragma once
// The merges of a BPE model: (left id, right id) -> (rank, merged id), and the merging itself.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/keyed_hash.h"

namespace ashlar::text {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };

  /// Room for `count` pairs; call once, before add.
  void reserve(size_t count);
  /// Ids are non-negative. A pair that is there already gets the new rank.
  void add(int32_t left, int32_t right, Merge merge);
  /// The merge of a pair, or null.
  const Merge* find(int32_t left, int32_t right) const;
  /// The most entries that a search for one of the pairs looks at.
  size_t longest_search() const;

  /// Merges neighbours in `symbols` until no pair is in the table: lowest rank first, leftmost of equal ranks. O(n log
  /// n).
  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };
  static constexpr uint64_t kFree = ~0ULL;  // no pair: ids are below 2^31
  static uint64_t key_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  // The ids are a file's, so the factors are this process's own: for some that everybody knows, pairs with one home are
  // easily found. Two of them: one factor alone, in one case of 20,000, gives homes close together to keys that lie as
  // those pairs do.
  size_t home_of(uint64_t key) const {
    const uint64_t mixed = key * factors_.low;
    return ((mixed ^ mixed >> 32) * factors_.high) >> shift_;
  }
  void apply_short(std::vector<int32_t>& symbols) const;
  void apply_long(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_;  // open addressing, linear probing, at most half full
  int shift_ = 63;
  SipKey factors_ = {process_hash_key().low | 1, process_hash_key().high | 1};
};

}  // namespace ashlar::text
