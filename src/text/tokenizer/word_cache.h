// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bounded, thread-safe memory of recently encoded short words. Natural text repeats its words, so most of the merging
// is saved; a word that hashes to a taken place replaces it, which needs no bookkeeping and cannot grow.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace ashlar::text {

class WordCache {
 public:
  WordCache();

  static uint64_t hash(std::string_view word);
  /// Appends the ids of `word` to `ids` when it is known. `key` is hash(word).
  bool find(uint64_t key, std::string_view word, std::vector<int32_t>& ids) const;
  /// Remembers ids[from, end) for `word`; long words and words of many ids are passed over.
  void insert(uint64_t key, std::string_view word, const std::vector<int32_t>& ids, size_t from);

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kEntriesPerShard = 512;
  static constexpr size_t kMaxWordBytes = 22;
  static constexpr size_t kMaxIds = 10;

  struct Entry {             // 64 bytes
    uint8_t word_bytes = 0;  // 0: free
    uint8_t id_count = 0;
    std::array<char, kMaxWordBytes> word;
    std::array<int32_t, kMaxIds> ids;
  };
  struct Shard {
    std::mutex mutex;
    std::vector<Entry> entries;
  };
  static size_t shard_of(uint64_t key) { return key >> 60; }
  static size_t entry_of(uint64_t key) { return (key >> 32) % kEntriesPerShard; }

  mutable std::array<Shard, kShards> shards_;
};

}  // namespace ashlar::text
