// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tokens a sequence has seen, for penalties.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ashlar {

class TokenCounts {
 public:
  /// Makes room for a vocabulary; without it the object stays empty and costs nothing.
  void reserve(int32_t vocab) {
    if (static_cast<int32_t>(cells_.size()) != vocab) cells_.assign(vocab, {});
    clear();
    seen_.reserve(vocab);
  }
  void clear() {
    for (const int32_t id : seen_) cells_[id] = {};
    seen_.clear();
  }

  void add_prompt(int32_t id) { touch(id).in_prompt = true; }
  void add_answer(int32_t id) { ++touch(id).in_answer; }
  /// Takes back the newest add_answer(id) calls, in any order; an id stays listed with no occurrence.
  void remove_answer(int32_t id) { --cells_[id].in_answer; }

  bool in_prompt(int32_t id) const { return cells_[id].in_prompt; }
  int32_t in_answer(int32_t id) const { return cells_[id].in_answer; }
  std::span<const int32_t> seen() const { return seen_; }  ///< each id once, in order of first sight

 private:
  struct Cell {
    int32_t in_answer = 0;
    bool in_prompt = false;
    bool listed = false;
  };
  Cell& touch(int32_t id) {
    Cell& cell = cells_[id];
    if (!cell.listed) {
      cell.listed = true;
      seen_.push_back(id);
    }
    return cell;
  }

  std::vector<Cell> cells_;  // [vocab]
  std::vector<int32_t> seen_;
};

/// What a row counts as seen: rows of one sequence that are decided together differ by the drafts before each.
struct SeenTokens {
  static constexpr size_t kMaxAfter = 64;

  const TokenCounts* counts = nullptr;  ///< of the sequence; needed where the parameters have penalties
  std::span<const int32_t> after = {};  ///< tokens of the answer that `counts` does not have yet, kMaxAfter at most
  int32_t without = -1;                 ///< a token of the answer that `counts` has once too often; -1: none

  bool in_prompt(int32_t id) const { return counts->in_prompt(id); }
  int32_t in_answer(int32_t id) const {
    int32_t n = counts->in_answer(id) - (id == without ? 1 : 0);
    for (const int32_t other : after) n += other == id ? 1 : 0;
    return n;
  }
};

}  // namespace ashlar
