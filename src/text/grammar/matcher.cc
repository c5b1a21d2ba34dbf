// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/matcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr uint64_t kSlice = uint64_t{1} << 15;       // of StateGraph::work(), for which others of the grammar wait
constexpr uint64_t kForcedWork = uint64_t{1} << 12;  // that finding drafts is worth
constexpr size_t kMaxWakeText = 256;
constexpr size_t kLineBreaks = 2;  // that models write after their thinking

void set_bit(std::span<uint32_t> mask, int32_t id, bool value) {
  if (id < 0 || static_cast<size_t>(id) / 32 >= mask.size()) return;
  const uint32_t bit = 1U << (id % 32);
  mask[id / 32] = value ? mask[id / 32] | bit : mask[id / 32] & ~bit;
}

bool any_bit(std::span<const uint32_t> mask) {
  return std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

}  // namespace

TokenGrammar::TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, std::vector<int32_t> eos_ids,
                           TagTokens tags)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      eos_ids_(std::move(eos_ids)),
      tags_(tags),
      graph_(std::make_shared<Graph>(grammar_)) {}

bool TokenGrammar::is_eos(int32_t token) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), token) != eos_ids_.end();
}

std::shared_ptr<TokenGrammar::Graph> TokenGrammar::roomy_graph(const std::shared_ptr<Graph>& full) {
  const std::lock_guard lock(mutex_);
  if (graph_ == full) graph_ = std::make_shared<Graph>(grammar_);
  return graph_;
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<TokenGrammar> grammar, WakeAfter wake, uint64_t budget)
    : grammar_(std::move(grammar)), graph_(grammar_->roomy_graph(nullptr)), wake_(std::move(wake)), budget_(budget) {
  state_ = graph_->states.start();
  may_open_ = !wake_.opening.empty();
  asleep_ = !may_open_ && (wake_.token >= 0 || !wake_.text.empty());
  if (std::max(wake_.text.size(), wake_.opening.size()) > kMaxWakeText) {
    throw Error("grammar", "the text that ends the thinking is too long");
  }
}

// Moves to a fresh graph when the one in use has grown large. A graph that another matcher has just started may be full
// already; then this one uses it a little longer.
void GrammarMatcher::make_room() {
  {
    const std::lock_guard lock(graph_->mutex);
    if (!graph_->is_full()) return;
  }
  const auto full = graph_;  // outlives the lock on it
  const auto fresh = grammar_->roomy_graph(full);
  if (fresh == full) return;
  const std::scoped_lock lock(full->mutex, fresh->mutex);
  state_ = full->states.carry_to(state_, grammar_->trie(), fresh->states);
  graph_ = fresh;
  fresh->room = std::max(fresh->room, 2 * fresh->states.bytes());
}

// Does something with the states.
template <class Ask>
void GrammarMatcher::ask(Ask ask_states) {
  try {
    if (holds_) {
      ask_states(graph_->states);
      return;
    }
    make_room();
    const std::lock_guard lock(graph_->mutex);
    ask_states(graph_->states);
  } catch (const StateGraph::TooAmbiguous& error) {
    set_problem(error);
  }
}

void GrammarMatcher::set_problem(const StateGraph::TooAmbiguous& error) {
  problem_ = "the grammar is too ambiguous after " + std::to_string(bytes_read_) +
             " bytes of the answer: " + std::string(error.message());
}

// cost: since the mask before.
void GrammarMatcher::check_budget(uint64_t cost) const {
  if (work_ + cost <= budget_ + MatchingLimits::kFree) return;
  throw StateGraph::TooAmbiguous(
      "grammar",
      "following the answer takes too long, because it can be read in too many ways; let the "
      "alternatives begin differently, or repeat less");
}

bool GrammarMatcher::needs_mask() const {
  return !found_ && !lost_ && !asleep_ && !ended_ && !off_grammar_ && problem_.empty();
}

bool GrammarMatcher::prepare(uint64_t most, bool may_wait) {
  if (unread_.empty() && !needs_mask()) return true;
  if (may_wait) make_room();
  std::unique_lock lock(graph_->mutex, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock() || graph_->is_full()) {
    return false;
  }
  struct Hold {
    explicit Hold(bool& flag) : held(flag) { held = true; }
    ~Hold() { held = false; }
    bool& held;
  } const hold(holds_);
  const uint64_t done = graph_->states.work();
  const uint64_t until = most < UINT64_MAX - done ? done + most : UINT64_MAX;
  while (!unread_.empty()) {
    if (!read_ahead(unread_.front(), most, until)) return false;
    lost_ = !accept(unread_.front()) || lost_;
    unread_.erase(unread_.begin());
  }
  if (!needs_mask()) return true;
  const uint64_t now = graph_->states.work();
  return now < until && find_mask(std::min(most, until - now));
}

// Lets the graph know the states that the token leads through, so that reading it costs nothing; false: there are more.
bool GrammarMatcher::read_ahead(int32_t token, uint64_t most, uint64_t until) {
  if (lost_ || asleep_ || ended_ || off_grammar_ || !problem_.empty()) return true;
  StateGraph& states = graph_->states;
  try {
    StateGraph::State state = state_;
    for (const char c : grammar_->trie().bytes_of(token)) {
      if (states.work() >= until || states.width(state) > most) return false;
      state = states.step(state, static_cast<uint8_t>(c));
      if (state == StateGraph::kDead) break;
    }
  } catch (const StateGraph::TooAmbiguous&) {  // reading it will say so
  }
  return true;
}

bool GrammarMatcher::find_mask(uint64_t most) {
  StateGraph& states = graph_->states;
  try {
    uint64_t cost = 0;
    const std::vector<uint32_t>* mask = states.find_mask(state_, grammar_->trie(), most, &cost);
    uint64_t& charged = charged_[states.shape(state_) % charged_.size()];
    if (charged == states.shape(state_)) cost = 0;
    check_budget(read_cost_ + cost);
    if (mask == nullptr) return false;
    charged = states.shape(state_);
    work_ += std::max(read_cost_ + cost, MatchingLimits::kFree) - MatchingLimits::kFree;
    read_cost_ = 0;
    mask_ = *mask;
    next_ = states.next_bytes(state_);
    accepting_ = states.accepting(state_);
    found_ = true;
  } catch (const StateGraph::TooAmbiguous& error) {
    set_problem(error);
  }
  return true;
}

void GrammarMatcher::allowed(std::span<uint32_t> mask) {
  while (!prepare(kSlice)) {
  }
  if (asleep_ && !lost_ && problem_.empty()) {
    std::fill(mask.begin(), mask.end(), ~0U);
    for (const int32_t id : grammar_->eos_ids_) set_bit(mask, id, false);
    return;
  }
  std::fill(mask.begin(), mask.end(), 0U);
  if (lost_ || (!ended_ && !problem_.empty())) return;
  bool can_stop = ended_;
  if (!ended_) {
    if (!off_grammar_) {
      std::copy_n(mask_.begin(), std::min(mask_.size(), mask.size()), mask.begin());
      can_stop = accepting_;
      const TagTokens& tags = grammar_->tags_;
      set_bit(mask, tags.begins, next_.test(static_cast<uint8_t>(TagTokens::kBegins)));
      set_bit(mask, tags.ends, next_.test(static_cast<uint8_t>(TagTokens::kEnds)));
    }
    allow_before(mask);
  }
  for (const int32_t id : grammar_->eos_ids_) set_bit(mask, id, can_stop);
}

// What may come before the grammar: the opening, or line breaks after the thinking.
void GrammarMatcher::allow_before(std::span<uint32_t> mask) const {
  std::vector<int32_t> ids;
  if (may_open_) grammar_->trie().tokens_along(std::string_view(wake_.opening).substr(opened_), true, ids);
  if (line_breaks_ > 0) grammar_->trie().tokens_along(std::string(line_breaks_, '\n'), false, ids);
  for (const int32_t id : ids) set_bit(mask, id, true);
  if (may_open_ && opened_ == 0) set_bit(mask, wake_.opening_token, true);
}

bool GrammarMatcher::accept(int32_t token) {
  while (!holds_ && !unread_.empty()) prepare(kSlice);
  if (lost_ || !problem_.empty()) return false;
  if (grammar_->is_eos(token)) {
    if (!can_end()) return false;
    ended_ = true;
    return true;
  }
  if (asleep_) return accept_asleep(token);
  if (may_open_ && opened_ == 0 && token >= 0 && token == wake_.opening_token) {
    fall_asleep();
    return true;
  }
  const TagTokens& tags = grammar_->tags_;
  if (token >= 0 && token == tags.begins) return accept_bytes({&TagTokens::kBegins, 1});
  if (token >= 0 && token == tags.ends) return accept_bytes({&TagTokens::kEnds, 1});
  const std::string_view bytes = grammar_->trie().bytes_of(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool GrammarMatcher::accept_asleep(int32_t token) {
  if (wake_.token >= 0 && token == wake_.token) {
    asleep_ = false;
    line_breaks_ = kLineBreaks;
    return true;
  }
  return wake_.text.empty() || read(grammar_->trie().bytes_of(token));
}

// Text of the thinking, which may go on with the answer.
bool GrammarMatcher::read(std::string_view bytes) {
  tail_ += bytes;
  const size_t found = tail_.find(wake_.text);
  if (found == std::string::npos) {
    if (tail_.size() >= wake_.text.size()) tail_.erase(0, tail_.size() - wake_.text.size() + 1);
    return true;
  }
  asleep_ = false;
  line_breaks_ = kLineBreaks;
  // The answer begins within the token, which no mask could keep to the grammar.
  return accept_awake(std::string_view(tail_).substr(found + wake_.text.size()));
}

bool GrammarMatcher::accept_bytes(std::string_view bytes) {
  if (!problem_.empty()) return false;
  if (ended_) return bytes.empty();
  if (asleep_) return wake_.text.empty() || read(bytes);
  return may_open_ ? accept_first(bytes) : accept_awake(bytes);
}

// The beginning of the answer: of the opening, of the grammar, or of both as far as they agree.
bool GrammarMatcher::accept_first(std::string_view bytes) {
  const std::string_view rest = std::string_view(wake_.opening).substr(opened_);
  if (bytes.starts_with(rest)) {
    fall_asleep();
    return read(bytes.substr(rest.size()));
  }
  if (rest.starts_with(bytes)) {
    opened_ += bytes.size();
    off_grammar_ = off_grammar_ || !accept_awake(bytes);
    return true;
  }
  if (off_grammar_ || !accept_awake(bytes)) return false;
  may_open_ = false;
  return true;
}

void GrammarMatcher::fall_asleep() {
  may_open_ = off_grammar_ = found_ = false;
  asleep_ = true;
  state_ = graph_->states.start();  // which never changes, so that no lock is needed
}

bool GrammarMatcher::accept_awake(std::string_view bytes) {
  bool accepted = false;
  ask([&](StateGraph& states) { accepted = follow(states, bytes); });
  if (accepted) bytes_read_ += bytes.size();
  return accepted && problem_.empty();
}

bool GrammarMatcher::follow(StateGraph& states, std::string_view bytes) {
  StateGraph::State state = state_;
  size_t breaks = line_breaks_;
  for (const char c : bytes) {
    const StateGraph::Step step = states.follow(state, static_cast<uint8_t>(c));
    read_cost_ += step.cost;
    check_budget(read_cost_);
    if (step.to != StateGraph::kDead) {
      state = step.to;
      breaks = 0;
    } else if (c != '\n' || breaks == 0) {
      return false;
    } else {
      --breaks;
    }
  }
  state_ = state;
  line_breaks_ = breaks;
  found_ = false;
  return true;
}

bool GrammarMatcher::can_end() const {
  if (!problem_.empty()) return false;
  if (ended_) return true;
  if (asleep_ || off_grammar_) return false;
  std::unique_lock lock(graph_->mutex, std::defer_lock);
  if (!holds_) lock.lock();
  return graph_->states.accepting(state_);
}

bool GrammarMatcher::finished() const {
  if (ended_) return true;
  if (!problem_.empty() || asleep_ || may_open_ || line_breaks_ > 0) return false;
  const std::lock_guard lock(graph_->mutex);
  return graph_->states.accepting(state_) && graph_->states.next_bytes(state_).none();
}

bool GrammarMatcher::dead() {
  if (can_end()) return false;
  std::vector<uint32_t> mask((static_cast<size_t>(grammar_->trie().vocab()) + 31) / 32);
  allowed(mask);
  return !any_bit(mask);
}

std::string GrammarMatcher::forced(size_t limit) const {
  std::string bytes;
  if (!unread_.empty() || lost_ || !problem_.empty() || asleep_ || ended_ || may_open_ || line_breaks_ > 0)
    return bytes;
  const std::unique_lock lock(graph_->mutex, std::try_to_lock);
  if (!lock.owns_lock()) return bytes;
  StateGraph& states = graph_->states;
  const uint64_t until = states.work() + kForcedWork;
  for (StateGraph::State state = state_; bytes.size() < limit && !states.accepting(state);) {
    if (states.work() >= until || states.width(state) > kForcedWork) break;
    const ByteSet next = states.next_bytes(state);
    if (next.count() != 1) break;
    const auto byte = static_cast<uint8_t>(next._Find_first());
    try {
      state = states.step(state, byte);
    } catch (const StateGraph::TooAmbiguous&) {  // the mask will say so
      break;
    }
    if (state == StateGraph::kDead) break;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace ashlar::grammar
