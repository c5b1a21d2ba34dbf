// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grammar over tokens: which may follow, and where an answer may end.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/grammar/state_graph.h"
#include "text/grammar/token_trie.h"

namespace ashlar::grammar {

/// A compiled grammar together with a vocabulary. Shared by all matchers of it, which may live on several threads; what
/// one of them finds out about states and masks serves all.
class TokenGrammar {
 public:
  /// eos_ids: tokens that end an answer, allowed exactly where the grammar can end.
  TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, std::vector<int32_t> eos_ids,
               TagTokens tags = {});

  const TokenTrie& trie() const { return *trie_; }
  bool is_eos(int32_t token) const;

 private:
  friend class GrammarMatcher;
  // States with their lock. Replaced when it has grown too large; matchers keep the one they are in.
  struct Graph {
    static constexpr size_t kRoom = size_t{32} << 20;
    explicit Graph(const Grammar& grammar) : states(grammar) {}
    bool is_full() const { return states.bytes() >= room; }
    std::mutex mutex;
    StateGraph states;
    size_t room = kRoom;  // more where what was carried here takes up half of it
  };
  std::shared_ptr<Graph> roomy_graph(const std::shared_ptr<Graph>& full);

  const Grammar grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  const std::vector<int32_t> eos_ids_;
  const TagTokens tags_;
  std::mutex mutex_;  // guards graph_
  std::shared_ptr<Graph> graph_;
};

/// What must come before the grammar takes hold: a token, or a text of at most 256 bytes; of both, whichever comes
/// first. Neither: nothing. With an `opening` the answer either begins with that, as text or as its token, and then has
/// to wake, or with the grammar. After waking up to two line breaks may come first.
struct WakeAfter {
  int32_t token = -1;
  std::string text;
  std::string opening = {};
  int32_t opening_token = -1;  ///< the same as a token that is no text
};

/// One answer on its way. Cheap to copy; not thread-safe itself.
class GrammarMatcher {
 public:
  /// `budget`: of MatchingLimits, for this answer.
  explicit GrammarMatcher(std::shared_ptr<TokenGrammar> grammar, WakeAfter wake = {},
                          uint64_t budget = MatchingLimits::kRequest);

  /// Does about `most` StateGraph::work() of what is left until allowed() has only to copy; true: nothing is left. With
  /// less than StateGraph::kMaxConfigs it may not get on. Where it may not wait it returns false at once while another
  /// answer of the grammar works on their states.
  bool prepare(uint64_t most, bool may_wait = true);
  /// As accept(), but reading the token is left to prepare() and all that needs it. Where the token turns out not to be
  /// allowed, nothing is allowed any more.
  void accept_later(int32_t token) { unread_.push_back(token); }
  /// What of the budget it has used up.
  uint64_t work() const { return work_; }
  /// What it shares with other answers.
  const TokenGrammar* grammar() const { return grammar_.get(); }
  /// Everything goes until the thinking has ended, but the end: the answer that is held to the grammar follows.
  bool asleep() const { return asleep_; }
  /// allowed() would allow everything.
  bool anything_goes() const {
    return unread_.empty() && asleep_ && !lost_ && problem_.empty() && grammar_->eos_ids_.empty();
  }
  /// Sets the bit of every token that may come next and clears the others. mask: bit (id % 32) of word id / 32; a
  /// token beyond it is left out.
  void allowed(std::span<uint32_t> mask);
  /// Takes in a token; false, and no change, if it was not allowed.
  bool accept(int32_t token);
  /// The same for bytes of any length, whatever the tokens.
  bool accept_bytes(std::string_view bytes);
  /// Whether an answer may end here.
  bool can_end() const;
  /// Nothing but the end is possible, or it has come.
  bool finished() const;
  /// Neither the end nor any token is possible: only if the vocabulary lacks single bytes that the grammar needs, or
  /// there is a problem().
  bool dead();
  /// The bytes that must come next, at most `limit`, as far as they are soon found: none while another answer of the
  /// grammar works on their states.
  std::string forced(size_t limit) const;
  /// Why the answer cannot go on although the grammar may allow it: it is too ambiguous to be followed. Then nothing is
  /// allowed any more, so that no text is lost without a word. Empty: all is well.
  const std::string& problem() const { return problem_; }

 private:
  template <class Ask>
  void ask(Ask ask_states);
  bool follow(StateGraph& states, std::string_view bytes);
  void make_room();
  bool read_ahead(int32_t token, uint64_t most, uint64_t until);
  bool find_mask(uint64_t most);
  bool needs_mask() const;
  void check_budget(uint64_t cost) const;
  void set_problem(const StateGraph::TooAmbiguous& error);
  bool accept_asleep(int32_t token);
  bool accept_first(std::string_view bytes);
  bool accept_awake(std::string_view bytes);
  bool read(std::string_view bytes);
  void allow_before(std::span<uint32_t> mask) const;
  void fall_asleep();

  std::shared_ptr<TokenGrammar> grammar_;
  std::shared_ptr<TokenGrammar::Graph> graph_;
  StateGraph::State state_;
  bool asleep_ = false;
  bool ended_ = false;
  size_t opened_ = 0;         // bytes of the opening that have come, while it is open whether it is one
  bool may_open_ = false;     // the opening may still come
  bool off_grammar_ = false;  // what came can only be the opening
  size_t line_breaks_ = 0;    // that may come before the grammar's first byte
  WakeAfter wake_;
  std::string tail_;  // of the text while asleep
  size_t bytes_read_ = 0;
  std::vector<int32_t> unread_;
  bool lost_ = false;   // a token came that was not allowed
  bool holds_ = false;  // the lock of the graph, during prepare()
  // What prepare() found out about the state.
  bool found_ = false;
  std::vector<uint32_t> mask_;
  ByteSet next_;
  bool accepting_ = false;
  std::array<uint64_t, 64> charged_{};  // shapes of states whose masks cost nothing any more, by their last bits
  uint64_t budget_;
  uint64_t work_ = 0;       // charged
  uint64_t read_cost_ = 0;  // of what was read since the mask before
  std::string problem_;
};

}  // namespace ashlar::grammar
