// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/merge_table.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "base/check.h"

namespace ashlar::text {
namespace {

// Below this many symbols scanning all pairs for the lowest rank beats the heap: a quarter less time on source code.
constexpr size_t kShortWord = 24;

struct Symbol {
  int32_t id;  // -1: merged into its left neighbour
  int32_t previous, next;
};

struct Candidate {
  uint32_t rank;
  int32_t left;    // index of the left symbol
  int32_t merged;  // id at the time of queueing
  // std::priority_queue puts the greatest on top.
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

void MergeTable::reserve(size_t count) {
  int bits = 4;
  while ((size_t{1} << bits) < 2 * count) ++bits;
  slots_.assign(size_t{1} << bits, Slot{});
  shift_ = 64 - bits;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  ASHLAR_CHECK(!slots_.empty());
  const uint64_t key = key_of(left, right);
  size_t at = home_of(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, merge};
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  for (size_t at = home_of(key); slots_[at].key != kFree; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].key == key) return &slots_[at].merge;
  }
  return nullptr;
}

size_t MergeTable::longest_search() const {
  size_t longest = 0;
  for (size_t at = 0; at < slots_.size(); ++at) {
    if (slots_[at].key == kFree) continue;
    longest = std::max(longest, 1 + ((at - home_of(slots_[at].key)) & (slots_.size() - 1)));
  }
  return longest;
}

void MergeTable::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2 || slots_.empty()) return;
  if (symbols.size() < kShortWord) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

void MergeTable::apply_short(std::vector<int32_t>& symbols) const {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  Merge merges[kShortWord];  // merges[i]: of symbols i and i + 1
  const auto look_up = [&](size_t i) {
    const Merge* found = find(symbols[i], symbols[i + 1]);
    merges[i] = found != nullptr ? *found : Merge{kNone, -1};
  };
  size_t pairs = symbols.size() - 1;
  for (size_t i = 0; i < pairs; ++i) look_up(i);
  while (pairs > 0) {
    const auto* best =
        std::min_element(merges, merges + pairs, [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (best->rank == kNone) return;
    const auto at = static_cast<size_t>(best - merges);
    symbols[at] = best->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    std::copy(merges + at + 1, merges + pairs, merges + at);
    --pairs;
    if (at > 0) look_up(at - 1);
    if (at < pairs) look_up(at);
  }
}

void MergeTable::apply_long(std::vector<int32_t>& ids) const {
  const auto n = static_cast<int32_t>(ids.size());
  std::vector<Symbol> symbols(ids.size());
  for (int32_t i = 0; i < n; ++i) symbols[i] = {ids[i], i - 1, i + 1 < n ? i + 1 : -1};

  std::vector<Candidate> initial;
  for (int32_t i = 0; i + 1 < n; ++i) {
    if (const Merge* merge = find(ids[i], ids[i + 1])) initial.push_back({merge->rank, i, merge->merged});
  }
  std::priority_queue<Candidate> queue({}, std::move(initial));
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    if (const Merge* merge = find(symbols[left].id, symbols[right].id)) queue.push({merge->rank, left, merge->merged});
  };

  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    const Merge* merge = find(left.id, right.id);
    if (merge == nullptr || merge->merged != top.merged) continue;  // a neighbour has changed since it was queued
    left.id = top.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.left;
    push(left.previous, top.left);
    push(top.left, left.next);
  }

  ids.clear();
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace ashlar::text
