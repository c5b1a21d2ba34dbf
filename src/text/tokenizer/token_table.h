// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ids of tokens by their spelling, made for tables of 100,000 and more that are built at every start.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"

namespace ashlar::text {

/// Spellings lie one after the other in one text, and a search looks at two or three places, where a table of nodes
/// chases a pointer for each step and allocates for each token. The hash is keyed: spellings come from files.
class TokenTable {
 public:
  struct Token {
    std::string_view spelling;  ///< of the table, until something is added
    int32_t id;
  };

  /// Room for `tokens` of them; spellings get theirs as they come.
  void reserve(size_t tokens);
  /// Adds a spelling. False if it is there already, which then stays as it is.
  bool add(std::string_view spelling, int32_t id);
  std::optional<int32_t> find(std::string_view spelling) const;
  bool contains(std::string_view spelling) const { return find(spelling).has_value(); }

  size_t size() const { return entries_.size(); }
  /// Token `index` of [0, size()), in the order in which they were added.
  Token operator[](size_t index) const {
    const Entry& entry = entries_[index];
    return {std::string_view(bytes_).substr(entry.begin, entry.bytes), entry.id};
  }

 private:
  struct Entry {
    size_t begin;
    uint32_t bytes;
    int32_t id;
  };
  /// Of a spelling that has its home here or shortly before: a part of its hash, so that few others are compared.
  struct Slot {
    uint32_t hash = 0;
    uint32_t entry = kFree;
  };
  static constexpr uint32_t kFree = ~0U;

  static uint64_t hash_of(std::string_view spelling) { return sip_hash(process_hash_key(), spelling); }
  /// The slot that holds the spelling, or the free one where it belongs.
  size_t place_of(std::string_view spelling, uint64_t hash) const;
  void grow(size_t slots);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, linear probing, at most half full; a power of two
};

}  // namespace ashlar::text
