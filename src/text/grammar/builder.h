// SPDX-License-Identifier: Apache-2.0
#pragma once
// Puts a grammar together: expressions in an arena, then the automaton. Everything counts against the limits.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/grammar/pattern/code_points.h"

namespace ashlar::grammar {

/// With a key, like that of texts: clients choose sets, too.
struct ByteSetHash {
  size_t operator()(const ByteSet& set) const { return KeyedHash()({reinterpret_cast<const char*>(&set), sizeof set}); }
};

/// An expression of one Builder.
using Expr = uint32_t;
using Rule = uint32_t;

class Builder {
 public:
  explicit Builder(const Limits& limits = {});
  /// For a grammar that is needed on the way to the one of `payer`, which outlives this: its steps count there.
  explicit Builder(Builder* payer);

  Expr empty() { return sequence({}); }
  /// Matches nothing at all: what contains it falls away.
  Expr never() { return bytes({}); }
  Expr bytes(const ByteSet& set);
  Expr literal(std::string_view text);
  Expr sequence(std::vector<Expr> parts);
  Expr alternatives(std::vector<Expr> parts);
  Expr optional(Expr part) { return alternatives({part, empty()}); }
  /// At least `min` and at most `max` times; max -1: no limit.
  Expr repeat(Expr part, int64_t min, int64_t max);
  /// One of the texts, with shared beginnings shared.
  Expr strings(std::vector<std::string> texts);
  /// One character of the set, in UTF-8.
  Expr chars(const CodePointSet& set);

  /// A rule may be called before it is defined; it must be defined in the end. `name` is for error messages.
  Rule declare(std::string name);
  void define(Rule rule, Expr body) { bodies_[rule] = body; }
  Expr call(Rule rule);
  /// declare, define and call.
  Expr rule(std::string name, Expr body);

  /// Counts work that creates no expression.
  void step(int64_t n = 1);
  const Limits& limits() const { return limits_; }
  /// Throws Error("grammar") if `bytes` of input are too many.
  void check_input(size_t bytes) const;
  /// Throws Error("grammar") if `depth` is too deep; `what` names the place.
  void check_nesting(int32_t depth, std::string_view what) const;

  /// The automaton. See Grammar for what it refuses.
  Grammar finish(Expr root);

 private:
  enum class Kind : uint8_t { kBytes, kLiteral, kSequence, kAlternatives, kRepeat, kCall };
  struct Node {
    Kind kind;
    uint32_t first = 0;  // class, start of the literal or of the children, the repeated part, the rule
    uint32_t count = 0;
    int32_t min = 0, max = 0;
    int32_t depth = 1;  // expressions inside each other, this one included; those of a rule it calls are not
  };
  Expr add(Node node);
  int32_t depth_around(std::span<const Expr> parts) const;
  Expr add_list(Kind kind, const std::vector<Expr>& parts);
  Expr shared_tree(std::span<const std::string> texts, size_t from);
  Expr utf8_tree(std::span<const ByteRanges> sequences, int32_t at);
  uint32_t class_of(const ByteSet& set);
  uint32_t emit(Grammar::Kind kind, uint32_t a, uint32_t b);
  uint32_t compile(Expr expr, uint32_t next);
  uint32_t compile_alternatives(const Node& node, uint32_t next);
  uint32_t compile_repeat(const Node& node, uint32_t next);

  Limits limits_;
  Builder* payer_ = nullptr;
  int64_t steps_ = 0;
  std::vector<Node> exprs_;
  std::vector<Expr> children_;
  std::string text_;  // of literals
  std::vector<Expr> bodies_;
  std::map<CodePointSet, Rule> char_rules_;
  std::unordered_map<ByteSet, uint32_t, ByteSetHash> class_ids_;
  Grammar::Parts out_;
};

}  // namespace ashlar::grammar
