// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/word_cache.h"

#include <algorithm>
#include <cstring>

namespace ashlar::text {

WordCache::WordCache() {
  static_assert(sizeof(Entry) == 64);
  for (Shard& shard : shards_) shard.entries.resize(kEntriesPerShard);
}

uint64_t WordCache::hash(std::string_view word) {
  // Eight bytes a round, multiply and fold: words are short and the place is checked against the word itself.
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  uint64_t state = word.size() * kMultiplier;
  size_t at = 0;
  for (; at < word.size(); at += 8) {
    uint64_t block = 0;
    std::memcpy(&block, word.data() + at, std::min<size_t>(8, word.size() - at));
    state = (state ^ block) * kMultiplier;
    state ^= state >> 29;
  }
  return state * kMultiplier;
}

bool WordCache::find(uint64_t key, std::string_view word, std::vector<int32_t>& ids) const {
  if (word.size() > kMaxWordBytes) return false;
  Shard& shard = shards_[shard_of(key)];
  const std::lock_guard lock(shard.mutex);
  const Entry& entry = shard.entries[entry_of(key)];
  if (entry.word_bytes != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
  ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.id_count);
  return true;
}

void WordCache::insert(uint64_t key, std::string_view word, const std::vector<int32_t>& ids, size_t from) {
  const size_t count = ids.size() - from;
  if (word.empty() || word.size() > kMaxWordBytes || count > kMaxIds) return;
  Shard& shard = shards_[shard_of(key)];
  const std::lock_guard lock(shard.mutex);
  Entry& entry = shard.entries[entry_of(key)];
  entry.word_bytes = static_cast<uint8_t>(word.size());
  entry.id_count = static_cast<uint8_t>(count);
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end(), entry.ids.begin());
}

}  // namespace ashlar::text
