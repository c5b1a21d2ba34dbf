// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_table.h"

#include <bit>

#include "base/check.h"

namespace ashlar::text {

namespace {
constexpr size_t kFewestSlots = 16;
}  // namespace

void TokenTable::reserve(size_t tokens) {
  entries_.reserve(tokens);
  if (2 * tokens > slots_.size()) grow(std::bit_ceil(2 * tokens));
}

size_t TokenTable::place_of(std::string_view spelling, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].entry != kFree; at = (at + 1) & mask) {
    if (slots_[at].hash == static_cast<uint32_t>(hash >> 32) && (*this)[slots_[at].entry].spelling == spelling) break;
  }
  return at;
}

bool TokenTable::add(std::string_view spelling, int32_t id) {
  ASHLAR_CHECK(entries_.size() < kFree && spelling.size() <= UINT32_MAX);
  if (2 * (entries_.size() + 1) > slots_.size()) grow(slots_.empty() ? kFewestSlots : 2 * slots_.size());
  const uint64_t hash = hash_of(spelling);
  Slot& slot = slots_[place_of(spelling, hash)];
  if (slot.entry != kFree) return false;
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entries_.size())};
  entries_.push_back({bytes_.size(), static_cast<uint32_t>(spelling.size()), id});
  bytes_ += spelling;
  return true;
}

std::optional<int32_t> TokenTable::find(std::string_view spelling) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[place_of(spelling, hash_of(spelling))];
  if (slot.entry == kFree) return std::nullopt;
  return entries_[slot.entry].id;
}

void TokenTable::grow(size_t slots) {
  slots_.assign(slots, Slot{});
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view spelling = (*this)[i].spelling;
    const uint64_t hash = hash_of(spelling);
    slots_[place_of(spelling, hash)] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i)};
  }
}

}  // namespace ashlar::text
