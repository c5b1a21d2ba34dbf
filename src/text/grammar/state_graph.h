// SPDX-License-Identifier: Apache-2.0
#pragma once
// The automaton at work: states, each a set of (node, stack), found on demand and remembered with their transitions and
// their token masks. States repeat a lot, so that most steps are a look into a table.
//
// A stack stands for all ways back at once: it is a set of links, each a return node and the stack to go on with there.
// All calls of a rule at one place of the text share a stack, since what the rule reads does not depend on who called
// it (a graph-structured stack, Tomita 1985; rules that may be empty as in Aycock and Horspool 2002). So a state stays
// narrow where alternatives begin alike, however deep they nest.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

namespace ashlar::grammar {

/// Not thread-safe: its owner holds a lock. The grammar outlives it.
class StateGraph {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  ///< no text from here satisfies the grammar
  /// Most (node, stack) pairs of a state; of those that lead to one without a byte, twice as many.
  static constexpr size_t kMaxConfigs = 32768;
  /// Most that one mask may cost: about a second.
  static constexpr uint64_t kMaxMaskWork = uint64_t{1} << 25;
  /// A text that is asked about can be read in more ways than the limits above allow. Nothing is known of it
  /// then; what is known of others stays.
  struct TooAmbiguous : Error {
    using Error::Error;
  };

  /// Throws TooAmbiguous if the beginning is.
  explicit StateGraph(const Grammar& grammar);

  State start() const { return start_; }
  /// The state after one more byte. Throws TooAmbiguous.
  State step(State state, uint8_t byte) { return follow(state, byte).to; }
  /// The same with what it costs where nothing is known before, which depends on the text alone.
  struct Step {
    State to;
    uint32_t cost;
    uint32_t search = 0;  ///< the last one that met it
  };
  Step follow(State state, uint8_t byte);
  /// Whether the text so far is complete.
  bool accepting(State state) const { return states_[state].accepting; }
  /// Bytes that may follow.
  ByteSet next_bytes(State state) const;
  /// Finds out which tokens of the trie may follow, `most` work() at a time and a step more, and goes on where it
  /// stopped: null: not all is known yet. No step begins in a state wider than `most`. The mask has a bit for every
  /// token of the trie and holds until the next call. `cost`, if not null: what it costs where nothing is known
  /// before, as far as it has been found. Throws TooAmbiguous.
  const std::vector<uint32_t>* find_mask(State state, const TokenTrie& trie, uint64_t most, uint64_t* cost);

  /// The same number for the same state in every graph of a grammar, and with near certainty for no other.
  uint64_t shape(State state) const { return states_[state].shape; }
  /// Places of the automaton that a text leading here may be in.
  size_t width(State state) const { return states_[state].configs.size(); }
  /// Configurations visited and nodes of tries passed so far: what everything has cost.
  uint64_t work() const { return spent_; }

  /// Memory in use, in bytes, roughly. Its owner starts afresh when it is too much.
  size_t bytes() const { return bytes_; }
  /// The same state in another graph of the same grammar, with what is known of its mask while that is incomplete.
  State carry_to(State state, const TokenTrie& trie, StateGraph& other);

 private:
  struct Config {
    uint32_t node, stack;
    bool operator==(const Config&) const = default;
    auto operator<=>(const Config&) const = default;
  };
  using Link = Config;  // where a call returns, and the stack that holds there; kReturnNode: the whole text ends
  struct Stack {
    uint32_t first, count;  // of links_, sorted
    uint32_t depth;         // calls that are open at least
    uint64_t shape;         // as of a state
  };
  // Where one token's bytes lead while a mask is found: a state, or configurations that are not kept as one.
  struct Place {
    State state = kDead;
    std::vector<Config> configs;  // if state is kUnknown
    uint64_t shape = 0;           // then
  };
  // A mask that is being found.
  struct Search {
    void count(uint64_t key, uint32_t cost) {
      repeated += cost;
      if (seen.insert(key).second) distinct += cost;
    }

    uint8_t byte = 0x20;                // next of those that may lead back to the state
    bool skips = true;                  // they all do so far: tokens of plain bytes need no walk
    uint32_t node = 0;                  // next of the trie
    uint64_t nodes = 0;                 // passed
    uint32_t id = 0;                    // of this graph
    uint64_t distinct = 0;              // what the steps cost, each of a state and a byte once
    uint64_t repeated = 0;              // all steps, as often as they were met
    std::unordered_set<uint64_t> seen;  // those of `distinct`
    std::vector<Place> path;            // by depth, up to that of the node
    std::vector<uint32_t> mask;

    // A step that is met again is a look into a table, unless what was known had to be forgotten.
    uint64_t cost() const { return std::max(distinct, repeated / 256); }
  };
  struct Entry {
    std::vector<Config> configs;  // sorted; all at kBytes
    bool accepting = false;
    uint64_t shape = 0;
    std::vector<uint32_t> mask;
    uint64_t mask_cost = 0;
    uint64_t mask_used = 0;
    std::unique_ptr<Search> search;
    std::string no_mask;  // why none can be found
  };
  static constexpr State kUnknown = -2;
  static constexpr size_t kMaxMaskBytes = size_t{16} << 20;
  static constexpr size_t kRoomy = size_t{32} << 20;  // bytes(), below which a mask keeps the states it finds
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  bool fits(uint32_t node, uint32_t stack) const {
    return stacks_[stack].depth + grammar_.need(node) <= Grammar::kMaxFrames;
  }
  std::span<const Link> links(uint32_t stack) const {
    return std::span(links_).subspan(stacks_[stack].first, stacks_[stack].count);
  }
  void visit(uint32_t node, uint32_t stack);
  size_t place_of(Config config) const;
  void grow_marks();
  void call(uint32_t rule, uint32_t next, uint32_t stack);
  void clear_scratch();
  bool close();
  bool expand(Config config);
  void begin(uint32_t rule);
  bool in_limits() const { return visited_ <= 2 * kMaxConfigs && closed_.size() <= kMaxConfigs; }
  uint32_t intern_stack(std::span<const Link> links);
  State intern(std::vector<Config> configs, bool accepting);
  Step& next(State state, int32_t group) { return next_[static_cast<size_t>(state) * groups_ + group]; }
  bool close_after(std::span<const Config> configs, uint8_t byte);
  uint32_t cost_since(uint64_t before) const {
    return static_cast<uint32_t>(std::min<uint64_t>(spent_ - before, UINT32_MAX));
  }
  Step find_step(State state, int32_t group);
  void step_to(const Place& from, uint8_t byte, Place& to, Search& search);
  uint64_t shape_of(std::span<const Config> configs, bool accepting) const;
  size_t width_of(const Place& place) const {
    return place.state == kUnknown ? place.configs.size() : width(place.state);
  }
  bool try_plain(State state, const TokenTrie& trie, uint64_t most, uint64_t until, Search& search);
  bool walk(State state, const TokenTrie& trie, uint64_t most, uint64_t until, Search& search);
  void keep_mask(Entry& entry);
  void forget_masks();
  void carry_search(Search& search, const TokenTrie& trie, StateGraph& other) const;
  std::vector<Config> carry_configs(std::span<const Config> configs, StateGraph& other) const;
  std::unordered_map<uint32_t, uint32_t> carry_stacks(std::span<const Config> configs, StateGraph& other) const;

  const Grammar& grammar_;
  const size_t groups_;
  std::vector<Entry> states_;
  std::vector<Step> next_;  // [states, groups]
  std::unordered_multimap<uint64_t, State> by_hash_;
  std::vector<Stack> stacks_;  // 0: no call is open. A stack comes after those that its links lead to
  std::vector<Link> links_;
  std::unordered_multimap<uint64_t, uint32_t> stack_ids_;
  State start_ = kDead;
  uint64_t spent_ = 0;
  size_t bytes_ = 0;
  size_t mask_bytes_ = 0;
  uint64_t clock_ = 0;
  uint32_t searches_ = 0;

  // Scratch of a closure: open addressing by stamp, a power of two that grows to what is needed.
  struct Mark {
    Config config;
    uint32_t stamp;
  };
  std::vector<Mark> marks_;
  uint32_t stamp_ = 0;
  std::vector<Config> work_, closed_;
  std::vector<std::vector<Link>> called_;  // by rule: links to those who have called it and wait for its beginning
  std::vector<uint32_t> due_;              // ranks of these rules, a heap
  size_t visited_ = 0;
};

}  // namespace ashlar::grammar
