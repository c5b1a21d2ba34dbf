#include "text/grammar/matcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr size_t kMaxGraphBytes = size_t{32} << 20;
constexpr uint64_t kMaxWork = uint64_t{1} << 31;  // configurations visited for one answer: about a minute
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

GrammarMatcher::GrammarMatcher(std::shared_ptr<TokenGrammar> grammar, WakeAfter wake)
    : grammar_(std::move(grammar)), graph_(grammar_->roomy_graph(nullptr)), wake_(std::move(wake)) {
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
    if (graph_->states.bytes() < kMaxGraphBytes) return;
  }
  const auto fresh = grammar_->roomy_graph(graph_);
  if (fresh == graph_) return;
  const auto full = std::exchange(graph_, fresh);  // outlives the lock on it
  const std::scoped_lock lock(full->mutex, fresh->mutex);
  state_ = full->states.carry_to(state_, fresh->states);
}

// Does something with the states. What it costs is charged to this answer, also what others profit from.
template <class Ask>
void GrammarMatcher::ask(Ask ask_states) {
  try {
    make_room();
    const std::lock_guard lock(graph_->mutex);
    StateGraph& states = graph_->states;
    const uint64_t before = states.work();
    ask_states(states);
    work_ += states.work() - before;
    if (work_ > kMaxWork) {
      throw StateGraph::TooAmbiguous("grammar",
                                     "following the answer takes too long, because it can be read in so many ways; let "
                                     "the alternatives begin differently, or repeat less");
    }
  } catch (const StateGraph::TooAmbiguous& error) {
    problem_ = "the grammar is too ambiguous behind " + std::to_string(bytes_read_) +
               " bytes of the answer: " + std::string(error.message());
  }
}

void GrammarMatcher::allowed(std::span<uint32_t> mask) {
  if (asleep_ && problem_.empty()) {
    std::fill(mask.begin(), mask.end(), ~0U);
    for (const int32_t id : grammar_->eos_ids_) set_bit(mask, id, false);
    return;
  }
  std::fill(mask.begin(), mask.end(), 0U);
  bool can_stop = ended_;
  if (!ended_) {
    if (!off_grammar_ && problem_.empty()) {
      ask([&](StateGraph& states) {
        states.mask(state_, grammar_->trie(), mask);
        can_stop = states.accepting(state_);
        const TagTokens& tags = grammar_->tags_;
        if (tags.begins < 0 && tags.ends < 0) return;
        const ByteSet next = states.next_bytes(state_);
        set_bit(mask, tags.begins, next.test(static_cast<uint8_t>(TagTokens::kBegins)));
        set_bit(mask, tags.ends, next.test(static_cast<uint8_t>(TagTokens::kEnds)));
      });
    }
    if (!problem_.empty()) {
      std::fill(mask.begin(), mask.end(), 0U);
      return;
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
  if (!problem_.empty()) return false;
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
  may_open_ = off_grammar_ = false;
  asleep_ = true;
  const std::lock_guard lock(graph_->mutex);
  state_ = graph_->states.start();
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
    const StateGraph::State next = states.step(state, static_cast<uint8_t>(c));
    if (next != StateGraph::kDead) {
      state = next;
      breaks = 0;
    } else if (c != '\n' || breaks == 0) {
      return false;
    } else {
      --breaks;
    }
  }
  state_ = state;
  line_breaks_ = breaks;
  return true;
}

bool GrammarMatcher::can_end() const {
  if (!problem_.empty()) return false;
  if (ended_) return true;
  if (asleep_ || off_grammar_) return false;
  const std::lock_guard lock(graph_->mutex);
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
  if (!problem_.empty() || asleep_ || ended_ || may_open_ || line_breaks_ > 0) return bytes;
  const std::lock_guard lock(graph_->mutex);
  StateGraph& states = graph_->states;
  for (StateGraph::State state = state_; bytes.size() < limit && !states.accepting(state);) {
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
