#include "text/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr size_t kMaxGraphBytes = size_t{32} << 20;
constexpr size_t kMaxWakeText = 256;

bool any_bit(std::span<const uint32_t> mask) {
  return std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

}  // namespace

TokenGrammar::TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, std::vector<int32_t> eos_ids)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      eos_ids_(std::move(eos_ids)),
      graph_(std::make_shared<Graph>(grammar_)) {
  if (graph_->states.start() == StateGraph::kDead) {
    throw Error("grammar", "it can begin in more than " + std::to_string(StateGraph::kMaxConfigs) +
                               " ways at once; share the beginnings of its alternatives");
  }
}

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
  asleep_ = wake_.token >= 0 || !wake_.text.empty();
  if (wake_.text.size() > kMaxWakeText) throw Error("grammar", "the text that ends the thinking is too long");
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

void GrammarMatcher::allowed(std::span<uint32_t> mask) {
  if (asleep_) {
    std::fill(mask.begin(), mask.end(), ~0U);
    return;
  }
  std::fill(mask.begin(), mask.end(), 0U);
  bool can_stop = ended_;
  if (!ended_) {
    make_room();
    const std::lock_guard lock(graph_->mutex);
    graph_->states.mask(state_, grammar_->trie(), mask);
    can_stop = graph_->states.accepting(state_);
  }
  for (const int32_t id : grammar_->eos_ids_) {
    if (id < 0 || static_cast<size_t>(id) / 32 >= mask.size()) continue;
    const uint32_t bit = 1U << (id % 32);
    if (can_stop) {
      mask[id / 32] |= bit;
    } else {
      mask[id / 32] &= ~bit;
    }
  }
}

bool GrammarMatcher::accept(int32_t token) {
  if (asleep_) return accept_asleep(token);
  if (grammar_->is_eos(token)) {
    if (!can_end()) return false;
    ended_ = true;
    return true;
  }
  const std::string_view bytes = grammar_->trie().bytes_of(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool GrammarMatcher::accept_asleep(int32_t token) {
  if (grammar_->is_eos(token)) ended_ = true;
  if (wake_.token >= 0) {
    asleep_ = token != wake_.token;
    return true;
  }
  tail_ += grammar_->trie().bytes_of(token);
  const size_t found = tail_.find(wake_.text);
  if (found == std::string::npos) {
    if (tail_.size() >= wake_.text.size()) tail_.erase(0, tail_.size() - wake_.text.size() + 1);
    return true;
  }
  asleep_ = false;
  // The answer begins within the token, which no mask could keep to the grammar.
  return accept_bytes(std::string_view(tail_).substr(found + wake_.text.size()));
}

bool GrammarMatcher::accept_bytes(std::string_view bytes) {
  if (ended_) return bytes.empty();
  make_room();
  const std::lock_guard lock(graph_->mutex);
  StateGraph::State state = state_;
  for (const char c : bytes) {
    state = graph_->states.step(state, static_cast<uint8_t>(c));
    if (state == StateGraph::kDead) return false;
  }
  state_ = state;
  return true;
}

bool GrammarMatcher::can_end() const {
  if (asleep_ || ended_) return true;
  const std::lock_guard lock(graph_->mutex);
  return graph_->states.accepting(state_);
}

bool GrammarMatcher::finished() const {
  if (ended_) return true;
  if (asleep_) return false;
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
  if (asleep_ || ended_) return bytes;
  const std::lock_guard lock(graph_->mutex);
  StateGraph& states = graph_->states;
  for (StateGraph::State state = state_; bytes.size() < limit && !states.accepting(state);) {
    const ByteSet next = states.next_bytes(state);
    if (next.count() != 1) break;
    const auto byte = static_cast<uint8_t>(next._Find_first());
    state = states.step(state, byte);
    if (state == StateGraph::kDead) break;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace ashlar::grammar
