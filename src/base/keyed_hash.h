// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hash of texts for tables whose keys come from outside: from clients or from files of a model. That of libstdc++ is
// the same in every process, so thousands of keys with one hash are easily made, and a table compares each of them with
// all before it. This one has a key that is not known outside the process.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace ashlar {

struct SipKey {
  uint64_t low, high;
};

/// SipHash-2-4 of `bytes` (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012).
uint64_t sip_hash(SipKey key, std::string_view bytes);

/// Drawn once a process. What depends on it is where a table keeps its entries, and so the order in which it lists
/// them.
SipKey process_hash_key();

/// Takes anything that is a view of texts; a table of strings is asked with views.
struct KeyedHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return sip_hash(process_hash_key(), text); }
};

template <class Value>
using TextMap = std::unordered_map<std::string, Value, KeyedHash, std::equal_to<>>;
using TextSet = std::unordered_set<std::string, KeyedHash, std::equal_to<>>;

}  // namespace ashlar
