// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grammar over bytes, ready to run: a recursive transition network. Every rule is a small nondeterministic automaton
// whose calls of other rules push a return node; the set of all (node, stack) that a text can lead to is its state
// (grammar/state_graph.h).

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::grammar {

using ByteSet = std::bitset<256>;

/// Tokens that mark a tool call and are no text; -1: there is none. In a grammar each is a byte that no text in UTF-8
/// has.
struct TagTokens {
  static constexpr char kBegins = '\xFE';
  static constexpr char kEnds = '\xFF';
  int32_t begins = -1;
  int32_t ends = -1;
};

class Grammar {
 public:
  enum class Kind : uint8_t {
    kReturn,  ///< the rule ends here; node 0 is the only one
    kBytes,   ///< one byte of class `a`, then node `b`
    kSplit,   ///< any of alternatives[a .. a + b)
    kCall,    ///< rule `a`, then node `b`
  };
  struct Node {
    Kind kind;
    uint32_t a, b;
  };
  static constexpr uint32_t kReturnNode = 0;
  /// Deepest stack of open calls. A text that would need more is not in the language.
  static constexpr uint32_t kMaxFrames = 256;

  struct Parts {
    std::vector<Node> nodes;
    std::vector<uint32_t> alternatives;
    std::vector<ByteSet> classes;
    std::vector<uint32_t> rule_starts;
    std::vector<std::string> rule_names;
    uint32_t start = 0;
  };
  /// Throws Error("grammar") if a rule begins with itself or if no text satisfies the grammar.
  explicit Grammar(Parts parts);

  const Node& node(uint32_t id) const { return parts_.nodes[id]; }
  uint32_t alternative(uint32_t index) const { return parts_.alternatives[index]; }
  const ByteSet& byte_class(uint32_t id) const { return parts_.classes[id]; }
  uint32_t rule_start(uint32_t rule) const { return parts_.rule_starts[rule]; }
  uint32_t start() const { return parts_.start; }
  size_t node_count() const { return parts_.nodes.size(); }

  /// Frames that must be free to get from this node to the end of its rule; above kMaxFrames: there is no way. A state
  /// that keeps only nodes whose need fits can always be completed.
  uint32_t need(uint32_t id) const { return need_[id]; }

  /// What a rule may begin with, found without reading a byte: nodes at kBytes, and calls of other rules. Where one of
  /// these may be empty, what stands after it is here too.
  struct LeftCall {
    uint32_t rule;
    uint32_t next;  ///< where it returns
  };
  std::span<const uint32_t> first_bytes(uint32_t rule) const { return std::span(starts_[rule].bytes); }
  std::span<const LeftCall> left_calls(uint32_t rule) const { return std::span(starts_[rule].calls); }
  /// Whether the rule may be empty.
  bool nullable(uint32_t rule) const { return nullable_[rule]; }
  /// An order of the rules in which each comes after all that may begin with it.
  uint32_t rank(uint32_t rule) const { return rank_[rule]; }
  uint32_t rule_of_rank(uint32_t rank) const { return rule_of_rank_[rank]; }
  uint32_t rules() const { return static_cast<uint32_t>(parts_.rule_starts.size()); }

  /// Bytes that are alike in every class form a group.
  uint8_t group(uint8_t byte) const { return group_of_[byte]; }
  int32_t groups() const { return static_cast<int32_t>(group_bytes_.size()); }
  uint8_t group_byte(int32_t group) const { return group_bytes_[group]; }

 private:
  struct Reverse;
  void find_need(const Reverse& reverse);
  std::vector<bool> find_nullable(const Reverse& reverse) const;
  struct Starts {
    std::vector<uint32_t> bytes;
    std::vector<LeftCall> calls;
  };
  Starts find_starts(uint32_t rule, const std::vector<bool>& nullable, std::vector<uint32_t>& mark) const;
  void rank_rules();
  void group_bytes();

  Parts parts_;
  std::vector<uint16_t> need_;
  std::vector<Starts> starts_;  // by rule, as the next two
  std::vector<bool> nullable_;
  std::vector<uint32_t> rank_;
  std::vector<uint32_t> rule_of_rank_;
  std::array<uint8_t, 256> group_of_{};
  std::vector<uint8_t> group_bytes_;
};

}  // namespace ashlar::grammar
